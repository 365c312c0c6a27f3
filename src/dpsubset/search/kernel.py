"""The compiled part of the branch and bound for squared loss: a region searched to its leaves.

Nodes are counted in units of some 4000 operations. The leaves that fill a list are not among them,
though they can be nearly all the work: the time is kept by the `watch`, which counts them, too.
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

__all__ = ["Moments", "Rest", "Rule", "explore"]


class Moments(NamedTuple):
    """What a support's exact score needs, and how its columns are known outside."""

    gram: Floats
    correlations: Floats  # X'y
    energy: float  # y'y
    ridge: float
    radius: float
    names: NDArray[np.int64]
    keys: NDArray[np.uint64]


class Rest(NamedTuple):
    """What is left at the free columns once those inside, I, are eliminated."""

    rows: Floats  # X_I'X
    eliminated: Floats  # (X_I'X_I + penalty)^-1 X_I'X
    correlations: Floats
    scales: Floats  # the unit of every column, in which all the others are; no gain sees it
    penalty: float  # in the units of the table
    base: float  # the bound at I alone


class Rule(NamedTuple):
    """When a branch can be left."""

    smallest: float  # a bound on the eigenvalues of reduced matrices
    margin: float  # of rounding, in a comparison
    slack: float  # the score below which nothing can be told apart from zero


@compiled()
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
        d = H[j, j] * (1.0 - 1e-13) - largest.sum()
        if d <= smallest * 0.25:
            usable = False
            break
        gershgorin[j] = b[j] * b[j] / d
    if usable and np.sort(gershgorin)[-t:].sum() < np.sort(u)[-t:].sum():
        u[:] = gershgorin


@compiled()
def _last(u, j, t, need):  # type: ignore[no-untyped-def]
    """Return the end of the sorted columns that can join column j in a set of t worth having."""
    stop = j + t
    rest = u[j : j + t - 1].sum()
    while stop < u.size and rest + u[stop] > need:
        stop += 1
    return stop


@compiled()
def _keep(row, b, j, stop, t, smallest, need, kept, target):  # type: ignore[no-untyped-def]
    """List the columns j+1..stop-1 that can still matter once column j is in; return how many.

    Their reduced correlations cost one row of the matrix, the Schur complement a square of it:
    columns leave before it is formed.
    """
    scale = b[j] / row[j]
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


@compiled()
def _reduce(H, j, kept, out):  # type: ignore[no-untyped-def]
    """Eliminate column j from the columns `kept`: a Schur complement."""
    for a in range(kept.size):
        row = H[kept[a]]
        factor = row[j] / H[j, j]
        for c in range(kept.size):
            out[a, c] = row[kept[c]] - factor * H[j, kept[c]]


@compiled()
def _leaf(moments, columns, heap, filled):  # type: ignore[no-untyped-def]
    """Score one support exactly and offer it to the list."""
    s = columns.size
    block = np.empty((s, s))
    target = np.empty(s)
    support = np.empty(s, np.int64)
    key = np.uint64(0)
    for i in range(s):
        target[i] = moments.correlations[columns[i]]
        support[i] = moments.names[columns[i]]
        key ^= moments.keys[columns[i]]
        for k in range(s):
            block[i, k] = moments.gram[columns[i], columns[k]]
    gain = solve(block, target, moments.ridge, moments.radius, np.empty(s))[0]
    score = moments.energy - gain
    return push(heap, filled, score, key, support)


@compiled()
def _leaf_work(size):  # type: ignore[no-untyped-def]
    return 2.0 + 0.02 * size * size * size


@compiled()
def _singles(pivots, b, ids, base, margin, moments, columns, heap, filled, watch):  # type: ignore[no-untyped-def]
    """Go through the last column: its gain is exact, from the diagonal alone.

    Returns the list's length, and the nodes that leaves have cost.
    """
    spent = 0
    for i in range(b.size):
        need = base - worst(heap.scores, filled) + margin
        if pivots[i] <= 0.0 or b[i] * b[i] > need * pivots[i]:
            columns[-1] = ids[i]
            spent += leaf_nodes(heap, filled, columns.size)
            filled = _leaf(moments, columns, heap, filled)
            if late(watch, _leaf_work(columns.size)):
                break
    return filled, spent


@compiled()
def _pairs(H, b, ids, base, margin, moments, columns, heap, filled, watch):  # type: ignore[no-untyped-def]
    """Go through the last two columns: their gain has a closed form, so no bound is needed.

    Returns the list's length, and the nodes that leaves have cost.
    """
    spent = 0
    for i in range(b.size):
        for j in range(i):
            need = base - worst(heap.scores, filled) + margin
            # By elimination, not by the determinant: the latter cancels for near-equal columns.
            f = H[i, j] / H[i, i] if H[i, i] > 0.0 else 0.0
            left = b[j] - f * b[i]
            pivot = H[j, j] - f * H[i, j] if H[i, i] > 0.0 else 0.0
            if pivot <= 0.0 or left * left > (need - b[i] * b[i] / H[i, i]) * pivot:
                columns[-2] = ids[i]
                columns[-1] = ids[j]
                spent += leaf_nodes(heap, filled, columns.size)
                filled = _leaf(moments, columns, heap, filled)
                if late(watch, _leaf_work(columns.size)):
                    return filled, spent
    return filled, spent


@compiled()
def _sort(H, b, ids, u, t, smallest):  # type: ignore[no-untyped-def]
    """Weigh a level's columns and put the heaviest first."""
    _weights(H, b, t, smallest, u)
    order = np.argsort(-u)
    u[:] = u[order]
    b[:] = b[order]
    ids[:] = ids[order]
    H[:] = H[order][:, order]


@compiled()
def _subtree(H, b, ids, base, t, rule, moments, columns, heap, filled, nodes, watch):  # type: ignore[no-untyped-def]
    """Search t >= 2 of the columns `ids`, depth first; `columns` holds the others of the support.

    Every level keeps its own reduced matrix in `pool`, sorted by weight, and the position of its
    next branch.
    """
    m, first = b.size, columns.size - t
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
        bl, ul, nl = bs[level, :c], us[level, :c], names[level, :c]
        if fresh:
            nodes -= 1 + c * c // 4096
            if late(watch, 1.0 + 0.004 * c * c):
                return filled, -1
            if nodes < 0 or worst(heap.scores, filled) <= rule.slack:
                return filled, nodes
            if rem == 2:
                filled, spent = _pairs(
                    Hl, bl, nl, bases[level], rule.margin, moments, columns, heap, filled, watch
                )
                nodes -= spent
                if stopped(watch):
                    return filled, -1
                level, fresh = level - 1, False
                continue
            _sort(Hl, bl, nl, ul, rem, rule.smallest)
            positions[level] = 0
        fresh = False
        need = bases[level] - worst(heap.scores, filled) + rule.margin
        j = positions[level]
        if j + rem > c or not ul[j : j + rem].sum() > need:
            level -= 1
            continue
        positions[level] = j + 1
        if not Hl[j, j] > 0.0:  # proves nothing: leave the region to be split
            return filled, -1
        stop = _last(ul, j, rem, need)
        gained = bl[j] * bl[j] / Hl[j, j]
        size = _keep(Hl[j], bl, j, stop, rem - 1, rule.smallest, need - gained, kept, bs[level + 1])
        if size >= rem - 1:
            columns[first + level] = nl[j]
            starts[level + 1] = starts[level] + c * c
            out = pool[starts[level + 1] : starts[level + 1] + size * size].reshape(size, size)
            _reduce(Hl, j, kept[:size], out)
            bases[level + 1] = bases[level] - gained
            names[level + 1, :size] = nl[kept[:size]]
            counts[level + 1] = size
            level, fresh = level + 1, True
    return filled, nodes


@compiled()
def _entry(G, ids, rest, row, j, a, e):  # type: ignore[no-untyped-def]
    """Return an entry of the matrix reduced by the columns inside and by column j."""
    v = G[ids[a], ids[e]] * rest.scales[a] * rest.scales[e]
    for i in range(rest.rows.shape[0]):
        v -= rest.rows[i, a] * rest.eliminated[i, e]
    return v - row[a] * row[e] / row[j]


@compiled()
def explore(inside, free, rest, rule, moments, size, heap, filled, nodes, watch):  # type: ignore[no-untyped-def]
    """Search all supports inside + A, A among the columns `free`, below the list's worst score.

    The free columns come sorted by the size of their correlations in the `rest`, largest first. At
    this first level, where columns are many, only those parts of the reduced matrix are formed that
    are branched on. Returns the list's length and the nodes left, negative when these or the watch
    ended before the region did.
    """
    G, b, base = moments.gram, rest.correlations, rest.base
    k, m = inside.size, free.size
    t = size - k
    columns = np.empty(size, np.int64)
    columns[:k] = inside
    u = b * b / rule.smallest
    row, target, kept = np.empty(m), np.empty(m), np.empty(m, np.int64)
    for j in range(m - t + 1):
        need = base - worst(heap.scores, filled) + rule.margin
        if not u[j : j + t].sum() > need or worst(heap.scores, filled) <= rule.slack:
            break
        nodes -= 1
        if nodes < 0:
            break
        stop = _last(u, j, t, need)
        source = G[free[j]]
        for q in range(j, stop):
            v = source[free[q]] * rest.scales[j] * rest.scales[q]
            for i in range(k):
                v -= rest.rows[i, j] * rest.eliminated[i, q]
            row[q] = v
        row[j] += rest.penalty * rest.scales[j] ** 2
        if not row[j] > 0.0:
            return filled, -1
        gained = b[j] * b[j] / row[j]
        columns[k] = free[j]
        c = _keep(row, b, j, stop, t - 1, rule.smallest, need - gained, kept, target)
        if c < t - 1:
            continue
        nodes -= c * c // 4096
        if late(watch, 1.0 + 0.001 * (k + 1) * c * c):
            return filled, -1
        ids = free[kept[:c]]
        H = np.empty((c if t > 2 else 1, c))
        for a in range(c):
            for e in range(a + 1 if t > 2 else 0):
                H[a, e] = _entry(G, free, rest, row, j, kept[a], kept[e])
                H[e, a] = H[a, e]
            pivot = _entry(G, free, rest, row, j, kept[a], kept[a])
            pivot += rest.penalty * rest.scales[kept[a]] ** 2
            H[a if t > 2 else 0, a] = pivot
        if t == 2:
            filled, spent = _singles(
                H[0],
                target[:c],
                ids,
                base - gained,
                rule.margin,
                moments,
                columns,
                heap,
                filled,
                watch,
            )
            nodes -= spent
            if stopped(watch):
                return filled, -1
            if nodes < 0:
                break
            continue
        filled, nodes = _subtree(
            H,
            target[:c],
            ids,
            base - gained,
            t - 1,
            rule,
            moments,
            columns,
            heap,
            filled,
            nodes,
            watch,
        )
        if nodes < 0:
            break
    return filled, nodes
