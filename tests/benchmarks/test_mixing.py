"""What is said of a chain's distance from its law is true: exactly, and as a bound from draws.

A bound from draws is wrong with a probability that the test names; seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmarks import mixing, rivals
from benchmarks.mixing import acceptance_rate, apart, distances, transition_matrix
from dpsubset import Problem
from dpsubset.errors import InputError
from dpsubset.mechanisms.markov_chain import MarkovChain

pytestmark = pytest.mark.slow

SURE = 1 - 1e-6


def problem(p: int = 8, size: int = 3, n: int = 60, **options) -> Problem:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (n, p))
    y = 0.6 * X[:, 0] - 0.4 * X[:, 2] + 0.3 * rng.normal(size=n)
    settings = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "ridge": 0.5, **options}
    return Problem(X, y, size=size, **settings)


@pytest.mark.parametrize("ball", ["l2", "l1"])
@pytest.mark.parametrize("marks", [{}, {"include": (2,), "exclude": (5,)}])
def test_transition_matrix(ball: str, marks: dict) -> None:
    supports, law, matrix = transition_matrix(MarkovChain(9.0, ball=ball), problem(**marks))
    P = matrix.toarray()
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(law @ P, law, rtol=0, atol=1e-12)
    t = 3 - len(marks.get("include", ()))
    swaps = t * (8 - sum(map(len, marks.values())) - t)
    sets = [set(row) for row in supports.tolist()]
    for i, a in enumerate(sets):
        apart = np.array([len(a - b) for b in sets])
        assert np.count_nonzero(apart == 1) == swaps
        np.testing.assert_array_equal(P[i] > 0, (apart == 1) | ((apart == 0) & (P[i, i] > 0)))
        rates = np.minimum(1.0, law[apart == 1] / law[i]) / swaps
        np.testing.assert_allclose(P[i, apart == 1], rates, rtol=1e-9)


def test_distances_fall_to_zero() -> None:
    mechanism = MarkovChain(9.0)
    found = distances(mechanism, problem(), [400, 0, 3, 3, 1], start=[5, 6, 7])
    assert list(found) == [0, 1, 3, 400]
    supports, law, matrix = transition_matrix(mechanism, problem())
    here = supports.tolist().index([5, 6, 7])
    assert found[0] == pytest.approx(1 - law[here])
    for t in (1, 3):
        now = np.linalg.matrix_power(matrix.toarray(), t)[here]
        assert found[t] == pytest.approx(0.5 * np.abs(now - law).sum())
    assert found[0] > found[1] > found[3] > 0.01
    assert found[400] < 1e-6
    uniform = distances(mechanism, problem(), [0])[0]
    assert uniform == pytest.approx(0.5 * np.abs(law - 1 / len(law)).sum())


def test_one_support_has_no_distance() -> None:
    alone = problem(p=3)
    assert distances(MarkovChain(1.0), alone, [0, 5]) == {0: 0.0, 5: 0.0}
    assert acceptance_rate(MarkovChain(1.0, steps=5), alone, 0) == 0.0


def test_acceptance_rate() -> None:
    """Against the chance of a move under the stationary law; 20,000 steps, 0.05 is far outside."""
    mechanism = MarkovChain(9.0, steps=2000)
    _, law, matrix = transition_matrix(mechanism, problem())
    moves = float(law @ (1 - matrix.diagonal()))
    assert 0.05 < moves < 0.8
    rate = acceptance_rate(mechanism, problem(), 0, chains=10)
    assert rate == pytest.approx(moves, abs=0.05)
    bolder = acceptance_rate(MarkovChain(90.0, steps=2000), problem(), 0, chains=10)
    assert bolder < rate - 0.05


@pytest.mark.parametrize("steps", [0, 2, 6, 60])
def test_a_bound_from_draws_is_below_the_distance(steps: int) -> None:
    """Wrong with probability 1e-6 at most; and near the truth where that is large."""
    mechanism = MarkovChain(12.0, steps=steps)
    found = apart(mechanism, problem(), 2000, random_state=steps, confidence=SURE)
    true = distances(mechanism, problem(), [steps])[steps]
    assert 0.0 <= found.at_least <= true
    assert found.confidence == SURE
    if steps <= 2:
        assert found.at_least > 0.5 * true > 0.1
    if steps == 60:
        assert true < 1e-3
        assert found.at_least == 0.0


@pytest.mark.parametrize("confidence", [0.9, 0.999])
def test_clopper_and_pearson(confidence: float) -> None:
    error = 1 - confidence
    for count in (0, 1, 17, 50):
        low, high = mixing._lower(count, 50, error), mixing._upper(count, 50, error)
        exact = stats.binomtest(count, 50).proportion_ci(1 - 2 * error, method="exact")
        assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_twin_shares_without_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain shares in the place of bounds would claim a distance where there is none."""
    mechanism = MarkovChain(12.0, steps=60)
    monkeypatch.setattr(mixing, "_lower", lambda count, total, error: count / total)
    claims = [apart(mechanism, problem(), 200, seed, confidence=SURE).at_least for seed in range(8)]
    true = distances(mechanism, problem(), [60])[60]
    assert max(claims) > true


def test_where_supports_cannot_be_listed() -> None:
    """A short chain over 10^8 supports is far from the law, and the draws tell."""
    large = problem(p=200, size=5, n=400)
    short = apart(MarkovChain(60.0, steps=20), large, 120, random_state=1, confidence=0.999)
    assert short.at_least > 0.5
    assert short.share_of_chain != short.share_of_exact
    with pytest.raises(InputError, match="entries"):
        distances(MarkovChain(1.0), large, [1])


def test_bad_use() -> None:
    with pytest.raises(InputError, match="l1"):
        apart(MarkovChain(1.0, ball="l1"), problem(), 100, 0)
    with pytest.raises(InputError, match="confidence"):
        apart(MarkovChain(1.0), problem(), 100, 0, confidence=1.0)
    with pytest.raises(InputError, match="draws"):
        apart(MarkovChain(1.0), problem(), 2, 0)
    with pytest.raises(InputError, match="start"):
        distances(MarkovChain(1.0), problem(), [1], start=[0, 1, 99])
    with pytest.raises(InputError, match="steps"):
        distances(MarkovChain(1.0), problem(), [-1])
    with pytest.raises(InputError, match="chains"):
        acceptance_rate(MarkovChain(1.0), problem(), 0, chains=0)


def test_rivals_are_measured() -> None:
    rows = list(rivals.rival_rows(quick=True))
    assert [row.case.split(",")[0] for row in rows][:2] == ["1000 steps"] * 2
    assert all(row.seconds > 0 for row in rows)
    assert any("aggregate" in row.case for row in rows)


def test_rivals_notice_a_wrong_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "RADIUS", 0.01)
    with pytest.raises(RuntimeError, match="differ"):
        next(rivals.rival_rows(quick=True))
