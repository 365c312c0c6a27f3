"""Draws from partitions that are refined much, or hardly yet, against the law (T14, T15, T16).

Chi-square tests with fixed seeds and a false-alarm rate of 1e-4. No list of all supports is made.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest
from clone import CLONE
from oracle import LABELLED, LOSSES, Case, chi_square, counts_of, exponential_law, race_law

import dpsubset.sampling
from dpsubset import Exponential, PermuteAndFlip, Problem
from dpsubset.designs import gram
from dpsubset.sampling import deciding, drawing
from dpsubset.sampling.partition import Partition

FALSE_ALARM = 1e-4
DRAWS = 2000
HARDS = ("nearly copied", "more columns than rows", "active ball")


@pytest.fixture(autouse=True)
def _force_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the samplers refine a partition even where a list or a covering is faster."""
    monkeypatch.setattr(dpsubset.sampling, "ENUMERATION_LIMIT", 0)
    monkeypatch.setattr(drawing, "_COLUMNS", 0)
    monkeypatch.setattr(drawing, "_FIRST", 1e9)  # fits before minorants, as in large tables


def make_hard_case(hard: str, loss: str = "squared") -> Case:
    rng = np.random.default_rng(6)
    n, p, size = {
        "nearly copied": (300, 10, 4),
        "more columns than rows": (12, 18, 3),
        "active ball": (200, 9, 5),
    }[hard]
    if loss != "squared":
        n, p, size = min(n, 40), min(p, 13), min(size, 4)
    X = rng.uniform(-1, 1, (n, p))
    if hard == "nearly copied":
        X[:, 5:] = X[:, :5] + 1e-3 * rng.normal(size=(n, 5))
    if hard == "active ball":
        X = 0.4 * X + 0.6 * rng.uniform(-1, 1, (n, 1))
    y = X[:, :size] @ rng.choice([-0.6, 0.6], size) + rng.normal(scale=0.1, size=n)
    radius = 0.4 if hard == "active ball" else 2.0
    y = np.where(y > 0, 1.0, -1.0) if loss in LABELLED else y
    return Case(hard, X, y, size, 1.0, 1.0, radius, 0.01, loss=loss)


@cache
def hard_scores(hard: str, loss: str) -> np.ndarray:
    return make_hard_case(hard, loss).scores()


def hard_mechanism_and_law(
    hard: str, reach: float, race: bool, loss: str = "squared"
) -> tuple[Problem, Any, np.ndarray]:
    """Choose epsilon so that the worst support's log weight is -reach relative to the best."""
    case = make_hard_case(hard, loss)
    scores = hard_scores(hard, loss)
    kappa = reach / float(np.ptp(scores))
    epsilon = 2 * kappa * case.delta()
    problem = Problem(case.X, case.y, **case.arguments())
    if race:
        return problem, PermuteAndFlip(epsilon), race_law(scores, kappa)
    return problem, Exponential(epsilon), exponential_law(scores, kappa)


HARD = list(itertools.product(HARDS, [1.0, 6.0, 30.0], ["squared"]))
# Every other loss meets two of the three.
HARD += [(HARDS[i % 3], (6.0, 15.0)[i % 2], loss) for i, loss in enumerate(LOSSES * 2)]


@pytest.mark.grid(every=8, of=3)
@pytest.mark.parametrize(("hard", "reach", "loss"), HARD)
@pytest.mark.parametrize("race", [False, True])
def test_much_refined_partitions_match_the_law(
    hard: str, reach: float, loss: str, race: bool
) -> None:
    """Tables on which cheap cuts are poor, so that draws split the partition often."""
    problem, mechanism, law = hard_mechanism_and_law(hard, reach, race, loss)
    draws = mechanism.draw(problem, 2 * DRAWS, random_state=3)
    p_value, cells = chi_square(counts_of(draws, make_hard_case(hard, loss).supports()), law)
    assert cells >= 5
    assert p_value >= FALSE_ALARM


@pytest.mark.slow
@pytest.mark.grid(every=1, of=2)
@pytest.mark.parametrize(
    ("hard", "loss"),
    [("nearly copied", "squared"), ("active ball", "squared"), ("active ball", "absolute")],
)
@pytest.mark.parametrize("race", [False, True])
def test_first_draws_match_the_law(hard: str, loss: str, race: bool) -> None:
    """A release is the first draw of a fresh partition: here every draw is one."""
    problem, mechanism, law = hard_mechanism_and_law(hard, 12.0, race, loss)
    rng = np.random.default_rng(8)
    draws = np.vstack([mechanism.draw(problem, 1, random_state=rng) for _ in range(500)])
    p_value, cells = chi_square(counts_of(draws, make_hard_case(hard, loss).supports()), law)
    assert cells >= 5
    assert p_value >= FALSE_ALARM


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("race", [False, True])
def test_gram_columns_on_demand_leave_the_law(race: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of very many columns never form X'X; the law does not notice."""
    monkeypatch.setattr(gram, "FULL_UP_TO", 2)
    test_much_refined_partitions_match_the_law("nearly copied", 6.0, "squared", race)


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("loss", ["squared", *LOSSES])
def test_the_partition_is_refined_when_forced(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard against a partition test that silently lists all supports."""
    refined = []
    refine = Partition.refine

    def spy(self: Partition, *args: Any, **options: Any) -> Any:
        refined.append(len(self.pieces))
        return refine(self, *args, **options)

    monkeypatch.setattr(Partition, "refine", spy)
    problem, *_ = hard_mechanism_and_law("nearly copied", 6.0, False, loss)
    for mechanism in (Exponential(20.0), PermuteAndFlip(20.0)):
        refined.clear()
        mechanism.draw(problem, 300, random_state=0)
        assert len(refined) > 5
        assert max(refined) > 10


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("race", [False, True])
def test_a_clone_of_squared_loss_has_its_law(race: bool) -> None:
    """By fits and dual points, as any loss of one's own."""
    _, mechanism, law = hard_mechanism_and_law("active ball", 6.0, race)
    case = make_hard_case("active ball")
    other = Problem(case.X, case.y, **{**case.arguments(), "loss": CLONE})
    np.testing.assert_allclose(mechanism.probabilities(other)[1], law, rtol=0, atol=1e-8)
    p_value, cells = chi_square(
        counts_of(mechanism.draw(other, DRAWS, random_state=7), case.supports()), law
    )
    assert cells >= 5
    assert p_value >= FALSE_ALARM


# ---- T16: the law does not depend on how coarse a first fit is ---------------------------------


@pytest.mark.slow
@pytest.mark.grid(every=1, of=2)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("race", [False, True])
def test_coarse_fits_leave_the_law(loss: str, race: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first interval is as wide as one unit of log weight, then wider than the whole range."""
    case, scores = make_hard_case("nearly copied", loss), hard_scores("nearly copied", loss)
    enclose, widths, narrowed = Problem.enclose, [], []

    def watched(
        self: Problem, support: Any, gap: float = 0.0, *given: float
    ) -> tuple[float, float]:
        low, high = enclose(self, support, gap, *given)
        (widths if gap else narrowed).append(high - low)
        return low, high

    monkeypatch.setattr(Problem, "enclose", watched)
    for coarse in (1.0, 30.0):
        monkeypatch.setattr(deciding, "COARSE", coarse)
        problem, mechanism, law = hard_mechanism_and_law("nearly copied", 6.0, race, loss)
        widths.clear(), narrowed.clear()
        draws = mechanism.draw(problem, DRAWS, random_state=5)
        p_value, cells = chi_square(counts_of(draws, case.supports()), law)
        assert cells >= 5
        assert p_value >= FALSE_ALARM
    assert max(widths) > 1e-3 * float(np.ptp(scores))
    assert narrowed


@pytest.mark.slow
@pytest.mark.grid(every=4, of=3)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("race", [False, True])
def test_coarse_fits_leave_every_draw(
    loss: str, race: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the partition as it is at the start, the same randomness gives the same supports."""
    monkeypatch.setattr(Partition, "rejected", lambda self, index, support, verdict: None)
    draws = []
    for coarse in (1e-9, 1e-3, 30.0):
        monkeypatch.setattr(deciding, "COARSE", coarse)
        problem, mechanism, _ = hard_mechanism_and_law("nearly copied", 2.0, race, loss)
        draws.append(mechanism.draw(problem, 300, random_state=6))
    np.testing.assert_array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(draws[0], draws[2])
