"""Good supports quickly: greedy, swaps, iterative hard thresholding. They never decide a law."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsubset.cuts.reduced import Reduced, multiplier, reduce
from dpsubset.cuts.region import Region, root
from dpsubset.problem import Problem

__all__ = ["complete", "start", "steady"]

_SWEEPS = 12  # over the columns of a support
_AHEAD = 8  # Gram columns fetched together: one pass over the table costs as much as a few


def steady(problem: Problem) -> float:
    """Return the smallest multiplier that keeps eliminations well conditioned (T19)."""
    gram = problem.gram
    scale = max(float(np.max(gram.diagonal, initial=0.0)), 1e-3 * problem.x_bound**2)
    floor = 1e-6 * scale
    smallest = gram.smallest or 0.0
    return 0.0 if problem.ridge + smallest >= floor else floor


def start(problem: Problem) -> tuple[tuple[int, ...], float]:
    """Return a good support and the multiplier of the ball there."""
    region = root(problem)
    mu = steady(problem)
    best = complete(problem, region, mu)
    active = multiplier(problem, best)
    if active > mu:
        best = min(best, complete(problem, region, active), key=problem.score)
    if problem.gram.held and problem.to_choose > 1:
        thresholded = _hard_thresholding(problem, best)
        other = _swaps(problem, region, thresholded, max(active, mu))
        best = min(best, other, key=problem.score)
    return best, multiplier(problem, best)


def complete(problem: Problem, region: Region, mu: float) -> tuple[int, ...]:
    """Fill a region's support greedily, then improve it by swaps inside the region."""
    chosen: list[int] = []
    for _ in range(region.to_choose):
        reduced = _reduce_ahead(problem, region, chosen, mu)
        gains = np.where(_open(region, chosen), reduced.single_gains()[region.free], -1.0)
        chosen.append(int(region.free[int(np.argmax(gains))]))
    return _swaps(problem, region, (*region.inside, *chosen), mu)


def _open(region: Region, chosen: list[int]) -> NDArray[np.bool_]:
    return ~np.isin(region.free, chosen)


def _reduce_ahead(problem: Problem, region: Region, chosen: list[int], mu: float) -> Reduced:
    """Eliminate the chosen columns; likely next ones have their Gram columns fetched with them."""
    inside = (*region.inside, *chosen)
    if problem.gram.lacks(inside):
        quick = problem.correlations**2 / (problem.gram.diagonal + problem.ridge + mu)
        likely = region.free[np.argsort(-quick[region.free])[:_AHEAD]]
        problem.gram.columns(np.unique(np.concatenate([np.array(inside, dtype=np.intp), likely])))
    return reduce(problem, inside, mu)


def _swaps(
    problem: Problem, region: Region, support: tuple[int, ...], mu: float
) -> tuple[int, ...]:
    """Exchange one column at a time for the best other one until nothing gains.

    A gain must stand out from rounding, and there is an end to it: ties could go round for ever.
    """
    fixed = set(region.inside)
    current = list(support)
    places = [i for i, j in enumerate(current) if j not in fixed]
    stale = 0
    noise = 1e-9 * problem.energy
    for place in places * _SWEEPS:
        others = current[:place] + current[place + 1 :]
        gains = reduce(problem, tuple(others), mu).single_gains()[region.free]
        gains[np.isin(region.free, others)] = -1.0
        candidate = int(region.free[int(np.argmax(gains))])
        here = gains[np.searchsorted(region.free, current[place])]
        stale += 1
        if candidate != current[place] and gains.max() > here + noise:
            current[place] = candidate
            stale = 1
        if stale >= len(places):
            break
    return tuple(sorted(current))


def _hard_thresholding(problem: Problem, support: tuple[int, ...]) -> tuple[int, ...]:
    """Take projected gradient steps from zero, keeping the largest coefficients."""
    G, b = problem.gram.full(), problem.correlations
    included = np.array(problem.include, dtype=np.intp)
    step = 1.0 / (float(np.linalg.norm(G, ord=np.inf)) + problem.ridge + 1e-300)
    beta = np.zeros(b.size)
    previous: tuple[int, ...] = support
    for _ in range(60):
        active = np.flatnonzero(beta)
        gradient = b - beta[active] @ G[active] - problem.ridge * beta
        moved = beta + 4 * step * gradient
        free = problem.free
        kept = free[np.argsort(-np.abs(moved[free]), kind="stable")[: problem.to_choose]]
        index = np.concatenate([included, kept])
        beta = np.zeros(b.size)
        beta[index] = moved[index]
        now = tuple(sorted(int(j) for j in index))
        if now == previous:
            break
        previous = now
    return previous
