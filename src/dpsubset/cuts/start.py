"""Good supports quickly: greedy, swaps, iterative hard thresholding. They never decide a law."""

from __future__ import annotations

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.cuts.cut import CutMaker
from dpsubset.cuts.region import Region, root
from dpsubset.problem import Problem

__all__ = ["complete", "start"]

_SWEEPS = 12  # over the columns of a support


def start(maker: CutMaker) -> tuple[int, ...]:
    """Return a good support, and let the maker take note of it."""
    problem = maker.problem
    region = root(problem)
    best = complete(maker, region)
    if maker.settle(best):
        best = min(best, complete(maker, region), key=problem.score)
    if problem.quadratic and problem.gram.held and problem.to_choose > 1:
        other = _swaps(maker, region, _hard_thresholding(problem, best))
        best = min(best, other, key=problem.score)
    maker.settle(best)
    return best


def complete(maker: CutMaker, region: Region) -> tuple[int, ...]:
    """Fill a region's support greedily, then improve it by swaps inside the region."""
    chosen: list[int] = []
    for _ in range(region.to_choose):
        inside = (*region.inside, *chosen)
        gains = maker.gains(inside)[region.free]
        gains[np.isin(region.free, chosen)] = -1.0
        chosen.append(int(region.free[int(np.argmax(gains))]))
    return _swaps(maker, region, (*region.inside, *chosen))


def _swaps(maker: CutMaker, region: Region, support: tuple[int, ...]) -> tuple[int, ...]:
    """Exchange one column at a time for one of those of largest gain until nothing improves.

    A gain must stand out from rounding, and there is an end to it: ties could go round for ever.
    """
    problem = maker.problem
    fixed = set(region.inside)
    current = list(support)
    places = [i for i, j in enumerate(current) if j not in fixed]
    here = problem.score(current)
    noise = 1e-9 * problem.n_rows * problem.sensitivity()
    stale = 0
    for place in places * _SWEEPS:
        others = current[:place] + current[place + 1 :]
        gains = maker.gains(tuple(others))[region.free]
        lowest = maker.trust * gains[np.searchsorted(region.free, current[place])]
        gains[np.isin(region.free, current)] = -1.0
        stale += 1
        for candidate in _first(gains, maker.tries):
            if not gains[candidate] > lowest:
                break
            swapped = [*current]
            swapped[place] = int(region.free[candidate])
            score = problem.score(swapped)
            if score < here - noise:
                current, here, stale = swapped, score, 1
        if stale >= len(places):
            break
    return tuple(sorted(current))


def _first(gains: Floats, count: int) -> list[int]:
    count = min(count, gains.size)
    top = np.argpartition(-gains, count - 1)[:count] if count else np.empty(0, dtype=np.intp)
    return [int(i) for i in top[np.argsort(-gains[top], kind="stable")]]


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
