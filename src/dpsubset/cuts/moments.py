"""Cuts of squared loss, where the moments X'X, X'y and y'y tell everything (T11, T12)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.cuts import recipe
from dpsubset.cuts.at_hand import optimise_at_hand
from dpsubset.cuts.blocks import block_gains
from dpsubset.cuts.curvature import (
    SparseDiagonal,
    curvature,
    diagonal,
    elimination_error,
    sparse_diagonal,
    steady,
)
from dpsubset.cuts.cut import Cut, CutMaker
from dpsubset.cuts.perspective import STEPS, Optimised, optimise, tangent
from dpsubset.cuts.recipe import Recipe, slices
from dpsubset.cuts.reduced import (
    Elimination,
    Reduced,
    eliminate,
    extension_scores,
    multiplier,
    reduce,
)
from dpsubset.cuts.region import Region
from dpsubset.cuts.shared import optimise_shared
from dpsubset.designs.cores import mapped
from dpsubset.losses.squared import support_scores
from dpsubset.problem import Problem

__all__ = ["MomentCut", "MomentCuts"]

_AHEAD = 8  # Gram columns fetched together: one pass over the table costs as much as a few
_HAND = 16  # columns that carry coefficients where any other costs a pass, beside those inside
_AT_ONCE = 1000  # supports scored between two looks at the clock
_LISTED = 2e8  # multiplications for the scores of a list, where features have several columns
_SPREAD = 20_000  # columns from which cuts of several regions are made on all cores
_DIAGONAL = 1024  # columns up to which a diagonal below X'X is looked for
_WAITING = 128  # columns for each cut that is made before
_QUICK_GRAM = 1e9  # multiplications up to which the full Gram matrix is formed at once


@dataclass(frozen=True, eq=False, kw_only=True)
class MomentCut(Cut):
    """A cut with the reduction that it comes from."""

    reduced: Reduced
    error: float  # by which the constant was lowered


class MomentCuts(CutMaker):
    """Cuts by elimination of the columns inside; the ridge and known curvature bound the rest."""

    starts = 32
    searchable = True
    sharpens = True

    def __init__(self, problem: Problem, *, hard: bool = False) -> None:
        super().__init__(problem)
        self.floor = steady(problem)
        self._multipliers = [self.floor]
        self._sparse: SparseDiagonal | None = None  # below X'X on every support
        self._below: Floats | None = None  # a diagonal below X'X
        self._optimised, self._compared = 0, False  # cuts of regions so far; the two diagonals
        self._hand: list[int] = []  # features whose Gram columns were asked for, the last first
        if hard:
            self.prepare()
        elif (
            problem.gram.affordable
            and problem.n_rows * problem.features.n_columns**2 <= _QUICK_GRAM
        ):
            problem.gram.full()

    def settle(self, support: tuple[int, ...]) -> bool:
        mu = max(self.floor, multiplier(self.problem, support))
        before, self._multipliers = self._multipliers, sorted({self.floor, mu})
        return self._multipliers != before

    def share_multipliers(self, other: MomentCuts) -> None:
        """Take over the multipliers of the ball that other moments have settled for."""
        self._multipliers = sorted({self.floor, max(self.floor, other._multipliers[-1])})

    def gains(self, inside: tuple[int, ...]) -> Floats:
        """Return exact gains; likely next columns have their Gram columns fetched with those."""
        problem, gram, mu = self.problem, self.problem.gram, self._multipliers[-1]
        features = problem.features
        if gram.lacks(tuple(features.columns(inside).tolist())):
            quick = problem.correlations**2 / (gram.diagonal + problem.ridge + mu + 1e-300)
            order = problem.free[np.argsort(-features.sum(quick)[problem.free])]
            likely = order[: features.first(order, _AHEAD, 1)]
            self._take(np.concatenate([likely, np.array(inside, dtype=np.intp)]))
        if not self._wide:
            return self._alone(reduce(problem, inside, mu))
        found = eliminate(problem, inside, mu)
        return np.concatenate([found.over(s).single_gains() for s in slices(problem.n_columns)])

    def expect(self, region: Region, column: int, shares: Floats) -> bool:
        """Fetch the Gram columns of a feature, and those of likely next ones in the same pass."""
        gram, features = self.problem.gram, self.problem.features
        if gram.affordable or not gram.lacks(tuple(features.columns((column,)).tolist())):
            return False
        some = min(_AHEAD, shares.size)
        likely = region.free[np.sort(np.argpartition(-shares, some - 1)[:some])]
        self._take(np.append(likely[: features.first(likely, _AHEAD, 1)], column))
        return True

    def _take(self, some: NDArray[np.intp]) -> None:
        """Fetch the Gram columns of features, and have them at hand; the last are most wanted."""
        self.problem.gram.fetch(self.problem.features.columns(np.unique(some)))
        for j in some.tolist():
            if j in self._hand:
                self._hand.remove(j)
            self._hand.insert(0, j)
        del self._hand[_HAND:]

    @property
    def _wide(self) -> bool:
        """Whether there is no room for weights, so that they are made slice by slice."""
        return self.problem.features.identity and self.problem.n_columns > recipe.WIDE

    @property
    def tells(self) -> bool:
        return self.problem.gram.held

    def raised(self, supports: NDArray[np.int64], *, last: bool = False) -> Floats:
        """Return the scores themselves, up to rounding."""
        return np.asarray(self.scores(supports) - self.problem.slack)

    def _alone(self, reduced: Reduced) -> Floats:
        """Return what each feature gains alone (T11d)."""
        if self.problem.features.identity:
            return reduced.single_gains()
        return block_gains(self.problem, reduced)

    def bound(self, region: Region, hint: Floats | None = None) -> MomentCut:
        return self._best(region, self._eliminations(region.inside, self._multipliers))

    def _eliminations(self, inside: tuple[int, ...], mus: Sequence[float]) -> list[Elimination]:
        return [eliminate(self.problem, inside, mu) for mu in mus]

    def _best(self, region: Region, eliminations: list[Elimination]) -> MomentCut:
        """Return the best bound by any of some multipliers of the ball."""
        known = self.problem.gram.smallest or 0.0
        known_each = known if self._below is None else self._below
        below = known_each if self._sparse is None else self._sparse.each
        alone = region.to_choose == 1 and not region.partial
        candidates = []
        for elimination in eliminations:
            reduced = elimination.over()
            error = elimination_error(self.problem, reduced.penalty + known)
            if alone:
                weights = self._alone(reduced)
            else:
                weights = reduced.correlations**2 / (below + reduced.penalty)
                weights = self.problem.features.sum(weights)
            candidates.append(
                MomentCut(
                    region,
                    reduced.base - error,
                    weights[region.free],
                    weights[list(region.partial)],
                    reduced=reduced,
                    error=error,
                )
            )
        return max(candidates, key=lambda cut: cut.least)

    def prepare(self) -> None:
        """Form the full Gram matrix."""
        if self.problem.gram.affordable:
            self.problem.gram.full(self.problem.between)

    def sharpen(self) -> bool:
        if self._sparse is None:
            self._sparse = sparse_diagonal(self.problem)
        return self._sparse is not None

    def curvature(self) -> float:
        return curvature(self.problem)

    def memory(self) -> int:
        return 8 * self.problem.n_columns if self._wide else super().memory()

    def exact(self, region: Region) -> bool:
        return region.to_choose == 1

    def cheap(self, region: Region) -> Cut:
        """With one column to choose, or none, the bound is the score itself."""
        problem = self.problem
        if region.to_choose == 0:
            return Cut(region, problem.interval(region.inside)[0], np.empty(0))
        if self._wide:
            return self._cheap_wide(region)
        if region.to_choose == 1 and not problem.features.identity:
            return self._last(region, self.extended(region.inside, region.free))
        return self._cheap((region, self._asked(region)))

    def cheap_all(self, regions: Sequence[Region]) -> Iterable[Cut]:
        problem = self.problem
        if self._wide or not problem.features.identity or problem.n_columns < _SPREAD:
            return super().cheap_all(regions)
        # One thread asks for Gram columns, all cores do the rest.
        return mapped(self._cheap, [(region, self._asked(region)) for region in regions])

    def _asked(self, region: Region) -> list[Elimination]:
        """Return what a cheap cut is made of."""
        mus = [self.floor] if region.to_choose == 1 else self._multipliers
        return self._eliminations(region.inside, mus)

    def _cheap(self, given: tuple[Region, list[Elimination]]) -> Cut:
        region, eliminations = given
        if region.to_choose == 1:
            scores = extension_scores(self.problem, eliminations[0].over(), region.free)
            return self._last(region, scores)
        found = self._best(region, eliminations)  # its reduction is large, and of use to a search
        return Cut(region, found.constant, found.weights, found.partial)

    def _last(self, region: Region, scores: Floats) -> Cut:
        """Return the cut of a region with one feature to choose, by scores with each of them."""
        energy = self.problem.energy
        return Cut(region, energy - self.problem.slack, energy - scores)

    def _cheap_wide(self, region: Region) -> Cut:
        """Return the same cuts with weights that are made slice by slice."""
        problem = self.problem
        if region.to_choose == 1:
            found = eliminate(problem, region.inside, self.floor)

            def exact(part: slice, columns: NDArray[np.intp]) -> Floats:
                return problem.energy - extension_scores(problem, found.over(part), columns)

            return self._made(region, problem.energy - problem.slack, exact)
        candidates = []
        for mu in self._multipliers:
            some = eliminate(problem, region.inside, mu)

            def weights(part: slice, columns: NDArray[np.intp], some: Elimination = some) -> Floats:
                left = some.over(part).correlations
                return np.asarray(left[columns - part.start] ** 2 / some.penalty)

            error = elimination_error(problem, some.penalty)
            candidates.append(self._made(region, some.base - error, weights))
        return max(candidates, key=lambda cut: cut.least)

    def _made(
        self, region: Region, constant: float, of: Callable[[slice, NDArray[np.intp]], Floats]
    ) -> Cut:
        made = Recipe(of, self.problem.n_columns)
        partial = np.array([made.at(np.array([j]))[0] for j in region.partial])
        return Cut(region, constant, np.empty(0), partial, None, made).whole()

    def optimised(
        self,
        cut: Cut,
        kappa: float,
        guess: Floats | None = None,
        *,
        worst: float = np.inf,
        near: Floats | None = None,
    ) -> Cut:
        return self.mixed(cut.region, kappa, guess)[0]

    def mixed(
        self, region: Region, kappa: float, guess: Floats | None, steps: int = STEPS
    ) -> tuple[Cut, Optimised]:
        """Return the best cut of a region, and the coefficients that it comes from.

        Without steps it is the cut of a guess.
        """
        first, last = self._multipliers[0], self._multipliers[-1]
        if self.problem.gram.affordable:
            found = self._optimal(region, kappa, first, last, guess, steps)
        else:
            hand = self._at_hand(region)
            found = optimise_at_hand(self.problem, region, kappa, first, last, hand)
            if self._sparse is not None:
                others = self._over_shared(region, kappa, self._sparse)
                found = min((found, *others), key=lambda made: made.log_mass)
        constant = found.constant - elimination_error(self.problem, found.penalty)
        return Cut(region, constant, found.weights, recipe=found.recipe), found

    def _over_shared(
        self, region: Region, kappa: float, below: SparseDiagonal
    ) -> Iterator[Optimised]:
        """Yield the best cuts over directions that columns share, by either multiplier."""
        for elimination in self._eliminations(region.inside, self._multipliers):
            yield optimise_shared(self.problem, region, kappa, elimination.over(), below)

    def _optimal(self, region: Region, *how: Any) -> Optimised:
        """Optimise a cut over the better of two diagonals below X'X.

        One is the smallest eigenvalue, the other has a number a column (T48). It is looked for once
        that pays, and serves from then on if it does better on the region at hand.
        """
        problem, p = self.problem, self.problem.features.n_columns
        self._optimised += 1
        if self._below is not None:
            return optimise(problem, region, self._below, *how)
        found = optimise(problem, region, np.full(p, self.curvature()), *how)
        if not self._compared and self._optimised > p // _WAITING:
            self._compared, below = True, self.below()
            if below is not None:
                other = optimise(problem, region, below, *how)
                if other.log_mass < found.log_mass:
                    self._below, found = below, other
        return found

    def below(self) -> Floats | None:
        problem, penalty = self.problem, self.problem.ridge + self.floor
        if problem.features.n_columns > _DIAGONAL:
            return None
        found = problem.once(f"diagonal, {penalty!r}", lambda: diagonal(problem, penalty))
        return cast("Floats | None", found)

    @property
    def hand(self) -> NDArray[np.intp]:
        """The columns whose Gram columns were asked for last."""
        return self.problem.features.columns(self._hand)[:_HAND]

    def _at_hand(self, region: Region) -> NDArray[np.intp]:
        """Return the columns inside, and others whose Gram columns were asked for before."""
        others = [j for j in self._hand if j not in region.inside]
        columns = self.problem.features.columns((*region.inside, *others))
        return columns[: self.problem.features.columns(region.inside).size + _HAND]

    def tangent(self, region: Region, z: Floats, *, tighten: bool = True) -> Cut:
        d = self.curvature() if tighten else 0.0
        constant, weights, penalty = tangent(self.problem, region, d, steady(self.problem, d), z)
        return Cut(region, constant - elimination_error(self.problem, penalty), weights)

    def extended(
        self, inside: tuple[int, ...], columns: NDArray[np.intp], worst: float = np.inf
    ) -> Floats:
        if not self.problem.features.identity:
            given = np.tile(np.array(inside, dtype=np.intp), (columns.size, 1))
            return self.scores(np.column_stack([given, columns]))
        if self._wide and bool(np.all(columns[1:] > columns[:-1])):
            found = eliminate(self.problem, inside, self.floor)
            return Recipe(
                lambda part, some: extension_scores(self.problem, found.over(part), some),
                self.problem.n_columns,
            ).at(columns)
        return extension_scores(self.problem, reduce(self.problem, inside, self.floor), columns)

    def scores(self, supports: NDArray[np.intp]) -> Floats:
        features = self.problem.features
        if features.identity:
            return self._scores(supports)
        out = np.empty(len(supports))
        counts = features.widths[supports].sum(axis=1)
        for k in np.unique(counts):  # supports of as many columns together
            some = np.flatnonzero(counts == k)
            columns = features.columns(supports[some].ravel())
            out[some] = self._scores(columns.reshape(some.size, k))
        return out

    def _scores(self, supports: NDArray[np.intp]) -> Floats:
        """Return the scores of supports that are given by columns."""
        problem = self.problem
        met = np.zeros(problem.features.n_columns, dtype=bool)
        met[supports] = True
        index = np.flatnonzero(met)
        place = np.cumsum(met) - 1
        G = np.ascontiguousarray(problem.gram.block(index))
        b = problem.correlations[index]
        out = np.empty(len(supports))
        for first in range(0, len(supports), _AT_ONCE):
            problem.allowance.check()
            local = place[supports[first : first + _AT_ONCE]].astype(np.int64)
            out[first : first + _AT_ONCE] = support_scores(
                G, b, problem.energy, local, problem.ridge, problem.radius
            )
        return out

    def listable(self, region: Region) -> bool:
        if not self.problem.features.identity:
            count = math.comb(region.free.size, region.to_choose)
            if count * self.problem.most_columns**3 > _LISTED:
                return False
        return self.problem.gram.held or region.free.size == self.problem.free.size

    def patience(self, region: Region, *, split: bool) -> float:
        n, gram = self.problem.n_rows, self.problem.gram
        p = self.problem.features.width(region.free)
        draw = 120.0 + (0.0 if gram.held else 0.02 * n * self.problem.most_columns)
        cost = 1000.0 + 0.05 * p * region.to_choose
        if gram.affordable:
            cost += 4e-4 * min(p, 640) ** 3  # a few factorisations for a better cut
        if not gram.held:  # a pass over the table, unless columns at hand serve
            cost += n * p / 2000 if split or gram.affordable else p
        return cost / draw
