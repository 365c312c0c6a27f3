"""What a swap of features gains, enclosed, from a factor of the features that stay (T24h).

A proposal exchanges the feature at one place. The others' part of the equations is the same for
all proposals at that place, so it is factored once, until another place changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.sums import dot

__all__ = ["Kept", "Room", "enclosed_gain", "forget", "gather"]

_TRUST = 1e-7  # smallest pivot, against its diagonal
_AT_ONCE = 4  # columns that are solved for at once


class Kept(NamedTuple):
    """For each place of a support: the equations of all other features, at one multiplier."""

    factors: Floats
    solved: Floats  # L^-1 b
    held: NDArray[np.int64]  # the columns, by their places in the table of moments
    counts: NDArray[np.int64]  # of these columns; below 0: to be made, or not to be trusted
    gains: Floats
    traces: Floats  # of their part of X'X
    multipliers: Floats

    @classmethod
    def of(cls, size: int, columns: int) -> Kept:
        """Return room for supports of so many features, and of so many columns at most."""
        many = (size, columns)
        return cls(
            np.empty((size, columns, columns)),
            np.empty(many),
            np.empty(many, dtype=np.int64),
            np.empty(size, dtype=np.int64),
            np.empty(size),
            np.empty(size),
            np.empty(size),
        )


class Room(NamedTuple):
    """Space for what one proposal needs."""

    block: Floats
    cross: Floats
    own: Floats
    beta: Floats
    short: Floats
    held: NDArray[np.int64]

    @classmethod
    def of(cls, columns: int, widest: int) -> Room:
        """Return room for supports of so many columns at most, of features of so many."""
        return cls(
            np.empty((columns, columns)),
            np.empty((widest + _AT_ONCE, columns)),
            np.empty((widest, widest)),
            np.empty(columns),
            np.empty(widest),
            np.empty(columns, dtype=np.int64),
        )


@compiled(nogil=True, error_model="numpy")
def forget(kept, at):  # type: ignore[no-untyped-def]
    """Forget what is known of all places but one (or of all), since another one has changed."""
    for i in range(kept.counts.size):
        if i != at:
            kept.counts[i] = -1


@compiled(nogil=True)
def gather(data, parts, support, but, held, block, target):  # type: ignore[no-untyped-def]
    """Fill in columns and moments of a support, but for one place; return how many columns."""
    i = 0
    for place in range(support.size):
        if place != but:
            g = support[place]
            for q in range(parts.starts[g], parts.starts[g + 1]):
                target[i] = data.correlations[parts.order[q]]
                held[i] = data.places[parts.order[q]]
                i += 1
    table, k = data.table, i
    for i in range(k):
        for j in range(i + 1):
            a, b = held[i], held[j]
            v = table[a, b] if data.whole else dot(table[a], table[b])
            block[i, j] = v
            block[j, i] = v
    return k


# Matrices have room for more than they hold, and are told how much: to cut out their part takes
# longer than what is done with it.


@compiled(nogil=True, error_model="numpy")
def _factor(A, k, penalty, L):  # type: ignore[no-untyped-def]
    """Cholesky-factor A + penalty; False when a pivot is too small to be trusted."""
    for i in range(k):
        for j in range(i):
            v = A[i, j]
            for m in range(j):
                v -= L[i, m] * L[j, m]
            L[i, j] = v / L[j, j]
        v = A[i, i] + penalty
        for m in range(i):
            v -= L[i, m] * L[i, m]
        if not v > _TRUST * (A[i, i] + penalty):
            return False
        L[i, i] = np.sqrt(v)
    return True


@compiled(nogil=True, error_model="numpy")
def _forward(L, k, x):  # type: ignore[no-untyped-def]
    """Replace x by L^-1 x; return the square of its length."""
    total = 0.0
    for i in range(k):
        v = x[i]
        for m in range(i):
            v -= L[i, m] * x[m]
        v /= L[i, i]
        x[i] = v
        total += v * v
    return total


@compiled(nogil=True, error_model="numpy")
def _backward(L, k, x):  # type: ignore[no-untyped-def]
    """Replace x by L'^-1 x; return the square of its length."""
    total = 0.0
    for i in range(k - 1, -1, -1):
        v = x[i] / L[i, i]
        x[i] = v
        total += v * v
        for m in range(i):
            x[m] -= L[i, m] * v
    return total


@compiled(nogil=True)
def _prepare(data, parts, ridge, support, at, mu, kept, room):  # type: ignore[no-untyped-def]
    """Factor the equations of all features but the one at a place."""
    z, block = kept.solved[at], room.block
    k = gather(data, parts, support, at, kept.held[at], block, z)
    kept.multipliers[at] = mu
    kept.counts[at] = -2
    if _factor(block, k, ridge + mu, kept.factors[at]):
        kept.counts[at] = k
        kept.gains[at] = _forward(kept.factors[at], k, z)
        trace = 0.0
        for i in range(k):
            trace += block[i, i]
        kept.traces[at] = trace


@compiled(nogil=True, error_model="numpy")
def _forward_many(L, k, rows, count):  # type: ignore[no-untyped-def]
    """Replace every row x by L^-1 x; their number is a multiple of four."""
    for first in range(0, count, _AT_ONCE):
        a, b, c, d = rows[first], rows[first + 1], rows[first + 2], rows[first + 3]
        for i in range(k):
            u, v, x, y = a[i], b[i], c[i], d[i]
            for m in range(i):
                f = L[i, m]
                u -= f * a[m]
                v -= f * b[m]
                x -= f * c[m]
                y -= f * d[m]
            f = 1.0 / L[i, i]
            a[i], b[i], c[i], d[i] = u * f, v * f, x * f, y * f


@compiled(nogil=True, error_model="numpy", fastmath={"reassoc"})
def enclosed_gain(data, parts, norm, support, at, mu, needed, kept, room):  # type: ignore[no-untyped-def]
    """Return the least and the most that a support gains, its trace, and a better multiplier.

    Every mu >= 0 bounds the gain from above, by b'(G + ridge + mu)^-1 b + mu radius^2, and the
    solution, scaled into the ball, from below. Rounding is not counted; the trace tells how much
    it may be. Where the most is below what is needed, the least is not looked for.
    """
    if kept.counts[at] == -1:
        _prepare(data, parts, norm.ridge, support, at, mu, kept, room)
    k, mu, radius = kept.counts[at], kept.multipliers[at], norm.radius
    if k < 0:
        return -np.inf, np.inf, 0.0, mu
    L, z, held, table = kept.factors[at], kept.solved[at], kept.held[at], data.table
    W, S, K, beta, u = room.cross, room.own, room.block, room.beta, room.short
    g = support[at]
    c = parts.starts[g + 1] - parts.starts[g]
    padded = (c + _AT_ONCE - 1) // _AT_ONCE * _AT_ONCE
    penalty, trace = norm.ridge + mu, kept.traces[at] + (k + c) * (norm.ridge + mu)
    own = room.held
    for j in range(c):
        column = parts.order[parts.starts[g] + j]
        own[j], u[j] = data.places[column], data.correlations[column]
        row = own[j]
        for i in range(k):
            W[j, i] = table[row, held[i]]
    for j in range(c, padded):
        for i in range(k):
            W[j, i] = 0.0
    _forward_many(L, k, W, padded)
    for j in range(c):
        v = 0.0
        for m in range(k):
            v += W[j, m] * z[m]
        u[j] -= v
        for i in range(j + 1):
            v = 0.0
            for m in range(k):
                v += W[j, m] * W[i, m]
            S[j, i] = table[own[j], own[i]] - v
        trace += table[own[j], own[j]]
    if not _factor(S, c, penalty, K):
        return -np.inf, np.inf, trace, mu
    gain = kept.gains[at] + _forward(K, c, u)
    most = gain + mu * radius * radius
    if most < needed:
        return -np.inf, most, trace, mu
    norm2 = _backward(K, c, u)
    for i in range(k):
        v = z[i]
        for j in range(c):
            v -= W[j, i] * u[j]
        beta[i] = v
    norm2 += _backward(L, k, beta)
    length = np.sqrt(norm2)
    spent = gain - mu * norm2
    share = radius / length if length > 0.0 else 1.0
    if spent * share > gain:
        share = gain / spent
    least = share * (2.0 * gain - share * spent)
    if length > radius or mu > 0.0:
        curved = _forward(L, k, beta)
        for j in range(c):
            v = 0.0
            for i in range(k):
                v += W[j, i] * beta[i]
            u[j] -= v
        curved += _forward(K, c, u)
        if curved > 0.0:
            mu = max(mu + norm2 / curved * (length - radius) / radius, 0.0)
    return least, most, trace, mu
