"""The partition covers every support once, at every stage, with a valid envelope."""

from itertools import combinations

import numpy as np
import pytest

from dpsubset import Problem, sampling
from dpsubset.privacy import as_randomness
from dpsubset.sampling import race
from dpsubset.sampling.partition import Partition
from dpsubset.sampling.pieces import Envelope, Listed


def problem(seed: int, *, correlated: bool = False, **options) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 9))
    if correlated:
        X = 0.2 * X + rng.normal(size=(40, 1))
    y = X[:, 0] - X[:, 3] + rng.normal(size=40)
    settings = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0, "ridge": 0.3, **options}
    return Problem(X, y, size=4, **settings)


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
                found.append(-piece.kappa * piece.cut.bound(chosen))
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("limit", [0, 30, 10**6])
def test_every_support_lies_in_one_piece_under_its_envelope(monkeypatch, seed, limit) -> None:
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", limit)
    given = problem(seed, correlated=seed % 2 == 1)
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


def test_included_and_excluded_columns(monkeypatch) -> None:
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)
    given = problem(1, include=[2], exclude=[0, 5])
    for draw in (race.draw_proportional, race.draw_race):
        partition = Partition(given, kappa=5.0)
        for _ in range(60):
            support = set(draw(partition, as_randomness(None)).tolist())
            assert 2 in support
            assert not support & {0, 5}


def test_time_never_runs_backwards_in_the_race(monkeypatch) -> None:
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)
    times: list[float] = []
    true_clocks = race._new_clocks

    def watched(partition, clocks, now, source):
        times.append(now)
        return true_clocks(partition, clocks, now, source)

    monkeypatch.setattr(race, "_new_clocks", watched)
    source = as_randomness(4)
    for seed in range(12):
        partition = Partition(problem(seed, correlated=True, ridge=0.0), kappa=30.0)
        for _ in range(20):
            times.clear()
            race.draw_race(partition, source)
            assert times == sorted(times)


def test_rejections_refine_a_poor_piece(monkeypatch) -> None:
    monkeypatch.setattr(sampling, "ENUMERATION_LIMIT", 0)
    partition = Partition(problem(2), kappa=1.0)
    mass = np.logaddexp.reduce([*partition.masses, *partition.single_weights])
    for _ in range(200):
        if partition.pieces:
            partition.rejected(int(np.argmax(partition.masses)), 4.0)
    now = np.logaddexp.reduce([*partition.masses, *partition.single_weights])
    assert now < mass
