"""Fits of any loss on a few columns, enclosed from both sides (T16).

A loss with kinks is smoothed by its Moreau envelope around a dual point (the augmented
Lagrangian); every smooth problem is solved by Newton steps, each the exact minimiser of a
quadratic over the ball. The slopes of the envelope are a dual point inside the conjugate's domain,
so every iterate gives a lower bound.
"""

from __future__ import annotations

import numpy as np

from dpsubset.compiled import compiled
from dpsubset.losses.ball import step

__all__ = ["fit_rows", "penalty_conjugate"]

_OUTER = 60
_INNER = 40
_SEARCH = 20
_FIRST = 4.0  # sharpness of the first envelope
_RETURNS = 4
_FACTOR = 6.0  # of every further one against the last
_ROUNDING = 1e-15  # of the value without columns: no fit is asked for a smaller gap
_NOISE = 1e-13  # of the same value: a decrease that the line search cannot see


@compiled()
def penalty_conjugate(v, ridge, radius):  # type: ignore[no-untyped-def]
    """Return the largest -v'beta - ridge |beta|^2 over the ball."""
    norm = np.sqrt(np.dot(v, v))
    if norm <= 2.0 * ridge * radius:
        return norm * norm / (4.0 * ridge) if ridge > 0.0 else 0.0
    return radius * norm - ridge * radius * radius


@compiled()
def _excess(x, v, ridge, radius):  # type: ignore[no-untyped-def]
    """Return penalty_conjugate(v) + v'x + ridge |x|^2 for x in the ball, without cancellation."""
    norm = np.sqrt(np.dot(v, v))
    away = 0.0
    if norm <= 2.0 * ridge * radius:
        if norm == 0.0:
            return ridge * np.dot(x, x)
        for j in range(x.size):
            away += (0.5 * v[j] + ridge * x[j]) ** 2
        return away / ridge
    inside = radius * radius
    for j in range(x.size):
        away += (x[j] + radius * v[j] / norm) ** 2
        inside -= x[j] * x[j]
    half = 0.5 * norm / radius
    return half * away + (half - ridge) * max(inside, 0.0)


@compiled()
def _curved(X, curve):  # type: ignore[no-untyped-def]
    """Return X diag(curve) X' / 2 over the rows of the table (columns of X) that are curved."""
    k, n = X.shape
    rows = np.empty(n, np.int64)
    m = 0
    for i in range(n):
        if curve[i] > 0.0:
            rows[m] = i
            m += 1
    part = np.empty((k, m))
    for j in range(k):
        for q in range(m):
            part[j, q] = X[j, rows[q]] * np.sqrt(0.5 * curve[rows[q]])
    return np.dot(part, part.T)


@compiled()
def _descend(rows, parameters, X, y, sigma, ridge, radius, x, t, shifted, value, slope, curve, enough, goal, noise):  # type: ignore[no-untyped-def]
    """Minimise the envelope from x by Newton steps; return what is missing, and the steps."""
    rows(y, shifted, sigma, parameters, value, slope, curve)
    here = value.sum() + ridge * np.dot(x, x)
    k = x.size
    new = np.empty(k)
    kept, kept_t, kept_shifted = x, t, shifted
    missing = np.inf
    blind = False  # the last step was too small for the line search to see
    steps = 0
    for _ in range(_INNER):
        gradient = np.dot(X, slope)
        before = missing
        missing = _excess(x, gradient, ridge, radius)
        if blind and not missing <= 0.5 * before:
            if missing > before:
                x[:] = kept
                t[:] = kept_t
                shifted[:] = kept_shifted
                rows(y, shifted, sigma, parameters, value, slope, curve)
                missing = before
            break
        if missing <= goal:
            break
        H = _curved(X, curve)
        step(H, gradient, ridge, radius, x, new)
        steps += 1
        direction = new - x
        decrease = -(np.dot(gradient, direction) + 2.0 * ridge * np.dot(x, direction))
        along = np.dot(direction, X)
        blind = decrease <= noise
        if blind:
            kept, kept_t, kept_shifted = x.copy(), t.copy(), shifted.copy()
        share, moved = 1.0, here
        low, low_value, low_rise = 0.0, here, -decrease
        high, high_value, high_rise = 0.0, here, 0.0
        for trial in range(_SEARCH):
            rows(y, shifted + share * along, sigma, parameters, value, slope, curve)
            point = x + share * direction
            moved = value.sum() + ridge * np.dot(point, point)
            rise = np.dot(slope, along) + 2.0 * ridge * np.dot(point, direction)
            if blind or (share == 1.0 and rise <= 0.0):
                break
            if moved < here and abs(rise) <= 0.5 * decrease:
                break
            if rise > 0.0:
                high, high_value, high_rise = share, moved, rise
            else:
                low, low_value, low_rise = share, moved, rise
            # Where the line of the slopes is zero, or where the two tangents meet: the one finds
            # the minimum of a quadratic, the other a kink.
            width = high - low
            cut = 0.5
            if trial % 3 == 0:
                cut = -low_rise / (high_rise - low_rise)
            elif trial % 3 == 1:
                cut = (low_value - high_value) / width + high_rise
                cut /= high_rise - low_rise
            share = low + width * (cut if 0.0 < cut < 1.0 else 0.5)
        else:
            rows(y, shifted + share * along, sigma, parameters, value, slope, curve)
            point = x + share * direction
            moved = value.sum() + ridge * np.dot(point, point)
        x += share * direction
        t += share * along
        shifted += share * along
        here = moved
    return missing, steps


@compiled()
def fit_rows(rows, parameters, smooth, X, y, ridge, radius, beta, a, wanted, enough):  # type: ignore[no-untyped-def]
    """Minimise sum l(y, beta'X) + ridge |beta|^2 over |beta| <= radius; X holds a column a row.

    `beta` and `a` are where to start and are overwritten by the best coefficients and the best
    dual point. Ends when primal - dual <= wanted, or dual >= enough (the fit is then known to be
    of no use), or nothing improves. Returns primal, dual, and the number of Newton steps.
    """
    k, n = X.shape
    value, slope, curve = np.empty(n), np.empty(n), np.empty(n)
    norm = np.sqrt(np.dot(beta, beta))
    if norm > radius:
        beta *= radius / norm
    t = np.zeros(n)
    rows(y, t, np.inf, parameters, value, slope, curve)
    empty = value.sum()  # the value without columns, which no score exceeds
    primal = empty
    if norm > 0.0:
        t[:] = np.dot(beta, X)
        rows(y, t, np.inf, parameters, value, slope, curve)
        primal = value.sum() + ridge * np.dot(beta, beta)
        if not primal < empty:
            beta[:] = 0.0
            t[:] = 0.0
            primal = empty
    x = beta.copy()
    wanted = max(wanted, _ROUNDING * empty)
    dual = -np.inf
    multiplier = a.copy()
    sigma = np.inf
    if not smooth:
        reach = 0.0  # the root mean square of predictions as large as the ball allows
        for j in range(k):
            reach = max(reach, np.dot(X[j], X[j]))
        sigma = _FIRST / max(radius * np.sqrt(reach / n), 1e-100)
        sigma = max(sigma, _FIRST * np.dot(slope, slope) / max(empty, 1e-100))
    steps = 0
    returns = 0
    shifted = t.copy()
    loose = np.inf  # what the envelope adds to the gap
    for _ in range(_OUTER):
        if not smooth:
            shifted = t + multiplier / sigma
        goal = max(0.2 * min(primal - dual, 1e-2 * primal), 0.3 * wanted) if not smooth else 0.9 * wanted
        missing, more = _descend(rows, parameters, X, y, sigma, ridge, radius, x, t, shifted, value, slope, curve, enough, goal, _NOISE * empty)
        steps += more
        # The dual point: l*(a) = a u - l(u) at the envelope's own minimiser u.
        bound = 0.0
        for i in range(n):
            bound += value[i] - slope[i] * shifted[i]
            if not smooth:
                bound += slope[i] * slope[i] / (2.0 * sigma)
        matched = np.dot(slope, t)
        multiplier[:] = slope
        lower = bound - penalty_conjugate(np.dot(X, slope), ridge, radius)
        better = lower - dual
        if lower > dual:
            dual = lower
            a[:] = slope
        rows(y, t, np.inf, parameters, value, slope, curve)
        losses = value.sum()
        loose = losses - bound - matched
        reached = losses + ridge * np.dot(x, x)
        better = max(better, primal - reached)
        if reached < primal:
            primal = reached
            beta[:] = x
        if primal - dual <= wanted or dual >= enough:
            break
        better = better > 0.5 * (primal - dual)
        if smooth and (more < _INNER or not better):
            break
        if missing <= max(goal, 0.5 * loose):
            sigma *= _FACTOR if better else _FACTOR**2
        elif not better:  # too sharp for the arithmetic: go back
            returns += 1
            sigma /= _FACTOR**2
            if returns == _RETURNS:
                break
    return primal, dual, steps
