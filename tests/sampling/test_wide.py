"""Weights that are made anew, slice by slice: bounds and draws are those of weights that are kept.

A wide table is one of more columns than `recipe.WIDE`; the tests lower that to nothing.
"""

from itertools import combinations

import numpy as np
import pytest
from oracle import chi_square

from dpsubset import Exponential, PermuteAndFlip, Problem, sampling
from dpsubset.cuts import recipe, symmetric
from dpsubset.cuts.moments import MomentCuts
from dpsubset.cuts.region import Region
from dpsubset.designs import gram
from dpsubset.privacy import as_randomness
from dpsubset.sampling import pieces
from dpsubset.sampling.partition import Partition
from dpsubset.sampling.pieces import Envelope
from dpsubset.sampling.race import draw_proportional

KAPPA = 2.0


def problem(seed: int, ridge: float = 0.3, p: int = 11, size: int = 3) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, p)) + 0.3 * rng.normal(size=(60, 1))
    y = X[:, 0] - X[:, 3] + rng.normal(size=60)
    bounds = {"x_bound": 2.0, "y_bound": 2.0, "radius": 1.0}
    return Problem(X, y, size=size, ridge=ridge, include=[1], **bounds)


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all tables wide, with slices of four columns; no Gram matrix, no list of supports."""
    monkeypatch.setattr(recipe, "WIDE", 0)
    monkeypatch.setattr(recipe, "SLICE", 4)
    monkeypatch.setattr(gram, "FULL_UP_TO", 0)
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)


def regions(case: Problem) -> list[Region]:
    free = case.free
    return [
        Region(inside, free[~np.isin(free, inside)], case.size) for inside in ((1,), (1, 0), (1, 7))
    ]


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("ridge", [0.3, 30.0])
@pytest.mark.parametrize("seed", range(4))
def test_cuts_are_those_of_weights_that_are_kept(
    monkeypatch: pytest.MonkeyPatch, seed: int, ridge: float
) -> None:
    case = problem(seed, ridge)
    maker = MomentCuts(case)
    maker.settle((0, 1, 3))
    gains = maker.gains((1, 4))  # which has other columns at hand, too
    made = [maker.cheap(region) for region in regions(case)]
    better = [maker.optimised(cut, KAPPA) for cut in made]
    further = maker.extended((1, 4), np.array([0, 5, 10]))
    assert all(cut.recipe is not None for cut in [*made, *better])
    monkeypatch.setattr(recipe, "WIDE", 1000)
    kept = [maker.cheap(region) for region in regions(case)]
    for cut, other in zip(made, kept, strict=True):
        assert cut.constant == pytest.approx(other.constant, rel=1e-12)
        np.testing.assert_allclose(cut.weights, other.weights, rtol=1e-9, atol=1e-12)
    for cut, other in zip(better, kept, strict=True):
        best = maker.optimised(other, KAPPA)
        assert cut.constant == pytest.approx(best.constant, rel=1e-9)
        np.testing.assert_allclose(cut.weights, best.weights, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(gains, maker.gains((1, 4)), rtol=1e-10)
    np.testing.assert_allclose(further, maker.extended((1, 4), np.array([0, 5, 10])), rtol=1e-12)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("twin", [False, True])
def test_every_cut_bounds_all_scores_of_its_region(
    monkeypatch: pytest.MonkeyPatch, twin: bool
) -> None:
    """A twin whose weights are those of the neighbouring columns is caught."""
    if twin:
        honest = recipe.Recipe.at
        monkeypatch.setattr(
            recipe.Recipe, "at", lambda self, columns: np.roll(honest(self, columns), 1)
        )
    broken = 0
    for seed in range(6):
        case = problem(seed)
        maker = MomentCuts(case)
        for region in regions(case):
            cut = maker.cheap(region)
            for cut_ in (cut, maker.optimised(cut, KAPPA)):
                for chosen in combinations(range(region.free.size), region.to_choose):
                    bound = cut_.constant - cut_.weights[list(chosen)].sum()
                    support = sorted([*region.inside, *region.free[list(chosen)]])
                    broken += bound > case.score(support) + case.slack
    assert (broken > 0) == twin


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("seed", range(3))
def test_a_slim_envelope_draws_what_a_full_one_draws(seed: int) -> None:
    case = problem(seed, p=90)
    maker = MomentCuts(case)
    for region in regions(case):
        cut = maker.cheap(region)
        slim = Envelope(cut, KAPPA)
        full = Envelope(type(cut)(cut.region, cut.constant, cut.weights, cut.partial), KAPPA)
        assert slim._held is None
        assert full._held is not None
        assert (slim.log_mass, slim.peak) == (full.log_mass, full.peak)
        np.testing.assert_array_equal(slim.log_weights, full.log_weights)
        for k in range(40):
            drawn, log_weight = slim.draw(as_randomness(k))
            expected, other = full.draw(as_randomness(k))
            assert drawn.tolist() == expected.tolist()
            assert log_weight == pytest.approx(other, rel=1e-12, abs=1e-12)


@pytest.mark.grid(every=2)
@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("twin", [False, True])
def test_draws_follow_their_law(monkeypatch: pytest.MonkeyPatch, twin: bool) -> None:
    """Chi-square against all supports, fixed seed, false alarms 1e-4; a twin must be caught.

    The twin draws the columns of a block as if all weighed the same.
    """
    if twin:
        honest = pieces.draw_within
        monkeypatch.setattr(
            pieces, "draw_within", lambda w, take, u, used: honest(0.0 * w, take, u, used)
        )
    case = problem(5, ridge=3.0, p=8)
    supports = [(1, *pair) for pair in combinations([0, 2, 3, 4, 5, 6, 7], 2)]
    logs = np.array([-0.05 * case.score(sorted(s)) for s in supports])
    source = as_randomness(3)
    partition = Partition(case, 0.05)
    counts = dict.fromkeys((tuple(sorted(s)) for s in supports), 0)
    for _ in range(3000):
        counts[tuple(int(j) for j in draw_proportional(partition, source))] += 1
    seen = np.array([counts[tuple(sorted(s))] for s in supports])
    p_value, cells = chi_square(seen, logs - np.logaddexp.reduce(logs))
    assert cells > 8
    assert (p_value < 1e-4) == twin


@pytest.mark.parametrize("mechanism", [Exponential, PermuteAndFlip])
def test_the_same_seed_gives_the_same_release(
    monkeypatch: pytest.MonkeyPatch, mechanism: type
) -> None:
    monkeypatch.setattr(gram, "FULL_UP_TO", 0)
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)

    def releases() -> list[list[int]]:
        case = problem(1, p=300)
        return [mechanism(2.0).experiment(case, k).support for k in range(6)]

    kept = releases()
    monkeypatch.setattr(recipe, "WIDE", 0)
    monkeypatch.setattr(recipe, "SLICE", 64)
    assert releases() == kept
    assert len(set(kept)) > 1


@pytest.mark.usefixtures("wide")
def test_pieces_of_wide_tables_hold_no_weights() -> None:
    partition = Partition(problem(0, p=40, size=4), KAPPA)
    envelopes = [piece for piece in partition.pieces if isinstance(piece, Envelope)]
    assert len(envelopes) > 3
    assert all(piece._held is None and piece._cut.weights.size == 0 for piece in envelopes)


def test_inclusions_do_not_depend_on_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    w = 3 * rng.normal(size=50)
    whole = symmetric.inclusion(w, 4)
    plain = getattr(symmetric.inclusion, "py_func", symmetric.inclusion)
    for stretch in (1, 7, 49, 50, 51):
        monkeypatch.setattr(symmetric, "_STRETCH", stretch)
        total, shares = plain(w, 4)
        assert total == pytest.approx(whole[0], rel=1e-14)
        np.testing.assert_allclose(shares, whole[1], rtol=1e-12)
    assert whole[1].sum() == pytest.approx(4.0)
