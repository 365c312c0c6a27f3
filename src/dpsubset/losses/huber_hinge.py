"""Hinge loss with its kink rounded off, for labels -1 and +1."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.errors import InputError
from dpsubset.losses.base import Loss
from dpsubset.losses.huber import rise

__all__ = ["HuberHinge"]


class HuberHinge(Loss):
    """Smooth hinge loss: 0 for margins y t from 1 + h on, 1 - y t up to 1 - h, between a parabola.

    As smooth as objective perturbation needs, where hinge loss is not (T27).

    Parameters
    ----------
    h : float
        Half the width of the parabola.

    Examples
    --------
    >>> HuberHinge(0.5).largest(1.0, 2.0), HuberHinge(0.5).spread(1.0, 0.5)
    (3.0, 1.0)
    """

    name = "huber_hinge"
    classification = True
    symmetric = True
    smooth = True
    bends = True

    def __init__(self, h: float = 1.0) -> None:
        if isinstance(h, bool) or not isinstance(h, Real) or not 1e-6 <= h <= 1e6:
            raise InputError(f"h must be a number between 1e-6 and 1e6, not {h!r}")
        self.h: float = float(h)
        self.parameters = (self.h,)

    def value(self, y: Floats, t: Floats) -> Floats:
        d = np.maximum(1.0 + self.h - y * t, 0.0)
        return np.where(d < 2.0 * self.h, d**2 / (4.0 * self.h), d - self.h)

    def conjugate(self, y: Floats, a: Floats) -> Floats:
        """Return h q^2 - (1 + h) q with q = -a y in [0, 1]."""
        q = -a * y
        return np.where((q >= 0.0) & (q <= 1.0), (self.h * q - 1.0 - self.h) * q, math.inf)

    def largest(self, y_bound: float, t_bound: float) -> float:
        return float(self.value(np.array(-1.0), np.array(t_bound)))

    def spread(self, y_bound: float, t_bound: float) -> float:
        if t_bound >= 1.0 + self.h:
            return self.largest(y_bound, t_bound)
        return rise(1.0 + self.h, t_bound, 2.0 * self.h) / (4.0 * self.h)

    def steepest(self, y_bound: float, t_bound: float) -> float:
        return min(1.0, (1.0 + self.h + t_bound) / (2.0 * self.h))

    def most_curved(self) -> float:
        return 1.0 / (2.0 * self.h)

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        # The loss is itself an envelope, of max(0, 1 + h - y t); widths of envelopes add up.
        h = parameters[0]
        width = 2.0 * h + 1.0 / sigma
        for i in range(y.size):
            d = 1.0 + h - y[i] * w[i]
            slope[i] = curve[i] = 0.0
            if d <= 0.0:
                value[i] = 0.0
            elif d >= width:
                value[i] = d - 0.5 * width
                slope[i] = -y[i]
            else:
                value[i] = 0.5 * d * d / width
                slope[i] = -d / width * y[i]
                curve[i] = 1.0 / width
