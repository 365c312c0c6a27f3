"""Logistic loss, for labels -1 and +1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit, xlogy

from dpsubset.arrays import Floats
from dpsubset.losses.base import Loss

__all__ = ["Logistic"]


class Logistic(Loss):
    """Logistic loss: l(y, t) = log(1 + exp(-y t)).

    Examples
    --------
    >>> round(Logistic().largest(1.0, 2.0), 4), Logistic().spread(1.0, 2.0)
    (2.1269, 2.0)
    """

    name = "logistic"
    classification = True
    symmetric = True
    smooth = True
    bends = True

    def value(self, y: Floats, t: Floats) -> Floats:
        return np.asarray(np.logaddexp(0.0, -y * t))

    def conjugate(self, y: Floats, a: Floats) -> Floats:
        """Return q log q + (1 - q) log(1 - q) with q = -a y in [0, 1]."""
        q = -a * y
        inside = (q >= 0.0) & (q <= 1.0)
        q = np.where(inside, q, 0.5)
        return np.where(inside, xlogy(q, q) + xlogy(1.0 - q, 1.0 - q), math.inf)

    def largest(self, y_bound: float, t_bound: float) -> float:
        return float(np.logaddexp(0.0, t_bound))

    def spread(self, y_bound: float, t_bound: float) -> float:
        return t_bound  # log(1 + e^t) - log(1 + e^-t)

    def steepest(self, y_bound: float, t_bound: float) -> float:
        return float(expit(t_bound))

    def most_curved(self) -> float:
        return 0.25

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        width = 1.0 / sigma
        for i in range(y.size):
            # The minimiser's margin is a root of m - margin - width q(m), which is concave above 0
            # and convex below: Newton's steps from 0, or between 0 and the root, never pass it.
            margin = y[i] * w[i]
            m = (margin + 0.5 * width) / (1.0 + 0.25 * width)
            above = m > 0.0
            m = max(m, margin) if above else min(m, margin + width)
            for _ in range(100):
                e = np.exp(-abs(m))
                q = (e if m > 0.0 else 1.0) / (1.0 + e)  # minus the slope at margin m
                bend = e / ((1.0 + e) * (1.0 + e))
                off = m - margin - width * q
                if abs(off) <= 1e-14 * (abs(m) + width) or (off > 0.0) == above:
                    break
                m -= off / (1.0 + width * bend)
            value[i] = np.log1p(e) + max(-m, 0.0) + 0.5 * width * q * q
            slope[i] = -q * y[i]
            curve[i] = bend / (1.0 + width * bend)
