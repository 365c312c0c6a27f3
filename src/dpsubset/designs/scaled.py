"""A design whose rows are scaled: what a weighted sum over rows sees (T40)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.designs.base import Columns, Design
from dpsubset.designs.cores import add_blocks
from dpsubset.sums import row_blocks

__all__ = ["ScaledDesign"]

_AT_ONCE = 1 << 22  # entries of a block of columns
_FEWEST = 64  # columns of a block that is worth the time to take it again and again


class ScaledDesign(Design):
    """The rows of another design, each times a number.

    `table` holds all columns of the other one, one a row, where who makes many of these has them.
    """

    def __init__(self, inner: Design, scale: Floats, table: Floats | None = None) -> None:
        self._inner = inner
        self._scale = scale
        self._table = table
        self.n_rows, self.n_columns = inner.n_rows, inner.n_columns
        self.bound = inner.bound * float(np.max(scale, initial=0.0))

    def take(self, columns: Columns) -> Floats:
        """Return the columns, scaled."""
        if self._table is None:
            return self._inner.take(columns) * self._scale[:, None]
        return (self._table[np.asarray(columns, dtype=np.intp)] * self._scale).T

    def correlate(self, vectors: Floats) -> Floats:
        """Return the products with vectors."""
        scale = self._scale if vectors.ndim == 1 else self._scale[:, None]
        return self._inner.correlate(vectors * scale)

    def square_norms(self) -> Floats:
        """Return the squared norm of every column."""
        if self._table is not None:
            weights = self._scale**2
            parts = (self._table[:, rows] ** 2 @ weights[rows] for rows in row_blocks(self.n_rows))
            return np.asarray(sum(parts, start=np.zeros(self.n_columns)))
        out = np.empty(self.n_columns)
        step = max(1, _AT_ONCE // max(self.n_rows, 1))
        for first in range(0, self.n_columns, step):
            block = self.take(np.arange(first, min(first + step, self.n_columns)))
            out[first : first + step] = sum(
                np.einsum("ij,ij->j", block[rows], block[rows]) for rows in row_blocks(self.n_rows)
            )
        return out

    def full_gram(self, between: Callable[[], None] | None = None) -> Floats:
        """Return all inner products, two blocks of columns at a time, or one where rows are many.

        BLAS is several times faster than passes, and half of the products are the others' mirror.
        """
        p = self.n_columns
        step = _AT_ONCE // max(self.n_rows, 1)
        if self._table is not None:
            return self._of_table(between)
        if step < _FEWEST:
            return self._by_passes(max(step, 8), between)
        out = np.empty((p, p))
        for first in range(0, p, step):
            mine = self.take(np.arange(first, min(first + step, p)))
            for then in range(first, p, step):
                if between is not None:
                    between()
                others = np.arange(then, min(then + step, p))
                block = _products(mine, mine if then == first else self.take(others))
                out[first : first + step, then : then + step] = block
                out[then : then + step, first : first + step] = block.T
        return out

    def _of_table(self, between: Callable[[], None] | None) -> Floats:
        out = np.zeros((self.n_columns, self.n_columns))

        def part(rows: slice) -> Floats:
            assert self._table is not None
            if between is not None:
                between()
            block = self._table[:, rows] * self._scale[rows]
            return np.asarray(block @ block.T)

        add_blocks(out, part, self.n_rows, float(self.n_columns**2))
        return out

    def _by_passes(self, step: int, between: Callable[[], None] | None) -> Floats:
        out = np.empty((self.n_columns, self.n_columns))
        weights = (self._scale**2)[:, None]
        for first in range(0, self.n_columns, step):
            if between is not None:
                between()
            some = np.arange(first, min(first + step, self.n_columns))
            out[:, some] = self._inner.correlate(self._inner.take(some) * weights)
        return np.asarray((out + out.T) / 2)


def _products(A: Floats, B: Floats) -> Floats:
    """Return A'B, on all cores."""
    out = np.zeros((A.shape[1], B.shape[1]))
    work = float(A.shape[1] * B.shape[1])
    add_blocks(out, lambda rows: A[rows].T @ B[rows], A.shape[0], work)
    return out
