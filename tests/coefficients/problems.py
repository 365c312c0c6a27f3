"""Small problems in unit bounds, and many releases on one."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsubset import Problem
from dpsubset.audit.densities import LABELLED
from dpsubset.coefficients import CoefficientMechanism


def make_problem(
    n: int, size: int, loss: str = "huber:0.3", seed: int = 0, **given: Any
) -> Problem:
    """Make a small table in unit bounds, its last column left out of the support."""
    rng = np.random.default_rng([seed, n, size])
    X = rng.uniform(-1, 1, (n, size + 1))
    y = rng.choice([-1.0, 1.0], n) if loss in LABELLED else rng.uniform(-1, 1, n)
    labels: dict[str, Any] = {"classes": (-1, 1)} if loss in LABELLED else {"y_bound": 1.0}
    options = {"x_bound": 1.0, "radius": 1.0, "loss": loss, "size": size, **labels, **given}
    return Problem(X, y, **options)


def released(mechanism: CoefficientMechanism, problem: Problem, count: int) -> np.ndarray:
    generator = np.random.default_rng(7)
    support = range(problem.size)
    return np.array([mechanism.release(problem, support, generator).values for _ in range(count)])
