"""A squared loss below every loss that bends, row by row and score by score (T40)."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from block_cases import blocks, problem_of
from clone import CLONE
from scipy import sparse

from dpsubset import Problem
from dpsubset.cuts.bending import BendingCuts
from dpsubset.cuts.minorant import Minorant, bends, reach, row_curvature
from dpsubset.cuts.moments import MomentCuts
from dpsubset.cuts.region import Region, root
from dpsubset.losses import Huber, Logistic, Loss, as_loss
from dpsubset.losses.huber_hinge import HuberHinge
from dpsubset.losses.offset import Offset

BENT: dict[str, Loss] = {
    "squared": as_loss("squared"),
    "huber:0.05": Huber(0.05),
    "huber:0.3": Huber(0.3),
    "huber:1": Huber(1.0),
    "huber:5": Huber(5.0),
    "logistic": Logistic(),
    "huber_hinge:0.2": HuberHinge(0.2),
    "huber_hinge": HuberHinge(),
    "huber_hinge:2": HuberHinge(2.0),
    "moved logistic": Offset(Logistic(), -1.5),
    "moved huber_hinge": Offset(HuberHinge(0.5), 0.7),
}
SCORED = [name for name in BENT if name != "squared"]
PLACES = {"inside": (-0.97, 0.97), "ends": (0.99, 1.0), "outside": (1.02, 2.5)}
TOLERANCE = 1e-12  # of the largest value of a row


def make(loss: Loss, X: Any, y: np.ndarray, size: int, **options: Any) -> Problem:
    if loss.classification:
        options["classes"] = (-1, 1)
        y = np.where(y > 0, 1.0, -1.0)
    else:
        options["y_bound"] = 1.0
    return Problem(X, y, size=size, x_bound=1.0, loss=loss, **options)


# ---- row by row ---------------------------------------------------------------------------------


def some_rows(name: str, place: str) -> tuple[Problem, np.ndarray, np.ndarray]:
    """Return a problem of many rows, where they are expanded, and the ranges of predictions."""
    rng = np.random.default_rng([list(BENT).index(name), list(PLACES).index(place)])
    n = 400
    given = make(BENT[name], np.zeros((n, 1)), rng.uniform(-1.2, 1.2, n), 1, radius=1.0)
    limit = np.exp(rng.uniform(np.log(0.05), np.log(8.0), n))
    t0 = limit * rng.uniform(*PLACES[place], n) * rng.choice([-1.0, 1.0], n)
    if place == "ends":
        t0[: n // 2] = np.sign(t0[: n // 2]) * limit[: n // 2]
    return given, t0, limit


def below(given: Problem, t0: np.ndarray, limit: np.ndarray, times: float = 1.0) -> np.ndarray:
    """Return for every row by how much the loss stays above the parabola on a fine grid.

    It is in units of the row's largest value; `times` is put before the curvature.
    """
    value, slope, gamma = row_curvature(given, t0, limit)
    t = limit * np.linspace(-1, 1, 4001)[:, None]
    d = t - t0
    losses = given.loss.value(given.y, t)
    margins = losses - value - slope * d - times * gamma * d**2
    return margins.min(axis=0) / np.maximum(np.maximum(losses.max(axis=0), value), 1e-3)


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", BENT)
def test_a_parabola_below_every_row(name: str, place: str) -> None:
    given, t0, limit = some_rows(name, place)
    assert bends(given)
    assert below(given, t0, limit).min() >= -TOLERANCE
    assert (row_curvature(given, t0, limit)[2] >= 0).all()


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("place", ["inside", "outside"])
@pytest.mark.parametrize("name", BENT)
def test_too_much_curvature_would_be_noticed(name: str, place: str) -> None:
    """The twin: 1.3 times as much is too much in every row that has any."""
    given, t0, limit = some_rows(name, place)
    curved = row_curvature(given, t0, limit)[2] > 1e-3
    assert curved.sum() >= 10
    noticed = below(given, t0, limit, 1.3)[curved] < -TOLERANCE
    assert noticed.mean() > 0.99


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("place", ["inside", "outside"])
@pytest.mark.parametrize("name", BENT)
def test_no_larger_curvature_serves(name: str, place: str) -> None:
    """Up to 1e-6: the least quotient on a grid, and half the second derivative at the point."""
    given, t0, limit = some_rows(name, place)
    value, slope, gamma = row_curvature(given, t0, limit)
    d = limit * np.linspace(-1, 1, 4001)[:, None] - t0
    far = np.abs(d) > 1e-2 * limit
    losses = given.loss.value(given.y, t0 + d)
    quotients = (losses - value - slope * d) / np.where(far, d, 1.0) ** 2
    least = np.where(far, quotients, np.inf).min(axis=0)
    if place == "inside":
        step = 1e-4
        ends = given.loss.value(given.y, t0 + step) + given.loss.value(given.y, t0 - step)
        least = np.minimum(least, (ends - 2 * value) / step**2 / 2)
    assert (gamma >= least - 1e-6).all()


def test_a_point_at_a_kink_of_the_slope() -> None:
    """Expanded where Huber's loss turns into a line, there is no curvature to one side."""
    c = 0.25
    given = make(Huber(c), np.zeros((4, 1)), np.zeros(4), 1, radius=1.0)
    t0 = np.array([c, -c, np.nextafter(c, 0), np.nextafter(c, 1)])
    limit = np.full(4, 1.0)
    assert below(given, t0, limit).min() >= -TOLERANCE
    assert row_curvature(given, t0, limit)[2].max() <= 1e-9
    near = np.full(4, np.nextafter(c, 1) * (1 + 1e-9))  # and where it is the end of the range
    assert below(given, t0, near).min() >= -TOLERANCE
    flat = row_curvature(given, t0, np.zeros(4))  # no range at all
    assert np.isfinite(flat).all()


# ---- score by score -----------------------------------------------------------------------------

TABLES = ("dense", "float32", "sparse", "wide", "copied")


def table(kind: str, seed: int) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng([TABLES.index(kind), seed])
    n, p = (5, 8) if kind == "wide" else (30, 7)
    X = rng.uniform(-1, 1, (n, p))
    y = X[:, 0] - 0.7 * X[:, 2] + rng.normal(scale=0.3, size=n)
    if kind == "sparse":
        X = X * (rng.random(X.shape) < 0.4)
        return sparse.csc_array(X), y
    if kind == "copied":
        X[:, 4:] = X[:, :3] + 1e-6 * rng.normal(size=(n, 3))
    return (X.astype(np.float32) if kind == "float32" else X), y


def small_problem(name: str, kind: str, seed: int, **options: Any) -> Problem:
    """Return one with the ball active or not, a ridge or none, and columns marked or not."""
    X, y = table(kind, seed)
    settings = {"radius": (0.3, 4.0)[seed % 2], "ridge": float(seed // 2 % 2), **options}
    return make(BENT[name], X, y, 3, **settings)


def expanded(given: Problem, limit: np.ndarray, support: tuple[int, ...]) -> Minorant:
    index = np.array(support, dtype=np.intp)
    return Minorant(given, index, given.fit(index, gap=0.0).coefficients, limit)


def supports_of(given: Problem) -> list[tuple[int, ...]]:
    chosen = combinations(given.free.tolist(), given.to_choose)
    return [tuple(sorted((*given.include, *some))) for some in chosen]


def excess(given: Problem, below: Problem, scores: list[float]) -> float:
    """Return by how much a minorant's scores exceed the scores, at most."""
    return max(below.score(s) - r for s, r in zip(supports_of(given), scores, strict=True))


@pytest.mark.grid(every=2, of=3)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", SCORED)
def test_scores_of_minorants_are_below(name: str, kind: str, seed: int) -> None:
    """Expanded at fits on some supports, and at any other coefficients."""
    marked = {"include": [1], "exclude": [5]} if seed == 3 else {}
    given = small_problem(name, kind, seed, **marked)
    limit = reach(given)
    supports = supports_of(given)
    scores = [given.score(s) for s in supports]
    rng = np.random.default_rng(seed)
    for support in rng.permutation(np.array(supports))[:4]:
        minorant = expanded(given, limit, tuple(support))
        assert minorant.quadratic
        assert excess(given, minorant, scores) <= 4 * given.slack
        there = given.score(support)
        assert minorant.score(support) == pytest.approx(there, rel=1e-6, abs=4 * given.slack)
    for count in (1, 5):  # fewer columns than a support has, and more: predictions may be outside
        columns = np.sort(rng.permutation(given.n_columns)[:count]).astype(np.intp)
        beta = rng.normal(size=count)
        beta *= given.radius / np.linalg.norm(beta)
        minorant = Minorant(given, columns, beta, limit)
        assert excess(given, minorant, scores) <= 4 * given.slack


@pytest.mark.parametrize("name", ["huber:1", "logistic", "huber_hinge:2"])
def test_a_minorant_with_too_much_curvature_would_be_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = small_problem(name, "dense", 0)

    def more(*args: Any) -> Any:
        value, slope, gamma = row_curvature(*args)
        return value, slope, 1.3 * gamma

    monkeypatch.setattr("dpsubset.cuts.minorant.row_curvature", more)
    scores = [given.score(s) for s in supports_of(given)]
    minorant = expanded(given, reach(given), (0, 2, 3))
    assert excess(given, minorant, scores) > 100 * given.slack


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("kind", ["dense", "sparse", "float32", "wide"])
def test_no_prediction_is_beyond_the_reach(kind: str, size: int) -> None:
    """And some prediction comes up to it, unless entries at the bound would be needed."""
    X, y = table(kind, 1)
    more = {"include": [0]} if size == 3 else {"exclude": [2]} if size == 1 else {}
    given = make(Huber(0.3), X, y, size, radius=2.0, **more)
    limit = reach(given)
    dense = np.asarray(X.todense() if kind == "sparse" else X, dtype=float)
    rng = np.random.default_rng(size)
    nearest = np.zeros(given.n_rows)
    for support in supports_of(given):
        some = dense[:, support]
        beta = rng.normal(size=(20, size))
        beta = np.vstack([beta, some])
        beta *= given.radius / np.maximum(np.linalg.norm(beta, axis=1, keepdims=True), 1e-300)
        largest = np.abs(some @ beta.T).max(axis=1)
        assert (largest <= limit * (1 + 1e-14)).all()
        nearest = np.maximum(nearest, largest)
    np.testing.assert_allclose(nearest, limit, rtol=1e-9)


# ---- which losses bend --------------------------------------------------------------------------


def test_which_losses_bend() -> None:
    assert all(loss.bends for loss in BENT.values())
    for name in ("absolute", "quantile:0.3", "hinge"):
        assert not as_loss(name).bends
    assert not Offset(as_loss("hinge"), 1.0).bends
    assert not CLONE.bends


def test_a_loss_of_ones_own_does_not_inherit_the_bend() -> None:
    """Its values, or the rows that are fitted, are others: nobody knows how they bend."""

    class OtherValues(Logistic):
        def value(self, y: Any, t: Any) -> Any:
            return np.abs(t)

    class OtherRows(Huber):
        rows = staticmethod(Logistic.rows)

    class Both(OtherValues):
        bends = True

        def value(self, y: Any, t: Any) -> Any:
            return np.square(y - t)

    class Renamed(Logistic):
        name = "renamed"

    assert not OtherValues().bends
    assert not OtherRows(0.1).bends
    assert not Both().bends
    assert not Renamed().bends


# ---- the cuts that are made of minorants --------------------------------------------------------


@pytest.mark.parametrize("name", ["huber:0.3", "logistic", "huber_hinge"])
def test_better_and_listed_are_below_the_scores(name: str) -> None:
    given = small_problem(name, "dense", 2)
    maker = BendingCuts(given)
    supports = supports_of(given)
    scores = np.array([given.score(s) for s in supports])
    before = np.full(len(supports), -np.inf)
    for support in supports[::9]:
        assert maker.expand(support)
        assert not maker.expand(support)  # nothing new
        bounds = [maker.better(np.array(s, dtype=np.intp), np.inf) for s in supports]
        assert (np.array(bounds) <= scores + 4 * given.slack).all()
        assert (np.array(bounds) >= before - 1e-12).all()
        before = np.array(bounds)
        assert before[supports.index(support)] == pytest.approx(
            scores[supports.index(support)], rel=1e-5
        )
    listed, lows = maker.listed(root(given))
    assert listed.tolist() == [list(s) for s in supports]
    assert (lows <= scores + 4 * given.slack).all()
    raised = maker.raised(listed)  # by all of them, where two of the best made the list
    np.testing.assert_allclose(raised, before, atol=1e-6)
    assert (lows <= raised + 1e-9).all()
    assert (lows == raised).mean() > 0.5
    assert maker.forms == maker.made == len(supports[::9])


def highest_above(name: str, kind: str, seed: int) -> tuple[float, int]:
    """Return by how much a cut of expansions at mixtures is above a score, and their number."""
    given = small_problem(name, kind, seed)
    maker = BendingCuts(given)
    supports = supports_of(given)
    scores = [given.score(s) for s in supports]
    assert maker.expand(supports[int(np.argmax(scores))])  # far from where the mass is
    region = root(given)
    place = {int(j): k for k, j in enumerate(region.free)}
    worst = -np.inf
    for kappa in (1.0, 30.0, 1000.0):
        maker._calls = 0
        cut = maker.optimised(maker.cheap(region), kappa / given.sensitivity())
        for support, score in zip(supports, scores, strict=True):
            free = [place[j] for j in support if j in place]
            worst = max(worst, cut.constant - cut.weights[free].sum() - score)
    return worst - 4 * given.slack, len(maker._mixed)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", ["huber:0.3", "logistic", "huber_hinge", "moved logistic"])
def test_cuts_of_expansions_at_mixtures_are_below_the_scores(name: str, kind: str) -> None:
    found = [highest_above(name, kind, seed) for seed in range(4)]
    assert max(above for above, _ in found) <= 0.0
    if "logistic" in name:
        assert sum(count for _, count in found) > 0  # they were used


def test_expansions_at_mixtures_that_are_too_high_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raised(problem: Problem, t0: np.ndarray, limit: np.ndarray) -> Any:
        value, slope, gamma = row_curvature(problem, t0, limit)
        return value, slope, 3.0 * gamma

    monkeypatch.setattr("dpsubset.cuts.minorant.row_curvature", raised)
    assert max(highest_above("logistic", "dense", seed)[0] for seed in range(4)) > 0.0


@pytest.mark.parametrize("name", ["logistic", "huber:0.3", "huber_hinge"])
def test_a_minorant_at_its_own_mixture_is_the_dual_cut(name: str) -> None:
    """Weights and constant are those of the slopes there (T40.5)."""
    given = small_problem(name, "dense", 3)
    rng = np.random.default_rng(8)
    columns = np.arange(given.features.n_columns)
    beta = rng.uniform(-0.1, 0.1, columns.size)
    below = Minorant(given, columns, beta, reach(given))
    t0 = given.design.take(columns) @ beta
    a = given.loss.slopes(given.y, t0)
    G = below.gram.full()
    np.testing.assert_allclose(
        below.correlations - G @ beta, -given.design.correlate(a) / 2, atol=1e-9
    )
    constant = -float(given.loss.conjugate(given.y, a).sum())
    assert below.energy - beta @ G @ beta == pytest.approx(constant, abs=1e-8)


def test_reach_counts_the_entries_of_a_feature_together() -> None:
    case = blocks("logistic", 5, size=3, include=(2,))
    problem = problem_of(case)
    X, _ = case.bounded()
    norms = np.array([[np.linalg.norm(row[list(g)]) for g in case.groups] for row in X])
    wanted = [np.sqrt((norms[:, s] ** 2).sum(axis=1)) for s in case.supports()]
    found = reach(problem)
    np.testing.assert_allclose(found, case.radius * np.max(wanted, axis=0), rtol=1e-9)
    # A twin that counts the largest columns, not features, falls short.
    squares = np.sort(X[:, [j for g in (0, 1, 3, 4) for j in case.groups[g]]] ** 2, axis=1)
    few = case.radius * np.sqrt(squares[:, -2:].sum(axis=1) + X[:, case.groups[2][0]] ** 2)
    assert (few < 0.9 * found).any()


def test_minorants_that_are_outdone_are_rarely_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts of dual points serve then; when a minorant does better again, it is tried again."""
    given = small_problem("huber:0.3", "dense", 2)
    maker = BendingCuts(given)
    supports = supports_of(given)
    scores = np.array([given.score(s) for s in supports])
    assert maker.expand(supports[int(np.argmin(scores))])
    mixed, tried, worse = MomentCuts.mixed, [], [1e3]

    def loose(self: MomentCuts, region: Region, kappa: float, *given: Any) -> Any:
        tried.append(region)
        cut, found = mixed(self, region, kappa, *given)
        low = replace(cut, constant=cut.constant - worse[0])
        return low, replace(found, log_mass=found.log_mass + kappa * worse[0])

    monkeypatch.setattr(MomentCuts, "mixed", loose)
    region = root(given)
    place = {int(j): k for k, j in enumerate(region.free)}
    asked = []
    for call in range(1, 33):
        worse[0] = 0.0 if call == 32 else 1e3
        before = len(tried)
        cut = maker.optimised(maker.cheap(region), 30.0 / given.sensitivity())
        asked.append(len(tried) > before)
        for support, score in zip(supports, scores, strict=True):
            free = [place[j] for j in support if j in place]
            assert cut.constant - cut.weights[free].sum() <= score + 4 * given.slack
        assert maker.tells
        assert maker.bent == (call < 6 or call == 32)
    assert [k + 1 for k, one in enumerate(asked) if one] == [1, 2, 3, 4, 5, 6, 8, 16, 32]
