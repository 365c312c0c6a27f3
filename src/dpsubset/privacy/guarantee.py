"""A guarantee: a value that exists before any data is touched, and prints in plain words."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from importlib import resources
from typing import Any

from dpsubset.checks import one_of
from dpsubset.errors import InputError, without_context
from dpsubset.privacy.neighbours import NEIGHBOURS, check_neighbours
from dpsubset.privacy.shown import fields_html, fields_text, paragraph_html, printable

__all__ = [
    "Guarantee",
    "compose",
    "compose_disjoint",
    "decimal_rest",
    "decimal_sum",
    "rounded_down",
    "rounded_up",
    "schema",
    "seeded_if",
    "with_bounded_range",
]

SYSTEM = "operating system"
SEEDED = "seeded"

_RELATIONS = {"replace-one": "one row replaced", "add-remove": "one row added or removed"}
_PAIRS = {
    "replace-one": "any two tables that differ in one person's row",
    "add-remove": "any table and the same table without one person's row",
}
_SOURCES = {
    SYSTEM: "operating system",
    SEEDED: "SEEDED, for experiments only: anyone who knows the seed can undo the protection",
}
_LARGEST_FACTOR = 10  # of epsilons whose e^epsilon is a number that people can picture


def rounded_up(value: float) -> str:
    """Return a number of at most six digits that is not below the value.

    >>> rounded_up(2.0), rounded_up(2.7320508)
    ('2', '2.73206')
    """
    above = Decimal(repr(float(value))).normalize(Context(prec=6, rounding=ROUND_CEILING))
    short = f"{float(above):.6g}"
    return short if float(short) >= value else repr(value)


@dataclass(frozen=True)
class Guarantee:
    """What a release guarantees, to whom, and on what it rests.

    It prints in plain words; `sentence` is the exact statement.

    Parameters
    ----------
    mechanism : str
        What was run, in words.
    epsilon : float
        The budget that it spends.
    neighbours : {"replace-one", "add-remove"}
        Which tables count as neighbours.
    sensitivity : float or None
        How far one row moves a score.
    precision : float
        Rounding of a score, in units of n times the sensitivity; 0 if no score is used.
    delta : float
        The chance with which the guarantee may fail.
    condition : str, optional
        What the guarantee rests on and nobody checked.
    randomness : {"operating system", "seeded"}
        Where random bits come from.
    rho : float, optional
        Its zero-concentrated privacy, where that is better than epsilon^2/2 (T30).
    bounds : tuple of (str, float)
        The public bounds that it rests on.

    Examples
    --------
    >>> print(Guarantee("exponential mechanism", 1.0, "add-remove", sensitivity=4.0))
    mechanism    exponential mechanism
    epsilon      1
    neighbours   one row added or removed
    sensitivity  4
    randomness   operating system
    Whatever is released, its chance differs by a factor of at most e^1 = 2.72 between any table \
and the same table without one person's row.
    """

    mechanism: str
    epsilon: float
    neighbours: str
    sensitivity: float | None  # None for a composition: its parts have their own
    precision: float = 1e-12  # of a score, in units of n times the sensitivity; 0 if none is used
    delta: float = 0.0
    condition: str | None = None
    randomness: str = SYSTEM
    rho: float | None = None  # zero-concentrated privacy, where it is better than epsilon^2/2 (T30)
    bounds: tuple[tuple[str, float], ...] = ()  # public: to what the table was clipped

    def __post_init__(self) -> None:
        check_neighbours(self.neighbours)
        needed = [self.epsilon, self.delta, self.precision, *(value for _, value in self.bounds)]
        numbers = needed + [v for v in (self.sensitivity, self.rho) if v is not None]
        if not all(_is_size(value) for value in numbers) or self.delta > 1:
            raise InputError(
                "numbers of a guarantee are zero or larger, and finite; delta is at most 1"
            )
        if not isinstance(self.mechanism, str) or not isinstance(self.condition, str | None):
            raise InputError("the mechanism and the condition of a guarantee are texts")
        one_of(self.randomness, "randomness", (SYSTEM, SEEDED))

    def __str__(self) -> str:
        return f"{fields_text(self._fields())}\n{self._plainly()}"

    def _repr_html_(self) -> str:
        return fields_html(self._fields()) + paragraph_html(self._plainly())

    def _fields(self) -> list[tuple[str, str]]:
        """Return what the table of fields shows."""
        shown = {
            "mechanism": printable(self.mechanism),
            "epsilon": rounded_up(self.epsilon),
            "delta": rounded_up(self.delta) if self.delta else None,
            "neighbours": _RELATIONS[self.neighbours],
            "condition": printable(self.condition) if self.condition else None,
            "sensitivity": None if self.sensitivity is None else rounded_up(self.sensitivity),
            "randomness": _SOURCES[self.randomness],
        }
        return [(name, value) for name, value in shown.items() if value is not None]

    def _plainly(self) -> str:
        """Return what is guaranteed, for people who know no formulas."""
        reserves = []
        if self.condition:
            reserves.append("only if the condition above holds")
        if self.randomness == SEEDED:
            reserves.append("if the randomness were not seeded")
        together = ", all parts together" if self.sensitivity is None else ""
        subject, rest = f"whatever is released{together}, its chance differs", ""
        if self.delta:
            subject = f"whatever set of answers one looks at{together}, its chance differs"
            rest = f", plus at most {rounded_up(self.delta)},"
        opening = f"{', and '.join(reserves)}: " if reserves else ""
        text = (
            f"{opening}{subject} by a factor of at most {_factor(self.epsilon)}{rest} between "
            f"{_PAIRS[self.neighbours]}."
        )
        return text[0].upper() + text[1:]

    @property
    def sentence(self) -> str:
        """The exact statement, with sensitivity, concentrated privacy and rounding.

        >>> print(Guarantee("exponential mechanism", 1.0, "add-remove", 4.0, rho=0.125).sentence)
        The exponential mechanism is 1-differentially private for tables of which one has one row \
more (sensitivity 4; also 0.125-zCDP; operating system's randomness; meant in exact arithmetic, \
rounding of the scores adds a factor 1 + 4e-12 n to epsilon, n the number of rows).
        """
        budget = rounded_up(self.epsilon)
        if self.delta:
            budget = f"({budget}, {rounded_up(self.delta)})"
        when = f", provided that {self.condition}" if self.condition else ""
        source = (
            "operating system's randomness"
            if self.randomness == SYSTEM
            else "SEEDED randomness, for experiments only: anyone who knows the seed can undo "
            "the protection"
        )
        basis = [source, "meant in exact arithmetic"]
        if self.rho is not None:
            basis.insert(0, f"also {rounded_up(self.rho)}-zCDP")
        if self.sensitivity is not None:
            basis.insert(0, f"sensitivity {rounded_up(self.sensitivity)}")
        if self.precision:
            basis[-1] += (
                f", rounding of the scores adds a factor 1 + {rounded_up(4 * self.precision)} n "
                "to epsilon, n the number of rows"
            )
        return (
            f"The {self.mechanism} is {budget}-differentially private for "
            f"{NEIGHBOURS[self.neighbours]}{when} ({'; '.join(basis)})."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `schema()` describes them."""
        return {**asdict(self), "bounds": dict(self.bounds), "sentence": self.sentence}

    @classmethod
    @without_context
    def from_dict(cls, given: Mapping[str, Any]) -> Guarantee:
        """Return the guarantee that `to_dict` wrote, or raise an InputError.

        >>> one = Guarantee("exponential mechanism", 1.0, "add-remove", sensitivity=4.0)
        >>> Guarantee.from_dict(one.to_dict()) == one
        True
        """
        try:
            kept = {field.name: given[field.name] for field in fields(cls)}
            return cls(**kept | {"bounds": tuple(given["bounds"].items())})
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                "not a guarantee: parts are missing or wrong; give what Guarantee.to_dict returned"
            ) from None

    def zcdp(self) -> float | None:
        """Return rho of zero-concentrated privacy: the own one, else epsilon^2/2; None with delta.

        >>> Guarantee("permute-and-flip mechanism", 1.0, "replace-one", 4.0).zcdp()
        0.5
        """
        if self.rho is not None or self.delta:
            return self.rho
        return self.epsilon * self.epsilon / 2.0

    def epsilon_at(self, delta: float) -> float:
        """Return the least epsilon that is known to hold with a chance of failing of `delta`.

        >>> many = compose([Guarantee("exponential mechanism", 0.1, "replace-one", 4.0)] * 50)
        >>> round(many.epsilon, 6), round(many.epsilon_at(1e-6), 2)
        (5.0, 3.97)
        """
        rho = self.zcdp()
        known = self.epsilon if delta >= self.delta else math.inf
        if rho is None or not 0.0 < delta < 1.0:
            return known
        return min(known, rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta)))

    def for_replace_one(self) -> Guarantee:
        """Return what holds for tables with one row replaced: a removal, then an addition (T30)."""
        if self.neighbours == "replace-one":
            return self
        if self.condition is not None:
            raise InputError(
                "a guarantee with a condition says nothing of two rows: the table in between need "
                "not meet it"
            )
        return replace(
            self,
            epsilon=2.0 * self.epsilon,
            delta=min(1.0, (1.0 + math.exp(min(self.epsilon, 700.0))) * self.delta),
            neighbours="replace-one",
            rho=None if self.rho is None else 4.0 * self.rho,
        )

    def implies(self, other: Guarantee) -> bool:
        """Say whether this guarantee, kept, keeps the other one too.

        >>> strong = Guarantee("exponential mechanism", 0.5, "add-remove", 4.0)
        >>> weak = Guarantee("exponential mechanism", 1.0, "replace-one", 4.0)
        >>> strong.implies(weak), weak.implies(strong)
        (True, False)
        """
        mine = self
        if self.neighbours != other.neighbours and self.condition is None:
            mine = self.for_replace_one()
        rho = mine.zcdp()
        return (
            mine.neighbours == other.neighbours
            and mine.epsilon <= other.epsilon
            and mine.delta <= other.delta
            and mine.precision <= other.precision
            and mine.condition in (None, other.condition)
            and (mine.randomness == SYSTEM or other.randomness == SEEDED)
            and (other.rho is None or (rho is not None and rho <= other.rho))
        )


def with_bounded_range(promise: Guarantee) -> Guarantee:
    """Return the guarantee where log ratios span at most epsilon: rho is epsilon^2/8 (T30)."""
    return replace(promise, rho=promise.epsilon * promise.epsilon / 8.0)


def seeded_if(seeded: bool, promise: Guarantee) -> Guarantee:
    """Return the guarantee, marked as an experiment's if its randomness is seeded."""
    return replace(promise, randomness=SEEDED) if seeded else promise


def schema() -> dict[str, Any]:
    """Return the JSON schema of `Guarantee.to_dict`."""
    text = resources.files("dpsubset.privacy").joinpath("guarantee.schema.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def decimal_sum(values: Iterable[float]) -> float:
    """Add numbers as the decimals that people mean, and round up: thirty times 0.1 is 3.

    >>> decimal_sum([0.1, 0.2]), 0.1 + 0.2
    (0.3, 0.30000000000000004)
    """
    exact = sum((Fraction(repr(float(value))) for value in values), Fraction())
    near = float(exact)
    return near if Fraction(repr(near)) >= exact else math.nextafter(near, math.inf)


def decimal_rest(whole: float, part: float) -> float:
    """Return what a part leaves of a whole, as decimals, rounded down; 0 if nothing is left.

    >>> decimal_rest(0.3, 0.1), 0.3 - 0.1
    (0.2, 0.19999999999999998)
    """
    return max(0.0, rounded_down(Fraction(repr(float(whole))) - Fraction(repr(float(part)))))


def rounded_down(exact: Fraction) -> float:
    """Return the nearest float whose decimal is not above an exact number."""
    near = float(exact)
    return near if Fraction(repr(near)) <= exact else math.nextafter(near, -math.inf)


def _factor(epsilon: float) -> str:
    """Return e^epsilon in words that mean something, rounded up.

    >>> _factor(1.0), _factor(0.01), _factor(7.0)
    ('e^1 = 2.72', 'e^0.01 = 1.011', 'e^7 = 1,097')
    >>> _factor(40.0)
    'e^40 (so large that it protects hardly anyone)'
    """
    power = rounded_up(epsilon)
    name = f"e^({power})" if "e" in power else f"e^{power}"
    if epsilon > _LARGEST_FACTOR:
        return f"{name} (so large that it protects hardly anyone)"
    if epsilon == 0:
        return f"{name} = 1"
    value = max(Context(prec=40).exp(Decimal(power)), Decimal("1.000001"))
    places = 2 if value < 10 else 1 if value < 100 else 0
    if value < Decimal("1.1"):  # two digits of what is above 1
        places = min(1 - (value - 1).adjusted(), 5)
    return f"{name} = {value.quantize(Decimal(1).scaleb(-places), ROUND_CEILING):,}"


def _is_size(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0.0 <= value <= 1.7e308


def compose(parts: Sequence[Guarantee]) -> Guarantee:
    """Return what several releases from one table guarantee together: all adds up (T29).

    Later parts may be chosen by what earlier ones released.

    Parameters
    ----------
    parts : sequence of Guarantee
        What each release guarantees.

    Returns
    -------
    Guarantee
        What all together guarantee.

    Examples
    --------
    >>> one = Guarantee("exponential mechanism", 1.0, "replace-one", 4.0)
    >>> both = compose([one, Guarantee("objective perturbation", 0.5, "replace-one", 2.0)])
    >>> both.mechanism, both.epsilon
    ('exponential mechanism followed by objective perturbation', 1.5)
    """
    together = _joined(parts, " followed by ")
    rhos = [part.zcdp() for part in parts]
    return replace(
        together,
        epsilon=decimal_sum(part.epsilon for part in parts),
        delta=min(1.0, decimal_sum(part.delta for part in parts)),
        rho=None if None in rhos else math.fsum(rho for rho in rhos if rho is not None),
    )


def compose_disjoint(parts: Sequence[Guarantee]) -> Guarantee:
    """Return what releases from disjoint rows of one table guarantee together: the worst (T30).

    Which rows belong to which part may depend, under add-remove, on each row itself; under
    replace-one only on something that replacing a row's values does not change, as its place.

    Parameters
    ----------
    parts : sequence of Guarantee
        What each release guarantees.

    Returns
    -------
    Guarantee
        What all together guarantee.

    Examples
    --------
    >>> one = Guarantee("exponential mechanism", 1.0, "add-remove", 4.0)
    >>> compose_disjoint([one, Guarantee("top-R mechanism", 0.5, "add-remove", 2.0)]).epsilon
    1.0
    """
    together = _joined(parts, " alongside ")
    rhos = [part.zcdp() for part in parts]
    return replace(
        together,
        epsilon=max(part.epsilon for part in parts),
        delta=max(part.delta for part in parts),
        rho=None if None in rhos else max(rho for rho in rhos if rho is not None),
    )


def _joined(parts: Sequence[Guarantee], word: str) -> Guarantee:
    """Return what does not depend on how guarantees are put together."""
    if not isinstance(parts, list | tuple):
        raise InputError("guarantees are put together from a list of them")
    if not parts:
        raise InputError("there is no guarantee to put together; give at least one")
    if not all(isinstance(part, Guarantee) for part in parts):
        raise InputError("only guarantees can be put together")
    if len({part.neighbours for part in parts}) != 1:
        raise InputError("guarantees for different neighbour relations cannot be put together")
    names = dict.fromkeys(part.mechanism for part in parts)
    conditions = dict.fromkeys(part.condition for part in parts if part.condition)
    shared = set(parts[0].bounds).intersection(*(part.bounds for part in parts))
    return Guarantee(
        f"{parts[0].mechanism}, {len(parts)} times"
        if len(names) == 1 < len(parts)
        else word.join(part.mechanism for part in parts),
        0.0,
        parts[0].neighbours,
        None,
        max(part.precision for part in parts),
        condition="; and that ".join(conditions) or None,
        randomness=SEEDED if any(part.randomness == SEEDED for part in parts) else SYSTEM,
        bounds=tuple(pair for pair in parts[0].bounds if pair in shared),
    )
