"""Starting supports: found quickly, and always found."""

import numpy as np
import pytest

from dpsubset import Problem, search
from dpsubset.cuts import cut_maker
from dpsubset.cuts.region import root
from dpsubset.cuts.start import complete, start


def signs(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], (5, 12))
    return Problem(X, 0.7 * X[:, 0], size=6, x_bound=1, y_bound=1, radius=1.0)


@pytest.mark.parametrize("seed", [13, 77, 130, *range(20)])
def test_ties_do_not_go_round_for_ever(seed: int) -> None:
    support = start(cut_maker(signs(seed)))
    assert len(set(support)) == 6


def test_nearly_equal_columns() -> None:
    rng = np.random.default_rng(0)
    X = np.clip(rng.uniform(-1, 1, (20, 1)) + 1e-7 * rng.normal(size=(20, 30)), -1, 1)
    problem = Problem(X, 0.7 * X[:, 0], size=4, x_bound=1, y_bound=1, radius=1.0)
    assert search.best(problem).proven


def test_planted_columns_are_found_with_few_gram_columns() -> None:
    rng = np.random.default_rng(1)
    X = np.clip(rng.normal(size=(2000, 3000)), -1, 1)
    y = np.clip(X[:, [5, 700, 2999]].sum(axis=1) / 2, -1, 1)
    problem = Problem(X, y, size=3, x_bound=1, y_bound=1, radius=2.0, ridge=1.0)
    assert start(cut_maker(problem)) == (5, 700, 2999)
    assert not problem.gram.held
    assert len(problem.gram._kept) < 40


def test_completion_stays_inside_its_region() -> None:
    rng = np.random.default_rng(2)
    X = np.clip(rng.normal(size=(50, 9)), -1, 1)
    problem = Problem(
        X, X[:, 0], size=4, x_bound=1, y_bound=1, radius=1.0, ridge=0.1, include=[3], exclude=[0]
    )
    support = complete(cut_maker(problem), root(problem))
    assert 3 in support
    assert 0 not in support
