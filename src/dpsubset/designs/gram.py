"""Gram columns on demand, kept up to a limit of memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.designs.base import Design
from dpsubset.sums import products

__all__ = ["FULL_UP_TO", "Gram"]

FULL_UP_TO = 2048  # columns; beyond this no p x p matrix is ever formed
_MEMORY = 256 << 20


class Gram:
    """X'X seen through its columns and blocks.

    `columns` gives rows of X'X (as (k, p), contiguous), computed together when missing;
    `block` gives the small matrix among given columns without touching the others.
    """

    def __init__(self, design: Design, memory: int = _MEMORY) -> None:
        self._design = design
        self._kept: OrderedDict[int, Floats] = OrderedDict()
        self._limit = max(64, memory // (8 * max(design.n_columns, 1)))
        self._full: Floats | None = None
        self.smallest: float | None = None  # a proven bound on the eigenvalues, once asked for

    @cached_property
    def diagonal(self) -> Floats:
        """The squared norms of the columns."""
        return self._design.square_norms()

    @property
    def affordable(self) -> bool:
        """Whether the whole matrix may be formed."""
        return self._design.n_columns <= FULL_UP_TO

    @property
    def held(self) -> bool:
        """Whether the whole matrix has been formed."""
        return self._full is not None

    def lacks(self, index: tuple[int, ...]) -> bool:
        """Whether any of these columns would have to be computed."""
        return self._full is None and any(j not in self._kept for j in index)

    def full(self, between: Callable[[], None] | None = None) -> Floats:
        """Return the whole matrix; only for few columns. `between` as for the design's."""
        if self._full is None:
            self._full = self._design.full_gram(between)
            self._kept.clear()
        return self._full

    def columns(self, index: NDArray[np.intp]) -> Floats:
        """Return X_J'X, one row for each column of J."""
        if self._full is not None:
            return self._full[index]
        missing = [int(j) for j in dict.fromkeys(index.tolist()) if j not in self._kept]
        if missing:
            rows = self._design.gram(missing).T
            for j, row in zip(missing, rows, strict=True):
                self._kept[j] = np.ascontiguousarray(row)
        out = np.empty((index.size, self._design.n_columns))
        for k, j in enumerate(index.tolist()):
            out[k] = self._kept[j]
            self._kept.move_to_end(j)
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)
        return out

    def block(self, index: NDArray[np.intp]) -> Floats:
        """Return X_J'X_J."""
        if self._full is not None:
            return self._full[np.ix_(index, index)]
        if all(j in self._kept for j in index.tolist()):
            return np.stack([self._kept[j][index] for j in index.tolist()])
        taken = self._design.take(index)
        return products(taken, taken)
