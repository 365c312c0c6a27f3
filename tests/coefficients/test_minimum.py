"""The certified minimum against other solvers, against long doubles, and where it must refuse."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from dpsubset.audit.densities import LABELLED, LOSSES, derivatives
from dpsubset.coefficients import minimum
from dpsubset.coefficients.minimum import IMPRECISE, minimise
from dpsubset.errors import UnprovenError
from dpsubset.losses import as_loss

KINDS = ("plain", "none", "zeros", "collinear", "one")
Long = np.longdouble


def make_table(kind: str, loss: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    n = {"none": 0, "one": 1}.get(kind, int(rng.integers(2, 40)))
    k = int(rng.integers(1, 5))
    X = rng.uniform(-1, 1, (n, k))
    if kind == "zeros":
        X[:, 0] = 0.0
    if kind == "collinear":
        X = X[:, :1] * rng.uniform(-1, 1, k)
    y = rng.choice([-1.0, 1.0], n) if loss in LABELLED else rng.uniform(-1, 1, n)
    return X, y


def gradient(
    loss: str, X: np.ndarray, y: np.ndarray, ridge: float, term: np.ndarray, beta: np.ndarray
) -> np.ndarray:
    """Return the gradient in long doubles."""
    X, y, beta = X.astype(Long), y.astype(Long), beta.astype(Long)
    slope, _ = derivatives(loss, y, (X * beta).sum(axis=1))
    return (X * slope[:, None]).sum(axis=0) + term.astype(Long) + 2 * Long(ridge) * beta


def distance(radius: float, ridge: float, beta: np.ndarray, slope: np.ndarray) -> float:
    """Return a proven bound on the distance to the minimiser, from the gradient at beta.

    Less what the ball pushes back along beta, the gradient is by how much the linear term would
    have to change for beta to be the minimiser. The least curvature is 2 ridge, and on the rim
    half of the push more.
    """
    norm = math.sqrt(float(beta @ beta))
    push = Long(0)
    if norm >= radius * (1 - 1e-12):  # off the rim by a rounding error only
        push = max(Long(0), -(slope @ beta) / norm**2)
    rest = float(np.sqrt(((slope + push * beta) ** 2).sum()))
    return rest / (2 * ridge + float(push) / 2) + 1e-12 * radius


def solved(
    loss: str, X: np.ndarray, y: np.ndarray, ridge: float, radius: float, term: np.ndarray
) -> np.ndarray:
    """Return the minimiser by an interior-point method."""
    beta = cp.Variable(X.shape[1])
    total = ridge * cp.sum_squares(beta) + term @ beta
    if len(y):
        t, given = X @ beta, float(loss.partition(":")[2] or 1.0)
        hinge = cp.huber(
            1 + given - cp.multiply(y, t) + cp.Variable(len(y), nonneg=True), 2 * given
        )
        margins, beyond = cp.multiply(y, t), cp.Variable(len(y), nonneg=True)
        steepest = 1 / (1 + math.exp(-given))
        total += cp.sum(
            {
                "squared": lambda: cp.square(t - y),
                "huber": lambda: cp.huber(t - y, given),
                "logistic": lambda: cp.logistic(-cp.multiply(y, t)),
                "huber_hinge": lambda: hinge / (4 * given),
                "huber_logistic": lambda: cp.logistic(-margins - beyond) + steepest * beyond,
            }[loss.partition(":")[0]]()
        )
    problem = cp.Problem(cp.Minimize(total), [cp.norm(beta) <= radius])
    problem.solve(solver=cp.CLARABEL)
    return np.asarray(beta.value, dtype=float)


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_minimum_is_the_minimum(loss: str, kind: str) -> None:
    rims = 0
    for seed in range(4):
        X, y = make_table(kind, loss, seed)
        rng = np.random.default_rng(seed)
        ridge, radius = 10.0 ** rng.uniform(-2, 1), (0.02, 100.0)[seed % 2]
        term = rng.normal(size=X.shape[1]) * 10.0 ** rng.uniform(-1, 1)
        found = minimise(as_loss(loss), X, y, ridge, radius, term, ridge * 1e-7)
        assert np.linalg.norm(found) <= radius * (1 + 1e-14)
        np.testing.assert_allclose(
            found, solved(loss, X, y, ridge, radius, term), atol=2e-3 * min(radius, 1.0)
        )
        off = distance(radius, ridge, found, gradient(loss, X, y, ridge, term, found))
        assert off <= 0.5e-7 + 2e-12 * radius
        rims += bool(np.linalg.norm(found) > radius * (1 - 1e-9))
    assert 0 < rims < 4


@pytest.mark.parametrize("loss", LOSSES)
def test_a_rough_minimum_is_as_near_as_it_says(loss: str) -> None:
    """The claim is residual / (2 ridge), against a fit that is far more exact."""
    rough = 0
    for seed in range(30):
        X, y = make_table("plain", loss, seed)
        rng = np.random.default_rng(seed)
        ridge, radius = 0.1, (0.2, 5.0)[seed % 2]
        term = rng.normal(size=X.shape[1])
        exact = minimise(as_loss(loss), X, y, ridge, radius, term, 1e-11)
        for residual in (1.0, 1e-2):
            found = minimise(as_loss(loss), X, y, ridge, radius, term, residual)
            off = float(np.linalg.norm(found - exact))
            assert off <= residual / (2 * ridge) + 1e-9
            rough += off > 1e-9
    assert rough > 0 or loss == "squared"  # whose steps are exact


@pytest.mark.grid(every=5)
@pytest.mark.parametrize("loss", LOSSES)
def test_what_cannot_be_certified_is_not_returned(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = make_table("plain", loss, 1)
    given: Any = (as_loss(loss), X, y, 0.5, 0.3, np.ones(X.shape[1]))
    with pytest.raises(UnprovenError) as refused:
        minimise(*given, -1.0)
    assert str(refused.value) == IMPRECISE
    with pytest.raises(UnprovenError):
        minimise(*given[:-1], np.full(X.shape[1], np.nan), 1e-6)
    monkeypatch.setattr(minimum, "spectral", lambda *given: given[-1].fill(0.0))  # stays
    with pytest.raises(UnprovenError):
        minimise(*given, 1e-6)
    monkeypatch.undo()
    monkeypatch.setattr(minimum, "_residual", lambda *a: 0.0)  # a certificate that proves nothing
    wrong = minimise(*given, 1e-6)
    assert distance(0.3, 0.5, wrong, gradient(loss, X, y, 0.5, given[-1], wrong)) > 1e-3


# ---- many rows: the ball's multiplier and rounding -----------------------------------------------


def large(loss: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (n, 2))
    y = np.clip(X @ [0.5, -0.2] + 0.1 * rng.normal(size=n), -1, 1)
    return X, np.sign(y) if loss in LABELLED else y


@pytest.mark.parametrize("radius", [0.3, 1.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_many_rows_do_not_stop_it_on_the_rim(loss: str, radius: float) -> None:
    """Ordinary settings (epsilon about 5): the multiplier must be as exact as the residual asks."""
    X, y = large(loss, 20_000)
    for seed in range(12):
        term = np.random.default_rng(seed).normal(size=2)
        ridge = 0.1
        found = minimise(as_loss(loss), X, y, ridge, radius, term, ridge * 1e-7 * radius)
        off = distance(radius, ridge, found, gradient(loss, X, y, ridge, term, found))
        assert off <= 1e-7 * radius
