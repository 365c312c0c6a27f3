"""T38: the spread of a loss as the sensitivity, against grids, corner tables and exact audits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpsubset import Exponential, MarkovChain, Mistakes, PermuteAndFlip, Problem, Stepwise, TopR
from dpsubset.audit import exact_pairs, families
from dpsubset.audit.exact import Laws
from dpsubset.errors import InputError
from dpsubset.losses import (
    Absolute,
    Hinge,
    Huber,
    HuberHinge,
    Logistic,
    Loss,
    Offset,
    Quantile,
    Squared,
    as_loss,
    check,
)
from dpsubset.mechanisms import Mechanism
from dpsubset.privacy.guarantee import rounded_up

RELATIONS = ("replace-one", "add-remove")
LOSSES: tuple[Any, ...] = (
    "squared",
    "absolute",
    "quantile:0.2",
    "quantile:0.9",
    "huber:0.1",
    "huber:0.7",
    "huber:5",
    "brier",
    "hinge",
    "logistic",
    "huber_hinge:0.2",
    "huber_hinge:2",
    Offset(Hinge(), -0.6),
    Offset(Logistic(), -2.0),
    Offset(HuberHinge(0.5), -1.0),
)
RADII = (0.2, 0.7, 1.5)


def by_grid(loss: Loss, y_bound: float, t_bound: float, points: int = 401) -> float:
    """Return the largest difference of two values of one target."""
    y = np.array([-1.0, 1.0]) if loss.classification else np.linspace(-y_bound, y_bound, points)
    t = np.linspace(-t_bound, t_bound, points)
    t = np.union1d(t, np.clip(y, -t_bound, t_bound))
    values = loss.value(*np.meshgrid(y, t, indexing="ij"))
    return float(np.ptp(values, axis=1).max())


@pytest.mark.parametrize("name", LOSSES, ids=str)
def test_the_spread_is_what_a_grid_finds(name: Any) -> None:
    loss = as_loss(name)
    for y_bound, t_bound in itertools.product((0.3, 1.0, 4.0), (0.01, 0.3, 0.9, 1.0, 1.3, 6.0)):
        bound = 1.0 if loss.classification else y_bound
        found, told = by_grid(loss, bound, t_bound), loss.spread(bound, t_bound)
        assert told == pytest.approx(found, rel=1e-9 if name != "huber_hinge:0.2" else 1e-6)
        assert told >= found * (1 - 1e-12)
        assert told <= loss.largest(bound, t_bound) * (1 + 1e-15)


def test_the_spread_of_narrow_predictions_keeps_its_digits() -> None:
    for name, slope in (("squared", 2.0), ("huber:0.5", 1.0), ("huber:9", 2.0), ("hinge", 1.0)):
        assert as_loss(name).spread(1.0, 1e-18) == pytest.approx(slope * 2e-18, rel=1e-15)
    assert as_loss("huber_hinge:1").spread(1.0, 1e-18) == pytest.approx(2e-18, rel=1e-15)


def test_another_value_or_largest_value_does_not_inherit_the_spread() -> None:
    class Doubled(Huber):
        def value(self, y: Any, t: Any) -> Any:
            return 2.0 * super().value(y, t)

        def largest(self, y_bound: float, t_bound: float) -> float:
            return 2.0 * super().largest(y_bound, t_bound)

    class Renamed(Doubled):
        name = "renamed"

    class Own(Doubled):
        def spread(self, y_bound: float, t_bound: float) -> float:
            return 2.0 * Huber.spread(self, y_bound, t_bound)

    assert Huber(0.1).spread(1.0, 0.1) < Huber(0.1).largest(1.0, 0.1)
    for kind in (Doubled, Renamed):
        assert kind(0.1).spread(1.0, 0.1) == kind(0.1).largest(1.0, 0.1)
    assert Own(0.1).spread(1.0, 0.1) == 2.0 * Huber(0.1).spread(1.0, 0.1)


@pytest.mark.parametrize("share", [0.9, math.nan, 0.0])
@pytest.mark.parametrize("kind", [Squared, Absolute, Huber, Logistic])
def test_check_finds_a_spread_that_is_too_small(kind: type[Loss], share: float) -> None:
    class Small(kind):  # type: ignore[valid-type, misc]
        def spread(self, y_bound: float, t_bound: float) -> float:
            return share * super().spread(y_bound, t_bound)

    with pytest.raises(InputError, match=r"spread\(.*differ by .*noise is scaled by it"):
        check(Small())


def test_check_finds_a_spread_that_forgets_far_targets() -> None:
    """min(h(b + B), h(2 B)) is right for absolute loss only."""

    class Twice(Squared):
        def spread(self, y_bound: float, t_bound: float) -> float:
            return min((y_bound + t_bound) ** 2, (2.0 * t_bound) ** 2)

    with pytest.raises(InputError, match="spread"):
        check(Twice())


# ---- rules, rounding and what is measured by the size of scores -------------------------------


def small(loss: Any, radius: float = 0.2, n: int = 30, size: int = 2, **more: Any) -> Problem:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (n, 4)), rng.choice([-1.0, 1.0], n)
    labels = as_loss(loss).classification
    bounds = {"classes": (-1, 1)} if labels else {"y_bound": 1.0}
    shape = {"size": size, "x_bound": 1.0, "radius": radius, **bounds, **more}
    return Problem(X, y, loss=loss, **shape)


@pytest.mark.parametrize("name", LOSSES, ids=str)
def test_rounding_is_measured_by_the_largest_value(name: Any) -> None:
    problem = small(name)
    largest, tight = problem.sensitivity("largest"), problem.sensitivity()
    assert tight < 0.9 * largest
    assert problem.slack == problem.loss.precision * 30 * largest
    for rule in ("tight", "largest", "paper"):
        delta = problem.sensitivity(rule)
        promise = Exponential(1.0, neighbours="add-remove", sensitivity=rule).guarantee(problem)
        assert promise.sensitivity == delta
        # epsilon + 4 kappa sigma, as the guarantee states it
        sigma, kappa = problem.slack, 1.0 / delta
        assert 1.0 + 4 * promise.precision * 30 == pytest.approx(1.0 + 4 * kappa * sigma, rel=1e-15)
        assert f"1 + {rounded_up(4 * promise.precision)} n" in promise.sentence


def test_a_gain_beyond_a_thousand_is_not_taken() -> None:
    problem = small("absolute", radius=1e-9)
    assert problem.sensitivity() == problem.sensitivity("largest") / 1000
    assert Exponential(1.0).guarantee(problem).precision == pytest.approx(2.5e-8)


def test_of_all_steps_the_least_precise_counts() -> None:
    problem = small("squared", size=3)
    first, last = (small("squared", size=k).precision() for k in (1, 3))
    assert first > last == Exponential(1.0).guarantee(problem).precision
    assert Stepwise(1.0).guarantee(problem).precision == pytest.approx(first)
    assert Stepwise(1.0, at_once=3).guarantee(problem).precision == pytest.approx(last)
    fixed = small("squared", size=2, include=(0, 1))
    assert Stepwise(1.0).guarantee(fixed).precision == fixed.precision()


def test_over_the_l1_ball_predictions_reach_less_far() -> None:
    problem = small("squared")
    for rule, delta in (("tight", 4 * 0.2), ("largest", 1.2**2), ("paper", 2 + 2 * 0.2**2)):
        promise = MarkovChain(1.0, ball="l1", sensitivity=rule).guarantee(problem)
        assert promise.sensitivity == pytest.approx(delta)
        assert promise.precision == pytest.approx(1e-12 * 1.2**2 / delta)
    assert MarkovChain(1.0, ball="l1")._gap(problem) == pytest.approx(0.5e-12 * 30 * 1.2**2)


def test_records_keep_the_name_of_the_rule() -> None:
    for rule in ("tight", "largest", "paper"):
        release = PermuteAndFlip(1.0, sensitivity=rule).release(small("hinge"))
        assert release.asked["mechanism"]["sensitivity"] == rule


# ---- corner tables ------------------------------------------------------------------------------


def corner_problems(loss: Any, radius: float, size: int, neighbours: str) -> list[Problem]:
    """Return two neighbours on whose two disjoint supports one row acts as hard as it can.

    All rows but the last pull both supports to the end of the ball, many more the first one. The
    last row is as bad as can be for the one and as good as can be for the other.
    """
    kind = as_loss(loss)
    reach = radius * math.sqrt(size)
    pull = np.ones((400, 2 * size + 1))
    pull[:, :-1] *= min(1.0, 0.5 / reach)
    lead = np.repeat(pull, 8, axis=0)
    lead[:, size:-1] = 0.0
    rows = np.vstack([pull, lead])
    least_at_end = kind.classification and kind.name != "brier"
    good = 1.0 if least_at_end else min(1.0, 1.0 / reach)
    sign = 1.0
    if isinstance(kind, Offset) or (isinstance(kind, Quantile) and kind.tau > 0.5):
        sign = -1.0  # the target that a row's loss moves most for
    bad, fine = np.full(size, sign), np.full(size, -sign * good)
    last = np.concatenate([fine, bad, [-sign]])
    other = np.vstack([rows, np.concatenate([bad, fine, [-sign]])])
    if neighbours == "add-remove":
        other = rows
    labels = {"classes": (-1, 1)} if kind.classification else {"y_bound": 1.0}
    shape = {"loss": kind, "size": size, "x_bound": 1.0, "radius": radius, **labels}
    return [Problem(t[:, :-1], t[:, -1], **shape) for t in (np.vstack([rows, last]), other)]


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", LOSSES, ids=str)
def test_one_row_moves_two_supports_apart_by_the_spread(name: Any, neighbours: str) -> None:
    """By twice the spread where a row is replaced: no smaller sensitivity would do."""
    for radius, size in itertools.product(RADII, (1, 2)):
        problems = corner_problems(name, radius, size, neighbours)
        first, second = tuple(range(size)), tuple(range(size, 2 * size))
        apart = [q.score(second) - q.score(first) for q in problems]
        times = 2.0 if neighbours == "replace-one" else 1.0
        assert apart[0] - apart[1] == pytest.approx(times * problems[0].sensitivity(), rel=1e-6)


def tenth_less(kind: type[Mechanism]) -> type[Mechanism]:
    """Return the mechanism with a sensitivity that is too small by 10%."""

    class Twin(kind):  # type: ignore[valid-type, misc]
        def kappa(self, problem: Problem) -> float:
            return super().kappa(problem) / 0.9

    return Twin


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", LOSSES, ids=str)
def test_a_corner_table_uses_epsilon_up_and_catches_a_tenth_less(
    name: Any, neighbours: str
) -> None:
    for radius, kind in itertools.product(RADII, (Exponential, PermuteAndFlip)):
        problems, laws = corner_problems(name, radius, 1, neighbours), Laws()
        sound = exact_pairs(kind(1.0, neighbours=neighbours), problems, [(0, 1)], laws)
        assert sound.passed
        assert sound.epsilon > 0.99
        twin = tenth_less(kind)(1.0, neighbours=neighbours)
        assert not exact_pairs(twin, problems, [(0, 1)], laws).passed
        assert exact_pairs(
            kind(1.0, neighbours=neighbours, sensitivity="largest"), problems, [(0, 1)], laws
        ).passed


MECHANISMS: dict[str, Callable[[str], Mechanism]] = {
    "exponential": lambda r: Exponential(1.0, neighbours=r),
    "permute-and-flip": lambda r: PermuteAndFlip(1.0, neighbours=r),
    "top-r": lambda r: TopR(1.0, count=2, neighbours=r),
    "top-r, sharp": lambda r: TopR(1.0, count=2, trials=2, accounting="sharp", neighbours=r),
    "mistakes": lambda r: Mistakes(4.0, delta=0.01, neighbours=r),
    "mistakes, else": lambda r: Mistakes(4.0, delta=0.01, otherwise="exponential", neighbours=r),
    "stepwise": lambda r: Stepwise(1.0, neighbours=r),
    "markov-chain": lambda r: MarkovChain(1.0, neighbours=r),
}


@pytest.mark.slow
@pytest.mark.grid(every=14, of=2)
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", LOSSES, ids=str)
def test_no_mechanism_exceeds_its_guarantee_where_the_spread_is_small(
    name: Any, neighbours: str
) -> None:
    """On small balls, where the spread is well below the largest loss."""
    gained, laws, least = 0, Laws(), 1.0
    for kind, seed in itertools.product(("small", "extremal", "wide"), range(6)):
        source = families(name, neighbours, seed, kind)
        family = next(f for f in source if f.problems[0].radius < 0.6)
        problem = family.problems[0]
        share = problem.sensitivity() / problem.sensitivity("largest")
        gained, least = gained + (share < 0.95), min(least, share)
        for make in MECHANISMS.values():
            report = exact_pairs(make(neighbours), family.problems, family.pairs[:40], laws)
            assert report.passed, str(report)
        if neighbours == "replace-one":
            paper = TopR(1.0, count=2, trials=2, neighbours=neighbours)
            assert exact_pairs(paper, family.problems, family.pairs[:40], laws).passed
    assert gained >= 4
    assert least < 0.9


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", ["absolute", "squared", "hinge", "logistic"])
def test_mistakes_keeps_epsilon_where_its_gap_exceeds_the_spread(
    name: Any, neighbours: str
) -> None:
    """T6's condition is about the smaller sensitivity, too, and its guarantee says so."""
    mechanism, inside, worst = Mistakes(1.0, neighbours=neighbours), 0, 0.0
    for seed in range(12):
        source = families(name, neighbours, seed, "wide")
        family = next(f for f in source if f.problems[0].radius < 0.6)
        needed = (2 if neighbours == "replace-one" else 1) * family.problems[0].sensitivity()
        laws, gaps = [], []
        for problem in family.problems:
            pairs = itertools.combinations(range(problem.n_columns), 2)
            scores = np.sort([problem.score(pair) for pair in pairs])
            gaps.append(scores[1] - scores[0])
            laws.append(mechanism.probabilities(problem)[1])
        for i, j in family.pairs:
            if max(gaps[i], gaps[j]) > needed:
                inside += 1
                worst = max(worst, float(np.abs(laws[i] - laws[j]).max()))
    assert inside >= 30
    assert 0.05 < worst <= 1.0 + 1e-9
