"""Trial fits over the l1 ball: coefficients one by one, at a multiplier of the ball (T24j)."""

from __future__ import annotations

import numpy as np

from dpsubset.compiled import compiled
from dpsubset.sampling.shrunk import own_curve
from dpsubset.sampling.trials import LOOSE, count, fitted, shift, width_of

__all__ = ["l1_ends", "l1_turn", "sweep"]


@compiled(nogil=True)
def _with_signs(alone, trial, which, q, f):  # type: ignore[no-untyped-def]
    """Fill in the change to a feature's fit where its signs, none of them 0, stay; or say no."""
    c, beta, left = trial.change.size, trial.beta[which], trial.left[which]
    own, change, weight = trial.short, trial.change, trial.numbers[which, 3]
    width = width_of(alone, f)
    for j in range(c):
        x = beta[q * c + j]
        if x == 0.0 and j < width:
            return False
        own[j] = left[q * c + j] - (weight if x > 0.0 else -weight if x < 0.0 else 0.0)
    fitted(alone, f, trial.numbers[which, 0], own, 0, change)
    stay = True
    for j in range(width):
        stay = stay and beta[q * c + j] * (beta[q * c + j] + change[j]) > 0.0
    return stay


@compiled(nogil=True, error_model="numpy")
def sweep(alone, ridge, trial, which, at, g):  # type: ignore[no-untyped-def]
    """Fit every coefficient to what all leave, at the multiplier of the l1 ball."""
    c, strip, products = trial.change.size, trial.strip, trial.products
    beta, left, weight = trial.beta[which], trial.left[which], trial.numbers[which, 3]
    own, penalty = trial.short, ridge + trial.numbers[which, 0]
    length, first, there = 0.0, at * c, which == 1
    for q in range(trial.held.size):
        new = there and q == at
        f = g if new else trial.held[q]
        if _with_signs(alone, trial, which, q, f):
            length += shift(trial, which, at, new, q, penalty)
            continue
        for j in range(width_of(alone, f)):
            i = q * c + j
            curved = penalty + (strip[j, i] if new else products[i, i])
            x = left[i] + curved * beta[i]
            x = max(x - weight, 0.0) + min(x + weight, 0.0)
            x = x / curved - beta[i]
            if x == 0.0:
                continue
            beta[i] += x
            length += abs(x)
            row = strip[j] if new else products[i]
            if there and not new:
                for m in range(c):
                    own[m] = left[first + m] - x * strip[m, i]
            for m in range(left.size):
                left[m] -= x * row[m]
            if there and not new:
                for m in range(c):
                    left[first + m] = own[m]
            left[i] -= penalty * x
    count(trial.numbers[which], alone.numbers[4], length)


@compiled(nogil=True, error_model="numpy")
def l1_ends(alone, pairs, norm, energy, trial, which, at, g):  # type: ignore[no-untyped-def]
    """Do what `ends` does, over the l1 ball."""
    beta, left, weight = trial.beta[which], trial.left[which], trial.numbers[which, 3]
    mu = trial.numbers[which, 0]
    targets, held, overlaps, there = alone.targets, trial.held, pairs.overlaps, which == 1
    values, vectors, own, c = alone.values, alone.vectors, trial.short, trial.change.size
    reached, tied, size, square, off, common = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    known = pairs.multipliers.size > 0
    for q in range(held.size):
        f, first = g if there and q == at else held[q], q * c
        share = 0.0
        for j in range(c):
            x, w = beta[first + j], left[first + j]
            reached += targets[f, j] * x
            tied += w * x
            size += abs(x)
            square += x * x
            if x > 0.0:
                own[j] = w - weight
            elif x < 0.0:
                own[j] = w + weight
            else:
                own[j] = max(w - weight, 0.0) + min(w + weight, 0.0)
        for i in range(c):
            v = 0.0
            for j in range(c):
                v += vectors[f, i, j] * own[j]
            share += v * v / (values[f, i] + mu)
        trial.shares[which, q] = share
        off += share
        overlap = 0.0 if known else 1.0
        for p in range(held.size):
            if known and p != q:
                overlap += overlaps[0, f, g if there and p == at else held[p]]
        common = max(common, overlap)
    radius, unit, trace = norm.radius, alone.numbers[0], alone.numbers[1]
    trial.numbers[which, 2] = size
    apart = max((norm.ridge + mu) / (alone.numbers[3] + mu), 1.0 - common)
    if known:
        apart = max(apart, pairs.apart[0])
    error = unit * (trace + beta.size * mu) * trial.numbers[which, 1]
    longer = max(size, radius)
    rounding = unit * (energy + 2.0 * ((trace + mu) * longer + weight) * longer)
    spent = reached - tied - mu * square
    share = radius / size if size > 0.0 else 0.0
    if spent * share > reached:
        share = min(share, max(reached / spent, 0.0))
    least = share * (2.0 * reached - share * spent)
    inner = reached + tied + 2.0 * weight * (radius - size) + mu * radius * radius
    reduced = (1.0 + LOOSE) * np.sqrt(off) + error / np.sqrt(alone.numbers[2] + mu)
    most = inner + reduced * reduced / apart
    rounding = (rounding + error * longer) * max(share, 1.0)
    return least - rounding, most + rounding, inner - least


@compiled(nogil=True, error_model="numpy")
def l1_turn(alone, norm, trial, which, at, g):  # type: ignore[no-untyped-def]
    """Choose another multiplier of the l1 ball, by what every coefficient alone would do."""
    c, beta = trial.change.size, trial.beta[which]
    size, slope, far = 0.0, 0.0, trial.residuals.shape[1] > 0
    for q in range(trial.held.size):
        new = which == 1 and q == at
        for j in range(c):
            i = q * c + j
            if beta[i] != 0.0:
                size += abs(beta[i])
                if far:
                    slope += 1.0 / own_curve(alone, g if new else trial.held[q], 0.0, j, j)
                else:
                    own = trial.strip[j, i] if new else trial.products[i, i]
                    slope += 1.0 / (norm.ridge + own)
    numbers = trial.numbers[which]
    if slope > 0.0:
        weight = numbers[3]
        if weight != numbers[4]:  # features that overlap answer more than each alone
            slope = max(slope, (numbers[5] - size) / (weight - numbers[4]))
        numbers[4], numbers[5] = weight, size
        numbers[3] = max(weight + (size - norm.radius) / slope, 0.0)
