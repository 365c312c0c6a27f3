"""Audits of tables whose types a library inferred, and twins that code by the type (T33).

Also what levels and cells mean that libraries read in ways of their own: infinities, NaN, lists.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpsubset import Schema, Selection, SubsetSelector
from dpsubset.audit import framing
from dpsubset.audit.coded import coded
from dpsubset.data import category, cells, dates
from dpsubset.data.cells import GONE, OTHER, cells_of, kind_of, level_codes
from dpsubset.data.frames import Table
from dpsubset.data.target import Target
from dpsubset.errors import InputError
from dpsubset.mechanisms.target_bounds import TargetBounds

LINES: dict[str, Any] = {
    "visit": {"dates": ["2020-01-01", "2021-01-01"], "format": "%Y%m%d"},
    "wave": ["2020-01-05", "2020-06-05", "none yet"],
    "code": ["1", "2.5", "7", "Inf"],
    "smoker": "0/1",
    "age": [0, 99],
}
FRAMES = pytest.mark.parametrize("frame", ["polars", "pandas"])
RELATIONS = ("replace-one", "add-remove")


def asked(names: tuple[str, ...], target: Any = None, **more: Any) -> Selection:
    lines = {name: LINES[name] for name in names}
    target = {"bounds": [-1, 1]} if target is None else target
    schema = Schema.from_dict({"columns": lines, "target": target})
    return Selection(schema=schema, **{"size": 1, "radius": 1.5, "ridge": 0.1, **more})


def test_libraries_infer_types_from_all_cells() -> None:
    """Otherwise the audit would see nothing."""
    for name in ("polars", "pandas"):
        for cell, other in (("20200105", "some day"), ("2020-01-05", "none yet"), ("7", "x")):
            kinds = [
                kind_of(cells_of(framing.framed({"a": ("NA", cell, last)}, name)["a"]).dtype)
                for last in (cell, other)
            ]
            assert kinds[1] == "text"
            assert kinds[0] != "text" or (name == "pandas" and "-" in cell)


@pytest.mark.grid(every=4)
@FRAMES
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_types_that_were_inferred_change_nothing(frame: str, neighbours: str) -> None:
    selection = asked(tuple(LINES), neighbours=neighbours)
    found = coded(selection, pairs=90 if neighbours == "replace-one" else 30, frames=[frame])
    assert found.passed, found.report
    assert found.report.epsilon > 0.05


def by_whole_column_dates(self: Any, column: pl.Series) -> Any:
    """Read digits as dates in columns of text only: in a column of numbers they mean days."""
    if kind_of(column.dtype) == "number":
        return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return TRUE_NUMBERS(self, column)


TRUE_NUMBERS = dates.Dates.numbers


def by_type_of_levels(column: pl.Series, levels: Any) -> Any:
    """Compare levels with what the library's type writes as text."""
    if kind_of(column.dtype) == "date":
        text = column.dt.strftime("%d.%m.%Y")
        return level_codes(text, levels)
    return level_codes(column, levels)


@pytest.mark.slow
@FRAMES
def test_dates_of_digits_coded_by_the_type_of_the_column_are_caught(
    frame: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    selection = asked(("visit", "smoker"))
    assert coded(selection, pairs=405, others=6, frames=[frame]).passed
    monkeypatch.setattr(dates.Dates, "numbers", by_whole_column_dates)
    assert coded(selection, pairs=405, others=6, frames=["text"]).passed  # what was seen before
    assert coded(selection, pairs=405, others=6, frames=[frame]).moved > 1


def test_levels_that_are_dates_coded_by_the_type_of_the_column_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    selection = asked(("wave", "smoker"))
    monkeypatch.setattr(category, "level_codes", by_type_of_levels)
    assert coded(selection, pairs=180, others=2, frames=["text"]).passed
    assert coded(selection, pairs=180, others=2, frames=["polars"]).moved > 1


def test_levels_that_are_infinite_coded_by_their_spelling_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    selection = asked(("code", "smoker"))
    right = cells.level_keys

    def spelled(levels: Any) -> Any:  # as it was: an infinite number is a text
        pairs = zip(levels, right(levels), strict=True)
        return [t if isinstance(k, float) and np.isinf(k) else k for t, k in pairs]

    monkeypatch.setattr(cells, "level_keys", spelled)
    assert coded(selection, pairs=180, others=4, frames=["text"]).passed
    assert coded(selection, pairs=180, others=4, frames=["polars"]).moved > 1


@pytest.mark.parametrize("made", [list, pl.Series, pd.Series, np.array])
def test_infinite_levels_and_nan_mean_the_same_in_every_column(made: Any) -> None:
    levels = ["Inf", "-inf", "a", "2"]
    numbers = made([float("inf"), -float("inf"), float("nan"), 2.0])
    words = made(["inf", "-Infinity", "NaN", "2.0"])
    mixed = made(["INF", "-inf", "nan", "2"])
    for column in (numbers, words, mixed):
        assert level_codes(cells_of(column), levels).tolist() == [0, 1, GONE, 3]


@pytest.mark.parametrize("level", ["NaN", "nan", "-NAN"])
def test_a_level_called_nan_is_refused_by_the_schema_alone(level: str) -> None:
    for lines in ([level, "b"], {"ordered": [level, "b"]}):
        with pytest.raises(InputError, match="for a missing number"):
            Schema.from_dict({"columns": {"a": lines}, "target": {"bounds": [0, 1]}})


UNUSUAL: dict[str, pl.Series] = {
    "list": pl.Series([[1, 2], None, [3]]),
    "struct": pl.Series([{"a": 1}, None, {"a": 2}]),
    "duration": pl.Series([timedelta(1), None, timedelta(2)]),
    "binary": pl.Series([b"1", None, b"2"]),
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_cells_of_other_types_are_no_level_and_no_number(kind: str) -> None:
    column = UNUSUAL[kind]
    assert level_codes(cells_of(column), ["1", "b"]).tolist() == [OTHER, GONE, OTHER]
    assert np.isnan(cells.numbers_of(cells_of(column))).all()
    for name, line in LINES.items():
        schema = Schema.from_dict({"columns": {name: line}, "target": {"bounds": [0, 1]}})
        told = schema.read(Table(pl.DataFrame({name: column}), pl.Series([0.0, 0.5, 1.0])), 1.0)
        design = told.design.take(np.arange(told.design.n_columns))
        assert not design.any(), name  # the middle, or no level
        away = schema.read(Table(pl.DataFrame({name: [None] * 3}), column), 1.0)
        assert away.present is not None
        assert not away.present.any()


def test_a_fit_does_not_fail_because_of_one_cell_of_another_type() -> None:
    schema = {"columns": {"a": [0, 1], "b": ["x", "y"]}, "target": {"bounds": [0, 1]}}
    for cell in ([1], timedelta(3), {"k": 1}, "x"):
        column = pl.Series([cell, None, None])
        X = pl.DataFrame({"a": [0.0, 0.5, 1.0], "b": column})
        selector = SubsetSelector(n_features_to_select=1, schema=schema).fit(X, [0.0, 0.5, 1.0])
        assert selector.get_support().sum() == 1


# ---- private bounds of the target, with a schema (T37) ------------------------------------------


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_private_bounds_keep_their_epsilon_where_targets_are_missing(neighbours: str) -> None:
    selection = asked(("age", "smoker"), {"bounds": "private"}, neighbours=neighbours, epsilon=3.0)
    found = coded(selection, pairs=135 if neighbours == "replace-one" else 60)
    assert found.passed, (found.report, found.drawn)
    assert found.drawn > 0.3


def test_targets_that_are_missing_and_imputed_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    selection = asked(("age", "smoker"), {"bounds": "private"})
    right = Target.coded

    def imputed(self: Any, column: pl.Series, clip: float) -> Any:
        values, present = right(self, column, clip)
        mean = values[present].mean() if present.any() else 0.0
        return np.where(present, values, mean), np.ones_like(present)

    monkeypatch.setattr(Target, "coded", imputed)
    found = coded(selection, pairs=135, others=12)
    assert found.moved > 1
    assert found.drawn > 1.01


def test_twice_the_exponent_of_bounds_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    selection = asked(("age", "smoker"), {"bounds": "private"}, epsilon=10.0)
    assert 0.5 < coded(selection, pairs=135, others=2, frames=["text"]).drawn <= 1.0
    right = TargetBounds._sensitivity
    monkeypatch.setattr(TargetBounds, "_sensitivity", lambda self: right(self) / 2)
    assert coded(selection, pairs=135, others=2, frames=["text"]).drawn > 1.01
