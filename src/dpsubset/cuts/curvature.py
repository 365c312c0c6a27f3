"""A proven lower bound on the eigenvalues of X'X (T11)."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lapack

from dpsubset.arrays import Floats
from dpsubset.problem import Problem

__all__ = ["curvature", "smallest_eigenvalue"]


def curvature(problem: Problem) -> float:
    """Return d >= 0 with X'X - d I positive semidefinite, 0 where none can be had."""
    gram = problem.gram
    if problem.n_rows <= problem.n_columns or not gram.affordable:
        return 0.0
    if gram.smallest is None:
        gram.smallest = smallest_eigenvalue(gram.full())
    return gram.smallest


def smallest_eigenvalue(matrix: Floats) -> float:
    """Return a bound just below the smallest eigenvalue, or 0.

    Inverse iteration guesses; a Cholesky factorisation of the shifted matrix proves. Its rounding
    is covered by giving back a little more than its backward error.
    """
    p = matrix.shape[0]
    scale = float(np.max(np.diag(matrix), initial=0.0))
    if p == 0 or scale <= 0:
        return 0.0
    try:
        factor = cho_factor(matrix, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return 0.0
    vector = np.cos(np.arange(p) * 1.7 + 0.3)
    guess = 0.0
    for _ in range(8):
        vector /= np.linalg.norm(vector)
        step = cho_solve(factor, vector, check_finite=False)
        guess = 1.0 / max(float(vector @ step), 1e-300)
        vector = step
    lost = 4e-16 * p * p * scale
    for share in (0.95, 0.85, 0.7, 0.4):
        shifted = matrix.copy(order="F")
        shifted[np.diag_indices(p)] -= share * guess
        _, info = lapack.dpotrf(shifted, lower=1, overwrite_a=1)
        if info == 0:
            return float(max(share * guess - lost, 0.0))
    return 0.0
