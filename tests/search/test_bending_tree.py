"""Searches of losses that bend by a squared loss below, against brute force (T17, T40).

Small tables are forced upon the minorants that only long searches need. The twin is a minorant
that is not below: its searches must miss the best.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from oracle import Case, kinds, mistakes_of, random_case, sizes

from dpsubset import Problem, search
from dpsubset.cuts import cut_maker, minorant
from dpsubset.cuts.region import root
from dpsubset.limits import Allowance, Limits
from dpsubset.search import bending_tree
from dpsubset.search.bending_tree import BendingTree, tree_for
from dpsubset.search.tree import Shortlist, Tree

LOSSES = ("huber:0.1", "logistic")
SHAPES = [shape for shape in sizes(10) if shape[1] > 1]


def nth_case(index: int, loss: str) -> Case:
    p, size = SHAPES[(7 * index) % len(SHAPES)]
    return random_case(20_000 + index, p, size, kinds(loss)[index % len(kinds(loss))], loss)


def problem_of(case: Case, **changes: Any) -> Problem:
    return Problem(case.X, case.y, **{**case.arguments(), **changes})


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Try minorants after every region, whatever they promise; tell which of them closed a tree."""
    closed: list[bool] = []
    named = BendingTree._named

    def noted(self: BendingTree, *given: Any) -> bool:
        closed.append(named(self, *given))
        return closed[-1]

    begin = BendingTree.__init__

    def begun(self: BendingTree, *given: Any) -> None:
        begin(self, *given)
        self._seen = 1

    monkeypatch.setattr(BendingTree, "__init__", begun)
    monkeypatch.setattr(bending_tree, "_FEWEST", 1)
    monkeypatch.setattr(bending_tree, "_AGAIN", 1)
    monkeypatch.setattr(bending_tree, "_NODE", 1e-4)
    monkeypatch.setattr(BendingTree, "_promises", lambda self, cuts: True)
    monkeypatch.setattr(BendingTree, "_named", noted)
    return closed


def tolerance(case: Case) -> float:
    return 1e-9 * len(case.y) * case.delta("largest")


@pytest.mark.parametrize("room", [1, 4096])
@pytest.mark.parametrize("loss", LOSSES)
def test_searches_by_minorants_equal_brute_force(
    loss: str, room: int, at_once: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bending_tree, "_NAMED", room)
    for index in range(30):
        case = nth_case(index, loss)
        scores, supports = case.scores(), case.supports()
        problem = problem_of(case)
        for count in (1, 5):
            found = search.top(problem, count)
            assert all(one.proven for one in found)
            assert len({one.support for one in found}) == len(found)
            wanted = np.sort(scores)[:count]
            np.testing.assert_allclose([f.score for f in found], wanted, atol=tolerance(case))
        found = search.best_by_mistakes(problem)
        k = mistakes_of(supports, found[0].support)
        wanted = np.array([scores[k == mistakes].min() for mistakes in range(k.max() + 1)])
        assert all(one.proven for one in found)
        np.testing.assert_allclose([f.score for f in found], wanted, atol=tolerance(case))
    assert sum(at_once) > (5 if room == 1 else 40)


def of_weak_columns(n: int = 400, p: int = 12) -> Problem:
    """Return a problem of many supports that are nearly alike."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (n, p))
    y = np.where(rng.random(n) < 0.5 + 0.1 * X[:, 0] - 0.1 * X[:, 5], 1.0, -1.0)
    return Problem(X, y, size=3, loss="logistic", x_bound=1.0, radius=1.0, ridge=0.1)


def searched(problem: Problem) -> tuple[float, float]:
    """Return what a tree finds that begins at the worst support, and the bound that it proves."""
    supports = list(itertools.combinations(range(problem.n_columns), problem.size))
    worst = max(supports, key=problem.score)
    shortlist = Shortlist(1, problem.size, problem.n_columns)
    shortlist.offer(np.array(worst, dtype=np.int64), problem.score(worst))
    tree = tree_for(cut_maker(problem), shortlist, Allowance(None))
    assert isinstance(tree, BendingTree)
    bound = tree.run([root(problem)])
    return shortlist.worst, bound


def test_a_minorant_proves_the_best_of_weak_columns(at_once: list[bool]) -> None:
    problem = of_weak_columns()
    least = min(map(problem.score, itertools.combinations(range(problem.n_columns), 3)))
    found, bound = searched(problem)
    assert at_once[-1]  # by the minorant, not by the tree
    assert bound == np.inf
    assert found == pytest.approx(least, abs=1e-8)


def test_what_is_not_below_misses_the_best(
    at_once: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: a minorant with eight times the curvature that is proven."""
    right = minorant.row_curvature

    def wrong(*given: Any) -> Any:
        value, slope, gamma = right(*given)
        return value, slope, 8.0 * gamma

    monkeypatch.setattr(minorant, "row_curvature", wrong)
    problem = of_weak_columns()
    least = min(map(problem.score, itertools.combinations(range(problem.n_columns), 3)))
    found, _ = searched(problem)
    assert at_once[-1]
    assert found > least + 1e-6


def test_a_limit_on_nodes_proves_nothing(at_once: list[bool]) -> None:
    """A minorant's search that was cut short does not close a tree."""
    problem = of_weak_columns()
    shortlist = Shortlist(1, problem.size, problem.n_columns)
    shortlist.offer(np.arange(3), problem.score(range(3)))
    tree = tree_for(cut_maker(problem), shortlist, Allowance(Limits(nodes=2)))
    bound = tree.run([root(problem)])
    assert bound < shortlist.worst
    assert not any(at_once)


@pytest.mark.parametrize("loss", ["absolute", "hinge", "squared"])
def test_losses_without_minorants_have_the_plain_tree(loss: str) -> None:
    case = random_case(1, 6, 2, "plain", loss)
    problem = problem_of(case)
    tree = tree_for(cut_maker(problem), Shortlist(1, 2, 6), Allowance(None))
    assert type(tree) is Tree


@pytest.mark.parametrize("loss", LOSSES)
def test_features_of_several_columns(loss: str, at_once: list[bool]) -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (150, 16))
    y = np.where(rng.random(150) < 0.5 + 0.2 * X[:, 0] + 0.1 * X[:, 5], 1.0, -1.0)
    problem = Problem(
        X,
        y,
        size=3,
        loss=loss,
        x_bound=2.0,
        y_bound=None if loss == "logistic" else 1.0,
        radius=1.0,
        ridge=0.5,
        groups=[[2 * k, 2 * k + 1] for k in range(8)],
        include=[7],
        exclude=[2],
    )
    supports = [s for s in itertools.combinations(range(8), 3) if 7 in s and 2 not in s]
    scores = np.sort([problem.score(s) for s in supports])
    found = search.top(problem, 6)
    assert all(one.proven for one in found)
    np.testing.assert_allclose([one.score for one in found], scores[:6], rtol=0, atol=1e-7)
    assert any(at_once)
