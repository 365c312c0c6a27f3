"""Steps of a Markov chain for squared loss, where features are groups of columns (T24, T32)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.errors import UnprovenError
from dpsubset.limits import REFUSED, Allowance
from dpsubset.losses.ball import solve
from dpsubset.problem import IMPRECISE, Problem
from dpsubset.sampling.alone import alone_of, far_alone, learn, nothing_alone, padded
from dpsubset.sampling.chain import (
    Data,
    Draws,
    Norm,
    Rule,
    Standing,
    Walker,
    shared_out,
    store_of,
    value_of,
    worth_all,
)
from dpsubset.sampling.directions import (
    Guess,
    begin,
    directions_of,
    guessed_ends,
    nearer,
    no_directions,
)
from dpsubset.sampling.l1_ball import l1_gain
from dpsubset.sampling.l1_face import Face, to_face
from dpsubset.sampling.l1_trials import l1_ends, l1_turn, sweep
from dpsubset.sampling.pairs import gain_by_pairs, gain_of_pairs, no_pairs, pairs_of
from dpsubset.sampling.swapped import Kept, Room, enclosed_gain, forget, gather
from dpsubset.sampling.trials import (
    Trial,
    catch_up,
    ends,
    follow,
    forget_all,
    propose,
    refit,
    turn,
)

__all__ = ["ByBlocks"]

_OWN = 1 << 24  # numbers that are held of features' own equations
_ROOM = 1024  # columns whose products are held, where all of X'X is not
_COARSE = 0.05  # gap of a first fit over the l1 ball, in units of 1/kappa
_ALIKE = 0.25  # relative distance of multipliers that need no table each
_LONG = 1.2  # of the l1 ball's radius: fits that are longer are not what directions lead to
_SINGULAR = 1e-6  # least penalty of equations, against a feature's trace
_UNIT = 2.0**-53
_FEW = 24  # columns of a support, whose equations cost less than a trial fit
_SWEEPS = 24  # times that trial fits are fitted anew
_L1_SWEEPS = 96  # over the l1 ball by products: equations cost far more than such a sweep
_DESCENTS = 16  # half as often two scores are brought nearer along directions
_TURNS = 3  # other multipliers of the ball that are tried in a step
_ENCLOSED = 2  # times that two scores are enclosed by elimination, before they are computed


class _Parts(NamedTuple):
    """The columns of features: those of g are order[starts[g]:starts[g + 1]]."""

    order: NDArray[np.intp]
    starts: NDArray[np.intp]


class _Near(NamedTuple):
    """How a score is enclosed before it is computed to the end."""

    coarse: float  # gap over the l1 ball
    slack: float  # rounding of two scores
    rounding: float  # of a bound by elimination, in units of the trace (T19.3)
    least: float  # multiplier of the ball, where equations may be singular


class _Rooms(NamedTuple):
    """Space for the steps of one thread."""

    kept: Kept
    room: Room
    trial: Trial
    guess: Guess
    face: Face


class _State(NamedTuple):
    """Where chains stand; a row, or a number, for each."""

    supports: NDArray[np.int64]
    outside: NDArray[np.int64]
    lows: Floats  # the score here is at least that, and at most
    highs: Floats  # that; both are the score once it was computed to the end
    multipliers: Floats  # of the ball, about
    accepted: NDArray[np.int64]
    sure: NDArray[np.bool_]  # every score that was computed to the end is precise enough


@compiled(nogil=True, counts=False, error_model="numpy")
def _from_pairs(data, norm, near, pairs, support):  # type: ignore[no-untyped-def]
    """Return numbers that enclose what `_score` would return, from pairs of features (T24i)."""
    if pairs.multipliers.size == 0:
        return -np.inf, np.inf
    least, most = gain_of_pairs(pairs, norm, support)
    return data.energy - most - near.slack, data.energy - least + near.slack


@compiled(nogil=True, error_model="numpy")
def _score(data, parts, norm, support, room):  # type: ignore[no-untyped-def]
    """Return the score of some features, and whether it is precise enough."""
    target = np.empty(room.beta.size)
    k = gather(data, parts, support, -1, room.held, room.block, target)
    block = room.block[:k, :k].copy()
    return value_of(block, target[:k], data.energy, norm, room.beta[:k])


@compiled(nogil=True, error_model="numpy")
def _enclosed(data, parts, norm, near, support, at, mu, enough, kept, room):  # type: ignore[no-untyped-def]
    """Return numbers that enclose what `_score` would return, and the ball's multiplier, about.

    The upper number may be infinite where the score is above `enough`. Over the l1 ball a coarse
    fit serves.
    """
    if norm.l1:
        target = np.empty(room.beta.size)
        k = gather(data, parts, support, -1, room.held, room.block, target)
        block, beta = room.block[:k, :k].copy(), room.beta[:k]
        fit = l1_gain(block, target[:k], norm.ridge, norm.radius, near.coarse, beta)
        return data.energy - fit[0] - fit[1] - near.slack, data.energy - fit[0] + near.slack, mu
    needed = data.energy - enough - near.slack
    mu = max(mu, near.least)
    least, most, trace, mu = enclosed_gain(data, parts, norm, support, at, mu, needed, kept, room)
    slack = near.slack + near.rounding * trace
    return data.energy - most - slack, data.energy - least + slack, mu


@compiled(nogil=True, counts=False, error_model="numpy")
def _decided(kappa, height, old, new):  # type: ignore[no-untyped-def]
    """Return 1 for a step that is taken, -1 for one that is not, 0 where the ends do not tell."""
    if kappa * (new[1] - old[0]) <= height:
        return 1
    return -1 if kappa * (new[0] - old[1]) > height else 0


@compiled(nogil=True, counts=False, error_model="numpy")
def _inside(energy, near, known, gains):  # type: ignore[no-untyped-def]
    """Return the ends of a score that were known, narrowed by the least and the most gain."""
    low, high = energy - gains[1] - near.slack, energy - gains[0] + near.slack
    return max(known[0], low), min(known[1], high)


@compiled(nogil=True, counts=False, error_model="numpy")
def _guessed(  # type: ignore[no-untyped-def]
    energy, norm, near, directions, guess, t, slot, support, at, old, height, here, there
):
    """Decide a step by directions of features, if they can.

    The support holds the new feature; t says which multiplier of the ball is tried first. Return
    the way, both ends, and which multiplier was tried last.
    """
    new, way, which, turns, fresh = support[at], 0, 1, 0, True
    for _ in range(_DESCENTS):
        place = 1 - slot if which == 1 else slot
        support[at] = new if which == 1 else old
        if fresh:
            begin(directions, norm, energy, t, support, guess, place)
        else:
            nearer(directions, support, guess, place)
        if guess.numbers[place, 0] < 0.0:
            break
        gains = guessed_ends(directions, norm, support, guess, place)
        if which == 1:
            there = _inside(energy, near, there, gains)
        else:
            here = _inside(energy, near, here, gains)
        way = _decided(norm.kappa, height, here, there)
        if way != 0:
            break
        fresh = gains[2] > 0.5 * (gains[1] - gains[0])  # another multiplier would do better
        if fresh:
            t = int(guess.numbers[place, 0]) + (1 if gains[3] else -1)
            turns += 1
            if not 0 <= t < directions.own.shape[0] or turns > _TURNS:
                break
        else:
            which = 1 if there[1] - there[0] > here[1] - here[0] else 0
            fresh = which == 0 and guess.numbers[slot, 0] < 0.0
    support[at] = new
    return way, here, there, min(max(t, 0), directions.own.shape[0] - 1)


@compiled(nogil=True, counts=False, error_model="numpy")
def _tried(data, norm, near, pairs, alone, trial, face, support, at, new, height, here, there):  # type: ignore[no-untyped-def]
    """Decide a step by trial fits, if they can; return the way, and the ends here and there."""
    catch_up(data.table, alone, norm.ridge, trial, support)
    propose(data.table, alone, norm.ridge, trial, at, new)
    way, near_by, faced = 0, trial.residuals.shape[1] == 0, (False, False)
    for again in range(_L1_SWEEPS if norm.l1 and near_by else _SWEEPS):
        which = 1 if again == 0 or there[1] - there[0] > here[1] - here[0] else 0
        first = again == 1 and which == 0  # its fit of the steps before may serve
        if near_by and trial.numbers[which, 3] > 0.0:
            if not first:  # the face that coefficients are on, and a sweep for another, in turn
                whole = again > 0 and not faced[which]
                whole = whole and to_face(alone, norm, trial, face, which, at)
                if not whole:
                    sweep(alone, norm.ridge, trial, which, at, new)
                faced = (faced[0], whole) if which == 1 else (whole, faced[1])
        elif again > 0 and not first:
            refit(data.table, alone, norm.ridge, trial, which, at, new)
        given = alone, pairs, norm, data.energy, trial, which, at, new
        gains = l1_ends(*given) if norm.l1 else ends(*given)
        if which == 1:
            there = _inside(data.energy, near, there, gains)
        else:
            here = _inside(data.energy, near, here, gains)
        way = _decided(norm.kappa, height, here, there)
        if way != 0:
            break
        if gains[2] > 0.5 * (gains[1] - gains[0]):
            if norm.l1:
                l1_turn(alone, norm, trial, which, at, new)
            else:
                turn(alone, norm, trial, which, at, new, near.least)
    return way, here, there


@compiled(nogil=True, error_model="numpy")
def _walk(  # type: ignore[no-untyped-def]
    data, parts, norm, near, pairs, directions, alone, state, draws, fresh, rooms, first, last
):
    """Take the steps that were drawn, for the chains `first` to `last`, as for single columns.

    Every step goes where the scores send it: numbers that enclose them are made, nearer and
    nearer, until they decide; the scores themselves come last.
    """
    kappa, kept, room = norm.kappa, rooms.kept, rooms.room
    trial, guess = rooms.trial, rooms.guess
    for c in range(first, last):
        support, outside = state.supports[c], state.outside[c]
        forget(kept, -1)
        guess.numbers[:, 0] = -1.0
        slot, likely = (
            0,
            pairs.multipliers.size - 1,
        )  # of the guess here; the multiplier to try first
        if norm.l1:
            forget_all(trial, near.least, state.multipliers[c])
        else:
            forget_all(trial, max(state.multipliers[c], near.least), 0.0)
        if fresh:
            state.lows[c], state.highs[c] = _from_pairs(data, norm, near, pairs, support)
        here = state.lows[c], state.highs[c]
        rough = here[0] != here[1]  # nothing but pairs may have told the ends of the score here
        for m in range(draws.heights.shape[1]):
            at, from_, height = draws.positions[c, m], draws.slots[c, m], draws.heights[c, m]
            old, new = support[at], outside[from_]
            mu = state.multipliers[c]
            support[at] = new
            there, way, only_pairs, tried = (-np.inf, np.inf), 0, True, False
            for back in range(pairs.multipliers.size):
                t = (likely - back) % pairs.multipliers.size
                gains = gain_by_pairs(pairs, norm, support, t)
                there = _inside(data.energy, near, there, gains)
                way = _decided(kappa, height, here, there)
                if way != 0:
                    likely = t
                    break
            guessed = way == 0 and directions.own.size > 0
            if guessed:
                given = data.energy, norm, near, directions, guess, likely, slot
                way, here, there, likely = _guessed(*given, support, at, old, height, here, there)
                only_pairs, rough = False, rough or way == 0
            if way == 0 and trial.held.size > 0:
                support[at] = old
                given = data, norm, near, pairs, alone, trial, rooms.face
                way, here, there = _tried(*given, support, at, new, height, here, there)
                support[at], tried, only_pairs, rough = new, True, False, rough or way == 0
                mu = trial.numbers[1, 3 if norm.l1 else 0]
            for again in range(_ENCLOSED if data.whole else 0):
                if way != 0 or (again > 0 and (norm.l1 or mu == kept.multipliers[at])):
                    break
                if again > 0:
                    kept.counts[at] = -1  # a better multiplier is known
                if rough or again > 0:
                    support[at] = old
                    low, high, mu = _enclosed(
                        data, parts, norm, near, support, at, mu, np.inf, kept, room
                    )
                    here, rough = (max(here[0], low), min(here[1], high)), False
                    support[at] = new
                low, high, mu = _enclosed(
                    data, parts, norm, near, support, at, mu, here[1] + height / kappa, kept, room
                )
                there, only_pairs = (max(there[0], low), min(there[1], high)), False
                way = _decided(kappa, height, here, there)
            if way == 0:
                low, precise = _score(data, parts, norm, support, room)
                there = low, low
                if here[0] != here[1]:
                    support[at] = old
                    low, other = _score(data, parts, norm, support, room)
                    here, precise = (low, low), precise and other
                    support[at] = new
                if not precise:
                    state.sure[c] = False
                    break
                way = _decided(kappa, height, here, there)
            if way > 0:
                here, rough, state.multipliers[c] = there, only_pairs, mu
                outside[from_] = old
                state.accepted[c] += 1
                forget(kept, at)
                if tried:
                    follow(trial, at, new)
                guess.numbers[slot, 0] = -1.0
                slot = 1 - slot if guessed else slot
            else:
                support[at] = old
        state.lows[c], state.highs[c] = here


def _products(problem: Problem) -> Floats:
    """Return X'X."""
    return np.ascontiguousarray(problem.gram.full(problem.between))


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
        largest = float(problem.features.sum(problem.gram.diagonal).max(initial=0.0))
        least = max(0.0, _SINGULAR * largest - problem.ridge)
        self._near = _Near(_COARSE / max(rule.kappa, 1e-300), slack, rounding, least)
        self._parts = _Parts(problem.features.order, problem.features.starts)
        self._widest = int(problem.features.widths.max(initial=1))
        products = problem.most_columns * self._widest * rule.steps * chains
        self._whole = worth_all(problem, products)
        self._pairs, self._alone = no_pairs(), nothing_alone()
        self._directions = no_directions()
        if self._whole and problem.features.n_columns**2 <= products:
            G, b = _products(problem), problem.correlations
            multipliers, longest = self._likely(G, b)
            self._pairs = pairs_of(problem, G, b, multipliers, rule.l1)
            if self._pairs.multipliers.size and self._room_for_directions():
                directions = directions_of(problem, G, b, self._pairs)
                wrong = (problem.size + 1) * directions.numbers[:, 2]  # in the norm of D, once more
                apart = np.maximum(directions.numbers[:, 1] - wrong, 0.0)
                self._pairs = self._pairs._replace(apart=apart)
                if not rule.l1 or longest < _LONG * problem.radius:
                    self._directions = directions
            worth = problem.most_columns > _FEW or (rule.l1 and longest > problem.radius)
            if self._pairs.multipliers.size and worth and self._room_for_trials():
                self._alone = alone_of(problem, G)
                self._state.multipliers[:] = 0.0 if rule.l1 else multipliers[-1]
        self._store = None
        trusted = problem.ridge + least > 0.0 and self._room_for_trials()
        if trusted and not self._whole:
            store = store_of(problem, self._widest * rule.steps * chains)
            if store.room >= min(problem.features.n_columns, 2 * problem.most_columns):
                self._store, self._alone = store, far_alone(problem)

    def _room_for_trials(self) -> bool:
        """Whether features are alike enough in width, and few enough, for trial fits."""
        problem, wide = self._problem, padded(self._widest)
        alike = problem.size * wide <= 4 * problem.most_columns
        return alike and len(problem.features) * wide**2 <= _OWN

    def _room_for_directions(self) -> bool:
        """Whether features are alike enough in width, and few enough, for directions."""
        every = len(self._problem.features) * padded(self._widest)
        return self._room_for_trials() and every**2 <= _OWN

    def _likely(self, G: Floats, b: Floats) -> tuple[Floats, float]:
        """Return multipliers of the ball: the least, and those of two likely supports.

        These are the features that gain most, and as many out of the better half. Also how long
        a fit of them is, in the norm of the l1 ball.
        """
        problem = self._problem
        order = np.argsort(-problem.features.sum(b**2)[problem.free], kind="stable")
        half = max(1, order.size // (2 * problem.to_choose))
        multipliers, longest = [self._near.least], 0.0
        for every in dict.fromkeys((1, half)):
            some = problem.free[order[::every][: problem.to_choose]]
            mu, long = self._fitted(G, b, np.concatenate([problem.include, some]))
            longest = max(longest, long)
            if all(abs(mu - other) > _ALIKE * mu for other in multipliers):
                multipliers.append(mu)
        return np.sort(multipliers), longest

    def _fitted(self, G: Floats, b: Floats, support: Floats) -> tuple[float, float]:
        """Return the multiplier of a support's fit, and its length in the norm of the l1 ball."""
        problem = self._problem
        columns = problem.features.columns(support.astype(np.intp))
        block, beta = np.ascontiguousarray(G[np.ix_(columns, columns)]), np.empty(columns.size)
        mu = solve(block, b[columns], problem.ridge, problem.radius, beta)[2]
        return max(mu, self._near.least), float(np.abs(beta).sum())

    def walk(self, draws: Draws, allowance: Allowance) -> None:
        """Take the steps: all chains at once, or one by one where not all of X'X is at hand."""
        chains, length = draws.heights.shape
        at_once, ahead = chains, length
        if not self._whole:
            size = self._state.supports.shape[1]
            room = _ROOM if self._store is None else self._store.room
            at_once = 1
            if room < self._problem.features.n_columns:
                ahead = max(1, room // self._widest - size)
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
            k, size = self._problem.most_columns, self._state.supports.shape[1]
            y = np.empty(0) if self._store is None else self._problem.y
            trial = Trial.of(size if self._alone.values.size else 0, self._widest, y)
            guess = Guess.of(size if self._directions.own.size else 0, padded(self._widest))
            face = Face.of(trial.beta.shape[1] if self._norm.l1 else 0)
            rooms = _Rooms(Kept.of(size, k), Room.of(k, self._widest), trial, guess, face)
            given = data, self._parts, self._norm, self._near, self._pairs, self._directions
            _walk(*given, self._alone, self._state, draws, fresh, rooms, low, high)

        shared_out(work, first, last)

    def _data(self, slots: NDArray[np.int64], first: int, last: int) -> Data:
        """Return the products of all columns, or of those that these steps may meet."""
        problem, p = self._problem, self._problem.features.n_columns
        gram, b = problem.gram, np.ascontiguousarray(problem.correlations)
        places = np.arange(p)
        if self._whole:
            G = _products(problem)
        else:
            met = np.take_along_axis(self._state.outside[first:last], slots, axis=1).ravel()
            features = np.unique(np.concatenate([self._state.supports[first:last].ravel(), met]))
            needed = problem.features.columns(features)
            places[:] = -1
            if self._store is not None:
                places[needed] = self._store.places(needed)
                G = self._store.store
                learn(problem, self._alone, G, places, features)
            else:
                places[needed] = np.arange(needed.size)
                G = gram.block(needed)
        diagonal = np.ascontiguousarray(gram.diagonal)
        whole = self._store is None
        return Data(np.ascontiguousarray(G), whole, places, b, diagonal, problem.energy)
