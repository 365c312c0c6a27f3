"""Coefficients on features of several columns: a value a column, noise that counts them (T32)."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from block_cases import GROUPS, LABELLED, blocks, problem_of
from scipy import stats

from dpsubset import Problem
from dpsubset.audit.densities import Law, make_grid
from dpsubset.coefficients import NoisyStatistics, ObjectivePerturbation
from dpsubset.coefficients.statistics import blocks_sensitivity, statistics_sensitivity
from dpsubset.losses.squared import fit_moments

FALSE_ALARM = 1e-4
METHODS: tuple[Any, ...] = (ObjectivePerturbation, NoisyStatistics)


@pytest.mark.parametrize("method", METHODS)
def test_values_belong_to_the_columns_of_the_support_in_order(method: Any) -> None:
    case = blocks("squared", 2, n=4000, ridge=1.0)
    problem = problem_of(case)
    X, y = case.bounded()
    columns = problem.features.columns([1, 3])
    assert columns.tolist() == [*GROUPS[1], *GROUPS[3]]
    some = X[:, columns]
    wanted, _, _ = fit_moments(some.T @ some, some.T @ y, 0.0, case.ridge, case.radius)
    found = method(1e6).release(problem, [3, 1], random_state=0)
    assert found.support == (1, 3)
    assert len(found.values) == 5
    assert np.abs(np.array(found.values) - wanted).max() < 0.02
    moved = np.roll(wanted, 1)  # another order is noticed
    assert np.abs(np.array(found.values) - moved).max() > 0.05


def test_the_linear_term_has_a_dimension_for_every_column() -> None:
    """Without rows coefficients are the term, scaled; its norm is Gamma distributed (T45)."""
    nothing = {"size": 2, "x_bound": 1.0, "y_bound": 1.0, "radius": 5.0, "loss": "huber"}
    problem = Problem(np.empty((0, 11)), np.empty(0), ridge=50.0, groups=GROUPS, **nothing)
    method = ObjectivePerturbation(1.0, neighbours="add-remove")
    given = method.constants(problem, [1, 4])
    first = len(GROUPS[1])
    lengths = []
    for seed in range(800):
        values = np.array(method.release(problem, [1, 4], random_state=seed).values)
        longest = max(np.linalg.norm(part) for part in (values[:first], values[first:]))
        lengths.append(2 * given.ridge * float(longest) / given.scale)

    def chance(dimension: int) -> float:
        return float(stats.kstest(lengths, stats.gamma(dimension).cdf).pvalue)

    assert chance(7) > FALSE_ALARM
    assert chance(2) < FALSE_ALARM  # one for each feature is too few
    assert chance(6) < FALSE_ALARM


def test_constants_count_features_where_rows_are_bounded_and_columns_where_noise_is_added() -> None:
    problem = problem_of(blocks("squared", 0))
    given = ObjectivePerturbation(1.0).constants(problem)
    assert given.row == pytest.approx(math.sqrt(2))
    assert problem.most_columns == 7
    assert given.mask == pytest.approx(2 * given.inexact * math.sqrt(7) / given.mask_epsilon)


def statistics_of(z: np.ndarray) -> np.ndarray:
    x, y = z[:-1], z[-1]
    return np.concatenate([np.outer(x, x)[np.triu_indices(x.size)], x * y])


def random_row(rng: np.random.Generator, widths: tuple[int, ...]) -> np.ndarray:
    parts = []
    for d in widths:
        part = rng.choice([-1.0, 1.0], d) * rng.choice([rng.random(d), np.ones(d), np.eye(d)[0]])
        parts.append(part / max(1.0, float(np.linalg.norm(part))))
    return np.concatenate([*parts, rng.choice([-1.0, 1.0], 1)])


@pytest.mark.grid(every=5)
@pytest.mark.parametrize("widths", [(2,), (1, 3), (9,), (2, 2, 4), (1, 1, 5)])
def test_the_sensitivity_of_statistics_of_blocks(widths: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    rows = [random_row(rng, widths) for _ in range(300)]
    added = max(np.abs(statistics_of(z)).sum() for z in rows)
    replaced = max(
        np.abs(statistics_of(z) - statistics_of(w)).sum() for z in rows for w in rows[:100]
    )
    bound = blocks_sensitivity(widths, "add-remove")
    assert added <= bound
    assert replaced <= blocks_sensitivity(widths, "replace-one")
    worst = np.concatenate([*(np.full(d, 1 / math.sqrt(d)) for d in widths), [1.0]])
    assert np.abs(statistics_of(worst)).sum() >= bound * (1 - 1e-3)  # attained, but for the grid
    for relation in ("add-remove", "replace-one"):
        found = blocks_sensitivity(widths, relation)
        assert found <= statistics_sensitivity(sum(widths), relation)
        assert found <= blocks_sensitivity((*widths[:-1], widths[-1] + 1), relation)


def largest_ratio(loss: str, relation: str, longest: float) -> tuple[float, float]:
    """Return how far exact densities of coefficients on a block of two columns move, and epsilon.

    Rows of the block reach `longest`; constants are those of a bound of 1.
    """
    labels = {"classes": (-1, 1)} if loss in LABELLED else {"y_bound": 1.0}
    options: dict[str, Any] = {"size": 1, "x_bound": 1.0, "radius": 0.5, "loss": loss, **labels}
    problem = Problem(np.zeros((0, 3)), np.zeros(0), groups=[[0, 1], [2]], **options)
    given = ObjectivePerturbation(1.0, neighbours=relation).constants(problem)
    grid = make_grid(2, 0.5, 8, 12)
    angles = np.linspace(0, 2 * np.pi, 9)[:-1]
    rows = longest * np.column_stack([np.cos(angles), np.sin(angles)])
    tables = [(row[None, :], np.array([y])) for row in rows for y in (-1.0, 1.0)]
    if relation == "add-remove":
        tables.append((np.zeros((0, 2)), np.zeros(0)))
    assert given.parts == (2,)
    laws = [Law(loss, X, y, given.ridge, 0.5, given.scale, False).on(grid) for X, y in tables]
    pairs = combinations(laws, 2) if relation == "replace-one" else ((a, laws[-1]) for a in laws)
    moved = max(float(np.abs(a - b).max()) for a, b in pairs)
    return moved, given.noise_epsilon + given.curvature_epsilon


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("loss", ["squared", "huber:0.2", "logistic"])
def test_exact_densities_on_a_block_keep_epsilon(loss: str, relation: str) -> None:
    moved, epsilon = largest_ratio(loss, relation, 1.0)
    assert 0.2 * epsilon < moved <= epsilon * (1 + 1e-6)


@pytest.mark.parametrize("loss", ["huber:0.2", "logistic"])
def test_rows_of_a_one_hot_block_that_are_not_scaled_exceed_it(loss: str) -> None:
    moved, epsilon = largest_ratio(loss, "add-remove", 2.0)
    assert moved > epsilon
