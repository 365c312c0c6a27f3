"""A tree for losses that bend: a squared loss below names the supports left to fit (T17, T40)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.cuts import Cut, CutMaker
from dpsubset.cuts.minorant import Expansions
from dpsubset.cuts.moments import MomentCuts
from dpsubset.cuts.region import Region
from dpsubset.cuts.start import complete
from dpsubset.limits import Allowance
from dpsubset.search.tree import Shortlist, Tree

__all__ = ["BendingTree", "tree_for"]

_NAMED = 4096  # supports that a squared loss may leave to be fitted
_SOME = 32  # that are fitted where it leaves more
_FEWEST = 4  # cuts that are optimised before a squared loss is tried
_GRAM = 128  # columns for each of these: a Gram matrix costs so many passes
_AGAIN = 4  # times as many before the next try
_NODE = 100  # entries of the table whose work, in an optimised cut, is that of a node
_COARSE = 1e-6  # gap of a fit that is only expanded at, relative


class BendingTree(Tree):
    """Regions that stay open for long are given to the compiled search of a minorant (T40).

    It is tried after a few optimised cuts, or more in wide tables, and again after four times as
    many, for about as long as those took.
    """

    def __init__(self, maker: CutMaker, shortlist: Shortlist, allowance: Allowance) -> None:
        super().__init__(maker, shortlist, allowance)
        self._seen = 0
        self._next = max(_FEWEST, maker.problem.features.n_columns // _GRAM)

    def _sharpened(self, cut: Cut) -> Cut:
        self._seen += 1
        return super()._sharpened(cut)

    def _closes(self, regions: list[Region]) -> bool:
        if self._seen < self._next or not self._queue or not np.isfinite(self._list.worst):
            return False
        self._next *= _AGAIN
        best = int(np.argmin(self._list.scores[: self._list.filled]))
        cuts = self._below(np.sort(self._list.supports[best]).astype(np.intp))
        if not self._promises(cuts):
            return False
        entries = self._problem.n_rows * self._problem.features.n_columns
        nodes = self._allowance.at_once(1 + self._seen * entries // _NODE)
        return self._named(cuts, regions, nodes)

    def _promises(self, cuts: MomentCuts) -> bool:
        """Whether a minorant bounds the first open region better than cuts of fits do."""
        bound, _, region, _ = self._queue[0]
        return bool(region.partial) or cuts.problem.score(complete(cuts, region)) >= bound

    @cached_property
    def _expansions(self) -> Expansions:
        largest = self._problem.n_rows * self._problem.sensitivity("largest")
        return Expansions(self._problem, _COARSE * largest)

    def _below(self, support: NDArray[np.intp]) -> MomentCuts:
        cuts = MomentCuts(self._expansions.at(support), hard=True)
        cuts.settle(tuple(support.tolist()))
        return cuts

    def _named(self, cuts: MomentCuts, regions: list[Region], nodes: int) -> bool:
        """Fit all supports that a minorant does not put above the threshold; False if too many.

        What is left out scores at least the threshold less the rounding slack (T19).
        """
        named = _Named(cuts, self._list.worst + self._problem.slack)
        ended = named.search(regions, self._allowance, nodes)
        supports = named.supports()
        for support, low in supports if len(supports) < _NAMED else supports[:_SOME]:
            if low >= self._list.worst + self._problem.slack:
                break
            self._fit(support)
        return ended and self._list.worst <= named.left

    def _fit(self, support: NDArray[np.int64]) -> None:
        low, high = self._problem.enclose(support.astype(np.intp), enough=self._list.worst)
        if low < self._list.worst:
            self._list.offer(support, (low + high) / 2)


class _Named:
    """The supports whose score by a minorant is below a threshold: a list with room for some."""

    def __init__(self, cuts: MomentCuts, threshold: float) -> None:
        self._cuts = cuts
        minorant = cuts.problem
        self._list = Shortlist(_NAMED, minorant.size, minorant.n_columns)
        self._list.scores[:] = threshold
        self._list.supports[:] = -1  # places that are still free: they hold the threshold
        self._list.keys[:] = np.arange(1, _NAMED + 1)
        self._list.filled = _NAMED

    def search(self, regions: list[Region], allowance: Allowance, nodes: int) -> bool:
        """Search the regions; return whether that came to its end."""
        given = Allowance(allowance.part(nodes))
        bound = Tree(self._cuts, self._list, given).run(regions)
        allowance.spend(given.spent)
        return bound == np.inf

    @property
    def left(self) -> float:
        """What no other support of the regions is below, if the search came to its end."""
        return self._list.worst

    def supports(self) -> list[tuple[NDArray[np.int64], float]]:
        """Return the supports and their scores by the minorant, the lowest first."""
        order = np.argsort(self._list.scores, kind="stable")
        real = order[self._list.supports[order, 0] >= 0]
        scores: Floats = self._list.scores
        return [(np.sort(self._list.supports[i]), float(scores[i])) for i in real]


def tree_for(maker: CutMaker, shortlist: Shortlist, allowance: Allowance) -> Tree:
    """Return the tree that serves a problem's loss."""
    problem = maker.problem
    serves = problem.loss.bends and not problem.quadratic and problem.gram.affordable
    return (BendingTree if serves else Tree)(maker, shortlist, allowance)
