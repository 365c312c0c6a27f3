"""The best cut for a region, by descent over dual points (T12).

The log mass of exp(-kappa cut) is convex in the dual point and the penalty. Its smooth part takes
gradient steps with momentum; the conjugates take a proximal step, which is the slope of the loss's
envelope (Moreau's identity), so that every iterate lies in their domain.
"""

from __future__ import annotations

import numpy as np

from dpsubset.clock import late
from dpsubset.compiled import compiled
from dpsubset.cuts.symmetric import inclusion

__all__ = ["descend"]


@compiled()
def _smooth_part(v, places, inside, penalty, ridge, radius, kappa, t, share):  # type: ignore[no-untyped-def]
    """Return the log mass without the conjugates; fill in every column's inclusion.

    A feature weighs what its columns weigh together, and they have its inclusion (T32).
    """
    w = np.zeros(places[-1] + 1)
    for j in range(v.size):
        w[places[j]] += v[j] * v[j] * (kappa / (4.0 * penalty))
    total, shares = inclusion(w[inside:], t)
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
def descend(  # type: ignore[no-untyped-def]
    rows, parameters, table, places, inside, y, rule, t, a, most, enough, target, watch
):
    """Improve the dual point `a`, in place, for supports of `inside` features and t of the others.

    `table` holds a column a row, those inside first, `places` the feature of each, in order;
    `rule` = (ridge, radius, kappa). Ends after `most` steps, when ten steps gain less than
    `enough`, at the `target` (a log mass over the table's features), or when the watch is late.
    """
    ridge, radius, kappa = rule
    k, n = table.shape
    if n == 0 or k == 0:
        return
    share = np.empty(k)
    value, slope, curve = np.empty(n), np.empty(n), np.empty(n)
    v = np.dot(table, a)
    others = places[-1] + 1 - inside
    for j in range(k):
        share[j] = 1.0 if places[j] < inside else min(1.0, t / max(others, 1))
    penalty = _best_penalty(v, share, ridge, radius)
    for _ in range(3):
        _smooth_part(v, places, inside, penalty, ridge, radius, kappa, t, share)
        penalty = _best_penalty(v, share, ridge, radius)
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
            v_new = np.dot(table, slope)
            moved = _smooth_part(v_new, places, inside, penalty, ridge, radius, kappa, t, share)
            d = slope - ahead
            allowed = smooth + np.dot(gradient, d) + np.dot(d, d) / (2.0 * step)
            if moved <= allowed + 1e-9 * abs(smooth) or not step > 1e-30 or late(watch, work):
                break
            step *= 0.5
        if late(watch, work):
            break
        mass = moved
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
            break
        if iteration % 10 == 9:
            if mark - best < enough:
                break
            mark = best
