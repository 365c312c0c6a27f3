"""Cells of a table, each read by itself: what one cell means never depends on other rows (T33).

A library that reads a whole column at once may turn 1 into 1.0, or numbers into text, because of
one cell. So numbers, text and truth values that mean the same are the same here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.data.classes import as_numbers, is_missing
from dpsubset.data.frames import as_frame
from dpsubset.errors import InputError, without_context

__all__ = [
    "GONE",
    "OTHER",
    "as_cells",
    "cells_of",
    "kind_of",
    "level_codes",
    "level_keys",
    "names_of",
    "numbers_of",
    "pick_cells",
    "text_of",
]

OTHER, GONE = -1, -2  # codes of a value that is none of the levels, and of a missing one
_NO_LEVEL = "\0"  # text that no level is equal to, for objects of other kinds
_TEXTUAL = (pl.String, pl.Categorical, pl.Enum, pl.Time)
_MOMENT = r"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.0+)?$"
_MIDNIGHT = r"^(\d{4}-\d\d-\d\d)[T]00:00:00$"


def kind_of(dtype: Any) -> str:
    """Return what a declared type holds: number, truth, text, date, nothing, or other.

    >>> kind_of(pl.Int8), kind_of(pl.Categorical), kind_of(pl.Datetime), kind_of(pl.List)
    ('number', 'text', 'date', 'other')
    """
    if dtype.is_numeric():
        return "number"
    for kind, members in (
        ("text", _TEXTUAL),
        ("truth", (pl.Boolean,)),
        ("date", (pl.Date, pl.Datetime)),
        ("nothing", (pl.Null,)),
    ):
        if dtype in members:
            return kind
    return "other"


def text_of(cells: pl.Series) -> pl.Series:
    """Return cells as text without the blanks around it; null for what is not there."""
    return cells.cast(pl.String).str.strip_chars()


def numbers_of(cells: pl.Series) -> Floats:
    """Return cells as numbers; NaN for what is missing or none.

    >>> numbers_of(pl.Series(["1", " 2.50", "x", "", "inf", "True"]))
    array([1. , 2.5, nan, nan, inf, 1. ])
    """
    kind = kind_of(cells.dtype)
    if kind in ("number", "truth"):
        numbers = cells.cast(pl.Float64)
    elif kind in ("text", "nothing"):
        numbers = as_numbers(text_of(cells))
    else:
        numbers = pl.Series(cells.name, [None], dtype=pl.Float64).new_from_index(0, len(cells))
    return numbers.fill_null(float("nan")).to_numpy().astype(np.float64)


def level_keys(levels: Sequence[str]) -> list[str | float]:
    """Return what levels are told apart by: numbers as numbers, true and false as 1 and 0.

    >>> level_keys(["1.0", "north ", "TRUE", "Inf"])
    [1.0, 'north', 1.0, inf]
    """
    text = _same_moments(pl.Series(levels, dtype=pl.String).str.strip_chars())
    found = zip(text.to_list(), as_numbers(text).to_list(), strict=True)
    return [t if x is None or np.isnan(x) else float(x) + 0.0 for t, x in found]


def level_codes(cells: pl.Series, levels: Sequence[str]) -> NDArray[np.int64]:
    """Return the place of each cell among the levels; `OTHER` and `GONE` for what is none.

    >>> level_codes(pl.Series(["b", "c", None, "NA", "a"]), ["a", "b"])
    array([ 1, -1, -2, -2,  0])
    >>> level_codes(pl.Series([1, 2]), ["2", "1.0"])
    array([1, 0])
    """
    keys = level_keys(levels)
    if cells.dtype == pl.Float64:
        numbers, text = cells, cells.cast(pl.String)
    else:
        text = _same_moments(text_of(cells))
        numbers = as_numbers(text)
    codes = _looked_up(numbers, {key: j for j, key in enumerate(keys) if isinstance(key, float)})
    worded = _looked_up(text, {key: j for j, key in enumerate(keys) if isinstance(key, str)})
    codes = np.where(codes == OTHER, worded, codes)
    # NaN is what libraries have for a missing number, and the text "NaN" in a column of numbers.
    gone = (is_missing(text) | numbers.is_nan().fill_null(False)).to_numpy().astype(bool)
    return np.where((codes == OTHER) & gone, GONE, codes)


def _same_moments(text: pl.Series) -> pl.Series:
    """Return text with dates and times written in one way, whoever has read them.

    >>> _same_moments(pl.Series(["2020-01-05 00:00:00.000000", "2020-01-05T10:00:00"])).to_list()
    ['2020-01-05', '2020-01-05T10:00:00']
    """
    moments = text.str.replace(_MOMENT, "${1}T${2}")
    return moments.str.replace(_MIDNIGHT, "${1}")


def _looked_up(values: pl.Series, places: Mapping[Any, int]) -> NDArray[np.int64]:
    if not places:
        return np.full(len(values), OTHER, dtype=np.int64)
    found = values.replace_strict(
        list(places), list(places.values()), default=OTHER, return_dtype=pl.Int64
    )
    return found.to_numpy().astype(np.int64)


# From containers to cells ------------------------------------------------------------------------


def as_cells(X: Any) -> tuple[list[pl.Series], tuple[str, ...] | None]:
    """Return the columns of a data frame, or of a dense array, and their names if they have any."""
    frame = as_frame(X)
    if frame is not None:
        names = list(frame.columns)
        kept = tuple(names) if all(isinstance(name, str) for name in names) else None
        return [cells_of(series) for series in frame.iter_columns()], kept
    if sp.issparse(X):
        raise InputError("a schema is for dense tables; give a data frame, or X.toarray()")
    array = _objects(X)
    if array.ndim != 2:
        raise InputError("the table must have two dimensions, rows and columns")
    return [cells_of(array[:, j]) for j in range(array.shape[1])], None


def names_of(X: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame; None for a table without names that are text."""
    frame = as_frame(X)
    names = [] if frame is None else list(frame.columns)
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


def pick_cells(X: Any, wanted: Sequence[str]) -> list[pl.Series]:
    """Return some columns of a table by name; of one without names, all, in the order wanted."""
    cells, names = as_cells(X)
    if names is None:
        if len(cells) != len(wanted):
            raise InputError(f"the table has {len(cells)} columns, and {len(wanted)} are needed")
        return cells
    found = dict(zip(names, cells, strict=True))
    lacking = [repr(name) for name in wanted if name not in found]
    if lacking:
        word = "column" if len(lacking) == 1 else "columns"
        raise InputError(f"the table has no {word} {', '.join(lacking[:20])}")
    return [found[name] for name in wanted]


@without_context
def _objects(X: Any) -> NDArray[Any]:
    """Return an array as it is, and lists as objects: numpy would make text of all of them."""
    if isinstance(X, np.ma.MaskedArray):
        plain: NDArray[Any] = np.array(X.data, dtype=object)
        plain[np.ma.getmaskarray(X)] = None
        return plain
    try:
        array = np.asarray(X, dtype=object if isinstance(X, (list, tuple)) else None)
    except MemoryError:
        raise
    except Exception:  # its words may quote the table
        raise InputError("the table cannot be read as an array") from None
    return array


def cells_of(column: Any) -> pl.Series:
    """Return one column of any library, or an array or list, as cells.

    >>> cells_of([1, "a", None, float("nan"), True]).to_list()
    ['1', 'a', None, None, 'true']
    """
    series = nw.from_native(column, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        native = series.to_native()
        if isinstance(native, pl.Series):
            return _known(native) if native.dtype != pl.Object else _listed(native.to_list())
        if series.implementation.is_pyarrow():
            return _of_arrow(native)
        kind = series.dtype
        numeric = kind.is_float() or kind.is_integer() or kind == nw.Boolean
        return _plain(series.to_numpy()) if numeric else _listed(series.to_list())
    array = _objects(column)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError("the target must have one dimension")
    return _plain(array)


@without_context
def _of_arrow(native: Any) -> pl.Series:
    try:
        return _known(pl.Series(pl.from_arrow(native)))
    except MemoryError:
        raise
    except Exception:  # its words may quote a cell
        raise InputError("the table has a column of a type that cannot be read") from None


def _known(cells: pl.Series) -> pl.Series:
    """Return cells as they are; those of lists, durations and the like as what is no level.

    A library may infer such a type from the cells, so an error would tell of them.

    >>> _known(pl.Series([[1, 2], None])).to_list()
    ['\\x00', None]
    """
    if kind_of(cells.dtype) != "other":
        return cells
    missing = cells.is_null()
    return (
        pl.Series(cells.name, [_NO_LEVEL], dtype=pl.String)
        .new_from_index(0, len(cells))
        .set(missing, None)
    )


def _plain(array: NDArray[Any]) -> pl.Series:
    if array.dtype.kind in "iub" or array.dtype in (np.float64, np.float32):
        return pl.Series(np.ascontiguousarray(array))
    return _listed(array.tolist() if array.dtype.kind != "M" else array.astype("M8[us]").tolist())


def _listed(entries: Sequence[Any]) -> pl.Series:
    return pl.Series([_text(entry) for entry in entries], dtype=pl.String)


def _text(entry: Any) -> str | None:
    """Return one cell as text: the same for values that mean the same."""
    if isinstance(entry, str):  # half a letter, which some texts of Python hold, is none
        return str(entry) if entry.isascii() else entry.encode("utf-8", "replace").decode()
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(entry, (bool, np.bool_)):
        return "true" if entry else "false"
    if isinstance(entry, datetime):
        return entry.isoformat()
    if isinstance(entry, date):  # with its time, as no format of an owner's own is written
        return datetime(entry.year, entry.month, entry.day).isoformat()
    if isinstance(entry, np.datetime64):
        return None if np.isnat(entry) else str(entry.astype("M8[us]"))
    if isinstance(entry, complex) and entry.imag == 0:  # one complex number makes all complex
        entry = entry.real
    if isinstance(entry, (Real, Decimal)):
        return _number_text(entry)
    return _NO_LEVEL


def _number_text(entry: Any) -> str | None:
    whole = isinstance(entry, Integral)
    if isinstance(entry, Decimal) and entry.is_nan():
        return None
    try:
        number = float(entry)
    except (OverflowError, ValueError, ArithmeticError):  # beyond float64: clipped later
        return "inf" if entry > 0 else "-inf"
    if number != number:
        return None
    return str(int(entry)) if whole and abs(number) < 1e300 else repr(number)
