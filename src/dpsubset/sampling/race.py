"""Draws from the partition: by rejection (T14) and by the race of uniform clocks (T15)."""

from __future__ import annotations

import math

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.sampling.partition import Partition
from dpsubset.sampling.pieces import RandomSource, Support, pick

__all__ = ["draw_index", "draw_proportional", "draw_race"]

_LOG2 = math.log(2.0)


def draw_proportional(partition: Partition, source: RandomSource) -> Support:
    """Draw a support with probability proportional to exp(-kappa R(S)) (T14)."""
    while True:
        index = draw_index(np.concatenate([partition.masses, partition.single_weights]), source)
        if index >= len(partition.pieces):
            return partition.singles[index - len(partition.pieces)]
        piece = partition.pieces[index]
        support, log_weight = piece.draw(source)
        if piece.exact:
            return support
        kept, excess = partition.reaches(source.exponential(), support, log_weight, float)
        if kept:
            return support
        partition.rejected(index, excess)


def draw_index(logs: Floats, source: RandomSource) -> int:
    """Draw an index in proportion to exp(logs)."""
    return pick(np.cumsum(np.exp(logs - logs.max())), source)


def draw_race(partition: Partition, source: RandomSource) -> Support:
    """Draw the support whose clock, uniform on (0, exp(kappa R(S))), rings first (T15).

    Times are kept as logarithms. Nothing has rung before `now`; single supports have clocks of
    their own, everything else rings at hazard a/(1 - a x) <= 2 a as long as a x <= 1/2, which is
    a process of arrivals at twice the envelope's mass, thinned.
    """
    now = -math.inf
    clocks = -partition.single_weights - source.exponentials(len(partition.singles))
    while True:
        clocks = _new_clocks(partition, clocks, now, source)
        deadline = float(clocks.min(initial=math.inf))
        arrival = horizon = math.inf
        if partition.pieces:
            horizon = -_LOG2 - float(partition.peaks.max())
            rate = _LOG2 + float(np.logaddexp.reduce(partition.masses))
            arrival = float(np.logaddexp(now, math.log(source.exponential()) - rate))
        if deadline <= min(arrival, horizon):
            return partition.singles[int(np.argmin(clocks))]
        if arrival >= horizon:
            now = max(now, horizon)
            partition.refine(int(np.argmax(partition.peaks)), level=-now - 2 * _LOG2)
            continue
        now = arrival
        index = draw_index(partition.masses, source)
        support = _ring(partition, index, now, source)
        if support is not None:
            return support


def _ring(partition: Partition, index: int, now: float, source: RandomSource) -> Support | None:
    """Draw who arrives from a piece; keep it with probability a / (2 abar (1 - a x))."""
    piece = partition.pieces[index]
    support, log_weight = piece.draw(source)

    def needed(excess: float) -> float:
        passed = math.exp(now + log_weight - excess)  # a x, at most 1/2
        return excess + math.log(2.0 * (1.0 - passed))

    draw = source.exponential()
    if piece.exact:
        return support if draw >= needed(0.0) else None
    kept, excess = partition.reaches(draw, support, log_weight, needed)
    if kept:
        return support
    if excess > _LOG2:
        partition.rejected(index, excess)
    return None


def _new_clocks(partition: Partition, clocks: Floats, now: float, source: RandomSource) -> Floats:
    """Give supports that were set free at `now` a clock uniform on (e^now, 1/a)."""
    ends = -partition.single_weights[clocks.size :]
    if ends.size == 0:
        return clocks
    share = source.uniforms(ends.size)
    fresh = np.logaddexp(now + np.log1p(-share), ends + np.log(share))
    return np.concatenate([clocks, fresh])
