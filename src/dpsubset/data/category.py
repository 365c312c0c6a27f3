"""Columns that hold one of some public levels, and columns that are no feature (T33a)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.data.cells import GONE, level_codes, level_keys
from dpsubset.data.columns import MISSING_LEVEL, Column

__all__ = ["Category", "Ignored"]


@dataclass(frozen=True, kw_only=True)
class Category(Column):
    """One of K public levels: the corners of a regular simplex, all of norm 1, in K - 1 columns.

    Two levels are one column, -1 and +1. A value that is none of the levels, and a missing one
    without a rule of its own, is the middle of all: coded 0 (T33a).

    >>> Category(levels=("a", "b")).code(pl.Series(["a", "b", "c"])).ravel()
    array([-1.,  1.,  0.])
    >>> coded = Category(levels=("a", "b", "c")).code(pl.Series(["a", "c", None]))
    >>> coded.round(3) + 0.0
    array([[-0.866, -0.5  ],
           [ 0.   ,  1.   ],
           [ 0.   ,  0.   ]])
    """

    levels: tuple[str, ...]

    types: ClassVar[tuple[str, ...]] = ("number", "truth", "text", "date", "nothing")

    @property
    def labels(self) -> tuple[str, ...]:
        return (*self.levels, MISSING_LEVEL) if self.missing == "level" else self.levels

    @property
    def width(self) -> int:
        return len(self.labels) - 1

    def places(self, cells: pl.Series) -> NDArray[np.int64]:
        """Return the label of every cell by its place; negative for none."""
        codes = level_codes(cells, self.levels)
        if self.missing is None:
            return codes
        gone = len(self.levels)
        if self.missing != "level":
            gone = level_keys(self.levels).index(level_keys([self.missing])[0])
        return np.where(codes == GONE, gone, codes)

    @property
    def corners(self) -> Floats:
        """The coded columns of each label, one label a row.

        Column j tells label j + 1 from all before it: the columns are orthogonal, and sum to 0.
        """
        count = len(self.labels)
        before = np.arange(1.0, count)  # how many labels come before the one of a column
        scale = math.sqrt(count / (count - 1)) / np.sqrt(before * (before + 1.0))
        later = np.tri(count, count - 1, -1)  # rows from a column's own label on
        own = np.eye(count, count - 1, -1)
        return np.asarray(scale * (own * before - (1.0 - later)))

    def _of_places(self, values: Floats, cells: pl.Series) -> Floats:
        """Return for every cell the value of its label, and zeros where it has none."""
        blank = np.zeros((1, *values.shape[1:]))
        places = np.maximum(self.places(cells), -1)  # the last is the blank one
        return np.asarray(np.concatenate([values, blank])[places])

    def code(self, cells: pl.Series, clip: float = 1.0) -> Floats:
        return self._of_places(self.corners, cells)

    def there(self, cells: pl.Series) -> NDArray[np.bool_]:
        return self.places(cells) >= 0

    def effects(self, weights: Floats, clip: float = 1.0) -> tuple[Floats, float]:
        return np.asarray(self.corners @ weights), 0.0

    def predicted(self, cells: pl.Series, effects: Floats, clip: float = 1.0) -> Floats:
        return self._of_places(effects, cells)

    def described(self) -> dict[str, Any]:
        return {"levels": list(self.levels)}


@dataclass(frozen=True, kw_only=True)
class Ignored(Column):
    """A column that is no feature, such as a name or a number of a person."""

    types: ClassVar[tuple[str, ...]] = ("number", "truth", "text", "date", "nothing", "other")

    @property
    def width(self) -> int:
        return 0

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    def code(self, cells: pl.Series, clip: float = 1.0) -> Floats:
        return np.empty((len(cells), 0))

    def there(self, cells: pl.Series) -> NDArray[np.bool_]:
        return np.ones(len(cells), dtype=bool)

    def effects(self, weights: Floats, clip: float = 1.0) -> tuple[Floats, float]:
        return np.empty(0), 0.0

    def predicted(self, cells: pl.Series, effects: Floats, clip: float = 1.0) -> Floats:
        return np.zeros(len(cells))

    def described(self) -> dict[str, Any]:
        return {"ignore": True}
