"""The best cut for a region, by descent over dual points (T12).

The log mass of exp(-kappa cut) is convex in the dual point and the penalty. Its smooth part takes
gradient steps with momentum; the conjugates take a proximal step, which is the slope of the loss's
envelope (Moreau's identity), so that every iterate lies in their domain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.clock import late
from dpsubset.compiled import compiled
from dpsubset.cuts.symmetric import quick_inclusion

__all__ = ["descend"]

_FIRST = 10  # steps with all rows
_LOOK = 5  # steps after which it is asked whether they gained enough
_ROUNDS = 3  # choices of the rows that are near a bend
_MANY = 1000  # rows from which it pays to leave some out
_MOST = 0.4  # share of the rows that may be near
_REACHES = (1.0, 0.5, 0.25, 0.12, 0.06)  # how far a loss is straight, of the radius


class _Far(NamedTuple):
    """What rows add that keep their slopes: to X'a, and to the log mass by their conjugates."""

    products: Floats
    mass: float


@compiled()
def _smooth_part(v, places, inside, penalty, ridge, radius, kappa, t, share):  # type: ignore[no-untyped-def]
    """Return the log mass without the conjugates; fill in every column's inclusion.

    A feature weighs what its columns weigh together, and they have its inclusion (T32).
    """
    w = np.zeros(places[-1] + 1)
    for j in range(v.size):
        w[places[j]] += v[j] * v[j] * (kappa / (4.0 * penalty))
    total, shares = quick_inclusion(w[inside:], t)
    for j in range(v.size):
        share[j] = 1.0 if places[j] < inside else shares[places[j] - inside]
    return w[:inside].sum() + total + kappa * (penalty - ridge) * radius * radius


@compiled()
def _best_penalty(v, share, ridge, radius):  # type: ignore[no-untyped-def]
    reached = 0.0
    for j in range(v.size):
        reached += share[j] * v[j] * v[j]
    return max(ridge, np.sqrt(reached) / (2.0 * radius), 1e-150)


@compiled()
def _shares(v, places, inside, rule, t):  # type: ignore[no-untyped-def]
    """Return every column's inclusion at X'a, and the best penalty for them."""
    ridge, radius, kappa = rule
    others = places[-1] + 1 - inside
    share = np.empty(v.size)
    for j in range(v.size):
        share[j] = 1.0 if places[j] < inside else min(1.0, t / max(others, 1))
    penalty = _best_penalty(v, share, ridge, radius)
    for _ in range(3):
        _smooth_part(v, places, inside, penalty, ridge, radius, kappa, t, share)
        penalty = _best_penalty(v, share, ridge, radius)
    return share, penalty


@compiled()
def descend(  # type: ignore[no-untyped-def]
    rows, parameters, table, places, inside, y, rule, t, a, most, enough, target, straight, watch
):
    """Improve the dual point `a`, in place, for supports of `inside` features and t of the others.

    `table` holds a column a row, those inside first, `places` the feature of each, in order;
    `rule` = (ridge, radius, kappa). Ends after `most` steps, when steps gain less than `enough`
    for every ten of them, at the `target` (a log mass over the table's features), or when the
    watch is late.

    Where the loss is `straight` but for its kinks, a row far from one keeps its slope, and most
    steps are made without it: whatever is chosen here, every dual point is valid.
    """
    k, n = table.shape
    if n == 0 or k == 0:
        return
    none = _Far(np.zeros(k), 0.0)
    first = min(most, _FIRST) if straight and n >= _MANY else most
    mass, made = _steps(
        rows, parameters, table, places, inside, y, rule, t, a, first, enough, target, watch, none
    )
    left = most - first
    for _ in range(_ROUNDS):
        if made == 0 or left <= 0:
            return
        near, beyond = _near_rows(rows, parameters, table, places, inside, y, rule, t, a)
        if near.size == 0:  # every slope stays: there is nothing to step with
            return
        if near.size > _MOST * n:
            _steps(
                rows,
                parameters,
                table,
                places,
                inside,
                y,
                rule,
                t,
                a,
                left,
                enough,
                target,
                watch,
                none,
            )
            return
        few = np.empty((k, near.size))
        for j in range(k):
            for i in range(near.size):
                few[j, i] = table[j, near[i]]
        point = a[near]
        far = _Far(np.dot(table, a) - np.dot(few, point), beyond)
        now, _ = _steps(
            rows,
            parameters,
            few,
            places,
            inside,
            y[near],
            rule,
            t,
            point,
            left,
            enough,
            target,
            watch,
            far,
        )
        a[near] = point
        left -= _FIRST
        if not now < mass - enough:
            return
        mass = now


@compiled()
def _near_rows(rows, parameters, table, places, inside, y, rule, t, a):  # type: ignore[no-untyped-def]
    """Return the rows near a bend of their loss, and what the others add to the log mass."""
    n, radius, kappa = y.size, rule[1], rule[2]
    v = np.dot(table, a)
    share, penalty = _shares(v, places, inside, rule, t)
    predicted = np.dot(share * v / (-2.0 * penalty), table)
    value, slope, curve = np.empty(n), np.empty(n), np.empty(n)
    low, high = np.empty(n), np.empty(n)
    count = n
    for reach in _REACHES:
        rows(y, predicted - reach * radius, np.inf, parameters, value, low, curve)
        rows(y, predicted + reach * radius, np.inf, parameters, value, high, curve)
        count = 0
        for i in range(n):
            if not (low[i] == high[i] == a[i]):
                count += 1
        if count <= _MOST * n / 2:
            break
    rows(y, predicted, np.inf, parameters, value, slope, curve)
    near = np.empty(count, np.int64)
    beyond, at = 0.0, 0
    for i in range(n):
        if low[i] == high[i] == a[i]:
            beyond += kappa * (a[i] * predicted[i] - value[i])
        else:
            near[at] = i
            at += 1
    return near, beyond


@compiled()
def _steps(  # type: ignore[no-untyped-def]
    rows, parameters, table, places, inside, y, rule, t, a, most, enough, target, watch, far
):
    """Make steps of the descent on some rows; return the log mass, and 0 if it has ended."""
    ridge, radius, kappa = rule
    k, n = table.shape
    value, slope, curve = np.empty(n), np.empty(n), np.empty(n)
    v = np.dot(table, a) + far.products
    share, penalty = _shares(v, places, inside, rule, t)
    best = np.inf
    point, products = a.copy(), v.copy()  # the last iterate
    ahead, v_ahead = a.copy(), v.copy()  # where the momentum leads
    step = 0.0
    momentum = 1.0
    mark = np.inf
    work = 1e-3 * n * k + 0.02 * n + 0.1 * k * t  # of a look at a point
    for iteration in range(most):
        smooth = _smooth_part(v_ahead, places, inside, penalty, ridge, radius, kappa, t, share)
        gradient = np.dot(share * v_ahead * (kappa / (2.0 * penalty)), table)
        if step == 0.0:
            step = 0.1 * np.sqrt(n) / max(np.sqrt(np.dot(gradient, gradient)), 1e-100)
        moved = 0.0
        while True:
            sigma = step * kappa
            w = (ahead - step * gradient) / sigma
            rows(y, w, sigma, parameters, value, slope, curve)
            v_new = np.dot(table, slope) + far.products
            moved = _smooth_part(v_new, places, inside, penalty, ridge, radius, kappa, t, share)
            d = slope - ahead
            allowed = smooth + np.dot(gradient, d) + np.dot(d, d) / (2.0 * step)
            if moved <= allowed + 1e-9 * abs(smooth) or not step > 1e-30 or late(watch, work):
                break
            step *= 0.5
        if late(watch, work):
            return best, 0
        mass = moved + far.mass
        for i in range(n):
            mass += kappa * (slope[i] * w[i] - value[i] - slope[i] * slope[i] / (2.0 * sigma))
        if mass < best:
            best = mass
            a[:] = slope
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
            ratio = (momentum - 1.0) / following
            momentum = following
        else:
            ratio = 0.0
            momentum = 1.0
        ahead = slope + ratio * (slope - point)
        v_ahead = v_new + ratio * (v_new - products)
        point[:] = slope
        products[:] = v_new
        penalty = _best_penalty(v_new, share, ridge, radius)
        step *= 1.2
        if best <= target:
            return best, 0
        if iteration % _LOOK == _LOOK - 1:
            if mark - best < enough * _LOOK / 10:
                return best, 0
            mark = best
    return best, most
