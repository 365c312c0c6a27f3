"""Draws of groups of columns against the enumerated law, by every sampler (T32).

Chi-square tests with fixed seeds and a false-alarm rate of 1e-4; twins must be caught.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from block_cases import LOSSES, Blocks, blocks, problem_of
from coverings import take_way
from oracle import (
    chi_square,
    counts_of,
    exponential_law,
    mistakes_law,
    race_law,
    top_law,
)

import dpsubset.sampling
from dpsubset import Exponential, Mistakes, PermuteAndFlip, Stepwise, TopR
from dpsubset.designs import Features
from dpsubset.sampling import drawing
from dpsubset.sampling.covering import Covering

FALSE_ALARM = 1e-4
DRAWS = 1500
GROUPS = ((6,), (3, 8, 10), (0,), (1, 11), (2, 4, 9), (5,), (7, 12), (13,))
BENDING = ("squared", "huber:0.1", "logistic", "huber_hinge:0.5")
WAYS = ("list", "partition", "minorants", "covering", "common", "streamed")


@cache
def case_of(loss: str) -> tuple[Blocks, np.ndarray]:
    """Return 56 supports of 3 out of 8 features, and their scores."""
    case = blocks(loss, 7, groups=GROUPS, size=3, n=60, radius=1.5)
    return case, case.scores()


def take(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the samplers go one way."""
    if way != "list":
        monkeypatch.setattr(dpsubset.sampling, "ENUMERATION_LIMIT", 0)
    if way in ("partition", "minorants"):
        monkeypatch.setattr(drawing, "_COLUMNS", 0)
    if way in ("common", "streamed"):
        take_way(monkeypatch, way)
    if way == "minorants":
        monkeypatch.setattr(drawing, "_REFINED", 0)


def p_value(kind: type, law: Any, loss: str, epsilon: float, **options: Any) -> tuple[float, int]:
    """Return the p-value of draws against a law of the oracle's scores, and its cells."""
    case, scores = case_of(loss)
    problem = problem_of(case)
    expected = law(scores, case.kappa(epsilon, "replace-one"))
    draws = kind(epsilon, **options).draw(problem, DRAWS, random_state=1)
    return chi_square(counts_of(draws, case.supports()), expected)


LAWS = {Exponential: exponential_law, PermuteAndFlip: race_law}


@pytest.mark.grid(every=10, of=3)
@pytest.mark.parametrize("epsilon", [pytest.param(1.0, marks=pytest.mark.slow), 6.0])
@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("loss", LOSSES)
def test_draws_follow_the_law(
    loss: str, way: str, kind: type, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way not in ("list", "partition") and loss not in BENDING:
        pytest.skip("the loss does not bend")
    if way in ("common", "streamed") and epsilon < 6.0:
        pytest.skip("one epsilon is enough")
    take(way, monkeypatch)
    made: list[Covering] = []
    init = Covering.__init__

    def watched(self: Covering, *args: Any, **more: Any) -> None:
        made.append(self)
        init(self, *args, **more)

    monkeypatch.setattr(Covering, "__init__", watched)
    found, cells = p_value(kind, LAWS[kind], loss, epsilon)
    assert cells > 3
    assert found > FALSE_ALARM
    assert bool(made) == (way in WAYS[3:])


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("loss", LOSSES)
def test_mechanisms_that_search_follow_their_law(loss: str) -> None:
    case, scores = case_of(loss)
    supports = case.supports()
    laws: dict[type, Any] = {
        TopR: (lambda s, kappa: top_law(s, kappa, 7), {"count": 7}),
        Mistakes: (lambda s, kappa: mistakes_law(s, supports, kappa), {}),
    }
    for kind, (law, options) in laws.items():
        found, cells = p_value(kind, law, loss, 5.0, **options)
        assert cells > 3
        assert found > FALSE_ALARM
        listed, logs = kind(5.0, **options).probabilities(problem_of(case))
        assert np.array_equal(listed, supports)
        assert np.abs(logs - law(scores, case.kappa(5.0, "replace-one"))).max() < 1e-6


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("loss", LOSSES)
def test_stepwise_follows_the_product_of_its_steps(loss: str) -> None:
    case, _ = case_of(loss)
    case = Blocks(**{**vars(case), "size": 2})
    law: dict[tuple[int, ...], float] = {}
    first = Blocks(**{**vars(case), "size": 1})
    chances = np.exp(race_law(first.scores(), first.kappa(3.0, "replace-one")))
    for one, chance in enumerate(chances):
        second = Blocks(**{**vars(case), "include": (one,)})
        # The steps share epsilon; a step of two features has the reach of two.
        logs = race_law(second.scores(), second.kappa(3.0, "replace-one"))
        for support, log in zip(second.supports().tolist(), logs, strict=True):
            key = tuple(support)
            law[key] = law.get(key, 0.0) + chance * float(np.exp(log))
    listed = np.array(sorted(law))
    expected = np.log([law[tuple(s)] for s in listed.tolist()])
    mechanism = Stepwise(6.0)
    supports, logs = mechanism.probabilities(problem_of(case))
    assert np.array_equal(supports, listed)
    assert np.abs(logs - expected).max() < 1e-6
    draws = mechanism.draw(problem_of(case), DRAWS, random_state=2)
    assert chi_square(counts_of(draws, listed), expected)[0] > FALSE_ALARM


@cache
def last_columns(loss: str) -> tuple[Blocks, np.ndarray]:
    """Return a case in which the last columns of two blocks explain the target."""
    # With a large ridge and a small ball cuts of squared loss are nearly tight.
    radius, ridge = {"squared": (0.5, 300.0), "hinge": (4.0, 0.01)}[loss]
    case = blocks(loss, 11, groups=GROUPS, size=3, n=150, radius=radius, ridge=ridge)
    more = (case.X[:, 11] - case.X[:, 12]) * (loss == "squared")
    explained = 0.7 * (case.X[:, 10] - case.X[:, 9] + more)
    y = np.where(explained > 0, 1.0, -1.0) if loss == "hinge" else explained
    case = Blocks(**{**vars(case), "y": y})
    return case, case.scores()


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_a_block_that_weighs_as_one_column_is_caught(
    loss: str, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    take("partition", monkeypatch)
    case, scores = last_columns(loss)
    law = LAWS[kind](scores, case.kappa(5.0, "replace-one"))

    def found() -> float:
        draws = kind(5.0).draw(problem_of(case), DRAWS, random_state=3)
        return chi_square(counts_of(draws, case.supports()), law)[0]

    assert found() > FALSE_ALARM
    whole = Features.sum

    def forgetful(self: Features, values: np.ndarray) -> np.ndarray:
        values = values.copy()
        for group in self.groups or ():
            values[..., list(group[1:])] = 0.0
        return whole(self, values)

    monkeypatch.setattr(Features, "sum", forgetful)
    assert found() < FALSE_ALARM
