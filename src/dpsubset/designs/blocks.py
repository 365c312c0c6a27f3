"""Blocks of columns whose rows have bounded norm: longer ones are scaled down (T32)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.designs.base import Columns, Design
from dpsubset.designs.features import Features
from dpsubset.sums import column_sums, products

__all__ = ["BlockDesign", "bounded_blocks"]

_AT_ONCE = 1 << 22  # entries of the table that are held together
_LOOKED = 1 << 18  # that are looked at together: they fit into a cache
_ROUNDING = 2.0**-51  # a column: what a norm may be above the bound, relative, by rounding alone


@compiled(nogil=True)
def _by_features(table, squares):  # type: ignore[no-untyped-def]
    """Fill in the squared norms of features, all of the same number of columns."""
    rows, count = squares.shape
    width = table.shape[1] // count
    for i in range(rows):
        row, out = table[i], squares[i]
        for g in range(count):
            total = 0.0
            for j in range(g * width, g * width + width):
                total += row[j] * row[j]
            out[g] = total


class BlockDesign(Design):
    """A table in which no row of a feature of several columns is longer than the bound.

    A longer row of such a block is scaled to the bound as a whole: to clip its entries would not
    bound its norm. What is kept is a factor for each of these, not their entries.

    >>> from dpsubset.designs import as_design
    >>> two = Features(2, ((0, 1), (2,)))
    >>> BlockDesign(as_design(np.ones((1, 3)), bound=1.0), two).take([0, 1, 2]).round(3)
    array([[0.707, 0.707, 1.   ]])
    """

    def __init__(self, inner: Design, features: Features) -> None:
        self._inner = inner
        self.features = features
        self.n_rows, self.n_columns, self.bound = inner.n_rows, inner.n_columns, inner.bound
        self._long: dict[int, tuple[NDArray[np.intp], Floats]] = {}  # by feature: rows, factors
        for some in self._batches(np.flatnonzero(features.widths > 1)):
            self._measure(some)
        scaled = np.array(sorted(self._long), dtype=np.intp)
        self._scaled = np.sort(features.columns(scaled)) if scaled.size else scaled

    def _batches(self, index: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        """Part features so that their columns can be looked at together."""
        room = max(1, min(_AT_ONCE, _LOOKED) // max(self.n_rows, 1))
        ends = np.cumsum(self.features.widths[index])
        first = 0
        while first < index.size:
            before = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, before + room, side="right")))
            yield index[first:last]
            first = last

    def _measure(self, some: NDArray[np.intp]) -> None:
        """Find the rows of some features that are too long."""
        squares = self._squares(some)
        longest = self.bound * (1.0 + _ROUNDING * (self.features.widths[some] + 4))
        for k in np.flatnonzero(np.sqrt(squares.max(axis=0, initial=0.0)) > longest):
            norms = np.sqrt(squares[:, k])
            rows = np.flatnonzero(norms > longest[k])
            self._long[int(some[k])] = rows, self.bound / norms[rows]

    def _squares(self, some: NDArray[np.intp]) -> Floats:
        """Return the squared norm of every row in each of some features."""
        columns, widths = self.features.columns(some), self.features.widths[some]
        if some.size > 1:
            taken = self._inner.take(columns)
            if (widths == widths[0]).all():
                squares = np.empty((self.n_rows, some.size))
                _by_features(np.ascontiguousarray(taken), squares)
                return squares
            return np.add.reduceat(taken**2, np.cumsum(widths) - widths, axis=1)
        total = np.zeros((self.n_rows, 1))  # one that may be wider than can be held
        step = max(1, _AT_ONCE // max(self.n_rows, 1))
        for first in range(0, columns.size, step):
            total[:, 0] += (self._inner.take(columns[first : first + step]) ** 2).sum(axis=1)
        return total

    def take(self, columns: Columns) -> Floats:
        """Return columns, scaled where that is needed."""
        index = np.asarray(columns, dtype=np.intp)
        out = self._inner.take(index)
        if not self._long:
            return out
        fresh = False
        for k, g in enumerate(self.features.of_column[index].tolist()):
            if g in self._long:
                if not fresh:  # the inner table may have lent its own
                    out, fresh = np.array(out), True
                rows, factors = self._long[g]
                out[rows, k] *= factors
        return out

    def _some_scaled(self) -> Iterator[NDArray[np.intp]]:
        """Part the columns that are scaled."""
        step = max(1, _AT_ONCE // max(self.n_rows, 1))
        for first in range(0, self._scaled.size, step):
            yield self._scaled[first : first + step]

    def correlate(self, vectors: Floats) -> Floats:
        """Return the products with vectors."""
        out = self._inner.correlate(vectors)
        if self._long:
            out = np.array(out)
            for some in self._some_scaled():
                several = vectors if vectors.ndim == 2 else vectors[:, None]
                found = products(self.take(some), several)
                out[some] = found if vectors.ndim == 2 else found[:, 0]
        return out

    def square_norms(self) -> Floats:
        """Return the squared norm of every column."""
        out = self._inner.square_norms()
        if self._long:
            out = np.array(out)
            for some in self._some_scaled():
                out[some] = column_sums(self.take(some) ** 2)
        return out

    def full_gram(self, between: Callable[[], None] | None = None) -> Floats:
        """Return all inner products."""
        out = self._inner.full_gram(between)
        if self._long:
            out = np.array(out)
            for some in self._some_scaled():
                if between is not None:
                    between()
                rows = self.correlate(self.take(some)).T
                out[some], out[:, some] = rows, rows.T
        return out


def bounded_blocks(design: Design, features: Features) -> Design:
    """Return the design with bounded blocks; itself, where it has none or they are bounded."""
    if features.n_columns == len(features) or (
        isinstance(design, BlockDesign) and design.features == features
    ):
        return design
    return BlockDesign(design, features)
