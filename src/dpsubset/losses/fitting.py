"""Fits of any loss on a few columns, enclosed from both sides (T16).

A loss with kinks is smoothed by its Moreau envelope around a dual point (the augmented
Lagrangian); every smooth problem is solved by Newton steps, each the exact minimiser of a
quadratic over the ball. The slopes of the envelope are a dual point inside the conjugate's domain,
so every iterate gives a lower bound.
"""

from __future__ import annotations

import numpy as np

from dpsubset.clock import late, stopped
from dpsubset.compiled import compiled
from dpsubset.losses.ball import step
from dpsubset.sums import dots, total

__all__ = ["envelope", "fit_rows", "penalty_conjugate"]

_OUTER = 60
_INNER = 40
_TRIALS = 20  # of a line search, before it takes whatever is lower
_FIRST = 4.0  # sharpness of the first envelope
_FACTOR = 4.0  # of every further one against the last
_EASY = 4  # steps on an envelope, after which a sharper one is next
_SHARPEST = 1e13  # against the first
_RETURNS = 4  # to a less sharp envelope
_BLIND = 1e-14  # of the sum that makes up a value: a decrease that a line search does not see
_ROW = 0.02  # work on a row's envelope, in the units of a watch
_DEPENDENT = 1e-14  # length of a column, against the longest, that is rounding only

# All in units of the value without columns, which no score exceeds.
_ROUNDING = 1e-15  # no fit is asked for a smaller gap
_COARSE = 1e-13  # a gap that calls for another basis


@compiled()
def envelope(rows, parameters, y, w, sigma):  # type: ignore[no-untyped-def]
    """Return value, slope and curvature of the envelope of every row; NaN where none is given."""
    filled = np.full((3, y.size), np.nan)
    rows(y, w, sigma, parameters, filled[0], filled[1], filled[2])
    return filled


@compiled()
def _fill(rows, y, w, sigma, parameters, value, slope, curve):  # type: ignore[no-untyped-def]
    """Fill in the envelope; a row that the loss's function did not come to is not a number."""
    value[:] = np.nan
    rows(y, w, sigma, parameters, value, slope, curve)


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
def _proven(value, slope, w, sigma):  # type: ignore[no-untyped-def]
    """Return -sum l*(slope): l*(a) = a u - l(u) at the envelope's own minimiser u = w - a/sigma."""
    half = 0.5 / sigma
    terms = np.empty(w.size)
    for i in range(w.size):
        terms[i] = value[i] - slope[i] * (w[i] - half * slope[i])
    return total(terms)


@compiled(fastmath={"reassoc"})
def _size(slope, w):  # type: ignore[no-untyped-def]
    """Return sum |slope w|, which tells how much rounding a sum of losses has."""
    total = 0.0
    for i in range(w.size):
        total += abs(slope[i] * w[i])
    return total


@compiled(fastmath={"reassoc"})
def _bend(curve, along):  # type: ignore[no-untyped-def]
    """Return the curvature along a direction of the predictions."""
    total = 0.0
    for i in range(along.size):
        total += curve[i] * along[i] * along[i]
    return total


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


@compiled(error_model="numpy")
def _search(  # type: ignore[no-untyped-def]
    rows,
    parameters,
    y,
    sigma,
    ridge,
    x,
    w,
    direction,
    along,
    here,
    decrease,
    value,
    slope,
    curve,
    watch,
):
    """Return the share of the direction to go, and the value there; fill the rows of that point.

    The slope there is at most half of what it was. A step that ends anywhere lower would stop in
    front of the kinks that are in its way, again and again; this one makes their rows curved.
    """
    low, low_value, low_rise = 0.0, here, -decrease
    high, high_value, high_rise = 1.0, here, 0.0
    share = 1.0
    for trial in range(2 * _TRIALS):
        _fill(rows, y, w + share * along, sigma, parameters, value, slope, curve)
        point = x + share * direction
        moved = total(value) + ridge * np.dot(point, point)
        rise = np.dot(slope, along) + 2.0 * ridge * np.dot(point, direction)
        if (share == 1.0 and rise <= 0.0) or late(watch, _ROW * y.size):
            return share, moved
        if moved < here and (abs(rise) <= 0.5 * decrease or trial >= _TRIALS):
            return share, moved
        if rise > 0.0:
            high, high_value, high_rise = share, moved, rise
        else:
            low, low_value, low_rise = share, moved, rise
        # In turn: where the slopes seem to cross zero, where two tangents meet (a kink), where
        # the quadratic at hand has its minimum, the middle.
        cut = 0.5
        if trial % 4 == 0:
            cut = -low_rise / (high_rise - low_rise)
        elif trial % 4 == 1:
            cut = (low_value - high_value) / (high - low) + high_rise
            cut /= high_rise - low_rise
        elif trial % 4 == 2:
            bend = _bend(curve, along) + 2.0 * ridge * np.dot(direction, direction)
            if bend > 0.0:
                cut = (share - rise / bend - low) / (high - low)
        share = low + (high - low) * (cut if 0.0 < cut < 1.0 else 0.5)
    _fill(rows, y, w + low * along, sigma, parameters, value, slope, curve)
    return low, low_value


@compiled()
def _descend(  # type: ignore[no-untyped-def]
    rows,
    parameters,
    X,
    y,
    sigma,
    ridge,
    radius,
    x,
    t,
    w,
    goal,
    enough,
    value,
    slope,
    curve,
    watch,
):
    """Minimise the envelope at w = t + shift over x, with t = X'x, by Newton steps.

    Goes on until what is missing is at most `goal`, or steps that a line search cannot judge
    bring nothing. Returns what is missing, and the number of steps.
    """
    _fill(rows, y, w, sigma, parameters, value, slope, curve)
    here = total(value) + ridge * np.dot(x, x)
    new = np.empty(x.size)
    missing, mu = np.inf, 0.0
    small = False  # the last step was smaller than what the line search sees
    last_x, last_t, last_w = x, t, w
    for steps in range(_INNER):
        if late(watch, (_ROW + 1e-3 * x.size * x.size) * y.size):
            return missing, steps
        gradient = dots(X, slope)
        before, missing = missing, _excess(x, gradient, ridge, radius)
        if small and not missing <= 0.5 * before:
            if missing > before:
                x[:], t[:], w[:] = last_x, last_t, last_w
                _fill(rows, y, w, sigma, parameters, value, slope, curve)
                missing = before
            return missing, steps
        if missing <= goal or here - missing >= enough:
            return missing, steps
        mu = step(_curved(X, curve), gradient, ridge, radius, x, mu, new)
        direction = new - x
        along = np.dot(direction, X)
        decrease = -(np.dot(gradient, direction) + 2.0 * ridge * np.dot(x, direction))
        small = decrease <= _BLIND * (here + _size(slope, w))
        if small:
            last_x, last_t, last_w = x.copy(), t.copy(), w.copy()
            _fill(rows, y, w + along, sigma, parameters, value, slope, curve)
            share, here = 1.0, total(value) + ridge * np.dot(new, new)
        else:
            share, here = _search(
                rows, parameters, y, sigma, ridge, x, w, direction, along, here, decrease,
                value, slope, curve, watch,
            )  # fmt: skip
        x += share * direction
        t += share * along
        w += share * along
    return _excess(x, dots(X, slope), ridge, radius), _INNER


@compiled()
def _fit(rows, parameters, smooth, X, y, ridge, radius, beta, a, wanted, enough, empty, watch):  # type: ignore[no-untyped-def]
    """Do what `fit_rows` does, in the basis of the columns as they are."""
    k, n = X.shape
    value, slope, curve = np.empty(n), np.empty(n), np.empty(n)
    t = np.dot(beta, X)
    _fill(rows, y, t, np.inf, parameters, value, slope, curve)
    primal = total(value) + ridge * np.dot(beta, beta)
    if primal > empty:
        beta[:] = 0.0
        t[:] = 0.0
        primal = empty
    dual = -np.inf
    x = beta.copy()
    w = t.copy()
    sigma = sharpest = bluntest = np.inf
    if not smooth:
        # An envelope as wide as a part of the predictions that the ball allows, or of the loss.
        reach = 0.0
        for j in range(k):
            reach = max(reach, np.dot(X[j], X[j]))
        one = _FIRST / max(radius * np.sqrt(reach / n), 1e-100)
        other = _FIRST * np.dot(slope, slope) / max(empty, 1e-100)
        sigma = max(one, other)
        sharpest = _SHARPEST * sigma
        bluntest = min(one, other)  # rounding grows with the width
    returns = 0
    shift = a.copy()
    for _ in range(_OUTER):
        goal = 0.9 * wanted
        if not smooth:
            w = t + shift / sigma
            goal = max(0.2 * min(primal - dual, 1e-2 * primal), 0.3 * wanted)
        missing, more = _descend(
            rows, parameters, X, y, sigma, ridge, radius, x, t, w, goal,
            enough if smooth else np.inf, value, slope, curve, watch,
        )  # fmt: skip
        if stopped(watch):
            break
        bound = _proven(value, slope, w, sigma)
        matched = np.dot(slope, t)
        lower = bound - penalty_conjugate(dots(X, slope), ridge, radius)
        better = lower - dual
        if lower > dual:
            dual = lower
            a[:] = slope
        shift[:] = slope
        t[:] = np.dot(x, X)  # anew: what many steps have carried along is no longer exact (T19.7)
        _fill(rows, y, t, np.inf, parameters, value, slope, curve)
        losses = total(value)
        loose = losses - bound - matched  # what the envelope adds to the gap
        reached = losses + ridge * np.dot(x, x)
        better = max(better, primal - reached)
        if reached < primal:
            primal = reached
            beta[:] = x
        if primal - dual <= wanted or dual >= enough or sigma > sharpest:
            break
        good = better > 0.5 * (primal - dual)
        if smooth and (more < _INNER or not good):
            break
        if missing <= max(goal, 0.5 * loose):
            if not good or more <= _EASY:  # else the new dual point alone leads on, and is cheaper
                sigma *= _FACTOR if good else _FACTOR**2
        elif not good:  # too sharp for the arithmetic: go back, the dual point stays good
            returns += 1
            sigma = max(sigma / _FACTOR**2, bluntest)
            if returns == _RETURNS:
                break
    return primal, dual


@compiled(nogil=True)
def fit_rows(rows, parameters, smooth, X, y, ridge, radius, beta, a, wanted, enough, watch):  # type: ignore[no-untyped-def]
    """Minimise sum l(y, beta'X) + ridge |beta|^2 over |beta| <= radius; X holds a column a row.

    `beta` and `a` are where to start and are overwritten by the best coefficients and the best
    dual point. Ends when primal - dual <= wanted, or dual >= enough (the fit is then known to be
    of no use), or nothing improves. Returns primal and dual; of no meaning if the watch says
    `stopped`.
    """
    k, n = X.shape
    if n == 0:
        beta[:] = 0.0
        return 0.0, 0.0
    norm = np.sqrt(np.dot(beta, beta))
    if norm > radius:
        beta *= radius / norm
    value, slope, curve = np.empty(n), np.empty(n), np.empty(n)
    _fill(rows, y, np.zeros(n), np.inf, parameters, value, slope, curve)
    empty = total(value)
    wanted = max(wanted, _ROUNDING * empty)
    primal, dual = _fit(
        rows, parameters, smooth, X, y, ridge, radius, beta, a, wanted, enough, empty, watch
    )
    if primal - dual <= max(wanted, _COARSE * empty) or dual >= enough or k < 2 or stopped(watch):
        return primal, dual
    # Columns that are nearly dependent are told apart in a basis where they are orthogonal.
    _, Q = np.linalg.eigh(np.dot(X, X.T))
    turned = np.dot(np.ascontiguousarray(Q.T), X)
    size = np.zeros(k)
    for j in range(k):
        size[j] = np.sqrt(np.dot(turned[j], turned[j]))
    kept = size >= _DEPENDENT * size.max()
    turned = turned[kept]
    x, point = np.dot(beta, Q)[kept], a.copy()
    _, lower = _fit(
        rows, parameters, smooth, turned, y, ridge, radius, x, point, wanted, enough, empty, watch
    )
    x = np.dot(np.ascontiguousarray(Q[:, kept]), x)
    norm = np.sqrt(np.dot(x, x))
    if norm > radius:
        x *= radius / norm
    _fill(rows, y, np.dot(x, X), np.inf, parameters, value, slope, curve)
    reached = total(value) + ridge * np.dot(x, x)
    if reached < primal:
        primal = reached
        beta[:] = x
    lower += penalty_conjugate(dots(turned, point), ridge, radius)
    lower -= penalty_conjugate(dots(X, point), ridge, radius)
    if lower > dual:
        dual = lower
        a[:] = point
    return primal, dual
