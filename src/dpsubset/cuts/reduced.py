"""Squared loss with some columns in: what is left to gain from the others (T11, Schur form)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.designs.gram import ALL, GramRows
from dpsubset.losses.ball import solve
from dpsubset.problem import Problem

__all__ = ["Elimination", "Reduced", "eliminate", "extension_scores", "multiplier", "reduce"]


@dataclass(frozen=True, eq=False)
class Reduced:
    """The problem after the columns `inside` are eliminated, at penalty ridge + mu.

    All is about columns, whatever features they belong to. For a set A of other columns,
    R(inside + A) >= base - gain(A), where gain(A) depends on the reduced correlations and the
    Schur complement of the penalised Gram matrix. It may be of a slice of the columns alone, which
    begins with column `first`.
    """

    inside: NDArray[np.intp]
    mu: float
    penalty: float
    base: float
    block: Floats  # X_I'X_I
    rows: Floats  # X_I'X
    eliminated: Floats  # (X_I'X_I + penalty)^-1 X_I'X
    coefficients: Floats
    correlations: Floats  # of each column with the residual
    pivots: Floats  # diagonal of the Schur complement
    first: int = 0

    def single_gains(self) -> Floats:
        """Return the exact gain of each further column at this mu."""
        return np.asarray(self.correlations**2 / self.pivots)


@dataclass(frozen=True, eq=False)
class Elimination:
    """Columns that are eliminated, at penalty ridge + mu: what is left is asked for by columns."""

    problem: Problem
    inside: NDArray[np.intp]
    mu: float
    penalty: float
    base: float
    block: Floats
    inverse: Floats
    coefficients: Floats
    held: GramRows

    def over(self, columns: slice = ALL) -> Reduced:
        """Return what is left of all columns, or of a slice of them."""
        problem, index, first = self.problem, self.inside, columns.start or 0
        b = problem.correlations[columns]
        pivots = problem.gram.diagonal[columns] + self.penalty
        rows = eliminated = np.empty((0, b.size))
        left = b
        if index.size:
            rows = self.held.at(columns)
            eliminated = self.inverse @ rows  # a product beats wide solves
            left = b - self.coefficients @ rows
            pivots -= np.einsum("ij,ij->j", rows, eliminated)
            np.maximum(pivots, self.penalty, out=pivots)  # no rounding takes it below that
            here = index[(first <= index) & (index < first + b.size)]
            pivots[here - first] = 1.0  # of no meaning; kept away from zero
        return Reduced(
            index,
            self.mu,
            self.penalty,
            self.base,
            self.block,
            rows,
            eliminated,
            self.coefficients,
            left,
            pivots,
            first,
        )


def eliminate(problem: Problem, inside: tuple[int, ...], mu: float) -> Elimination:
    """Eliminate the features `inside`; mu >= 0 is the multiplier of the ball."""
    index = problem.features.columns(inside)
    penalty = problem.ridge + mu
    base = problem.energy - mu * problem.radius**2
    held = problem.gram.rows(index)
    block = held.at(index)
    matrix = block.copy()
    matrix[np.diag_indices(index.size)] += penalty
    inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    coefficients = inverse @ problem.correlations[index]
    base -= float(coefficients @ problem.correlations[index])
    return Elimination(problem, index, mu, penalty, base, block, inverse, coefficients, held)


def reduce(problem: Problem, inside: tuple[int, ...], mu: float) -> Reduced:
    """Eliminate the features `inside`; return what is left of all columns."""
    return eliminate(problem, inside, mu).over()


def multiplier(problem: Problem, support: tuple[int, ...]) -> float:
    """Return the multiplier of the ball at the best fit on a support; 0 if the ball is inactive."""
    index = problem.features.columns(support)
    block = np.ascontiguousarray(problem.gram.block(index))
    b = problem.correlations[index]
    return float(solve(block, b, problem.ridge, problem.radius, np.empty(index.size))[2])


@compiled(nogil=True)
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
    """Return R(inside + j) for every given column j of the reduced ones, exactly.

    The closed form serves wherever the ball is inactive and the pivot sound; a fit of its own
    is made for the other columns.
    """
    index, local = reduced.inside, columns - reduced.first
    pivots = reduced.pivots[local]
    last = reduced.correlations[local] / pivots
    scores = reduced.base - last * reduced.correlations[local]
    sides = reduced.eliminated[:, local]
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
        block = np.ascontiguousarray(reduced.block)
        rows = np.ascontiguousarray(reduced.rows[:, local[redo]])
        diagonal = problem.gram.diagonal[chosen]
        _extend(block, rows, diagonal, b[index], b[chosen], problem.ridge, problem.radius, gains)
        scores[redo] = problem.energy - gains
    return np.asarray(scores)
