"""Scores that a chain over blocks encloses by directions and descents (T24k), and broken twins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from block_cases import BALLS, SEVEN, Blocks, blocks, problem_of

from dpsubset import MarkovChain
from dpsubset.privacy import as_randomness
from dpsubset.sampling import block_chain, directions
from dpsubset.sampling.block_chain import ByBlocks
from dpsubset.sampling.chain import Norm
from dpsubset.sampling.directions import Guess, begin, directions_of, guessed_ends, nearer
from dpsubset.sampling.pairs import no_pairs, pairs_of

ERROR = 1e-6  # of the brute force


def case_of(name: str, n: int = 60) -> Blocks:
    return blocks("squared", 5, groups=SEVEN, size=3, n=n, **BALLS[name])


def overlapping(name: str) -> Blocks:
    """Return coded categories, each of which repeats the one before in 7 of 10 rows."""
    rng = np.random.default_rng(8)
    levels = rng.integers(3, size=(300, 7))
    again = rng.random((300, 7)) < 0.7
    for g in range(1, 7):
        levels[again[:, g], g] = levels[again[:, g], g - 1]
    X = np.sqrt(1.5) * (np.eye(3)[levels] - 1 / 3)
    y = np.clip(0.4 * X[:, 1, 0] + 0.4 * X[:, 4, 1] + 0.2 * rng.normal(size=300), -1, 1)
    groups = tuple(tuple(range(3 * g, 3 * g + 3)) for g in range(7))
    return Blocks(X.reshape(300, -1), y, groups, 3, **BALLS[name])


def outside(
    case: Blocks, multiplier: float, ball: str = "l2", times: int = 8, broken: Any = None
) -> tuple[float, float]:
    """Return how far scores are outside their ends at most, and how far apart the last ends are.

    Of every support, first by directions alone and then after each half of a descent.
    """
    problem = problem_of(case)
    G = np.ascontiguousarray(problem.gram.full(problem.between))
    b, l1 = problem.correlations, ball == "l1"
    pairs = pairs_of(problem, G, b, np.array([multiplier]), l1)
    made = directions_of(problem, G, b, pairs)
    made = broken(made) if broken else made
    norm = Norm(1.0, problem.ridge, problem.radius, l1, 1e-9)
    supports = case.supports()
    scores = case.scores()
    if l1:
        scores = MarkovChain(1.0, ball="l1")._l1_scores(problem, supports)
    guess = Guess.of(problem.size, made.targets.shape[2])
    worst, widest = -np.inf, 0.0
    for support, score in zip(supports, scores, strict=True):
        begin(made, norm, problem.energy, 0, support, guess, 1)
        assert guess.numbers[1, 0] == 0.0  # or nothing is said
        least, most = -np.inf, np.inf
        for _ in range(times):
            gains = guessed_ends(made, norm, support, guess, 1)
            least, most = max(least, gains[0]), min(most, gains[1])
            worst = max(worst, problem.energy - most - score, score - problem.energy + least)
            nearer(made, support, guess, 1)
        widest = max(widest, most - least)
    return worst, widest


@pytest.mark.parametrize("multiplier", [0.01, 0.7, 40.0])
@pytest.mark.parametrize("ball", ["l2", "l1"])
@pytest.mark.parametrize("made", [case_of, overlapping])
@pytest.mark.parametrize("name", BALLS)
def test_the_ends_enclose_every_score(
    name: str, made: Callable[[str], Blocks], ball: str, multiplier: float
) -> None:
    worst, widest = outside(made(name), multiplier, ball)
    assert worst < ERROR
    assert np.isfinite(widest)


def test_descents_lead_to_the_score() -> None:
    case = case_of("inside the ball")
    first, last = (outside(case, 1e-9, times=times)[1] for times in (1, 40))
    assert last < 1e-4 < 1.0 < first


def too_far_apart(made: Any) -> Any:
    return made._replace(numbers=made.numbers * [1.0, 30.0, 1.0], both=made.both * [1.0, 0.0])


def nothing_met(made: Any) -> Any:
    return made._replace(met=0.0 * made.met)


def nothing_between(made: Any) -> Any:
    alone = np.eye(made.between.shape[1])[:, :, None, None]
    return made._replace(between=alone * made.between)


def no_length(made: Any) -> Any:
    return made._replace(own=made.own * [1.0, 1e-6, 1.0], halves=1e-3 * made.halves)


@pytest.mark.parametrize("broken", [too_far_apart, nothing_met, nothing_between, no_length])
def test_broken_tables_are_caught(broken: Callable[[Any], Any]) -> None:
    name = "the ball is active" if broken is no_length else "no ridge"
    assert outside(overlapping(name), 0.01)[0] < ERROR
    assert outside(overlapping(name), 0.01, broken=broken)[0] > 1e-4


def test_the_least_eigenvalue_is_proven() -> None:
    rng = np.random.default_rng(3)
    for n in (4, 40):
        A = rng.normal(size=(2 * n, n))
        N = A.T @ A
        found, right = directions._least(N), np.linalg.eigvalsh(N)[0]
        assert 0.3 * min(right, 1.0) < found <= right
    assert directions._least(np.ones((3, 3))) == 0.0
    assert directions._least(np.diag([1.0, -1.0])) == 0.0


def looked(longer: float) -> tuple[float, float, float]:
    """Return how wrong N r is, and what is counted: for r alone, and for what it is made of.

    The last direction is so much longer than conjugate gradients would have it.
    """
    case = overlapping("no ridge")
    problem = problem_of(case)
    G = np.ascontiguousarray(problem.gram.full(problem.between))
    pairs = pairs_of(problem, G, problem.correlations, np.array([0.7]), False)
    made = directions_of(problem, G, problem.correlations, pairs)
    norm = Norm(1.0, problem.ridge, problem.radius, False, 0.0)
    guess, support = Guess.of(problem.size, made.targets.shape[2]), np.array([1, 2, 4])
    begin(made, norm, problem.energy, 0, support, guess, 1)
    for _ in range(2):  # look, and go there
        nearer(made, support, guess, 1)
    guess.numbers[1, 4] *= longer
    nearer(made, support, guess, 1)
    N = made.between[0][np.ix_(support, support)].transpose(0, 2, 1, 3).reshape(12, 12)
    r, seen = guess.vectors[1, 1].astype(np.longdouble), guess.vectors[1, 4]
    wrong = float(np.linalg.norm((seen - N.astype(np.longdouble).T @ r).astype(float)))
    counted = problem.size * made.numbers[0, 2] * np.sqrt(guess.numbers[1, 1])
    return wrong, counted, counted * guess.numbers[1, 10]


def test_what_a_product_is_made_of_counts_for_its_rounding() -> None:
    """N r is a difference; if its parts are long, the length of r does not tell its rounding."""
    wrong, alone, together = looked(1.0)
    assert wrong < alone <= together
    wrong, alone, together = looked(1e9)
    assert alone < wrong < together


def test_rounding_of_the_equations_lowers_the_least_eigenvalue() -> None:
    case = overlapping("no ridge")
    problem = problem_of(case)
    G = np.ascontiguousarray(problem.gram.full(problem.between))
    pairs = pairs_of(problem, G, problem.correlations, np.array([0.7]), False)
    made = directions_of(problem, G, problem.correlations, pairs)
    norm = Norm(1.0, problem.ridge, problem.radius, False, 0.0)
    guess = Guess.of(problem.size, made.targets.shape[2])
    for both in (made.both, made.both * [1.0, 0.0]):  # proven by a factor, or by overlaps
        found = []
        for unit in (0.0, 1e-3):
            table = made._replace(both=both, numbers=made.numbers * [1.0, 1.0, 0.0] + [0, 0, unit])
            begin(table, norm, problem.energy, 0, np.array([1, 2, 4]), guess, 1)
            found.append(guess.numbers[1, 6])
        assert found[0] - found[1] == pytest.approx(3e-3)


def walked(case: Blocks, ball: str, epsilon: float) -> np.ndarray:
    mechanism = MarkovChain(epsilon, steps=40, ball=ball)
    return mechanism._chains(problem_of(case), 30, as_randomness(np.random.default_rng(4)))[0]


def plain(function: Any) -> Any:
    return getattr(function, "py_func", function)


def in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in ("_walk", "_guessed"):
        monkeypatch.setattr(block_chain, function, plain(getattr(block_chain, function)))


@pytest.mark.parametrize("ball", ["l2", "l1"])
@pytest.mark.parametrize("epsilon", [0.5, 30.0])
@pytest.mark.parametrize("made", [case_of, overlapping])
@pytest.mark.parametrize("name", BALLS)
def test_every_step_goes_where_the_scores_send_it(
    name: str,
    made: Callable[[str], Blocks],
    epsilon: float,
    ball: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Against a chain that computes every score to the end."""
    case = made(name)
    quick = walked(case, ball, epsilon)
    monkeypatch.setattr(block_chain, "pairs_of", lambda *given: no_pairs())
    monkeypatch.setattr(block_chain, "_walk", plain(block_chain._walk))
    monkeypatch.setattr(block_chain, "_enclosed", lambda *given: (-np.inf, np.inf, 0.0))
    assert np.array_equal(quick, walked(case, ball, epsilon))


def too_sure(*given: Any) -> Any:
    least, most, *rest = RIGHT(*given)
    return (least, most - 4.0, *rest)


def stays(*given: Any) -> Any:
    """Keep what is known of another support: that of the first step."""
    guess, which = given[-2:]
    if guess.numbers[which, 0] < 0.0:
        BEGIN(*given)


RIGHT, BEGIN = plain(guessed_ends), plain(begin)
TWINS = {"guessed_ends": too_sure, "begin": stays}


@pytest.mark.parametrize("name", TWINS)
def test_twins_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that is no bound, and coefficients of a support that was left."""
    case = overlapping("no ridge")
    right = walked(case, "l2", 30.0)
    in_python(monkeypatch)
    assert np.array_equal(right, walked(case, "l2", 30.0))
    monkeypatch.setattr(block_chain, name, TWINS[name])
    assert not np.array_equal(right, walked(case, "l2", 30.0))


def test_directions_decide_where_pairs_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them the same steps need equations: what they are for."""
    case = overlapping("no ridge")
    asked: list[int] = []
    in_python(monkeypatch)
    made = block_chain._enclosed
    monkeypatch.setattr(block_chain, "_enclosed", lambda *given: asked.append(1) or made(*given))
    walked(case, "l2", 30.0)
    with_them = len(asked)
    monkeypatch.setattr(ByBlocks, "_room_for_directions", lambda self: False)
    walked(case, "l2", 30.0)
    assert 10 * with_them < len(asked) - with_them
