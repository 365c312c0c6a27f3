"""Objective perturbation: its public numbers, its mask, and problems at the edges (T27)."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pytest
from coefficients.problems import make_problem, released
from scipy import stats

from dpsubset import Problem
from dpsubset.audit.densities import LABELLED, LOSSES, shortened
from dpsubset.coefficients import ObjectivePerturbation, objective_perturbation
from dpsubset.coefficients import objective as module
from dpsubset.errors import InputError
from dpsubset.privacy import Randomness

FALSE_ALARM = 1e-6


# ---- the noise that hides how exact a fit is ---------------------------------------------------


def test_noise_hides_where_near_the_minimiser_a_fit_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two fits may be 2 gamma apart; Laplace noise of this scale moves by e^eps3 at most."""
    problem = make_problem(5, 3)
    mechanism = ObjectivePerturbation(0.7)
    given = mechanism.constants(problem)
    apart = 2 * given.inexact * np.ones(3) / math.sqrt(3)
    assert np.abs(apart).sum() / given.mask == pytest.approx(given.mask_epsilon, rel=1e-12)
    fit, asked = np.array([0.3, -0.2, 0.1]), []

    def fixed(*arguments: Any) -> np.ndarray:
        asked.append(arguments[-1])
        return fit

    monkeypatch.setattr(module, "minimise", fixed)
    values = released(mechanism, problem, 1500)
    assert max(asked) <= given.ridge * given.inexact  # half of what the mask allows for
    noise = ((values - fit) / given.mask).ravel()
    assert stats.kstest(noise, "laplace").pvalue > FALSE_ALARM
    assert stats.kstest(noise, stats.laplace(scale=0.8).cdf).pvalue < FALSE_ALARM
    grid = 2.0 ** math.floor(math.log2(given.mask / 1024))
    np.testing.assert_array_equal(values, np.round(values / grid) * grid)
    assert len(np.unique(values)) > 1000
    monkeypatch.setattr(Randomness, "laplaces", lambda self, count: np.zeros(count))
    assert np.unique(released(mechanism, problem, 50), axis=0).shape[0] == 1


# ---- public numbers ------------------------------------------------------------------------------


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_budget_adds_up(loss: str, neighbours: str) -> None:
    deltas, shares = (0.0, 1e-6), (None, 0.01, 0.9)
    ridges, epsilons = (0.0, 1e4), (1e-3, 1.0, 50.0)
    for delta, share, ridge, epsilon in itertools.product(deltas, shares, ridges, epsilons):
        mechanism = ObjectivePerturbation(
            epsilon, delta=delta, neighbours=neighbours, curvature_share=share
        )
        c = mechanism.constants(make_problem(4, 2, loss, ridge=ridge))
        spent = c.noise_epsilon + c.curvature_epsilon + c.mask_epsilon
        assert spent == pytest.approx(epsilon, rel=1e-12)
        assert min(c.noise_epsilon, c.curvature_epsilon, c.mask_epsilon) > 0
        assert c.curvature_epsilon >= math.log1p(c.curvature / (2 * c.ridge)) * (1 - 1e-12)
        assert c.ridge >= ridge
        assert c.mask >= 2 * c.inexact * math.sqrt(2) / c.mask_epsilon * (1 - 1e-12)
        shift = 2 * c.slope if neighbours == "replace-one" else c.slope
        assert mechanism.sensitivity(make_problem(9, 2, loss)) == shift
        least = shift / c.noise_epsilon if not delta else needed(shift, c.noise_epsilon, delta)
        assert c.scale >= least * (1 - 1e-9)


def needed(shift: float, epsilon: float, delta: float) -> float:
    """Return a scale without which even a plain shift of a Gaussian has more than delta beyond."""
    low, high = shift * 1e-6, shift * 1e9
    for _ in range(200):
        middle = math.sqrt(low * high)
        tail = stats.norm.sf(epsilon * middle / shift - shift / (2 * middle))
        low, high = (low, middle) if tail <= delta else (middle, high)
    return high


@pytest.mark.parametrize("loss", LOSSES)
def test_public_numbers_do_not_depend_on_the_table(loss: str) -> None:
    for neighbours, rows in [("replace-one", (9, 9)), ("add-remove", (9, 0))]:
        mechanism = ObjectivePerturbation(1.0, neighbours=neighbours)
        problems = [make_problem(n, 2, loss, seed=seed) for seed, n in enumerate(rows)]
        first, second = (asdict(mechanism.constants(problem)) for problem in problems)
        assert first == second
        assert len(first) == len(fields(module.Constants))
        assert mechanism.guarantee(problems[0]) == mechanism.guarantee(problems[1])


def test_long_rows_are_scaled_down_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []

    def spy(loss: Any, X: np.ndarray, *rest: Any) -> np.ndarray:
        seen.append(X.copy())
        return np.zeros(X.shape[1])

    monkeypatch.setattr(module, "minimise", spy)
    X = np.array([[1.0, 1.0], [0.3, 0.1], [0.0, 0.0], [-7.0, 0.2], [0.5, 0.0]])
    for table in (X.copy(), np.asfortranarray(X), X.astype(np.float32)):
        kept = table.copy()
        options = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "loss": "huber"}
        problem = Problem(table, np.zeros(5), size=2, **options)
        ObjectivePerturbation(1.0, row_bound=0.5).release(problem, [0, 1], random_state=0)
        ObjectivePerturbation(1.0, row_bound=9.0).release(problem, [0, 1], random_state=0)
        np.testing.assert_array_equal(table, kept)
    clipped = np.clip(X, -1, 1)
    for cut, whole in zip(seen[::2], seen[1::2], strict=True):
        np.testing.assert_allclose(cut, shortened(clipped, 0.5), rtol=1e-7)
        assert np.linalg.norm(cut, axis=1).max() <= 0.5 * (1 + 1e-15)
        np.testing.assert_allclose(whole, clipped, rtol=1e-7)


# ---- weak points ---------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("loss", LOSSES)
def test_odd_problems_are_released(loss: str, neighbours: str) -> None:
    tables = {"none": np.zeros((0, 2)), "zeros": np.zeros((6, 2)), "twins": np.ones((6, 2))}
    labels: dict[str, Any] = {"classes": (-1, 1)} if loss in LABELLED else {"y_bound": 1.0}
    odd = itertools.product(tables.values(), (0.0, 1e8), (1e-9, 1.0, 1e3), (1e-3, 1.0, 5.0))
    for X, ridge, radius, epsilon in odd:
        problem = Problem(
            X, np.ones(len(X)), size=2, x_bound=1.0, radius=radius, loss=loss, ridge=ridge, **labels
        )
        fit = objective_perturbation(
            problem, [0, 1], epsilon, neighbours=neighbours, random_state=3
        )
        assert np.isfinite(fit.values).all()
        assert fit.guarantee.randomness == "seeded"
        assert fit.support == (0, 1)


def test_unfit_losses_and_options_are_refused() -> None:
    for loss in ("absolute", "quantile:0.3"):
        problem = make_problem(5, 2, loss)
        with pytest.raises(InputError, match="huber or squared"):
            ObjectivePerturbation(1.0).guarantee(problem)
    for options in ({"delta": 0.2}, {"curvature_share": 0.95}, {"row_bound": -1.0}):
        with pytest.raises(InputError):
            ObjectivePerturbation(1.0, **options)


@pytest.mark.parametrize("epsilon", [50.0, 1000.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_large_budget_is_accepted(loss: str, epsilon: float) -> None:
    """The ridge must not become so small that no fit in float64 is exact enough for it."""
    problem = make_problem(300, 2, loss)
    for seed in range(5):
        fit = ObjectivePerturbation(epsilon).release(problem, [0, 1], random_state=seed)
        assert np.linalg.norm(fit.values) < 1.1


def test_the_largest_budget_has_constants() -> None:
    given = ObjectivePerturbation(2000.0).constants(make_problem(3, 2))
    assert given.noise_epsilon > 0
