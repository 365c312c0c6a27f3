"""Copies of columns: left out of searches, and put back."""

from itertools import combinations

import numpy as np
import pytest

from dpsubset import Problem, search
from dpsubset.cuts import twins
from dpsubset.cuts.twins import thin


def problem(size: int, *, ridge: float = 0.3, **options) -> Problem:
    rng = np.random.default_rng(size)
    base = rng.uniform(-1, 1, size=(30, 4))
    X = base[:, [0, 1, 1, 1, 2, 1, 0, 0, 3, 0]]
    y = 0.6 * base[:, 0] - 0.4 * base[:, 1] + 0.1 * rng.normal(size=30)
    return Problem(X, y, size=size, x_bound=1, y_bound=1, radius=1.0, ridge=ridge, **options)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("options", [{}, {"include": [6], "exclude": [2]}])
def test_searches_with_copies_equal_brute_force(size: int, ridge: float, options) -> None:
    given = problem(size, ridge=ridge, **options)
    allowed = [
        s
        for s in combinations(range(10), size)
        if set(given.include) <= set(s) and not set(given.exclude) & set(s)
    ]
    scores = {s: given.score(s) for s in allowed}
    for count in (1, 2, 5, len(allowed)):
        found = search.top(given, count)
        assert [f.score for f in found] == pytest.approx(sorted(scores.values())[:count], abs=1e-9)
        assert len({f.support for f in found}) == len(found)
        assert all(scores[f.support] == pytest.approx(f.score, abs=1e-9) for f in found)
    best = set(search.best(given).support)
    for k, entry in enumerate(search.best_by_mistakes(given)):
        least = min(v for s, v in scores.items() if len(set(s) - best) == k)
        assert entry.score == pytest.approx(least, abs=1e-9)


def test_only_superfluous_copies_leave() -> None:
    assert thin(problem(4)).problem.free.tolist() == list(range(10))
    two = thin(problem(2))
    assert two.problem.free.tolist() == [0, 1, 2, 4, 6, 8]
    assert sorted(two.images((0, 1))) == sorted(
        tuple(sorted((a, b))) for a in (0, 6, 7, 9) for b in (1, 2, 3, 5)
    )
    assert thin(problem(1), kept=(0, 6, 7)).problem.free.tolist() == [0, 1, 4, 6, 7, 8, 9]


def test_columns_that_only_look_alike_stay() -> None:
    rng = np.random.default_rng(0)
    X = rng.permuted(np.repeat([[1.0], [-1.0]], 10, axis=0) * np.ones((1, 12)), axis=0)
    given = Problem(X, np.zeros(20), size=2, x_bound=1, y_bound=1, radius=1.0, ridge=1.0)
    assert thin(given).problem is given


def test_categories_are_told_apart_without_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their columns add up to zero and all have one norm: they differ in products with y only."""
    rng = np.random.default_rng(1)
    X = np.sqrt(1.5) * (np.eye(3)[rng.integers(3, size=(60, 6))] - 1 / 3)
    groups = np.arange(18).reshape(6, 3).tolist()
    given = {"size": 2, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "groups": groups}

    def looked(*_: object) -> list[object]:
        raise AssertionError("rows were compared")

    monkeypatch.setattr(twins, "_equal_columns", looked)
    problem = Problem(X.reshape(60, 18), rng.uniform(-1, 1, 60), **given)
    assert thin(problem).problem is problem
    X[:, 3], X[:, 5] = X[:, 0], X[:, 0]
    with pytest.raises(AssertionError, match="rows were compared"):
        thin(Problem(X.reshape(60, 18), rng.uniform(-1, 1, 60), **given))


def test_copies_of_blocks_are_left_out_and_come_back() -> None:
    rng = np.random.default_rng(0)
    block, other = rng.uniform(-0.5, 0.5, (40, 2)), rng.uniform(-0.5, 0.5, (40, 2))
    single = rng.uniform(-1, 1, (40, 3))
    X = np.hstack([block, single[:, :1], block, other, block, single[:, 1:], block])
    y = block[:, 0] - other[:, 1] + 0.3 * rng.normal(size=40)
    groups = [[0, 1], [2], [3, 4], [5, 6], [7, 8], [9], [10], [11, 12]]
    problem = Problem(X, y, size=2, x_bound=1.0, y_bound=1.0, radius=1.0, groups=groups)
    assert thin(problem).problem.free.tolist() == [0, 1, 2, 3, 5, 6]
    turned = [[1, 0] if g == [0, 1] else g for g in groups]  # columns in another order are another
    options = {"size": 2, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0}
    other_way = Problem(X, y, groups=turned, **options)
    assert thin(other_way).problem.free.tolist() == [0, 1, 2, 3, 4, 5, 6]
    scores = {s: problem.score(s) for s in combinations(range(8), 2)}
    found = search.top(problem, 28)
    assert sorted(entry.support for entry in found) == sorted(scores)
    assert all(entry.proven for entry in found)
    assert [entry.score for entry in found] == pytest.approx(sorted(scores.values()), abs=1e-9)
