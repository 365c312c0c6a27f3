"""Brute force: every support listed, every score and every law computed the slow, plain way.

Nothing here imports the library. Scores of squared loss come from singular values of the listed
columns and bisection on the ball's multiplier (never from a Gram matrix), those of other losses
from a cone solver, each with a dual value that certifies it; laws come from the definitions of the
mechanisms (T4, T5, T6, T8).
"""

from __future__ import annotations

import hashlib
import itertools
import math
from dataclasses import dataclass
from typing import Any

import clarabel
import numpy as np
from scipy import sparse, stats
from scipy.special import logsumexp, roots_legendre, xlogy

KINDS = ("plain", "correlated", "duplicates", "ties", "ball", "ridge0", "wide", "marked")
LOSSES = ("absolute", "quantile:0.3", "huber:0.1", "hinge", "logistic")  # beside squared loss
LABELLED = ("hinge", "logistic")


@dataclass(frozen=True)
class Case:
    """A raw table (entries may lie outside the bounds) with the parameters of a problem."""

    kind: str
    X: np.ndarray
    y: np.ndarray
    size: int
    x_bound: float
    y_bound: float
    radius: float
    ridge: float
    include: tuple[int, ...] = ()
    exclude: tuple[int, ...] = ()
    loss: str = "squared"

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `Problem(case.X, case.y, ...)`."""
        names = ("size", "x_bound", "y_bound", "radius", "ridge", "include", "exclude", "loss")
        given = {name: getattr(self, name) for name in names}
        if self.loss in LABELLED:
            del given["y_bound"]
            given["classes"] = (-1, 1)
        return given

    def clipped(self) -> tuple[np.ndarray, np.ndarray]:
        X = np.clip(np.asarray(self.X, dtype=float), -self.x_bound, self.x_bound)
        return X, np.clip(np.asarray(self.y, dtype=float), -self.y_bound, self.y_bound)

    def supports(self) -> np.ndarray:
        return all_supports(self.X.shape[1], self.size, self.include, self.exclude)

    def scores(self, supports: np.ndarray | None = None) -> np.ndarray:
        listed = self.supports() if supports is None else supports
        return self.certified(listed)[0]

    def certified(self, supports: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return R(S) (T1) of every listed support as a primal value and a dual value below it."""
        X, y = self.clipped()
        if self.loss == "squared":
            return certified_scores(X, y, supports, self.radius, self.ridge)
        return cone_scores(X, y, supports, self.radius, self.ridge, self.loss)

    def scale(self) -> float:
        """Return the loss of the prediction 0 (y'y): no score is above, rounding relative to it."""
        y = self.clipped()[1]
        return float(loss_values(self.loss, y, np.zeros_like(y)).sum())

    def delta(self, rule: str = "tight") -> float:
        """Return how far one row moves a score.

        tight: against all others, what one target's loss can rise above its least value (T38);
        largest: by itself, the largest value of a row's loss (T2); paper: the paper's larger bound.
        """
        reach = self.radius * self.x_bound * math.sqrt(self.size)
        if rule == "paper" and self.loss == "squared":
            return 2 * self.y_bound**2 + 2 * reach**2
        y = np.array([1.0]) if self.loss in LABELLED else self.y_bound * np.linspace(-1, 1, 2001)
        ends = loss_values(self.loss, y, -reach), loss_values(self.loss, y, reach)
        nearest = np.full(1, reach) if self.loss in LABELLED else np.clip(y, -reach, reach)
        least = loss_values(self.loss, y, nearest) if rule == "tight" else 0.0
        return float((np.maximum(*ends) - least).max())

    def kappa(self, epsilon: float, neighbours: str, rule: str = "tight") -> float:
        halves = {"replace-one": 2.0, "add-remove": 1.0}[neighbours]
        return epsilon / (halves * self.delta(rule))


def all_supports(
    p: int, size: int, include: tuple[int, ...] = (), exclude: tuple[int, ...] = ()
) -> np.ndarray:
    """List every allowed support, each sorted, in lexicographic order."""
    free = [j for j in range(p) if j not in include and j not in exclude]
    chosen = itertools.combinations(free, size - len(include))
    rows = sorted(tuple(sorted((*include, *extra))) for extra in chosen)
    return np.array(rows, dtype=np.int64).reshape(len(rows), size)


def certified_scores(
    X: np.ndarray, y: np.ndarray, supports: np.ndarray, radius: float, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return R(S) (T1) of every listed support as a primal value and a dual value below it."""
    n, p = X.shape
    if n == 0:
        return np.zeros(len(supports)), np.zeros(len(supports))
    if n > p + 1:  # a rotation of the rows changes no score
        triangle = np.linalg.qr(np.column_stack([X, y]), mode="r")
        X, y = triangle[:, :p], triangle[:, p]
    U, sigma, _ = np.linalg.svd(X.T[supports].transpose(0, 2, 1), full_matrices=False)
    sigma = np.where(sigma > 1e-11 * max(1e-300, float(np.abs(X).max())), sigma, 0.0)
    c = np.einsum("kir,i->kr", U, y)
    rest = np.sum((y - np.einsum("kir,kr->ki", U, c)) ** 2, axis=1)
    mu = _multiplier(sigma, c, radius, ridge)
    beta = _coefficients(sigma, c, ridge, mu)
    norm = np.linalg.norm(beta, axis=1, keepdims=True)
    beta = beta * np.minimum(1.0, radius / np.maximum(norm, 1e-300))
    primal = rest + np.sum((c - sigma * beta) ** 2 + ridge * beta**2, axis=1)
    explained = np.sum(sigma * c * _coefficients(sigma, c, ridge, mu), axis=1)
    return primal, rest + np.sum(c**2, axis=1) - explained - mu * radius**2


def _coefficients(sigma: np.ndarray, c: np.ndarray, ridge: float, mu: np.ndarray) -> np.ndarray:
    bottom = sigma**2 + ridge + mu[:, None]
    return np.where(sigma > 0, sigma * c / np.where(bottom > 0, bottom, 1.0), 0.0)


def _multiplier(sigma: np.ndarray, c: np.ndarray, radius: float, ridge: float) -> np.ndarray:
    """Return the ball's multiplier: bisection on the norm, which falls as mu grows."""
    high = np.linalg.norm(sigma * c, axis=1) / radius
    low = np.zeros_like(high)
    free = np.linalg.norm(_coefficients(sigma, c, ridge, low), axis=1) <= radius
    for _ in range(70):
        middle = (low + high) / 2
        outside = np.linalg.norm(_coefficients(sigma, c, ridge, middle), axis=1) > radius
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    return np.where(free, 0.0, high)


# ---- the other losses, by a cone solver -------------------------------------------------------


def parted(loss: str) -> tuple[str, float]:
    """Return the name of a loss and its parameter."""
    name, _, parameter = loss.partition(":")
    return name, float(parameter or "nan")


def loss_values(loss: str, y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return the loss of every row, from its definition."""
    name, parameter = parted(loss)
    d = np.abs(y - t)
    if name == "absolute":
        return d
    if name == "quantile":
        return np.where(t < y, parameter * d, (1 - parameter) * d)
    if name == "huber":
        return np.where(d <= parameter, d**2, 2 * parameter * d - parameter**2)
    if name == "hinge":
        return np.maximum(1 - y * t, 0)
    return d**2 if name == "squared" else np.logaddexp(0, -y * t)


def loss_conjugates(loss: str, y: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Move every a into the domain of the conjugate; return it and the conjugate there."""
    name, parameter = parted(loss)
    if name in LABELLED:
        q = np.clip(-a * y, 0, 1)
        return -q * y, -q if name == "hinge" else xlogy(q, q) + xlogy(1 - q, 1 - q)
    ends = {"absolute": (1.0, 1.0), "huber": (2 * parameter, 2 * parameter)}
    up, down = ends.get(name, (parameter, 1 - parameter))
    a = np.clip(a, -up, down)
    return a, a * y + (a**2 / 4 if name == "huber" else 0.0)


def cone_scores(
    X: np.ndarray, y: np.ndarray, supports: np.ndarray, radius: float, ridge: float, loss: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the same as `certified_scores` for any loss.

    A solver proposes coefficients b and slopes a, one a row. What counts is computed here: the
    objective at b, and the dual objective (T10) at a. A Newton step or two proposes once more.
    Several tests ask for the same scores: they are remembered.
    """
    primal, dual = np.zeros(len(supports)), np.zeros(len(supports))
    table = hashlib.sha256(np.column_stack([X, y]).tobytes()).digest()
    for row, support in enumerate(supports if len(y) else supports[:0]):
        key = (table, X.shape, radius, ridge, loss, tuple(support.tolist()))
        if key not in _SOLVED:
            _SOLVED[key] = _cone_score(X[:, support] * radius, y, ridge * radius**2, loss)
        primal[row], dual[row] = _SOLVED[key]
    return primal, dual


_SOLVED: dict[tuple[Any, ...], tuple[float, float]] = {}


def _cone_score(A: np.ndarray, y: np.ndarray, penalty: float, loss: str) -> tuple[float, float]:
    """Return both values for one support, in units of the ball: |b| <= 1."""
    propose = {"huber": _huber, "logistic": _logistic}.get(parted(loss)[0], _two_lines)
    values = [_values(A, y, penalty, loss, b, a) for b, a in propose(A, y, penalty, loss)]
    return min(v[0] for v in values), max(v[1] for v in values)


def _values(
    A: np.ndarray, y: np.ndarray, ridge: float, loss: str, b: np.ndarray, a: np.ndarray
) -> tuple[float, float]:
    """Return the objective at b, shrunk into the ball, and the dual objective at a (T10)."""
    b = b / max(1.0, float(np.linalg.norm(b)))
    a, conjugates = loss_conjugates(loss, y, a)
    v = float(np.linalg.norm(A.T @ a))
    reach = min(1.0, v / (2 * ridge)) if ridge else 1.0  # |b| where -v'b - ridge |b|^2 is largest
    primal = loss_values(loss, y, A @ b).sum() + ridge * b @ b
    return float(primal), float(-conjugates.sum() - v * reach + ridge * reach**2)


Proposals = list[tuple[np.ndarray, np.ndarray]]


def _two_lines(A: np.ndarray, y: np.ndarray, ridge: float, loss: str) -> Proposals:
    """Minimise the sum of u, where u is above both lines c + k t that the loss is made of."""
    name, tau = parted(loss)
    n, s = A.shape
    up, down = {"absolute": (1.0, 1.0), "hinge": (y, 0.0 * y)}.get(name, (tau, 1 - tau))
    c = np.concatenate([up * y, -down * y])
    k = np.concatenate([np.broadcast_to(-up, n), np.broadcast_to(down, n)])
    places = np.arange(2 * n), s + np.tile(np.arange(n), 2)
    columns = np.tile(A, (2, 1)) * k[:, None]
    cones = [clarabel.NonnegativeConeT(2 * n)]
    b, z = _solve(columns, places, -np.ones(2 * n), -c, np.ones(n), np.zeros(n), ridge, cones)
    return [(b, z[:n] * k[:n] + z[n : 2 * n] * k[n:])]


def _huber(A: np.ndarray, y: np.ndarray, ridge: float, loss: str) -> Proposals:
    """Minimise v^2 + 2 c u over |y - t - v| <= u."""
    c = parted(loss)[1]
    n, s = A.shape
    rows, two = np.arange(2 * n), s + np.tile(np.arange(n), 2)
    places = np.concatenate([rows, rows]), np.concatenate([two, n + two])
    entries = np.concatenate([np.repeat([-1.0, 1.0], n), -np.ones(2 * n)])
    cost, curve = np.repeat([0.0, 2 * c], n), np.repeat([2.0, 0.0], n)
    right, cones = np.concatenate([-y, y]), [clarabel.NonnegativeConeT(2 * n)]
    b, z = _solve(np.vstack([-A, A]), places, entries, right, cost, curve, ridge, cones)

    def slopes(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.clip(2 * (t - y), -2 * c, 2 * c), np.where(np.abs(t - y) <= c, 2.0, 0.0)

    return [(b, z[n : 2 * n] - z[:n]), *_newton(A, ridge, b, slopes)]


def _logistic(A: np.ndarray, y: np.ndarray, ridge: float, loss: str) -> Proposals:
    """Minimise the sum of u over v + w <= 1, exp(-y t - u) <= v and exp(-u) <= w."""
    n, s = A.shape
    rows = np.arange(n)
    first, second = n + 3 * rows, 4 * n + 3 * rows  # cones (x, 1, z) with exp(x) <= z
    columns = np.zeros((7 * n, s))
    columns[first] = y[:, None] * A
    places = (
        np.concatenate([rows, rows, first, second, first + 2, second + 2]),
        s + np.concatenate([rows + n, rows + 2 * n, rows, rows, rows + n, rows + 2 * n]),
    )
    entries = np.repeat([1.0, 1.0, 1.0, 1.0, -1.0, -1.0], n)
    right = np.concatenate([np.ones(n), np.tile([0.0, 1.0, 0.0], 2 * n)])
    cost, cones = np.repeat([1.0, 0.0, 0.0], n), [clarabel.ExponentialConeT()] * (2 * n)
    cones = [clarabel.NonnegativeConeT(n), *cones]
    b, _ = _solve(columns, places, entries, right, cost, np.zeros(3 * n), ridge, cones)

    def slopes(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q = np.exp(-np.logaddexp(0, y * t))
        return -q * y, q * (1 - q)

    return _newton(A, ridge, b, slopes)


def _newton(A: np.ndarray, ridge: float, b: np.ndarray, slopes: Any, steps: int = 4) -> Proposals:
    """Solve the conditions of optimality, with the ball an equation if b is at its rim."""
    at_rim = bool(np.linalg.norm(b) > 1 - 1e-6)
    proposed: Proposals = []
    for _ in range(steps):
        a, curved = slopes(A @ b)
        proposed.append((b, a))
        gradient = A.T @ a + 2 * ridge * b
        mu = max(0.0, -float(gradient @ b) / 2) if at_rim else 0.0
        matrix = A.T @ (curved[:, None] * A) + 2 * (ridge + mu) * np.eye(len(b))
        target = -gradient - 2 * mu * b
        if at_rim:
            border = 2 * b[:, None]
            matrix = np.block([[matrix, border], [border.T, np.zeros((1, 1))]])
            target = np.append(target, 1 - b @ b)
        b = b + np.linalg.lstsq(matrix, target, rcond=1e-15)[0][: len(b)]
    return proposed


def _solve(
    columns: np.ndarray,
    places: tuple[np.ndarray, np.ndarray],
    entries: np.ndarray,
    right: np.ndarray,
    cost: np.ndarray,
    curve: np.ndarray,
    ridge: float,
    cones: list[Any],
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise ridge |b|^2 + cost'u + curve'u^2 / 2 over |b| <= 1 and u; return b and all duals.

    `right` - columns b - E u lies in the cones, where E has the given entries.
    """
    m, s = columns.shape
    A = np.zeros((m + s + 1, s + len(cost)))
    A[places] = entries
    A[:m, :s] = columns
    A[m + 1 + np.arange(s), np.arange(s)] = -1.0
    b = np.concatenate([right, [1.0], np.zeros(s)])
    P = sparse.diags_array(np.concatenate([np.full(s, 2 * ridge), curve])).tocsc()
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-13
    settings.iterative_refinement_abstol = settings.iterative_refinement_reltol = 1e-16
    settings.iterative_refinement_max_iter = 30
    settings.max_step_fraction = 0.9
    cones = [*cones, clarabel.SecondOrderConeT(s + 1)]
    q = np.concatenate([np.zeros(s), cost])
    found = clarabel.DefaultSolver(P, q, sparse.csc_matrix(A), b, cones, settings).solve()
    return np.array(found.x)[:s], np.array(found.z)


# ---- laws, as log-probabilities over the listed supports -----------------------------------


def exponential_law(scores: np.ndarray, kappa: float) -> np.ndarray:
    """T4: log-probabilities proportional to exp(-kappa R)."""
    return -kappa * scores - logsumexp(-kappa * scores)


def race_law(scores: np.ndarray, kappa: float) -> np.ndarray:
    """T8 by the race of uniform clocks: the integral of one density times all other survivals.

    In units of the best support's deadline the integrand is a polynomial of degree N - 1 with
    positive values, so Gauss-Legendre quadrature with N // 2 + 1 nodes is exact and stable.
    """
    log_q = -kappa * (scores - scores.min())
    nodes, weights = roots_legendre(len(scores) // 2 + 1)
    x = (nodes + 1) / 2
    survival = np.log1p(-np.exp(log_q)[:, None] * x[None, :])
    others = survival.sum(axis=0)[None, :] - survival
    return log_q + logsumexp(others + np.log(weights / 2)[None, :], axis=1)


def top_law(scores: np.ndarray, kappa: float, count: int, trials: float = math.inf) -> np.ndarray:
    """T5: the `count` best keep their weight, the others share the weight of the last of them.

    With finite `trials` a tail draw is up to that many uniform draws over all supports, ended by
    the first outside the top; the last one is returned.
    """
    total = len(scores)
    order = np.argsort(scores, kind="stable")
    law = exponential_law(np.minimum(scores, scores[order[count - 1]]), kappa)
    if count == total or math.isinf(trials):
        return law
    top, tail = order[:count], order[count:]
    log_tail = logsumexp(law[tail])
    log_stuck = trials * math.log(count / total)
    result = law.copy()
    result[top] = np.logaddexp(law[top], log_tail + log_stuck - math.log(count))
    result[tail] = log_tail + math.log1p(-math.exp(log_stuck)) - math.log(total - count)
    return result


def top_epsilon(case: Case, epsilon: float, count: int, trials: float) -> float:
    """Return the paper's epsilon' of finite trials under replace-one."""
    total = len(case.supports())
    if count == total or math.isinf(trials):
        return epsilon
    kappa = case.kappa(epsilon, "replace-one")
    log_delta0 = -kappa * len(case.y) * case.y_bound**2 - math.log(total)
    log_stuck = trials * math.log(count / total)
    return float(np.logaddexp(epsilon, log_stuck - log_delta0)) - math.log(-math.expm1(log_stuck))


def mistakes_of(supports: np.ndarray, best: np.ndarray | tuple[int, ...]) -> np.ndarray:
    """Return for every support the number of its columns outside `best`."""
    return supports.shape[1] - np.isin(supports, np.asarray(best)).sum(axis=1)


def mistakes_law(scores: np.ndarray, supports: np.ndarray, kappa: float) -> np.ndarray:
    """T6: every support weighs as much as the best one with as many mistakes."""
    if gap(scores) < 1e-9 * max(1.0, float(scores.min())):
        raise ValueError("two best supports tie: the law depends on which one is taken")
    k = mistakes_of(supports, supports[scores.argmin()])
    least = np.array([scores[k == one].min() for one in range(k.max() + 1)])
    return exponential_law(least[k], kappa)


def gap(scores: np.ndarray) -> float:
    """Return R_(2) - R_(1), the distance between the best support and the next."""
    if len(scores) < 2:
        return math.inf
    first, second = np.partition(scores, 1)[:2]
    return float(second - first)


# ---- comparing draws with a law --------------------------------------------------------------


def counts_of(draws: np.ndarray, supports: np.ndarray) -> np.ndarray:
    """Count how often each listed support was drawn; an unlisted draw is an error."""
    places = {tuple(row): i for i, row in enumerate(supports.tolist())}
    counts = np.zeros(len(supports), dtype=np.int64)
    rows, repeats = np.unique(np.asarray(draws), axis=0, return_counts=True)
    for row, repeat in zip(rows.tolist(), repeats.tolist(), strict=True):
        counts[places[tuple(row)]] += repeat
    return counts


def chi_square(counts: np.ndarray, log_law: np.ndarray, least: float = 5.0) -> tuple[float, int]:
    """Return the p-value of Pearson's chi-square test and its number of cells.

    From the rarest support on, supports are pooled into cells that expect at least `least` draws.
    One cell alone compares nothing: callers check that enough cells remain.
    """
    expected = counts.sum() * np.exp(log_law)
    order = np.argsort(expected, kind="stable")
    starts, room = [0], 0.0
    for place, more in enumerate(expected[order]):
        if room >= least:
            starts.append(place)
            room = 0.0
        room += more
    if room < least and len(starts) > 1:
        starts.pop()
    expected = np.add.reduceat(expected[order], starts)
    counts = np.add.reduceat(counts[order], starts)
    if len(expected) < 2:
        return 1.0, 1
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    return float(stats.chi2.sf(statistic, len(expected) - 1)), len(expected)


# ---- random problems ----------------------------------------------------------------------------


def sizes(largest: int) -> list[tuple[int, int]]:
    """List every (p, s) with 1 <= s <= p <= largest."""
    return [(p, s) for p in range(1, largest + 1) for s in range(1, p + 1)]


def kinds(loss: str) -> tuple[str, ...]:
    """List the kinds of random problems of a loss."""
    return (*KINDS, "separable") if loss in LABELLED else KINDS


def random_case(seed: int, p: int, size: int, kind: str, loss: str = "squared") -> Case:
    """Draw a problem of the given kind; entries beyond the bounds occur and must be clipped."""
    rng = np.random.default_rng([seed, p, size, kinds(loss).index(kind)])
    include: tuple[int, ...] = ()
    exclude: tuple[int, ...] = ()
    shape = kind
    if kind == "marked":
        marks = rng.permutation(p)
        inside, outside = rng.integers(0, size + 1), rng.integers(0, p - size + 1)
        include = tuple(int(j) for j in marks[:inside])
        exclude = tuple(int(j) for j in marks[p - outside :])
        shape = str(rng.choice(KINDS[:-1]))
    n = int(rng.integers(0, size)) if shape == "wide" else int(rng.integers(size, 4 * p + 8))
    X, y = _table(rng, n, p, shape)
    x_bound, y_bound = (float(b) for b in rng.choice([0.01, 1.0, 30.0], size=2))
    ridge = float(rng.choice([0.0, 1e-9, 0.05, 1.0, 20.0]))
    radius = float(rng.choice([0.7, 2.0, 10.0]))
    if shape == "ball":
        radius = float(rng.uniform(0.01, 0.3))
    if shape == "ridge0":
        ridge, radius = 0.0, 50.0
    if shape == "ties":
        x_bound, y_bound = 1.0, 1.0
    ridge, radius = ridge * x_bound**2, radius * y_bound / x_bound
    X, y = X * x_bound, y * y_bound
    if loss in LABELLED:
        radius, y_bound, y = radius / y_bound, 1.0, np.where(y > 0, 1.0, -1.0)
    return Case(kind, X, y, size, x_bound, y_bound, radius, ridge, include, exclude, loss)


def _table(rng: np.random.Generator, n: int, p: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    if kind == "ties":
        return rng.integers(-1, 2, (n, p)).astype(float), rng.integers(-1, 2, n).astype(float)
    X = rng.normal(scale=0.7, size=(n, p))
    if kind == "correlated":
        X = math.sqrt(0.05) * X + math.sqrt(0.95) * rng.normal(scale=0.7, size=(n, 1))
    if kind == "duplicates":
        X = X[:, rng.integers(0, max(1, p // 2), size=p)] * rng.choice([-1.0, 0.0, 1.0, 1.0], p)
        apart = rng.choice([0.0, 1e-4, 1e-7, 1e-10])  # exact copies, or copies that are nearly so
        X = X + apart * rng.normal(size=(n, p))
    true = rng.normal(size=p) * (rng.random(p) < 0.4)
    noise = 0.0 if kind == "separable" else 0.5
    return X, X @ true + rng.normal(scale=noise, size=n)


def l1_least(A: np.ndarray, y: np.ndarray, ridge: float, radius: float) -> float:
    """Return the least squared loss over an l1 ball, by Clarabel.

    beta = u - v with u, v >= 0 that sum to at most the radius.
    """
    k = A.shape[1]
    H = A.T @ A + ridge * np.eye(k)
    P = sparse.csc_matrix(np.triu(2 * np.block([[H, -H], [-H, H]])))
    q = -2 * np.concatenate([A.T @ y, -A.T @ y])
    rows = sparse.csc_matrix(np.vstack([np.ones(2 * k), -np.eye(2 * k)]))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    right = np.concatenate([[radius], np.zeros(2 * k)])
    cones = [clarabel.NonnegativeConeT(2 * k + 1)]
    return float(y @ y) + clarabel.DefaultSolver(P, q, rows, right, cones, settings).solve().obj_val
