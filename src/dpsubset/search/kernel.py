"""The compiled part of the branch and bound for squared loss: a region searched to its leaves."""

from __future__ import annotations

import numpy as np
from numba import njit

from dpsubset.losses.squared import solve

__all__ = ["explore"]


@njit(cache=True)
def _push(scores, keys, supports, filled, score, key, support):  # type: ignore[no-untyped-def]
    """Put a support on the list of the best (a heap with the worst on top); return the new length."""
    room = scores.size
    if filled == room and score >= scores[0]:
        return filled
    for i in range(filled):
        if keys[i] == key:
            return filled
    if filled < room:
        i = filled
        filled += 1
        while i > 0 and scores[(i - 1) // 2] < score:
            parent = (i - 1) // 2
            scores[i], keys[i], supports[i] = scores[parent], keys[parent], supports[parent]
            i = parent
    else:
        i = 0
        while True:
            child = 2 * i + 1
            if child >= room:
                break
            if child + 1 < room and scores[child + 1] > scores[child]:
                child += 1
            if scores[child] <= score:
                break
            scores[i], keys[i], supports[i] = scores[child], keys[child], supports[child]
            i = child
    scores[i], keys[i] = score, key
    supports[i] = support
    return filled


@njit(cache=True)
def _weights(H, b, t, smallest, u):  # type: ignore[no-untyped-def]
    """Fill `u` with column weights whose t largest add up to a bound on any t columns' gain (T11).

    Two diagonals are tried: the smallest eigenvalue, and Gershgorin's with the t-1 largest
    entries of a row; each alone is valid, so the one with the lower bound is kept.
    """
    m = b.size
    largest = np.zeros(t - 1)
    gershgorin = np.empty(m)
    usable = True
    for j in range(m):
        u[j] = b[j] * b[j] / smallest
        largest[:] = 0.0
        for k in range(m):
            v = abs(H[j, k])
            if k != j and v > largest[0]:
                i = 1
                while i < t - 1 and largest[i] < v:
                    largest[i - 1] = largest[i]
                    i += 1
                largest[i - 1] = v
        d = H[j, j] - largest.sum()
        if d <= smallest * 0.25:
            usable = False
            break
        gershgorin[j] = b[j] * b[j] / d
    if usable:
        if np.sort(gershgorin)[-t:].sum() < np.sort(u)[-t:].sum():
            u[:] = gershgorin


@njit(cache=True)
def _reduce(H, b, j, kept, out, target):  # type: ignore[no-untyped-def]
    """Eliminate column j from the columns `kept`: a Schur complement."""
    pivot = H[j, j]
    scale = b[j] / pivot
    for a in range(kept.size):
        row = H[kept[a]]
        factor = row[j] / pivot
        target[a] = b[kept[a]] - row[j] * scale
        for c in range(kept.size):
            out[a, c] = row[kept[c]] - factor * H[j, kept[c]]


@njit(cache=True)
def _leaf(G, y_corr, yy, ridge, radius, columns, names, keys, heap, filled):  # type: ignore[no-untyped-def]
    """Score one support exactly and offer it to the list."""
    scores, heap_keys, supports = heap
    s = columns.size
    block = np.empty((s, s))
    target = np.empty(s)
    support = np.empty(s, np.int64)
    key = np.uint64(0)
    for i in range(s):
        target[i] = y_corr[columns[i]]
        support[i] = names[columns[i]]
        key ^= keys[columns[i]]
        for k in range(s):
            block[i, k] = G[columns[i], columns[k]]
    score = yy - solve(block, target, ridge, radius, np.empty(s))[0]
    return _push(scores, heap_keys, supports, filled, score, key, support)


@njit(cache=True)
def explore(  # type: ignore[no-untyped-def]
    H, b, base, t, smallest, margin, G, y_corr, yy, ridge, radius, names, keys, heap, filled, nodes
):
    """Search all supports I + A, |A| = t, A among m candidates, below the list's worst score.

    H, b: the candidates' Gram matrix and correlations, reduced by I, penalty included; `base` is
    the bound at I alone and `smallest` bounds the eigenvalues of H from below. G, y_corr, names,
    keys: I and the candidates, I first. Returns the list's length and the nodes left, negative
    when the allowance ended before the region did.
    """
    m = b.size
    k = names.size - m
    columns = np.empty(k + t, np.int64)
    columns[:k] = np.arange(k)
    pool = np.empty(max(t - 1, 1) * m * m)
    bs = np.empty((t + 1, m))
    us = np.empty((t + 1, m))
    ids = np.empty((t + 1, m), np.int64)
    starts = np.zeros(t + 2, np.int64)
    counts = np.zeros(t + 1, np.int64)
    positions = np.zeros(t + 1, np.int64)
    bases = np.zeros(t + 1)
    pool[: m * m] = H.ravel()
    bs[0] = b
    ids[0] = np.arange(m)
    starts[1] = m * m
    counts[0] = m
    bases[0] = base
    scores = heap[0]
    level = 0
    fresh = True
    while level >= 0:
        rem = t - level
        c = counts[level]
        Hl = pool[starts[level] : starts[level] + c * c].reshape(c, c)
        bl = bs[level, :c]
        worst = scores[0] if filled == scores.size else np.inf
        need = bases[level] - worst + margin
        if fresh:
            nodes -= 1
            if nodes < 0:
                return filled, nodes
        if rem == 1:
            for j in range(c):
                if bl[j] * bl[j] > need * Hl[j, j]:
                    columns[k + level] = k + ids[level, j]
                    filled = _leaf(
                        G, y_corr, yy, ridge, radius, columns, names, keys, heap, filled
                    )
                    worst = scores[0] if filled == scores.size else np.inf
                    need = bases[level] - worst + margin
            level -= 1
            fresh = False
            continue
        if rem == 2:
            for i in range(c):
                hi, bi = Hl[i, i], bl[i]
                for j in range(i):
                    cross = Hl[i, j]
                    det = hi * Hl[j, j] - cross * cross
                    gain = bi * bi * Hl[j, j] - 2.0 * bi * bl[j] * cross + bl[j] * bl[j] * hi
                    if gain > need * det:
                        columns[k + level] = k + ids[level, i]
                        columns[k + level + 1] = k + ids[level, j]
                        filled = _leaf(
                            G, y_corr, yy, ridge, radius, columns, names, keys, heap, filled
                        )
                        worst = scores[0] if filled == scores.size else np.inf
                        need = bases[level] - worst + margin
            level -= 1
            fresh = False
            continue
        ul = us[level, :c]
        if fresh:
            _weights(Hl, bl, rem, smallest, ul)
            order = np.argsort(-ul)
            ul[:] = ul[order]
            bl[:] = bl[order]
            ids[level, :c] = ids[level, :c][order]
            Hl[:] = Hl[order][:, order]
            positions[level] = 0
        j = positions[level]
        fresh = False
        if j + rem > c or not ul[j : j + rem].sum() > need:
            level -= 1
            continue
        positions[level] = j + 1
        stop = j + rem
        rest = ul[j : j + rem - 1].sum()
        while stop < c and rest + ul[stop] > need:
            stop += 1
        kept = np.arange(j + 1, stop)
        columns[k + level] = k + ids[level, j]
        child = level + 1
        size = kept.size
        starts[child] = starts[level] + c * c
        out = pool[starts[child] : starts[child] + size * size].reshape(size, size)
        _reduce(Hl, bl, j, kept, out, bs[child, :size])
        bases[child] = bases[level] - bl[j] * bl[j] / Hl[j, j]
        ids[child, :size] = ids[level, j + 1 : stop]
        counts[child] = size
        level = child
        fresh = True
    return filled, nodes
