"""Boosted AdaSSP (Tang and others, "Improved differentially private regression via gradient
boosting", 2023), on AdaSSP (Wang 2018): (epsilon, delta), rows added or removed.

Rows are clipped to norm 1, residuals to [-1, 1]. One third of the squared budget each goes to X'X,
to its least eigenvalue, and to the rounds' X'(y - X theta) together; the Gaussian mechanism
composes by squares. A row moves each of them by at most 1: |x|^2, an eigenvalue by Weyl, and |x|
|g|. The ridge is AdaSSP's: what the noise on X'X makes necessary, less the noisy least eigenvalue.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.rival_models.gaussian import mu_for
from dpsubset.arrays import Floats

__all__ = ["boosted_adassp"]

ROUNDS = 100  # the papers' setting
FAILS = 0.05  # the chance with which AdaSSP's bound on the noise fails


def boosted_adassp(
    X: Floats,
    y: Floats,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    *,
    rounds: int = ROUNDS,
) -> Floats:
    """Return coefficients of the columns of X, which holds a constant one.

    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.uniform(-1, 1, 50_000), np.ones(50_000)]) / np.sqrt(2)
    >>> fit = boosted_adassp(X, X @ [0.5, 0.2], 5.0, 1e-6, rng)
    >>> bool(np.allclose(fit, [0.5, 0.2], atol=0.05))
    True
    """
    d = X.shape[1]
    mu = mu_for(epsilon, delta) / math.sqrt(3.0)
    X = X / np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    gram = X.T @ X
    half = np.triu(rng.normal(scale=1.0 / mu, size=(d, d)))
    noisy = gram + half + np.triu(half, 1).T
    bound = math.sqrt(d * math.log(2.0 * d * d / FAILS)) / mu
    least = float(np.linalg.eigvalsh(gram)[0]) + rng.normal(scale=1.0 / mu)
    least = max(0.0, least - math.sqrt(math.log(6.0 / FAILS)) / mu)
    solve = np.linalg.pinv(noisy + max(0.0, bound - least) * np.eye(d))
    theta = np.zeros(d)
    for _ in range(rounds):
        residual = np.clip(y - X @ theta, -1.0, 1.0)
        theta = theta + solve @ (X.T @ residual + rng.normal(scale=math.sqrt(rounds) / mu, size=d))
    return theta
