"""Data frames of every library: each cell is read by itself, and errors quote none."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from dpsubset import Exponential, Model, Schema, Selection, SubsetRegressor, SubsetSelector
from dpsubset.cli import app
from dpsubset.data import Table, as_matrix
from dpsubset.data.target import Target
from dpsubset.errors import InputError
from dpsubset.model_file import read_model, write_model

LONG = 2**53 + 12345  # more digits than float64 has
DECIMALS = [Decimal("1.5"), Decimal("2.25")]


def arrow(**columns: Any) -> pa.Table:
    return pa.table(columns)


FRAMES: dict[str, tuple[Any, list[list[float]]]] = {
    "arrow, long": (arrow(a=[LONG, 3], b=[0.1, 0.2]), [[float(LONG), 0.1], [3.0, 0.2]]),
    "arrow in pandas, long": (
        arrow(a=[LONG, 3], b=[0.1, 0.2]).to_pandas(types_mapper=pd.ArrowDtype),
        [[float(LONG), 0.1], [3.0, 0.2]],
    ),
    "polars, long": (pl.DataFrame({"a": [LONG, 3], "b": [0.1, 0.2]}), [[LONG, 0.1], [3, 0.2]]),
    "arrow, decimals": (arrow(a=DECIMALS, b=[1.0, 2.0]), [[1.5, 1.0], [2.25, 2.0]]),
    "arrow, wide decimals": (
        arrow(a=pa.array(DECIMALS, pa.decimal256(40, 3)), b=[1.0, 2.0]),
        [[1.5, 1.0], [2.25, 2.0]],
    ),
    "pandas, sparse": (
        pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.0]), "b": [1, 2]}),
        [[0, 1], [1, 2]],
    ),
    "pandas, nullable": (
        pd.DataFrame({"a": pd.array([1, 2], dtype="Int64"), "b": [True, False]}),
        [[1, 1], [2, 0]],
    ),
    "pandas, objects": (pd.DataFrame({0: [1, 2.5], 1: [3, 4]}, dtype=object), [[1, 3], [2.5, 4]]),
    "polars, truth values": (pl.DataFrame({"a": [True, False], "b": [1, 2]}), [[1, 1], [0, 2]]),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_become_numbers(name: str) -> None:
    frame, expected = FRAMES[name]
    found, _ = as_matrix(frame)
    np.testing.assert_array_equal(np.asarray(found, dtype=np.float64), expected)


@pytest.mark.parametrize("name", [0, 2, "c"])
@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([None] * 3, "holds missing"),
        (pd.Categorical(["a", "b", "c"]), "is not numeric"),
        (["9137", "b", "c"], "is not numeric"),
        ([1j, 2, 3], "Complex"),
        (pd.to_datetime(["2020-01-01"] * 3), "is not numeric"),
    ],
    ids=["nulls", "categories", "text", "complex", "dates"],
)
def test_what_is_no_number_is_named_by_its_column(name: Any, column: Any, expected: str) -> None:
    """Also where names are numbers, which a library could take for a place or a row."""
    frame = pd.DataFrame(np.ones((3, 2)), columns=[5, 6])
    frame[name] = column
    with pytest.raises(InputError, match=expected) as caught:
        as_matrix(frame)
    assert f"column {name!r}" in str(caught.value)
    assert "9137" not in str(caught.value)


def test_a_cell_of_an_arrow_column_is_read_by_itself() -> None:
    """Arrow gives all decimals of a column one scale, by the longest of them."""
    rng = np.random.default_rng(0)
    kept = [Decimal(f"{v:.1f}") for v in rng.uniform(0, 9, 99)]
    tables = [arrow(a=[*kept, last], b=[0.5] * 100) for last in (Decimal("1.1"), Decimal("1.1234"))]
    one, other = (as_matrix(table)[0][:99] for table in tables)
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_a_wide_frame_of_mixed_types_asks_a_column_once(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {f"c{j}": [j, 1] if j % 2 else [0.5, 1.0] for j in range(40)}
    make: dict[str, Any] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}
    frame = make[library](columns)
    asked = []
    import narwhals as nw

    real = nw.DataFrame.schema.fget
    assert real is not None
    monkeypatch.setattr(nw.DataFrame, "schema", property(lambda s: asked.append(0) or real(s)))
    assert as_matrix(frame)[0].shape == (2, 40)
    assert len(asked) <= 2


def test_names_that_look_like_patterns(tmp_path: Path) -> None:
    lines = [f"{i % 3},{i % 5},{i % 2},{i % 3}" for i in range(60)]
    for kind in ("csv", "parquet"):
        path = tmp_path / f"t.{kind}"
        (tmp_path / "t.csv").write_text("\n".join(["a,*,^a$,y", *lines]) + "\n")
        if kind == "parquet":
            pl.read_csv(tmp_path / "t.csv").write_parquet(path)
        (tmp_path / "b.toml").write_text("[default]\nbounds = [0, 5]\n")
        words = ["select", path, "--target", "y", "--bounds", tmp_path / "b.toml", "--size", 1]
        words += ["--epsilon", 200, "--quiet"]
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert (result.exit_code, result.stdout) == (0, "a\n"), result.output
        only = CliRunner().invoke(app, [*map(str, words), "--features", "*,^a$"])
        assert only.exit_code == 0, only.output
        assert only.stdout in ("*\n", "^a$\n")


# What the value holds ---------------------------------------------------------------------------


def data() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(0, 1, (200, 3))
    return X, X[:, 0]


def test_numbers_of_numpy_are_plain_in_records(tmp_path: Path) -> None:
    import json

    X, y = data()
    given: Any = {"n_features_to_select": np.int64(1), "bounds_X": (0, 1), "bounds_y": (0, 1)}
    odd = {"radius": np.int64(2), "ridge": np.float32(1.5), "clip": np.float32(0.5)}
    chosen = SubsetSelector(**given, **odd).fit(X, y)
    assert json.loads(json.dumps(chosen.release_.to_dict()))["asked"]["ridge"] == 1.5
    SubsetRegressor(**given, selection_share=Fraction(1, 2)).fit(X, y)


def schema(*names: str) -> Schema:
    return Schema.of(names or None, 3, (0, 1), Target((0.0, 1.0)))


def test_a_mechanism_that_changes_later_changes_nothing() -> None:
    X, y = data()
    mechanism = Exponential(0.5)
    model = Model(schema=schema(), size=1, epsilon=1.0, mechanism=mechanism)
    mechanism.epsilon = 5.0
    assert model.release(Table(X, y)).guarantee["epsilon"] == 1.0


def test_a_problem_of_another_selection_is_refused() -> None:
    X, y = data()
    posed = Selection(schema=schema("a", "b", "c"), size=1, radius=50.0).problem(Table(X, y))
    for kind in (Selection, Model):
        with pytest.raises(InputError, match="not posed by this selection"):
            kind(schema=schema("x", "y", "z"), size=1).release(posed)


def test_a_model_without_names_makes_the_round_trip(tmp_path: Path) -> None:
    released = Model(schema=schema(), size=1).release(Table(*data()))
    path = tmp_path / "m.json"
    path.write_text(write_model(released))
    assert read_model(path) == released


@pytest.mark.parametrize("name", ["", " ", 3, np.int64(2)])
def test_the_name_of_a_table_is_a_text(name: Any) -> None:
    with pytest.raises(InputError, match="name of the table"):
        Selection(schema=schema(), size=1, table=name)
