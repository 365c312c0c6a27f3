"""Peeling: one feature after another by its own noisy score, as published screenings do (T43)."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.docstrings import documented
from dpsubset.limits import Allowance
from dpsubset.mechanisms.base import Mechanism, Sampler
from dpsubset.mechanisms.permute_and_flip import race_law
from dpsubset.privacy import Guarantee, Randomness
from dpsubset.problem import Problem
from dpsubset.sampling.pieces import Support

__all__ = ["Peeling", "Scorer"]

# From the features chosen so far, in their order, to a score of every feature: more is better.
Scorer = Callable[[tuple[int, ...]], Floats]

_KEPT = 4096  # lists of scores that are kept for further draws


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class Peeling(Mechanism):
    """Rounds of permute-and-flip over single features, each with the same part of epsilon (T43).

    Pure epsilon-DP without any condition. Scores are not those of the problem, so loss, radius and
    ridge do not matter to it; nor does which of two classes is which.

    Examples
    --------
    >>> from dpsubset import Kendall, Screening
    >>> issubclass(Kendall, Peeling), issubclass(Screening, Peeling)
    (True, True)
    """

    sensitivity: str = field(default="tight", init=False)  # no score of the problem enters

    @abstractmethod
    def moved(self, problem: Problem, round_number: int) -> float:
        """Return how far one row moves a score in a round; the first has number 0."""

    @abstractmethod
    def _scorer(self, problem: Problem) -> Scorer:
        """Do the work that all rounds share, and return what scores features."""

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the guarantee; its sensitivity is the largest of all rounds."""
        self._check(problem)
        moved = max((self.moved(problem, k) for k in range(problem.to_choose)), default=0.0)
        return Guarantee(
            self.name,
            self.epsilon,
            self.neighbours,
            moved,
            precision=0.0,  # scores are computed without rounding, but for a division (T43)
            bounds=problem.public_bounds,
        )

    def _exponent(self, problem: Problem, round_number: int) -> float:
        """Return what scores are multiplied with: a row may raise some and lower others."""
        share = self.epsilon / problem.to_choose
        return share / (2.0 * self.moved(problem, round_number))

    def _heights(self, problem: Problem, scorer: Scorer, chosen: tuple[int, ...]) -> Floats:
        """Return how far each feature that is left lies below the best, in units of the noise."""
        scores = scorer(chosen)[self._left(problem, chosen)]
        return np.asarray(self._exponent(problem, len(chosen)) * (scores.max() - scores))

    @staticmethod
    def _left(problem: Problem, chosen: tuple[int, ...]) -> NDArray[np.intp]:
        return np.setdiff1d(problem.free, chosen)

    def _sampler(self, problem: Problem) -> Sampler:
        scorer, allowance = self._scorer(problem), Allowance(self.limits)
        kept: dict[tuple[int, ...], Floats] = {}

        def heights(chosen: tuple[int, ...]) -> Floats:
            if chosen not in kept:
                allowance.check()
                if len(kept) == _KEPT:
                    kept.clear()
                kept[chosen] = self._heights(problem, scorer, chosen)
            return kept[chosen]

        def draw(randomness: Randomness) -> Support:
            chosen: tuple[int, ...] = ()
            for _ in range(problem.to_choose):
                low = heights(chosen)
                # The least of heights less exponential noise is permute-and-flip (T43).
                first = int(np.argmin(low - randomness.exponentials(low.size)))
                chosen = (*chosen, int(self._left(problem, chosen)[first]))
            return np.array(sorted((*problem.include, *chosen)), dtype=np.int64)

        return draw

    def probabilities(self, problem: Problem) -> tuple[NDArray[np.int64], Floats]:
        """Return all supports and the log of their exact probabilities, for small problems."""
        self._check_may_be_listed(problem)
        scorer = self._scorer(problem)
        going: dict[tuple[int, ...], float] = {(): 0.0}
        for _ in range(problem.to_choose):
            after: dict[tuple[int, ...], float] = {}
            for chosen, log in going.items():
                law = race_law(self._heights(problem, scorer, chosen))
                for j, one in zip(self._left(problem, chosen).tolist(), law, strict=True):
                    after[(*chosen, j)] = log + float(one)
            going = after
        found: dict[tuple[int, ...], list[float]] = defaultdict(list)
        for chosen, log in going.items():
            found[tuple(sorted((*problem.include, *chosen)))].append(log)
        supports = sorted(found)
        logs = np.array([float(np.logaddexp.reduce(found[support])) for support in supports])
        return np.array(supports, dtype=np.int64).reshape(len(supports), problem.size), logs

    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        raise NotImplementedError  # scores of whole supports do not enter
