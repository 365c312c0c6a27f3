"""Problems refuse what they cannot work with, in words that hold no data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsubset import Problem, search
from dpsubset.designs import as_design
from dpsubset.errors import InputError

X = np.random.default_rng(0).uniform(-1, 1, size=(20, 5))
Y = X[:, 0]
GOOD = {"size": 2, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 0}, "between 1 and 5"),
        ({"size": 6}, "between 1 and 5"),
        ({"size": 2.0}, "whole number"),
        ({"size": True}, "whole number"),
        ({"size": 1, "include": [0, 1]}, "between 2 and 5"),
        ({"size": 4, "exclude": [0, 1]}, "between 1 and 3"),
        ({"include": [1], "exclude": [1]}, "both included and excluded"),
        ({"include": [5]}, "between 0 and 4"),
        ({"include": [1, 1]}, "each once"),
        ({"include": [0.5]}, "between 0 and 4"),
        ({"exclude": 3}, "list of column indices"),
        ({"x_bound": 0}, "x_bound"),
        ({"y_bound": -1}, "y_bound"),
        ({"radius": np.inf}, "radius"),
        ({"radius": np.float32(np.inf)}, "radius"),
        ({"ridge": -1e-9}, "ridge"),
        ({"ridge": np.nan}, "ridge"),
        ({"loss": "l0"}, "allowed: absolute, brier, hinge"),
        ({"groups": [[0, 1], [2], [3]]}, "every column in exactly one"),
    ],
)
def test_bad_parameters(changes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Problem(X, Y, **{**GOOD, **changes})


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y[:-1], "different numbers of rows"),
        (np.ones((20, 2)), "one dimension"),
        (["a"] * 20, "numbers"),
        ([[1], [1, 2]] * 10, "ragged"),
        (np.where(np.arange(20) == 3, np.nan, Y), "missing or infinite"),
        (np.ma.masked_array(Y, mask=Y > 0), "masked"),
    ],
)
def test_bad_targets(y, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Problem(X, y, **GOOD)
    assert "20" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_bounds_of_a_given_design_must_agree() -> None:
    with pytest.raises(InputError, match="same number"):
        Problem(as_design(X, bound=2.0), Y, **GOOD)
    with pytest.raises(InputError, match="different numbers of rows"):
        Problem(as_design(X, bound=1.0), Y[:-1], **GOOD)


def test_supports_are_checked() -> None:
    problem = Problem(X, Y[:, None], **GOOD)
    for support, message in (([0], "size 2"), ([0, 0], "each once"), ([0, 9], "between 0 and 4")):
        with pytest.raises(InputError, match=message):
            problem.score(support)
    assert problem.score(j for j in (1, 0)) == problem.score([0, 1])
    with pytest.raises(InputError, match="between 0 and 4"):
        problem.score(j for j in (0.7, 1))
    with pytest.raises(InputError, match="sensitivity"):
        problem.sensitivity("loose")


def test_sensitivity_rules() -> None:
    problem = Problem(X, Y, **GOOD)
    assert problem.sensitivity() == pytest.approx((1 + np.sqrt(2)) ** 2)
    assert problem.sensitivity("largest") == problem.sensitivity()
    assert problem.sensitivity("paper") == pytest.approx(2 + 4)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_fewer_rows_than_columns(n: int, ridge: float) -> None:
    problem = Problem(X[:n], Y[:n], **{**GOOD, "size": 4, "ridge": ridge})
    found = search.top(problem, 5)
    assert all(f.proven for f in found)
    assert found[0].score >= -1e-9


@pytest.mark.parametrize("zeros", [True, False])
def test_perfect_and_useless_columns_do_not_hang(zeros: bool) -> None:
    """All supports tie: with thousands of millions of them, listing is no way out."""
    rng = np.random.default_rng(1)
    table = np.zeros((4, 80)) if zeros else rng.uniform(-1, 1, (5, 60))
    y = np.full(4, 0.3) if zeros else rng.uniform(-1, 1, 5)
    problem = Problem(table, y, size=6, x_bound=1, y_bound=1, radius=5.0, ridge=float(zeros))
    assert search.best(problem).proven
    assert all(f.proven for f in search.best_by_mistakes(problem))
    assert len(search.top(problem, 300)) == 300


@given(
    st.integers(0, 6),
    st.integers(1, 6),
    st.integers(0, 2**31),
    st.sampled_from([0.0, 1e-3, 10.0]),
    st.sampled_from([1e-6, 0.5, 100.0]),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_any_small_table_gives_proven_answers(n, p, seed, ridge, radius) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(-2, 3, size=(n, p)) * rng.choice([0, 1, 1e-8, 1e8], size=p)
    size = int(rng.integers(1, p + 1))
    y = rng.integers(-1, 2, size=n)
    problem = Problem(table, y, size=size, x_bound=1, y_bound=1, radius=radius, ridge=ridge)
    best = search.best(problem)
    assert best.proven
    low, high = problem.interval(best.support)
    assert low <= best.score <= high
    assert len(search.top(problem, 10**6)) == problem.n_supports
