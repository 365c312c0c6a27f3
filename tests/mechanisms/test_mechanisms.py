"""What mechanisms promise and refuse, beside the laws they follow."""

import math
from itertools import combinations

import numpy as np
import pytest

from dpsubset import Exponential, Mistakes, PermuteAndFlip, Problem, Release, TopR
from dpsubset.errors import InputError, UnprovenError
from dpsubset.mechanisms.permute_and_flip import race_law
from dpsubset.sampling.ranks import rank, skip, unrank
from dpsubset.search import Limits

ALL = (Exponential, PermuteAndFlip, TopR, Mistakes)


def problem(n: int = 30, p: int = 6, size: int = 2, **options) -> Problem:
    rng = np.random.default_rng(n)
    X = rng.uniform(-1, 1, size=(n, p))
    y = np.clip(X[:, 0] + 0.1 * rng.normal(size=n), -1, 1)
    settings = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "ridge": 0.5, **options}
    return Problem(X, y, size=size, **settings)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_release(kind, neighbours: str) -> None:
    release = kind(epsilon=1.0, neighbours=neighbours).release(problem())
    assert isinstance(release, Release)
    assert len(release.support) == 2
    assert list(release.support) == sorted(set(release.support))
    assert release.guarantee.randomness == "operating system"
    assert set(release.to_dict()) == {"asked", "released", "guarantee", "dpsubset"}


@pytest.mark.parametrize("kind", ALL)
def test_a_seeded_release_says_so(kind) -> None:
    release = kind(epsilon=1.0).experiment(problem(), 3)
    assert release == kind(epsilon=1.0).experiment(problem(), 3)
    assert "SEEDED" in str(release.guarantee)


@pytest.mark.parametrize("kind", ALL)
def test_under_add_remove_nothing_public_depends_on_the_rows(kind) -> None:
    mechanism = kind(epsilon=1.0, neighbours="add-remove")
    promises = {str(mechanism.guarantee(problem(n))) for n in (0, 1, 7, 400)}
    assert len(promises) == 1


BAD = [0, 0.0, -1, math.inf, math.nan, "1", None, True, 1e60, np.float32(0), np.float32(np.inf)]


@pytest.mark.parametrize("kind", ALL)
def test_bad_epsilon(kind) -> None:
    for epsilon in BAD:
        with pytest.raises(InputError, match="epsilon"):
            kind(epsilon=epsilon)


@pytest.mark.parametrize("kind", ALL)
def test_bad_options(kind) -> None:
    with pytest.raises(InputError, match="allowed"):
        kind(epsilon=1.0, neighbours="swap")
    with pytest.raises(InputError, match="allowed"):
        kind(epsilon=1.0, sensitivity="loose")
    with pytest.raises(InputError, match="count"):
        kind(epsilon=1.0).draw(problem(), -1)
    with pytest.raises(InputError, match="1000000 supports"):
        kind(epsilon=1.0).probabilities(problem(p=60, size=6))


@pytest.mark.parametrize(
    "options",
    [
        {"count": 1},
        {"count": 2.5},
        {"count": True},
        {"trials": 0},
        {"trials": 1.5},
        {"trials": 10**400},
    ],
)
def test_bad_top_r(options) -> None:
    with pytest.raises(InputError, match="whole number"):
        TopR(epsilon=1.0, **options)


def test_top_r_counts_and_trials() -> None:
    with pytest.raises(InputError, match="only 15 supports"):
        TopR(epsilon=1.0, count=16).release(problem())
    with pytest.raises(InputError, match="accounting"):
        TopR(epsilon=1.0, accounting="guess")
    with pytest.raises(InputError, match="private under add-remove"):
        TopR(epsilon=1.0, trials=3, neighbours="add-remove")
    sharp = TopR(epsilon=1.0, count=4, trials=3, neighbours="add-remove", accounting="sharp")
    assert 1.0 < sharp.guarantee(problem()).epsilon < 1.1
    assert TopR(epsilon=1.0, count=15, trials=1).guarantee(problem()).epsilon == 1.0


def test_the_papers_epsilon_of_finite_trials() -> None:
    given = problem(n=4)
    q, kappa = 4 / 15, 1.0 / (2 * given.sensitivity())
    delta0 = math.exp(-kappa * 4) / 15
    expected = math.log(math.e + q**3 / delta0) - math.log(1 - q**3)
    assert TopR(epsilon=1.0, count=4, trials=3).guarantee(given).epsilon == pytest.approx(expected)
    many = TopR(epsilon=1.0, count=4, trials=3).guarantee(problem(n=10_000))
    assert 100 < many.epsilon < 1e4  # in log space: delta0 itself is zero there


def test_mistakes_states_its_condition() -> None:
    promise = Mistakes(epsilon=1.0).guarantee(problem())
    assert "second best support" in str(promise.condition)
    assert "twice the sensitivity" in str(promise)
    assert "twice" not in str(Mistakes(epsilon=1.0, neighbours="add-remove").guarantee(problem()))


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
def test_a_sampler_at_its_limits_releases_nothing(kind) -> None:
    rng = np.random.default_rng(0)
    X = 0.1 * rng.normal(size=(400, 60)) + rng.normal(size=(400, 1))
    hard = Problem(X, X[:, :9].sum(axis=1), size=6, x_bound=2.0, y_bound=9.0, radius=3.0)
    with pytest.raises(UnprovenError, match="count the budget as spent"):
        kind(epsilon=500.0, limits=Limits(nodes=3)).release(hard)


@pytest.mark.parametrize("options", [{"nodes": 0}, {"seconds": -1.0}, {"seconds": math.nan}])
def test_bad_limits(options) -> None:
    with pytest.raises(InputError, match="larger than zero"):
        Limits(**options)


@pytest.mark.parametrize("seed", [-1, "a", 1.5, True])
def test_bad_seeds(seed) -> None:
    with pytest.raises(InputError, match="random_state"):
        Exponential(epsilon=1.0).draw(problem(), 1, random_state=seed)


@pytest.mark.parametrize("kind", [TopR, Mistakes])
def test_an_unproven_search_releases_nothing(kind) -> None:
    with pytest.raises(UnprovenError, match="count the budget as spent"):
        kind(epsilon=1.0, limits=Limits(nodes=1)).release(problem(n=200, p=40, size=5))


@pytest.mark.parametrize("kind", ALL)
def test_one_support_only(kind) -> None:
    assert kind(epsilon=1.0).release(problem(p=3, size=3)).support == (0, 1, 2)
    forced = problem(p=5, size=2, include=[1, 4])
    assert kind(epsilon=1.0).release(forced).support == (1, 4)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("epsilon", [1e-9, 1e8])
def test_extreme_budgets(kind, epsilon: float) -> None:
    draws = kind(epsilon=epsilon).draw(problem(n=300), 50, random_state=0)
    different = len({tuple(row) for row in draws.tolist()})
    assert different > 5 if epsilon < 1 else different == 1


def test_repr_shows_the_options() -> None:
    assert "epsilon=2.0" in repr(TopR(epsilon=2.0, count=7))


def test_ranks_are_a_numbering() -> None:
    subsets = list(combinations(range(7), 3))
    assert sorted(rank(c) for c in subsets) == list(range(35))
    assert all(unrank(rank(c), 3, 7) == c for c in subsets)
    assert unrank(math.comb(5000, 5) - 1, 5, 5000) == (4995, 4996, 4997, 4998, 4999)
    assert unrank(0, 0, 4) == ()
    taken = [0, 3, 4, 9]
    assert [skip(i, taken) for i in range(6)] == [1, 2, 5, 6, 7, 8]


@pytest.mark.parametrize("ties", [1, 2, 15, 16, 17, 64])
def test_the_race_law_with_ties(ties: int) -> None:
    law = np.exp(race_law(np.r_[np.zeros(ties), 30.0]))
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    assert law[:ties] == pytest.approx(1 / ties, rel=1e-9)
