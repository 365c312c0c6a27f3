"""Many fits on columns out of one store, on all cores; no fit depends on the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.clock import stopped
from dpsubset.compiled import compiled
from dpsubset.designs.cores import in_parallel, shares
from dpsubset.losses.fitting import fit_rows

__all__ = ["fit_many"]


_ALONE = 1 << 20  # entries of all fits from which threads pay


def fit_many(
    rows: Any,
    parameters: Any,
    smooth: Any,
    store: Floats,
    supports: NDArray[np.intp],
    *how: Any,
) -> Floats:
    """Return the value on every row of `supports`, as `_fit_some` does."""
    out = np.empty(len(supports))

    def work(ends: tuple[int, int]) -> None:
        some = slice(*ends)
        out[some] = _fit_some(rows, parameters, smooth, store, supports[some], *how)

    many = supports.size * store.shape[1] > _ALONE
    in_parallel(work, shares(0, len(out)) if many else [(0, len(out))])
    return out


@compiled(nogil=True)
def _fit_some(  # type: ignore[no-untyped-def]
    rows, parameters, smooth, store, supports, y, ridge, radius, beta, a, wanted, enough, watch
):
    """Return the value on every row of `supports` (rows of `store`), all from the same start.

    A value is the middle of the fit's interval: infinity where the fit ended for being at least
    `enough`, give or take `wanted`; not a number where the interval is wider than wanted. All is of
    no meaning if the watch says `stopped`.
    """
    m, k = supports.shape
    out = np.empty(m)
    X = np.empty((k, y.size))
    b, d = np.empty(k), np.empty(y.size)
    for r in range(m):
        for i in range(k):
            X[i] = store[supports[r, i]]
        b[:] = beta
        d[:] = a
        primal, dual = fit_rows(
            rows, parameters, smooth, X, y, ridge, radius, b, d, wanted, enough, watch
        )
        if stopped(watch):
            break
        if dual >= enough - wanted and not primal - dual <= wanted:
            out[r] = np.inf
            continue
        if not primal - dual <= wanted:
            b[:] = 0.0
            d[:] = 0.0
            primal, dual = fit_rows(
                rows, parameters, smooth, X, y, ridge, radius, b, d, wanted, np.inf, watch
            )
        out[r] = 0.5 * (primal + dual) if primal - dual <= wanted else np.nan
    return out
