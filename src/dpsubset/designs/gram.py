"""Gram columns on demand, kept up to a limit of memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.designs.base import Design
from dpsubset.sums import products

__all__ = ["ALL", "FULL_UP_TO", "Gram", "GramRows"]

FULL_UP_TO = 2048  # columns; beyond this no p x p matrix is ever formed
_MEMORY = 256 << 20
_FEWEST, _FEWEST_WIDE = 64, 24  # columns that are kept however much they take
_WIDE = 1 << 20
_MANY = 64  # columns from which a block is kept
_SQUARE, _TAKEN = 2048, 128 << 20  # columns of the blocks that are kept, and their bytes
ALL = slice(None)


@dataclass(frozen=True, eq=False)
class GramRows:
    """Some rows of X'X, in whatever numbers they are held."""

    held: list[NDArray[Any]]
    p: int

    def at(self, of: slice | NDArray[np.intp] = ALL) -> Floats:
        """Return these rows at some columns, as float64."""
        width = len(range(self.p)[of]) if isinstance(of, slice) else of.size
        out = np.empty((len(self.held), width))
        for k, row in enumerate(self.held):
            out[k] = row[of]
        return out


class Gram:
    """X'X seen through its columns and blocks.

    `columns` gives rows of X'X (as (k, p), contiguous), computed together when missing;
    `block` gives the small matrix among given columns without touching the others.
    """

    def __init__(self, design: Design, memory: int = _MEMORY) -> None:
        self._design = design
        self._kept: OrderedDict[int, NDArray[Any]] = OrderedDict()
        self._memory = memory
        self._fewest = _FEWEST if design.n_columns <= _WIDE else _FEWEST_WIDE
        self._full: Floats | None = None
        self._square = _Square(design)
        self.smallest: float | None = None  # a proven bound on the eigenvalues, once asked for

    @cached_property
    def diagonal(self) -> Floats:
        """The squared norms of the columns."""
        return self._design.square_norms() if self._full is None else self._full.diagonal().copy()

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

    def fetch(self, index: NDArray[np.intp]) -> None:
        """Compute what is missing of these columns, in one go, and forget others for it."""
        if self._full is not None:
            return
        missing = [int(j) for j in dict.fromkeys(index.tolist()) if j not in self._kept]
        if missing:
            for j, row in zip(missing, self._design.gram_rows(missing), strict=True):
                self._kept[j] = row
        for j in index.tolist():
            self._kept.move_to_end(j)
        fewest = max(index.size, self._fewest)
        while len(self._kept) > fewest and self._held_bytes() > self._memory:
            self._kept.popitem(last=False)

    def _held_bytes(self) -> int:
        return sum(row.nbytes for row in self._kept.values())

    def rows(self, index: NDArray[np.intp]) -> GramRows:
        """Return X_J'X as it is held; what is forgotten here stays there."""
        if self._full is not None:
            return GramRows(list(self._full[index]), self._design.n_columns)
        self.fetch(index)
        return GramRows([self._kept[j] for j in index.tolist()], self._design.n_columns)

    def columns(self, index: NDArray[np.intp], of: slice | NDArray[np.intp] = ALL) -> Floats:
        """Return X_J'X, one row for each column of J: all of it, or of some columns of X."""
        if self._full is not None and of is ALL:
            return self._full[index]
        return self.rows(index).at(of)

    def block(self, index: NDArray[np.intp]) -> Floats:
        """Return X_J'X_J."""
        if self._full is not None:
            return self._full[np.ix_(index, index)]
        if all(j in self._kept for j in index.tolist()):
            return self.columns(index, index)
        if index.size >= _MANY and self._square.has_room(index):
            return self._square.block(index)
        taken = self._design.take(index)
        return products(taken, taken)


class _Square:
    """Inner products among the columns of the last blocks, and these columns, to add others.

    A search asks for one block after the other, of nearly the same columns.
    """

    def __init__(self, design: Design) -> None:
        self._design = design
        self._most = min(_SQUARE, _TAKEN // (8 * max(design.n_rows, 1)))
        self._index = np.empty(0, dtype=np.intp)
        self._taken, self._products = np.empty((design.n_rows, 0)), np.empty((0, 0))

    def has_room(self, index: NDArray[np.intp]) -> bool:
        """Whether so many columns can be kept."""
        return index.size <= self._most

    def block(self, index: NDArray[np.intp]) -> Floats:
        """Return X_J'X_J, from what is kept as far as that goes."""
        new = np.setdiff1d(index, self._index)
        if self._index.size + new.size > self._most:  # begin anew
            self._index, new = np.empty(0, dtype=np.intp), np.unique(index)
        if new.size:
            self._add(new)
        order = np.argsort(self._index)
        places = order[np.searchsorted(self._index, index, sorter=order)]
        return self._products[np.ix_(places, places)]

    def _add(self, new: NDArray[np.intp]) -> None:
        old, k = self._index.size, self._index.size + new.size
        if k > self._products.shape[0]:  # room for twice as many
            width = min(self._most, 2 * k)
            taken, kept = np.empty((self._design.n_rows, width), order="F"), np.empty((width,) * 2)
            taken[:, :old], kept[:old, :old] = self._taken[:, :old], self._products[:old, :old]
            self._taken, self._products = taken, kept
        self._taken[:, old:k] = self._design.take(new)
        self._products[:k, old:k] = products(self._taken[:, :k], self._taken[:, old:k])
        self._products[old:k, :old] = self._products[:old, old:k].T
        self._index = np.concatenate([self._index, new])
