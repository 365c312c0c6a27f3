"""A loss for labels that is made of another: what such losses share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.losses.base import Loss, compiled_rows

__all__ = ["Changed", "Rows", "made_once"]

Rows = Callable[..., None]


class Changed(Loss):
    """A loss of labels, `loss`, changed by something public, `by`, in a way of its own."""

    classification = True

    def __init__(self, loss: Loss, by: Any, name: str, parameters: tuple[float, ...]) -> None:
        self.loss, self.by = loss, by
        self.name = name
        self.smooth, self.bends = loss.smooth, loss.bends
        self.parameters = parameters

    def spread(self, y_bound: float, t_bound: float) -> float:
        """Return the difference at the two ends: these losses do not increase with y t."""
        ends = np.array([-t_bound, t_bound])
        return float(max(np.ptp(self.value(np.full(2, label), ends)) for label in (-1.0, 1.0)))

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        raise NotImplementedError  # they are those of the loss, see `changed_rows`

    @abstractmethod
    def changed_rows(self) -> Rows:
        """Return the row function of the loss, changed."""

    def inner_rows(self) -> Rows:
        """Return the row function of the loss that is changed."""
        inner = self.loss
        return inner.changed_rows() if isinstance(inner, Changed) else type(inner).rows

    def compiled(self) -> tuple[Any, Floats, bool]:
        parameters = np.array(self.parameters, dtype=np.float64)
        return compiled_rows(self.changed_rows()), parameters, self.smooth

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.loss!r}, {self.by!r})"

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Changed) and type(self) is type(other)
        return same and (self.loss, self.by) == (other.loss, other.by)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self.loss, self.by))


_MADE: dict[tuple[Callable[[Any], Rows], Rows], Rows] = {}


def made_once(make: Callable[[Any], Rows], rows: Rows) -> Rows:
    """Return what a maker makes of a row function, compiled; the same for the same one."""
    key = make, rows
    if key not in _MADE:
        _MADE[key] = make(compiled(kept=False)(rows))
    return _MADE[key]
