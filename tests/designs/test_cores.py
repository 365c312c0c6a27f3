"""All cores: what is computed does not depend on their number."""

import os
import subprocess
import sys

import numpy as np
import pytest

from dpsubset import PermuteAndFlip, Problem, SubsetSelector
from dpsubset.cuts import moments
from dpsubset.cuts.dual import DualCuts
from dpsubset.designs import as_design, cores, dense
from dpsubset.designs.scaled import ScaledDesign
from dpsubset.losses import batch
from dpsubset.sampling import partition


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (-0.5, 0.9)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_first_look_and_products(
    monkeypatch: pytest.MonkeyPatch, dtype: type, bounds: tuple[float, float]
) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (50, 2500)).astype(dtype)
    y, U = rng.normal(size=50), rng.normal(size=(50, 3))
    monkeypatch.setattr(dense, "_ALONE", 0)
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(cores, "cores", lambda count=count: count)
        design = as_design(X, bound=1.0, lower=bounds[0], upper=bounds[1], partner=y)
        found.append((design.square_norms(), design.correlate(y), design.correlate(U)))
    for squares, one, several in found[1:]:
        np.testing.assert_array_equal(squares, found[0][0])
        np.testing.assert_array_equal(one, found[0][1])
        np.testing.assert_array_equal(several, found[0][2])


@pytest.mark.parametrize("count", [1, 2, 3])
def test_entries_that_are_not_finite_are_seen_by_all(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(cores, "cores", lambda: count)
    monkeypatch.setattr(dense, "_ALONE", 0)
    for place in (0, 1500, 2499):
        X = np.zeros((5, 2500))
        X[3, place] = np.nan
        with pytest.raises(ValueError, match="missing or infinite"):
            as_design(X, bound=1.0, lower=-1.0, upper=1.0)


@pytest.mark.parametrize("loss", ["absolute", "huber"])
def test_fits(monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (40, 12))
    bounds = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0}
    problem = Problem(X, X[:, 0] / 2, size=3, loss=loss, **bounds)
    columns = np.arange(2, 12)
    monkeypatch.setattr(batch, "_ALONE", 0)
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(cores, "cores", lambda count=count: count)
        found.append(DualCuts(problem).extended((0, 1), columns))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
    expected = [problem.score((0, 1, int(j))) for j in columns]
    np.testing.assert_allclose(found[0], expected, atol=1e-6)


def test_as_many_cores_as_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert cores.cores() == 8
    with cores.using(3):
        assert cores.cores() == 3
        with cores.using(None):
            assert len(cores.shares(0, 100)) == 3
    assert cores.cores() == 8
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with cores.using(3):
        assert cores.cores() == 2


@pytest.mark.large
def test_a_fit_uses_as_many_cores_as_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The release does not depend on their number."""
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(dense, "_ALONE", 0)
    seen: list[int] = []
    honest = cores.in_parallel

    def counted(work: object, parts: list[object]) -> None:
        seen.append(len(parts))
        honest(work, parts)

    monkeypatch.setattr(dense, "in_parallel", counted)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 9000)).astype(np.float32)
    found = {}
    for jobs in (1, 2, None, -1):
        seen.clear()
        asked = {"bounds_X": (-1, 1), "bounds_y": (-1, 1), "epsilon": 200.0, "random_state": 0}
        selector = SubsetSelector(n_features_to_select=2, n_jobs=jobs, **asked)
        found[jobs] = tuple(selector.fit(X, X[:, 5]).get_support(indices=True))
        assert max(seen) == (8 if jobs in (None, -1) else jobs)
    assert len(set(found.values())) == 1


@pytest.mark.parametrize("jobs", [0, -2, 1.5, True, "2"])
def test_a_wrong_number_of_cores_is_refused(jobs: object) -> None:
    selector = SubsetSelector(bounds_X=(-1, 1), bounds_y=(-1, 1), n_jobs=jobs)
    with pytest.raises(ValueError, match="n_jobs must be a whole number"):
        selector.fit(np.zeros((20, 9)), np.zeros(20))


@pytest.mark.large
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_cuts_and_envelopes_of_many_regions(monkeypatch: pytest.MonkeyPatch, loss: str) -> None:
    """One core or several, cut by cut or all of them: the same masses, and the same draws."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (40, 300))
    bounds = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0}
    masses, draws = [], []
    for spread, count in ((10**9, 1), (0, 1), (0, 2), (0, 3)):
        monkeypatch.setattr(moments, "_SPREAD", spread)
        monkeypatch.setattr(partition, "_SPREAD", spread)
        monkeypatch.setattr(cores, "cores", lambda count=count: count)
        problem = Problem(X, X[:, 0] / 2, size=3, loss=loss, ridge=2.0, **bounds)
        masses.append(partition.Partition(problem, 3.0).masses.tolist())
        draws.append(PermuteAndFlip(3.0).draw(problem, 20, random_state=0).tolist())
    assert masses[0] == masses[1] == masses[2] == masses[3]
    assert draws[0] == draws[1] == draws[2] == draws[3]


@pytest.mark.large
def test_a_cut_of_another_region_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the above: what threads make comes back in another order."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (40, 300))
    monkeypatch.setattr(moments, "_SPREAD", 0)
    problem = Problem(X, X[:, 0] / 2, size=3, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=2.0)
    honest = partition.Partition(problem, 3.0).masses.tolist()
    monkeypatch.setattr(moments, "mapped", lambda work, given: [work(one) for one in given[::-1]])
    assert partition.Partition(problem, 3.0).masses.tolist() != honest


def test_results_keep_their_order() -> None:
    with cores.using(3):
        assert cores.mapped(lambda x: x + 1, list(range(20))) == list(range(1, 21))
        assert cores.mapped(lambda x: x, []) == []


def test_large_products_are_parted_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (9000, 20))
    design = as_design(X, bound=1.0, partner=np.zeros(9000))
    scaled = ScaledDesign(design, rng.random(9000))
    U = rng.normal(size=(9000, 3))
    monkeypatch.setattr(cores, "_DEAR", 0)
    found = []
    for count in (1, 2, 3):
        monkeypatch.setattr(cores, "cores", lambda count=count: count)
        found.append((design.full_gram(), scaled.full_gram(), design.correlate(U)))
    for one in found[1:]:
        for now, then in zip(one, found[0], strict=True):
            np.testing.assert_array_equal(now, then)


THREADS = """
import numpy as np
from threadpoolctl import threadpool_info
from dpsubset import PermuteAndFlip, Problem
from dpsubset.designs import cores

def threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

X = np.random.default_rng(3).uniform(-1, 1, (40, 6))
problem = Problem(X, X[:, 0], size=2, x_bound=1.0, y_bound=1.0, radius=1.0, ridge=0.1)
seen, sampler = [], PermuteAndFlip._sampler

def watched(self, problem):
    seen.append(threads())
    return sampler(self, problem)

PermuteAndFlip._sampler = watched
assert threads() == {2}
PermuteAndFlip(1.0).draw(problem, 2, random_state=0)
PermuteAndFlip(1.0).release(problem)
assert seen == [{1}, {1}]
assert threads() == {2}

first, second = cores.blas_alone(), cores.blas_alone()
first.__enter__()
second.__enter__()
first.__exit__(None, None, None)
assert threads() == {1}, "the last to leave restores"
try:
    with cores.blas_alone():
        raise RuntimeError
except RuntimeError:
    assert threads() == {1}
second.__exit__(None, None, None)
assert threads() == {2}
print("restored")
"""


@pytest.mark.slow
def test_blas_has_one_core_within_a_release_and_what_it_had_afterwards() -> None:
    """In a process of its own: tests may run where BLAS has one core and cannot have more."""
    done = subprocess.run(
        [sys.executable, "-c", THREADS],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "restored\n", done.stderr
