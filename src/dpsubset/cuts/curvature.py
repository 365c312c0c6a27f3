"""A proven lower bound on the eigenvalues of X'X (T11)."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lapack

from dpsubset.arrays import Floats
from dpsubset.problem import Problem

__all__ = ["curvature", "elimination_error", "smallest_eigenvalue", "steady"]


def curvature(problem: Problem) -> float:
    """Return d >= 0 with X'X - d I positive semidefinite, 0 where none can be had."""
    gram = problem.gram
    if problem.n_rows <= problem.features.n_columns or not gram.affordable:
        return 0.0
    if gram.smallest is None:
        gram.smallest = smallest_eigenvalue(gram.full(problem.between))
    return gram.smallest


def steady(problem: Problem, smallest: float | None = None) -> float:
    """Return the smallest multiplier that keeps eliminations well conditioned (T19).

    `smallest` bounds the eigenvalues that help; by default what is known of X'X.
    """
    gram = problem.gram
    scale = max(float(np.max(gram.diagonal, initial=0.0)), 1e-3 * problem.x_bound**2)
    floor = 1e-6 * scale
    smallest = (gram.smallest or 0.0) if smallest is None else smallest
    return 0.0 if problem.ridge + smallest >= floor else floor


def elimination_error(problem: Problem, smallest: float) -> float:
    """Bound the rounding of a bound found by elimination, at eigenvalues of at least `smallest`.

    Half the slack covers what is common to all bounds, the rest grows with the condition (T19).
    """
    scale = float(problem.gram.diagonal.max(initial=0.0)) + smallest
    growth = 1e-15 * problem.most_columns**2 * scale / smallest
    return problem.slack / 2 + growth * problem.magnitude


def smallest_eigenvalue(matrix: Floats, scale: float | None = None) -> float:
    """Return a bound just below the smallest eigenvalue, or 0.

    Inverse iteration guesses; a Cholesky factorisation of the shifted matrix proves. Its rounding,
    and that of a matrix that came from numbers of size `scale`, is given back.
    """
    p = matrix.shape[0]
    scale = float(np.max(np.diag(matrix), initial=0.0)) if scale is None else scale
    if p == 0 or not scale > 1e-100:
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
        if not np.isfinite(step).all():
            return 0.0
        vector = step
    lost = 4e-16 * p * p * scale
    for share in (0.95, 0.85, 0.7, 0.4):
        shifted = matrix.copy(order="F")
        shifted[np.diag_indices(p)] -= share * guess
        _, info = lapack.dpotrf(shifted, lower=1, overwrite_a=1)
        if info == 0:
            return float(max(share * guess - lost, 0.0))
    return 0.0
