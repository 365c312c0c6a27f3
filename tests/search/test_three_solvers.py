"""Branch-and-bound, outer approximation and MIP against brute force on 100 random problems.

What is checked is what `Found` claims: the score is the support's own, and no support of the
question that does not stand before an entry scores better than its score by more than its gap.
The checker itself is checked: wrong answers of every kind must fail it.
"""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from oracle import LABELLED, Case, mistakes_of, random_case
from scipy import sparse

from dpsubset import Problem, search
from dpsubset.cuts import cut_maker
from dpsubset.errors import DpsubsetError, InputError, MissingExtraError
from dpsubset.search import Found, Limits

PROBLEMS = 100
LOSSES = ("squared", "absolute", "hinge", "quantile:0.3", "huber:0.3", "logistic")
MIXED_INTEGER = ("squared", "hinge")  # the losses of MIP
WHOLE = 60  # MIP is given parts of the hinge problems from here on
KINDS = ("plain", "correlated", "duplicates", "constant", "ball", "zero", "marked")
TOLERANCES = (1e-5, 1e-3, 0.005, 0.1)
SHAPES = (  # 19 pairs (p, s) of at most 286 supports
    (4, 1), (4, 3), (5, 2), (6, 4), (7, 3), (8, 2), (8, 4), (9, 3), (10, 2), (10, 4),
    (11, 3), (12, 2), (13, 3), (15, 2), (18, 1), (18, 2), (17, 2), (25, 1), (21, 2),
)  # fmt: skip

Maker = Callable[[float], Any]
SOLVERS: dict[str, Maker] = {
    "branch-and-bound": lambda tolerance: search.BranchAndBound(),
    "outer-approximation": lambda tolerance: search.OuterApproximation(tolerance=tolerance),
    "mip": lambda tolerance: search.MIP(tolerance=tolerance),
}
OUTSIDE = ("outer-approximation", "mip")
GUROBI: dict[str, Maker] = {
    "outer-approximation": lambda tolerance: search.OuterApproximation(
        tolerance=tolerance, backend="gurobi"
    ),
    "mip": lambda tolerance: search.MIP(tolerance=tolerance, backend="gurobi"),
}


def make_table(rng: np.random.Generator, n: int, p: int, kind: str) -> np.ndarray:
    X = rng.normal(scale=0.7, size=(n, p))
    if kind == "correlated":
        X = math.sqrt(0.1) * X + math.sqrt(0.9) * rng.normal(scale=0.7, size=(n, 1))
    if kind == "duplicates":
        X = X[:, rng.integers(0, (p + 1) // 2, size=p)] * rng.choice([-1.0, 1.0, 1.0], p)
    if kind == "constant":
        X[:, 0], X[:, p // 2] = 1.0, 0.0
        X[:, -1] = rng.choice([-1.0, 0.5])
    return X


@cache
def nth_case(index: int) -> Case:
    rng = np.random.default_rng([4, index])
    turn, loss = index // len(LOSSES), LOSSES[index % len(LOSSES)]
    (p, size), kind = SHAPES[index % len(SHAPES)], KINDS[turn % len(KINDS)]
    n = int(rng.integers(20, 121))
    X = make_table(rng, n, p, kind)
    y = X @ (rng.normal(size=p) * (rng.random(p) < 0.4)) + rng.normal(scale=0.5, size=n)
    y = np.zeros(n) if kind == "zero" else y
    ridge = float(rng.choice([0.0, 1e-3, 0.05, 1.0, 30.0]))
    radius = float(rng.uniform(0.02, 0.3) if kind == "ball" else rng.choice([0.7, 2.0, 20.0]))
    x_bound, y_bound = (float(b) for b in rng.choice([0.01, 1.0, 1.0, 30.0], size=2))
    marks = rng.permutation(p)
    inside, outside = (rng.integers(0, size + 1), rng.integers(0, p - size + 1))
    include = tuple(int(j) for j in marks[:inside]) if kind == "marked" else ()
    exclude = tuple(int(j) for j in marks[p - outside :]) if kind == "marked" else ()
    if loss in LABELLED:
        y, y_bound = np.where(y >= 0, 1.0, -1.0), 1.0
        radius = radius / x_bound
    else:
        y, radius = y * y_bound, radius * y_bound / x_bound
    ridge, X = ridge * x_bound**2, X * x_bound
    return Case(kind, X, y, size, x_bound, y_bound, radius, ridge, include, exclude, loss)


def nth_tolerance(index: int) -> float:
    return TOLERANCES[index // len(LOSSES) % len(TOLERANCES)]


def nth_count(index: int, total: int) -> int:
    """Short lists, and now and then a list of everything."""
    return total + 3 if total <= 20 else (2, 3, 5, 8)[index % 4]


class Truth:
    """All supports of a case with their scores, and checks of what a solver claims."""

    def __init__(self, case: Case) -> None:
        self.problem = Problem(case.X, case.y, **case.arguments())
        self.supports = case.supports()
        self.scores = cut_maker(self.problem).scores(self.supports)
        self.places = {tuple(row): i for i, row in enumerate(self.supports.tolist())}
        self.rounding = 4 * self.problem.slack
        self.empty = case.scale()  # the value without any column

    def check_entry(self, one: Found, rivals: np.ndarray, tolerance: float) -> None:
        """Check one entry; `rivals` tells which supports do not stand before it."""
        assert isinstance(one, Found)
        assert all(type(j) is int for j in one.support)
        assert one.support in self.places
        own = self.scores[self.places[one.support]]
        assert rivals[self.places[one.support]]
        assert abs(one.score - own) <= self.rounding
        assert abs(one.score - self.problem.score(one.support)) <= self.rounding
        assert one.gap >= 0
        assert self.scores[rivals].min() >= one.score - one.gap - self.rounding
        if one.proven and tolerance == 0:
            assert one.gap == 0
        if one.proven:
            assert one.gap <= max(tolerance * one.score, 1e-5 * self.empty) + self.rounding

    def check_best(self, one: Found, tolerance: float) -> None:
        self.check_entry(one, np.ones(len(self.scores), dtype=bool), tolerance)

    def check_top(
        self, found: list[Found], count: int, tolerance: float, limited: bool = False
    ) -> None:
        wanted = min(count, len(self.scores))
        assert 1 <= len(found) <= wanted
        if not (limited and not all(one.proven for one in found)):  # else it may be cut short
            assert len(found) == wanted
        assert len({one.support for one in found}) == len(found)
        assert all(a.score <= b.score for a, b in itertools.pairwise(found))
        rivals = np.ones(len(self.scores), dtype=bool)
        for one in found:
            self.check_entry(one, rivals, tolerance)
            rivals[self.places[one.support]] = False

    def check_mistakes(self, found: list[Found], tolerance: float) -> None:
        self.check_best(found[0], tolerance)
        k = mistakes_of(self.supports, found[0].support)
        assert len(found) == k.max() + 1
        for mistakes, one in enumerate(found[1:], start=1):
            self.check_entry(one, k == mistakes, tolerance)


@cache
def nth_truth(index: int) -> Truth:
    return Truth(nth_case(index))


def part_truth(index: int) -> Truth:
    """Take 40 rows and 10 columns of a hinge problem: SCIP needs long for some whole ones."""
    case = nth_case(index)
    if case.loss != "hinge":
        return nth_truth(index)
    return Truth(replace(case, X=case.X[:40, :10], y=case.y[:40]))


def reach(solver: Any) -> float:
    """Return the tolerance that a solver's proofs reach."""
    return 0.0 if isinstance(solver, search.BranchAndBound) else solver.tolerance


def ask_and_check(
    truth: Truth, solver: Any, count: int = 3, limits: Limits | None = None
) -> list[Found]:
    """Ask all three questions, check all claims, and return all entries."""
    options, tolerance = {"solver": solver, "limits": limits}, reach(solver)
    best = search.best(truth.problem, **options)
    truth.check_best(best, tolerance)
    top = search.top(truth.problem, count, **options)
    truth.check_top(top, count, tolerance, limited=limits is not None)
    buckets = search.best_by_mistakes(truth.problem, **options)
    truth.check_mistakes(buckets, tolerance)
    return [best, *top, *buckets]


ASKED = [
    (name, index)
    for name in SOLVERS
    for index in range(PROBLEMS)
    if name != "mip" or nth_case(index).loss in MIXED_INTEGER
]


@pytest.mark.grid(every=20, of=3)
@pytest.mark.parametrize(("name", "index"), ASKED)
def test_every_claim_holds_against_brute_force(
    name: str, index: int, capfd: pytest.CaptureFixture[str]
) -> None:
    truth = part_truth(index) if name == "mip" and index >= WHOLE else nth_truth(index)
    count = nth_count(index, len(truth.scores))
    found = ask_and_check(truth, SOLVERS[name](nth_tolerance(index)), count)
    assert all(one.proven for one in found)
    assert capfd.readouterr() == ("", "")  # outside solvers like to talk


def test_the_problems_are_what_they_should_be() -> None:
    cases = [nth_case(index) for index in range(PROBLEMS)]
    assert {len(case.y) for case in cases} <= set(range(20, 121))
    assert {case.X.shape[1] for case in cases} >= {4, 10, 18, 25}
    assert {case.size for case in cases} == {1, 2, 3, 4}
    mixed = {(case.loss, case.kind) for case in cases}
    assert len(mixed) == len(LOSSES) * len(KINDS)
    reached = {(case.loss, nth_tolerance(i)) for i, case in enumerate(cases)}
    assert len(reached) == len(LOSSES) * len(TOLERANCES)
    assert sum(bool(case.include) for case in cases) >= 5
    assert sum(bool(case.exclude) for case in cases) >= 5


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("loss", LOSSES)
def test_scores_to_compare_with_equal_the_oracle(loss: str) -> None:
    for index in range(LOSSES.index(loss), PROBLEMS, len(LOSSES)):
        case, truth = nth_case(index), nth_truth(index)
        rng = np.random.default_rng(index)
        some = rng.choice(len(truth.scores), size=min(5, len(truth.scores)), replace=False)
        some = np.append(some, truth.scores.argmin())
        primal, dual = case.certified(truth.supports[some])
        allowed = 1e-9 * len(case.y) * case.delta("largest")
        assert np.all(truth.scores[some] <= primal + allowed)
        assert np.all(truth.scores[some] >= dual - allowed)


# ---- the checker itself: wrong answers must fail it ----------------------------------------------


@cache
def distinct() -> Truth:
    """Make a problem whose scores are well apart, with a column that must be in."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 8))
    y = X @ np.array([0.5, 0.4, -0.3, 0.2, 0.1, 0.05, 0.0, 0.0])
    return Truth(Case("distinct", X, y, 3, 1.0, 1.0, 2.0, 0.1, include=(6,), exclude=(7,)))


def ranked() -> list[Found]:
    """List all supports, best first, each with a true claim."""
    truth = distinct()
    order = np.argsort(truth.scores)
    assert np.diff(truth.scores[order]).min() > 1e3 * truth.rounding
    return [found_at(int(place)) for place in order]


def found_at(place: int) -> Found:
    truth = distinct()
    support = tuple(truth.supports[place].tolist())
    return Found(support, float(truth.scores[place]), True, 0.0)


WRONG_BEST: dict[str, Callable[[list[Found]], Found]] = {
    "the second best": lambda order: order[1],
    "the second best, proven to half its distance": lambda order: replace(
        order[1], gap=(order[1].score - order[0].score) / 2
    ),
    "a score that is too low": lambda order: replace(order[0], score=order[0].score - 1e-6),
    "a score that is too high": lambda order: replace(order[0], score=order[0].score + 1e-6),
    "another support's score": lambda order: replace(order[1], score=order[0].score),
    "a gap below zero": lambda order: replace(order[0], gap=-1e-3),
    "a gap that is no number": lambda order: replace(order[0], gap=math.nan),
    "proven, but only to an infinite gap": lambda order: replace(order[0], gap=math.inf),
    "proven, but only to a wide gap": lambda order: replace(order[0], gap=0.2 * order[0].score),
    "an excluded column": lambda order: replace(order[0], support=(0, 6, 7)),
    "an included column left out": lambda order: replace(order[0], support=(0, 1, 2)),
    "too few columns": lambda order: replace(order[0], support=order[0].support[:2]),
    "columns out of order": lambda order: replace(order[0], support=order[0].support[::-1]),
}
WRONG_TOP: dict[str, Callable[[list[Found]], list[Found]]] = {
    "the best is missing": lambda order: order[1:5],
    "the third is missing": lambda order: [*order[:2], *order[3:5]],
    "too short": lambda order: order[:3],
    "too long": lambda order: order[:5],
    "a repeat": lambda order: [order[0], order[0], *order[1:3]],
    "descending": lambda order: order[3::-1],
    "the last is not next": lambda order: [*order[:3], order[4]],
}


@pytest.mark.parametrize("wrong", WRONG_BEST)
def test_a_wrong_best_is_caught(wrong: str) -> None:
    order = ranked()
    distinct().check_best(order[0], 0.1)
    distinct().check_best(replace(order[0], gap=0.05 * order[0].score), 0.1)
    distinct().check_best(replace(order[4], gap=math.inf, proven=False), 0.1)
    with pytest.raises(AssertionError):
        distinct().check_best(WRONG_BEST[wrong](order), 0.1)


@pytest.mark.parametrize("wrong", WRONG_TOP)
def test_a_wrong_list_is_caught(wrong: str) -> None:
    order = ranked()
    distinct().check_top(order[:4], 4, 0.1)
    within = replace(order[4], gap=order[4].score - order[3].score, proven=False)
    distinct().check_top([*order[:3], within], 4, 0.1)
    for limited in (False, True):
        with pytest.raises(AssertionError):
            distinct().check_top(WRONG_TOP[wrong](order), 4, 0.1, limited)


def right_buckets() -> list[Found]:
    truth = distinct()
    best = int(truth.scores.argmin())
    k = mistakes_of(truth.supports, truth.supports[best])
    return [found_at(int(np.where(k == m, truth.scores, np.inf).argmin())) for m in range(3)]


def test_wrong_buckets_are_caught() -> None:
    truth, buckets = distinct(), right_buckets()
    truth.check_mistakes(buckets, 0.1)
    k = mistakes_of(truth.supports, buckets[0].support)
    second = found_at(int(np.flatnonzero(k == 1)[truth.scores[k == 1].argsort()[1]]))
    for wrong in (
        buckets[:2],
        [*buckets, buckets[2]],
        [buckets[0], buckets[2], buckets[1]],
        [buckets[0], buckets[0], buckets[2]],
        [buckets[0], second, buckets[2]],
        [second, buckets[1], buckets[2]],
    ):
        with pytest.raises(AssertionError):
            truth.check_mistakes(wrong, 0.1)


@pytest.mark.parametrize("question", ["best", "top", "best_by_mistakes"])
def test_a_solver_that_lies_is_caught(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way: the answer is made with a solver, then bent, then checked."""
    honest = getattr(search, question)
    lies = {
        "best": lambda problem, **options: found_at(int(np.argsort(distinct().scores)[1])),
        "top": lambda problem, count, **options: honest(problem, count + 1, **options)[1:],
        "best_by_mistakes": lambda problem, **options: [
            *honest(problem, **options)[:1],
            *honest(problem, **options)[:0:-1],
        ],
    }
    ask_and_check(distinct(), search.BranchAndBound())
    monkeypatch.setattr(search, question, lies[question])
    with pytest.raises(AssertionError):
        ask_and_check(distinct(), search.BranchAndBound())


# ---- names, options, storage, small tables -------------------------------------------------------


@pytest.mark.parametrize("name", SOLVERS)
def test_a_name_means_the_solver_with_its_defaults(name: str) -> None:
    truth = distinct()
    kinds = {
        "branch-and-bound": search.BranchAndBound,
        "outer-approximation": search.OuterApproximation,
        "mip": search.MIP,
    }
    default = kinds[name]()
    assert reach(default) == (0.0 if name == "branch-and-bound" else 0.005)
    assert search.best(truth.problem, solver=name) == search.best(truth.problem, solver=default)
    named = search.top(truth.problem, 4, solver=name)
    truth.check_top(named, 4, reach(default))
    buckets = search.best_by_mistakes(truth.problem, solver=name)
    truth.check_mistakes(buckets, reach(default))
    assert all(one.proven for one in [*named, *buckets])


def test_branch_and_bound_is_the_default() -> None:
    problem = distinct().problem
    exact = search.BranchAndBound()
    assert search.best(problem) == search.best(problem, solver=exact)
    assert search.top(problem, 4) == search.top(problem, 4, solver=exact)
    assert search.best_by_mistakes(problem) == search.best_by_mistakes(problem, solver=exact)


OPTIONS = {
    "outer approximation, not tightened": lambda: search.OuterApproximation(
        tolerance=1e-3, tighten=False
    ),
    "outer approximation, no relaxation": lambda: search.OuterApproximation(
        tolerance=1e-3, relax=False
    ),
    "outer approximation, neither": lambda: search.OuterApproximation(
        tolerance=1e-3, tighten=False, relax=False
    ),
    "outer approximation, another seed": lambda: search.OuterApproximation(tolerance=1e-3, seed=7),
    "mip, not tightened": lambda: search.MIP(tolerance=1e-3, tighten=False),
}


@pytest.mark.grid(every=5)
@pytest.mark.parametrize("index", [0, 2, 6, 14, 38])
@pytest.mark.parametrize("options", OPTIONS)
def test_options_change_no_claim(options: str, index: int) -> None:
    found = ask_and_check(nth_truth(index), OPTIONS[options]())
    assert all(one.proven for one in found)


@pytest.mark.parametrize("name", OUTSIDE)
def test_the_same_question_gets_the_same_answer(name: str) -> None:
    truth = nth_truth(6)
    first, second = (search.top(truth.problem, 3, solver=SOLVERS[name](0.1)) for _ in range(2))
    assert first == second


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("storage", [sparse.csr_matrix, sparse.csc_array, np.asfortranarray])
@pytest.mark.parametrize("name", OUTSIDE)
def test_storage_does_not_matter(name: str, storage: Any) -> None:
    for index in (8, 14):
        case = nth_case(index)
        truth = Truth(case)
        truth.problem = Problem(storage(case.X), case.y, **case.arguments())
        found = ask_and_check(truth, SOLVERS[name](0.005))
        assert all(one.proven for one in found)


UNITS = [(1.0, 1.0), (100.0, 1 / 30), (1e-3, 1.0), (1e3, 1e3)]


def check_units(make: Maker, units: tuple[float, float], capfd: pytest.CaptureFixture[str]) -> None:
    """Check a case of small columns, a large target and a wide ball in other units."""
    case = random_case(842, 8, 5, "ridge0", "squared")
    (X, y), (of_x, of_y) = case.clipped(), units
    bounds = {"x_bound": case.x_bound * of_x, "y_bound": case.y_bound * of_y}
    case = replace(case, X=X * of_x, y=y * of_y, radius=case.radius * of_y / of_x, **bounds)
    truth, solver = Truth(case), make(1e-5)
    found = search.top(truth.problem, 18, solver=solver)
    truth.check_top(found, 18, reach(solver))
    buckets = search.best_by_mistakes(truth.problem, solver=solver)
    truth.check_mistakes(buckets, reach(solver))
    assert all(one.proven for one in [*found, *buckets])
    assert capfd.readouterr() == ("", "")


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("units", UNITS, ids=str)
@pytest.mark.parametrize("name", SOLVERS)
def test_units_do_not_matter(
    name: str, units: tuple[float, float], capfd: pytest.CaptureFixture[str]
) -> None:
    check_units(SOLVERS[name], units, capfd)


@pytest.mark.parametrize(("rows", "size"), [(0, 2), (0, 4), (1, 3), (5, 4), (5, 1)])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", OUTSIDE)
def test_smallest_tables(name: str, loss: str, rows: int, size: int) -> None:
    if name == "mip" and loss not in MIXED_INTEGER:
        pytest.skip("mip knows squared and hinge loss only")
    table = np.random.default_rng(0).uniform(-1, 1, (rows, 5))
    y = np.where(table[:, 4] > 0, 1.0, -1.0) if loss in LABELLED else table[:, 4]
    truth = Truth(Case("smallest", table[:, :4], y, size, 1.0, 1.0, 1.0, 0.0, loss=loss))
    found = ask_and_check(truth, SOLVERS[name](0.005), count=9)
    assert all(one.proven for one in found)


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("zero", ["target", "columns", "both"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", SOLVERS)
def test_targets_and_columns_of_zeros(name: str, loss: str, zero: str) -> None:
    """All supports tie; for a target of zeros at nothing at all."""
    if name == "mip" and loss not in MIXED_INTEGER:
        pytest.skip("mip knows squared and hinge loss only")
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (30, 6)) * (zero == "target")
    y = rng.uniform(-1, 1, 30) * (zero == "columns")
    y = np.where(y >= 0, 1.0, -1.0) if loss in LABELLED else y
    for size, ridge, count in ((2, 0.0, 18), (3, 0.5, 4)):
        truth = Truth(Case("zero", X, y, size, 1.0, 1.0, 1.0, ridge, loss=loss))
        found = ask_and_check(truth, SOLVERS[name](0.005), count)
        assert all(one.proven for one in found)


@pytest.mark.parametrize("exclude", [(), (1,)], ids=str)
@pytest.mark.parametrize("name", SOLVERS)
def test_one_support_only(name: str, exclude: tuple[int, ...]) -> None:
    case = replace(nth_case(0), size=3, include=(0, 2, 3), exclude=exclude)
    found = ask_and_check(Truth(case), SOLVERS[name](0.005))
    assert {one.support for one in found} == {(0, 2, 3)}
    assert len(found) == 3
    assert all(one.proven for one in found)


@pytest.mark.parametrize("name", SOLVERS)
def test_progress_reports_a_bound_below_the_best(name: str, hard: Truth) -> None:
    if name == "mip" and hard.problem.loss.name not in MIXED_INTEGER:
        pytest.skip("mip knows squared and hinge loss only")
    reports: list[Any] = []
    search.best(hard.problem, solver=SOLVERS[name](0.1), progress=reports.append)
    least = hard.scores.min()
    for report in reports:
        assert isinstance(report, search.Progress)
        assert report.bound <= least + hard.rounding
        assert report.best >= least - hard.rounding
        assert min(report.nodes, report.open) >= 0


# ---- limits --------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["squared", "hinge", "logistic"])
def hard(request: pytest.FixtureRequest) -> Truth:
    p, size = (17, 7) if request.param == "squared" else (10, 5)
    return Truth(random_case(7, p, size, "correlated", request.param))


LIMITS = [Limits(nodes=1), Limits(nodes=3), Limits(seconds=1e-3), Limits(nodes=20, seconds=0.05)]


@pytest.mark.grid(every=5)
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("name", SOLVERS)
def test_limits_end_in_an_honest_answer(name: str, limits: Limits, hard: Truth) -> None:
    if name == "mip" and hard.problem.loss.name not in MIXED_INTEGER:
        pytest.skip("mip knows squared and hinge loss only")
    found = ask_and_check(hard, SOLVERS[name](1e-5), count=20, limits=limits)
    if limits in LIMITS[:3:2]:  # one node, one millisecond: too little for any of them
        assert not all(one.proven for one in found)


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("name", SOLVERS)
def test_limits_on_easy_problems_are_honest_too(name: str, limits: Limits) -> None:
    for index in (0, 2, 12, 26, 32):
        ask_and_check(nth_truth(index), SOLVERS[name](0.005), limits=limits)


@pytest.mark.grid(every=6)
@pytest.mark.parametrize("index", [2, 3, 7, 24, 26, 27])
@pytest.mark.parametrize("name", SOLVERS)
def test_a_list_cut_short_says_so(name: str, index: int) -> None:
    """Long lists, and a limit that falls anywhere on the way: never are all of too few proven."""
    if name == "mip" and nth_case(index).loss not in MIXED_INTEGER:
        pytest.skip("mip knows squared and hinge loss only")
    truth, solver = nth_truth(index), SOLVERS[name](0.1)
    total = len(truth.scores)
    for count, nodes in itertools.product((total, (total + 1) // 2), (1, 2, 4, 8, 16)):
        found = search.top(truth.problem, count, solver=solver, limits=Limits(nodes=nodes))
        truth.check_top(found, count, reach(solver), limited=True)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_limit_on_seconds_is_kept(name: str) -> None:
    rng = np.random.default_rng(0)
    X = 0.3 * rng.normal(size=(400, 100)) + rng.normal(size=(400, 1))
    y = X[:, :9].sum(axis=1) / 3 + 3 * rng.normal(size=400)
    large = Problem(X, y, size=10, x_bound=2.0, y_bound=9.0, radius=3.0)
    start = time.monotonic()
    one = search.best(large, solver=SOLVERS[name](1e-5), limits=Limits(seconds=1.0))
    assert time.monotonic() - start < 20
    assert not one.proven
    assert one.gap > 0
    assert one.score == pytest.approx(large.score(one.support), abs=4 * large.slack)
    for _ in range(100):
        other = sorted(rng.choice(100, size=10, replace=False).tolist())
        assert large.score(other) >= one.score - one.gap - 4 * large.slack


# ---- bad input -----------------------------------------------------------------------------------


def ask_all(problem: Problem, solver: Any) -> list[Callable[[], Any]]:
    return [
        lambda: search.best(problem, solver=solver),
        lambda: search.top(problem, 2, solver=solver),
        lambda: search.best_by_mistakes(problem, solver=solver),
    ]


@pytest.mark.parametrize("solver", ["simplex", "", "MIP", 3, None, True, ("mip",), object()])
def test_unknown_solvers(solver: Any) -> None:
    for ask in ask_all(distinct().problem, solver):
        with pytest.raises(InputError, match="solver"):
            ask()


@pytest.mark.parametrize("kind", ["OuterApproximation", "MIP"])
@pytest.mark.parametrize(
    "tolerance", [0, 0.0, 9e-6, 0.51, 1, -0.1, math.nan, math.inf, "0.1", None, True]
)
def test_bad_tolerances(kind: str, tolerance: Any) -> None:
    with pytest.raises(InputError, match="tolerance"):
        getattr(search, kind)(tolerance=tolerance)


@pytest.mark.parametrize("kind", ["OuterApproximation", "MIP"])
@pytest.mark.parametrize("tolerance", [1e-5, 0.5, np.float32(0.25), np.float64(0.01)])
def test_good_tolerances(kind: str, tolerance: Any) -> None:
    assert getattr(search, kind)(tolerance=tolerance).tolerance == tolerance


@pytest.mark.parametrize(
    ("kind", "backends"),
    [("OuterApproximation", ["scip", "HiGHS", "", None, 1]), ("MIP", ["highs", "SCIP", "", None])],
)
def test_bad_backends(kind: str, backends: list[Any]) -> None:
    for backend in backends:
        with pytest.raises(InputError, match="backend"):
            getattr(search, kind)(backend=backend)


@pytest.mark.parametrize(
    "options",
    [
        {"tighten": "yes"},
        {"tighten": None},
        {"relax": "no"},
        {"relax": None},
        {"noise": 0.001},
        {"noise": (0.001,)},
        {"noise": (-0.1, 0.1)},
        {"noise": (math.nan, 0.1)},
        {"noise": ("a", "b")},
        {"start_share": -1.0},
        {"start_share": math.nan},
        {"start_share": "a"},
        {"seed": -1},
        {"seed": 1.5},
        {"seed": "a"},
    ],
    ids=str,
)
def test_bad_options_of_outer_approximation(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(InputError, match=name):
        search.OuterApproximation(**options)


@pytest.mark.parametrize("tighten", ["yes", None])
def test_bad_options_of_mip(tighten: Any) -> None:
    with pytest.raises(InputError, match="tighten"):
        search.MIP(tighten=tighten)


@pytest.mark.parametrize("index", [1, 3, 4, 5])
@pytest.mark.parametrize("backend", ["scip", "gurobi"])
def test_mip_refuses_other_losses(backend: str, index: int) -> None:
    for ask in ask_all(nth_truth(index).problem, search.MIP(backend=backend)):
        with pytest.raises(InputError, match="squared"):
            ask()


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2", None])
def test_bad_counts(name: str, count: Any) -> None:
    with pytest.raises(InputError, match="count"):
        search.top(distinct().problem, count, solver=name)


# ---- missing packages ----------------------------------------------------------------------------

EXTRAS: dict[str, tuple[str, Callable[[], Any]]] = {
    "outer approximation by HiGHS": ("highspy", lambda: search.OuterApproximation()),
    "outer approximation by Gurobi": (
        "gurobipy",
        lambda: search.OuterApproximation(backend="gurobi"),
    ),
    "mip by SCIP": ("pyscipopt", lambda: search.MIP()),
    "mip by Gurobi": ("gurobipy", lambda: search.MIP(backend="gurobi")),
}
EXTRA_OF = {"highspy": "highs", "pyscipopt": "scip", "gurobipy": "gurobi"}


@pytest.mark.parametrize("which", EXTRAS)
def test_a_missing_package_names_its_extra(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package, make = EXTRAS[which]
    monkeypatch.setitem(sys.modules, package, None)
    for question in range(3):
        with pytest.raises(MissingExtraError) as caught:
            ask_all(distinct().problem, make())[question]()
        assert f"pip install 'dpsubset[{EXTRA_OF[package]}]'" in str(caught.value)
        assert isinstance(caught.value, DpsubsetError)
        assert isinstance(caught.value, ImportError)


FRESH = """
import sys
for package in ("highspy", "pyscipopt", "gurobipy"):
    sys.modules[package] = None
import numpy as np
from dpsubset import Problem, search
from dpsubset.errors import MissingExtraError
X = np.eye(4)
problem = Problem(X, np.array([0.0, 1.0, 0.0, 0.5]), size=2, x_bound=1.0, y_bound=1.0, radius=2.0)
assert search.best(problem).support == (1, 3)
for solver in ("outer-approximation", "mip"):
    try:
        search.best(problem, solver=solver)
    except MissingExtraError as error:
        print(error)
"""


@pytest.mark.slow
def test_without_the_packages_the_library_works() -> None:
    ran = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "dpsubset[highs]" in ran.stdout
    assert "dpsubset[scip]" in ran.stdout


# ---- Gurobi --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gurobi() -> None:
    """Skip where Gurobi cannot run."""
    try:
        import gurobipy
    except ImportError:
        pytest.skip("gurobipy is not installed")
    try:
        with gurobipy.Env() as environment, gurobipy.Model(env=environment):
            pass
    except gurobipy.GurobiError as error:
        pytest.skip(f"gurobipy has no licence here: {error}")


@pytest.mark.grid(every=5)
@pytest.mark.usefixtures("gurobi")
@pytest.mark.parametrize("index", [0, 2, 6, 8, 12, 20, 24, 30, 36, 1, 3, 4, 5])
@pytest.mark.parametrize("name", GUROBI)
def test_gurobi_claims_hold_against_brute_force(
    name: str, index: int, capfd: pytest.CaptureFixture[str]
) -> None:
    case = nth_case(index)
    if name == "mip" and case.loss not in MIXED_INTEGER:
        pytest.skip("mip knows squared and hinge loss only")
    found = ask_and_check(nth_truth(index), GUROBI[name](nth_tolerance(index)))
    assert all(one.proven for one in found)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("gurobi")
@pytest.mark.parametrize("limits", LIMITS[:3:2], ids=str)
@pytest.mark.parametrize("name", GUROBI)
def test_gurobi_at_a_limit_is_honest(name: str, limits: Limits) -> None:
    for index in (6, 8):
        ask_and_check(nth_truth(index), GUROBI[name](1e-5), limits=limits)


@pytest.mark.grid(every=2)
@pytest.mark.usefixtures("gurobi")
@pytest.mark.parametrize("units", UNITS, ids=str)
@pytest.mark.parametrize("name", GUROBI)
def test_gurobi_in_other_units(
    name: str, units: tuple[float, float], capfd: pytest.CaptureFixture[str]
) -> None:
    check_units(GUROBI[name], units, capfd)


@pytest.mark.slow
@pytest.mark.usefixtures("gurobi")
@pytest.mark.parametrize("name", GUROBI)
def test_gurobi_with_large_columns_and_a_small_target(name: str) -> None:
    truth = Truth(random_case(490, 9, 5, "ridge0", "squared"))
    ask_and_check(truth, GUROBI[name](1e-5))
