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

__all__ = ["ByBlocks"]

_ROOM = 1024  # columns whose products are held, where all of X'X is not


class _Parts(NamedTuple):
    """The columns of features: those of g are order[starts[g]:starts[g + 1]]."""

    order: NDArray[np.intp]
    starts: NDArray[np.intp]


class _State(NamedTuple):
    """Where chains stand; a row, or a number, for each."""

    supports: NDArray[np.int64]
    outside: NDArray[np.int64]
    scores: Floats
    accepted: NDArray[np.int64]
    sure: NDArray[np.bool_]  # every score so far was precise enough


@compiled(nogil=True)
def _score(data, parts, norm, support):  # type: ignore[no-untyped-def]
    """Return the score of some features, and whether it is precise enough."""
    k = 0
    for g in support:
        k += parts.starts[g + 1] - parts.starts[g]
    block, target, beta, held = np.empty((k, k)), np.empty(k), np.empty(k), np.empty(k, np.int64)
    i = 0
    for g in support:
        for place in range(parts.starts[g], parts.starts[g + 1]):
            column = parts.order[place]
            target[i], held[i] = data.correlations[column], data.places[column]
            for j in range(i + 1):
                v = data.table[held[i], held[j]]
                block[i, j] = v
                block[j, i] = v
            i += 1
    return value_of(block, target, data.energy, norm, beta)


@compiled(nogil=True)
def _walk(data, parts, norm, state, draws, fresh, first, last):  # type: ignore[no-untyped-def]
    """Take the steps that were drawn, for the chains `first` to `last`, as for single columns."""
    scores = state.scores
    for c in range(first, last):
        support, outside = state.supports[c], state.outside[c]
        if fresh:
            scores[c], state.sure[c] = _score(data, parts, norm, support)
        for m in range(draws.heights.shape[1]):
            at, slot = draws.positions[c, m], draws.slots[c, m]
            old, new = support[at], outside[slot]
            support[at] = new
            value, precise = _score(data, parts, norm, support)
            if not precise:
                state.sure[c] = False
                break
            if norm.kappa * (value - scores[c]) <= draws.heights[c, m]:
                scores[c] = value
                outside[slot] = old
                state.accepted[c] += 1
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
        self._state = _State(*state, np.empty(chains), accepted, sure)
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
            _walk(data, self._parts, self._norm, self._state, draws, fresh, low, high)

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
