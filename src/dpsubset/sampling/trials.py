"""What a swap of features gains, enclosed, from a trial fit that is kept from step to step (T24j).

Any coefficients enclose the score of their support, the nearer the less they leave of its
equations. A swap keeps the coefficients of the features that stay and fits the new feature to what
they leave; feature by feature is fitted again until the step is decided. Nothing is factored.

What is left is kept up to date by the products of the columns, or, where those are not at hand, by
the residuals of the rows: that takes as many products of long vectors as there are columns, not as
there are pairs of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.sampling.alone import padded
from dpsubset.sampling.shrunk import own_curve, shrunk
from dpsubset.sums import four_dots

__all__ = [
    "ENOUGH",
    "LOOSE",
    "Trial",
    "catch_up",
    "count",
    "ends",
    "fitted",
    "follow",
    "forget_all",
    "propose",
    "refit",
    "shift",
    "turn",
    "width_of",
    "within",
]

LOOSE = 1e-5  # relative rounding of a norm by eigenvectors
ENOUGH = 0.02  # share of all that is left, for a feature to be fitted again
_REFRESH = 256.0  # changes, about, after which what is left is computed anew


class Trial(NamedTuple):
    """Coefficients of one support, and what they leave: here, and where a step would lead.

    Places of a support have room for the widest feature each.
    """

    held: NDArray[np.int64]  # the features that the products are of
    products: Floats  # X_S'X_S
    beta: Floats  # here, and there
    left: Floats  # b - (G + ridge + mu) beta
    strip: Floats  # products of the new feature with all that stand there
    change: Floats  # of one feature's coefficients
    short: Floats  # room for one feature
    own: Floats  # and for its equations
    shares: Floats  # of what is left, a feature each
    # For both: mu, how far the coefficients have come in all, their length, the multiplier of the
    # l1 ball, and that before it with the length that it led to.
    numbers: Floats
    residuals: Floats  # y - X beta, for both, and y; of no rows where products are at hand

    @classmethod
    def of(cls, size: int, widest: int, y: Floats) -> Trial:
        """Return room for supports of so many features; y is empty where products are at hand."""
        widest = padded(widest)
        k = size * widest
        return cls(
            np.full(size, -1),
            np.zeros((k, k)),
            np.zeros((2, k)),
            np.zeros((2, k)),
            np.zeros((widest, k)),
            np.zeros(widest),
            np.zeros(widest),
            np.zeros((widest, widest)),
            np.zeros((2, size)),
            np.zeros((2, 6)),
            np.tile(y, (3, 1)),
        )


@compiled(nogil=True)
def forget_all(trial, mu, weight):  # type: ignore[no-untyped-def]
    """Stand nowhere, with multipliers of the two balls."""
    trial.held[:] = -1
    trial.products[:] = 0.0
    trial.beta[:] = 0.0
    trial.left[:] = 0.0
    trial.numbers[:] = 0.0
    trial.numbers[:, 0] = mu
    trial.numbers[:, 3] = weight
    trial.residuals[0] = trial.residuals[2]


@compiled(nogil=True, counts=False)
def width_of(alone, g):  # type: ignore[no-untyped-def]
    """Return a feature's number of columns."""
    return alone.starts[g + 1] - alone.starts[g]


@compiled(nogil=True, counts=False)
def _strip(table, alone, trial, at, g):  # type: ignore[no-untyped-def]
    """Fill in the products of a feature that comes to a place with all that stand there then."""
    strip, where, own = trial.strip, alone.where, alone.starts[g]
    c, mine = strip.shape[0], width_of(alone, g)
    for j in range(mine, c):
        for i in range(strip.shape[1]):
            strip[j, i] = 0.0
    for q in range(trial.held.size):
        h = g if q == at else trial.held[q]
        first, width = 0, 0
        if h >= 0:
            first, width = alone.starts[h], width_of(alone, h)
        for j in range(mine):
            row = where[own + j]
            for i in range(width):
                strip[j, q * c + i] = table[row, where[first + i]]
            for i in range(width, c):
                strip[j, q * c + i] = 0.0


@compiled(nogil=True, counts=False)
def _copy(source, target):  # type: ignore[no-untyped-def]
    """Copy a vector; for short ones, faster than to assign it."""
    for i in range(source.size):
        target[i] = source[i]


@compiled(nogil=True, counts=False)
def _take(vector, rows, first, sizes):  # type: ignore[no-untyped-def]
    """Take multiples of rows, from the first on, away from a vector; four at a time."""
    for j in range(0, sizes.size, 4):
        e, f, g, h = sizes[j], sizes[j + 1], sizes[j + 2], sizes[j + 3]
        four = rows[first + j : first + j + 4]
        for i in range(vector.size):
            vector[i] -= (e * four[0, i] + f * four[1, i]) + (g * four[2, i] + h * four[3, i])


@compiled(nogil=True, counts=False)
def count(numbers, reach, length):  # type: ignore[no-untyped-def]
    """Count a change of the coefficients of that length, for the rounding of what is left."""
    numbers[2] += length
    numbers[1] += length + reach + numbers[2]


@compiled(nogil=True, counts=False, error_model="numpy")
def fitted(alone, g, mu, left, first, change):  # type: ignore[no-untyped-def]
    """Fill in how a feature's coefficients change when it is fitted to what is left."""
    c, own = change.size, left[first : first + change.size]
    values, vectors = alone.values[g], alone.vectors[g]
    for j in range(c):
        change[j] = 0.0
    for i in range(c):
        v = 0.0
        for j in range(c):
            v += vectors[i, j] * own[j]
        v /= values[i] + mu
        for j in range(c):
            change[j] += v * vectors[i, j]


# Columns of a feature are taken four at a time; where there are fewer, the last one is taken again,
# with a coefficient of 0.


@compiled(nogil=True, counts=False)
def _add(table, alone, g, sign, beta, first, residual):  # type: ignore[no-untyped-def]
    """Add or take away what a feature's coefficients predict; padding has coefficients of 0."""
    start, last = alone.starts[g], alone.starts[g + 1] - 1
    for j in range(0, last + 1 - start, 4):
        e, f = sign * beta[first + j], sign * beta[first + j + 1]
        h, k = sign * beta[first + j + 2], sign * beta[first + j + 3]
        a, b = table[alone.where[start + j]], table[alone.where[min(start + j + 1, last)]]
        c = table[alone.where[min(start + j + 2, last)]]
        d = table[alone.where[min(start + j + 3, last)]]
        for i in range(residual.size):
            residual[i] += (e * a[i] + f * b[i]) + (h * c[i] + k * d[i])


@compiled(nogil=True, counts=False)
def _leave_one(table, alone, g, penalty, beta, left, first, residual):  # type: ignore[no-untyped-def]
    """Fill in what a feature's coefficients leave of its equations."""
    start, last = alone.starts[g], alone.starts[g + 1] - 1
    for j in range(0, last + 1 - start, 4):
        found = four_dots(
            table[alone.where[start + j]],
            table[alone.where[min(start + j + 1, last)]],
            table[alone.where[min(start + j + 2, last)]],
            table[alone.where[min(start + j + 3, last)]],
            residual,
        )
        for i in range(min(4, last + 1 - start - j)):
            left[first + j + i] = found[i] - penalty * beta[first + j + i]


@compiled(nogil=True, counts=False)
def _leave(table, alone, penalty, trial, which, at, g, but):  # type: ignore[no-untyped-def]
    """Fill in what all coefficients but those of one place leave; there, g stands at `at`."""
    c, beta, left = trial.change.size, trial.beta[which], trial.left[which]
    for q in range(trial.held.size):
        f = g if which == 1 and q == at else trial.held[q]
        if f >= 0 and q != but:
            _leave_one(table, alone, f, penalty, beta, left, q * c, trial.residuals[which])


@compiled(nogil=True, counts=False)
def _refit_one(table, alone, ridge, trial, which, q, f):  # type: ignore[no-untyped-def]
    """Fit one feature to the residuals."""
    c, change, numbers = trial.change.size, trial.change, trial.numbers[which]
    beta, left, residual = trial.beta[which], trial.left[which], trial.residuals[which]
    _leave_one(table, alone, f, ridge + numbers[0], beta, left, q * c, residual)
    if numbers[3] > 0.0:
        own, width = trial.own, width_of(alone, f)
        for i in range(width):
            for j in range(i + 1):
                own[i, j] = own[j, i] = own_curve(alone, f, numbers[0], i, j)
        shrunk(own, width, numbers[3], beta, left, q * c, change)
        for j in range(width):
            for i in range(width):
                left[q * c + j] -= own[j, i] * change[i]
    else:
        fitted(alone, f, numbers[0], left, q * c, change)
    _add(table, alone, f, -1.0, change, 0, residual)
    length = 0.0
    for j in range(c):
        beta[q * c + j] += change[j]
        length += change[j] * change[j]
    count(numbers, alone.numbers[4], np.sqrt(length))


@compiled(nogil=True, counts=False)
def _refit_far(table, alone, ridge, trial, which, at, g):  # type: ignore[no-untyped-def]
    """Do what `refit` does, by residuals."""
    enough = ENOUGH * np.sum(trial.shares[which])
    for q in range(trial.held.size):
        if trial.shares[which, q] >= enough:
            f = g if which == 1 and q == at else trial.held[q]
            _refit_one(table, alone, ridge, trial, which, q, f)
    _leave(table, alone, ridge + trial.numbers[which, 0], trial, which, at, g, -1)


@compiled(nogil=True, counts=False)
def _propose_far(table, alone, ridge, trial, at, g):  # type: ignore[no-untyped-def]
    """Do what `propose` does, by residuals."""
    c, beta, residual = trial.change.size, trial.beta[1], trial.residuals[1]
    _copy(trial.beta[0], beta)
    _copy(trial.left[0], trial.left[1])
    _copy(trial.numbers[0], trial.numbers[1])
    _copy(trial.residuals[0], residual)
    if trial.held[at] >= 0:
        _add(table, alone, trial.held[at], 1.0, beta, at * c, residual)
    length = 0.0
    for j in range(c):
        length += beta[at * c + j] ** 2
        beta[at * c + j] = trial.left[1, at * c + j] = 0.0
    count(trial.numbers[1], alone.numbers[4], np.sqrt(length))
    trial.numbers[1, 4] = trial.numbers[1, 3]
    _refit_one(table, alone, ridge, trial, 1, at, g)
    if trial.numbers[1, 3] == 0.0:
        for j in range(c):
            trial.left[1, at * c + j] = 0.0  # it was just fitted
    _leave(table, alone, ridge + trial.numbers[1, 0], trial, 1, at, g, at)


@compiled(nogil=True, counts=False)
def shift(trial, which, at, new, q, penalty):  # type: ignore[no-untyped-def]
    """Change the coefficients of one place, and what all leave; `new` there stands in the strip."""
    c, change, own, strip = trial.change.size, trial.change, trial.short, trial.strip
    beta, left, first, place = trial.beta[which], trial.left[which], q * c, at * c
    if new:
        _take(left, strip, 0, change)
    else:
        for j in range(c):
            own[j] = left[place + j]
        _take(left, trial.products, first, change)
        if which == 1:  # the products at that place are of what stands here
            for j in range(c):
                v = own[j]
                for i in range(c):
                    v -= strip[j, first + i] * change[i]
                left[place + j] = v
    length = 0.0
    for j in range(c):
        x = change[j]
        beta[first + j] += x
        left[first + j] -= penalty * x
        length += x * x
    return np.sqrt(length)


@compiled(nogil=True, counts=False)
def refit(table, alone, ridge, trial, which, at, g):  # type: ignore[no-untyped-def]
    """Fit every feature, of which much is left, to what all leave; there, g stands at `at`."""
    if trial.residuals.shape[1] > 0:
        _refit_far(table, alone, ridge, trial, which, at, g)
        return
    c, there, size = trial.change.size, which == 1, trial.held.size
    left, shares = trial.left[which], trial.shares[which]
    numbers, penalty = trial.numbers[which], ridge + trial.numbers[which, 0]
    enough, reach = 0.0, alone.numbers[4]
    for q in range(size):
        enough += ENOUGH * shares[q]
    for q in range(size):
        if shares[q] < enough:
            continue
        new = there and q == at
        f = g if new else trial.held[q]
        fitted(alone, f, numbers[0], left, q * c, trial.change)
        length = shift(trial, which, at, new, q, penalty)
        count(numbers, reach, length)


@compiled(nogil=True, counts=False, fastmath={"reassoc"})
def propose(table, alone, ridge, trial, at, g):  # type: ignore[no-untyped-def]
    """Put a feature in the place of another, fitted to what the others leave."""
    if trial.residuals.shape[1] > 0:
        _propose_far(table, alone, ridge, trial, at, g)
        return
    c, own = trial.change.size, trial.short
    beta, left, change, numbers = trial.beta[1], trial.left[1], trial.change, trial.numbers[1]
    _strip(table, alone, trial, at, g)
    _copy(trial.beta[0], beta)
    _copy(trial.left[0], left)
    _copy(trial.numbers[0], numbers)
    length, mu = 0.0, numbers[0]
    for j in range(c):
        change[j] = -beta[at * c + j]
        length += change[j] * change[j]
        beta[at * c + j] = 0.0
        own[j] = alone.targets[g, j]
    _take(left, trial.products, at * c, change)
    for j in range(c):
        v = 0.0
        for i in range(beta.size):
            v += trial.strip[j, i] * beta[i]
        left[at * c + j] = own[j] - v
    count(numbers, alone.numbers[4], np.sqrt(length))
    numbers[4] = numbers[3]
    if numbers[3] > 0.0:  # over the l1 ball a sweep fits it, coefficient by coefficient
        trial.shares[1] = 0.0
        trial.shares[1, at] = 1.0
        return
    fitted(alone, g, mu, left, at * c, change)
    _take(left, trial.strip, 0, change)
    length = 0.0
    for j in range(c):
        beta[at * c + j] = change[j]
        left[at * c + j] -= (ridge + mu) * change[j]
        length += change[j] * change[j]
    count(numbers, alone.numbers[4], np.sqrt(length))


@compiled(nogil=True, counts=False)
def follow(trial, at, g):  # type: ignore[no-untyped-def]
    """Go to what was proposed."""
    c, strip, products = trial.change.size, trial.strip, trial.products
    trial.held[at] = g
    _copy(trial.beta[1], trial.beta[0])
    _copy(trial.left[1], trial.left[0])
    _copy(trial.numbers[1], trial.numbers[0])
    if trial.residuals.shape[1] > 0:
        _copy(trial.residuals[1], trial.residuals[0])
        return
    for i in range(products.shape[0]):
        for j in range(c):
            products[i, at * c + j] = strip[j, i]
    for j in range(c):
        for i in range(products.shape[0]):
            products[at * c + j, i] = strip[j, i]


@compiled(nogil=True, counts=False)
def catch_up(table, alone, ridge, trial, support):  # type: ignore[no-untyped-def]
    """Come to where the chain stands, which other bounds may have led on."""
    for q in range(support.size):
        if trial.held[q] != support[q]:
            propose(table, alone, ridge, trial, q, support[q])
            follow(trial, q, support[q])
    once = alone.numbers[4] + trial.numbers[0, 2]
    if trial.numbers[0, 1] > _REFRESH * once:
        _refresh(table, alone, ridge, trial)


@compiled(nogil=True, counts=False)
def _refresh(table, alone, ridge, trial):  # type: ignore[no-untyped-def]
    """Compute anew what the coefficients leave: rounding has come together."""
    c, beta, left = trial.change.size, trial.beta[0], trial.left[0]
    mu, square = trial.numbers[0, 0], 0.0
    for q in range(trial.held.size):
        for j in range(c):
            i = q * c + j
            left[i] = alone.targets[trial.held[q], j] - (ridge + mu) * beta[i]
            square += beta[i] * beta[i]
    if trial.residuals.shape[1] > 0:
        _copy(trial.residuals[2], trial.residuals[0])
        for q in range(trial.held.size):
            _add(table, alone, trial.held[q], -1.0, beta, q * c, trial.residuals[0])
        _leave(table, alone, ridge + mu, trial, 0, -1, -1, -1)
    else:
        _take(left, trial.products, 0, beta)
    trial.numbers[0, 1] = alone.numbers[4] + np.sqrt(square)


@compiled(nogil=True, counts=False)
def within(slope, error, longer):  # type: ignore[no-untyped-def]
    """Return the most that what is left gains inside the ball, whatever the curvature."""
    return 2.0 * max(slope, 0.0) + 4.0 * error * longer


@compiled(nogil=True, counts=False, error_model="numpy")
def ends(alone, pairs, norm, energy, trial, which, at, g):  # type: ignore[no-untyped-def]
    """Return the least and the most that a support gains, and what part of that is the ball's.

    Rounding is counted.
    """
    beta, left, mu = trial.beta[which], trial.left[which], trial.numbers[which, 0]
    shares, values, vectors = trial.shares[which], alone.values, alone.vectors
    targets, held, overlaps, there = alone.targets, trial.held, pairs.overlaps, which == 1
    reached, tied, square, off, common, c = 0.0, 0.0, 0.0, 0.0, 0.0, trial.change.size
    steep, t = 0.0, -1
    while t + 1 < pairs.multipliers.size and pairs.multipliers[t + 1] <= mu:
        t += 1
    for q in range(held.size):
        f, first = g if there and q == at else held[q], q * c
        share = 0.0
        for j in range(c):
            x = beta[first + j]
            reached += targets[f, j] * x
            tied += left[first + j] * x
            square += x * x
            steep += left[first + j] ** 2
        for i in range(c):
            v = 0.0
            for j in range(c):
                v += vectors[f, i, j] * left[first + j]
            share += v * v / (values[f, i] + mu)
        shares[q] = share
        off += share
        if t >= 0:
            overlap = 0.0
            for p in range(held.size):
                if p != q:
                    overlap += overlaps[t, f, g if there and p == at else held[p]]
            common = max(common, overlap)
    length, radius = np.sqrt(square), norm.radius
    trial.numbers[which, 2] = length
    unit, trace = alone.numbers[0], alone.numbers[1]
    apart = max(
        (norm.ridge + mu) / (alone.numbers[3] + mu),
        max(1.0 - common, pairs.apart[t]) if t >= 0 else 0.0,
    )
    error = unit * (trace + beta.size * mu) * trial.numbers[which, 1]
    longer = max(length, radius)
    rounding = unit * (energy + 2.0 * (trace + mu) * longer * longer)
    spent = reached - tied - mu * square
    share = radius / length if length > 0.0 else 0.0
    if spent * share > reached:
        share = min(share, max(reached / spent, 0.0))
    least = share * (2.0 * reached - share * spent)
    inner = reached + tied + mu * radius * radius
    reduced = (1.0 + LOOSE) * np.sqrt(off) + error / np.sqrt(alone.numbers[2] + mu)
    across = within((1.0 + LOOSE) * radius * np.sqrt(steep) - tied, error, longer)
    most = inner + min(reduced * reduced / apart, across)
    rounding = (rounding + error * longer) * max(share, 1.0)
    return least - rounding, most + rounding, inner - least


@compiled(nogil=True, counts=False, error_model="numpy")
def turn(alone, norm, trial, which, at, g, least):  # type: ignore[no-untyped-def]
    """Choose another multiplier of the ball, by what every feature alone would do."""
    beta, left, mu = trial.beta[which], trial.left[which], trial.numbers[which, 0]
    curved, square, c = 0.0, 0.0, trial.change.size
    for q in range(trial.held.size):
        f = g if which == 1 and q == at else trial.held[q]
        for i in range(c):
            v = 0.0
            for j in range(c):
                v += alone.vectors[f, i, j] * beta[q * c + j]
            curved += v * v / (alone.values[f, i] + mu)
            square += v * v
    if curved > 0.0:
        length = np.sqrt(square)
        new = max(mu + square / curved * (length - norm.radius) / norm.radius, least)
        for i in range(beta.size):
            left[i] -= (new - mu) * beta[i]
        trial.numbers[which, 0] = new
        before, after = alone.numbers[1] + beta.size * mu, alone.numbers[1] + beta.size * new
        trial.numbers[which, 1] *= max(1.0, before / after)  # rounding so far was of the old one
        count(trial.numbers[which], alone.numbers[4], 0.0)
