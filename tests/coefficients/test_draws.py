"""Releases of objective perturbation follow the exact law of `exact` (T27).

Chi-square and Kolmogorov-Smirnov tests with fixed seeds, of false-alarm rate 1e-6 each, and broken
twins that must be caught.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coefficients.problems import make_problem, released
from scipy import stats

from dpsubset import Problem
from dpsubset.audit.densities import LABELLED, LOSSES, Grid, Law, make_grid, shortened
from dpsubset.coefficients import ObjectivePerturbation
from dpsubset.coefficients.objective import _squared
from dpsubset.privacy import Randomness, as_randomness

FALSE_ALARM = 1e-6
DRAWS = 1000


def cells(points: np.ndarray, radius: float, rim: float) -> np.ndarray:
    """Number the cells of the ball and of its rim, which is all that is beyond `rim`."""
    lengths = np.sqrt((points**2).sum(axis=1))
    out = lengths > rim
    if points.shape[1] == 1:
        place = np.clip((points[:, 0] / radius + 1) * 6, 0, 11).astype(int)
        return np.where(out, np.where(points[:, 0] > 0, 13, 12), place)
    angle = (np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi) % 1.0 * 8).astype(int) % 8
    ring = np.where(out, 3, np.minimum(3 * (lengths / radius) ** 2, 2).astype(int))
    return 8 * ring + angle


def fits(mechanism: ObjectivePerturbation, problem: Problem, grid: Grid, law: Law) -> float:
    """Return the p-value of a chi-square test of releases against the law."""
    rim = problem.radius - 12 * mechanism.constants(problem).mask
    weights = np.exp(law.on(grid)) * grid.weights
    expected = np.bincount(cells(grid.points, grid.radius, rim), weights, minlength=32)
    draws = released(mechanism, problem, DRAWS)
    seen = np.bincount(cells(draws, grid.radius, rim), minlength=32)
    expected *= DRAWS / expected.sum()
    order = np.argsort(-expected)  # the rarest cells, of less than 8 draws each, count as one
    split = int((expected[order] >= 8).sum()) - 1
    expected, seen = (np.append(v[order[:split]], v[order[split:]].sum()) for v in (expected, seen))
    assert len(expected) > 5
    return float(stats.chisquare(seen, expected).pvalue)


def case(loss: str, size: int, delta: float) -> tuple[ObjectivePerturbation, Problem, Grid, Law]:
    """Make a case whose minimiser is sometimes inside the ball and sometimes on its rim."""
    problem = make_problem(4, size, loss, radius=2.0 if loss in LABELLED else 1.0)
    row = 0.8 if loss == "logistic" else None
    mechanism = ObjectivePerturbation(2.0, delta=delta, row_bound=row, curvature_share=0.4)
    given = mechanism.constants(problem)
    X = shortened(problem.design.take(range(size)), given.row)
    radius = problem.radius
    law = Law(loss, X, problem.y, given.ridge, radius, given.scale, delta > 0, parts=given.parts)
    return mechanism, problem, make_grid(size, radius, 2000 if size == 1 else 200, 240), law


@pytest.mark.grid(every=5)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("size", [1, 2])
def test_releases_follow_the_law(loss: str, size: int) -> None:
    for delta in (0.0, 0.02) if loss == "huber:0.3" else (0.0,):
        assert fits(*case(loss, size, delta)) > FALSE_ALARM


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("how", ["shorter", "one direction", "no noise on top"])
def test_broken_terms_are_caught(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = ObjectivePerturbation._term

    def broken(self: Any, parts: Any, scale: float, randomness: Randomness) -> np.ndarray:
        term = draw(self, parts, scale, randomness)
        if how == "one direction":
            term[0] = abs(term[0])
        return 0.7 * term if how == "shorter" else term * (how == "one direction")

    monkeypatch.setattr(ObjectivePerturbation, "_term", broken)
    for size in (1, 2):
        assert fits(*case("huber:0.3", size, 0.0)) < FALSE_ALARM


@pytest.mark.parametrize("parts", [(1, 1), (1,) * 5, (2, 1, 3)])
def test_law_of_a_term_of_several_parts(parts: tuple[int, ...]) -> None:
    """Its norm, the largest of its parts', is Gamma distributed, and so is a part's given it."""
    mechanism, randomness = ObjectivePerturbation(1.0), as_randomness(1)
    size = sum(parts)
    terms = np.array([mechanism._term(parts, 2.0, randomness) for _ in range(4000)])
    ends = np.cumsum(parts)
    norms = np.array(
        [np.linalg.norm(terms[:, b - w : b], axis=1) for w, b in zip(parts, ends, strict=True)]
    )
    largest = norms.max(axis=0)
    assert stats.kstest(largest, stats.gamma(size, scale=2.0).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(largest, stats.gamma(size + 0.3, scale=2.0).cdf).pvalue < FALSE_ALARM
    # Which part is the longest goes by its number of columns; shorter ones are uniform within.
    longest = np.bincount(norms.argmax(axis=0), minlength=len(parts))
    assert stats.chisquare(longest, 4000 * np.array(parts) / size).pvalue > FALSE_ALARM
    first = norms.argmax(axis=0) > 0
    inside = (norms[0] / largest)[first] ** parts[0]
    assert stats.kstest(inside, stats.uniform.cdf).pvalue > FALSE_ALARM
    assert stats.binomtest(int((terms[:, 0] > 0).sum()), 4000).pvalue > FALSE_ALARM
    # What the ridge's rule counts on (T42): the mean of the squared norm.
    assert (terms**2).sum(axis=1).mean() == pytest.approx(4.0 * _squared(parts), rel=0.1)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_law_of_the_linear_term(size: int) -> None:
    """Of one part: its length is Gamma distributed, its direction uniform."""
    mechanism, randomness = ObjectivePerturbation(1.0), as_randomness(1)
    terms = np.array([mechanism._term((size,), 2.0, randomness) for _ in range(4000)])
    lengths = np.sqrt((terms**2).sum(axis=1))
    assert stats.kstest(lengths, stats.gamma(size, scale=2.0).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(lengths, stats.gamma(size + 0.3, scale=2.0).cdf).pvalue < FALSE_ALARM
    squares = (terms[:, 0] / lengths) ** 2
    if size > 1:
        law = stats.beta(0.5, (size - 1) / 2)
        assert stats.kstest(squares, law.cdf).pvalue > FALSE_ALARM
    assert stats.binomtest(int((terms[:, 0] > 0).sum()), 4000).pvalue > FALSE_ALARM
    normal = ObjectivePerturbation(1.0, delta=1e-3)
    terms = np.array([normal._term((size,), 2.0, randomness) for _ in range(2000)]).ravel()
    assert stats.kstest(terms, stats.norm(scale=2.0).cdf).pvalue > FALSE_ALARM
