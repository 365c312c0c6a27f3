"""What features gain together, enclosed from numbers of single features and of pairs (T24i).

Every feature is fitted alone. How far these fits, put together, are from the fit of a support is
told by what pairs of its features have in common: sums of a few numbers, whatever the features'
numbers of columns.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.problem import Problem

__all__ = ["Pairs", "gain_by_pairs", "gain_of_pairs", "no_pairs", "pairs_of"]

_TRUST = 1e-8  # least eigenvalue of a feature's own equations, against their trace
_LOOSE = 1e-5  # relative rounding of norms, by that trust at most
_UNIT = 2.0**-53


class Pairs(NamedTuple):
    """Numbers of features, and of pairs of them, for some multipliers mu of the ball.

    A = G_gg + ridge + mu of a feature g, and beta = A^-1 b its fit alone.
    """

    multipliers: Floats
    reached: Floats  # b'beta
    spent: Floats  # beta'(A - mu) beta
    lengths: Floats  # |beta|^2, or |beta|_1 over the l1 ball
    squares: Floats  # |beta|^2
    crossed: Floats  # beta_g'G_gh beta_h
    left: Floats  # |G_gh beta_h|, and what g leaves of its own, in the norm of A_g^-1; at most
    overlaps: Floats  # |A_g^-1/2 G_gh A_h^-1/2|, at most
    rounding: Floats  # of the objective: a part, and one for a length of 1
    apart: Floats  # the least eigenvalue of all features' equations, over their own; 0: not known


def no_pairs() -> Pairs:
    """Return nothing, where it would not pay."""
    none, two, three = np.empty(0), np.empty((0, 0)), np.empty((0, 0, 0))
    return Pairs(none, two, two, two, two, three, three, three, none, none)


def pairs_of(problem: Problem, G: Floats, b: Floats, multipliers: Floats, l1: bool) -> Pairs:
    """Fit every feature alone, and look at all pairs; G and b are of all columns."""
    order = problem.features.order
    if (order[1:] < order[:-1]).any():
        G, b = G[np.ix_(order, order)], b[order]
    made = [_alone(problem, G, b, float(mu), l1) for mu in multipliers]
    found = [(mu, one) for mu, one in zip(multipliers, made, strict=True) if one is not None]
    if not found:
        return no_pairs()
    tables = (np.array(table) for table in zip(*(one for _, one in found), strict=True))
    mus, unknown = np.array([mu for mu, _ in found]), np.zeros(len(found))
    return Pairs._make((mus, *tables, _rounding(problem, G), unknown))


def _alone(problem: Problem, G: Floats, b: Floats, mu: float, l1: bool) -> Any:
    """Return the numbers for one multiplier; None where a feature's equations are singular."""
    starts, ridge = problem.features.starts, problem.ridge + mu
    firsts, parts = starts[:-1], list(pairwise(starts))
    halves, beta, least, traces = [], np.empty(b.size), np.empty(len(parts)), np.empty(len(parts))
    for i, (low, high) in enumerate(parts):
        A = G[low:high, low:high] + ridge * np.eye(high - low)
        values, vectors = np.linalg.eigh(A)
        traces[i] = np.trace(A)
        least[i] = values[0] - 8 * A.size * _UNIT * traces[i]
        if not least[i] > _TRUST * traces[i]:
            return None
        halves.append(vectors.T / np.sqrt(values)[:, None])
        beta[low:high] = halves[i].T @ (halves[i] @ b[low:high])
    shared = np.add.reduceat(G * beta, firsts, axis=1)  # G_gh beta_h, a column for each h
    crossed = np.add.reduceat(beta[:, None] * shared, firsts, axis=0)
    squares = np.add.reduceat(beta**2, firsts)
    half, turned = np.empty_like(G), np.empty_like(shared)
    for i, (low, high) in enumerate(parts):
        shared[low:high, i] += ridge * beta[low:high] - b[low:high]
        turned[low:high] = halves[i] @ shared[low:high]
        half[low:high] = halves[i] @ G[low:high]
    for i, (low, high) in enumerate(parts):
        half[:, low:high] = half[:, low:high] @ halves[i].T
    left = (1.0 + _LOOSE) * np.sqrt(np.add.reduceat(turned**2, firsts, axis=0))
    wide = 32 * (problem.features.widths.max() + 4) * _UNIT  # what rounding may have taken
    left += wide * np.sqrt(traces / least)[:, None] * np.sqrt(traces * squares)
    left += np.diag(wide * np.sqrt(np.add.reduceat(b**2, firsts) / least))
    overlaps = np.empty(crossed.shape)
    _norms(half, starts, overlaps)
    return (
        np.add.reduceat(b * beta, firsts),
        np.diagonal(crossed) + problem.ridge * squares,
        np.add.reduceat(np.abs(beta), firsts) if l1 else squares,
        squares,
        crossed,
        left,
        (1.0 + _LOOSE) * overlaps + _LOOSE,
    )


def _rounding(problem: Problem, G: Floats) -> Floats:
    """Bound the rounding of the objective, for every support."""
    traces = np.add.reduceat(np.diagonal(G) + problem.ridge, problem.features.starts[:-1])
    widest = float(np.sort(traces)[-problem.size :].sum())
    count = (12 * problem.most_columns + 8) * _UNIT
    return np.array([count * problem.energy, 2.0 * count * widest])


@compiled(nogil=True, counts=False, error_model="numpy")
def _norms(half, starts, out):  # type: ignore[no-untyped-def]
    """Fill in bounds on the norms of blocks C, by |C|^4 <= |C C'|_F^2; 0 for a feature itself."""
    for g in range(starts.size - 1):
        out[g, g] = 0.0
        for h in range(g):
            block = half[starts[g] : starts[g + 1], starts[h] : starts[h + 1]]
            total = 0.0
            for i in range(block.shape[0]):
                for j in range(i + 1):
                    v = 0.0
                    for m in range(block.shape[1]):
                        v += block[i, m] * block[j, m]
                    total += v * v if i == j else 2.0 * v * v
            out[g, h] = out[h, g] = total**0.25


@compiled(nogil=True, counts=False, error_model="numpy")
def gain_by_pairs(pairs, norm, support, t):  # type: ignore[no-untyped-def]
    """Return the least and the most that a support gains, by one table; rounding is counted."""
    reached, spent, length, square, off, overlap = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for g in support:
        reached += pairs.reached[t, g]
        spent += pairs.spent[t, g]
        length += pairs.lengths[t, g]
        square += pairs.squares[t, g]
        left, common = 0.0, 0.0
        for h in support:
            left += pairs.left[t, g, h]
            if h != g:
                common += pairs.overlaps[t, g, h]
                spent += pairs.crossed[t, g, h]
        off += left * left
        overlap = max(overlap, common)
    if not norm.l1:
        length = np.sqrt(length)
    radius, mu = norm.radius, pairs.multipliers[t]
    share = radius / length if length > radius else 1.0
    rounding = pairs.rounding[0] + pairs.rounding[1] * max(length, radius) ** 2
    least = max(share * (2.0 * reached - share * spent) - rounding, 0.0)
    apart = max(1.0 - overlap, pairs.apart[t])
    if not apart > 0.0:
        return least, np.inf
    above = mu * (radius * radius - square) + off / apart
    return least, 2.0 * reached - spent + above + rounding


@compiled(nogil=True, counts=False, error_model="numpy")
def gain_of_pairs(pairs, norm, support):  # type: ignore[no-untyped-def]
    """Return the least and the most that a support gains, by all tables."""
    least, most = 0.0, np.inf
    for t in range(pairs.multipliers.size):
        gains = gain_by_pairs(pairs, norm, support, t)
        least, most = max(least, gains[0]), min(most, gains[1])
    return least, most
