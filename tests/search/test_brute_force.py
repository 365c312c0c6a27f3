"""The searches against brute force on 500 random problems (T1, T17), and the oracle itself."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from oracle import KINDS, Case, certified_scores, mistakes_of, random_case, sizes
from scipy import sparse
from scipy.optimize import minimize

from dpsubset import Problem, search
from dpsubset.designs import gram
from dpsubset.search import Found, Limits, tree

PROBLEMS = 500
CHUNK = 20
SHAPES = sizes(14)  # 105 pairs (p, s): coprime with the 8 kinds, so the two are well mixed


def nth_case(index: int) -> Case:
    p, size = SHAPES[index % len(SHAPES)]
    return random_case(index, p, size, KINDS[index % len(KINDS)])


def tolerance(case: Case) -> float:
    return 1e-9 * case.scale() + 1e-300


class Truth:
    """All supports of a case with their scores, and checks of what a search found."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.supports = case.supports()
        self.scores = case.scores()
        self.places = {tuple(row): i for i, row in enumerate(self.supports.tolist())}
        self.tolerance = tolerance(case)

    def check_entry(self, found: Found, wanted: float) -> None:
        assert found.proven
        assert all(type(j) is int for j in found.support)
        own = self.scores[self.places[found.support]]
        assert abs(found.score - own) <= self.tolerance
        assert abs(found.score - wanted) <= self.tolerance

    def check_top(self, found: list[Found], count: int) -> None:
        assert len(found) == min(count, len(self.scores))
        assert len({one.support for one in found}) == len(found)
        for one, wanted in zip(found, np.sort(self.scores), strict=False):
            self.check_entry(one, wanted)
        assert all(a.score <= b.score for a, b in itertools.pairwise(found))

    def check_mistakes(self, found: list[Found]) -> None:
        self.check_entry(found[0], self.scores.min())
        k = mistakes_of(self.supports, found[0].support)
        assert len(found) == k.max() + 1
        for mistakes, one in enumerate(found):
            assert k[self.places[one.support]] == mistakes
            self.check_entry(one, self.scores[k == mistakes].min())


@pytest.mark.parametrize("start", range(0, PROBLEMS, CHUNK))
def test_searches_equal_brute_force(start: int) -> None:
    for index in range(start, start + CHUNK):
        case = nth_case(index)
        truth = Truth(case)
        problem = Problem(case.X, case.y, **case.arguments())
        total = len(truth.scores)
        assert problem.n_supports == total
        truth.check_entry(search.best(problem), truth.scores.min())
        p, s = problem.n_columns, problem.size
        for count in {1, 2, 2 + (p - s) * s, (total + 1) // 2, total, total + 3}:
            truth.check_top(search.top(problem, count), count)
        truth.check_mistakes(search.best_by_mistakes(problem))


SWITCHES = {
    "Gram columns on demand": (gram, "FULL_UP_TO", 2),
    "regions split instead of searched": (tree, "_MOST", 3),
    "regions split when their allowance ends": (tree, "_ALLOWANCE", 3),
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_path_gives_the_same_answers(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only large problems need, forced upon small ones."""
    monkeypatch.setattr(*SWITCHES[switch])
    for index in range(0, PROBLEMS, 7):
        case = nth_case(index)
        truth = Truth(case)
        problem = Problem(case.X, case.y, **case.arguments())
        count = 2 + (problem.n_columns - problem.size) * problem.size
        truth.check_top(search.top(problem, count), count)
        truth.check_mistakes(search.best_by_mistakes(problem))


STORAGES = {
    "float32": lambda X: X.astype(np.float32),
    "column order": np.asfortranarray,
    "sparse rows": sparse.csr_matrix,
    "sparse columns": sparse.csc_array,
    "every other row of a larger array": lambda X: np.repeat(X, 2, axis=0)[::2],
}


@pytest.mark.parametrize("storage", STORAGES)
def test_storage_does_not_matter(storage: str) -> None:
    for index in range(0, PROBLEMS, 7):
        case = nth_case(index)
        if storage == "float32":
            case = replace(case, X=case.X.astype(np.float32).astype(float))
        truth = Truth(case)
        problem = Problem(STORAGES[storage](case.X), case.y, **case.arguments())
        truth.check_top(search.top(problem, 5), 5)


@pytest.mark.parametrize("start", range(0, PROBLEMS, 100))
def test_score_and_interval_equal_brute_force(start: int) -> None:
    for index in range(start, start + 100):
        case = nth_case(index)
        problem = Problem(case.X, case.y, **case.arguments())
        rng = np.random.default_rng(index)
        supports = case.supports()
        some = supports[rng.choice(len(supports), size=min(8, len(supports)), replace=False)]
        for support, exact in zip(some.tolist(), case.scores(some), strict=True):
            assert abs(problem.score(support) - exact) <= tolerance(case)
            low, high = problem.interval(support)
            assert low <= exact + 1e-13 * case.scale()
            assert exact <= high + 1e-13 * case.scale()
            assert high - low <= 1e-9 * case.scale() + 1e-11 * max(1, len(case.y)) * case.delta()


@pytest.fixture(scope="module")
def hard() -> Truth:
    return Truth(random_case(7, 17, 7, "correlated"))


def test_limits_end_in_an_honest_answer(hard: Truth) -> None:
    case = hard.case
    problem = Problem(case.X, case.y, **case.arguments())
    limits = Limits(nodes=1)
    best = search.best(problem, limits=limits)
    top = search.top(problem, 20, limits=limits)
    buckets = search.best_by_mistakes(problem, limits=limits)
    assert not best.proven
    assert not all(one.proven for one in top)
    assert not all(one.proven for one in buckets)
    for one in [best, *top, *buckets]:
        assert abs(one.score - hard.scores[hard.places[one.support]]) <= hard.tolerance
    for one, least in zip(top, np.sort(hard.scores), strict=False):
        assert one.score >= least - hard.tolerance
        assert not one.proven or one.score <= least + hard.tolerance


def test_the_same_problem_is_proven_without_limits(hard: Truth) -> None:
    case = hard.case
    problem = Problem(case.X, case.y, **case.arguments())
    hard.check_top(search.top(problem, 20), 20)
    hard.check_mistakes(search.best_by_mistakes(problem))


def test_progress_reports_a_bound_below_the_best(hard: Truth) -> None:
    case = hard.case
    problem = Problem(case.X, case.y, **case.arguments())
    reports = []
    search.best(problem, progress=reports.append)
    least = hard.scores.min()
    for report in reports:
        assert report.bound <= least + hard.tolerance
        assert report.best >= least - hard.tolerance
        assert report.nodes >= 0
        assert report.open >= 0


# ---- the oracle itself --------------------------------------------------------------------------


def test_oracle_scores_carry_their_own_proof() -> None:
    for index in range(0, PROBLEMS, 3):
        case = nth_case(index)
        X, y = case.clipped()
        primal, dual = certified_scores(X, y, case.supports(), case.radius, case.ridge)
        assert np.all(np.abs(primal - dual) <= 1e-13 * case.scale())


def test_oracle_scores_equal_a_general_solver() -> None:
    rng = np.random.default_rng(0)
    for index in range(40):
        case = nth_case(int(rng.integers(PROBLEMS)))
        support = rng.choice(case.supports())
        X, y = case.clipped()
        scale, exact = case.scale(), case.scores(support[None, :])[0]
        if scale == 0:
            assert exact == 0
            continue
        # In units of the ball and of the target the solver's own tolerances mean something.
        A, y = X[:, support] * case.radius / math.sqrt(scale), y / math.sqrt(scale)
        ridge = case.ridge * case.radius**2 / scale

        def value(beta: np.ndarray, A=A, y=y, ridge=ridge) -> tuple[float, np.ndarray]:
            residual = y - A @ beta
            slope = 2 * ridge * beta - 2 * A.T @ residual
            return float(residual @ residual + ridge * beta @ beta), slope

        ball = {"type": "ineq", "fun": lambda beta: 1 - beta @ beta, "jac": lambda beta: -2 * beta}
        options = {"ftol": 1e-15, "maxiter": 1000}
        start = np.zeros(case.size)
        solved = minimize(value, start, jac=True, method="SLSQP", constraints=ball, options=options)
        assert abs(solved.fun - exact / scale) <= 1e-6, index
