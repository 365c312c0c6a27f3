"""Draws and probabilities of every mechanism against the enumerated law (T4, T5, T6, T8).

Every chi-square test uses a fixed seed and rejects at a false-alarm rate of 1e-4; the file holds
about 150 of them and 3 * 10^5 draws. The same check must reject the broken twins at the end.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from oracle import (
    Case,
    chi_square,
    counts_of,
    exponential_law,
    mistakes_law,
    race_law,
    top_law,
)

import dpsubset.sampling
from dpsubset import Exponential, Mistakes, PermuteAndFlip, Problem, TopR

FALSE_ALARM = 1e-4
DRAWS = 2000
NEIGHBOURS = ("replace-one", "add-remove")
EPSILONS = (0.3, 2.0, 8.0)
DESIGNS = ("plain", "correlated", "duplicated", "twins")
UNIQUE_BEST = DESIGNS[:3]  # in "twins" two best supports tie, so Mistakes has no single law
SIZE = 3
TRIALS = 2


def make_case(design: str) -> Case:
    """Make 84 supports of 9 columns whose laws are neither flat nor a point at these epsilons."""
    rng = np.random.default_rng(0)
    n = 2500 if design == "correlated" else 160
    X = rng.uniform(-1, 1, (n, 9))
    if design == "correlated":
        X = math.sqrt(0.05) * X + math.sqrt(0.95) * rng.uniform(-1, 1, (n, 1))
    if design == "duplicated":
        X[:, 4], X[:, 6] = X[:, 3], -X[:, 5]
    if design == "twins":
        X[:, 3] = X[:, 0]
    y = X[:, :3] @ np.array([0.6, -0.48, 0.36]) + rng.normal(scale=0.3, size=n)
    return Case(design, X, y, SIZE, 1.0, 1.0, 1.0, 0.5)


CASES = {design: make_case(design) for design in DESIGNS}
SUPPORTS = CASES["plain"].supports()
SCORES = {design: case.scores() for design, case in CASES.items()}


def make_problem(design: str) -> Problem:
    case = CASES[design]
    return Problem(case.X, case.y, **case.arguments())


def count_off_ties(scores: np.ndarray, least: int = 18) -> int:
    """Return a count whose boundary parts two scores: with finite trials a tie there matters."""
    steps = np.diff(np.sort(scores))
    return int(next(r for r in range(least, len(scores)) if steps[r - 1] > 1e-3))


def mechanism_and_law(
    name: str, design: str, epsilon: float, neighbours: str
) -> tuple[Any, np.ndarray]:
    scores = SCORES[design]
    kappa = CASES[design].kappa(epsilon, neighbours)
    if name == "exponential":
        return Exponential(epsilon, neighbours=neighbours), exponential_law(scores, kappa)
    if name == "permute-and-flip":
        return PermuteAndFlip(epsilon, neighbours=neighbours), race_law(scores, kappa)
    if name == "mistakes":
        return Mistakes(epsilon, neighbours=neighbours), mistakes_law(scores, SUPPORTS, kappa)
    if name == "top":
        default = 2 + (9 - SIZE) * SIZE
        return TopR(epsilon, neighbours=neighbours), top_law(scores, kappa, default)
    count = count_off_ties(scores)
    top = TopR(epsilon, count=count, trials=TRIALS, neighbours=neighbours)
    return top, top_law(scores, kappa, count, TRIALS)


def table_of_laws() -> list[tuple[str, str, float, str]]:
    names = ("exponential", "permute-and-flip", "top", "top-finite", "mistakes")
    rows = itertools.product(names, DESIGNS, EPSILONS, NEIGHBOURS)
    return [
        (name, design, epsilon, neighbours)
        for name, design, epsilon, neighbours in rows
        if (name != "mistakes" or design in UNIQUE_BEST)
        and (name != "top-finite" or neighbours == "replace-one")
    ]


LAWS = table_of_laws()
SAMPLED = [row for row in LAWS if row[0] in ("exponential", "permute-and-flip")]


def rejects(mechanism: Any, problem: Problem, law: np.ndarray, seed: int = 1) -> bool:
    """Tell whether draws differ from the law, wrongly so at a rate of FALSE_ALARM."""
    draws = mechanism.draw(problem, DRAWS, random_state=seed)
    assert draws.shape == (DRAWS, SIZE)
    p_value, cells = chi_square(counts_of(draws, SUPPORTS), law)
    assert cells >= 2
    return p_value < FALSE_ALARM


@pytest.fixture
def force_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the samplers refine a partition even where listing all supports is faster."""
    monkeypatch.setattr(dpsubset.sampling, "ENUMERATION_LIMIT", 0)


@pytest.mark.parametrize(("name", "design", "epsilon", "neighbours"), LAWS)
def test_draws_match_the_law(name: str, design: str, epsilon: float, neighbours: str) -> None:
    mechanism, law = mechanism_and_law(name, design, epsilon, neighbours)
    assert not rejects(mechanism, make_problem(design), law)


@pytest.mark.usefixtures("force_partition")
@pytest.mark.parametrize(("name", "design", "epsilon", "neighbours"), SAMPLED)
def test_partition_draws_match_the_law(
    name: str, design: str, epsilon: float, neighbours: str
) -> None:
    mechanism, law = mechanism_and_law(name, design, epsilon, neighbours)
    assert not rejects(mechanism, make_problem(design), law, seed=2)


@pytest.mark.parametrize(("name", "design", "epsilon", "neighbours"), LAWS)
def test_probabilities_equal_the_law(
    name: str, design: str, epsilon: float, neighbours: str
) -> None:
    mechanism, law = mechanism_and_law(name, design, epsilon, neighbours)
    supports, log_probabilities = mechanism.probabilities(make_problem(design))
    np.testing.assert_array_equal(supports, SUPPORTS)
    np.testing.assert_allclose(log_probabilities, law, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["exponential", "permute-and-flip", "top", "mistakes"])
def test_paper_sensitivity_changes_kappa_only(name: str) -> None:
    case = CASES["plain"]
    wider = 2.0 * case.delta("paper") / case.delta()
    mechanism, _ = mechanism_and_law(name, "plain", 2.0, "replace-one")
    paper = type(mechanism)(wider, sensitivity="paper")
    tight = type(mechanism)(2.0)
    problem = make_problem("plain")
    np.testing.assert_allclose(
        paper.probabilities(problem)[1], tight.probabilities(problem)[1], rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("name", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_releases_are_draws(name: str, neighbours: str) -> None:
    """A release has no seed, so only its form is checked."""
    mechanism, _ = mechanism_and_law(name, "plain", 2.0, neighbours)
    release = mechanism.release(make_problem("plain"))
    assert list(release.support) in SUPPORTS.tolist()
    assert release.guarantee.epsilon == 2.0


def test_top_with_every_support_is_exponential() -> None:
    problem = make_problem("plain")
    top = TopR(2.0, count=len(SUPPORTS), trials=1)
    np.testing.assert_allclose(
        top.probabilities(problem)[1], Exponential(2.0).probabilities(problem)[1], atol=1e-9
    )
    assert top.guarantee(problem).epsilon == 2.0


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_order_of_merit(neighbours: str, epsilon: float) -> None:
    """T9: the best support's chance falls from permute-and-flip to ever shorter top lists."""
    problem = make_problem("plain")
    ladder = [
        PermuteAndFlip(epsilon, neighbours=neighbours),
        Exponential(epsilon, neighbours=neighbours),
        *(TopR(epsilon, count=count, neighbours=neighbours) for count in (84, 50, 20, 5, 2)),
    ]
    chances = [one.probabilities(problem)[1].max() for one in ladder]
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(chances))


# ---- the oracle's laws ------------------------------------------------------------------------


@pytest.mark.parametrize("kappa", [0.1, 1.0, 10.0])
def test_oracle_race_is_permute_and_flip(kappa: float) -> None:
    """The race's law equals the sum over all orders of visiting five supports."""
    scores = np.random.default_rng(3).normal(size=5)
    q = np.exp(-kappa * (scores - scores.min()))
    law = np.zeros(5)
    for order in itertools.permutations(range(5)):
        reached = 1.0
        for place in order:
            law[place] += reached * q[place] / math.factorial(5)
            reached *= 1 - q[place]
    np.testing.assert_allclose(np.exp(race_law(scores, kappa)), law, rtol=1e-12)


@pytest.mark.parametrize(("name", "design", "epsilon", "neighbours"), LAWS)
def test_oracle_laws_sum_to_one(name: str, design: str, epsilon: float, neighbours: str) -> None:
    _, law = mechanism_and_law(name, design, epsilon, neighbours)
    assert abs(np.exp(law).sum() - 1) < 1e-11


# ---- broken twins: the same check must reject them --------------------------------------------
