"""Scores that a chain over blocks encloses before it computes them (T24h), and broken twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from block_cases import Blocks, blocks, problem_of

from dpsubset import MarkovChain
from dpsubset.privacy import as_randomness
from dpsubset.problem import Problem
from dpsubset.sampling import block_chain, swapped
from dpsubset.sampling.block_chain import ByBlocks
from dpsubset.sampling.chain import Rule
from dpsubset.sampling.pairs import no_pairs
from dpsubset.sampling.swapped import Kept, Room

GROUPS = ((6,), (3, 8, 10), (0,), (1, 11), (2, 4, 9, 13, 14), (5,), (7, 12))
PLAIN = (
    "gather",
    "_prepare",
    "_factor",
    "_forward",
    "_backward",
    "_forward_many",
    "enclosed_gain",
    "forget",
)
CASES = {
    "inside the ball": {"radius": 50.0, "ridge": 2.0},
    "the ball is active": {"radius": 0.3, "ridge": 0.1},
    "no ridge": {"radius": 0.8, "ridge": 0.0},
}


def case_of(name: str) -> Blocks:
    return blocks("squared", 5, groups=GROUPS, size=3, n=40, **CASES[name])


def walker_of(problem: Problem, ball: str = "l2", kappa: float = 3.0) -> ByBlocks:
    gap = 1e-9 if ball == "l1" else 0.0
    state = np.array([[0, 1, 2]]), np.array([[3, 4, 5, 6]])
    return ByBlocks(problem, Rule(kappa, 10, ball == "l1", gap), state, np.zeros(1, dtype=int))


def ends(case: Blocks, supports: Any, at: int, mu: float, *, kept: Kept | None = None) -> Any:
    """Return the ends of some supports' scores, one after the other from the same room."""
    problem = problem_of(case)
    walker, k = walker_of(problem), problem.most_columns
    data = walker._data(np.zeros((1, 1), dtype=int), 0, 1)
    room = Room.of(k, 5)
    kept = kept or Kept.of(3, k)
    swapped.forget(kept, -1)
    given = data, walker._parts, walker._norm, walker._near
    return [
        block_chain._enclosed(*given, np.array(s), at, mu, np.inf, kept, room) for s in supports
    ]


def plain(function: Any) -> Any:
    """Return a function as it is without compiling."""
    return getattr(function, "py_func", function)


def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run everything as plain Python, so that it can be broken."""
    for name in PLAIN:
        monkeypatch.setattr(swapped, name, plain(getattr(swapped, name)))
    for name in ("gather", "enclosed_gain", "forget"):
        monkeypatch.setattr(block_chain, name, getattr(swapped, name))
    for name in ("_walk", "_score", "_enclosed", "_from_pairs", "_decided"):
        monkeypatch.setattr(block_chain, name, plain(getattr(block_chain, name)))


@pytest.mark.parametrize("mu", [0.0, 0.7, 30.0])
@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize("name", CASES)
def test_the_ends_enclose_every_score(name: str, at: int, mu: float) -> None:
    """By brute force; all proposals at one place use one factor."""
    case = case_of(name)
    others = [0, 4]
    supports = [np.insert(others, at, g) for g in range(7) if g not in others]
    scores = case.scores(np.array([np.sort(s) for s in supports]))
    found = ends(case, supports, at, mu)
    for (low, high, _), score in zip(found, scores, strict=True):
        assert low <= score + 1e-6  # what the brute force has
        assert score <= high + 1e-6


@pytest.mark.parametrize("name", CASES)
def test_the_multiplier_leads_to_the_score(name: str) -> None:
    """After some steps the ends meet, up to rounding."""
    case, support = case_of(name), np.array([5, 1, 4])
    score, mu = float(case.scores(np.sort(support)[None, :])[0]), 0.0
    for _ in range(12):
        ((low, high, mu),) = ends(case, [support], 1, mu)
    assert high - low < 1e-5
    assert low == pytest.approx(score, abs=1e-5)


def test_a_score_that_is_too_high_needs_no_upper_end() -> None:
    case = case_of("the ball is active")
    problem = problem_of(case)
    walker, k = walker_of(problem), problem.most_columns
    data = walker._data(np.zeros((1, 1), dtype=int), 0, 1)
    kept, room = Kept.of(3, k), Room.of(k, 5)
    swapped.forget(kept, -1)
    given = data, walker._parts, walker._norm, walker._near, np.array([0, 2, 5]), 1, 1.0
    low, high, _ = block_chain._enclosed(*given, -1.0, kept, room)
    assert np.isfinite(low)
    assert high == np.inf


def walked(case: Blocks, ball: str, epsilon: float, steps: int) -> np.ndarray:
    mechanism = MarkovChain(epsilon, steps=steps, ball=ball)
    return mechanism._chains(problem_of(case), 40, as_randomness(np.random.default_rng(4)))[0]


def nothing_known(*given: Any) -> tuple[float, float, float]:
    return -np.inf, np.inf, 0.0


def all_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute every score to the end."""
    interpreted(monkeypatch)
    monkeypatch.setattr(block_chain, "_enclosed", nothing_known)
    monkeypatch.setattr(block_chain, "pairs_of", lambda *given: no_pairs())


@pytest.mark.parametrize("ball", ["l2", "l1"])
@pytest.mark.parametrize("epsilon", [0.5, 30.0])
@pytest.mark.parametrize("name", CASES)
def test_every_step_goes_where_the_scores_send_it(
    name: str, epsilon: float, ball: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(name)
    quick = walked(case, ball, epsilon, 40)
    all_scores(monkeypatch)
    assert np.array_equal(quick, walked(case, ball, epsilon, 40))


def forgets_nothing(kept: Kept, at: int) -> None:
    if at < 0:
        kept.counts[:] = -1


def too_sure(*given: Any) -> Any:
    least, most, trace, mu = RIGHT(*given)
    return least, most - 1.0, trace, mu


RIGHT = plain(swapped.enclosed_gain)


@pytest.mark.parametrize("name", ["forget", "enclosed_gain"])
def test_twins_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A factor that is kept for too long, and a bound that is no bound."""
    monkeypatch.setattr(ByBlocks, "_room_for_directions", lambda self: False)
    pairs = tuple((2 * g, 2 * g + 1) for g in range(7))
    case = blocks("squared", 5, groups=pairs, size=3, n=40, radius=0.3, ridge=0.1)
    right = walked(case, "l2", 30.0, 40)
    interpreted(monkeypatch)
    assert np.array_equal(right, walked(case, "l2", 30.0, 40))
    broken = {"forget": forgets_nothing, "enclosed_gain": too_sure}[name]
    monkeypatch.setattr(block_chain, name, broken)
    assert not np.array_equal(right, walked(case, "l2", 30.0, 40))
