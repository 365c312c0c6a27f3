"""The paper's top-R mechanism on proven searches (T5)."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpsubset import search
from dpsubset.arrays import Floats
from dpsubset.checks import one_of, whole
from dpsubset.docstrings import documented
from dpsubset.errors import InputError
from dpsubset.mechanisms.base import Sampler
from dpsubset.mechanisms.searching import Searching
from dpsubset.privacy import Guarantee, Randomness
from dpsubset.privacy.guarantee import with_bounded_range
from dpsubset.problem import Problem
from dpsubset.sampling.deciding import draw_index
from dpsubset.sampling.pieces import Support, Tail
from dpsubset.search import Found

__all__ = ["TopR"]

_MOST = 10_000_000  # supports on a list


def _log_share(count: int, total: int) -> float:
    """Return log(count / total), accurate when nearly all are counted."""
    left = Fraction(total - count, total)
    return math.log1p(-float(left)) if left < 0.5 else math.log(count) - math.log(total)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class TopR(Searching):
    """The R best supports keep their weight, all others share that of the R-th (paper, Alg. 1).

    It needs the R best, proven, and gives no support of the tail more than the R-th one's chance.

    Parameters
    ----------
    count : int, optional
        The paper's R, from 2 to the number of supports; by default 2 + (p - s) s, at most all.
    trials : int or math.inf
        The paper's T: how often the tail is tried before any support is returned. With a finite
        number the guarantee is weaker than epsilon.
    accounting : "paper" or "sharp"
        How a finite T is paid for: the paper's epsilon', which needs the number of rows and so
        exists under replace-one only, or the sharper bound of T5, valid for both relations.

    Examples
    --------
    >>> TopR(epsilon=1.0, count=10).count
    10
    """

    name = "top-R mechanism"

    count: int | None = None
    trials: float = math.inf
    accounting: str = "paper"

    def __post_init__(self) -> None:
        super().__post_init__()
        trials, accounting = self.trials, self.accounting
        finite = isinstance(trials, numbers.Integral) and not isinstance(trials, bool)
        endless = isinstance(trials, float) and trials == math.inf
        if not (endless or (finite and 1 <= trials <= 10**15)):
            raise InputError(
                f"trials must be inf or a whole number between 1 and 10**15, not {trials!r}"
            )
        self.trials = int(trials) if finite else math.inf  # numpy's unsigned numbers have no minus
        one_of(accounting, "accounting", ("paper", "sharp"))
        private = self.neighbours == "add-remove"
        if self.trials != math.inf and accounting == "paper" and private:
            raise InputError(
                "the paper's guarantee for finite trials depends on the number of rows, which is "
                "private under add-remove; use trials=inf or accounting='sharp'"
            )
        self.count = None if self.count is None else whole(self.count, "count", 2)

    def _resolved_count(self, problem: Problem) -> int:
        t = problem.to_choose
        if self.count is None:
            return min(2 + (problem.free.size - t) * t, problem.n_supports)
        if self.count > _MOST:
            raise InputError(f"count is {self.count}; lists of more than {_MOST} are not made")
        if self.count > problem.n_supports:
            raise InputError(
                f"count is {self.count}, but the problem has only {problem.n_supports} supports"
            )
        return self.count

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the guarantee; with finite trials its epsilon is the paper's epsilon' (T5)."""
        promise = super().guarantee(problem)
        count = self._resolved_count(problem)
        if self.trials == math.inf or count == problem.n_supports:
            # the exponential mechanism of another score, so its range is bounded, too (T30)
            return promise if self.solver.tolerance else with_bounded_range(promise)
        log_q = _log_share(count, problem.n_supports)
        log_qt = self.trials * log_q
        log_rest = math.log(-math.expm1(log_qt))
        if self.accounting == "sharp":
            log_more = (self.trials - 1) * log_q - log_rest
            return replace(promise, epsilon=promise.epsilon + float(np.logaddexp(0.0, log_more)))
        log_delta0 = -self.kappa(problem) * problem.n_rows * problem.loss.largest(
            problem.y_bound, 0.0
        ) - math.log(problem.n_supports)
        epsilon = float(np.logaddexp(promise.epsilon, log_qt - log_delta0)) - log_rest
        return replace(promise, epsilon=epsilon)

    def _found(self, problem: Problem) -> list[Found]:
        """Return the R best supports."""
        count = self._resolved_count(problem)
        return self._searched(search.top, problem, count, count=count)

    def _sampler(self, problem: Problem) -> Sampler:
        found = self._found(problem)
        supports = [np.array(f.support, dtype=np.int64) for f in found]
        logs = -self.kappa(problem) * np.array([f.score for f in found])
        if len(found) == problem.n_supports:
            return lambda randomness: supports[draw_index(logs, randomness)]
        tail = Tail(problem, supports, float(logs[-1]))
        logs = np.append(logs, tail.log_mass)
        stuck = -self.trials * _log_share(len(found), problem.n_supports)

        def draw(randomness: Randomness) -> Support:
            index = draw_index(logs, randomness)
            if index < len(supports):
                return supports[index]
            # All trials fall on listed supports with probability q^T; then the last one counts.
            if randomness.exponential() > stuck:
                return supports[randomness.below(len(supports))]
            return tail.draw(randomness)[0]

        return draw

    def _chance(self, problem: Problem, support: NDArray[np.intp]) -> float:
        found = self._found(problem)
        listed, other = self._logs(problem, np.array([f.score for f in found]))
        places = {f.support: i for i, f in enumerate(found)}
        place = places.get(tuple(support.tolist()))
        return math.exp(other if place is None else listed[place])

    def _logs(self, problem: Problem, best: Floats) -> tuple[Floats, float]:
        """Return the log probability of every listed support, and that of each other one."""
        count, total = best.size, problem.n_supports
        each = -self.kappa(problem) * best
        last = float(each.min())
        rest = math.log(total - count) if total > count else -math.inf
        norm = logsumexp(np.append(each, last + rest))
        listed, other = each - norm, last - float(norm)
        if self.trials == math.inf or count == total:
            return listed, other
        # All trials fall on listed supports with probability q^T; then one of them is returned.
        log_stuck = self.trials * _log_share(count, total)
        extra = rest + other + log_stuck - math.log(count)
        return np.logaddexp(listed, extra), other + math.log(-math.expm1(log_stuck))

    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        best = np.argsort(scores, kind="stable")[: self._resolved_count(problem)]
        listed, other = self._logs(problem, scores[best])
        logs = np.full(scores.size, other)
        logs[best] = listed
        return logs
