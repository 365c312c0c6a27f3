"""Three broken mechanisms that an audit must catch."""

from __future__ import annotations

import numpy as np

from dpsubset import Exponential, Mistakes, PermuteAndFlip, Problem, search
from dpsubset.arrays import Floats
from dpsubset.errors import UnprovenError
from dpsubset.mechanisms.base import Sampler
from dpsubset.sampling.pieces import Support


class QuarterSensitivity(PermuteAndFlip):
    """Delta divided by 4: four times the exponent that epsilon buys."""

    def kappa(self, problem: Problem) -> float:
        return 4.0 * super().kappa(problem)


class BestOfBucket(Mistakes):
    """Releases the best support with so many mistakes, as the paper's scripts do."""

    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        logs = super()._law(problem, supports, scores)
        best = supports[int(np.argmin(scores))]
        mistakes = problem.size - np.isin(supports, best).sum(axis=1)
        out = np.full(logs.size, -np.inf)
        for k in np.unique(mistakes):
            bucket = np.flatnonzero(mistakes == k)
            out[bucket[np.argmin(scores[bucket])]] = np.logaddexp.reduce(logs[bucket])
        return out


class Discarding(Exponential):
    """Discards a trial when a check of the data fails, as the paper's scripts do."""

    @staticmethod
    def _fails(first: float, second: float, problem: Problem) -> bool:
        return second - first < 0.02 * problem.sensitivity()

    def _sampler(self, problem: Problem) -> Sampler:
        first, second = search.top(problem, 2)
        if self._fails(first.score, second.score, problem):
            raise UnprovenError("the trial is discarded")
        return super()._sampler(problem)

    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        first, second = np.sort(scores)[:2]
        if self._fails(first, second, problem):
            return np.full(scores.size, -np.inf)
        return super()._law(problem, supports, scores)


BROKEN = {
    "a quarter of the sensitivity": lambda q, e, r: QuarterSensitivity(e, neighbours=r),
    "mistakes, best of a bucket": lambda q, e, r: BestOfBucket(e, delta=0.01, neighbours=r),
    "a data-dependent check": lambda q, e, r: Discarding(e, neighbours=r),
}
