"""Elementary symmetric polynomials in log space: all subsets of a fixed size at once (T13)."""

from __future__ import annotations

import numpy as np

from dpsubset.compiled import compiled

__all__ = ["block_tables", "draw_subset", "inclusion", "log_total"]


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
    """Return the log total and every column's probability of inclusion in a random subset."""
    p = w.size
    suffix = np.full((p + 1, t + 1), -np.inf)
    suffix[p, 0] = 0.0
    for j in range(p - 1, -1, -1):
        suffix[j] = suffix[j + 1]
        _absorb(suffix[j], w[j])
    total = suffix[0, t]
    prefix = np.full(t + 1, -np.inf)
    prefix[0] = 0.0
    out = np.empty(p)
    for j in range(p):
        mass = -np.inf
        for r in range(t):
            mass = _logadd(mass, prefix[r] + suffix[j + 1, t - 1 - r])
        out[j] = min(np.exp(mass + w[j] - total), 1.0)
        _absorb(prefix, w[j])
    return total, out


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


@compiled()
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
def draw_subset(w, t, block, own, later, uniforms):  # type: ignore[no-untyped-def]
    """Draw positions of a subset of size t with probability proportional to exp(sum of w).

    First how many fall into each block, then which ones inside; `uniforms` needs one number for
    each block and one for each column of a block that is opened.
    """
    chosen = np.empty(t, np.int64)
    found = 0
    used = 0
    for g in range(own.shape[0]):
        left = t - found
        if left == 0:
            break
        u = uniforms[used]
        used += 1
        take = 0
        reached = np.exp(own[g, 0] + later[g + 1, left] - later[g, left])
        while reached < u and take < left:
            take += 1
            reached += np.exp(own[g, take] + later[g + 1, left - take] - later[g, left])
        while take > 0 and own[g, take] + later[g + 1, left - take] == -np.inf:
            take -= 1  # a sum that rounds to less than one must not lead to an empty choice
        if take == 0:
            continue
        start = g * block
        stop = min(start + block, w.size)
        suffix = np.full((stop - start + 1, take + 1), -np.inf)
        suffix[stop - start, 0] = 0.0
        for j in range(stop - start - 1, -1, -1):
            suffix[j] = suffix[j + 1]
            _absorb(suffix[j], w[start + j])
        for j in range(stop - start):
            if take == 0:
                break
            u = uniforms[used]
            used += 1
            if u < np.exp(w[start + j] + suffix[j + 1, take - 1] - suffix[j, take]):
                chosen[found] = start + j
                found += 1
                take -= 1
    return chosen
