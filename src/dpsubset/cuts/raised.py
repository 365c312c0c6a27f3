"""Bounds on supports that have one column more than a fit, without a fit of their own (T10, T16).

Where a loss is straight but for its kinks, a fit's dual point changes by one column more in the few
rows near a kink. A few Newton steps on these rows alone lead to a dual point of the support, which
is valid whatever they find, and often proves enough.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.clock import late
from dpsubset.compiled import compiled
from dpsubset.designs.cores import in_parallel, shares
from dpsubset.losses import Fit
from dpsubset.losses.ball import step
from dpsubset.losses.fitting import envelope, penalty_conjugate
from dpsubset.problem import Problem

__all__ = ["Near", "Neighbours", "near_rows", "raised"]

_STEPS = 30
_WORTH = 0.6  # of what is missing, that more steps may leave, or they end
_TURN = 3  # steps from one dual point, before the next begins at the one that they lead to
_REACHES = (0.01, 0.02, 0.04, 0.08, 0.16)  # of the radius, that a column may move predictions
_SPARE = 1.5  # times the move that is expected
_SHARP = 16.0  # envelopes are this much narrower than the reach
_TIED = 30  # rows on a kink, from which they stay there rather than cross it
_MOST = 0.3  # share of the rows that may be near
_ALIKE = 3.0  # products for which the same rows serve
_ALONE = 1 << 16  # entries from which threads pay


class Near(NamedTuple):
    """The rows near a kink at a fit, and what all others add, which keep their slopes."""

    rows: NDArray[np.intp]
    y: Floats
    point: Floats
    curve: Floats  # how much the slope changes within reach, for every unit
    sigma: float
    beyond: float  # -sum of the others' conjugates


def near_rows(problem: Problem, predicted: Floats, point: Floats, largest: float) -> Near | None:
    """Return the rows that a column with a product of at most `largest` may move across a kink.

    None if they are so many that fits cost little more.
    """
    loss, y = problem.loss, problem.y
    rows, parameters, _ = loss.compiled()
    square = float(problem.gram.diagonal.mean()) / max(problem.n_rows, 1)
    for share in _REACHES:
        reach = share * problem.radius
        low = envelope(rows, parameters, y, predicted - reach, np.inf)[1]
        high = envelope(rows, parameters, y, predicted + reach, np.inf)[1]
        near = (low != point) | (high != point)
        curve = (high - low) / (2.0 * reach)
        bend = 0.5 * float(curve[near].sum()) * square + problem.ridge
        if _SPARE * largest * problem.x_bound <= 2.0 * bend * reach:
            break
    else:
        return None
    if near.mean() > _MOST:
        return None
    sigma = _SHARP / reach
    tied = (low < point) & (point < high)
    if tied.sum() > _TIED:
        curve[tied] = sigma
    others = loss.conjugate(y[~near], point[~near])
    some = np.flatnonzero(near)
    return Near(some, y[some], point[some], curve[some], sigma, -float(others.sum()))


@compiled()
def _bend(X, curve, first, G):  # type: ignore[no-untyped-def]
    """Fill X diag(curve) X' / 2 into G, from the row `first` on."""
    for i in range(first, X.shape[0]):
        for j in range(i + 1):
            G[i, j] = 0.0
        for r in range(curve.size):
            if curve[r] > 0.0:
                bent = 0.5 * curve[r] * X[i, r]
                for j in range(i + 1):
                    G[i, j] += bent * X[j, r]
        for j in range(i):
            G[j, i] = G[i, j]


@compiled()
def _climb(rows, parameters, near, X, G, apart, v, x, rule, enough):  # type: ignore[no-untyped-def]
    """Return the best bound that Newton's steps from x come to; v, x and G are overwritten.

    `apart` is what far rows add to the products v. Steps end where they lead to little.
    """
    ridge, radius = rule
    n = near.y.size
    value, slope, curve = np.empty(n), np.empty(n), np.empty(n)
    shift, new = near.point.copy(), np.empty(x.size)
    best, missing = -np.inf, np.inf
    for made in range(_STEPS):
        if made > 0:
            _bend(X, curve, 0, G)
        step(G, v, ridge, radius, x, 0.0, new)
        x[:] = new
        w = np.dot(x, X) + shift / near.sigma
        rows(near.y, w, near.sigma, parameters, value, slope, curve)
        v[:] = np.dot(X, slope) + apart
        bound = near.beyond - penalty_conjugate(v, ridge, radius)
        for r in range(n):
            bound += value[r] - slope[r] * (w[r] - 0.5 * slope[r] / near.sigma)
        best = max(best, bound)
        if best >= enough:
            break
        if made % _TURN == _TURN - 1:
            if made > _TURN and enough - best > _WORTH * missing:
                break
            missing = enough - best
            shift[:] = slope
    return best


@compiled(nogil=True)
def raised(rows, parameters, near, table, store, places, linear, beta, rule, enough, watch):  # type: ignore[no-untyped-def]
    """Return a lower bound on the score with each of some columns, rows of `store`.

    `table` has the columns of the fit, with coefficients `beta`, in the near rows; `linear` the
    products X'a of these columns, and of those in `places`, with the whole dual point; `rule` is
    (ridge, radius).
    """
    k, n = table.shape
    X, G = np.zeros((k + 1, n)), np.zeros((k + 1, k + 1))
    X[:k] = table
    apart = np.empty(k + 1)
    apart[:k] = linear[:k] - np.dot(table, near.point)
    x, v = np.zeros(k + 1), np.zeros(k + 1)
    out = np.full(places.size, -np.inf)
    _bend(X, near.curve, 0, G)
    first = G[:k, :k].copy()
    for c in range(places.size):
        column = store[places[c]]
        matched = 0.0
        for r in range(n):
            X[k, r] = column[near.rows[r]]
            matched += X[k, r] * near.point[r]
        v[:k], v[k] = linear[:k], linear[k + c]
        apart[k] = v[k] - matched
        x[:k], x[k] = beta, 0.0
        G[:k, :k] = first
        _bend(X, near.curve, k, G)
        out[c] = _climb(rows, parameters, near, X, G, apart, v, x, rule, enough)
        if late(watch, 4e-3 * n * (k + 1) * (k + 4)):
            break
    return out


class Neighbours:
    """Bounds on supports that have one column more than a fit; its near rows are kept."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._fit: Fit | None = None
        self._largest = 0.0
        self._near: Near | None = None

    def bounds(
        self, fit: Fit, products: Floats, inside: NDArray[np.intp], columns: NDArray[np.intp],
        worst: float,
    ) -> Floats | None:  # fmt: skip
        """Return bounds on the scores with each of some columns; None if fits cost little more.

        `fit` is that on the columns inside, `products` X'a at its dual point.
        """
        problem = self._problem
        near = self._around(fit, inside, float(np.abs(products[columns]).max(initial=0.0)))
        if near is None or columns.size + inside.size > problem.columns.room:
            return None
        rows, parameters, _ = problem.loss.compiled()
        places = problem.columns.places(np.concatenate([inside, columns]))
        store, k = problem.columns.store, inside.size
        table = np.ascontiguousarray(store[places[:k]][:, near.rows])
        own = products[inside]
        out = np.empty(columns.size)

        def work(ends: tuple[int, int]) -> None:
            some = slice(*ends)
            out[some] = raised(
                rows,
                parameters,
                near,
                table,
                store,
                places[k:][some],
                np.concatenate([own, products[columns[some]]]),
                fit.coefficients,
                (problem.ridge, problem.radius),
                worst,
                problem.allowance.watch,
            )

        many = columns.size * near.rows.size > _ALONE
        in_parallel(work, shares(0, columns.size) if many else [(0, columns.size)])
        problem.allowance.check_watch()
        return out

    def _around(self, fit: Fit, inside: NDArray[np.intp], largest: float) -> Near | None:
        """Return the near rows of a fit, those known already if they were chosen for as much."""
        if fit is not self._fit or not largest <= self._largest <= _ALIKE * largest:
            predicted = fit.coefficients @ self._problem.columns.rows(inside)
            self._near = near_rows(self._problem, predicted, fit.point, largest)
            self._fit, self._largest = fit, largest
        return self._near
