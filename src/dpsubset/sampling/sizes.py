"""Draws where the size of a support is open: one sampler a size, and the earliest wins (T34).

Clocks of all sizes run together: uniform ones (T15), or memoryless ones, which give the exponential
mechanism. A size is looked at up to the earliest ring of the sizes before it.
"""

from __future__ import annotations

import math

import numpy as np

from dpsubset.cuts import cut_maker
from dpsubset.limits import Allowance, Limits
from dpsubset.problem import Problem
from dpsubset.sampling import drawing
from dpsubset.sampling.drawing import Draw, _Samplers
from dpsubset.sampling.pieces import RandomSource, Support
from dpsubset.sampling.race import Race, Tries

__all__ = ["proportional", "race"]


def proportional(problem: Problem, kappa: float, limits: Limits | None = None) -> Draw:
    """Prepare draws with log weights -kappa R(S), less what columns cost if their number is open.

    >>> from dpsubset.sampling.probe import Probe
    >>> X = np.eye(3); given = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0}
    >>> problem = Problem(X, X[0], size=2, false_columns=0.001, **given)
    >>> proportional(problem, 100.0)(Probe()).tolist()
    [0]
    """
    if problem.false_columns is None:
        return drawing.proportional(problem, kappa, limits)
    return _Sizes(problem, kappa, Allowance(limits), racing=False).draw


def race(problem: Problem, kappa: float, limits: Limits | None = None) -> Draw:
    """Prepare draws of the support whose clock rings first; columns cost as above."""
    if problem.false_columns is None:
        return drawing.race(problem, kappa, limits)
    return _Sizes(problem, kappa, Allowance(limits), racing=True).draw


class _Sizes:
    """Samplers of all sizes, each made when it is needed; one that is likely to win goes first."""

    def __init__(
        self, problem: Problem, kappa: float, allowance: Allowance, *, racing: bool
    ) -> None:
        self._problem, self._kappa = problem.within(allowance), kappa
        self._allowance, self._racing = allowance, racing
        self._made: dict[int, _Alone | _Samplers] = {}
        self._order = self._likely()

    def draw(self, source: RandomSource) -> Support:
        """Return the support of any size whose clock rings first."""
        first, earliest = np.empty(0, dtype=np.int64), math.inf
        for size in self._order:
            late = self._late(size)
            state = (Race if self._racing else Tries)(until=earliest - late)
            found = self._sampled(size, source, state)
            if found is not None:
                first, earliest = found, state.now + late
        return first

    def _late(self, size: int) -> float:
        """Return how late the clocks of a size are: a weight lower by a factor delays by it."""
        return self._problem.column_cost * (size - len(self._problem.include))

    def _likely(self) -> list[int]:
        """Return the sizes by what a greedy choice of so many columns weighs, the heaviest first.

        An early ring is a deadline for all others: the order changes speed, not the distribution.
        """
        problem, heights = self._problem, {}
        maker, inside = cut_maker(problem.of_size(problem.size)), problem.include
        for size in problem.sizes:
            heights[size] = self._kappa * problem.score(inside) + self._late(size)
            if size < problem.size:
                gains = maker.gains(inside)[problem.free]
                gains[np.isin(problem.free, inside)] = -1.0
                inside = (*inside, int(problem.free[int(np.argmax(gains))]))
        return sorted(problem.sizes, key=heights.__getitem__)

    def _sampled(self, size: int, source: RandomSource, state: Race | Tries) -> Support | None:
        if size not in self._made:
            self._made[size] = self._sampler(self._problem.of_size(size))
        sampler = self._made[size]
        if isinstance(state, Race):
            return sampler.race(source, state)
        return sampler.proportional(source, state)

    def _sampler(self, part: Problem) -> _Alone | _Samplers:
        if part.to_choose == 0:
            return _Alone(part, self._kappa)
        return _Samplers(part, self._kappa, self._allowance, racing=self._racing)


class _Alone:
    """The one support of nothing but the included columns."""

    def __init__(self, part: Problem, kappa: float) -> None:
        self._support = np.array(part.include, dtype=np.int64)
        low, high = part.enclose(self._support)
        self._log_weight = -kappa * (low + high) / 2

    def race(self, source: RandomSource, state: Race) -> Support | None:
        """Let a clock uniform on (0, 1/a) ring."""
        state.begin(np.array([self._log_weight]), source)
        return state.ended([self._support])

    def proportional(self, source: RandomSource, state: Tries) -> Support | None:
        """Let a memoryless clock ring."""
        return None if state.late(self._log_weight, 1, source) else self._support
