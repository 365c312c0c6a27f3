"""Weights of cuts that are made anew when they are asked for: wide tables have no room for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats

__all__ = ["SLICE", "WIDE", "Recipe", "slices"]

WIDE = 250_000  # columns from which on weights are not kept
SLICE = 1 << 14  # columns that are looked at together


def slices(p: int) -> list[slice]:
    """Part so many columns; the same columns are always made together, with the same rounding.

    >>> [part.start for part in slices(40_000)]
    [0, 16384, 32768]
    """
    return [slice(first, min(first + SLICE, p)) for first in range(0, p, SLICE)]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How weights are made: `of` takes a slice and some of its columns, and returns theirs."""

    of: Callable[[slice, NDArray[np.intp]], Floats]
    p: int

    def at(self, columns: NDArray[np.intp]) -> Floats:
        """Return the weights of columns in rising order."""
        out = np.empty(columns.size)
        if not columns.size:
            return out
        parts = slices(self.p)[int(columns[0]) // SLICE : int(columns[-1]) // SLICE + 1]
        ends = np.searchsorted(columns, [part.stop for part in parts])
        begin = 0
        for part, end in zip(parts, ends.tolist(), strict=True):
            if begin < end:
                out[begin:end] = self.of(part, columns[begin:end])
            begin = end
        return out
