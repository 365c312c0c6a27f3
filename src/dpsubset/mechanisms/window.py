"""A private window of the target: where most of it lies, within its public bounds (T44)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.mechanisms.target_bounds import TargetBounds

__all__ = ["LEAST_HALF", "TargetWindow"]

_CELLS = np.arange(-100, 101) / 100.0  # in units of the target's bound
_OUT = 0.25  # of the distance of the quartiles, to either side
LEAST_HALF = 0.1  # of the target's bound: half of the narrowest window


@dataclass(frozen=True)
class TargetWindow(TargetBounds):
    """Two ends within the bounds of a target, around its quartiles, as for private bounds.

    The target is on the scale [-1, 1] of its bounds. For the selection it is clipped to the window,
    so that a row counts by what is usual, not by the widest values that there may be.

    Examples
    --------
    >>> from dpsubset.privacy import as_randomness
    >>> y = np.linspace(-0.2, 0.6, 4000)
    >>> low, high = TargetWindow(1.0, "replace-one").draw(y, as_randomness(0))
    >>> round(low, 2), round(high, 2)
    (-0.1, 0.5)
    """

    name: ClassVar[str] = "private window of the target"
    grid: ClassVar[Floats] = _CELLS

    def _between(self, first: int, second: int) -> tuple[float, float]:
        lower, upper = float(_CELLS[min(first, second)]), float(_CELLS[max(first, second) + 1])
        middle, half = (lower + upper) / 2.0, (upper - lower) * (0.5 + _OUT)
        half = max(half, LEAST_HALF)
        return max(-1.0, middle - half), min(1.0, middle + half)
