"""A Markov chain over supports by swaps: Metropolis-Hastings with moments kept up to date (T24)."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.designs import ColumnCache
from dpsubset.errors import UnprovenError
from dpsubset.limits import REFUSED, Allowance
from dpsubset.losses.ball import solve
from dpsubset.problem import IMPRECISE, Problem
from dpsubset.sampling.l1_ball import l1_gain
from dpsubset.sums import dot

__all__ = [
    "ByFits",
    "ByMoments",
    "Data",
    "Draws",
    "Norm",
    "Rule",
    "Standing",
    "Steps",
    "Walker",
    "run",
    "shared_out",
    "store_of",
    "value_of",
    "worth_all",
]

ROUND = 1024  # steps between looks at the limits
_COARSE = 0.05  # of a fit that decides a step, in units of 1/kappa
_LONG = 4  # a product of two columns costs as much as this many inside a matrix product
_MEMORY = 1 << 30  # bytes of columns that are kept for further proposals
_ROWS = 128 << 20  # bytes of rows of X'X

Standing = tuple[NDArray[np.int64], NDArray[np.int64]]  # supports and what is outside, by chains


class Steps(Protocol):
    """Where a chain takes its randomness from."""

    def belows(self, bound: int, count: int) -> NDArray[np.int64]:
        """Return independent uniform whole numbers in 0, ..., bound - 1."""

    def exponentials(self, count: int) -> Floats:
        """Return independent exponential numbers of mean 1."""


@dataclass(frozen=True)
class Rule:
    """What a chain is told: its exponent, how many steps, and which ball, to which gap."""

    kappa: float
    steps: int
    l1: bool = False
    gap: float = 0.0


class Draws(NamedTuple):
    """The randomness of some steps: a row for each chain, a number for each step."""

    positions: NDArray[np.int64]  # in the support, of the column that may leave
    slots: NDArray[np.int64]  # of the column that may come
    heights: Floats  # kappa times the rise of the score that is accepted

    def part(self, start: int, stop: int) -> Draws:
        """Return some of the steps."""
        kept = slice(None), slice(start, stop)
        return Draws(
            np.ascontiguousarray(self.positions[kept]),
            np.ascontiguousarray(self.slots[kept]),
            np.ascontiguousarray(self.heights[kept]),
        )


class Data(NamedTuple):
    """What scores are made of: the moments, or columns for their inner products."""

    table: Floats
    whole: bool  # the table is X'X, not columns
    places: NDArray[np.int64]  # of every column in the table
    correlations: Floats  # X'y
    diagonal: Floats  # of X'X
    energy: float  # y'y
    rows: Floats = np.empty((0, 0))  # of X'X, of columns that stay in supports
    known: NDArray[np.int64] = np.empty(0, np.int64)  # where a column's row is, or -1


class Norm(NamedTuple):
    """What a score depends on besides the support, and its exponent."""

    kappa: float
    ridge: float
    radius: float
    l1: bool
    gap: float


class _State(NamedTuple):
    """Where chains stand; a row, or a number, for each."""

    supports: NDArray[np.int64]
    outside: NDArray[np.int64]
    blocks: Floats  # inner products of the support's columns
    scores: Floats
    accepted: NDArray[np.int64]
    sure: NDArray[np.bool_]  # every score so far was precise enough


@compiled(nogil=True)
def _fill(data, columns, at, block):  # type: ignore[no-untyped-def]
    """Fill in the inner products of the column at one place with all others of a support."""
    table, places = data.table, data.places
    new = places[columns[at]]
    for q in range(columns.size):
        if q != at:
            other = places[columns[q]]
            if data.whole:
                v = table[new, other]
            elif data.known[columns[q]] >= 0:
                v = data.rows[data.known[columns[q]], columns[at]]
            else:
                v = dot(table[new], table[other])
            block[at, q] = v
            block[q, at] = v
    block[at, at] = data.diagonal[columns[at]]


@compiled(nogil=True)
def value_of(block, target, energy, norm, beta):  # type: ignore[no-untyped-def]
    """Return R(S), or its variant over the l1 ball, and whether it is precise enough."""
    if norm.l1:
        gain, short = l1_gain(block, target, norm.ridge, norm.radius, norm.gap, beta)
        return energy - gain, short <= norm.gap
    return energy - solve(block, target, norm.ridge, norm.radius, beta)[0], True


@compiled(nogil=True)
def _begin(data, norm, state, first, last):  # type: ignore[no-untyped-def]
    """Fill in the moments and the score of the supports that chains stand at."""
    beta = np.empty(state.supports.shape[1])
    for c in range(first, last):
        columns, block = state.supports[c], state.blocks[c]
        for q in range(beta.size):
            _fill(data, columns, q, block)
        target = data.correlations[columns]
        state.scores[c], state.sure[c] = value_of(block, target, data.energy, norm, beta)


@compiled(nogil=True)
def _walk(data, norm, state, draws, first, last):  # type: ignore[no-untyped-def]
    """Take the steps that were drawn, for the chains `first` to `last`.

    A support is the included columns, then the chosen ones; those outside wait in slots. A swap
    exchanges a chosen column with a slot's, so every pair is proposed with the same chance, and
    so is the way back.
    """
    b, outside, scores = data.correlations, state.outside, state.scores
    s = state.supports.shape[1]
    trial, beta, target = np.empty((s, s)), np.empty(s), np.empty(s)
    for c in range(first, last):
        columns, block = state.supports[c], state.blocks[c]
        target[:] = b[columns]
        for m in range(draws.heights.shape[1]):
            at, slot = draws.positions[c, m], draws.slots[c, m]
            old, new = columns[at], outside[c, slot]
            trial[:] = block
            columns[at], target[at] = new, b[new]
            _fill(data, columns, at, trial)
            value, precise = value_of(trial, target, data.energy, norm, beta)
            if not precise:
                state.sure[c] = False
                break
            if norm.kappa * (value - scores[c]) <= draws.heights[c, m]:
                block[:] = trial
                scores[c] = value
                outside[c, slot] = old
                state.accepted[c] += 1
            else:
                columns[at], target[at] = old, b[old]


class Walker(ABC):
    """Who takes steps: chains stand where `state` says, and what they accept is counted."""

    @abstractmethod
    def __init__(
        self, problem: Problem, rule: Rule, state: Standing, accepted: NDArray[np.int64]
    ) -> None: ...

    @abstractmethod
    def walk(self, draws: Draws, allowance: Allowance) -> None:
        """Take the steps that were drawn."""


def run(
    walker: type[Walker],
    problem: Problem,
    rule: Rule,
    state: Standing,
    source: Steps,
    allowance: Allowance,
) -> NDArray[np.int64]:
    """Run chains side by side from where they stand; return how many steps each accepted.

    `state` holds a row for each chain, changed in place: the support, included columns first, and
    the free columns outside. All randomness is drawn here, in an order that threads do not
    change.
    """
    supports, outside = state
    chains, size = supports.shape
    k, others = len(problem.include), outside.shape[1]
    accepted = np.zeros(chains, dtype=np.int64)
    if size == k or others == 0:
        return accepted  # there is one support only
    walking = walker(problem, rule, state, accepted)
    for length in _rounds(rule.steps):
        if allowance.over or allowance.nodes < chains * length:
            raise UnprovenError(REFUSED)
        shape = chains, length
        draws = Draws(
            k + source.belows(size - k, chains * length).reshape(shape),
            source.belows(others, chains * length).reshape(shape),
            source.exponentials(chains * length).reshape(shape),
        )
        walking.walk(draws, allowance)
        allowance.spend(chains * length)
    return accepted


def _rounds(steps: int) -> Iterator[int]:
    for start in range(0, steps, ROUND):
        yield min(ROUND, steps - start)


def threads() -> int:
    """Return how many threads share the chains."""
    able = getattr(os, "sched_getaffinity", None)
    return len(able(0)) if able else os.cpu_count() or 1


def shared_out(work: Callable[[int, int], None], first: int, last: int) -> None:
    """Have the chains `first` to `last` walked by all threads, some each."""
    shares = np.linspace(first, last, min(threads(), last - first) + 1).astype(int)
    if shares.size == 2:
        work(first, last)
        return
    with ThreadPoolExecutor(shares.size - 1) as pool:
        list(pool.map(work, shares[:-1], shares[1:]))


def worth_all(problem: Problem, products: int) -> bool:
    """Whether to form all of X'X, where single products of columns would be so many."""
    gram, p = problem.gram, problem.features.n_columns
    return gram.held or (gram.affordable and p * p <= _LONG * products)


class ByMoments(Walker):
    """Steps for squared loss: a swap needs the inner products of one column with the others."""

    def __init__(
        self, problem: Problem, rule: Rule, state: Standing, accepted: NDArray[np.int64]
    ) -> None:
        supports, outside = state
        chains, size = supports.shape
        self._problem, self._fresh = problem, True
        self._norm = Norm(rule.kappa, problem.ridge, problem.radius, rule.l1, rule.gap)
        scores, sure = np.empty(chains), np.ones(chains, dtype=np.bool_)
        blocks = np.empty((chains, size, size))
        self._state = _State(supports, outside, blocks, scores, accepted, sure)
        self._whole = worth_all(problem, size * rule.steps * chains)
        self._store = None if self._whole else store_of(problem, rule.steps * chains)
        p = problem.n_columns
        self._rows, self._known = np.empty((0, p)), np.full(p, -1)
        self._stood = np.zeros(p, dtype=np.int64)  # steps that a column was in supports

    def walk(self, draws: Draws, allowance: Allowance) -> None:
        """Take the steps, as many at once as there are columns at hand for."""
        chains, length = draws.heights.shape
        at_once, ahead = chains, length
        if self._store is not None:
            self._look_ahead(length)
        if self._store is not None and self._store.room < self._problem.n_columns:
            size, room = self._state.supports.shape[1], self._store.room
            at_once = max(1, min(chains, room // (2 * size)))
            ahead = room // at_once - size
        for first in range(0, chains, at_once):
            last = min(first + at_once, chains)
            for start in range(0, length, ahead):
                if allowance.seconds <= 0:
                    raise UnprovenError(REFUSED)
                part = draws.part(start, start + ahead)
                self._part(part, first, last, self._fresh and start == 0)
        self._fresh = False
        if not self._state.sure.all():
            raise UnprovenError(IMPRECISE)

    def _look_ahead(self, length: int) -> None:
        """Make the rows of X'X of columns that have stood for as many steps as rows have products.

        Their proposals cost no product then. What is made depends on where chains stand between
        two rounds, not on threads.
        """
        p = self._problem.n_columns
        standing = np.bincount(self._state.supports.ravel(), minlength=p)
        self._stood += length * standing
        room = _ROWS // (8 * p) - len(self._rows)
        new = np.flatnonzero((standing > 0) & (self._stood > p) & (self._known < 0))[:room]
        if new.size:
            self._known[new] = len(self._rows) + np.arange(new.size)
            self._rows = np.vstack([self._rows, *self._problem.design.gram_rows(new)])

    def _part(self, draws: Draws, first: int, last: int, fresh: bool) -> None:
        data = self._data(draws.slots[first:last], first, last)

        def work(low: int, high: int) -> None:
            if fresh:
                _begin(data, self._norm, self._state, low, high)
            _walk(data, self._norm, self._state, draws, low, high)

        shared_out(work, first, last)

    def _data(self, slots: NDArray[np.int64], first: int, last: int) -> Data:
        """Return the moments, or the columns that these steps may meet.

        A slot holds what it holds now, or what left a support since: those columns are all here.
        """
        problem = self._problem
        b, diagonal = (
            np.ascontiguousarray(v) for v in (problem.correlations, problem.gram.diagonal)
        )
        rest = b, diagonal, problem.energy
        if self._store is None:
            G = np.ascontiguousarray(problem.gram.full(problem.between))
            return Data(G, True, np.arange(problem.n_columns), *rest)
        met = np.take_along_axis(self._state.outside[first:last], slots, axis=1)
        needed = np.unique(np.concatenate([self._state.supports[first:last].ravel(), met.ravel()]))
        places = np.full(problem.n_columns, -1)
        places[needed] = self._store.places(needed)
        return Data(self._store.store, False, places, *rest, self._rows, self._known)


def store_of(problem: Problem, proposals: int) -> ColumnCache:
    """Return columns on demand: room for all that are proposed, up to a table's worth.

    To fetch a column out of a table by rows takes longer than all products with it.
    """
    n = max(problem.n_rows, 1)
    room = min(problem.n_columns, max(4 * problem.size, min(proposals, _MEMORY // (8 * n))))
    if problem.columns.room >= room:
        return problem.columns
    return ColumnCache(problem.design, memory=8 * n * room)


class ByFits(Walker):
    """Steps for any other loss: every proposal is fitted, as exactly as its decision needs."""

    def __init__(
        self, problem: Problem, rule: Rule, state: Standing, accepted: NDArray[np.int64]
    ) -> None:
        self._problem, self._kappa = problem, rule.kappa
        self._state, self._accepted = state, accepted

    def walk(self, draws: Draws, allowance: Allowance) -> None:
        """Take the steps one by one."""
        supports, outside = self._state
        positions, slots, heights = draws
        for c, m in np.ndindex(positions.shape):
            if allowance.seconds <= 0:
                raise UnprovenError(REFUSED)
            at, slot = positions[c, m], slots[c, m]
            proposed = supports[c].copy()
            proposed[at] = outside[c, slot]
            if self._reached(supports[c], proposed, float(heights[c, m])):
                supports[c, at], outside[c, slot] = outside[c, slot], supports[c, at]
                self._accepted[c] += 1

    def _reached(self, old: Any, new: Any, height: float) -> bool:
        """Whether kappa (R(new) - R(old)) is at most the height: ends first, then middles (T16)."""
        gap = _COARSE / self._kappa
        (low, high), (new_low, new_high) = (self._problem.enclose(s, gap) for s in (old, new))
        if self._kappa * (new_high - low) <= height:
            return True
        if self._kappa * (new_low - high) > height:
            return False
        rise = sum(self._problem.enclose(new)) / 2 - sum(self._problem.enclose(old)) / 2
        return self._kappa * rise <= height
