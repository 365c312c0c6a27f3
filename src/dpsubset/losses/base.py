"""What a loss is: a convex function of the prediction, its conjugate, its largest value, a fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from dpsubset.arrays import Floats

__all__ = ["Fit", "Loss"]


@dataclass(frozen=True)
class Fit:
    """A fit on a support: coefficients in the ball, and a value enclosed from both sides (T16)."""

    coefficients: Floats
    primal: float
    dual: float


class Loss(ABC):
    """A loss l(y, t) >= 0, convex in the prediction t, summed over rows (T1)."""

    name: str

    @abstractmethod
    def value(self, y: Floats, t: Floats) -> Floats:
        """Return l(y, t) for every row."""

    @abstractmethod
    def conjugate(self, y: Floats, a: Floats) -> Floats:
        """Return sup over t of a t - l(y, t), infinite outside its domain."""

    @abstractmethod
    def largest(self, y_bound: float, t_bound: float) -> float:
        """Return the largest l(y, t) over |y| <= y_bound, |t| <= t_bound (T2)."""

    @abstractmethod
    def published(self, y_bound: float, t_bound: float) -> float:
        """Return the paper's bound on the same maximum, to reproduce its figures (T2)."""

    @abstractmethod
    def fit(self, columns: Floats, y: Floats, ridge: float, radius: float) -> Fit:
        """Minimise sum l(y, columns @ beta) + ridge |beta|^2 over |beta| <= radius."""
