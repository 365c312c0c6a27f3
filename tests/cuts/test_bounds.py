"""Every cut lies below every score of its region, in floating point (T10, T11, T12, T19).

Regions are random, all their supports are listed, and their scores come from brute force. Two
twins, a constant that forgets the ball and an overstated curvature, must be caught.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from oracle import KINDS, Case, chi_square, random_case, sizes
from regions import listed, margin, random_region
from scipy.optimize import minimize

from dpsubset import Problem
from dpsubset.cuts import Cut
from dpsubset.cuts import cut as cut_module
from dpsubset.cuts.curvature import curvature, smallest_eigenvalue, steady
from dpsubset.cuts.cut import largest
from dpsubset.cuts.moments import MomentCuts
from dpsubset.cuts.perspective import _covariance
from dpsubset.cuts.reduced import extension_scores, multiplier, reduce
from dpsubset.cuts.region import Region, patterns, root
from dpsubset.cuts.start import start
from dpsubset.cuts.symmetric import (
    block_tables,
    draw_subset,
    draw_subsets,
    inclusion,
    log_total,
    quick_inclusion,
    suffixes,
)
from dpsubset.search.kernel import _weights

SHAPES = sizes(12)
CASES = 240
CHUNK = 40
KAPPAS = (1e-3, 0.1, 10.0)  # in units of one over y'y per row, see `make_cuts`


def nth_case(index: int) -> Case:
    p, size = SHAPES[index % len(SHAPES)]
    return random_case(10_000 + index, p, size, KINDS[index % len(KINDS)])


def make_problem(case: Case) -> Problem:
    return Problem(case.X, case.y, **case.arguments())


def maker_with(problem: Problem, mu: float) -> MomentCuts:
    """Return a maker that takes this for the multiplier of the ball."""
    maker = MomentCuts(problem)
    maker._multipliers = sorted({maker.floor, max(maker.floor, mu)})
    return maker


def make_cuts(rng: np.random.Generator, problem: Problem, region: Region) -> Iterator[Cut]:
    """Make every kind of cut that a region can have."""
    mu = multiplier(problem, start(MomentCuts(problem)))
    unit = problem.n_rows / max(problem.energy, 1e-300)
    for factor in (0.0, 1.0, 7.0):
        maker = maker_with(problem, factor * mu)
        cheap = maker.cheap(region)
        yield cheap
        if region.to_choose < 2:
            continue
        for kappa, guided in itertools.product(KAPPAS, (False, True)):
            guess = rng.uniform(0, 1, region.free.size) if guided else None
            yield maker.optimised(cheap, kappa * unit, guess)


@pytest.mark.grid(every=6)
@pytest.mark.parametrize("start_at", range(0, CASES, CHUNK))
def test_cuts_lie_below_all_scores(start_at: int) -> None:
    for index in range(start_at, start_at + CHUNK):
        case = nth_case(index)
        rng = np.random.default_rng(index)
        problem = make_problem(case)
        if index % 2:  # a known curvature makes stronger cuts
            curvature(problem)
        for left in (None, 1, 2):
            region = random_region(rng, problem, left)
            supports, positions = listed(region)
            exact = case.scores(supports)
            own = np.array([problem.score(row) for row in supports[:60].tolist()])
            for cut in make_cuts(rng, problem, region):
                assert margin(cut, positions, exact) >= 0, (index, left)
                assert margin(cut, positions[:60], own) >= 0, (index, left)


@pytest.mark.parametrize(("n", "p", "kind"), [(9, 90, "plain"), (150, 90, "correlated")])
@pytest.mark.parametrize("ridge", [0.0, 1e-6, 1.0])
def test_cuts_lie_below_all_scores_of_wider_tables(n: int, p: int, kind: str, ridge: float) -> None:
    rng = np.random.default_rng(n)
    shared = rng.normal(size=(n, 1)) if kind == "correlated" else 0.0
    X = 0.3 * rng.normal(size=(n, p)) + shared
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n)
    case = Case(kind, X, y, 2, 2.0, 2.0, 1.2, ridge)
    problem = make_problem(case)
    region = root(problem)
    supports, positions = listed(region)
    exact = case.scores(supports)
    for _ in range(2):
        for cut in make_cuts(rng, problem, region):
            assert margin(cut, positions, exact) >= 0
        curvature(problem)


def test_one_column_to_choose_leaves_no_slack() -> None:
    """T11: with one column left the cut is the score itself, up to the rounding slack."""
    for index in range(CASES):
        case = nth_case(index)
        problem = make_problem(case)
        region = random_region(np.random.default_rng(index), problem, 1)
        supports, positions = listed(region)
        cut = MomentCuts(problem).cheap(region)
        bounds = cut.constant - cut.weights[positions].sum(axis=1)
        slack = 3 * problem.slack + 1e-9 * case.scale()
        np.testing.assert_allclose(bounds, case.scores(supports), rtol=0, atol=slack)


def test_extension_scores_equal_brute_force() -> None:
    for index in range(CASES):
        case = nth_case(index)
        problem = make_problem(case)
        region = random_region(np.random.default_rng(index), problem, 1)
        if region.to_choose == 0:
            continue
        supports, _ = listed(region)
        for mu in {steady(problem), steady(problem) + 1.0}:
            reduced = reduce(problem, region.inside, mu)
            scores = extension_scores(problem, reduced, region.free)
            exact = case.scores(supports)
            np.testing.assert_allclose(scores, exact, rtol=0, atol=1e-9 * case.scale() + 1e-300)


def test_optimised_cuts_are_worth_their_price() -> None:
    """T12 on correlated columns with little ridge: far less mass than the cheap cut's."""
    case = random_case(3, 12, 4, "correlated")
    case = Case("correlated", case.X, case.y, 4, 10.0, 10.0, 2.0, 0.05)
    problem = make_problem(case)
    kappa = 20.0 / problem.energy
    maker = MomentCuts(problem)
    start(maker)
    cheap = maker.cheap(root(problem))
    better = maker.optimised(cheap, kappa, None)
    masses = [log_total(kappa * cut.weights, 4) - kappa * cut.constant for cut in (cheap, better)]
    assert masses[1] < masses[0] - 1


def hard_case(kind: str) -> tuple[Problem, float]:
    """Return a problem where rounds of best responses go round in circles, and a large kappa."""
    rng = np.random.default_rng(5)
    n, p = 2000, 24
    X = rng.normal(size=(n, p))
    if kind == "autoregressive":
        for j in range(1, p):
            X[:, j] = 0.95 * X[:, j - 1] + np.sqrt(1 - 0.95**2) * X[:, j]
    elif kind == "dependent":  # every fourth column is the sum of the three before
        X[:, 3::4] = -(X[:, 0::4] + X[:, 1::4] + X[:, 2::4])
    y = X[:, [2, 9, 17]] @ [1.0, -0.8, 0.6] + rng.normal(size=n)
    y /= np.abs(y).max()
    groups = [[j, j + 1, j + 2] for j in range(0, p, 3)] if kind == "blocks" else None
    X = np.clip(X / 4, -0.5, 0.5)
    return Problem(
        X, y, size=4, x_bound=1.0, y_bound=1.0, radius=0.8, ridge=5.0, groups=groups
    ), 40.0


def log_mass(problem: Problem, region: Region, d: np.ndarray, kappa: float, x: np.ndarray) -> float:
    """Return T12's phi at coefficients and the logarithm of a multiplier, written out."""
    beta, mu = x[:-1], float(np.exp(x[-1]))
    M = problem.gram.full() - np.diag(d)
    left = problem.correlations - M @ beta
    gains = problem.features.sum(left**2 / (d + problem.ridge + mu))
    constant = problem.energy - beta @ M @ beta - mu * problem.radius**2
    constant -= gains[list(region.inside)].sum()
    return float(log_total(kappa * gains[region.free], region.to_choose)) - kappa * constant


def above_the_optimum(kind: str, **options: int) -> float:
    """Return how far the log mass of an optimised cut is above the best that SciPy finds."""
    problem, kappa = hard_case(kind)
    region = root(problem)
    maker = MomentCuts(problem)
    maker.settle(start(maker))
    cut = maker.mixed(region, kappa, None, **options)[0]
    mass = log_total(kappa * cut.weights, region.to_choose) - kappa * cut.constant
    gram = problem.gram.full() + 50.0 * np.eye(problem.features.n_columns)
    d = maker._below
    below = np.full(len(gram), maker.curvature()) if d is None else d
    found = minimize(
        lambda x: log_mass(problem, region, below, kappa, x),
        np.append(np.linalg.solve(gram, problem.correlations), np.log(50.0)),
        method="L-BFGS-B",
        options={"maxiter": 3000, "maxfun": 300_000},
    )
    return float(mass - found.fun)


@pytest.mark.parametrize("kind", ["autoregressive", "dependent", "independent", "blocks"])
def test_the_best_cut_is_reached(kind: str) -> None:
    """No minimiser that is given as much time as it likes finds less mass (T12.5)."""
    assert above_the_optimum(kind) < 0.3


@pytest.mark.parametrize("kind", ["autoregressive", "dependent", "blocks"])
def test_a_descent_that_ends_too_early_would_be_noticed(kind: str) -> None:
    assert above_the_optimum(kind, steps=0) > 1.0


def test_covariances_of_inclusions() -> None:
    """Where one place is left to share they are exact, but for how c is found."""
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    c, total = _covariance(shares)
    exact = np.diag(shares) - np.outer(shares, shares)
    np.testing.assert_allclose(np.diag(c) - np.outer(c, c) / total, exact, atol=2e-3)


# ---- curvature --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_smallest_eigenvalue_is_a_lower_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 30))
    X = rng.normal(size=(int(rng.integers(1, 3 * p + 2)), p)) * 10.0 ** rng.uniform(-3, 3)
    if seed % 4 == 1:
        X[:, -1] = X[:, 0]
    if seed % 4 == 2:
        X = X + 1e4 * rng.normal(size=(len(X), 1))
    matrix = X.T @ X
    truth = float(np.linalg.eigvalsh(matrix)[0])
    found = smallest_eigenvalue(matrix)
    assert 0 <= found <= max(truth, 0.0) + 1e-14 * p * float(np.trace(matrix))
    if truth > 1e-6 * np.trace(matrix):
        assert found > 0.3 * truth


def test_curvature_needs_more_rows_than_columns() -> None:
    case = random_case(0, 8, 3, "plain")
    wide = Case("plain", case.X[:7], case.y[:7], 3, 1.0, 1.0, 1.0, 0.0)
    assert curvature(make_problem(wide)) == 0


@pytest.mark.parametrize("t", [2, 3, 4])
def test_weights_of_the_search_bound_every_gain(t: int) -> None:
    """T11: eigenvalue or sparse Gershgorin weights of t columns add up to at least their gain."""
    for seed in range(60):
        rng = np.random.default_rng([t, seed])
        p = int(rng.integers(t, 9))
        mixed = rng.uniform(0, 1) * rng.normal(size=(20, 1))
        X = rng.normal(size=(20, p)) * rng.uniform(0.2, 3, p) + mixed
        H = X.T @ X + 0.1 * np.eye(p)
        b = H @ (rng.normal(size=p) * (rng.random(p) < 0.5)) + rng.normal(size=p)
        u = np.full(p, np.nan)
        _weights(H, b, t, 0.999 * float(np.linalg.eigvalsh(H)[0]), u)
        sets = np.array(list(itertools.combinations(range(p), t)))
        blocks = H[sets[:, :, None], sets[:, None, :]]
        solved = np.linalg.solve(blocks, b[sets][:, :, None])[:, :, 0]
        gains = np.einsum("ki,ki->k", b[sets], solved)
        assert np.all(u[sets].sum(axis=1) >= gains * (1 - 1e-12))


# ---- broken twins -----------------------------------------------------------------------------


def smallest_margin(case: Case, twist: str) -> float:
    """Return the smallest margin over random regions when the cuts are twisted."""
    problem = make_problem(case)
    twisted = make_problem(case)
    if twist == "curvature":
        twisted.gram.smallest = 1.5 * float(np.linalg.eigvalsh(twisted.gram.full())[0])
    if twist == "ball":
        twisted.radius = 0.5 * problem.radius  # the term mu r^2 is subtracted only in part
    smallest = math.inf
    for seed in range(20):
        rng = np.random.default_rng(seed)
        region = random_region(rng, problem, 2)
        supports, positions = listed(region)
        exact = case.scores(supports)
        maker = maker_with(twisted, multiplier(problem, tuple(supports[0].tolist())))
        cut = maker.cheap(region)
        if region.to_choose == 2:
            smallest = min(smallest, margin(cut, positions, exact))
    return smallest / case.scale()


def twin_case(radius: float) -> Case:
    """Columns that are nearly orthogonal, so that cuts come close to the scores."""
    rng = np.random.default_rng(4)
    X = np.linalg.qr(rng.normal(size=(40, 8)))[0] * 3 + 0.05 * rng.normal(size=(40, 8))
    y = X @ rng.normal(size=8) + 0.1 * rng.normal(size=40)
    return Case("plain", X, y, 4, 10.0, 10.0, radius, 0.0)


@pytest.mark.parametrize(("twist", "radius"), [("curvature", 10.0), ("ball", 1.0)])
def test_broken_twins_are_caught(twist: str, radius: float) -> None:
    case = twin_case(radius)
    assert smallest_margin(case, "none") >= 0
    assert smallest_margin(case, twist) < -1e-3


# ---- regions and subsets of fixed size (T13) --------------------------------------------------


def test_regions_split_into_all_their_supports() -> None:
    for index in range(0, CASES, 3):
        problem = make_problem(nth_case(index))
        rng = np.random.default_rng(index)
        region = random_region(rng, problem)
        whole = {tuple(row) for row in listed(region)[0].tolist()}
        if region.to_choose and region.free.size > region.to_choose:
            column = int(rng.choice(region.free))
            parts = [tuple(r) for part in region.split(column) for r in listed(part)[0].tolist()]
            assert len(parts) == len(whole)
            assert set(parts) == whole


def test_patterns_part_all_supports_by_mistakes() -> None:
    for index in range(0, CASES, 3):
        case = nth_case(index)
        problem = make_problem(case)
        seed = tuple(case.supports()[index % problem.n_supports].tolist())
        found: list[tuple[int, ...]] = []
        for mistakes in range(problem.size + 1):
            for region in patterns(problem, seed, mistakes):
                rows = [tuple(row) for row in listed(region)[0].tolist()]
                assert all(len(set(row) - set(seed)) == mistakes for row in rows)
                found += rows
        assert sorted(found) == [tuple(row) for row in case.supports().tolist()]


@pytest.mark.parametrize("seed", range(20))
def test_inclusion_probabilities_equal_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 9))
    t = int(rng.integers(1, p + 1))
    w = rng.normal(size=p) * 10.0 ** rng.uniform(-1, 2)
    sets = np.array(list(itertools.combinations(range(p), t)))
    logs = w[sets].sum(axis=1)
    total = float(np.logaddexp.reduce(logs))
    shares = np.zeros(p)
    for row, log in zip(sets, logs, strict=True):
        shares[row] += math.exp(log - total)
    found, inclusions = inclusion(w, t)
    assert found == pytest.approx(total, rel=1e-12, abs=1e-12)
    assert log_total(w, t) == pytest.approx(total, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(inclusions, shares, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("block", [1, 2, 3, 16])
def test_drawn_subsets_match_their_law(block: int) -> None:
    """Chi-square with a fixed seed and a false-alarm rate of 1e-4."""
    rng = np.random.default_rng(11)
    w, t = np.array([0.0, 1.0, -2.0, 0.5, 0.5, 3.0, -1.0]), 3
    sets = list(itertools.combinations(range(7), t))
    places = {one: i for i, one in enumerate(sets)}
    logs = w[np.array(sets)].sum(axis=1)
    own, later = block_tables(w, t, block)
    counts = np.zeros(len(sets), dtype=np.int64)
    for _ in range(20_000):
        counts[places[tuple(draw_subset(w, t, block, own, later, rng.random(64)))]] += 1
    p_value, cells = chi_square(counts, logs - np.logaddexp.reduce(logs))
    assert cells > 20
    assert p_value > 1e-4


def of_many(block: int, forgotten: int = 0) -> float:
    """Return the p-value of subsets that are drawn together; the first few blocks may lack ends."""
    rng = np.random.default_rng(12)
    w, t = np.array([0.0, 1.0, -2.0, 0.5, 0.5, 3.0, -1.0]), 3
    sets = list(itertools.combinations(range(7), t))
    places = {one: i for i, one in enumerate(sets)}
    logs = w[np.array(sets)].sum(axis=1)
    own, later = block_tables(w, t, block)
    ends = suffixes(w, t, block)
    ends[:forgotten, 1:] = ends[:forgotten, :-1]
    uniforms = rng.random((20_000, own.shape[0] + t))
    chosen, weights = draw_subsets(w, t, block, own, later, ends, uniforms)
    np.testing.assert_allclose(weights, w[chosen].sum(axis=1), rtol=1e-12, atol=1e-12)
    counts = np.bincount([places[tuple(row)] for row in chosen.tolist()], minlength=len(sets))
    p_value, cells = chi_square(counts, logs - np.logaddexp.reduce(logs))
    assert cells > 20
    return float(p_value)


@pytest.mark.parametrize("block", [1, 2, 3, 16])
def test_subsets_that_are_drawn_together_match_their_law(block: int) -> None:
    assert of_many(block) > 1e-4


def test_wrong_ends_of_a_block_are_caught() -> None:
    assert of_many(16, forgotten=1) < 1e-4


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("size", "count"), [(20_000, 1), (20_000, 5), (33_001, 130), (50, 7)])
def test_the_largest_of_many_weights(size: int, count: int, ties: bool) -> None:
    """Long vectors are looked at by stretches; a twin that misses one is caught."""
    rng = np.random.default_rng(size + count)
    weights = np.round(rng.normal(size=size), 1) if ties else rng.normal(size=size)
    weights[-1] = 9.0  # behind the last whole stretch
    expected = np.sort(weights)[-count:].sum()
    assert largest(weights, count) == pytest.approx(expected, rel=1e-13)
    assert largest(weights, 0) == 0.0


def test_a_stretch_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = cut_module._heavy
    monkeypatch.setattr(cut_module, "_heavy", lambda weights, count: honest(weights, count)[:-33])
    weights = np.random.default_rng(0).normal(size=20_001)  # 33 behind the last whole stretch
    weights[-1] = 9.0
    assert largest(weights, 5) != pytest.approx(np.sort(weights)[-5:].sum(), rel=1e-13)


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 400.0, 5000.0])
def test_plain_sums_tell_the_same_inclusions(spread: float) -> None:
    """Where they underflow, logarithms serve."""
    rng = np.random.default_rng(5)
    for p, t in itertools.product((1, 2, 9, 80), (0, 1, 2, 5)):
        if t > p:
            continue
        w = spread * rng.standard_normal(p) + rng.choice([0.0, 1e4, -1e4])
        total, shares = inclusion(w, t)
        quick_total, quick_shares = quick_inclusion(w, t)
        assert quick_total == pytest.approx(total, rel=1e-12, abs=1e-9)
        np.testing.assert_allclose(quick_shares, shares, rtol=1e-9, atol=1e-12)
        assert quick_shares.sum() == pytest.approx(t, abs=1e-9)


def test_products_that_underflow_are_told_by_logarithms() -> None:
    w = np.array([0.0, -400.0, -500.0, -600.0])
    assert np.exp(w[:3]).prod() < 1e-300
    assert quick_inclusion(w, 3)[0] == pytest.approx(-900.0)
