"""Is a release file what it says? Its record, its ledger entry, its schema, one check each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from dpsubset.certificate.fingerprint import check_schema_file, fingerprints
from dpsubset.certificate.spending import find_spend, same_question
from dpsubset.data import Schema
from dpsubset.errors import InputError, without_context
from dpsubset.privacy import Guarantee
from dpsubset.privacy.guarantee import rounded_up
from dpsubset.privacy.ledger import Ledger, LedgerLike, as_ledger
from dpsubset.privacy.shown import printable
from dpsubset.records import digest

__all__ = ["Check", "Verdict", "verify"]


@dataclass(frozen=True)
class Check:
    """One check: what was looked at, whether it holds (None: it was not looked at), and why.

    Parameters
    ----------
    name : str
        What was looked at.
    holds : bool or None
        Whether it holds; None if it was not looked at.
    why : str
        What was found, in words.

    Examples
    --------
    >>> print(Check("ledger", None, "no ledger was given"))
    not checked  ledger: no ledger was given
    """

    name: str
    holds: bool | None
    why: str

    def __str__(self) -> str:
        word = {True: "holds", False: "FAILS", None: "not checked"}[self.holds]
        return f"{word:<11}  {self.name}: {self.why}"


@dataclass(frozen=True)
class Verdict:
    """All checks of one release, and the checksum of its record.

    Parameters
    ----------
    sha256 : str
        The checksum of the record.
    checks : tuple of Check
        What was checked.

    Examples
    --------
    >>> Verdict("ab12", (Check("record", True, "complete"),)).holds
    True
    """

    sha256: str
    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing that was looked at fails."""
        return all(check.holds is not False for check in self.checks)

    def __str__(self) -> str:
        missing = ", ".join(check.name for check in self.checks if check.holds is None)
        end = "Nothing that was checked fails." if missing else "Nothing fails."
        if missing:
            end += f" Not checked: {missing}."
        if not self.holds:
            end = "Do not rely on this release."
        return "\n".join([*map(str, self.checks), f"sha256 of the record: {self.sha256}", end])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "holds": self.holds,
            "sha256": self.sha256,
            "checks": [vars(check) for check in self.checks],
        }


def verify(
    record: Mapping[str, Any],
    *,
    ledger: LedgerLike = None,
    schema: Schema | str | Path | None = None,
    names: Sequence[str] | None = None,
    sha256: str | None = None,
) -> Verdict:
    """Check the record of a release: against itself, its ledger, its schema, a checksum.

    Parameters
    ----------
    record : mapping
        What `Release.to_dict()`, a release file or a model file holds (`read_record`).
    ledger : Ledger or path, optional
        The ledger that was charged. It alone can tell a record that was invented or edited with
        care.
    schema : Schema or path, optional
        The schema, or the file of it.
    names : sequence of str, optional
        The columns of the table, in their order, where a schema file does not list all of them.
    sha256 : str, optional
        The checksum that a signed certificate shows.

    Returns
    -------
    Verdict
        One `Check` for each of these.

    Examples
    --------
    >>> from dpsubset import Guarantee, Release
    >>> release = Release((1,), Guarantee("exponential mechanism", 1.0, "replace-one", 4.0))
    >>> record = release.to_dict()
    >>> verify(record).holds
    True
    >>> record["guarantee"]["epsilon"] = 0.1
    >>> print(verify(record).checks[0])
    FAILS        record: the sentence of the guarantee does not say what its fields say
    """
    found, opened = digest(record), as_ledger(ledger)
    if isinstance(schema, str | Path):
        check_schema_file(Path(schema), names)
    checks = [_check("record", lambda: _consistent(record)), _check("draw", lambda: _drawn(record))]
    checks += [
        _missing("ledger", "no ledger was given, so nobody knows whether the release was charged")
        if opened is None
        else _check("ledger", lambda: _charged(opened, record)),
        _missing("schema", "no schema was given")
        if schema is None
        else _check("schema", lambda: _described(schema, record, names)),
    ]
    if sha256 is not None:
        checks.append(_check("checksum", lambda: _summed(found, sha256)))
    return Verdict(found, tuple(checks))


class _Fault(Exception):
    """What a check found; never leaves this file."""


class _Open(Exception):
    """What no check can tell; never leaves this file."""


def _missing(name: str, why: str) -> Check:
    return Check(name, None, why)


def _check(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, True, look())
    except _Fault as fault:
        return Check(name, False, str(fault))
    except _Open as reason:
        return Check(name, None, str(reason))
    except (InputError, KeyError, TypeError, ValueError, AttributeError) as error:
        told = str(error) if isinstance(error, InputError) else "parts are missing or wrong"
        return Check(name, False, told)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise _Fault(otherwise)


def _consistent(record: Mapping[str, Any]) -> str:
    """Check that the parts of a record agree with each other."""
    asked, released = record["asked"], record["released"]
    promise = Guarantee.from_dict(record["guarantee"])
    _require(
        promise.to_dict() == record["guarantee"],
        "the sentence of the guarantee does not say what its fields say",
    )
    if "mechanism" in asked:
        own = asked["mechanism"]
        _require(
            own["epsilon"] <= promise.epsilon and own["neighbours"] == promise.neighbours,
            "the guarantee is not that of the mechanism that was asked",
        )
    positions, columns = released.get("positions"), released.get("columns")
    _require(
        positions is None or columns is None or len(positions) == len(columns),
        "there are not as many columns as positions",
    )
    for listed in (positions, columns):
        _require(listed is None or len(set(listed)) == len(listed), "a column is there twice")
    if "n_columns" in asked:
        _check_columns(asked, positions or (), columns)
    if "coefficients" in released:
        labels = released.get("labels", columns)
        _require(
            len(labels) == len(released["coefficients"]),
            "there are not as many coefficients as columns",
        )
    return f"its parts agree; made by dpsubset {printable(record['dpsubset'])}"


def _check_columns(
    asked: Mapping[str, Any], positions: Sequence[int], columns: Sequence[str] | None
) -> None:
    """Check that the columns are an answer to what was asked."""
    inside = all(isinstance(j, Integral) and 0 <= j < asked["n_columns"] for j in positions)
    _require(inside, "a column lies outside the table")
    if asked["size"] == "auto":
        _require(len(positions) <= asked["max_size"], "there are more columns than were asked for")
    else:
        _require(len(positions) == asked["size"], "there are not as many columns as were asked for")
    names = set(columns or positions)
    _require(
        set(asked["always_include"]) <= names and not set(asked["exclude"]) & names,
        "columns that were always included are missing, or excluded ones are there",
    )
    picked = asked["features"]
    if picked is not None and columns is not None:
        _require([picked[j] for j in positions] == list(columns), "names and positions differ")


def _drawn(record: Mapping[str, Any]) -> str:
    promise = Guarantee.from_dict(record["guarantee"])
    _require(
        promise.randomness != "seeded",
        "the randomness was seeded: an experiment, not a private release",
    )
    if promise.condition is not None:
        raise _Open(f"private only if {promise.condition}")
    return f"epsilon {rounded_up(promise.epsilon)}, delta {rounded_up(promise.delta)}, no condition"


def _charged(ledger: Ledger, record: Mapping[str, Any]) -> str:
    spend = find_spend(ledger, record)
    if spend is None:
        alike = [e.number for e in ledger.history() if same_question(e, record)]
        near = f"; entry {alike[-1]} asks the same, and holds another answer" if alike else ""
        raise _Fault(f"no entry holds this release{near}")
    by = "" if spend.entry.by is None else f" by {printable(spend.entry.by)}"
    return (
        f"entry {spend.entry.number} of {spend.day}{by}; epsilon {rounded_up(spend.before[0])} of "
        f"{spend.budget[0]:.12g} was spent before it, {spend.left[0]:.12g} was left after it"
    )


@without_context
def _described(
    schema: Schema | str | Path, record: Mapping[str, Any], names: Sequence[str] | None
) -> str:
    asked = record["asked"]
    _require("schema" in asked, "the record names no schema")
    wanted = asked["schema"]
    if isinstance(schema, Schema):
        possible = {schema.sha256}
    else:
        try:
            possible = fingerprints(Path(schema), asked, names)
        except InputError as error:
            raise _Fault(f"it is not the schema of this release: {error}") from None
    hint = "" if names is not None else "; if the table's columns have another order, name it, too"
    _require(wanted in possible, f"it is not the schema of this release{hint}")
    return f"sha256 {wanted}"


def _summed(found: str, wanted: str) -> str:
    _require(found == wanted.strip().lower(), f"the record has {found}")
    return "the record is the one that the certificate shows"
