"""Models of others against their published descriptions: calibration, sensitivities, limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import Lasso

from benchmarks.rival_models import tukey
from benchmarks.rival_models.adassp import boosted_adassp
from benchmarks.rival_models.frank_wolfe import frank_wolfe, step_epsilon
from benchmarks.rival_models.gaussian import delta_of, mu_for
from benchmarks.rival_models.tukey import log_volumes, safe_distance, tukey_em


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_the_gaussian_mechanism_is_as_private_as_it_says(epsilon: float, delta: float) -> None:
    """The hockey-stick divergence of N(0, 1) and N(mu, 1), by a sum over a fine grid."""
    mu = mu_for(epsilon, delta)
    x = np.linspace(-12, 12 + mu, 400_001)
    gap = np.maximum(0.0, norm.pdf(x - mu) - math.exp(epsilon) * norm.pdf(x))
    assert gap.sum() * (x[1] - x[0]) == pytest.approx(delta, rel=1e-3)
    assert delta_of(epsilon, 1.5 * mu) > delta  # and a larger mu is not


def test_adassp_without_noise_is_least_squares() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 4)) / 2
    y = np.clip(X @ [0.5, -0.3, 0.0, 0.2] + 0.05 * rng.normal(size=3000), -1, 1)
    fit = boosted_adassp(X, y, 1e7, 1e-6, rng)
    np.testing.assert_allclose(fit, np.linalg.lstsq(X, y, rcond=None)[0], atol=1e-3)


def test_what_adassp_adds_noise_to_moves_by_one_at_most() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        X, x = rng.normal(size=(5, 3)), rng.normal(size=3)
        x /= max(1.0, float(np.linalg.norm(x)))
        gram, more = X.T @ X, X.T @ X + np.outer(x, x)
        assert np.linalg.norm(np.outer(x, x)) <= 1 + 1e-12
        assert 0 <= np.linalg.eigvalsh(more)[0] - np.linalg.eigvalsh(gram)[0] + 1e-12 <= 1 + 1e-9
        assert np.linalg.norm(x * np.clip(rng.normal(), -1, 1)) <= 1


def test_volumes_and_shells_of_tukey_depth() -> None:
    """In two dimensions, by points on a grid: depth is the least count on a side."""
    rng = np.random.default_rng(1)
    sides = np.sort(rng.normal(size=(8, 2)), axis=0)
    axes = [np.linspace(-4, 4, 801)] * 2
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    below = np.stack([(sides[:, k] <= grid[:, [k]]).sum(axis=1) for k in range(2)], axis=1)
    depth = np.minimum(below, 8 - below).min(axis=1)
    cell = 0.01**2
    volumes = np.exp(log_volumes(sides))
    for d in range(1, 5):
        assert (depth >= d).sum() * cell == pytest.approx(volumes[d - 1], abs=0.15)
    points = np.array([tukey._in_shell(sides, 2, 4, rng) for _ in range(4000)])
    below = np.stack([(sides[:, k] <= points[:, [k]]).sum(axis=1) for k in range(2)], axis=1)
    assert (np.minimum(below, 8 - below).min(axis=1) == 2).all()
    # Uniform: as points of the box of depth 2 that are not in the box of depth 3.
    box = rng.uniform(sides[1], sides[6], (40_000, 2))
    inside = ((box >= sides[2]) & (box <= sides[5])).all(axis=1)
    shell = box[~inside]
    for power in (1, 2):
        ours, oracle = points**power, shell**power
        error = np.sqrt(ours.var(axis=0) / len(ours) + oracle.var(axis=0) / len(oracle))
        assert (abs(ours.mean(axis=0) - oracle.mean(axis=0)) < 5 * error).all()  # 1e-6 a test


def fits(volumes: Any, t: int, k: int, epsilon: float, delta: float) -> bool:
    bound = math.log(delta / 8) - epsilon
    return any(
        volumes[t - k - 1 - 1] - volumes[t + k + g + 1 - 1] - epsilon * g / 2 <= bound
        for g in range(1, len(volumes) - t - k)
    )


def test_the_distance_of_tukey_is_its_definition() -> None:
    """The largest k with a g as published, by trying all of them, depths counted from 1."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        count, epsilon, delta = 60, float(rng.choice([0.5, 2.0, 8.0])), 1e-2
        spread = rng.choice([0.01, 1.0])
        volumes = log_volumes(np.sort(spread * rng.normal(size=(count, 2)) ** 3, axis=0))
        t, expected = count // 4, -1
        while expected + 1 < t - 1 and fits(volumes, t, expected + 1, epsilon, delta):
            expected += 1
        assert safe_distance(volumes, epsilon, delta, t) == expected


def test_tukey_refuses_few_rows_and_is_right_on_many() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (30_000, 2)), np.ones(30_000)])
    y = X @ [0.3, -0.5, 0.1] + 0.2 * rng.normal(size=30_000)
    np.testing.assert_allclose(tukey_em(X, y, 3.0, 1e-5, rng), [0.3, -0.5, 0.1], atol=0.05)
    assert not tukey_em(X[:100], y[:100], 0.5, 1e-5, rng).any()


def test_frank_wolfe_without_noise_is_the_lasso_in_its_ball() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 6))
    y = np.clip(0.5 * X[:, 0] - 0.4 * X[:, 3] + 0.1 * rng.normal(size=500), -1, 1)
    fit = frank_wolfe(X, y, 1e9, 0.0, rng, radius=0.6, steps=3000)
    assert abs(fit).sum() <= 0.6 + 1e-9
    penalties = np.geomspace(1e-4, 0.2, 400)
    fits = [Lasso(alpha=a, fit_intercept=False).fit(X, y).coef_ for a in penalties]
    nearest = min(fits, key=lambda b: abs(abs(b).sum() - 0.6))
    np.testing.assert_allclose(fit, nearest, atol=0.02)


def test_a_row_moves_a_vertex_by_no_more_than_the_step_assumes() -> None:
    rng = np.random.default_rng(0)
    n, radius, worst = 5, 0.7, 0.0
    for _ in range(2000):
        beta = rng.laplace(size=3)
        beta *= radius / abs(beta).sum()
        rows = np.sign(rng.normal(size=(2, 3)))
        ends = np.sign(rng.normal(size=2))
        one, other = (2 * (x @ beta - y) * x * radius / n for x, y in zip(rows, ends, strict=True))
        worst = max(worst, float(abs(one - other).max()))
    bound = 4.0 * (1.0 + radius) * radius / n
    assert 0.8 * bound < worst <= bound


def test_steps_share_the_budget() -> None:
    assert step_epsilon(2.0, 0.0, 8) * 8 == pytest.approx(2.0)
    each = step_epsilon(2.0, 1e-6, 100)
    rho = 100 * each**2 / 8
    assert rho + 2 * math.sqrt(rho * math.log(1e6)) == pytest.approx(2.0)
