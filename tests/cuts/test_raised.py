"""Bounds on supports of one column more than a fit lie below their scores, and near (T10, T16)."""

from __future__ import annotations

import numpy as np
import pytest

from dpsubset import Problem
from dpsubset.arrays import Floats
from dpsubset.cuts import dual, raised
from dpsubset.cuts.dual import DualCuts
from dpsubset.losses import Fit

LOSSES = ["absolute", "quantile:0.8", "hinge"]
P, INSIDE = 25, (0, 5, 7)
CASES = [(0.5, 1.0, 30.0), (1.0, 0.3, 1.0), (1.0, 1.0, 0.0)]  # bound, radius, ridge


def problem_of(loss: str, case: tuple[float, float, float], n: int = 900) -> Problem:
    """Return a table of which many entries lie at the bounds, if those are narrow."""
    bound, radius, ridge = case
    rng = np.random.default_rng(11)
    X = rng.standard_normal((n, P))
    X[:, 3] = 0.5 * X[:, 0] + 0.8 * X[:, 3]
    y = (X[:, 0] - X[:, 5] + X[:, 12]) / 3 + 0.5 * rng.standard_normal(n)
    bounds = {"x_bound": bound, "radius": radius, "ridge": ridge}
    if loss == "hinge":  # without a ridge no row is far from a kink
        bounds["ridge"] = max(ridge, 0.5)
        return Problem(X, np.sign(y), size=4, loss=loss, **bounds)
    return Problem(X, y, size=4, loss=loss, y_bound=bound, **bounds)


def given(problem: Problem) -> tuple[Fit, Floats, np.ndarray, np.ndarray]:
    """Return the fit on some columns, X'a at its dual point, these columns and the others."""
    at = DualCuts(problem)._at(INSIDE)
    inside = np.array(INSIDE)
    return at.fit, at.products, inside, np.setdiff1d(np.arange(P), inside)


def scores(problem: Problem, columns: np.ndarray) -> Floats:
    return np.array([problem.score((*INSIDE, int(j))) for j in columns])


def bounds_of(problem: Problem, factor: float = 1.0, worst: float = np.inf) -> Floats:
    fit, products, inside, columns = given(problem)
    low = raised.Neighbours(problem).bounds(fit, factor * products, inside, columns, worst)
    assert low is not None
    return low


@pytest.fixture(autouse=True)
def of_any_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raised, "_MOST", 1.0)
    monkeypatch.setattr(raised, "_REACHES", (*raised._REACHES, 0.3, 0.6, 1e3))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("loss", LOSSES)
def test_bounds_lie_below_the_scores_and_near(loss: str, case: tuple[float, float, float]) -> None:
    problem = problem_of(loss, case)
    fit, _, _, columns = given(problem)
    exact, low = scores(problem, columns), bounds_of(problem)
    assert (low <= exact + problem.slack).all()
    gains = fit.primal - exact
    short = exact - low
    assert np.median(short) < 0.1 * gains.max()
    cut = DualCuts(problem).bound(dual.Region(INSIDE, columns, 4))
    assert (low >= cut.constant - cut.weights - 1e-6).mean() > 0.9  # as good as the fit's own cut


@pytest.mark.parametrize("loss", LOSSES)
def test_products_of_another_point_are_caught(loss: str) -> None:
    """Twin: with X'a too small the bounds are too high."""
    problem = problem_of(loss, CASES[0])
    exact = scores(problem, given(problem)[3])
    assert (bounds_of(problem, 0.5) > exact + problem.slack).mean() > 0.5


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_left_out_are_caught(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin: rows that move, but whose conjugates are counted as if they had not."""
    right = raised.near_rows

    def wrong(*what: object) -> raised.Near:
        near = right(*what)  # type: ignore[arg-type]
        return near._replace(beyond=near.beyond + 1.0)

    monkeypatch.setattr(raised, "near_rows", wrong)
    problem = problem_of(loss, CASES[0])
    exact = scores(problem, given(problem)[3])
    assert (bounds_of(problem) > exact + problem.slack).mean() > 0.5


@pytest.mark.parametrize("loss", LOSSES)
def test_only_supports_above_the_threshold_are_given_up(loss: str) -> None:
    problem = problem_of(loss, CASES[0])
    columns = given(problem)[3]
    exact = scores(problem, columns)
    count = 0
    for worst in np.quantile(exact, [0.1, 0.5, 0.9]):
        given_up = bounds_of(problem, 1.0, worst) >= worst
        count += given_up.sum()
        assert not given_up[exact < worst - problem.slack].any()
        found = DualCuts(problem).extended(INSIDE, columns, worst)
        below = exact < worst - problem.slack
        np.testing.assert_allclose(found[below], exact[below], rtol=0, atol=1e-7)
        assert (found[~below] >= worst - problem.slack).all()
    assert count > 10  # of the 33 that can be given up


def test_the_rows_of_a_fit_serve_again() -> None:
    """They are chosen anew for another fit, and for products that are larger, or much smaller."""
    problem = problem_of("absolute", CASES[0])
    fit, products, inside, columns = given(problem)
    neighbours = raised.Neighbours(problem)
    kept = []
    for factor in (1.0, 0.5, 0.1, 1.0):
        neighbours.bounds(fit, factor * products, inside, columns, np.inf)
        kept.append(neighbours._near)
    assert kept[0] is kept[1]
    assert kept[1] is not kept[2] is not kept[3]


def test_losses_that_bend_are_fitted() -> None:
    assert DualCuts(problem_of("absolute", CASES[0]))._raises
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-1, 1, (600, 5)), rng.uniform(-1, 1, 600)
    huber = Problem(X, y, size=2, loss="huber:0.1", x_bound=1.0, y_bound=1.0, radius=1.0)
    assert not DualCuts(huber)._raises
