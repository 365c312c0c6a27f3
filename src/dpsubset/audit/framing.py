"""Raw cells of text as data frames: as text, and as a library that infers types makes of them.

A library may make numbers or dates of a whole column, or not, because of one cell. What a schema
codes must not notice (T33).
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import polars as pl

from dpsubset.checks import one_of

__all__ = ["FRAMES", "available", "framed"]

Cells = Mapping[str, Sequence[str | None]]
_GONE = ["", "NA"]


def available() -> tuple[str, ...]:
    """Return the ways to frame cells for which there are libraries."""
    return tuple(name for name in FRAMES if name != "pandas" or find_spec("pandas"))


def framed(cells: Cells, frame: str = "text") -> Any:
    """Return columns of text as a data frame, its types inferred by a library or not.

    >>> framed({"a": ["1", "2"]}, "polars").dtypes, framed({"a": ["1", "x"]}, "polars").dtypes
    ([Float64], [String])
    """
    return FRAMES[one_of(frame, "frame", tuple(FRAMES))](cells)


def _text(cells: Cells) -> Any:
    return pl.DataFrame({name: pl.Series(c, dtype=pl.String) for name, c in cells.items()})


def _polars(cells: Cells) -> Any:
    """Return what polars makes of each column: numbers, truth values, dates or text."""
    return pl.DataFrame([_inferred(name, column) for name, column in cells.items()])


def _inferred(name: str, column: Sequence[str | None]) -> pl.Series:
    text = pl.Series(name, column, dtype=pl.String)
    kept = text.filter(text.is_not_null() & ~text.is_in(_GONE))
    if kept.is_empty():
        return pl.Series(name, [None] * len(text), dtype=pl.Null)
    there = text.set(text.is_in(_GONE).fill_null(False), None)
    for kind in (pl.Float64, pl.Date):
        read = (
            there.str.to_date("%Y-%m-%d", strict=False)
            if kind == pl.Date
            else there.cast(kind, strict=False)
        )
        if read.null_count() == there.null_count():
            return read
    if kept.is_in(["true", "false"]).all():
        return there.replace_strict({"true": True, "false": False}, default=None)
    return text


def _pandas(cells: Cells) -> Any:
    """Return what pandas reads of the same cells in a CSV file, dates among them if all are."""
    import pandas as pd

    lines = io.StringIO()
    pd.DataFrame({name: list(column) for name, column in cells.items()}).to_csv(lines, index=False)
    lines.seek(0)
    frame = pd.read_csv(lines, skip_blank_lines=False)
    for name in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[name]) and frame[name].notna().any():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read = pd.to_datetime(frame[name], format="%Y-%m-%d", errors="coerce")
            if read.notna().sum() == frame[name].notna().sum():
                frame[name] = read
    return frame


FRAMES: dict[str, Callable[[Cells], Any]] = {"text": _text, "polars": _polars, "pandas": _pandas}
