"""Tables of numbers on disk, clipped and mapped tile by tile like a dense table in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.designs.base import Columns
from dpsubset.designs.dense import NOT_FINITE, project, scan
from dpsubset.designs.streamed import Store, Streamed, Tile
from dpsubset.designs.tasks import Map, floats, mapped
from dpsubset.errors import InputError
from dpsubset.sums import row_blocks

__all__ = ["StoredDesign"]


class StoredDesign(Streamed):
    """A table of any numbers; column j is clipped to its bounds and mapped onto [-bound, bound].

    Its sums are made in the same order as those of `DenseDesign`.
    """

    def __init__(
        self,
        store: Store,
        bound: float,
        middle: Floats,
        scale: Floats,
        partner: Floats | None = None,
    ) -> None:
        self._middle, self._scale = middle, scale
        self._broken = False
        super().__init__(store, bound, partner)
        if self._broken:
            raise InputError(NOT_FINITE)

    def _how(self, columns: slice) -> Map:
        return self._middle[columns], self._scale[columns], self.bound

    def _add(self, tile: Tile, vectors: Floats, out: Floats) -> None:
        block = floats(tile.block)
        for rows in row_blocks(len(block)):
            out += project(block[rows], *self._how(tile.columns), False, vectors[rows])

    def _add_squares(self, tile: Tile, out: Floats) -> None:
        block = floats(tile.block)
        for rows in row_blocks(len(block)):
            squares = np.zeros(out.size)
            _, broken = scan(block[rows], *self._how(tile.columns), squares)
            out += squares
            self._broken |= bool(broken)

    def _nothing(self) -> NDArray[Any]:
        return np.empty((self.n_rows, 0))

    def _part(self, tile: Tile, first: int, last: int) -> NDArray[Any]:
        start = tile.columns.start
        return tile.block[:, first - start : last - start]

    def take(self, columns: Columns) -> Floats:
        """Return columns, clipped and mapped."""
        index = np.asarray(columns, dtype=np.intp)
        how = self._middle[index], self._scale[index], self.bound
        return mapped(self._columns(index), how, np.arange(index.size))
