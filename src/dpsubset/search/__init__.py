"""Search: the best support, the R best, the best at every number of mistakes, all proven (T17)."""

from __future__ import annotations

import math
import numbers
from itertools import combinations, islice

import numpy as np

from dpsubset.cuts import CutMaker, cut_maker
from dpsubset.cuts.region import Region, patterns, root
from dpsubset.cuts.start import complete, start
from dpsubset.cuts.twins import Thinned, thin
from dpsubset.errors import InputError
from dpsubset.limits import Budget, Limits, Progress, ProgressCallback
from dpsubset.problem import Problem
from dpsubset.search.found import Found
from dpsubset.search.tree import Shortlist, Tree

__all__ = ["Found", "Limits", "Progress", "best", "best_by_mistakes", "top"]

_MOST_STARTS = 32  # greedy starts of a bucket
_FEW_STARTS = 2  # the same where gains are estimates and scores take fits
_MOST_PATTERNS = 8  # 2^8 starting regions at most


def best(
    problem: Problem, *, limits: Limits | None = None, progress: ProgressCallback | None = None
) -> Found:
    """Return the support of smallest score.

    >>> import numpy as np
    >>> X = np.eye(4); y = np.array([0.0, 1.0, 0.0, 0.5])
    >>> best(Problem(X, y, size=2, x_bound=1.0, y_bound=1.0, radius=2.0)).support
    (1, 3)
    """
    return top(problem, 1, limits=limits, progress=progress)[0]


def top(
    problem: Problem,
    count: int,
    *,
    limits: Limits | None = None,
    progress: ProgressCallback | None = None,
) -> list[Found]:
    """Return the `count` supports of smallest score, ascending (all, if there are fewer)."""
    if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < 1:
        raise InputError(f"count must be a whole number of at least 1, not {count!r}")
    return _top(problem, int(count), Budget(limits, progress))


def _top(problem: Problem, count: int, budget: Budget) -> list[Found]:
    if problem.quadratic and problem.gram.affordable:
        problem.gram.full()
    thinned = thin(problem)
    reduced = thinned.problem
    shortlist = _shortlist(reduced, min(count, reduced.n_supports))
    maker = cut_maker(reduced)
    seed = start(maker)
    _seed_with_swaps(maker, shortlist, seed)
    tree = Tree(maker, shortlist, budget)
    proven = tree.run(_partition(reduced, seed))
    found = shortlist.found(proven)
    return found if reduced is problem else _with_images(thinned, found, count)


def _with_images(thinned: Thinned, found: list[Found], count: int) -> list[Found]:
    """Add the supports that were left out for being copies of others, best first."""
    out: dict[tuple[int, ...], Found] = {}
    for entry in found:
        if entry.support in out:
            continue
        for support in thinned.images(entry.support):
            if len(out) == count:
                return list(out.values())
            out.setdefault(support, Found(support, entry.score, entry.proven))
    return list(out.values())


def best_by_mistakes(
    problem: Problem, *, limits: Limits | None = None, progress: ProgressCallback | None = None
) -> list[Found]:
    """Return, for k = 0, 1, ..., the best support with k columns outside the best support."""
    budget = Budget(limits, progress)
    first = _top(problem, 1, budget)[0]
    out = [first]
    reduced = thin(problem, first.support).problem
    maker = cut_maker(reduced)
    maker.settle(first.support)
    for mistakes in range(1, problem.to_choose + 1):
        regions = patterns(reduced, first.support, mistakes)
        if not regions:
            break
        shortlist = _shortlist(reduced, 1)
        for region in _first_patterns(maker, first.support, mistakes):
            support = complete(maker, region)
            shortlist.offer(np.array(support, dtype=np.int64), problem.score(support))
        tree = Tree(maker, shortlist, budget)
        proven = tree.run(regions) and first.proven
        out += shortlist.found(proven)
    return out


def _first_patterns(maker: CutMaker, support: tuple[int, ...], mistakes: int) -> list[Region]:
    """Return a few parts of a bucket, those that drop the columns of least worth first."""
    problem = maker.problem
    chosen = [j for j in support if j not in problem.include]
    worth = {j: maker.gains(tuple(k for k in support if k != j))[j] for j in chosen}
    order = sorted(chosen, key=lambda j: -worth[j])
    others = problem.free[~np.isin(problem.free, chosen)]
    most = _MOST_STARTS if problem.quadratic else _FEW_STARTS
    kept = islice(combinations(order, len(chosen) - mistakes), most)
    return [Region((*problem.include, *part), others, problem.size) for part in kept]


def _shortlist(problem: Problem, count: int) -> Shortlist:
    return Shortlist(count, problem.size, problem.n_columns)


def _partition(problem: Problem, seed: tuple[int, ...]) -> list[Region]:
    """Return all patterns over the seed when they are few, else the region of all supports."""
    if problem.to_choose > _MOST_PATTERNS:
        return [root(problem)]
    return [r for k in range(problem.to_choose + 1) for r in patterns(problem, seed, k)]


def _seed_with_swaps(maker: CutMaker, shortlist: Shortlist, seed: tuple[int, ...]) -> None:
    """Offer the seed and all its one-swaps, so that the threshold starts low."""
    problem = maker.problem
    shortlist.offer(np.array(seed, dtype=np.int64), problem.score(seed))
    if math.isfinite(shortlist.worst):
        return
    for region in patterns(problem, seed, 1):
        if region.partial:  # too many patterns to go through one by one
            continue
        support = np.empty(problem.size, dtype=np.int64)
        inside = region.inside[: problem.size - 1]
        columns = region.free if region.free.size else np.array(region.inside[-1:], dtype=np.intp)
        support[:-1] = inside
        scores = maker.extended(inside, columns)
        for column, score in zip(columns, scores, strict=True):
            support[-1] = column
            shortlist.offer(support, float(score))
