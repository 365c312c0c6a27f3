"""Huber's loss: squared near the target, linear far away."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.errors import InputError
from dpsubset.losses.base import Loss

__all__ = ["Huber", "rise"]


def rise(middle: float, half: float, c: float) -> float:
    """Return by how much Huber's loss grows from middle - half >= 0 to middle + half.

    Of a narrow range no digits are lost.

    >>> rise(1.0, 0.5, 10.0), rise(1.0, 0.5, 0.5), rise(1.0, 0.5, 1.0)
    (2.0, 1.0, 1.75)
    """
    low, high = middle - half, middle + half
    if high <= c:
        return 4.0 * middle * half
    if low >= c:
        return 4.0 * c * half
    return (c - low) * (c + low) + 2.0 * c * (high - c)


class Huber(Loss):
    """Huber's loss: l(y, t) = d^2 for d = |y - t| up to c, 2 c d - c^2 beyond.

    For large c it is the squared loss; for small c, l / (2 c) is nearly the absolute loss.

    Parameters
    ----------
    c : float
        Where the parabola ends and the line begins.

    Examples
    --------
    >>> Huber(0.5).largest(1.0, 2.0), Huber(0.5).largest(1.0, 0.25), Huber(0.5).spread(1.0, 0.25)
    (2.75, 1.0, 0.5)
    """

    name = "huber"
    smooth = True
    bends = True

    def __init__(self, c: float = 0.1) -> None:
        good = isinstance(c, Real) and not isinstance(c, bool) and 1e-6 <= c <= 1e6
        if not good:
            raise InputError(f"c must be a number between 1e-6 and 1e6, not {c!r}")
        self.c = float(c)
        self.parameters = (self.c,)

    def value(self, y: Floats, t: Floats) -> Floats:
        d = np.abs(y - t)
        return np.where(d <= self.c, d**2, self.c * (2.0 * d - self.c))

    def conjugate(self, y: Floats, a: Floats) -> Floats:
        """Return a y + a^2 / 4 on |a| <= 2 c."""
        return np.where(np.abs(a) <= 2.0 * self.c, a * y + a**2 / 4.0, math.inf)

    def largest(self, y_bound: float, t_bound: float) -> float:
        d = y_bound + t_bound
        return d**2 if d <= self.c else self.c * (2.0 * d - self.c)

    def spread(self, y_bound: float, t_bound: float) -> float:
        if t_bound >= y_bound:
            return self.largest(y_bound, t_bound)
        return rise(y_bound, t_bound, self.c)

    def steepest(self, y_bound: float, t_bound: float) -> float:
        return 2 * min(self.c, y_bound + t_bound)

    def most_curved(self) -> float:
        return 2.0

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        c = parameters[0]
        flat = 1.0 / (1.0 + 2.0 / sigma)  # by how much the envelope is flatter than the square
        for i in range(y.size):
            d = w[i] - y[i]
            if abs(d) * flat <= c:
                value[i] = flat * d * d
                slope[i] = 2.0 * flat * d
                curve[i] = 2.0 * flat
            else:
                value[i] = c * (2.0 * abs(d) - c - 2.0 * c / sigma)
                slope[i] = 2.0 * c if d > 0.0 else -2.0 * c
                curve[i] = 0.0
