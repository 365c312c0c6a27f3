"""scipy.sparse tables. Zero stays zero, so their bounds are symmetric."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.designs.base import Columns, Design
from dpsubset.designs.dense import NOT_FINITE
from dpsubset.errors import InputError
from dpsubset.sums import BLOCK, dot

__all__ = ["SparseDesign"]


@compiled()
def _products(starts, indices, data, vectors, out):  # type: ignore[no-untyped-def]
    """Fill `out` with X'U, column by column."""
    for j in range(starts.size - 1):
        for k in range(vectors.shape[1]):
            total = 0.0
            for first in range(starts[j], starts[j + 1], BLOCK):
                part = 0.0
                for q in range(first, min(first + BLOCK, starts[j + 1])):
                    part += data[q] * vectors[indices[q], k]
                total += part
            out[j, k] = total


@compiled()
def _squares(starts, data, out):  # type: ignore[no-untyped-def]
    for j in range(out.size):
        column = data[starts[j] : starts[j + 1]]
        out[j] = dot(column, column)


@compiled()
def _pairs(starts, indices, data, out):  # type: ignore[no-untyped-def]
    """Add the upper half of X'X to `out`, for X in row order, one row's pairs after the other.

    The products of a column with those after it are summed apart until it has met `BLOCK` entries.
    """
    part = np.zeros(out.shape)
    met = np.zeros(out.shape[0], np.int64)
    for i in range(starts.size - 1):
        for q in range(starts[i], starts[i + 1]):
            j, x = indices[q], data[q]
            sums = part[j]
            for r in range(q, starts[i + 1]):
                sums[indices[r]] += x * data[r]
            met[j] += 1
            if met[j] == BLOCK:
                out[j] += sums
                sums[:] = 0.0
                met[j] = 0
    out += part


class SparseDesign(Design):
    """A sparse table in column order, its entries clipped to [-bound, bound] after scaling."""

    def __init__(self, matrix: sp.spmatrix | sp.sparray, bound: float, scale: Floats) -> None:
        table = sp.csc_array(matrix, dtype=np.float64)
        if not table.has_canonical_format:
            table = table.copy()  # the arrays may be the user's own
            table.sum_duplicates()
        if not np.isfinite(table.data).all():
            raise InputError(NOT_FINITE)
        factors = np.repeat(scale, np.diff(table.indptr))
        if not (np.all(factors == 1.0) and np.all(np.abs(table.data) <= bound)):
            with np.errstate(over="ignore"):  # huge entries are clipped
                data = np.clip(table.data * factors, -bound, bound)
            table = sp.csc_array((data, table.indices, table.indptr), shape=table.shape)
        self._table = table
        self.n_rows, self.n_columns = table.shape
        self.bound = bound

    def take(self, columns: Columns) -> Floats:
        index = np.asarray(columns, dtype=np.intp)
        return np.asarray(self._table[:, index].toarray(), dtype=np.float64)

    def correlate(self, vectors: Floats) -> Floats:
        table = self._table
        given = vectors[:, None] if vectors.ndim == 1 else vectors
        out = np.empty((self.n_columns, given.shape[1]))
        _products(table.indptr, table.indices, table.data, np.ascontiguousarray(given), out)
        return out[:, 0] if vectors.ndim == 1 else out

    def square_norms(self) -> Floats:
        out = np.empty(self.n_columns)
        _squares(self._table.indptr, self._table.data, out)
        return out

    def full_gram(self, between: Callable[[], None] | None = None) -> Floats:
        rows = self._table.tocsr()
        out = np.zeros((self.n_columns, self.n_columns))
        _pairs(rows.indptr, rows.indices, rows.data, out)
        out += np.triu(out, 1).T
        return out
