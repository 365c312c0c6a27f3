"""A little of everything on problems small enough to be run without compilation as well."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from clone import CLONE
from numba.core.dispatcher import Dispatcher
from oracle import LOSSES, Case, kinds, mistakes_of, random_case

from dpsubset import Exponential, Mistakes, PermuteAndFlip, Problem, TopR, sampling, search
from dpsubset.cuts import listing, raised, reduced, symmetric, walk
from dpsubset.designs import dense, packed
from dpsubset.losses import squared
from dpsubset.sampling import covering
from dpsubset.search import block_kernel, heap, kernel
from dpsubset.warm import warm_up

pytestmark = [pytest.mark.slow, pytest.mark.plain]


def problem(seed: int, **options) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, 8))
    if seed % 2:
        X = 0.3 * X + rng.normal(size=(25, 1))
    y = X[:, 0] + X[:, 1] - X[:, 2] + 0.3 * rng.normal(size=25)
    settings = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "ridge": 0.2, **options}
    return Problem(X, y, size=4, **settings)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("radius", [0.2, 2.0])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_searches(seed: int, radius: float, ridge: float) -> None:
    given = problem(seed, radius=radius, ridge=ridge)
    scores = {s: given.score(s) for s in combinations(range(8), 4)}
    ordered = sorted(scores.values())
    for count in (1, 7, 70):
        found = search.top(given, count)
        assert [f.score for f in found] == pytest.approx(ordered[:count], abs=1e-9)
        assert all(f.proven for f in found)
    best = set(search.best(given).support)
    for k, found in enumerate(search.best_by_mistakes(given)):
        least = min(v for s, v in scores.items() if len(set(s) - best) == k)
        assert found.score == pytest.approx(least, abs=1e-9)


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
def test_draws(kind) -> None:
    draws = kind(epsilon=1e5).draw(problem(0), 20, random_state=1)
    assert tuple(draws[0]) == search.best(problem(0)).support


# ---- every other loss, against brute force -----------------------------------------------------


def small_cases(loss: str) -> list[Case]:
    """Make one table of every kind, of at most 14 rows and 20 supports."""
    cases = []
    for kind in kinds(loss):
        case = random_case(1, 6, 3, kind, loss)
        cases.append(replace(case, X=case.X[:14], y=case.y[:14]))
    return cases


@pytest.mark.parametrize("loss", LOSSES)
def test_searches_of_every_loss(loss: str) -> None:
    for case in small_cases(loss):
        given = Problem(case.X, case.y, **case.arguments())
        supports, scores = case.supports(), case.scores()
        near = 1e-9 * len(case.y) * case.delta("largest") + 1e-300
        found = search.top(given, len(scores))
        assert [f.score for f in found] == pytest.approx(np.sort(scores).tolist(), abs=near)
        assert all(f.proven for f in found)
        k = mistakes_of(supports, found[0].support)
        for mistakes, one in enumerate(search.best_by_mistakes(given)):
            assert one.score == pytest.approx(scores[k == mistakes].min(), abs=near)
            low, high = given.interval(one.support)
            assert low <= one.score <= high


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip, TopR, Mistakes])
def test_draws_of_every_loss(kind, loss: str, monkeypatch) -> None:
    """A huge epsilon draws the best support, through the partition as well."""
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)
    case = small_cases(loss)[0]
    given = Problem(case.X, case.y, **case.arguments())
    draws = kind(epsilon=1e6).draw(given, 3, random_state=1)
    assert (draws == case.supports()[case.scores().argmin()]).all()


def test_a_clone_of_squared_loss() -> None:
    """Compiled or not, a loss of one's own is fitted by its own rows."""
    given = problem(1)
    other = problem(1, loss=CLONE)
    for s in combinations(range(8), 4):
        assert other.score(s) == pytest.approx(given.score(s), abs=1e-9)


ENTRANCES = [
    symmetric.block_tables,
    symmetric.draw_subset,
    symmetric.draw_subsets,
    symmetric.suffixes,
    symmetric.inclusion,
    raised.raised,
    reduced._extend,
    dense._peaks,
    dense._project,
    dense.scan,
    packed._products,
    packed._counts,
    packed._unpack,
    squared.solve,
    squared.support_scores,
    listing._combinations,
    heap.push,
    kernel.explore,
    block_kernel.explore_blocks,
    walk.survey,
    walk.fill,
    walk.part_bounds,
    walk.stream,
    walk.weigh,
    walk.member,
    covering._tries,
    covering._arrivals,
]


@pytest.fixture(scope="module")
def warmed() -> None:
    if isinstance(kernel.explore, Dispatcher):  # plain Python cannot be warmed, only waited for
        warm_up()


@pytest.mark.usefixtures("warmed")
@pytest.mark.parametrize("function", ENTRANCES, ids=lambda f: f.__name__)
def test_warming_up_compiles_what_is_called(function) -> None:
    assert not isinstance(function, Dispatcher) or function.signatures
