"""Tables from CSV and Parquet files.

No message holds a value of the table: texts of the reading library may quote one, so they are
never passed on. Column names and the names a user typed are shown.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpsubset.errors import InputError
from dpsubset.estimators.inputs import MISSING, polars_matrix

__all__ = ["Table", "pick_features", "read_names", "read_table"]

_MISSING_WORDS = ["NA", "N/A", "na", "n/a", "NULL", "null", "None", "none", "-", "?", "."]
_HEAD_BYTES = 1 << 16
_ADVICE = "Write the table as CSV (commas, UTF-8, column names in the first line) or Parquet"

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Table:
    """The columns to choose from, and the target."""

    names: tuple[str, ...]
    X: NDArray[np.floating]
    y: NDArray[np.float64]
    target: str


def read_names(path: Path) -> tuple[str, ...]:
    """Return the column names of a CSV or Parquet file; no row is read.

    Raises
    ------
    InputError
        If there is no such file, its format is not supported, or names are empty or repeated.
    """
    names = _csv_names(path) if _format(path) == "csv" else _parquet_names(path)
    if not all(name.strip() for name in names):
        raise InputError(f"{path}: a column has no name. Name every column in the first line")
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path}: two columns are named {repeated!r}. Rename one of them")
    return names


def pick_features(
    names: Sequence[str], target: str, features: Sequence[str] | None, always: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the columns to choose from: those the user named, or all but the target.

    >>> pick_features(["a", "y", "b"], "y", None)
    ('a', 'b')
    """
    known = set(names)
    if target not in known:
        raise InputError(f"the target {target!r} is not a column of the table")
    for name in [*(features or ()), *always]:
        if name not in known:
            raise InputError(f"{name!r} is not a column of the table")
        if name == target:
            raise InputError(
                f"the target {target!r} is among the features; a column cannot explain itself. "
                "Leave it out"
            )
    chosen = tuple(name for name in names if name != target) if features is None else features
    if not chosen:
        raise InputError("no column is left to choose from: the table needs one beside the target")
    distinct = set(chosen)
    if len(distinct) < len(chosen):
        raise InputError("a feature is named twice; name each once")
    for name in always:
        if name not in distinct:
            raise InputError(f"{name!r} is always included, but is not among the features")
    return tuple(chosen)


def read_table(path: Path, target: str, features: Sequence[str] | None = None) -> Table:
    """Read the target and the features (all other columns, if None) of a CSV or Parquet file.

    Raises
    ------
    InputError
        For anything wrong with the file; the text holds no value of the table.
    """
    names = read_names(path)
    chosen = pick_features(names, target, features)
    wanted = [*chosen, target]
    read = _read_csv if _format(path) == "csv" else _read_parquet
    frame = read(path, names, wanted)
    matrix = polars_matrix(frame.select(chosen))
    vector = polars_matrix(frame.select(target))[:, 0].astype(np.float64)
    del frame
    rows = max(1, _HEAD_BYTES // len(chosen))
    blocks = (matrix[i : i + rows] for i in range(0, len(matrix), rows))
    if not (np.isfinite(vector).all() and all(np.isfinite(block).all() for block in blocks)):
        raise InputError(
            f"{path}: the table {MISSING}. Empty lines and lines with too few fields count as "
            "missing values"
        )
    return Table(chosen, matrix, vector, target)


def _format(path: Path) -> str:
    if path.is_dir():
        raise InputError(f"{path} is a folder. Name a CSV or Parquet file")
    if not path.exists():
        raise InputError(f"{path}: no such file")
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet", ".pq"):
        raise InputError(
            f"{path}: files ending in {kind or 'nothing'!r} are not supported; the name must end "
            f"in .csv or .parquet. {_ADVICE}"
        )
    return "csv" if kind == ".csv" else "parquet"


def _csv_names(path: Path) -> tuple[str, ...]:
    """Parse the first line by itself; the reading library would rename repeated columns."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            if b"\0" in head:
                raise InputError(f"{path}: this is not a text file. {_ADVICE}")
            file.seek(0)
            line = file.readline().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: the first line is not UTF-8 text. {_ADVICE}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if not head:
        raise InputError(f"{path} is empty. {_ADVICE}")
    try:
        names = next(csv.reader([line], strict=True), [])
    except csv.Error:
        raise InputError(f"{path}: the first line has an open quote. {_ADVICE}") from None
    if not any(name.strip() for name in names):
        raise InputError(f"{path}: the first line is empty. {_ADVICE}")
    if all(_is_number(name) for name in names):
        # Without this a row of the table would be taken, and shown, as names.
        raise InputError(f"{path}: the first line holds numbers, not column names. {_ADVICE}")
    return tuple(names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return not text.strip()
    return True


def _parquet_names(path: Path) -> tuple[str, ...]:
    try:
        schema = _quietly(lambda: _opened(path, pl.read_parquet_schema))
    except pl.exceptions.DuplicateError:
        raise InputError(f"{path}: two columns have the same name. Rename one of them") from None
    if schema is None:
        raise InputError(f"{path} is not a readable Parquet file. {_ADVICE}")
    if not schema:
        raise InputError(f"{path} has no columns. {_ADVICE}")
    return tuple(schema)


def _read_parquet(path: Path, names: Sequence[str], wanted: Sequence[str]) -> pl.DataFrame:
    frame = _quietly(lambda: _opened(path, pl.read_parquet, columns=list(wanted)))
    if frame is None:
        raise InputError(f"{path} is not a readable Parquet file: its contents are damaged")
    return frame


def _read_csv(path: Path, names: Sequence[str], wanted: Sequence[str]) -> pl.DataFrame:
    """Read the wanted columns as numbers; those that resist are read as text and looked at."""
    numeric = set(wanted)
    schema: dict[str, Any] = {name: pl.Float64 if name in numeric else pl.String for name in names}
    frame = _quietly(lambda: _parse(path, schema))
    if frame is None:
        everything = dict.fromkeys(names, pl.String)
        frame = _quietly(lambda: _parse(path, everything, null_values=_MISSING_WORDS))
        _check_lines(path, len(names))
        if frame is None:
            raise InputError(f"{path} cannot be read as CSV. {_ADVICE}")
        frame = frame.select(_numbers(frame[name], path) for name in wanted)
    elif names[-1] not in wanted and frame[names[-1]].null_count():
        # A line that is too short leaves the last column empty; that column is not looked at later.
        _check_lines(path, len(names))
    return frame.select(wanted)


def _parse(path: Path, schema: dict[str, Any], **options: Any) -> pl.DataFrame:
    return _opened(path, pl.read_csv, has_header=False, skip_rows=1, schema=schema, **options)


def _opened(path: Path, read: Callable[..., T], **options: Any) -> T:
    """Read by path, or, where its name is not valid text, by an open file."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        with path.open("rb") as file:
            return read(file, **options)
    return read(path, **options)


def _numbers(column: pl.Series, path: Path) -> pl.Series:
    """Turn a column of text into numbers, reading true and false as 1 and 0."""
    text = column.str.strip_chars().str.to_lowercase()
    switched = text.replace({"true": "1", "false": "0", "": None})
    numbers = switched.cast(pl.Float64, strict=False)
    if numbers.null_count() > switched.null_count():
        raise InputError(
            f"{path}: column {column.name!r} holds text. Encode it as numbers, or name the columns "
            "to use with --features"
        )
    return numbers


def _check_lines(path: Path, n_columns: int) -> None:
    """Say what is wrong with the lines of a file, without saying where."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lengths = {len(row) for row in csv.reader(file, strict=True)}
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text. {_ADVICE}") from None
    except csv.Error:
        raise InputError(
            f"{path}: quotes are open or out of place, or a field is too long"
        ) from None
    if lengths - {n_columns}:
        raise InputError(
            f"{path}: the lines are ragged: some are empty, or have more or fewer than the "
            f"{n_columns} fields of the first line"
        )


def _quietly(read: Callable[[], T]) -> T | None:
    """Run a reader of the library; None for any failure whose text may quote the table."""
    try:
        return read()
    except pl.exceptions.DuplicateError:
        raise
    except (pl.exceptions.PolarsError, OSError, ValueError, OverflowError):
        return None
    except pl.exceptions.PanicException:
        return None
