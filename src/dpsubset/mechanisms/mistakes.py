"""The paper's mistakes mechanism on proven searches (T6), with a private test if asked (T7)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpsubset import search
from dpsubset.arrays import Floats
from dpsubset.checks import one_of, positive
from dpsubset.docstrings import documented
from dpsubset.errors import InputError
from dpsubset.limits import Allowance, Limits
from dpsubset.mechanisms.base import Sampler
from dpsubset.mechanisms.exponential import Exponential
from dpsubset.mechanisms.searching import Searching
from dpsubset.mechanisms.tested import check_delta, log_chances, passes
from dpsubset.privacy import Guarantee, Randomness
from dpsubset.problem import Problem
from dpsubset.sampling.deciding import draw_index
from dpsubset.sampling.pieces import Support
from dpsubset.sampling.ranks import unrank
from dpsubset.search import Found

__all__ = ["Mistakes"]

_GAP = {"replace-one": "twice the sensitivity", "add-remove": "the sensitivity"}


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class Mistakes(Searching):
    """Supports weigh as much as the best with the same number of columns outside the best (T6).

    On its own it is private only for tables whose best support is separated from the second: the
    guarantee says so in words, and nothing checks it, since a check would itself be a release.
    With `delta` the check is made privately, and the guarantee holds for all tables (T7).

    Parameters
    ----------
    epsilon : float
        The budget of one release; with delta the test is paid from it, too.
    delta : float, optional
        The chance with which the test may pass wrongly; choose it below 1/n.
    test_share : float
        The part of epsilon that the test may spend.
    otherwise : "refuse" or "exponential"
        What happens if the test does not pass: RefusedError, or the exponential mechanism with
        what the test left.

    Examples
    --------
    >>> Mistakes(epsilon=1.0).epsilon
    1.0
    >>> Mistakes(epsilon=1.0, delta=1e-6)._epsilons
    (0.5, 0.5)
    """

    name = "mistakes mechanism"

    delta: float | None = None
    test_share: float = 0.5
    otherwise: str = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.delta = None if self.delta is None else check_delta(self.delta)
        self.test_share = positive(self.test_share, "test_share")
        if self.test_share >= 1:
            raise InputError(f"test_share must lie between 0 and 1, not {self.test_share!r}")
        self.otherwise = one_of(self.otherwise, "otherwise", ("refuse", "exponential"))
        if self.delta is None and (self.test_share, self.otherwise) != (0.5, "refuse"):
            raise InputError("test_share and otherwise are for the test: give delta, too")
        if self.delta is not None and self.solver.tolerance:
            raise InputError(
                f"the solver {self.solver.name!r} proves its answers to a tolerance only, and the "
                "test needs the exact gap: use solver='branch-and-bound', or leave delta out"
            )

    @property
    def _epsilons(self) -> tuple[float, float]:
        """What the test spends, and what the release."""
        test = 0.0 if self.delta is None else self.test_share * self.epsilon
        return test, self.epsilon - test

    def kappa(self, problem: Problem) -> float:
        """Return the exponent of the scores, from what the test leaves of epsilon."""
        return super().kappa(problem) * self._epsilons[1] / self.epsilon

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the guarantee, and without a test its condition on the data."""
        promise = super().guarantee(problem)
        if self.delta is not None:
            return replace(promise, mechanism=f"{self.name} with a test", delta=self.delta)
        gap = f" plus {self.gap(problem):.6g}" if self.solver.tolerance else ""
        condition = (
            "the table's second best support scores worse than its best by more than "
            f"{_GAP[self.neighbours]}{gap}; this is a condition on the data that nobody has checked"
        )
        if promise.condition is not None:
            condition += f"; and that {promise.condition}"
        return replace(promise, condition=condition)

    def _found(self, problem: Problem) -> list[Found]:
        """Return the best support for every number of mistakes."""
        buckets = 1 + min(problem.to_choose, problem.free.size - problem.to_choose)
        return self._searched(search.best_by_mistakes, problem, count=buckets)

    def _sampler(self, problem: Problem) -> Sampler:
        allowance = Allowance(self.limits)  # its seconds are for the search and for what may follow
        found = self._found(problem)
        draw = self._buckets(problem, found)
        if self.delta is None:
            return draw
        stability = self._stability(problem, [f.score for f in found])
        test, delta = self._epsilons[0], self.delta
        otherwise: list[Sampler] = []  # made when it is needed first

        def tested(randomness: Randomness) -> Support:
            if passes(stability, test, delta, randomness):
                return draw(randomness)
            if self.otherwise == "refuse":
                return np.full(problem.size, -1, dtype=np.intp)
            if not otherwise:
                nodes = None if self.limits is None else self.limits.nodes
                left = self._exponential(allowance.part(nodes))
                otherwise.append(left._sampler(problem))
            return otherwise[0](randomness)

        return tested

    def _stability(self, problem: Problem, least: Sequence[float]) -> float:
        """Return the gap to the second best in units of how far one row moves it (T7)."""
        gap = min(least[1:], default=math.inf) - least[0]
        rows = 2.0 if self.neighbours == "replace-one" else 1.0
        return gap / (rows * problem.sensitivity(self.sensitivity))

    def _exponential(self, limits: Limits | None = None) -> Exponential:
        return Exponential(
            self._epsilons[1],
            neighbours=self.neighbours,
            sensitivity=self.sensitivity,
            limits=limits,
        )

    def _buckets(self, problem: Problem, found: list[Found]) -> Sampler:
        """Return draws of the number of mistakes, then of a support with so many."""
        inside = np.array([j for j in found[0].support if j not in problem.include], dtype=np.intp)
        outside = problem.free[~np.isin(problem.free, inside)]
        included = np.array(problem.include, dtype=np.intp)
        t, others = inside.size, outside.size
        logs = np.add(*self._logs(problem, [f.score for f in found]))

        def draw(randomness: Randomness) -> Support:
            k = draw_index(logs, randomness)
            kept = unrank(randomness.below(math.comb(t, k)), t - k, t)
            new = unrank(randomness.below(math.comb(others, k)), k, others)
            return np.sort(np.concatenate([included, inside[list(kept)], outside[list(new)]]))

        return draw

    def _logs(self, problem: Problem, least: Sequence[float]) -> tuple[Floats, Floats]:
        """Return for every number of mistakes a support's log weight, and the log of their number.

        `least` are the least scores at 0, 1, ... mistakes.
        """
        t, others = problem.to_choose, problem.free.size - problem.to_choose
        numbers = [math.comb(t, k) * math.comb(others, k) for k in range(len(least))]
        return -self.kappa(problem) * np.array(least), np.array([math.log(m) for m in numbers])

    def _chance(self, problem: Problem, support: NDArray[np.intp]) -> float | None:
        found = self._found(problem)
        least = [f.score for f in found]
        each, numbers = self._logs(problem, least)
        wrong = problem.size - int(np.isin(support, found[0].support).sum())
        log = each[wrong] - logsumexp(each + numbers)
        if self.delta is None:
            return math.exp(log)
        passed, failed = self._tested(problem, least)
        if self.otherwise == "refuse":
            return math.exp(passed + log)
        rest = self._exponential()._chance(problem, support)
        return None if rest is None else math.exp(passed + log) + math.exp(failed) * rest

    def _tested(self, problem: Problem, least: Sequence[float]) -> tuple[float, float]:
        """Return the logs of the chances that the test passes, and that it does not."""
        return log_chances(self._stability(problem, least), self._epsilons[0], self.delta or 0.0)

    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        best = supports[int(np.argmin(scores))]
        mistakes = problem.size - np.isin(supports, best).sum(axis=1)
        least = np.full(int(mistakes.max()) + 1, np.inf)
        np.minimum.at(least, mistakes, scores)
        each, numbers = self._logs(problem, least.tolist())
        logs = each[mistakes] - logsumexp(each + numbers)
        if self.delta is None:
            return np.asarray(logs)
        passed, failed = self._tested(problem, least.tolist())
        logs += passed
        if self.otherwise == "refuse":
            return np.asarray(logs)
        rest = self._exponential()._law(problem, supports, scores) + failed
        return np.asarray(np.logaddexp(logs, rest))
