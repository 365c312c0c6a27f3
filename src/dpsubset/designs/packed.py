"""Tables of two bits an entry, read block by block and never unpacked as a whole.

Four entries are one byte. A product with a vector looks up what a byte is worth at its place: a
table of 256 sums for every four rows, made once for 4096 rows, serves all columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.designs.base import Columns
from dpsubset.designs.streamed import Store, Streamed, Tile
from dpsubset.sums import BLOCK

__all__ = ["PackedDesign"]

_PLACES = 16  # bytes of a column that are looked up together: their sums fit the first-level cache
_TILE = 1024  # columns that are read out of the second-level cache


@compiled(nogil=True)
def _worth(u, values, table):  # type: ignore[no-untyped-def]
    """Fill `table[place, byte]` with the sum of the byte's four entries times those of u."""
    pairs = np.empty((2, 16))
    for place in range(table.shape[0]):
        for half in range(2):
            for code in range(16):
                total = 0.0
                for k in range(2):
                    i = 4 * place + 2 * half + k
                    if i < u.size:
                        total += values[(code >> (2 * k)) & 3] * u[i]
                pairs[half, code] = total
        for byte in range(256):
            table[place, byte] = pairs[0, byte & 15] + pairs[1, byte >> 4]


@compiled(nogil=True)
def _look_up(packed, table, out):  # type: ignore[no-untyped-def]
    """Add to `out` what the bytes of every column are worth; `packed` has a column a row."""
    places = packed.shape[1]
    whole = places - places % _PLACES
    for start in range(0, packed.shape[0], _TILE):
        stop = min(start + _TILE, packed.shape[0])
        part = np.zeros(stop - start)
        for first in range(0, whole, _PLACES):
            worth = table[first : first + _PLACES].ravel()
            for j in range(start, stop):
                bytes_ = packed[j, first : first + _PLACES]
                a = b = c = d = 0.0
                for q in range(0, _PLACES, 4):  # indices without a sign are not looked at twice
                    a += worth[np.uint64(q * 256) + np.uint64(bytes_[q])]
                    b += worth[np.uint64(q * 256 + 256) + np.uint64(bytes_[q + 1])]
                    c += worth[np.uint64(q * 256 + 512) + np.uint64(bytes_[q + 2])]
                    d += worth[np.uint64(q * 256 + 768) + np.uint64(bytes_[q + 3])]
                part[j - start] += (a + b) + (c + d)
        for j in range(start, stop):
            for q in range(whole, places):
                part[j - start] += table[q, packed[j, q]]
        out[start:stop] += part


@compiled(nogil=True)
def _products(packed, n, values, vectors, out):  # type: ignore[no-untyped-def]
    """Add U'X to `out` (k, p), in blocks of rows."""
    table = np.empty((BLOCK // 4, 256))
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        places = (stop - start + 3) // 4
        some = packed[:, start // 4 : start // 4 + places]
        for k in range(vectors.shape[1]):
            _worth(np.ascontiguousarray(vectors[start:stop, k]), values, table[:places])
            _look_up(some, table[:places], out[k])


@compiled(nogil=True)
def _counts(packed, n, out):  # type: ignore[no-untyped-def]
    """Fill `out` (p, 4) with how often a column has each of the four codes."""
    of_byte = np.zeros((256, 4), np.int64)
    for byte in range(256):
        for k in range(4):
            of_byte[byte, (byte >> (2 * k)) & 3] += 1
    seen = np.zeros(256, np.int64)
    for j in range(packed.shape[0]):
        seen[:] = 0
        for q in range(n // 4):
            seen[packed[j, q]] += 1
        for c in range(4):
            total = 0
            for byte in range(256):
                total += seen[byte] * of_byte[byte, c]
            out[j, c] = total
        for i in range(n - n % 4, n):
            out[j, (packed[j, i // 4] >> (2 * (i % 4))) & 3] += 1


@compiled(nogil=True)
def _unpack(packed, n, values, out):  # type: ignore[no-untyped-def]
    """Fill `out` (k, n) with entries."""
    for j in range(packed.shape[0]):
        for i in range(n):
            out[j, i] = values[(packed[j, i // 4] >> (2 * (i % 4))) & 3]


class PackedDesign(Streamed):
    """A table whose entries are one of four numbers, `values`, all within the bound."""

    def __init__(
        self, store: Store, bound: float, values: Floats, partner: Floats | None = None
    ) -> None:
        self._values = values
        super().__init__(store, bound, partner)

    def _add(self, tile: Tile, vectors: Floats, out: Floats) -> None:
        found = np.zeros(out.shape)  # one layout, one compiled function
        _products(tile.block, self.n_rows, self._values, vectors, found)
        out += found

    def rows_of(self, vectors: Floats, room: int = 0) -> list[NDArray[Any]]:
        """Return U'X row by row; whole numbers take two bytes each, or four, where they fit."""
        kind = self._kind(vectors)
        if kind is None:
            return super().rows_of(vectors, room)
        U = np.ascontiguousarray(vectors)
        rows = [np.zeros(self.n_columns + room, dtype=kind) for _ in range(U.shape[1])]

        def work(part: Tile) -> None:
            found = np.zeros((U.shape[1], len(part.block)))
            _products(part.block, self.n_rows, self._values, U, found)
            for row, products in zip(rows, found, strict=True):
                row[part.columns] = products

        self._each(work)
        return rows

    def _kind(self, vectors: Floats) -> type[np.signedinteger[Any]] | None:
        """Return whole numbers that hold any sum of products with these vectors exactly."""
        entries = np.append(self._values, self.bound)  # a constant may be put behind
        if any((part != np.rint(part)).any() for part in (vectors, entries)):
            return None
        most = np.abs(entries).max() * np.abs(vectors).sum(axis=0).max(initial=0.0)
        return next((kind for kind in (np.int16, np.int32) if most <= np.iinfo(kind).max), None)

    def _add_squares(self, tile: Tile, out: Floats) -> None:
        counts = np.empty((len(tile.block), 4), dtype=np.int64)
        _counts(tile.block, self.n_rows, counts)
        out += counts @ self._values**2

    def _nothing(self) -> NDArray[Any]:
        return np.empty((0, (self.n_rows + 3) // 4), dtype=np.uint8)

    def _part(self, tile: Tile, first: int, last: int) -> NDArray[Any]:
        start = tile.columns.start
        return tile.block[first - start : last - start]

    def take(self, columns: Columns) -> Floats:
        """Return columns, unpacked."""
        index = np.asarray(columns, dtype=np.intp)
        out = np.empty((index.size, self.n_rows))
        _unpack(self._columns(index), self.n_rows, self._values, out)
        return out.T
