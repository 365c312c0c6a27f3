"""What a design answers: a matrix X of n rows and p bounded columns, seen through products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.sums import column_sums

__all__ = ["Columns", "Design"]

Columns = Sequence[int] | NDArray[np.intp]


class Design(ABC):
    """A matrix whose entries lie in [-bound, bound], known only through products.

    Every product is accumulated in float64, in blocks of rows (T19), whatever the storage.
    """

    n_rows: int
    n_columns: int
    bound: float
    threaded = False  # whether several threads may take columns at once

    @abstractmethod
    def take(self, columns: Columns) -> Floats:
        """Return the columns as an (n, k) float64 array."""

    @abstractmethod
    def correlate(self, vectors: Floats) -> Floats:
        """Return X'u for one vector (n,) or X'U for several (n, k)."""

    @abstractmethod
    def square_norms(self) -> Floats:
        """Return the squared Euclidean norm of every column."""

    def gram(self, columns: Columns) -> Floats:
        """Return X'X_J, a (p, k) array."""
        return self.correlate(self.take(columns))

    def gram_rows(self, columns: Columns) -> list[NDArray[Any]]:
        """Return X_J'X row by row, each in a type of numbers that loses nothing."""
        return self.rows_of(self.take(columns))

    def rows_of(self, vectors: Floats, room: int = 0) -> list[NDArray[Any]]:
        """Return U'X row by row, as `gram_rows` does, with room for some numbers behind."""
        found = [np.ascontiguousarray(row) for row in self.correlate(vectors).T]
        return [np.concatenate([row, np.zeros(room)]) for row in found] if room else found

    def full_gram(self, between: Callable[[], None] | None = None) -> Floats:
        """Return X'X; only asked for when p is small.

        `between` is called between parts of the work, where there are any: it may raise.
        """
        return self.gram(np.arange(self.n_columns))

    def with_ones(self) -> Design:
        """Return this design with one more last column, constantly equal to the bound.

        >>> import numpy as np
        >>> from dpsubset.designs import as_design
        >>> as_design(np.zeros((2, 3)), bound=1.0).with_ones().take([3]).ravel()
        array([1., 1.])
        """
        return _WithOnes(self)


class _WithOnes(Design):
    """A design and a constant column (an intercept that is always included)."""

    def __init__(self, inner: Design) -> None:
        self._inner = inner
        self.n_rows = inner.n_rows
        self.n_columns = inner.n_columns + 1
        self.bound, self.threaded = inner.bound, inner.threaded
        self._squares: Floats | None = None

    def take(self, columns: Columns) -> Floats:
        index = np.asarray(columns, dtype=np.intp)
        inside = index < self._inner.n_columns
        if inside.all():
            return self._inner.take(index)
        out = np.full((self.n_rows, index.size), self.bound)
        out[:, inside] = self._inner.take(index[inside])
        return out

    def correlate(self, vectors: Floats) -> Floats:
        last = self.bound * column_sums(vectors)[None]
        return np.concatenate([self._inner.correlate(vectors), last])

    def rows_of(self, vectors: Floats, room: int = 0) -> list[NDArray[Any]]:
        rows = self._inner.rows_of(vectors, room + 1)
        for row, total in zip(rows, column_sums(vectors), strict=True):
            row[self._inner.n_columns] = self.bound * total
        return rows

    def square_norms(self) -> Floats:
        if self._squares is None:
            self._squares = np.append(self._inner.square_norms(), self.n_rows * self.bound**2)
        return self._squares

    def full_gram(self, between: Callable[[], None] | None = None) -> Floats:
        p = self._inner.n_columns
        out = np.empty((p + 1, p + 1))
        out[:p, :p] = self._inner.full_gram(between)
        out[p, :p] = out[:p, p] = self.bound * self._inner.correlate(np.ones(self.n_rows))
        out[p, p] = self.n_rows * self.bound**2
        return out
