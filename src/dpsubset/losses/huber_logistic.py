"""Logistic loss that goes on as a straight line where a row is far on the wrong side."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import expit

from dpsubset.arrays import Floats
from dpsubset.errors import InputError
from dpsubset.losses.changed import Changed, Rows, made_once
from dpsubset.losses.logistic import Logistic

__all__ = ["HuberLogistic"]


class HuberLogistic(Changed):
    """Logistic loss for y t from -margin on, and a straight line with its slope there before.

    No row pulls harder than 1 / (1 + exp(-margin)), so that coefficients need less noise (T27). At
    predictions up to the margin its minimum is logistic loss's: chances are chances.

    Parameters
    ----------
    margin : float, default=0.5
        How far on the wrong side, in log odds, a row is before its loss goes straight.

    Examples
    --------
    >>> loss = HuberLogistic(0.5)
    >>> round(loss.steepest(1.0, 10.0), 3), round(Logistic().steepest(1.0, 10.0), 3)
    (0.622, 1.0)
    """

    name = "huber_logistic"
    symmetric = True
    spread = Changed.spread  # said anew, as of every loss with values of its own

    def __init__(self, margin: float = 0.5) -> None:
        if isinstance(margin, bool) or not isinstance(margin, Real) or not 0.0 <= margin <= 1e3:
            raise InputError(f"margin must be a number between 0 and 1000, not {margin!r}")
        self.margin: float = float(margin)
        super().__init__(Logistic(), self.margin, "huber_logistic", (self.margin,))
        self.bends = False  # its curvature jumps at the margin

    def value(self, y: Floats, t: Floats) -> Floats:
        beyond = np.maximum(-y * t - self.margin, 0.0)
        inside = np.maximum(y * t, -self.margin)
        return np.asarray(np.logaddexp(0.0, -inside) + expit(self.margin) * beyond)

    def conjugate(self, y: Floats, a: Floats) -> Floats:
        """Return logistic loss's, on slopes that this one has."""
        steep = np.abs(a) > expit(self.margin)
        return np.where(steep, math.inf, self.loss.conjugate(y, np.where(steep, 0.0, a)))

    def largest(self, y_bound: float, t_bound: float) -> float:
        return float(self.value(np.array(-1.0), np.array(t_bound)))

    def steepest(self, y_bound: float, t_bound: float) -> float:
        return self.loss.steepest(y_bound, min(t_bound, self.margin))

    def most_curved(self) -> float:
        return self.loss.most_curved()

    def changed_rows(self) -> Rows:
        """Return logistic loss's rows, straight beyond the first parameter."""
        return made_once(_straightened, self.inner_rows())

    def __repr__(self) -> str:
        return f"HuberLogistic({self.margin!r})"


def _straightened(rows: Any) -> Rows:
    def straightened(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        rows(y, w, sigma, parameters, value, slope, curve)
        margin, width = parameters[0], 1.0 / sigma
        e = np.exp(-margin)
        steep = 1.0 / (1.0 + e)
        for i in range(y.size):
            m = y[i] * w[i] + width * steep  # where the envelope's own minimiser lies on the line
            if m < -margin:
                line = margin + np.log1p(e) + steep * (-margin - m)
                value[i] = line + 0.5 * width * steep * steep
                slope[i] = -steep * y[i]
                curve[i] = 0.0

    return straightened
