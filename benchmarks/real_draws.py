"""Real, strongly correlated tables with a small ridge: exact draws alongside enumeration (T12)."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.preprocessing import PolynomialFeatures, minmax_scale

from benchmarks.measured import Row
from dpsubset import sampling
from dpsubset.mechanisms import Exponential, Mechanism, PermuteAndFlip
from dpsubset.problem import Problem

__all__ = ["breast_cancer", "diabetes", "real_rows"]

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]


def breast_cancer(products: bool) -> Pair:
    """Return scikit-learn's breast cancer table on [-1, 1], with squares and products if asked."""
    X, y = load_breast_cancer(return_X_y=True)
    return _scaled(minmax_scale(X, (-1, 1)), y, products)


def diabetes(products: bool) -> Pair:
    """Return scikit-learn's diabetes table on [-1, 1], with squares and products if asked."""
    X, y = load_diabetes(return_X_y=True)
    return _scaled(X, y, products)


def _scaled(X: Any, y: Any, products: bool) -> Pair:
    if products:
        X = PolynomialFeatures(2, include_bias=False).fit_transform(X)
    return minmax_scale(X, (-1, 1)), minmax_scale(y.astype(float), (-1, 1))


def real_rows(quick: bool) -> Iterator[Row]:
    """Measure exact draws; where all supports can be listed, alongside the time of listing them."""
    for name, (X, y) in {
        "breast cancer": breast_cancer(False),
        "diabetes with products": diabetes(not quick),
    }.items():
        listed = _draws(X, y, 1.0, Exponential(epsilon=1.0), 1, 10**8)
        for epsilon in (1.0, 10.0):
            for mechanism in (Exponential(epsilon=epsilon), PermuteAndFlip(epsilon=epsilon)):
                seconds = _draws(X, y, 1.0, mechanism, 100, 0)
                case = f"100 exact draws, {mechanism.name}, epsilon {epsilon:g}; {name}"
                yield Row(case, seconds, "listing all supports", listed)
    if quick:
        return
    X, y = breast_cancer(True)
    for ridge in (10.0, 1.0):
        for mechanism in (Exponential(epsilon=1.0), PermuteAndFlip(epsilon=1.0)):
            seconds = _draws(X, y, ridge, mechanism, 20, sampling.ENUMERATION_LIMIT)
            case = f"20 exact draws, {mechanism.name}, epsilon 1, ridge {ridge:g}"
            yield Row(f"{case}; breast cancer with products", seconds, "second", 1.0)


def _draws(X: Any, y: Any, ridge: float, mechanism: Mechanism, count: int, limit: int) -> float:
    """Return the seconds of some draws, all supports listed where they are at most `limit`."""
    sampling.ENUMERATION_LIMIT = limit
    began = perf_counter()
    problem = Problem(X, y, size=5, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=ridge)
    mechanism.draw(problem, count, random_state=1)
    return perf_counter() - began
