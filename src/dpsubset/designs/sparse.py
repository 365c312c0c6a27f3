"""scipy.sparse tables. Zero stays zero, so their bounds are symmetric."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dpsubset.arrays import Floats
from dpsubset.designs.base import Columns, Design
from dpsubset.designs.dense import NOT_FINITE
from dpsubset.errors import InputError

__all__ = ["SparseDesign"]


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
        return np.asarray(self._table.T @ vectors, dtype=np.float64)

    def square_norms(self) -> Floats:
        return np.asarray((self._table**2).sum(axis=0), dtype=np.float64).ravel()

    def full_gram(self) -> Floats:
        return np.asarray((self._table.T @ self._table).toarray(), dtype=np.float64)
