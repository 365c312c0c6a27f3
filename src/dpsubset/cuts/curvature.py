"""Proven lower bounds on X'X: its eigenvalues, and a diagonal on small supports (T11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, lapack

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.problem import Problem
from dpsubset.sums import BLOCK, products

__all__ = [
    "SparseDiagonal",
    "curvature",
    "diagonal",
    "diagonal_of",
    "elimination_error",
    "smallest_eigenvalue",
    "sparse_affordable",
    "sparse_diagonal",
    "steady",
]

_TAUS = (1.0, 0.2, 0.04)  # weights of the barrier; the last is about what is lost of log d
_STEPS, _CLOSE = 30, 0.1  # of Newton for each, and what a step must promise, in units of tau
_FAR = 2.0  # times the smallest eigenvalue: what most columns must keep to themselves
_SHARES = (0.98, 0.9, 0.5)  # of the diagonal that is found, of which one is proven
_LEAST = 0.5  # of the penalty that every column keeps
_PRODUCTS = 5e11  # rows times pairs of columns, whose products take some ten seconds of a core
_HELD = 1 << 26  # entries of a table that are held as float32 meanwhile: half of its own memory
_ROUNDED = 1e-8  # of the largest eigenvalue: directions below are rounding
_SAMPLE, _LOOK = 256, 64  # columns whose main directions are found, and tried
_SHARED = (0, 1, 2, 4, 8)  # numbers of directions that are tried
_AT_ONCE = 2048  # columns whose inner products with as many others are looked at together


def curvature(problem: Problem) -> float:
    """Return d >= 0 with X'X - d I positive semidefinite, 0 where none can be had."""
    gram = problem.gram
    if problem.n_rows <= problem.features.n_columns or not gram.affordable:
        return 0.0
    if gram.smallest is None:
        gram.smallest = smallest_eigenvalue(gram.full(problem.between))
    return gram.smallest


def diagonal(problem: Problem, penalty: float) -> Floats | None:
    """Return d with X'X - diag(d) positive semidefinite and d + penalty > 0, a number a column.

    Columns that depend on others have nearly none, and all others keep theirs, where the smallest
    eigenvalue is 0 (T48). None where that says about as much.
    """
    p = problem.features.n_columns
    if problem.n_rows <= p or not problem.gram.affordable or not penalty > 0.0:
        return None
    matrix = problem.gram.full(problem.between).copy(order="F")
    matrix[np.diag_indices(p)] += penalty
    found = diagonal_of(matrix, penalty + curvature(problem), check=problem.allowance.check)
    return None if found is None or not (found > _LEAST * penalty).all() else found - penalty


def diagonal_of(
    matrix: Floats,
    smallest: float,
    scale: float = 0.0,
    check: Callable[[], None] = lambda: None,
) -> Floats | None:
    """Return d > 0 with a matrix less diag(d) positive semidefinite.

    A Cholesky factorisation proves it (T11e); its rounding, and that of a matrix that came from
    numbers of size `scale`, is given back. None where most columns keep little more to themselves
    than the `smallest` eigenvalue, or where numbers do not allow it.
    """
    p = matrix.shape[0]
    factor = _factor(matrix.copy(order="F"))
    if factor is None:
        return None
    alone = 1.0 / _inverse(factor).diagonal()  # what all others leave of each: no d is above it
    found = _largest_diagonal(matrix, alone, check) if np.median(alone) > _FAR * smallest else None
    if found is None:
        return None
    lost = 4e-16 * p * p * max(float(matrix.diagonal().max()), scale)
    for share in _SHARES:
        shifted = matrix.copy(order="F")
        shifted[np.diag_indices(p)] -= share * found
        if _factor(shifted) is not None:
            below = share * found - lost
            return below if (below > 0.0).all() else None
    return None


def _largest_diagonal(matrix: Floats, alone: Floats, check: Callable[[], None]) -> Floats | None:
    """Return d > 0 with matrix - diag(d) positive definite, and the product of d about largest.

    Newton's steps on sum log d + tau log det(matrix - diag(d)), for ever smaller tau. None where
    numbers do not allow it.
    """
    p = matrix.shape[0]
    places = np.diag_indices(p)

    def value(d: Floats, tau: float) -> tuple[float, Floats | None]:
        shifted = matrix.copy(order="F")
        shifted[places] -= d
        factor = _factor(shifted)
        if factor is None:
            return -np.inf, None
        return float(np.log(d).sum() + 2 * tau * np.log(factor.diagonal()).sum()), factor

    d: Floats = alone / (2 * p)
    for tau in _TAUS:
        high, factor = value(d, tau)
        for _ in range(_STEPS):
            if factor is None:
                return None
            check()
            inverse = _inverse(factor)
            slope = 1.0 / d - tau * inverse.diagonal()
            curve = tau * inverse**2
            curve[places] += 1.0 / d**2
            root = _factor(np.asfortranarray(curve))
            if root is None:
                return None
            step = cho_solve((root, True), slope, check_finite=False)
            gain = float(slope @ step)
            share = min(1.0, 0.9 / max(float((-step / d).max()), 0.9))
            while share > 1e-6:
                after, factor = value(d + share * step, tau)
                if after >= high + 0.1 * share * gain:
                    break
                share /= 2
            else:
                return d
            d, high = d + share * step, after
            if gain < _CLOSE * p * tau:
                break
    return d


def _factor(matrix: Floats) -> Floats | None:
    """Return the lower Cholesky factor, in the matrix's place; None where there is none."""
    factor, info = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
    return cast(Floats, factor) if info == 0 else None


def _inverse(factor: Floats) -> Floats:
    """Return the inverse of the matrix with this factor."""
    lower, _ = lapack.dpotri(factor, lower=1)
    lower = np.tril(lower)
    return cast(Floats, lower + np.tril(lower, -1).T)


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
        if _factor(shifted) is not None:
            return float(max(share * guess - lost, 0.0))
    return 0.0


def sparse_affordable(problem: Problem) -> bool:
    """Whether `sparse_diagonal` takes seconds, and may help where no eigenvalue does."""
    n, p = problem.n_rows, problem.n_columns
    known = problem.gram.affordable and n > p
    return (
        problem.features.identity
        and problem.to_choose >= 2
        and not known
        and float(n) * p * p <= _PRODUCTS
    )


class SparseDiagonal(NamedTuple):
    """d > 0 and F with X'X - FF' - diag(d) positive semidefinite on every support."""

    each: Floats  # d, 0 for columns that are not free
    shared: Floats  # F, a column a direction; there may be none


def sparse_diagonal(problem: Problem) -> SparseDiagonal | None:
    """Return d and F with X'X - FF' - diag(d) positive semidefinite on every support, or None.

    d is Gershgorin's diagonal of the free columns, the included ones eliminated (T11c): a column's
    squared norm less its largest inner products with as many others as a support has. F are a few
    directions that many columns share, which are taken out of all before. It says much where
    columns are hardly correlated then, be they more than the rows; where one of them is not
    positive, None.
    """
    design, free, include = problem.design, problem.free, np.array(problem.include, dtype=np.intp)
    held = design.take(include)
    across = design.correlate(held)  # (p, |include|)
    # Cuts have at least this penalty, and more of it adds to the diagonal (T11b).
    inner = across[include] + (problem.ridge + steady(problem)) * np.eye(include.size)
    scale = float(problem.gram.diagonal.max(initial=0.0)) + problem.ridge
    weights = np.linalg.solve(inner, across.T)  # (|include|, p)
    shared = _shared(problem, held, across, weights)
    across, weights = np.hstack([across, shared]), np.vstack([weights, shared.T])
    diagonal = problem.gram.diagonal[free]
    own = diagonal - np.einsum("ij,ji->i", across[free], weights[:, free])
    # Inner products are made of float32 numbers, of columns of length 1, so that nothing is too
    # small or too large for those: half the time, and their rounding is taken off.
    norms = np.where(diagonal > 0.0, np.sqrt(diagonal), 1.0)
    single = (min(problem.n_rows, BLOCK) + 4) * 2.0**-24
    lost = 1e-10 * scale * (problem.to_choose + len(weights))
    lost = lost + 1.01 * (problem.to_choose - 1) * single * norms * norms.max(initial=0.0)
    largest = np.zeros((free.size, problem.to_choose - 1))
    kept: dict[int, NDArray[np.float32]] = {}

    def taken(first: int) -> NDArray[np.float32]:
        if first not in kept:
            some = slice(first, first + _AT_ONCE)
            kept[first] = (design.take(free[some]) / norms[some]).astype(np.float32)
        return kept[first] if problem.n_rows * free.size <= _HELD else kept.pop(first)

    for first in range(0, free.size, _AT_ONCE):
        some = free[first : first + _AT_ONCE]
        mine = taken(first)
        for then in range(first, free.size, _AT_ONCE):
            problem.allowance.check()
            others = free[then : then + _AT_ONCE]
            theirs = mine if then == first else taken(then)
            block = products(mine, theirs)
            block *= norms[first : first + some.size, None] * norms[then : then + others.size]
            block -= across[some] @ weights[:, others]
            if then == first:
                block[np.diag_indices(some.size)] = 0.0
            else:
                _keep_largest(np.ascontiguousarray(block.T), largest[then : then + others.size])
            _keep_largest(block, largest[first : first + some.size])
        found = own - largest.sum(axis=1) - lost
        if not (found[first : first + some.size] > 0.0).all():  # complete when their turn is over
            return None
    out = np.zeros(problem.n_columns)
    out[free] = own - largest.sum(axis=1) - lost
    return SparseDiagonal(out, shared)


def _shared(problem: Problem, held: Floats, across: Floats, weights: Floats) -> Floats:
    """Return all columns' products with the directions that they share most, (p, directions).

    The main directions of some columns are tried, with some rows of X'X: as many are returned as
    make the diagonal largest there. Any would be valid.
    """
    design, free = problem.design, problem.free
    some = free[np.unique(np.linspace(0, free.size - 1, _SAMPLE).astype(np.intp))]
    columns = design.take(some) - held @ weights[:, some]
    lengths = np.sqrt(np.einsum("ij,ij->j", columns, columns))
    columns /= np.where(lengths > 0.0, lengths, 1.0)
    values, vectors = np.linalg.eigh(products(columns, columns))
    good = values > _ROUNDED * max(float(values[-1]), 0.0)
    main = np.flatnonzero(good)[::-1][: _SHARED[-1]]
    found = design.correlate(columns @ (vectors[:, main] / np.sqrt(values[main])))  # (p, main)
    look = some[:: max(some.size // _LOOK, 1)]
    rows = design.correlate(design.take(look))[free].T - across[look] @ weights[:, free]
    itself = np.searchsorted(free, look)
    best, count = -np.inf, 0
    for k in sorted({min(k, main.size) for k in _SHARED}):
        left = rows - found[look, :k] @ found[free, :k].T
        own = left[np.arange(look.size), itself].copy()
        left[np.arange(look.size), itself] = 0.0
        largest = np.partition(np.abs(left), -(problem.to_choose - 1), axis=1)
        kept = own - largest[:, -(problem.to_choose - 1) :].sum(axis=1)
        gain = float(np.maximum(kept, 0.0).sum())
        if gain > best:
            best, count = gain, k
    return np.ascontiguousarray(found[:, :count])


@compiled()
def _keep_largest(block, largest):  # type: ignore[no-untyped-def]
    """Take the entries of every row, in size, among the largest so far, which are in order."""
    rows, columns = block.shape
    count = largest.shape[1]
    for i in range(rows):
        for k in range(columns):
            size = abs(block[i, k])
            if size <= largest[i, count - 1]:
                continue
            at = count - 1
            while at > 0 and largest[i, at - 1] < size:
                largest[i, at] = largest[i, at - 1]
                at -= 1
            largest[i, at] = size
