"""Quantile (pinball) loss and its best known case, absolute loss."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.errors import InputError
from dpsubset.losses.base import Loss

__all__ = ["Absolute", "Quantile"]


class _Pinball(Loss):
    """l(y, t) = up (y - t) where t is below y, down (t - y) where it is above."""

    parameters: tuple[float, float]

    def value(self, y: Floats, t: Floats) -> Floats:
        up, down = self.parameters
        return np.maximum(up * (y - t), down * (t - y))

    def conjugate(self, y: Floats, a: Floats) -> Floats:
        """Return a y on -up <= a <= down."""
        up, down = self.parameters
        return np.where((a >= -up) & (a <= down), a * y, math.inf)

    def largest(self, y_bound: float, t_bound: float) -> float:
        return max(self.parameters) * (y_bound + t_bound)

    def spread(self, y_bound: float, t_bound: float) -> float:
        return max(self.parameters) * (min(y_bound, t_bound) + t_bound)

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        up, down = parameters[0], parameters[1]
        for i in range(y.size):
            d = w[i] - y[i]
            curve[i] = 0.0
            if d == 0.0:
                value[i] = slope[i] = 0.0
                curve[i] = sigma if sigma < np.inf else 0.0
            elif sigma * d >= down:
                value[i] = down * d - 0.5 * down * down / sigma
                slope[i] = down
            elif sigma * d <= -up:
                value[i] = -up * d - 0.5 * up * up / sigma
                slope[i] = -up
            else:
                value[i] = 0.5 * sigma * d * d
                slope[i] = sigma * d
                curve[i] = sigma


class Quantile(_Pinball):
    """Quantile loss: tau (y - t) where t is below y, (1 - tau) (t - y) where it is above.

    Parameters
    ----------
    tau : float
        The quantile, between 0 and 1.

    Examples
    --------
    >>> Quantile(0.9).largest(1.0, 1.0)
    1.8
    """

    name = "quantile"

    def __init__(self, tau: float = 0.5) -> None:
        if isinstance(tau, bool) or not isinstance(tau, Real) or not 0 < tau < 1:
            raise InputError(f"tau must be a number between 0 and 1, not {tau!r}")
        self.tau: float = float(tau)
        self.parameters = self.tau, 1.0 - self.tau

    def __repr__(self) -> str:
        return f"Quantile({self.tau!r})"


class Absolute(_Pinball):
    """Absolute loss: l(y, t) = |y - t|, twice the quantile loss at 1/2.

    Examples
    --------
    >>> Absolute().largest(1.0, 2.0), Absolute().largest(1.0, 0.5), Absolute().spread(1.0, 0.5)
    (3.0, 1.5, 1.0)
    """

    name = "absolute"
    parameters = 1.0, 1.0

    def __repr__(self) -> str:
        return "Absolute()"
