"""A design whose rows are scaled: what a weighted sum over rows sees (T40)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.designs.base import Columns, Design
from dpsubset.sums import row_blocks

__all__ = ["ScaledDesign"]

_AT_ONCE = 1 << 22  # entries of a block of columns


class ScaledDesign(Design):
    """The rows of another design, each times a number."""

    def __init__(self, inner: Design, scale: Floats) -> None:
        self._inner = inner
        self._scale = scale
        self.n_rows, self.n_columns = inner.n_rows, inner.n_columns
        self.bound = inner.bound * float(np.max(scale, initial=0.0))

    def take(self, columns: Columns) -> Floats:
        """Return the columns, scaled."""
        return self._inner.take(columns) * self._scale[:, None]

    def correlate(self, vectors: Floats) -> Floats:
        """Return the products with vectors."""
        scale = self._scale if vectors.ndim == 1 else self._scale[:, None]
        return self._inner.correlate(vectors * scale)

    def square_norms(self) -> Floats:
        """Return the squared norm of every column."""
        out = np.empty(self.n_columns)
        step = max(1, _AT_ONCE // max(self.n_rows, 1))
        for first in range(0, self.n_columns, step):
            block = self.take(np.arange(first, min(first + step, self.n_columns)))
            out[first : first + step] = sum(
                np.einsum("ij,ij->j", block[rows], block[rows]) for rows in row_blocks(self.n_rows)
            )
        return out

    def full_gram(self, between: Callable[[], None] | None = None) -> Floats:
        """Return all inner products, some columns at a time."""
        out = np.empty((self.n_columns, self.n_columns))
        weights = (self._scale**2)[:, None]
        step = max(8, _AT_ONCE // max(self.n_rows, 1))
        for first in range(0, self.n_columns, step):
            if between is not None:
                between()
            some = np.arange(first, min(first + step, self.n_columns))
            out[:, some] = self._inner.correlate(self._inner.take(some) * weights)
        return np.asarray((out + out.T) / 2)
