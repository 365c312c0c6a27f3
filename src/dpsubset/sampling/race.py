"""Draws from the partition: by rejection (T14) and by the race of uniform clocks (T15)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.sampling.ahead import Ahead, Try
from dpsubset.sampling.deciding import draw_index, new_clocks, ring_height
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
    while True:
        late = clock is not None and clock.late(total, 1, source)
        now = -math.inf if clock is None else clock.now
        index = _LATE if late else draw_index(logs, source)
        if not 0 <= index < len(partition.pieces):
            yield Try(index, now)
            return
        piece = partition.pieces[index]
        support, log_weight = piece.draw(source)
        kept = piece.exact and not partition.gone(support)
        height = 0.0 if kept or partition.gone(support) else source.exponential()
        yield Try(index, now, support, log_weight, height)
        if kept:
            return


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
    arrival = math.inf
    while True:
        if partition.pieces:
            arrival = float(np.logaddexp(now, math.log(source.exponential()) - rate))
        if deadline <= min(arrival, horizon):
            yield Try(_ENDED, now)
            return
        if arrival >= horizon:
            yield Try(_HORIZON, max(now, horizon))
            return
        now = arrival
        index = draw_index(partition.masses, source)
        support, log_weight = partition.pieces[index].draw(source)
        rising = partial(ring_height, now, log_weight)
        yield Try(index, now, support, log_weight, source.exponential(), rising)


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
