"""Kendall and screening: as published, their distributions and guarantees, broken twins (T43)."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import race_law
from scipy.stats import chisquare, kendalltau

from dpsubset import Kendall, Problem, Screening, SubsetRegressor, SubsetSelector, audit
from dpsubset.errors import InputError
from dpsubset.mechanisms import Peeling
from dpsubset.mechanisms.kendall import _ranked, agreement
from dpsubset.mechanisms.named import make_mechanism
from dpsubset.privacy import NEIGHBOURS

BOTH: list[type[Peeling]] = [Kendall, Screening]


def problem(n: int = 40, **more: Any) -> Problem:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (n, 5)).round(1)  # with ties
    y = np.clip(X[:, 1] - 0.5 * X[:, 3] + 0.2 * rng.normal(size=n), -1, 1)
    given: Any = {"size": 3, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, **more}
    return Problem(X, y, **given)


def pairs(x: Any, y: Any) -> int:
    """Count concordant less discordant pairs by looking at all of them."""
    both = itertools.combinations(range(len(x)), 2)
    return int(sum(np.sign(x[i] - x[j]) * np.sign(y[i] - y[j]) for i, j in both))


def scores_of(kind: type[Peeling], X: Any, y: Any, chosen: tuple[int, ...]) -> Any:
    """Return the scores of a round as the papers write them."""
    n, p = X.shape
    if kind is Screening:
        grid = 2**15
        return np.abs((np.round(X * grid) / grid).T @ (np.round(y * grid) / grid))

    def k(a: Any, b: Any) -> float:
        return n / 2 * abs(pairs(a, b) / math.comb(n, 2))

    score = np.array([k(X[:, j], y) for j in range(p)])
    if chosen:
        score -= np.mean([[k(X[:, j], X[:, i]) for j in range(p)] for i in chosen], axis=0)
    return score


def by_rounds(kind: type[Peeling], q: Problem, epsilon: float, relation: str) -> dict[Any, float]:
    X, y = q.design.take(np.arange(5)), q.y
    one = {Kendall: (1.5, 2.0), Screening: (1.0, 2.0)}[kind][relation == "replace-one"]
    reached: dict[tuple[int, ...], float] = {(): 1.0}
    for number in range(q.to_choose):
        moved = one * (2 if kind is Kendall and number else 1)
        after = {}
        for chosen, chance in reached.items():
            left = [j for j in range(5) if j not in (*chosen, *q.include, *q.exclude)]
            score = scores_of(kind, X, y, chosen)[left]
            law = race_law(-score, epsilon / q.to_choose / (2 * moved))
            after.update(
                {(*chosen, j): chance * math.exp(p) for j, p in zip(left, law, strict=True)}
            )
        reached = after
    found: Counter[tuple[int, ...]] = Counter()
    for chosen, chance in reached.items():
        found[tuple(sorted((*chosen, *q.include)))] += chance  # type: ignore[assignment]
    return dict(found)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12))
def test_agreement_counts_all_pairs(rows: list[tuple[int, int]]) -> None:
    x, y = (np.array(column) for column in zip(*rows, strict=True))
    order = np.argsort(x, kind="stable")
    assert agreement(_ranked(x)[order], _ranked(y)[order]) == pairs(x, y)


def test_without_ties_it_is_kendalls_tau() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 300))
    y += 0.3 * x
    order = np.argsort(x)
    tau = kendalltau(x, y).statistic
    assert agreement(_ranked(x)[order], _ranked(y)[order]) == round(tau * math.comb(300, 2))


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("relation", NEIGHBOURS)
@pytest.mark.parametrize("more", [{}, {"include": [0], "exclude": [4]}, {"size": 1}])
@pytest.mark.parametrize("kind", BOTH)
def test_the_distribution_is_that_of_the_published_rounds(
    kind: type[Peeling], more: dict[str, Any], relation: str
) -> None:
    q = problem(**more)
    mechanism = kind(6.0, neighbours=relation)
    supports, logs = mechanism.probabilities(q)
    expected = by_rounds(kind, q, 6.0, relation)
    assert {tuple(s) for s in supports.tolist()} == set(expected)
    for support, log in zip(supports.tolist(), logs, strict=True):
        assert math.exp(log) == pytest.approx(expected[tuple(support)], rel=1e-6)


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("kind", BOTH)
def test_draws_follow_it(kind: type[Peeling]) -> None:
    """False alarms: 1e-6 each, seeds fixed; a mechanism with twice the budget is told apart."""
    q = problem()
    supports, logs = kind(6.0).probabilities(q)

    def p_value(mechanism: Peeling) -> float:
        counts = Counter(map(tuple, mechanism.draw(q, 4000, random_state=1).tolist()))
        seen = np.array([counts[tuple(s)] for s in supports.tolist()])
        assert seen.sum() == 4000
        return float(chisquare(seen, 4000 * np.exp(logs) / np.exp(logs).sum()).pvalue)

    assert p_value(kind(6.0)) > 1e-6
    assert p_value(kind(12.0)) < 1e-6


@pytest.mark.grid(every=5)
@pytest.mark.parametrize("relation", NEIGHBOURS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("name", ["kendall", "screening"])
def test_the_guarantee_is_kept(name: str, loss: str, relation: str) -> None:
    for finding in audit.campaign([name], [loss], [relation], pairs=300, draws=200):
        assert finding.passed, finding
        assert finding.largest > 0.1 * finding.epsilon


class OneSided(Kendall):
    """Takes its scores for ones that a row moves in one direction only, and too little."""

    def moved(self, problem: Problem, round_number: int) -> float:
        return 0.3 * super().moved(problem, round_number)


class Narrow(Screening):
    """Forgets that a row may take from one feature what it gives to another."""

    def moved(self, problem: Problem, round_number: int) -> float:
        return 0.4 * super().moved(problem, round_number)


@pytest.mark.grid(every=4)
@pytest.mark.parametrize("relation", NEIGHBOURS)
@pytest.mark.parametrize("broken", [OneSided, Narrow])
def test_twin_too_small_a_sensitivity_is_caught(broken: type[Peeling], relation: str) -> None:
    made = {"broken": lambda q, e, r: broken(e, neighbours=r)}
    options: Any = {"pairs": 1500, "draws": 100, "made": made}
    (finding,) = audit.campaign(["broken"], ["squared"], [relation], **options)
    assert not finding.passed


@pytest.mark.parametrize("relation", NEIGHBOURS)
def test_a_row_moves_a_rank_correlation_by_no_more(relation: str) -> None:
    """Brute force over tables of few values; the bounds are reached nearly."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(3000):
        n = int(rng.integers(2, 9))
        x, y = rng.integers(0, 6, (2, n))
        if rng.random() < 0.5:
            y = x.copy()
        before = abs(pairs(x, y)) / (n - 1)
        new = rng.choice([-1, 7], 2)
        if relation == "replace-one":
            x[0], y[0] = new
            after = abs(pairs(x, y)) / (n - 1)
        else:
            after = abs(pairs(np.append(x, new[0]), np.append(y, new[1]))) / n
        worst = max(worst, abs(after - before))
    assert 0.8 * (2.0 if relation == "replace-one" else 1.5) < worst
    assert worst <= (2.0 if relation == "replace-one" else 1.5)


def test_groups_score_as_their_best_column_or_by_their_norm() -> None:
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 4))
    y = X[:, 1]
    q = Problem(X, y, size=1, x_bound=1, y_bound=1, radius=1, groups=[[0, 1], [2], [3]])
    single = Problem(X, y, size=1, x_bound=1, y_bound=1, radius=1)
    for kind in BOTH:
        blocks, columns = (kind(1.0)._scorer(one)(()) for one in (q, single))
        joined = max if kind is Kendall else math.hypot
        assert blocks[0] == pytest.approx(joined(columns[0], columns[1]))
        np.testing.assert_allclose(blocks[1:], columns[2:])
        chosen = kind(1.0)._scorer(q)((0,))
        assert chosen.shape == (3,)


@pytest.mark.parametrize("name", ["kendall", "screening"])
def test_by_name_in_selectors_and_models(name: str) -> None:
    X = np.random.default_rng(0).uniform(0, 10, (2000, 6))
    y = X[:, 1] - X[:, 4]
    options: Any = {
        "bounds_X": (0, 10),
        "bounds_y": (-10, 10),
        "random_state": 0,
        "mechanism": name,
    }
    chosen = SubsetSelector(n_features_to_select=2, epsilon=20.0, **options)
    assert chosen.fit(X, y).get_support(indices=True).tolist() == [1, 4]
    assert chosen.guarantee_.epsilon == 20.0
    model = SubsetRegressor(n_features_to_select=2, epsilon=30.0, **options).fit(X, y)
    assert model.score(X, y) > 0.9


def test_few_rows_and_wrong_words() -> None:
    X = np.zeros((1, 3))
    tiny = Problem(X, np.zeros(1), size=2, x_bound=1, y_bound=1, radius=1)
    for kind in BOTH:
        _, logs = kind(1.0).probabilities(tiny)
        np.testing.assert_allclose(np.exp(logs), 1 / 3)
        with pytest.raises(TypeError):
            kind(1.0, sensitivity="paper")  # type: ignore[call-arg]
    with pytest.raises(InputError, match="sensitivity of scores"):
        make_mechanism("kendall", 1.0, neighbours="replace-one", sensitivity="paper")
