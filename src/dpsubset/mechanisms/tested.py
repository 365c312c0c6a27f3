"""Propose, test, release: a private test of how far a table is from one with another answer.

h is a number that one row moves by at most 1, such that neighbours of a table with h > 1 have the
same answer. The test passes if h plus Laplace noise is above a threshold that h <= 1 reaches with
chance delta (T7, T26).
"""

from __future__ import annotations

import math

from dpsubset.checks import positive
from dpsubset.errors import InputError
from dpsubset.privacy import Randomness

__all__ = ["check_delta", "log_chances", "passes", "passing", "threshold"]


def check_delta(delta: float) -> float:
    """Return the chance that a test passes wrongly, or say what it must be."""
    if positive(delta, "delta") >= 0.5:
        raise InputError(f"delta must be below 1/2, not {delta!r}; choose it below 1/n")
    return float(delta)


def log_chances(h: float, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the logs of the chances that the test passes, and that it does not.

    >>> log_chances(1.0, 1.0, 1e-6)[0] - math.log(1e-6) < 1e-9
    True
    """
    over = epsilon * (h - threshold(epsilon, delta))
    less, more = math.log(0.5) - abs(over), math.log1p(-0.5 * math.exp(-abs(over)))
    return (more, less) if over > 0 else (less, more)


def passing(h: float, epsilon: float, delta: float) -> float:
    """Return the chance that the test passes: h + Laplace(1/epsilon) is above its threshold.

    >>> round(passing(1.0, 1.0, 1e-6), 12), round(passing(20.0, 1.0, 1e-6), 3)
    (1e-06, 0.999)
    """
    return math.exp(log_chances(h, epsilon, delta)[0])


def threshold(epsilon: float, delta: float) -> float:
    """Return 1 + ln(1/(2 delta))/epsilon: from h <= 1 the noise reaches it with chance delta."""
    return 1.0 + math.log(0.5 / delta) / epsilon


def passes(h: float, epsilon: float, delta: float, randomness: Randomness) -> bool:
    """Make the test."""
    return h + float(randomness.laplaces(1)[0]) / epsilon > threshold(epsilon, delta)
