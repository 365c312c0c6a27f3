"""The exact audit: enumerated distributions of neighbouring tables, compared outcome by outcome."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.audit.tables import check_neighbour, row_counts
from dpsubset.cuts.supports import list_supports
from dpsubset.errors import InputError
from dpsubset.mechanisms import Mechanism
from dpsubset.privacy import Guarantee
from dpsubset.problem import Problem

__all__ = ["REFUSAL", "ExactReport", "Laws", "Violation", "exact", "exact_pairs", "excess", "ratio"]

_NUMERICAL = 1e-9  # distributions are computed to this, relative
_NO_REFUSAL = 1e-11  # what may be missing from a sum of chances by rounding
REFUSAL: tuple[int, ...] = ()  # the outcome that is no support

Law = dict[tuple[int, ...], float]


@dataclass(frozen=True)
class Violation:
    """A pair of tables that a mechanism tells apart better than it guarantees.

    Parameters
    ----------
    pair : int
        Which of the pairs, counted from 0.
    tables : pair of int
        The places of its two tables.
    support : tuple of int or None
        The support whose chances differ most; None is a refusal.
    epsilon : float
        The log ratio of its chances.
    delta : float
        The mass beyond the claimed epsilon.

    Examples
    --------
    >>> Violation(3, (0, 4), (1, 2), 1.5, 0.25).support
    (1, 2)
    """

    pair: int
    tables: tuple[int, int]
    support: tuple[int, ...] | None  # None: a refusal
    epsilon: float
    delta: float

    def __str__(self) -> str:
        outcome = "a refusal" if self.support is None else f"support {self.support}"
        return (
            f"pair {self.pair} (tables {self.tables[0]} and {self.tables[1]}): {outcome} has a log "
            f"ratio of {self.epsilon:.4g}, and beyond the guaranteed epsilon there is a mass of "
            f"{self.delta:.3g}"
        )


@dataclass(frozen=True)
class ExactReport:
    """What an exact audit found: the largest log ratio, and the largest mass beyond epsilon.

    Parameters
    ----------
    claimed : Guarantee
        What the mechanism guarantees.
    pairs : int
        How many pairs were compared.
    epsilon : float
        The largest log ratio of chances.
    delta : float
        The largest mass beyond the claimed epsilon.
    violations : tuple of Violation
        Pairs beyond the guarantee; none, if it is kept.

    Examples
    --------
    >>> from dpsubset import Guarantee
    >>> claimed = Guarantee("exponential mechanism", 1.0, "replace-one", 4.0)
    >>> ExactReport(claimed, pairs=10, epsilon=0.9, delta=0.0, violations=()).passed
    True
    """

    claimed: Guarantee
    pairs: int
    epsilon: float
    delta: float
    violations: tuple[Violation, ...]

    @property
    def passed(self) -> bool:
        """Whether no pair violates the guarantee."""
        return not self.violations

    def __str__(self) -> str:
        said = "PASSED" if self.passed else f"VIOLATED by {len(self.violations)} pairs"
        lines = [
            f"Exact audit: {said}. {self.pairs} pairs; largest log ratio {self.epsilon:.6g} "
            f"against epsilon {self.claimed.epsilon:.6g}; largest mass beyond it "
            f"{self.delta:.3g} against delta {self.claimed.delta:.3g}.",
            f"Claimed: {self.claimed.sentence}",
        ]
        return "\n".join([*lines, *map(str, self.violations[:5])])


class Laws:
    """Distributions of mechanisms, the scores of a problem computed once for all of them."""

    def __init__(self) -> None:
        self._listed: dict[Problem, tuple[Any, Floats]] = {}

    def of(self, mechanism: Mechanism, problem: Problem) -> Law:
        """Return the log probability of every outcome; a refusal is the outcome ()."""
        if type(mechanism).probabilities is Mechanism.probabilities and mechanism.ledger is None:
            if problem not in self._listed:
                self._listed[problem] = list_supports(problem)
            supports, scores = self._listed[problem]
            logs = mechanism._law(problem, supports, scores)
        else:
            supports, logs = mechanism.probabilities(problem)
        law = {tuple(s): float(log) for s, log in zip(supports.tolist(), logs, strict=True)}
        rest = 1.0 - math.fsum(math.exp(log) for log in law.values())
        if rest > _NO_REFUSAL:
            law[REFUSAL] = math.log(rest)
        return law


def exact(
    mechanism: Mechanism, problem: Problem, neighbours: Iterable[Problem], laws: Laws | None = None
) -> ExactReport:
    """Compare the distribution of a mechanism on a table with those on neighbouring tables.

    Parameters
    ----------
    mechanism : Mechanism
        What is audited.
    problem : Problem
        A problem small enough to list its supports.
    neighbours : iterable of Problem
        Its neighbours, as `neighbouring` makes them.
    laws : Laws, optional
        Scores that several audits of the same problems share.

    Returns
    -------
    ExactReport
        The largest ratio, and what exceeds the guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Exponential, Problem
    >>> from dpsubset.audit import neighbouring
    >>> X = np.eye(3); problem = Problem(X, X[:, 0], size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> exact(Exponential(1.0), problem, neighbouring(problem, 20)).passed
    True
    """
    problems = [problem, *neighbours]
    return exact_pairs(mechanism, problems, [(0, i) for i in range(1, len(problems))], laws)


def exact_pairs(
    mechanism: Mechanism,
    problems: Sequence[Problem],
    pairs: Iterable[tuple[int, int]],
    laws: Laws | None = None,
    rows: Sequence[Counter[Any]] | None = None,
) -> ExactReport:
    """Compare the distributions of pairs of problems, which must be neighbours of each other.

    `rows` counts the rows of the tables that the problems were made of; without it the problems'
    own rows are compared, as a mechanism sees them.

    Parameters
    ----------
    mechanism : Mechanism
        What is audited.
    problems : sequence of Problem
        Problems of the same public shape.
    pairs : iterable of pairs of int
        Which of them are neighbours, by their places.
    laws : Laws, optional
        Scores that several audits of the same problems share.
    rows : sequence of Counter, optional
        The rows of the tables that the problems were made of.

    Returns
    -------
    ExactReport
        The largest ratio, and what exceeds the guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Exponential
    >>> shape = {"size": 1, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0}
    >>> two = [Problem(np.eye(2), y, **shape) for y in ([0.0, 1.0], [0.0, 0.0])]
    >>> exact_pairs(Exponential(1.0), two, [(0, 1)]).passed
    True
    """
    laws = laws or Laws()
    claimed = mechanism.guarantee(problems[0])
    for problem in problems:
        _check_alike(problems[0], problem)
    rows = rows or [row_counts(problem) for problem in problems]
    known = [laws.of(mechanism, problem) for problem in problems]
    epsilon = delta = 0.0
    count, found = 0, []
    for number, (i, j) in enumerate(pairs):
        count += 1
        check_neighbour(rows[i], rows[j], claimed.neighbours)
        support, largest = ratio(known[i], known[j])
        slack = _NUMERICAL + 4 * claimed.precision * claimed.epsilon * problems[i].n_rows
        mass = excess(known[i], known[j], claimed.epsilon + slack)
        pure = not claimed.delta and largest > claimed.epsilon + slack
        if pure or mass > claimed.delta * (1.0 + _NUMERICAL):
            named = None if support == REFUSAL else support
            found.append(Violation(number, (i, j), named, largest, mass))
        epsilon, delta = max(epsilon, largest), max(delta, mass)
    if not count:
        raise InputError("there is no pair of tables to compare: give at least one neighbour")
    return ExactReport(claimed, count, epsilon, delta, tuple(found))


def ratio(first: Law, second: Law) -> tuple[tuple[int, ...], float]:
    """Return the outcome with the largest log ratio, either way, and that ratio."""
    outcomes = sorted(first.keys() | second.keys())
    a, b = (np.array([law.get(o, -math.inf) for o in outcomes]) for law in (first, second))
    with np.errstate(invalid="ignore"):
        gaps = np.where(a == b, 0.0, np.abs(a - b))
    worst = int(np.argmax(gaps))
    return outcomes[worst], float(gaps[worst])


def excess(first: Law, second: Law, epsilon: float) -> float:
    """Return delta: the largest mass of one distribution beyond e^epsilon times the other."""

    def one_way(p: Law, q: Law) -> float:
        over = (
            math.exp(log) * -math.expm1(min(0.0, epsilon + q.get(outcome, -math.inf) - log))
            for outcome, log in p.items()
            if log > -math.inf
        )
        return math.fsum(over)

    return max(one_way(first, second), one_way(second, first))


def _check_alike(first: Problem, other: Problem) -> None:
    def public(problem: Problem) -> tuple[Any, ...]:
        shape = (
            problem.size,
            problem.design.n_columns,
            problem.groups,
            problem.include,
            problem.exclude,
            problem.false_columns,
        )
        ridge = problem.fixed_ridge, problem.row_ridge
        return (*shape, ridge, repr(problem.loss), problem.public_bounds)

    if public(first) != public(other):
        raise InputError(
            "neighbouring problems differ in their rows only: size, columns, loss, bounds, radius "
            "and ridge must be the same"
        )
