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
from dpsubset.losses.ball import backward, factor, forward

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
    multipliers: Floats

    @classmethod
    def of(cls, size: int, columns: int) -> Kept:
        """Return room for supports of so many features, and of so many columns at most."""
        many = (size, columns)
        return cls(
            np.empty((size, columns * columns)),
            np.empty(many),
            np.empty(many, dtype=np.int64),
            np.empty(size, dtype=np.int64),
            np.empty(size),
            np.empty(size),
        )


class Room(NamedTuple):
    """Space for what one proposal needs."""

    block: Floats
    cross: Floats
    own: Floats
    beta: Floats
    held: NDArray[np.int64]

    @classmethod
    def of(cls, columns: int, widest: int) -> Room:
        """Return room for supports of so many columns at most, of features of so many."""
        return cls(
            np.empty(columns * columns),
            np.empty((widest + _AT_ONCE) * columns),
            np.empty(widest * widest),
            np.empty(columns),
            np.empty(columns, dtype=np.int64),
        )


@compiled(nogil=True)
def forget(kept, at):  # type: ignore[no-untyped-def]
    """Forget what is known of all places but one (or of all), since another one has changed."""
    for i in range(kept.counts.size):
        if i != at:
            kept.counts[i] = -1


@compiled(nogil=True, fastmath={"reassoc"})
def _dot(x, y):  # type: ignore[no-untyped-def]
    """Return x'y, for vectors too short for a library."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


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
            v = table[held[i], held[j]]
            block[i * k + j] = v
            block[j * k + i] = v
    return k


@compiled(nogil=True)
def _prepare(data, parts, ridge, support, at, mu, kept, room):  # type: ignore[no-untyped-def]
    """Factor the equations of all features but the one at a place."""
    z = kept.solved[at]
    k = gather(data, parts, support, at, kept.held[at], room.block, z)
    L = kept.factors[at, : k * k].reshape(k, k)
    kept.multipliers[at] = mu
    kept.counts[at] = -2
    if factor(room.block[: k * k].reshape(k, k), ridge + mu, _TRUST, L):
        kept.counts[at] = k
        forward(L, z[:k])
        kept.gains[at] = _dot(z[:k], z[:k])


@compiled(nogil=True)
def _forward_many(L, rows):  # type: ignore[no-untyped-def]
    """Replace every row x by L^-1 x; their number is a multiple of four."""
    for first in range(0, rows.shape[0], _AT_ONCE):
        a, b, c, d = rows[first], rows[first + 1], rows[first + 2], rows[first + 3]
        for i in range(L.shape[0]):
            u, v, x, y = a[i], b[i], c[i], d[i]
            for m in range(i):
                f = L[i, m]
                u -= f * a[m]
                v -= f * b[m]
                x -= f * c[m]
                y -= f * d[m]
            f = L[i, i]
            a[i], b[i], c[i], d[i] = u / f, v / f, x / f, y / f


@compiled(nogil=True)
def enclosed_gain(data, parts, norm, support, at, mu, needed, kept, room):  # type: ignore[no-untyped-def]
    """Return the least and the most that a support gains, its trace, and a better multiplier.

    Every mu >= 0 bounds the gain from above, by b'(G + ridge + mu)^-1 b + mu radius^2, and the
    solution, shrunk into the ball, from below. Rounding is not counted; the trace tells how much
    it may be. Where the most is below what is needed, the least is not looked for.
    """
    if kept.counts[at] == -1:
        _prepare(data, parts, norm.ridge, support, at, mu, kept, room)
    k, mu, radius = kept.counts[at], kept.multipliers[at], norm.radius
    if k < 0:
        return -np.inf, np.inf, 0.0, mu
    L = kept.factors[at, : k * k].reshape(k, k)
    z, held, table = kept.solved[at, :k], kept.held[at], data.table
    g = support[at]
    c = parts.starts[g + 1] - parts.starts[g]
    padded = (c + _AT_ONCE - 1) // _AT_ONCE * _AT_ONCE
    W = room.cross[: padded * k].reshape(padded, k)
    S, own, u = room.own[: c * c].reshape(c, c), room.held, room.beta[k : k + c]
    penalty, trace = norm.ridge + mu, (k + c) * (norm.ridge + mu)
    for j in range(c):
        column = parts.order[parts.starts[g] + j]
        own[j], u[j] = data.places[column], data.correlations[column]
        for i in range(k):
            W[j, i] = table[own[j], held[i]]
    W[c:] = 0.0
    _forward_many(L, W)
    for j in range(c):
        for i in range(j + 1):
            S[j, i] = table[own[j], own[i]] - _dot(W[j], W[i])
        trace += table[own[j], own[j]]
        u[j] -= _dot(W[j], z)
    for i in range(k):
        trace += table[held[i], held[i]]
    K = room.block[: c * c].reshape(c, c)
    if not factor(S, penalty, _TRUST, K):
        return -np.inf, np.inf, trace, mu
    forward(K, u)
    gain = kept.gains[at] + _dot(u, u)
    most = gain + mu * radius * radius
    if most < needed:
        return -np.inf, most, trace, mu
    beta = room.beta[:k]
    backward(K, u)
    beta[:] = z
    for j in range(c):
        row, f = W[j], u[j]
        for i in range(k):
            beta[i] -= row[i] * f
    backward(L, beta)
    norm2 = _dot(beta, beta) + _dot(u, u)
    length = np.sqrt(norm2)
    shrink = radius / length if length > radius else 1.0
    least = shrink * ((2.0 - shrink) * gain + shrink * mu * norm2)
    if length > radius or mu > 0.0:
        forward(L, beta)
        for j in range(c):
            u[j] -= _dot(W[j], beta)
        forward(K, u)
        curved = _dot(beta, beta) + _dot(u, u)
        if curved > 0.0:
            mu = max(mu + norm2 / curved * (length - radius) / radius, 0.0)
    return least, most, trace, mu
