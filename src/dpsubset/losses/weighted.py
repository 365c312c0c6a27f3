"""A loss for labels in which the rows of one class count for more than those of the other (T36)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.errors import InputError
from dpsubset.losses.base import Loss
from dpsubset.losses.brier import Brier
from dpsubset.losses.changed import Changed, Rows, made_once
from dpsubset.losses.offset import OFFSETTABLE, Offset, starting_from

__all__ = ["Weighted", "weights_by_class"]

_LEAST, _MOST = 1e-3, 1e3


class Weighted(Changed):
    """A loss of labels, weighted: w_y l(y, t) with public weights of the two classes.

    The weights must be public: never balanced by the table. They favour one of the classes, so
    these must be named.

    Parameters
    ----------
    loss : Loss
        A loss of labels.
    weights : pair of float
        Public weights of the two classes.

    Examples
    --------
    >>> from dpsubset.losses.logistic import Logistic
    >>> loss = Weighted(Logistic(), (1.0, 5.0))
    >>> loss, loss.spread(1.0, 2.0)
    (Weighted(Logistic(), (1.0, 5.0)), 10.0)
    """

    def __init__(self, loss: Loss, weights: Sequence[float]) -> None:
        if type(loss) not in (*OFFSETTABLE, Brier, Offset):
            raise InputError(
                "class weights are for the losses brier, hinge, logistic, huber_hinge and "
                "huber_logistic"
            )
        self.weights = checked_weights(weights)
        name = f"weighted {loss.name}"
        super().__init__(loss, self.weights, name, (*self.weights, *loss.parameters))

    def value(self, y: Floats, t: Floats) -> Floats:
        return self._weights(y) * self.loss.value(y, t)

    def conjugate(self, y: Floats, a: Floats) -> Floats:
        w = self._weights(y)
        return np.asarray(w * self.loss.conjugate(y, a / w))

    def largest(self, y_bound: float, t_bound: float) -> float:
        """Return the larger of two values: these losses are largest where y t is least."""
        y = np.array([-1.0, 1.0])
        return float(self.value(y, -y * t_bound).max())

    def spread(self, y_bound: float, t_bound: float) -> float:
        """Return the largest difference at the two ends, of one class."""
        if not isinstance(self.loss, Offset):
            return max(self.weights) * self.loss.spread(y_bound, t_bound)
        return super().spread(y_bound, t_bound)

    def steepest(self, y_bound: float, t_bound: float) -> float:
        return max(self.weights) * self.loss.steepest(y_bound, t_bound)

    def most_curved(self) -> float:
        return max(self.weights) * self.loss.most_curved()

    def with_offset(self, offset: float) -> Weighted:
        """Return the same where predictions start from an offset."""
        return Weighted(starting_from(self.loss, offset), self.weights)

    def changed_rows(self) -> Rows:
        """Return the rows, class by class; the first two parameters are the weights."""
        return made_once(_weighted, self.inner_rows())

    def _weights(self, y: Floats) -> Floats:
        first, second = self.weights
        return np.where(y > 0.0, second, first)


def checked_weights(weights: Any) -> tuple[float, float]:
    """Return two weights, of the first and of the second class; positive and not too far apart."""
    if isinstance(weights, str):
        raise InputError(
            f"class_weights={weights!r}: weights must be public numbers, such as (1, 5). Those "
            "that balance the classes of the table are computed from it and tell their shares"
        )
    given = list(weights) if isinstance(weights, (Sequence, np.ndarray)) else []
    numbers = [float(v) for v in given if isinstance(v, Real) and not isinstance(v, bool)]
    if len(given) != 2 or len(numbers) != 2 or not all(_LEAST <= v <= _MOST for v in numbers):
        raise InputError(
            f"class weights must be two numbers between {_LEAST:g} and {_MOST:g}, one for each "
            "class, such as (1, 5)"
        )
    return numbers[0], numbers[1]


def weights_by_class(given: Any, classes: Sequence[Any] | None) -> tuple[float, float]:
    """Return the weights in the order of the classes: of a pair, or a mapping by class.

    >>> weights_by_class({"yes": 5, "no": 1}, ("no", "yes"))
    (1.0, 5.0)
    """
    if isinstance(given, str):
        return checked_weights(given)
    if classes is None:
        raise InputError(
            "class weights favour one of the classes, so which is which must be public: give "
            "classes=(first, second), or --classes first,second"
        )
    if not isinstance(given, Mapping):
        return checked_weights(given)
    by_text = {str(name): weight for name, weight in given.items()}
    if len(by_text) != len(given) or set(by_text) != {str(name) for name in classes}:
        shown = " and ".join(repr(str(name)) for name in classes)
        raise InputError(f"class weights must be given for the two classes, {shown}, and no other")
    return checked_weights([by_text[str(name)] for name in classes])


def _weighted(rows: Any) -> Rows:
    """Return a row function whose rows have weights.

    min_u w l(u) + sigma/2 (t - u)^2 is w times the loss's own envelope at sigma / w.
    """

    def weighted(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        own = parameters[2:]
        for label in range(2):
            weight = parameters[label]
            places = np.flatnonzero((y > 0.0) == (label == 1))
            parts = np.empty((3, places.size))
            rows(y[places], w[places], sigma / weight, own, parts[0], parts[1], parts[2])
            for k in range(places.size):
                i = places[k]
                value[i] = weight * parts[0, k]
                slope[i] = weight * parts[1, k]
                curve[i] = weight * parts[2, k]

    return weighted
