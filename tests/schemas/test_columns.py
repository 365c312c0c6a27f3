"""Codings of one column: norms, contrasts, and that a cell is read by itself (T33)."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsubset import Problem
from dpsubset.data.category import Category
from dpsubset.data.cells import GONE, OTHER, as_cells, cells_of, level_codes
from dpsubset.data.columns import Column, Number, Ordered, Truth
from dpsubset.data.dates import Dates
from dpsubset.data.files import read_cells

LEVELS = ("north", "a 'quoted' \"one\"", "two\nlines", "Ωμέγα", "7")
COLUMNS: dict[str, Column] = {
    "number": Number(lower=-2.0, upper=6.0),
    "number, filled": Number(lower=-2.0, upper=6.0, missing=5.0),
    "number, marked": Number(lower=-2.0, upper=6.0, missing="indicator"),
    "truth": Truth(),
    "truth, marked": Truth(missing="indicator"),
    "truth, filled": Truth(missing=1),
    "ordered": Ordered(levels=LEVELS),
    "ordered, filled": Ordered(levels=LEVELS, missing="7"),
    "ordered, marked": Ordered(levels=LEVELS, missing="indicator"),
    "dates": Dates(first=datetime(2020, 1, 1), last=datetime(2021, 1, 1)),
    "dates, marked": Dates(
        first=datetime(2020, 1, 1), last=datetime(2021, 1, 1), missing="indicator"
    ),
    "dates, filled": Dates(
        first=datetime(2020, 1, 1), last=datetime(2021, 1, 1), missing=datetime(2020, 3, 1)
    ),
    "category": Category(levels=LEVELS),
    "category of two": Category(levels=LEVELS[:2]),
    "category, missing a level": Category(levels=LEVELS, missing="level"),
    "category of two, missing a level": Category(levels=LEVELS[:2], missing="level"),
    "category, filled": Category(levels=LEVELS, missing="north"),
}
CELLS: list[Any] = [
    *LEVELS,
    *(
        " north ",
        "7.0",
        "north!",
        "",
        "NA",
        None,
        "nan",
        "inf",
        "-inf",
        "3.5",
        "1e999",
        "-0",
        "yes",
    ),
    *(
        "FALSE",
        "true",
        "2020-06-01",
        "2020-06-01T12:00:00",
        "01.06.2020",
        "2020-13-45",
        "\0",
        "x" * 99,
    ),
]
KINDS = pytest.mark.parametrize("name", COLUMNS)


def code(column: Column, cells: Any, clip: float = 1.0) -> np.ndarray:
    return column.code(cells_of(cells), clip)


@KINDS
def test_coded_rows_have_norm_one_at_most_whatever_a_cell_holds(name: str) -> None:
    column = COLUMNS[name]
    for clip in (1.0, 0.3):
        coded = code(column, CELLS, clip)
        assert coded.shape == (len(CELLS), column.width)
        assert np.isfinite(coded).all()
        assert np.linalg.norm(coded, axis=1).max() <= 1 + 4e-16


@pytest.mark.grid(every=17)
@KINDS
@settings(deadline=None, max_examples=30)
@given(texts=st.lists(st.text(max_size=8), max_size=4))
def test_any_text_is_coded_within_the_unit_ball(name: str, texts: list[str]) -> None:
    coded = code(COLUMNS[name], texts)
    assert np.isfinite(coded).all()
    assert (np.linalg.norm(coded, axis=1) <= 1 + 4e-16).all()


@pytest.mark.grid(every=4)
@KINDS
def test_a_cell_is_coded_alike_in_every_company(name: str) -> None:
    """Nothing about one cell depends on other rows: alone, or among others."""
    column = COLUMNS[name]
    together = code(column, CELLS)
    for place, cell in enumerate(CELLS):
        np.testing.assert_array_equal(code(column, [cell])[0], together[place])


@pytest.mark.parametrize("count", [2, 3, 7, 100])
def test_levels_are_corners_of_a_regular_simplex(count: int) -> None:
    column = Category(levels=tuple(f"l{j}" for j in range(count)))
    corners = code(column, list(column.levels))
    np.testing.assert_allclose(np.linalg.norm(corners, axis=1), 1.0, rtol=1e-15)
    np.testing.assert_allclose(corners.sum(axis=0), 0.0, atol=1e-13)
    apart = np.linalg.norm(corners[:, None] - corners[None], axis=2)
    expected = math.sqrt(2 * count / (count - 1)) * (1 - np.eye(count))
    np.testing.assert_allclose(apart, expected, atol=1e-13)


def test_two_levels_are_the_same_as_one_column_of_signs() -> None:
    """The simplex of two levels has one direction: inner products are those of -1 and +1."""
    simplex = math.sqrt(2.0) * (np.eye(2) - 0.5)
    signs = code(Category(levels=("a", "b")), ["a", "b"])
    np.testing.assert_allclose(simplex @ simplex.T, signs @ signs.T, atol=1e-15)


def test_an_unknown_level_and_a_missing_one_are_the_middle_or_what_is_said() -> None:
    cells = ["north", "nowhere", None]
    plain, filled, level = (
        code(Category(levels=LEVELS, missing=how), cells) for how in (None, "7", "level")
    )
    assert not plain[1:].any()
    assert not filled[1].any()
    np.testing.assert_array_equal(filled[2], code(Category(levels=LEVELS), ["7"])[0])
    assert not level[1].any()
    missing = Category(levels=LEVELS, missing="level").corners[len(LEVELS)]
    np.testing.assert_array_equal(level[2], missing)
    assert missing.any()


def test_a_missing_number_is_the_middle_a_value_or_a_column_of_its_own() -> None:
    cells = [1.0, math.nan, math.inf]
    for how, expected in ((None, [-0.25, 0, 1]), (6.0, [-0.25, 1, 1])):
        column = Number(lower=-2.0, upper=6.0, missing=how)
        np.testing.assert_array_equal(code(column, cells).ravel(), expected)
    marked = code(Number(lower=-2.0, upper=6.0, missing="indicator"), cells)
    np.testing.assert_array_equal(marked, [[-0.25, 0], [0, 1], [1, 0]])


@KINDS
def test_effects_predict_what_the_coded_columns_give(name: str) -> None:
    """Coefficients in the owner's values give the prediction of the coded row."""
    column, rng = COLUMNS[name], np.random.default_rng(0)
    for clip in (1.0, 0.5):
        weights = rng.normal(size=column.width)
        effects, shift = column.effects(weights, clip)
        assert len(effects) == len(column.labels)
        told = column.predicted(cells_of(CELLS), effects, clip) + shift
        np.testing.assert_allclose(told, code(column, CELLS, clip) @ weights, atol=1e-12)


def test_effects_of_a_category_add_up_to_zero() -> None:
    column = COLUMNS["category, missing a level"]
    effects, _ = column.effects(np.arange(5.0))
    assert abs(effects.sum()) < 1e-13


# Containers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cells",
    [
        [1, 2, 3],
        [1.0, 2.0, 3.0],
        ["1", "2.0", " 3 "],
        [1, "2", 3.0],
        pd.Series([1, 2, 3]),
        pd.Series([1, 2, 3], dtype="Int64"),
        pd.Series([1, 2, 3], dtype="category"),
        pd.Series(["1", "2", "3"], dtype="category"),
        pd.Series(["1", "2", "3"]),
        pd.Series([1, "2", 3.0], dtype=object),
        pl.Series([1, 2, 3]),
        pl.Series([1, 2, 3], dtype=pl.Float32),
        pl.Series(["1", "2", "3"], dtype=pl.Categorical),
        pl.Series(["1", "2", "3"], dtype=pl.Enum(["3", "2", "1"])),
        pa.chunked_array([[1, 2], [3]]),
        pa.chunked_array([pa.array(["1", "2", "3"]).dictionary_encode()]),
        np.array([1, 2, 3], dtype=np.int8),
        np.array(["1", "2", "3"]),
        np.ma.MaskedArray([1, 2, 3], mask=[False] * 3),
    ],
    ids=lambda c: f"{type(c).__module__.split('.')[0]} {getattr(c, 'dtype', type(c).__name__)}",
)
def test_levels_are_found_in_every_container(cells: Any) -> None:
    assert level_codes(cells_of(cells), ["3", "1", "2"]).tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    "cells",
    [
        [True, False, None],
        pd.Series([True, False, None]),
        pd.Series([True, False, None], dtype="boolean"),
        pl.Series([True, False, None]),
        pa.chunked_array([[True, False, None]]),
        ["TRUE", "no", "?"],
        [1, 0.0, math.nan],
        np.ma.MaskedArray([1, 0, 5], mask=[False, False, True]),
    ],
    ids=str,
)
def test_truth_values_are_read_in_every_container(cells: Any) -> None:
    np.testing.assert_array_equal(code(Truth(), cells).ravel(), [1, -1, 0])


@pytest.mark.parametrize(
    "cells",
    [
        [date(2020, 1, 2), datetime(2020, 1, 3, 12), None],
        ["2020-01-02", "2020-01-03T12:00", "soon"],
        ["2020-01-02T02:00:00+02:00", "2020-01-03 12:00:00", ""],
        pd.Series(pd.to_datetime(["2020-01-02 00:00", "2020-01-03 12:00", None])),
        pd.Series(pd.to_datetime(["2020-01-02 00:00", "2020-01-03 12:00", None])).dt.tz_localize(
            "UTC"
        ),
        pl.Series([datetime(2020, 1, 2), datetime(2020, 1, 3, 12), None]),
        pl.Series(["2020-01-02", "2020-01-03 12:00", "x"], dtype=pl.Categorical),
        np.array(["2020-01-02", "2020-01-03T12", "NaT"], dtype="M8[h]"),
    ],
    ids=lambda c: f"{type(c).__module__.split('.')[0]} {getattr(c, 'dtype', '')}",
)
def test_dates_are_read_in_every_container(cells: Any) -> None:
    column = Dates(first=datetime(2020, 1, 1), last=datetime(2020, 1, 5))
    np.testing.assert_allclose(code(column, cells).ravel(), [-0.5, 0.25, 0])


def test_dates_in_named_formats_and_iso_and_no_others() -> None:
    column = Dates(
        first=datetime(2020, 1, 1), last=datetime(2020, 1, 5), formats=("%d.%m.%Y", "%m/%d/%Y")
    )
    cells = ["02.01.2020", "01/02/2020", "2020-01-02", "2 January"]
    np.testing.assert_array_equal(column.there(cells_of(cells)), [True, True, True, False])
    np.testing.assert_allclose(code(column, cells[:3]).ravel(), [-0.5, -0.5, -0.5])


def test_one_cell_of_another_type_changes_no_other() -> None:
    """pandas makes floats of whole numbers, or objects of numbers, because of one cell."""
    column = Category(levels=("1", "2", "9007199254740993"))
    cells = [1, 2, 9007199254740993]
    expected = code(column, cells)
    strange = (b"bytes", object(), 1 + 2j, Decimal("sNaN"), Decimal("1e999"), "\ud800", [1], {})
    for odd in (None, 2.5, "text", True, math.nan, 10**400, np.datetime64("2020"), *strange):
        for made in (list, pd.Series, lambda c: pd.Series(c, dtype=object)):
            np.testing.assert_array_equal(code(column, made([*cells, odd]))[:3], expected)


def test_an_array_of_objects_and_a_frame_are_read_alike() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    first, names = as_cells(frame)
    second, none = as_cells(frame.to_numpy(dtype=object))
    assert names == ("a", "b")
    assert none is None
    for one, other in zip(first, second, strict=True):
        assert one.cast(pl.String).to_list() == other.cast(pl.String).to_list()


def test_levels_survive_a_file(tmp_path: Path) -> None:
    """Quotes, line ends and other scripts, written as CSV and as Parquet."""
    table = pl.DataFrame({"c": [*LEVELS, None, "", "unknown"], "n": range(8)})
    table.write_csv(tmp_path / "t.csv")
    table.write_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        cells = read_cells(tmp_path / name, ["c"], line_breaks=True).to_series()
        assert level_codes(cells, LEVELS).tolist() == [0, 1, 2, 3, 4, GONE, GONE, OTHER]


@pytest.mark.parametrize("count", [2, 3, 8])
def test_one_column_less_than_levels_has_the_scores_of_as_many(count: int) -> None:
    """T33(3): U keeps norms and predictions."""
    rng = np.random.default_rng(count)
    names = [str(k) for k in range(count)]
    places, other = rng.integers(0, count, 200), rng.uniform(-1, 1, (200, 2))
    y = np.clip(0.4 * (places % 3 - 1) + 0.3 * other[:, 0] + 0.2 * rng.normal(size=200), -1, 1)
    ours = code(Category(levels=tuple(names)), [names[k] for k in places])
    simplex = math.sqrt(count / (count - 1)) * (np.eye(count) - 1.0 / count)
    scores = []
    for block in (ours, simplex[places]):
        width = block.shape[1]
        groups = [list(range(width)), [width], [width + 1]]
        problem = Problem(
            np.column_stack([block, other]),
            y,
            size=2,
            x_bound=1.0,
            y_bound=1.0,
            radius=0.4,
            ridge=2.0,
            groups=groups,
        )
        scores.append([problem.score(support) for support in ((0, 1), (0, 2), (1, 2))])
    np.testing.assert_allclose(*scores, rtol=1e-12)
