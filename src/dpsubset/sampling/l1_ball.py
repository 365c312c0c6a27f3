"""Least squares over an l1 ball from the moments of a few columns, to a certified gap (T24)."""

from __future__ import annotations

import numpy as np

from dpsubset.compiled import compiled
from dpsubset.losses.ball import solve

__all__ = ["l1_gain", "l1_scores"]

_FACES = 8  # of the l1 ball for each column, before gradient steps are taken
_DESCENTS = 50  # gradient steps, before faces are tried again
_TRIALS = 400  # of both, before a fit gives up


@compiled(nogil=True)
def _project(x, radius, out):  # type: ignore[no-untyped-def]
    """Fill `out`, the point of the l1 ball that is nearest to x."""
    sizes = np.sort(np.abs(x))[::-1]
    total, level = 0.0, 0.0
    for i in range(x.size):
        total += sizes[i]
        if sizes[i] * (i + 1) <= total - radius:
            break
        level = (total - radius) / (i + 1)
    level = max(level, 0.0)
    for i in range(x.size):
        out[i] = np.sign(x[i]) * max(abs(x[i]) - level, 0.0)


@compiled(nogil=True)
def _slopes(H, b, radius, x, slopes):  # type: ignore[no-untyped-def]
    """Fill half the gradient; return by how much F(x) exceeds its least over the ball, at most.

    F is convex, and its tangent at x is least over the ball at a vertex.
    """
    slope, steepest = 0.0, 0.0
    for i in range(b.size):
        slopes[i] = -b[i]
        for j in range(b.size):
            slopes[i] += H[i, j] * x[j]
        slope += 2.0 * slopes[i] * x[i]
        steepest = max(steepest, 2.0 * abs(slopes[i]))
    return max(slope + radius * steepest, 0.0)


@compiled(nogil=True)
def _along_face(H, slopes, signs, damp, d):  # type: ignore[no-untyped-def]
    """Fill the way from a point to the minimum of its face, where the sum of sizes is kept.

    What is common to all slopes is taken away first: it does not count on the face, and would
    cancel badly where H is nearly singular.
    """
    face = np.flatnonzero(signs)
    k = face.size
    block, down, one = np.empty((k, k)), np.empty(k), signs[face]
    for i in range(k):
        down[i] = -slopes[face[i]]
        for j in range(k):
            block[i, j] = H[face[i], face[j]]
    down -= one * np.sum(one * down) / k
    free, level = np.empty(k), np.empty(k)
    solve(block, down, damp, 1e60, free)
    solve(block, one, damp, 1e60, level)
    free -= level * (np.sum(one * free) / np.sum(one * level))
    d[:] = 0.0
    d[face] = free


@compiled(nogil=True)
def _faces(H, b, radius, gap, damp, x):  # type: ignore[no-untyped-def]
    """Go from face to face of the ball's boundary; return the gap of the best point, left in x.

    A column whose coefficient reaches zero leaves the face; at a face's minimum the column of
    steepest slope comes in.
    """
    k = b.size
    point, signs, slopes, d = x.copy(), np.sign(x), np.empty(k), np.empty(k)
    short = np.inf
    if not signs.any():
        return short
    for _ in range(_FACES * (k + 1)):
        here = _slopes(H, b, radius, point, slopes)
        if here < short:
            short = here
            x[:] = point
        if not short > gap:
            break
        _along_face(H, slopes, signs, damp, d)
        share, last = 1.0, -1
        for i in range(k):
            if signs[i] * (point[i] + share * d[i]) < 0.0:
                share, last = abs(point[i] / d[i]), i
        total = 0.0
        for i in range(k):
            point[i] += share * d[i]
            total += abs(point[i])
        if last >= 0:
            point[last] = signs[last] = 0.0
        else:
            new = np.argmax(np.abs(slopes))
            if signs[new] == 0.0:
                signs[new] = -np.sign(slopes[new])
        if not 0.0 < total < np.inf:
            break
        point *= radius / total
    return short


@compiled(nogil=True)
def _descend(H, b, radius, x):  # type: ignore[no-untyped-def]
    """Take projected gradient steps with momentum, which is forgotten when it points back."""
    k = b.size
    steepness = 1e-300
    for i in range(k):
        steepness = max(steepness, np.sum(np.abs(H[i])))
    ahead, slopes, moved = x.copy(), np.empty(k), np.empty(k)
    momentum = 1.0
    for _ in range(_DESCENTS):
        _slopes(H, b, radius, ahead, slopes)
        _project(ahead - slopes / steepness, radius, moved)
        after = 0.5 + np.sqrt(0.25 + momentum * momentum)
        if np.sum((ahead - moved) * (moved - x)) > 0.0:
            momentum, after = 1.0, 1.0
        ahead[:] = moved + (momentum - 1.0) / after * (moved - x)
        x[:] = moved
        momentum = after


@compiled(nogil=True)
def l1_gain(G, b, ridge, radius, gap, beta):  # type: ignore[no-untyped-def]
    """Fill `beta`, the minimiser over |beta|_1 <= radius; return its gain and what it may lack.

    R_1 = y'y - gain. The Euclidean ball of that radius holds the l1 ball, so its minimiser is
    tried first; then the faces of the l1 ball, from where gradient steps have come to. Whatever
    led to a point, its gap is certified (T24).
    """
    k = b.size
    H, x, slopes = G.copy(), np.empty(k), np.empty(k)
    for i in range(k):
        H[i, i] += ridge
    solve(G, b, ridge, radius, beta)
    _project(beta, radius, x)
    beta[:] = x
    short = _slopes(H, b, radius, beta, slopes)
    damp = 0.1 * gap / (radius * radius)  # changes F by less than the gap
    for _ in range(_TRIALS):
        if not short > gap:
            break
        tried = x.copy()
        lacking = _faces(H, b, radius, gap, damp, tried)
        if lacking < short:
            short = lacking
            beta[:] = tried
        if short > gap:
            _descend(H, b, radius, x)
    gain = 0.0
    _slopes(H, b, radius, beta, slopes)
    for i in range(k):
        gain += (b[i] - slopes[i]) * beta[i]
    return gain, short


@compiled(nogil=True)
def l1_scores(G, b, energy, supports, ridge, radius, gap):  # type: ignore[no-untyped-def]
    """Return R_1(S) for every row S of `supports`, and the largest gap among them."""
    m, k = supports.shape
    scores, beta, block = np.empty(m), np.empty(k), np.empty((k, k))
    widest = 0.0
    for r in range(m):
        for i in range(k):
            for j in range(k):
                block[i, j] = G[supports[r, i], supports[r, j]]
        gain, short = l1_gain(block, b[supports[r]], ridge, radius, gap, beta)
        scores[r] = energy - gain
        widest = max(widest, short)
    return scores, widest
