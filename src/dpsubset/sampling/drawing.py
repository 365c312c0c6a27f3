"""Which sampler serves a problem: a partition by envelopes, or a covering by bounds."""

from __future__ import annotations

import math
from collections.abc import Callable

from dpsubset import sampling
from dpsubset.cuts import cut_maker
from dpsubset.cuts.minorant import bends
from dpsubset.cuts.region import root
from dpsubset.cuts.start import start
from dpsubset.limits import Allowance, Limits
from dpsubset.problem import Problem
from dpsubset.sampling.covering import Covering
from dpsubset.sampling.partition import Partition, TooHard
from dpsubset.sampling.pieces import RandomSource, Support
from dpsubset.sampling.race import Race, draw_proportional, draw_race

__all__ = ["Draw", "proportional", "race"]

_COLUMNS = 400  # that a covering walks over at most
_ALL_KEPT = 200_000  # supports that a covering takes at once
_REFINED = 12  # refinements of a partition in one draw before a covering is tried
_ROWS = 2e9  # multiplications for its first moments

Draw = Callable[[RandomSource], Support]


def proportional(problem: Problem, kappa: float, limits: Limits | None = None) -> Draw:
    """Prepare draws with probability proportional to exp(-kappa R(S)) (T14)."""
    return _Samplers(problem, kappa, Allowance(limits), racing=False).proportional


def race(problem: Problem, kappa: float, limits: Limits | None = None) -> Draw:
    """Prepare draws of the support whose clock rings first (T15)."""
    return _Samplers(problem, kappa, Allowance(limits), racing=True).race


class _Samplers:
    """A partition, and a covering where a draw from the partition takes long.

    A draw by rejection may be given up and begun anew: its tries do not know of each other. A race
    goes on in the covering at the time that it has reached.
    """

    def __init__(
        self, problem: Problem, kappa: float, allowance: Allowance, *, racing: bool
    ) -> None:
        self._problem, self._kappa = problem.within(allowance), kappa
        self._allowance, self._racing = allowance, racing
        problem = self._problem
        self._maker = cut_maker(problem)
        short = problem.n_supports <= sampling.ENUMERATION_LIMIT
        listed = short and self._maker.listable(root(problem))
        k, n, p = problem.free.size, problem.n_rows, problem.n_columns
        few = 2 <= problem.to_choose < k <= _COLUMNS and n * p * p <= _ROWS
        walkable = few and bends(problem) and not listed
        self._covering: Covering | None = None
        self._partition: Partition | None = None
        self._most = _REFINED if walkable else math.inf
        if walkable and problem.n_supports <= _ALL_KEPT:
            self._covering = self._covered()
        else:
            self._partition = Partition(problem, kappa, allowance, self._maker)

    def proportional(self, source: RandomSource) -> Support:
        """Draw with probability proportional to exp(-kappa R(S))."""
        while self._covering is None:
            assert self._partition is not None
            try:
                with self._partition.at_most(self._most):
                    return draw_proportional(self._partition, source)
            except TooHard:
                self._change()
        return self._covering.proportional(source)

    def race(self, source: RandomSource) -> Support:
        """Draw the support whose clock rings first."""
        state = Race()
        while self._covering is None:
            assert self._partition is not None
            try:
                with self._partition.at_most(self._most):
                    return draw_race(self._partition, source, state)
            except TooHard:
                self._change()
        return self._covering.race(source, state)

    def _covered(self) -> Covering:
        seed = start(self._maker)
        return Covering(self._problem, self._kappa, self._allowance, seed, racing=self._racing)

    def _change(self) -> None:
        """Try a covering; where it does not serve either, the partition goes on without limit."""
        covering = self._covered()
        if not covering.settled:
            self._most = math.inf
            return
        assert self._partition is not None
        covering.adopt(self._partition.singles, self._partition.single_weights)
        self._covering, self._partition = covering, None
