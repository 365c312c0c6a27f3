"""A loss for labels whose predictions start from a fixed number instead of from 0 (T39)."""

from __future__ import annotations

from numbers import Real
from typing import Any

from dpsubset.arrays import Floats
from dpsubset.errors import InputError
from dpsubset.losses.base import Loss
from dpsubset.losses.changed import Changed, Rows, made_once
from dpsubset.losses.hinge import Hinge
from dpsubset.losses.huber_hinge import HuberHinge
from dpsubset.losses.huber_logistic import HuberLogistic
from dpsubset.losses.logistic import Logistic

__all__ = ["OFFSETTABLE", "Offset", "starting_from"]

OFFSETTABLE = (Hinge, Logistic, HuberHinge, HuberLogistic)


class Offset(Changed):
    """A loss of labels with an offset: l(y, t + offset), which coefficients need not explain.

    The offset must be public: released privately, or known beforehand. It favours one of the
    classes, so they must be named.

    Parameters
    ----------
    loss : Loss
        A loss of labels.
    offset : float
        What all predictions begin with; public.

    Examples
    --------
    >>> import numpy as np
    >>> loss = Offset(Logistic(), -2.0)
    >>> loss, float(loss.value(np.array(-1.0), np.array(2.0))) == float(np.log(2.0))
    (Offset(Logistic(), -2.0), True)
    """

    spread = Changed.spread  # said anew, as of every loss with values of its own

    def __init__(self, loss: Loss, offset: float) -> None:
        if type(loss) not in OFFSETTABLE:
            raise InputError(
                "an offset of labels is for the losses hinge, logistic, huber_hinge and "
                "huber_logistic"
            )
        good = isinstance(offset, Real) and not isinstance(offset, bool)
        if not (good and -1e3 <= offset <= 1e3):
            raise InputError(f"the offset must be a number between -1000 and 1000, not {offset!r}")
        self.offset = float(offset)
        name = f"{loss.name} with an offset"
        super().__init__(loss, self.offset, name, (*loss.parameters, self.offset))

    def value(self, y: Floats, t: Floats) -> Floats:
        return self.loss.value(y, t + self.offset)

    def conjugate(self, y: Floats, a: Floats) -> Floats:
        return self.loss.conjugate(y, a) - a * self.offset

    def largest(self, y_bound: float, t_bound: float) -> float:
        return self.loss.largest(y_bound, t_bound + abs(self.offset))

    def steepest(self, y_bound: float, t_bound: float) -> float:
        return self.loss.steepest(y_bound, t_bound + abs(self.offset))

    def most_curved(self) -> float:
        return self.loss.most_curved()

    def changed_rows(self) -> Rows:
        """Return the rows at predictions that are moved by the last parameter."""
        return made_once(_moved, self.inner_rows())


def starting_from(loss: Loss, offset: float) -> Offset:
    """Return a loss whose predictions start from an offset; a margin is then counted from there.

    >>> starting_from(HuberLogistic(0.5), -2.0)
    Offset(HuberLogistic(2.5), -2.0)
    """
    if isinstance(loss, HuberLogistic):
        loss = HuberLogistic(loss.margin + abs(offset))
    return Offset(loss, offset)


def _moved(rows: Any) -> Rows:
    def moved(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        rows(y, w + parameters[-1], sigma, parameters, value, slope, curve)

    return moved
