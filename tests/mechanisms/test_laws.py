"""Draws and probabilities of every mechanism against the enumerated law (T4, T5, T6, T8).

Every chi-square test uses a fixed seed and rejects at a false-alarm rate of 1e-4; the file holds
over 400 of them and 7 * 10^5 draws. The same check must reject the broken twins at the end.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from oracle import (
    LABELLED,
    LOSSES,
    Case,
    chi_square,
    counts_of,
    exponential_law,
    mistakes_law,
    race_law,
    top_law,
)

import dpsubset.sampling
from dpsubset import Exponential, Mistakes, PermuteAndFlip, Problem, TopR, search
from dpsubset.cuts import Cut
from dpsubset.cuts.dual import DualCuts
from dpsubset.cuts.moments import MomentCuts
from dpsubset.mechanisms import base
from dpsubset.sampling import drawing

FALSE_ALARM = 1e-4
DRAWS = 2000
SQUARED_DRAWS = 1000  # of squared loss, whose twins stay below 1e-15; others' would escape
NEIGHBOURS = ("replace-one", "add-remove")
EPSILONS = (0.3, 2.0, 8.0)
DESIGNS = ("plain", "correlated", "duplicated", "twins")
UNIQUE_BEST = DESIGNS[:3]  # in "twins" two best supports tie, so Mistakes has no single law
SIZE = 3
TRIALS = 2
SAMPLERS = ("list", "partition", "covering")


def make_case(design: str, loss: str = "squared") -> Case:
    """Make 84 supports of 9 columns whose laws are neither flat nor a point at these epsilons."""
    rng = np.random.default_rng(0)
    n = 2500 if design == "correlated" else 160
    if loss != "squared":
        n = 50
    X = rng.uniform(-1, 1, (n, 9))
    if design == "correlated":
        X = math.sqrt(0.05) * X + math.sqrt(0.95) * rng.uniform(-1, 1, (n, 1))
    if design == "duplicated":
        X[:, 4], X[:, 6] = X[:, 3], -X[:, 5]
    if design == "twins":
        X[:, 3] = X[:, 0]
    y = X[:, :3] @ np.array([0.6, -0.48, 0.36]) + rng.normal(scale=0.3, size=n)
    y = np.where(y > 0, 1.0, -1.0) if loss in LABELLED else y
    return Case(design, X, y, SIZE, 1.0, 1.0, 1.0, 0.5, loss=loss)


# A design's name alone means squared loss; other losses stand before it.
OTHERS = tuple(f"{loss} {design}" for loss in LOSSES for design in ("plain", "correlated"))
PLAIN = tuple(f"{loss} plain" for loss in LOSSES)
CASES = {design: make_case(design) for design in DESIGNS}
CASES |= {name: make_case(name.split()[1], name.split()[0]) for name in OTHERS}
SUPPORTS = CASES["plain"].supports()


@cache
def scores_of(design: str) -> np.ndarray:
    return CASES[design].scores()


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
    scores = scores_of(design)
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
    rows = [
        *itertools.product(names, DESIGNS, EPSILONS, NEIGHBOURS),
        *itertools.product(names, OTHERS, (0.3, 3.0), NEIGHBOURS),
    ]
    return [
        (name, design, epsilon, neighbours)
        for name, design, epsilon, neighbours in rows
        if (name != "mistakes" or design != "twins")
        and (name != "top-finite" or neighbours == "replace-one")
    ]


LAWS = table_of_laws()
SAMPLED = [row for row in LAWS if row[0] in ("exponential", "permute-and-flip")]


def rejects(mechanism: Any, problem: Problem, law: np.ndarray, seed: int = 1) -> bool:
    """Tell whether draws differ from the law, wrongly so at a rate of FALSE_ALARM."""
    count = SQUARED_DRAWS if problem.quadratic else DRAWS
    draws = mechanism.draw(problem, count, random_state=seed)
    assert draws.shape == (count, SIZE)
    p_value, cells = chi_square(counts_of(draws, SUPPORTS), law)
    assert cells >= 2
    return p_value < FALSE_ALARM


def force(monkeypatch: pytest.MonkeyPatch, sampler: str) -> None:
    """Make the samplers take a partition or a covering even where listing is faster."""
    if sampler != "list":
        monkeypatch.setattr(dpsubset.sampling, "ENUMERATION_LIMIT", 0)
    if sampler == "partition":
        monkeypatch.setattr(drawing, "_COLUMNS", 0)
        monkeypatch.setattr(drawing, "_FIRST", 1e9)  # fits before minorants, as in large tables


@pytest.fixture
def force_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, "partition")


@pytest.mark.grid(every=20, of=3)
@pytest.mark.parametrize(("name", "design", "epsilon", "neighbours"), LAWS)
def test_draws_match_the_law(name: str, design: str, epsilon: float, neighbours: str) -> None:
    mechanism, law = mechanism_and_law(name, design, epsilon, neighbours)
    assert not rejects(mechanism, make_problem(design), law)


@pytest.mark.grid(every=12, of=3)
@pytest.mark.usefixtures("force_partition")
@pytest.mark.parametrize(("name", "design", "epsilon", "neighbours"), SAMPLED)
def test_partition_draws_match_the_law(
    name: str, design: str, epsilon: float, neighbours: str
) -> None:
    mechanism, law = mechanism_and_law(name, design, epsilon, neighbours)
    assert not rejects(mechanism, make_problem(design), law, seed=2)


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("design", sorted({law[1] for law in LAWS}))
def test_probabilities_equal_the_law(design: str) -> None:
    for name, of, epsilon, neighbours in LAWS:
        if of != design:
            continue
        mechanism, law = mechanism_and_law(name, design, epsilon, neighbours)
        assert abs(np.exp(law).sum() - 1) < 1e-11
        supports, log_probabilities = mechanism.probabilities(make_problem(design))
        np.testing.assert_array_equal(supports, SUPPORTS)
        atol = 1e-9 if CASES[design].loss == "squared" else 1e-8
        np.testing.assert_allclose(log_probabilities, law, rtol=0, atol=atol, err_msg=name)


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("design", ["plain", *PLAIN])
@pytest.mark.parametrize(
    "name", ["exponential", "permute-and-flip", "top", "top-finite", "mistakes"]
)
def test_probabilities_do_not_underflow(name: str, design: str) -> None:
    """Weights far below the smallest float keep their logarithms."""
    epsilon = 2000.0 if design == "plain" else 20_000.0
    mechanism, law = mechanism_and_law(name, design, epsilon, "replace-one")
    assert law.min() < -1000
    _, log_probabilities = mechanism.probabilities(make_problem(design))
    np.testing.assert_allclose(log_probabilities, law, rtol=1e-9, atol=1e-8 * epsilon / 2000)
    assert not rejects_point(mechanism, design, law)


def rejects_point(mechanism: Any, design: str, law: np.ndarray) -> bool:
    """Tell whether draws leave the only support that has any weight."""
    draws = mechanism.draw(make_problem(design), 20, random_state=1)
    return bool(np.any(draws != SUPPORTS[law.argmax()]))


@pytest.mark.parametrize("design", ["plain", *PLAIN])
@pytest.mark.parametrize("name", ["exponential", "permute-and-flip", "top", "mistakes"])
def test_paper_sensitivity_changes_kappa_only(name: str, design: str) -> None:
    case = CASES[design]
    wider = 2.0 * case.delta("paper") / case.delta()
    mechanism, _ = mechanism_and_law(name, design, 2.0, "replace-one")
    paper = type(mechanism)(wider, sensitivity="paper")
    tight = type(mechanism)(2.0)
    problem = make_problem(design)
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


MECHANISMS = (Exponential, PermuteAndFlip, TopR, Mistakes)


@pytest.mark.grid(every=12, of=2)
@pytest.mark.parametrize("design", ["plain", *PLAIN])
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", MECHANISMS)
def test_included_and_excluded_columns(
    kind: Any, sampler: str, design: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The law lives on the allowed supports only, and counts mistakes and ranks among them."""
    force(monkeypatch, sampler)
    case = replace(CASES[design], size=4, include=(7, 4), exclude=(1,))
    supports, scores = case.supports(), case.scores()
    kappa = case.kappa(8.0, "replace-one")
    laws = {
        Exponential: lambda: exponential_law(scores, kappa),
        PermuteAndFlip: lambda: race_law(scores, kappa),
        TopR: lambda: top_law(scores, kappa, 2 + (6 - 2) * 2),
        Mistakes: lambda: mistakes_law(scores, supports, kappa),
    }
    law = laws[kind]()
    problem = Problem(case.X, case.y, **case.arguments())
    listed, log_probabilities = kind(8.0).probabilities(problem)
    np.testing.assert_array_equal(listed, supports)
    np.testing.assert_allclose(log_probabilities, law, rtol=0, atol=1e-8)
    counts = counts_of(kind(8.0).draw(problem, DRAWS, random_state=4), supports)
    p_value, cells = chi_square(counts, law)
    assert cells >= 3
    assert p_value >= FALSE_ALARM


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("loss", ["squared", *LOSSES])
def test_smallest_tables(loss: str, sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No rows at all, fewer rows than columns, all columns chosen: draws and laws still work."""
    force(monkeypatch, sampler)
    for rows, size in [(0, 2), (0, 4), (1, 3), (5, 4)]:
        table = np.random.default_rng(0).uniform(-1, 1, (rows, 5))
        y = np.where(table[:, 4] > 0, 1.0, -1.0) if loss in LABELLED else table[:, 4]
        case = Case("smallest", table[:, :4], y, size, 1.0, 1.0, 1.0, 0.0, loss=loss)
        problem = Problem(case.X, case.y, **case.arguments())
        for kind, neighbours in itertools.product(MECHANISMS, NEIGHBOURS):
            mechanism = kind(1.0, neighbours=neighbours)
            supports, logs = mechanism.probabilities(problem)
            assert len(supports) == math.comb(4, size)
            assert np.exp(logs).sum() == pytest.approx(1)
            if rows == 0:
                np.testing.assert_allclose(logs, -math.log(len(supports)), atol=1e-9)
            draws = mechanism.draw(problem, 10, random_state=0)
            assert draws.shape == (10, size)
            assert {tuple(row) for row in draws.tolist()} <= {tuple(s) for s in supports.tolist()}


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


# ---- broken twins: the same check must reject them --------------------------------------------


def break_bounds(monkeypatch: pytest.MonkeyPatch, more: float) -> None:
    """Make every cut too high."""

    def raised(cut: Cut) -> Cut:
        return replace(cut, constant=cut.constant + more)

    cheap, optimised = MomentCuts.cheap, MomentCuts.optimised
    monkeypatch.setattr(MomentCuts, "cheap", lambda self, region: raised(cheap(self, region)))

    monkeypatch.setattr(
        MomentCuts,
        "optimised",
        lambda self, *args, **options: raised(optimised(self, *args, **options)),
    )
    dual = DualCuts._cut
    monkeypatch.setattr(DualCuts, "_cut", lambda self, *args: raised(dual(self, *args)))


@pytest.mark.grid(every=6)
@pytest.mark.usefixtures("force_partition")
@pytest.mark.parametrize("name", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("design", [*DESIGNS, *PLAIN])
def test_bounds_that_are_too_high_are_caught(
    name: str, design: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one unit of log weight; by more where one cut, which is lower, serves all supports."""
    mechanism, law = mechanism_and_law(name, design, 2.0, "replace-one")
    units = 4 if CASES[design].loss in ("absolute", "quantile:0.3", "hinge") else 1
    break_bounds(monkeypatch, units / CASES[design].kappa(2.0, "replace-one"))
    assert rejects(mechanism, make_problem(design), law, seed=2)


@pytest.mark.grid(every=5)
@pytest.mark.usefixtures("force_partition")
@pytest.mark.parametrize("name", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("design", PLAIN)
def test_intervals_that_miss_the_score_are_caught(
    name: str, design: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By half a unit of log weight, for the supports with column 1."""
    mechanism, law = mechanism_and_law(name, design, 2.0, "replace-one")
    shift = 0.5 / CASES[design].kappa(2.0, "replace-one")
    enclose = Problem.enclose

    def shifted(self: Problem, support: Any, *given: float) -> tuple[float, float]:
        low, high = enclose(self, support, *given)
        more = shift if 1 in support else 0.0
        return low + more, high + more

    monkeypatch.setattr(Problem, "enclose", shifted)
    assert rejects(mechanism, make_problem(design), law, seed=2)


class BucketsBest(Mistakes):
    """Draws the number of mistakes rightly, then returns the bucket's best support."""

    def _sampler(self, problem: Problem) -> Any:
        honest = super()._sampler(problem)
        buckets = [found.support for found in search.best_by_mistakes(problem)]

        def draw(randomness: Any) -> np.ndarray:
            support = honest(randomness).tolist()
            return np.array(buckets[len(set(support) - set(buckets[0]))])

        return draw


@pytest.mark.grid(every=7)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("design", ["plain", *PLAIN])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_buckets_best_is_caught(epsilon: float, design: str, neighbours: str) -> None:
    _, law = mechanism_and_law("mistakes", design, epsilon, neighbours)
    assert rejects(BucketsBest(epsilon, neighbours=neighbours), make_problem(design), law)


@pytest.mark.grid(every=7)
@pytest.mark.parametrize("name", ["exponential", "permute-and-flip", "top", "mistakes"])
@pytest.mark.parametrize(
    ("design", "epsilon"),
    [*itertools.product(UNIQUE_BEST, [2.0, 8.0]), *((design, 8.0) for design in PLAIN)],
)
def test_a_missing_factor_two_is_caught(
    name: str, design: str, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    mechanism, law = mechanism_and_law(name, design, epsilon, "replace-one")
    monkeypatch.setattr(base, "exponent", lambda epsilon, delta, neighbours: epsilon / delta)
    assert rejects(mechanism, make_problem(design), law)
