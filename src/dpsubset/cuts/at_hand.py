"""The best cut by coefficients on columns at hand, where any other costs a pass (T12)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.cuts import recipe
from dpsubset.cuts.perspective import Optimised
from dpsubset.cuts.recipe import Recipe, slices
from dpsubset.cuts.region import Region
from dpsubset.cuts.symmetric import inclusion
from dpsubset.designs.gram import GramRows
from dpsubset.problem import Problem

__all__ = ["optimise_at_hand"]

_ROUNDS = 12
_HALVINGS = 4  # of a step that does not lower the log mass
_ENOUGH = 0.02  # stop when a round lowers the log mass by less


def optimise_at_hand(
    problem: Problem,
    region: Region,
    kappa: float,
    floor: float,
    mu: float,
    hand: NDArray[np.intp],
) -> Optimised:
    """Lower the log mass of exp(-kappa cut) over coefficients on some columns.

    `hand` are columns whose Gram columns are held, those of the features inside first. The others
    have no coefficient, but their weights count, and that is what matters where there are very many
    of them: what their weights have in common is taken away. Newton's steps on the convex log mass,
    as if inclusion probabilities stayed as they are, made shorter where it does not fall.
    """
    at = _AtHand(problem, region, kappa, hand)
    beta = at.fitted(problem.ridge + mu)
    best, shares = at.cut(beta, mu)
    for _ in range(_ROUNDS):
        problem.allowance.check()
        target, next_mu = at.step(best, shares, beta)
        before = best.log_mass
        for halved in range(_HALVINGS):
            share = 0.5**halved
            moved = beta + share * (target - beta)
            better, next_shares = at.cut(moved, mu + share * (max(floor, next_mu) - mu))
            if better.log_mass < before:
                best, beta, shares = better, moved, next_shares
                mu = best.penalty - problem.ridge
                break
        if before - best.log_mass < _ENOUGH:
            break
    return best


@dataclass(frozen=True, eq=False)
class _AtHand:
    """Cuts of one region by coefficients on the columns `index`."""

    problem: Problem
    region: Region
    kappa: float
    index: NDArray[np.intp]

    @cached_property
    def _rows(self) -> GramRows:
        return self.problem.gram.rows(self.index)

    @cached_property
    def _block(self) -> Floats:
        return self._rows.at(self.index)

    @cached_property
    def _inside(self) -> int:
        """How many of the columns belong to features inside."""
        return self.problem.features.columns(self.region.inside).size

    def fitted(self, penalty: float) -> Floats:
        """Return the coefficients of the fit on the columns inside: the cheap cut's."""
        k = self._inside
        beta = np.zeros(self.index.size)
        matrix = self._block[:k, :k] + penalty * np.eye(k)
        beta[:k] = np.linalg.solve(matrix, self.problem.correlations[self.index[:k]])
        return beta

    def cut(self, beta: Floats, mu: float) -> tuple[Optimised, Floats]:
        """Return the cut of some coefficients, and inclusion probabilities under it."""
        problem, region, k = self.problem, self.region, self._inside
        penalty = problem.ridge + mu
        product = self._block @ beta
        fixed = problem.correlations[self.index[:k]] - product[:k]
        constant = problem.energy - float(beta @ product) - mu * problem.radius**2
        constant -= float(fixed @ fixed) / penalty
        made = None
        if problem.features.identity and problem.n_columns > recipe.WIDE:
            made = self._recipe(beta, penalty)
            weights = made.at(region.free)
        else:
            left = np.concatenate([self._left(beta, part)[0] for part in self._slices])
            weights = problem.features.sum(left**2)[region.free] / penalty
        total, shares = inclusion(self.kappa * weights, region.to_choose)
        mass = float(total) - self.kappa * constant
        return Optimised(constant, weights, penalty, mass, made), np.asarray(shares)

    def _recipe(self, beta: Floats, penalty: float) -> Recipe:
        def of(part: slice, columns: NDArray[np.intp]) -> Floats:
            left = self._left(beta, part)[0]
            return np.asarray(left[columns - part.start] ** 2 / penalty)

        return Recipe(of, self.problem.n_columns)

    @property
    def _slices(self) -> list[slice]:
        return slices(self.problem.features.n_columns)

    def _left(self, beta: Floats, part: slice) -> tuple[Floats, Floats]:
        """Return what is left of a slice's correlations, and its Gram rows."""
        rows = self._rows.at(part)
        return self.problem.correlations[part] - beta @ rows, rows

    def step(self, cut: Optimised, shares: Floats, beta: Floats) -> tuple[Floats, float]:
        """Return coefficients and a multiplier that are best if inclusions stay as they are."""
        problem, index = self.problem, self.index
        matrix, side, reached = cut.penalty * self._block, np.zeros(index.size), 0.0
        for part in self._slices:
            left, rows = self._left(beta, part)
            weighted = rows * self._included(shares, part)
            matrix += weighted @ rows.T
            side += weighted @ problem.correlations[part]
            reached += float(self._included(shares, part) @ left**2)
        try:
            target = np.linalg.solve(matrix, side)
        except np.linalg.LinAlgError:
            target = beta
        # Predictions stay within those of the ball, as rounding asks (T19).
        most = problem.radius * np.sqrt(problem.size)
        target = target * min(1.0, most / max(float(np.abs(target).sum()), 1e-300))
        return target, np.sqrt(reached) / problem.radius - problem.ridge

    def _included(self, shares: Floats, part: slice) -> Floats:
        """Return the inclusion probabilities of a slice's columns, 1 for those inside."""
        features, region = self.problem.features, self.region
        if features.identity:
            first, last = np.searchsorted(region.free, [part.start, part.stop])
            out = np.zeros(part.stop - part.start)
            out[region.free[first:last] - part.start] = shares[first:last]
            inside = np.array(region.inside, dtype=np.intp)
            out[inside[(part.start <= inside) & (inside < part.stop)] - part.start] = 1.0
            return out
        of = np.zeros(len(features))
        of[region.free] = shares
        of[list(region.inside)] = 1.0
        return features.spread(of)[part]
