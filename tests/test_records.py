"""One record: the same selection by command, estimator and mechanism is written down alike."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from dpsubset import (
    Exponential,
    Ledger,
    Model,
    PermuteAndFlip,
    Problem,
    Schema,
    Selection,
    SubsetClassifier,
    SubsetRegressor,
    SubsetSelector,
    coefficients,
)
from dpsubset.cli import app
from dpsubset.data import Table
from dpsubset.data.target import Target
from dpsubset.errors import BudgetError, InputError, LedgerError
from dpsubset.model_file import read_model
from dpsubset.question import ModelQuestion, Question

NAMES = ("a", "b", "c", "d")
BOUNDS = {"a": (0, 10), "b": (0, 10), "c": (-5, 10), "d": (0, 20)}
SEED = 3
ASKED: dict[str, Any] = {
    **{"epsilon": 3.0, "ridge": 2.0, "clip": 0.9, "exclude": ["c"]},
    "loss": "huber:0.2",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (400, 4))
    y = X[:, 1] - X[:, 3] + rng.normal(size=400)
    frame = pl.DataFrame(X, schema=list(NAMES)).with_columns(y=pl.Series(y))
    frame.write_parquet(tmp_path / "study.parquet")
    lines = [f"{name} = {list(pair)}" for name, pair in BOUNDS.items()]
    (tmp_path / "b.toml").write_text("\n".join(["[columns]", *lines, "y = [-10, 10]"]))
    return tmp_path


def rows(folder: Path) -> tuple[pl.DataFrame, pl.Series]:
    frame = pl.read_parquet(folder / "study.parquet")
    return frame.select(NAMES), frame["y"]


def schema() -> Schema:
    return Schema.of(NAMES, 4, BOUNDS, Target((-10.0, 10.0)), "y")


def by_command(folder: Path, command: str, *more: Any) -> dict[str, Any]:
    path = folder / "out.json"
    given = ["--target", "y", "--bounds", folder / "b.toml", "--size", 2, "--epsilon", 3]
    given += [
        "--loss",
        "huber:0.2",
        "--ridge",
        2,
        "--clip",
        0.9,
        "--exclude",
        "c",
        "--seed",
        SEED,
        "--output",
        path,
    ]
    ledger = ["--ledger", folder / "command.db"]
    words = [command, folder / "study.parquet", *given, *ledger, *more]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def entry(path: Path) -> dict[str, Any]:
    """Return the record that a ledger holds of its last release."""
    found = Ledger(path).history()[-1]
    asked = dict(found.asked)
    version = asked.pop("dpsubset")
    return {
        "asked": asked,
        "released": found.released,
        "guarantee": found.guarantee.to_dict(),
        "dpsubset": version,
    }


def test_a_selection_is_one_record_whoever_asks(folder: Path) -> None:
    for name in ("command", "estimator", "mechanism", "selection"):
        Ledger(folder / f"{name}.db", epsilon=30.0)
    file = by_command(folder, "select")
    X, y = rows(folder)
    names = {"table_name": "study.parquet", "random_state": SEED}
    selector = SubsetSelector(
        n_features_to_select=2, bounds_X=BOUNDS, bounds_y=(-10, 10), **ASKED, **names
    ).set_params(ledger=folder / "estimator.db")
    selector.fit(X, y)
    selection = Selection(schema=schema(), size=2, table="study.parquet", seed=SEED, **ASKED)
    released = selection.release(Table(X, y), folder / "selection.db")
    mechanism = PermuteAndFlip(3.0, ledger=folder / "mechanism.db")
    bare = mechanism.experiment(selection.problem(Table(X, y)), SEED)
    assert file == entry(folder / "command.db")
    assert released.to_dict() == file == entry(folder / "selection.db")
    assert bare.to_dict() == file == entry(folder / "mechanism.db")
    assert selector.release_.to_dict() == file == entry(folder / "estimator.db")
    assert file["released"] == {"positions": [1, 3], "columns": ["b", "d"]}
    assert file["asked"]["size"] == 2
    assert file["asked"]["n_columns"] == 4


def test_a_model_is_one_record_whoever_asks(folder: Path) -> None:
    for name in ("command", "estimator", "model"):
        Ledger(folder / f"{name}.db", epsilon=30.0)
    file = by_command(folder, "fit", "--quiet")
    X, y = rows(folder)
    estimator = SubsetRegressor(
        n_features_to_select=2,
        bounds_X=BOUNDS,
        bounds_y=(-10, 10),
        **ASKED,
        table_name="study.parquet",
        random_state=SEED,
        ledger=folder / "estimator.db",
    ).fit(X, y)
    model = Model(schema=schema(), size=2, table="study.parquet", seed=SEED, **ASKED)
    released = model.release(Table(X, y), folder / "model.db")
    kept = {key: file[key] for key in ("asked", "released", "guarantee", "dpsubset")}
    assert kept == released.to_dict() == entry(folder / "model.db") == entry(folder / "command.db")
    assert entry(folder / "estimator.db") == kept
    assert read_model(folder / "out.json") == released
    np.testing.assert_array_equal(
        estimator.coef_[kept["released"]["positions"]], kept["released"]["coefficients"]
    )
    assert kept["released"]["positions"] == [1, 3]  # no constant among the columns
    assert len(Ledger(folder / "command.db").history()) == 1  # charged once, for both


def test_twin_a_record_of_another_place_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Selection.asked
    monkeypatch.setattr(Selection, "asked", lambda self: real(self) | {"size": self.size + 1})
    Ledger(folder / "command.db", epsilon=30.0)
    wrong = by_command(folder, "select")
    monkeypatch.undo()
    X, y = rows(folder)
    right = Selection(schema=schema(), size=2, table="study.parquet", seed=SEED, **ASKED)
    assert right.release(Table(X, y)).to_dict() != wrong


def test_classifiers_write_names_of_classes(folder: Path) -> None:
    X, y = rows(folder)
    Ledger(folder / "l.db", epsilon=9.0)
    SubsetClassifier(
        n_features_to_select=1, bounds_X=BOUNDS, classes=(False, True), ledger=folder / "l.db"
    ).fit(X, y > 0)
    found = entry(folder / "l.db")
    assert found["asked"]["classes"] == found["released"]["classes"] == ["False", "True"]


def test_plain_problems_are_recorded_by_what_they_say(folder: Path) -> None:
    X, y = rows(folder)
    Ledger(folder / "l.db", epsilon=9.0)
    problem = Problem(X.to_numpy(), y, size=2, x_bound=20, y_bound=10, radius=1, exclude=[0])
    found = Exponential(1.0, ledger=folder / "l.db").release(problem)
    assert found.to_dict() == entry(folder / "l.db")
    asked = found.to_dict()["asked"]
    assert (asked["table"], asked["schema"], asked["exclude"]) == (None, None, [0])
    assert asked["mechanism"]["name"] == "Exponential"
    line = coefficients.ObjectivePerturbation(1.0, ledger=folder / "l.db").release(
        Problem(X.to_numpy(), y, size=2, x_bound=20, y_bound=10, radius=1), [1, 3]
    )
    assert line.to_dict() == entry(folder / "l.db")


# The values -------------------------------------------------------------------------------------


def test_selections_and_models_make_the_round_trip() -> None:
    for kind, more in ((Selection, {}), (Model, {"selection_share": 0.3, "delta": 1e-6})):
        one = kind(schema=schema(), size=2, table="t", always_include=["a"], **ASKED, **more)
        plain = json.loads(json.dumps(one.to_dict()))
        other = kind.from_dict(plain)
        assert other.to_dict() == one.to_dict()
        assert other.asked() == one.asked()
        assert other.guarantee() == one.guarantee()
        for wrong in ({}, {**plain, "more": 1}, {**plain, "schema": {}}, {**plain, "size": "x"}):
            with pytest.raises(InputError):
                kind.from_dict(wrong)
    with pytest.raises(InputError, match="plain form"):
        Selection(schema=schema(), mechanism=Exponential(1.0), size=2).to_dict()


def test_a_selection_cannot_be_changed() -> None:
    selection = Selection(schema=schema(), size=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        selection.size = 3  # type: ignore[misc]


def test_all_faults_of_a_question_are_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        Selection(schema=schema(), size=9, epsilon=-1.0, loss="nonsense", seed=-1, intercept="yes")
    text = str(caught.value)
    assert text.startswith("there are 5 faults:\n- ")
    for part in ("size is 9", "epsilon", "unknown loss", "seed must be", "intercept must be"):
        assert part in text


def test_all_faults_of_a_table_are_told_at_once() -> None:
    frame = pl.DataFrame({"a": ["x"], "b": [1.0], "c": ["y"], "d": [2.0]})
    selector = SubsetSelector(n_features_to_select=1, bounds_X=(0, 1), bounds_y=(0, 1))
    with pytest.raises(InputError) as caught:
        selector.fit(frame, ["text"])
    text = str(caught.value)
    assert text.startswith("there are 3 faults:")
    assert "column 'a' is not numeric" in text
    assert "column 'c' is not numeric" in text
    assert "the target is not numeric" in text


def test_names_are_excluded_and_always_included(folder: Path) -> None:
    X, y = rows(folder)
    for seed in range(5):
        chosen = Selection(schema=schema(), size=2, exclude=["b", 3], seed=seed, epsilon=0.01)
        assert chosen.release(Table(X, y)).columns == ("a", "c")
    with pytest.raises(InputError, match="'b' cannot be both"):
        Selection(schema=schema(), size=2, exclude=["b"], always_include=[1])
    with pytest.raises(InputError, match="between 1 and 1"):
        Selection(schema=schema(), size=2, exclude=[0, 1, 2])


def test_every_option_has_help_and_a_group() -> None:
    groups = {"question", "privacy", "mechanism", "coefficients"}
    for kind in (Question, ModelQuestion):
        for field in dataclasses.fields(kind):
            assert field.metadata["group"] in groups
            assert len(field.metadata["help"]) > 10
            assert field.metadata["help"].endswith(".")


@pytest.mark.parametrize("command", ["select", "fit"])
def test_every_field_is_an_option_of_the_command(command: str) -> None:
    kind = Question if command == "select" else ModelQuestion
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).stdout
    for field in dataclasses.fields(kind):
        assert f"--{field.name.replace('_', '-')}" in shown
    panels = ("Table", "Question", "Privacy", "Mechanism", "Output")
    places = [shown.index(f"─ {panel} ─") for panel in panels]
    assert places == sorted(places)


COMMANDS = ["schema", "plan", "ledger", "select", "fit", "predict", "audit", "reproduce"]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_eighty_columns(command: str) -> None:
    words = [command, "--help"] if command else ["--help"]
    shown = CliRunner().invoke(app, words, env={"COLUMNS": "80"}).stdout
    assert max(map(len, shown.splitlines())) <= 80
    if not command:
        places = [shown.index(f"│ {name} ") for name in COMMANDS]
        assert places == sorted(places)


def test_errors_are_json_where_json_is_asked_for(folder: Path) -> None:
    wrong = [
        ["select", folder / "none.csv", "--target", "y", "--json"],
        ["select", folder / "study.parquet", "--target", "y", "--nonsense", "--json"],
        ["select", folder / "study.parquet", "--json"],
        ["fit", folder / "none.csv", "--target", "y", "--output", folder / "m.json", "--json"],
        ["predict", folder / "none.json", folder / "study.parquet", "--json"],
        ["schema", folder / "none.csv", "--json"],
        ["ledger", folder / "none.db", "--json"],
        ["plan", "--features", 0, "--json"],
        ["audit", "--mechanism", "none", "--json"],
        ["reproduce", "none", "--json"],
    ]
    for words in wrong:
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 2, words
        content = json.loads(result.stdout)
        assert set(content) == {"error", "exit_code"}
        assert content["exit_code"] == 2


def test_results_are_json_where_json_is_asked_for(folder: Path) -> None:
    def told(*words: Any) -> Any:
        result = CliRunner().invoke(app, [*map(str, words), "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    table, model = folder / "study.parquet", folder / "m.json"
    assert told("schema", table)["columns"] == [*NAMES, "y"]
    given = ["--target", "y", "--bounds", folder / "b.toml", "--size", 1, "--epsilon", 9]
    fitted = told("fit", table, *given, "--output", model)
    assert told("predict", model, table)["y"][0] == pytest.approx(
        read_model(model).predict(rows(folder)[0].select(read_model(model).columns).to_numpy())[
            "y"
        ][0]
    )
    assert fitted["released"]["columns"] == list(read_model(model).columns)
    small = ["--mechanism", "SubsetSelector", "--loss", "squared", "--pairs", 10]
    assert told("audit", *small, "--neighbours", "replace-one")["passed"]
    fast = ["--features", 5, "--size", 1, "--epsilon", 50, "--tables", 1, "--draws", 2]
    assert told("plan", *fast)["rows"] > 0


def test_what_is_left_is_shown_and_another_table_is_refused(folder: Path) -> None:
    Ledger(folder / "l.db", epsilon=3.0)
    given = [
        "--target",
        "y",
        "--bounds",
        folder / "b.toml",
        "--size",
        1,
        "--ledger",
        folder / "l.db",
    ]
    words = ["select", folder / "study.parquet", *given]
    first = CliRunner().invoke(app, [str(word) for word in words])
    assert "epsilon 1 of 3 spent, 2 left" in first.stdout
    other = CliRunner().invoke(app, [str(word) for word in [*words, "--table-name", "other"]])
    assert other.exit_code == 2
    assert "is for the table 'study.parquet'" in other.stderr
    X, y = rows(folder)
    for name, allowed in (("study.parquet", True), ("other", False)):
        selector = SubsetSelector(
            n_features_to_select=1, bounds_X=BOUNDS, bounds_y=(-10, 10), table_name=name
        ).set_params(ledger=folder / "l.db")
        if allowed:
            selector.fit(X, y)
        else:
            with pytest.raises((InputError, LedgerError, BudgetError), match="is for the table"):
                selector.fit(X, y)
    assert Ledger(folder / "l.db").spent[0] == 2.0


def test_public_names_are_there_after_a_plain_import() -> None:
    import dpsubset

    for name in dpsubset.__all__:
        assert getattr(dpsubset, name) is not None
    assert set(dir(dpsubset)) == set(dpsubset.__all__)
    assert dpsubset.Limits(seconds=1.0).seconds == 1.0
    assert dpsubset.errors.InputError is InputError
    with pytest.raises(AttributeError):
        dpsubset.nonsense  # noqa: B018
