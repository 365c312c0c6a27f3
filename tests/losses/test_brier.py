"""Squared loss for labels: scores from moments, what a row may move, its default radius."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from dpsubset import Exponential, PermuteAndFlip, Problem, SubsetSelector, search
from dpsubset.cuts.minorant import row_curvature
from dpsubset.errors import InputError
from dpsubset.losses import Brier, Offset, Weighted
from dpsubset.question import default_radius

ASKED = {"bounds_X": (-1, 1), "classes": (-1.0, 1.0)}
SHAPE = {"size": 3, "x_bound": 1.0, "radius": 0.6, "ridge": 0.7}


def labelled(seed: int = 0, rows: int = 40, columns: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, columns))
    return X, np.where(X[:, 1] - X[:, 4] + 0.5 * rng.normal(size=rows) > 0.4, 1.0, -1.0)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_squared_loss_of_labels_as_numbers(seed: int) -> None:
    X, y = labelled(seed)
    names = np.where(y > 0, "yes", "no")
    ours = Problem(X, names, loss="brier", classes=("no", "yes"), **SHAPE)
    numbers = Problem(X, y, loss="squared", y_bound=1.0, **SHAPE)
    assert ours.quadratic
    for support in itertools.combinations(range(7), 3):
        assert ours.score(support) == numbers.score(support)
    assert ours.sensitivity() == numbers.sensitivity()
    for mechanism in (PermuteAndFlip(2.0), Exponential(2.0, neighbours="add-remove")):
        _, mine = mechanism.probabilities(ours)
        _, theirs = mechanism.probabilities(numbers)
        np.testing.assert_array_equal(mine, theirs)
    assert search.best(ours).support == search.best(numbers).support


def test_classes_may_be_exchanged() -> None:
    X, y = labelled(3)
    one, other = (Problem(X, sign * y, loss="brier", **SHAPE) for sign in (1, -1))
    for support in ((0, 1, 2), (1, 4, 6)):
        assert one.score(support) == pytest.approx(other.score(support), rel=1e-13)


@pytest.mark.parametrize("weights", [(1.0, 5.0), (0.4, 0.05)])
def test_weighted_scores_are_those_of_a_plain_minimum(weights: tuple[float, float]) -> None:
    X, y = labelled(4)
    problem = Problem(X, y, loss=Weighted(Brier(), weights), classes=(-1.0, 1.0), **SHAPE)
    w = np.where(y > 0, weights[1], weights[0])
    assert not problem.quadratic
    for support in ((0, 1, 2), (1, 3, 4)):
        columns = X[:, list(support)]

        def value(beta: np.ndarray, columns: np.ndarray = columns) -> float:
            return float(w @ (y - columns @ beta) ** 2 + 0.7 * beta @ beta)

        inside = {"type": "ineq", "fun": lambda beta: 0.36 - beta @ beta}
        found = minimize(value, np.zeros(3), constraints=[inside], tol=1e-12)
        assert problem.score(support) == pytest.approx(found.fun, rel=1e-6)
    _, _, gamma = row_curvature(problem, np.zeros(y.size), np.full(y.size, 1.0))
    np.testing.assert_allclose(gamma, w, rtol=1e-8)  # nothing is lost below it
    assert (gamma <= w).all()


def test_values_of_its_own_are_not_scored_by_moments() -> None:
    class Halved(Brier):
        def value(self, y: np.ndarray, t: np.ndarray) -> np.ndarray:
            return super().value(y, t) / 2

    problem = Problem(*labelled(), loss="brier", **SHAPE)
    problem.loss = Halved()
    assert not problem.quadratic


def test_predictions_stay_between_the_labels_by_default() -> None:
    for size in range(1, 12):
        reach = default_radius("brier", labels=True, size=size) * math.sqrt(size + 1)
        assert reach == pytest.approx(1.0, abs=2e-4)
    X, y = labelled(5, rows=300)
    selector = SubsetSelector(n_features_to_select=2, epsilon=20.0, **ASKED).fit(X, y)
    assert selector.release_.asked["loss"] == "brier"
    assert selector.release_.asked["radius"] == pytest.approx(0.5774)
    assert selector.get_support(indices=True).tolist() == [1, 4]


def test_an_offset_is_of_log_odds() -> None:
    with pytest.raises(InputError, match="an offset of labels is for the losses hinge, logistic"):
        Offset(Brier(), 0.5)
    X, y = labelled(6, rows=300)
    selector = SubsetSelector(n_features_to_select=2, epsilon=20.0, offset_share=0.1, **ASKED).fit(
        X, y
    )
    assert selector.release_.asked["loss"] == "logistic"
    assert selector.release_.asked["radius"] == 1.0
