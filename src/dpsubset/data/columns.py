"""Kinds of columns, as a codebook knows them, and how each is coded as numbers (T33).

Every coding is a fixed function of one cell and of what is public, and the coded numbers of one
column have a Euclidean norm of at most 1: a feature of many columns costs no more than one number.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.data.bounds import narrowed
from dpsubset.data.cells import kind_of, level_codes, level_keys, numbers_of, text_of

__all__ = [
    "ANY",
    "MISSING_LEVEL",
    "PRIVATE",
    "Column",
    "Number",
    "OneNumber",
    "Ordered",
    "Truth",
    "Unbounded",
]

MISSING_LEVEL = "missing"
PRIVATE = "private"
ANY = (-(2.0**30), 2.0**30)  # a power of two: mapping onto [-1, 1] and back loses no digit
_TRUTH = {"true": 1.0, "yes": 1.0, "t": 1.0, "y": 1.0, "false": 0.0, "no": 0.0, "f": 0.0, "n": 0.0}


@dataclass(frozen=True, kw_only=True)
class Column(ABC):
    """One column: what its cells may hold, and what a missing one counts as.

    `missing` is None (the middle of the column, coded 0), "indicator" (a coefficient of its own),
    "level" (of a category: a level of its own), or a value that missing cells are taken to have.
    """

    missing: Any = None
    unit: str | None = None
    note: str | None = None

    types: ClassVar[tuple[str, ...]] = ("number", "truth", "text", "nothing")

    @property
    @abstractmethod
    def width(self) -> int:
        """How many coded columns it has."""

    @abstractmethod
    def code(self, cells: pl.Series, clip: float = 1.0) -> Floats:
        """Return the coded columns, (n, width); every row has a norm of at most 1."""

    @abstractmethod
    def there(self, cells: pl.Series) -> NDArray[np.bool_]:
        """Say which cells have a value, or are taken to have one."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """What its coefficients are called, besides the name of the column."""

    @abstractmethod
    def effects(self, weights: Floats, clip: float = 1.0) -> tuple[Floats, float]:
        """Return the coefficients of the owner's values, and what they add to the intercept.

        `weights` are the coefficients of the coded columns.
        """

    @abstractmethod
    def predicted(self, cells: pl.Series, effects: Floats, clip: float = 1.0) -> Floats:
        """Return what the coefficients that `effects` gave add to the prediction of each row."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Return the kind as a schema file says it."""

    def to_dict(self) -> dict[str, Any]:
        """Return the column as plain values, in the words of a schema file."""
        more = {"missing": self._plain_missing(), "unit": self.unit, "note": self.note}
        return self.described() | {k: v for k, v in more.items() if v is not None}

    def _plain_missing(self) -> Any:
        return self.missing


@dataclass(frozen=True, kw_only=True)
class OneNumber(Column):
    """A column that is one number, linear in its own units."""

    narrows: ClassVar[bool] = True  # whether `clip` is for it

    @property
    @abstractmethod
    def span(self) -> tuple[float, float]:
        """The least and the largest of its numbers."""

    @abstractmethod
    def numbers(self, cells: pl.Series) -> Floats:
        """Return one number for each cell; NaN for a missing one."""

    @property
    def fill(self) -> float | None:
        """The number that a missing cell is taken to have, if one is named."""
        return None if self.missing in (None, "indicator") else float(self.missing)

    @property
    def width(self) -> int:
        return 2 if self.missing == "indicator" else 1

    @property
    def labels(self) -> tuple[str, ...]:
        return ("", MISSING_LEVEL) if self.missing == "indicator" else ("",)

    def _ends(self, clip: float) -> tuple[float, float]:
        lower, upper = narrowed(self.span, clip) if self.narrows else self.span
        return float(lower), float(upper)

    def _filled(self, cells: pl.Series, clip: float) -> tuple[Floats, NDArray[np.bool_]]:
        """Return numbers within the bounds, and which cells have an indicator instead."""
        lower, upper = self._ends(clip)
        numbers = self.numbers(cells)
        gone = np.isnan(numbers)
        numbers = np.where(gone, lower / 2 + upper / 2 if self.fill is None else self.fill, numbers)
        return np.clip(numbers, lower, upper), gone & (self.width == 2)

    def code(self, cells: pl.Series, clip: float = 1.0) -> Floats:
        lower, upper = self._ends(clip)
        numbers, marked = self._filled(cells, clip)
        scaled = (numbers - (lower / 2 + upper / 2)) / (upper / 2 - lower / 2)
        scaled = np.where(marked, 0.0, np.clip(scaled, -1.0, 1.0))
        return np.column_stack([scaled, marked])[:, : self.width].astype(np.float64)

    def there(self, cells: pl.Series) -> NDArray[np.bool_]:
        return ~np.isnan(self.numbers(cells)) | (self.fill is not None)

    def effects(self, weights: Floats, clip: float = 1.0) -> tuple[Floats, float]:
        lower, upper = self._ends(clip)
        slope = float(weights[0]) / (upper / 2 - lower / 2)
        shift = slope * (lower / 2 + upper / 2)
        # The intercept has taken the middle off all rows; a row without a number has none.
        more = [float(weights[1]) + shift] if self.width == 2 else []
        return np.array([slope, *more]), -shift

    def predicted(self, cells: pl.Series, effects: Floats, clip: float = 1.0) -> Floats:
        numbers, marked = self._filled(cells, clip)
        return np.asarray(np.where(marked, effects[-1], effects[0] * numbers))


@dataclass(frozen=True, kw_only=True)
class Number(OneNumber):
    """A number within public bounds; one outside is clipped, text counts as missing.

    >>> Number(lower=0, upper=10, missing="indicator").code(pl.Series([0.0, 20.0, None]))
    array([[-1.,  0.],
           [ 1.,  0.],
           [ 0.,  1.]])
    """

    lower: float
    upper: float

    @property
    def span(self) -> tuple[float, float]:
        return float(self.lower), float(self.upper)

    def numbers(self, cells: pl.Series) -> Floats:
        return numbers_of(cells)

    def described(self) -> dict[str, Any]:
        return {"bounds": [self.lower, self.upper]}


@dataclass(frozen=True, kw_only=True)
class Unbounded(Number):
    """A target whose bounds are still to be drawn from the table, privately (T37).

    >>> Unbounded().described()
    {'bounds': 'private'}
    """

    lower: float = ANY[0]
    upper: float = ANY[1]

    narrows: ClassVar[bool] = False  # not before its bounds are known

    def described(self) -> dict[str, Any]:
        return {"bounds": PRIVATE}


@dataclass(frozen=True, kw_only=True)
class Truth(OneNumber):
    """A truth value: 0 and 1, true and false, yes and no; anything else counts as missing.

    >>> Truth().code(pl.Series(["no", "1", "TRUE", "maybe"])).ravel()
    array([-1.,  1.,  1.,  0.])
    """

    narrows: ClassVar[bool] = False

    @property
    def span(self) -> tuple[float, float]:
        return 0.0, 1.0

    def numbers(self, cells: pl.Series) -> Floats:
        numbers = numbers_of(cells)
        if kind_of(cells.dtype) == "text":
            worded = (
                text_of(cells)
                .str.to_lowercase()
                .replace_strict(
                    list(_TRUTH), list(_TRUTH.values()), default=None, return_dtype=pl.Float64
                )
            )
            numbers = np.where(np.isnan(numbers), worded.fill_null(math.nan).to_numpy(), numbers)
        return np.where((numbers == 0.0) | (numbers == 1.0), numbers, math.nan)

    def described(self) -> dict[str, Any]:
        return {"truth": True}


@dataclass(frozen=True, kw_only=True)
class Ordered(OneNumber):
    """Levels in an order, evenly spaced; anything else counts as missing.

    >>> Ordered(levels=("low", "mid", "high")).code(pl.Series(["mid", "high", "?"])).ravel()
    array([0., 1., 0.])
    """

    levels: tuple[str, ...]

    types: ClassVar[tuple[str, ...]] = ("number", "truth", "text", "date", "nothing")
    narrows: ClassVar[bool] = False

    @property
    def span(self) -> tuple[float, float]:
        return 0.0, float(len(self.levels) - 1)

    @property
    def fill(self) -> float | None:
        if self.missing in (None, "indicator"):
            return None
        return float(level_keys(self.levels).index(level_keys([self.missing])[0]))

    def numbers(self, cells: pl.Series) -> Floats:
        codes = level_codes(cells, self.levels)
        return np.where(codes < 0, math.nan, codes.astype(np.float64))

    def described(self) -> dict[str, Any]:
        return {"ordered": list(self.levels)}
