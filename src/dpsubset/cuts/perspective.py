"""The best cut for a region: the paper's perspective problem at the envelope's inclusions (T12)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from dpsubset.arrays import Floats
from dpsubset.cuts.recipe import Recipe
from dpsubset.cuts.region import Region
from dpsubset.cuts.symmetric import inclusion
from dpsubset.problem import Problem

__all__ = ["Optimised", "optimise", "tangent"]

_ROUNDS = 12
_COLUMNS = 640  # columns that carry coefficients; the others keep zero, which is always valid
_FEW_COLUMNS = 8  # of a tangent when their Gram columns cost passes over the table
_ENOUGH = 0.02  # stop when a round lowers the log mass by less
_STEADY = 1e-4  # relative change of the ball's multiplier that ends its search


@dataclass(frozen=True, eq=False)
class Optimised:
    """A cut's constant and weights, the penalty behind it, and the log mass under it."""

    constant: float
    weights: Floats
    penalty: float
    log_mass: float
    recipe: Recipe | None = None


def optimise(
    problem: Problem,
    region: Region,
    d: float,
    kappa: float,
    floor: float,
    mu: float,
    guess: Floats | None,
) -> Optimised:
    """Lower the log mass of exp(-kappa cut) over the region by rounds of z -> beta(z) -> z.

    Every round gives a valid cut whatever z is; the best one is returned.
    """
    t = region.to_choose
    z = np.full(region.free.size, t / region.free.size) if guess is None else guess
    order = np.argsort(-z)
    likely = order[: problem.features.first(region.free[order], _COLUMNS, 1)]
    best: Optimised | None = None
    for _ in range(_ROUNDS):
        problem.allowance.check()
        constant, weights, next_mu = _cut_at(problem, region, d, mu, z, likely)
        total, inclusions = inclusion(kappa * weights, t)
        mass = float(total - kappa * constant)
        gain = np.inf if best is None else best.log_mass - mass
        if best is None or gain > 0:
            penalty = d + problem.ridge + mu
            best = Optimised(constant, weights, penalty, mass)
        if gain < _ENOUGH:
            break
        z = np.sqrt(z * np.maximum(inclusions, 1e-12)) if gain > 0 else z
        z = np.minimum(z, 1.0)
        mu = max(floor, next_mu)
    assert best is not None
    return best


def tangent(
    problem: Problem, region: Region, d: float, floor: float, z: Floats
) -> tuple[float, Floats, float]:
    """Return constant, weights and penalty of the cut that touches the perspective function at z.

    Valid at any multiplier of the ball; a few Newton steps find the one of the fit at z.
    """
    most = _COLUMNS if problem.gram.affordable else region.to_choose + _FEW_COLUMNS
    worth = z * problem.features.sum(problem.correlations**2)[region.free]
    worth[z >= 1.0] = np.inf
    order = np.argsort(-worth, kind="stable")
    likely = order[: problem.features.first(region.free[order], most, 1)]
    mu, highest = floor, -np.inf
    best = 0.0, np.zeros(z.size), d + problem.ridge + floor  # no score is negative
    for _ in range(_ROUNDS):
        constant, weights, next_mu = _cut_at(problem, region, d, mu, z, likely)
        height = constant - float(weights @ z)
        if height > highest:
            highest, best = height, (constant, weights, d + problem.ridge + mu)
        before, mu = mu, max(floor, next_mu)
        if abs(mu - before) <= _STEADY * (problem.ridge + d + before):
            break
    return best


def _cut_at(
    problem: Problem,
    region: Region,
    d: float,
    mu: float,
    z: Floats,
    likely: NDArray[np.intp],
) -> tuple[float, Floats, float]:
    """Return the cut of beta(z) and the multiplier of the ball for the next round."""
    penalty = d + problem.ridge + mu
    features = problem.features
    held = np.concatenate([np.array(region.inside, dtype=np.intp), region.free[likely]])
    inside, index = features.columns(region.inside), features.columns(held)
    share = np.concatenate([np.ones(len(region.inside)), z[likely]])
    share = np.repeat(share, features.widths[held])
    root = np.sqrt(share)
    rows = problem.gram.columns(index)
    matrix = rows[:, index] * root[:, None] * root
    matrix[np.diag_indices(index.size)] += penalty - d * share
    factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    b = problem.correlations
    gamma = cho_solve(factor, root * b[index], check_finite=False)
    beta = root * gamma
    product = beta @ rows
    among = product[index]
    left = b[index] - among + d * beta
    fixed = left[: inside.size]
    quadratic = float(beta @ among) - d * float(beta @ beta)
    constant = problem.energy - quadratic - mu * problem.radius**2 - float(fixed @ fixed) / penalty
    length = float(np.linalg.norm(gamma))
    curved = float(gamma @ cho_solve(factor, gamma, check_finite=False))
    step = length**2 / curved * (length - problem.radius) / problem.radius if curved > 0 else 0.0
    w = b - product
    w[index] = left
    return constant, features.sum(w**2)[region.free] / penalty, mu + step
