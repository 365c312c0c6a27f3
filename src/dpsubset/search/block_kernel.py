"""The compiled search for features of several columns: `kernel` with blocks for columns (T32).

A region comes as a reduced matrix in which the columns of a feature are neighbours. A feature is
eliminated as a whole; the last two features have exact gains, by a factorisation of small blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.clock import late, stopped
from dpsubset.compiled import compiled
from dpsubset.losses.ball import solve
from dpsubset.search.heap import leaf_nodes, push, worst

__all__ = ["BlockMoments", "explore_blocks"]


class BlockMoments(NamedTuple):
    """What a support's exact score needs: moments of columns, and which columns a feature has."""

    gram: Floats
    correlations: Floats  # X'y
    energy: float  # y'y
    ridge: float
    radius: float
    columns: NDArray[np.int64]  # feature by feature, as places in the moments
    starts: NDArray[np.int64]  # of every feature in `columns`
    keys: NDArray[np.uint64]  # of every feature


@compiled()
def _factor(H, low, high, L):  # type: ignore[no-untyped-def]
    """Factor the block of a feature; return whether it is positive definite."""
    for r in range(high - low):
        for q in range(r + 1):
            v = H[low + r, low + q]
            for i in range(q):
                v -= L[r, i] * L[q, i]
            if q < r:
                L[r, q] = v / L[q, q]
            elif v > 0.0:
                L[r, r] = np.sqrt(v)
            else:
                return False
    return True


@compiled()
def _gain(L, b, d):  # type: ignore[no-untyped-def]
    """Return |L^-1 b|^2, and leave L^-1 b in b."""
    out = 0.0
    for r in range(d):
        v = b[r]
        for i in range(r):
            v -= L[r, i] * b[i]
        b[r] = v / L[r, r]
        out += b[r] * b[r]
    return out


@compiled()
def _insert(largest, v):  # type: ignore[no-untyped-def]
    """Put a number among the largest, which ascend."""
    if largest.size and v > largest[0]:
        i = 1
        while i < largest.size and largest[i] < v:
            largest[i - 1] = largest[i]
            i += 1
        largest[i - 1] = v


@compiled()
def _weights(H, b, starts, t, smallest, u):  # type: ignore[no-untyped-def]
    """Fill `u` with weights of features whose t largest add up to a bound on any t's gain (T32).

    Two diagonals are tried: the smallest eigenvalue, and Gershgorin's for blocks; each alone is
    valid, so the one with the lower bound is kept.
    """
    m = starts.size - 1
    gershgorin = np.empty(m)
    for g in range(m):
        size = 0.0
        for j in range(starts[g], starts[g + 1]):
            size += b[j] * b[j]
        u[g] = size / smallest
        gershgorin[g] = size
    usable = True
    largest = np.zeros(t - 1)
    for g in range(m):
        own = np.inf  # below the eigenvalues of the block itself
        for j in range(starts[g], starts[g + 1]):
            v = H[j, j] * (1.0 - 1e-12)
            for k in range(starts[g], starts[g + 1]):
                v -= abs(H[j, k]) if k != j else 0.0
            own = min(own, v)
        largest[:] = 0.0
        for h in range(m):
            if h == g:
                continue
            square = 0.0
            for j in range(starts[g], starts[g + 1]):
                for k in range(starts[h], starts[h + 1]):
                    square += H[j, k] * H[j, k]
            _insert(largest, np.sqrt(square) * (1.0 + 1e-12))
        d = own - largest.sum()
        if d <= smallest * 0.25:
            usable = False
            break
        gershgorin[g] /= d
    if usable and np.sort(gershgorin)[-t:].sum() < np.sort(u)[-t:].sum():
        u[:] = gershgorin


@compiled()
def _sort(H, b, starts, ids, u):  # type: ignore[no-untyped-def]
    """Put the heaviest features first."""
    order = np.argsort(-u)
    columns = np.empty(b.size, np.int64)
    ends = np.zeros(starts.size, np.int64)
    count = 0
    for i in range(order.size):
        for j in range(starts[order[i]], starts[order[i] + 1]):
            columns[count] = j
            count += 1
        ends[i + 1] = count
    u[:] = u[order]
    ids[:] = ids[order]
    b[:] = b[columns]
    H[:] = H[columns][:, columns]
    starts[:] = ends


@compiled()
def _leaf(moments, features, heap, filled):  # type: ignore[no-untyped-def]
    """Score one support exactly and offer it to the list."""
    k = 0
    key = np.uint64(0)
    for g in features:
        k += moments.starts[g + 1] - moments.starts[g]
        key ^= moments.keys[g]
    columns = np.empty(k, np.int64)
    k = 0
    for g in features:
        for i in range(moments.starts[g], moments.starts[g + 1]):
            columns[k] = moments.columns[i]
            k += 1
    block, target = np.empty((k, k)), np.empty(k)
    for i in range(k):
        target[i] = moments.correlations[columns[i]]
        for j in range(k):
            block[i, j] = moments.gram[columns[i], columns[j]]
    gain = solve(block, target, moments.ridge, moments.radius, np.empty(k))[0]
    return push(heap, filled, moments.energy - gain, key, features)


@compiled()
def _eliminated(H, b, starts, g, stop, L, W, z):  # type: ignore[no-untyped-def]
    """Fill W with L^-1 H of a feature's rows, at the columns of the features up to `stop`.

    Returns what the feature gains; nothing if its block is not positive definite.
    """
    low, high = starts[g], starts[g + 1]
    d = high - low
    if not _factor(H, low, high, L):
        return -1.0
    z[:d] = b[low:high]
    gained = _gain(L, z, d)
    for r in range(d):
        for j in range(high, starts[stop]):
            v = H[low + r, j]
            for i in range(r):
                v -= L[r, i] * W[i, j]
            W[r, j] = v / L[r, r]
    return gained


@compiled()
def _sizes(b, starts, smallest, sizes, beyond):  # type: ignore[no-untyped-def]
    """Fill in what features gain at most, and the largest of those after each."""
    beyond[-1] = 0.0
    for g in range(starts.size - 2, -1, -1):
        size = 0.0
        for j in range(starts[g], starts[g + 1]):
            size += b[j] * b[j]
        sizes[g] = size / smallest
        beyond[g] = max(beyond[g + 1], sizes[g])


@compiled()
def _left(H, b, starts, g, h, L, z, W, left):  # type: ignore[no-untyped-def]
    """Fill W with L^-1 H_gh, `left` with what g leaves of h's correlations; return its square."""
    low, first = starts[g], starts[h]
    d, square = starts[g + 1] - low, 0.0
    for r in range(starts[h + 1] - first):
        v = b[first + r]
        for i in range(d):
            w = H[low + i, first + r]
            for q in range(i):
                w -= L[i, q] * W[q, r]
            W[i, r] = w / L[i, i]
            v -= W[i, r] * z[i]
        left[r] = v
        square += v * v
    return square


@compiled()
def _pairs(H, b, starts, ids, base, rule, moments, features, heap, filled, L, W, z, watch):  # type: ignore[no-untyped-def]
    """Go through the last two features, whose gain is exact, unless bounds of each are enough.

    Returns the list's length, and the nodes that leaves have cost.
    """
    m, spent = starts.size - 1, 0
    widest = L.shape[0]
    small, K, left = np.empty((widest, widest)), np.empty((widest, widest)), np.empty(widest)
    sizes, beyond = np.empty(m), np.empty(m + 1)
    _sizes(b, starts, rule.smallest, sizes, beyond)
    for g in range(m - 1):
        need = base - worst(heap.scores, filled) + rule.margin
        if not sizes[g] + beyond[g + 1] > need:
            continue
        low, d = starts[g], starts[g + 1] - starts[g]
        gained = -1.0  # nothing is known where its block is not positive definite
        if _factor(H, low, starts[g + 1], L):
            z[:d] = b[low : low + d]
            gained = _gain(L, z, d)
        if late(watch, 0.01 * d * d * (starts[m] - low)):
            return filled, spent
        for h in range(g + 1, m):
            if not sizes[g] + sizes[h] > need:
                continue
            low, width = starts[h], starts[h + 1] - starts[h]
            if gained >= 0.0:
                square = _left(H, b, starts, g, h, L, z, W, left)
                if not gained + square / rule.smallest > need:
                    continue
                for r in range(width):
                    for q in range(r + 1):
                        v = H[low + r, low + q]
                        for i in range(d):
                            v -= W[i, r] * W[i, q]
                        small[r, q] = v
            sound = gained >= 0.0 and _factor(small, 0, width, K)
            if not sound or gained + _gain(K, left, width) > need:
                features[-2], features[-1] = ids[g], ids[h]
                spent += leaf_nodes(heap, filled, features.size * (width + d) // 2)
                filled = _leaf(moments, features, heap, filled)
                need = base - worst(heap.scores, filled) + rule.margin
                if late(watch, 2.0 + 0.02 * (width + d) ** 3):
                    return filled, spent
    return filled, spent


@compiled()
def _kept(b, starts, g, stop, t, smallest, need, W, z, d, kept, target):  # type: ignore[no-untyped-def]
    """List the features after g, up to `stop`, that can still matter once g is in."""
    largest = np.zeros(t)
    sizes = np.empty(stop)
    for h in range(g + 1, stop):
        size = 0.0
        for j in range(starts[h], starts[h + 1]):
            v = b[j]
            for i in range(d):
                v -= W[i, j] * z[i]
            target[j] = v
            size += v * v
        sizes[h] = size / smallest
        _insert(largest, sizes[h])
    rest = largest[1:].sum()
    count = 0
    if stop - g - 1 < t or not rest + largest[0] > need:
        return count
    for h in range(g + 1, stop):
        if sizes[h] >= largest[0] or rest + sizes[h] > need:
            kept[count] = h
            count += 1
    return count


@compiled()
def _below(H, starts, kept, target, ids, W, d, to_H, to_b, to_starts, to_ids):  # type: ignore[no-untyped-def]
    """Write the Schur complement of the features kept, one after the other."""
    columns = np.empty(to_b.size, np.int64)
    count = 0
    for i in range(kept.size):
        to_starts[i] = count
        to_ids[i] = ids[kept[i]]
        for j in range(starts[kept[i]], starts[kept[i] + 1]):
            columns[count] = j
            to_b[count] = target[j]
            count += 1
    to_starts[kept.size] = count
    for r in range(count):
        for q in range(r + 1):
            v = H[columns[r], columns[q]]
            for i in range(d):
                v -= W[i, columns[r]] * W[i, columns[q]]
            to_H[r, q] = v
            to_H[q, r] = v


@compiled()
def explore_blocks(H, b, starts, ids, base, t, rule, moments, features, heap, filled, nodes, watch):  # type: ignore[no-untyped-def]
    """Search t >= 2 of the features `ids`; `features` holds the others of the support first.

    Returns the list's length and the nodes left, negative when these or the watch ended before
    the region did.
    """
    m, k, first = ids.size, b.size, features.size - t
    widest = 0
    for g in range(m):
        widest = max(widest, starts[g + 1] - starts[g])
    L, W, z = np.empty((widest, widest)), np.empty((widest, k)), np.empty(widest)
    target, kept = np.empty(k), np.empty(m, np.int64)
    Hs, bs = np.empty((t - 1, k * k)), np.empty((t - 1, k))
    us, names = np.empty((t - 1, m)), np.empty((t - 1, m), np.int64)
    places = np.zeros((t - 1, m + 1), np.int64)
    counts, positions = np.zeros(t - 1, np.int64), np.zeros(t - 1, np.int64)
    bases = np.empty(t - 1)
    Hs[0], bs[0], names[0], places[0], counts[0], bases[0] = H.ravel(), b, ids, starts, m, base
    level, fresh = 0, True
    while level >= 0:
        rem, n = t - level, counts[level]
        at = places[level, : n + 1]
        c = at[n]
        Hl = Hs[level, : c * c].reshape(c, c)
        bl, ul, nl = bs[level, :c], us[level, :n], names[level, :n]
        if fresh:
            nodes -= 1 + c * c // 4096
            if late(watch, 1.0 + 0.004 * c * c):
                return filled, -1
            if nodes < 0 or worst(heap.scores, filled) <= rule.slack:
                return filled, nodes
            if rem == 2:
                filled, spent = _pairs(
                    Hl, bl, at, nl, bases[level], rule, moments, features, heap, filled,
                    L, W, z, watch
                )  # fmt: skip
                nodes -= spent
                if stopped(watch):
                    return filled, -1
                level, fresh = level - 1, False
                continue
            _weights(Hl, bl, at, rem, rule.smallest, ul)
            _sort(Hl, bl, at, nl, ul)
            positions[level] = 0
        fresh = False
        need = bases[level] - worst(heap.scores, filled) + rule.margin
        g = positions[level]
        if g + rem > n or not ul[g : g + rem].sum() > need:
            level -= 1
            continue
        positions[level] = g + 1
        stop = g + rem
        rest = ul[g : g + rem - 1].sum()
        while stop < n and rest + ul[stop] > need:
            stop += 1
        gained = _eliminated(Hl, bl, at, g, stop, L, W, z)
        if gained < 0.0:  # proves nothing: leave the region to be split
            return filled, -1
        d = at[g + 1] - at[g]
        count = _kept(bl, at, g, stop, rem - 1, rule.smallest, need - gained, W, z, d, kept, target)
        if count < rem - 1:
            continue
        features[first + level] = nl[g]
        size = 0
        for i in range(count):
            size += at[kept[i] + 1] - at[kept[i]]
        below = level + 1
        _below(
            Hl,
            at,
            kept[:count],
            target,
            nl,
            W,
            d,
            Hs[below, : size * size].reshape(size, size),
            bs[below, :size],
            places[below, : count + 1],
            names[below, :count],
        )
        bases[below] = bases[level] - gained
        counts[below] = count
        level, fresh = below, True
    return filled, nodes
