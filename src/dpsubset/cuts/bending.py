"""Cuts of a loss that bends: those of squared losses below it, expanded where it matters (T40)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.cuts.cut import Cut
from dpsubset.cuts.dual import DualCuts
from dpsubset.cuts.listing import list_region
from dpsubset.cuts.minorant import Expansions
from dpsubset.cuts.moments import MomentCuts
from dpsubset.cuts.region import Region
from dpsubset.cuts.symmetric import inclusion
from dpsubset.problem import Problem

__all__ = ["BendingCuts"]

_MOST = 12  # minorants that are held; the oldest but one goes
_COMPARED = 3  # descents over dual points before it is known whether they are of use
_COARSE = 1e-6  # gap of a fit that is only expanded at, relative
_MEMORY = 1 << 30  # bytes of their moments


class BendingCuts(DualCuts):
    """Cuts of minorants by elimination, and dual points where those do better."""

    @property
    def parted(self) -> bool:  # type: ignore[override]
        """Fits begin with parts, minorants with all supports together."""
        return not self._below

    @property
    def bent(self) -> bool:  # type: ignore[override]
        """The first expansion is asked for by who draws; where fits serve, none is made."""
        return bool(self._below)

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._expansions: Expansions | None = None
        self._below: list[MomentCuts] = []
        self._seen: set[tuple[int, ...]] = set()
        self._compared = self._won = 0
        each = 8 * min(problem.features.n_columns, 2048) ** 2 + 16 * problem.n_rows
        self._most = max(2, min(_MOST, _MEMORY // max(each, 1)))

    def expand(self, support: Iterable[int]) -> bool:
        """Expand at the fit of a support; return whether that is new."""
        key = tuple(sorted(int(j) for j in support))
        if key in self._seen or len(key) != self.problem.size:
            return False
        self._seen.add(key)
        if self._expansions is None:
            largest = self.problem.n_rows * self.problem.sensitivity("largest")
            self._expansions = Expansions(self.problem, _COARSE * largest)
        cuts = MomentCuts(self._expansions.at(np.array(key, dtype=np.intp)))
        cuts.settle(key)
        self._below.append(cuts)
        if len(self._below) > self._most:
            del self._below[1]
        return True

    def better(self, support: NDArray[np.intp], worst: float) -> float:
        """Return the highest bound of the minorants on one support, or the first above `worst`."""
        low = -math.inf
        for cuts in reversed(self._below):
            if cuts.problem.gram.held:
                low = max(low, cuts.problem.enclose(support)[0])
                if low > worst:
                    break
        return low

    def bound(self, region: Region, hint: Floats | None = None) -> Cut:
        if not self._below or region.partial or hint is not None:
            return super().bound(region, hint)
        cut = max((cuts.bound(region) for cuts in self._below), key=lambda cut: cut.least)
        return Cut(region, cut.constant, cut.weights)  # not the moments: they are not the problem's

    def cheap(self, region: Region) -> Cut:
        if not self._below or region.partial:
            return super().cheap(region)
        cut = max((cuts.cheap(region) for cuts in self._below), key=lambda cut: cut.least)
        return Cut(region, cut.constant, cut.weights)

    def cheap_all(self, regions: Sequence[Region]) -> list[Cut]:
        if not self._below:
            return super().cheap_all(regions)
        return [self.cheap(region) for region in regions]

    def exact(self, region: Region) -> bool:
        return bool(self._below) and region.to_choose == 1

    def optimised(
        self,
        cut: Cut,
        kappa: float,
        guess: Floats | None = None,
        *,
        worst: float = np.inf,
        near: Floats | None = None,
    ) -> Cut:
        """Optimise the two minorants that promise most, and at first a dual point, too."""
        region, t = cut.region, cut.region.to_choose
        if not self._below:
            return super().optimised(cut, kappa, guess, worst=worst, near=near)

        def mass(c: Cut) -> float:
            return float(inclusion(kappa * c.weights, t)[0]) - kappa * c.constant

        promising = sorted(self._below, key=lambda cuts: -cuts.bound(region).least)[:2]
        found = [cuts.optimised(cut, kappa, guess, worst=worst) for cuts in promising]
        best = min(found, key=mass)
        if self._compared < _COMPARED or self._won:
            dual = super().optimised(super().bound(region), kappa, guess, worst=worst, near=near)
            self._compared += 1
            if mass(dual) < mass(best) - 0.5:
                self._won += 1
                best = dual
        return best

    def listed(self, region: Region) -> tuple[NDArray[np.int64], Floats] | None:
        """Return all supports of a region and bounds on their scores, once there are minorants."""
        if not self._below:
            return None
        supports, lows = list_region(self._below[0], region)
        for cuts in self._below[1:]:
            lows = np.maximum(lows, cuts.scores(supports))
        return supports, lows - self.problem.slack

    def raised(self, supports: NDArray[np.int64]) -> Floats:
        """Return the bounds of the last minorant on some supports."""
        return self._below[-1].scores(supports) - self.problem.slack

    def patience(self, region: Region, *, split: bool) -> float:
        if not self._below:
            return super().patience(region, split=split)
        n, p = self.problem.n_rows, int(self.problem.features.widths[region.free].sum())
        draw = 60.0 + 0.05 * n * self.problem.most_columns
        cost = 300.0 + 0.05 * p * region.to_choose + 8 * min(p, 640) ** 3 / 6e4
        if not self.problem.gram.affordable:
            cost += n * p / 1000
        return cost / draw
