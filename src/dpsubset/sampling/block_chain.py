"""Steps of a Markov chain for squared loss, where features are groups of columns (T24, T32)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.errors import UnprovenError
from dpsubset.limits import REFUSED, Allowance
from dpsubset.problem import IMPRECISE, Problem
from dpsubset.sampling.chain import (
    Data,
    Draws,
    Norm,
    Rule,
    Standing,
    Walker,
    shared_out,
    value_of,
    worth_all,
)
from dpsubset.sampling.l1_ball import l1_gain
from dpsubset.sampling.swapped import Kept, Room, enclosed_gain, forget, gather

__all__ = ["ByBlocks"]

_ROOM = 1024  # columns whose products are held, where all of X'X is not
_COARSE = 0.05  # gap of a first fit over the l1 ball, in units of 1/kappa
_UNIT = 2.0**-53


class _Parts(NamedTuple):
    """The columns of features: those of g are order[starts[g]:starts[g + 1]]."""

    order: NDArray[np.intp]
    starts: NDArray[np.intp]


class _Near(NamedTuple):
    """How a score is enclosed before it is computed to the end."""

    coarse: float  # gap over the l1 ball
    slack: float  # rounding of two scores
    rounding: float  # of a bound by elimination, in units of the trace (T19.3)


class _State(NamedTuple):
    """Where chains stand; a row, or a number, for each."""

    supports: NDArray[np.int64]
    outside: NDArray[np.int64]
    lows: Floats  # the score here is at least that, and at most
    highs: Floats  # that; both are the score once it was computed to the end
    multipliers: Floats  # of the ball, about
    accepted: NDArray[np.int64]
    sure: NDArray[np.bool_]  # every score that was computed to the end is precise enough


@compiled(nogil=True)
def _score(data, parts, norm, support, room):  # type: ignore[no-untyped-def]
    """Return the score of some features, and whether it is precise enough."""
    target = np.empty(room.beta.size)
    k = gather(data, parts, support, -1, room.held, room.block, target)
    block = room.block[: k * k].reshape(k, k)
    return value_of(block, target[:k], data.energy, norm, room.beta[:k])


@compiled(nogil=True)
def _enclosed(data, parts, norm, near, support, at, mu, enough, kept, room):  # type: ignore[no-untyped-def]
    """Return numbers that enclose what `_score` would return, and the ball's multiplier, about.

    The upper number may be infinite where the score is above `enough`. Over the l1 ball a coarse
    fit serves.
    """
    if norm.l1:
        target = np.empty(room.beta.size)
        k = gather(data, parts, support, -1, room.held, room.block, target)
        block, beta = room.block[: k * k].reshape(k, k), room.beta[:k]
        fit = l1_gain(block, target[:k], norm.ridge, norm.radius, near.coarse, beta)
        return data.energy - fit[0] - fit[1] - near.slack, data.energy - fit[0] + near.slack, mu
    needed = data.energy - enough - near.slack
    least, most, trace, mu = enclosed_gain(data, parts, norm, support, at, mu, needed, kept, room)
    slack = near.slack + near.rounding * trace
    return data.energy - most - slack, data.energy - least + slack, mu


@compiled(nogil=True)
def _walk(data, parts, norm, near, state, draws, fresh, kept, room, first, last):  # type: ignore[no-untyped-def]
    """Take the steps that were drawn, for the chains `first` to `last`, as for single columns.

    Every step goes where the scores send it; they are computed where their ends do not decide.
    """
    lows, highs, kappa = state.lows, state.highs, norm.kappa
    for c in range(first, last):
        support, outside = state.supports[c], state.outside[c]
        forget(kept, -1)
        if fresh:
            lows[c], state.sure[c] = _score(data, parts, norm, support, room)
            highs[c] = lows[c]
        for m in range(draws.heights.shape[1]):
            at, slot, height = draws.positions[c, m], draws.slots[c, m], draws.heights[c, m]
            old, new = support[at], outside[slot]
            support[at] = new
            low, high, mu = _enclosed(
                data, parts, norm, near, support, at, state.multipliers[c],
                highs[c] + height / kappa, kept, room,
            )  # fmt: skip
            if kappa * (high - lows[c]) > height >= kappa * (low - highs[c]):
                low, precise = _score(data, parts, norm, support, room)
                high = low
                if lows[c] != highs[c]:
                    support[at] = old
                    lows[c], other = _score(data, parts, norm, support, room)
                    highs[c], precise = lows[c], precise and other
                    support[at] = new
                if not precise:
                    state.sure[c] = False
                    break
            if kappa * (high - lows[c]) <= height:
                lows[c], highs[c], state.multipliers[c] = low, high, mu
                outside[slot] = old
                state.accepted[c] += 1
                forget(kept, at)
            else:
                support[at] = old


class ByBlocks(Walker):
    """A swap exchanges two features; the moments of all their columns make the score."""

    def __init__(
        self, problem: Problem, rule: Rule, state: Standing, accepted: NDArray[np.int64]
    ) -> None:
        chains = accepted.size
        self._problem, self._fresh = problem, True
        self._norm = Norm(rule.kappa, problem.ridge, problem.radius, rule.l1, rule.gap)
        sure = np.ones(chains, dtype=np.bool_)
        numbers = np.empty(chains), np.empty(chains), np.zeros(chains)
        self._state = _State(*state, *numbers, accepted, sure)
        rounding = (12 * problem.most_columns + 8) * _UNIT * problem.radius**2
        slack = 2 * problem.slack + 4 * rule.gap
        self._near = _Near(_COARSE / max(rule.kappa, 1e-300), slack, rounding)
        self._parts = _Parts(problem.features.order, problem.features.starts)
        self._widest = int(problem.features.widths.max(initial=1))
        products = problem.most_columns * self._widest * rule.steps * chains
        self._whole = worth_all(problem, products)

    def walk(self, draws: Draws, allowance: Allowance) -> None:
        """Take the steps: all chains at once, or one by one where not all of X'X is at hand."""
        chains, length = draws.heights.shape
        at_once, ahead = chains, length
        if not self._whole:
            size = self._state.supports.shape[1]
            at_once, ahead = 1, max(1, _ROOM // self._widest - size)
        for first in range(0, chains, at_once):
            for start in range(0, length, ahead):
                if allowance.seconds <= 0:
                    raise UnprovenError(REFUSED)
                fresh = self._fresh and start == 0
                self._part(draws.part(start, start + ahead), fresh, first, first + at_once)
        self._fresh = False
        if not self._state.sure.all():
            raise UnprovenError(IMPRECISE)

    def _part(self, draws: Draws, fresh: bool, first: int, last: int) -> None:
        data = self._data(draws.slots[first:last], first, last)

        def work(low: int, high: int) -> None:
            k = self._problem.most_columns
            kept, room = Kept.of(self._state.supports.shape[1], k), Room.of(k, self._widest)
            given = data, self._parts, self._norm, self._near
            _walk(*given, self._state, draws, fresh, kept, room, low, high)

        shared_out(work, first, last)

    def _data(self, slots: NDArray[np.int64], first: int, last: int) -> Data:
        """Return the products of all columns, or of those that these steps may meet."""
        problem, p = self._problem, self._problem.features.n_columns
        gram, b = problem.gram, np.ascontiguousarray(problem.correlations)
        places = np.arange(p)
        if self._whole:
            G = gram.full(problem.between)
        else:
            met = np.take_along_axis(self._state.outside[first:last], slots, axis=1).ravel()
            features = np.unique(np.concatenate([self._state.supports[first:last].ravel(), met]))
            needed = problem.features.columns(features)
            places[:] = -1
            places[needed] = np.arange(needed.size)
            G = gram.block(needed)
        diagonal = np.ascontiguousarray(gram.diagonal)
        return Data(np.ascontiguousarray(G), True, places, b, diagonal, problem.energy)
