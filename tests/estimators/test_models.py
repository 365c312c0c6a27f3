"""SubsetRegressor and SubsetClassifier: what the model is, what it spends, and what it keeps."""

from __future__ import annotations

import pickle
import pickletools
import struct
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.random import default_rng
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpsubset import (
    Exponential,
    Mistakes,
    PermuteAndFlip,
    SubsetClassifier,
    SubsetRegressor,
    TopR,
)
from dpsubset.coefficients import CoefficientMechanism, ObjectivePerturbation
from dpsubset.errors import InputError, MissingExtraError
from dpsubset.mechanisms import Mechanism
from dpsubset.model import Model
from dpsubset.privacy import as_randomness

ROWS = 317  # a number of rows that nothing else equals
SECRET = "s7351"  # a label of the table that no message may show
NAMES = ["age", "dose", "score", "flag", "time"]
# Columns of very different units; the target is not centred at 0.
LOWER = np.array([0.0, 100.0, -5.0, 1e6, -1.0])
UPPER = np.array([1e-3, 1000.0, 5.0, 3e6, 7.0])
TARGET = (50.0, 90.0)
CONDITIONAL = pytest.mark.filterwarnings("ignore:the mistakes mechanism is private only if")


def table(n: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Columns 1 and 4 explain the target."""
    rng = default_rng(0)
    u = rng.uniform(-1, 1, (n, 5))
    y = 72.0 + 9.0 * u[:, 1] - 7.0 * u[:, 4] + rng.normal(size=n)
    return (LOWER + UPPER) / 2 + u * (UPPER - LOWER) / 2, y


def regressor(**changes: Any) -> SubsetRegressor:
    options: dict[str, Any] = {
        "n_features_to_select": 2,
        "epsilon": 40.0,
        "bounds_X": (LOWER, UPPER),
        "bounds_y": TARGET,
        "random_state": 0,
    }
    return SubsetRegressor(**{**options, **changes})


def classifier(**changes: Any) -> SubsetClassifier:
    options: dict[str, Any] = {
        "n_features_to_select": 2,
        "epsilon": 60.0,
        "bounds_X": (LOWER, UPPER),
        "classes": (False, True),
        "random_state": 0,
    }
    return SubsetClassifier(**{**options, **changes})


@pytest.fixture(scope="module")
def fitted() -> SubsetRegressor:
    return regressor().fit(*table())


@pytest.fixture(scope="module")
def labelled() -> SubsetClassifier:
    X, y = table()
    return classifier(classes=("no", "yes")).fit(X, np.where(y > 70, "yes", "no"))


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every release of a mechanism, by the name of its class."""
    found: list[str] = []

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            found.append(type(self).__name__)
            return method(self, *arguments, **options)

        return call

    monkeypatch.setattr(Mechanism, "chosen", counted(Mechanism.chosen))
    monkeypatch.setattr(Mechanism, "draw", counted(Mechanism.draw))
    monkeypatch.setattr(CoefficientMechanism, "fitted", counted(CoefficientMechanism.fitted))
    return found


NUMBERS = {"n_features_to_select": 1, "bounds_X": (-10, 10), "bounds_y": (-10, 10)}
LABELS = {"n_features_to_select": 1, "bounds_X": (-10, 10)}


class Told(SubsetClassifier):
    """A classifier whose owner names the classes of whatever labels scikit-learn's checks have."""

    def _plan_target(self, y: Any) -> Any:
        array = np.array([0, 1]) if y is None else np.asarray(y)
        labels = [0, 1] if np.iscomplexobj(array) else np.unique(array).tolist()
        if len(labels) != 2:  # as the owner of a continuous target would find
            raise InputError("Only binary classification is supported. continuous: one class no")
        told = clone(self).set_params(classes=labels)
        return SubsetClassifier._plan_target(told, y)


@pytest.mark.grid(every=6, of=2)
@parametrize_with_checks(
    [
        SubsetRegressor(**NUMBERS),
        SubsetRegressor(**NUMBERS, fit_intercept=False, delta=1e-6, loss="squared"),
        SubsetRegressor(**NUMBERS, coefficients="noisy-statistics", random_state=0),
        SubsetRegressor(
            **NUMBERS, coefficients="noisy-statistics", fit_intercept=False, random_state=0
        ),
        SubsetRegressor(**NUMBERS, mechanism="mistakes", loss="squared"),
        Told(**LABELS),
        Told(**LABELS, coefficient_loss="huber_hinge", fit_intercept=False),
    ]
)
@CONDITIONAL
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# The model is what it says ----------------------------------------------------------------------


def losses(name: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Formulas of the losses, written afresh."""

    def huber(y: np.ndarray, t: np.ndarray) -> np.ndarray:
        d = np.abs(y - t)
        return np.where(d <= 0.2, d * d, 0.4 * d - 0.04)

    def hinge(y: np.ndarray, t: np.ndarray) -> np.ndarray:
        margin = y * t
        h = 0.5
        middle = (1 + h - margin) ** 2 / (4 * h)
        return np.where(margin >= 1 + h, 0.0, np.where(margin <= 1 - h, 1 - margin, middle))

    return {
        "huber:0.2": huber,
        "squared": lambda y, t: (y - t) ** 2,
        "logistic": lambda y, t: np.log1p(np.exp(-y * t)),
        "huber_logistic": lambda y, t: (
            np.log1p(np.exp(-np.maximum(y * t, -0.5)))
            + np.maximum(-0.5 - y * t, 0.0) / (1.0 + np.exp(-0.5))
        ),
        "huber_hinge:0.5": hinge,
    }[name]


def optimum(
    X: np.ndarray, y: np.ndarray, model: Any, loss: str, radius: float, ridge: float
) -> tuple[np.ndarray, float]:
    """Minimise on the chosen columns by scipy, and return the line in the units of the table."""
    chosen = np.flatnonzero(model.support_)
    middle, half = (LOWER + UPPER) / 2, model.clip * (UPPER - LOWER) / 2
    Z = np.clip((X - middle) / half, -1, 1)[:, chosen]
    centre, unit = 0.0, 1.0
    if isinstance(model, SubsetRegressor):
        centre, unit = 70.0, model.clip * 20.0
        y = np.clip((y - centre) / unit, -1, 1)
    if model.fit_intercept:
        Z = np.column_stack([Z, np.ones(len(Z))])
    formula = losses(loss)
    found = minimize(
        lambda b: (formula(y, Z @ b).sum() + ridge * b @ b) / len(Z),
        np.full(Z.shape[1], 1e-3),
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda b: radius**2 - b @ b},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    coefficients = np.zeros(X.shape[1])
    coefficients[chosen] = unit * found.x[: chosen.size] / half[chosen]
    constant = found.x[chosen.size] if model.fit_intercept else 0.0
    return coefficients, centre + unit * constant - coefficients @ middle


def far_from_optimum(model: Any, loss: str, radius: float, ridge: float = 1.0) -> float:
    """Return the largest difference of predictions from those of the optimum, in parts of 1."""
    X, y = table(1500)
    labels = isinstance(model, SubsetClassifier)
    signs = np.where(y > 70, 1.0, -1.0)
    model.fit(X, y > 70 if labels else y)
    np.testing.assert_array_equal(np.flatnonzero(model.support_), [1, 4])
    line, intercept = optimum(X, signs if labels else y, model, loss, radius, ridge)
    shown = X @ np.ravel(model.coef_) + np.ravel(model.intercept_)
    return float(np.abs(shown - X @ line - intercept).max() / (1.0 if labels else 20.0))


MANY = {"epsilon": 600.0, "coefficient_ridge": 1.0, "offset_share": 0}
NOISY = {**MANY, "coefficients": "noisy-statistics", "epsilon": 1e6}


@pytest.mark.parametrize(
    ("model", "loss", "radius"),
    [
        (regressor(**MANY), "huber:0.2", 2.0),
        (regressor(**MANY, clip=0.7), "huber:0.2", 2.0),
        (regressor(**MANY, fit_intercept=False), "huber:0.2", 2.0),
        (regressor(**MANY, coefficient_loss="squared"), "squared", 1.0),
        (regressor(**MANY, coefficient_radius=0.3), "huber:0.2", 0.3),
        (regressor(**MANY, delta=1e-6, loss="squared"), "huber:0.2", 2.0),
        (regressor(**NOISY), "squared", 1.0),
        (regressor(**NOISY, clip=0.7, neighbours="add-remove"), "squared", 1.0),
        (regressor(**NOISY, fit_intercept=False, coefficient_radius=0.3), "squared", 0.3),
        (classifier(**MANY), "huber_logistic", 10.0),
        (classifier(**MANY, clip=0.7, fit_intercept=False), "huber_logistic", 10.0),
        (classifier(**MANY, coefficient_loss="logistic"), "logistic", 10.0),
        (classifier(**MANY, coefficient_radius=1.0, coefficient_loss="logistic"), "logistic", 1.0),
        (classifier(**MANY, coefficient_loss="huber_hinge:0.5"), "huber_hinge:0.5", 10.0),
    ],
    ids=count(),
)
def test_much_budget_gives_the_optimum_in_units_of_the_table(
    model: Any, loss: str, radius: float
) -> None:
    assert far_from_optimum(clone(model), loss, radius) < 5e-3


def test_a_wrong_unit_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsubset.model.narrowed", lambda limits, clip: limits)
    assert far_from_optimum(regressor(**MANY, clip=0.7), "huber:0.2", 2.0) > 2e-2


def test_rows_are_clipped_to_the_bounds_of_the_fit_and_predictions_to_the_targets() -> None:
    """A line fitted between bounds says nothing beyond them (bounds 0 to 4 gave 7.4 once)."""
    X, y = table(1500)
    for clip in (1.0, 0.6):
        model = regressor(**MANY, clip=clip).fit(X, y)
        middle, half = (LOWER + UPPER) / 2, clip * (UPPER - LOWER) / 2
        wild = middle + 5 * half * default_rng(1).uniform(-1, 1, (400, 5))
        line = np.clip(wild, middle - half, middle + half) @ model.coef_ + model.intercept_
        np.testing.assert_allclose(model.predict(wild), np.clip(line, *TARGET))
        assert not np.allclose(line, wild @ model.coef_ + model.intercept_)
        np.testing.assert_array_equal(model.bounds_X_, [middle - half, middle + half])
    assert model.bounds_y_ == TARGET
    steep = regressor(**MANY, bounds_y=(70.0, 74.0), n_features_to_select=1).fit(X, y)
    line = X @ steep.coef_ + steep.intercept_
    assert line.max() > 74 > 70 > line.min()
    assert steep.predict(X).max() == 74
    assert steep.predict(X).min() == 70


def test_margins_rest_on_clipped_rows(labelled: Any) -> None:
    X, _ = table(50)
    wild = (LOWER + UPPER) / 2 + 9 * (X - (LOWER + UPPER) / 2)
    same = np.clip(wild, LOWER, UPPER)
    np.testing.assert_array_equal(
        labelled.decision_function(wild), labelled.decision_function(same)
    )
    np.testing.assert_array_equal(labelled.predict_proba(wild), labelled.predict_proba(same))


def test_predictions_are_the_line(fitted: Any, labelled: Any) -> None:
    X, y = table()
    assert fitted.coef_.shape == fitted.support_.shape == (5,)
    assert isinstance(fitted.intercept_, float)
    np.testing.assert_array_equal(np.flatnonzero(fitted.coef_), [1, 4])
    np.testing.assert_array_equal(np.flatnonzero(fitted.support_), [1, 4])
    np.testing.assert_allclose(fitted.predict(X), X @ fitted.coef_ + fitted.intercept_)
    assert fitted.score(X, y) == pytest.approx(r2_score(y, fitted.predict(X)))
    assert fitted.score(X, y) > 0.95
    assert labelled.coef_.shape == (1, 5)
    assert labelled.intercept_.shape == (1,)
    margin = X @ labelled.coef_[0] + labelled.intercept_[0]
    np.testing.assert_allclose(labelled.decision_function(X), margin)
    shown = labelled.predict(X)
    np.testing.assert_array_equal(shown == "yes", margin > 0)
    chances = labelled.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_allclose(chances[:, 1], 1 / (1 + np.exp(-margin)))
    true = np.where(y > 70, "yes", "no")
    assert labelled.score(X, true) == accuracy_score(true, shown)
    assert labelled.score(X, true) > 0.9


def test_predictions_need_the_columns_of_the_fit(fitted: Any) -> None:
    X, _ = table(7)
    with pytest.raises(ValueError, match="4 features"):
        fitted.predict(X[:, :4])
    for wrong, expected in [(X[0], "dimension"), ([["a"] * 5], "number")]:
        with pytest.raises(InputError, match=expected):
            fitted.predict(wrong)
    X[3, 4] = np.nan
    with pytest.raises(InputError, match="missing"):
        fitted.predict(X)
    with pytest.raises(NotFittedError):
        regressor().predict(X)
    assert fitted.predict(X[:0]).shape == (0,)
    frame = pd.DataFrame(table(7)[0], columns=NAMES)
    named = regressor().fit(pd.DataFrame(table()[0], columns=NAMES), table()[1])
    with pytest.raises(ValueError, match="feature names"):
        named.predict(frame[NAMES[::-1]])


def test_probabilities_are_there_for_logistic_coefficients_only() -> None:
    assert hasattr(classifier(), "predict_proba")
    assert hasattr(classifier(loss="logistic"), "predict_proba")
    for absent in ("huber_hinge", "huber_hinge:0.3", "nonsense"):
        assert not hasattr(classifier(coefficient_loss=absent), "predict_proba")
    X, y = table()
    hinge = classifier(coefficient_loss="huber_hinge", coefficient_ridge=0.1).fit(X, y > 70)
    np.testing.assert_array_equal(hinge.predict(X), hinge.decision_function(X) > 0)


# Containers, names, labels ----------------------------------------------------------------------


def test_every_container_gives_the_same_model(fitted: Any) -> None:
    X, y = table()
    bounds = {name: (LOWER[j], UPPER[j]) for j, name in enumerate(NAMES)}
    frames = [
        (pd.DataFrame(X, columns=NAMES), pd.Series(y)),
        (pl.DataFrame(X, NAMES), pl.Series(y)),
    ]
    for frame, target in frames:
        named = regressor(bounds_X=bounds).fit(frame, target)
        np.testing.assert_allclose(named.coef_, fitted.coef_, rtol=1e-6)
        assert named.intercept_ == pytest.approx(fitted.intercept_)
        assert list(named.feature_names_in_) == NAMES
        assert named.n_features_in_ == 5
        np.testing.assert_allclose(named.predict(frame), fitted.predict(X), rtol=1e-6)
    assert not hasattr(fitted, "feature_names_in_")


def test_sparse_tables_give_the_same_model() -> None:
    X = default_rng(1).uniform(-1, 1, (ROWS, 5)) * (default_rng(2).random((ROWS, 5)) < 0.5)
    y = 70 + 9 * X[:, 1] - 7 * X[:, 4]
    dense = regressor(bounds_X=(-1, 1)).fit(X, y)
    for kind in (sp.csr_array, sp.csc_matrix, sp.coo_array):
        other = regressor(bounds_X=(-1, 1)).fit(kind(X), y)
        np.testing.assert_allclose(other.coef_, dense.coef_, rtol=1e-6)
        np.testing.assert_allclose(other.predict(kind(X)), dense.predict(X))
        assert other.predict(kind(X)).shape == (ROWS,)


@pytest.mark.parametrize("always", [["age"], [0]])
def test_always_include(always: Any) -> None:
    X, y = table()
    model = regressor(always_include=always, n_features_to_select=3)
    model.fit(pd.DataFrame(X, columns=NAMES), y)
    np.testing.assert_array_equal(np.flatnonzero(model.support_), [0, 1, 4])
    assert abs(model.coef_[0]) * 1e-3 < 3  # it explains nothing
    only = regressor(always_include=[0, 2]).fit(X, y)
    np.testing.assert_array_equal(np.flatnonzero(only.support_), [0, 2])


@pytest.mark.grid(every=6)
@pytest.mark.parametrize(
    ("low", "high"), [("no", "yes"), (False, True), (0, 1), (-1.0, 1.0), (3, 8), (np.int8(0), 1)]
)
def test_labels_of_every_kind(labelled: Any, low: Any, high: Any) -> None:
    X, y = table()
    given = np.where(y > 70, high, low)
    model = classifier(classes=(low, high)).fit(X, given)
    np.testing.assert_array_equal(model.coef_, labelled.coef_)
    np.testing.assert_array_equal(model.classes_, [low, high])
    assert model.classes_.dtype.kind == given.dtype.kind
    np.testing.assert_array_equal(model.predict(X) == high, labelled.predict(X) == "yes")
    turned = classifier(classes=(high, low)).fit(X, given)
    np.testing.assert_array_equal(turned.classes_, [high, low])
    assert np.mean(turned.predict(X) == given) > 0.9


def test_one_class_and_a_third(spent: list[str]) -> None:
    X, y = table(50)
    one, labels = np.full(50, SECRET), np.where(y > 70, "yes", "no")
    for model, given, expected in [
        (classifier(classes=("no", "yes")), np.where(y > 72, SECRET, labels), "other than the two"),
        (classifier(classes=None), one, r"classes=\(first, second\)"),
        (classifier(classes=None), labels, r"classes=\(first, second\)"),
    ]:
        with pytest.raises(InputError, match=expected) as caught:
            model.fit(X, given)
        assert "7351" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert not hasattr(model, "classes_")
    assert spent == []
    model = classifier(classes=("no", SECRET)).fit(X, one)
    assert model.classes_.tolist() == ["no", SECRET]
    assert (model.predict(X) == SECRET).all()


def test_an_empty_table_under_add_remove(spent: list[str]) -> None:
    X, y = table(0)
    with pytest.raises(InputError, match="no rows"):
        regressor().fit(X, y)
    assert spent == []
    for model in (
        regressor(neighbours="add-remove"),
        regressor(neighbours="add-remove", coefficients="noisy-statistics"),
        classifier(neighbours="add-remove", classes=(0, 1)),
    ):
        assert model.fit(X, y).support_.sum() == 2
        assert np.isfinite(model.coef_).all()


# The budget -------------------------------------------------------------------------------------


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1, 7.3, 2**0.5])
@pytest.mark.parametrize("share", [1e-3, 0.1, 0.3, 0.5, 0.77, 0.999])
def test_the_parts_add_up_to_epsilon(epsilon: float, share: float) -> None:
    X, y = table(30)
    options = {"epsilon": epsilon, "selection_share": share, "delta": 1e-5}
    promise = regressor(**options, offset_share=0).fit(X, y).guarantee_
    assert promise.epsilon == pytest.approx(epsilon, rel=1e-15, abs=0)
    assert promise.epsilon <= epsilon
    assert promise.delta == 1e-5
    assert promise.mechanism == "permute-and-flip mechanism followed by objective perturbation"
    assert promise.neighbours == "replace-one"
    assert promise.condition is None
    whole = regressor(**options).fit(X, y).guarantee_  # with an offset
    assert whole.epsilon == pytest.approx(epsilon, rel=1e-15, abs=0)
    assert whole.epsilon <= epsilon


def test_spending_all_twice_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(30)
    monkeypatch.setattr(Model, "_selection_epsilon", lambda self: self.epsilon)
    with pytest.raises(InputError):  # nothing is left
        regressor(epsilon=1.0).fit(X, y)
    make = ObjectivePerturbation
    monkeypatch.setattr(
        "dpsubset.model.ObjectivePerturbation",
        lambda epsilon, **options: make(1.0, **options),
    )
    with pytest.raises(AssertionError):
        test_the_parts_add_up_to_epsilon(1.0, 0.3)


class Spies:
    """Calls of the two mechanisms, in order, with the selection's answer replaced if asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, support: tuple[int, ...] | None = None):
        self.calls: list[tuple[Any, ...]] = []
        draw, fit = Mechanism.chosen, ObjectivePerturbation.fitted

        def choose(mechanism: Any, problem: Any, randomness: Any) -> Any:
            chosen = draw(mechanism, problem, randomness)
            if support is not None:
                chosen = support
            self.calls.append((mechanism, problem, chosen, randomness))
            return chosen

        def fitting(method: Any, problem: Any, columns: Any, randomness: Any) -> Any:
            self.calls.append((method, problem, tuple(columns), randomness))
            return fit(method, problem, columns, as_randomness(5))  # seeded, to compare

        monkeypatch.setattr(Mechanism, "chosen", choose)
        monkeypatch.setattr(ObjectivePerturbation, "fitted", fitting)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_coefficients_get_the_rest_of_the_budget_and_the_released_columns(
    monkeypatch: pytest.MonkeyPatch, relation: str
) -> None:
    spies = Spies(monkeypatch)
    X, y = table()
    model = regressor(
        epsilon=3.0,
        selection_share=0.25,
        neighbours=relation,
        delta=1e-6,
        random_state=None,
        offset_share=0,
        window_share=0,
    )
    model.fit(X, y)
    (mechanism, problem, chosen, source), (method, fit, columns, same) = spies.calls
    assert (mechanism.epsilon, method.epsilon) == (0.75, 2.25)
    assert mechanism.neighbours == method.neighbours == relation
    assert method.delta == 1e-6
    assert columns == chosen
    assert columns[-1] == 5  # the constant
    assert fit.size == problem.size == 3
    assert fit.design is problem.design
    assert source is same
    assert not source.seeded  # the operating system's
    np.testing.assert_array_equal(np.flatnonzero(model.support_), columns[:2])


def test_columns_that_were_not_released_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    Spies(monkeypatch, support=(0, 2, 5))
    X, y = table()
    other = X.copy()
    other[:, [1, 3, 4]] = LOWER[[1, 3, 4]]
    plain = {"random_state": None, "offset_share": 0}
    models = [regressor(**plain).fit(Z, y) for Z in (X, other)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert models[0].intercept_ == models[1].intercept_
    other[:, 2] = 0.0
    assert regressor(**plain).fit(other, y).coef_[2] != models[0].coef_[2]


@CONDITIONAL
def test_mechanism_objects_leave_the_rest_to_the_coefficients() -> None:
    X, y = table(60)
    for given in (
        Exponential(3.0, neighbours="add-remove"),
        TopR(3.0, count=4),
        Mistakes(3.0),
        PermuteAndFlip(3.0, sensitivity="paper"),
    ):
        before = pickle.dumps(given)
        model = regressor(mechanism=given, epsilon=4.0).fit(X, y)
        assert model.guarantee_.epsilon == 4.0
        assert model.guarantee_.neighbours == given.neighbours
        assert (model.guarantee_.condition is None) == (not isinstance(given, Mistakes))
        assert pickle.dumps(given) == before  # it learns nothing


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, int])
def test_epsilon_may_be_any_number(kind: Any) -> None:
    X, y = table(60)
    assert regressor(epsilon=kind(4)).fit(X, y).guarantee_.epsilon == 4.0


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("epsilon", [80.0, 300.0, 1e4, 1e6])
@pytest.mark.parametrize("model", [regressor(), classifier()], ids=["numbers", "labels"])
def test_a_large_epsilon_is_not_refused(model: Any, epsilon: float) -> None:
    X, y = table()
    model = clone(model).set_params(epsilon=epsilon)
    assert model.fit(X, y if isinstance(model, SubsetRegressor) else y > 70).support_[[1, 4]].all()


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("kind", ["copies", "constants", "ordinary"])
def test_dependent_columns_are_not_refused(kind: str) -> None:
    # Whether a table is refused may not depend on its rows: all three kinds must be fitted.
    Z = default_rng(4).uniform(-1, 1, (50_000, 2))
    if kind != "ordinary":
        Z[:, 1] = Z[:, 0] if kind == "copies" else 1.0
    y = 70.0 + 20.0 * Z[:, 0]
    for seed in range(12):
        options = {"epsilon": 10.0, "selection_share": 0.2, "random_state": seed}
        assert regressor(**options, bounds_X=(-1, 1)).fit(Z, y).support_.all()


def test_limits_far_apart_give_finite_coefficients_or_a_refusal(spent: list[str]) -> None:
    X, y = table(60)
    model = regressor(bounds_X=(-1e-200, 1e-200), bounds_y=(-1e200, 1e200))
    try:
        model.fit(X, y)
    except InputError:
        assert spent == []
    else:
        assert np.isfinite(model.coef_).all()


# Draws ------------------------------------------------------------------------------------------


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("make", [np.int64, default_rng, np.random.RandomState])
def test_seeds_repeat_the_model(make: Any) -> None:
    X, y = table(60)
    for model, target in [(regressor(epsilon=1.0), y), (classifier(epsilon=1.0), y > 70)]:
        drawn = [clone(model).set_params(random_state=make(s)).fit(X, target) for s in (0, 1, 0, 1)]
        lines = [m.coef_.tolist() for m in drawn]
        assert lines[:2] == lines[2:]
        assert lines[0] != lines[1]
        assert {m.guarantee_.randomness for m in drawn} == {"seeded"}


@pytest.mark.parametrize("method", ["objective-perturbation", "noisy-statistics"])
def test_without_a_seed_the_system_draws(method: str) -> None:
    X, y = table(60)
    options = {"coefficients": method, "random_state": None, "always_include": [1, 4]}
    np.random.seed(0)  # noqa: NPY002 - the global generator must not matter
    first = regressor(**options).fit(X, y)
    np.random.seed(0)  # noqa: NPY002
    state = np.random.get_state()[1].tolist()  # type: ignore[index,union-attr]  # noqa: NPY002
    second = regressor(**options).fit(X, y)
    assert np.random.get_state()[1].tolist() == state  # type: ignore[index,union-attr]  # noqa: NPY002
    assert first.coef_.tolist() != second.coef_.tolist()
    assert first.guarantee_.randomness == "operating system"
    assert "SEEDED" not in str(first.guarantee_)


# What is kept -----------------------------------------------------------------------------------


def leaks(model: Any, X: np.ndarray, y: np.ndarray) -> list[str]:
    """Look for numbers of the table, and their count, in everything the object holds."""
    text = pickle.dumps(model)
    found = [str(argument) for _, argument, _ in pickletools.genops(text) if argument == len(y)]
    entries = set(np.concatenate([X.ravel(), y]).tolist())
    found += [
        str(a) for _, a, _ in pickletools.genops(text) if isinstance(a, float) and a in entries
    ]
    found += [str(v) for v in entries if struct.pack("<d", v) in text]
    return found


def test_nothing_of_the_data_is_kept(fitted: Any) -> None:
    X, y = table()
    assert set(vars(fitted)) - set(fitted.get_params()) == {
        "support_",
        "coef_",
        "intercept_",
        "guarantee_",
        "bounds_X_",
        "bounds_y_",
        "n_features_in_",
        "_lineage",
    }
    assert leaks(fitted, X, y) == []
    assert len(pickle.dumps(fitted)) < 5000
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict(X), fitted.predict(X))
    shown = f"{fitted!r}{fitted.guarantee_}{fitted._repr_html_()}"
    assert str(ROWS) not in shown


@pytest.mark.parametrize("kept", ["rows", "row", "entry"])
def test_a_model_that_keeps_something_is_noticed(fitted: Any, kept: str) -> None:
    X, y = table()
    copy = pickle.loads(pickle.dumps(fitted))
    copy.kept_ = {"rows": ROWS, "row": X[7], "entry": float(y[3])}[kept]
    assert leaks(copy, X, y)


def test_nothing_of_the_labels_is_kept_but_the_classes(labelled: Any) -> None:
    X, y = table()
    assert set(vars(labelled)) - set(labelled.get_params()) == {
        "support_",
        "bounds_X_",
        "_lineage",
        "coef_",
        "intercept_",
        "guarantee_",
        "classes_",
        "n_features_in_",
    }
    assert leaks(labelled, X, np.where(y > 70, 4711.5, 4712.5)) == []


# What is refused, and when ----------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], str]] = [
    *[({"selection_share": v}, "selection_share") for v in (0, 1, -0.5, 1.5, np.nan, "0.5")],
    ({"selection_share": True}, "selection_share"),
    *[({"epsilon": v}, "epsilon") for v in (0, -1.0, np.nan, np.inf, "1", None, True, [1.0])],
    *[({"mechanism": Exponential(2.0), "epsilon": v}, "epsilon") for v in (1, 2.0, np.nan, np.inf)],
    *[({"mechanism": Exponential(0.5), "epsilon": v}, "epsilon") for v in ("1", None, True)],
    ({"mechanism": Exponential(1.0), "neighbours": "add-remove"}, "given twice"),
    ({"mechanism": Exponential(1.0), "max_seconds": 1.0}, "limits"),
    *[({"mechanism": v}, "mechanism") for v in ("all", "nonsense", None, Exponential)],
    *[({"coefficients": v}, "unknown method") for v in ("nonsense", None, 3, [])],
    *[({"delta": v}, "delta") for v in (-1e-9, 0.5, 1, np.nan, "0", None)],
    ({"coefficients": "noisy-statistics", "delta": 1e-6}, "delta"),
    *[({"coefficient_radius": v}, "radius") for v in (0, -1, np.nan, "1")],
    *[({"coefficient_ridge": v}, "ridge") for v in (-1, np.nan, "1", True)],
    ({"neighbours": "nobody"}, "neighbour"),
    *[({"clip": v}, "clip") for v in (0, 1.5, np.nan)],
    *[({"radius": v}, "radius") for v in (0, np.nan)],
    ({"ridge": -1}, "ridge"),
    ({"n_features_to_select": 9}, "n_features_to_select"),
    ({"always_include": [7]}, "always_include"),
    ({"fit_intercept": "yes"}, "fit_intercept"),
    ({"random_state": -1}, "random_state"),
    ({"max_seconds": 0}, "max_seconds"),
    ({"bounds_X": None}, "bounds"),
    ({"loss": "nonsense"}, "unknown loss"),
    ({"coefficient_loss": "nonsense"}, "unknown loss"),
]
ONLY_NUMBERS: list[tuple[dict[str, Any], str]] = [
    *[({"loss": v}, "SubsetClassifier|not for") for v in ("hinge", "logistic")],
    *[({"coefficient_loss": v}, "not for numbers") for v in ("logistic", "huber_hinge", "hinge")],
    *[({"coefficient_loss": v}, "loss") for v in ("absolute", "quantile:0.3")],
    ({"coefficients": "noisy-statistics", "coefficient_loss": "huber"}, "squared loss"),
    ({"bounds_y": None}, "bounds of the target"),
    ({"bounds_y": (2, 1)}, "bounds of the target"),
]
ONLY_LABELS: list[tuple[dict[str, Any], str]] = [
    *[({"loss": v}, "SubsetRegressor|not for") for v in ("squared", "absolute")],
    *[({"coefficient_loss": v}, "not for labels") for v in ("squared", "huber")],
    ({"coefficient_loss": "hinge"}, "loss"),
    ({"coefficients": "noisy-statistics"}, "squared loss"),
    *[({"classes": v}, "classes") for v in (("a",), ("a", "a"), (1, "a"), "ab", 3)],
]
CASES = {regressor: WRONG + ONLY_NUMBERS, classifier: WRONG + ONLY_LABELS}


@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize("make", list(CASES))
def test_a_wrong_parameter_is_refused_before_any_budget_is_spent(
    spent: list[str], make: Any, seed: int | None
) -> None:
    X, y = table(20)
    for wrong, expected in CASES[make]:
        model = make(**{"random_state": seed, **wrong})
        with pytest.raises(InputError, match=expected) as caught:
            model.fit(X, y if make is regressor else y > 70)
        assert spent == [], wrong
        assert len(str(caught.value)) > 20
        assert not hasattr(model, "coef_"), wrong


def test_releases_are_counted(spent: list[str]) -> None:
    X, y = table(20)
    for seed in (None, 0):
        regressor(random_state=seed).fit(X, y)
        assert spent == ["PermuteAndFlip", "ObjectivePerturbation"]
        spent.clear()


@pytest.mark.parametrize(
    "wrong",
    [
        {"selection_share": 2},
        {"epsilon": -1},
        {"mechanism": None},
        {"coefficients": "nonsense"},
        {"coefficient_loss": "hinge"},
        {"coefficient_radius": -1},
        {"delta": -1},
        {"loss": "nonsense"},
        {"fit_intercept": "yes"},
        {"bounds_y": None},
        {"n_features_to_select": 9},
    ],
    ids=str,
)
def test_a_failed_fit_leaves_no_older_result(fitted: Any, wrong: dict[str, Any]) -> None:
    X, y = table(20)
    model = pickle.loads(pickle.dumps(fitted)).set_params(**wrong)
    with pytest.raises(InputError):
        model.fit(X, y)
    assert not {"coef_", "intercept_", "support_", "guarantee_"} & set(vars(model))
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_wrong_tables_are_refused_before_any_budget_is_spent(spent: list[str], fitted: Any) -> None:
    X, y = table(20)
    broken = X.copy()
    broken[3, 2] = np.nan
    for wrong, target in [(broken, y), (X, y[:9]), (X, np.where(y > 70, np.inf, y)), (X, None)]:
        model = pickle.loads(pickle.dumps(fitted))
        with pytest.raises(InputError):
            model.fit(wrong, target)
        assert not hasattr(model, "coef_")
    assert spent == []


def test_a_weaker_promise_warns_before_any_budget_is_spent(spent: list[str]) -> None:
    X, y = table(20)
    for mechanism, expected in [
        (TopR(10.0, count=3, trials=3), "weaker than the epsilon of 10"),
        ("mistakes", "private only if"),
    ]:
        model = regressor(mechanism=mechanism)
        with pytest.raises(UserWarning, match=expected):  # warnings are errors here
            model.fit(X, y)
        assert not hasattr(model, "coef_")
    assert spent == []


def test_a_missing_library_is_noticed_before_any_budget_is_spent(
    spent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("opendp", "opendp.prelude"):
        monkeypatch.setitem(sys.modules, name, None)
    X, y = table(20)
    with pytest.raises(MissingExtraError):
        regressor(coefficients="noisy-statistics", random_state=None).fit(X, y)
    assert [name for name in spent if name == "PermuteAndFlip"] == []
