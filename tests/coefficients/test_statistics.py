"""Noisy statistics: how far a row moves them, their law, and what is done with them (T28)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from coefficients.problems import make_problem
from scipy.optimize import minimize

from dpsubset import Problem
from dpsubset.coefficients import NoisyStatistics, noisy_statistics
from dpsubset.coefficients import statistics as module
from dpsubset.coefficients.statistics import statistics_sensitivity
from dpsubset.errors import InputError
from dpsubset.privacy import Randomness

NEIGHBOURS = ("replace-one", "add-remove")


def numbers(row: np.ndarray) -> np.ndarray:
    """Return what one row (x, y) adds to the upper half of X'X and to X'y."""
    x, y = row[:-1], row[-1]
    return np.array([x[i] * x[j] for i in range(len(x)) for j in range(i, len(x))] + [*(x * y)])


def moved(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(numbers(one) - numbers(other)).sum())


# ---- how far one row moves them ------------------------------------------------------------------


def searched(k: int, seed: int) -> float:
    """Look for the largest movement by local search from corners, zeros and random rows."""
    rng = np.random.default_rng(seed)
    best = 0.0
    for _ in range(12):
        start = rng.choice([-1.0, 0.0, 1.0, 0.5], 2 * k + 2)
        bounds = [(-1.0, 1.0)] * (2 * k + 2)
        found = minimize(
            lambda z: -moved(z[: k + 1], z[k + 1 :]), start, bounds=bounds, method="L-BFGS-B"
        )
        best = max(best, -found.fun, moved(start[: k + 1], start[k + 1 :]))
    return best


def worst_rows(k: int, swapped: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the pair of T28's proof: all columns move from 1 to b, or the target does."""
    a = (k + 2) / (2 * (k + 1))
    one, other = np.ones(k + 1), np.append(np.full(k, 1 - 2 * a), 1.0)
    if swapped:
        other = np.append(np.full(k, 2 * a - 1), -1.0)
    return one, other


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_no_replacement_moves_them_further_and_one_moves_them_so_far(k: int) -> None:
    bound = statistics_sensitivity(k, "replace-one")
    rng = np.random.default_rng(k)
    for _ in range(300):
        rows = np.where(rng.random((2, 1)) < 0.5, *(d(rng, (2, k + 1)) for d in (corners, inside)))
        assert moved(*rows) <= bound + 1e-12
    assert searched(k, k) <= bound + 1e-9
    reached = [moved(*worst_rows(k, swapped)) for swapped in (False, True)]
    np.testing.assert_allclose(reached, bound, rtol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_no_added_row_moves_them_further(k: int) -> None:
    bound = statistics_sensitivity(k, "add-remove")
    none = np.zeros(k + 1)
    for row in itertools.product([-1.0, 0.0, 0.5, 1.0], repeat=k + 1):
        assert moved(np.array(row), none) <= bound
    assert moved(np.ones(k + 1), none) == bound == len(numbers(none))


def corners(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape)


def inside(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.uniform(-1, 1, shape)


# ---- what is released -----------------------------------------------------------------------


def seen_by_noise(
    monkeypatch: pytest.MonkeyPatch, rows: np.ndarray, mechanism: NoisyStatistics, bounds: tuple
) -> tuple[np.ndarray, float, float]:
    """Return what a release gives to the noise: the exact numbers, sensitivity, epsilon."""
    seen: list[Any] = []

    def spy(values: np.ndarray, sensitivity: float, epsilon: float, _: Randomness) -> np.ndarray:
        seen.append((values.copy(), sensitivity, epsilon))
        return values

    monkeypatch.setattr(module, "add_laplace", spy)
    x_bound, y_bound = bounds
    k = rows.shape[1] - 1
    X, y = rows[:, :-1] * x_bound, rows[:, -1] * y_bound
    problem = Problem(X, y, size=k, x_bound=x_bound, y_bound=y_bound, radius=1.0)
    mechanism.release(problem, range(k), random_state=0)
    assert len(seen) == 1
    return seen[0]


def log_ratio(
    monkeypatch: pytest.MonkeyPatch, mechanism: NoisyStatistics, tables: list[np.ndarray]
) -> float:
    """Return the largest log ratio of the densities of the noisy numbers, over all outcomes.

    Laplace densities of one scale are furthest apart where all numbers lie beyond both centres.
    """
    bounds = (3.0, 0.2)
    (one, s, e), (other, _, _) = (seen_by_noise(monkeypatch, t, mechanism, bounds) for t in tables)
    outcomes = np.array([np.minimum(one, other) - 1, np.maximum(one, other) + 1, one, other])
    scale = s / e
    ratios = (np.abs(outcomes - other) - np.abs(outcomes - one)) / scale
    each = np.abs(ratios).max(axis=0)
    return float(each.sum())


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_densities_of_the_numbers_differ_by_epsilon_at_most(
    neighbours: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(k)
    mechanism = NoisyStatistics(0.8, neighbours=neighbours)

    def tables(one: np.ndarray, other: np.ndarray) -> list[np.ndarray]:
        rows = inside(rng, (3, k + 1))
        added = [rows, np.vstack([rows, one])]
        return [np.vstack([rows, other]), added[1]] if neighbours == "replace-one" else added

    for _ in range(20):
        one, other = corners(rng, (2, k + 1)) * np.where(rng.random((2, k + 1)) < 0.7, 1, 0.3)
        assert log_ratio(monkeypatch, mechanism, tables(one, other)) <= 0.8 + 1e-12
    worst = tables(*worst_rows(k, False))
    assert log_ratio(monkeypatch, mechanism, worst) == pytest.approx(0.8, rel=1e-9)
    whole = statistics_sensitivity
    monkeypatch.setattr(module, "statistics_sensitivity", lambda *given: whole(*given) / 2)
    assert log_ratio(monkeypatch, mechanism, worst) > 1.5


def test_entries_beyond_the_bounds_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.array([[50.0, -9.0], [0.5, 0.5]])
    exact, _, _ = seen_by_noise(monkeypatch, rows, NoisyStatistics(1.0), (2.0, 3.0))
    np.testing.assert_allclose(exact, [1.25, -0.75])


def test_after_the_noise_the_table_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of different values and lengths give the same coefficients from the same numbers."""
    rng = np.random.default_rng(0)
    for k in (1, 2, 4):
        noisy = rng.normal(scale=3, size=k * (k + 3) // 2)
        monkeypatch.setattr(module, "add_laplace", lambda *given, noisy=noisy: noisy.copy())
        tables = [make_problem(n, k, "squared", seed=n) for n in (0, 1, 30, 31)]
        mechanism = NoisyStatistics(1.0, neighbours="add-remove")
        fits = [mechanism.release(problem, range(k), random_state=1) for problem in tables]
        assert len({fit.values for fit in fits}) == 1
        assert len({fit.guarantee for fit in fits}) == 1
        assert np.linalg.norm(fits[0].values) <= 1 + 1e-9


def test_without_noise_it_is_least_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any units: with next to no noise the fit is the one of the problem itself."""
    monkeypatch.setattr(module, "add_laplace", lambda values, *_: values)
    rng = np.random.default_rng(5)
    X = rng.uniform(-3, 3, (200, 3))
    y = X @ [0.3, -0.1, 0.2] + rng.normal(scale=0.1, size=200)
    problem = Problem(X, y, size=2, x_bound=3.0, y_bound=4.0, radius=2.0, ridge=7.0)
    fit = NoisyStatistics(1e9).release(problem, [0, 2], random_state=0)
    A = X[:, [0, 2]]
    exact = np.linalg.solve(A.T @ A + 7 * np.eye(2), A.T @ np.clip(y, -4, 4))
    np.testing.assert_allclose(fit.values, exact, rtol=1e-4)  # entries are rounded to 2^-15
    A, t = np.round(A / 3 * 2**15) * 3 / 2**15, np.round(np.clip(y, -4, 4) / 4 * 2**15) * 4 / 2**15
    exact = np.linalg.solve(A.T @ A + 7 * np.eye(2), A.T @ t)
    np.testing.assert_allclose(fit.values, exact, rtol=1e-6)
    tight = Problem(X, y, size=2, x_bound=3.0, y_bound=4.0, radius=0.1)
    fit = NoisyStatistics(1e9).release(tight, [0, 2], random_state=0)
    assert np.linalg.norm(fit.values) == pytest.approx(0.1)


def test_sums_have_no_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order of the rows: the very same numbers reach the noise. Twin: without the grid."""
    seen: list[np.ndarray] = []
    monkeypatch.setattr(module, "add_laplace", lambda values, *_: seen.append(values) or values)
    rng = np.random.default_rng(7)
    X, y = rng.uniform(-1, 1, (5000, 3)), rng.uniform(-1, 1, 5000)
    for grid in (module._gridded, lambda values: values):
        monkeypatch.setattr(module, "_gridded", grid)
        for order in (np.arange(5000), np.arange(5000)[::-1], rng.permutation(5000)):
            problem = Problem(X[order], y[order], size=3, x_bound=1.0, y_bound=1.0, radius=1.0)
            NoisyStatistics(1.0).release(problem, range(3), random_state=0)
    assert all(np.array_equal(seen[0], other) for other in seen[1:3])
    assert not all(np.array_equal(seen[3], other) for other in seen[4:])


# ---- edges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [None, 2])
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_odd_problems_are_released(neighbours: str, state: int | None) -> None:
    tables = [np.zeros((0, 2)), np.zeros((6, 2)), np.ones((6, 2)), np.eye(2)]
    odd = itertools.product(tables, (0.0, 1e8), (1e-9, 1.0, 1e6), (1e-3, 1.0, 50.0))
    for X, ridge, radius, epsilon in odd:
        options = {"x_bound": 1.0, "y_bound": 1.0, "radius": radius, "ridge": ridge}
        problem = Problem(X, np.ones(len(X)), size=2, **options)
        given = {"neighbours": neighbours, "random_state": state}
        fit = noisy_statistics(problem, [0, 1], epsilon, **given)
        assert np.linalg.norm(fit.values) <= radius * (1 + 1e-9)
        assert ("SEEDED" in str(fit.guarantee)) == (state is not None)


def test_other_losses_are_refused() -> None:
    for loss in ("huber:0.3", "logistic", "absolute"):
        with pytest.raises(InputError, match="objective perturbation"):
            NoisyStatistics(1.0).release(make_problem(5, 2, loss), [0, 1])


def test_the_promise_is_made_before_the_table_is_seen() -> None:
    for neighbours, rows in [("replace-one", (9, 9)), ("add-remove", (9, 0))]:
        mechanism = NoisyStatistics(0.5, neighbours=neighbours)
        problems = [make_problem(n, 3, "squared", seed=seed) for seed, n in enumerate(rows)]
        assert mechanism.guarantee(problems[0]) == mechanism.guarantee(problems[1])
        promise = mechanism.guarantee(problems[0])
        assert promise.sensitivity == (3 * 25 / 8 if neighbours == "replace-one" else 9.0)
        assert promise.delta == 0.0
        assert "rounding of the scores" not in promise.sentence
        level = mechanism._noise_level(problems[0])
        assert math.isclose(level, mechanism._noise_level(problems[1]))
