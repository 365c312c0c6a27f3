"""Dask arrays as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.data.array_store import check_numbers
from dpsubset.designs.base import Design
from dpsubset.designs.dask import DaskDesign
from dpsubset.designs.streamed import Store, Tile
from dpsubset.errors import InputError

__all__ = ["DaskTable", "is_dask"]


def is_dask(X: Any) -> bool:
    """Whether something is a Dask array; Dask is not imported for that."""
    return type(X).__module__.partition(".")[0] == "dask" and hasattr(X, "to_delayed")


class DaskTable(Store):
    """A two-dimensional Dask array, whose chunks are known."""

    def __init__(self, array: Any) -> None:
        if getattr(array, "ndim", 0) != 2 or any(math.isnan(side) for side in array.shape):
            raise InputError(
                "a Dask table is an array of two dimensions whose chunk sizes are known: call "
                ".to_dask_array(lengths=True), or compute_chunk_sizes(), first"
            )
        check_numbers(np.dtype(array.dtype), "the Dask array")
        self._array = array
        self.n_rows, self.n_columns = (int(side) for side in array.shape)

    def tiles(self, most: int) -> Iterator[Tile]:
        """Compute chunk by chunk; designs leave that to the workers."""
        top = 0
        for height in self._array.chunks[0]:
            first = 0
            for width in self._array.chunks[1]:
                rows, columns = slice(top, top + height), slice(first, first + width)
                yield Tile(rows, columns, np.asarray(self._array[rows, columns].compute()))
                first += width
            top += height

    def columns(self, index: NDArray[np.intp]) -> NDArray[Any]:
        """Compute some columns."""
        return np.asarray(self._array[:, index].compute())

    def design(self, bound: float, middle: Floats, scale: Floats, partner: Floats | None) -> Design:
        """Return the design whose products are tasks."""
        return DaskDesign(self._array, bound, middle, scale, partner)

    def check(self) -> None:
        """Do nothing: Dask knows no file."""
