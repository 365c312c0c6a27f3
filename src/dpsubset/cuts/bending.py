"""Cuts of a loss that bends: those of squared losses below it, expanded where it matters (T40)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.cuts.cut import Cut
from dpsubset.cuts.dual import DualCuts
from dpsubset.cuts.listing import list_region
from dpsubset.cuts.minorant import Evened, Expansions, reach
from dpsubset.cuts.moments import MomentCuts
from dpsubset.cuts.perspective import Optimised
from dpsubset.cuts.recipe import Recipe
from dpsubset.cuts.region import Region
from dpsubset.cuts.symmetric import inclusion
from dpsubset.losses import Huber
from dpsubset.losses.huber_hinge import HuberHinge
from dpsubset.problem import Problem

__all__ = ["BendingCuts"]

_MOST = 12  # minorants that are held; the oldest but one goes
_EVENS = 16  # minorants of one curvature that are held
_DESCENT = 4e-5  # seconds of a refinement by fits, for each row
_SHORT_DESCENT = 2e-6  # the same of losses that are straight but for a piece of a parabola
_MIXTURES = 4  # expansions for the best cut of one region
_BETTER = 0.5  # nats that make an expansion, or a dual point, worth its price
_MIXED = 3  # of these that are held
_COARSE = 1e-6  # gap of a fit that is only expanded at, relative
_OUTDONE = 6  # times, one after the other, that a dual point was better
_MEMORY = 1 << 30  # bytes of their moments
_PRODUCT, _FACTOR = 5e-5, 1.3e-3  # microseconds of a multiplication, in products and factors


class BendingCuts(DualCuts):
    """Cuts of minorants by elimination, and dual points where those do better."""

    sharpens = True

    @property
    def parted(self) -> bool:  # type: ignore[override]
        """Fits begin with parts, minorants with all supports together."""
        return not self._below

    @property
    def refining(self) -> float:
        """Seconds of a refinement by fits, roughly."""
        loss = getattr(self.problem.loss, "loss", self.problem.loss)
        short = isinstance(loss, (Huber, HuberHinge))
        return self.problem.n_rows * (_SHORT_DESCENT if short else _DESCENT)

    @property
    def bent(self) -> bool:  # type: ignore[override]
        """The first expansion is asked for by who draws; where fits serve, none is made."""
        return bool(self._below) and not self._outdone

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._expansions: Expansions | None = None
        self._below: list[MomentCuts] = []
        self._seen: set[tuple[int, ...]] = set()
        self._evens: OrderedDict[tuple[int, ...], tuple[MomentCuts, float] | None] = OrderedDict()
        self._duals, self._won = True, 0  # whether dual points are tried; wins, one after the other
        self._mixed: list[MomentCuts] = []  # expanded at the coefficients of envelopes
        self._calls = 0
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

    @property
    def tells(self) -> bool:
        return bool(self._below) and all(cuts.tells for cuts in self._below)

    @property
    def _outdone(self) -> bool:
        """Whether dual points have been so much better lately that minorants are rarely tried."""
        return self._won >= _OUTDONE

    def sharpen(self) -> bool:
        """Sharpen the last minorant."""
        return bool(self._below) and self._below[-1].sharpen()

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
        if self._below:
            return [self.cheap(region) for region in regions]
        self._even_out([region.inside for region in regions if self._last(region)])
        found = [self._evened(region) for region in regions]
        left = [region for region, cut in zip(regions, found, strict=True) if cut is None]
        others = iter(super().cheap_all(left))
        return [next(others) if cut is None else cut for cut in found]

    def _last(self, region: Region) -> bool:
        """Whether one column is left to choose, and moments at hand tell its gain."""
        if not self._wide or region.to_choose != 1 or region.partial:
            return False
        inside = self.problem.features.columns(region.inside)
        return not self.problem.gram.lacks(tuple(inside.tolist()))

    def _even_out(self, many: Sequence[tuple[int, ...]]) -> None:
        """Expand at the fits on some columns, with one curvature for all rows, in one pass."""
        problem = self.problem
        missing = [key for key in dict.fromkeys(many) if key not in self._evens]
        if not missing:
            return
        gap = _COARSE * problem.n_rows * problem.sensitivity("largest")
        made = []
        for key in missing:
            support = np.array(key, dtype=np.intp)
            table = problem.columns.rows(np.sort(problem.features.columns(support)))
            made.append(Evened(problem, problem.coefficients(support, gap) @ table, self._reach))
            self._evens[key] = None
        served = [(key, even) for key, even in zip(missing, made, strict=True) if even.even]
        if served:
            vectors = np.column_stack([even.vector for _, even in served])
            for (key, even), v in zip(served, problem.design.correlate(vectors).T, strict=True):
                even.complete(np.ascontiguousarray(v))
                self._evens[key] = MomentCuts(even), even.curvature
        while len(self._evens) > max(_EVENS, len(missing)):
            self._evens.popitem(last=False)

    @cached_property
    def _reach(self) -> Floats:
        return reach(self.problem)

    def _evened(self, region: Region) -> Cut | None:
        known = self._evens.get(region.inside) if self._last(region) else None
        if known is None:
            return None
        cut, scale = known[0].cheap(region), known[1]
        made = cut.recipe
        if made is not None:
            of = made.of
            made = Recipe(lambda part, columns: scale * of(part, columns), made.p)
        return Cut(region, scale * cut.constant, scale * cut.weights, recipe=made)

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
        """Optimise the minorants that promise most, and a dual point, too, as long as it wins."""
        region, t = cut.region, cut.region.to_choose
        if not self._below:
            if self._last(region) and self._evens.get(region.inside):  # nearly the score itself
                return cut
            return super().optimised(cut, kappa, guess, worst=worst, near=near)

        def mass(c: Cut) -> float:
            return float(inclusion(kappa * c.weights, t)[0]) - kappa * c.constant

        def dual() -> Cut:
            return super(BendingCuts, self).optimised(
                super(BendingCuts, self).bound(region), kappa, guess, worst=worst, near=near
            )

        self._calls += 1
        now_and_then = self._calls.bit_count() == 1  # 1, 2, 4, 8, ...
        if self._outdone and not now_and_then:
            return dual()
        promising = self._promising(region)
        if self._mixed:
            ready = [*promising, *self._mixed]
            first = [cuts.mixed(region, kappa, guess, 0)[1].log_mass for cuts in ready]
            promising = [ready[k] for k in np.argsort(first)[:2]]
        found = [cuts.mixed(region, kappa, guess) for cuts in promising]
        best, mixture = min(found, key=lambda made: made[1].log_mass)
        if self.problem.gram.affordable and now_and_then:
            best = self._expand_mixture(best, mixture, kappa, guess)
        if self._duals and (not self._mixed or 1e6 * self.refining <= self.expanding):
            other = dual()
            better = mass(other) < mass(best) - _BETTER
            self._duals = better or self._won > 0
            self._won = self._won + 1 if better else min(self._won, 1)
            best = other if better else best
        return best

    def _expand_mixture(
        self, best: Cut, found: Optimised, kappa: float, guess: Floats | None
    ) -> Cut:
        """Expand where a region's best cut has its coefficients, as long as that pays (T40)."""
        assert self._expansions is not None
        for _ in range(_MIXTURES):
            assert found.mixture is not None
            cuts = MomentCuts(self._expansions.mixed(*found.mixture))
            cuts.share_multipliers(self._below[-1])
            cut, made = cuts.mixed(best.region, kappa, guess)
            gain = found.log_mass - made.log_mass
            if gain < _BETTER:
                break
            best, found = cut, made
            self._mixed = [*self._mixed[1 - _MIXED :], cuts]
        return best

    def listed(self, region: Region) -> tuple[NDArray[np.int64], Floats] | None:
        """Return all supports of a region and bounds on their scores, once there are minorants.

        Those two bound them that promise most; others do where draws are rejected (`raised`).
        """
        if not self._below:
            return None
        best, *second = self._promising(region)
        supports, lows = list_region(best, region)
        for cuts in second:
            lows = np.maximum(lows, cuts.scores(supports))
        return supports, lows - self.problem.slack

    def _promising(self, region: Region) -> list[MomentCuts]:
        """Return the two minorants that bound a region best."""
        return sorted(self._below, key=lambda cuts: -cuts.bound(region).least)[:2]

    @property
    def forms(self) -> int:
        return len(self._below)

    @property
    def made(self) -> int:
        return len(self._seen)

    @property
    def expanding(self) -> float:
        n, p = self.problem.n_rows, self.problem.features.n_columns
        return n * p * p * _PRODUCT + p**3 * _FACTOR

    def raised(self, supports: NDArray[np.int64], *, last: bool = False) -> Floats:
        """Return the highest bounds of all minorants on some supports, or those of the last."""
        some = self._below[-1:] if last else self._below
        lows = np.max([cuts.scores(supports) for cuts in some], axis=0)
        return np.asarray(lows - self.problem.slack)

    def patience(self, region: Region, *, split: bool) -> float:
        if not self._below:
            return super().patience(region, split=split)
        n, p = self.problem.n_rows, int(self.problem.features.widths[region.free].sum())
        draw = 120.0 + 0.05 * n * self.problem.most_columns
        cost = 8000.0 + 1.3e-3 * min(p, 1000) ** 3
        if not self.problem.gram.affordable:
            cost += n * p / 1000
        return cost / draw
