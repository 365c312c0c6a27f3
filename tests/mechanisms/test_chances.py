"""The exact chance of a support is the one that the mechanism's law, or a plain one, gives it.

Where it is known: checked against listed laws, against brute force, and against draws. Where it is
not known there is none.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from oracle import exponential_law, gap, mistakes_law, race_law, random_case, top_law
from scipy import stats

from dpsubset import Exponential, Mistakes, PermuteAndFlip, Problem, TopR, search
from dpsubset.errors import InputError
from dpsubset.mechanisms import (
    LassoStability,
    MarkovChain,
    Mechanism,
    SampleAggregate,
    base,
)

EPSILON = 6.0
MARKS = {"plain": {}, "marked": {"include": (4,), "exclude": (1, 6)}}
MECHANISMS: dict[str, Mechanism] = {
    "top 2": TopR(EPSILON, count=2, sensitivity="paper"),
    "top 7": TopR(EPSILON, count=7),
    "top by default": TopR(EPSILON, neighbours="add-remove"),
    "top 7, 3 trials": TopR(EPSILON, count=7, trials=3),
    "mistakes": Mistakes(EPSILON, sensitivity="paper"),
    "mistakes, tested": Mistakes(EPSILON, delta=0.01),
    "mistakes, else exponential": Mistakes(EPSILON, delta=0.01, otherwise="exponential"),
    "mistakes, add-remove": Mistakes(EPSILON, neighbours="add-remove"),
    "exponential": Exponential(EPSILON),
    "permute-and-flip": PermuteAndFlip(EPSILON, neighbours="add-remove"),
}


@cache
def problem(loss: str = "squared", marks: str = "plain") -> Problem:
    """Eight columns, three to choose: 56 supports, or 10 where some columns are marked."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (80, 8))
    y = 0.7 * X[:, 0] - 0.6 * X[:, 2] + 0.4 * X[:, 4] + 0.2 * rng.normal(size=80)
    labels = loss == "hinge"
    options: dict[str, Any] = {"classes": (-1, 1)} if labels else {"y_bound": 1.0}
    y = np.where(y > 0, 1, -1) if labels else y
    options |= MARKS[marks]
    return Problem(X, y, size=3, loss=loss, x_bound=1.0, radius=1.2, ridge=0.5, **options)


def compare(mechanism: Mechanism, given: Problem, *, all_supports: bool = True) -> None:
    """Compare with the listed law: at every support, or at some from the likeliest to the least."""
    supports, logs = mechanism.probabilities(given)
    order = np.argsort(-logs, kind="stable")
    some = order if all_supports else order[[0, 1, len(order) // 2, -1]]
    for i in some:
        found = mechanism.chance(given, tuple(supports[i].tolist()))
        assert found is not None
        assert isinstance(found, float)
        assert found == pytest.approx(math.exp(logs[i]), rel=1e-6)


@pytest.mark.grid(every=11)
@pytest.mark.parametrize("marks", MARKS)
@pytest.mark.parametrize("loss", ["squared", "hinge"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_the_chance_is_the_laws(name: str, loss: str, marks: str) -> None:
    given = problem(loss, marks)
    compare(MECHANISMS[name], given, all_supports=loss == "squared" or marks == "marked")


@pytest.mark.parametrize("count", [2, 3, 9, 10])
def test_all_counts_up_to_all_supports(count: int) -> None:
    compare(TopR(EPSILON, count=count), problem(marks="marked"))


@pytest.mark.parametrize("loss", ["squared", "hinge"])
@pytest.mark.parametrize("kind", ["plain", "marked", "ball"])
def test_brute_force_agrees(kind: str, loss: str) -> None:
    """Scores from an independent solver, laws from their definitions: nothing of the library's."""
    case = random_case(11, 7, 3, kind, loss)
    scores, supports = case.scores(), case.supports()
    assert gap(scores) > 1e-3  # one best support: mistakes are counted from it
    given = Problem(case.X, case.y, **case.arguments())
    epsilon = 16 * case.delta() / float(np.ptp(scores))  # a flat law would tell nothing
    kappa = case.kappa(epsilon, "replace-one")
    laws: list[tuple[Mechanism, np.ndarray]] = [
        (TopR(epsilon, count=5), top_law(scores, kappa, 5)),
        (Mistakes(epsilon), mistakes_law(scores, supports, kappa)),
        (Exponential(epsilon), exponential_law(scores, kappa)),
        (PermuteAndFlip(epsilon), race_law(scores, kappa)),
    ]
    order = np.argsort(scores)
    for mechanism, law in laws:
        assert np.ptp(law) > 0.1
        for i in order[[0, 1, len(order) // 2, -1]]:
            found = mechanism.chance(given, tuple(supports[i].tolist()))
            assert found == pytest.approx(np.exp(law[i]), rel=1e-6)


def test_one_support_is_certain() -> None:
    alone = Problem(np.eye(3), np.ones(3), size=3, x_bound=1, y_bound=1, radius=1, ridge=1)
    for mechanism in (TopR(1.0), Mistakes(1.0), Exponential(1.0), PermuteAndFlip(1.0)):
        assert mechanism.chance(alone, (0, 1, 2)) == pytest.approx(1.0)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_support_is_a_set(name: str) -> None:
    """Columns in another order are the same support; what no support may be has no chance."""
    mechanism, given = MECHANISMS[name], problem(marks="marked")
    best = search.best(given).support
    expected = mechanism.chance(given, best)
    assert mechanism.chance(given, best[::-1]) == pytest.approx(expected)
    for impossible in ((0, 2, 3), (1, 2, 4), (0, 4)):  # 4 is included, 1 excluded, one too few
        with suppress(InputError):
            assert mechanism.chance(given, impossible) == 0.0


def test_there_is_none_where_the_law_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    given, support = problem(), (0, 2, 4)
    unknown = [MarkovChain(1.0, steps=5), SampleAggregate(1.0), LassoStability(1.0)]
    for mechanism in unknown:
        assert mechanism.chance(given, support) is None
    monkeypatch.setattr(base, "_LISTED", 55)
    for mechanism in (
        Exponential(1.0),
        PermuteAndFlip(1.0),
        Mistakes(1.0, delta=0.01, otherwise="exponential"),
    ):
        assert mechanism.chance(given, support) is None
    for mechanism in (TopR(1.0), Mistakes(1.0)):
        assert mechanism.chance(given, support) is not None
    monkeypatch.setattr(base, "_LISTED", 56)
    for mechanism in (Exponential(1.0), PermuteAndFlip(1.0)):
        assert mechanism.chance(given, support) is not None


# Against draws ----------------------------------------------------------------------------------

DRAWS = 1500


def surprise(mechanism: Mechanism, claimed: Mechanism) -> float:
    """Return the p value of how often a support was drawn, under a claimed chance of it."""
    best = search.best(problem()).support
    drawn = mechanism.draw(problem(), DRAWS, random_state=5)
    times = int((drawn == np.array(best)).all(axis=1).sum())
    chance = claimed.chance(problem(), best)
    assert chance is not None
    return float(stats.binomtest(times, DRAWS, chance).pvalue)


@pytest.mark.parametrize("name", ["top 7", "mistakes", "exponential", "permute-and-flip"])
def test_draws_agree(name: str) -> None:
    """False alarms: 1e-6 each, seeds fixed. A claim for half the epsilon is found out."""
    mechanism = MECHANISMS[name]
    assert surprise(mechanism, mechanism) > 1e-6
    weaker = type(mechanism)(EPSILON / 2, neighbours=mechanism.neighbours)
    assert surprise(mechanism, weaker) < 1e-6


# Broken on purpose ------------------------------------------------------------------------------


def test_twin_a_list_one_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopR, "_found", lambda self, given: search.top(given, 6))
    with pytest.raises(AssertionError):
        compare(TopR(EPSILON, count=7), problem())


@pytest.mark.parametrize("marks", MARKS)
def test_twin_a_wrong_best_of_a_bucket(monkeypatch: pytest.MonkeyPatch, marks: str) -> None:
    def wrong(self: Mistakes, given: Problem) -> list[Any]:
        first, second, *others = search.best_by_mistakes(given)
        return [first, replace(second, score=first.score), *others]

    monkeypatch.setattr(Mistakes, "_found", wrong)
    with pytest.raises(AssertionError):
        compare(Mistakes(EPSILON), problem(marks=marks))


def test_twin_the_test_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chance that ignores delta is not that of the mechanism with a test."""
    tested = Mistakes(EPSILON, delta=1e-4)
    supports, logs = tested.probabilities(problem())
    best = tuple(supports[int(np.argmax(logs))].tolist())
    monkeypatch.setattr(Mistakes, "_tested", lambda *given: (0.0, -math.inf))
    wrong = tested.chance(problem(), best)
    assert wrong is not None
    assert wrong > 10 * math.exp(logs.max())
