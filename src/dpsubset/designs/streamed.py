"""Tables that stay on disk: every product is a pass over the file, and few passes are made.

A store reads tiles: some rows and some columns, one after the other, each within a share of the
memory that is allowed. While a tile is multiplied, on all cores, the next one is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.designs.base import Design
from dpsubset.designs.cores import in_parallel, shares
from dpsubset.designs.dense import NOT_FINITE
from dpsubset.errors import InputError

__all__ = ["DEFAULT_MEMORY", "Store", "Streamed", "Tile"]

DEFAULT_MEMORY = 1 << 30
_SHARES = 16  # parts of the memory: two tiles are held, and what is made of them
_LARGEST = 64 << 20  # bytes of a tile: larger ones are read no faster


class Tile(NamedTuple):
    """A part of a table, as it is stored."""

    rows: slice
    columns: slice
    block: NDArray[Any]


class Store(ABC):
    """A table on disk. Whatever is wrong with it is an InputError, the same for all data."""

    n_rows: int
    n_columns: int
    memory: int = DEFAULT_MEMORY  # bytes that may be held at once
    names: Sequence[str] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n_rows, self.n_columns

    @abstractmethod
    def tiles(self, most: int) -> Iterator[Tile]:
        """Read the whole table once, in tiles of about so many bytes.

        Rows of a tile begin at a multiple of `sums.BLOCK`.
        """

    @abstractmethod
    def columns(self, index: NDArray[np.intp]) -> NDArray[Any]:
        """Read some columns, as they are stored."""

    def numbers(self, index: NDArray[np.intp], middle: Floats) -> Floats:
        """Return some columns in their own units; what is missing is in the middle of its bounds.

        Other entries that are not finite are refused.
        """
        found = np.asarray(self.columns(index), dtype=np.float64)
        self.check()
        if not np.isfinite(found).all():
            raise InputError(NOT_FINITE)
        return found

    @abstractmethod
    def design(self, bound: float, middle: Floats, scale: Floats, partner: Floats | None) -> Design:
        """Return the design whose column j is clipped and mapped by its middle and scale."""

    @abstractmethod
    def check(self) -> None:
        """Refuse a file that is not what it was when it was opened."""


class Streamed(Design):
    """A design of a store; `passes` counts how often all of it was read.

    A first pass looks for what is wrong before anything is spent. It sums up squares, and products
    with a partner: a vector that will be asked for, or a multiple of it.
    """

    def __init__(self, store: Store, bound: float, partner: Floats | None = None) -> None:
        self._store = store
        self.n_rows, self.n_columns, self.bound = store.n_rows, store.n_columns, bound
        self.passes = 0
        self.fetched = 0  # columns read by themselves
        self._squares = np.zeros(self.n_columns)
        self._partner = np.zeros(self.n_rows) if partner is None else partner
        self._products = self._pass(self._partner[:, None], first=True)[:, 0]

    @abstractmethod
    def _add(self, tile: Tile, vectors: Floats, out: Floats) -> None:
        """Add the products of a tile with its rows' part of the vectors to `out` (k, columns)."""

    @abstractmethod
    def _add_squares(self, tile: Tile, out: Floats) -> None:
        """Add the squares of a tile's entries to `out`, one number a column."""

    def _columns(self, index: NDArray[np.intp]) -> NDArray[Any]:
        self.fetched += index.size
        if not index.size:
            return self._nothing()
        found = self._store.columns(index)
        self._store.check()
        return found

    def _tiles(self) -> Iterator[Tile]:
        """Read the table once; the next tile while the last one is worked on."""
        self.passes += 1
        tiles = self._store.tiles(max(1, min(self._store.memory // _SHARES, _LARGEST)))
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(next, tiles, None)
            while (tile := coming.result()) is not None:
                coming = reader.submit(next, tiles, None)
                yield tile
        self._store.check()

    def correlate(self, vectors: Floats) -> Floats:
        """Return X'u, or X'U, in one pass."""
        if vectors.ndim == 1:
            times = self._multiple(vectors)
            if times is not None:
                return times * self._products
            return self._pass(vectors[:, None])[:, 0]
        if vectors.shape[1] == 1:
            return self.correlate(vectors[:, 0])[:, None]
        return self._pass(vectors)

    def _multiple(self, vector: Floats) -> float | None:
        """Return what the partner is multiplied by to give a vector; None if nothing does."""
        at = int(np.argmax(np.abs(self._partner))) if self._partner.size else 0
        if not self._partner.size or self._partner[at] == 0.0:
            return None
        times = float(vector[at] / self._partner[at])
        return times if np.array_equal(times * self._partner, vector) else None

    def _pass(self, vectors: Floats, *, first: bool = False) -> Floats:
        vectors = np.ascontiguousarray(vectors)
        out = np.zeros((vectors.shape[1], self.n_columns))

        def work(part: Tile) -> None:
            self._add(part, vectors[part.rows], out[:, part.columns])
            if first:
                self._add_squares(part, self._squares[part.columns])

        self._each(work)
        return out.T

    def _each(self, work: Callable[[Tile], None]) -> None:
        """Do some work on every tile, parted among the cores, in one pass."""
        for tile in self._tiles():
            in_parallel(work, self._parts(tile))

    def square_norms(self) -> Floats:
        """Return the squared norm of every column."""
        return self._squares

    def _parts(self, tile: Tile) -> list[Tile]:
        """Part the columns of a tile among the cores; no product depends on how."""
        return [
            Tile(tile.rows, slice(a, b), self._part(tile, a, b))
            for a, b in shares(tile.columns.start, tile.columns.stop)
        ]

    @abstractmethod
    def _nothing(self) -> NDArray[Any]:
        """Return no columns, as they would be stored."""

    @abstractmethod
    def _part(self, tile: Tile, first: int, last: int) -> NDArray[Any]:
        """Return the block of a tile's columns from first to last."""
