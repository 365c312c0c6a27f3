"""A limit on seconds is kept: by a clock of our own that moves with the work, no time is taken."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dpsubset import (
    Exponential,
    MarkovChain,
    Mistakes,
    PermuteAndFlip,
    Problem,
    SampleAggregate,
    TopR,
    limits,
    sampling,
    search,
)
from dpsubset.cuts import cut_maker
from dpsubset.designs import dense
from dpsubset.errors import UnprovenError
from dpsubset.limits import Allowance, Limits, OutOfTime
from dpsubset.losses import Loss, as_loss
from dpsubset.mechanisms import l1_svm
from dpsubset.sampling import drawing


class Clock:
    """Stands still between steps; every look at it may be a step, too."""

    def __init__(self, each_look: float = 0.0) -> None:
        self.now = 1000.0
        self.looks = 0
        self._each = each_look

    def __call__(self) -> float:
        self.looks += 1
        self.now += self._each
        return self.now

    def moved_by(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, with a second for each of its calls."""

        def moving(*given: Any, **options: Any) -> Any:
            self.now += 1.0
            return function(*given, **options)

        return moving


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(limits.time, "monotonic", made)
    return made


def table(n: int, p: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Near-copies of a few columns; a target that hardly depends on them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))[:, rng.integers(4, size=p)] + 0.3 * rng.normal(size=(n, p))
    return X, 0.1 * X[:, 0] + rng.normal(size=n)


def problem(n: int = 60, p: int = 14, size: int = 5, loss: str = "squared") -> Problem:
    X, y = table(n, p)
    if as_loss(loss).classification:
        labels = {"loss": loss, "classes": (-1, 1)}
        return Problem(X, np.sign(y), size=size, x_bound=2.0, radius=1.0, **labels)
    return Problem(X, y, size=size, loss=loss, x_bound=2.0, y_bound=2.0, radius=1.0)


def test_the_compiled_search_looks_at_the_clock_between_leaves(monkeypatch) -> None:
    """A list with room takes every support: a node may have hundreds of leaves, one region all."""
    monkeypatch.setattr(limits.time, "monotonic", Clock(each_look=1.0))
    found = search.top(problem(p=40, size=6), 300_000, limits=Limits(seconds=40))
    assert not any(f.proven for f in found)
    assert len(found) < 40_000  # some 300 for each look, and the one-swaps


FITTED = {
    "best": lambda p, given: search.best(p, limits=given),
    "mistakes": lambda p, given: search.best_by_mistakes(p, limits=given),
    "permute-and-flip": lambda p, given: PermuteAndFlip(50.0, limits=given).experiment(p, 0),
    "top": lambda p, given: TopR(50.0, limits=given).experiment(p, 0),
    "chain": lambda p, given: MarkovChain(5.0, start="greedy", limits=given).experiment(p, 0),
}


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("after", [1, 4, 12, 30, 45])
@pytest.mark.parametrize("name", FITTED)
def test_no_more_fits_after_the_deadline(monkeypatch, clock, name, after) -> None:
    """A second a fit: one may be under way at the deadline, one more makes an answer.

    The best at every number of mistakes are up to five answers more, each of which needs a score.
    """
    begun = clock.now
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)
    monkeypatch.setattr(Loss, "fit", clock.moved_by(Loss.fit))
    given = problem(n=2000, loss="absolute")
    if name in ("best", "mistakes"):
        answer = FITTED[name](given, Limits(seconds=after))
        assert not any(f.proven for f in (answer if isinstance(answer, list) else [answer]))
    else:
        with pytest.raises(UnprovenError) as caught:
            FITTED[name](given, Limits(seconds=after))
        assert (type(caught.value), str(caught.value)) == (UnprovenError, limits.REFUSED)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert after <= clock.now - begun <= after + (7 if name == "mistakes" else 2)


@pytest.mark.parametrize("loss", ["absolute", "logistic"])
def test_a_fit_ends_by_the_clock(monkeypatch, loss) -> None:
    given = problem(n=50_000, p=4, size=3, loss=loss)
    ticking = Clock(each_look=1.0)
    monkeypatch.setattr(limits.time, "monotonic", ticking)
    timed = given.within(Allowance(Limits(seconds=1)))
    before = ticking.looks
    with pytest.raises(OutOfTime):
        timed.score([0, 1, 2])
    assert ticking.looks - before <= 3
    with pytest.raises(OutOfTime):
        cut_maker(timed).extended((0, 1), np.array([2, 3]))
    assert given.score([0, 1, 2]) == problem(n=50_000, p=4, size=3, loss=loss).score([0, 1, 2])


def test_a_descent_ends_by_the_clock(monkeypatch) -> None:
    given = problem(n=20_000, p=30, size=4, loss="huber")
    cut = cut_maker(given).bound(search.branch_and_bound.root(given))
    ticking = Clock(each_look=1.0)
    monkeypatch.setattr(limits.time, "monotonic", ticking)
    timed = cut_maker(given.within(Allowance(Limits(seconds=3))))
    before = ticking.looks
    with pytest.raises(OutOfTime):
        timed.optimised(cut, 100.0)
    assert ticking.looks - before <= 5


def test_a_long_list_of_scores_ends_by_the_clock(clock) -> None:
    timed = problem(p=22, size=7).within(Allowance(Limits(seconds=1)))
    supports = np.array(list(combinations(range(22), 7)))
    maker = cut_maker(timed)
    assert len(maker.scores(supports)) == len(supports)
    clock.now += 2.0
    with pytest.raises(OutOfTime):
        maker.scores(supports)


def test_a_long_product_ends_by_the_clock(monkeypatch, clock) -> None:
    monkeypatch.setattr(dense, "_LONG", 5000)
    given = problem(n=500)
    assert np.allclose(given.design.full_gram(lambda: None), given.design.full_gram(), rtol=1e-12)
    timed = given.within(Allowance(Limits(seconds=1)))
    clock.now += 2.0
    with pytest.raises(OutOfTime):
        timed.gram.full(timed.between)
    monkeypatch.setattr(limits.time, "monotonic", Clock(each_look=1.0))
    assert not search.best(given, limits=Limits(seconds=0.5)).proven
    assert not given.gram.held


def test_what_follows_a_failed_test_has_the_seconds_that_are_left(monkeypatch, clock) -> None:
    given: list[Limits] = []

    proportional = drawing.proportional

    def watched(problem: Problem, kappa: float, limits: Limits) -> drawing.Draw:
        given.append(limits)
        return proportional(problem, kappa, limits)

    true = search.best_by_mistakes

    def slow(*asked: Any, **options: Any) -> Any:
        found = true(*asked, **options)
        clock.now += 7.0
        return found

    monkeypatch.setattr(drawing, "proportional", watched)
    monkeypatch.setattr(search, "best_by_mistakes", slow)
    asked = Limits(nodes=10**6, seconds=10)
    Mistakes(1e-3, delta=1e-9, otherwise="exponential", limits=asked).experiment(problem(), 0)
    assert given == [Limits(nodes=10**6, seconds=3)]


def test_an_svm_path_ends_by_the_clock(monkeypatch, clock) -> None:
    begun = clock.now
    monkeypatch.setattr(l1_svm, "_sweeps", clock.moved_by(l1_svm._sweeps))
    with pytest.raises(UnprovenError, match="limit"):
        SampleAggregate(1.0, blocks=2, limits=Limits(seconds=3)).experiment(
            problem(n=200, loss="hinge"), 0
        )
    assert clock.now - begun <= 5


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("kind", [PermuteAndFlip, Exponential])
def test_a_limit_that_is_not_reached_changes_no_draw(monkeypatch, kind, loss) -> None:
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)
    rows = 400 if loss == "squared" else 30
    draws = [
        kind(20.0, limits=given).draw(problem(n=rows, loss=loss), 10, random_state=3).tolist()
        for given in (None, Limits(seconds=1e6))
    ]
    assert draws[0] == draws[1]


def test_without_a_limit_no_clock_is_asked(clock) -> None:
    given = problem(n=5000, p=10, size=3, loss="absolute")
    search.best(given)
    search.best(problem(p=20))
    PermuteAndFlip(1.0).experiment(given, 0)
    assert clock.looks == 0
