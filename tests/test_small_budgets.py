"""Models that fall back to a private offset where epsilon is too small (T29, T39, T42)."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dpsubset import (
    Exponential,
    Ledger,
    PermuteAndFlip,
    Problem,
    SubsetClassifier,
    SubsetRegressor,
)
from dpsubset.audit.doors import _density
from dpsubset.coefficients import ObjectivePerturbation
from dpsubset.data.frames import Table
from dpsubset.data.schema import Schema
from dpsubset.data.target import Target
from dpsubset.errors import InputError
from dpsubset.model import Model
from dpsubset.model_file import read_model, write_model
from dpsubset.selection import Selection


def model_of(labels: bool = False, **more: Any) -> Model:
    target = Target(None, ("no", "yes")) if labels else Target((0.0, 10.0))
    schema = Schema.of(("a", "b", "c"), 3, (-1, 1), target)
    loss = {"loss": "logistic"} if labels else {"window_share": 0}
    return Model(schema=schema, **{"size": 1, "seed": 0, **loss, **more})


def rows_of(n: int = 400, labels: bool = False, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return Table(X, np.where(X[:, 1] > 0.8, "yes", "no") if labels else 8.0 + X[:, 1])


@pytest.mark.parametrize("labels", [False, True])
def test_offset_columns_and_coefficients_are_one_charge(tmp_path: Path, labels: bool) -> None:
    ledger = Ledger(tmp_path / "budget.db", epsilon=25.0)
    model = model_of(labels, epsilon=20.0, offset_share=0.1, seed=None)
    released = model.release(rows_of(2000, labels), ledger)
    assert released.columns == ("b",)
    assert released.offset is not None
    assert -3.0 < released.offset < -1.5 if labels else 7.7 < released.offset < 8.3
    told = released.to_dict()
    assert told["released"]["offset"] == released.offset
    assert told["asked"]["offset_share"] == 0.1
    assert told["asked"]["mechanism"]["epsilon"] == 9.0
    assert told["asked"]["coefficients"]["epsilon"] == 9.0
    assert told["guarantee"]["epsilon"] == 20.0
    assert "private offset (epsilon 2) followed by permute-and-flip mechanism (epsilon 9)" in str(
        told["guarantee"]["mechanism"]
    )
    (entry,) = ledger.history()
    assert entry.guarantee.epsilon == 20.0
    assert entry.released == told["released"]
    path = tmp_path / "model.json"
    path.write_text(write_model(released), encoding="utf-8")
    assert read_model(path).offset == released.offset


def test_predictions_add_the_offset() -> None:
    model = model_of(epsilon=50.0, offset_share=0.2)
    released = model.release(rows_of(3000))
    X = np.array([[-0.5], [0.0], [0.9]])
    assert released.predict(X)["prediction"].tolist() == pytest.approx([7.5, 8.0, 8.9], abs=0.1)


def test_chances_are_those_of_a_rare_class() -> None:
    table = rows_of(3000, labels=True)
    released = model_of(True, epsilon=10.0).release(table)
    chances = released.predict(table.X[:, [1]])["probability of yes"]
    assert np.mean(chances) == pytest.approx(np.mean(table.y == "yes"), abs=0.02)


def test_with_hardly_any_budget_a_model_is_its_offset() -> None:
    noise = []
    for seed in range(5):
        released = model_of(epsilon=0.05, seed=seed).release(rows_of(300))
        predicted = released.predict(np.array([[-1.0], [1.0]]))["prediction"]
        assert released.offset is not None
        assert predicted.tolist() == pytest.approx([released.offset] * 2, abs=0.5)
        noisy = model_of(epsilon=0.05, seed=seed, offset_share=0, coefficient_ridge=0)
        noise.append(abs(noisy.release(rows_of(300)).coefficients[0]))
    assert np.median(noise) > 0.5


def test_the_share_is_by_rule_where_the_number_of_rows_is_public() -> None:
    model = model_of(epsilon=1.0)
    shares = {n: model.settled(n).offset_share for n in (10, 100, 500, 2000, 10**6)}
    assert shares == {10: 0.9, 100: 0.5, 500: 0.1, 2000: 0.025, 10**6: 0.01}
    for n in (40, 4000):
        promise = model.guarantee(model.problem(rows_of(n)))
        assert promise.epsilon == 1.0
    assert model.settled(500).method.tolerance == 0.003  # type: ignore[attr-defined]
    assert model_of(True).settled(500).method.tolerance == 0.02  # type: ignore[attr-defined]
    own = model_of(coefficient_ridge=3.0)
    assert own.method.tolerance is None  # type: ignore[attr-defined]
    assert own.fit_problem(own.rehearsal()).ridge == 3.0


def test_the_selections_share_is_by_rule_too() -> None:
    """Less where there are few rows for numbers; what is given stays."""
    shares = {n: model_of(epsilon=2.0).settled(n).selection_share for n in (10, 499, 500, 10**6)}
    assert shares == {10: 0.35, 499: 0.35, 500: 0.5, 10**6: 0.5}
    assert model_of(True).settled(10).selection_share == 0.5
    assert model_of(selection_share=0.7).settled(10).selection_share == 0.7
    assert model_of(neighbours="add-remove").settled(10).selection_share == 0.5


def test_what_is_settled_is_kept_for_each_number_of_rows() -> None:
    """It is the same as of a model that was not asked before, seed and all."""
    model = model_of(epsilon=2.0, seed=np.random.default_rng(5))
    few, many = model.settled(10), model.settled(10**6)
    assert (few.selection_share, many.selection_share) == (0.35, 0.5)
    assert model.settled(10) is few
    assert model.settled(10**6) is many
    assert few.checked_seed == many.checked_seed == model.checked_seed
    other = model_of(epsilon=2.0)
    assert other.settled(10) is not few
    assert other.guarantee() == model.guarantee() == few.guarantee() == few._promised
    assert few.guarantee(few.rehearsal()) == few.guarantee()


@pytest.mark.parametrize("kind", [Model, Selection])
def test_a_private_number_of_rows_is_not_kept(kind: Any) -> None:
    given: dict[str, Any] = {"schema": model_of().schema, "size": 1, "neighbours": "add-remove"}
    asked = kind(**given, epsilon=1.0, seed=0)
    asked.release(rows_of(1234))
    assert asked.settled(10) is asked.settled(10**6)
    assert b"1234" not in pickle.dumps(asked.settled(1234), protocol=0)
    public = kind(**{**given, "neighbours": "replace-one"}, seed=0).settled(1234)
    assert b"1234" in pickle.dumps(public, protocol=0)


def test_under_add_remove_nothing_tells_the_number_of_rows() -> None:
    model = model_of(neighbours="add-remove")
    assert model.settled(10).offset_share == model.settled(10**6).offset_share == 0.1
    one, other = (model.problem(rows_of(n)) for n in (30, 3000))
    assert one.origin.asked == other.origin.asked
    assert model.guarantee(one) == model.guarantee(other)
    told = [model.release(rows_of(n)).asked for n in (0, 30)]
    assert told[0] == told[1]
    assert model.method.constants(model.fit_problem(one)) == model.method.constants(  # type: ignore[attr-defined]
        model.fit_problem(other)
    )


def test_a_record_holds_what_was_settled() -> None:
    model = model_of(epsilon=1.0)
    problem = model.problem(rows_of(100))
    released = model.release(problem)
    assert released.asked["offset_share"] == 0.5
    assert released.asked["selection_share"] == 0.35
    assert released.asked["mechanism"]["epsilon"] == 0.175
    with pytest.raises(InputError, match="not posed by this selection"):
        model_of(epsilon=2.0).release(problem)


@pytest.mark.parametrize("mechanism", ["sample-aggregate", "markov-chain"])
def test_mechanisms_that_take_no_offset_select_without(mechanism: str) -> None:
    model = model_of(mechanism=mechanism, epsilon=4.0)
    released = model.release(rows_of(600))
    assert released.offset is not None
    assert not model.settled(600)._around
    assert model_of().settled(600)._around


def test_a_mechanism_object_leaves_less_for_offset_and_coefficients() -> None:
    model = model_of(mechanism=Exponential(0.9, neighbours="add-remove"), epsilon=1.0)
    settled = model.settled(100)
    assert settled.offset_share == 0.01
    assert settled.offset is not None
    assert settled.offset.neighbours == "add-remove"
    assert settled.method.epsilon == 0.09
    assert model.guarantee().epsilon == 1.0
    with pytest.raises(InputError, match="of it on an offset: nothing is left"):
        model_of(mechanism=PermuteAndFlip(0.9), epsilon=1.0, offset_share=0.2)


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan"), "a", True])
def test_a_share_must_be_one(share: Any) -> None:
    with pytest.raises(InputError, match="offset_share must be 0"):
        model_of(offset_share=share)


def test_estimators_take_a_share() -> None:
    table = rows_of(2000)
    regressor = SubsetRegressor(
        n_features_to_select=1, epsilon=20.0, bounds_X=(-1, 1), bounds_y=(0, 10), offset_share=0.1
    ).fit(table.X, table.y)
    assert "private offset (epsilon 2)" in regressor.guarantee_.mechanism
    assert regressor.predict(table.X) == pytest.approx(table.y, abs=0.3)
    labels = rows_of(3000, labels=True)
    classifier = SubsetClassifier(
        n_features_to_select=1, epsilon=10.0, bounds_X=(-1, 1), classes=("no", "yes")
    ).fit(labels.X, labels.y)
    share = np.mean(labels.y == "yes")
    assert classifier.predict_proba(labels.X)[:, 1].mean() == pytest.approx(share, abs=0.03)


# ---- a public number of rows under add-remove ----------------------------------------------------


def counted(rows: int | None, **more: Any) -> Model:
    """Return a model by a schema that says how many rows there are, or does not."""
    schema = Schema.from_dict(
        {
            "columns": {name: [-1, 1] for name in "abc"},
            "target": {"bounds": [0, 10]},
            "rows": rows,
        }
    )
    given = {"size": 1, "seed": 0, "neighbours": "add-remove", "window_share": 0}
    return Model(schema=schema, **given | more)


def cells_of(n: int, seed: int = 0) -> Table:
    table = rows_of(n, seed=seed)
    return Table(pl.DataFrame(table.X, schema=["a", "b", "c"]), table.y)


def test_rows_of_a_schema_settle_the_rules_under_add_remove() -> None:
    for rows, share in ((100, 0.5), (2000, 0.025), (None, 0.1)):
        model = counted(rows, epsilon=1.0)
        assert model.settled(7).offset_share == model.settled(10**6).offset_share == share
        one, other = (model.problem(cells_of(n)) for n in (30, 3000))
        assert one.origin.asked == other.origin.asked
        assert model.guarantee(one) == model.guarantee(other)
        assert model.guarantee(one).epsilon == 1.0
        constants = [
            model.settled(p.n_rows).method.constants(model.fit_problem(p))  # type: ignore[attr-defined]
            for p in (one, other)
        ]
        assert constants[0] == constants[1]
    # The same constants as a table of so many rows has under replace-one, up to the relation.
    by_table = counted(None, epsilon=1.0, neighbours="replace-one")
    assert by_table.settled(2000).offset_share == 0.025
    kept = counted(50, epsilon=1.0, neighbours="replace-one")
    assert kept.settled(2000).offset_share == 0.025  # a table's own number is public there


def test_with_rows_a_small_budget_falls_back_to_the_offset_under_add_remove() -> None:
    far: dict[int | None, list[float]] = {300: [], None: []}
    for rows, found in far.items():
        for seed in range(8):
            released = counted(rows, epsilon=0.05, seed=seed).release(cells_of(300))
            assert released.offset is not None
            points = pl.DataFrame({name: [-1.0, 1.0] for name in released.columns})
            predicted = released.predict(points)["prediction"]
            found.append(float(np.abs(predicted - released.offset).max()))
    assert max(far[300]) < 0.5
    assert np.median(far[None]) > 1.0


def test_a_ridge_by_the_tables_own_rows_is_caught_under_add_remove() -> None:
    """The rule is a public constant: with the table's number one row changes all of the noise."""
    problems = [
        Problem(
            np.ones((n, 1)),
            np.zeros(n),
            size=1,
            loss="huber:0.2",
            x_bound=1.0,
            y_bound=1.0,
            radius=2.0,
        )
        for n in (2, 3)
    ]

    def apart(rows: list[int]) -> float:
        logs = [
            _density(
                ObjectivePerturbation(1.0, neighbours="add-remove", tolerance=0.02, rows=n),
                problem,
                (0,),
                "huber:0.2",
            )
            for n, problem in zip(rows, problems, strict=True)
        ]
        return float(np.abs(logs[0] - logs[1]).max())

    assert apart([100, 100]) <= 1.0 + 1e-9
    assert apart([2, 3]) > 1.05


def test_rows_serve_other_rules_too() -> None:
    schema = counted(900).schema
    voting = Selection(
        schema=schema,
        size=1,
        mechanism="sample-aggregate",
        neighbours="add-remove",
        intercept=False,
    )
    assert voting.made.blocks == 30  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="number of rows is private"):
        Selection(
            schema=counted(None).schema,
            size=1,
            mechanism="sample-aggregate",
            neighbours="add-remove",
        )
    for rows, said in ((100, False), (10**6, True), (None, True)):
        lines = {f"x{j}": [-1, 1] for j in range(60)}
        wide = Schema.from_dict({"columns": lines, "target": {"bounds": [0, 1]}, "rows": rows})
        hard = {"size": 8, "epsilon": 5.0, "loss": "absolute", "row_ridge": 0.0}
        asked = Selection(schema=wide, neighbours="add-remove", **hard)
        assert (asked.slow(asked.rehearsal()) is not None) == said
    for wrong in ({"rows": 5}, {"tolerance": 0.1, "rows": 0}, {"tolerance": 0.1}):
        with pytest.raises(InputError, match="rows"):
            ObjectivePerturbation(1.0, neighbours="add-remove", **wrong)
