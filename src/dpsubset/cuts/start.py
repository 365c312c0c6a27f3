"""Good supports quickly: greedy, swaps, iterative hard thresholding.

They never decide a distribution.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.cuts.cut import CutMaker
from dpsubset.cuts.region import Region, root
from dpsubset.limits import OutOfTime
from dpsubset.problem import Problem

__all__ = ["complete", "hard_thresholding", "in_bucket", "start"]

_SWEEPS = 12  # over the columns of a support
_THRESHOLDINGS = 60
_SAMPLE = 64  # columns whose inner products tell how long a gradient step may be
_LONG = 4.0  # the row sums that bound an eigenvalue are too cautious


def start(maker: CutMaker) -> tuple[int, ...]:
    """Return a good support, and let the maker take note of it."""
    problem = maker.problem
    region = root(problem)
    best = complete(maker, region)
    if maker.settle(best):
        best = min(best, complete(maker, region), key=problem.score)
    if problem.quadratic and problem.gram.held and problem.to_choose > 1:
        other = _swaps(maker, region, hard_thresholding(problem))
        best = min(best, other, key=problem.score)
    maker.settle(best)
    return best


def complete(maker: CutMaker, region: Region) -> tuple[int, ...]:
    """Fill a region's support greedily, then improve it by swaps inside the region."""
    chosen: list[int] = []
    for _ in range(region.to_choose):
        maker.problem.allowance.check()
        inside = (*region.inside, *chosen)
        gains = maker.gains(inside)[region.free]
        gains[np.isin(region.free, chosen)] = -1.0
        chosen.append(int(region.free[int(np.argmax(gains))]))
    return _swaps(maker, region, (*region.inside, *chosen))


def in_bucket(
    maker: CutMaker, support: tuple[int, ...], mistakes: int, most: int
) -> list[tuple[int, ...]]:
    """Return good supports with some columns of `support` exchanged, those of least worth first."""
    problem = maker.problem
    chosen = [j for j in support if j not in problem.include]
    others = problem.free[~np.isin(problem.free, chosen)]
    if mistakes > min(len(chosen), others.size):
        return []
    worth = {j: maker.gains(tuple(k for k in support if k != j))[j] for j in chosen}
    order = sorted(chosen, key=lambda j: -worth[j])
    kept = islice(combinations(order, len(chosen) - mistakes), most)
    parts = [Region((*problem.include, *part), others, problem.size) for part in kept]
    found: list[tuple[int, ...]] = []
    for part in parts:
        if found and problem.allowance.over:
            break
        found.append(complete(maker, part))
    return found


def _swaps(maker: CutMaker, region: Region, support: tuple[int, ...]) -> tuple[int, ...]:
    """Exchange one column at a time for one of those of largest gain until nothing improves.

    A gain must stand out from rounding, and there is an end to it: ties could go round for ever.
    When the seconds are over, the best so far serves as well.
    """
    current = list(support)
    with suppress(OutOfTime):
        _improve(maker, region, current)
    return tuple(sorted(current))


def _improve(maker: CutMaker, region: Region, current: list[int]) -> None:
    """Do what `_swaps` does, in place."""
    problem = maker.problem
    fixed = set(region.inside)
    places = [i for i, j in enumerate(current) if j not in fixed]
    here = problem.score(current)
    noise = 1e-9 * problem.n_rows * problem.sensitivity("largest")
    stale = 0
    for place in places * _SWEEPS:
        problem.allowance.check()
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
                current[:], here, stale = swapped, score, 1
        if stale >= len(places):
            break


def _first(gains: Floats, count: int) -> list[int]:
    count = min(count, gains.size)
    top = np.argpartition(-gains, count - 1)[:count] if count else np.empty(0, dtype=np.intp)
    return [int(i) for i in top[np.argsort(-gains[top], kind="stable")]]


def hard_thresholding(problem: Problem) -> tuple[int, ...]:
    """Take gradient steps for squared loss from zero, keeping the largest coefficients.

    Labels are taken as numbers, and every loss as squared: a guess is all that is wanted.
    """
    if problem.to_choose == 0:
        return problem.include
    included = np.array(problem.include, dtype=np.intp)
    b, free, features = problem.correlations, problem.free, problem.features
    among = features.columns(free)
    likely = among[np.argsort(-np.abs(b[among]), kind="stable")[:_SAMPLE]]
    size = float(np.linalg.norm(problem.gram.block(likely), ord=np.inf))
    step = _LONG / (size + problem.ridge + 1e-300)
    support = index = np.empty(0, dtype=np.intp)
    beta = np.empty(0)
    for _ in range(_THRESHOLDINGS):
        moved = step * (b - _product(problem, index, beta))
        moved[index] += (1.0 - step * problem.ridge) * beta
        strength = np.abs(moved) if features.identity else features.sum(moved**2)
        kept = free[np.argsort(-strength[free], kind="stable")[: problem.to_choose]]
        now = np.sort(np.concatenate([included, kept]))
        if np.array_equal(now, support):
            break
        support, index = now, features.columns(now)
        beta = moved[index]
    return tuple(int(j) for j in support)


def _product(problem: Problem, index: NDArray[np.intp], beta: Floats) -> Floats:
    """Return X'X beta for coefficients on a few columns."""
    if problem.gram.held:
        return np.asarray(beta @ problem.gram.full()[index])
    return problem.design.correlate(beta @ problem.columns.rows(index))
