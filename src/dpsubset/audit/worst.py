"""A search for the neighbour that a mechanism tells apart best, over rows at the corners."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.audit.exact import ExactReport, Laws, exact, excess, ratio
from dpsubset.audit.tables import corner_rows, rows_of, with_rows
from dpsubset.checks import whole
from dpsubset.errors import InputError
from dpsubset.mechanisms import Mechanism
from dpsubset.problem import Problem

__all__ = ["worst"]


def worst(
    mechanism: Mechanism, problem: Problem, *, starts: int = 4, random_state: int = 0
) -> tuple[Problem, ExactReport]:
    """Return the worst neighbour found, and its exact audit.

    From corners drawn at random, one entry after the other is turned to its other end as long as
    the distributions move apart: in the largest log ratio, and with delta in the mass beyond
    epsilon. Under add-remove every row is removed once, too.

    Parameters
    ----------
    mechanism : Mechanism
        What is audited.
    problem : Problem
        A small problem.
    starts : int
        From how many random corners to climb.
    random_state : int
        Where these begin.

    Returns
    -------
    (Problem, ExactReport)
        The worst neighbour, and its audit.

    Examples
    --------
    >>> from dpsubset import Exponential, Problem
    >>> X = np.eye(3); problem = Problem(X, X[:, 0], size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> 0.1 < worst(Exponential(1.0), problem)[1].epsilon <= 1.0
    True
    """
    rng = np.random.default_rng(random_state)
    rows, laws = rows_of(problem), Laws()
    if not len(rows) and mechanism.neighbours == "replace-one":
        raise InputError("a table without rows has no row to replace")
    promise = mechanism.guarantee(problem)
    own = laws.of(mechanism, problem)
    added = mechanism.neighbours == "add-remove"

    def apart(candidate: Problem) -> tuple[float, float]:
        law = laws.of(mechanism, candidate)
        beyond = excess(own, law, promise.epsilon) if promise.delta else 0.0
        return beyond, ratio(own, law)[1]

    def table(place: int, row: Floats) -> Problem:
        if added:
            return with_rows(problem, np.vstack([rows, row]))
        changed = rows.copy()
        changed[place] = row
        return with_rows(problem, changed)

    tried = []
    if added:
        tried = [with_rows(problem, np.delete(rows, i, axis=0)) for i in range(len(rows))]
    for row in corner_rows(problem, whole(starts, "starts", 1), rng):
        place = int(rng.integers(max(len(rows), 1)))
        tried.append(_climb(partial(table, place), row, apart))
    best = max(tried, key=apart)
    return best, exact(mechanism, problem, [best], laws)


def _climb(
    table: Callable[[Floats], Problem], row: Floats, apart: Callable[[Problem], tuple[float, float]]
) -> Problem:
    """Turn one entry after the other as long as the distributions move apart."""
    best = table(row)
    value, moved = apart(best), True
    while moved:
        moved = False
        for j in range(row.size):
            turned = row.copy()
            turned[j] *= -1
            candidate = table(turned)
            if (reached := apart(candidate)) > value:
                row, best, value, moved = turned, candidate, reached, True
    return best
