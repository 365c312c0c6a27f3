"""A walk over all supports of quadratic scores: parts with a bound a support, and parts with one.

Features are numbered by their order in the walk; the columns of one are neighbours in it (T32). A
part holds the supports that contain the features of its prefix, and choose the others from `start`
on. Kept parts have room for a bound of every
support; the others have one bound for all of theirs: no subset gains more than all columns (T41).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled

__all__ = [
    "COMMON",
    "MOST_IN_A_PART",
    "STREAMED",
    "Form",
    "Parts",
    "Tails",
    "any_member",
    "by_gain",
    "columns_of",
    "fill",
    "fill_part",
    "form_bound",
    "joined",
    "levels",
    "low",
    "member",
    "part_bounds",
    "stream",
    "survey",
    "tails",
    "weigh",
]

COMMON = -1  # one bound serves all supports of a part
STREAMED = -2  # bounds are computed when they are needed, one part at a time
FEWEST_IN_ONE = 16  # supports of a part with one bound for all
MOST_IN_A_PART = 4096  # supports of a kept part, if it has more than one feature to choose
LIKELY = 4  # forms that bound a part
FEW_IN_A_PART = 128  # the same where other parts have one bound for all


class Form(NamedTuple):
    """Scores from below: base - b_A'H_AA^-1 b_A, included columns eliminated, columns in order."""

    H: Floats
    b: Floats
    base: float
    least: float  # pivots are at least this, rounding or not
    starts: NDArray[np.int64]  # where each feature's columns begin; at the end, their number


class Tails(NamedTuple):
    """Forms with all features from each one on eliminated: what is left of those before it.

    One row a form in every array but `at` and `starts`.
    """

    H: Floats  # one matrix after the other, its upper triangle filled
    b: Floats
    low: Floats  # base less what the eliminated features gain
    least: Floats
    at: NDArray[np.int64]  # where each matrix begins
    starts: NDArray[np.int64]


class Parts(NamedTuple):
    """Parts that cover every support once."""

    prefix: NDArray[np.int64]  # a row each, of `length` columns
    length: NDArray[np.int64]
    start: NDArray[np.int64]
    offset: NDArray[np.int64]  # of the bounds of its supports, or COMMON, or STREAMED
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
def _eliminate_block(starts, H, b, c, least, to_H, to_b, whole):  # type: ignore[no-untyped-def]
    """Do the same for all columns of feature c, one after the other.

    Where one more feature is chosen the diagonal blocks of H are enough.
    """
    low, high = starts[c], starts[c + 1]
    gain = 0.0
    A, v = H, b
    for p in range(low, high):
        pivot = max(A[p, p], least)
        gain += v[p] / pivot * v[p]
        for g in range(c, starts.size - 1):
            end = b.size if whole or g == c else starts[g + 1]
            for i in range(max(starts[g], p + 1), starts[g + 1]):
                f = A[p, i] / pivot
                to_b[i] = v[i] - f * v[p]
                for j in range(i, end):
                    to_H[i, j] = A[i, j] - f * A[p, j]
        A, v = to_H, to_b
    return gain


@compiled(nogil=True)
def _take_in(form, H, b, c, to_H, to_b, whole):  # type: ignore[no-untyped-def]
    """Eliminate feature c; a feature of one column takes the short way."""
    if form.starts.size - 1 == b.size:
        return _eliminate(H, b, c, form.least, to_H, to_b, whole)
    return _eliminate_block(form.starts, H, b, c, form.least, to_H, to_b, whole)


@compiled(nogil=True)
def _block_gain(H, b, low, high, least, L, z):  # type: ignore[no-untyped-def]
    """Return the gain of the columns from low to high, by a Cholesky factorisation."""
    gain = 0.0
    for r in range(high - low):
        pivot = H[low + r, low + r]
        value = b[low + r]
        for q in range(r):
            v = H[low + q, low + r]
            for u in range(q):
                v -= L[r, u] * L[q, u]
            v /= L[q, q]
            L[r, q] = v
            pivot -= v * v
            value -= v * z[q]
        root = np.sqrt(max(pivot, least))
        L[r, r] = root
        z[r] = value / root
        gain += z[r] * z[r]
    return gain


@compiled(nogil=True)
def _widest(starts):  # type: ignore[no-untyped-def]
    """Return the largest number of columns of a feature."""
    out = 0
    for g in range(starts.size - 1):
        out = max(out, starts[g + 1] - starts[g])
    return out


@compiled(nogil=True)
def tails(form):  # type: ignore[no-untyped-def]
    """Eliminate the features of a form from the last to the first, and keep what each step left."""
    starts = form.starts
    k, width = starts.size - 1, form.b.size
    at = np.zeros(k + 2, np.int64)
    for c in range(k + 1):
        at[c + 1] = at[c] + starts[c] ** 2
    out = Tails(
        np.empty((1, at[k + 1])),
        np.empty((1, k + 1, width)),
        np.full((1, k + 1), form.base),
        np.full(1, form.least),
        at,
        starts,
    )
    H, b = form.H.copy(), form.b.copy()
    column = np.empty(width)
    for c in range(k, -1, -1):
        if c < k:
            out.low[0, c] = out.low[0, c + 1]
            for p in range(starts[c + 1] - 1, starts[c] - 1, -1):
                pivot = max(H[p, p], form.least)
                out.low[0, c] -= b[p] / pivot * b[p]
                column[:p] = H[:p, p]
                for i in range(p):
                    f = column[i] / pivot
                    b[i] -= f * b[p]
                    for j in range(i, p):
                        H[i, j] -= f * column[j]
        m = starts[c]
        out.b[0, c] = b
        for i in range(m):
            row = at[c] + i * m
            for j in range(i, m):
                out.H[0, row + j] = H[i, j]
    return out


def joined(many: Sequence[Tails]) -> Tails:
    """Return the tails of several forms together."""
    if len(many) == 1:
        return many[0]
    return many[0]._replace(
        H=np.concatenate([one.H for one in many]),
        b=np.concatenate([one.b for one in many]),
        low=np.concatenate([one.low for one in many]),
        least=np.concatenate([one.least for one in many]),
    )


class _Room(NamedTuple):
    """Room to work in."""

    L: Floats
    z: Floats
    columns: NDArray[np.int64]


@compiled(nogil=True)
def _room(starts, t):  # type: ignore[no-untyped-def]
    most = t * _widest(starts)
    return _Room(np.empty((most, most)), np.empty(most), np.empty(most, np.int64))


@compiled(nogil=True)
def _low(tails, f, prefix, length, start, room):  # type: ignore[no-untyped-def]
    """Return the bound of a form on some features, in order, with all from `start` on."""
    L, z, columns = room
    low, m, first = tails.low[f, start], tails.starts[start], tails.at[start]
    H, b, least = tails.H[f], tails.b[f, start], tails.least[f]
    count = columns_of(tails.starts, prefix[:length], columns)
    for r in range(count):
        i = columns[r]
        pivot = H[first + i * m + i]
        value = b[i]
        for q in range(r):
            v = H[first + columns[q] * m + i]
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


def low(tails: Tails, features: NDArray[np.intp]) -> float:
    """Return the bound of the first form on some features, in order."""
    room, k = _room(tails.starts, features.size), tails.starts.size - 1
    return float(_low(tails, 0, features, features.size, k, room))


@compiled(nogil=True)
def by_gain(form):  # type: ignore[no-untyped-def]
    """Return features in an order in which the last ones gain little together.

    From the end: the next one is that which adds the least.
    """
    starts, k = form.starts, form.starts.size - 1
    H, b = form.H.copy(), form.b.copy()
    widest = _widest(starts)
    L, z = np.empty((widest, widest)), np.empty(widest)
    out, left = np.empty(k, np.int64), np.ones(k, np.bool_)
    for place in range(k - 1, -1, -1):
        least = np.inf
        for g in range(k):
            if left[g]:
                gain = _block_gain(H, b, starts[g], starts[g + 1], form.least, L, z)
                if gain < least:
                    least, out[place] = gain, g
        c = out[place]
        left[c] = False
        for p in range(starts[c], starts[c + 1]):
            pivot = max(H[p, p], form.least)
            row = H[p].copy()
            value = b[p]
            for i in range(b.size):
                f = row[i] / pivot
                b[i] -= f * value
                H[i] -= f * row
    return out


@compiled(nogil=True)
def _choose(m, t):  # type: ignore[no-untyped-def]
    """Return the number of subsets of t out of m, as a float."""
    out = 1.0
    for i in range(t):
        out *= (m - i) / (i + 1.0)
    return max(out, 0.0)


@compiled(nogil=True)
def survey(tails, t, kappa, light, peak, most_parts, most_kept):  # type: ignore[no-untyped-def]
    """Part all supports; where they weigh little, one bound serves a whole part.

    That is: the log of all weights together is at most `light`, of each of them at most `peak`, by
    one of the forms that looked best when the part's last feature was taken. Returns the parts,
    bounds of those with one, which form gave them, and how many bounds the others keep; or no parts
    if there would be too many of either.
    """
    k, count_of_forms = tails.starts.size - 1, tails.least.size
    parts = Parts(
        np.empty((most_parts, t), np.int16),
        np.empty(most_parts, np.int64),
        np.empty(most_parts, np.int64),
        np.empty(most_parts, np.int64),
        np.zeros(most_parts, np.int64),
        np.empty(most_parts),
    )
    lows, by = np.full(most_parts, -np.inf), np.zeros(most_parts, np.int64)
    count, kept = 0, np.int64(0)
    at = np.zeros(t, np.int64)  # the next feature to try at each level
    prefix = np.empty(t, np.int64)
    likely = np.zeros((t, min(LIKELY, count_of_forms)), np.int64)  # forms to look at, at each level
    room, every = _room(tails.starts, t), np.empty(count_of_forms)
    some_light = light > -np.inf
    most_in_a_part = FEW_IN_A_PART if some_light else MOST_IN_A_PART
    level, new = 0, True
    while level >= 0:
        left = t - level
        c = at[level]
        if k - c < left:
            level, new = level - 1, False
            continue
        # All that choose from c on.
        size = _choose(k - c, left)
        light_enough = some_light and size > FEWEST_IN_ONE
        low, which = -np.inf, 0
        if light_enough:
            if new and left > 2 and count_of_forms > 1:
                for f in range(count_of_forms):
                    every[f] = _low(tails, f, prefix, level, c, room)
                likely[level] = np.argsort(-every)[: likely.shape[1]]
            elif new and level > 0:
                likely[level] = likely[level - 1]
            light_enough = False
            for f in likely[level]:
                bound = _low(tails, f, prefix, level, c, room)
                if bound > low:
                    low, which = bound, f
                    light_enough = np.log(size) - kappa * low <= light and -kappa * low <= peak
                    if light_enough:
                        break
        if light_enough or left == 1 or size <= most_in_a_part:
            if not light_enough:
                kept += np.int64(np.rint(size))
            if count == most_parts or kept > most_kept:
                return parts, lows, by, 0, kept
            for q in range(level):
                parts.prefix[count, q] = prefix[q]
            parts.length[count] = level
            parts.start[count] = c
            parts.log_size[count] = np.log(size)
            parts.offset[count] = COMMON
            if light_enough:
                lows[count], by[count] = low, which
            else:
                parts.size[count] = np.int64(np.rint(size))
                parts.offset[count] = kept - parts.size[count]
            count += 1
            level, new = level - 1, False
            continue
        prefix[level] = c
        at[level] = c + 1
        level, new = level + 1, True
        at[level] = c + 1
    return parts, lows, by, count, kept


class Levels(NamedTuple):
    """Where a walk is: columns eliminated one after the other, and what that left."""

    H: Floats
    b: Floats
    gain: Floats
    held: NDArray[np.int64]  # columns that are eliminated, one a level; -1 beyond
    at: NDArray[np.int64]


@compiled(nogil=True)
def levels(form, t):  # type: ignore[no-untyped-def]
    """Return a walk at its beginning."""
    k = form.b.size
    out = Levels(
        np.empty((t + 1, k, k)),
        np.empty((t + 1, k)),
        np.zeros(t + 1),
        np.full(t + 1, -1, np.int64),
        np.zeros(t + 1, np.int64),
    )
    out.H[0] = form.H
    out.b[0] = form.b
    return out


@compiled(nogil=True)
def fill_part(form, t, parts, r, walk, bounds, place):  # type: ignore[no-untyped-def]
    """Raise the bounds of a part's supports, which begin at a place, to those of a form."""
    H, b, gain, held, at = walk
    k = form.starts.size - 1
    single = k == form.b.size
    ready = parts.length[r]
    same = 0
    while same < ready and held[same] == parts.prefix[r, same]:
        same += 1
    for q in range(same, ready):
        held[q] = parts.prefix[r, q]
        gain[q + 1] = gain[q] + _take_in(
            form, H[q], b[q], held[q], H[q + 1], b[q + 1], q + 1 < t - 1
        )
    held[ready:] = -1
    level = ready
    at[level] = parts.start[r]
    while level >= ready:
        left = t - level
        c = at[level]
        A, v, base = H[level], b[level], form.base - gain[level]
        if not single and left <= 2:
            place = _last_blocks(form, A, v, base, c, left, H[t], b[t], bounds, place)
            level -= 1
        elif left == 1:
            for i in range(c, k):
                low = base - v[i] * v[i] / max(A[i, i], form.least)
                bounds[place] = max(bounds[place], low)
                place += 1
            level -= 1
        elif left == 2:
            place = _pairs(A, v, base, c, form.least, bounds, place)
            level -= 1
        elif k - c < left:
            level -= 1
        else:
            at[level] = c + 1
            gain[level + 1] = gain[level] + _take_in(
                form, A, v, c, H[level + 1], b[level + 1], True
            )
            level += 1
            at[level] = c + 1


@compiled(nogil=True)
def fill(form, t, parts, which, bounds):  # type: ignore[no-untyped-def]
    """Raise the bounds of those of the parts `which` that are kept to those of a form."""
    walk = levels(form, t)
    for r in which:
        if parts.offset[r] >= 0:
            fill_part(form, t, parts, r, walk, bounds, parts.offset[r])


@compiled(nogil=True)
def stream(form, number, t, kappa, parts, which, lows, served, masses, peaks):  # type: ignore[no-untyped-def]
    """Weigh those of the parts `which` that are streamed by a form; it serves where it is best."""
    walk = levels(form, t)
    room = 1
    for r in which:
        room = max(room, parts.size[r])
    scratch = np.empty(room)
    for r in which:
        if parts.offset[r] != STREAMED:
            continue
        bounds = scratch[: parts.size[r]]
        bounds[:] = -np.inf
        fill_part(form, t, parts, r, walk, bounds, 0)
        low = bounds.min()
        total = 0.0
        for i in range(bounds.size):
            total += np.exp(kappa * (low - bounds[i]))
        mass = np.log(total) - kappa * low
        if mass < masses[r] or served[r] < 0:
            masses[r], peaks[r], lows[r], served[r] = mass, -kappa * low, low, number


@compiled(nogil=True)
def _pairs(A, v, base, first, least, bounds, place):  # type: ignore[no-untyped-def]
    """Raise the bounds of all pairs of columns from `first` on; return the place after them."""
    k = v.size
    for i in range(first, k - 1):
        pivot = max(A[i, i], least)
        share = v[i] / pivot
        above = base - share * v[i]
        for j in range(i + 1, k):
            e = v[j] - A[i, j] * share
            low = above - e * e / max(A[j, j] - A[i, j] * A[i, j] / pivot, least)
            bounds[place] = max(bounds[place], low)
            place += 1
    return place


@compiled(nogil=True)
def _last_blocks(form, A, v, base, first, left, H, b, bounds, place):  # type: ignore[no-untyped-def]
    """Raise the bounds of all single features, or pairs of them, from `first` on.

    H and b are room to work in. Returns the place after the bounds.
    """
    m, starts, least = form.starts.size - 1, form.starts, form.least
    widest = _widest(starts)
    L, z = np.empty((widest, widest)), np.empty(widest)
    for i in range(first, m - left + 1):
        if left == 1:
            low = base - _block_gain(A, v, starts[i], starts[i + 1], least, L, z)
            bounds[place] = max(bounds[place], low)
            place += 1
            continue
        above = base - _eliminate_block(starts, A, v, i, least, H, b, False)
        for j in range(i + 1, m):
            low = above - _block_gain(H, b, starts[j], starts[j + 1], least, L, z)
            bounds[place] = max(bounds[place], low)
            place += 1
    return place


@compiled(nogil=True)
def part_bounds(tails, parts, which, lows):  # type: ignore[no-untyped-def]
    """Raise the common bounds of those of the parts `which` that have one to those of a form."""
    room = _room(tails.starts, parts.prefix.shape[1])
    for r in which:
        if parts.offset[r] == COMMON:
            low = _low(tails, 0, parts.prefix[r], parts.length[r], parts.start[r], room)
            lows[r] = max(lows[r], low)


@compiled(nogil=True)
def weigh(kappa, parts, lows, bounds, which, masses, peaks):  # type: ignore[no-untyped-def]
    """Fill in the log mass of parts, and the log of their largest weight."""
    for r in which:
        if parts.offset[r] == COMMON:
            peaks[r] = -kappa * lows[r]
            masses[r] = peaks[r] + parts.log_size[r]
        if parts.offset[r] < 0:
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
    c = parts.start[r]
    for q in range(n, t):
        while True:
            with_c = np.int64(np.rint(_choose(k - 1 - c, t - q - 1)))
            if number < with_c:
                break
            number -= with_c
            c += 1
        out[q] = c
        c += 1


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
def columns_of(starts, features, out):  # type: ignore[no-untyped-def]
    """Fill `out` with the columns of features; return how many they are."""
    count = 0
    for g in features:
        for j in range(starts[g], starts[g + 1]):
            out[count] = j
            count += 1
    return count


@compiled(nogil=True)
def form_bound(H, b, base, least, columns, L, z):  # type: ignore[no-untyped-def]
    """Return the bound of some columns, by a Cholesky factorisation."""
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
