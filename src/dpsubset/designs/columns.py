"""Columns as contiguous vectors, kept up to a limit of memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.designs.base import Design

__all__ = ["ColumnCache"]

_MEMORY = 256 << 20
_AT_ONCE = 1 << 22  # entries that are fetched together


class ColumnCache:
    """Columns of a table, one a row of a store that fills as they are asked for.

    A full store starts again from nothing: which columns matter changes slowly.
    """

    def __init__(self, design: Design, memory: int = _MEMORY) -> None:
        self._design = design
        room = max(64, memory // (8 * max(design.n_rows, 1)))
        self._store = np.empty((min(room, design.n_columns), design.n_rows))
        self._place = np.full(design.n_columns, -1, dtype=np.intp)
        self._used = 0
        self._lent = False

    def rows(self, index: NDArray[np.intp]) -> Floats:
        """Return X_J', one row for each column of J."""
        if index.size > self._store.shape[0]:
            return np.ascontiguousarray(self._design.take(index).T)
        return self._store[self.places(index)]

    def later(self, index: NDArray[np.intp]) -> Callable[[], Floats]:
        """Return a function, for any thread, that returns the same; what it fetches is not kept."""
        if not self._design.threaded:
            rows = self.rows(index)
            return lambda: rows
        places, store = self._place[index], self._store  # of which no used row changes
        held = places >= 0
        self._lent = self._lent or bool(held.any())

        def read() -> Floats:
            out = np.empty((index.size, self._design.n_rows))
            out[held] = store[places[held]]
            if not held.all():
                out[~held] = self._design.take(index[~held]).T
            return out

        return read

    @property
    def room(self) -> int:
        """How many columns can be held at once."""
        return self._store.shape[0]

    @property
    def store(self) -> Floats:
        """The columns at their places."""
        return self._store

    def whole(self) -> Floats | None:
        """Return X', if there is room for all of it; the places of its columns do not change."""
        p = self._design.n_columns
        if self._store.shape[0] < p:
            return None
        if self._used < p or not np.array_equal(self._place, np.arange(p)):
            if self._lent:  # another thread may still read it
                self._store, self._lent = np.empty_like(self._store), False
            step = max(1, _AT_ONCE // max(self._design.n_rows, 1))
            for first in range(0, p, step):
                some = np.arange(first, min(first + step, p))
                self._store[some] = self._design.take(some).T
            self._place[:] = np.arange(p)
            self._used = p
        return self._store

    def places(self, index: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return where in the store these columns are, after fetching those that are missing.

        The places are good until the next call.
        """
        missing = np.unique(index[self._place[index] < 0])
        if self._used + missing.size > self._store.shape[0]:
            self._place[:] = -1
            self._used = 0
            if self._lent:  # another thread may still read it
                self._store, self._lent = np.empty_like(self._store), False
            missing = np.unique(index)
        if missing.size:
            end = self._used + missing.size
            self._store[self._used : end] = self._design.take(missing).T
            self._place[missing] = np.arange(self._used, end)
            self._used = end
        return self._place[index]
