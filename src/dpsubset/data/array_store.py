"""Arrays of numbers on disk: numpy's memory maps and .npy files, row after row or column by column.

Tiles are read, not mapped: what the operating system keeps of a file is not this process's memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.data.watched import Watched
from dpsubset.designs.base import Design
from dpsubset.designs.stored import StoredDesign
from dpsubset.designs.streamed import Store, Tile
from dpsubset.errors import InputError, without_context
from dpsubset.sums import BLOCK

__all__ = ["ArrayFile", "NumberStore", "tile_shape"]


class NumberStore(Store):
    """A store of plain numbers."""

    def design(self, bound: float, middle: Floats, scale: Floats, partner: Floats | None) -> Design:
        """Return the design of the numbers, clipped and mapped."""
        return StoredDesign(self, bound, middle, scale, partner)


def check_numbers(dtype: np.dtype[Any], path: object) -> None:
    """Refuse what holds no numbers."""
    if dtype.kind not in "fiub":
        raise InputError(f"{path} holds {dtype.name}; a table on disk must hold numbers")


def tile_shape(n: int, p: int, item: int, most: int) -> tuple[int, int]:
    """Return how many rows, a multiple of BLOCK or all, and columns make about so many bytes.

    >>> tile_shape(100_000, 1000, 8, 1 << 26), tile_shape(5000, 10**6, 8, 1 << 26)
    ((8192, 1000), (4096, 2048))
    """
    rows = max(1, most // max(1, p * item) // BLOCK) * BLOCK
    return min(rows, max(n, 1)), max(1, min(p, most // (min(rows, max(n, 1)) * item)))


class ArrayFile(NumberStore):
    """A two-dimensional array in a file, from a byte on."""

    def __init__(
        self, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], order: str, offset: int
    ) -> None:
        if len(shape) != 2 or shape[1] == 0:
            raise InputError(f"{path}: a table has two dimensions and at least one column")
        check_numbers(dtype, path)
        self._path, self._dtype, self._order, self._offset = path, dtype, order, offset
        self.n_rows, self.n_columns = shape
        self._file = Watched(path)
        expected = offset + dtype.itemsize * self.n_rows * self.n_columns
        if self._file.size < expected:
            raise InputError(
                f"{path} has {self._file.size} bytes; an array of {self.n_rows} rows and "
                f"{self.n_columns} columns needs {expected}: the file is truncated"
            )

    @classmethod
    @without_context
    def of_npy(cls, path: Path) -> ArrayFile:
        """Open a .npy file."""
        try:
            with path.open("rb") as file:
                version = np.lib.format.read_magic(file)
                read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
                shape, fortran, dtype = read(file)
                offset = file.tell()
        except OSError as error:
            raise InputError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from None
        except (ValueError, AttributeError, SyntaxError):
            raise InputError(f"{path} is not a .npy file that numpy can map") from None
        return cls(path, dtype, shape, "F" if fortran else "C", offset)

    @classmethod
    def of_map(cls, array: np.memmap[Any, Any]) -> ArrayFile | None:
        """Return the file behind a memory map; None for a part of one, or one to be written."""
        whole = array.size and not isinstance(array.base, np.ndarray) and array.ndim == 2
        name, order = array.filename, "C" if array.flags.c_contiguous else "F"
        if not whole or name is None or array.mode != "r":
            return None
        return cls(Path(os.fsdecode(name)), array.dtype, array.shape, order, array.offset)

    def tiles(self, most: int) -> Iterator[Tile]:
        """Read blocks of rows, or of columns if those lie together."""
        n, p, item = self.n_rows, self.n_columns, self._dtype.itemsize
        if self._order == "F":
            step = max(1, most // max(1, n * item))
            for first in range(0, p, step):
                last = min(first + step, p)
                block = self._read(first * n, (last - first) * n).reshape(last - first, n).T
                yield Tile(slice(0, n), slice(first, last), block)
            return
        height, width = tile_shape(n, p, item, most)
        for top in range(0, n, height):
            rows = slice(top, min(top + height, n))
            if width == p:
                block = self._read(top * p, (rows.stop - top) * p).reshape(-1, p)
                yield Tile(rows, slice(0, p), block)
                continue
            for first in range(0, p, width):
                columns = slice(first, min(first + width, p))
                yield Tile(rows, columns, self._rectangle(rows, columns))

    def _read(self, start: int, count: int) -> NDArray[Any]:
        item = self._dtype.itemsize
        raw = self._file.array(self._offset + start * item, count * item)
        return raw.view(self._dtype).astype(self._dtype.newbyteorder("="), copy=False)

    def _rectangle(self, rows: slice, columns: slice) -> NDArray[Any]:
        width = columns.stop - columns.start
        out = np.empty((rows.stop - rows.start, width), dtype=self._dtype.newbyteorder("="))
        for i in range(rows.start, rows.stop):
            out[i - rows.start] = self._read(i * self.n_columns + columns.start, width)
        return out

    def columns(self, index: NDArray[np.intp]) -> NDArray[Any]:
        """Read some columns: of rows that lie together, a few bytes of each."""
        if self._order == "F":
            n = self.n_rows
            return np.column_stack([self._read(j * n, n) for j in index.tolist()])
        kind: Any = {"dtype": self._dtype, "mode": "r", "offset": self._offset, "order": "C"}
        mapped = np.memmap(self._path, shape=(self.n_rows, self.n_columns), **kind)
        return np.asarray(mapped[:, index])

    def check(self) -> None:
        """Refuse a file that has changed."""
        self._file.check()
