"""Exact audits beside those of tests/audit: the paper's accounting, and mistakes' condition.

Tables come in families, so that few tables make many pairs. Replace-one: the same rows and ten
choices of one more row; any two of the ten tables are neighbours. Add-remove: the same two rows
and every subset of four more; subsets that differ by one row are neighbours. Nothing is sampled:
probabilities are enumerated, and a violation anywhere fails.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from oracle import LABELLED, LOSSES

from dpsubset import Mistakes, Problem, TopR
from dpsubset.mechanisms import base

NEIGHBOURS = ("replace-one", "add-remove")
ALL = ("squared", *LOSSES)
FAMILIES = 46  # 2070 pairs
EPSILON = 1.0
SLACK = 1e-9


@dataclass(frozen=True)
class Family:
    """Tables of public shape (last column: the target) and which of them are neighbours."""

    seed: int
    tables: list[np.ndarray]
    pairs: list[tuple[int, int]]
    parameters: dict[str, Any]

    def problems(self) -> list[Problem]:
        return [Problem(t[:, :-1], t[:, -1], **self.parameters) for t in self.tables]


def some_rows(rng: np.random.Generator, count: int, p: int, loss: str = "squared") -> np.ndarray:
    """Draw rows, most at corners of the bounds, most with a target that one column explains."""
    corners = rng.choice([-1.0, 1.0], (count, p))
    X = np.where(rng.random((count, 1)) < 0.7, corners, rng.uniform(-1, 1, (count, p)))
    explained = X[:, rng.integers(p)]
    y = np.where(rng.random(count) < 0.6, explained, rng.choice([-1.0, 1.0], count))
    return np.column_stack([X, np.sign(y) if loss in LABELLED else y])


def parameters_of(loss: str, **options: Any) -> dict[str, Any]:
    """Return the parameters of a problem in unit bounds; a table may lack one of two classes."""
    labels = {"classes": (-1, 1)} if loss in LABELLED else {"y_bound": 1.0}
    return {"loss": loss, "x_bound": 1.0, **labels, **options}


def replaced(rows: np.ndarray, choices: np.ndarray) -> list[np.ndarray]:
    return [np.vstack([rows, choice]) for choice in choices]


def subsets(rows: np.ndarray, more: np.ndarray) -> tuple[list[np.ndarray], list[tuple[int, int]]]:
    bits = range(len(more))
    masks = range(2 ** len(more))
    tables = [np.vstack([rows, more[[i for i in bits if m >> i & 1]]]) for m in masks]
    return tables, [(m, m | 1 << i) for m in masks for i in bits if not m >> i & 1]


def make_family(neighbours: str, seed: int, loss: str) -> Family:
    rng = np.random.default_rng([NEIGHBOURS.index(neighbours), seed])
    p = int(rng.integers(3, 6))
    radius, ridge = float(rng.choice([0.5, 1.0, 1.5])), float(rng.choice([0.0, 0.2]))
    size = int(rng.integers(1, 3))
    parameters = parameters_of(loss, size=size, radius=radius, ridge=ridge)
    if neighbours == "add-remove":
        tables, pairs = subsets(some_rows(rng, 2, p, loss), some_rows(rng, 4, p, loss))
        return Family(seed, tables, pairs, parameters)
    rows = some_rows(rng, int(rng.integers(1, 6)), p, loss)
    if seed % 2:
        rows[:, -1] = np.sign(rows[:, 0])
    tables = replaced(rows, some_rows(rng, 10, p, loss))
    return Family(seed, tables, list(itertools.combinations(range(10), 2)), parameters)


def families(neighbours: str, loss: str) -> Iterator[Family]:
    return (make_family(neighbours, seed, loss) for seed in range(FAMILIES))


# ---- every score is computed once; the laws of all mechanisms are made from them ---------------

LIST_SUPPORTS = base.list_supports
SCORES: dict[Problem, tuple[np.ndarray, np.ndarray]] = {}


@cache
def scored(neighbours: str, loss: str) -> list[tuple[Family, list[Problem]]]:
    """Return all families with their problems, whose supports and scores are remembered."""
    pairs = [(family, family.problems()) for family in families(neighbours, loss)]
    for problem in itertools.chain.from_iterable(problems for _, problems in pairs):
        SCORES[problem] = LIST_SUPPORTS(problem)
    return pairs


@pytest.fixture(autouse=True)
def _remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `probabilities` take remembered scores; nothing else in it changes."""

    def known(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        listed = SCORES.get(problem)
        return LIST_SUPPORTS(problem) if listed is None else listed

    monkeypatch.setattr(base, "list_supports", known)


Maker = Callable[[Problem, str], Any]


def violations(
    neighbours: str, loss: str, make: Maker
) -> tuple[list[tuple[int, int, int]], float, int]:
    """Return the pairs (family, table, table) above epsilon, the largest excess, and the pairs."""
    named: list[tuple[int, int, int]] = []
    excess, audited = -math.inf, 0
    for family, problems in scored(neighbours, loss):
        mechanism = make(problems[0], neighbours)
        epsilon = mechanism.guarantee(problems[0]).epsilon
        laws = np.array([mechanism.probabilities(problem)[1] for problem in problems])
        first, second = np.array(family.pairs).T
        largest = np.abs(laws[first] - laws[second]).max(axis=1) - epsilon
        guilty = np.flatnonzero(largest > SLACK)
        named += [(family.seed, *family.pairs[int(i)]) for i in guilty]
        excess, audited = max(excess, float(largest.max())), audited + len(family.pairs)
    return named, excess, audited


@pytest.mark.grid(every=6)
@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("trials", [1, 4])
def test_no_pair_exceeds_the_epsilon_of_finite_trials(trials: int, loss: str) -> None:
    def make(problem: Problem, neighbours: str) -> TopR:
        return TopR(EPSILON, count=2, trials=trials, neighbours=neighbours)

    named, _, _ = violations("replace-one", loss, make)
    assert named == []


# ---- Mistakes: private only where the gap is wide -----------------------------------------------


def wide_gap_family(neighbours: str, seed: int, loss: str) -> Family:
    """Half of the rows are explained by column 0, half by column 1: the more, the wider the gap.

    Size 1 would test nothing: there Mistakes is TopR with two supports, private without a gap.
    """
    rng = np.random.default_rng([9, NEIGHBOURS.index(neighbours), seed])
    p = int(rng.integers(3, 6))
    parameters = parameters_of(loss, size=2, radius=1.0, ridge=0.0)
    most = 150 if loss.startswith("quantile") else 60
    rows = np.zeros((int(rng.integers(10, most)), p + 1))
    rows[::2, 0] = rows[1::2, 1] = rows[:, -1] = 1.0
    rows = np.vstack([rows, some_rows(rng, 4, p, loss)])
    if neighbours == "add-remove":
        tables, pairs = subsets(rows, some_rows(rng, 4, p, loss))
        return Family(seed, tables, pairs, parameters)
    tables = replaced(rows, some_rows(rng, 8, p, loss))
    return Family(seed, tables, list(itertools.combinations(range(8), 2)), parameters)


def gap_of(problem: Problem) -> float:
    pairs = itertools.combinations(range(problem.n_columns), 2)
    scores = sorted(problem.score(pair) for pair in pairs)
    return scores[1] - scores[0]


@pytest.mark.grid(every=7)
@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_mistakes_keeps_epsilon_where_its_condition_holds(neighbours: str, loss: str) -> None:
    mechanism = Mistakes(EPSILON, neighbours=neighbours)
    inside = outside = 0
    worst = 0.0
    for seed in range(60 if loss == "squared" else 30):
        family = wide_gap_family(neighbours, seed, loss)
        problems = family.problems()
        guarantee = mechanism.guarantee(problems[0])
        assert guarantee.epsilon == EPSILON
        assert guarantee.condition
        needed = (2 if neighbours == "replace-one" else 1) * problems[0].sensitivity()
        gaps = [gap_of(problem) for problem in problems]
        laws = [mechanism.probabilities(problem)[1] for problem in problems]
        for i, j in family.pairs:
            if max(gaps[i], gaps[j]) <= needed:
                outside += 1
                continue
            inside += 1
            worst = max(worst, float(np.abs(laws[i] - laws[j]).max()))
    assert worst <= EPSILON + SLACK
    assert inside >= 50
    assert outside >= 50


@pytest.mark.parametrize("loss", ALL)
@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_mistakes_breaks_epsilon_where_its_condition_fails(neighbours: str, loss: str) -> None:
    """The condition is needed: without the gap some neighbours differ by more than epsilon."""
    balanced = np.array(list(itertools.product([-1.0, 1.0], repeat=4)) * 2)
    base = np.column_stack([balanced, balanced[:, 0]])  # column 0 explains the target alone
    base = np.vstack([base, [1.0, 0.5, 0.0, 0.0, 1.0]])  # column 1 helps a little
    parameters = parameters_of(loss, size=2, radius=0.5, ridge=0.0)
    other = np.vstack([base, [1.0, 0.0, 1.0, 0.0, 1.0]])  # now column 2 helps more
    if neighbours == "replace-one":
        base = np.vstack([base, [1.0, 0.0, 0.0, 0.0, 1.0]])
    first, second = (Problem(t[:, :-1], t[:, -1], **parameters) for t in (base, other))
    mechanism = Mistakes(EPSILON, neighbours=neighbours)
    difference = np.abs(mechanism.probabilities(first)[1] - mechanism.probabilities(second)[1])
    assert difference.max() > 3 * EPSILON
