"""Hinge loss, for labels -1 and +1: the support vector machine's, and the paper's second loss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.losses.base import Loss

__all__ = ["Hinge"]


class Hinge(Loss):
    """Hinge loss: l(y, t) = max(0, 1 - y t).

    Examples
    --------
    >>> Hinge().largest(1.0, 2.0), Hinge().largest(1.0, 0.5), Hinge().spread(1.0, 0.5)
    (3.0, 1.5, 1.0)
    """

    name = "hinge"
    classification = True
    symmetric = True

    def value(self, y: Floats, t: Floats) -> Floats:
        return np.maximum(1.0 - y * t, 0.0)

    def conjugate(self, y: Floats, a: Floats) -> Floats:
        """Return a y on -1 <= a y <= 0."""
        m = a * y
        return np.where((m >= -1.0) & (m <= 0.0), m, math.inf)

    def largest(self, y_bound: float, t_bound: float) -> float:
        return 1.0 + t_bound

    def spread(self, y_bound: float, t_bound: float) -> float:
        return min(1.0 + t_bound, 2.0 * t_bound)

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        for i in range(y.size):
            m = 1.0 - y[i] * w[i]
            slope[i] = curve[i] = 0.0
            if m <= 0.0:
                value[i] = 0.0
            elif m * sigma >= 1.0:
                value[i] = m - 0.5 / sigma
                slope[i] = -y[i]
            else:
                value[i] = 0.5 * sigma * m * m
                slope[i] = -sigma * m * y[i]
                curve[i] = sigma
