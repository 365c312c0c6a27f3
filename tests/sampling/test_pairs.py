"""Scores that are enclosed from pairs of features (T24i), against brute force, and broken twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from block_cases import BALLS, SEVEN, Blocks, blocks, problem_of

from dpsubset import MarkovChain
from dpsubset.privacy import as_randomness
from dpsubset.sampling import block_chain, pairs
from dpsubset.sampling.chain import Norm
from dpsubset.sampling.pairs import gain_of_pairs, pairs_of

ERROR = 1e-6  # of the brute force


def case_of(name: str, n: int = 400) -> Blocks:
    return blocks("squared", 5, groups=SEVEN, size=3, n=n, **BALLS[name])


def ends_of(case: Blocks, multipliers: Any, ball: str = "l2", broken: Any = None) -> np.ndarray:
    """Return the least and the most that every support scores, by pairs."""
    problem = problem_of(case)
    G = np.ascontiguousarray(problem.gram.full(problem.between))
    l1, given = ball == "l1", (problem.ridge, problem.radius)
    made = pairs_of(problem, G, problem.correlations, np.array(multipliers), l1)
    made = broken(made) if broken else made
    norm = Norm(1.0, *given, l1, 1e-9)
    gains = [gain_of_pairs(made, norm, support) for support in case.supports()]
    return problem.energy - np.array(gains)[:, ::-1]


def scores_of(case: Blocks, ball: str) -> np.ndarray:
    if ball == "l2":
        return case.scores()
    return MarkovChain(1.0, ball="l1")._l1_scores(problem_of(case), case.supports())


@pytest.mark.parametrize("multipliers", [(0.0,), (0.7,), (0.0, 40.0)])
@pytest.mark.parametrize("ball", ["l2", "l1"])
@pytest.mark.parametrize("name", BALLS)
def test_the_ends_enclose_every_score(name: str, ball: str, multipliers: Any) -> None:
    case = case_of(name)
    ends, scores = ends_of(case, multipliers, ball), scores_of(case, ball)
    assert (ends[:, 0] <= scores + ERROR).all()
    assert (scores <= ends[:, 1] + ERROR).all()
    assert np.isfinite(ends).mean() > 0.8  # or nothing is said


def test_the_ends_are_near_where_features_have_little_in_common() -> None:
    case = case_of("inside the ball", n=4000)
    apart = [i for i, s in enumerate(case.supports()) if not {0, 1} <= set(s)]
    width = np.diff(ends_of(case, (0.0,)), axis=1)[apart]
    assert (width < 0.1 * np.ptp(case.scores())).all()


def no_overlaps(made: Any) -> Any:
    return made._replace(overlaps=0.0 * made.overlaps)


def nothing_left(made: Any) -> Any:
    return made._replace(left=0.0 * made.left)


def not_crossed(made: Any) -> Any:
    return made._replace(crossed=0.0 * made.crossed)


def no_length(made: Any) -> Any:
    return made._replace(lengths=0.0 * made.lengths)


@pytest.mark.parametrize("broken", [no_overlaps, nothing_left, not_crossed, no_length])
def test_broken_tables_are_caught(broken: Any) -> None:
    """Two features have much in common, and the target is what they do not have in common."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(200, 5))
    X[:, 1] = 0.7 * X[:, 0] + 0.3 * X[:, 1]
    y = X[:, 0] - X[:, 1]
    given = {"radius": 0.2 if broken is no_length else 50.0, "ridge": 0.1}
    case = Blocks(X, y, ((0,), (1,), (2, 3), (4,)), 2, **given)
    scores = case.scores()
    right, wrong = (ends_of(case, (0.0,), broken=b) for b in (None, broken))
    assert (right[:, 0] <= scores + ERROR).all()
    assert (scores <= right[:, 1] + ERROR).all()
    outside = np.maximum(wrong[:, 0] - scores, scores - wrong[:, 1])
    assert outside.max() > 1e-4


def test_the_norms_of_blocks_are_bounds() -> None:
    rng = np.random.default_rng(2)
    starts = np.array([0, 1, 4, 6, 11])
    half, out = rng.normal(size=(11, 11)), np.empty((4, 4))
    half = half + half.T
    pairs._norms(half, starts, out)
    for g, h in np.ndindex(4, 4):
        block = half[starts[g] : starts[g + 1], starts[h] : starts[h + 1]]
        norm = 0.0 if g == h else np.linalg.norm(block, 2)
        assert norm <= out[g, h] * (1 + 1e-12)
        assert out[g, h] <= np.linalg.norm(block) * (1 + 1e-12)


def category(name: str) -> Blocks:
    """Return coded categories, whose columns add up to zero, with nothing to keep them apart."""
    rng = np.random.default_rng(8)
    levels = rng.integers(3, size=(300, 6))
    X = np.sqrt(1.5) * (np.eye(3)[levels] - 1 / 3)
    y = np.clip(0.6 * X[:, 1, 0] + 0.2 * rng.normal(size=300), -1, 1)
    groups = tuple(tuple(range(3 * g, 3 * g + 3)) for g in range(6))
    return Blocks(X.reshape(300, -1), y, groups, 2, **BALLS[name])


def test_singular_equations_take_a_small_multiplier() -> None:
    case = category("no ridge")
    assert not np.isfinite(ends_of(case, (0.0,))[:, 0]).any()
    least = 1e-6 * 300
    ends, scores = ends_of(case, (0.0, least)), case.scores()
    assert (ends[:, 0] <= scores + ERROR).all()
    assert (scores <= ends[:, 1] + ERROR).all()
    assert np.isfinite(ends).all()


def walked(case: Blocks, epsilon: float) -> np.ndarray:
    mechanism = MarkovChain(epsilon, steps=60)
    return mechanism._chains(problem_of(case), 30, as_randomness(np.random.default_rng(4)))[0]


@pytest.mark.parametrize("name", BALLS)
def test_steps_by_pairs_are_those_by_scores(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a twin: tables that claim too much send steps elsewhere."""
    case = category(name)
    quick = {epsilon: walked(case, epsilon) for epsilon in (0.5, 20.0)}
    made = block_chain.pairs_of

    def too_sure(*given: Any) -> Any:
        found = made(*given)
        return found._replace(reached=1.2 * found.reached, left=0.0 * found.left)

    monkeypatch.setattr(block_chain, "pairs_of", too_sure)
    assert any(not np.array_equal(quick[e], walked(case, e)) for e in quick)
    monkeypatch.setattr(block_chain, "pairs_of", lambda *given: pairs.no_pairs())
    assert all(np.array_equal(quick[e], walked(case, e)) for e in quick)
