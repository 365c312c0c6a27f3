"""A descent that leaves rows far from a kink alone is as good as one over all rows, and valid."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpsubset import Problem
from dpsubset.cuts import Cut
from dpsubset.cuts.descent import _near_rows, descend
from dpsubset.cuts.dual import DualCuts
from dpsubset.cuts.region import root
from dpsubset.cuts.symmetric import log_total
from dpsubset.losses import Fit

P, SIZE, KAPPA = 7, 3, 2.0


def problem_of(loss: str, n: int = 1500) -> Problem:
    rng = np.random.default_rng(7)
    X = rng.uniform(-1, 1, (n, P))
    X[:, 3] = np.clip(X[:, 0] + 0.2 * X[:, 3], -1, 1)
    y = X[:, 0] - 0.5 * X[:, 5] + 0.3 * rng.standard_normal(n)
    if loss == "hinge":
        y = np.sign(y)
    return Problem(
        X, np.clip(y, -1, 1), size=SIZE, loss=loss, x_bound=1.0, y_bound=1.0, radius=0.8, ridge=1.0
    )


def reached(problem: Problem, *, straight: bool) -> tuple[float, np.ndarray]:
    """Return the log mass that a descent from the mean's dual point comes to, and its end."""
    rows, parameters, _ = problem.loss.compiled()
    a = problem.loss.slopes(problem.y, np.zeros(problem.n_rows))
    table = np.ascontiguousarray(problem.columns.rows(np.arange(P)))
    rule = (problem.ridge, problem.radius, KAPPA)
    watch = problem.allowance.watch
    given = (rows, parameters, table, np.arange(P), 0, problem.y, rule, SIZE, a)
    descend(*given, 200, 0.01, -np.inf, straight, watch)
    return mass(cut_of(problem, a)), a


def cut_of(problem: Problem, a: np.ndarray) -> Cut:
    maker, nothing = DualCuts(problem), np.empty(0)
    point = maker._pointed(Fit(nothing, np.inf, -np.inf, a), problem.design.correlate(a))
    return maker._cut(root(problem), point)


def mass(cut: Cut) -> float:
    return float(log_total(KAPPA * cut.weights, SIZE)) - KAPPA * cut.constant


@pytest.mark.parametrize("loss", ["absolute", "quantile:0.8", "hinge"])
def test_rows_left_alone_cost_nothing(loss: str) -> None:
    problem = problem_of(loss)
    few, a = reached(problem, straight=True)
    every, _ = reached(problem, straight=False)
    before = mass(DualCuts(problem).bound(root(problem)))
    assert few < before - 5.0  # there was something to gain
    assert few < every + 1.0
    rows, parameters, _ = problem.loss.compiled()
    table = np.ascontiguousarray(problem.columns.rows(np.arange(P)))
    rule = (problem.ridge, problem.radius, KAPPA)
    near, _ = _near_rows(rows, parameters, table, np.arange(P), 0, problem.y, rule, SIZE, a)
    assert near.size < 0.4 * problem.n_rows  # most rows were left alone


@pytest.mark.parametrize("loss", ["absolute", "quantile:0.8", "hinge"])
def test_its_cuts_lie_below_all_scores(loss: str) -> None:
    problem = problem_of(loss)
    maker, everything = DualCuts(problem), root(problem)
    cut = maker.optimised(maker.cheap(everything), KAPPA)
    supports = list(itertools.combinations(range(P), SIZE))
    scores = np.array([problem.score(s) for s in supports])
    below = np.array([cut.constant - cut.weights[list(s)].sum() for s in supports])
    assert (below <= scores + 1e-9).all()
    assert KAPPA * (scores - below).min() < 30.0  # and not far below


def test_a_descent_ends_where_no_row_is_near_a_kink() -> None:
    """Predictions are short, so every label's slope stays: no rows are left to step with."""
    problem = problem_of("hinge")
    problem.radius = 0.1
    rows, parameters, _ = problem.loss.compiled()
    a = problem.loss.slopes(problem.y, np.zeros(problem.n_rows))
    table = np.ascontiguousarray(problem.columns.rows(np.arange(P)))
    rule = (problem.ridge, problem.radius, KAPPA)
    near = _near_rows(rows, parameters, table, np.arange(P), 0, problem.y, rule, SIZE, a)[0]
    assert near.size == 0
    given = (rows, parameters, table, np.arange(P), 0, problem.y, rule, SIZE, a)
    descend(*given, 200, 0.0, -np.inf, True, problem.allowance.watch)
    cut = cut_of(problem, a)
    for support in itertools.combinations(range(P), SIZE):
        assert cut.constant - cut.weights[list(support)].sum() <= problem.score(support) + 1e-9


def test_slopes_outside_the_domain_are_caught() -> None:
    """Twin: rows left alone with slopes that their loss does not have make no cut."""
    problem = problem_of("absolute")
    _, a = reached(problem, straight=True)
    assert cut_of(problem, a).constant > -np.inf
    assert cut_of(problem, 1.1 * a).constant == -np.inf
