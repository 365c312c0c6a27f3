"""Decisions of samplers: whether a draw reaches a score, which support, when a clock rings."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.problem import Begun, Problem
from dpsubset.sampling.pieces import RandomSource, picked

__all__ = [
    "COARSE",
    "PLENTY",
    "begun_fit",
    "decided",
    "draw_index",
    "draw_indices",
    "new_clocks",
    "ring_height",
]

COARSE = 1e-3  # width of the first interval of a score, in units of 1/kappa
PLENTY = 12.0  # nats above a bound that tell enough about it


def decided(
    problem: Problem,
    kappa: float,
    draw: float,
    support: NDArray[np.int64],
    log_weight: float,
    rising: Callable[[float], float],
    begun: Begun | None = None,
) -> tuple[bool, float]:
    """Return whether a draw is at least rising(kappa R(S) + log_weight), and that sum.

    The score is known as an interval; it is narrowed when the draw falls between the ends, as
    far as rounding allows, and then the middle decides (T16, T19). Since rising(x) >= x, a fit can
    end once its lower end lies above the draw; the sum is then known from below only. `begun` is
    what `begun_fit` has made of the same draw.
    """
    coarse, enough = _first_goal(kappa, draw, log_weight)

    def excess(gap: float, begun: Begun | None = None) -> tuple[float, float]:
        low, high = problem.enclose(support, gap, enough, begun)
        return max(kappa * low + log_weight, 0.0), max(kappa * high + log_weight, 0.0)

    low, high = excess(coarse, begun)
    if draw < rising(low):
        return False, low
    if draw < rising(high):
        low, high = excess(0.0)
        low = high = (low + high) / 2
    return draw >= rising(high), high


def begun_fit(
    problem: Problem,
    kappa: float,
    draw: float,
    support: NDArray[np.int64],
    log_weight: float,
    pool: Executor,
) -> Begun | None:
    """Let other threads make the first fit of a decision; None if it needs none."""
    return problem.begin(support, *_first_goal(kappa, draw, log_weight), pool)


def _first_goal(kappa: float, draw: float, log_weight: float) -> tuple[float, float]:
    """Return how wide a first interval may be, and from where on it may be wider."""
    return COARSE / kappa, (max(draw, PLENTY) - log_weight) / kappa


def draw_index(logs: Floats, source: RandomSource) -> int:
    """Draw an index in proportion to exp(logs)."""
    return int(draw_indices(logs, source, 1)[0])


def draw_indices(logs: Floats, source: RandomSource, count: int) -> NDArray[np.intp]:
    """Draw so many indices in proportion to exp(logs)."""
    return picked(np.cumsum(np.exp(logs - logs.max())), source, count)


def ring_height(now: float, log_weight: float, excess: float) -> float:
    """Return how high an exponential number must be for an arrival of the race to ring (T15).

    The chance to ring is a / (2 abar (1 - a x)), abar the envelope's weight, a the support's own.
    """
    passed = math.exp(now + log_weight - excess)  # a x, at most 1/2
    return excess + math.log(2.0 * (1.0 - passed))


def new_clocks(log_weights: Floats, clocks: Floats, now: float, source: RandomSource) -> Floats:
    """Give supports that were set free at `now` a clock uniform on (e^now, 1/a)."""
    ends = -log_weights[clocks.size :]
    if ends.size == 0:
        return clocks
    share = source.uniforms(ends.size)
    fresh = np.logaddexp(now + np.log1p(-share), ends + np.log(share))
    return np.concatenate([clocks, fresh])
