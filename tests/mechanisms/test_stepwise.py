"""Stepwise: its distribution by enumeration, its draws, its guarantee, and broken twins (T35)."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from oracle import race_law
from scipy.stats import chisquare

from dpsubset import PermuteAndFlip, Problem, Stepwise, SubsetSelector, audit, sampling
from dpsubset.errors import InputError, UnprovenError
from dpsubset.limits import Limits
from dpsubset.privacy import NEIGHBOURS

LOSSES = ("squared", "absolute", "huber", "hinge", "logistic")
EPSILON = 12.0


def problem(loss: str = "squared", n: int = 60, **more: Any) -> Problem:
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (n, 7))
    y = 0.8 * X[:, 0] - 0.6 * X[:, 3] + 0.4 * X[:, 5] + 0.2 * rng.normal(size=n)
    labels = loss in ("hinge", "logistic")
    target: Any = {"classes": (-1, 1)} if labels else {"y_bound": 1.0}
    given: Any = {"size": 4, "x_bound": 1.0, "radius": 1.0, "ridge": 0.5, **target, **more}
    return Problem(X, np.where(y > 0, 1, -1) if labels else y, loss=loss, **given)


def by_paths(given: Problem, mechanism: Stepwise) -> dict[tuple[int, ...], float]:
    """Add up all ways to a support, each step a race among the supports that it may reach."""
    steps = [mechanism.at_once] * (given.to_choose // mechanism.at_once)
    steps += [given.to_choose % mechanism.at_once] * (given.to_choose % mechanism.at_once > 0)
    share = mechanism.epsilon / len(steps)
    twice = 2 if mechanism.neighbours == "replace-one" else 1
    reached = {tuple(given.include): 1.0}
    for number in steps:
        after: dict[tuple[int, ...], float] = defaultdict(float)
        for chosen, chance in reached.items():
            size = len(chosen) + number
            part = Problem(
                given.design,
                given.y,
                size=size,
                loss=given.loss,
                x_bound=1.0,
                y_bound=None if given.loss.classification else 1.0,
                radius=given.radius,
                ridge=given.ridge,
                classes=(-1, 1) if given.loss.classification else None,
            )
            free = [j for j in range(7) if j not in chosen and j not in given.exclude]
            sets = [
                tuple(sorted((*chosen, *more))) for more in itertools.combinations(free, number)
            ]
            scores = np.array([part.score(s) for s in sets])
            logs = race_law(scores, share / (twice * part.sensitivity()))
            for one, log in zip(sets, logs, strict=True):
                after[one] += chance * math.exp(log)
        reached = after
    return reached


CASES: dict[str, tuple[Stepwise, dict[str, Any]]] = {
    "one at a time": (Stepwise(EPSILON), {}),
    "two at a time": (Stepwise(EPSILON, at_once=2), {}),
    "three, then one": (Stepwise(EPSILON, at_once=3, neighbours="add-remove"), {}),
    "included and excluded": (Stepwise(EPSILON), {"include": [2], "exclude": [1, 6]}),
}


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", CASES)
def test_the_distribution_is_that_of_all_paths(name: str, loss: str) -> None:
    mechanism, more = CASES[name]
    given = problem(loss, **more)
    supports, logs = mechanism.probabilities(given)
    expected = by_paths(given, mechanism)
    assert {tuple(s) for s in supports.tolist()} == set(expected)
    for support, log in zip(supports.tolist(), logs, strict=True):
        assert math.exp(log) == pytest.approx(expected[tuple(support)], rel=1e-6, abs=1e-12)
    assert np.exp(logs).sum() == pytest.approx(1.0)


@pytest.mark.grid(every=12, of=2)
@pytest.mark.parametrize("limit", [None, 0], ids=["listed", "by envelopes"])
@pytest.mark.parametrize("loss", ["squared", "absolute", "logistic"])
@pytest.mark.parametrize("name", CASES)
def test_draws_follow_it(
    name: str, loss: str, limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """False alarms: 1e-6 each, seeds fixed. Draws of all columns at once are told apart."""
    if limit is not None:
        monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", limit)
    mechanism, more = CASES[name]
    given = problem(loss, **more)
    assert p_value(mechanism, mechanism, given, 3000) > 1e-6


def p_value(drawn: Any, claimed: Any, given: Problem, count: int) -> float:
    supports, logs = claimed.probabilities(given)
    counts = Counter(map(tuple, drawn.draw(given, count, random_state=1).tolist()))
    expected = count * np.exp(logs)
    usual = expected >= 5
    seen = np.array([counts[tuple(s)] for s in supports.tolist()])
    a, b = seen[usual].astype(float), expected[usual]
    rest = count - b.sum()
    if rest >= 5:
        a, b = np.append(a, count - a.sum()), np.append(b, rest)
    else:  # too rare for a cell of their own
        least = int(np.argmin(b))
        a[least] += count - a.sum()
        b[least] += rest
    return float(chisquare(a, b * a.sum() / b.sum()).pvalue)


def test_twin_another_distribution_is_noticed() -> None:
    given = problem()
    assert p_value(PermuteAndFlip(EPSILON), Stepwise(EPSILON), given, 4000) < 1e-6
    assert p_value(Stepwise(2 * EPSILON), Stepwise(EPSILON), given, 4000) < 1e-6


def test_all_at_once_is_permute_and_flip() -> None:
    given = problem(size=3)
    one, other = Stepwise(5.0, at_once=3), PermuteAndFlip(5.0)
    np.testing.assert_allclose(
        np.sort(one.probabilities(given)[1]), np.sort(other.probabilities(given)[1])
    )


@pytest.mark.grid(every=10)
@pytest.mark.parametrize("relation", NEIGHBOURS)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_guarantee_is_kept(loss: str, relation: str) -> None:
    findings = audit.campaign(["stepwise"], [loss], [relation], pairs=300, draws=300)
    for finding in findings:
        assert finding.passed, finding
        assert finding.largest > 0.2 * finding.epsilon


class Unsplit(Stepwise):
    """Spends all of epsilon in every step."""

    def _kappa(self, step: Problem, count: int) -> float:
        return super()._kappa(step, 1)


@pytest.mark.slow
@pytest.mark.parametrize("relation", NEIGHBOURS)
def test_twin_a_budget_spent_in_every_step_is_caught(relation: str) -> None:
    made = {"unsplit": lambda q, e, r: Unsplit(e, neighbours=r)}
    options: Any = {"pairs": 1500, "draws": 100, "made": made}
    (finding,) = audit.campaign(["unsplit"], ["squared"], [relation], **options)
    assert not finding.passed


def test_a_guarantee_before_any_data() -> None:
    promise = Stepwise(2.0, neighbours="add-remove").guarantee(problem())
    assert (promise.epsilon, promise.delta, promise.condition) == (2.0, 0.0, None)
    assert promise.neighbours == "add-remove"


def test_by_name_in_estimators(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).uniform(0, 10, (800, 6))
    y = X[:, 1] - X[:, 4]
    options: Any = {"bounds_X": (0, 10), "bounds_y": (-10, 10), "random_state": 0}
    chosen = SubsetSelector(n_features_to_select=2, mechanism="stepwise", epsilon=50.0, **options)
    assert chosen.fit(X, y).get_support(indices=True).tolist() == [1, 4]
    both = SubsetSelector(
        n_features_to_select=2, mechanism=Stepwise(50.0, at_once=2), epsilon=50.0, **options
    )
    assert both.fit(X, y).get_support(indices=True).tolist() == [1, 4]


def test_wrong_steps_and_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (0, -1, 1.5, True, "2"):
        with pytest.raises(InputError, match="at_once"):
            Stepwise(1.0, at_once=wrong)  # type: ignore[arg-type]
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)
    with pytest.raises(UnprovenError):
        Stepwise(1e4, at_once=3, limits=Limits(seconds=1e-9)).release(problem("absolute", n=400))
    only = problem(size=2, include=[1, 2])
    assert Stepwise(1.0).release(only).support == (1, 2)
