"""A loss of one's own: squared loss under another name, so that nobody knows its moments."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsubset.losses import LOSSES, Loss, register


class Clone(Loss):
    """l(y, t) = (y - t)^2."""

    name = "squared_clone"
    smooth = True

    def value(self, y: Any, t: Any) -> Any:
        return np.square(t - y)

    def conjugate(self, y: Any, a: Any) -> Any:
        return a * (y + a / 4)

    def largest(self, y_bound: float, t_bound: float) -> float:
        return (y_bound + t_bound) ** 2

    def spread(self, y_bound: float, t_bound: float) -> float:
        return (y_bound + t_bound) ** 2 - max(0.0, y_bound - t_bound) ** 2

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        share = 1.0 / (1.0 + 2.0 / sigma)
        for i in range(y.size):
            value[i] = share * (y[i] - w[i]) ** 2
            slope[i] = 2.0 * share * (w[i] - y[i])
            curve[i] = 2.0 * share


if Clone.name not in LOSSES:  # this file may be imported under two names
    register(Clone)
CLONE = LOSSES[Clone.name]()
