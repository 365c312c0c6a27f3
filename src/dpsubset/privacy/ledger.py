"""A ledger: a privacy budget in a file, which processes share and none can overspend (T31).

Every operation opens the file, works in one transaction and closes it: a ledger is its path, so it
may be copied to other processes. A spend is on the disk before the release begins. Clocks are
written down and never looked at. A ledger is for one table, whose public name it keeps: charges
for a table of another name are refused.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpsubset.checks import positive
from dpsubset.errors import (
    BudgetError,
    DpsubsetError,
    InputError,
    LedgerError,
    OutOfMemoryError,
    RefusedError,
    UnprovenError,
    without_context,
)
from dpsubset.privacy.guarantee import Guarantee, rounded_down, rounded_up
from dpsubset.privacy.neighbours import check_neighbours
from dpsubset.privacy.shown import fields_html, paragraph_html, printable, rows_html

__all__ = ["Entry", "Ledger", "LedgerLike", "as_ledger", "charged"]

Record = Callable[[Mapping[str, Any]], None]

_PATIENCE_SECONDS = 60.0  # for the lock; it is held for milliseconds
_MARK = 0x64707375  # "dpsu": tells a ledger from other databases
_VERSION = 2
_NAMELESS = 1  # the version before ledgers kept the name of their table; a charge brings it up
_SHOWN_ENTRIES = 50  # in a notebook
_BY = "charged by"  # who charged, kept with what was asked: no question has a field of this name
_KNOWN = ((_MARK, _NAMELESS), (_MARK, _VERSION))
_TABLES = (
    "CREATE TABLE budget (epsilon TEXT NOT NULL, delta TEXT NOT NULL, neighbours TEXT NOT NULL)",
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, token TEXT NOT NULL, time TEXT NOT NULL, "
    "epsilon TEXT NOT NULL, delta TEXT NOT NULL, asked TEXT NOT NULL, guarantee TEXT NOT NULL, "
    "outcome TEXT NOT NULL DEFAULT 'spent', released TEXT)",
    # What is written stays: only the outcome of a spend is filled in, once.
    "CREATE TRIGGER entries_stay BEFORE DELETE ON entries "
    "BEGIN SELECT RAISE(ABORT, 'a spend cannot be taken back'); END",
    "CREATE TRIGGER spends_stay BEFORE UPDATE ON entries WHEN OLD.outcome <> 'spent' "
    "OR NEW.number <> OLD.number OR NEW.token <> OLD.token OR NEW.epsilon <> OLD.epsilon "
    "OR NEW.delta <> OLD.delta OR NEW.asked <> OLD.asked OR NEW.guarantee <> OLD.guarantee "
    "BEGIN SELECT RAISE(ABORT, 'a spend cannot be changed'); END",
    "CREATE TRIGGER budget_stays BEFORE UPDATE ON budget "
    "BEGIN SELECT RAISE(ABORT, 'a budget cannot be changed'); END",
)
_NAMES = (
    "CREATE TABLE subject (name TEXT NOT NULL)",  # as JSON; no row as long as there is no name
    "CREATE TRIGGER subject_is_one BEFORE INSERT ON subject WHEN (SELECT count(*) FROM subject) "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is for one table'); END",
    "CREATE TRIGGER subject_stays BEFORE UPDATE ON subject "
    "BEGIN SELECT RAISE(ABORT, 'the name of the table cannot be changed'); END",
    "CREATE TRIGGER subject_remains BEFORE DELETE ON subject "
    "BEGIN SELECT RAISE(ABORT, 'the name of the table cannot be changed'); END",
)


@dataclass(frozen=True)
class Entry:
    """One spend: what was asked, what it guarantees, what came of it.

    `outcome` is "released", "refused" (a limit, or a mechanism's own test), "failed", or "spent"
    while the work goes on and for good if its process died. `by` is who was said to charge it.
    """

    number: int
    time: str
    asked: dict[str, Any]
    guarantee: Guarantee
    outcome: str
    released: dict[str, Any] | None
    by: str | None = None

    @property
    def table(self) -> str | None:
        """The name of the table that the charge gave; None if it gave none."""
        name = self.asked.get("table")
        return None if name is None else str(name)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return vars(self) | {"guarantee": self.guarantee.to_dict()}


class Ledger:
    """A privacy budget for one table, kept in a file.

    It is charged before a release is made, and refuses what is beyond it. Processes share it.

    Parameters
    ----------
    path : path
        The file. It must lie on a local disk: over a network file locks may not hold.
    epsilon : float, optional
        The budget. If the file does not exist it is made; if it does, its budget must be this.
        Without it the file must exist.
    delta : float, optional
        The budget of deltas, by default 0.
    neighbours : str, optional
        The relation that the budget is meant for, by default "replace-one".
    table : str, optional
        A public name for the table that the budget protects. Charges that name another table are
        refused. Without it the ledger takes the name of the first charge that has one.
    by : str, optional
        Who charges it from here on: a person or an office. It is written into every entry of this
        object, and nobody checks it.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(f"{folder.name}/budget.db", epsilon=3.0)
    >>> guarantee = Guarantee("exponential mechanism", 1.0, "replace-one", 4.0)
    >>> with ledger.charge(guarantee, {"table": "patients"}) as record:
    ...     record({"support": [1, 2]})
    >>> ledger.remaining, ledger.history()[0].outcome, ledger.table
    ((2.0, 0.0), 'released', 'patients')
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        neighbours: str | None = None,
        table: str | None = None,
        by: str | None = None,
    ) -> None:
        named = isinstance(path, str | os.PathLike) and str(path) and "\0" not in str(path)
        if not named:
            raise InputError(f"the path of a ledger must be the name of a file, not {path!r}")
        self.path = Path(os.path.abspath(path))  # a process may change its folder
        epsilon = None if epsilon is None else positive(epsilon, "epsilon")
        delta = None if delta is None else positive(delta, "delta", zero=True)
        if delta is not None and delta >= 1:
            raise InputError(f"a delta of {delta:g} is no privacy at all; give one below 1/n")
        neighbours = None if neighbours is None else check_neighbours(neighbours)
        table = _checked_name(table)
        self.by = _checked_by(by)
        if epsilon is not None:
            self._create(epsilon, delta or 0.0, neighbours or "replace-one", table)
        elif not _exists(self.path):
            raise InputError(
                f"{self.path}: there is no such ledger. Begin one with a budget: "
                f"Ledger({self.path.name!r}, epsilon=3.0), or `dpsubset ledger {self.path.name} "
                "--epsilon 3`"
            )
        self._budget()  # what is no ledger is found now
        given = {"epsilon": epsilon, "delta": delta, "neighbours": neighbours}
        for name, value in given.items():
            if value is not None and value != getattr(self, name):
                raise InputError(
                    f"the ledger {self.path} has {name} {getattr(self, name)!r}, and cannot be "
                    f"opened with {value!r}: leave it out, or begin another ledger"
                )
        if table is not None and self.table != table:
            with self._open(writing=True) as connection:
                _name(connection, table, self.path)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def __str__(self) -> str:
        spent, left, table = self.spent, self.remaining, self.table
        subject = "table not named" if table is None else f"table {table!r}"
        return (
            f"{printable(str(self.path))} ({subject}): epsilon {rounded_up(spent[0])} of "
            f"{self.epsilon:.12g} spent, {_rounded_down(left[0])} left; "
            f"delta {rounded_up(spent[1])} of {self.delta:.12g}; for {self.neighbours}"
        )

    def _repr_html_(self) -> str:
        spent, left, history, table = self.spent, self.remaining, self.history(), self.table
        budget = fields_html(
            [
                ("ledger", str(self.path)),
                ("table", "not named" if table is None else table),
                ("budget", f"epsilon {self.epsilon:.12g}, delta {self.delta:.12g}"),
                ("spent", f"epsilon {rounded_up(spent[0])}, delta {rounded_up(spent[1])}"),
                ("left", f"epsilon {_rounded_down(left[0])}, delta {_rounded_down(left[1])}"),
                ("neighbours", self.neighbours),
            ]
        )
        if not history:
            return budget
        head = ("", "time", "by", "epsilon", "delta", "outcome", "mechanism", "table", "released")
        shown = history[-_SHOWN_ENTRIES:]
        more = len(history) - len(shown)
        above = paragraph_html(f"The last {len(shown)} of {len(history)} entries") if more else ""
        return budget + above + rows_html(head, [_cells(entry) for entry in shown])

    @property
    def epsilon(self) -> float:
        """The budget."""
        return float(self._budget()[0])

    @property
    def delta(self) -> float:
        """The budget of deltas."""
        return float(self._budget()[1])

    @property
    def neighbours(self) -> str:
        """The relation that the budget is meant for."""
        return self._budget()[2]

    @property
    def table(self) -> str | None:
        """The name of the table that the budget is for; None as long as there is none."""
        with self._open() as connection:
            return _table(connection)

    @property
    def spent(self) -> tuple[float, float]:
        """Epsilon and delta that are spent."""
        with self._open() as connection:
            epsilon, delta = _spent(connection)
        return float(epsilon), float(delta)

    @property
    def remaining(self) -> tuple[float, float]:
        """Epsilon and delta that are left and may be spent."""
        with self._open() as connection:
            epsilon, delta = _left(connection)
        return rounded_down(epsilon), rounded_down(delta)

    def history(self) -> list[Entry]:
        """Return all spends, in their order."""
        with self._open() as connection:
            rows = connection.execute(
                "SELECT number, time, asked, guarantee, outcome, released FROM entries "
                "ORDER BY number"
            ).fetchall()
            return [_entry(*row) for row in rows]

    @contextmanager
    def charge(self, guarantee: Guarantee, asked: Mapping[str, Any]) -> Iterator[Record]:
        """Spend what a guarantee costs, then run the block, then write down what came of it.

        The block gets a function to give the release to, as plain values. If the block is left
        by an exception the spend stays. Nothing of the release leaves before it is written.

        `asked` may name the table, under "table". The first name that comes is the ledger's.

        Raises
        ------
        InputError
            If the table has another name than the ledger's; then nothing is spent.
        BudgetError
            If too little is left; then nothing is spent.
        LedgerError
            If the file cannot be read or written.
        """
        if not isinstance(guarantee, Guarantee):
            raise InputError("a charge needs a Guarantee, which says what is spent")
        text = _as_text(asked, "what is asked")
        plain = json.loads(text)
        if self.by is not None:
            text = json.dumps(plain | {_BY: self.by})
        entry = self._spend(guarantee, text, _checked_name(plain.get("table")))
        released: list[Mapping[str, Any]] = []
        try:
            yield released.append
        except BaseException as error:
            outcome = "refused" if isinstance(error, RefusedError | UnprovenError) else "failed"
            with suppress(LedgerError):  # the spend is there; the first error is what matters
                self._close(entry, outcome, None)
            raise
        self._close(entry, "released" if released else "failed", released[0] if released else None)

    def _create(self, epsilon: float, delta: float, neighbours: str, table: str | None) -> None:
        """Make the ledger unless it is there; several processes may try at once."""
        if not _exists(self.path.parent):
            raise InputError(f"{self.path.parent}: no such folder. Make it first")
        with self._open(new=True) as connection:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return  # there already, or something else: that shows when it is opened
            for statement in (*_TABLES, *_NAMES):
                connection.execute(statement)
            budget = (_decimal(epsilon), _decimal(delta), neighbours)
            connection.execute("INSERT INTO budget VALUES (?, ?, ?)", budget)
            if table is not None:
                connection.execute("INSERT INTO subject VALUES (?)", (json.dumps(table),))
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.execute(f"PRAGMA application_id = {_MARK}")

    def _budget(self) -> tuple[Fraction, Fraction, str]:
        with self._open() as connection:
            return _budget(connection)

    def _spend(self, guarantee: Guarantee, asked: str, table: str | None) -> str:
        """Write the spend if the budget has room, and return its token once it is on the disk."""
        promise, token = json.dumps(guarantee.to_dict()), secrets.token_hex(16)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        cost = _decimal(guarantee.epsilon), _decimal(guarantee.delta)
        with self._open(writing=True) as connection:
            relation = _budget(connection)[2]
            if guarantee.neighbours != relation:
                raise InputError(
                    f"the ledger is for {relation}, and the release asked for is private for "
                    f"{guarantee.neighbours}: the two cannot be added up. Use one relation"
                )
            _name(connection, table, self.path)
            left = _left(connection)
            if any(Fraction(c) > free for c, free in zip(cost, left, strict=True)):
                raise BudgetError(
                    f"the release asked for costs epsilon {cost[0]} and delta {cost[1]}, and "
                    f"{rounded_down(left[0])} and {rounded_down(left[1])} are left in {self.path}: "
                    "nothing was run, nothing was spent"
                )
            connection.execute(
                "INSERT INTO entries (token, time, epsilon, delta, asked, guarantee) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (token, now, *cost, asked, promise),
            )
        return token

    def _close(self, token: str, outcome: str, released: Mapping[str, Any] | None) -> None:
        text = None if released is None else _as_text(released, "what is released")
        with self._open(writing=True) as connection:
            done = connection.execute(
                "UPDATE entries SET outcome = ?, released = ? WHERE token = ?",
                (outcome, text, token),
            )
            if done.rowcount != 1:
                raise _wrong(self.path, "has lost the entry of this release: it was exchanged")

    @contextmanager
    @without_context
    def _open(self, *, writing: bool = False, new: bool = False) -> Iterator[sqlite3.Connection]:
        """Give a connection in one transaction, which is committed at the end or undone.

        Writers take the lock before they read, so that no two see the same budget.
        """
        connection = None
        try:
            mode = "rwc" if new else "rw"
            connection = sqlite3.connect(
                f"{self.path.as_uri()}?mode={mode}",
                timeout=_PATIENCE_SECONDS,
                isolation_level=None,
                uri=True,
            )
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("BEGIN IMMEDIATE" if writing or new else "BEGIN")
            if os.stat(self.path).st_nlink != 1:  # the journal has one name only, too
                raise _wrong(self.path, "has several names (hard links), which locks cannot serve")
            if not new and (_mark(connection), _version(connection)) not in _KNOWN:
                raise _wrong(self.path, "is not a ledger of this version of dpsubset")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise _wrong(self.path, f"cannot be used ({error})") from None
        except DpsubsetError:
            raise
        except OSError as error:
            raise _wrong(self.path, f"cannot be used ({error.strerror})") from None
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            raise _wrong(self.path, "is damaged") from None
        finally:
            if connection is not None:
                with suppress(sqlite3.Error):  # closing undoes what was not committed
                    connection.close()


LedgerLike = Ledger | str | os.PathLike[str] | None


def as_ledger(given: LedgerLike, by: str | None = None) -> Ledger | None:
    """Return a ledger for a ledger, for the path of one, or for None; `by` is for a path alone.

    >>> as_ledger(None) is None
    True
    """
    if isinstance(given, str | os.PathLike):
        return Ledger(given, by=by)
    if by is not None:
        raise InputError("who charges a ledger is told to a ledger: name its file, too")
    if given is None or isinstance(given, Ledger):
        return given
    raise InputError(f"ledger must be a Ledger or the path of one, not {given!r}")


@contextmanager
@without_context
def charged(
    ledger: Ledger | None, guarantee: Guarantee, asked: Mapping[str, Any]
) -> Iterator[Record]:
    """Charge a ledger if there is one; lack of memory is told in words that hold for all tables."""
    try:
        if ledger is None:
            yield lambda released: None
            return
        with ledger.charge(guarantee, asked) as record:
            yield record
    except MemoryError:
        raise OutOfMemoryError(
            "the memory of this machine is not enough, so nothing is released; count the budget "
            "as spent"
        ) from None


def _decimal(value: float) -> str:
    """Return the shortest decimal of a float: thirty times 0.1 is 3, as the user means it."""
    return repr(float(value))


def _budget(connection: sqlite3.Connection) -> tuple[Fraction, Fraction, str]:
    epsilon, delta, neighbours = connection.execute("SELECT * FROM budget").fetchone()
    return Fraction(epsilon), Fraction(delta), str(neighbours)


def _spent(connection: sqlite3.Connection) -> tuple[Fraction, Fraction]:
    """Return exact sums."""
    rows = connection.execute("SELECT epsilon, delta FROM entries").fetchall()
    return sum((Fraction(e) for e, _ in rows), Fraction()), sum(
        (Fraction(d) for _, d in rows), Fraction()
    )


def _left(connection: sqlite3.Connection) -> tuple[Fraction, Fraction]:
    epsilon, delta, _ = _budget(connection)
    spent = _spent(connection)
    return epsilon - spent[0], delta - spent[1]


def _table(connection: sqlite3.Connection) -> str | None:
    """Return the name of the ledger's table, if it has one."""
    if _version(connection) == _NAMELESS:
        return _name_before(connection)
    row = connection.execute("SELECT name FROM subject").fetchone()
    return None if row is None else _as_name(json.loads(row[0]))


def _name(connection: sqlite3.Connection, table: str | None, path: Path) -> None:
    """Give the ledger a table's name, in the caller's transaction; refuse a second one."""
    known = _table(connection)
    if None not in (known, table) and known != table:
        raise InputError(
            f"the ledger {path} is for the table {known!r}, and this is for the table {table!r}: "
            "nothing was run, nothing was spent. A budget protects one table: begin another "
            "ledger for another table; if it is the same one, call it by the ledger's name"
        )
    if _version(connection) == _NAMELESS:
        for statement in _NAMES:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        if known is not None:
            connection.execute("INSERT INTO subject VALUES (?)", (json.dumps(known),))
    if known is None and table is not None:
        connection.execute("INSERT INTO subject VALUES (?)", (json.dumps(table),))


def _name_before(connection: sqlite3.Connection) -> str | None:
    """Return the table that all entries of an old ledger name, if they name just one.

    The command wrote the path of the file; its name is what it gives now.
    """
    names = set()
    for (text,) in connection.execute("SELECT asked FROM entries"):
        asked = _as_mapping(text)
        table = asked.get("table")
        if isinstance(table, str) and table:
            by_command = "dpsubset" in asked
            names.add(_as_name(Path(table).name if by_command else table))
    return names.pop() if len(names) == 1 else None


def _checked_name(given: Any) -> str | None:
    """Return the name of a table, or say what it must be."""
    if given is None:
        return None
    if not isinstance(given, str) or not given.strip():
        raise InputError(
            f"the name of a table is a text that may be published, as 'study 7', not {given!r}"
        )
    return _as_name(given)


def _as_name(given: Any) -> str:
    """Return a name in one way of writing its letters; a ValueError if the file is damaged."""
    if not isinstance(given, str):
        raise ValueError
    return unicodedata.normalize("NFC", given)


def _checked_by(given: Any) -> str | None:
    """Return who charges a ledger, or say what that must be."""
    if given is not None and not (isinstance(given, str) and given.strip()):
        raise InputError(f"who charges a ledger is told as a text, as 'A. Miller', not {given!r}")
    return given


def _entry(
    number: int, time: str, asked: str, guarantee: str, outcome: str, released: str | None
) -> Entry:
    """Return a row of the file as an entry; who charged it stands beside what was asked."""
    question = _as_mapping(asked)
    by = question.pop(_BY, None)
    given = None if released is None else _as_mapping(released)
    return Entry(
        number,
        time,
        question,
        _kept_guarantee(guarantee),
        outcome,
        given,
        None if by is None else str(by),
    )


def _cells(entry: Entry) -> tuple[str, ...]:
    """Return an entry as a notebook shows it."""
    released = entry.released or {}
    names = released.get("columns") or released.get("support") or ()
    return (
        str(entry.number),
        entry.time,
        entry.by or "",
        rounded_up(entry.guarantee.epsilon),
        rounded_up(entry.guarantee.delta),
        entry.outcome + (", SEEDED" if entry.guarantee.randomness == "seeded" else ""),
        entry.guarantee.mechanism,
        "unnamed" if entry.table is None else entry.table,
        ", ".join(map(str, names)) if isinstance(names, list) else str(names),
    )


def _rounded_down(value: float) -> str:
    """Return a short number that is not above the value."""
    short = f"{value:.6g}"
    return short if float(short) <= value else repr(value)


def _mark(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA application_id").fetchone()[0])


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _as_mapping(text: str) -> dict[str, Any]:
    loaded = json.loads(text)
    if not isinstance(loaded, dict):
        raise ValueError  # the file is damaged
    return loaded


@without_context
def _kept_guarantee(text: str) -> Guarantee:
    try:
        return Guarantee.from_dict(json.loads(text))
    except InputError:
        raise ValueError from None  # the file is damaged


@without_context
def _exists(path: Path) -> bool:
    try:
        return bool(path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _wrong(path, f"cannot be used ({error.strerror})") from None


@without_context
def _as_text(given: Mapping[str, Any], what: str) -> str:
    try:
        return json.dumps(dict(given), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise InputError(f"{what} must be a mapping of plain values, as JSON has them") from None


def _wrong(path: Path, why: str) -> LedgerError:
    return LedgerError(
        f"the ledger {path} {why}: nothing is released; a spend that was under way may count"
    )
