"""Groups of columns against brute force: scores, the best, lists, mistakes, and cuts (T32)."""

from __future__ import annotations

import dataclasses
import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from block_cases import GROUPS, LOSSES, Blocks, blocks, problem_of
from oracle import mistakes_of
from regions import listed, listed_partial, margin, partial_region, random_region

from dpsubset import Problem, search
from dpsubset.cuts import CutMaker, cut_maker
from dpsubset.cuts.bending import BendingCuts
from dpsubset.designs import Features
from dpsubset.limits import Allowance
from dpsubset.search import blocks as search_module
from dpsubset.search import mip
from dpsubset.search.kernel import Rule

SEVEN = ((6,), (3, 8, 10), (0,), (1, 11), (2, 4, 9), (5,), (7, 12))
CLOSE = 2e-9  # what the cone solver of the oracle leaves open, against scores of about 10


def simplex(case: Blocks) -> Blocks:
    """Return a case whose blocks have columns that add up to zero, as coded levels do."""
    X = case.X.copy()
    for group in case.groups:
        if len(group) > 1:
            X[:, group] -= X[:, group].mean(axis=1, keepdims=True)
    return dataclasses.replace(case, X=X)


@cache
def cases(loss: str) -> list[tuple[Blocks, np.ndarray]]:
    found = [
        blocks(loss, 0),
        blocks(loss, 1, groups=SEVEN, size=3, include=(3,), exclude=(0,)),
        blocks(loss, 2, groups=SEVEN, size=4, ridge=0.0, radius=0.3),
        simplex(blocks(loss, 3, groups=SEVEN, size=3, ridge=0.0, radius=3.0, n=12)),
    ]
    return [(case, case.scores()) for case in found]


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("loss", LOSSES)
def test_scores_lists_and_mistakes_are_those_of_brute_force(loss: str) -> None:
    for case, scores in cases(loss):
        problem, supports = problem_of(case), case.supports()
        close = CLOSE * max(1.0, float(scores.max()))
        assert problem.n_supports == len(supports)
        intervals = np.array([problem.interval(s) for s in supports])
        assert np.all(intervals[:, 0] <= scores + close)
        assert np.all(intervals[:, 1] >= scores - close)
        assert problem.sensitivity() == pytest.approx(case.delta(), rel=1e-9)
        found = search.top(problem, 12)
        assert all(entry.proven for entry in found)
        best = np.sort(scores)[:12]
        assert np.abs(np.array([entry.score for entry in found]) - best).max() < close
        buckets = search.best_by_mistakes(problem)
        mistakes = mistakes_of(supports, buckets[0].support)
        assert len(buckets) == mistakes.max() + 1
        for k, entry in enumerate(buckets):
            assert entry.proven
            assert abs(entry.score - scores[mistakes == k].min()) < close


@pytest.mark.slow
def test_larger_tables_are_searched_by_the_compiled_kernel() -> None:
    rng = np.random.default_rng(5)
    for seed in range(6):
        ends = np.sort(rng.choice(np.arange(1, 24), 9, replace=False))
        groups = tuple(tuple(int(j) for j in g) for g in np.split(rng.permutation(24), ends))
        case = blocks("squared", seed, groups=groups, size=4, n=60, ridge=0.1 * (seed % 2))
        case = simplex(case) if seed % 3 else case
        scores = np.sort(case.scores())
        found = search.top(problem_of(case), 30)
        assert all(entry.proven for entry in found)
        assert np.abs(np.array([e.score for e in found]) - scores[:30]).max() < 1e-9


def best_pairs(seed: int, ball: float) -> tuple[list[float], np.ndarray]:
    """Return the scores of the best pairs of features by a search, and by brute force."""
    groups = tuple(tuple(range(3 * g, 3 * g + 3)) for g in range(12))
    case = blocks("squared", seed, groups=groups, size=2, n=60, ridge=0.5, radius=ball)
    found = search.top(problem_of(case), 8)
    assert all(entry.proven for entry in found)
    return [entry.score for entry in found], np.sort(case.scores())[:8]


BALLS = (3.0, 0.4, 0.1)


def test_pairs_are_left_out_by_what_each_gains() -> None:
    """The last two features of a support: bounds of each before the exact gain (T32)."""
    for seed, ball in itertools.product(range(4), BALLS):
        found, scores = best_pairs(seed, ball)
        assert np.abs(np.array(found) - scores).max() < 1e-9


def test_pairs_left_out_by_too_large_an_eigenvalue_are_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = search_module.explore_blocks

    def too_sure(*given: Any) -> Any:
        rule = next(one for one in given if isinstance(one, Rule))
        return right(
            *(one._replace(smallest=30.0 * rule.smallest) if one is rule else one for one in given)
        )

    monkeypatch.setattr(search_module, "explore_blocks", too_sure)
    apart = [np.subtract(*best_pairs(s, ball)).max() for s in range(4) for ball in BALLS]
    assert max(apart) > 1e-6


def makers(problem: Problem, case: Blocks) -> list[CutMaker]:
    """Return all who make cuts of a problem; those that bend, before and after minorants."""
    maker = cut_maker(problem)
    if not isinstance(maker, BendingCuts):
        return [maker]
    bent = BendingCuts(problem)
    bent.expand(case.supports()[-1])
    return [maker, bent]


def lowest_margin(case: Blocks, scores: np.ndarray, kind: str) -> float:
    """Return how far cuts of many regions stay below the scores; negative is wrong."""
    rng, problem = np.random.default_rng(9), problem_of(case)
    known = {tuple(s): score for s, score in zip(case.supports().tolist(), scores, strict=True)}
    lowest = math.inf
    for maker in makers(problem, case):
        for trial in range(12):
            region = random_region(rng, problem)
            partial = partial_region(rng, problem) if kind == "partial" else None
            if partial is not None:
                some, free, kept = listed_partial(partial)
                values = np.array([known[tuple(s)] for s in some.tolist()])
                lowest = min(lowest, margin(maker.bound(partial), free, values, kept))
                continue
            some, free = listed(region)
            values = np.array([known[tuple(s)] for s in some.tolist()])
            if kind in ("bound", "partial"):
                cut = maker.bound(region)
            elif region.to_choose == 0 or region.free.size == region.to_choose:
                continue
            elif kind == "cheap":
                cut = maker.cheap(region)
            elif kind == "optimised":
                cut = maker.optimised(maker.cheap(region), 10.0 ** (trial % 3), None)
            else:
                cut = maker.tangent(region, rng.uniform(0.05, 1.0, region.free.size))
            lowest = min(lowest, margin(cut, free, values))
    return lowest


@pytest.mark.grid(every=5)
@pytest.mark.parametrize("kind", ["bound", "partial", "cheap", "optimised", "tangent"])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_cut_is_above_a_score(loss: str, kind: str) -> None:
    for case, scores in cases(loss):
        assert lowest_margin(case, scores, kind) > -CLOSE * max(1.0, float(scores.max()))


@pytest.mark.parametrize("kind", ["bound", "optimised", "tangent"])
@pytest.mark.parametrize("loss", ["squared", "hinge", "logistic"])
def test_a_cut_that_forgets_a_column_of_a_block_is_caught(
    loss: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Features.sum

    def forgetful(self: Features, values: np.ndarray) -> np.ndarray:
        values = values.copy()
        for group in self.groups or ():
            values[..., list(group[1:])] = 0.0
        return whole(self, values)

    checked = cases(loss)
    monkeypatch.setattr(Features, "sum", forgetful)
    assert min(lowest_margin(case, scores, kind) for case, scores in checked) < -1e-3


def test_reordered_single_columns_are_the_same_problem() -> None:
    case = blocks("squared", 4)
    order = np.random.default_rng(0).permutation(case.X.shape[1])
    options = {**case.arguments(), "groups": [[int(j)] for j in order]}
    moved = Problem(case.X, case.y, **options)
    plain = Problem(case.X, case.y, **{**options, "groups": None})
    assert moved.score([0, 4]) == pytest.approx(plain.score(sorted(order[[0, 4]])), abs=1e-12)
    best = search.best(moved).support
    assert tuple(sorted(int(order[j]) for j in best)) == search.best(plain).support


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_the_papers_outer_approximation_takes_groups(loss: str) -> None:
    pytest.importorskip("highspy")
    case, scores = cases(loss)[1]
    problem = problem_of(case)
    found = search.best(problem, solver="outer-approximation")
    assert found.proven
    assert found.score <= scores.min() * 1.005 + 1e-4


BACKENDS = [("scip", "pyscipopt"), ("gurobi", "gurobipy")]


def program_agrees(loss: str, backend: str) -> bool:
    """Whether the integer program alone has the best score and, solved once, a best support."""
    for case, scores in cases(loss)[1:3]:
        problem = problem_of(case)
        scale = float(problem.loss.value(problem.y, np.zeros(problem.n_rows)).sum())
        session = search.MIP(backend=backend).session(cut_maker(problem), scale)
        answer = session.model.solve(math.inf, 1e-6, Allowance(None), lambda _: False)
        assert answer.chosen is not None
        reached = problem.score(session.support(answer.chosen))
        close = 1e-4 * scale
        if abs(answer.bound * scale - scores.min()) > close or reached > scores.min() + close:
            return False
    return True


@pytest.mark.parametrize(("backend", "package"), BACKENDS)
@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_the_integer_program_takes_groups(loss: str, backend: str, package: str) -> None:
    pytest.importorskip(package)
    assert program_agrees(loss, backend)
    case, scores = cases(loss)[1]
    found = search.top(problem_of(case), 4, solver=search.MIP(backend=backend))
    for entry, value in zip(found, np.sort(scores)[:4], strict=True):
        assert entry.proven
        assert abs(entry.score - value) <= 0.005 * value + 1e-4


@pytest.mark.parametrize(("backend", "package"), BACKENDS)
def test_a_program_with_the_columns_of_other_features_is_caught(
    backend: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package)
    right = mip._formulated

    def turned(*given: Any) -> Any:
        program = right(*given)
        return dataclasses.replace(program, binary=program.binary[::-1].copy())

    monkeypatch.setattr(mip, "_formulated", turned)
    assert not program_agrees("squared", backend)


def test_rounding_counts_columns() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20, 252)) / 6
    given: dict[str, Any] = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0}
    wide = [list(range(28 * g, 28 * (g + 1))) for g in range(9)]
    for ridge in (0.0, 1.0):
        problem = Problem(X, X[:, 0], size=9, groups=wide, ridge=ridge, **given)
        assert problem.most_columns == 252
        k, reach = 252, 3.0
        cost = 5 * (3 * k + 1) * 2.0**-53 * (reach**2 + k * (ridge > 0)) / (1 + reach) ** 2
        assert problem.precision("largest") >= 6000 * 2.0**-53 + cost
        assert problem.precision("largest") < 2e-11
    few = Problem(X[:, :11], X[:, 0], size=2, groups=GROUPS, **given)
    assert few.precision("largest") == few.loss.precision


def test_very_wide_blocks_have_looser_cuts_and_the_same_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dpsubset.cuts.blocks._WIDE", 1)
    for case, scores in cases("squared"):
        assert lowest_margin(case, scores, "bound") > -CLOSE * max(1.0, float(scores.max()))
        assert search.best(problem_of(case)).score == pytest.approx(scores.min(), abs=1e-9)
