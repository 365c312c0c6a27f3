"""Outside solvers: their models, and what becomes of a search when they stop, lie or fail (T23)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from dpsubset import Mistakes, Problem, TopR, search
from dpsubset.cuts import CutMaker, cut_maker
from dpsubset.errors import InputError, UnprovenError
from dpsubset.limits import REFUSED, Allowance, Limits
from dpsubset.search.backends import Answer, Master
from dpsubset.search.backends.gurobi import GurobiMaster, GurobiProgram
from dpsubset.search.backends.highs import HighsMaster
from dpsubset.search.backends.scip import ScipProgram
from dpsubset.search.outside import Side


def licensed() -> bool:
    try:
        GurobiMaster(2, 1)
    except (ImportError, InputError):
        return False
    return True


gurobi = pytest.mark.skipif(not licensed(), reason="Gurobi is not installed, or has no licence")
MASTERS = [HighsMaster, pytest.param(GurobiMaster, marks=gurobi)]
SOLVERS = [
    search.OuterApproximation(tolerance=1e-3),
    search.MIP(tolerance=1e-3),
    pytest.param(search.OuterApproximation(tolerance=1e-3, backend="gurobi"), marks=gurobi),
    pytest.param(search.MIP(tolerance=1e-3, backend="gurobi"), marks=gurobi),
]
MODELS = {
    ("outer-approximation", "highs"): HighsMaster,
    ("outer-approximation", "gurobi"): GurobiMaster,
    ("mip", "scip"): ScipProgram,
    ("mip", "gurobi"): GurobiProgram,
}


def hard_problem(n: int = 60, p: int = 10, size: int = 4) -> Problem:
    """Return a problem whose heuristics do not end the search by themselves."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (n, p)) + 0.8 * rng.uniform(-1, 1, (n, 1))
    y = np.clip(X @ rng.normal(size=p) / 4 + rng.normal(size=n) / 3, -1, 1)
    return Problem(X, y, size=size, x_bound=2.0, y_bound=1.0, radius=3.0, ridge=0.5)


def scores_of(problem: Problem) -> dict[tuple[int, ...], float]:
    every = itertools.combinations(range(problem.n_columns), problem.size)
    return {support: problem.score(support) for support in every}


def loose(_: float) -> bool:
    return False


def solved(master: Master, goal: float = math.inf) -> Answer:
    return master.solve(goal, 1e-6, Allowance(None), loose)


def cuts_of(rng: np.random.Generator, count: int = 6) -> list[tuple[float, np.ndarray]]:
    return [(rng.uniform(0.5, 1), rng.uniform(0, 0.5, 8)) for _ in range(count)]


def least(
    cuts: list[tuple[float, np.ndarray]], low: int, high: int, out: set[frozenset[int]]
) -> float:
    """Return the value of the master problem by listing all supports of 3 among 8 columns."""
    return min(
        max(0.0, *(c - w[list(s)].sum() for c, w in cuts))
        for s in itertools.combinations(range(8), 3)
        if low <= len({0, 4, 5}.intersection(s)) <= high and frozenset(s) not in out
    )


@pytest.mark.parametrize("kind", MASTERS)
def test_masters_find_the_least_value_that_cuts_rows_and_sides_allow(kind: type[Master]) -> None:
    rng = np.random.default_rng(1)
    for _ in range(10):
        cuts, master = cuts_of(rng), kind(8, 3)
        for cut in cuts:
            master.add(*cut)
        out: set[frozenset[int]] = set()
        for low, high in ((0, 3), (0, 3), (1, 1), (0, 1), (2, 3)):
            master.share(np.array([0, 4, 5]), low, high)
            wanted = least(cuts, low, high, out)
            answer = solved(master)
            assert answer.ended
            assert answer.bound == pytest.approx(wanted, abs=1e-5)
            assert answer.chosen is not None
            assert low <= np.isin(answer.chosen, [0, 4, 5]).sum() <= high
            if wanted > 1e-3:
                assert solved(master, wanted - 1e-4).chosen is None
                assert solved(master, wanted - 1e-4).ended
            master.exclude(answer.chosen)
            out.add(frozenset(answer.chosen.tolist()))
        master.share(np.array([0, 4, 5]), 0, 0)
        for s in itertools.combinations((1, 2, 3, 6, 7), 3):
            master.exclude(np.array(s))
        assert solved(master).ended
        assert solved(master).chosen is None  # all are excluded


@pytest.mark.parametrize("kind", MASTERS)
def test_relaxations_are_linear_programs_and_pruning_keeps_their_value(kind: type[Master]) -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        cuts, master = cuts_of(rng, 12), kind(8, 3)
        for cut in cuts:
            master.add(*cut)
        rows = np.array([[*-w, -1.0] for _, w in cuts])
        wanted = linprog(
            [0.0] * 8 + [1.0],
            A_ub=rows,
            b_ub=[-c for c, _ in cuts],
            A_eq=[[1.0] * 8 + [0.0]],
            b_eq=[3.0],
            bounds=[(0, 1)] * 8 + [(0, None)],
        ).fun
        z, value = master.relaxed()
        assert value == pytest.approx(wanted, abs=1e-7)
        assert z.sum() == pytest.approx(3.0, abs=1e-7)
        before = master.rows
        master.prune(before - 10)
        assert before - 10 <= master.rows < before
        assert master.relaxed()[1] == pytest.approx(wanted, abs=1e-7)
        whole = solved(master)
        assert whole.bound >= wanted - 1e-6
        assert master.relaxed()[1] == pytest.approx(wanted, abs=1e-7)  # the goal is forgotten


def test_sides_count_their_supports() -> None:
    problem = hard_problem(p=7, size=3)
    for low, high in [(0, -1), *itertools.combinations_with_replacement(range(4), 2)]:
        side = Side((0, 2, 5), low, high)
        assert side.count(problem) == sum(side.holds(s) for s in scores_of(problem))
    assert Side().count(problem) == problem.n_supports


class Enough(Exception):
    """Raised by a progress callback in the middle of a search."""


@pytest.mark.parametrize("error", [Enough, KeyboardInterrupt])
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_an_error_in_the_middle_reaches_the_caller(
    solver: search.Solver, error: type[BaseException]
) -> None:
    def stop(progress: search.Progress) -> None:
        raise error

    with pytest.raises(error):
        search.top(hard_problem(), 60, solver=solver, progress=stop)


def check_claims(found: list[search.Found], problem: Problem) -> None:
    """Every support that does not stand before an entry is at most the gap better."""
    truth = scores_of(problem)
    before: set[tuple[int, ...]] = set()
    for entry in found:
        assert entry.score == pytest.approx(truth[entry.support], rel=1e-9)
        others = min(v for s, v in truth.items() if s not in before)
        assert others >= entry.score - entry.gap - 1e-9
        before.add(entry.support)


def stops(answer: Answer) -> Answer:
    """A solver that was killed: it has a point, perhaps, and some bound."""
    return replace(answer, bound=min(answer.bound, 0.1), ended=False)


def knows_nothing(answer: Answer) -> Answer:
    return Answer(-math.inf, None, False)


def wrong_size(answer: Answer) -> Answer:
    return replace(answer, bound=0.1, chosen=np.arange(2))


def stutters(answer: Answer) -> Answer:
    """A solver that proposes one support again and again."""
    return replace(answer, bound=0.1, chosen=np.arange(4))


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("failure", [stops, knows_nothing, wrong_size, stutters])
@pytest.mark.parametrize("solver", SOLVERS[:2], ids=repr)
def test_a_solver_that_fails_leaves_true_claims_and_no_release(
    solver: search.OuterApproximation | search.MIP,
    failure: Callable[[Answer], Answer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = MODELS[solver.name, solver.backend]
    sound = model.solve

    def solve(self: Master, *given: object) -> Answer:
        return failure(sound(self, *given))  # type: ignore[arg-type]

    monkeypatch.setattr(model, "solve", solve)
    problem = hard_problem()
    found = search.top(problem, 60, solver=solver)
    check_claims(found, problem)
    assert not all(f.proven for f in found)
    assert all(f.gap > 0 for f in found if not f.proven)
    for mechanism in (TopR, Mistakes):
        with pytest.raises(UnprovenError) as caught:
            mechanism(1.0, solver=solver, accept_gap=True).release(problem)
        assert str(caught.value) == REFUSED


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_without_failures_the_same_search_is_proven(solver: search.Solver) -> None:
    problem = hard_problem()
    found = search.top(problem, 60, solver=solver)
    check_claims(found, problem)
    assert all(f.proven for f in found)
    assert [f.score for f in found] == pytest.approx(sorted(scores_of(problem).values())[:60], 2e-3)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("limits", [Limits(nodes=1), Limits(nodes=5), Limits(seconds=1e-3)])
def test_limits_leave_true_claims(solver: search.Solver, limits: Limits) -> None:
    problem = hard_problem()
    found = search.top(problem, 60, solver=solver, limits=limits)
    check_claims(found, problem)
    assert not all(f.proven for f in found)
    with pytest.raises(UnprovenError, match="count the budget as spent"):
        TopR(1.0, count=60, solver=solver, accept_gap=True, limits=limits).release(problem)


def test_a_model_that_claims_to_be_infeasible_is_not_believed_without_a_goal() -> None:
    """With room on the list there must be supports left: the claim proves nothing."""
    problem = hard_problem(p=8, size=3)

    class Liar(search.OuterApproximation):
        def session(self, maker, scale):  # type: ignore[no-untyped-def]
            session = super().session(maker, scale)
            session.model.solve = lambda *given: Answer(math.inf, None, True)
            return session

    found = search.top(problem, 50, solver=Liar(relax=False))
    assert len(found) < 50
    assert not found[-1].proven


def test_a_master_is_added_to_and_never_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    build = HighsMaster.__init__

    def note(self: HighsMaster, *given: int) -> None:
        built.append(given)
        build(self, *given)

    monkeypatch.setattr(HighsMaster, "__init__", note)
    search.best_by_mistakes(hard_problem(), solver=search.OuterApproximation(tolerance=1e-4))
    assert len(built) == 1


def test_when_the_papers_check_fails_the_search_goes_on() -> None:
    """Two-swaps that precede one-swaps are found and listed."""
    problem = hard_problem()
    truth = sorted(scores_of(problem).items(), key=lambda item: item[1])
    count = 2 + (problem.n_columns - problem.size) * problem.size
    mistakes = [problem.size - len(set(s) & set(truth[0][0])) for s, _ in truth[:count]]
    assert max(mistakes) >= 2  # the paper would have given up here
    for solver in (search.OuterApproximation(tolerance=1e-5), search.MIP(tolerance=1e-5)):
        found = search.top(problem, count, solver=solver)
        assert all(f.proven for f in found)
        assert [f.support for f in found] == [s for s, _ in truth[:count]]


def test_how_a_solver_breaks_does_not_leave_a_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the solver may tell of the data: all of them have one text, and no cause."""

    def breaks(*given: object) -> Answer:
        raise ZeroDivisionError("row 17 has the value 3.14")

    monkeypatch.setattr(HighsMaster, "solve", breaks)
    monkeypatch.setattr(HighsMaster, "relaxed", breaks)
    problem = hard_problem()
    with pytest.raises(ZeroDivisionError):
        search.top(problem, 60, solver="outer-approximation")
    for mechanism in (TopR, Mistakes):
        with pytest.raises(UnprovenError) as caught:
            mechanism(1.0, solver="outer-approximation", accept_gap=True).release(problem)
        assert str(caught.value) == REFUSED
        assert caught.value.__suppress_context__
        assert caught.value.__cause__ is None


def test_what_is_public_of_a_problem_is_said_by_a_mechanism_too() -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (30, 5))
    problem = Problem(X, X[:, 0], size=2, loss="absolute", x_bound=1.0, y_bound=1.0, radius=1.0)
    with pytest.raises(InputError, match="squared and hinge loss, not absolute"):
        TopR(1.0, solver="mip", accept_gap=True).release(problem)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_one_swaps_that_a_limit_leaves_unscored_are_bounded_all_the_same(
    solver: search.Solver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock runs out while the one-swaps of the best support are scored."""
    problem = hard_problem()
    kind = type(cut_maker(problem))
    clock = iter(range(10**6))
    late = [False]
    extended = kind.extended

    def slow(self: CutMaker, *given: object) -> np.ndarray:
        late[0] = next(clock) >= 1
        return extended(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(kind, "extended", slow)
    monkeypatch.setattr(Allowance, "over", property(lambda self: late[0]))
    found = search.top(problem, 60, solver=solver)
    check_claims(found, problem)
    assert not any(f.proven for f in found)
    assert len(found) < 60
