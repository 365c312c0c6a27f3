"""A diagonal below X'X on every support (T11c): against all supports, and cuts made with it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from regions import listed, margin, random_region

from dpsubset import Problem
from dpsubset.cuts import Cut, curvature, shared
from dpsubset.cuts.curvature import (
    SparseDiagonal,
    elimination_error,
    sparse_affordable,
    sparse_diagonal,
)
from dpsubset.cuts.moments import MomentCuts
from dpsubset.cuts.region import Region
from dpsubset.cuts.shared import optimise_shared

SEEDS = range(12)


def problem_of(seed: int, *, p: int = 9, n: int = 250) -> Problem:
    """Draw a table of hardly correlated columns; some of them included, excluded or scaled."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, p)) * rng.uniform(0.6, 1.0, p)
    X[:, 0] = 1.0 if seed % 2 else X[:, 0]
    y = np.clip(0.6 * X[:, 2] - 0.5 * X[:, 4] + 0.2 * rng.standard_normal(n), -1, 1)
    include = [(), (0,), (0, 3)][seed % 3]
    return Problem(
        X,
        y,
        size=len(include) + 2 + seed % 2,
        x_bound=1.0,
        y_bound=1.0,
        radius=(2.0, 0.3)[seed % 2],
        ridge=(0.0, 0.5, 3.0)[seed % 3],
        include=include,
        exclude=(5,) if seed % 4 == 0 else (),
    )


def worst_eigenvalue(problem: Problem, d: np.ndarray) -> float:
    """Return the least eigenvalue of the eliminated X'X less the diagonal, over all supports."""
    X = problem.design.take(np.arange(problem.n_columns))
    worst = np.inf
    for chosen in itertools.combinations(problem.free.tolist(), problem.to_choose):
        A, B = X[:, list(chosen)], X[:, list(problem.include)]
        inner = B.T @ B + problem.ridge * np.eye(B.shape[1])
        G = A.T @ A - A.T @ B @ np.linalg.solve(inner, B.T @ A) if B.shape[1] else A.T @ A
        worst = min(worst, float(np.linalg.eigvalsh(G - np.diag(d[list(chosen)])).min()))
    return worst


@pytest.mark.parametrize("seed", SEEDS)
def test_it_lies_below_all_supports(seed: int) -> None:
    problem = problem_of(seed)
    found = sparse_diagonal(problem)
    assert found is not None
    d = found.each
    assert (d[problem.free] > 0).all()
    assert worst_eigenvalue(problem, d) >= -1e-9
    held = np.setdiff1d(np.arange(problem.n_columns), problem.free)
    assert (d[held] == 0).all()


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_parts_of_the_table_make_no_difference(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    problem = problem_of(1)
    whole = sparse_diagonal(problem)
    monkeypatch.setattr(curvature, "_AT_ONCE", at_once)
    parted = sparse_diagonal(problem)
    assert whole is not None
    assert parted is not None
    assert parted.each == pytest.approx(whole.each, rel=1e-6)  # float32


def test_too_few_neighbours_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin: with one inner product too few taken off, some support lies below the diagonal."""
    true = curvature._keep_largest

    def forgetful(block: np.ndarray, largest: np.ndarray) -> None:
        true(block, largest)
        largest[:, -1] = 0.0

    monkeypatch.setattr(curvature, "_keep_largest", forgetful)
    monkeypatch.setattr(curvature, "_SHARED", (0,))
    rng = np.random.default_rng(0)
    X = 0.3 * rng.uniform(-1, 1, (60, 7)) + 0.25 * rng.uniform(-1, 1, (60, 1))
    problem = Problem(X, X[:, 0], size=3, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=0.1)
    found = sparse_diagonal(problem)
    assert found is not None
    assert worst_eigenvalue(problem, found.each) < -1e-3


def sharing(include: tuple[int, ...], p: int = 20, own: float = 0.1, **more: int) -> Problem:
    """Draw columns that are nearly two directions, and a little of their own each."""
    rng = np.random.default_rng(more.get("seed", 0))
    shared = rng.uniform(-1, 1, (900, 2)) @ rng.uniform(-1, 1, (2, p))
    X = own * rng.uniform(-1, 1, (900, p)) + (0.9 - own) * shared / np.abs(shared).max()
    return Problem(
        X,
        np.clip(shared[:, 0] + 3 * X[:, 1] - 3 * X[:, 2], -1, 1),
        size=more.get("choose", 2) + len(include),
        x_bound=1.0,
        y_bound=1.0,
        radius=1.0,
        ridge=0.1,
        include=include,
    )


@pytest.mark.parametrize("include", [(), (0,)])
def test_what_columns_share_is_taken_out_of_all(
    monkeypatch: pytest.MonkeyPatch, include: tuple[int, ...]
) -> None:
    """Without that there is no diagonal; with it, most of what each has alone is left."""
    problem = sharing(include)
    found = sparse_diagonal(problem)
    assert found is not None
    d = found.each
    assert worst_eigenvalue(problem, d) >= -1e-9
    assert np.median(d[problem.free]) > 0.5 * 900 * 0.01 / 3
    monkeypatch.setattr(curvature, "_SHARED", (0,))
    assert sparse_diagonal(problem) is None


def test_copies_of_columns_have_none() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 7))
    X[:, 3] = X[:, 1]
    problem = Problem(X, X[:, 0], size=3, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=0.1)
    assert sparse_diagonal(problem) is None
    assert not MomentCuts(problem).sharpen()


@pytest.mark.parametrize("seed", SEEDS)
def test_sharpened_cuts_lie_below_all_scores_and_higher(seed: int) -> None:
    problem = problem_of(seed)
    maker = MomentCuts(problem)
    rng = np.random.default_rng(seed)
    regions = [random_region(rng, problem, left) for left in (None, 2, 3)]
    before = [maker.bound(region) for region in regions]
    assert maker.sharpen()
    for region, dull in zip(regions, before, strict=True):
        supports, positions = listed(region)
        exact = np.array([problem.score(row) for row in supports.tolist()])
        cut = maker.bound(region)
        assert margin(cut, positions, exact) >= 0
        assert cut.least >= dull.least - 1e-9


def test_a_diagonal_too_large_is_caught() -> None:
    """Twin: cuts with the squared norms themselves lie above some score."""
    caught = 0
    for seed in SEEDS:
        problem = problem_of(seed)
        maker = MomentCuts(problem)
        maker._sparse = SparseDiagonal(1.5 * problem.gram.diagonal, np.empty((9, 0)))
        region = random_region(np.random.default_rng(seed), problem, None)
        supports, positions = listed(region)
        exact = np.array([problem.score(row) for row in supports.tolist()])
        caught += margin(maker.bound(region), positions, exact) < 0
    assert caught > 0


def test_where_it_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    given = {"size": 3, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "ridge": 0.1}
    wide = rng.uniform(-1, 1, (10, 12))
    assert sparse_affordable(Problem(wide, wide[:, 0], **given))
    assert not sparse_affordable(Problem(wide, wide[:, 0], **{**given, "size": 1}))
    assert not sparse_affordable(Problem(wide[:, :6], wide[:, 0], **given))  # an eigenvalue serves
    groups = [[0, 1], *([j] for j in range(2, 12))]
    assert not sparse_affordable(Problem(wide, wide[:, 0], groups=groups, **given))


def exact_diagonal(problem: Problem) -> np.ndarray:
    """Return Gershgorin's diagonal of a problem without included columns, in long numbers."""
    X = problem.design.take(problem.free).astype(np.longdouble)
    G = np.abs(X.T @ X)
    own = np.diag(G).copy()
    G[np.diag_indices(own.size)] = 0.0
    return np.asarray(own - np.sort(G, axis=1)[:, -(problem.to_choose - 1) :].sum(axis=1))


def rounded(seed: int, scale: float) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (3000, 12)) * scale
    return Problem(X, X[:, 0], size=4, x_bound=scale, y_bound=scale, radius=1.0, ridge=0.0)


@pytest.mark.parametrize("scale", [1.0, 1e-20, 1e20])
def test_single_precision_is_taken_off(scale: float) -> None:
    """Whatever the size of entries: none is too small, or too large, for float32."""
    for seed in range(4):
        problem = rounded(seed, scale)
        found, exact = sparse_diagonal(problem), exact_diagonal(problem)
        assert found is not None
        assert (found.each <= exact).all()
        assert (found.each >= 0.99 * exact).all()


def test_a_forgotten_margin_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin: without what single precision may lose, some entry is too large."""
    monkeypatch.setattr(curvature, "BLOCK", -4)
    problem = rounded(0, 1.0)
    found = sparse_diagonal(problem)
    assert found is not None
    assert (found.each > exact_diagonal(problem)).any()


# ---- the best cut over what columns share -------------------------------------------------------


def over_shared(problem: Problem, region: Region) -> list[tuple[Cut, Cut]]:
    """Return cuts by each multiplier of the ball: the best one, and that of no shared direction."""
    maker = MomentCuts(problem)
    maker.settle(tuple(int(j) for j in range(problem.size)))
    below = sparse_diagonal(problem)
    assert below is not None
    bare = SparseDiagonal(below.each, below.shared[:, :0])
    made = []
    for elimination in maker._eliminations(region.inside, maker._multipliers):
        reduced = elimination.over()
        error = elimination_error(problem, reduced.penalty)
        pair = [optimise_shared(problem, region, 0.5, reduced, of) for of in (below, bare)]
        assert pair[0].log_mass <= pair[1].log_mass + 1e-9
        made.append(tuple(Cut(region, found.constant - error, found.weights) for found in pair))
    return made


def regions_of(seed: int) -> list[tuple[Problem, Region]]:
    problem = sharing([(), (0,), (0, 3)][seed % 3], p=14, own=0.3, choose=3, seed=seed)
    rng = np.random.default_rng(seed)
    return [(problem, random_region(rng, problem, left)) for left in (None, 2, 3)]


@pytest.mark.parametrize("seed", range(9))
def test_cuts_over_shared_directions_lie_below_all_scores(seed: int) -> None:
    higher = 0.0
    for problem, region in regions_of(seed):
        if region.partial:
            continue
        supports, positions = listed(region)
        exact = np.array([problem.score(row) for row in supports.tolist()])
        for best, bare in over_shared(problem, region):
            assert margin(best, positions, exact) >= 0
            higher = max(higher, margin(bare, positions, exact) - margin(best, positions, exact))
    assert higher > 1.0  # it makes a difference


def test_too_much_that_is_shared_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin: what the columns inside take of the directions is forgotten, and some more taken."""
    monkeypatch.setattr(shared, "_left", lambda below, *_: 1.1 * np.eye(below.shared.shape[1]))
    caught = 0
    for seed in range(9):
        for problem, region in regions_of(seed):
            supports, positions = listed(region)
            exact = np.array([problem.score(row) for row in supports.tolist()])
            cuts = [] if region.partial else over_shared(problem, region)
            caught += any(margin(best, positions, exact) < 0 for best, _ in cuts)
    assert caught > 3
