"""The column names of CSV and Parquet files, read without a row of the table."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from dpsubset.errors import InputError, without_context

__all__ = [
    "ADVICE",
    "file_format",
    "looks_headless",
    "opened",
    "pick_features",
    "quietly",
    "read_names",
    "read_types",
]

ADVICE = "Write the table as CSV (commas, UTF-8, column names in the first line) or Parquet"

T = TypeVar("T")


def read_names(path: Path) -> tuple[str, ...]:
    """Return the column names of a CSV or Parquet file; no row is read.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    tuple of str
        The names.

    Raises
    ------
    InputError
        If there is no such file, its format is not supported, or names are empty or repeated.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "table.csv"
    >>> _ = path.write_text('age,cost\\n30,1\\n40,2\\n')
    >>> read_names(path)
    ('age', 'cost')
    >>> folder.cleanup()
    """
    names = _csv_names(path) if file_format(path) == "csv" else _parquet_names(path)
    if not all(name.strip() for name in names):
        raise InputError(f"{path}: a column has no name. Name every column in the first line")
    if len(set(names)) < len(names):
        if looks_headless(names):  # the repeated name may be an entry of the table
            raise InputError(
                f"{path}: two columns have the same name, and some names are numbers. Is the first "
                f"line really a header? {ADVICE}"
            )
        repeated = Counter(names).most_common(1)[0][0]
        raise InputError(f"{path}: two columns are named {repeated!r}. Rename one of them")
    return names


def read_types(path: Path) -> dict[str, Any]:
    """Return the types that a Parquet file declares for its columns; a CSV file declares none.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict of str to type
        The types, by column.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "table.csv"
    >>> _ = path.write_text('age,cost\\n30,1\\n40,2\\n')
    >>> read_types(path)  # a CSV file declares none
    {}
    >>> folder.cleanup()
    """
    read_names(path)
    if file_format(path) == "csv":
        return {}
    return dict(quietly(lambda: opened(path, pl.read_parquet_schema)) or {})


def looks_headless(names: Iterable[str]) -> bool:
    """Say whether names are numbers, as in a file whose first line is a row of the table.

    Parameters
    ----------
    names : iterable of str
        The first line of a file.

    Returns
    -------
    bool
        Whether all of them are numbers.

    Examples
    --------
    >>> looks_headless(["age", "2024"]), looks_headless(["age", "y"])
    (True, False)
    """
    return any(map(_is_number, names))


def pick_features(
    names: Sequence[str],
    target: str,
    features: Sequence[str] | None,
    always: Sequence[str] = (),
    never: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the columns to choose from: those the user named, or all but the target.

    Parameters
    ----------
    names : sequence of str
        All columns.
    target : str
        The target.
    features : sequence of str or None
        What the user named.
    always : sequence of str
        Columns that are always included.
    never : sequence of str
        Columns that never are.

    Returns
    -------
    tuple of str
        The columns to choose from.

    Examples
    --------
    >>> pick_features(["a", "y", "b"], "y", None)
    ('a', 'b')
    """
    known = set(names)
    if target not in known:
        raise _unknown(f"the target {target!r}", target, names)
    for name in [*(features or ()), *always, *never]:
        if name not in known:
            raise _unknown(repr(name), name, names)
        if name == target:
            raise InputError(
                f"the target {target!r} is among the features; a column cannot explain itself. "
                "Leave it out"
            )
    chosen = tuple(name for name in names if name != target) if features is None else features
    if not chosen:
        raise InputError("no column is left to choose from: the table needs one besides the target")
    distinct = set(chosen)
    if len(distinct) < len(chosen):
        raise InputError("a feature is named twice; name each once")
    for name in (*always, *never):
        if name not in distinct:
            word = "always included" if name in always else "excluded"
            raise InputError(f"{name!r} is {word}, but is not among the features")
    return tuple(chosen)


def _unknown(what: str, wanted: str, names: Iterable[str]) -> InputError:
    close = next((name for name in names if name.strip() == wanted.strip()), None)
    hint = "" if close is None else f". There is {close!r}: names are taken with their blanks"
    return InputError(f"{what} is not a column of the table{hint}")


def file_format(path: Path) -> str:
    """Return "csv" or "parquet", by the ending of the name."""
    if path.is_dir():
        raise InputError(f"{path} is a folder. Name a CSV or Parquet file")
    if not path.exists():
        raise InputError(f"{path}: no such file")
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet", ".pq"):
        raise InputError(
            f"{path}: files ending in {kind or 'nothing'!r} are not supported; the name must end "
            f"in .csv or .parquet. {ADVICE}"
        )
    return "csv" if kind == ".csv" else "parquet"


@without_context
def _csv_names(path: Path) -> tuple[str, ...]:
    """Parse the first line by itself; the reading library would rename repeated columns."""
    try:
        with path.open("rb") as file:
            head = file.readline()
            if b"\0" in head:
                raise InputError(f"{path}: this is not a text file. {ADVICE}")
            line = head.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: the first line is not UTF-8 text. {ADVICE}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if not head:
        raise InputError(f"{path} is empty. {ADVICE}")
    try:
        names = next(csv.reader([line], strict=True), [])
    except csv.Error:
        why = "the first line has an open quote"
        if "\r" in line.rstrip("\r\n"):
            why = "the lines end in a carriage return alone, an old convention"
        raise InputError(f"{path}: {why}. {ADVICE}") from None
    if not any(name.strip() for name in names):
        raise InputError(f"{path}: the first line is empty. {ADVICE}")
    found = [mark for mark in (";", "\t") if mark in names[0]] if len(names) == 1 else []
    if found:
        raise InputError(f"{path}: the fields seem to be separated by {found[0]!r}. {ADVICE}")
    if all(_is_number(name) for name in names):
        # Without this a row of the table would be taken, and shown, as names.
        raise InputError(f"{path}: the first line holds numbers, not column names. {ADVICE}")
    return tuple(names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return not text.strip()
    return True


@without_context
def _parquet_names(path: Path) -> tuple[str, ...]:
    try:
        schema = quietly(lambda: opened(path, pl.read_parquet_schema))
    except pl.exceptions.DuplicateError:
        raise InputError(f"{path}: two columns have the same name. Rename one of them") from None
    if schema is None:
        raise InputError(f"{path} is not a readable Parquet file. {ADVICE}")
    if not schema:
        raise InputError(f"{path} has no columns. {ADVICE}")
    return tuple(schema)


def opened(path: Path, read: Callable[..., T], **options: Any) -> T:
    """Read by path, or, where its name is not valid text, by an open file."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        with path.open("rb") as file:
            return read(file, **options)
    return read(path, **options)


def quietly(read: Callable[[], T]) -> T | None:
    """Run a reader of the library; None for any failure whose text may quote the table."""
    try:
        return read()
    except pl.exceptions.DuplicateError:
        raise
    except (pl.exceptions.PolarsError, OSError, ValueError, OverflowError):
        return None
    except pl.exceptions.PanicException:
        return None
