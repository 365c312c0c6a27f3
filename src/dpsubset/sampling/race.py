"""Draws from the partition: by rejection (T14) and by the race of uniform clocks (T15)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.sampling.deciding import draw_index, new_clocks, ring_height
from dpsubset.sampling.partition import GONE, Partition
from dpsubset.sampling.pieces import RandomSource, Support

__all__ = ["Race", "Tries", "draw_proportional", "draw_race"]

_LOG2 = math.log(2.0)


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
    while True:
        logs = np.concatenate([partition.masses, partition.single_weights])
        if tries is not None and tries.late(float(np.logaddexp.reduce(logs)), 1, source):
            return None
        index = draw_index(logs, source)
        if index >= len(partition.pieces):
            return partition.singles[index - len(partition.pieces)]
        piece = partition.pieces[index]
        support, log_weight = piece.draw(source)
        if partition.gone(support):
            partition.rejected(index, support, GONE)
            continue
        if piece.exact:
            return support
        verdict = partition.reaches(source.exponential(), support, log_weight, float)
        if verdict.kept:
            return support
        partition.rejected(index, support, verdict)


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
    while True:
        deadline = race.deadline(partition.single_weights, source)
        arrival = horizon = math.inf
        if partition.pieces:
            horizon = -_LOG2 - float(partition.peaks.max())
            rate = _LOG2 + float(np.logaddexp.reduce(partition.masses))
            arrival = float(np.logaddexp(race.now, math.log(source.exponential()) - rate))
        if deadline <= min(arrival, horizon):
            return race.ended(partition.singles)
        if arrival >= horizon:
            race.now = max(race.now, horizon)
            partition.refine(int(np.argmax(partition.peaks)), level=-race.now - 2 * _LOG2)
            continue
        race.now = arrival
        index = draw_index(partition.masses, source)
        support = _ring(partition, index, race.now, source)
        if support is not None:
            return support


def _ring(partition: Partition, index: int, now: float, source: RandomSource) -> Support | None:
    """Draw who arrives from a piece; keep it with probability a / (2 abar (1 - a x))."""
    piece = partition.pieces[index]
    support, log_weight = piece.draw(source)

    needed = partial(ring_height, now, log_weight)
    draw = source.exponential()
    if partition.gone(support):
        partition.rejected(index, support, GONE)
        return None
    if piece.exact:
        return support if draw >= needed(0.0) else None
    verdict = partition.reaches(draw, support, log_weight, needed)
    if verdict.kept:
        return support
    if verdict.excess > _LOG2:
        partition.rejected(index, support, verdict)
    return None
