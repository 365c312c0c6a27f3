"""Squared loss: everything about a support follows from X'X, X'y and y'y (T1, T16)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.losses.ball import solve
from dpsubset.losses.base import Loss

__all__ = ["Squared", "fit_moments", "support_scores"]


@compiled()
def support_scores(G, b, yy, supports, ridge, radius):  # type: ignore[no-untyped-def]
    """Return R(S) for every row S of `supports` (indices into G and b)."""
    m, k = supports.shape
    scores = np.empty(m)
    beta = np.empty(k)
    block = np.empty((k, k))
    target = np.empty(k)
    for r in range(m):
        for i in range(k):
            target[i] = b[supports[r, i]]
            for j in range(k):
                block[i, j] = G[supports[r, i], supports[r, j]]
        scores[r] = yy - solve(block, target, ridge, radius, beta)[0]
    return scores


def fit_moments(
    G: Floats, b: Floats, yy: float, ridge: float, radius: float
) -> tuple[Floats, float, float]:
    """Return coefficients, primal and dual value from X'X, X'y and y'y of a few columns."""
    beta = np.empty(b.size)
    primal, dual, _ = solve(np.ascontiguousarray(G), b, ridge, radius, beta)
    return beta, yy - primal, yy - dual


class Squared(Loss):
    """Squared loss: l(y, t) = (y - t)^2.

    Examples
    --------
    >>> Squared().largest(1.0, 2.0), Squared().published(1.0, 2.0)
    (9.0, 10.0)
    >>> Squared().spread(1.0, 2.0), Squared().spread(1.0, 0.5)
    (9.0, 2.0)
    """

    name = "squared"
    smooth = True
    bends = True
    precision = 1e-12

    def value(self, y: Floats, t: Floats) -> Floats:
        return np.asarray((y - t) ** 2)

    def conjugate(self, y: Floats, a: Floats) -> Floats:
        return np.asarray(a * y + a**2 / 4)

    def largest(self, y_bound: float, t_bound: float) -> float:
        return (y_bound + t_bound) ** 2

    def spread(self, y_bound: float, t_bound: float) -> float:
        if t_bound >= y_bound:
            return self.largest(y_bound, t_bound)
        return 4 * y_bound * t_bound  # (y + t)^2 - (y - t)^2

    def published(self, y_bound: float, t_bound: float) -> float:
        return 2 * y_bound**2 + 2 * t_bound**2

    def steepest(self, y_bound: float, t_bound: float) -> float:
        return 2 * (y_bound + t_bound)

    def most_curved(self) -> float:
        return 2.0

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        flat = 1.0 / (1.0 + 2.0 / sigma)  # by how much the envelope is flatter than the loss
        for i in range(y.size):
            d = w[i] - y[i]
            value[i] = flat * d * d
            slope[i] = 2.0 * flat * d
            curve[i] = 2.0 * flat
