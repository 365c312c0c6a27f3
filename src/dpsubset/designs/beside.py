"""Two tables of the same rows beside each other: a large one, and a few columns behind it."""

from __future__ import annotations

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.designs.base import Columns, Design

__all__ = ["BesideDesign"]


class BesideDesign(Design):
    """The columns of one design, then those of another; `first` counts the passes.

    >>> from dpsubset.designs import as_design
    >>> two = BesideDesign(as_design(np.zeros((1, 2)), bound=1.0), as_design([[0.5]], bound=1.0))
    >>> two.take([2, 0])
    array([[0.5, 0. ]])
    """

    def __init__(self, first: Design, second: Design) -> None:
        self.first, self.second = first, second
        self.n_rows, self.bound = first.n_rows, first.bound
        self.n_columns = first.n_columns + second.n_columns
        self._squares = np.concatenate([first.square_norms(), second.square_norms()])

    def take(self, columns: Columns) -> Floats:
        """Return columns, whichever table they are of."""
        index = np.asarray(columns, dtype=np.intp)
        out = np.empty((self.n_rows, index.size))
        large = index < self.first.n_columns
        out[:, large] = self.first.take(index[large])
        out[:, ~large] = self.second.take(index[~large] - self.first.n_columns)
        return out

    def correlate(self, vectors: Floats) -> Floats:
        """Return X'u, or X'U."""
        return np.concatenate([self.first.correlate(vectors), self.second.correlate(vectors)])

    def square_norms(self) -> Floats:
        """Return the squared norm of every column."""
        return self._squares
