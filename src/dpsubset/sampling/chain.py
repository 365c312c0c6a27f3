"""A Markov chain over supports by swaps: Metropolis-Hastings with moments kept up to date (T24)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.designs import ColumnCache
from dpsubset.errors import UnprovenError
from dpsubset.limits import REFUSED, Budget
from dpsubset.losses.ball import solve
from dpsubset.problem import IMPRECISE, Problem

__all__ = ["Rule", "Steps", "l1_gain", "l1_scores", "run"]

ROUND = 1024  # steps between looks at the limits
_SUM = 4096  # products summed in one go: rounding does not grow with the number of rows
_COARSE = 0.05  # of a fit that decides a step, in units of 1/kappa
_LONG = 4  # a product of two columns costs as much as this many inside a matrix product
_MEMORY = 1 << 30  # bytes of columns that are kept for further proposals
_FACES = 8  # of the l1 ball for each column, before gradient steps are taken
_DESCENTS = 50  # gradient steps, before faces are tried again
_TRIALS = 400  # of both, before a fit gives up


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


@compiled(nogil=True)
def _project(x, radius, out):  # type: ignore[no-untyped-def]
    """Fill `out`, the point of the l1 ball that is nearest to x."""
    sizes = np.sort(np.abs(x))[::-1]
    total, level = 0.0, 0.0
    for i in range(x.size):
        total += sizes[i]
        if sizes[i] * (i + 1) <= total - radius:
            break
        level = (total - radius) / (i + 1)
    level = max(level, 0.0)
    for i in range(x.size):
        out[i] = np.sign(x[i]) * max(abs(x[i]) - level, 0.0)


@compiled(nogil=True)
def _slopes(H, b, radius, x, slopes):  # type: ignore[no-untyped-def]
    """Fill half the gradient; return by how much F(x) exceeds its least over the ball, at most.

    F is convex, and its tangent at x is least over the ball at a vertex.
    """
    slope, steepest = 0.0, 0.0
    for i in range(b.size):
        slopes[i] = -b[i]
        for j in range(b.size):
            slopes[i] += H[i, j] * x[j]
        slope += 2.0 * slopes[i] * x[i]
        steepest = max(steepest, 2.0 * abs(slopes[i]))
    return max(slope + radius * steepest, 0.0)


@compiled(nogil=True)
def _along_face(H, slopes, signs, damp, d):  # type: ignore[no-untyped-def]
    """Fill the way from a point to the minimum of its face, where the sum of sizes is kept.

    What is common to all slopes is taken away first: it does not count on the face, and would
    cancel badly where H is nearly singular.
    """
    face = np.flatnonzero(signs)
    k = face.size
    block, down, one = np.empty((k, k)), np.empty(k), signs[face]
    for i in range(k):
        down[i] = -slopes[face[i]]
        for j in range(k):
            block[i, j] = H[face[i], face[j]]
    down -= one * np.sum(one * down) / k
    free, level = np.empty(k), np.empty(k)
    solve(block, down, damp, 1e60, free)
    solve(block, one, damp, 1e60, level)
    free -= level * (np.sum(one * free) / np.sum(one * level))
    d[:] = 0.0
    d[face] = free


@compiled(nogil=True)
def _faces(H, b, radius, gap, damp, x):  # type: ignore[no-untyped-def]
    """Go from face to face of the ball's boundary; return the gap of the best point, left in x.

    A column whose coefficient reaches zero leaves the face; at a face's minimum the column of
    steepest slope comes in.
    """
    k = b.size
    point, signs, slopes, d = x.copy(), np.sign(x), np.empty(k), np.empty(k)
    short = np.inf
    if not signs.any():
        return short
    for _ in range(_FACES * (k + 1)):
        here = _slopes(H, b, radius, point, slopes)
        if here < short:
            short = here
            x[:] = point
        if not short > gap:
            break
        _along_face(H, slopes, signs, damp, d)
        share, last = 1.0, -1
        for i in range(k):
            if signs[i] * (point[i] + share * d[i]) < 0.0:
                share, last = abs(point[i] / d[i]), i
        total = 0.0
        for i in range(k):
            point[i] += share * d[i]
            total += abs(point[i])
        if last >= 0:
            point[last] = signs[last] = 0.0
        else:
            new = np.argmax(np.abs(slopes))
            if signs[new] == 0.0:
                signs[new] = -np.sign(slopes[new])
        if not 0.0 < total < np.inf:
            break
        point *= radius / total
    return short


@compiled(nogil=True)
def _descend(H, b, radius, x):  # type: ignore[no-untyped-def]
    """Take projected gradient steps with momentum, which is forgotten when it points back."""
    k = b.size
    steepness = 1e-300
    for i in range(k):
        steepness = max(steepness, np.sum(np.abs(H[i])))
    ahead, slopes, moved = x.copy(), np.empty(k), np.empty(k)
    momentum = 1.0
    for _ in range(_DESCENTS):
        _slopes(H, b, radius, ahead, slopes)
        _project(ahead - slopes / steepness, radius, moved)
        after = 0.5 + np.sqrt(0.25 + momentum * momentum)
        if np.sum((ahead - moved) * (moved - x)) > 0.0:
            momentum, after = 1.0, 1.0
        ahead[:] = moved + (momentum - 1.0) / after * (moved - x)
        x[:] = moved
        momentum = after


@compiled(nogil=True)
def l1_gain(G, b, ridge, radius, gap, beta):  # type: ignore[no-untyped-def]
    """Fill `beta`, the minimiser over |beta|_1 <= radius; return its gain and what it may lack.

    R_1 = y'y - gain. The Euclidean ball of that radius holds the l1 ball, so its minimiser is
    tried first; then the faces of the l1 ball, from where gradient steps have come to. Whatever
    led to a point, its gap is certified (T24).
    """
    k = b.size
    H, x, slopes = G.copy(), np.empty(k), np.empty(k)
    for i in range(k):
        H[i, i] += ridge
    solve(G, b, ridge, radius, beta)
    _project(beta, radius, x)
    beta[:] = x
    short = _slopes(H, b, radius, beta, slopes)
    damp = 0.1 * gap / (radius * radius)  # changes F by less than the gap
    for _ in range(_TRIALS):
        if not short > gap:
            break
        tried = x.copy()
        lacking = _faces(H, b, radius, gap, damp, tried)
        if lacking < short:
            short = lacking
            beta[:] = tried
        if short > gap:
            _descend(H, b, radius, x)
    gain = 0.0
    _slopes(H, b, radius, beta, slopes)
    for i in range(k):
        gain += (b[i] - slopes[i]) * beta[i]
    return gain, short


@compiled(nogil=True)
def l1_scores(G, b, energy, supports, ridge, radius, gap):  # type: ignore[no-untyped-def]
    """Return R_1(S) for every row S of `supports`, and the largest gap among them."""
    m, k = supports.shape
    scores, beta, block = np.empty(m), np.empty(k), np.empty((k, k))
    widest = 0.0
    for r in range(m):
        for i in range(k):
            for j in range(k):
                block[i, j] = G[supports[r, i], supports[r, j]]
        gain, short = l1_gain(block, b[supports[r]], ridge, radius, gap, beta)
        scores[r] = energy - gain
        widest = max(widest, short)
    return scores, widest


@compiled(nogil=True, fastmath={"contract", "reassoc"})
def _dot(u, v):  # type: ignore[no-untyped-def]
    total = 0.0
    for start in range(0, u.size, _SUM):
        part = 0.0
        for i in range(start, min(start + _SUM, u.size)):
            part += u[i] * v[i]
        total += part
    return total


@compiled(nogil=True)
def _fill(data, columns, at, block):  # type: ignore[no-untyped-def]
    """Fill in the inner products of the column at one place with all others of a support."""
    table, whole, places, _, diagonal, _ = data
    new = places[columns[at]]
    for q in range(columns.size):
        if q != at:
            other = places[columns[q]]
            v = table[new, other] if whole else _dot(table[new], table[other])
            block[at, q] = v
            block[q, at] = v
    block[at, at] = diagonal[columns[at]]


@compiled(nogil=True)
def _value(block, target, energy, rule, beta):  # type: ignore[no-untyped-def]
    """Return R(S), or its variant over the l1 ball, and whether it is precise enough."""
    _, ridge, radius, l1, gap = rule
    if l1:
        gain, short = l1_gain(block, target, ridge, radius, gap, beta)
        return energy - gain, short <= gap
    return energy - solve(block, target, ridge, radius, beta)[0], True


@compiled(nogil=True)
def _begin(data, rule, state, first, last):  # type: ignore[no-untyped-def]
    """Fill in the moments and the score of the supports that chains stand at."""
    supports, _, blocks, scores, _, sure = state
    b, energy = data[3], data[5]
    beta = np.empty(supports.shape[1])
    for c in range(first, last):
        for q in range(beta.size):
            _fill(data, supports[c], q, blocks[c])
        scores[c], sure[c] = _value(blocks[c], b[supports[c]], energy, rule, beta)


@compiled(nogil=True)
def _walk(data, rule, state, draws, first, last):  # type: ignore[no-untyped-def]
    """Take the steps that were drawn, for the chains `first` to `last`.

    A support is the included columns, then the chosen ones; those outside wait in slots. A swap
    exchanges a chosen column with a slot's, so every pair is proposed with the same chance, and
    so is the way back.
    """
    supports, outside, blocks, scores, accepted, sure = state
    positions, slots, heights = draws
    kappa, b, energy = rule[0], data[3], data[5]
    s = supports.shape[1]
    trial, beta, target = np.empty((s, s)), np.empty(s), np.empty(s)
    for c in range(first, last):
        columns, block = supports[c], blocks[c]
        target[:] = b[columns]
        for m in range(heights.shape[1]):
            at, slot = positions[c, m], slots[c, m]
            old, new = columns[at], outside[c, slot]
            trial[:] = block
            columns[at], target[at] = new, b[new]
            _fill(data, columns, at, trial)
            value, precise = _value(trial, target, energy, rule, beta)
            if not precise:
                sure[c] = False
                break
            if kappa * (value - scores[c]) <= heights[c, m]:
                block[:] = trial
                scores[c] = value
                outside[c, slot] = old
                accepted[c] += 1
            else:
                columns[at], target[at] = old, b[old]


def run(
    problem: Problem,
    rule: Rule,
    state: tuple[NDArray[np.int64], NDArray[np.int64]],
    source: Steps,
    budget: Budget,
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
    walker = (_Moments if problem.quadratic else _Fits)(problem, rule, state, accepted)
    for length in _rounds(rule.steps):
        if budget.over or budget.nodes < chains * length:
            raise UnprovenError(REFUSED)
        shape = chains, length
        draws = (
            k + source.belows(size - k, chains * length).reshape(shape),
            source.belows(others, chains * length).reshape(shape),
            source.exponentials(chains * length).reshape(shape),
        )
        walker.walk(draws, budget)
        budget.spend(chains * length)
    return accepted


def _rounds(steps: int) -> Iterator[int]:
    for start in range(0, steps, ROUND):
        yield min(ROUND, steps - start)


def threads() -> int:
    """Return how many threads share the chains."""
    able = getattr(os, "sched_getaffinity", None)
    return len(able(0)) if able else os.cpu_count() or 1


class _Moments:
    """Steps for squared loss: a swap needs the inner products of one column with the others."""

    def __init__(self, problem: Problem, rule: Rule, state: Any, accepted: Any) -> None:
        supports, self._outside = state
        chains, size = supports.shape
        self._problem, self._fresh = problem, True
        self._rule = rule.kappa, problem.ridge, problem.radius, rule.l1, rule.gap
        scores, sure = np.empty(chains), np.ones(chains, dtype=np.bool_)
        blocks = np.empty((chains, size, size))
        self._state = supports, self._outside, blocks, scores, accepted, sure
        gram, p = problem.gram, problem.n_columns
        worth = p * p <= _LONG * size * rule.steps * chains
        self._whole = gram.held or (gram.affordable and worth)
        self._store = None if self._whole else _store(problem, rule.steps * chains)

    def walk(self, draws: Any, budget: Budget) -> None:
        chains, length = draws[0].shape
        at_once, ahead = chains, length
        if self._store is not None and self._store.room < self._problem.n_columns:
            size, room = self._state[0].shape[1], self._store.room
            at_once = max(1, min(chains, room // (2 * size)))
            ahead = room // at_once - size
        for first in range(0, chains, at_once):
            last = min(first + at_once, chains)
            for start in range(0, length, ahead):
                if budget.seconds <= 0:
                    raise UnprovenError(REFUSED)
                part = tuple(np.ascontiguousarray(d[:, start : start + ahead]) for d in draws)
                self._part(part, first, last, self._fresh and start == 0)
        self._fresh = False
        if not self._state[5].all():
            raise UnprovenError(IMPRECISE)

    def _part(self, draws: Any, first: int, last: int, fresh: bool) -> None:
        data = self._data(draws[1][first:last], first, last)
        shares = np.linspace(first, last, min(threads(), last - first) + 1).astype(int)

        def work(low: int, high: int) -> None:
            if fresh:
                _begin(data, self._rule, self._state, low, high)
            _walk(data, self._rule, self._state, draws, low, high)

        if shares.size == 2:
            work(first, last)
            return
        with ThreadPoolExecutor(shares.size - 1) as pool:
            list(pool.map(work, shares[:-1], shares[1:]))

    def _data(self, slots: NDArray[np.int64], first: int, last: int) -> tuple[Any, ...]:
        """Return the moments, or the columns that these steps may meet.

        A slot holds what it holds now, or what left a support since: those columns are all here.
        """
        problem = self._problem
        b, diagonal = (
            np.ascontiguousarray(v) for v in (problem.correlations, problem.gram.diagonal)
        )
        rest = b, diagonal, problem.energy
        if self._store is None:
            G = np.ascontiguousarray(problem.gram.full())
            return G, True, np.arange(problem.n_columns), *rest
        met = np.take_along_axis(self._outside[first:last], slots, axis=1)
        needed = np.unique(np.concatenate([self._state[0][first:last].ravel(), met.ravel()]))
        places = np.full(problem.n_columns, -1)
        places[needed] = self._store.places(needed)
        return self._store.store, False, places, *rest


def _store(problem: Problem, proposals: int) -> ColumnCache:
    """Return columns on demand: room for all that are proposed, up to a table's worth.

    To fetch a column out of a table by rows takes longer than all products with it.
    """
    n = max(problem.n_rows, 1)
    room = min(problem.n_columns, max(4 * problem.size, min(proposals, _MEMORY // (8 * n))))
    if problem.columns.room >= room:
        return problem.columns
    return ColumnCache(problem.design, memory=8 * n * room)


class _Fits:
    """Steps for any other loss: every proposal is fitted, as exactly as its decision needs."""

    def __init__(self, problem: Problem, rule: Rule, state: Any, accepted: Any) -> None:
        self._problem, self._kappa = problem, rule.kappa
        self._state, self._accepted = state, accepted

    def walk(self, draws: Any, budget: Budget) -> None:
        supports, outside = self._state
        positions, slots, heights = draws
        for c, m in np.ndindex(positions.shape):
            if budget.seconds <= 0:
                raise UnprovenError(REFUSED)
            at, slot = positions[c, m], slots[c, m]
            proposed = supports[c].copy()
            proposed[at] = outside[c, slot]
            if self._reached(supports[c], proposed, heights[c, m]):
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
