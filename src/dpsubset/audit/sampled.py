"""An audit by draws: a lower bound on epsilon that holds with confidence, at any size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from dpsubset.audit.tables import check_neighbour, row_counts
from dpsubset.checks import positive, whole
from dpsubset.errors import DpsubsetError, InputError
from dpsubset.mechanisms import Mechanism
from dpsubset.problem import Problem

__all__ = ["SampledReport", "sampled"]

Draw = Callable[[Problem, int, np.random.Generator | None], Iterable[Hashable]]


@dataclass(frozen=True)
class SampledReport:
    """A lower bound on epsilon, at a confidence, against what is claimed.

    Parameters
    ----------
    epsilon : float
        What epsilon is at least.
    confidence : float
        The chance that this holds.
    draws : int
        How many draws were made of each table.
    claimed_epsilon : float
        What is claimed.
    claimed_delta : float
        The delta that is claimed.

    Examples
    --------
    >>> SampledReport(0.4, 0.99, 1000, claimed_epsilon=1.0, claimed_delta=0.0).passed
    True
    """

    epsilon: float
    confidence: float
    draws: int
    claimed_epsilon: float
    claimed_delta: float

    @property
    def passed(self) -> bool:
        """Whether the bound does not contradict the guarantee."""
        return self.epsilon <= self.claimed_epsilon

    def __str__(self) -> str:
        said = "PASSED" if self.passed else "VIOLATED"
        return (
            f"Sampled audit: {said}. With confidence {self.confidence:g} epsilon is at least "
            f"{self.epsilon:.4g} (claimed {self.claimed_epsilon:.6g}, delta "
            f"{self.claimed_delta:.3g}), by {self.draws} draws from each of two tables."
        )


def sampled(
    mechanism: Mechanism | Draw,
    problem: Problem,
    neighbour: Problem,
    *,
    draws: int = 10_000,
    confidence: float = 0.95,
    random_state: int | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
) -> SampledReport:
    """Bound epsilon from below by Clopper-Pearson intervals, for delta as claimed.

    One half of the draws chooses a set of outcomes, the other half bounds its chances on both
    tables; both directions are tried, and share the risk. A mechanism is drawn from as it is; a
    function gets a problem, a number and a generator, and returns so many outcomes, in which case
    the claimed epsilon and delta are to be given.

    Parameters
    ----------
    mechanism : Mechanism or callable
        What is audited; a function gets a problem, a number and a generator.
    problem : Problem
        A table.
    neighbour : Problem
        A neighbouring one.
    draws : int
        How many draws are made of each.
    confidence : float
        The chance that the bound holds.
    random_state : int, optional
        Where the draws begin; by default the operating system says.
    epsilon : float, optional
        What is claimed, if a function is audited.
    delta : float
        The delta that is claimed, if a function is audited.

    Returns
    -------
    SampledReport
        A lower bound on epsilon, against what is claimed.

    Examples
    --------
    >>> from dpsubset import Exponential, Problem
    >>> from dpsubset.audit import neighbouring
    >>> X = np.eye(3); problem = Problem(X, X[:, 0], size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> other = neighbouring(problem, 1)[0]
    >>> sampled(Exponential(1.0), problem, other, draws=1000, random_state=0).passed
    True
    """
    half = whole(draws, "draws", 2) // 2
    risk = 1.0 - confidence
    if not 0.0 < risk < 1.0:
        raise InputError(f"confidence must lie between 0 and 1, not {confidence!r}")
    if isinstance(mechanism, Mechanism):
        promise = mechanism.guarantee(problem)
        check_neighbour(row_counts(problem), row_counts(neighbour), promise.neighbours)
        epsilon, delta = promise.epsilon, promise.delta
    elif epsilon is None:
        raise InputError("give the epsilon that the function claims")
    rng = None if random_state is None else np.random.default_rng(random_state)
    counts = [
        [Counter(_outcomes(mechanism, table, half, rng)) for table in (problem, neighbour)]
        for _ in range(2)
    ]
    found = 0.0
    for way in (1, -1):
        (p, q), (tested_p, tested_q) = (pair[::way] for pair in counts)
        event = _event(p, q, half, delta, risk / 4)
        low = _bound(sum(tested_p[o] for o in event), half, risk / 4, lower=True)
        high = _bound(sum(tested_q[o] for o in event), half, risk / 4, lower=False)
        if low > delta:
            found = max(found, math.log((low - delta) / high))
    return SampledReport(found, confidence, 2 * half, positive(epsilon, "epsilon"), delta)


def _outcomes(
    mechanism: Mechanism | Draw, problem: Problem, count: int, rng: np.random.Generator | None
) -> list[Hashable]:
    try:
        if isinstance(mechanism, Mechanism):
            return [tuple(row) for row in mechanism.draw(problem, count, rng).tolist()]
        return list(mechanism(problem, count, rng))
    except DpsubsetError as error:  # an outcome, too, with its words; each draw by itself
        if count == 1:
            return [f"{type(error).__name__}: {error}"]
    return [outcome for _ in range(count) for outcome in _outcomes(mechanism, problem, 1, rng)]


def _event(
    p: Counter[Hashable], q: Counter[Hashable], count: int, delta: float, risk: float
) -> set[Hashable]:
    """Return the outcomes, from the largest ratio down, whose bound would be largest."""
    order = sorted(p.keys() | q.keys(), key=lambda o: (-(p[o] + 0.5) / (q[o] + 0.5), repr(o)))
    best, size, above, below = -math.inf, 1, 0, 0
    for number, outcome in enumerate(order, 1):
        above, below = above + p[outcome], below + q[outcome]
        low, high = _bound(above, count, risk, lower=True), _bound(below, count, risk, lower=False)
        reached = math.log((low - delta) / high) if low > delta else -math.inf
        if reached > best:
            best, size = reached, number
    return set(order[:size])


def _bound(count: int, total: int, risk: float, *, lower: bool) -> float:
    """Return Clopper and Pearson's one-sided bound on a chance.

    >>> round(_bound(0, 100, 0.05, lower=False), 4)
    0.0295
    """
    if lower:
        return float(beta.ppf(risk, count, total - count + 1)) if count else 0.0
    return float(beta.ppf(1.0 - risk, count + 1, total - count)) if count < total else 1.0
