"""Which sampler serves a problem: a partition by envelopes, or a covering by bounds."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpsubset import sampling
from dpsubset.cuts import CutMaker, cut_maker
from dpsubset.cuts.bending import BendingCuts
from dpsubset.cuts.curvature import sparse_affordable
from dpsubset.cuts.minorant import bends
from dpsubset.cuts.region import root
from dpsubset.cuts.start import start
from dpsubset.limits import Allowance, Limits
from dpsubset.problem import Problem
from dpsubset.sampling.covering import Covering, one_pass
from dpsubset.sampling.partition import Partition, TooHard
from dpsubset.sampling.pieces import RandomSource, Support
from dpsubset.sampling.race import Race, Tries, draw_proportional, draw_race

__all__ = ["Draw", "proportional", "race"]

_COLUMNS = 400  # that a covering walks over at most
_AT_ONCE = 0.3  # seconds in which all supports are bounded, for a covering that serves at once
_SOON = 3e-3  # the same where a fit may do better
_SOON_BLOCKS = (
    0.02  # the same for features of several columns: a partition may do with few supports
)
_REFINED = 12  # refinements of a partition in one draw before a covering is tried
_QUICK = 12.0  # seconds in which all supports may be bounded one by one
_TRIED = 0.3  # seconds in which a covering is tried, or a little less
_TRIED_FLAT = 1.0  # the same where scores differ by little: fits bound many supports there
_FLAT = 500.0  # nats of the score without any column, of such tables
_FEWEST = 2  # refinements by fits that are made in any case
_BY_MOMENTS = 0.05  # seconds of a refinement by moments, or a little more
_REFINED_BY_MOMENTS = 80  # the same for squared loss, where they cost little
_REFINED_QUICK = 60  # where a covering takes seconds: before the second search, which takes longer
_REFINED_WIDE = 400  # the same for tables of very many columns
_REFINED_DULL = 40  # the same before cuts are sharpened by inner products of all columns
_REFINED_BENT = 30  # refinements by minorants before a covering is tried, at most
_BENT, _FEWEST_EARLY = 1.0, 3.0  # seconds of all of them; fewer of them do not come first
_BY_MINORANTS, _DESCENTS = 0.02, 0.1  # seconds of one, and its share of one by fits
_MIXTURES, _FIRST = 5.0, 10.0  # expansions that it takes, and that the very first takes
_MIXED = 2e-6  # seconds of an expansion for each row
_WORTH_WAITING = 0.3  # seconds in which all supports are bounded, for minorants to come first
_FEWEST_BENT = 4  # refinements by fits before minorants are tried, or fewer if these cost less
_LOOK = 3e-8  # seconds of a fit for each entry
_ROWS = 2e9  # multiplications for its first moments

Draw = Callable[[RandomSource], Support]


def proportional(problem: Problem, kappa: float, limits: Limits | None = None) -> Draw:
    """Prepare draws with probability proportional to exp(-kappa R(S)) (T14)."""
    samplers = _Samplers(problem, kappa, Allowance(limits), racing=False)
    return lambda source: _drawn(samplers.proportional(source))


def race(problem: Problem, kappa: float, limits: Limits | None = None) -> Draw:
    """Prepare draws of the support whose clock rings first (T15)."""
    samplers = _Samplers(problem, kappa, Allowance(limits), racing=True)
    return lambda source: _drawn(samplers.race(source))


def _drawn(support: Support | None) -> Support:
    assert support is not None  # there was no deadline
    return support


class _Samplers:
    """Samplers one after the other, the next one where a draw from the last takes long.

    First a partition whose cuts come from fits (or moments), for about as long as it takes to try
    what follows; then a covering; and where it does not do, a partition with minorants, if the loss
    bends. That comes for a while before the covering, too, where it costs little. A draw by
    rejection may be given up and begun anew: its tries do not know of each other. A race goes on
    in the next sampler at the time that it has reached.
    """

    def __init__(
        self, problem: Problem, kappa: float, allowance: Allowance, *, racing: bool
    ) -> None:
        self._problem, self._kappa = problem.within(allowance), kappa
        self._allowance, self._racing = allowance, racing
        problem = self._problem
        maker = cut_maker(problem)
        self._bending = isinstance(maker, BendingCuts)
        short = problem.n_supports <= sampling.ENUMERATION_LIMIT
        listed = short and maker.listable(root(problem))
        k, n, p = problem.free.size, problem.n_rows, problem.features.n_columns
        narrow = problem.features.widths[problem.free].sum() <= _COLUMNS
        few = narrow and 2 <= problem.to_choose < k and n * p * p <= _ROWS
        self._walkable = few and bends(problem) and not listed
        self._quick = self._walkable and one_pass(problem) <= _QUICK
        unlisted = not (listed or self._walkable)
        self._dull = maker.sharpens and unlisted and sparse_affordable(problem)
        blocks = not problem.features.identity
        at_once = _SOON if self._bending else _SOON_BLOCKS if blocks else _AT_ONCE
        if self._walkable and one_pass(problem) <= at_once:
            self._serving: Partition | Covering = self._covering(maker)
            return
        self._serving = Partition(problem, kappa, allowance, maker)
        self._most = math.inf
        if isinstance(maker, BendingCuts) and not listed:
            by_fits = maker.refining + max(n, 1) * p * _LOOK
            fewest = min(_FEWEST_BENT, _FIRST * self._expanding(maker) // by_fits)
            self._most = min(max(2e-6 * maker.expanding // by_fits, fewest), _REFINED)
            if not problem.gram.affordable:  # minorants see few columns then
                self._most = _REFINED_DULL if self._dull else _REFINED_WIDE
            elif self._walkable:  # no longer than it takes to try a covering
                nats = kappa * problem.enclose(np.empty(0, dtype=np.intp))[1]
                tried = _TRIED_FLAT if nats <= _FLAT else _TRIED
                most = max(min(one_pass(problem), tried) / maker.refining, 1)
                self._most = min(most, _REFINED_QUICK) if maker.refining <= tried else 0
        elif self._walkable:
            most = _REFINED_QUICK if self._quick else _REFINED_BY_MOMENTS
            self._most = min(max(one_pass(problem) / _BY_MOMENTS, _REFINED), most)
            self._most *= 2 if blocks else 1  # surveys of wide features take longer
            if blocks and one_pass(problem) <= _AT_ONCE:
                self._most = _FEWEST
        elif self._dull:
            self._most = _REFINED_DULL
        self._serving.followed = self._walkable
        if self._most == 0 and self._serving.pieces:  # a single support needs nothing better
            self._change(self._serving)

    def proportional(self, source: RandomSource, tries: Tries | None = None) -> Support | None:
        """Draw with probability proportional to exp(-kappa R(S)); None if it is too late."""
        while isinstance(self._serving, Partition):
            try:
                with self._serving.at_most(self._most):
                    return draw_proportional(self._serving, source, tries)
            except TooHard:
                self._change(self._serving)
        return self._serving.proportional(source, tries)

    def race(self, source: RandomSource, state: Race | None = None) -> Support | None:
        """Draw the support whose clock rings first; None if it is too late."""
        state = state or Race()
        while isinstance(self._serving, Partition):
            try:
                with self._serving.at_most(self._most):
                    return draw_race(self._serving, source, state)
            except TooHard:
                self._change(self._serving)
        return self._serving.race(source, state)

    def _covering(self, maker: CutMaker) -> Covering:
        seed = start(maker)
        return Covering(self._problem, self._kappa, self._allowance, seed, racing=self._racing)

    def _change(self, before: Partition) -> None:
        """Go on with the next sampler; the last partition goes on without limit.

        One with minorants comes before a covering if its refinements cost little, and then goes on
        where the covering does not do.
        """
        maker = before.maker
        before.followed = False
        after: Partition | Covering = before
        self._most = math.inf
        early = self._early(maker) if self._bending and self._walkable else 0.0
        if self._walkable and not early:
            self._walkable = False
            covering = self._covering(maker)
            after = covering if covering.settled else before
        if after is before and self._bending:
            self._bending = False
            maker.expand(before.seed)
            if self._dull:
                maker.sharpen()
            after = Partition(self._problem, self._kappa, self._allowance, maker)
            if early:
                after.followed, self._most = True, early
        elif after is before and self._dull and maker.sharpen():
            before.begin_again()
        self._dull = False
        if after is not before:
            after.adopt(before.singles, before.single_weights)
        self._serving = after

    def _expanding(self, maker: CutMaker) -> float:
        """Return the seconds of an expansion, roughly."""
        return 1e-6 * maker.expanding + _MIXED * self._problem.n_rows

    def _early(self, maker: CutMaker) -> float:
        """Return how many refinements by minorants come before a covering; 0 if it comes first."""
        assert isinstance(maker, BendingCuts)
        if one_pass(self._problem) <= _WORTH_WAITING:
            return 0.0
        each = _BY_MINORANTS + _DESCENTS * maker.refining + _MIXTURES * self._expanding(maker)
        early = min(_BENT / each, _REFINED_BENT)
        return early if early >= _FEWEST_EARLY else 0.0
