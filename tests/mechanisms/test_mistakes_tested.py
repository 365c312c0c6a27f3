"""Mistakes with propose-test-release (T7): the law, the draws, refusals, and the fallback.

Statistical tests have fixed seeds and reject at a false-alarm rate of 1e-6 each.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from oracle import chi_square, counts_of, exponential_law, mistakes_law

from dpsubset import Mistakes, Problem, audit
from dpsubset.audit.exact import excess
from dpsubset.errors import InputError, RefusedError
from dpsubset.mechanisms import mistakes, tested
from dpsubset.privacy import NEIGHBOURS

FALSE_ALARM = 1e-6


def clear(rows: int, loss: str = "absolute", **options: Any) -> Problem:
    """Columns 0 and 1 explain the target: the more rows, the wider the gap."""
    X = np.zeros((rows, 4))
    X[::2, 0] = X[1::2, 1] = 1.0
    X[:, 2] = 0.2
    shape = {"size": 2, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "loss": loss}
    return Problem(X, np.ones(rows), **{**shape, **options})


def law_by_hand(q: Problem, mechanism: Mistakes) -> np.ndarray:
    """T7 from all scores: pass with the Laplace chance, else refuse or draw from T4."""
    supports = mechanism.probabilities(q)[0]
    scores = np.array([q.score(s) for s in supports])
    first, second = np.sort(scores)[:2]
    rows = 2.0 if mechanism.neighbours == "replace-one" else 1.0
    unit = rows * q.sensitivity()
    test = mechanism.test_share * mechanism.epsilon
    kappa = (mechanism.epsilon - test) / unit
    assert mechanism.delta is not None
    x = (unit + unit / test * math.log(0.5 / mechanism.delta) - (second - first)) * test / unit
    passing = 0.5 * math.exp(-x) if x > 0 else 1.0 - 0.5 * math.exp(x)
    law = passing * np.exp(mistakes_law(scores, supports, kappa))
    if mechanism.otherwise == "exponential":
        law = law + (1.0 - passing) * np.exp(exponential_law(scores, kappa))
    return law


@pytest.mark.parametrize("otherwise", ["refuse", "exponential"])
@pytest.mark.parametrize("relation", NEIGHBOURS)
@pytest.mark.parametrize("rows", [2, 20, 60, 400])
def test_the_law_is_that_of_theory(rows: int, relation: str, otherwise: str) -> None:
    q = clear(rows)
    mechanism = Mistakes(2.0, delta=0.01, test_share=0.3, otherwise=otherwise, neighbours=relation)
    law = np.exp(mechanism.probabilities(q)[1])
    assert law == pytest.approx(law_by_hand(q, mechanism), rel=1e-9, abs=1e-300)
    assert law.sum() <= 1 + 1e-12
    if otherwise == "exponential":
        assert law.sum() == pytest.approx(1.0)
    elif rows == 2:
        assert law.sum() <= 0.01 * (1 + 1e-9)  # no gap: it passes with chance delta at most
    elif rows == 400:
        assert law.sum() > 0.98


def p_value(otherwise: str, relation: str) -> float:
    q = clear(34)
    mechanism = Mistakes(3.0, delta=0.05, otherwise=otherwise, neighbours=relation)
    supports, logs = mechanism.probabilities(q)
    drawn = mechanism.draw(q, 4000, random_state=3)
    refused = drawn[:, 0] < 0
    assert (drawn[refused] == -1).all()
    counts = np.append(counts_of(drawn[~refused], supports), refused.sum())
    with np.errstate(divide="ignore"):
        rest = np.log(max(0.0, 1.0 - float(np.exp(logs).sum())))
    found, cells = chi_square(counts, np.append(logs, rest))
    assert cells >= 4
    return found


@pytest.mark.parametrize("otherwise", ["refuse", "exponential"])
@pytest.mark.parametrize("relation", NEIGHBOURS)
def test_draws_follow_the_law(otherwise: str, relation: str) -> None:
    assert p_value(otherwise, relation) > FALSE_ALARM


@pytest.mark.parametrize("otherwise", ["refuse", "exponential"])
def test_a_test_without_noise_is_caught(otherwise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mistakes, "passes", lambda h, epsilon, delta, randomness: h > 1.0)
    assert p_value(otherwise, "replace-one") < FALSE_ALARM


@pytest.mark.parametrize("relation", NEIGHBOURS)
def test_a_threshold_that_forgets_delta_is_caught(
    relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threshold 0 instead of 1 + ln(1/(2 delta))/eps1: the audit finds mass beyond epsilon."""
    balanced = np.array(list(itertools.product([-1.0, 1.0], repeat=4)) * 2)
    rows = np.column_stack([balanced, balanced[:, 0]])  # column 0 explains the target alone
    rows = np.vstack([rows, [1.0, 0.5, 0.0, 0.0, 1.0]])  # column 1 helps a little
    more = np.vstack([rows, [1.0, 0.0, 1.0, 0.0, 1.0]])  # now column 2 helps more
    if relation == "replace-one":
        rows = np.vstack([rows, [1.0, 0.0, 0.0, 0.0, 1.0]])
    shape = {"size": 2, "x_bound": 1.0, "y_bound": 1.0, "radius": 0.5, "loss": "absolute"}
    q, other = (Problem(table[:, :-1], table[:, -1], **shape) for table in (rows, more))

    def beyond() -> tuple[bool, float]:
        report = audit.exact(Mistakes(2.0, delta=1e-4, neighbours=relation), q, [other])
        return report.passed, report.delta

    assert beyond()[0]
    monkeypatch.setattr(tested, "threshold", lambda epsilon, delta: 0.0)
    passed, delta = beyond()
    assert not passed
    assert delta > 1e-3


def test_guarantees() -> None:
    q = clear(10)
    alone = Mistakes(1.0).guarantee(q)
    assert alone.condition
    assert "nobody has checked" in str(alone)
    promise = Mistakes(1.0, delta=1e-6).guarantee(q)
    assert (promise.epsilon, promise.delta, promise.condition) == (1.0, 1e-6, None)
    assert "(1, 1e-06)-differentially private" in promise.sentence


def test_a_refusal_is_the_same_for_all_data() -> None:
    said = set()
    for rows in (1, 2, 5):
        with pytest.raises(RefusedError) as caught:
            Mistakes(1.0, delta=1e-12).release(clear(rows))
        said.add(str(caught.value))
    assert len(said) == 1
    released = Mistakes(1.0, delta=1e-6, otherwise="exponential").release(clear(2))
    assert len(released.support) == 2
    assert Mistakes(50.0, delta=1e-6).release(clear(3000)).support == (0, 1)


def test_one_support_needs_no_test() -> None:
    X = np.ones((3, 2))
    q = Problem(X, X[:, 0], size=2, x_bound=1.0, y_bound=1.0, radius=1.0)
    assert Mistakes(1.0, delta=1e-6).release(q).support == (0, 1)
    assert Mistakes(1.0, delta=1e-6).probabilities(q)[1] == pytest.approx([0.0])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"delta": 0.5}, "below 1/2"),
        ({"delta": 0.0}, "delta must be"),
        ({"delta": "x"}, "delta must be"),
        ({"delta": 1e-6, "test_share": 1.0}, "between 0 and 1"),
        ({"delta": 1e-6, "test_share": 0.0}, "test_share must be"),
        ({"delta": 1e-6, "otherwise": "x"}, "allowed: refuse, exponential"),
        ({"test_share": 0.4}, "give delta"),
        ({"otherwise": "exponential"}, "give delta"),
        ({"delta": 1e-6, "solver": "outer-approximation", "accept_gap": True}, "exact gap"),
    ],
)
def test_bad_input(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        Mistakes(1.0, **options)


# ---- the worst that scores can do ----------------------------------------------------------------


def mass_beyond(mechanism: Mistakes, gap: float) -> float:
    """Return the mass beyond epsilon for scores that one row moves as far as it may.

    Best is (0, 1) on one table and (0, 2) on the other; supports with column 1 and without 0 and 2
    have one mistake on the first and two on the second. `gap` is in units of gamma.
    """
    X = np.zeros((1, 10))
    q = Problem(X, X[:, 0], size=2, x_bound=1.0, y_bound=1.0, radius=1.0)
    supports = np.array(list(itertools.combinations(range(10), 2)))
    unit = q.sensitivity()
    scores = np.where(supports[:, 0] == 0, 4000.0, 5000.0) * unit
    gamma = 2 * unit if mechanism.neighbours == "replace-one" else unit
    first, other = scores.copy(), scores.copy()
    first[:2] = 0.0, gap * gamma
    other[0] = unit
    other[1] = gap * gamma - (unit if mechanism.neighbours == "replace-one" else 0.0)
    assert np.abs(first - other).max() <= unit * (1 + 1e-12)
    laws = []
    for each in (first, other):
        logs = mechanism._law(q, supports, each)
        law = {tuple(s): float(log) for s, log in zip(supports.tolist(), logs, strict=True)}
        rest = 1.0 - math.fsum(map(math.exp, law.values()))
        laws.append(law | ({(): math.log(rest)} if rest > 1e-12 else {}))
    return excess(*laws, mechanism.epsilon)


GAPS = [0.0, 0.5, 0.9, 0.99, 0.9999]


@pytest.mark.parametrize("otherwise", ["refuse", "exponential"])
@pytest.mark.parametrize("relation", NEIGHBOURS)
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_no_scores_break_the_promise(otherwise: str, relation: str, share: float) -> None:
    for epsilon, delta, gap in itertools.product([0.5, 2.0, 6.0], [1e-6, 0.01], GAPS):
        mechanism = Mistakes(
            epsilon, delta=delta, test_share=share, otherwise=otherwise, neighbours=relation
        )
        assert mass_beyond(mechanism, gap) <= delta


@pytest.mark.parametrize("otherwise", ["refuse", "exponential"])
@pytest.mark.parametrize("relation", NEIGHBOURS)
@pytest.mark.parametrize("broken", ["no one", "five deltas", "half the gap"])
def test_broken_constants_are_caught(
    broken: str, relation: str, otherwise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {
        "no one": lambda epsilon, delta: math.log(0.5 / delta) / epsilon,
        "five deltas": lambda epsilon, delta: 1.0 + math.log(0.1 / delta) / epsilon,
    }
    if broken == "half the gap":
        real = Mistakes._stability
        monkeypatch.setattr(Mistakes, "_stability", lambda *given: 2.0 * real(*given))
    else:
        monkeypatch.setattr(tested, "threshold", wrong[broken])
    mechanism = Mistakes(5.0, delta=1e-4, test_share=0.95, otherwise=otherwise, neighbours=relation)
    assert max(mass_beyond(mechanism, gap) for gap in GAPS) > 1.5e-4
