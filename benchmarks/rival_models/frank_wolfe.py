"""The private lasso by Frank-Wolfe (Talwar, Thakurta and Zhang, "Nearly optimal private LASSO",
NeurIPS 2015): coefficients in an l1 ball, T steps towards a vertex of it, chosen with noise.

The loss is squared, with entries of rows and target in [-1, 1]: over a ball of radius r the
gradient of a row's loss, 2 (x'b - y) x, has entries of at most 2 (1 + r). A vertex's score, its
product with the mean gradient, moves by at most 2 * 2 (1 + r) r / n if a row is replaced. Steps
share epsilon by basic composition (pure), or by zero-concentrated privacy with a delta; the
authors' advanced composition is looser. The first step starts at zero, and step k has size 2 / (k
+ 2).
"""

from __future__ import annotations

import math

import numpy as np

from dpsubset.arrays import Floats

__all__ = ["frank_wolfe", "step_epsilon"]


def step_epsilon(epsilon: float, delta: float, steps: int) -> float:
    """Return what each step may spend.

    An exponential mechanism of e is e^2/8-zCDP (bounded range), and rho-zCDP is
    (rho + 2 sqrt(rho log(1/delta)), delta)-DP.

    >>> step_epsilon(1.0, 0.0, 10), round(step_epsilon(1.0, 1e-6, 10), 3)
    (0.1, 0.118)
    """
    pure = epsilon / steps
    if not delta:
        return pure
    log = math.log(1.0 / delta)
    rho = (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
    return max(pure, math.sqrt(8.0 * rho / steps))


def frank_wolfe(
    X: Floats,
    y: Floats,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    *,
    radius: float = 1.0,
    steps: int | None = None,
) -> Floats:
    """Return coefficients of the columns of X.

    The paper's number of steps, about (n epsilon)^(2/3), is for a delta; by default it is half the
    cube root of n epsilon, at least 4 and at most 50.

    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.uniform(-1, 1, (100_000, 3)), np.ones(100_000)])
    >>> fit = frank_wolfe(X, 0.8 * X[:, 1], 10.0, 0.0, rng)
    >>> bool(abs(fit[1] - 0.8) < 0.2)
    True
    """
    n, d = X.shape
    steps = steps or int(min(50, max(4, (n * epsilon) ** (1 / 3) / 2)))
    scale = step_epsilon(epsilon, delta, steps) / (2.0 * 4.0 * (1.0 + radius) * radius / n)
    beta = np.zeros(d)
    for k in range(steps):
        gradient = 2.0 * X.T @ (X @ beta - y) / n
        scores = radius * np.concatenate([gradient, -gradient])  # of the vertices +e_j, -e_j
        best = int(np.argmin(scale * scores - rng.gumbel(size=2 * d)))
        vertex = np.zeros(d)
        vertex[best % d] = radius if best < d else -radius
        beta = beta + 2.0 / (k + 2.0) * (vertex - beta)
    return beta
