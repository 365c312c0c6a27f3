"""A table is read as its rows one by one are, in every container: the heart of T33."""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsubset import Schema
from dpsubset.data.columns import OneNumber
from dpsubset.data.files import read_cells
from dpsubset.data.frames import Table
from dpsubset.estimators.schemas import with_names

LINES: dict[str, Any] = {
    "code": {"levels": [1, 2], "missing": 2},
    "sex": ["f", "m"],
    "age": {"bounds": [0, 99], "missing": 40},
    "smoker": "0/1",
    "visit": {"dates": ["2020-01-01", "2021-01-01"]},
}
SCHEMA = Schema.from_dict({"columns": LINES, "target": {"bounds": [0, 1]}})
NAMES = [*LINES]

CELLS: tuple[Any, ...] = (
    *(0, 1, 2, 1.0, 2.5, -7, 10**20, 2**53 + 1, 1e300, float("inf"), float("nan"), None),
    *("1", "2.0", "f", "m", " m", "x", "", "NA", "yes", "2020-06-01", "true", "1e999"),
    *(True, False, date(2020, 6, 1)),
)
ROWS = st.lists(
    st.tuples(*[st.sampled_from(CELLS)] * len(NAMES), st.sampled_from((0, 1, 0.25, None, "x"))),
    min_size=1,
    max_size=5,
)


def frame_of(rows: list[tuple[Any, ...]]) -> Any:
    return pd.DataFrame([row[:-1] for row in rows], columns=NAMES)  # types as pandas finds them


def polars_of(rows: list[tuple[Any, ...]]) -> Any:
    columns = zip(*rows, strict=True)
    return pl.DataFrame(
        {n: pl.Series(list(c), strict=False) for n, c in zip(NAMES, columns, strict=False)}
        if _one_kind(rows)
        else {n: pl.Series(list(c), dtype=pl.Object) for n, c in zip(NAMES, columns, strict=False)}
    )


def _one_kind(rows: list[tuple[Any, ...]]) -> bool:
    """Say whether polars has one type for every column, without turning cells into others."""
    kinds = [{type(cell) for cell in c} - {type(None)} for c in zip(*rows, strict=True)]
    return all(len(kind) <= 1 for kind in kinds) and 10**20 not in (c for row in rows for c in row)


def array_of(rows: list[tuple[Any, ...]]) -> Any:
    out = np.empty((len(rows), len(NAMES)), dtype=object)
    out[:] = [list(row[:-1]) for row in rows]
    return out


CONTAINERS: dict[str, Callable[[list[tuple[Any, ...]]], Any]] = {
    "pandas": frame_of,
    "polars": polars_of,
    "array": array_of,
    "list": lambda rows: [list(row[:-1]) for row in rows],
}


def coded(make: Callable[[list[tuple[Any, ...]]], Any], rows: list[tuple[Any, ...]]) -> Any:
    target = [row[-1] for row in rows]
    read = SCHEMA.read(Table(with_names(make(rows), NAMES), target), 1.0, constant=True)
    return np.column_stack([read.design.take(np.arange(6)), read.target])


@pytest.mark.slow
@pytest.mark.parametrize("container", CONTAINERS)
@settings(max_examples=60, derandomize=True, deadline=None)
@given(rows=ROWS)
def test_a_table_is_its_rows(container: str, rows: list[tuple[Any, ...]]) -> None:
    make = CONTAINERS[container]
    together = coded(make, rows)
    np.testing.assert_array_equal(together, np.vstack([coded(make, [row]) for row in rows]))
    np.testing.assert_array_equal(together, coded(array_of, rows))  # and as in an array of cells


@settings(max_examples=30, derandomize=True, deadline=None)
@given(rows=ROWS)
def test_a_file_is_its_lines(rows: list[tuple[Any, ...]], tmp_path_factory: Any) -> None:
    folder: Path = tmp_path_factory.mktemp("lines")

    def written(some: list[tuple[Any, ...]]) -> Any:
        with (folder / "t.csv").open("w", newline="") as file:
            csv.writer(file).writerows([[*NAMES, "y"], *some])
        return read_cells(folder / "t.csv", NAMES)

    together = coded(written, rows)
    np.testing.assert_array_equal(together, np.vstack([coded(written, [row]) for row in rows]))


def test_a_type_for_a_whole_column_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: numbers are numbers only if all cells of their column are."""
    honest = OneNumber._filled

    def typed(self: Any, cells: pl.Series, clip: float) -> Any:
        numbers, marked = honest(self, cells, clip)
        whole = not np.isnan(self.numbers(cells)).any()
        return (numbers if whole else np.full_like(numbers, 0.0)), marked

    rows = [(1, "f", 30, 1, "2020-06-01", 1), (1, "f", "x", 1, "2020-06-01", 1)]
    monkeypatch.setattr(OneNumber, "_filled", typed)
    apart = np.vstack([coded(array_of, [row]) for row in rows])
    assert not np.array_equal(coded(array_of, rows), apart)
