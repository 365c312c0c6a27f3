"""Tables from CSV and Parquet files.

No message holds a value of the table: texts of the reading library may quote one, so they are
never passed on. Column names and the names a user typed are shown.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpsubset.data.classes import as_numbers, is_missing, read_labels
from dpsubset.data.frames import MISSING, EntryError, Table, frame_matrix
from dpsubset.data.lines import mended
from dpsubset.data.names import ADVICE, file_format, opened, pick_features, quietly, read_names
from dpsubset.data.target import OR_LABELS
from dpsubset.errors import InputError, at_once, without_context
from dpsubset.labels import Labels

__all__ = ["read_cells", "read_columns", "read_table"]

_BLOCK_ENTRIES = 1 << 16
_LEAVE_OUT = "or name the columns to use with --features"


def read_table(
    path: Path,
    target: str,
    features: Sequence[str] | None = None,
    *,
    labels: bool = False,
    classes: tuple[str, str] | None = None,
) -> Table:
    """Read the target and the features (all other columns, if None) of a CSV or Parquet file.

    With `labels` the target holds two classes, named by `classes` or read off the column, and
    becomes -1 and +1.

    Parameters
    ----------
    path : Path
        The file.
    target : str
        The target's name.
    features : sequence of str, optional
        The columns to choose from.
    labels : bool
        Whether the target holds two classes.
    classes : pair of str, optional
        The classes, as public knowledge.

    Returns
    -------
    Table
        Columns and target.

    Raises
    ------
    InputError
        For anything wrong with the file; the text holds no value of the table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "table.csv"
    >>> _ = path.write_text('age,cost\\n30,1\\n40,2\\n')
    >>> read_table(path, "cost").y.tolist()
    [1.0, 2.0]
    >>> folder.cleanup()
    """
    names = read_names(path)
    chosen = pick_features(names, target, features)
    advice = dict.fromkeys(chosen, _LEAVE_OUT) | {target: OR_LABELS}
    frame = _read_frame(path, names, advice, text={target} if labels else set())
    matrix = frame_matrix(_only(frame, chosen))
    vector = read_labels(frame[target], classes, path) if labels else _numbers_of(frame, target)
    del frame
    missing = vector is None or not (isinstance(vector, Labels) or np.isfinite(vector).all())
    if vector is None or missing or not _is_finite(matrix):
        word = ". A word such as NA or none is missing, too, unless --classes names it"
        raise _missing(path, word if labels else "")
    return Table(matrix, vector)


def read_cells(path: Path, wanted: Sequence[str], *, line_breaks: bool = False) -> pl.DataFrame:
    """Read columns as they are, for a schema to say what the cells mean: of a CSV file, text.

    Nothing fails because of what a row holds: fields that a line lacks are missing, those it has
    too many are left out, a quote that is left open ends with its line, and bytes that are no
    text are replaced. So a line that changes changes its own row only.

    Parameters
    ----------
    path : Path
        The file.
    wanted : sequence of str
        The columns.
    line_breaks : bool
        Whether texts in quotes may hold line breaks. A quote that is left open then goes on.

    Returns
    -------
    polars.DataFrame
        Their cells.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "table.csv"
    >>> _ = path.write_text('age,cost\\n30,1\\n40,2\\n')
    >>> read_cells(path, ["cost"])["cost"].to_list()
    ['1', '2']
    >>> folder.cleanup()
    """
    names = read_names(path)
    lacking = [repr(name) for name in wanted if name not in names]
    if lacking:
        word = "column" if len(lacking) == 1 else "columns"
        raise InputError(f"{path} has no {word} {', '.join(lacking)}")
    wanted = wanted or names[:1]  # a model of nothing but its intercept asks for the rows' number
    if file_format(path) != "csv":
        return _read_parquet(path, wanted)
    schema = dict.fromkeys(names, pl.String)
    rows = mended(path, len(names), spanning=line_breaks)
    frame = quietly(lambda: _parse(path if rows is None else rows, schema, encoding="utf8-lossy"))
    if frame is None:
        raise InputError(f"{path} cannot be read as CSV. {ADVICE}")
    return _only(frame, wanted)


def read_columns(path: Path, columns: Sequence[str]) -> NDArray[np.floating]:
    """Read some columns of a CSV or Parquet file, all numbers, in the order asked for.

    Parameters
    ----------
    path : Path
        The file.
    columns : sequence of str
        The columns.

    Returns
    -------
    array of shape (n, p)
        Their numbers.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "table.csv"
    >>> _ = path.write_text('age,cost\\n30,1\\n40,2\\n')
    >>> read_columns(path, ["cost"]).ravel().tolist()
    [1.0, 2.0]
    >>> folder.cleanup()
    """
    names = read_names(path)
    lacking = [repr(name) for name in columns if name not in names]
    if lacking:
        word = "column" if len(lacking) == 1 else "columns"
        raise InputError(f"{path} has no {word} {', '.join(lacking)}, which the model needs")
    if not columns:  # a model of nothing but its intercept needs to know how many rows there are
        return np.empty((_read_frame(path, names, {names[0]: ""}, names[:1]).height, 0))
    frame = _read_frame(path, names, dict.fromkeys(columns, "as in the table of the fit"))
    matrix = frame_matrix(_only(frame, columns))
    if not _is_finite(matrix):
        raise _missing(path)
    return matrix


def _only(frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Return some columns by their names, which polars would read as patterns (`*`, `^a.*$`)."""
    return pl.DataFrame([frame.get_column(name) for name in names])


def _missing(path: Path, more: str = "") -> InputError:
    return InputError(
        f"{path}: the table {MISSING}. Empty lines and lines with too few fields count as missing "
        f"values{more}"
    )


def _read_frame(
    path: Path, names: Sequence[str], advice: Mapping[str, str], text: Collection[str] = ()
) -> pl.DataFrame:
    """Read the columns that `advice` names; it says what to do about one that holds text."""
    if file_format(path) == "csv":
        return _read_csv(path, names, advice, text)
    return _read_parquet(path, list(advice))


@without_context
def _numbers_of(frame: pl.DataFrame, target: str) -> NDArray[np.float64]:
    try:
        return frame_matrix(_only(frame, [target]))[:, 0].astype(np.float64)
    except EntryError as error:
        raise InputError(f"{error}, {OR_LABELS}") from None


def _is_finite(matrix: NDArray[np.floating]) -> bool:
    """Look block by block, to make no large copy."""
    rows = max(1, _BLOCK_ENTRIES // max(1, matrix.shape[1]))
    return all(np.isfinite(matrix[i : i + rows]).all() for i in range(0, len(matrix), rows))


def _read_parquet(path: Path, wanted: Sequence[str]) -> pl.DataFrame:
    # A name that polars would take for a pattern is not asked for by name.
    plain = not any("*" in name or name.startswith("^") for name in wanted)
    columns = list(wanted) if plain else None
    frame = quietly(lambda: opened(path, pl.read_parquet, columns=columns))
    if frame is None:
        raise InputError(f"{path} is not a readable Parquet file: its contents are damaged")
    return _only(frame, wanted)


def _read_csv(
    path: Path, names: Sequence[str], advice: Mapping[str, str], text: Collection[str]
) -> pl.DataFrame:
    """Read the wanted columns as numbers; those that resist are read as text and looked at."""
    wanted = list(advice)
    numeric = set(wanted) - set(text)
    schema: dict[str, Any] = {name: pl.Float64 if name in numeric else pl.String for name in names}
    frame = quietly(lambda: _parse(path, schema))
    if frame is None:
        frame = quietly(lambda: _parse(path, dict.fromkeys(names, pl.String)))
        _check_lines(path, len(names))
        if frame is None:
            raise InputError(f"{path} cannot be read as CSV. {ADVICE}")
        resisting = [frame[name] for name in wanted if name in numeric]
        frame = frame.with_columns(
            at_once(*(partial(_numbers, c, path, advice[c.name]) for c in resisting))
        )
    elif names[-1] not in wanted and frame[names[-1]].null_count():
        # A line that is too short leaves the last column empty; that column is not looked at later.
        _check_lines(path, len(names))
    return _only(frame, wanted)


def _parse(source: Path | BytesIO, schema: Mapping[str, Any], **options: Any) -> pl.DataFrame:
    options |= {"has_header": False, "skip_rows": 1, "schema": schema}
    if isinstance(source, BytesIO):
        return pl.read_csv(source, **options)
    return opened(source, pl.read_csv, **options)


def _numbers(column: pl.Series, path: Path, advice: str) -> pl.Series:
    """Turn a column of text into numbers, reading true and false as 1 and 0."""
    numbers = as_numbers(column)
    if (numbers.is_null() & ~is_missing(column)).any():
        raise InputError(
            f"{path}: column {column.name!r} holds text. Encode it as numbers, {advice}"
        )
    return numbers


@without_context
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
