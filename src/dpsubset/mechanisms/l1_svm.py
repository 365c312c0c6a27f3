"""SVMs with an l1 penalty and the squared hinge, along falling penalties (T25)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled

__all__ = ["svm_path"]

_MORE = 32  # columns that are taken in at once
_SWEEPS = 1000
_EXACT = 1e-6  # by which the slope at a column may miss its penalty, of 1


@compiled()
def _sweeps(columns, y, C, w, margins):  # type: ignore[no-untyped-def]
    """Lower |w|_1 + C sum max(0, margin)^2 by one coefficient at a time; margins are 1 - y Xw.

    Each moves to the minimum of a parabola above the loss, so that the sum never rises.
    """
    k, n = columns.shape
    curves = np.empty(k)
    for j in range(k):
        curves[j] = max(2.0 * C * np.dot(columns[j], columns[j]), 1e-300)
    for _ in range(_SWEEPS):
        widest = 0.0
        for j in range(k):
            slope = 0.0
            for i in range(n):
                if margins[i] > 0.0:
                    slope -= y[i] * columns[j, i] * margins[i]
            slope *= 2.0 * C
            off = abs(slope + np.sign(w[j])) if w[j] != 0.0 else max(abs(slope) - 1.0, 0.0)
            widest = max(widest, off)
            aim = w[j] - slope / curves[j]
            new = np.sign(aim) * max(abs(aim) - 1.0 / curves[j], 0.0)
            if new != w[j]:
                for i in range(n):
                    margins[i] -= y[i] * columns[j, i] * (new - w[j])
                w[j] = new
        if widest <= _EXACT:
            break


def svm_path(X: Floats, y: Floats, penalties: Iterator[float]) -> Iterator[Floats]:
    """Return the coefficients of one SVM after the other, min |w|_1 + C sum max(0, 1 - y Xw)^2.

    Each is found on a few columns, beginning with those of the last; others are taken in until
    none is left whose slope is larger than its penalty: then it is the minimum over all columns.

    >>> X = np.array([[1.0, 0.2], [-1.0, 0.1], [1.0, 0.0], [-1.0, 0.3]])
    >>> [w.round(3).tolist() for w in svm_path(X, X[:, 0], iter([0.1, 1.0]))]
    [[0.0, 0.0], [0.875, 0.0]]
    """
    chosen: NDArray[np.intp] = np.empty(0, dtype=np.intp)
    w, margins = np.zeros(X.shape[1]), np.ones(y.size)
    for C in penalties:
        while True:
            columns = np.ascontiguousarray(X[:, chosen].T)
            here = w[chosen]
            _sweeps(columns, y, C, here, margins)
            w[chosen] = here
            slopes = np.abs(2.0 * C * (X.T @ (y * np.maximum(margins, 0.0))))
            slopes[chosen] = 0.0
            steep = np.flatnonzero(slopes > 1.0 + _EXACT)
            if not steep.size:
                break
            steep = steep[np.argsort(-slopes[steep], kind="stable")[:_MORE]]
            chosen = np.concatenate([chosen, steep])
        yield w.copy()
