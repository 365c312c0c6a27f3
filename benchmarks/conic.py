"""The same fits by Clarabel, a general conic solver: what a user would write without dpsubset."""

from __future__ import annotations

from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp

from dpsubset.arrays import Floats
from dpsubset.errors import InputError
from dpsubset.losses import Loss

__all__ = ["conic_fit", "solved"]


def conic_fit(loss: Loss, columns: Floats, y: Floats, ridge: float, radius: float) -> float:
    """Return the smallest penalised loss over the ball, by Clarabel at its default precision."""
    k = columns.shape[1]
    build = _BUILD.get(loss.name, _pinball)
    weights, quadratic, constant, blocks, right, cones = build(loss, columns, y)
    extra = weights.size
    # min ridge |beta|^2 + weights'u + u' diag(quadratic) u / 2, a ball for beta and the cones.
    P = sp.diags(np.concatenate([np.full(k, 2.0 * ridge), quadratic]), format="csc")
    q = np.concatenate([np.zeros(k), weights])
    ball = sp.hstack([-sp.eye(k), sp.csc_matrix((k, extra))])
    A = sp.vstack([blocks, sp.csc_matrix((1, k + extra)), ball], format="csc")
    b = np.concatenate([right, [radius], np.zeros(k)])
    return solved(P, q, A, b, [*cones, clarabel.SecondOrderConeT(k + 1)]) + constant


def solved(P: Any, q: Floats, A: Any, b: Floats, cones: list[Any]) -> float:
    """Return the least x'P x / 2 + q'x with b - A x in the cones."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solution = clarabel.DefaultSolver(P, q, A, b, cones, settings).solve()
    if "Solved" not in str(solution.status):
        raise InputError(f"Clarabel ended with {solution.status}")
    return float(solution.obj_val)


Parts = tuple[Floats, Floats, float, Any, Floats, list[Any]]


def _squared(loss: Loss, columns: Floats, y: Floats) -> Parts:
    """u = y - t, squared."""
    n = y.size
    blocks = sp.hstack([sp.csc_matrix(columns), sp.eye(n)])
    return np.zeros(n), np.full(n, 2.0), 0.0, blocks, y, [clarabel.ZeroConeT(n)]


def _pinball(loss: Loss, columns: Floats, y: Floats) -> Parts:
    """u >= up (y - t), u >= down (t - y)."""
    up, down = loss.parameters
    n = y.size
    blocks = sp.vstack(
        [
            sp.hstack([sp.csc_matrix(-up * columns), -sp.eye(n)]),
            sp.hstack([sp.csc_matrix(down * columns), -sp.eye(n)]),
        ]
    )
    right = np.concatenate([-up * y, down * y])
    return np.ones(n), np.zeros(n), 0.0, blocks, right, [clarabel.NonnegativeConeT(2 * n)]


def _hinge(loss: Loss, columns: Floats, y: Floats) -> Parts:
    """u >= 1 - y t, u >= 0."""
    n, k = columns.shape
    blocks = sp.vstack(
        [
            sp.hstack([sp.csc_matrix(-y[:, None] * columns), -sp.eye(n)]),
            sp.hstack([sp.csc_matrix((n, k)), -sp.eye(n)]),
        ]
    )
    right = np.concatenate([-np.ones(n), np.zeros(n)])
    return np.ones(n), np.zeros(n), 0.0, blocks, right, [clarabel.NonnegativeConeT(2 * n)]


def _huber(loss: Loss, columns: Floats, y: Floats) -> Parts:
    """d = y - t = v + w, v^2 + 2 c |w|, and |w| <= z."""
    n, k = columns.shape
    (c,) = loss.parameters
    none, one = sp.csc_matrix((n, n)), sp.eye(n)
    blocks = sp.vstack(
        [
            sp.hstack([sp.csc_matrix(columns), one, one, none]),  # t + v + w = y
            sp.hstack([sp.csc_matrix((n, k)), none, one, -one]),
            sp.hstack([sp.csc_matrix((n, k)), none, -one, -one]),
        ]
    )
    weights = np.concatenate([np.zeros(2 * n), np.full(n, 2.0 * c)])
    quadratic = np.concatenate([np.full(n, 2.0), np.zeros(2 * n)])
    right = np.concatenate([y, np.zeros(2 * n)])
    cones = [clarabel.ZeroConeT(n), clarabel.NonnegativeConeT(2 * n)]
    return weights, quadratic, 0.0, blocks, right, cones


def _logistic(loss: Loss, columns: Floats, y: Floats) -> Parts:
    """exp(-u) + exp(-y t - u) <= 1, by two exponential cones a row."""
    n, k = columns.shape
    none, one = sp.csc_matrix((n, n)), sp.eye(n)
    table = sp.csc_matrix(y[:, None] * columns)
    parts = [
        (sp.hstack([sp.csc_matrix((n, k)), one, none, none]), np.zeros(n)),  # -u
        (sp.csc_matrix((n, k + 3 * n)), np.ones(n)),
        (sp.hstack([sp.csc_matrix((n, k)), none, -one, none]), np.zeros(n)),  # a
        (sp.hstack([table, one, none, none]), np.zeros(n)),  # -y t - u
        (sp.csc_matrix((n, k + 3 * n)), np.ones(n)),
        (sp.hstack([sp.csc_matrix((n, k)), none, none, -one]), np.zeros(n)),  # b
    ]
    order = np.concatenate([np.arange(3) * n, 3 * n + np.arange(3) * n])
    rows = np.concatenate([np.concatenate([order[:3] + i, order[3:] + i]) for i in range(n)])
    stacked = sp.vstack([p[0] for p in parts], format="csr")[rows]
    right = np.concatenate([p[1] for p in parts])[rows]
    linear = sp.hstack([sp.csc_matrix((n, k)), none, one, one])  # a + b <= 1
    blocks = sp.vstack([linear, stacked])
    weights = np.concatenate([np.ones(n), np.zeros(2 * n)])
    right = np.concatenate([np.ones(n), right])
    cones = [clarabel.NonnegativeConeT(n), *[clarabel.ExponentialConeT()] * (2 * n)]
    return weights, np.zeros(3 * n), 0.0, blocks, right, cones


_BUILD = {"hinge": _hinge, "huber": _huber, "logistic": _logistic, "squared": _squared}
