"""Moments of a million rows, held against exact ones: errors are as small as T19.1 says.

Long runs of equal entries make a sum in one go drift: every addition is rounded the same way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from dpsubset import Problem
from dpsubset.coefficients.minimum import minimise
from dpsubset.designs import Design, Gram, as_design
from dpsubset.designs.base import _WithOnes
from dpsubset.designs.sparse import SparseDesign
from dpsubset.losses import Loss, Squared
from dpsubset.sums import BLOCK, dot, dots, total

N = 1_000_000
DRIFTING = 0.94  # a running sum of a million of its squares is off by 2.6e-11 of itself
RADIUS = 1.0625  # holds every minimiser of two columns
U = 2.0**-53
GAMMA = (BLOCK + N // BLOCK + 3) * U  # T19.1 with T19.6's number of roundings
BITS, LIMBS = 16, 4  # of an entry: sums of 2^20 products of two limbs are exact in float64

Floats = NDArray[np.float64]
Exact = list[list[Fraction]]


def limbs(Z: Floats) -> Floats:
    """Write entries in [-1, 1] as sums of whole numbers times 2^-16, 2^-32, ...: side by side."""
    parts, rest = [], Z
    for _ in range(LIMBS):
        rest = np.ldexp(rest, BITS)
        parts.append(np.trunc(rest))
        rest = rest - parts[-1]  # exact: both are multiples of the rest's last bit
    assert not rest.any(), "an entry has more bits than the limbs hold"
    return np.hstack(parts)


def exact_moments(Z: Floats) -> Exact:
    """Return Z'Z without any rounding."""
    n, k = Z.shape
    assert n <= 2**20
    assert np.abs(Z).max() <= 1.0
    sums = np.zeros((k * LIMBS, k * LIMBS))
    for start in range(0, n, 1 << 15):
        part = limbs(Z[start : start + (1 << 15)])
        sums += part.T @ part  # whole numbers of at most 2^52
    weight = [Fraction(1, 2 ** (BITS * (i + 1))) for i in range(LIMBS)]
    out = [[Fraction(0)] * k for _ in range(k)]
    for row in range(k * LIMBS):
        for column in range(k * LIMBS):
            i, a = divmod(row, k)
            j, b = divmod(column, k)
            out[a][b] += int(sums[row, column]) * weight[i] * weight[j]
    return out


@lru_cache(maxsize=1)
def table() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    rows = np.arange(N)
    X = np.column_stack(
        [DRIFTING * (rows % 64 > 0), DRIFTING * (rows % 5 > 0), rng.uniform(0.5, 1.0, N)]
    )
    return X, DRIFTING * (rows % 64 > 1)


DESIGNS: dict[str, Callable[[Floats, Floats], Design]] = {
    "inside": lambda X, y: as_design(X, bound=1.0, partner=y),
    "clipped and mapped": lambda X, y: as_design(X, bound=1.0, lower=-0.8, upper=0.99),
    "float32": lambda X, y: as_design(X.astype(np.float32), bound=1.0),
    "columns first": lambda X, y: as_design(np.asfortranarray(X), bound=1.0),
    "columns first, mapped": lambda X, y: as_design(
        np.asfortranarray(X), bound=1.0, lower=-0.8, upper=0.99
    ),
    "sparse": lambda X, y: as_design(sp.csr_array(X), bound=1.0),
}


@dataclass(frozen=True)
class Case:
    """A design, its columns beside the target, and the exact moments of these."""

    design: Design
    Z: Floats
    exact: Exact
    sizes: Floats  # the moments of absolute values

    def error(self, computed: Floats, rows: Sequence[int], columns: Sequence[int]) -> float:
        """Return the largest error of some moments, as a part of what T19.1 allows."""
        assert computed.shape == (len(rows), len(columns))
        return max(
            abs(float(Fraction(value) - self.exact[i][j])) / (GAMMA * self.sizes[i, j])
            for i, line in zip(rows, computed.tolist(), strict=True)
            for j, value in zip(columns, line, strict=True)
        )

    def errors(self) -> dict[str, float]:
        """Return the error of everything that a design sums over rows."""
        design, p = self.design, self.design.n_columns
        every, norms, y = range(p), design.square_norms(), table()[1]
        rows = np.ascontiguousarray(self.Z)
        return {
            "full_gram": self.error(design.full_gram(), every, every),
            "gram": self.error(design.gram([0, p - 1]), every, [0, p - 1]),
            "block": self.error(Gram(design).block(np.arange(p)), every, every),
            "block of one": self.error(Gram(design).block(np.arange(1)), [0], [0]),
            "X'y": self.error(design.correlate(y)[:, None], every, [p]),
            "X'Z": self.error(design.correlate(rows), every, range(p + 1)),
            "square_norms": max(self.error(norms[[j], None], [j], [j]) for j in every),
        }

    def outside(self, *, full: bool) -> float:
        """Return how far an exact score is outside its interval, in units of the slack."""
        bounds = {"x_bound": self.design.bound, "y_bound": DRIFTING, "radius": RADIUS}
        problem = Problem(self.design, table()[1], size=2, **bounds)
        if full:
            problem.gram.full()
        worst = Fraction(0)
        for i, j in combinations(range(self.design.n_columns), 2):
            score = exact_score(self.exact, i, j)
            low, high = problem.interval([i, j])
            worst = max(worst, Fraction(low) - score, score - Fraction(high))
        return float(worst) / problem.slack


@lru_cache(maxsize=1)
def known(name: str) -> Case:
    """Return a design with a constant column as the last."""
    X, y = table()
    design = DESIGNS[name](X, y).with_ones()
    Z = np.column_stack([design.take(range(4)), y])
    return Case(design, Z, exact_moments(Z), np.abs(Z).T @ np.abs(Z))


def case(name: str, *, ones: bool) -> Case:
    """Return the same with or without the constant column."""
    found = known(name)
    if ones:
        return found
    kept = [0, 1, 2, 4]
    exact = [[found.exact[i][j] for j in kept] for i in kept]
    assert isinstance(found.design, _WithOnes)
    return Case(found.design._inner, found.Z[:, kept], exact, found.sizes[np.ix_(kept, kept)])


def exact_score(exact: Exact, i: int, j: int) -> Fraction:
    """Return the least squared loss on two columns, where the ball does not bind."""
    a, b, d = exact[i][i], exact[i][j], exact[j][j]
    u, v = exact[i][-1], exact[j][-1]
    determinant = a * d - b * b
    beta = (d * u - b * v) / determinant, (a * v - b * u) / determinant
    assert beta[0] ** 2 + beta[1] ** 2 <= Fraction(RADIUS) ** 2
    return exact[-1][-1] - beta[0] * u - beta[1] * v


def test_the_exact_moments_are_exact() -> None:
    rng = np.random.default_rng(1)
    Z = rng.uniform(-1.0, 1.0, (40, 3))
    Z[0] = 1.0, -1.0, 0.1
    Z[1] = 2.0**-8 / 3, -(2.0**-40), 0.0
    columns = [[Fraction(z) for z in column] for column in Z.T.tolist()]
    expected = [[sum(a * b for a, b in zip(u, v, strict=True)) for v in columns] for u in columns]
    assert exact_moments(Z) == expected


@pytest.mark.slow
@pytest.mark.parametrize("ones", [False, True], ids=["alone", "with ones"])
@pytest.mark.parametrize("name", DESIGNS)
def test_moments_and_scores_of_a_million_rows_are_as_exact_as_promised(
    name: str, ones: bool
) -> None:
    given = case(name, ones=ones)
    errors = given.errors()
    assert max(errors.values()) <= 1.0, errors
    assert given.outside(full=False) == 0.0
    assert given.outside(full=True) == 0.0


@pytest.mark.large
def test_a_gram_matrix_summed_in_one_go_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_go(self: SparseDesign, between: object = None) -> Floats:
        return np.asarray((self._table.T @ self._table).toarray())

    monkeypatch.setattr(SparseDesign, "full_gram", one_go)
    given = case("sparse", ones=False)
    assert given.errors()["full_gram"] > 10.0
    assert given.outside(full=False) == 0.0
    assert given.outside(full=True) > 1.0


def test_a_constant_column_summed_in_one_go_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_go(self: _WithOnes, vectors: Floats) -> Floats:
        last = self.bound * vectors.sum(axis=0, keepdims=True)
        return np.concatenate([self._inner.correlate(vectors), last])

    monkeypatch.setattr(_WithOnes, "correlate", one_go)
    errors = case("inside", ones=True).errors()
    assert errors["X'Z"] > 10.0
    assert errors["full_gram"] <= 1.0


@pytest.mark.large
def test_sums_of_a_fit_are_as_exact_as_promised() -> None:
    given = case("inside", ones=True)
    columns, y = np.ascontiguousarray(given.Z[:, :4].T), table()[1]
    assert given.error(dots(columns, y)[:, None], range(4), [4]) <= 1.0
    assert given.error(np.array([[dot(y, y)]]), [4], [4]) <= 1.0
    assert given.error(np.array([[total(y)]]), [3], [4]) <= 1.0
    fit = Squared().fit(given.Z[:, :2], y, 0.0, RADIUS)
    score, largest = exact_score(given.exact, 0, 1), (DRIFTING + RADIUS * 2**0.5) ** 2
    for value in (fit.primal, fit.dual):
        assert abs(Fraction(value) - score) <= Fraction(Loss.precision * N * largest / 2)


def test_the_residual_of_perturbed_coefficients_is_what_was_certified() -> None:
    rows = np.arange(N)
    y = np.where(rows < N / 2, DRIFTING, -0.3)  # half of the slopes are added before the others
    Z = np.column_stack([np.full(N, 0.7), DRIFTING * (rows % 64 > 0), y])
    moments, ridge, allowed = exact_moments(Z), 1.0, 1e-7
    beta = minimise(Squared(), np.ascontiguousarray(Z[:, :2]), y, ridge, 2.0, np.zeros(2), allowed)
    assert np.linalg.norm(beta) < 2.0
    exact = [Fraction(b) for b in beta.tolist()]
    gradient = [
        2 * (sum(moments[i][j] * exact[j] for j in (0, 1)) + Fraction(ridge) * exact[i] - m)
        for i, m in enumerate((moments[0][2], moments[1][2]))
    ]
    assert float(sum(g * g for g in gradient)) ** 0.5 <= 2.0 * allowed  # half is for rounding (T27)
