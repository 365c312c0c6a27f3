"""The best cut for a region: the paper's perspective problem at the envelope's inclusions (T12)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from dpsubset.arrays import Floats
from dpsubset.cuts.recipe import Recipe
from dpsubset.cuts.region import Region
from dpsubset.cuts.symmetric import inclusion
from dpsubset.problem import Problem

__all__ = ["STEPS", "Optimised", "optimise", "tangent"]

_ROUNDS = 12  # of the search for the ball's multiplier
STEPS = 40  # of Newton, at most; a dozen mostly do
_HALVINGS = 8  # of a step that lowers the log mass by too little
_EXPECTED = 0.1  # of what the slope promises a step must bring
_COLUMNS = 640  # columns that carry coefficients; the others keep zero, which is always valid
_FEW_COLUMNS = 8  # of a tangent when their Gram columns cost passes over the table
_ENOUGH = 0.02  # stop when a step lowers the log mass by less
_STEADY = 1e-4  # relative change of the ball's multiplier that ends its search


@dataclass(frozen=True, eq=False)
class Optimised:
    """A cut's constant and weights, the least penalty of a column, and the log mass under it."""

    constant: float
    weights: Floats
    penalty: float
    log_mass: float
    recipe: Recipe | None = None
    mixture: tuple[NDArray[np.intp], Floats] | None = None  # columns, and coefficients behind it


def optimise(
    problem: Problem,
    region: Region,
    d: Floats,
    kappa: float,
    floor: float,
    mu: float,
    guess: Floats | None,
    steps: int = STEPS,
) -> Optimised:
    """Lower the log mass of exp(-kappa cut) over the region by Newton's steps.

    `d` has a number a column with X'X - diag(d) positive semidefinite (T11). The log mass is convex
    in the coefficients and the multiplier together (T12), and every point gives a valid cut. It
    begins at the better of two fits: with guessed inclusions, and of all.
    """
    t = region.to_choose
    z = np.full(region.free.size, t / region.free.size) if guess is None else guess
    order = np.argsort(-z)
    likely = order[: problem.features.first(region.free[order], _COLUMNS, 1)]
    masses = _Masses(problem, region, d, kappa, likely)
    penalty, least = problem.ridge + mu, problem.ridge + floor
    fits = (masses.fitted(some, penalty) for some in (z[likely], np.ones(likely.size)))
    now = min((masses.at(beta, penalty) for beta in fits), key=lambda point: point.cut.log_mass)
    for _ in range(steps):
        problem.allowance.check()
        after = masses.lower(now, least)
        if after is None:
            break
        gain, now = now.cut.log_mass - after.cut.log_mass, after
        if gain < _ENOUGH:
            break
    # Predictions stay within those of the ball, as rounding asks (T19); at the optimum they do.
    most = problem.radius * np.sqrt(problem.size)
    long = masses.length(now.beta) / max(most, 1e-300)
    return now.cut if long <= 1.0 else masses.at(now.beta / long, now.penalty).cut


@dataclass(frozen=True, eq=False)
class _Point:
    """Coefficients and a penalty, with the cut that they give."""

    beta: Floats
    penalty: float  # of all columns: ridge and multiplier of the ball
    rho: Floats  # of the columns that carry coefficients, with what curvature adds
    left: Floats  # of the correlations, on the same columns
    cut: Optimised
    shares: Floats  # inclusion probabilities of the free features


@dataclass(frozen=True, eq=False)
class _Masses:
    """The log mass of one region as a function of coefficients and the penalty, T12's phi."""

    problem: Problem
    region: Region
    d: Floats
    kappa: float
    likely: NDArray[np.intp]  # of the free features, those that carry coefficients

    @cached_property
    def _held(self) -> NDArray[np.intp]:
        """The features that carry coefficients, those inside first."""
        inside = np.array(self.region.inside, dtype=np.intp)
        return np.concatenate([inside, self.region.free[self.likely]])

    @cached_property
    def _index(self) -> NDArray[np.intp]:
        return self.problem.features.columns(self._held)

    @cached_property
    def _inside(self) -> int:
        """How many of the columns belong to features inside."""
        return self.problem.features.columns(self.region.inside).size

    @cached_property
    def _widths(self) -> NDArray[np.intp]:
        return self.problem.features.widths[self._held]

    @cached_property
    def _rows(self) -> Floats:
        return self.problem.gram.columns(self._index)

    @cached_property
    def _matrix(self) -> Floats:
        """X'X - diag(d) of the columns that carry coefficients."""
        out = self._rows[:, self._index].copy()
        out[np.diag_indices(self._index.size)] -= self.d[self._index]
        return out

    def _spread(self, inside: float, free: Floats) -> Floats:
        """Return a value for the features inside and one for each likely one as values a column."""
        values = np.concatenate([np.full(len(self.region.inside), inside), free])
        return np.repeat(values, self._widths)

    def _summed(self, values: Floats) -> Floats:
        """Return sums over each feature's columns, given to all of them, along the last axis."""
        if self.problem.features.identity:
            return values
        starts = np.cumsum(self._widths) - self._widths
        return np.repeat(np.add.reduceat(values, starts, axis=-1), self._widths, axis=-1)

    def length(self, beta: Floats) -> float:
        """Return the sum of the norms of the features' coefficients."""
        norms = np.sqrt(self._summed(beta**2))
        return float((norms / np.repeat(self._widths, self._widths)).sum())

    def fitted(self, likely: Floats, penalty: float) -> Floats:
        """Return the coefficients that are best if inclusions stay as they are."""
        root = np.sqrt(self._spread(1.0, likely) / (self.d[self._index] + penalty))
        matrix = self._matrix * root[:, None] * root
        matrix[np.diag_indices(root.size)] += 1.0
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        b = self.problem.correlations[self._index]
        return np.asarray(root * cho_solve(factor, root * b, check_finite=False))

    def at(self, beta: Floats, penalty: float) -> _Point:
        """Return the cut of some coefficients."""
        problem, index = self.problem, self._index
        product = beta @ self._rows
        w = problem.correlations - product
        own = self.d[index] * beta
        w[index] += own
        every = self.d + penalty
        left, rho = w[index], every[index]
        fixed = left[: self._inside]
        quadratic = float(beta @ product[index]) - float(beta @ own)
        mu = penalty - problem.ridge
        constant = problem.energy - quadratic - mu * problem.radius**2
        constant -= float(np.sum(fixed**2 / rho[: self._inside]))
        weights = problem.features.sum(w**2 / every)[self.region.free]
        total, shares = inclusion(self.kappa * weights, self.region.to_choose)
        mass = float(total) - self.kappa * constant
        cut = Optimised(constant, weights, float(every.min()), mass, mixture=(index, beta))
        return _Point(beta, penalty, rho, left, cut, shares)

    def lower(self, now: _Point, least: float) -> _Point | None:
        """Return the point after a step of Newton, None where it does not go down."""
        try:
            along, more, slope = self._step(now, least)
        except np.linalg.LinAlgError:  # numbers too large or too small for a step
            return None
        share = 1.0
        for _ in range(_HALVINGS):
            after = self.at(now.beta + share * along, now.penalty + share * more)
            if after.cut.log_mass <= now.cut.log_mass + _EXPECTED * share * slope:
                return after if after.cut.log_mass < now.cut.log_mass else None
            share /= 2
        return None

    def _step(self, now: _Point, least: float) -> tuple[Floats, float, float]:
        """Return the step in coefficients and penalty, and the slope along it (T12.5).

        The derivatives are exact but for the inclusions' covariances, which are diagonal less a
        product of two vectors.
        """
        M, v, r = self._matrix, now.left, self.problem.radius
        u = v / now.rho
        twice = 2 * self.kappa
        each = self._spread(1.0, now.shares[self.likely])
        spread, total = _covariance(now.shares)
        vary = self._spread(0.0, spread[self.likely]) * twice
        alpha, e = each * twice / now.rho, vary * u

        def curved(x: Floats) -> Floats:
            return e * (self._summed(u * x) * twice) - e * (float(e @ x) / total)

        q = alpha * u + curved(u) / 2
        s = float(alpha @ u**2 + u @ curved(u) / 4)
        gradient = twice * now.beta - alpha * v  # of which M times is the slope in beta
        slope = self.kappa * (r**2 - float(each @ u**2))
        solve = self._solver(alpha, vary * twice, u)
        Me, along_e = M @ e, solve(e)
        short = total - float(Me @ along_e)

        def newton(x: Floats) -> Floats:
            y = solve(x)
            return y + along_e * (float(Me @ y) / short) if short > 1e-9 * total else y

        Mq, along_q, along = M @ q, newton(q), newton(gradient)
        curve = s - float(Mq @ along_q)
        more = (float(Mq @ along) - slope) / curve if curve > 1e-12 * s else 0.0
        more = min(max(more, least - now.penalty), 2 * float(now.rho.min()))
        step = -(along + more * along_q)
        return step, more, float((M @ gradient) @ step) + slope * more

    def _solver(self, alpha: Floats, vary: Floats, u: Floats) -> Callable[[Floats], Floats]:
        """Return x -> (2 kappa + (alpha + vary u u') M)^-1 x, u u' feature by feature.

        With W W' for the inner matrix that is (x - W (2 kappa + W'M W)^-1 W'M x) / 2 kappa.
        """
        M, twice = self._matrix, 2 * self.kappa
        root = np.sqrt(alpha)
        unit = u / np.maximum(root, 1e-100)
        norms = self._summed(unit**2)
        unit = unit / np.sqrt(np.maximum(norms, 1e-300))
        raised = (np.sqrt(1.0 + vary * norms) - 1.0) * unit

        def spread(x: Floats) -> Floats:
            return np.asarray(root * (x + self._summed(x * unit) * raised))

        def gathered(x: Floats) -> Floats:
            y = root * x
            return np.asarray(y + self._summed(y * unit) * raised)

        matrix = gathered(gathered(M).T)
        matrix[np.diag_indices(u.size)] += twice
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)

        def solve(x: Floats) -> Floats:
            inner = cho_solve(factor, gathered(M @ x), check_finite=False)
            return np.asarray((x - spread(inner)) / twice)

        return solve


def _covariance(shares: Floats) -> tuple[Floats, float]:
    """Return c and its sum, with diag(c) - cc'/sum(c) near the inclusions' covariances.

    Its diagonal is theirs; so is every row's sum, 0: a support has as many features as another.
    """
    own = shares * (1.0 - shares)
    c = own
    for _ in range(5):
        c = own / (1.0 - np.minimum(c / max(float(c.sum()), 1e-300), 0.5))
    return c, max(float(c.sum()), 1e-300)


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
