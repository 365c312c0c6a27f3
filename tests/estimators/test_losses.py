"""SubsetSelector with every loss: numbers and labels, what is kept, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.random import default_rng
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpsubset import PermuteAndFlip, Problem, SubsetSelector
from dpsubset.designs import as_design
from dpsubset.errors import InputError
from dpsubset.losses import LOSSES, Absolute, Hinge, Huber, Logistic, Quantile

REGRESSION: list[Any] = ["squared", "absolute", "quantile", "quantile:0.3", "huber:0.1"]
REGRESSION += [Absolute(), Quantile(0.7), Huber(0.5)]
CLASSIFICATION: list[Any] = ["hinge", "logistic", Hinge(), Logistic()]
SECRET = "s7351"  # a label of the table that no message may show


def selector(**changes: Any) -> SubsetSelector:
    options: dict[str, Any] = {
        "n_features_to_select": 2,
        "epsilon": 300.0,
        "bounds_X": (-10, 10),
        "random_state": 0,
    }
    return SubsetSelector(**{**options, **changes})


def table(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Columns 1 and 4 explain the target, and its sign."""
    X = default_rng(0).uniform(-10, 10, (n, 5))
    return X, X[:, 1] - X[:, 4]


def refusal(estimator: SubsetSelector, X: Any, y: Any) -> str:
    with pytest.raises(InputError) as caught:
        estimator.fit(X, y)
    assert "7351" not in str(caught.value)
    assert caught.value.__cause__ is None
    with pytest.raises(NotFittedError):
        estimator.get_support()
    return str(caught.value)


@pytest.mark.grid(every=4)
@parametrize_with_checks(
    [
        SubsetSelector(
            n_features_to_select=1, bounds_X=(-10, 10), bounds_y=(-10, 10), loss="huber:0.5"
        ),
        SubsetSelector(n_features_to_select=1, bounds_X=(-10, 10), loss="hinge"),
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# What is fitted ---------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", REGRESSION, ids=str)
def test_every_loss_of_numbers(loss: Any) -> None:
    X, y = table()
    for intercept in (True, False):
        given = {"loss": loss, "bounds_y": (-20, 20), "fit_intercept": intercept}
        fitted = selector(**given).fit(X, y)
        np.testing.assert_array_equal(fitted.get_support(indices=True), [1, 4])
        assert not hasattr(fitted, "classes_")


@pytest.mark.parametrize("loss", CLASSIFICATION, ids=str)
def test_every_loss_of_labels(loss: Any) -> None:
    X, y = table()
    for intercept in (True, False):
        fitted = selector(loss=loss, fit_intercept=intercept).fit(X, y > 0)
        np.testing.assert_array_equal(fitted.get_support(indices=True), [1, 4])


@pytest.mark.parametrize("loss", ["absolute", "logistic"])
def test_the_same_draw_as_the_mechanism_on_the_mapped_table(loss: str) -> None:
    X, y = default_rng(1).uniform(0, 10, (60, 6)), default_rng(2).uniform(5, 7, 60)
    labels = loss == "logistic"
    mapped = np.where(y > 6, 1.0, -1.0) if labels else np.clip(2 * y - 12, -1, 1)
    problem = Problem(
        as_design(X, bound=1.0, lower=0, upper=10).with_ones(),
        mapped,
        size=3,
        loss=loss,
        x_bound=1.0,
        y_bound=1.0,
        radius=2.0,
        ridge=0.5,
        row_ridge=0.002 if labels else 0.05,
        include=[6],
    )
    more = {"loss": loss, "bounds_X": (0, 10), "bounds_y": None if labels else (5.5, 6.5)}
    for seed in range(5):
        estimator = selector(epsilon=20.0, radius=2.0, ridge=0.5, random_state=seed, **more)
        fitted = estimator.fit(X, y > 6 if labels else y)
        expected = PermuteAndFlip(20.0).draw(problem, 1, seed)[0]
        assert (*fitted.release_.support, 6) == tuple(expected)
        assert fitted.guarantee_.sensitivity == problem.sensitivity()


def test_the_intercept_keeps_a_column_from_serving_as_a_constant() -> None:
    rng = default_rng(3)
    X = rng.uniform(0, 100, (1000, 4))
    X[:, 2] = rng.uniform(88, 92, 1000)  # far from the middle of its bounds, unrelated to the label
    y = X[:, 0] + X[:, 1] > 40  # one class is much larger
    given = {"bounds_X": (0, 100), "loss": "hinge", "radius": 3.0}
    assert selector(**given).fit(X, y).release_.support == (0, 1)
    assert 2 in selector(**given, fit_intercept=False).fit(X, y).release_.support


def containers(positive: np.ndarray) -> dict[str, Any]:
    words = np.where(positive, "yes", "no")
    return {
        "signs": np.where(positive, 1, -1),
        "floats": positive.astype(np.float32),
        "bytes": positive.astype(np.uint8),
        "truth values": positive,
        "list": positive.tolist(),
        "strings": words,
        "list of strings": words.tolist(),
        "objects": words.astype(object),
        "new strings": words.astype(np.dtypes.StringDType()),
        "truth values as objects": positive.astype(object),
        "pandas": pd.Series(words),
        "pandas objects": pd.Series(words, dtype=object),
        "pandas string": pd.Series(words, dtype="string"),
        "pandas category": pd.Series(words, dtype="category"),
        "pandas categories of numbers": pd.Series(positive.astype(int), dtype="category"),
        "pandas boolean": pd.Series(positive, dtype="boolean"),
        "pandas Int64": pd.Series(positive.astype(int), dtype="Int64"),
        "pandas with an index": pd.Series(words, index=np.arange(positive.size)[::-1]),
        "polars": pl.Series(words),
        "polars boolean": pl.Series(positive),
        "polars category": pl.Series(words, dtype=pl.Categorical),
        "polars enum": pl.Series(words, dtype=pl.Enum(["yes", "no", "maybe"])),
    }


@pytest.mark.parametrize("kind", containers(np.array([True, False])))
def test_labels_of_every_kind_give_the_same_draw(kind: str) -> None:
    X, y = table(60)
    given = containers(y > 0)[kind]
    before = list(given)
    for seed in range(3):
        estimator = selector(loss="hinge", epsilon=2.0, random_state=seed)
        expected = clone(estimator).fit(X, np.sign(y)).release_.support
        assert estimator.fit(X, given).release_.support == expected
        assert estimator.fit(-X, given).release_.support == expected  # flipped labels, as it were
    assert list(given) == before


def test_named_classes_let_a_table_hold_one_class_or_none() -> None:
    X, y = table(50)
    labels = np.where(y > 0, "yes", "no")
    named = selector(loss="hinge", classes=("no", "yes"))
    fitted = clone(named).fit(X, labels)
    assert fitted.release_.support == selector(loss="hinge").fit(X, labels).release_.support
    np.testing.assert_array_equal(fitted.classes_, ["no", "yes"])
    one = clone(named).fit(X, np.full(50, "yes"))
    assert one.support_.sum() == 2
    assert one.classes_.tolist() == ["no", "yes"]
    empty = clone(named).set_params(neighbours="add-remove").fit(X[:0], labels[:0])
    assert empty.support_.sum() == 2
    assert selector(loss="hinge", classes=[False, True]).fit(X, np.ones(50)).support_.sum() == 2
    assert "one class, or none" in refusal(selector(loss="hinge"), X, np.full(50, SECRET))
    assert "classes=(first, second)" in refusal(selector(loss="hinge"), X, np.full(50, SECRET))
    labels[3] = SECRET
    assert "other than the two classes" in refusal(fitted, X, labels)
    assert not hasattr(fitted, "classes_")


def test_nothing_of_the_labels_is_kept() -> None:
    X, y = table()
    fitted = selector(loss="logistic").fit(X, np.where(y > 0, SECRET, "other"))
    kept = set(vars(fitted)) - set(fitted.get_params())
    assert kept == {"support_", "release_", "guarantee_", "n_features_in_", "_lineage"}
    assert b"7351" not in pickle.dumps(fitted)
    assert "7351" not in repr(fitted) + str(fitted.guarantee_)
    named = selector(loss="logistic", classes=(0, 1)).fit(X, y > 0)
    kept = set(vars(named)) - set(named.get_params())
    assert kept == {"support_", "release_", "guarantee_", "n_features_in_", "classes_", "_lineage"}


# The scikit-learn contract ----------------------------------------------------------------------


def test_losses_are_parameters_like_others() -> None:
    X, y = table()
    for loss in ("huber:0.3", Huber(0.3), Hinge()):
        estimator = selector(loss=loss, bounds_y=(-20, 20))
        copy = clone(estimator)
        assert copy.get_params()["loss"] == loss
        assert "loss=" in repr(copy)
        assert pickle.loads(pickle.dumps(copy)).loss == loss
    estimator = selector(bounds_y=(-20, 20)).fit(X, y)
    estimator.set_params(loss="hinge", bounds_y=None, classes=(False, True)).fit(X, y > 0)
    assert estimator.get_support(indices=True).tolist() == [1, 4]
    fresh = clone(estimator)
    assert fresh.get_params()["classes"] == (False, True)
    assert not hasattr(fresh, "classes_")


def test_in_a_pipeline_with_a_classifier() -> None:
    X, y = table()
    labels = np.where(y > 0, "yes", "no")
    model = make_pipeline(selector(loss="logistic"), LogisticRegression()).fit(X, labels)
    assert model.score(X, labels) > 0.95
    fitted = pickle.loads(pickle.dumps(model[0]))
    np.testing.assert_array_equal(fitted.transform(X), X[:, [1, 4]])


def test_tags_tell_a_transformer_of_two_classes() -> None:
    for loss in CLASSIFICATION:
        tags = get_tags(selector(loss=loss))
        assert tags.classifier_tags is not None
        assert not tags.classifier_tags.multi_class
        assert tags.transformer_tags is not None
        assert tags.estimator_type is None
    for loss in [*REGRESSION, "cubic", None, 3]:
        assert get_tags(selector(loss=loss)).classifier_tags is None


# Refusals ---------------------------------------------------------------------------------------


class Unregistered(Huber):
    name = "mine"


BAD_LOSSES: list[tuple[Any, str]] = [
    ("cubic", "unknown loss 'cubic'; allowed: absolute, brier, hinge"),
    ("huber:x", "huber:x"),
    ("huber:-1", "c must be a number"),
    ("hinge:1", "hinge:1"),
    ("Hinge", "allowed"),
    ("", "allowed"),
    (["hinge"], "allowed"),
    (Hinge, "allowed"),
    (Unregistered(), "unknown loss"),
]


@pytest.mark.parametrize(("loss", "expected"), BAD_LOSSES, ids=str)
def test_a_bad_loss_is_refused_before_the_table_is_read(
    loss: Any, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*arguments: Any) -> None:
        raise AssertionError("the table was read")

    monkeypatch.setattr("dpsubset.estimators.asking.as_matrix", forbidden)
    assert expected in refusal(selector(loss=loss, bounds_y=(-20, 20)), *table(20))


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"loss": "hinge", "bounds_y": (-1, 1)}, "Leave bounds_y out"),
    ({"loss": "squared", "bounds_y": (-1, 1), "classes": (0, 1)}, "Leave classes out"),
    ({"loss": "huber"}, "bounds_y=(lower, upper)"),
    ({"loss": "hinge", "classes": "ab"}, "two different classes"),
    ({"loss": "hinge", "classes": (0,)}, "two different classes"),
    ({"loss": "hinge", "classes": (0, 1, 2)}, "two different classes"),
    ({"loss": "hinge", "classes": (1, 1.0)}, "two different classes"),
    ({"loss": "hinge", "classes": (1, True)}, "two different classes"),
    ({"loss": "hinge", "classes": ("a", "a")}, "two different classes"),
    ({"loss": "hinge", "classes": ("a", 1)}, "two different classes"),
    ({"loss": "hinge", "classes": {"a", "b"}}, "two different classes"),
    ({"loss": "hinge", "classes": (None, "b")}, "two different classes"),
    ({"loss": "hinge", "classes": (0, np.nan)}, "two different classes"),
    ({"loss": "hinge", "classes": (0, 10**400)}, "two different classes"),
    ({"loss": "hinge", "classes": np.eye(2)}, "two different classes"),
    ({"loss": "hinge", "classes": 3}, "two different classes"),
]


@pytest.mark.parametrize(("changes", "expected"), BAD_OPTIONS, ids=range(len(BAD_OPTIONS)))
def test_options_that_do_not_fit_the_loss(changes: dict[str, Any], expected: str) -> None:
    X, y = table(20)
    assert expected in refusal(selector(**changes), X, y > 0)


def test_a_loss_that_may_tell_its_classes_apart_needs_their_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Weighted(Hinge):
        name = "weighted"
        symmetric = False

    monkeypatch.setitem(LOSSES, "weighted", Weighted)
    X, y = table()
    assert "give classes=(first, second)" in refusal(selector(loss="weighted"), X, y > 0)
    named = selector(loss="weighted", classes=(False, True))
    assert named.fit(X, y > 0).release_.support == (1, 4)


BAD_LABELS: list[tuple[Any, str]] = [
    (np.arange(20.0) + 7351, "there are more"),
    ([SECRET, "a", "b", "c"] * 5, "there are more"),
    ([SECRET, 7351] * 10, "all numbers, all truth values or all strings"),
    (np.array([SECRET, True] * 10, dtype=object), "all numbers, all truth values"),
    (np.array(["7351", 1] * 10, dtype=object), "all numbers, all truth values"),
    ([SECRET, None] * 10, "missing"),
    ([SECRET, float("nan")] * 10, "missing"),
    ([0.0, np.nan] * 10, "missing"),
    ([0.0, np.inf] * 10, "missing"),
    (pd.Series([SECRET, None] * 10), "missing"),
    (pd.Series([SECRET, None] * 10, dtype="string"), "missing"),
    (pd.Series([SECRET, None] * 10, dtype="category"), "missing"),
    (pd.Series([True, None] * 10, dtype="boolean"), "missing"),
    (pd.Series([0, None] * 10, dtype="Int64"), "missing"),
    (pl.Series([SECRET, None] * 10), "missing"),
    (pl.Series([True, None] * 10), "missing"),
    (np.ma.masked_array([0, 1] * 10, [True] + [False] * 19), "masked"),
    (pd.Series(pd.date_range("7351-01-01", periods=20)), "numbers, truth values or strings"),
    (np.full(20, 1j), "numbers, truth values or strings"),
    ([[SECRET]] * 19 + [["a", "b"]], "all strings"),
    ([[0, 1]] * 20, "one dimension"),
    (5, "one dimension"),
    (SECRET, "one dimension"),
    (None, "requires y"),
    ([0, 1] * 9, "inconsistent"),
    (sp.csr_array(np.eye(20)[:, :1]), "sparse"),
]


@pytest.mark.parametrize(("labels", "expected"), BAD_LABELS, ids=range(len(BAD_LABELS)))
def test_labels_that_are_refused(labels: Any, expected: str) -> None:
    X, _ = table(20)
    assert expected in refusal(selector(loss="hinge"), X, labels)


@pytest.mark.parametrize(
    "labels",
    [
        [SECRET, "b"] * 10,
        np.array([SECRET, "b"] * 10, dtype=object),
        pd.Series([SECRET, "b"] * 10, dtype="category"),
        pl.Series([SECRET, "b"] * 10),
    ],
    ids=["list", "objects", "pandas", "polars"],
)
def test_a_target_of_text_hints_at_the_classification_losses(labels: Any) -> None:
    X, _ = table(20)
    for loss in ("squared", "absolute"):
        text = refusal(selector(loss=loss, bounds_y=(-1, 1)), X, labels)
        assert "loss for labels, brier or logistic" in text


def test_no_refusal_depends_on_the_number_of_rows() -> None:
    def refusals(n: int) -> list[str]:
        X, private = np.zeros((n, 5)), {"loss": "hinge", "neighbours": "add-remove"}
        return [
            refusal(selector(**private), X, np.zeros(n)),
            refusal(selector(**private), X, np.arange(n)),
            refusal(selector(**private), X, np.arange(n + 1) % 2),
            refusal(selector(**private, classes=(0, 1)), X, np.arange(n)),
            refusal(selector(**private), X, [SECRET, *[None] * (n - 1)]),
            refusal(selector(**private), X, np.zeros((n, 2))),
        ]

    assert refusals(3) == refusals(47)


def test_a_column_of_labels_is_taken_with_a_warning() -> None:
    X, y = table()
    for labels in ((y > 0)[:, None], pd.DataFrame({"y": y > 0}), pl.DataFrame({"y": y > 0})):
        with pytest.warns(DataConversionWarning, match="column-vector"):
            fitted = selector(loss="hinge").fit(X, labels)
        assert fitted.release_.support == (1, 4)
