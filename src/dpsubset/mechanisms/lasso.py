"""One lasso, solved exactly, and how far each of its margins is from giving way (T26)."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.problem import Problem

__all__ = ["LassoPoint", "Units", "lasso_point", "margin", "silence", "units_of"]

_ROOM = 0.05  # of a margin: what the solver needs to find the support for certain (T26)
_SWEEPS = 10_000


_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def silence() -> Iterator[None]:
    """Keep to itself what a library says about the data it works on.

    Filters of warnings belong to the whole process: one thread at a time may change them.
    """
    with _ONE_AT_A_TIME, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@dataclass(frozen=True)
class LassoPoint:
    """The exact lasso on a guessed support: it is the lasso of all columns if no slack is below 0.

    `sizes` are the coefficients times their guessed signs, `slack` the penalty less the largest
    |x_j'r| outside the support, `curvature` the least eigenvalue of the support's Gram matrix.
    """

    support: NDArray[np.intp]
    sizes: Floats
    slack: float
    curvature: float


def lasso_point(X: Floats, y: Floats, penalty: float, least: float, gap: float) -> LassoPoint:
    """Minimise |y - X b|^2 / 2 + penalty |b|_1 to a duality gap; solve exactly where |b_j| > least.

    The linear system G_S b = X_S'y - penalty sign(b) makes the solution exact, if S and the signs
    are right; the conditions of optimality then show in the fields of the answer (T26).
    """
    from sklearn.linear_model import Lasso

    n, p = X.shape
    energy = float(y @ y)
    if not energy:
        return LassoPoint(np.empty(0, dtype=np.intp), np.empty(0), penalty, 0.0)
    solver = Lasso(
        alpha=penalty / n,
        fit_intercept=False,
        random_state=0,  # unused, but without it the global generator is touched
        precompute=n > p and p <= 2048,
        tol=max(gap / energy, 1e-14),
        max_iter=_SWEEPS,
    )
    guess = solver.fit(np.asfortranarray(X), y).coef_
    support = np.flatnonzero(np.abs(guess) > least)
    signs = np.sign(guess[support])
    columns = X[:, support]
    gram = columns.T @ columns
    curvature = float(np.linalg.eigvalsh(gram)[0]) if support.size else 0.0
    if curvature <= 0.0:
        return LassoPoint(support, np.zeros(support.size), 0.0, 0.0)
    beta = np.linalg.solve(gram, columns.T @ y - penalty * signs)
    products = np.abs(X.T @ (y - columns @ beta))
    products[support] = 0.0
    return LassoPoint(support, signs * beta, penalty - float(products.max()), curvature)


@dataclass(frozen=True)
class Units:
    """Public constants: how far one row can move each margin of the lasso, and where they end.

    `size` (eta), `norm`, `slack` (Delta_2) and `curvature` are the units of the four margins;
    `bound` is K, `floor` the least curvature mu_0, `gap` what the solver must reach (T26).
    """

    penalty: float
    bound: float
    floor: float
    size: float
    norm: float
    slack: float
    curvature: float
    gap: float


def units_of(
    problem: Problem, share: float, bound: float, wanted: float, penalty: float | None
) -> Units:
    """Return the constants from public numbers; `wanted` is the margin that the test needs."""
    n, s, b_x = max(problem.n_rows, 1), problem.size, problem.x_bound
    free = problem.features.columns(problem.free).size
    floor = share * n * b_x**2
    residual = problem.y_bound + b_x * bound
    v = 2.0 * math.sqrt(s) * b_x * residual  # how far one row moves the gradient
    slack = 2.0 * b_x * residual + math.sqrt(n / floor) * b_x * v
    if penalty is None:  # room for what the test wants, and for chance correlations
        chance = b_x * problem.y_bound * math.sqrt(2.0 * n * math.log(max(free, 2)))
        penalty = 1.2 * wanted * slack + chance
    size = v / floor
    gap = (_ROOM * v) ** 2 / (32.0 * floor)
    norm = math.sqrt(problem.most_columns) * size
    return Units(penalty, bound, floor, size, norm, slack, s * b_x**2, gap)


def margin(
    X: Floats, y: Floats, size: int, units: Units, owner: NDArray[np.intp]
) -> tuple[float, NDArray[np.intp] | None]:
    """Return the smallest of four margins, each in its unit, less the solver's room.

    `owner` says which feature each column belongs to; so many are chosen as `size` says, or none.
    """
    try:
        with silence():
            point = lasso_point(X, y, units.penalty, _ROOM * units.size / 2, units.gap)
    except (ValueError, ArithmeticError):  # what went wrong depends on the data: it stays here
        return 0.0, None
    chosen = np.unique(owner[point.support])
    if chosen.size != size:
        return 0.0, None
    margins = [
        float(point.sizes.min()) / units.size,
        (units.bound - float(point.sizes.sum())) / units.norm,
        point.slack / units.slack,
        (point.curvature - units.floor) / units.curvature,
    ]
    return max(0.0, float(np.min(margins)) - _ROOM), chosen
