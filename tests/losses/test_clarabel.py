"""Scores against an interior-point solver that knows nothing of this package."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import clarabel
import numpy as np
import pytest
from losses.cases import CASES, Case, size
from scipy import sparse

from dpsubset.arrays import Floats
from dpsubset.losses import Huber, HuberHinge, HuberLogistic, Loss

PROBLEMS = 200
TOLERANCE = 1e-6  # of the score, or of a thousandth of the score without columns


@dataclass(frozen=True)
class Conic:
    """The rows of a loss as a conic program in z = (beta, extra variables).

    Minimise z'P z / 2 + q'z, where s = b - A z lies in the cones.
    """

    square: Floats  # diagonal of P for the extra variables
    linear: Floats  # q for them
    A: sparse.csc_matrix
    b: Floats
    cones: list[object]


def pinball(up: float, down: float) -> Callable[[Floats, Floats], Conic]:
    def rows(X: Floats, y: Floats) -> Conic:
        """X beta + u - v = y with u, v >= 0."""
        n, _ = X.shape
        one = sparse.eye(n)
        A = sparse.bmat([[sparse.csc_matrix(X), one, -one], [None, -one, None], [None, None, -one]])
        cones = [clarabel.ZeroConeT(n), clarabel.NonnegativeConeT(2 * n)]
        linear = np.repeat([up, down], n)
        return Conic(np.zeros(2 * n), linear, A, np.append(y, np.zeros(2 * n)), cones)

    return rows


def hinge(X: Floats, y: Floats) -> Conic:
    """e >= 1 - y X beta and e >= 0."""
    n, _ = X.shape
    one = sparse.eye(n)
    A = sparse.bmat([[sparse.csc_matrix(-y[:, None] * X), -one], [None, -one]])
    b = np.append(-np.ones(n), np.zeros(n))
    return Conic(np.zeros(n), np.ones(n), A, b, [clarabel.NonnegativeConeT(2 * n)])


def huber_hinge(h: float) -> Callable[[Floats, Floats], Conic]:
    def rows(X: Floats, y: Floats) -> Conic:
        """a + e >= 1 + h - y X beta and e >= 0: a^2 / (4 h) + e."""
        n, _ = X.shape
        one = sparse.eye(n)
        A = sparse.bmat([[sparse.csc_matrix(-y[:, None] * X), -one, -one], [None, None, -one]])
        b = np.append(np.full(n, -1.0 - h), np.zeros(n))
        square, linear = np.repeat([0.5 / h, 0.0], n), np.repeat([0.0, 1.0], n)
        return Conic(square, linear, A, b, [clarabel.NonnegativeConeT(2 * n)])

    return rows


def huber(c: float) -> Callable[[Floats, Floats], Conic]:
    def rows(X: Floats, y: Floats) -> Conic:
        """X beta + d + u - v = y with u, v >= 0: d^2 + 2 c (u + v)."""
        n, _ = X.shape
        one = sparse.eye(n)
        A = sparse.bmat(
            [
                [sparse.csc_matrix(X), one, one, -one],
                [None, None, -one, None],
                [None, None, None, -one],
            ]
        )
        square = np.repeat([2.0, 0.0, 0.0], n)
        linear = np.repeat([0.0, 2 * c, 2 * c], n)
        cones = [clarabel.ZeroConeT(n), clarabel.NonnegativeConeT(2 * n)]
        return Conic(square, linear, A, np.append(y, np.zeros(2 * n)), cones)

    return rows


def squared(X: Floats, y: Floats) -> Conic:
    """X beta + d = y."""
    n, _ = X.shape
    A = sparse.bmat([[sparse.csc_matrix(X), sparse.eye(n)]])
    return Conic(np.full(n, 2.0), np.zeros(n), A, y, [clarabel.ZeroConeT(n)])


def logistic(X: Floats, y: Floats) -> Conic:
    """exp(-e) <= p, exp(-m - e) <= q and p + q <= 1, with m = y X beta."""
    n, k = X.shape
    A = sparse.lil_matrix((7 * n, k + 3 * n))
    b = np.zeros(7 * n)
    for i in range(n):
        e, p, q = k + i, k + n + i, k + 2 * n + i
        first = n + 6 * i
        A[i, p] = A[i, q] = b[i] = 1.0
        A[first, e], b[first + 1], A[first + 2, p] = 1.0, 1.0, -1.0
        A[first + 3, :k], A[first + 3, e] = y[i] * X[i], 1.0
        b[first + 4], A[first + 5, q] = 1.0, -1.0
    linear = np.repeat([1.0, 0.0, 0.0], n)
    cones = [clarabel.NonnegativeConeT(n)] + [clarabel.ExponentialConeT()] * (2 * n)
    return Conic(np.zeros(3 * n), linear, A, b, cones)


def huber_logistic(margin: float) -> Callable[[Floats, Floats], Conic]:
    """Logistic loss at m + d, d >= 0, where d costs as much as the steepest slope."""

    def rows(X: Floats, y: Floats) -> Conic:
        n, _ = X.shape
        plain = logistic(X, y)
        more = sparse.lil_matrix((plain.A.shape[0], n))
        for i in range(n):
            more[n + 6 * i + 3, i] = 1.0
        A = sparse.bmat([[plain.A, more], [None, -sparse.eye(n)]], format="lil")
        linear = np.append(plain.linear, np.full(n, 1.0 / (1.0 + np.exp(-margin))))
        cones = [*plain.cones, clarabel.NonnegativeConeT(n)]
        return Conic(np.zeros(4 * n), linear, A, np.append(plain.b, np.zeros(n)), cones)

    return rows


def program(loss: Loss) -> Callable[[Floats, Floats], Conic]:
    if loss.name in ("absolute", "quantile"):
        return pinball(*loss.parameters)
    if isinstance(loss, Huber):
        return huber(loss.c)
    if isinstance(loss, HuberHinge):
        return huber_hinge(loss.h)
    if isinstance(loss, HuberLogistic):
        return huber_logistic(loss.margin)
    return {"squared": squared, "brier": squared, "hinge": hinge, "logistic": logistic}[loss.name]


def settings() -> clarabel.DefaultSettings:
    chosen = clarabel.DefaultSettings()
    chosen.verbose = False
    chosen.tol_gap_abs = chosen.tol_gap_rel = chosen.tol_feas = 1e-10
    chosen.max_iter = 500
    return chosen


def reference(loss: Loss, X: Floats, y: Floats, ridge: float, radius: float) -> tuple[str, Floats]:
    """Return how the solver ended, and its coefficients, brought into the ball.

    Columns and coefficients are scaled so that the solver sees numbers near one.
    """
    k = X.shape[1]
    unit = max(float(np.abs(X).max()), 1.0 / radius)
    X, ridge, ball = X / unit, ridge / unit**2, radius * unit
    rows = program(loss)(X, y)
    extra = rows.square.size
    P = sparse.diags(np.append(np.full(k, 2.0 * ridge), rows.square), format="csc")
    q = np.append(np.zeros(k), rows.linear)
    top = sparse.csc_matrix((1, k + extra))
    cone = sparse.hstack([-sparse.eye(k), sparse.csc_matrix((k, extra))])
    A = sparse.vstack([rows.A, top, cone], format="csc")
    b = np.concatenate([rows.b, [ball], np.zeros(k)])
    cones = [*rows.cones, clarabel.SecondOrderConeT(k + 1)]
    solution = clarabel.DefaultSolver(P, q, A, b, cones, settings()).solve()
    beta = np.array(solution.x[:k]) / unit
    return str(solution.status), beta * min(1.0, radius / max(np.linalg.norm(beta), 1e-300))


def problem(case: Case, seed: int) -> tuple[Floats, Floats, float, float]:
    """Return a table with every kind of trouble in turn, a ridge and a radius."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 4, 8, 15, 25]))
    k = int(rng.choice([1, 2, 3, 5, 8]))
    X = rng.normal(size=(n, k))
    trouble = seed % 10
    if trouble == 1:
        X[:, -1] = X[:, 0]
    elif trouble == 2:
        X[:, -1] = 0.0
    elif trouble == 3:
        X[:, 0] = 1.0
    elif trouble == 4 and k > 2:
        X[:, -1] = X[:, 0] - 2 * X[:, 1]
    elif trouble == 5:
        X = rng.choice([-1.0, 0.0, 1.0], (n, k))  # ties
    t = X @ rng.normal(size=k)
    noise = 0.0 if trouble == 6 else 0.5  # a perfect fit, or separable labels
    if case.loss.classification:
        y = np.where(t + noise * rng.normal(size=n) > 0, 1.0, -1.0)
        if trouble == 7:
            y[:] = 1.0
    else:
        y = t + noise * rng.normal(size=n)
        y = np.full(n, 0.7) if trouble == 7 else np.clip(y / max(1.0, np.abs(y).max()), -1, 1)
    scale = float(rng.choice([1e-3, 1.0, 1.0, 1.0, 1e3]))
    ridge = float(rng.choice([0.0, 0.0, 1e-3, 1.0, 100.0, 1e4]))
    radius = float(rng.choice([0.1, 1.0, 1.1, 5.0])) / float(rng.choice([1.0, scale]))
    return X * scale, y, ridge, radius


def compare(case: Case, seeds: range) -> None:
    for seed in seeds:
        X, y, ridge, radius = problem(case, seed)
        fit = case.loss.fit(X, y, ridge, radius)
        status, beta = reference(case.loss, X, y, ridge, radius)
        assert status in ("Solved", "AlmostSolved"), (seed, status)
        theirs = case.loss.value(y, X @ beta).sum() + ridge * beta @ beta
        empty = case.loss.value(y, np.zeros(y.size)).sum()
        slack = TOLERANCE * max(theirs, 1e-3 * empty)
        assert fit.primal == pytest.approx(theirs, abs=slack), seed
        assert fit.dual <= theirs + slack, seed
        reach = radius * np.abs(X).max() * np.sqrt(X.shape[1])
        unit = y.size * case.loss.largest(np.abs(y).max(), reach)
        assert fit.primal - fit.dual <= 1e-11 * unit, seed


@pytest.mark.grid(every=5)
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_scores_agree(case: Case, part: int) -> None:
    half = size(PROBLEMS // 2, 10)
    compare(case, range(part * half, (part + 1) * half))


class Tilted(Huber):
    """A loss whose fits are another loss's."""

    def compiled(self):  # type: ignore[no-untyped-def]
        return Huber(1.01 * self.c).compiled()


def test_a_fit_of_another_loss_is_caught() -> None:
    with pytest.raises(AssertionError):
        compare(Case(Tilted(0.1), CASES[4].domain), range(20))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_scores_agree_with_a_modelling_language(case: Case) -> None:
    """The conic programs above, once more, in words that are hard to get wrong."""
    cvxpy = pytest.importorskip("cvxpy")
    for seed in (100, 103, 105):
        X, y, ridge, radius = problem(case, seed)
        beta = cvxpy.Variable(X.shape[1])
        t = X @ beta
        losses = {
            "squared": lambda t=t, y=y: cvxpy.sum_squares(y - t),
            "brier": lambda t=t, y=y: cvxpy.sum_squares(y - t),
            "absolute": lambda t=t, y=y: cvxpy.norm1(y - t),
            "quantile": lambda t=t, y=y: cvxpy.sum(
                cvxpy.maximum(case.loss.parameters[0] * (y - t), case.loss.parameters[1] * (t - y))
            ),
            "huber": lambda t=t, y=y: cvxpy.sum(cvxpy.huber(y - t, case.loss.parameters[0])),
            "hinge": lambda t=t, y=y: cvxpy.sum(cvxpy.pos(1 - cvxpy.multiply(y, t))),
            "huber_hinge": lambda t=t, y=y: rounded_hinge(cvxpy, t, y, case.loss.parameters[0]),
            "logistic": lambda t=t, y=y: cvxpy.sum(cvxpy.logistic(-cvxpy.multiply(y, t))),
            "huber_logistic": lambda t=t, y=y: straightened(cvxpy, t, y, case.loss.parameters[0]),
        }
        goal = losses[case.loss.name]() + ridge * cvxpy.sum_squares(beta)
        task = cvxpy.Problem(cvxpy.Minimize(goal), [cvxpy.norm2(beta) <= radius])
        task.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        score = case.loss.fit(X, y, ridge, radius).primal
        empty = case.loss.value(y, np.zeros(y.size)).sum()
        assert score == pytest.approx(task.value, abs=TOLERANCE * max(score, 1e-3 * empty))


def straightened(cvxpy: Any, t: Any, y: Floats, margin: float) -> Any:
    nearer = cvxpy.Variable(y.size, nonneg=True)
    margins = cvxpy.multiply(y, t) + nearer
    return cvxpy.sum(cvxpy.logistic(-margins)) + cvxpy.sum(nearer) / (1.0 + np.exp(-margin))


def rounded_hinge(cvxpy: Any, t: Any, y: Floats, h: float) -> Any:
    short = cvxpy.pos(1 + h - cvxpy.multiply(y, t))
    return cvxpy.sum(cvxpy.huber(short, 2 * h)) / (4 * h)
