"""Tables from CSV and Parquet files.

No message holds a value of the table: texts of the reading library may quote one, so they are
never passed on. Column names and the names a user typed are shown.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpsubset.errors import InputError
from dpsubset.estimators.inputs import MISSING, polars_matrix
from dpsubset.tables.names import ADVICE, file_format, opened, pick_features, quietly, read_names

__all__ = ["Table", "read_table"]

_MISSING_WORDS = ["NA", "N/A", "na", "n/a", "NULL", "null", "None", "none", "-", "?", "."]
_BLOCK_ENTRIES = 1 << 16


@dataclass(frozen=True, eq=False)
class Table:
    """The columns to choose from, and the target."""

    names: tuple[str, ...]
    X: NDArray[np.floating]
    y: NDArray[np.float64]
    target: str


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
    read = _read_csv if file_format(path) == "csv" else _read_parquet
    frame = read(path, names, wanted)
    matrix = polars_matrix(frame.select(chosen))
    vector = polars_matrix(frame.select(target))[:, 0].astype(np.float64)
    del frame
    rows = max(1, _BLOCK_ENTRIES // len(chosen))
    blocks = (matrix[i : i + rows] for i in range(0, len(matrix), rows))
    if not (np.isfinite(vector).all() and all(np.isfinite(block).all() for block in blocks)):
        raise InputError(
            f"{path}: the table {MISSING}. Empty lines and lines with too few fields count as "
            "missing values"
        )
    return Table(chosen, matrix, vector, target)


def _read_parquet(path: Path, names: Sequence[str], wanted: Sequence[str]) -> pl.DataFrame:
    frame = quietly(lambda: opened(path, pl.read_parquet, columns=list(wanted)))
    if frame is None:
        raise InputError(f"{path} is not a readable Parquet file: its contents are damaged")
    return frame


def _read_csv(path: Path, names: Sequence[str], wanted: Sequence[str]) -> pl.DataFrame:
    """Read the wanted columns as numbers; those that resist are read as text and looked at."""
    numeric = set(wanted)
    schema: dict[str, Any] = {name: pl.Float64 if name in numeric else pl.String for name in names}
    frame = quietly(lambda: _parse(path, schema))
    if frame is None:
        everything = dict.fromkeys(names, pl.String)
        frame = quietly(lambda: _parse(path, everything, null_values=_MISSING_WORDS))
        _check_lines(path, len(names))
        if frame is None:
            raise InputError(f"{path} cannot be read as CSV. {ADVICE}")
        frame = frame.select(_numbers(frame[name], path) for name in wanted)
    elif names[-1] not in wanted and frame[names[-1]].null_count():
        # A line that is too short leaves the last column empty; that column is not looked at later.
        _check_lines(path, len(names))
    return frame.select(wanted)


def _parse(path: Path, schema: dict[str, Any], **options: Any) -> pl.DataFrame:
    return opened(path, pl.read_csv, has_header=False, skip_rows=1, schema=schema, **options)


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
        raise InputError(f"{path} is not UTF-8 text. {ADVICE}") from None
    except csv.Error:
        raise InputError(
            f"{path}: quotes are open or out of place, or a field is too long"
        ) from None
    if lengths - {n_columns}:
        raise InputError(
            f"{path}: the lines are ragged: some are empty, or have more or fewer than the "
            f"{n_columns} fields of the first line"
        )
