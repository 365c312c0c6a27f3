"""Draws from the partition: by rejection (T14) and by the race of uniform clocks (T15)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.sampling.ahead import Ahead, Try
from dpsubset.sampling.deciding import draw_indices, new_clocks, ring_height
from dpsubset.sampling.partition import GONE, Partition
from dpsubset.sampling.pieces import RandomSource, Support

__all__ = ["Race", "Tries", "draw_proportional", "draw_race", "proposals"]

_LOG2 = math.log(2.0)
_LATE, _ENDED, _HORIZON = -1, -2, -3  # in the place of a piece: how the draw goes on


@dataclass
class Tries:
    """When tries are made, where several samplers compete (T34): the first accepted one wins.

    Tries come at a rate that is the sum of all weights in the sampler. Times are logarithms.
    """

    until: float
    now: float = -math.inf

    def late(self, log_mass: float, count: int, source: RandomSource) -> bool:
        """Let so many tries pass at a rate of e^log_mass; return whether nobody waits any more."""
        wait = math.log(math.fsum(source.exponentials(count))) - log_mass
        self.now = float(np.logaddexp(self.now, wait))
        return self.now >= self.until


def draw_proportional(
    partition: Partition, source: RandomSource, tries: Tries | None = None
) -> Support | None:
    """Draw a support with probability proportional to exp(-kappa R(S)) (T14).

    With `tries` it may be too late for any.
    """
    with Ahead(partition, lambda: proposals(partition, source, tries)) as ahead:
        while True:
            one = ahead.next()
            if tries is not None:
                tries.now = one.now
            if one.index == _LATE:
                return None
            if one.index >= len(partition.pieces):
                return partition.singles[one.index - len(partition.pieces)]
            if partition.gone(one.support):
                partition.rejected(one.index, one.support, GONE)
                continue
            if partition.pieces[one.index].exact:
                return one.support
            verdict = partition.reaches(*one.question)
            if verdict.kept:
                return one.support
            partition.rejected(one.index, one.support, verdict)


def proposals(partition: Partition, source: RandomSource, tries: Tries | None) -> Iterator[Try]:
    """Draw from the partition as it is, again and again, until one ends the draw for sure."""
    logs = np.concatenate([partition.masses, partition.single_weights])
    total, clock = float(np.logaddexp.reduce(logs)), copy(tries)
    count = 1 if clock else partition.paced(0)
    while True:
        late = clock is not None and clock.late(total, 1, source)
        now = -math.inf if clock is None else clock.now
        if late:
            yield Try(_LATE, now)
            return
        indices = draw_indices(logs, source, count)
        ends = np.flatnonzero(indices >= len(partition.pieces))
        before = indices[: ends[0]] if ends.size else indices
        for one in _together(partition, source, before):
            one.now = now
            yield one
            if partition.pieces[one.index].exact and not partition.gone(one.support):
                return
        if ends.size:
            yield Try(int(indices[ends[0]]), now)
            return
        count = 1 if clock else partition.paced(count)


def _together(
    partition: Partition, source: RandomSource, indices: NDArray[np.intp]
) -> Iterator[Try]:
    """Draw a try from each of some pieces; where there are several, all are told of at once."""
    if indices.size == 0:
        return
    supports = np.empty((indices.size, partition.problem.size), dtype=np.int64)
    log_weights = np.empty(indices.size)
    for index in np.unique(indices):
        rows = np.flatnonzero(indices == index)
        supports[rows], log_weights[rows] = partition.pieces[index].draw_many(source, rows.size)
    heights = source.exponentials(indices.size)
    known: list[float] | list[None] = [None] * indices.size
    if indices.size > 1:
        known = partition.told_together(supports, log_weights).tolist()
    drawn = zip(indices.tolist(), supports, log_weights.tolist(), heights.tolist(), strict=True)
    for (index, support, log_weight, height), low in zip(drawn, known, strict=True):
        yield Try(index, -math.inf, support, log_weight, height, known=low)


@dataclass
class Race:
    """How far a race has come: nothing has rung before `now`; single supports have clocks.

    Nobody waits for who rings after `until`: the race then ends without a winner (T34).
    """

    now: float = -math.inf
    clocks: Floats | None = None
    until: float = math.inf

    def begin(self, log_weights: Floats, source: RandomSource) -> None:
        """Give single supports a clock uniform on (0, 1/a), unless the race goes on."""
        if self.clocks is None:
            self.clocks = -log_weights - source.exponentials(log_weights.size)

    def deadline(self, log_weights: Floats, source: RandomSource) -> float:
        """Return when the race ends at the latest: a single support rings, or nobody waits.

        New single supports get a clock of what is left.
        """
        assert self.clocks is not None
        self.clocks = new_clocks(log_weights, self.clocks, self.now, source)
        return float(self.clocks.min(initial=self.until))

    def ended(self, singles: list[Support]) -> Support | None:
        """Return who of the single supports has rung at the deadline; None if nobody waits."""
        assert self.clocks is not None
        self.now = float(self.clocks.min(initial=self.until))
        return singles[int(np.argmin(self.clocks))] if self.now < self.until else None


def draw_race(
    partition: Partition, source: RandomSource, race: Race | None = None
) -> Support | None:
    """Draw the support whose clock, uniform on (0, exp(kappa R(S))), rings first (T15).

    Times are kept as logarithms. Nothing has rung before `now`; single supports have clocks of
    their own, everything else rings at hazard a/(1 - a x) <= 2 a as long as a x <= 1/2, which is
    a process of arrivals at twice the envelope's mass, thinned.
    """
    race = race or Race()
    race.begin(partition.single_weights, source)
    with Ahead(partition, lambda: _arrivals(partition, source, race)) as ahead:
        while True:
            one = ahead.next()
            if one.index == _ENDED:
                return race.ended(partition.singles)
            race.now = one.now
            if one.index == _HORIZON:
                partition.refine(int(np.argmax(partition.peaks)), level=-race.now - 2 * _LOG2)
            elif _rings(partition, one):
                return one.support


def _arrivals(partition: Partition, source: RandomSource, race: Race) -> Iterator[Try]:
    """Let supports arrive from the partition as it is, up to what ends the race or the process."""
    deadline, now = race.deadline(partition.single_weights, source), race.now
    horizon = -_LOG2 - float(partition.peaks.max(initial=-math.inf))
    rate = _LOG2 + float(np.logaddexp.reduce(partition.masses, initial=-math.inf))
    until, count = min(deadline, horizon), partition.paced(0)
    while True:
        arrivals = np.empty(0)
        if partition.pieces:
            waited = np.log(np.cumsum(source.exponentials(count))) - rate
            arrivals = np.logaddexp(now, waited)
            arrivals = arrivals[arrivals < until]
            indices = draw_indices(partition.masses, source, arrivals.size)
            for arrival, one in zip(arrivals, _together(partition, source, indices), strict=True):
                one.now = now = float(arrival)
                one.rising = partial(ring_height, now, one.log_weight)
                yield one
        if arrivals.size < count:
            ended = deadline <= horizon
            yield Try(_ENDED, now) if ended else Try(_HORIZON, max(now, horizon))
            return
        count = partition.paced(count)


def _rings(partition: Partition, one: Try) -> bool:
    """Keep who arrives with probability a / (2 abar (1 - a x))."""
    if partition.gone(one.support):
        partition.rejected(one.index, one.support, GONE)
        return False
    if partition.pieces[one.index].exact:
        return one.height >= one.rising(0.0)
    verdict = partition.reaches(*one.question)
    if not verdict.kept and verdict.excess > _LOG2:
        partition.rejected(one.index, one.support, verdict)
    return verdict.kept
