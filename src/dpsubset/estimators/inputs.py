"""From the containers users have (arrays, sparse matrices, pandas, polars) to plain numbers.

No message here holds a value of the table or its number of rows: under add-remove both are private.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpsubset.errors import InputError, without_context

__all__ = [
    "MISSING",
    "EntryError",
    "as_array",
    "as_matrix",
    "column_positions",
    "from_objects",
    "polars_matrix",
]

MISSING = (
    "holds missing (NaN, null, empty) or infinite values; dpsubset takes finite numbers only. "
    "Replace them by fixed values that are public (not computed from this table), for instance the "
    "middle of the column's bounds"
)


class EntryError(InputError, TypeError):
    """Entries that are no numbers; also a TypeError, as scikit-learn asks for."""


def as_matrix(X: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Return the table as a 2-D array or a sparse matrix of numbers, and its column names if any.

    Arrays of numbers, and data frames stored as one block, are not copied.
    """
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if polars is not None and isinstance(X, polars.LazyFrame):
        raise InputError("the table is a polars LazyFrame: call .collect() on it first")
    if polars is not None and isinstance(X, polars.DataFrame):
        _check_width(X.width)
        return polars_matrix(X), tuple(X.columns)
    if pandas is not None and isinstance(X, pandas.DataFrame):
        return _pandas_matrix(X)
    if sp.issparse(X):
        _check_shape(X)
        dtype = np.dtype(getattr(X, "dtype", object))
        _check_kind(dtype, "the table")
        if dtype.kind == "O":  # scipy cannot compute with objects
            raise _not_numbers("the table")
        return X, None
    listed = hasattr(X, "__len__") and not isinstance(X, (str, bytes, Mapping))
    if not (listed or hasattr(X, "__array__")):
        raise EntryError(
            f"a table of type {type(X).__name__} is not supported: give a numpy array, a "
            "scipy.sparse matrix, or a pandas or polars DataFrame"
        )
    array = as_array(X, "the table")
    _check_shape(array)
    if array.dtype.kind == "O":
        columns = [from_objects(array[:, j], f"column {j}") for j in range(array.shape[1])]
        array = np.column_stack(columns)
    return array, None


def column_positions(
    given: Any, names: Sequence[str] | None, n_columns: int, what: str
) -> tuple[int, ...]:
    """Turn names or indices of columns into sorted indices; `what` names the argument.

    >>> column_positions(["b", 0], ["a", "b", "c"], 3, "always_include")
    (0, 1)
    """
    try:
        listed = None if isinstance(given, (str, bytes)) else list(given)
    except TypeError:
        listed = None
    if listed is None:
        raise InputError(f"{what} must be a list of column names or indices")
    places = None if names is None else {name: j for j, name in enumerate(names)}
    positions = [_position(entry, places, n_columns, what) for entry in listed]
    if len(set(positions)) < len(positions):
        raise InputError(f"{what} names a column twice: name each column once")
    return tuple(sorted(positions))


def _position(entry: Any, places: dict[str, int] | None, n_columns: int, what: str) -> int:
    if isinstance(entry, str):
        if places is None:
            raise InputError(f"{what} names {entry!r}, but the table has no names: give indices")
        if entry not in places:
            raise InputError(f"{what} names {entry!r}, which is not a column of the table")
        return places[entry]
    if isinstance(entry, (bool, np.bool_)) or not isinstance(entry, Integral):
        raise InputError(f"{what} must hold column names or integer indices")
    position = int(entry)
    if not 0 <= position < n_columns:
        raise InputError(f"{what} holds {position}; indices go from 0 to {n_columns - 1}")
    return position


def polars_matrix(frame: Any) -> NDArray[np.floating]:
    """Return a polars frame of numbers and truth values as an array; nulls become NaN."""
    import polars as pl

    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
            raise _not_numbers(f"column {name!r}")
    narrow = all(dtype == pl.Float32 for dtype in frame.dtypes)
    if not narrow:
        frame = frame.cast(pl.Float64)
    # Rows one after the other: the order in which products with the table are fastest.
    matrix: NDArray[np.floating] = frame.to_numpy(order="c")
    return matrix


def _pandas_matrix(frame: Any) -> tuple[Any, tuple[str, ...] | None]:
    names = list(frame.columns)
    _check_width(len(names))
    if len(set(names)) < len(names):
        raise InputError("the table has two columns of the same name: rename one of them")
    named = all(isinstance(name, str) for name in names)
    kept = tuple(names) if named else None
    if all(isinstance(dtype, np.dtype) and dtype.kind in "fiub" for dtype in frame.dtypes):
        one_type = len(set(frame.dtypes)) == 1
        return _number_array(frame.to_numpy(dtype=None if one_type else np.float64)), kept
    columns = [_pandas_column(frame.iloc[:, j], names[j]) for j in range(len(names))]
    return np.column_stack(columns), kept


def _pandas_column(column: Any, name: Any) -> NDArray[Any]:
    types = sys.modules["pandas"].api.types
    label = f"column {name!r}"
    if column.dtype == object:
        return from_objects(column.to_numpy(), label)
    if not (types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(column.dtype)):
        raise _not_numbers(label)
    if getattr(column.dtype, "kind", "") == "c":
        raise _complex(label)
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))


@without_context
def as_array(values: Any, label: str) -> NDArray[Any]:
    """Return an array of numbers, or of objects that may be numbers; `label` names it."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(f"{label} {MISSING}")
    if sp.issparse(values):
        raise InputError(f"{label} is sparse: give a dense array")
    try:
        array = np.asarray(values)
    except Exception:  # another library's table may have errors, and words, of its own
        raise InputError(
            f"{label} cannot be read as an array: it is ragged or holds no numbers. Every row "
            "needs the same number of entries"
        ) from None
    _check_kind(array.dtype, label)
    return _number_array(array)


def _number_array(array: NDArray[Any]) -> NDArray[Any]:
    """Bring extended precision to float64; a value beyond its range becomes infinite."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    return array


def _check_kind(dtype: np.dtype[Any], label: str) -> None:
    if dtype.kind == "c":
        raise _complex(label)
    if dtype.kind not in "fiubO":
        raise _not_numbers(label)


def _check_shape(array: Any) -> None:
    if array.ndim != 2:
        raise InputError(
            f"the table has {array.ndim} dimension(s); it must have two, rows and columns. Reshape "
            "your data; a single column x is given as x.reshape(-1, 1)"
        )
    _check_width(array.shape[1])


def _check_width(width: int) -> None:
    if width == 0:
        raise InputError(
            "the table has 0 feature(s) (shape=(, 0)) while a minimum of 1 is required."
        )


@without_context
def from_objects(column: NDArray[Any], label: str) -> NDArray[np.float64]:
    """Convert Python numbers, of any size that float64 reaches."""
    kinds = set(map(type, column.tolist()))
    plain = {kind for kind in kinds if issubclass(kind, (Real, Decimal, np.bool_))}
    missing = {kind for kind in kinds - plain if kind.__name__ in ("NoneType", "NAType")}
    if any(issubclass(kind, complex) for kind in kinds):
        raise _complex(label)
    if kinds - plain - missing:
        raise _not_numbers(label)
    if missing:
        raise InputError(f"{label} {MISSING}")
    try:
        return column.astype(np.float64)
    except (OverflowError, TypeError, ValueError):
        # The original error may quote an entry.
        raise InputError(f"{label} holds numbers beyond the range of float64") from None


def _not_numbers(label: str) -> EntryError:
    return EntryError(
        f"{label} is not numeric: the argument must be free of strings, dates and other objects, "
        "only numbers and truth values are taken. Encode it as numbers, or leave it out"
    )


def _complex(label: str) -> InputError:
    return InputError(f"Complex data not supported: {label} must hold real numbers")
