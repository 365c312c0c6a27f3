"""From the containers users have (arrays, sparse matrices, data frames) to plain numbers.

No message here holds a value of the table or its number of rows: under add-remove both are private.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpsubset.designs import Store
from dpsubset.errors import InputError, at_once, without_context

__all__ = [
    "MISSING",
    "EntryError",
    "Table",
    "as_array",
    "as_frame",
    "as_matrix",
    "column_positions",
    "frame_matrix",
    "from_objects",
    "places_of_names",
]

MISSING = (
    "holds missing (NaN, null, empty) or infinite values; dpsubset takes finite numbers only. "
    "Replace them by fixed values that are public (not computed from this table), for instance the "
    "middle of the column's bounds, or say what they count as in a schema (schema=, --schema)"
)


class EntryError(InputError, TypeError):
    """Entries that are no numbers; also a TypeError, as scikit-learn asks for."""


class Table(NamedTuple):
    """What a selection is asked of: columns to choose from, and a target, row by row.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, p)
        The columns.
    y : array or series of shape (n,)
        The target.

    Examples
    --------
    >>> Table([[1.0], [2.0]], [0.0, 1.0]).y
    [0.0, 1.0]
    """

    X: Any
    y: Any


def as_matrix(X: Any) -> tuple[Any, Sequence[str] | None]:
    """Return the table as a 2-D array or a sparse matrix of numbers, and its column names if any.

    Data frames of any library that narwhals knows (pandas, polars, pyarrow, ...) go one way. Arrays
    of numbers, and data frames stored as one block, are not copied. All columns that are no numbers
    are told at once.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, p)
        A table of numbers.

    Returns
    -------
    (array or sparse matrix, tuple of str or None)
        The numbers, and the names of the columns.

    Examples
    --------
    >>> import polars as pl
    >>> matrix, names = as_matrix(pl.DataFrame({"age": [30.0, 40.0]}))
    >>> matrix.shape, names
    ((2, 1), ('age',))
    """
    if isinstance(X, Store):
        return X, X.names
    frame = as_frame(X)
    if frame is not None:
        return _frame_matrix(frame)
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
            "scipy.sparse matrix, or a data frame (pandas, polars, pyarrow, ...)"
        )
    array = as_array(X, "the table")
    _check_shape(array)
    if array.dtype.kind == "O":
        places = range(array.shape[1])
        array = np.column_stack(
            at_once(*(partial(from_objects, array[:, j], f"column {j}") for j in places))
        )
    return array, None


@without_context
def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Return a data frame as narwhals sees it; None for what is none."""
    try:
        frame = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise InputError("the table has two columns of the same name: rename one of them") from None
    except MemoryError:
        raise
    except Exception:  # its words may quote the table
        raise InputError("the data frame cannot be read") from None
    if isinstance(frame, nw.LazyFrame):
        raise InputError("the table is a LazyFrame: call .collect() on it first")
    return frame if isinstance(frame, nw.DataFrame) else None


def frame_matrix(frame: Any) -> NDArray[np.floating]:
    """Return a data frame of numbers and truth values as an array; nulls become NaN."""
    matrix: NDArray[np.floating] = as_matrix(frame)[0]
    return matrix


@without_context
def _frame_matrix(frame: nw.DataFrame[Any]) -> tuple[Any, tuple[str, ...] | None]:
    names, kinds = list(frame.columns), list(frame.schema.values())
    _check_width(len(names))
    kept = tuple(names) if all(isinstance(name, str) for name in names) else None
    if len(set(kinds)) == 1 and (kinds[0].is_float() or kinds[0].is_integer()):
        try:
            plain = frame.to_numpy()
        except MemoryError:
            raise
        except Exception:  # its words may quote the table
            raise InputError("the data frame cannot be read as numbers") from None
        if plain.dtype.kind in "fiu":
            return _laid_out(frame, _number_array(plain)), kept
    # Column by column, so that no column is read in another's way, and no cell in another's.
    columns = [
        partial(_column, series, f"column {name!r}", kind)
        for series, name, kind in zip(frame.iter_columns(), names, kinds, strict=True)
    ]
    return np.column_stack(at_once(*columns)), kept


def _laid_out(frame: nw.DataFrame[Any], array: NDArray[Any]) -> NDArray[Any]:
    """Return rows one after the other, the order in which products with the table are fastest.

    pandas may have handed out its own memory, which is used as it is.
    """
    return array if frame.implementation.is_pandas() else np.ascontiguousarray(array)


@without_context
def _column(series: nw.Series[Any], label: str, kind: nw.dtypes.DType) -> NDArray[np.float64]:
    """Return one column, each cell converted by itself, or say what it is instead."""
    try:
        native = series.to_native()
        if kind == nw.Decimal:
            array = np.array([*series.to_list(), None], dtype=object)[:-1]
        elif kind.is_numeric() or kind == nw.Boolean:
            array = series.to_numpy()
        elif kind in (nw.Object, nw.Unknown) or str(getattr(native, "dtype", "")) == "object":
            array = np.asarray(native)
        else:
            array = np.array(["text"])
            if len(series) and series.null_count() == len(series):
                array = np.array([None], dtype=object)
    except MemoryError:
        raise
    except Exception:  # its words may quote an entry
        raise _not_numbers(label) from None
    if array.dtype.kind == "O":
        return from_objects(array, label)
    _check_kind(array.dtype, label)
    return np.asarray(_number_array(array), dtype=np.float64)


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
    wanted = {entry for entry in listed if isinstance(entry, str)}
    places = None if names is None else places_of_names(names, wanted)
    positions = [_position(entry, places, n_columns, what) for entry in listed]
    if len(set(positions)) < len(positions):
        raise InputError(f"{what} names a column twice: name each column once")
    return tuple(sorted(positions))


def places_of_names(names: Sequence[str], wanted: set[str]) -> dict[str, int]:
    """Return where some names are, those of them that are there."""
    return {name: j for j, name in enumerate(names) if name in wanted} if wanted else {}


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


@without_context
def as_array(values: Any, label: str) -> NDArray[Any]:
    """Return an array of numbers, or of objects that may be numbers; `label` names it."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(f"{label} {MISSING}")
    if sp.issparse(values):
        raise InputError(f"{label} is sparse: give a dense array")
    try:
        array = np.asarray(values)
    except MemoryError:
        raise
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
