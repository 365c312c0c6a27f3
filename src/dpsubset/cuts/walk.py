"""A walk over all supports of quadratic scores: parts with a bound a support, and parts with one.

Columns are numbered by their order in the walk. A part holds the supports that contain the columns
of its prefix, and choose the others from `start` on. Kept parts have room for a bound of every
support; the others have one bound for all of theirs: no subset gains more than all columns (T41).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled

__all__ = ["Form", "Parts", "fill", "any_member", "form_bound", "member", "part_bounds", "survey", "weigh"]

_MOST_IN_A_PART = 4096  # supports of a kept part of two columns or more to choose


class Form(NamedTuple):
    """Scores from below: base - b_A'H_AA^-1 b_A, included columns eliminated, columns in order."""

    H: Floats
    b: Floats
    base: float
    least: float  # pivots are at least this, rounding or not


class Parts(NamedTuple):
    """Parts that cover every support once."""

    prefix: NDArray[np.int64]  # a row each, of `length` columns
    length: NDArray[np.int64]
    start: NDArray[np.int64]
    offset: NDArray[np.int64]  # of the bounds of its supports, -1 if it has one for all
    size: NDArray[np.int64]  # how many those are
    log_size: Floats  # the same for every part


@compiled(nogil=True)
def _eliminate(H, b, c, least, to_H, to_b, whole):  # type: ignore[no-untyped-def]
    """Fill in H and b of the columns after c with c eliminated; return what c gains.

    Where one more column is chosen the diagonal of H is enough.
    """
    k = b.size
    pivot = max(H[c, c], least)
    share = b[c] / pivot
    for i in range(c + 1, k):
        f = H[c, i] / pivot
        to_b[i] = b[i] - f * b[c]
        if whole:
            for j in range(i, k):
                to_H[i, j] = H[i, j] - f * H[c, j]
        else:
            to_H[i, i] = H[i, i] - f * H[c, i]
    return share * b[c]


@compiled(nogil=True)
def _suffix_gains(H, b, start, least, F):  # type: ignore[no-untyped-def]
    """Fill F[j] with the gain of all columns from j on, for j >= start."""
    k = b.size
    m = k - start
    L = np.empty((m, m))
    z = np.empty(m)
    total = 0.0
    for r in range(m):  # columns from the last to the first
        i = k - 1 - r
        pivot = H[i, i]
        value = b[i]
        for q in range(r):
            v = H[i, k - 1 - q]
            for u in range(q):
                v -= L[r, u] * L[q, u]
            v /= L[q, q]
            L[r, q] = v
            pivot -= v * v
            value -= v * z[q]
        root = np.sqrt(max(pivot, least))
        L[r, r] = root
        z[r] = value / root
        total += z[r] * z[r]
        F[i] = total


@compiled(nogil=True)
def _choose(m, t):  # type: ignore[no-untyped-def]
    """Return the number of subsets of t out of m, as a float."""
    out = 1.0
    for i in range(t):
        out *= (m - i) / (i + 1.0)
    return max(out, 0.0)


@compiled(nogil=True)
def survey(form, t, kappa, light, most_parts, most_kept, wide):  # type: ignore[no-untyped-def]
    """Part all supports; where the log mass is at most `light`, one bound serves a whole part.

    Returns the parts and how many bounds they keep, or no parts if there would be too many of
    either. What all columns gain is found anew at nodes with at most `wide` columns left.
    """
    k = form.b.size
    parts = Parts(
        np.empty((most_parts, t), np.int64),
        np.empty(most_parts, np.int64),
        np.empty(most_parts, np.int64),
        np.empty(most_parts, np.int64),
        np.zeros(most_parts, np.int64),
        np.empty(most_parts),
    )
    count, kept = 0, 0
    H = np.empty((t, k, k))
    b = np.empty((t, k))
    F = np.empty((t, k))
    gain = np.zeros(t + 1)
    at = np.zeros(t, np.int64)  # the next column to try at each level
    H[0] = form.H
    b[0] = form.b
    _suffix_gains(H[0], b[0], 0, form.least, F[0])
    level = 0
    while level >= 0:
        left = t - level
        c = at[level]
        if k - c < left:
            level -= 1
            continue
        # All that choose from c on.
        size = _choose(k - c, left)
        light_enough = np.log(size) + kappa * (gain[level] + F[level, c] - form.base) <= light
        if light_enough or left == 1 or (left == 2 and size <= _MOST_IN_A_PART):
            if not light_enough:
                kept += int(round(size))
            if count == most_parts or kept > most_kept:
                return parts, 0, kept
            for q in range(level):
                parts.prefix[count, q] = at[q] - 1
            parts.length[count] = level
            parts.start[count] = c
            parts.log_size[count] = np.log(size)
            parts.offset[count] = -1
            if not light_enough:
                parts.size[count] = int(round(size))
                parts.offset[count] = kept - parts.size[count]
            count += 1
            level -= 1
            continue
        at[level] = c + 1
        below = level + 1
        gain[below] = gain[level] + _eliminate(
            H[level], b[level], c, form.least, H[below], b[below], left > 2
        )
        if left > 2 and k - c - 1 <= wide:
            _suffix_gains(H[below], b[below], c + 1, form.least, F[below])
        else:  # what all could gain before the column was taken, less what it gained itself
            for j in range(c + 1, k):
                F[below, j] = F[level, c] + gain[level] - gain[below]
        at[below] = c + 1
        level = below
    return parts, count, kept


@compiled(nogil=True)
def _enter(form, prefix, length, H, b):  # type: ignore[no-untyped-def]
    """Eliminate a prefix; return the gain, and in which of the two buffers the rest is."""
    gain = 0.0
    H[0] = form.H
    b[0] = form.b
    now = 0
    for q in range(length):
        gain += _eliminate(H[now], b[now], prefix[q], form.least, H[1 - now], b[1 - now], True)
        now = 1 - now
    return gain, now


@compiled(nogil=True)
def fill(form, t, parts, first, last, bounds):  # type: ignore[no-untyped-def]
    """Raise the bounds of the kept parts `first` to `last` to those of a form."""
    prefix, length, start, offset = parts.prefix, parts.length, parts.start, parts.offset
    k = form.b.size
    H = np.empty((t + 1, k, k))
    b = np.empty((t + 1, k))
    gain = np.zeros(t + 1)
    H[0] = form.H
    b[0] = form.b
    ready = 0  # columns of `held` that are eliminated, one a level
    held = np.full(t + 1, -1, np.int64)
    for r in range(first, last):
        if offset[r] < 0:
            continue
        same = 0
        while same < min(ready, length[r]) and held[same] == prefix[r, same]:
            same += 1
        for q in range(same, length[r]):
            held[q] = prefix[r, q]
            gain[q + 1] = gain[q] + _eliminate(
                H[q], b[q], held[q], form.least, H[q + 1], b[q + 1], q + 1 < t - 1
            )
        ready = length[r]
        A, v, base = H[ready], b[ready], form.base - gain[ready]
        at = offset[r]
        if t - length[r] == 1:
            for i in range(start[r], k):
                low = base - v[i] * v[i] / max(A[i, i], form.least)
                if low > bounds[at]:
                    bounds[at] = low
                at += 1
            continue
        for i in range(start[r], k - 1):
            pivot = max(A[i, i], form.least)
            share = v[i] / pivot
            above = base - share * v[i]
            for j in range(i + 1, k):
                f = A[i, j] / pivot
                e = v[j] - A[i, j] * share
                low = above - e * e / max(A[j, j] - f * A[i, j], form.least)
                if low > bounds[at]:
                    bounds[at] = low
                at += 1


@compiled(nogil=True)
def part_bounds(form, parts, first, last, lows):  # type: ignore[no-untyped-def]
    """Raise the common bounds of the parts `first` to `last` that have one to those of a form."""
    k = form.b.size
    H = np.empty((2, k, k))
    b = np.empty((2, k))
    F = np.empty(k)
    for r in range(first, last):
        if parts.offset[r] >= 0:
            continue
        gain, now = _enter(form, parts.prefix[r], parts.length[r], H, b)
        _suffix_gains(H[now], b[now], parts.start[r], form.least, F)
        lows[r] = max(lows[r], form.base - gain - F[parts.start[r]])


@compiled(nogil=True)
def weigh(kappa, parts, lows, bounds, first, last, masses, peaks):  # type: ignore[no-untyped-def]
    """Fill in the log mass of parts, and the log of their largest weight."""
    for r in range(first, last):
        if parts.offset[r] < 0:
            peaks[r] = -kappa * lows[r]
            masses[r] = peaks[r] + parts.log_size[r]
            continue
        kept = bounds[parts.offset[r] : parts.offset[r] + parts.size[r]]
        low = kept.min()
        peaks[r] = -kappa * low
        total = 0.0
        if low < np.inf:
            for i in range(kept.size):
                total += np.exp(kappa * (low - kept[i]))
        masses[r] = peaks[r] + np.log(total) if total > 0.0 else -np.inf


@compiled(nogil=True)
def member(parts, r, number, k, out):  # type: ignore[no-untyped-def]
    """Fill `out` with the columns of a kept part's support of that number."""
    n, t = parts.length[r], out.size
    for q in range(n):
        out[q] = parts.prefix[r, q]
    i = parts.start[r]
    if t - n == 1:
        out[t - 1] = i + number
        return
    while number >= k - 1 - i:
        number -= k - 1 - i
        i += 1
    out[t - 2] = i
    out[t - 1] = i + 1 + number


@compiled(nogil=True)
def any_member(parts, r, uniforms, k, out):  # type: ignore[no-untyped-def]
    """Fill `out` with a uniform support of a part; takes one uniform number a column chosen."""
    n, t, low = parts.length[r], out.size, parts.start[r]
    for q in range(n):
        out[q] = parts.prefix[r, q]
    m = k - low
    for q in range(n, t):  # Floyd's algorithm
        top = m - t + q
        new = low + min(int(uniforms[q - n] * (top + 1)), top)
        for other in range(n, q):
            if out[other] == new:
                new = low + top
                break
        out[q] = new


@compiled(nogil=True)
def form_bound(H, b, base, least, columns, L, z):  # type: ignore[no-untyped-def]
    """Return the bound of one support, by a Cholesky factorisation."""
    low = base
    for r in range(columns.size):
        i = columns[r]
        pivot = H[i, i]
        value = b[i]
        for q in range(r):
            j = columns[q]
            v = H[min(i, j), max(i, j)]
            for u in range(q):
                v -= L[r, u] * L[q, u]
            v /= L[q, q]
            L[r, q] = v
            pivot -= v * v
            value -= v * z[q]
        root = np.sqrt(max(pivot, least))
        L[r, r] = root
        z[r] = value / root
        low -= z[r] * z[r]
    return low
