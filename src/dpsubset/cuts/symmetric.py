"""Elementary symmetric polynomials in log space: all subsets of a fixed size at once (T13)."""

from __future__ import annotations

import numpy as np

from dpsubset.compiled import compiled

__all__ = [
    "block_tables",
    "draw_subset",
    "draw_subsets",
    "draw_within",
    "inclusion",
    "log_total",
    "next_block",
    "quick_inclusion",
    "suffixes",
]

_STRETCH = 1 << 15  # columns whose sums are held at once


@compiled()
def _logadd(a, b):  # type: ignore[no-untyped-def]
    if a < b:
        a, b = b, a
    if b == -np.inf:
        return a
    return a + np.log1p(np.exp(b - a))


@compiled()
def _absorb(poly, w):  # type: ignore[no-untyped-def]
    """Multiply a log polynomial by (1 + e^w x), in place, up to its degree."""
    for r in range(poly.size - 1, 0, -1):
        poly[r] = _logadd(poly[r], poly[r - 1] + w)


@compiled()
def log_total(w, t):  # type: ignore[no-untyped-def]
    """Return the log of the sum, over all subsets of size t, of exp(sum of w)."""
    poly = np.full(t + 1, -np.inf)
    poly[0] = 0.0
    for j in range(w.size):
        _absorb(poly, w[j])
    return poly[t]


@compiled()
def inclusion(w, t):  # type: ignore[no-untyped-def]
    """Return the log total and every column's probability of inclusion in a random subset.

    Sums over later columns are kept where a stretch of columns begins, and made anew within it: a
    few numbers for every column of a wide table would be too many.
    """
    p = w.size
    step = max(min(p, _STRETCH), 1)
    count = max((p + step - 1) // step, 1)
    later = np.full((count + 1, t + 1), -np.inf)
    later[count, 0] = 0.0
    for g in range(count - 1, 0, -1):
        later[g] = later[g + 1]
        for j in range(min((g + 1) * step, p) - 1, g * step - 1, -1):
            _absorb(later[g], w[j])
    prefix = np.full(t + 1, -np.inf)
    prefix[0] = 0.0
    suffix = np.empty((step + 1, t + 1))
    total = -np.inf
    out = np.empty(p)
    for g in range(count):
        first = g * step
        size = min(step, p - first)
        suffix[size] = later[g + 1]
        for i in range(size - 1, -1, -1):
            suffix[i] = suffix[i + 1]
            _absorb(suffix[i], w[first + i])
        if g == 0:
            total = suffix[0, t]
        for i in range(size):
            j = first + i
            mass = -np.inf
            for r in range(t):
                mass = _logadd(mass, prefix[r] + suffix[i + 1, t - 1 - r])
            out[j] = min(np.exp(mass + w[j] - total), 1.0)
            _absorb(prefix, w[j])
    return total, out


@compiled()
def quick_inclusion(w, t):  # type: ignore[no-untyped-def]
    """Return the same by plain sums of products, relative to the largest weight, if that serves.

    That is a fifth of the time. All terms are positive, so nothing cancels; where the total is
    nearly lost to underflow logarithms are taken.
    """
    p = w.size
    top = w.max() if p else 0.0
    later = np.zeros((p + 1, t + 1))
    later[p, 0] = 1.0
    x = np.exp(w - top)
    for j in range(p - 1, -1, -1):
        later[j, 0] = 1.0
        for r in range(1, t + 1):
            later[j, r] = later[j + 1, r] + later[j + 1, r - 1] * x[j]
    total = later[0, t]
    if t == 0 or not 1e-250 < total < 1e250:
        return inclusion(w, t)
    before = np.zeros(t + 1)
    before[0] = 1.0
    out = np.empty(p)
    for j in range(p):
        mass = 0.0
        for r in range(t):
            mass += before[r] * later[j + 1, t - 1 - r]
        out[j] = min(mass * x[j] / total, 1.0)
        for r in range(t, 0, -1):
            before[r] += before[r - 1] * x[j]
    return np.log(total) + t * top, out


@compiled()
def _block(w, poly):  # type: ignore[no-untyped-def]
    """Fill `poly` with the log polynomial of a block of columns.

    Plain sums of products relative to the block's largest weight cost a tenth of log space; log
    space is taken where such a sum could be lost to underflow.
    """
    t = min(poly.size - 1, w.size)
    top = w.max()
    plain = np.zeros(t + 1)
    plain[0] = 1.0
    for j in range(w.size):
        v = np.exp(w[j] - top)
        for r in range(t, 0, -1):
            plain[r] += plain[r - 1] * v
    poly[:] = -np.inf
    poly[0] = 0.0
    if plain[t] > 1e-250 and plain.max() < 1e250:
        for r in range(1, t + 1):
            poly[r] = np.log(plain[r]) + r * top
    else:
        for j in range(w.size):
            _absorb(poly, w[j])


@compiled(nogil=True)
def block_tables(w, t, block):  # type: ignore[no-untyped-def]
    """Return each block's own polynomial and the product of it and all later ones."""
    count = (w.size + block - 1) // block
    own = np.full((count, t + 1), -np.inf)
    later = np.full((count + 1, t + 1), -np.inf)
    later[count, 0] = 0.0
    for g in range(count - 1, -1, -1):
        _block(w[g * block : min((g + 1) * block, w.size)], own[g])
        for r in range(t + 1):
            for q in range(r + 1):
                later[g, r] = _logadd(later[g, r], own[g, q] + later[g + 1, r - q])
    return own, later


@compiled()
def _how_many(own, later, g, left, u):  # type: ignore[no-untyped-def]
    """Draw how many of the columns that are left fall into block g."""
    take = 0
    reached = np.exp(own[g, 0] + later[g + 1, left] - later[g, left])
    while reached < u and take < left:
        take += 1
        reached += np.exp(own[g, take] + later[g + 1, left - take] - later[g, left])
    while take > 0 and own[g, take] + later[g + 1, left - take] == -np.inf:
        take -= 1  # a sum that rounds to less than one must not lead to an empty choice
    return take


@compiled()
def next_block(own, later, g, left, uniforms, used):  # type: ignore[no-untyped-def]
    """Return the next block, from g on, that has columns, how many, and the numbers used up."""
    while g < own.shape[0]:
        take = _how_many(own, later, g, left, uniforms[used])
        used += 1
        if take > 0:
            return g, take, used
        g += 1
    return g, 0, used


@compiled()
def draw_within(w, take, uniforms, used):  # type: ignore[no-untyped-def]
    """Draw so many positions of a block with weights w; return them, and the numbers used up."""
    chosen = np.empty(take, np.int64)
    found = 0
    suffix = np.full((w.size + 1, take + 1), -np.inf)
    suffix[w.size, 0] = 0.0
    for j in range(w.size - 1, -1, -1):
        suffix[j] = suffix[j + 1]
        _absorb(suffix[j], w[j])
    for j in range(w.size):
        left = take - found
        if left == 0:
            break
        u = uniforms[used]
        used += 1
        if u < np.exp(w[j] + suffix[j + 1, left - 1] - suffix[j, left]):
            chosen[found] = j
            found += 1
    return chosen, used


@compiled(nogil=True)
def draw_subset(w, t, block, own, later, uniforms):  # type: ignore[no-untyped-def]
    """Draw positions of a subset of size t with probability proportional to exp(sum of w).

    First how many fall into each block, then which ones inside; `uniforms` needs one number for
    each block and one for each column of a block that is opened.
    """
    chosen = np.empty(t, np.int64)
    found = used = g = 0
    while found < t:
        g, take, used = next_block(own, later, g, t - found, uniforms, used)
        if take == 0:
            break
        start = g * block
        inside, used = draw_within(w[start : min(start + block, w.size)], take, uniforms, used)
        for i in range(take):
            chosen[found + i] = start + inside[i]
        found += take
        g += 1
    return chosen


@compiled()
def suffixes(w, t, block):  # type: ignore[no-untyped-def]
    """Return the log polynomials of the ends of every block, as `draw_subsets` needs them."""
    count = (w.size + block - 1) // block
    out = np.full((count, block + 1, t + 1), -np.inf)
    for g in range(count):
        start = g * block
        size = min(block, w.size - start)
        out[g, size, 0] = 0.0
        for j in range(size - 1, -1, -1):
            out[g, j] = out[g, j + 1]
            _absorb(out[g, j], w[start + j])
    return out


@compiled(nogil=True)
def draw_subsets(w, t, block, own, later, ends, uniforms):  # type: ignore[no-untyped-def]
    """Draw a subset, as `draw_subset` does, for every row of `uniforms`; return their weights, too.

    A row needs one number for each block and one for each column of a subset.
    """
    m = uniforms.shape[0]
    chosen, weights = np.empty((m, t), np.int64), np.zeros(m)
    for row in range(m):
        found = used = g = 0
        while found < t:
            g, left, used = next_block(own, later, g, t - found, uniforms[row], used)
            if left == 0:
                break
            start, place = g * block, 0
            size = min(block, w.size - start)
            while left > 0:
                u = uniforms[row, used]
                used += 1
                reached, at = 0.0, size - left
                for j in range(place, size - left + 1):
                    share = np.exp(w[start + j] + ends[g, j + 1, left - 1] - ends[g, place, left])
                    reached += share
                    if share > 0.0:
                        at = j
                    if reached >= u:
                        break
                chosen[row, found] = start + at
                weights[row] += w[start + at]
                found, left, place = found + 1, left - 1, at + 1
            g += 1
    return chosen, weights
