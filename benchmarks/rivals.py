"""What the baselines cost at the paper's settings: the Markov chain, and sample and aggregate."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp

from benchmarks.conic import conic_fit, solved
from benchmarks.measured import Row, clipped_table, problem_of, time_best
from dpsubset.arrays import Floats
from dpsubset.losses import Squared
from dpsubset.mechanisms import Exponential, MarkovChain, SampleAggregate

__all__ = ["conic_moments", "rival_rows"]

SIZE, RIDGE, RADIUS, STEPS, CALLS = 5, 120.0, 1.1, 1000, 20
_AGREE = 1e-6  # the solver's own precision is 1e-8


def conic_moments(columns: Floats, y: Floats, ridge: float, radius: float) -> float:
    """Return R(S) by Clarabel from the moments of the columns: the kindest way to ask it.

    >>> import numpy as np
    >>> round(conic_moments(np.eye(3), np.ones(3), 1.0, 5.0), 6)
    1.5
    """
    k = columns.shape[1]
    P = sp.triu(2.0 * (columns.T @ columns + ridge * np.eye(k)), format="csc")
    A = sp.vstack([sp.csc_matrix((1, k)), -sp.eye(k)])
    b = np.concatenate([[radius], np.zeros(k)])
    cones = [clarabel.SecondOrderConeT(k + 1)]
    value = solved(P, -2.0 * (columns.T @ y), sp.csc_matrix(A), b, cones)
    return value + float(y @ y)


def rival_rows(quick: bool = False) -> Iterator[Row]:
    """Measure, all in one run: a chain against a solver's call a step; sample and aggregate."""
    n, p = (500, 30) if quick else (5000, 100)
    X, y = clipped_table(n, p, size=SIZE)
    at = f"p={p}, n={n}, s={SIZE}"

    def draw(mechanism: Any) -> None:
        mechanism.draw(problem_of(X, y, SIZE, RIDGE), 1, random_state=1)

    chain = time_best(partial(draw, MarkovChain(1.0, steps=STEPS)))
    unit = f"{STEPS} steps of the chain"
    for what, fit in (("the rows", partial(conic_fit, Squared())), ("the moments", conic_moments)):
        seconds = _calls(X, y, fit) * STEPS
        case = f"{STEPS} steps, each a call of Clarabel on {what}; {at}"
        yield Row(case, seconds, unit, chain, at_least=100.0)
    yield Row(
        f"exact draw of the same distribution; {at}",
        time_best(partial(draw, Exponential(1.0))),
        unit,
        chain,
    )
    seconds = time_best(partial(draw, SampleAggregate(1.0)), repeats=1 if quick else 3)
    yield Row(f"sample and aggregate, its own number of blocks; {at}", seconds, unit, chain)


def _calls(X: Any, y: Floats, fit: Any) -> float:
    """Return the seconds of one call, over supports that a chain might meet."""
    rng = np.random.default_rng(0)
    supports = [rng.choice(X.shape[1], SIZE, replace=False) for _ in range(CALLS)]
    problem = problem_of(X, y, SIZE, RIDGE)
    for support in supports:
        ours = problem.score(support)
        if abs(fit(X[:, support], y, RIDGE, RADIUS) - ours) > _AGREE * ours:
            raise RuntimeError("the solver's score and ours differ")

    def call_all() -> None:
        for support in supports:
            fit(X[:, support], y, RIDGE, RADIUS)

    return time_best(call_all, repeats=2) / CALLS
