"""Cuts from dual points lie below every score of their region, for every loss (T10, T12, T19).

Regions are random, with and without partial columns, all their supports are listed, and their
scores come from brute force. Three twins must be caught: a ball that is too small, a dual point
outside the conjugates' domain, and a constant a little too high.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from clone import CLONE
from numba import config
from oracle import LOSSES, Case, kinds, random_case, sizes
from regions import listed, listed_partial, margin, partial_region, random_region

from dpsubset import Problem
from dpsubset.cuts import Cut, cut_maker
from dpsubset.cuts.dual import DualCuts
from dpsubset.cuts.region import Region, root
from dpsubset.cuts.start import start
from dpsubset.cuts.symmetric import log_total
from dpsubset.designs import ColumnCache
from dpsubset.errors import UnprovenError
from dpsubset.losses import LOSSES as LOSSES_BY_NAME

SHAPES = sizes(9)
CASES = 9 if config.DISABLE_JIT else 60
KAPPAS = (0.01, 1.0, 100.0)  # in units of 1 / Delta


def nth_case(index: int, loss: str) -> Case:
    """Draw a problem; the step through the shapes keeps the first few from being tiny."""
    p, size = SHAPES[(7 * index + 22) % len(SHAPES)]
    return random_case(20_000 + index, p, size, kinds(loss)[index % len(kinds(loss))], loss)


def make_problem(case: Case) -> Problem:
    return Problem(case.X, case.y, **case.arguments())


def make_cuts(rng: np.random.Generator, problem: Problem, region: Region) -> Iterator[Cut]:
    """Make every kind of cut that a region can have."""
    maker = cut_maker(problem)
    assert isinstance(maker, DualCuts)
    start(maker)
    whole = maker.cheap(root(problem))
    cheap = maker.cheap(region)
    yield from (cheap, maker.bound(region), maker.bound(region, whole.point))
    if region.to_choose == 0:
        return
    for kappa, guided in itertools.product(KAPPAS, (False, True)):
        guess = rng.uniform(0, 1, region.free.size) if guided else None
        worst = problem.score(start(maker)) if guided else math.inf
        kappa /= problem.sensitivity()
        better = maker.optimised(cheap, kappa, guess, worst=worst)
        yield from (better, maker.bound(region, better.point))


@pytest.mark.grid(every=5)
@pytest.mark.parametrize("loss", LOSSES)
def test_cuts_lie_below_all_scores(loss: str) -> None:
    for index in range(CASES):
        case = nth_case(index, loss)
        rng = np.random.default_rng(index)
        problem = make_problem(case)
        for left in (None, 1, 2):
            region = random_region(rng, problem, left)
            supports, positions = listed(region)
            exact = case.scores(supports)
            own = np.array([problem.score(row) for row in supports[:20].tolist()])
            for cut in make_cuts(rng, problem, region):
                assert margin(cut, positions, exact) >= 0, (index, left)
                assert margin(cut, positions[:20], own) >= 0, (index, left)


@pytest.mark.grid(every=5)
@pytest.mark.parametrize("loss", LOSSES)
def test_cuts_of_undecided_regions_lie_below_all_scores(loss: str) -> None:
    """Several regions at once, some of whose columns are chosen among a few others."""
    seen = 0
    for index in range(CASES):
        case = nth_case(index, loss)
        rng = np.random.default_rng(index)
        problem = make_problem(case)
        regions = [partial_region(rng, problem) for _ in range(2)]
        regions = [region for region in [*regions, random_region(rng, problem)] if region]
        for cut, region in zip(cut_maker(problem).cheap_all(regions), regions, strict=True):
            assert cut.region is region
            supports, positions, kept = listed_partial(region)
            seen += bool(region.partial)
            assert margin(cut, positions, case.scores(supports), kept) >= 0, index
    assert seen >= CASES // 2


@pytest.mark.parametrize("loss", LOSSES)
def test_cuts_of_whole_supports_are_nearly_their_scores(loss: str) -> None:
    """With nothing to choose the cut is the fit's own dual value."""
    for index in range(CASES):
        case = nth_case(index, loss)
        region = random_region(np.random.default_rng(index), make_problem(case), 0)
        cut = cut_maker(make_problem(case)).cheap(region)
        near = case.scores(np.sort(np.array([region.inside])))[0] - cut.constant
        assert 0 <= near <= 2e-5 * max(1, len(case.y)) * case.delta("largest")


@pytest.mark.parametrize("loss", LOSSES)
def test_optimised_cuts_are_worth_their_price(loss: str) -> None:
    """T12 on correlated columns with little ridge: less mass than the cheap cut's."""
    case = replace(random_case(3, 12, 4, "correlated", loss), x_bound=10.0, radius=2.0, ridge=0.05)
    problem = make_problem(case)
    kappa = 10.0 / problem.sensitivity()

    def mass(cut: Cut) -> float:
        return log_total(kappa * cut.weights, 4) - kappa * cut.constant

    maker = DualCuts(problem)
    start(maker)
    cheap = maker.cheap(root(problem))
    better = maker.optimised(cheap, kappa, None)
    assert mass(better) < mass(cheap) - 1
    served = cut_maker(problem)  # of a loss that bends, minorants: even the cheap ones do better
    served.expand(start(served))
    first = served.cheap(root(problem))
    assert mass(served.optimised(first, kappa, None)) < mass(cheap) - 1
    assert not served.problem.loss.bends or mass(first) < mass(better) + 0.1


def test_a_clone_of_squared_loss_has_valid_cuts() -> None:
    for index in range(CASES):
        case = nth_case(index, "squared")
        rng = np.random.default_rng(index)
        problem = Problem(case.X, case.y, **{**case.arguments(), "loss": CLONE})
        region = random_region(rng, problem, 2)
        supports, positions = listed(region)
        exact = case.scores(supports)
        for cut in make_cuts(rng, problem, region):
            assert margin(cut, positions, exact) >= 0, index


# ---- broken twins -----------------------------------------------------------------------------


class Pushed(DualCuts):
    """Takes dual points a fifth longer than the domain allows; the conjugates go on as before."""

    def _pointed(self, fit, products):  # type: ignore[no-untyped-def]
        point, y = 1.2 * fit.point, self.problem.y
        conjugates = point * y + (point**2 / 4 if self.problem.loss.name == "huber" else 0.0)
        return replace(
            super()._pointed(fit, products), constant=-conjugates.sum(), products=1.2 * products
        )


class Raised(DualCuts):
    """Adds to every constant a ten thousandth of the largest loss."""

    def _cut(self, *args, **options):  # type: ignore[no-untyped-def]
        cut = super()._cut(*args, **options)
        more = 1e-4 * self.problem.n_rows * self.problem.sensitivity("largest")
        return replace(cut, constant=cut.constant + more)


class Smaller(DualCuts):
    """Subtracts the ball's term mu r^2 only in part."""

    def _cut(self, *args, **options):  # type: ignore[no-untyped-def]
        whole = self.problem.radius
        try:
            self.problem.radius = 0.5 * whole
            return super()._cut(*args, **options)
        finally:
            self.problem.radius = whole


TWINS = [(loss, twin) for loss in LOSSES for twin in (Pushed, Raised, Smaller)]
TWINS.remove(("logistic", Pushed))  # its conjugate has no other side


def smallest_margin(case: Case, maker: type[DualCuts]) -> float:
    """Return the smallest margin over random regions, in units of the largest score."""
    smallest = math.inf
    for seed in range(12):
        rng = np.random.default_rng(seed)
        problem = make_problem(case)
        region = random_region(rng, problem, seed % 3)
        supports, positions = listed(region)
        cut = maker(problem).cheap(region)
        smallest = min(smallest, margin(cut, positions, case.scores(supports)))
    return smallest / case.scale()


@pytest.mark.grid(every=2)
@pytest.mark.parametrize(("loss", "twin"), TWINS)
def test_broken_twins_are_caught(loss: str, twin: type[DualCuts]) -> None:
    rng = np.random.default_rng(4)
    X = np.linalg.qr(rng.normal(size=(40, 8)))[0] * 3 + 0.05 * rng.normal(size=(40, 8))
    y = X @ rng.normal(size=8) + 0.1 * rng.normal(size=40)
    y = np.sign(y) if loss in ("hinge", "logistic") else y
    case = Case("plain", X, y, 4, 10.0, 10.0 if loss in LOSSES[:3] else 1.0, 0.5, 0.0, loss=loss)
    assert smallest_margin(case, DualCuts) >= 0
    assert smallest_margin(case, twin) < -1e-5


# ---- sizes that are out of the ordinary ---------------------------------------------------------


@pytest.mark.skipif(config.DISABLE_JIT, reason="slow as plain Python")
def test_more_columns_to_choose_than_a_descent_looks_at() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (30, 270)), rng.choice([-1.0, 1.0], 30)
    problem = Problem(X, y, size=260, loss="hinge", x_bound=1, radius=1.0, ridge=1.0)
    maker = cut_maker(problem)
    better = maker.optimised(maker.cheap(root(problem)), 1.0)
    assert np.isfinite(better.weights).all()
    support = tuple(range(260))
    assert better.constant - better.weights[:260].sum() <= problem.score(support)


def test_supports_larger_than_the_store_of_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-1, 1, (20, 70)), rng.uniform(-1, 1, 20)
    given = {"size": 66, "loss": "absolute", "x_bound": 1, "y_bound": 1, "radius": 1.0}
    problem, small = Problem(X, y, **given), Problem(X, y, **given)
    monkeypatch.setattr("dpsubset.problem.ColumnCache", lambda design: ColumnCache(design, 1))
    supports = np.array([range(66), range(4, 70)], dtype=np.intp)
    expected = [problem.score(row) for row in supports.tolist()]
    assert small.columns.room < 66
    unit = 1e-9 * 20 * problem.sensitivity("largest")
    np.testing.assert_allclose(cut_maker(small).scores(supports), expected, rtol=0, atol=unit)


def test_rows_that_a_loss_does_not_come_to_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Halting(type(CLONE)):  # type: ignore[misc]
        name = "halting"

        @staticmethod
        def rows(y, w, sigma, parameters, value, slope, curve):  # type: ignore[no-untyped-def]
            for i in range(y.size - 1):
                value[i] = slope[i] = curve[i] = 0.0

    monkeypatch.setitem(LOSSES_BY_NAME, "halting", Halting)
    X, y = np.eye(4), np.ones(4)
    problem = Problem(X, y, size=2, loss="halting", x_bound=1, y_bound=1, radius=1.0)
    with pytest.raises(UnprovenError, match="as precisely as the guarantee needs"):
        problem.score([0, 1])
