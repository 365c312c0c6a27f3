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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.cuts import walk
from dpsubset.cuts.curvature import elimination_error, steady
from dpsubset.cuts.minorant import Expansions
from dpsubset.cuts.reduced import multiplier
from dpsubset.errors import UnprovenError
from dpsubset.limits import REFUSED, Allowance
from dpsubset.problem import Problem
from dpsubset.sampling.chain import threads as cores
from dpsubset.sampling.deciding import COARSE, decided, draw_index, ring_height
from dpsubset.sampling.pieces import RandomSource, Support
from dpsubset.sampling.probe import Probe
from dpsubset.sampling.race import Race, Tries

__all__ = ["Covering", "one_pass"]

_LOG2 = math.log(2.0)
_NONE, _LATE, _SINGLE = -(1 << 60), -(1 << 60) - 1, -(1 << 60) - 2  # in the place of a support
_WORDS = 1 << 12  # uniform numbers for a batch of tries
_TRIES = 1 << 10  # tries of a batch, at most
_FORMS = 400  # at most
_MEMORY = 1 << 28  # bytes that they may take
_STREAMED = 300_000_000  # bounds that are computed again when they are needed
_PARTS = 1_000_000
_KEPT = 20_000_000  # bounds
_TAILS = 1 << 28  # bytes of what surveys go by
_SURVEYED = 24  # forms of them, at most
_MIXTURES = 4  # expansions for all features together
_MIXED = 3  # the same for the heaviest parts after a survey
_BETTER = 0.5  # nats that make such an expansion worth its price
_LITTLE = 7.0  # nats above the best support, up to which parts with one bound are no hindrance
_HOPEFUL = 25.0  # the same of all parts, within which draws are tried
_BOUND = 15e-9  # seconds to bound a support of single columns
_WIDER = 1.3  # power of the columns of a feature by which it takes longer
_DIRECT = 0.05  # seconds in which all supports are bounded one by one without a survey
_REACHED = 30.0  # the same where a survey does not do
_FINER = 12  # surveys
_STEP = 4.0  # nats by which a part may weigh less from survey to survey, at least
_PROBES = 20  # batches of tries that tell whether a survey will do
_AHEAD = 2.0  # nats that the sum of all weights is to be ahead of a common bound in a race
_ALONE = 100_000  # bounds that are not worth a second core
_FITS = 16  # draws that are scored before a survey is made finer
_OPENED = 64  # parts that are opened at once
_NEGLIGIBLE = 6.0  # nats below the mean of all parts
_ALIKE = 0.05  # relative difference of multipliers that makes another form
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
    served: NDArray[np.int64]  # by which form streamed parts are bounded
    starts: NDArray[np.int64]  # of every feature's columns
    H: Floats  # of all forms, one after the other
    b: Floats
    base: Floats
    least: Floats


@compiled(nogil=True)
def _draw(cover, words, used, chosen, L, z):  # type: ignore[no-untyped-def]
    """Draw a support; return the words used, its place among the bounds, its bound and a better.

    The better one is the highest of all forms; a kept bound has it already.
    """
    parts, kappa, t = cover.parts, cover.kappa, chosen.size
    goal = words[used] * cover.cumulated[-1]
    used += 1
    r = min(np.searchsorted(cover.cumulated, goal, side="right"), cover.cumulated.size - 1)
    if parts.offset[r] != walk.COMMON:
        peak = cover.peaks[r]
        goal = words[used] * np.exp(cover.masses[r] - peak)
        used += 1
        bounds = cover.bounds[parts.offset[r] : parts.offset[r] + parts.size[r]]
        if parts.offset[r] == walk.STREAMED:
            f = cover.served[r]
            form = walk.Form(cover.H[f], cover.b[f], cover.base[f], cover.least[f], cover.starts)
            bounds = np.full(parts.size[r], -np.inf)
            walk.fill_part(form, t, parts, r, walk.levels(form, t), bounds, 0)
        at = 0
        reached = 0.0
        for i in range(bounds.size):
            w = np.exp(-kappa * bounds[i] - peak)
            if w > 0.0:
                at = i
            reached += w
            if reached >= goal:
                break
        walk.member(parts, r, at, cover.k, chosen)
        if parts.offset[r] >= 0:
            return used, parts.offset[r] + at, bounds[at], bounds[at]
        return used, -1 - r, bounds[at], _highest(cover, chosen, bounds[at], L, z)
    walk.any_member(parts, r, words[used:], cover.k, chosen)
    used += t
    return used, -1 - r, cover.lows[r], _highest(cover, chosen, cover.lows[r], L, z)


@compiled(nogil=True)
def _highest(cover, chosen, low, L, z):  # type: ignore[no-untyped-def]
    """Return the highest bound of all forms on a support, which is not below `low`."""
    columns = chosen
    if cover.starts.size - 1 < cover.b.shape[1]:
        columns = np.empty(z.size, np.int64)
        columns = columns[: walk.columns_of(cover.starts, chosen, columns)]
    for f in range(cover.base.size):
        bound = walk.form_bound(
            cover.H[f], cover.b[f], cover.base[f], cover.least[f], columns, L, z
        )
        low = max(low, bound)
    return low


@compiled(nogil=True)
def _most_columns(starts, t):  # type: ignore[no-untyped-def]
    """Return how many columns t features can have."""
    return t if starts[-1] == starts.size - 1 else np.sort(np.diff(starts))[-t:].sum()


@compiled(nogil=True)
def _tries(cover, words, heights, chosen, share, missed):  # type: ignore[no-untyped-def]
    """Draw until a support is not rejected by its bounds alone, or the words are used up.

    With chance `share` a draw is one of the single supports, which is left to the caller. Returns
    how many tries were made, the support's place and bound, the height that it has to pass, and
    how many words were used. Fills `missed` with the place of every try that was rejected.
    """
    t = chosen.size
    most = _most_columns(cover.starts, t)
    L, z = np.empty((most, most)), np.empty(most)
    used, tries = 0, 0
    while used + t + 3 <= words.size and tries < heights.size:
        height = heights[tries]
        tries += 1
        if words[used] < share:
            return tries, _SINGLE, 0.0, 0.0, used
        used, at, low, better = _draw(cover, words, used + 1, chosen, L, z)
        if cover.kappa * (better - low) <= height:
            return tries, at, low, height, used
        missed[tries - 1] = at
    return tries, _NONE, 0.0, 0.0, used


@compiled(nogil=True)
def _arrivals(cover, words, waits, heights, chosen, now, rate, limit, missed):  # type: ignore[no-untyped-def]
    """Do the same for arrivals of the race (T15), up to a limit of their logarithmic time.

    Returns the time, too.
    """
    t = chosen.size
    most = _most_columns(cover.starts, t)
    L, z = np.empty((most, most)), np.empty(most)
    used, tries = 0, 0
    while used + t + 2 <= words.size and tries < heights.size:
        wait = np.log(waits[tries]) - rate
        now = max(now, wait) + np.log1p(np.exp(-abs(now - wait))) if now > -np.inf else wait
        if now >= limit:
            return tries, _LATE, 0.0, 0.0, now
        used, at, low, better = _draw(cover, words, used, chosen, L, z)
        height = heights[tries]
        tries += 1
        excess = cover.kappa * (better - low)
        if excess + np.log(2.0 * (1.0 - np.exp(now - cover.kappa * low - excess))) <= height:
            return tries, at, low, height, now
        missed[tries - 1] = at
    return tries, _NONE, 0.0, 0.0, now


def one_pass(problem: Problem) -> float:
    """Return, roughly, the seconds in which one core bounds all supports one by one.

    A feature of several columns takes longer.
    """
    width = float(problem.features.widths[problem.free].mean())
    return float(_BOUND * problem.n_supports * width**_WIDER)


class _Room:
    """An array that grows at its end, without being copied every time."""

    def __init__(self, room: int) -> None:
        self._all, self._used = np.empty(room), 0

    def longer(self, count: int) -> Floats:
        """Return the array, longer by so many entries of -inf."""
        before, self._used = self._used, self._used + count
        if self._used > self._all.size:
            more = np.empty(max(self._used, 2 * self._all.size))
            more[:before] = self._all[:before]
            self._all = more
        self._all[before : self._used] = -math.inf
        return self._all[: self._used]


class Covering:
    """Parts that cover every support once, with bounds that rise where draws are rejected."""

    def __init__(
        self,
        problem: Problem,
        kappa: float,
        allowance: Allowance,
        seed: tuple[int, ...],
        *,
        racing: bool = False,
    ) -> None:
        self._allowance = allowance
        self.problem = problem
        self.kappa = kappa
        self._expansions = Expansions(problem, 1e-2 / kappa)
        self._seed = np.array(seed, dtype=np.intp)
        self._singles: list[Support] = []
        self._weights = np.empty(0)
        self._free: set[tuple[int, ...]] = set()
        self._multipliers: list[float] = []  # of the ball, one a form
        self._cost = 0.0  # of fits since bounds were raised, in nanoseconds
        self._stacked: tuple[Floats, ...] | None = None
        self._order = problem.free
        self._columns = int(problem.features.widths[problem.free].sum())
        self._most = min(_FORMS, _MEMORY // (8 * self._columns**2))
        first = self._expansions.at(self._seed)
        unordered, _ = self._reduced(first, self._multiplier(first, self._seed))
        order = walk.by_gain(unordered)
        if one_pass(problem) <= _DIRECT:  # what is eliminated first is so for many supports
            order = order[np.argsort(-problem.features.widths[problem.free[order]], kind="stable")]
        self._order = problem.free[order]
        self._forms: list[walk.Form] = []
        self._across: list[Floats] = []  # what the included columns take over, one a form
        self._add(first, self._seed)
        self._tails = [walk.tails(self._forms[0])]  # of the first forms, which surveys go by
        self.settled = self._cover(Probe(), racing)

    def _moments(self, below: Problem, mu: float) -> tuple[Floats, Floats]:
        """Return H = X'X + ridge + mu and X'y of the features in order, the included ones last."""
        features = np.concatenate([self._order, np.array(below.include, dtype=np.intp)])
        index = below.features.columns(features)
        H = below.gram.full(below.between)[np.ix_(index, index)]
        H[np.diag_indices(index.size)] += below.ridge + mu
        return H, below.correlations[index]

    def _multiplier(self, below: Problem, support: NDArray[np.intp]) -> float:
        """Return the multiplier of the ball of a support, or a little more.

        Pivots are known to be at least the penalty (T41), so there must be one, whatever is known
        of eigenvalues.
        """
        return max(steady(below, 0.0), multiplier(below, tuple(int(j) for j in support)))

    def _add(self, below: Problem, support: NDArray[np.intp]) -> None:
        """Take a form of moments, with the multiplier of a support."""
        below.gram.full(below.between)  # all else follows from it
        self._multipliers.append(self._multiplier(below, support))
        form, across = self._reduced(below, self._multipliers[-1])
        self._forms.append(form)
        self._across.append(across)
        self._stacked = None

    def _reduced(self, below: Problem, mu: float) -> tuple[walk.Form, Floats]:
        """Eliminate the included columns; put the others into the walk's order."""
        H, b = self._moments(below, mu)
        k = self._columns
        base = below.energy - mu * below.radius**2
        across = np.asarray(
            np.linalg.solve(H[k:, k:], np.column_stack([H[k:, :k], b[k:]])), dtype=np.float64
        )
        if H.shape[0] > k:
            base -= float(b[k:] @ across[:, k])
            b = b[:k] - H[:k, k:] @ across[:, k]
            H = H[:k, :k] - H[:k, k:] @ across[:, :k]
        penalty = below.ridge + mu
        base -= elimination_error(below, penalty)
        widths = below.features.widths[self._order]
        starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        H, b = np.ascontiguousarray(H), np.ascontiguousarray(b)
        return walk.Form(H, b, base, penalty, starts), across

    def _cover(self, source: RandomSource, racing: bool) -> bool:
        """Part all supports, finer and finer, until draws get through.

        Return whether they do. In a race parts with one bound must not be among the heaviest: a
        clock would be late for them.
        """
        best = -self.kappa * self.problem.score(self._seed)
        peak = best - _AHEAD if racing else math.inf
        if one_pass(self.problem) <= _DIRECT:
            return self._survey_all(peak)
        everything = self._order.size
        for _ in range(_MIXTURES):
            lows = [tails.low[0, 0] for tails in self._tails]
            if not self._mix(np.arange(everything), int(np.argmax(lows)), max(lows)):
                break
        least = max(tails.low[0, 0] for tails in self._tails)
        heaviest = math.log(self.problem.n_supports) - self.kappa * least
        for _ in range(_FINER):
            light = min((heaviest + best - _LITTLE) / 2, heaviest - _STEP)
            last = not racing or light <= best + _STEP  # first surveys only tell where to expand
            if not self._survey(light, peak if last else math.inf):
                break
            common = np.flatnonzero(self._parts.offset == walk.COMMON)
            masses = self._parts.log_size[common] - self.kappa * self._lows[common]
            rest = float(np.logaddexp.reduce(masses)) if common.size else -math.inf
            if last and rest <= best + _HOPEFUL:
                self._weigh_all()
                # With little of it, the rest have bounds of their own, and draws will teach them.
                if rest <= best + _LITTLE or self._through(source):
                    return True
            heaviest = float(masses.max())
            self._mix_heaviest(common[np.argsort(-masses, kind="stable")])
        return one_pass(self.problem) <= _REACHED and self._survey_all(peak)

    def _survey_all(self, peak: float) -> bool:
        """Bound all supports one by one."""
        done = self._survey(-math.inf, peak)
        if done:
            self._weigh_all()
        return done

    def _survey(self, light: float, peak: float) -> bool:
        """Part all supports; return whether there are not too many parts."""
        self._allowance.check()
        found, lows, by, count, kept = walk.survey(
            walk.joined(self._tails),
            self.problem.to_choose,
            self.kappa,
            light,
            peak,
            _PARTS,
            _STREAMED,
        )
        if count == 0:
            return False
        parts = walk.Parts(*(v[:count].copy() for v in found))  # not the room around them
        if kept > _KEPT:
            parts.offset[parts.offset >= 0] = walk.STREAMED
        self._set(parts, lows[:count].copy())
        self._by = by[:count].copy()
        return True

    def _weigh_all(self) -> None:
        """Weigh the parts of a survey: by the first form, and where they are heavy by all."""
        kept = int(self._parts.size[self._kept].sum())
        self._room = _Room(kept)
        self._bounds = self._room.longer(kept)
        self._raise(0, np.arange(self._lows.size))
        self._changed()
        for number in range(1, len(self._forms)):
            self._raise(number, self._not_streamed())
            self._changed()

    def _mix_heaviest(self, order: NDArray[np.int64]) -> None:
        """Expand for the first of some parts with one bound, one for each form that bounds them."""
        _, first = np.unique(self._by[order], return_index=True)
        for r in order[np.sort(first)][:_MIXED].tolist():
            prefix = self._parts.prefix[r, : self._parts.length[r]].astype(np.intp)
            rest = np.arange(self._parts.start[r], self._order.size)
            self._mix(np.concatenate([prefix, rest]), int(self._by[r]), float(self._lows[r]))

    def _mix(self, chosen: NDArray[np.intp], number: int, low: float) -> bool:
        """Expand where a form has its coefficients on many features, if their bound then rises.

        `low` is that bound now. The form joins those of surveys.
        """
        room = _TAILS // (8 * int(self._tails[0].at[-1]))
        if len(self._tails) > min(room, _SURVEYED) or len(self._forms) >= self._most:
            return False
        below, form, across = self.problem, self._forms[number], self._across[number]
        features = self.problem.features
        included = features.columns(np.array(self.problem.include, dtype=np.intp))
        if self._expansions.more:
            index = np.empty(form.b.size, dtype=np.int64)
            index = index[: walk.columns_of(form.starts, chosen, index)]
            beta = np.linalg.solve(form.H[np.ix_(index, index)], form.b[index])
            rest = across[:, -1] - across[:, index] @ beta
            columns = np.concatenate([features.columns(self._order)[index], included])
            below = self._expansions.mixed(columns, np.concatenate([beta, rest]))
        self._add(below, np.concatenate([self._order[chosen], np.array(self.problem.include)]))
        tails = walk.tails(self._forms[-1])
        better = walk.low(tails, chosen)
        if self.kappa * (better - low) < _BETTER:
            del self._forms[-1], self._multipliers[-1], self._across[-1]
            return False
        self._tails.append(tails)
        return True

    def _set(self, parts: walk.Parts, lows: Floats) -> None:
        """Take parts; what they weigh is found next."""
        self._parts, self._lows = parts, lows
        self._masses, self._peaks = np.full((2, lows.size), -math.inf)
        self._served = np.full(lows.size, -1)
        self._met = np.ones(lows.size, dtype=np.int64)  # forms that streamed parts were weighed by
        self._kept = np.flatnonzero(parts.offset >= 0)
        self._kept = self._kept[np.argsort(parts.offset[self._kept])]

    @property
    def _weighed(self) -> tuple[NDArray[Any], ...]:
        """What is known of every part: its mass, its peak, and by which forms they were found."""
        return self._masses, self._peaks, self._served, self._met

    def _through(self, source: RandomSource) -> bool:
        """Return whether one of some draws is accepted.

        They are made by other random numbers than a release's. What scores teach is kept.
        """
        chosen = np.empty(self.problem.to_choose, dtype=np.int64)
        fits = 0
        for _ in range(_PROBES):
            words, heights = source.uniforms(_WORDS), source.exponentials(_TRIES)
            while fits < _FITS:
                self._allowance.check()
                missed = np.zeros(heights.size, dtype=np.int64)
                tries, at, low, height, used = _tries(
                    self._now, words, heights, chosen, 0.0, missed
                )
                words, heights = words[used:], heights[tries:]
                if at != _NONE:
                    fits += 1
                    if self._decide(at, self._support(chosen), low, height, float):
                        return True
                self._lift(missed)
                if at == _NONE:
                    break
        return False

    def _raise(self, number: int, which: NDArray[np.int64]) -> None:
        """Raise bounds of some parts to those of a form, on all cores."""
        t, form = self.problem.to_choose, self._forms[number]
        tails = None
        if (self._parts.offset[which] == walk.COMMON).any():
            known = number < len(self._tails)
            tails = self._tails[number] if known else walk.tails(form)
        streamed = self._lows, self._served, self._masses, self._peaks

        def work(some: NDArray[np.int64]) -> None:
            self._allowance.check()
            walk.fill(form, t, self._parts, some, self._bounds)
            if tails is not None:
                walk.part_bounds(tails, self._parts, some, self._lows)
            walk.stream(form, number, t, self.kappa, self._parts, some, *streamed)
            self._weigh(some)

        jobs = cores()
        if not which.size:
            return
        if self._parts.size[which].sum() + which.size * self._columns <= _ALONE:
            work(which)
            return
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(work, np.array_split(which, min(4 * jobs, which.size))))

    def _weigh(self, which: NDArray[np.int64]) -> None:
        walk.weigh(
            self.kappa, self._parts, self._lows, self._bounds, which, self._masses, self._peaks
        )

    def _changed(self) -> None:
        """Make ready what draws need after weights have changed."""
        top = float(self._masses.max())
        cumulated = np.cumsum(np.exp(self._masses - top)) if top > -math.inf else np.zeros(1)
        self._log_mass = top + math.log(cumulated[-1]) if cumulated[-1] > 0.0 else -math.inf
        if self._stacked is None:
            forms = self._forms
            self._stacked = (
                np.stack([form.H for form in forms]),
                np.stack([form.b for form in forms]),
                np.array([form.base for form in forms]),
                np.array([form.least for form in forms]),
            )
        self._now = _Cover(
            self.kappa,
            self._order.size,
            self._parts,
            self._lows,
            self._bounds,
            self._masses,
            self._peaks,
            cumulated,
            self._served,
            self._forms[0].starts,
            *self._stacked,
        )

    def _expand(self, support: Support) -> None:
        """Expand at one more support, and raise the bounds of all parts of some weight."""
        self._add(self._expansions.at(support), support)
        self._raise(len(self._forms) - 1, self._not_streamed())
        self._cost = 0.0
        self._changed()

    def _not_streamed(self) -> NDArray[np.int64]:
        """Return parts of some weight that further forms raise; streamed ones wait for draws."""
        least = self._log_mass - math.log(self._masses.size) - _NEGLIGIBLE
        heavy = self._masses >= least
        return np.flatnonzero(heavy & (self._parts.offset != walk.STREAMED))

    def _support(self, chosen: NDArray[np.int64]) -> Support:
        columns = [*self.problem.include, *self._order[chosen].tolist()]
        return np.sort(np.array(columns, dtype=np.int64))

    def proportional(self, source: RandomSource, tries: Tries | None = None) -> Support | None:
        """Draw a support with probability proportional to exp(-kappa R(S)) (T14).

        With `tries` it may be too late for any.
        """
        chosen = np.empty(self.problem.to_choose, dtype=np.int64)
        while True:
            self._check()
            share, total = 0.0, self._log_mass
            if self._singles:
                alone = float(np.logaddexp.reduce(self._weights))
                total = float(np.logaddexp(alone, self._log_mass))
                share = math.exp(alone - total)
            words, heights = source.uniforms(_WORDS), source.exponentials(_TRIES)
            missed = np.zeros(heights.size, dtype=np.int64)
            made, at, low, height, _ = _tries(self._now, words, heights, chosen, share, missed)
            if tries is not None and tries.late(total, made, source):
                return None
            if at == _SINGLE:
                return self._singles[draw_index(self._weights, source)]
            if at != _NONE:
                support = self._support(chosen)
                if self._decide(at, support, low, height, float):
                    return support
            self._lift(missed)

    def race(self, source: RandomSource, race: Race) -> Support | None:
        """Draw the support whose clock, uniform on (0, exp(kappa R(S))), rings first (T15)."""
        chosen = np.empty(self.problem.to_choose, dtype=np.int64)
        race.begin(self._weights, source)
        while True:
            self._check()
            deadline = race.deadline(self._weights, source)
            horizon = -_LOG2 - float(self._peaks.max())
            rate = _LOG2 + self._log_mass
            limit = min(deadline, horizon)
            at, low, height = _LATE, 0.0, 0.0
            missed = np.zeros(_TRIES, dtype=np.int64)
            if race.now < limit and rate > -math.inf:
                random = (
                    source.uniforms(_WORDS),
                    source.exponentials(_TRIES),
                    source.exponentials(_TRIES),
                )
                _, at, low, height, now = _arrivals(
                    self._now, *random, chosen, race.now, rate, limit, missed
                )
                race.now = min(now, limit)
            if at == _LATE:
                if deadline <= horizon:
                    return race.ended(self._singles)
                race.now = max(race.now, horizon)
                self._lift(missed)
                self._open()
                continue
            if at == _NONE:
                self._lift(missed)
                continue
            support = self._support(chosen)
            needed = partial(ring_height, race.now, -self.kappa * low)
            if self._decide(at, support, low, height, needed):
                return support
            self._lift(missed)

    def adopt(self, singles: list[Support], log_weights: Floats) -> None:
        """Take over supports that were set free, with their weights: no part holds them now."""
        self._singles = list(singles)
        self._weights = log_weights.copy()
        self._free = {tuple(support.tolist()) for support in singles}

    def _check(self) -> None:
        if self._allowance.over:
            raise UnprovenError(REFUSED)

    def _decide(
        self, at: int, support: Support, low: float, height: float, rising: Callable[[float], float]
    ) -> bool:
        """Score a support; a rejection raises its bound, and others where that pays.

        One that was set free is not in its part any more.
        """
        if tuple(support.tolist()) in self._free:
            if at >= 0:
                self._bounds[at] = math.inf
                self._reweigh(at)
            return False
        kept, excess = decided(self.problem, self.kappa, height, support, -self.kappa * low, rising)
        if not kept:
            self._allowance.spend(1)
            self._learn(at, support, excess)
        return kept

    def _learn(self, at: int, support: Support, excess: float) -> None:
        """Take note of a score: of itself in the place `at`, if it has one, and of its fit."""
        if at >= 0:
            self._bounds[at] = max(
                self._bounds[at], self.problem.enclose(support, COARSE / self.kappa)[0]
            )
            self._reweigh(at)
        n, k = self.problem.n_rows, self._columns
        self._cost += 2e5 + 200.0 * n * self.problem.most_columns
        if excess <= _LOOSE or len(self._forms) >= self._most or not self._new(support):
            return
        heavy = self._not_streamed()
        common = int(np.count_nonzero(self._parts.offset[heavy] == walk.COMMON))
        raising = 0.2 * n * k * k + 20.0 * self._parts.size[heavy].sum() + 300.0 * common + k**3
        if self._cost > raising:
            self._expand(support)

    def _new(self, support: Support) -> bool:
        """Whether a form of a support would differ: of squared loss by the ball's multiplier."""
        if self._expansions.more:
            return True
        mu = multiplier(self.problem, tuple(support.tolist()))
        return all(abs(mu - other) > _ALIKE * (mu + other) for other in self._multipliers)

    def _reweigh(self, at: int) -> None:
        """Weigh the part with a bound that has changed."""
        starts = self._parts.offset[self._kept]
        r = int(self._kept[int(np.searchsorted(starts, at, side="right")) - 1])
        self._weigh(np.array([r]))
        self._changed()

    def _open(self) -> None:
        """Score the heaviest support; one whose score is known gets a clock of its own."""
        self._allowance.spend(1)
        r = int(np.argmax(self._peaks))
        if self._parts.offset[r] == walk.COMMON:
            self._divide(r)
            return
        if self._parts.offset[r] == walk.STREAMED:
            streamed = np.flatnonzero(self._parts.offset == walk.STREAMED)
            near = streamed[self._peaks[streamed] >= self._peaks[r] - _STEP]
            self._keep(near[np.argsort(-self._peaks[near], kind="stable")][:_OPENED])
            return
        first = int(self._parts.offset[r])
        at = first + int(np.argmin(self._bounds[first : first + int(self._parts.size[r])]))
        chosen = np.empty(self.problem.to_choose, dtype=np.int64)
        walk.member(self._parts, r, at - first, self._order.size, chosen)
        support = self._support(chosen)
        if tuple(support.tolist()) in self._free:
            self._bounds[at] = math.inf
            self._reweigh(at)
            return
        low, high = self.problem.enclose(support, COARSE / self.kappa)
        if self._bounds[at] < low:
            self._learn(at, support, self.kappa * (low - self._bounds[at]))
            return
        low, high = self.problem.enclose(support)
        self._singles.append(support)
        self._free.add(tuple(support.tolist()))
        self._weights = np.append(self._weights, -self.kappa * (low + high) / 2)
        self._bounds[at] = math.inf
        self._reweigh(at)

    def _keep(self, which: NDArray[np.int64]) -> None:
        """Keep a bound for every support of some parts from now on: the highest of all forms."""
        sizes = self._parts.size[which]
        self._parts.offset[which] = self._bounds.size + np.cumsum(sizes) - sizes
        self._bounds = self._room.longer(int(sizes.sum()))
        self._kept = np.append(self._kept, which)
        for number in range(len(self._forms)):
            self._raise(number, which)
        self._changed()

    def _lift(self, missed: NDArray[np.int64]) -> None:
        """Bound parts better from which draws were rejected: by all forms, support by support.

        `missed` has places of supports; those from 0 on have bounds of their own.
        """
        which = np.unique(-1 - missed[missed < 0])
        which = which[self._parts.offset[which] == walk.STREAMED]
        fits = self._bounds.size + np.cumsum(self._parts.size[which]) <= _KEPT
        if fits.any():
            self._keep(which[fits])
        rest = which[~fits]
        for number in range(len(self._forms)):  # without room the best of the forms serves alone
            self._raise(number, rest[self._met[rest] <= number])
        self._met[rest] = len(self._forms)
        if rest.size:
            self._changed()

    def _divide(self, r: int) -> None:
        """Divide a part with one bound by its first column: the supports with and without it."""
        old, t, k = self._parts, self.problem.to_choose, self._order.size
        length, first = int(old.length[r]), int(old.start[r])
        if t - length == 1:
            old.size[r] = k - first
            self._keep(np.array([r]))
            return
        rows = []
        for longer in (length + 1, length):
            left, columns = t - longer, k - first - 1
            if left <= columns:
                rows.append((longer, math.comb(columns, left)))
        kept = self._bounds.size
        new: list[Any] = [np.delete(v, r, axis=0) for v in old]
        for longer, size in rows:
            prefix = old.prefix[r].copy()
            prefix[length] = first
            short = t - longer == 1 or size <= walk.MOST_IN_A_PART
            row = prefix, longer, first + 1, kept if short else walk.COMMON, size if short else 0
            new = [
                np.concatenate([v, np.array([x], dtype=v.dtype)])
                for v, x in zip(new, (*row, math.log(size)), strict=True)
            ]
            kept += size if short else 0
        count = len(rows)
        lows = np.concatenate([np.delete(self._lows, r), np.full(count, self._lows[r])])
        held = self._bounds.size
        self._bounds = self._room.longer(kept - held)
        self._bounds[held:] = self._lows[r]
        before = [np.delete(v, r) for v in self._weighed]
        self._set(walk.Parts(*new), lows)
        for now, then in zip(self._weighed, before, strict=True):
            now[: then.size] = then
        fresh = np.arange(lows.size - count, lows.size)
        for number in range(len(self._forms)):
            self._raise(number, fresh)
        self._changed()
