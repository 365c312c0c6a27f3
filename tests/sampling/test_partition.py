"""The partition covers every support once, at every stage, with a valid envelope."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from oracle import LABELLED, LOSSES
from scipy.stats import chisquare

from dpsubset import Exponential, PermuteAndFlip, Problem, sampling
from dpsubset.cuts import Cut, CutMaker, cut_maker
from dpsubset.cuts.bending import BendingCuts
from dpsubset.cuts.moments import MomentCuts
from dpsubset.cuts.region import Region
from dpsubset.privacy import as_randomness
from dpsubset.sampling import drawing, race
from dpsubset.sampling import partition as partition_module
from dpsubset.sampling.partition import Partition, Verdict
from dpsubset.sampling.pieces import Envelope, Listed


def problem(
    seed: int, *, correlated: bool = False, loss: str = "squared", n: int = 40, **options
) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 9))
    if correlated:
        X = 0.2 * X + rng.normal(size=(n, 1))
    y = X[:, 0] - X[:, 3] + rng.normal(size=n)
    y = np.where(y > 0, 1.0, -1.0) if loss in LABELLED else y
    settings = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "ridge": 0.3, **options}
    return Problem(X, y, size=4, loss=loss, **settings)


def where(partition: Partition, support: tuple[int, ...]) -> list[float]:
    """Return the log weights that the partition's pieces give a support."""
    found = [
        float(weight)
        for single, weight in zip(partition.singles, partition.single_weights, strict=True)
        if tuple(single.tolist()) == support
    ]
    for piece in partition.pieces:
        if isinstance(piece, Listed):
            rows = [tuple(row) for row in piece.supports.tolist()]
            found += [float(piece.log_weights[rows.index(support)])] if support in rows else []
        else:
            assert isinstance(piece, Envelope)
            region = piece.region
            rest = sorted(set(support) - set(region.inside))
            place = {int(j): i for i, j in enumerate(region.free)}
            if set(region.inside) <= set(support) and all(j in place for j in rest):
                chosen = np.array([place[j] for j in rest], dtype=np.intp)
                bound = piece.cut.constant - float(piece.cut.weights[chosen].sum())
                found.append(-piece.kappa * bound)
    return found


COVERED = list(product(["squared"], range(4), [0, 30, 10**6]))
COVERED += [(loss, seed, (0, 30)[seed % 2]) for seed, loss in enumerate(LOSSES)]


@pytest.mark.parametrize(("loss", "seed", "limit"), COVERED)
def test_every_support_lies_in_one_piece_under_its_envelope(monkeypatch, loss, seed, limit) -> None:
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", limit)
    monkeypatch.setattr(partition_module, "_SEARCHES", {})
    given = problem(seed, correlated=seed % 2 == 1, loss=loss, n=40 if loss == "squared" else 12)
    partition = Partition(given, kappa=2.0)
    source = as_randomness(seed)
    for _ in range(6):
        for support in combinations(range(9), 4):
            weights = where(partition, support)
            assert len(weights) == 1
            assert weights[0] >= -2.0 * given.score(support) - 1e-9
        for _ in range(3):
            if partition.pieces:
                worst = int(np.argmax(partition.masses))
                partition.refine(worst, level=float(partition.peaks[worst]) - 1.0)
        race.draw_proportional(partition, source)


def refined(
    given: Problem, steps: int = 12, maker: CutMaker | None = None
) -> tuple[Partition, list[float]]:
    """Refine the heaviest envelope again and again; return all weights after every step, too."""
    partition = Partition(given, kappa=2.0, maker=maker)
    totals = [float(np.logaddexp.reduce(partition.masses))]
    for _ in range(steps):
        bounded = [i for i, piece in enumerate(partition.pieces) if isinstance(piece, Envelope)]
        if not bounded:
            break
        partition.refine(max(bounded, key=lambda i: partition.masses[i]))
        everything = np.concatenate([partition.masses, partition.single_weights])
        totals.append(float(np.logaddexp.reduce(everything)))
    return partition, totals


def all_below(given: Problem, partition: Partition) -> bool:
    """Whether every support lies in one piece, whose weight is not below its own."""
    found = []
    for support in combinations(range(9), 4):
        (weight,) = where(partition, support)
        found.append(weight >= -2.0 * given.score(support) - 1e-9)
    return all(found)


def envelopes_only(monkeypatch) -> None:
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)
    monkeypatch.setattr(partition_module, "_SEARCHES", {})
    monkeypatch.setattr(MomentCuts, "parted", False)


@pytest.mark.parametrize("seed", range(6))
def test_no_refinement_adds_weight(monkeypatch, seed) -> None:
    """Parts of a region inherit its cut (T14)."""
    envelopes_only(monkeypatch)
    _, totals = refined(problem(seed, correlated=True))
    assert (np.diff(totals) <= 1e-9).all()


def weight_forgotten(self: Cut, part: Region) -> Cut:
    """Hand a cut on without the weights of the columns that were taken in."""
    kept = np.isin(self.region.free, part.free)
    return Cut(part, self.constant, self.weights[kept], point=self.point)


@pytest.mark.parametrize(("within", "valid"), [(Cut.within, True), (weight_forgotten, False)])
def test_inherited_cuts_are_valid_and_a_broken_one_is_caught(monkeypatch, within, valid) -> None:
    envelopes_only(monkeypatch)
    monkeypatch.setattr(Cut, "within", within)
    found = []
    for seed in range(4):
        given = problem(seed, correlated=True)
        partition, _ = refined(given)
        found.append(all_below(given, partition))
    assert all(found) == valid


def loose_lists(monkeypatch, nats: float) -> list[int]:
    """List regions with bounds that are far too low, where a minorant bounds the region better."""
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 1)
    monkeypatch.setattr(partition_module, "_BOUNDED", 60)
    listed, lengths = BendingCuts.listed, []

    def loose(self: BendingCuts, region: Region):
        found = listed(self, region)
        lengths.append(0 if found is None else len(found[0]))
        return found and (found[0], found[1] - nats / 2.0)

    monkeypatch.setattr(BendingCuts, "listed", loose)
    return lengths


def refined_by_minorants(seed: int) -> tuple[Problem, Partition, list[float]]:
    given = problem(seed, correlated=True, loss="logistic")
    maker = cut_maker(given)
    maker.expand((0, 3, 5, 7))
    return given, *refined(given, maker=maker)


@pytest.mark.parametrize("seed", range(4))
def test_lists_of_bounds_weigh_no_more_than_their_regions_cut(monkeypatch, seed) -> None:
    lengths = loose_lists(monkeypatch, 50.0)
    _, _, totals = refined_by_minorants(seed)
    assert max(lengths) > 1
    assert (np.diff(totals) <= 1e-9).all()


def constant_too_high(self: Cut, supports: np.ndarray, kappa: float) -> np.ndarray:
    """Bound supports a unit too high."""
    weighed = replace(self, constant=self.constant + 1.0)
    return log_weights_of(weighed, supports, kappa)


log_weights_of = Cut.log_weights


@pytest.mark.parametrize(
    ("weighing", "valid"), [(log_weights_of, True), (constant_too_high, False)]
)
def test_lists_inherit_valid_bounds_and_broken_ones_are_caught(
    monkeypatch, weighing, valid
) -> None:
    loose_lists(monkeypatch, 50.0)
    monkeypatch.setattr(Cut, "log_weights", weighing)
    found = []
    for seed in range(4):
        given, partition, _ = refined_by_minorants(seed)
        found.append(all_below(given, partition))
    assert all(found) == valid


@pytest.mark.parametrize("loss", ["squared", "quantile:0.3", "logistic"])
def test_included_and_excluded_columns(monkeypatch, loss) -> None:
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)
    given = problem(1, loss=loss, n=15, include=[2], exclude=[0, 5])
    for draw in (race.draw_proportional, race.draw_race):
        partition = Partition(given, kappa=5.0)
        for _ in range(60):
            support = set(draw(partition, as_randomness(None)).tolist())
            assert 2 in support
            assert not support & {0, 5}


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_time_never_runs_backwards_in_the_race(monkeypatch, loss) -> None:
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)
    times: list[float] = []
    true_clocks = race.new_clocks

    def watched(log_weights, clocks, now, source):
        times.append(now)
        return true_clocks(log_weights, clocks, now, source)

    monkeypatch.setattr(race, "new_clocks", watched)
    source = as_randomness(4)
    settings = {"n": 40} if loss == "squared" else {"n": 10, "loss": loss}
    for seed in range(12 if loss == "squared" else 3):
        partition = Partition(problem(seed, correlated=True, ridge=0.0, **settings), kappa=30.0)
        for _ in range(20):
            times.clear()
            race.draw_race(partition, source)
            assert times == sorted(times)


def test_rejections_refine_a_poor_piece(monkeypatch) -> None:
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)
    partition, source = Partition(problem(2), kappa=1.0), as_randomness(2)
    mass = np.logaddexp.reduce([*partition.masses, *partition.single_weights])
    for _ in range(200):
        if partition.pieces:
            index = int(np.argmax(partition.masses))
            support, _ = partition.pieces[index].draw(source)
            partition.rejected(index, support, Verdict(False, 4.0, 4.0))
    now = np.logaddexp.reduce([*partition.masses, *partition.single_weights])
    assert now < mass


@pytest.mark.grid(every=6)
@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
@pytest.mark.parametrize("epsilon", [20.0, 120.0])
@pytest.mark.parametrize("counts", [(3,), (200,)])
def test_a_proven_list_with_a_tail_keeps_the_law(monkeypatch, kind, epsilon, counts) -> None:
    """Chi-square at level 1e-4, with the list adopted at the first refinement."""
    monkeypatch.setattr(drawing, "_COLUMNS", 0)
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)
    monkeypatch.setattr(partition_module, "_SEARCHES", {1: 10**6})
    monkeypatch.setattr(partition_module, "_COUNTS", counts)
    monkeypatch.setattr(Partition, "_concentrated", lambda self: True)
    adopted = []
    true_adopt = Partition._adopt
    monkeypatch.setattr(
        Partition, "_adopt", lambda self, *a: (adopted.append(1), true_adopt(self, *a))[1]
    )
    monkeypatch.setattr(MomentCuts, "patience", lambda self, region, *, split: 0.0)
    given = problem(3, correlated=True)
    mechanism = kind(epsilon=epsilon)
    supports, logs = mechanism.probabilities(given)
    index = {tuple(row): i for i, row in enumerate(supports.tolist())}
    draws = mechanism.draw(given, 4000, random_state=5)
    observed = np.bincount([index[tuple(r)] for r in draws.tolist()], minlength=len(logs))
    expected = 4000 * np.exp(logs)
    large = expected >= 5
    pooled = np.append(expected[large], expected[~large].sum())
    seen = np.append(observed[large], observed[~large].sum())
    assert chisquare(seen[pooled > 0], pooled[pooled > 0] * 4000 / pooled.sum()).pvalue > 1e-4
    if counts == (200,):
        assert adopted


def test_a_tail_of_the_wrong_height_would_be_noticed(monkeypatch) -> None:
    """The twin: a tail below the true weights gives its supports too rarely."""
    given = problem(3, correlated=True)
    mechanism = Exponential(epsilon=1.0)
    supports, logs = mechanism.probabilities(given)
    partition = Partition(given, mechanism.kappa(given))
    best = [tuple(row) for row in supports[np.argsort(-logs)][:3].tolist()]
    weights = np.array([-partition.kappa * given.score(s) for s in best])
    partition._adopt(best, weights, float(weights[-1]) - 2.0)
    source = as_randomness(0)
    draws = [tuple(race.draw_proportional(partition, source).tolist()) for _ in range(3000)]
    share = np.mean([d in best for d in draws])
    assert share > 2 * np.exp(np.sort(logs)[-3:]).sum()


def test_a_refinement_that_makes_pieces_far_heavier_is_no_error(monkeypatch) -> None:
    """Parts of very wide tables have no cut to inherit: they may weigh e^1000 times as much."""
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)
    monkeypatch.setattr(MomentCuts, "patience", lambda self, region, *, split: 0.0)
    partition = Partition(problem(0), 2.0)

    def heavier(self: Partition, index: int) -> None:
        self._stats[0, index] += 1000.0

    monkeypatch.setattr(Partition, "refine", heavier)
    heaviest = int(np.argmax(partition.masses))
    support, _ = partition.pieces[heaviest].draw(as_randomness(0))
    before = partition._gain
    partition.rejected(heaviest, support, Verdict(False, 4.0, 4.0))
    assert partition._gain < before
