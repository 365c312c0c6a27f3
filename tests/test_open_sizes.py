"""n_features_to_select="auto" and --size auto: from a table to records, files and models (T34)."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from dpsubset import Ledger, SubsetClassifier, SubsetRegressor, SubsetSelector
from dpsubset.cli import app
from dpsubset.coefficients import NoisyStatistics, ObjectivePerturbation
from dpsubset.data import Schema, Table
from dpsubset.data.target import Target
from dpsubset.errors import InputError
from dpsubset.mechanisms import Mechanism
from dpsubset.model import Model
from dpsubset.model_file import read_model, write_model
from dpsubset.problem import Problem
from dpsubset.selection import Selection

NAMES = [f"x{j}" for j in range(6)]
AUTO: dict[str, Any] = {"n_features_to_select": "auto", "bounds_X": (0, 10), "random_state": 1}
MECHANISMS = ("permute-and-flip", "exponential", "stepwise")


def data(n: int = 900) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return columns, a target of two of them, and one of none."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (n, 6))
    return X, X[:, 1] - X[:, 4], rng.uniform(-10, 10, n)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    X, y, noise = data()
    frame = pl.DataFrame(X, schema=NAMES)
    frame.with_columns(y=pl.Series(y)).write_csv(tmp_path / "t.csv")
    frame.with_columns(y=pl.Series(noise)).write_parquet(tmp_path / "noise.parquet")
    bounds = '[default]\nbounds = [0, 10]\n[columns]\n"y" = [-10, 10]\n'
    (tmp_path / "b.toml").write_text(bounds)
    return tmp_path


def run(*words: Any) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def asked(folder: Path, table: str, *more: Any) -> list[Any]:
    given = ["--target", "y", "--bounds", folder / "b.toml", "--seed", 1, "--epsilon", 30]
    return [folder / table, *given, *more]


# ---- estimators ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_number_of_columns_is_found(mechanism: str) -> None:
    X, y, noise = data()
    selector = SubsetSelector(**AUTO, bounds_y=(-10, 10), epsilon=30.0, mechanism=mechanism)
    assert selector.fit(X, y).get_support(indices=True).tolist() == [1, 4]
    assert selector.transform(X).shape == (900, 2)
    selector.set_params(false_columns=1e-9, epsilon=3.0).fit(X, noise)
    assert selector.release_.support == ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # scikit-learn's, of no column
        assert selector.transform(X).shape == (900, 0)
    assert selector.guarantee_.epsilon == 3.0
    kept = selector.set_params(always_include=[2], exclude=[0]).fit(X, noise)
    assert kept.get_support(indices=True).tolist() == [2]


def test_the_record_has_both_numbers() -> None:
    X, y, _ = data()
    selector = SubsetSelector(**AUTO, bounds_y=(-10, 10), epsilon=30.0, max_features=3)
    record = selector.set_params(false_columns=0.2).fit(X, y).release_.to_dict()
    named = {name: record["asked"][name] for name in ("size", "max_size", "false_columns")}
    assert named == {"size": "auto", "max_size": 3, "false_columns": 0.2}
    assert record["released"]["positions"] == [1, 4]
    known = selector.set_params(n_features_to_select=2).fit(X, y).release_.to_dict()
    assert "max_size" not in known["asked"]


def test_noise_is_that_of_the_largest_size() -> None:
    X, y, _ = data()
    selector = SubsetSelector(**AUTO, bounds_y=(-10, 10), max_features=4)
    told = SubsetSelector(**{**AUTO, "n_features_to_select": 4}, bounds_y=(-10, 10))
    found, known = (one.fit(X, y).guarantee_.sensitivity for one in (selector, told))
    assert found == known
    wide = selector.set_params(max_features=50).fit(X, y).guarantee_  # all, if there are fewer
    assert (
        wide.sensitivity == told.set_params(n_features_to_select=6).fit(X, y).guarantee_.sensitivity
    )


@pytest.mark.parametrize("coefficients", ["objective-perturbation", "noisy-statistics"])
@pytest.mark.parametrize("intercept", [True, False])
def test_regression(intercept: bool, coefficients: str) -> None:
    pytest.importorskip("opendp")
    X, y, noise = data()
    given: Any = {"bounds_y": (-10, 10), "fit_intercept": intercept, "coefficients": coefficients}
    model = SubsetRegressor(**AUTO, **given, epsilon=60.0).fit(X, y)
    assert np.flatnonzero(model.support_).tolist() == [1, 4]
    np.testing.assert_allclose(model.coef_[[1, 4]], [1.0, -1.0], atol=0.15)
    nothing = SubsetRegressor(**AUTO, **given, epsilon=6.0, false_columns=1e-9).fit(X, noise)
    assert not nothing.support_.any()
    predicted = nothing.predict(X[:7])
    np.testing.assert_array_equal(predicted, np.full(7, nothing.intercept_))
    assert intercept or nothing.intercept_ == 0.0


def test_classification() -> None:
    X, y, noise = data()
    given: Any = {"classes": ("no", "yes"), "false_columns": 1e-6}
    model = SubsetClassifier(**AUTO, **given, epsilon=60.0)
    model.fit(X, np.where(y > 0, "yes", "no"))
    assert np.flatnonzero(model.support_).tolist() == [1, 4]
    model.set_params(epsilon=2.0).fit(X, np.where(noise > 0, "yes", "no"))
    assert not model.support_.any()
    assert set(model.predict(X)) <= {"no", "yes"}
    assert np.ptp(model.predict_proba(X)[:, 1]) == 0.0


def test_coefficients_have_the_noise_of_the_released_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is public by then: two columns need less noise than ten (T29, T34)."""
    X, y, _ = data()
    sizes: list[int] = []
    for method in (ObjectivePerturbation, NoisyStatistics):
        plain = method._fit

        def seen(self: Any, problem: Problem, *rest: Any, plain: Any = plain) -> Any:
            sizes.append(problem.size)
            return plain(self, problem, *rest)

        monkeypatch.setattr(method, "_fit", seen)
    SubsetRegressor(**AUTO, bounds_y=(-10, 10), epsilon=60.0).fit(X, y)
    assert sizes == [3]  # with the constant
    problem = Problem(
        X, y, size=4, false_columns=0.1, loss="huber", x_bound=10, y_bound=10, radius=1
    )
    coefficients = ObjectivePerturbation(1.0).release(problem, [0, 2], random_state=0)
    assert len(coefficients.values) == 2
    assert sizes == [3, 2]
    assert ObjectivePerturbation(1.0).release(problem, [], random_state=0).values == ()


# ---- what is wrong ------------------------------------------------------------------------------


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another word": ({"n_features_to_select": "some"}, 'whole number or "auto"'),
    "no largest size": ({"max_features": 0}, "max_features"),
    "half a column": ({"max_features": 2.5}, "max_features"),
    "fewer than included": ({"max_features": 1, "always_include": [0, 1]}, "max_features is 1"),
    "no false column": ({"false_columns": 0.0}, "false_columns"),
    "more than one": ({"false_columns": 2}, "false_columns"),
    "text": ({"false_columns": "few"}, "false_columns"),
    **{
        name: ({"mechanism": name, "classes": None}, "how many columns to choose")
        for name in ("top-r", "mistakes", "markov-chain", "sample-aggregate", "lasso-stability")
    },
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_told_before_anything_is_spent(name: str, tmp_path: Path) -> None:
    """And alike for every table."""
    given, expected = WRONG[name]
    words = set()
    for seed in range(2):
        X, y, noise = data(60 + seed)
        ledger = Ledger(tmp_path / f"{seed}.db", epsilon=5.0)
        selector = SubsetSelector(**AUTO, bounds_y=(-10, 10), ledger=ledger).set_params(**given)
        with pytest.raises(InputError, match=expected) as caught:
            selector.fit(X, noise if seed else y)
        words.add(str(caught.value))
        assert ledger.history() == []
    assert len(words) == 1


def test_a_selection_goes_through_plain_values() -> None:
    schema = Schema.of(tuple(NAMES), 6, (0, 10), Target((-10.0, 10.0)))
    selection = Selection(schema=schema, size="auto", max_size=4, false_columns=0.2, seed=0)
    plain = json.loads(json.dumps(selection.to_dict()))
    again = Selection.from_dict(plain)
    assert again.asked() == selection.asked()
    X, y, _ = data()
    assert again.release(Table(X, y)).support == selection.release(Table(X, y)).support
    with pytest.raises(InputError, match="not posed by this selection"):
        Selection(schema=schema, size="auto").release(selection.problem(Table(X, y)))


def test_settings_that_may_take_long_name_the_largest_size() -> None:
    schema = Schema.of(None, 60, (0, 10), Target((-10.0, 10.0)))
    hard = {"loss": "absolute", "row_ridge": 0.0, "epsilon": 5.0}
    selection = Selection(schema=schema, size="auto", **hard)
    rows = np.zeros((20_000, 60)), np.zeros(20_000)
    assert "up to 10 columns" in str(selection.slow(selection.problem(Table(*rows))))


# ---- the command --------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_select(mechanism: str, folder: Path) -> None:
    Ledger(folder / "l.db", epsilon=100.0)
    more = ["--size", "auto", "--mechanism", mechanism, "--ledger", folder / "l.db"]
    path = folder / "r.json"
    result = run("select", *asked(folder, "t.csv", *more, "--output", path))
    assert result.exit_code == 0, result.output
    assert "2 of 6 columns for y" in result.stdout
    file = json.loads(path.read_text())
    assert file["asked"]["size"] == "auto"
    assert (file["asked"]["max_size"], file["asked"]["false_columns"]) == (10, 0.05)
    assert file["released"]["columns"] == ["x1", "x4"]
    entry = Ledger(folder / "l.db").history()[-1]
    assert (entry.asked["size"], entry.released) == ("auto", file["released"])


def test_a_model_from_file_to_predictions(folder: Path) -> None:
    """Of two columns, and of none: the number of predictions is that of the rows."""
    for table, columns in (("t.csv", 2), ("noise.parquet", 0)):
        more = ["--size", "auto", "--max-size", 4, "--false-columns", 1e-6]
        model = folder / f"{table}.json"
        fitted = run("fit", *asked(folder, table, *more, "--output", model))
        assert fitted.exit_code == 0, fitted.output
        assert f"{columns} columns for y" in fitted.stdout
        stored = read_model(model)
        assert len(stored.columns) == columns
        assert write_model(stored) == model.read_text()
        for rows in ("t.csv", "noise.parquet"):
            predicted = run("predict", model, folder / rows)
            assert predicted.exit_code == 0, predicted.output
            assert len(predicted.stdout.splitlines()) == 901


def test_all_mechanisms_need_a_number(folder: Path) -> None:
    result = run("select", *asked(folder, "t.csv", "--size", "auto", "--mechanism", "all"))
    assert result.exit_code == 2
    assert "how many columns to choose" in result.stderr


@pytest.mark.parametrize("size", ["automatic", "2.5", "", "+-2", "9" * 30, "AUTO"])
def test_sizes_that_are_none(size: str, folder: Path) -> None:
    result = run("select", *asked(folder, "t.csv", "--size", size))
    assert result.exit_code == 2
    assert '--size must be a whole number or "auto"' in result.stderr


def test_plan_needs_a_number() -> None:
    assert run("plan", "--features", 8, "--size", "auto").exit_code == 2


def test_an_offset_goes_with_it() -> None:
    X, y, _ = data()
    selector = SubsetSelector(**AUTO, bounds_y=(-10, 10), epsilon=40.0, offset_share=0.1)
    released = selector.fit(X, y).release_
    assert released.support == (1, 4)
    assert released.offset is not None


def test_twin_a_size_that_is_not_protected_is_caught() -> None:
    """A mechanism that takes the size from the table loses all privacy, and the audit shows it."""
    from dpsubset import Exponential, audit

    class Peeking(Exponential):
        def _law(self, problem: Problem, supports: Any, scores: Any) -> Any:
            logs = super()._law(problem, supports, scores)
            size = 1 + int(np.sum(problem.y) > 0)
            other = np.count_nonzero(supports != -2, axis=1) != size
            logs = np.where(other, -math.inf, logs)
            return logs - np.logaddexp.reduce(logs)

    rows = np.random.default_rng(0).choice([-1.0, 1.0], (5, 4))
    rows[:, -1] = [1, -1, 1, -1, 1]
    given: Any = {"size": 2, "false_columns": 0.5, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0}
    problem = Problem(rows[:, :-1], rows[:, -1], **given)
    others = audit.neighbouring(problem, 20)
    assert not audit.exact(Peeking(1.0), problem, others).passed
    assert audit.exact(Exponential(1.0), problem, others).passed


def test_models_are_settings_like_selections() -> None:
    schema = Schema.of(tuple(NAMES), 6, (0, 10), Target((-10.0, 10.0)))
    model = Model(schema=schema, size="auto", epsilon=60.0, seed=0)
    assert isinstance(model.made, Mechanism)
    X, y, _ = data()
    released = model.release(Table(X, y))
    assert released.columns == ("x1", "x4")
    assert released.asked["size"] == "auto"
