"""Selections, estimators and models by a schema, end to end, in every container."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpsubset import Schema, Selection, SubsetClassifier, SubsetRegressor, SubsetSelector
from dpsubset.data.frames import Table
from dpsubset.errors import InputError
from dpsubset.model import Model
from dpsubset.model_file import read_model, write_model

N = 3000
LINES: dict[str, Any] = {
    "id": "ignore",
    "age": {"bounds": [0, 120], "missing": 30},
    "sex": ["f", "m"],
    "grade": {"ordered": ["low", "mid", "high"]},
    "visit": [2020, 2021],
}
SCHEMA: dict[str, Any] = {"columns": LINES, "target": {"name": "cost", "bounds": [0, 22000]}}
LABELS: dict[str, Any] = {"columns": LINES, "target": {"name": "ill", "classes": ["no", "yes"]}}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    made = pd.DataFrame(
        {
            "id": [f"p{j}" for j in range(N)],
            "age": rng.uniform(0, 120, N),
            "sex": pd.Categorical(rng.choice(["f", "m"], N)),
            "grade": rng.choice(["low", "mid", "high"], N),
            "visit": rng.uniform(2020, 2021, N),
        }
    )
    made.loc[3, "age"] = math.nan
    made.loc[5, "sex"] = None
    made.loc[6, "grade"] = "none of them"
    return made


@pytest.fixture(scope="module")
def cost(frame: pd.DataFrame) -> pd.Series:
    rng = np.random.default_rng(1)
    exact = 100 * frame["age"].fillna(30) + 9000 * (frame["sex"] == "m") + rng.normal(size=N)
    exact[7] = math.nan
    return exact.rename("cost")


@pytest.fixture(scope="module")
def ill(cost: pd.Series) -> pd.Series:
    labels = pd.Series(np.where(cost > 12000, "yes", "no"), dtype=object, name="ill")
    labels[9], labels[10] = None, "perhaps"
    return labels


CONTAINERS = {
    "pandas": lambda f: f,
    "pandas objects": lambda f: f.astype(object),
    "polars": pl.from_pandas,
    "polars enum": lambda f: pl.from_pandas(f).with_columns(
        pl.col("sex").cast(pl.String).cast(pl.Enum(["m", "f"]))
    ),
    "pyarrow": pa.Table.from_pandas,
    "array": lambda f: f.to_numpy(dtype=object),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_table_is_read_alike_in_every_container(
    container: str, frame: pd.DataFrame, cost: pd.Series
) -> None:
    X = CONTAINERS[container](frame)
    selector = SubsetSelector(schema=SCHEMA, n_features_to_select=2, epsilon=20.0, random_state=0)
    _, problem = selector._ask(Selection, X, cost)
    _, plain = selector._ask(Selection, frame, cost)
    every = np.arange(5)
    np.testing.assert_array_equal(problem.design.take(every), plain.design.take(every))
    assert not problem.design.take(every)[7].any()  # no target, no row: not even the constant
    assert problem.design.take(every)[[3, 5, 6]].tolist() == [
        [-0.5, *plain.design.take(every)[3, 1:].tolist()],
        [plain.design.take(every)[5, 0], 0.0, *plain.design.take(every)[5, 2:].tolist()],
        [*plain.design.take(every)[6, :2].tolist(), 0.0, *plain.design.take(every)[6, 3:].tolist()],
    ]


def test_a_selector_speaks_of_the_owners_columns(frame: pd.DataFrame, cost: pd.Series) -> None:
    selector = SubsetSelector(schema=SCHEMA, n_features_to_select=2, epsilon=20.0, random_state=0)
    selector.fit(frame, cost)
    assert selector.get_support().tolist() == [False, True, True, False, False]
    assert selector.get_feature_names_out().tolist() == ["age", "sex"]
    assert list(selector.transform(frame).columns) == ["age", "sex"]
    assert selector.transform(pl.from_pandas(frame)).columns == ["age", "sex"]
    released = selector.release_.to_dict()["released"]
    assert released["columns"] == ["age", "sex"]
    assert released["levels"] == {"sex": ["f", "m"]}
    with pytest.raises(InputError):
        selector.transform(frame.drop(columns="grade"))


def test_a_regressor_has_a_coefficient_for_each_level(
    frame: pd.DataFrame, cost: pd.Series, tmp_path: Path
) -> None:
    model = SubsetRegressor(schema=SCHEMA, n_features_to_select=2, epsilon=20.0, random_state=0)
    model.fit(frame, cost)
    assert model.get_feature_names_out().tolist() == ["age", "sex"]
    line = dict(zip(model.coef_names_, model.coef_, strict=True))
    assert list(line) == ["age", "sex=f", "sex=m", "grade", "visit"]
    assert abs(line["age"] - 100) < 5
    assert abs(line["sex=m"] - 4500) < 300
    assert line["sex=m"] == -line["sex=f"]
    assert line["grade"] == line["visit"] == 0
    new = pd.DataFrame(
        {
            **{"id": list("abcde"), "age": [50, None, "old", 1e9, 50]},
            **{"sex": ["f", "f", "m", "m", "other"], "grade": "x", "visit": None},
        }
    )
    a, f, m = line["age"], line["sex=f"], line["sex=m"]
    expected = model.intercept_ + np.array(
        [50 * a + f, 30 * a + f, 30 * a + m, 120 * a + m, 50 * a]
    )
    np.testing.assert_allclose(model.predict(new), np.clip(expected, 0, 22000))
    path = tmp_path / "model.json"
    path.write_text(write_model(model.model_))
    stored = read_model(path)
    assert stored == model.model_
    assert json.loads(path.read_text())["version"] == 3
    np.testing.assert_array_equal(stored.predict(new)["cost"], model.predict(new))


def test_a_classifier_ignores_rows_without_a_class(frame: pd.DataFrame, ill: pd.Series) -> None:
    model = SubsetClassifier(
        schema=LABELS, n_features_to_select=2, epsilon=20.0, random_state=0, loss="logistic"
    )
    model.fit(frame, ill)
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.mean(model.predict(frame) == ill) > 0.95
    selector = SubsetSelector(schema=LABELS, loss="hinge", n_features_to_select=1, random_state=0)
    assert selector.fit(frame, ill).classes_.tolist() == ["no", "yes"]


def test_classes_keep_their_type(frame: pd.DataFrame, ill: pd.Series) -> None:
    schema = LABELS | {"target": {"classes": [0, 1]}}
    numbers = ill.map({"yes": 1, "no": 0})
    model = SubsetClassifier(schema=schema, n_features_to_select=1, random_state=0, loss="logistic")
    assert set(model.fit(frame, numbers).predict(frame).tolist()) <= {0, 1}


def test_a_path_a_dictionary_and_a_schema_are_the_same(
    frame: pd.DataFrame, cost: pd.Series, tmp_path: Path
) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        '[columns]\nid = "ignore"\nsex = ["f", "m"]\nvisit = [2020, 2021]\n[columns.age]\n'
        "bounds = [0, 120]\nmissing = 30\n[columns.grade]\n"
        'ordered = ["low", "mid", "high"]\n[target]\nname = "cost"\nbounds = [0, 22000]\n'
    )
    found = []
    for given in (path, str(path), SCHEMA, Schema.read_toml(path), Schema.from_dict(SCHEMA)):
        selector = SubsetSelector(schema=given, n_features_to_select=2, random_state=0)
        _, problem = selector._ask(Selection, frame, cost)
        names = problem.origin.names
        assert names is not None
        found.append(problem.design.take([names.index(n) for n in ("age", "sex", "grade")]))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"bounds_X": (0, 1)}, "leave bounds_X out"),
        ({"bounds_y": (0, 1), "bounds_X": (0, 1)}, "leave bounds_X and bounds_y out"),
        ({"schema": 3}, "path to a schema file"),
        ({"schema": {"columns": {"age": [0, 1]}}}, "does not describe"),
        ({"schema": SCHEMA | {"columns": LINES | {"more": [0, 1]}}}, "names 'more'"),
        ({"loss": "logistic"}, "described by bounds"),
        ({"schema": LABELS, "loss": "huber"}, "two classes"),
        ({"schema": Schema.from_dict(LABELS), "loss": "huber"}, "the loss is for numbers"),
        ({"schema": "no such file.toml"}, "no such file"),
    ],
)
def test_wrong_schemas_are_told_before_a_cell_is_read(
    given: dict[str, Any], text: str, frame: pd.DataFrame, cost: pd.Series
) -> None:
    with pytest.raises(InputError, match=text):
        SubsetSelector(**{"schema": SCHEMA, **given}).fit(frame, cost)


def test_without_a_schema_the_refusal_names_it(frame: pd.DataFrame, cost: pd.Series) -> None:
    X, y = frame[["age", "visit"]], cost.fillna(0)
    with pytest.raises(InputError, match="schema="):
        SubsetSelector(bounds_X=(0, 1), bounds_y=(0, 1), n_features_to_select=1).fit(X, y)


def test_a_selection_and_its_plain_values(frame: pd.DataFrame, cost: pd.Series) -> None:
    asked = Selection(schema=Schema.from_dict(SCHEMA), size=2, epsilon=20.0, seed=3)
    again = Selection.from_dict(json.loads(json.dumps(asked.to_dict())))
    table = Table(frame, cost)
    assert again.release(table).columns == asked.release(table).columns
    assert again.asked() == asked.asked()


def test_an_offset_is_not_moved_by_rows_without_a_target(frame: pd.DataFrame) -> None:
    """Half of the targets are missing: the median is that of the others."""
    spread = np.random.default_rng(0).uniform(19000, 21000, N)
    y = np.where(np.arange(N) % 2, spread, math.nan)
    asked = Selection(
        schema=Schema.from_dict(SCHEMA), size=1, epsilon=10.0, offset_share=0.5, seed=0
    )
    offset = asked.release(Table(frame, y)).offset
    assert offset is not None
    assert abs(offset - 20000) < 500


# Features of several columns ---------------------------------------------------------------------

MANY: dict[str, Any] = {
    "columns": {
        "region": {"levels": ["north", "south", "west"], "missing": "level"},
        "income": {"bounds": [0, 10], "missing": "indicator"},
        "noise": ["u", "v", "w", "x"],
        "more": [0, 1],
    },
    "target": {"name": "cost", "bounds": [0, 20]},
}


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_categories_and_indicators_are_single_features(container: str) -> None:
    rng, n = np.random.default_rng(0), 4000
    region = rng.choice(["north", "south", "west", "east", ""], n)
    income = np.where(rng.random(n) < 0.3, math.nan, rng.uniform(0, 10, n))
    effect = pd.Series(region).map({"north": 8.0, "south": 2.0, "west": 5.0, "east": 5.0, "": 5.0})
    y = effect.to_numpy() + np.where(np.isnan(income), 9.0, 0.5 * income)
    table: Any = pd.DataFrame(
        {"region": region, "income": income, "noise": rng.choice(list("uvwx"), n), "more": 0.5}
    )
    table = pl.from_pandas(table) if container == "polars" else table
    model = SubsetRegressor(
        schema=MANY, n_features_to_select=2, epsilon=40.0, random_state=0, coefficient_radius=3.0
    ).fit(table, y)
    assert model.get_feature_names_out().tolist() == ["region", "income"]
    line = dict(zip(model.coef_names_, model.coef_, strict=True))
    levels = [line[f"region={level}"] for level in ("north", "south", "west", "missing")]
    assert abs(sum(levels)) < 1e-9
    assert abs(line["region=north"] - line["region=south"] - 6) < 0.7
    assert abs(line["income"] - 0.5) < 0.1
    assert not any(value for name, value in line.items() if name.startswith(("noise", "more")))
    assert np.abs(model.predict(table) - y).mean() < 0.7
    selection, problem = model._ask(Model, table, y)
    assert problem.n_columns == 5  # four features and the constant
    columns = problem.design.n_columns
    assert columns == 3 + 2 + 3 + 1 + 1
    del selection


@pytest.mark.parametrize(
    "mechanism", ["markov-chain", "sample-aggregate", "lasso-stability", "top-r", "stepwise"]
)
def test_every_mechanism_selects_categories_as_one_feature(mechanism: str) -> None:
    """Two categories explain the target; each is in or out as a whole."""
    rng = np.random.default_rng(0)
    n = 6000
    one, two = rng.integers(0, 3, n), rng.integers(0, 4, n)
    frame = pd.DataFrame({name: rng.uniform(0, 1, n) for name in "abcd"})
    frame["one"], frame["two"] = np.array(list("xyz"))[one], np.array(list("pqrs"))[two]
    y = 0.2 * one + 0.15 * (two == 2) + 0.02 * rng.normal(size=n)
    lines = {name: [0, 1] for name in "abcd"} | {"one": list("xyz"), "two": list("pqrs")}
    schema = {"columns": lines, "target": {"bounds": [0, 0.6]}}
    chosen = SubsetSelector(
        schema=schema, n_features_to_select=2, mechanism=mechanism, epsilon=30.0, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a guarantee that has a condition, or a delta
        chosen.fit(frame, y)
    assert chosen.get_feature_names_out().tolist() == ["one", "two"]
