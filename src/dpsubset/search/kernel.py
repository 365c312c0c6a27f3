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
    usable = m <= 300
    for j in range(m):
        u[j] = b[j] * b[j] / smallest
    for j in range(m if usable else 0):
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
def _last(u, j, t, need):  # type: ignore[no-untyped-def]
    """Return the end of the sorted columns that can join column j in a set of t worth having."""
    stop = j + t
    rest = u[j : j + t - 1].sum()
    while stop < u.size and rest + u[stop] > need:
        stop += 1
    return stop


@njit(cache=True)
def _keep(row, pivot, b, j, stop, t, smallest, need, kept, target):  # type: ignore[no-untyped-def]
    """List the columns j+1..stop-1 that can still matter once column j is in; return how many.

    Their reduced correlations cost one row of the matrix, the Schur complement a square of it:
    columns leave before it is formed.
    """
    scale = b[j] / pivot
    largest = np.zeros(t)
    for q in range(j + 1, stop):
        v = b[q] - row[q] * scale
        u = v * v / smallest
        if u > largest[0]:
            i = 1
            while i < t and largest[i] < u:
                largest[i - 1] = largest[i]
                i += 1
            largest[i - 1] = u
    rest = largest[1:].sum()
    count = 0
    if stop - j - 1 < t or not rest + largest[0] > need:
        return count
    for q in range(j + 1, stop):
        v = b[q] - row[q] * scale
        u = v * v / smallest
        if u >= largest[0] or rest + u > need:
            kept[count] = q
            target[count] = v
            count += 1
    return count


@njit(cache=True)
def _reduce(H, j, kept, out):  # type: ignore[no-untyped-def]
    """Eliminate column j from the columns `kept`: a Schur complement."""
    for a in range(kept.size):
        row = H[kept[a]]
        factor = row[j] / H[j, j]
        for c in range(kept.size):
            out[a, c] = row[kept[c]] - factor * H[j, kept[c]]


@njit(cache=True)
def _leaf(data, columns, heap, filled):  # type: ignore[no-untyped-def]
    """Score one support exactly and offer it to the list."""
    G, y_corr, yy, ridge, radius, names, keys = data
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
def _pairs(H, b, ids, base, margin, data, columns, heap, filled):  # type: ignore[no-untyped-def]
    """Go through all pairs of columns: their gain has a closed form, so no bound is needed."""
    s = columns.size
    for i in range(b.size):
        for j in range(i):
            worst = heap[0][0] if filled == heap[0].size else np.inf
            need = base - worst + margin
            # By elimination, not by the determinant: the latter cancels for near-equal columns.
            f = H[i, j] / H[i, i]
            left = b[j] - f * b[i]
            pivot = H[j, j] - f * H[i, j]
            if pivot <= 0.0 or left * left > (need - b[i] * b[i] / H[i, i]) * pivot:
                columns[s - 2] = ids[i]
                columns[s - 1] = ids[j]
                filled = _leaf(data, columns, heap, filled)
    return filled


@njit(cache=True)
def _subtree(H, b, ids, base, t, smallest, margin, data, columns, heap, filled, nodes):  # type: ignore[no-untyped-def]
    """Search t >= 2 of the columns `ids`, depth first; `columns` holds the others of the support.

    Every level keeps its own reduced matrix in `pool`, sorted by weight, and the position of its
    next branch.
    """
    m = b.size
    first = columns.size - t
    pool = np.empty(max(t - 1, 1) * m * m)
    bs, us = np.empty((t + 1, m)), np.empty((t + 1, m))
    names = np.empty((t + 1, m), np.int64)
    starts, counts = np.zeros(t + 2, np.int64), np.zeros(t + 1, np.int64)
    positions, bases = np.zeros(t + 1, np.int64), np.zeros(t + 1)
    kept = np.empty(m, np.int64)
    pool[: m * m] = H.ravel()
    bs[0], names[0], counts[0], bases[0] = b, ids, m, base
    level, fresh = 0, True
    while level >= 0:
        rem, c = t - level, counts[level]
        Hl = pool[starts[level] : starts[level] + c * c].reshape(c, c)
        bl, ul = bs[level, :c], us[level, :c]
        if fresh:
            nodes -= 1
            if nodes < 0:
                return filled, nodes
            if rem == 2:
                filled = _pairs(
                    Hl, bl, names[level], bases[level], margin, data, columns, heap, filled
                )
                level, fresh = level - 1, False
                continue
            _weights(Hl, bl, rem, smallest, ul)
            order = np.argsort(-ul)
            ul[:], bl[:] = ul[order], bl[order]
            names[level, :c] = names[level, :c][order]
            Hl[:] = Hl[order][:, order]
            positions[level] = 0
        fresh = False
        worst = heap[0][0] if filled == heap[0].size else np.inf
        need = bases[level] - worst + margin
        j = positions[level]
        if j + rem > c or not ul[j : j + rem].sum() > need:
            level -= 1
            continue
        positions[level] = j + 1
        stop = _last(ul, j, rem, need)
        gained = bl[j] * bl[j] / Hl[j, j]
        size = _keep(
            Hl[j], Hl[j, j], bl, j, stop, rem - 1, smallest, need - gained, kept, bs[level + 1]
        )
        if size >= rem - 1:
            columns[first + level] = names[level, j]
            starts[level + 1] = starts[level] + c * c
            out = pool[starts[level + 1] : starts[level + 1] + size * size].reshape(size, size)
            _reduce(Hl, j, kept[:size], out)
            bases[level + 1] = bases[level] - gained
            names[level + 1, :size] = names[level][kept[:size]]
            counts[level + 1] = size
            level, fresh = level + 1, True
    return filled, nodes


@njit(cache=True)
def explore(inside, free, rows, eliminated, b, penalty, base, smallest, margin, data, size, heap, filled, nodes):  # type: ignore[no-untyped-def]  # noqa: E501
    """Search all supports inside + A, A among the columns `free`, below the list's worst score.

    `rows` = X_I'X and `eliminated` = (X_I'X_I + penalty)^-1 X_I'X at the free columns, `b` their
    reduced correlations, `base` the bound at I alone; `smallest` bounds the eigenvalues of the
    reduced matrix from below. At this first level, where columns are many, only the rows of the
    reduced matrix that are branched on are ever formed. Returns the list's length and the nodes
    left, negative when the allowance ended before the region did.
    """
    G = data[0]
    k, m = inside.size, free.size
    t = size - k
    columns = np.empty(size, np.int64)
    columns[:k] = inside
    weights = b * b / smallest
    order = np.argsort(-weights)
    u = weights[order]
    bo = b[order]
    row = np.empty(m)
    kept = np.empty(m, np.int64)
    target = np.empty(m)
    for j in range(m - t + 1):
        worst = heap[0][0] if filled == heap[0].size else np.inf
        need = base - worst + margin
        if not u[j : j + t].sum() > need:
            break
        nodes -= 1
        if nodes < 0:
            break
        stop = _last(u, j, t, need)
        source = G[free[order[j]]]
        for q in range(j, stop):
            v = source[free[order[q]]]
            for i in range(k):
                v -= rows[i, order[j]] * eliminated[i, order[q]]
            row[q] = v
        row[j] += penalty
        gained = bo[j] * bo[j] / row[j]
        columns[k] = free[order[j]]
        c = _keep(row, row[j], bo, j, stop, t - 1, smallest, need - gained, kept, target)
        if c < t - 1:
            continue
        names = free[order[kept[:c]]]
        if t == 2:
            filled = _second(G, names, order, kept, c, rows, eliminated, row, j, penalty, base - gained, margin, target, data, columns, heap, filled)  # noqa: E501
            continue
        H = np.empty((c, c))
        for a in range(c):
            source = G[names[a]]
            for e in range(a + 1):
                v = source[names[e]] - row[kept[a]] * row[kept[e]] / row[j]
                for i in range(k):
                    v -= rows[i, order[kept[a]]] * eliminated[i, order[kept[e]]]
                H[a, e] = v
                H[e, a] = v
            H[a, a] += penalty
        filled, nodes = _subtree(H, target[:c], names, base - gained, t - 1, smallest, margin, data, columns, heap, filled, nodes)  # noqa: E501
        if nodes < 0:
            break
    return filled, nodes


@njit(cache=True)
def _second(G, names, order, kept, c, rows, eliminated, row, j, penalty, base, margin, target, data, columns, heap, filled):  # type: ignore[no-untyped-def]  # noqa: E501
    """Finish a region's last column: its gain is exact, from the diagonal alone."""
    k = rows.shape[0]
    for a in range(c):
        pivot = G[names[a], names[a]] + penalty - row[kept[a]] * row[kept[a]] / row[j]
        for i in range(k):
            pivot -= rows[i, order[kept[a]]] * eliminated[i, order[kept[a]]]
        worst = heap[0][0] if filled == heap[0].size else np.inf
        if pivot <= 0.0 or target[a] * target[a] > (base - worst + margin) * pivot:
            columns[k + 1] = names[a]
            filled = _leaf(data, columns, heap, filled)
    return filled
