"""The best cut over directions that many columns share, and what each has alone (T11c, T12)."""

from __future__ import annotations

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.cuts.curvature import SparseDiagonal
from dpsubset.cuts.perspective import Optimised
from dpsubset.cuts.reduced import Reduced
from dpsubset.cuts.region import Region
from dpsubset.cuts.symmetric import inclusion
from dpsubset.problem import Problem

__all__ = ["optimise_shared"]

_ROUNDS = 20
_HALVINGS = 4  # of a step that does not lower the log mass
_ENOUGH = 0.05  # stop when a round lowers the log mass by less


def optimise_shared(
    problem: Problem, region: Region, kappa: float, reduced: Reduced, below: SparseDiagonal
) -> Optimised:
    """Lower the log mass of exp(-kappa cut) over what the shared directions explain.

    The cut of theta is constant less the sum of (c - E theta)^2 / (d + penalty), with |theta|^2
    taken off the constant; E is the part of the directions that the columns inside leave. Newton's
    steps on the convex log mass, as if inclusion probabilities stayed as they are.
    """
    free = region.free
    w = 1.0 / (below.each[free] + reduced.penalty)
    c, E = reduced.correlations[free], below.shared[free] @ _left(below, region, reduced.penalty)

    def cut(theta: Floats) -> tuple[Optimised, Floats]:
        constant = reduced.base - float(theta @ theta)
        weights = (c - E @ theta) ** 2 * w
        total, shares = inclusion(kappa * weights, region.to_choose)
        mass = float(total) - kappa * constant
        return Optimised(constant, weights, reduced.penalty, mass), np.asarray(shares)

    theta = np.zeros(E.shape[1])
    best, shares = cut(theta)
    for _ in range(_ROUNDS if theta.size else 0):
        problem.allowance.check()
        weighted = E.T * (shares * w)
        target = np.linalg.solve(np.eye(theta.size) + weighted @ E, weighted @ c)
        before = best.log_mass
        for halved in range(_HALVINGS):
            moved = theta + 0.5**halved * (target - theta)
            better, next_shares = cut(moved)
            if better.log_mass < before:
                best, shares, theta = better, next_shares, moved
                break
        if before - best.log_mass < _ENOUGH:
            break
    return best


def _left(below: SparseDiagonal, region: Region, penalty: float) -> Floats:
    """Return K with |K'f|^2 = min over u of |F'u + f|^2 + sum (d + penalty) u^2, u on the inside.

    Columns that every support includes were eliminated before the directions were taken.
    """
    inside = np.array([j for j in region.inside if below.each[j] > 0.0], dtype=np.intp)
    F = below.shared[inside]
    inner = np.eye(below.shared.shape[1]) + (F.T / (below.each[inside] + penalty)) @ F
    return np.asarray(np.linalg.cholesky(np.linalg.inv(inner)))
