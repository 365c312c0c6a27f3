"""A diagonal below X'X with a number a column (T48): cuts, searches and draws made with it.

The tables have columns that depend on others, so that the smallest eigenvalue tells nothing.
"""

from __future__ import annotations

import numpy as np
import pytest
from oracle import Case, chi_square, counts_of, exponential_law, race_law
from regions import listed, margin, random_region

import dpsubset.sampling
from dpsubset import Exponential, PermuteAndFlip, Problem, search
from dpsubset.cuts import moments
from dpsubset.cuts.bending import BendingCuts
from dpsubset.cuts.curvature import curvature, diagonal, diagonal_of
from dpsubset.cuts.moments import MomentCuts
from dpsubset.cuts.region import root
from dpsubset.cuts.start import start
from dpsubset.sampling import drawing
from dpsubset.sampling import partition as partition_module
from dpsubset.search import tree

SEEDS = range(12)
LARGE_BALLS = range(0, 12, 2)  # where the ball's multiplier is no help
FALSE_ALARM = 1e-4


def case_of(seed: int, *, loss: str = "squared") -> Case:
    """Draw a table in which column 7 is the sum of three others, and column 8 a copy of one."""
    rng = np.random.default_rng(seed)
    X = 0.4 * rng.uniform(-1, 1, (80, 10)) * rng.uniform(0.3, 1.0, 10)
    X[:, 7] = X[:, 0] + X[:, 1] - X[:, 2]
    X[:, 8] = X[:, 3]
    y = X[:, 3:7] @ np.array([1.0, -1.0, 1.0, 1.0]) + 0.3 * rng.standard_normal(80)
    y = np.where(y > 0, 1.0, -1.0) if loss == "logistic" else np.clip(y, -1, 1)
    include = [(), (9,), (9,)][seed % 3]
    return Case("dependent", X, y, 4, 1.0, 1.0, (3.0, 0.5)[seed % 2], 0.05, include, loss=loss)


def problem_of(seed: int, groups: bool = False) -> Problem:
    case = case_of(seed)
    blocks = [[0, 1], [2], [3, 4], [5], [6], [7], [8], [9]] if groups else None
    given = case.arguments() | ({"groups": blocks, "include": (), "size": 3} if groups else {})
    return Problem(case.X, case.y, **given)


def above(problem: Problem, d: np.ndarray) -> float:
    """Return how far diag(d) rises above X'X, in units of the largest squared norm."""
    matrix = problem.gram.full() - np.diag(d)
    return -float(np.linalg.eigvalsh(matrix)[0]) / float(problem.gram.diagonal.max())


@pytest.mark.parametrize("seed", SEEDS)
def test_it_lies_below_and_is_large_where_columns_are_free(seed: int) -> None:
    problem = problem_of(seed)
    d = diagonal(problem, problem.ridge)
    assert d is not None
    assert above(problem, d) < 1e-12
    assert (d + problem.ridge > 0).all()
    assert curvature(problem) < 1e-9 * problem.gram.diagonal.max()
    others = [4, 5, 6]
    assert (d[others] > 0.2 * problem.gram.diagonal[others]).all()
    tied = [0, 1, 2, 3, 7, 8]
    assert (d[tied] < problem.ridge).all()


def test_independent_columns_need_none() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 8))
    problem = Problem(X, X[:, 0], size=3, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=1.0)
    assert diagonal(problem, 1.0) is None


def test_tables_that_allow_none() -> None:
    rng = np.random.default_rng(0)
    shape = {"size": 2, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0}
    short = rng.uniform(-1, 1, (5, 8))
    assert diagonal(Problem(short, short[:, 0], ridge=1.0, **shape), 1.0) is None
    empty = np.zeros((30, 4))
    assert diagonal(Problem(empty, empty[:, 0], ridge=1.0, **shape), 0.0) is None
    assert diagonal_of(np.zeros((3, 3)), 0.0) is None  # nothing is below it


def margins(problem: Problem, rng: np.random.Generator) -> list[float]:
    """Return by how much cuts of some regions lie below all scores; less than 0 is a fault."""
    maker = MomentCuts(problem)
    maker.settle(start(maker))
    unit = problem.n_rows / problem.energy
    maker.optimised(maker.cheap(root(problem)), unit)
    assert maker._below is not None
    out = []
    for left in (None, 2, 3):
        region = random_region(rng, problem, left)
        if region.to_choose < 2:
            continue
        supports, positions = listed(region)
        scores = np.array([problem.score(row) for row in supports.tolist()])
        cheap = maker.cheap(region)
        cuts = [cheap, *(maker.optimised(cheap, k * unit) for k in (1e-3, 0.1, 10.0))]
        out += [margin(cut, positions, scores) for cut in cuts]
    return out


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_cuts_by_it_lie_below_all_scores(seed: int, groups: bool) -> None:
    assert min(margins(problem_of(seed, groups), np.random.default_rng(seed))) >= 0


def test_a_diagonal_too_large_makes_cuts_above_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    true = diagonal

    def too_large(problem: Problem, penalty: float) -> np.ndarray:
        found = true(problem, penalty)
        assert found is not None
        return 1.5 * (found + penalty) - penalty

    monkeypatch.setattr(moments, "diagonal", too_large)
    found = [min(margins(problem_of(s), np.random.default_rng(s))) for s in SEEDS]
    assert min(found) < 0


def test_it_makes_envelopes_lighter() -> None:
    lighter = []
    for seed in SEEDS:
        problem = problem_of(seed)
        maker = MomentCuts(problem)
        region = root(problem)
        plain = MomentCuts(problem)
        plain._compared = True
        kappa = 20.0 * problem.n_rows / problem.energy
        lighter.append(
            plain.mixed(region, kappa, None)[1].log_mass
            - maker.mixed(region, kappa, None)[1].log_mass
        )
    assert min(lighter) >= 0
    assert np.median(lighter) > 5


# ---- searches ---------------------------------------------------------------------------------


def searched(seed: int) -> tuple[bool, bool]:
    """Return whether columns had units of their own, and whether the best ten were found."""
    units = []

    class Watched(tree.Tree):
        def _scaled(self, cut):  # type: ignore[no-untyped-def]
            found = super()._scaled(cut)
            units.append(bool((found[0] != 1.0).any()))
            return found

    case, problem = case_of(seed), problem_of(seed)
    scores = np.sort(case.scores())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpsubset.search.bending_tree.Tree", Watched)
        found = search.top(problem, 10)
    right = np.allclose([f.score for f in found], scores[:10], rtol=1e-7, atol=1e-9)
    return any(units), bool(right)


@pytest.mark.parametrize("seed", LARGE_BALLS)
def test_searches_in_units_of_their_own_find_the_best(seed: int) -> None:
    assert searched(seed) == (True, True)


def test_units_too_small_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin: with a diagonal that is far too large columns leave that belong to the best."""
    true = diagonal_of
    monkeypatch.setattr(
        tree, "diagonal_of", lambda *given: None if (d := true(*given)) is None else 40 * d
    )
    assert not all(right for _, right in map(searched, LARGE_BALLS))


# ---- draws ------------------------------------------------------------------------------------


def p_value(monkeypatch: pytest.MonkeyPatch, loss: str, racing: bool) -> float:
    """Return the p-value of many draws by a partition whose cuts come from the diagonal."""
    monkeypatch.setattr(dpsubset.sampling, "ENUMERATION_LIMIT", 0)
    monkeypatch.setattr(drawing, "_COLUMNS", 0)
    monkeypatch.setattr(drawing, "_REFINED", 0)
    monkeypatch.setattr(partition_module, "_SEARCHES", {})
    for cuts in (MomentCuts, BendingCuts):
        monkeypatch.setattr(cuts, "patience", lambda *_, **__: 0.0)
    case = case_of(2, loss=loss)
    scores, problem = case.scores(), Problem(case.X, case.y, **case.arguments())
    kappa = 9.0 / float(np.ptp(scores))
    epsilon = 2 * kappa * problem.sensitivity()
    mechanism = PermuteAndFlip(epsilon) if racing else Exponential(epsilon)
    law = race_law(scores, kappa) if racing else exponential_law(scores, kappa)
    served: list[bool] = []
    optimal = MomentCuts._optimal

    def watched(self, *given):  # type: ignore[no-untyped-def]
        found = optimal(self, *given)
        served.append(self._below is not None)
        return found

    monkeypatch.setattr(MomentCuts, "_optimal", watched)
    draws = mechanism.draw(problem, 2000, random_state=1)
    found, cells = chi_square(counts_of(draws, case.supports()), law)
    assert cells >= 5
    assert any(served)
    return float(found)


@pytest.mark.parametrize("racing", [False, True])
@pytest.mark.parametrize("loss", ["squared", "huber:0.3", "logistic"])
def test_draws_match_the_law(monkeypatch: pytest.MonkeyPatch, loss: str, racing: bool) -> None:
    assert p_value(monkeypatch, loss, racing) >= FALSE_ALARM


@pytest.mark.parametrize("racing", [False, True])
def test_draws_by_a_diagonal_too_large_are_caught(
    monkeypatch: pytest.MonkeyPatch, racing: bool
) -> None:
    monkeypatch.setattr(moments, "diagonal", lambda problem, penalty: 30.0 * problem.gram.diagonal)
    assert p_value(monkeypatch, "squared", racing) < FALSE_ALARM
