"""Squared loss with some columns in: what is left to gain from the others (T11, Schur form)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.losses.ball import solve
from dpsubset.problem import Problem

__all__ = ["Reduced", "extension_scores", "multiplier", "reduce"]


@dataclass(frozen=True, eq=False)
class Reduced:
    """The problem after the columns `inside` are eliminated, at penalty ridge + mu.

    All is about columns, whatever features they belong to. For a set A of other columns,
    R(inside + A) >= base - gain(A), where gain(A) depends on the reduced correlations and the
    Schur complement of the penalised Gram matrix.
    """

    inside: NDArray[np.intp]
    mu: float
    penalty: float
    base: float
    rows: Floats  # X_I'X
    eliminated: Floats  # (X_I'X_I + penalty)^-1 X_I'X
    coefficients: Floats
    correlations: Floats  # of each column with the residual
    pivots: Floats  # diagonal of the Schur complement

    def single_gains(self) -> Floats:
        """Return the exact gain of each further column at this mu."""
        return np.asarray(self.correlations**2 / self.pivots)


def reduce(problem: Problem, inside: tuple[int, ...], mu: float) -> Reduced:
    """Eliminate the features `inside`; mu >= 0 is the multiplier of the ball."""
    index = problem.features.columns(inside)
    gram = problem.gram
    penalty = problem.ridge + mu
    base = problem.energy - mu * problem.radius**2
    b = problem.correlations
    diagonal = gram.diagonal + penalty
    if index.size == 0:
        none = np.empty((0, b.size))
        return Reduced(index, mu, penalty, base, none, none, np.empty(0), b, diagonal)
    rows = gram.columns(index)
    matrix = rows[:, index].copy()
    matrix[np.diag_indices(index.size)] += penalty
    inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)  # a product beats wide solves
    eliminated = inverse @ rows
    coefficients = inverse @ b[index]
    left = b - coefficients @ rows
    pivots = diagonal - np.einsum("ij,ij->j", rows, eliminated)
    np.maximum(pivots, penalty, out=pivots)  # rounding cannot take it below its true minimum
    pivots[index] = 1.0  # of no meaning; kept away from zero
    base -= float(coefficients @ b[index])
    return Reduced(index, mu, penalty, base, rows, eliminated, coefficients, left, pivots)


def multiplier(problem: Problem, support: tuple[int, ...]) -> float:
    """Return the multiplier of the ball at the best fit on a support; 0 if the ball is inactive."""
    index = problem.features.columns(support)
    block = np.ascontiguousarray(problem.gram.block(index))
    b = problem.correlations[index]
    return float(solve(block, b, problem.ridge, problem.radius, np.empty(index.size))[2])


@compiled()
def _extend(block, rows, diagonal, b_in, b_new, ridge, radius, gains):  # type: ignore[no-untyped-def]
    k = b_in.size
    G = np.empty((k + 1, k + 1))
    b = np.empty(k + 1)
    beta = np.empty(k + 1)
    G[:k, :k] = block
    b[:k] = b_in
    for j in range(b_new.size):
        G[k, :k] = rows[:, j]
        G[:k, k] = rows[:, j]
        G[k, k] = diagonal[j]
        b[k] = b_new[j]
        gains[j] = solve(G, b, ridge, radius, beta)[0]


def extension_scores(problem: Problem, reduced: Reduced, columns: NDArray[np.intp]) -> Floats:
    """Return R(inside + j) for every given column j, exactly.

    The closed form serves wherever the ball is inactive and the pivot sound; a fit of its own
    is made for the other columns.
    """
    index = reduced.inside
    pivots = reduced.pivots[columns]
    last = reduced.correlations[columns] / pivots
    scores = reduced.base - last * reduced.correlations[columns]
    sides = reduced.eliminated[:, columns]
    norms = (
        reduced.coefficients @ reduced.coefficients
        - 2 * last * (reduced.coefficients @ sides)
        + last**2 * (1 + np.einsum("ij,ij->j", sides, sides))
    )
    # A pivot is sound if little of the column was cancelled; the block inside must be sound too.
    sound = pivots > 1e-3 * (problem.gram.diagonal[columns] + reduced.penalty)
    exact = sound & (norms <= problem.radius**2) if reduced.mu == 0 else np.zeros_like(sound)
    if index.size and reduced.penalty < 1e-3 * problem.gram.diagonal.max():
        exact[:] = False
    redo = np.flatnonzero(~exact)
    if redo.size:
        gains = np.empty(redo.size)
        chosen = columns[redo]
        b = problem.correlations
        block = np.ascontiguousarray(reduced.rows[:, index])
        rows = np.ascontiguousarray(reduced.rows[:, chosen])
        diagonal = problem.gram.diagonal[chosen]
        _extend(block, rows, diagonal, b[index], b[chosen], problem.ridge, problem.radius, gains)
        scores[redo] = problem.energy - gains
    return np.asarray(scores)
