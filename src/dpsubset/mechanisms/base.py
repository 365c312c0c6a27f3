"""What every mechanism does: guarantee, release once, and be drawn from in experiments."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.checks import one_of, positive, whole
from dpsubset.cuts.supports import EMPTY, list_supports, rows_of_supports
from dpsubset.designs.cores import blas_alone
from dpsubset.errors import InputError, RefusedError
from dpsubset.limits import Limits, check_limits, refusing
from dpsubset.privacy import (
    Guarantee,
    Randomness,
    as_randomness,
    check_neighbours,
    compose,
    exponent,
)
from dpsubset.privacy.guarantee import rounded_up, seeded_if
from dpsubset.privacy.ledger import as_ledger
from dpsubset.privacy.shown import fields_html
from dpsubset.problem import RULES, Origin, Problem, check_one_size, check_problem
from dpsubset.records import charging, described, record
from dpsubset.sampling.pieces import Support

__all__ = ["Mechanism", "Release", "Sampler", "options_of"]

Sampler = Callable[[Randomness], Support]

_LARGEST_LAW = 1_000_000
_LISTED = 200_000  # supports that are listed for the chance of one of them
_REFUSED = (
    "the test that comes before a release did not pass, so nothing is released; the refusal is an "
    "outcome that the guarantee covers, and the budget is spent. A larger epsilon or delta, or "
    "more rows, make it pass more often"
)
_LAW_IS_NO_RELEASE = (
    "the exact distribution is no private output, so a mechanism with a ledger does not show it: "
    "use one without, on tables that may be seen"
)


@dataclass(frozen=True)
class Release:
    """One private output. It holds nothing that depends on the data but what was released.

    `support` are positions among the owner's columns, `columns` their names, if they have any;
    `asked` are the public settings. `offset` is what all predictions start from, if that was asked
    for: in the units of the target, or log odds of the second class. `target_bounds` are those
    within which the target was looked at, if they were drawn, too. `levels` are those of the
    released columns that have some, by name.

    Parameters
    ----------
    support : tuple of int
        The released columns, by their places.
    guarantee : Guarantee
        What is guaranteed.
    columns : tuple of str, optional
        The names of the released columns.
    asked : mapping, optional
        The public settings.
    offset : float, optional
        What all predictions start from.
    target_bounds : pair of float, optional
        Bounds of the target that were drawn.
    levels : mapping, optional
        Levels of the released columns that have some.

    Examples
    --------
    >>> Release((1, 4), Guarantee("exponential mechanism", 1.0, "replace-one", 4.0))
    <Release: columns 1, 4; exponential mechanism, epsilon 1, replace-one>
    """

    support: tuple[int, ...]
    guarantee: Guarantee
    columns: tuple[str, ...] | None = None
    asked: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    offset: float | None = None
    target_bounds: tuple[float, float] | None = None
    levels: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        origin: Origin,
        support: tuple[int, ...],
        guarantee: Guarantee,
        asked: Mapping[str, Any],
        offset: float | None = None,
        target_bounds: tuple[float, float] | None = None,
    ) -> Release:
        """Return the release of a support, in its owner's words."""
        seen, names = origin.seen(support), origin.names
        columns = None if names is None else tuple(names[j] for j in seen)
        levels = {
            name: tuple(origin.levels[name]) for name in columns or () if name in origin.levels
        }
        return cls(seen, guarantee, columns, asked, offset, target_bounds, levels)

    def __repr__(self) -> str:
        known = self.guarantee
        delta = f", delta {rounded_up(known.delta)}" if known.delta else ""
        condition = ", on a condition" if known.condition else ""
        seeded = ", SEEDED" if known.randomness == "seeded" else ""
        return (
            f"<Release: columns {self._columns()}; {known.mechanism}, epsilon "
            f"{rounded_up(known.epsilon)}{delta}, {known.neighbours}{condition}{seeded}>"
        )

    def __str__(self) -> str:
        shown = "\n".join(f"{name} {value}" for name, value in self._fields())
        return f"{shown}\n\n{self.guarantee}"

    def _repr_html_(self) -> str:
        return fields_html(self._fields()) + self.guarantee._repr_html_()

    def _fields(self) -> list[tuple[str, str]]:
        offset = [] if self.offset is None else [("offset", f"{self.offset:.6g}")]
        bounds = []
        if self.target_bounds is not None:
            lower, upper = self.target_bounds
            name = "target's window" if "window_share" in self.asked else "target's bounds"
            bounds = [(name, f"{lower:.6g} to {upper:.6g}")]
        return [("columns", self._columns()), *offset, *bounds]

    def _columns(self) -> str:
        return ", ".join(map(str, self.columns or self.support)) or "none"

    def to_dict(self) -> dict[str, Any]:
        """Return the record: what was asked and released, and the guarantee, as plain values."""
        names = None if self.columns is None else list(self.columns)
        released: dict[str, Any] = {"positions": list(self.support), "columns": names}
        if self.levels:
            released["levels"] = {name: list(levels) for name, levels in self.levels.items()}
        if self.offset is not None:
            released["offset"] = self.offset
        if self.target_bounds is not None:
            released["target_bounds"] = list(self.target_bounds)
        return record(self.asked, released, self.guarantee)


@dataclass(eq=False, repr=False)
class Mechanism(ABC):
    """A private choice among the supports of a problem.

    Parameters
    ----------
    epsilon : float
        The budget of one release.
    neighbours : "replace-one" or "add-remove"
        Which tables the guarantee compares. Under add-remove the number of rows is private too.
    sensitivity : "tight", "largest" or "paper"
        The bound on how far one row moves a score: against the others (T38), by itself (T2), or
        the paper's.
    limits : Limits, optional
        Limits on the work; at a limit nothing is released (UnprovenError). Whether one is reached
        depends on the data, so a limit is outside every guarantee (T18).
    ledger : Ledger or path, optional
        A budget that every release is charged to before it is made; `draw` as often as it draws.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Problem
    >>> X = np.eye(4); y = np.array([0.0, 1.0, 0.0, 0.5])
    >>> problem = Problem(X, y, size=2, x_bound=1.0, y_bound=1.0, radius=2.0)
    >>> from dpsubset import Exponential
    >>> len(Exponential(1.0).experiment(problem, 0).support)
    2
    """

    name: ClassVar[str]
    any_size: ClassVar[bool] = False  # whether the size of supports may be left open (T34)

    epsilon: float
    _: KW_ONLY
    neighbours: str = "replace-one"
    sensitivity: str = "tight"
    limits: Limits | None = None
    ledger: Any = None

    def __post_init__(self) -> None:
        self.epsilon = positive(self.epsilon, "epsilon")
        self.neighbours = check_neighbours(self.neighbours)
        self.sensitivity = one_of(self.sensitivity, "sensitivity rule", RULES)
        self.limits = check_limits(self.limits)
        self.ledger = as_ledger(self.ledger)

    def __repr__(self) -> str:
        return options_of(self)

    def kappa(self, problem: Problem) -> float:
        """Return the exponent of the scores: eps/(2 Delta) or eps/Delta (T3)."""
        self._check(problem)
        return exponent(self.epsilon, problem.sensitivity(self.sensitivity), self.neighbours)

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the guarantee; it depends on public parameters only."""
        self._check(problem)
        return Guarantee(
            self.name,
            self.epsilon,
            self.neighbours,
            problem.sensitivity(self.sensitivity),
            problem.precision(self.sensitivity),
            bounds=problem.public_bounds,
        )

    def release(self, problem: Problem) -> Release:
        """Spend the budget: return one private support, by the operating system's randomness."""
        return copy(self)._release(problem, as_randomness(None))  # what is charged is what is run

    def experiment(self, problem: Problem, random_state: int | np.random.Generator) -> Release:
        """Return a release that can be repeated; its guarantee says that it was seeded (T20)."""
        return copy(self)._release(problem, as_randomness(random_state))

    def _release(self, problem: Problem, randomness: Randomness) -> Release:
        self._check(problem)
        promise, origin = self._promise(problem, randomness), problem.origin
        asked = self.asked(problem)
        with charging(self.ledger, promise, asked) as write:
            support = self.chosen(problem, randomness)
            write(origin.released(support))
        return Release.of(origin, support, promise, asked)

    def chosen(self, problem: Problem, randomness: Randomness) -> tuple[int, ...]:
        """Draw one support, all columns of the design in it; charge nothing.

        For who charges for it together with something else. A refusal is a RefusedError.
        """
        with refusing(), blas_alone():
            support = tuple(int(j) for j in self._sampler(problem)(randomness))
        if support and support[0] < 0:
            raise RefusedError(_REFUSED)
        return support

    def _check(self, problem: Problem) -> None:
        """Refuse what is no problem, or none for this mechanism."""
        check_problem(problem)
        if not self.any_size:
            check_one_size(problem, f"the {self.name}")

    def _promise(self, problem: Problem, randomness: Randomness) -> Guarantee:
        return seeded_if(randomness.seeded, self.guarantee(problem))

    def asked(self, problem: Problem) -> dict[str, Any]:
        """Return what a release asks, as a ledger writes it down: public parameters only."""
        return {**problem.origin.asked, "mechanism": described(self)}

    def draw(
        self,
        problem: Problem,
        count: int,
        random_state: int | np.random.Generator | None = None,
    ) -> NDArray[np.int64]:
        """Return many supports, one a row: for experiments and audits, each draw costs epsilon.

        A refusal is a row of -1. Where the size is open, shorter supports are filled up with -2.
        """
        self._check(problem)
        count = whole(count, "count", 0, most=10**8)
        randomness = as_randomness(random_state)
        if self.ledger is None:
            with refusing(), blas_alone():
                return self._draws(problem, count, randomness)
        if count == 0:  # nothing is paid, so nothing is run
            return np.empty((0, problem.size), dtype=np.int64)
        fixed = copy(self)
        promise = compose([fixed._promise(problem, randomness)] * count)
        asked = fixed.asked(problem) | {"draws": count}
        with charging(self.ledger, promise, asked) as write, refusing(), blas_alone():
            out = fixed._draws(problem, count, randomness)
            write({"supports": out.tolist()})
        return out

    def _draws(self, problem: Problem, count: int, randomness: Randomness) -> NDArray[np.int64]:
        sampler = self._sampler(problem)
        out = np.empty((count, problem.size), dtype=np.int64)
        for row in out:
            support = sampler(randomness)
            row[: support.size], row[support.size :] = support, EMPTY
        return out

    def probabilities(self, problem: Problem) -> tuple[NDArray[np.int64], Floats]:
        """Return all supports and the log of their exact probabilities, for small problems.

        Where they add up to less than 1, the rest is the chance of a refusal. Where the size is
        open, supports of all sizes are listed, the shorter ones filled up with -2.
        """
        self._check_may_be_listed(problem)
        supports, scores = list_supports(problem)
        return supports, self._law(problem, supports, scores)

    def chance(self, problem: Problem, support: Iterable[int]) -> float | None:
        """Return the probability of one support, or None where it cannot be had.

        Like `probabilities` it depends on the data: for experiments only. Mechanisms that search
        know it for problems of any size, the others where all supports can be listed.

        >>> from dpsubset import Exponential, Problem
        >>> X = np.eye(3); problem = Problem(X, X[0], size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
        >>> round(Exponential(8.0).chance(problem, [0]), 3)
        0.576
        """
        self._check_law_may_be_seen()
        self._check(problem)
        chosen = problem.as_support(support)
        if not set(problem.include) <= set(chosen.tolist()) <= set(problem.allowed):
            return 0.0
        return self._chance(problem, chosen)

    def _chance(self, problem: Problem, support: NDArray[np.intp]) -> float | None:
        if problem.n_supports > _LISTED:
            return None
        supports, logs = self.probabilities(problem)
        row = rows_of_supports(support[None].astype(np.int64), problem.size)
        return float(np.exp(logs[(supports == row).all(axis=1)][0]))

    def _check_may_be_listed(self, problem: Problem) -> None:
        """Refuse to list the distribution where it is no output, or too long."""
        self._check_law_may_be_seen()
        self._check(problem)
        if problem.n_supports > _LARGEST_LAW:
            raise InputError(
                f"the distribution is listed for up to {_LARGEST_LAW} supports; this problem has "
                f"{problem.n_supports}"
            )

    def _check_law_may_be_seen(self) -> None:
        if self.ledger is not None:
            raise InputError(_LAW_IS_NO_RELEASE)

    def _log_weights(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        """Return -kappa R(S), less what chosen columns cost where their number is open (T34)."""
        chosen = np.count_nonzero(supports != EMPTY, axis=1) - len(problem.include)
        return np.asarray(-self.kappa(problem) * scores - problem.column_cost * chosen)

    @abstractmethod
    def _sampler(self, problem: Problem) -> Sampler:
        """Do the work that all draws share; return a function that makes one draw.

        A draw of -1, ..., -1 is a refusal.
        """

    @abstractmethod
    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        """Return the log probability of every support from all scores."""


def options_of(mechanism: Any) -> str:
    """Return a call that makes the mechanism, without the options that are at their default.

    >>> from dpsubset import Exponential, SampleAggregate
    >>> Exponential(1.0), SampleAggregate(2, blocks=9)
    (Exponential(epsilon=1.0), SampleAggregate(epsilon=2.0, blocks=9))
    """
    held, options = vars(mechanism), []
    for name, parameter in inspect.signature(type(mechanism)).parameters.items():
        value, usual = held.get(name, parameter.default), parameter.default
        by_name = isinstance(usual, str) and usual == getattr(value, "name", None)
        if not (value is usual or by_name or (type(value) is type(usual) and value == usual)):
            options.append(f"{name}={value!r}")
    return f"{type(mechanism).__name__}({', '.join(options)})"
