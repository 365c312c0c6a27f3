"""Draws over all supports by a walk that bounds every one of them, or many at once (T40, T41).

A covering holds parts of all supports: kept ones with a bound for every support, and others with
one bound for all of theirs. Bounds come from quadratic forms below the scores, expanded where draws
were rejected. Everything here changes speed, not the distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.cuts import walk
from dpsubset.cuts.curvature import elimination_error, steady
from dpsubset.cuts.minorant import Minorant, reach
from dpsubset.cuts.reduced import multiplier
from dpsubset.errors import UnprovenError
from dpsubset.limits import REFUSED, Allowance
from dpsubset.problem import Problem
from dpsubset.sampling.chain import threads as cores
from dpsubset.sampling.deciding import decided, draw_index, new_clocks, ring_height
from dpsubset.sampling.pieces import RandomSource, Support

__all__ = ["Covering"]

_LOG2 = math.log(2.0)
_NONE, _LATE, _SINGLE = -(1 << 60), -(1 << 60) - 1, -(1 << 60) - 2  # in the place of a support
_WORDS = 1 << 12  # uniform numbers for a batch of tries
_FORMS = 16  # that single supports are looked at by
_PARTS = 200_000
_KEPT = 4_000_000  # bounds
_WIDE = 160  # columns, up to which what all of them gain is found at every node
_LIGHTER = 40  # surveys
_LOOSE = 0.5  # nats that a bound may lack before others are raised


class _Cover(NamedTuple):
    """What a batch of tries is given."""

    kappa: float
    k: int
    parts: walk.Parts
    lows: Floats
    bounds: Floats
    masses: Floats
    peaks: Floats
    cumulated: Floats
    H: Floats  # of all forms, one after the other
    b: Floats
    base: Floats
    least: Floats


@compiled(nogil=True)
def _draw(cover, words, used, chosen, L, z):  # type: ignore[no-untyped-def]
    """Draw a support; return the words used, its place among the bounds, its bound and a better.

    The better one is the highest of all forms; a kept bound has it already.
    """
    parts, kappa = cover.parts, cover.kappa
    goal = words[used] * cover.cumulated[-1]
    used += 1
    r = min(np.searchsorted(cover.cumulated, goal, side="right"), cover.cumulated.size - 1)
    if parts.offset[r] >= 0:
        peak = cover.peaks[r]
        goal = words[used] * np.exp(cover.masses[r] - peak)
        used += 1
        at = -1
        reached = 0.0
        for i in range(parts.offset[r], parts.offset[r] + parts.size[r]):
            w = np.exp(-kappa * cover.bounds[i] - peak)
            if w > 0.0:
                at = i
            reached += w
            if reached >= goal:
                break
        walk.member(parts, r, at - parts.offset[r], cover.k, chosen)
        return used, at, cover.bounds[at], cover.bounds[at]
    walk.any_member(parts, r, words[used:], cover.k, chosen)
    used += chosen.size
    low = cover.lows[r]
    better = low
    for f in range(cover.base.size):
        bound = walk.form_bound(cover.H[f], cover.b[f], cover.base[f], cover.least[f], chosen, L, z)
        better = max(better, bound)
    return used, -1 - r, low, better


@compiled(nogil=True)
def _tries(cover, words, chosen, share):  # type: ignore[no-untyped-def]
    """Draw until a support is not rejected by its bounds alone, or the words are used up.

    With chance `share` a draw is one of the single supports, which is left to the caller. Returns
    how many tries were made, the support's place and bound, and the height that it has to pass.
    """
    t = chosen.size
    L, z = np.empty((t, t)), np.empty(t)
    used, tries = 0, 0
    while used + t + 4 <= words.size:
        tries += 1
        if words[used] < share:
            return tries, _SINGLE, 0.0, 0.0
        used, at, low, better = _draw(cover, words, used + 1, chosen, L, z)
        height = -np.log(words[used])
        used += 1
        if cover.kappa * (better - low) <= height:
            return tries, at, low, height
    return tries, _NONE, 0.0, 0.0


@compiled(nogil=True)
def _arrivals(cover, words, chosen, now, rate, limit):  # type: ignore[no-untyped-def]
    """Do the same for arrivals of the race (T15), up to a limit of their logarithmic time.

    Returns the time, too.
    """
    t = chosen.size
    L, z = np.empty((t, t)), np.empty(t)
    used, tries = 0, 0
    while used + t + 5 <= words.size:
        wait = np.log(-np.log(words[used])) - rate
        used += 1
        now = max(now, wait) + np.log1p(np.exp(-abs(now - wait))) if now > -np.inf else wait
        if now >= limit:
            return tries, _LATE, 0.0, 0.0, now
        used, at, low, better = _draw(cover, words, used, chosen, L, z)
        height = -np.log(words[used])
        used += 1
        tries += 1
        excess = cover.kappa * (better - low)
        if excess + np.log(2.0 * (1.0 - np.exp(now - cover.kappa * low - excess))) <= height:
            return tries, at, low, height, now
    return tries, _NONE, 0.0, 0.0, now


class Covering:
    """Parts that cover every support once, with bounds that rise where draws are rejected."""

    def __init__(
        self, problem: Problem, kappa: float, allowance: Allowance, seed: tuple[int, ...]
    ) -> None:
        self._allowance = allowance
        self.problem = problem
        self.kappa = kappa
        self._limit = None if problem.quadratic else reach(problem)
        self._seed = np.array(seed, dtype=np.intp)
        self._singles: list[Support] = []
        self._weights = np.empty(0)
        self._scored: set[int] = set()  # places whose bound is the score itself
        self._cost = 0.0  # of fits since bounds were raised, in nanoseconds
        self._order = problem.free
        first = self._expanded(self._seed)
        self._order = self._by_worth(first)
        self._forms = [self._reduced(first)]
        self.settled = self._cover()

    def _expanded(self, support: NDArray[np.intp]) -> Problem:
        """Return a problem of squared loss below this one, near it where that support's fit is."""
        problem = self.problem
        if problem.quadratic:
            return problem
        assert self._limit is not None
        beta = problem.coefficients(support, 1e-2 / self.kappa)
        return Minorant(problem, np.sort(support), beta, self._limit)

    def _moments(self, below: Problem, mu: float) -> tuple[Floats, Floats]:
        """Return H = X'X + ridge + mu and X'y of the columns in order, the included ones last."""
        index = np.concatenate([self._order, np.array(below.include, dtype=np.intp)])
        H = below.gram.full(below.between)[np.ix_(index, index)]
        H[np.diag_indices(index.size)] += below.ridge + mu
        return H, below.correlations[index]

    def _by_worth(self, below: Problem) -> NDArray[np.intp]:
        """Order columns by what leaving each of them out of the fit on all would cost."""
        H, b = self._moments(below, max(steady(below), 1e-9 * below.gram.diagonal.max(initial=0.0)))
        inverse = np.linalg.inv(H)
        worth = (inverse @ b) ** 2 / np.diag(inverse)
        k = self.problem.free.size
        return self.problem.free[np.argsort(-worth[:k], kind="stable")]

    def _reduced(self, below: Problem) -> walk.Form:
        """Eliminate the included columns; put the others into the walk's order."""
        mu = max(steady(below), multiplier(below, tuple(int(j) for j in self._seed)))
        H, b = self._moments(below, mu)
        k = self._order.size
        base = below.energy - mu * below.radius**2
        if H.shape[0] > k:
            across = np.linalg.solve(H[k:, k:], np.column_stack([H[k:, :k], b[k:]]))
            base -= float(b[k:] @ across[:, k])
            b = b[:k] - H[:k, k:] @ across[:, k]
            H = H[:k, :k] - H[:k, k:] @ across[:, :k]
        penalty = below.ridge + mu
        base -= elimination_error(below, penalty)
        return walk.Form(np.ascontiguousarray(H), np.ascontiguousarray(b), base, penalty)

    def _cover(self) -> bool:
        """Part all supports by the first form; return whether what is not kept is light."""
        t, kappa, form = self.problem.to_choose, self.kappa, self._forms[0]
        best = -kappa * self.problem.score(self._seed)
        light = best + math.log(self.problem.n_supports)
        for _ in range(_LIGHTER):
            self._allowance.check()
            parts, count, kept = walk.survey(form, t, kappa, light, _PARTS, _KEPT, _WIDE)
            if count == 0:
                return False
            others = np.count_nonzero(parts.offset[:count] < 0)
            if others == 0 or light + math.log(others) <= best + 1.0:
                break
            light -= 2.0
        self._parts = walk.Parts(*(np.ascontiguousarray(v[:count]) for v in parts))
        self._bounds = np.full(kept, -math.inf)
        self._lows = np.full(count, -math.inf)
        self._masses, self._peaks = np.empty((2, count))
        self._raise(form)
        rest = self._parts.offset < 0
        self._kept = np.flatnonzero(~rest)
        self._starts = self._parts.offset[self._kept]
        return bool(np.max(self._peaks[rest], initial=-math.inf) <= best - 1.0)

    def _raise(self, form: walk.Form) -> None:
        """Raise all bounds to those of a form, on all cores."""
        count, t = self._masses.size, self.problem.to_choose

        def work(first: int, last: int) -> None:
            walk.fill(form, t, self._parts, first, last, self._bounds)
            walk.part_bounds(form, self._parts, first, last, self._lows)
            self._weigh(first, last)

        jobs = cores()
        ends = np.linspace(0, count, min(4 * jobs, count) + 1).astype(int).tolist()
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(work, ends[:-1], ends[1:]))
        self._cost = 0.0
        self._changed()

    def _weigh(self, first: int, last: int) -> None:
        walk.weigh(
            self.kappa, self._parts, self._lows, self._bounds, first, last, self._masses, self._peaks
        )

    def _changed(self) -> None:
        top = float(self._masses.max())
        cumulated = np.cumsum(np.exp(self._masses - top)) if top > -math.inf else np.zeros(1)
        self._log_mass = top + math.log(cumulated[-1]) if cumulated[-1] > 0.0 else -math.inf
        forms = self._forms[-_FORMS:]
        self._now = _Cover(
            self.kappa,
            self._order.size,
            self._parts,
            self._lows,
            self._bounds,
            self._masses,
            self._peaks,
            cumulated,
            np.stack([form.H for form in forms]),
            np.stack([form.b for form in forms]),
            np.array([form.base for form in forms]),
            np.array([form.least for form in forms]),
        )

    def _support(self, chosen: NDArray[np.int64]) -> Support:
        columns = [*self.problem.include, *self._order[chosen].tolist()]
        return np.sort(np.array(columns, dtype=np.int64))

    def proportional(self, source: RandomSource) -> Support:
        """Draw a support with probability proportional to exp(-kappa R(S)) (T14)."""
        chosen = np.empty(self.problem.to_choose, dtype=np.int64)
        while True:
            self._check()
            share = 0.0
            if self._singles:
                alone = float(np.logaddexp.reduce(self._weights))
                share = math.exp(alone - float(np.logaddexp(alone, self._log_mass)))
            words = source.uniforms(_WORDS)
            _, at, low, height = _tries(self._now, words, chosen, share)
            if at == _SINGLE:
                return self._singles[draw_index(self._weights, source)]
            if at != _NONE:
                support = self._support(chosen)
                kept, excess = self._decide(at, support, low, height, float)
                if kept:
                    return support

    def race(self, source: RandomSource) -> Support:
        """Draw the support whose clock, uniform on (0, exp(kappa R(S))), rings first (T15)."""
        chosen = np.empty(self.problem.to_choose, dtype=np.int64)
        now = -math.inf
        clocks = -self._weights - source.exponentials(self._weights.size)
        while True:
            self._check()
            clocks = new_clocks(self._weights, clocks, now, source)
            deadline = float(clocks.min(initial=math.inf))
            horizon = -_LOG2 - float(self._peaks.max())
            rate = _LOG2 + self._log_mass
            limit = min(deadline, horizon)
            at, low, height = _LATE, 0.0, 0.0
            if now < limit and rate > -math.inf:
                words = source.uniforms(_WORDS)
                _, at, low, height, now = _arrivals(self._now, words, chosen, now, rate, limit)
            if at == _LATE:
                if deadline <= horizon:
                    return self._singles[int(np.argmin(clocks))]
                now = horizon
                self._open()
                continue
            if at == _NONE:
                continue
            support = self._support(chosen)
            needed = partial(ring_height, now, -self.kappa * low)
            kept, _ = self._decide(at, support, low, height, needed)
            if kept:
                return support

    def _check(self) -> None:
        if self._allowance.over:
            raise UnprovenError(REFUSED)

    def _decide(
        self, at: int, support: Support, low: float, height: float, rising: Callable[[float], float]
    ) -> tuple[bool, float]:
        """Score a support; a kept bound becomes the score, and others are raised where it pays."""
        if at in self._scored:
            return height >= rising(0.0), 0.0
        kept, excess = decided(
            self.problem, self.kappa, height, support, -self.kappa * low, rising
        )
        if not kept:
            self._allowance.spend(1)
            self._note(at, support, excess)
        return kept, excess

    def _note(self, at: int, support: Support, excess: float) -> None:
        n, k = self.problem.n_rows, self._order.size
        self._cost += 2e5 + 60.0 * n * self.problem.size
        if at >= 0:
            self._score(at, support)
        loose = self._parts.offset < 0
        raising = 0.2 * n * k * k + 20.0 * self._bounds.size + 0.3 * loose.sum() * k**3
        if not self.problem.quadratic and excess > _LOOSE and self._cost > raising:
            self._forms.append(self._reduced(self._expanded(support)))
            self._raise(self._forms[-1])

    def _score(self, at: int, support: Support) -> None:
        """Put a support's score in the place of its bound."""
        low, high = self.problem.enclose(support)
        self._bounds[at] = (low + high) / 2
        self._scored.add(at)
        part = int(np.searchsorted(self._starts, at, side="right")) - 1
        r = int(self._kept[part])
        self._weigh(r, r + 1)
        self._changed()

    def _open(self) -> None:
        """Score the heaviest support; one whose score is known gets a clock of its own."""
        self._allowance.spend(1)
        r = int(np.argmax(self._peaks))
        if self._parts.offset[r] < 0:
            raise UnprovenError(REFUSED)
        first = int(self._parts.offset[r])
        at = first + int(np.argmin(self._bounds[first : first + int(self._parts.size[r])]))
        chosen = np.empty(self.problem.to_choose, dtype=np.int64)
        walk.member(self._parts, r, at - first, self._order.size, chosen)
        support = self._support(chosen)
        if at not in self._scored:
            before = self._bounds[at]
            self._score(at, support)
            self._note(-1, support, self.kappa * (self._bounds[at] - before))
            return
        self._singles.append(support)
        self._weights = np.append(self._weights, -self.kappa * self._bounds[at])
        self._bounds[at] = math.inf
        self._weigh(r, r + 1)
        self._changed()
