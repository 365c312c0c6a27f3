"""Cuts of any loss, from dual points: one fit on a few columns, one product X'a (T10, T12)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.cuts import recipe
from dpsubset.cuts.cut import Cut, CutMaker, at_best_multiplier, largest
from dpsubset.cuts.descent import descend
from dpsubset.cuts.dual_at_hand import Moves, Surrogate
from dpsubset.cuts.moments import MomentCuts
from dpsubset.cuts.raised import Neighbours
from dpsubset.cuts.region import Region
from dpsubset.cuts.symmetric import inclusion
from dpsubset.errors import UnprovenError
from dpsubset.losses import Fit
from dpsubset.losses.batch import fit_many
from dpsubset.problem import IMPRECISE, Problem

__all__ = ["DualCuts"]

_POINTS = 64  # dual points remembered
_MEMORY = 256 << 20  # bytes that they may take
_HINTED = 4  # one in so many is that of a region's cut, for its parts
_ROUNDS = 2
_COLUMNS = 256  # columns that a descent looks at; a last product takes in the others
_TOUCHED = 64  # columns that the fit of a tangent looks at
_STEPS = 40
_ALL_STEPS = 200  # where a descent looks at all columns, and ends at its optimum
_ENOUGH = 0.1  # a descent ends when ten steps lower the log mass by less
_ENOUGH_TO_SEARCH = 0.5  # the same in a search, whose next split helps as well
_MISSED = 0.1  # share of a support's columns that a descent may overlook
_LISTED_ROWS = 400_000  # rows of all fits of a list, on single columns
_TIMED = 200_000_000  # multiplications between two looks at the clock
_MOVED = 0.5  # lower by this, a log mass needs no descent, which costs passes
_FEW = 8  # columns from which a bound on each, before a fit, pays
_LONG = 500  # rows from which it does
_COARSE = 1e-5  # gap of a fit whose dual point only makes a cut, relative


@dataclass(frozen=True, eq=False)
class _Point:
    """A dual point of the conjugate's domain, with all that a cut needs."""

    fit: Fit
    constant: float  # -sum l*(y, a)
    products: Floats  # X'a


class DualCuts(CutMaker):
    """Cuts from the dual points of fits, for losses that no moments describe."""

    tries = 4
    trust = 0.5

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._points: OrderedDict[tuple[int, ...], _Point] = OrderedDict()
        self._hints: OrderedDict[int, _Point] = OrderedDict()
        self._good: tuple[int, ...] = ()
        each = 8 * (problem.n_rows + problem.features.n_columns)
        self._room = max(4, min(_POINTS, _MEMORY // each))

    @property
    def parted(self) -> bool:  # type: ignore[override]
        """With few columns one optimised cut of all supports is better than cheap ones of parts."""
        return self.problem.features.n_columns > _COLUMNS

    @property
    def _wide(self) -> bool:
        """Whether passes over the table are what costs."""
        return self.problem.features.n_columns > recipe.WIDE

    @cached_property
    def _guess(self) -> MomentCuts:
        return MomentCuts(Surrogate(self.problem, self._at(()).products))

    def settle(self, support: tuple[int, ...]) -> bool:
        """Keep the dual point of a good support, from which others are reached in wide tables."""
        if self._wide:
            self._good = tuple(sorted(support))
            self._at(self._good)
        return False

    def _moves(self) -> Moves:
        """Return how dual points are reached without a pass."""
        null = self._at(())
        others = [self._at(self._good)] if self._good else []
        return Moves(
            self.problem,
            self._guess.hand,
            null.fit.point,
            null.products,
            tuple((other.fit.point, other.products) for other in others),
        )

    def gains(self, inside: tuple[int, ...]) -> Floats:
        problem = self.problem
        if self._wide:
            return self._guess.gains(inside)
        v, held = self._at(inside).products, problem.features.columns(inside)
        norm = float(np.linalg.norm(v[held])) if inside else float(np.abs(v).max())
        penalty = max(problem.ridge, norm / (2 * problem.radius))
        gains = v**2 / (4 * penalty + problem.gram.diagonal + 1e-300)
        return np.asarray(problem.features.sum(gains))

    def bound(self, region: Region, hint: Floats | None = None) -> Cut:
        cut = self._cut(region, self._at(region.inside))
        if hint is None:
            return cut
        return max(cut, self._cut(region, self._moved(hint)), key=lambda c: c.least)

    def prepare(self) -> None:
        """Do nothing: what a fit needs is of use to that fit only."""

    def memory(self) -> int:
        n, p = self.problem.n_rows, self.problem.n_columns
        return 8 * n + (8 * p if self._wide else super().memory())  # a cut has its dual point

    def cheap_all(self, regions: Sequence[Region]) -> list[Cut]:
        found = [self._reached(region) if self._wide else None for region in regions]
        left = [region for region, cut in zip(regions, found, strict=True) if cut is None]
        cuts = []
        for first in range(0, len(left), self._room):
            part = left[first : first + self._room]
            self._prepare([region.inside for region in part])
            cuts += [self.cheap(region) for region in part]
        others = iter(cuts)
        return [next(others) if cut is None else cut for cut in found]

    def _reached(self, region: Region) -> Cut | None:
        """Return a cut near that of the fit inside, made without a pass; None if it is not near."""
        key = tuple(sorted(region.inside))
        moved = None if key in self._points else self._moves().fitted(region)
        if moved is None:
            return None
        problem = self.problem
        low = problem.enclose(np.array(key, dtype=np.intp), problem.sensitivity())[0]
        return moved.cut if low - moved.cut.constant <= problem.sensitivity() else None

    def optimised(
        self,
        cut: Cut,
        kappa: float,
        guess: Floats | None = None,
        *,
        worst: float = np.inf,
        near: Floats | None = None,
    ) -> Cut:
        """Descend over dual points on the columns that matter; a last product makes it a cut.

        In a wide table points that are reached without a pass are tried first.
        """
        problem, region = self.problem, cut.region
        t = region.to_choose
        total, shares = inclusion(kappa * cut.weights, t)
        best, best_mass, best_shares = cut, float(total) - kappa * cut.constant, shares
        if self._wide:
            moved = self._moves().lowered(region, kappa)
            if moved is not None and moved.mass < best_mass - _MOVED:
                return moved.cut
        likely = shares if guess is None else np.maximum(shares, guess)
        inside = np.array(region.inside, dtype=np.intp)
        rows, parameters, _ = problem.loss.compiled()
        rule = (problem.ridge, problem.radius, kappa)
        start = cut.point if near is None else near
        assert start is not None
        a = start.copy()
        goal = -kappa * worst
        most = max(min(_COLUMNS, _MEMORY // (8 * max(problem.n_rows, 1))), 2 * t)
        for _ in range(_ROUNDS):
            order = np.argsort(-likely, kind="stable")
            chosen = order[: problem.features.first(region.free[order], most, t)]
            held = np.concatenate([inside, region.free[chosen]])
            descend(
                rows,
                parameters,
                problem.columns.rows(problem.features.columns(held)),
                np.repeat(np.arange(held.size), problem.features.widths[held]),
                inside.size,
                problem.y,
                rule,
                t,
                a,
                _STEPS if self.parted else _ALL_STEPS,
                _ENOUGH if worst == np.inf else _ENOUGH_TO_SEARCH,
                goal,
                not problem.loss.bends,
                problem.allowance.watch,
            )
            problem.allowance.check()
            point = self._moved(a)
            better = self._cut(region, point, best_shares)
            for _ in range(2):
                total, shares = inclusion(kappa * better.weights, t)
                better = self._cut(region, point, shares)
            total, shares = inclusion(kappa * better.weights, t)
            mass = float(total) - kappa * better.constant
            if mass < best_mass:
                best, best_mass, best_shares = better, mass, shares
            missed = np.ones(shares.size, dtype=bool)
            missed[chosen] = False
            if shares[missed].sum() < _MISSED * t or better.least >= worst:
                break
            a = a.copy()
            likely = np.where(missed, shares, np.maximum(likely, shares))
        return best

    def tangent(self, region: Region, z: Floats, *, tighten: bool = True) -> Cut:
        """Fit on scaled columns, as many as matter; one product takes in the others (T12)."""
        problem = self.problem
        worth = z * problem.features.sum(self._at(()).products ** 2)[region.free]
        worth[z >= 1.0] = np.inf
        order = np.argsort(-worth, kind="stable")
        most = problem.features.first(region.free[order], _TOUCHED, region.to_choose)
        chosen = order[:most]
        held = np.concatenate([np.array(region.inside, dtype=np.intp), region.free[chosen]])
        table = problem.columns.rows(problem.features.columns(held))
        share = np.concatenate([np.ones(len(region.inside)), z[chosen]])
        root = np.sqrt(np.repeat(share, problem.features.widths[held]))
        gap = max(_COARSE * problem.n_rows * problem.sensitivity("largest"), problem.slack)
        fit = problem.fit_table((table * root[:, None]).T, gap=gap)
        point = self._pointed(fit, problem.design.correlate(fit.point))
        return self._cut(region, point, z)

    def extended(
        self, inside: tuple[int, ...], columns: NDArray[np.intp], worst: float = np.inf
    ) -> Floats:
        known = np.array(sorted(inside), dtype=np.intp)
        at = self._at(tuple(known.tolist()))
        out = np.full(columns.size, np.inf)
        left = np.arange(columns.size)
        if self._raises and worst < np.inf and known.size and columns.size >= _FEW:
            low = self._neighbours.bounds(at.fit, at.products, known, columns, worst)
            left = left if low is None else np.flatnonzero(low < worst)
        given = np.tile(known, (left.size, 1))
        out[left] = self._values(np.column_stack([given, columns[left]]), at.fit, worst)
        return out

    @property
    def _raises(self) -> bool:
        """Whether rows that keep their slopes are many enough to bound supports without a fit."""
        problem = self.problem
        return problem.features.identity and not problem.loss.bends and problem.n_rows >= _LONG

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours(self.problem)

    def scores(self, supports: NDArray[np.intp]) -> Floats:
        return self._values(supports, self._at(()).fit, np.inf)

    def _values(self, supports: NDArray[np.intp], start: Fit, worst: float) -> Floats:
        features = self.problem.features
        if features.identity:
            return self._fitted(supports, start, worst)
        out = np.empty(len(supports))
        counts = features.widths[supports].sum(axis=1)
        for k in np.unique(counts):  # fits of as many columns are made together
            some = np.flatnonzero(counts == k)
            columns = features.columns(supports[some].ravel()).reshape(some.size, k)
            out[some] = self._fitted(columns, start, worst)
        return out

    def _fitted(self, supports: NDArray[np.intp], start: Fit, worst: float) -> Floats:
        """Return the scores of supports that are given by columns."""
        problem = self.problem
        count, size = supports.shape
        beta = np.zeros(size)
        beta[: start.coefficients.size] = start.coefficients
        out = np.empty(count)
        step = max(1, problem.columns.room // max(size, 1))
        for first in range(0, count, step):
            part = supports[first : first + step]
            if size <= problem.columns.room:
                places = problem.columns.places(part.ravel()).reshape(part.shape)
                store = problem.columns.store
            else:  # one support at a time, its columns fetched for it alone
                places = np.arange(size)[None, :]
                store = problem.columns.rows(part[0])
            out[first : first + step] = fit_many(
                *problem.loss.compiled(),
                store,
                places,
                problem.y,
                problem.ridge,
                problem.radius,
                beta,
                start.point,
                problem.slack,
                worst,
                problem.allowance.watch,
            )
            problem.allowance.check_watch()
        if np.isnan(out).any():
            raise UnprovenError(IMPRECISE)
        return out

    def listable(self, region: Region) -> bool:
        problem = self.problem
        wide = problem.most_columns / problem.size  # a fit takes about its square times as long
        count = math.comb(region.free.size, region.to_choose)
        return count * (problem.n_rows + 200) * wide**2 <= _LISTED_ROWS

    def patience(self, region: Region, *, split: bool) -> float:
        n, p, size = self.problem.n_rows, self.problem.features.n_columns, self.problem.most_columns
        draw = 120.0 + 0.05 * n * size
        if self._wide and not split:  # points that are reached without a pass
            return (100.0 + 2.0 * p) / draw
        first, more = n * min(p, 500), n * max(p - 500, 0)  # descents leave most columns alone
        if self.problem.loss.bends:
            return (100.0 + 20.0 * n + 0.07 * first + 0.012 * more) / draw
        draw = 200.0 + 0.012 * n * size  # fits of rejected draws end early
        return (8000.0 + 0.035 * first + 0.009 * more) / draw

    def _cut(self, region: Region, point: _Point, share: Floats | None = None) -> Cut:
        """Return the cut of a dual point at the best multiplier of the ball.

        Best for the top columns, or for columns with inclusion probabilities `share`.
        """
        problem = self.problem
        v2 = problem.features.sum(point.products**2)
        fixed = float(v2[list(region.inside)].sum())
        free, partial = v2[region.free], v2[list(region.partial)]
        if share is None:
            reached = fixed + largest(free, region.to_choose) + largest(partial, region.keep)
        else:
            reached = fixed + float(share @ free)
        constant, penalty = at_best_multiplier(problem, point.constant, fixed, reached)
        weights, others = free / (4 * penalty), partial / (4 * penalty)
        return Cut(region, constant, weights, others, point.fit.point)

    def _at(self, inside: tuple[int, ...]) -> _Point:
        """Return the dual point of the fit on some columns."""
        key = tuple(sorted(inside))
        if key not in self._points:
            self._prepare([key])
        self._points.move_to_end(key)
        return self._points[key]

    def _prepare(self, many: Sequence[tuple[int, ...]]) -> None:
        """Fit on several sets of columns; one product gives all X'a."""
        problem = self.problem
        keys = dict.fromkeys(tuple(sorted(inside)) for inside in many)
        missing = [key for key in keys if key not in self._points]
        if not missing:
            return
        at_once = len(missing)
        if problem.allowance.timed:  # a product that takes long is cut, to look at the clock
            at_once = max(1, _TIMED // max(problem.n_rows * problem.features.n_columns, 1))
        for first in range(0, len(missing), at_once):
            problem.allowance.check()
            part = missing[first : first + at_once]
            fits = [self._fit(key) for key in part]
            products = problem.design.correlate(np.column_stack([fit.point for fit in fits])).T
            for key, fit, v in zip(part, fits, products, strict=True):
                self._points[key] = self._pointed(fit, np.ascontiguousarray(v))
        while len(self._points) > self._room + len(keys):
            self._points.popitem(last=False)

    def _fit(self, inside: tuple[int, ...]) -> Fit:
        problem = self.problem
        if not inside:
            a = problem.loss.slopes(problem.y, np.zeros(problem.n_rows))
            value = float(problem.loss.value(problem.y, np.zeros(problem.n_rows)).sum())
            return Fit(np.empty(0), value, value, a)
        known = [self._points[k].fit for k in (inside[:-1], inside[1:]) if k in self._points]
        start = Fit(np.zeros(0), np.inf, -np.inf, known[0].point) if known else None
        gap = max(_COARSE * problem.n_rows * problem.sensitivity("largest"), problem.slack)
        return problem.fit(problem.features.columns(inside), gap=gap, start=start)

    def _moved(self, a: Floats) -> _Point:
        """Return a dual point that no fit led to; the parts of a region share that of its cut."""
        known = self._hints.get(id(a))
        if known is None or known.fit.point is not a:
            fit = Fit(np.empty(0), np.inf, -np.inf, a)
            known = self._hints[id(a)] = self._pointed(fit, self.problem.design.correlate(a))
            if len(self._hints) > max(2, self._room // _HINTED):
                self._hints.popitem(last=False)
        return known

    def _pointed(self, fit: Fit, products: Floats) -> _Point:
        constant = -float(self.problem.loss.conjugate(self.problem.y, fit.point).sum())
        return _Point(fit, constant, products)
