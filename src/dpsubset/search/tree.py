"""One branch and bound for all three questions: the best supports of a union of regions (T17)."""

from __future__ import annotations

import heapq
import math
import os
from dataclasses import replace
from itertools import count as counter

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.cuts import Cut, CutMaker
from dpsubset.cuts.curvature import diagonal_of, smallest_eigenvalue
from dpsubset.cuts.moments import MomentCut
from dpsubset.cuts.region import Region
from dpsubset.limits import Allowance, OutOfTime
from dpsubset.search.blocks import search_blocks
from dpsubset.search.found import Found
from dpsubset.search.heap import Heap, push
from dpsubset.search.kernel import Moments, Rest, Rule, explore

__all__ = ["Shortlist", "Tree"]

_MOST = 1200  # candidates handed to the compiled search at once
_SOME = 3  # larger regions, after which a diagonal below X'X is worth its time
_SMALL = 300  # candidates up to which the reduced matrix's own eigenvalues are worth their time
_NODES = 1_000_000  # of that search before the region is split instead
_HINTS = 25_000_000  # numbers that the dual points of open regions may hold
_BATCH = 64  # supports that are scored before a full list's threshold is looked at again
_SHARPNESS = 40.0  # of a cut that is to close a region, in units of the distance to the threshold


class Shortlist:
    """The best supports seen so far, at most `count`; the worst of a full list is the threshold."""

    def __init__(self, count: int, size: int, n_columns: int) -> None:
        self.scores = np.empty(count)
        self.keys = np.empty(count, dtype=np.uint64)
        self.supports = np.empty((count, size), dtype=np.int64)
        self.filled = 0
        self._seen = np.zeros(1 << (4 * count + 64).bit_length(), dtype=np.uint64)
        self._used = np.zeros(1, dtype=np.int64)
        # A support is known by the xor of its columns' words. They are drawn anew for every list,
        # so that no table can be made on which two supports of interest look the same.
        self.column_keys = np.frombuffer(os.urandom(8 * n_columns), dtype=np.uint64)

    @property
    def worst(self) -> float:
        """The score to beat."""
        return float(self.scores[0]) if self.filled == self.scores.size else math.inf

    @property
    def heap(self) -> Heap:
        """The arrays that the compiled search fills."""
        return Heap(self.scores, self.keys, self.supports, self._seen, self._used)

    def offer(self, support: NDArray[np.int64], score: float) -> None:
        """Take a support if it is among the best so far."""
        key = np.bitwise_xor.reduce(self.column_keys[support])
        self.filled = int(push(self.heap, self.filled, score, key, support))

    def found(self, bound: float, slack: float) -> list[Found]:
        """Return the list in ascending order; supports not on it score at least `bound`.

        A list that is short of entries, though some are left, proves nothing.
        """
        rows, scores = np.sort(self.supports[: self.filled], axis=1), self.scores[: self.filled]
        order = np.lexsort((*rows.T[::-1], scores))  # in arrays: a list may be very long
        rows, scores = rows[order], scores[order]
        complete = self.filled == self.scores.size or bound == math.inf
        gaps = np.maximum(scores - max(bound, 0.0), 0.0)
        proven = (gaps <= slack) & complete
        gaps[gaps <= slack] = 0.0
        columns = zip(rows.tolist(), scores.tolist(), proven.tolist(), gaps.tolist(), strict=True)
        return [Found(tuple(row), *rest) for row, *rest in columns]


class Tree:
    """Open regions in the order of their bounds; each is searched, split or dismissed."""

    def __init__(self, maker: CutMaker, shortlist: Shortlist, allowance: Allowance) -> None:
        self._maker = maker
        self._problem = maker.problem
        self._list = shortlist
        self._curvature = maker.curvature()
        self._settled = 0  # the key of the support whose multiplier of the ball bounds go by
        self._large = 0  # regions that were too large for a look at their own matrix
        self._allowance = allowance
        self._queue: list[tuple[float, int, Region, Floats | None]] = []
        self._ticket = counter()

    def run(self, regions: list[Region]) -> float:
        """Search the regions; return a bound on what is left in them, infinite at the end."""
        self._push(regions, -math.inf)
        while self._queue:
            bound, _, region, hint = self._queue[0]
            if self._closed(bound):
                break
            if self._allowance.over:
                return bound
            heapq.heappop(self._queue)
            try:
                self._expand(region, hint)
                if self._closes(regions):
                    break
            except OutOfTime:
                return bound
            best = float(self._list.scores[: self._list.filled].min(initial=math.inf))
            self._allowance.report(len(self._queue), best, bound)
        return math.inf

    def _closes(self, regions: list[Region]) -> bool:
        """Whether another way has proven the list in the meantime."""
        return False

    def _closed(self, bound: float) -> bool:
        # No score is below 0, and within the rounding slack two scores are equal: ties need not
        # be searched (T19).
        return max(bound, 0.0) + self._problem.slack >= self._list.worst

    def _expand(self, region: Region, hint: Floats | None) -> None:
        self._allowance.spend(1)
        if region.to_choose == 0 and not region.partial:
            support = np.array(region.inside, dtype=np.int64)
            self._list.offer(support, self._problem.score(region.inside))
            return
        self._settle()
        cut = self._maker.bound(region, hint)
        bound = cut.least
        if self._closed(bound):
            return
        if region.partial:
            self._push(region.decide(), bound)
            return
        if region.to_choose == 1:
            self._singles(cut)
            return
        cut = self._screen(cut)
        if cut.region.empty:
            return
        if isinstance(cut, MomentCut):
            if self._problem.features.widths[cut.region.free].sum() <= _MOST and self._search(cut):
                return
            column = int(cut.region.free[int(np.argmax(cut.weights))])
            self._maker.expect(cut.region, column, cut.weights)
        else:
            cut = self._screen(self._sharpened(cut))
            bound = max(bound, cut.least) if not cut.region.empty else math.inf
            if self._closed(bound):
                return
        column = int(cut.region.free[int(np.argmax(cut.weights))])
        self._push(cut.region.split(column), bound, cut.point)

    def _settle(self) -> None:
        """Have bounds nearest where the threshold is: the ball holds supports there otherwise."""
        known = self._maker.searchable and self._problem.gram.held
        if known and self._list.filled == self._list.scores.size:
            key, support = int(self._list.keys[0]), tuple(self._list.supports[0].tolist())
            if key != self._settled and support[0] >= 0:  # not a place that only holds a threshold
                self._settled = key
                self._maker.settle(support)

    def _push(self, parts: list[Region], bound: float, hint: Floats | None = None) -> None:
        if len(self._queue) * self._problem.n_rows > _HINTS:
            hint = None
        for part in parts:
            heapq.heappush(self._queue, (bound, next(self._ticket), part, hint))

    def _sharpened(self, cut: Cut) -> Cut:
        """Improve a cut where supports near the threshold count most (T12)."""
        distance = self._list.worst - cut.least
        if not math.isfinite(distance):
            return cut
        kappa = _SHARPNESS / max(distance, self._problem.slack)
        return self._maker.optimised(cut, kappa, worst=self._list.worst)

    def _singles(self, cut: Cut) -> None:
        """Score the supports of a region with one column to choose, likely ones first."""
        region = cut.region
        bounds = cut.constant - cut.weights
        order = np.argsort(bounds, kind="stable")
        support = np.empty(region.size, dtype=np.int64)
        support[:-1] = region.inside
        first = 0
        while first < order.size and not self._closed(float(bounds[order[first]])):
            self._allowance.check()
            lacking = self._list.scores.size - self._list.filled
            last = first + max(_BATCH, lacking)
            part = order[first:last]
            part = part[bounds[part] + self._problem.slack < self._list.worst]
            columns = region.free[part]
            scores = self._maker.extended(region.inside, columns, self._list.worst)
            for i in np.argsort(scores, kind="stable"):
                if scores[i] >= self._list.worst:
                    break
                support[-1] = columns[i]
                self._list.offer(support, float(scores[i]))
            first = last

    def _screen(self, cut: Cut) -> Cut:
        """Drop the columns that no support below the threshold can contain."""
        region, weights = cut.region, cut.weights
        t = region.to_choose
        if region.empty:
            return cut
        top = np.partition(weights, -t)[-t:]
        # With column j: its own weight and the t-1 largest of the others.
        best_with = np.where(weights >= top.min(), top.sum(), weights + top.sum() - top.min())
        kept = cut.constant - best_with + self._problem.slack < self._list.worst
        region = Region(region.inside, region.free[kept], region.size)
        return replace(cut, region=region, weights=weights[kept])

    def _search(self, cut: MomentCut) -> bool:
        """Run the compiled search on a region; False when its nodes ran out."""
        if not self._problem.features.identity:
            given = self._problem, cut, self._curvature, self._list, self._allowance
            return search_blocks(*given, _NODES)
        reduced = cut.reduced
        problem, index = self._problem, reduced.inside
        scales, smallest = self._scaled(cut)
        strength = np.abs(reduced.correlations[cut.region.free]) * scales
        order = np.argsort(-strength, kind="stable")
        region, free, scales = cut.region, cut.region.free[order], scales[order]
        if problem.gram.affordable:
            G, names = problem.gram.full(), np.arange(problem.n_columns)
            inside, among = index.astype(np.int64), free.astype(np.int64)
        else:
            names = np.concatenate([index, free])
            G = np.ascontiguousarray(problem.gram.block(names))
            inside, among = np.arange(index.size), np.arange(index.size, names.size)
        moments = Moments(
            G,
            problem.correlations[names],
            problem.energy,
            problem.ridge,
            problem.radius,
            names.astype(np.int64),
            self._list.column_keys[names],
        )
        rest = Rest(
            np.ascontiguousarray(reduced.rows[:, free] * scales),
            np.ascontiguousarray(reduced.eliminated[:, free] * scales),
            reduced.correlations[free] * scales,
            scales,
            reduced.penalty,
            reduced.base,
        )
        nodes = self._allowance.at_once(_NODES)
        filled, left = explore(
            inside,
            among,
            rest,
            Rule(smallest, problem.slack - cut.error, problem.slack),
            moments,
            region.size,
            self._list.heap,
            self._list.filled,
            nodes,
            self._allowance.watch,
        )
        self._list.filled = int(filled)
        self._allowance.spend(nodes - max(int(left), 0))
        self._allowance.check_watch()
        return bool(left >= 0)

    def _scaled(self, cut: MomentCut) -> tuple[Floats, float]:
        """Return units of the free columns, and a bound on the reduced matrix's eigenvalues then.

        The matrix itself is looked at when it is small, else X'X. Where its least eigenvalue is far
        below what most columns keep to themselves, every column has a unit of its own (T48).
        """
        free, reduced = cut.region.free, cut.reduced
        known, same = reduced.penalty + self._curvature, np.ones(free.size)
        if free.size > _SMALL:
            self._large += 1
            below = self._maker.below() if self._large > _SOME else None
            if below is None or np.median(below[free]) + reduced.penalty <= known:
                return same, known
            return 1.0 / np.sqrt(below[free] + reduced.penalty), 1.0 - 1e-9
        H = self._problem.gram.block(free)
        H -= reduced.rows[:, free].T @ reduced.eliminated[:, free]
        H[np.diag_indices(free.size)] += reduced.penalty
        scale = float(self._problem.gram.diagonal.max()) + reduced.penalty
        smallest = max(known, smallest_eigenvalue(H, scale))
        found = diagonal_of(H, smallest, scale, self._allowance.check)
        return (same, smallest) if found is None else (1.0 / np.sqrt(found), 1.0 - 1e-9)
