"""Sums over rows, made in blocks: rounding errors do not grow with the number of rows (T19)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled

__all__ = ["BLOCK", "column_sums", "dot", "dots", "four_dots", "products", "row_blocks", "total"]

BLOCK = 4096  # terms that are summed in one go


def row_blocks(n: int) -> Iterator[slice]:
    """Part n rows into blocks.

    >>> [(rows.start, rows.stop) for rows in row_blocks(5000)]
    [(0, 4096), (4096, 5000)]
    """
    for start in range(0, n, BLOCK):
        yield slice(start, min(start + BLOCK, n))


def products(A: NDArray[np.floating], B: NDArray[np.floating]) -> Floats:
    """Return A'B for an array (n, k) and another, or a vector (n,); blocks are added as float64."""
    out = np.zeros((A.shape[1], *B.shape[1:]))
    for rows in row_blocks(A.shape[0]):
        out += A[rows].T @ B[rows]
    return out


def column_sums(A: Floats) -> Floats:
    """Return the sum over the rows of an array (n, k) or (n,)."""
    out = np.zeros(A.shape[1:])
    for rows in row_blocks(A.shape[0]):
        out += A[rows].sum(axis=0)
    return out


@compiled(nogil=True, fastmath={"contract", "reassoc"})
def total(v):  # type: ignore[no-untyped-def]
    """Return the sum of a vector."""
    out = 0.0
    for start in range(0, v.size, BLOCK):
        x = v[start : start + BLOCK]
        part = 0.0
        for i in range(x.size):
            part += x[i]
        out += part
    return out


@compiled(nogil=True, fastmath={"contract", "reassoc"})
def dot(u, v):  # type: ignore[no-untyped-def]
    """Return the inner product of two vectors."""
    out = 0.0
    for start in range(0, u.size, BLOCK):
        x, y = u[start : start + BLOCK], v[start : start + BLOCK]
        part = 0.0
        for i in range(x.size):
            part += x[i] * y[i]
        out += part
    return out


@compiled(nogil=True, fastmath={"contract", "reassoc"})
def _four(a, b, c, d, v):  # type: ignore[no-untyped-def]
    p = q = r = s = 0.0
    for i in range(v.size):
        p += a[i] * v[i]
        q += b[i] * v[i]
        r += c[i] * v[i]
        s += d[i] * v[i]
    return p, q, r, s


@compiled(nogil=True)
def four_dots(a, b, c, d, v):  # type: ignore[no-untyped-def]
    """Return the inner products of four vectors with another."""
    p = q = r = s = 0.0
    for start in range(0, v.size, BLOCK):
        rows = slice(start, start + BLOCK)
        w, x, y, z = _four(a[rows], b[rows], c[rows], d[rows], v[rows])
        p += w
        q += x
        r += y
        s += z
    return p, q, r, s


@compiled(nogil=True)
def dots(X, v):  # type: ignore[no-untyped-def]
    """Return X v, where X holds a column of a table a row; four at a time, as fast as BLAS."""
    k = X.shape[0]
    out = np.zeros(k)
    for start in range(0, v.size, BLOCK):
        rows = slice(start, start + BLOCK)
        for j in range(0, k - 3, 4):
            p, q, r, s = _four(X[j, rows], X[j + 1, rows], X[j + 2, rows], X[j + 3, rows], v[rows])
            out[j] += p
            out[j + 1] += q
            out[j + 2] += r
            out[j + 3] += s
        for j in range(k - k % 4, k):
            out[j] += dot(X[j, rows], v[rows])
    return out
