"""What one row does to problems with groups: Delta attained, exact audits, and twins (T32)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from block_cases import LABELLED, LOSSES

from dpsubset import (
    Exponential,
    MarkovChain,
    Mistakes,
    PermuteAndFlip,
    Problem,
    Stepwise,
    TopR,
    audit,
    problem,
)
from dpsubset.audit import exact_pairs
from dpsubset.audit.tables import neighbouring, row_counts
from dpsubset.mechanisms import Mechanism

RELATIONS = ("replace-one", "add-remove")
GROUPS = ((0, 1, 2), (3,), (4, 5), (6, 7, 8, 9))
MECHANISMS: dict[str, Any] = {
    "exponential": lambda e, r: Exponential(e, neighbours=r),
    "permute-and-flip": lambda e, r: PermuteAndFlip(e, neighbours=r),
    "stepwise": lambda e, r: Stepwise(e, neighbours=r),
    "top-R": lambda e, r: TopR(e, count=3, neighbours=r),
    "mistakes": lambda e, r: Mistakes(e, delta=0.01, neighbours=r),
    "markov-chain": lambda e, r: MarkovChain(e, neighbours=r),
}


def posed(X: np.ndarray, y: np.ndarray, loss: str, size: int = 2, **more: Any) -> Problem:
    labels = {"classes": (-1, 1)} if loss in LABELLED else {"y_bound": 1.0}
    options = {"radius": 0.2, "groups": GROUPS, **labels, **more}
    return Problem(X, y, size=size, loss=loss, x_bound=1.0, **options)


def corner_pair(loss: str, sign: float, entries: float | None = None) -> list[Problem]:
    """Return two tables, the second with one row more, that part two supports by the spread.

    Many rows push the coefficients of features 0 and 2 to the end of the ball, more those of 1
    and 3, which are then nearly always released; the last row has the former against it, the
    latter with it. Every row of a block has the largest norm; with `entries`, every entry of it
    that size.
    """
    first, second = np.zeros((2, 10))
    for row, chosen in ((first, (0, 2)), (second, (1, 3))):
        for g in chosen:
            group = list(GROUPS[g])
            row[group] = entries if entries is not None else 1.0 / math.sqrt(len(group))
    X = np.vstack([[first] * 300, [second] * 400, [second - first]])
    y = np.full(len(X), sign)
    return [posed(X[:-1], y[:-1], loss), posed(X, y, loss)]


def moved_apart(pair: list[Problem]) -> float:
    """Return how far the last row moves two supports against each other."""
    before, after = pair
    return abs(
        (after.score([0, 2]) - before.score([0, 2])) - (after.score([1, 3]) - before.score([1, 3]))
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_delta_is_attained(loss: str) -> None:
    delta = corner_pair(loss, 1.0)[0].sensitivity()
    moved = max(moved_apart(corner_pair(loss, sign)) for sign in (-1.0, 1.0))
    assert moved <= delta * (1 + 1e-9)
    assert moved >= delta * 0.999


@pytest.mark.parametrize("loss", LOSSES)
def test_blocks_of_larger_norm_are_caught(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    delta = corner_pair(loss, 1.0)[0].sensitivity()
    assert moved_apart(corner_pair(loss, 1.0, entries=1.0)) <= delta * (1 + 1e-9)
    # The twin clips entries, and leaves rows of blocks with norms up to 2.
    monkeypatch.setattr(problem, "bounded_blocks", lambda design, features: design)
    moved = max(moved_apart(corner_pair(loss, sign, entries=1.0)) for sign in (-1.0, 1.0))
    assert moved > delta * 1.2


def table(loss: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 0.0, 1.0], (n, 10))
    y = np.sign(X[:, 0] + 0.1 * rng.normal(size=n)) if loss in LABELLED else rng.uniform(-1, 1, n)
    return X, y


@pytest.mark.grid(every=12)
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("loss", LOSSES)
def test_no_pair_exceeds_the_guarantee(loss: str, name: str, neighbours: str) -> None:
    for seed in range(2):
        one = posed(*table(loss, 5, seed), loss, radius=1.5, ridge=0.1 * seed)
        others = neighbouring(one, 30, neighbours, random_state=seed)
        report = audit.exact(MECHANISMS[name](1.0, neighbours), one, others)
        assert report.passed, str(report)
        assert report.epsilon > 0.01


def audited(mechanism: Mechanism, loss: str) -> float:
    """Return the largest share of epsilon over corner tables."""
    reports = [
        exact_pairs(mechanism, corner_pair(loss, sign, entries=1.0), [(0, 1)])
        for sign in (-1.0, 1.0)
    ]
    return max(report.epsilon for report in reports)


@pytest.mark.parametrize("loss", LOSSES)
def test_twins_of_the_audit_are_caught(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = Exponential(1.0, neighbours="add-remove")
    assert 0.99 < audited(mechanism, loss) <= 1.0 + 1e-6
    right = Problem.sensitivity
    with monkeypatch.context() as patch:  # Delta of one feature, whatever the size
        patch.setattr(
            Problem,
            "sensitivity",
            lambda self, rule="tight", reach=None: right(
                self, rule, self.radius * self.x_bound / 2
            ),
        )
        assert audited(mechanism, loss) > 1.0 + 1e-3
    with monkeypatch.context() as patch:  # one-hot blocks, clipped but not scaled
        patch.setattr(problem, "bounded_blocks", lambda design, features: design)
        assert audited(mechanism, loss) > 1.0 + 1e-3


def test_neighbours_of_groups_have_rows_of_the_largest_norm() -> None:
    one = posed(*table("squared", 6, 0), "squared")
    made = neighbouring(one, 40, "add-remove")
    added = [m for m in made if m.n_rows == 7]
    norms = np.array([[np.linalg.norm(m.design.take(list(g))[-1]) for g in GROUPS] for m in added])
    assert norms.max() <= 1 + 1e-12
    assert (norms[::2] > 1 - 1e-12).all()
    assert row_counts(one) == row_counts(one.with_rows(one.design.take(range(10)), one.y))
