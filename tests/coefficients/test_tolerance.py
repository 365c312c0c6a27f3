"""T42: a ridge by public rule, so that noise costs the rows little; and losses with an offset.

Densities are those of `dpsubset.audit.densities`, which share no code with the mechanism.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from coefficients.problems import make_problem

from dpsubset import Problem
from dpsubset.arrays import Floats
from dpsubset.audit.densities import LABELLED, LOSSES, Law, make_grid
from dpsubset.coefficients import ObjectivePerturbation
from dpsubset.coefficients.objective import Constants
from dpsubset.errors import InputError
from dpsubset.losses import HuberLogistic, Logistic, Offset, as_loss

SLACK = 1e-9
NEIGHBOURS = ("replace-one", "add-remove")


def expected_cost(given: Constants, size: int, gaussian: bool) -> float:
    """Return what noise costs all rows at most, to second order: E|b|^2 / (16 ridge).

    Of a point of a cube E|u|^2 is a third for every column; its size is Gamma(size + 1) (T45).
    """
    squared = size * given.scale**2 * (1 if gaussian else (size + 1) * (size + 2) / 3)
    return squared / (16 * given.ridge)


@pytest.mark.parametrize("delta", [0.0, 0.01])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_ridge_is_the_least_whose_noise_is_tolerated(loss: str, delta: float) -> None:
    for n, epsilon, tolerance in itertools.product((1, 30, 900), (0.05, 1.0), (0.001, 0.1)):
        problem = make_problem(n, 2, loss)
        plain = ObjectivePerturbation(epsilon, delta=delta).constants(problem)
        ruled = ObjectivePerturbation(epsilon, delta=delta, tolerance=tolerance)
        given = ruled.constants(problem)
        total = given.noise_epsilon + given.curvature_epsilon + given.mask_epsilon
        assert total == pytest.approx(epsilon)
        assert given.ridge >= plain.ridge
        cost, allowed = expected_cost(given, 2, delta > 0), tolerance * n
        if given.ridge > plain.ridge * (1 + 1e-9):
            assert cost == pytest.approx(allowed, rel=1e-4)
        else:
            assert cost <= allowed


def test_it_depends_on_the_number_of_rows_and_on_no_entry() -> None:
    mechanism = ObjectivePerturbation(0.5, tolerance=0.002)
    one, other = (mechanism.constants(make_problem(50, 2, seed=seed)) for seed in (0, 1))
    assert one == other
    more = mechanism.constants(make_problem(500, 2))
    assert more.ridge < one.ridge
    problem = make_problem(0, 2)
    assert np.isfinite(mechanism.constants(problem).ridge)


def test_where_the_number_of_rows_is_private_there_is_no_tolerance() -> None:
    with pytest.raises(InputError, match="number of rows is private"):
        ObjectivePerturbation(1.0, neighbours="add-remove", tolerance=0.01)
    for wrong in (0.0, -1.0, "a"):
        with pytest.raises(InputError, match="tolerance"):
            ObjectivePerturbation(1.0, tolerance=wrong)  # type: ignore[arg-type]


def mean_excess(mechanism: ObjectivePerturbation, problem: Problem) -> float:
    """Return by how much noise raises the mean loss above that of the best ridge fit, seen."""
    given = mechanism.constants(problem)
    X, y = problem.design.take(range(problem.size)), problem.y
    best = np.linalg.solve(X.T @ X + given.ridge * np.eye(problem.size), X.T @ y)
    least, generator = np.mean((y - X @ best) ** 2), np.random.default_rng(3)
    found = []
    for _ in range(300):
        values = mechanism.release(problem, range(problem.size), generator).values
        found.append(np.mean((y - X @ np.array(values)) ** 2) - least)
    return float(np.mean(found))


def test_noise_costs_no_more_than_is_tolerated_and_more_without_the_rule() -> None:
    """Squared loss: the second order is all there is. The mean of 300 has an error of some 5%."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.3, 0.3, (100, 4))
    y = np.clip(X[:, 0] + 0.1 * rng.normal(size=100), -1, 1)
    problem = Problem(X, y, size=4, loss="squared", x_bound=1.0, y_bound=1.0, radius=1.0)
    assert mean_excess(ObjectivePerturbation(1.0, tolerance=0.01), problem) < 0.012
    assert mean_excess(ObjectivePerturbation(1.0), problem) > 0.03


# ---- exact audits: a ridge by rule, and a loss with an offset -----------------------------------


def posed(table: Floats, loss: str, offset: float, radius: float) -> Problem:
    known = as_loss(loss)
    labels: dict[str, Any] = {"classes": (-1, 1)} if known.classification else {"y_bound": 1.0}
    moved = Offset(known, offset) if offset else known
    X, y = table[:, :-1], table[:, -1]
    return Problem(X, y, size=X.shape[1], x_bound=1.0, radius=radius, loss=moved, **labels)


def excess(
    mechanism: ObjectivePerturbation, loss: str, size: int, n: int, offset: float, radius: float
) -> float:
    """Return the largest log ratio of densities above the budget, over pairs of tables."""
    rng = np.random.default_rng([size, n])
    rows, others = rng.choice([-1.0, 1.0], (n, size + 1)), rng.choice([-1.0, 1.0], (5, size + 1))
    others[:2] = [[1.0] * (size + 1), [1.0] * size + [-1.0]]
    tables = [np.vstack([rows, other]) for other in others]
    pairs = list(itertools.combinations(range(5), 2))
    if mechanism.neighbours == "add-remove":
        tables, pairs = [*tables, rows], [(i, 5) for i in range(5)]
    given = mechanism.constants(posed(tables[0], loss, offset, radius))
    grid = make_grid(1, radius, 60) if size == 1 else make_grid(2, radius, 14, 20)
    laws = [
        Law(
            loss,
            t[:, :-1],
            t[:, -1],
            given.ridge,
            radius,
            given.scale,
            False,
            offset,
            given.parts,
        ).on(grid)
        for t in tables
    ]
    worst = max(float(np.abs(laws[i] - laws[j]).max()) for i, j in pairs)
    return worst - given.noise_epsilon - given.curvature_epsilon


@pytest.mark.parametrize("loss", LOSSES)
def test_no_density_moves_by_more_than_the_budget_with_a_ridge_by_rule(loss: str) -> None:
    for size, n, tolerance in itertools.product((1, 2), (1, 9), (0.01, 1.0)):
        mechanism = ObjectivePerturbation(2.0, tolerance=tolerance)
        assert excess(mechanism, loss, size, n, 0.0, 1.0) <= SLACK


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("loss", LABELLED)
def test_nor_with_an_offset(loss: str, neighbours: str) -> None:
    for size, n, offset in itertools.product((1, 2), (0, 9), (-3.0, 1.0)):
        mechanism = ObjectivePerturbation(2.0, neighbours=neighbours)
        assert excess(mechanism, loss, size, n, offset, 0.5) <= SLACK


def test_the_slope_without_the_offset_would_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = ObjectivePerturbation(2.0, neighbours="add-remove")
    monkeypatch.setattr(Offset, "steepest", lambda self, y, t: self.loss.steepest(y, t) / 1.5)
    assert excess(mechanism, "logistic", 1, 0, -3.0, 0.5) > 0.1
    assert Offset(Logistic(), -3.0).most_curved() == 0.25


def test_a_margin_that_is_not_kept_would_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise for slopes up to the margin's, while rows pull as logistic loss's do (T46)."""
    mechanism = ObjectivePerturbation(2.0, neighbours="add-remove", curvature_share=0.1)
    told = HuberLogistic(0.0).steepest(1.0, 5.0)
    assert told == 0.5
    assert excess(mechanism, "huber_logistic:0.0", 1, 0, 0.0, 3.0) <= SLACK
    monkeypatch.setattr(Logistic, "steepest", lambda self, y, t: told)
    assert excess(mechanism, "logistic", 1, 0, 0.0, 3.0) > 0.1


@pytest.mark.parametrize("broken", ["ridge", "scale"])
def test_a_ridge_that_is_not_used_would_not_do(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ridge of the rule must be that of the fit, and its noise that of the ridge."""
    from dataclasses import replace

    whole = ObjectivePerturbation.constants
    monkeypatch.setattr(
        ObjectivePerturbation,
        "constants",
        lambda self, problem: replace(
            c := whole(self, problem), **{broken: getattr(c, broken) / 9}
        ),
    )
    mechanism = ObjectivePerturbation(2.0, tolerance=0.5)
    assert excess(mechanism, "huber:0.3", 1, 1, 0.0, 1.0) > 0.1
