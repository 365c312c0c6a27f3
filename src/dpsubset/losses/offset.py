"""A loss for labels whose predictions start from a fixed number instead of from 0 (T39)."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numba import njit
from numba.core import config

from dpsubset.arrays import Floats
from dpsubset.errors import InputError
from dpsubset.losses.base import Loss, compiled_rows
from dpsubset.losses.hinge import Hinge
from dpsubset.losses.huber_hinge import HuberHinge
from dpsubset.losses.logistic import Logistic

__all__ = ["Offset"]

Rows = Callable[..., None]
OFFSETTABLE = (Hinge, Logistic, HuberHinge)


class Offset(Loss):
    """l(y, t + offset) for a loss l of labels: the coefficients need not explain the offset.

    The offset must be public: released privately, or known beforehand. It favours one of the
    classes, so they must be named.

    Examples
    --------
    >>> loss = Offset(Logistic(), -2.0)
    >>> loss, float(loss.value(np.array(-1.0), np.array(2.0))) == float(np.log(2.0))
    (Offset(Logistic(), -2.0), True)
    """

    classification = True

    def __init__(self, loss: Loss, offset: float) -> None:
        if type(loss) not in OFFSETTABLE:
            raise InputError("an offset is for the losses hinge, logistic and huber_hinge")
        good = isinstance(offset, Real) and not isinstance(offset, bool)
        if not (good and -1e3 <= offset <= 1e3):
            raise InputError(f"the offset must be a number between -1000 and 1000, not {offset!r}")
        self.loss, self.offset = loss, float(offset)
        self.name = f"{loss.name} with an offset"
        self.smooth, self.bends = loss.smooth, loss.bends
        self.parameters = (*loss.parameters, self.offset)

    def value(self, y: Floats, t: Floats) -> Floats:
        return self.loss.value(y, t + self.offset)

    def conjugate(self, y: Floats, a: Floats) -> Floats:
        return self.loss.conjugate(y, a) - a * self.offset

    def largest(self, y_bound: float, t_bound: float) -> float:
        return self.loss.largest(y_bound, t_bound + abs(self.offset))

    def spread(self, y_bound: float, t_bound: float) -> float:
        """Return the difference at the two ends: these losses do not increase with y t."""
        ends = np.array([-t_bound, t_bound])
        return float(max(np.ptp(self.value(np.full(2, label), ends)) for label in (-1.0, 1.0)))

    def steepest(self, y_bound: float, t_bound: float) -> float:
        return self.loss.steepest(y_bound, t_bound + abs(self.offset))

    def most_curved(self) -> float:
        return self.loss.most_curved()

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        raise NotImplementedError  # they are those of the loss, see `compiled`

    def compiled(self) -> tuple[Any, Floats, bool]:
        """Return the rows of the loss, at predictions that are moved by the last parameter."""
        parameters = np.array(self.parameters, dtype=np.float64)
        return compiled_rows(moved_rows(type(self.loss).rows)), parameters, self.smooth

    def __repr__(self) -> str:
        return f"Offset({self.loss!r}, {self.offset!r})"

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Offset) and type(self.loss) is type(other.loss)
        return same and self.parameters == getattr(other, "parameters", None)

    def __hash__(self) -> int:
        return hash((Offset, type(self.loss), self.parameters))


_MOVED: dict[Rows, Rows] = {}


def moved_rows(rows: Rows) -> Rows:
    """Return a row function at predictions that are moved; made once for each loss."""
    if rows not in _MOVED:
        plain = config.DISABLE_JIT  # type: ignore[attr-defined]
        inner: Any = rows if plain else njit(rows)

        def moved(
            y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
        ) -> None:
            inner(y, w + parameters[-1], sigma, parameters, value, slope, curve)

        _MOVED[rows] = moved
    return _MOVED[rows]
