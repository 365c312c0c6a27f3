"""Trial fits over the l1 ball: coefficients one by one, at a multiplier of the ball (T24j)."""

from __future__ import annotations

import numpy as np

from dpsubset.compiled import compiled
from dpsubset.sampling.shrunk import own_curve, shrunk
from dpsubset.sampling.trials import ENOUGH, LOOSE, count, shift, width_of, within

__all__ = ["l1_ends", "l1_turn", "sweep"]


@compiled(nogil=True, counts=False, error_model="numpy")
def sweep(alone, ridge, trial, which, at, g):  # type: ignore[no-untyped-def]
    """Fit every feature, of which much is left, to what all leave, at the l1 ball's multiplier."""
    c, own, change, there = trial.change.size, trial.own, trial.change, which == 1
    weight, penalty = trial.numbers[which, 3], ridge + trial.numbers[which, 0]
    length, shares = 0.0, trial.shares[which]
    enough = ENOUGH * np.sum(shares)
    for q in range(trial.held.size):
        if shares[q] < enough:
            continue
        new = there and q == at
        f = g if new else trial.held[q]
        width = width_of(alone, f)
        for j in range(width):
            for i in range(width):
                own[j, i] = (
                    trial.strip[j, q * c + i] if new else trial.products[q * c + j, q * c + i]
                )
            own[j, j] += penalty
        shrunk(own, width, weight, trial.beta[which], trial.left[which], q * c, change)
        length += shift(trial, which, at, new, q, penalty)
    count(trial.numbers[which], alone.numbers[4], length)


@compiled(nogil=True, counts=False, error_model="numpy")
def l1_ends(alone, pairs, norm, energy, trial, which, at, g):  # type: ignore[no-untyped-def]
    """Do what `ends` does, over the l1 ball."""
    beta, left, weight = trial.beta[which], trial.left[which], trial.numbers[which, 3]
    mu = trial.numbers[which, 0]
    targets, held, overlaps, there = alone.targets, trial.held, pairs.overlaps, which == 1
    values, vectors, own, c = alone.values, alone.vectors, trial.short, trial.change.size
    reached, tied, size, square, off, common = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    steep = 0.0
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
            steep = max(steep, abs(own[j]))
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
    across = within(radius * steep - (tied - weight * size), error, longer)
    most = inner + min(reduced * reduced / apart, across)
    rounding = (rounding + error * longer) * max(share, 1.0)
    return least - rounding, most + rounding, inner - least


@compiled(nogil=True, counts=False, error_model="numpy")
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
        trial.shares[which] = 1.0
