"""A cell means the same whatever type a library has given its column for the sake of other rows."""

from __future__ import annotations

import io
from contextlib import suppress
from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpsubset.data.category import Category
from dpsubset.data.cells import cells_of
from dpsubset.data.columns import Column
from dpsubset.data.dates import Dates

YEAR = {"first": datetime(2020, 1, 1), "last": datetime(2020, 12, 31)}
OTHERS = ["", "x", "1.5", "2020-02-03", "inf"]


def as_read(text: str, **options: Any) -> list[Any]:
    """Return the column of a CSV file as different libraries read it."""
    found = [pd.read_csv(io.StringIO(text), **options)["d"]]
    for given in ({}, {"try_parse_dates": True}, {"infer_schema": False}):
        with suppress(pl.exceptions.ComputeError):  # a guess of polars that does not hold
            found.append(pl.read_csv(io.StringIO(text), infer_schema_length=None, **given)["d"])
    assert len(found) >= 3
    return found


def codes(column: Column, cells: list[str], **options: Any) -> list[Any]:
    """Return how the first two cells are coded, by every library, with one more row or none."""
    found = []
    for more in ([], *([one] for one in OTHERS)):
        text = "d,e\n" + "".join(f"{cell},0\n" for cell in [*cells, *more])
        found += [column.code(cells_of(read))[: len(cells)] for read in as_read(text, **options)]
    return found


@pytest.mark.parametrize(
    ("formats", "cells", "options"),
    [
        (("%Y%m%d",), ["20200105", "20200701"], {}),
        (("%d%m%Y",), ["05012020", "01072020"], {}),
        (("%d.%m.%Y",), ["05.01.2020", "01.07.2020"], {}),
        (
            ("%d.%m.%Y",),
            ["05.01.2020", "01.07.2020"],
            {"parse_dates": ["d"], "date_format": "%d.%m.%Y"},
        ),
        ((), ["2020-01-05", "2020-07-01"], {}),
        ((), ["2020-01-05", "2020-07-01"], {"parse_dates": ["d"], "date_format": "ISO8601"}),
    ],
    ids=str,
)
def test_dates(formats: tuple[str, ...], cells: list[str], options: dict[str, Any]) -> None:
    column = Dates(**YEAR, formats=formats)
    found = codes(column, cells, **options)
    days = np.array([[4.0], [182.0]]) / 365 * 2 - 1
    for one in found:
        np.testing.assert_allclose(one, days)


def test_days_before_months_are_not_taken_for_iso() -> None:
    column = Dates(**YEAR, formats=("%Y-%d-%m",))
    expected = column.code(pl.Series(["2020-01-05"]))  # the first of May
    for cells in ([date(2020, 5, 1)], np.array(["2020-05-01"], dtype="M8[D]")):
        np.testing.assert_allclose(column.code(cells_of(cells)), expected)


@pytest.mark.parametrize("levels", [("2020-01-05", "2020-07-01"), ("10:00:00", "11:30:00")])
@pytest.mark.parametrize("parsed", [False, True])
def test_levels(levels: tuple[str, str], parsed: bool) -> None:
    options = (
        {"parse_dates": ["d"], "date_format": "ISO8601"} if parsed and "-" in levels[0] else {}
    )
    for one in codes(Category(levels=levels), list(levels), **options):
        np.testing.assert_array_equal(one, [[-1.0], [1.0]])


def test_a_date_that_is_none_is_missing() -> None:
    column = Category(levels=("a", "b"), missing="level")
    gone = column.code(pl.Series([None], dtype=pl.String))
    cells = np.array([np.datetime64("NaT")], dtype=object)
    np.testing.assert_array_equal(column.code(cells_of(cells)), gone)
