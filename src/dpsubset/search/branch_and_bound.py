"""Our own search: the best supports of all, or at a number of mistakes, proven exactly (T17)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsubset.cuts import CutMaker, cut_maker
from dpsubset.cuts.region import Region, patterns, root
from dpsubset.cuts.start import in_bucket, start
from dpsubset.cuts.twins import Thinned, thin
from dpsubset.limits import Allowance, OutOfTime
from dpsubset.problem import Problem
from dpsubset.search.bending_tree import tree_for
from dpsubset.search.found import Found
from dpsubset.search.solver import Solver
from dpsubset.search.tree import Shortlist

__all__ = ["BranchAndBound"]

_MOST_PATTERNS = 8  # 2^8 starting regions at most
_LIKELY = 32  # columns of largest gain that are scored before the others


class BranchAndBound(Solver):
    """The default: every answer is exact, up to rounding (T19).

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Problem
    >>> X = np.eye(4); y = np.array([0.0, 1.0, 0.0, 0.5])
    >>> problem = Problem(X, y, size=2, x_bound=1.0, y_bound=1.0, radius=2.0)
    >>> from dpsubset import search
    >>> search.best(problem, solver=BranchAndBound()).support
    (1, 3)
    """

    name = "branch-and-bound"

    def top(self, problem: Problem, count: int, allowance: Allowance) -> list[Found]:
        problem = problem.within(allowance)
        thinned = thin(problem)
        reduced = thinned.problem
        shortlist = _shortlist(reduced, min(count, reduced.n_supports))
        seed: tuple[int, ...] = ()
        try:
            maker = cut_maker(reduced, hard=True)
            seed = start(maker)
            shortlist.offer(np.array(seed, dtype=np.int64), reduced.score(seed))
            regions = _partition(reduced, seed)
            if len(regions) == 1 and count > 1:
                _offer_swaps(maker, shortlist, seed)
            bound = tree_for(maker, shortlist, allowance).run(regions)
        except OutOfTime:
            bound = -math.inf
        if not shortlist.filled:
            _offer_any(reduced, shortlist, seed)
        found = shortlist.found(bound, problem.slack)
        return found if reduced is problem else _with_images(thinned, found, count)

    def by_mistakes(self, problem: Problem, allowance: Allowance) -> list[Found]:
        first = self.top(problem, 1, allowance)[0]
        out = [first]
        problem = problem.within(allowance)
        reduced = thin(problem, first.support).problem
        maker = cut_maker(reduced)
        maker.settle(first.support)
        for mistakes in range(1, problem.to_choose + 1):
            regions = patterns(reduced, first.support, mistakes)
            if not regions:
                break
            shortlist = _shortlist(reduced, 1)
            try:
                for support in in_bucket(maker, first.support, mistakes, maker.starts):
                    shortlist.offer(np.array(support, dtype=np.int64), problem.score(support))
                bound = tree_for(maker, shortlist, allowance).run(regions)
            except OutOfTime:
                bound = -math.inf
            if not shortlist.filled:
                _offer_any_with(problem, shortlist, first.support, mistakes)
            found = shortlist.found(bound, problem.slack)
            out += [replace(f, proven=f.proven and first.proven) for f in found]
        return out


def _offer_any(problem: Problem, shortlist: Shortlist, seed: tuple[int, ...]) -> None:
    """Offer the seed, or the features of largest |X'y|: the seconds were over before any score.

    An answer needs one, so this fit is not limited.
    """
    strength = problem.features.sum(problem.correlations**2)[problem.free]
    chosen = problem.free[np.argsort(-strength, kind="stable")[: problem.to_choose]]
    support = np.array(seed or (*problem.include, *chosen), dtype=np.int64)
    shortlist.offer(support, problem.within(Allowance(None)).score(support))


def _offer_any_with(
    problem: Problem, shortlist: Shortlist, best: tuple[int, ...], mistakes: int
) -> None:
    """Offer one support with so many columns outside the best; no time was left for any other."""
    inside = [j for j in best if j not in problem.include]
    others = [int(j) for j in problem.free if j not in inside][:mistakes]
    kept = [*problem.include, *inside[: len(inside) - mistakes], *others]
    support = np.array(sorted(kept), dtype=np.int64)
    shortlist.offer(support, problem.within(Allowance(None)).score(support))


def _with_images(thinned: Thinned, found: list[Found], count: int) -> list[Found]:
    """Add the supports that were left out for being copies of others, best first."""
    out: dict[tuple[int, ...], Found] = {}
    for entry in found:
        if entry.support in out:
            continue
        for support in thinned.images(entry.support):
            if len(out) == count:
                return list(out.values())
            out.setdefault(support, replace(entry, support=support))
    return list(out.values())


def _shortlist(problem: Problem, count: int) -> Shortlist:
    return Shortlist(count, problem.size, problem.n_columns)


def _partition(problem: Problem, seed: tuple[int, ...]) -> list[Region]:
    """Return all patterns over the seed when they are few, else the region of all supports.

    A tree goes through them in this order, so that a long list is soon full of good supports.
    """
    if problem.to_choose > _MOST_PATTERNS:
        return [root(problem)]
    return [r for k in range(problem.to_choose + 1) for r in patterns(problem, seed, k)]


def _offer_swaps(maker: CutMaker, shortlist: Shortlist, seed: tuple[int, ...]) -> None:
    """Offer all one-swaps of a seed, so that the threshold starts low."""
    problem = maker.problem
    for region in patterns(problem, seed, 1):
        if region.partial:  # too many patterns to go through one by one
            continue
        support = np.empty(problem.size, dtype=np.int64)
        inside = region.inside[: problem.size - 1]
        columns = region.free if region.free.size else np.array(region.inside[-1:], dtype=np.intp)
        support[:-1] = inside
        for part in _likely_first(maker, inside, columns, shortlist.scores.size):
            scores = maker.extended(inside, part, shortlist.worst)
            for column, score in zip(part, scores, strict=True):
                support[-1] = column
                shortlist.offer(support, float(score))


def _likely_first(
    maker: CutMaker, inside: tuple[int, ...], columns: NDArray[np.intp], room: int
) -> list[NDArray[np.intp]]:
    """Part columns so that a list may be full after the first part, and spare fits of the others.

    Moments tell all scores at once.
    """
    first = max(_LIKELY, room)
    if maker.problem.quadratic or columns.size <= first:
        return [columns]
    order = np.argsort(-maker.gains(inside)[columns], kind="stable")
    return [columns[order[:first]], columns[order[first:]]]
