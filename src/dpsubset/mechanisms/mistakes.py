"""The paper's mistakes mechanism on proven searches (T6)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from dpsubset import search
from dpsubset.arrays import Floats
from dpsubset.mechanisms.base import Sampler
from dpsubset.mechanisms.searching import Searching
from dpsubset.privacy import Guarantee, Randomness
from dpsubset.problem import Problem
from dpsubset.sampling.pieces import Support
from dpsubset.sampling.race import draw_index
from dpsubset.sampling.ranks import unrank

__all__ = ["Mistakes"]

_GAP = {"replace-one": "twice the sensitivity", "add-remove": "the sensitivity"}


class Mistakes(Searching):
    """Supports weigh as much as the best with the same number of columns outside the best (T6).

    Private only for tables whose best support is separated from the second: the guarantee says so
    in words, and nothing checks it, since a check would itself be a release. Without such
    knowledge of the table use PermuteAndFlip.

    >>> Mistakes(epsilon=1.0).epsilon
    1.0
    """

    name = "mistakes mechanism"

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the promise and its condition on the data."""
        promise = super().guarantee(problem)
        gap = f" plus {self.gap(problem):.6g}" if self.solver.tolerance else ""
        condition = (
            "the table's second best support scores worse than its best by more than "
            f"{_GAP[self.neighbours]}{gap}; this is a condition on the data that nobody has checked"
        )
        if promise.condition is not None:
            condition += f"; and that {promise.condition}"
        return replace(promise, condition=condition)

    def _sampler(self, problem: Problem) -> Sampler:
        buckets = 1 + min(problem.to_choose, problem.free.size - problem.to_choose)
        found = self._searched(search.best_by_mistakes, problem, count=buckets)
        kappa = self.kappa(problem)
        inside = np.array([j for j in found[0].support if j not in problem.include], dtype=np.intp)
        outside = problem.free[~np.isin(problem.free, inside)]
        included = np.array(problem.include, dtype=np.intp)
        t, others = inside.size, outside.size
        logs = np.array(
            [
                math.log(math.comb(t, k)) + math.log(math.comb(others, k)) - kappa * f.score
                for k, f in enumerate(found)
            ]
        )

        def draw(randomness: Randomness) -> Support:
            k = draw_index(logs, randomness)
            kept = unrank(randomness.below(math.comb(t, k)), t - k, t)
            new = unrank(randomness.below(math.comb(others, k)), k, others)
            return np.sort(np.concatenate([included, inside[list(kept)], outside[list(new)]]))

        return draw

    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        best = supports[int(np.argmin(scores))]
        mistakes = problem.size - np.isin(supports, best).sum(axis=1)
        least = np.full(problem.size + 1, np.inf)
        np.minimum.at(least, mistakes, scores)
        logs = -self.kappa(problem) * least[mistakes]
        return np.asarray(logs - logsumexp(logs))
