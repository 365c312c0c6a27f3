"""Squared loss: its conjugate, its largest value, and fits whose gap is certified."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsubset.losses import Squared

LOSS = Squared()
NUMBER = st.floats(-5, 5)


@given(NUMBER, NUMBER, NUMBER)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_fenchel_young(y: float, t: float, a: float) -> None:
    gap = LOSS.value(y, t) + LOSS.conjugate(y, a) - a * t
    assert gap >= -1e-9
    tight = LOSS.value(y, t) + LOSS.conjugate(y, 2 * (t - y)) - 2 * (t - y) * t
    assert tight == pytest.approx(0.0, abs=1e-9)


def test_largest_value_is_never_exceeded_and_attained() -> None:
    rng = np.random.default_rng(0)
    y, t = rng.uniform(-2, 2, 100_000), rng.uniform(-3, 3, 100_000)
    assert LOSS.value(y, t).max() <= LOSS.largest(2.0, 3.0)
    assert LOSS.value(np.array(-2.0), np.array(3.0)) == LOSS.largest(2.0, 3.0)
    assert LOSS.published(2.0, 3.0) >= LOSS.largest(2.0, 3.0)
    assert LOSS.published(3.0, 3.0) == LOSS.largest(3.0, 3.0)


@pytest.mark.parametrize("seed", range(60))
def test_fit_is_certified(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(1, 40)), int(rng.integers(1, 9))
    X, y = rng.normal(size=(n, k)), rng.normal(size=n)
    if seed % 3 == 0:
        X[:, -1] = X[:, 0]  # singular
    ridge, radius = rng.choice([0.0, 0.1, 5.0]), rng.choice([1e-3, 0.3, 1.0, 50.0])
    fit = LOSS.fit(X, y, ridge, radius)
    value = LOSS.value(y, X @ fit.coefficients).sum() + ridge * fit.coefficients @ fit.coefficients
    assert np.linalg.norm(fit.coefficients) <= radius * (1 + 1e-12)
    assert value == pytest.approx(fit.primal, abs=1e-9 * (y @ y + 1))
    assert fit.primal - fit.dual == pytest.approx(0.0, abs=1e-9 * (y @ y + 1))
    other = rng.normal(size=(2000, k))
    other *= (radius * rng.uniform(0, 1, (2000, 1))) / np.linalg.norm(other, axis=1, keepdims=True)
    tried = ((y[:, None] - X @ other.T) ** 2).sum(axis=0) + ridge * (other**2).sum(axis=1)
    assert tried.min() >= fit.dual - 1e-9
