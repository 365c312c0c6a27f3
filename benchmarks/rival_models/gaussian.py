"""The Gaussian mechanism with exact calibration (Balle and Wang 2018; Dong, Roth and Su 2022)."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.stats import norm

__all__ = ["delta_of", "mu_for"]


def delta_of(epsilon: float, mu: float) -> float:
    """Return the delta of mu-Gaussian differential privacy at an epsilon.

    >>> round(delta_of(1.0, 1.0), 4)
    0.1269
    """
    second = math.exp(epsilon + float(norm.logcdf(-epsilon / mu - mu / 2)))
    return float(norm.cdf(-epsilon / mu + mu / 2)) - second


def mu_for(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP is (epsilon, delta)-DP.

    >>> mu = mu_for(1.0, 1e-6)
    >>> abs(delta_of(1.0, mu) - 1e-6) < 1e-10
    True
    """
    low, high = 1e-6, 2.0 * math.sqrt(2.0 * epsilon) + epsilon + 1.0
    while delta_of(epsilon, high) < delta:
        high *= 2.0
    return float(brentq(lambda mu: delta_of(epsilon, mu) - delta, low, high, xtol=1e-12))
