"""What features gain together, enclosed from one direction a feature, and descents (T24k).

Every feature is fitted alone. Multiples of these fits, one number a feature, are fitted together:
equations of as many unknowns as there are features, whatever their numbers of columns. What they
leave is small where the fits alone point the right way, and it bounds the gain from above. Steps
of conjugate gradients, each a product with the columns' own equations, bring the two ends nearer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.losses.ball import backward, factor, forward
from dpsubset.problem import Problem
from dpsubset.sampling.alone import by_width, padded
from dpsubset.sampling.pairs import Pairs

__all__ = [
    "Directions",
    "Guess",
    "begin",
    "directions_of",
    "guessed_ends",
    "nearer",
    "no_directions",
]

_TRUST = 1e-9  # smallest pivot, against its diagonal; any numbers serve
_NEAR = 0.8  # of the least eigenvalue, about, that is proven
_TURNS = 4  # of the iteration that finds it
_UNIT = 2.0**-53


class Directions(NamedTuple):
    """Features in coordinates in which their own equations are the identity: beta = Z'x.

    For some multipliers of the ball; every feature has room for the widest.
    """

    numbers: Floats  # mu, the least eigenvalue of N for all features (at least), and rounding
    own: Floats  # of every feature's fit beta alone: b'beta, |beta|^2, |beta|_1
    both: Floats  # of two: beta_g'G_gh beta_h, and |N_gh|, at most
    targets: Floats  # h = Z b of a feature
    met: Floats  # N_gh h_h, N = Z (G + ridge + mu) Z'
    between: Floats  # N_gh
    halves: Floats  # Z


def no_directions() -> Directions:
    """Return nothing, where it would not pay."""
    two, three, four = np.empty((0, 0)), np.empty((0, 0, 0)), np.empty((0, 0, 0, 0))
    return Directions(two, three, four, three, four, np.empty((0, 0, 0, 0, 0)), four)


def directions_of(problem: Problem, G: Floats, b: Floats, pairs: Pairs) -> Directions:
    """Put all features into these coordinates; G and b are of all columns."""
    features = problem.features
    m, c = len(features), padded(int(features.widths.max()))
    where = np.full((m, c), b.size)  # what is padded has no products
    for own, columns in by_width(problem, np.arange(m)):
        where[own, : columns.shape[1]] = columns
    bordered = np.zeros((b.size + 1, b.size + 1))
    bordered[:-1, :-1] = G
    flat = where.ravel()
    made = [
        _turned(problem, bordered[np.ix_(flat, flat)], np.append(b, 0.0)[where], float(mu))
        for mu in pairs.multipliers
    ]
    least, rounding, *tables = (np.array(table) for table in zip(*made, strict=True))
    return Directions(
        np.stack([pairs.multipliers, least, rounding], axis=1),
        np.stack([pairs.reached, pairs.squares, pairs.lengths], axis=2),
        np.stack([pairs.crossed, pairs.overlaps], axis=3),
        *tables,
    )


def _turned(problem: Problem, G: Floats, b: Floats, mu: float) -> tuple[Floats | float, ...]:
    """Return the tables for one multiplier; G and b are padded."""
    m, c = b.shape
    widths = problem.features.widths
    own = G.reshape(m, c, m, c)[np.arange(m), :, np.arange(m)].copy()
    diagonal = np.einsum("gii->gi", own)
    real = np.arange(c) < widths[:, None]
    diagonal += (problem.ridge + mu) * real
    traces = diagonal.sum(axis=1)
    diagonal += (traces / widths)[:, None] * ~real
    values, vectors = np.linalg.eigh(own)
    halves = np.swapaxes(vectors, 1, 2) / np.sqrt(values)[:, :, None]
    N = (halves @ G.reshape(m, c, m * c)).reshape(m * c, m * c)
    N = (halves @ N.T.reshape(m, c, m * c)).reshape(m, c, m, c)
    N[np.arange(m), :, np.arange(m)] = np.eye(c)
    h = (halves @ b[:, :, None])[:, :, 0]
    between = np.ascontiguousarray(N.transpose(0, 2, 1, 3))
    met = (between @ h[:, :, None])[..., 0]
    condition = float((traces / values.min(axis=1)).max())
    count = 32 * (c + 4) * condition + 16 * problem.size * c + 64
    return _least(N.reshape(m * c, m * c)), count * _UNIT, h, met, between, halves


def _least(N: Floats) -> float:
    """Return a number that no eigenvalue is below: above 0, if that can be proven.

    An iteration guesses it, and a factor of what is left of N without it is the proof.
    """
    n = N.shape[0]
    try:
        L = np.linalg.cholesky(N)
        v: Any = np.random.default_rng(0).standard_normal(n)
        value = 1.0
        for _ in range(_TURNS):
            v = solve_triangular(L, v / np.linalg.norm(v), lower=True)
            value = float(1.0 / (v @ v))
            v = solve_triangular(L, v, lower=True, trans=1)
        value = min(_NEAR * value, 1.0)
        np.linalg.cholesky(N - value * np.eye(n))
    except np.linalg.LinAlgError:
        return 0.0
    return float(max(value - 4 * n * (n + 4) * _UNIT, 0.0))


class Guess(NamedTuple):
    """Coefficients of two supports: where a chain stands, and where a step would lead."""

    # For both: x, r = h - N x, a conjugate direction p, N p, and N r.
    vectors: Floats
    # For both: which table it is of (-1: nothing is known); r'r, r'N r and |N r|^2 (or -1), the
    # share of the last direction, how far x has come in all, the least eigenvalue of N, |beta|^2
    # (or -1), |beta|_1, what multiples of fits that are inside the l1 ball gain, and how much
    # longer than r the vectors are that N r is the difference of.
    numbers: Floats
    block: Floats
    factor: Floats
    shares: Floats
    ahead: Floats

    @classmethod
    def of(cls, size: int, wide: int) -> Guess:
        """Return room for supports of so many features, of so many columns each."""
        square = np.zeros((size, size)), np.zeros((size, size))
        vectors, numbers = np.zeros((2, 5, size * wide)), np.full((2, 11), -1.0)
        return cls(vectors, numbers, *square, np.zeros(size), np.zeros(size))


# Single numbers are taken from tables of many axes, four sums at a time: to cut out a part of a
# table, or to add to what is stored, takes longer than what is done with it.


@compiled(nogil=True, counts=False, error_model="numpy")
def _pulled(directions, radius, t, support, guess, sizes):  # type: ignore[no-untyped-def]
    """Return what shares gain that were pulled into the l1 ball, and their length as x.

    The way is that of the best shares whose signs stay; if they do not, all are scaled.
    """
    own, shares, block, ahead = directions.own, guess.shares, guess.block, guess.ahead
    slope, size, reached, spent, long = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(support.size):
        ahead[i] = np.copysign(own[t, support[i], 2], shares[i])
    forward(guess.factor, ahead)
    backward(guess.factor, ahead)
    for i in range(support.size):
        slope += np.copysign(own[t, support[i], 2], shares[i]) * ahead[i]
    weight = (sizes - radius) / slope if slope > 0.0 else 0.0
    for i in range(support.size):
        ahead[i] = shares[i] - weight * ahead[i]
    for i in range(support.size):
        g, share = support[i], ahead[i]
        size += abs(share) * own[t, g, 2]
        reached += share * own[t, g, 0]
        long += share * share * own[t, g, 0]
        spent -= directions.numbers[t, 0] * share * share * own[t, g, 1]
        for j in range(support.size):
            spent += share * ahead[j] * block[i, j]
    size *= 1.0 + support.size * directions.numbers[t, 2]
    share = min(radius / size, 1.0) if size > 0.0 else 0.0
    return share * (2.0 * reached - share * spent), np.sqrt(long)


@compiled(nogil=True, counts=False, error_model="numpy")
def begin(directions, norm, energy, t, support, guess, which):  # type: ignore[no-untyped-def]
    """Fit multiples of the features' own fits; what was known of that support is forgotten."""
    size, shares, block = support.size, guess.shares, guess.block
    own, both, numbers = directions.own, directions.both, guess.numbers
    overlap, square, sizes = 0.0, 0.0, 0.0
    for i in range(size):
        g, common = support[i], 0.0
        for j in range(size):
            h = support[j]
            block[i, j] = both[t, g, h, 0]
            common += both[t, g, h, 1]
        overlap = max(overlap, common)
        shares[i] = block[i, i] = own[t, g, 0]
    numbers[which, 0] = -1.0
    if not factor(block, 0.0, _TRUST, guess.factor):
        return
    forward(guess.factor, shares)
    backward(guess.factor, shares)
    long, rest = 0.0, 0.0
    targets, met, vectors = directions.targets, directions.met, guess.vectors
    c = targets.shape[2]
    for i in range(size):
        g, share = support[i], shares[i]
        long += share * share * own[t, g, 0]
        square += share * share * own[t, g, 1]
        sizes += abs(share) * own[t, g, 2]
        for k in range(0, c, 4):
            u, v = targets[t, g, k], targets[t, g, k + 1]
            w, z = targets[t, g, k + 2], targets[t, g, k + 3]
            n = i * c + k
            vectors[which, 0, n], vectors[which, 0, n + 1] = share * u, share * v
            vectors[which, 0, n + 2], vectors[which, 0, n + 3] = share * w, share * z
            for j in range(size):
                h, e = support[j], shares[j]
                u -= e * met[t, g, h, k]
                v -= e * met[t, g, h, k + 1]
                w -= e * met[t, g, h, k + 2]
                z -= e * met[t, g, h, k + 3]
            vectors[which, 1, n], vectors[which, 1, n + 1] = u, v
            vectors[which, 1, n + 2], vectors[which, 1, n + 3] = w, z
            rest += (u * u + v * v) + (w * w + z * z)
    apart = max(1.0 - overlap, directions.numbers[t, 1]) - size * directions.numbers[t, 2]
    numbers[which, 0], numbers[which, 1] = t, rest
    numbers[which, 3], numbers[which, 4] = -1.0, 0.0
    numbers[which, 5] = np.sqrt(energy) + np.sqrt(long)
    numbers[which, 6], numbers[which, 7], numbers[which, 8] = apart, square, sizes
    numbers[which, 9] = -np.inf
    if norm.l1 and sizes > norm.radius:
        gain, long = _pulled(directions, norm.radius, t, support, guess, sizes)
        come = np.sqrt(energy) + long
        numbers[which, 9] = gain - 8.0 * size * directions.numbers[t, 2] * come * come


@compiled(nogil=True, counts=False, error_model="numpy")
def _measure(directions, support, guess, which):  # type: ignore[no-untyped-def]
    """Compute the lengths of beta."""
    t, halves, vectors = int(guess.numbers[which, 0]), directions.halves, guess.vectors
    c, square, size = halves.shape[3], 0.0, 0.0
    for i in range(support.size):
        for j in range(c):
            v = 0.0
            for k in range(c):
                v += halves[t, support[i], k, j] * vectors[which, 0, i * c + k]
            square += v * v
            size += abs(v)
    guess.numbers[which, 7], guess.numbers[which, 8] = square, size


@compiled(nogil=True, counts=False, error_model="numpy", fastmath={"reassoc"})
def guessed_ends(directions, norm, support, guess, which):  # type: ignore[no-untyped-def]
    """Return the least and the most that a support gains, and what part of that is the ball's.

    Also whether the coefficients are too long for it. Rounding is counted.
    """
    if guess.numbers[which, 7] < 0.0:
        _measure(directions, support, guess, which)
    vectors, numbers, targets = guess.vectors, guess.numbers, directions.targets
    t, c, radius = int(numbers[which, 0]), targets.shape[2], norm.radius
    reached, tied, long = 0.0, 0.0, 0.0
    for i in range(support.size):
        g = support[i]
        for k in range(c):
            v = vectors[which, 0, i * c + k]
            reached += targets[t, g, k] * v
            tied += vectors[which, 1, i * c + k] * v
            long += v * v
    mu, unit = directions.numbers[t, 0], support.size * directions.numbers[t, 2]
    rest, once, twice = numbers[which, 1], numbers[which, 2], numbers[which, 3]
    come, apart, square = numbers[which, 5], numbers[which, 6], numbers[which, 7]
    error = unit * come
    rounding = 8.0 * error * max(np.sqrt(long), come)
    spent = reached - tied - mu * square
    length = (numbers[which, 8] if norm.l1 else np.sqrt(square)) * (1.0 + unit)
    share = min(radius / length, 2.0) if length > 0.0 else 0.0
    if spent * share > reached:
        share = min(share, max(reached / spent, 0.0))
    least = share * (2.0 * reached - share * spent)
    least = max(least, numbers[which, 9] + rounding)
    inner = reached + tied + mu * radius * radius
    if not apart > 0.0:
        return least - rounding, np.inf, inner - least, length > radius
    if twice >= 0.0:  # N r is known
        wrong = unit * numbers[which, 10]
        above = once - (apart + wrong) * rest
        below = twice - apart * once + (4.0 * support.size + wrong) * wrong * rest
        if above > 0.0:
            rest = max(rest - above * above / below, 0.0)
    reduced = (np.sqrt(rest) * (1.0 + unit) + error) / np.sqrt(apart)
    return least - rounding, inner + reduced * reduced + rounding, inner - least, length > radius


@compiled(nogil=True, counts=False, error_model="numpy", fastmath={"reassoc"})
def nearer(directions, support, guess, which):  # type: ignore[no-untyped-def]
    """Look where what is left leads, or go there: every second call one or the other."""
    numbers = guess.numbers
    if numbers[which, 3] < 0.0:
        _look(directions, support, guess, which)
        return
    x, left = guess.vectors[which, 0], guess.vectors[which, 1]
    way, turned = guess.vectors[which, 2], guess.vectors[which, 3]
    curved, far, square, rest = 0.0, 0.0, 0.0, 0.0
    for i in range(x.size):
        curved += way[i] * turned[i]
        far += way[i] * way[i]
    step = numbers[which, 1] / curved if curved > 0.0 else 0.0
    for i in range(x.size):
        x[i] += step * way[i]
        left[i] -= step * turned[i]
        square += x[i] * x[i]
        rest += left[i] * left[i]
    numbers[which, 5] += step * np.sqrt(far) + np.sqrt(square)
    numbers[which, 4] = rest / numbers[which, 1] if numbers[which, 1] > 0.0 else 0.0
    numbers[which, 1], numbers[which, 3], numbers[which, 7] = rest, -1.0, -1.0


@compiled(nogil=True, counts=False, error_model="numpy", fastmath={"reassoc"})
def _look(directions, support, guess, which):  # type: ignore[no-untyped-def]
    """Make the next direction p, N p and N r."""
    t, between, last = int(guess.numbers[which, 0]), directions.between, guess.numbers[which, 4]
    left, way = guess.vectors[which, 1], guess.vectors[which, 2]
    turned, seen = guess.vectors[which, 3], guess.vectors[which, 4]
    c, once, twice, before, after, rest = between.shape[3], 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(left.size):
        v = last * way[i]
        way[i] = left[i] + v
        seen[i] = last * turned[i]
        before += v * v
        after += way[i] * way[i]
        rest += left[i] * left[i]
    for i in range(support.size):
        g = support[i]
        for k in range(0, c, 4):
            u, v, w, z = 0.0, 0.0, 0.0, 0.0
            for j in range(support.size):
                h = support[j]
                for m in range(c):
                    e = way[j * c + m]
                    u += e * between[t, h, g, m, k]
                    v += e * between[t, h, g, m, k + 1]
                    w += e * between[t, h, g, m, k + 2]
                    z += e * between[t, h, g, m, k + 3]
            n = i * c + k
            turned[n], turned[n + 1], turned[n + 2], turned[n + 3] = u, v, w, z
    for i in range(left.size):
        seen[i] = turned[i] - seen[i]
        once += left[i] * seen[i]
        twice += seen[i] * seen[i]
    guess.numbers[which, 2], guess.numbers[which, 3] = once, twice
    longer = np.sqrt(before) + np.sqrt(after)
    guess.numbers[which, 10] = longer / np.sqrt(rest) if rest > 0.0 else 1.0
