"""Exact privacy of objective perturbation: densities of the minimiser on neighbouring tables (T27).

Nothing is sampled in the audit: the law of the minimiser is written down in `exact`, which shares
no code with the package, and compared on all pairs of a family: any excess fails. That releases
follow this law is tested in `test_draws`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpsubset import Problem
from dpsubset.audit.densities import (
    LABELLED,
    LOSSES,
    Grid,
    Law,
    beyond,
    make_grid,
    shortened,
)
from dpsubset.coefficients import ObjectivePerturbation
from dpsubset.losses import Huber

NEIGHBOURS = ("replace-one", "add-remove")
SLACK = 1e-9


def make_problem(table: np.ndarray, loss: str, radius: float, ridge: float = 0.0) -> Problem:
    """Make a problem in unit bounds on all columns of a table; the last one is the target."""
    labels: dict[str, Any] = {"classes": (-1, 1)} if loss in LABELLED else {"y_bound": 1.0}
    X, y, size = table[:, :-1], table[:, -1], table.shape[1] - 1
    return Problem(X, y, size=size, x_bound=1.0, radius=radius, loss=loss, ridge=ridge, **labels)


def law_of(
    mechanism: ObjectivePerturbation, table: np.ndarray, loss: str, radius: float, cut: bool = True
) -> Law:
    """Return the minimiser's law with the mechanism's ridge and noise; rows cut by its bound."""
    given = mechanism.constants(make_problem(table, loss, radius))
    rows = shortened(table[:, :-1], given.row) if cut else table[:, :-1]
    gaussian = mechanism.delta > 0
    law = Law(loss, rows, table[:, -1], given.ridge, radius, given.scale, gaussian)
    return replace(law, parts=given.parts)


def some_rows(rng: np.random.Generator, count: int, size: int, loss: str) -> np.ndarray:
    """Draw rows, half of them at corners of the bounds."""
    rows = rng.uniform(-1, 1, (count, size + 1))
    corners = rng.choice([-1.0, 1.0], rows.shape)
    rows = np.where(rng.random((count, 1)) < 0.5, corners, rows)
    rows[:, -1] = np.sign(rows[:, -1]) if loss in LABELLED else rows[:, -1]
    return rows


@dataclass(frozen=True)
class Family:
    """Tables that share all rows but one; which of them are neighbours depends on the relation."""

    loss: str
    radius: float
    tables: list[np.ndarray]
    pairs: list[tuple[int, int]]

    def grid(self) -> Grid:
        """Return a coarse grid and, on Huber's kinks, points on both sides of each."""
        size = self.tables[0].shape[1] - 1
        grid = make_grid(size, self.radius, 60) if size == 1 else make_grid(2, self.radius, 14, 20)
        rows = np.unique(np.vstack(self.tables), axis=0)
        x, norms2 = rows[:, :-1], np.maximum((rows[:, :-1] ** 2).sum(axis=1), 1e-9)
        kinks = [rows[:, -1] + c for c in (-0.3, 0.3)]
        points = np.vstack(
            [(k / norms2)[:, None] * x * f for k in kinks for f in (1 - 1e-9, 1 + 1e-9)]
        )
        points = points[(points**2).sum(axis=1) < self.radius**2]
        inside = np.vstack([grid.inside, points])
        return replace(grid, inside=inside, areas=np.append(grid.areas, np.zeros(len(points))))

    def excess(self, mechanism: ObjectivePerturbation, cut: bool = True) -> tuple[float, float]:
        """Return the largest log ratio above eps1 + eps2, and that sum."""
        given = mechanism.constants(make_problem(self.tables[0], self.loss, self.radius))
        budget, grid = given.noise_epsilon + given.curvature_epsilon, self.grid()
        laws = [law_of(mechanism, t, self.loss, self.radius, cut).on(grid) for t in self.tables]
        worst = max(float(np.abs(laws[i] - laws[j]).max()) for i, j in self.pairs)
        return worst - budget, budget


def make_family(neighbours: str, loss: str, size: int, radius: float, n: int) -> Family:
    rng = np.random.default_rng([LOSSES.index(loss), size, n, int(10 * radius)])
    rows, choices = some_rows(rng, n, size, loss), some_rows(rng, 6, size, loss)
    choices[:2, -1], choices[0, :-1], choices[1, :-1] = (1.0, -1.0), 1.0, 1.0
    more = [np.vstack([rows, choice]) for choice in choices]
    if neighbours == "replace-one":
        return Family(loss, radius, more, list(itertools.combinations(range(6), 2)))
    return Family(loss, radius, [rows, *more], [(0, i) for i in range(1, 7)])


@cache
def worst_family(neighbours: str, size: int) -> Family:
    """Return a pair for which T27's two bounds are attained at one point, up to 1e-9.

    At beta along (-1, -1) the first row's slope is largest at the end of its parabola and points
    against the ridge's pull; the other row's is the opposite, on a line.
    """
    one = np.append(np.ones(size), -1.0)[None, :]
    other = np.append(np.ones(size), 1.0)[None, :]
    tables = [one, other if neighbours == "replace-one" else one[:0]]
    return Family("huber:0.3", 1.0, tables, [(0, 1)])


def mechanisms(neighbours: str, **options: Any) -> list[ObjectivePerturbation]:
    return [
        ObjectivePerturbation(0.4, neighbours=neighbours, **options),
        ObjectivePerturbation(3.0, neighbours=neighbours, curvature_share=0.5, **options),
    ]


# ---- the law that the audit rests on -----------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 0.01])
@pytest.mark.parametrize("loss", LOSSES)
def test_densities_integrate_to_one(loss: str, delta: float) -> None:
    for size, radius, n in [(1, 0.3, 3), (1, 3.0, 1), (2, 0.5, 4), (2, 3.0, 1)]:
        mechanism = ObjectivePerturbation(2.0, delta=delta)
        table = make_family("replace-one", loss, size, radius, n).tables[2]
        grid = make_grid(size, radius, 4000) if size == 1 else make_grid(2, radius, 400, 360)
        law = law_of(mechanism, table, loss, radius)
        assert np.exp(law.on(grid)) @ grid.weights == pytest.approx(1.0, abs=4e-3)


# ---- the audit -----------------------------------------------------------------------------------


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("loss", LOSSES)
def test_no_density_moves_by_more_than_the_budget(loss: str, neighbours: str) -> None:
    shapes = itertools.product((1, 2), (0.3, 3.0), (0, 1, 9))
    for size, radius, n in shapes:
        family = make_family(neighbours, loss, size, radius, n)
        for mechanism in [*mechanisms(neighbours), *mechanisms(neighbours, row_bound=0.6)]:
            excess, _ = family.excess(mechanism)
            assert excess <= SLACK, (size, radius, n, mechanism)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_the_budget_is_attained(neighbours: str, size: int) -> None:
    for epsilon, share in [(0.4, None), (1.0, 0.4)]:
        mechanism = ObjectivePerturbation(epsilon, neighbours=neighbours, curvature_share=share)
        excess, _ = worst_family(neighbours, size).excess(mechanism)
        assert -1e-6 < excess <= SLACK


BREAKS = (
    "half the slope",
    "a tenth of the ridge",
    "the other relation's shift",
    "a term that is round",
)


def break_it(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    kind = ObjectivePerturbation
    whole, steep = kind.constants, Huber.steepest
    if how == "half the slope":
        monkeypatch.setattr(Huber, "steepest", lambda *given: steep(*given) / 2)
    elif how == "a tenth of the ridge":
        monkeypatch.setattr(
            kind, "constants", lambda *a: replace(c := whole(*a), ridge=c.ridge / 10)
        )
    elif how == "a term that is round":  # with the scale of one that is not (T45)
        monkeypatch.setattr(
            kind, "constants", lambda *a: replace(c := whole(*a), parts=(sum(c.parts),))
        )
    else:
        monkeypatch.setattr(kind, "_shift", lambda self, slope: slope)


@pytest.mark.parametrize("how", BREAKS)
def test_broken_constants_are_caught(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    break_it(monkeypatch, how)
    sizes = (2,) if how == "a term that is round" else (1, 2)
    for size, mechanism in itertools.product(sizes, mechanisms("replace-one")):
        excess, budget = worst_family("replace-one", size).excess(mechanism)
        assert excess > 0.07 * budget


def test_rows_that_are_not_cut_would_break_the_promise() -> None:
    mechanism = ObjectivePerturbation(3.0, row_bound=0.5)
    family = make_family("replace-one", "huber:0.3", 2, 3.0, 1)
    assert family.excess(mechanism)[0] <= SLACK
    assert family.excess(mechanism, cut=False)[0] > 0.1


def beyond_in_deltas(mechanism: ObjectivePerturbation, family: Family) -> float:
    """Return the largest chance of a ratio beyond eps1 + eps2, in units of delta."""
    given = mechanism.constants(make_problem(family.tables[0], family.loss, family.radius))
    size = family.tables[0].shape[1] - 1
    grid = make_grid(size, family.radius, 400) if size == 1 else make_grid(2, family.radius, 60, 60)
    laws = [law_of(mechanism, t, family.loss, family.radius).on(grid) for t in family.tables[:4]]
    assert all(abs(np.exp(law) @ grid.weights - 1.0) < 0.02 for law in laws)
    budget = given.noise_epsilon + given.curvature_epsilon
    pairs = [pair for pair in family.pairs if max(pair) < len(laws)]
    both = [*pairs, *((j, i) for i, j in pairs)]
    return max(beyond(laws[i], laws[j], grid, budget) for i, j in both) / mechanism.delta


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("loss", LOSSES)
def test_with_delta_few_terms_are_beyond_the_budget(loss: str, neighbours: str) -> None:
    cases = [(3.0, None), (0.2, None), (0.2, 0.05)]
    for size, (radius, share), delta in itertools.product((1, 2), cases, (0.05, 1e-4)):
        options = {"delta": delta, "neighbours": neighbours, "curvature_share": share}
        family = make_family(neighbours, loss, size, radius, 1)
        assert beyond_in_deltas(ObjectivePerturbation(2.0, **options), family) <= 1.0


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_with_delta_the_worst_pair(
    neighbours: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On lines the term is merely shifted: a Gaussian's tail, on one of the two sides of T27."""
    family = replace(worst_family(neighbours, size), radius=0.15)
    mechanism = ObjectivePerturbation(2.0, delta=0.05, neighbours=neighbours, curvature_share=0.02)
    assert 0.1 < beyond_in_deltas(mechanism, family) <= 0.55
    scale = ObjectivePerturbation._scale
    monkeypatch.setattr(ObjectivePerturbation, "_scale", lambda *given: 0.6 * scale(*given))
    assert beyond_in_deltas(mechanism, family) > 1.5
