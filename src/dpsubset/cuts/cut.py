"""A cut: a modular lower bound on the scores of a region (T10), and how to make one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.cuts.curvature import curvature, elimination_error
from dpsubset.cuts.perspective import optimise
from dpsubset.cuts.reduced import extension_scores, reduce
from dpsubset.cuts.region import Region
from dpsubset.cuts.start import steady
from dpsubset.problem import Problem

__all__ = ["Cut", "CutMaker"]


@dataclass(frozen=True, eq=False)
class Cut:
    """R(S) >= constant - sum of weights over the free columns in S, for every S of the region."""

    region: Region
    constant: float
    weights: Floats  # one for each free column

    def bound(self, chosen: NDArray[np.intp]) -> float:
        """Return the bound on the support made of positions `chosen` among the free columns."""
        return self.constant - float(self.weights[chosen].sum())


class CutMaker:
    """Cuts of a problem: a cheap one for every region, a better one where it pays."""

    def __init__(self, problem: Problem, multiplier: float) -> None:
        self._problem = problem
        self._floor = steady(problem)
        self._multiplier = max(multiplier, self._floor)

    def cheap(self, region: Region) -> Cut:
        """Fit the columns inside, bound the others by the ridge and known curvature (T11).

        With one column to choose the bound is the score itself, with none it is the score of the
        only support.
        """
        problem = self._problem
        if region.to_choose == 0:
            low, _ = problem.interval(region.inside)
            return Cut(region, low, np.empty(0))
        if region.to_choose == 1:
            reduced = reduce(problem, region.inside, self._floor)
            scores = extension_scores(problem, reduced, region.free)
            return Cut(region, problem.energy - problem.slack, problem.energy - scores)
        known = problem.gram.smallest or 0.0
        candidates = []
        for mu in {self._floor, self._multiplier}:
            reduced = reduce(problem, region.inside, mu)
            weights = reduced.correlations[region.free] ** 2 / (known + reduced.penalty)
            constant = reduced.base - elimination_error(problem, reduced.penalty + known)
            candidates.append(Cut(region, constant, weights))
        t = region.to_choose
        return max(candidates, key=lambda c: c.constant - np.partition(c.weights, -t)[-t:].sum())

    def optimised(self, cut: Cut, kappa: float, guess: Floats | None) -> tuple[Cut, Floats]:
        """Improve a cut for weights exp(-kappa R) (T12); also return its inclusion probabilities.

        `guess` are inclusion probabilities to start from, for the region's free columns.
        """
        d = curvature(self._problem)
        found = optimise(self._problem, cut.region, d, kappa, self._floor, self._multiplier, guess)
        constant = found.constant - elimination_error(self._problem, found.penalty)
        return Cut(cut.region, constant, found.weights), found.inclusion
