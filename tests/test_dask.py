"""Dask arrays: products are NumPy's, releases those of one machine, a killed worker costs time."""

import os
import signal
import time

import numpy as np
import pytest

from dpsubset import SubsetSelector
from dpsubset.data.stores import as_store
from dpsubset.designs import as_design
from dpsubset.designs import dask as module
from dpsubset.errors import InputError

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

SECRET = 4242.125


def table(n: int = 600, p: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (n, p))
    X[0, 0] = SECRET
    return X, X[:, 3] + 2 * X[:, 5] + rng.normal(size=n)


def selector(seed: int) -> SubsetSelector:
    return SubsetSelector(
        n_features_to_select=2, epsilon=0.5, bounds_X=(0, 10), bounds_y=(0, 30), loss="squared",
        random_state=seed,
    )  # fmt: skip


@pytest.mark.parametrize("chunks", [(600, 12), (250, 5), (100, 1)])
def test_products(chunks: tuple[int, int]) -> None:
    X, y = table()
    rng = np.random.default_rng(1)
    U = rng.normal(size=(600, 3))
    memory = as_design(X, bound=1.0, lower=0, upper=10)
    store = as_store(da.from_array(X, chunks=chunks))
    with dask.config.set(scheduler="threads"):
        design = as_design(store, bound=1.0, lower=0, upper=10, partner=y)
        np.testing.assert_allclose(design.correlate(U), memory.correlate(U), atol=1e-11)
        np.testing.assert_allclose(design.correlate(y), memory.correlate(y), atol=1e-10)
        np.testing.assert_allclose(design.square_norms(), memory.square_norms(), rtol=1e-14)
        np.testing.assert_array_equal(design.take([11, 0, 4]), memory.take([11, 0, 4]))
        assert design.passes == 2


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_the_same_release(scheduler: str) -> None:
    X, y = table()
    expected = [selector(s).fit(X, y).get_support().tolist() for s in range(4)]
    assert len({tuple(e) for e in expected}) > 1
    lazy = da.from_array(X, chunks=(200, 7))
    with dask.config.set(scheduler=scheduler):
        found = [selector(s).fit(lazy, y).get_support().tolist() for s in range(4)]
    assert found == expected


def test_tasks_are_named_by_numbers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    names: list[str] = []
    honest = dask.compute

    def listening(*lazy, **options):
        names.extend(str(one.key) for one in lazy)
        return honest(*lazy, **options)

    monkeypatch.setattr(dask, "compute", listening)
    with dask.config.set(scheduler="synchronous"):
        selector(0).fit(da.from_array(X, chunks=(300, 6)), y)
    assert names
    assert all(name.startswith("dpsubset-") for name in names)
    assert not any("4242" in name for name in names)
    assert len(set(names)) == len(names)


def test_a_worker_that_fails_for_good_is_told_without_its_words() -> None:
    def broken(block):
        raise ValueError(f"the cell {SECRET} is wrong")

    X, y = table()
    lazy = da.from_array(X, chunks=(300, 12)).map_blocks(broken, dtype=float, meta=np.empty((0, 0)))
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(InputError, match="Dask could not compute") as told,
    ):
        selector(0).fit(lazy, y)
    assert "4242" not in str(told.value)
    assert told.value.__cause__ is None


def test_entries_that_are_not_finite() -> None:
    X, y = table()
    X[599, 11] = np.nan
    with dask.config.set(scheduler="synchronous"), pytest.raises(InputError, match="missing or"):
        selector(0).fit(da.from_array(X, chunks=(300, 6)), y)


def test_unknown_chunks_are_refused() -> None:
    X, y = table()
    lazy = da.from_array(X, chunks=(300, 12))
    with pytest.raises(InputError, match="chunk sizes are known"):
        selector(0).fit(lazy[lazy[:, 1] > 5], y)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_workers_one_of_which_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    X, y = table()
    expected = selector(1).fit(X, y).get_support().tolist()
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(processes=True, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        lazy = client.persist(da.from_array(X, chunks=(100, 4)))
        distributed.wait(lazy)
        assert selector(1).fit(lazy, y).get_support().tolist() == expected
        asked, killed = module._computed, []

        def killing(tasks):
            if not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)
                time.sleep(0.1)
            return asked(tasks)

        monkeypatch.setattr(module, "_computed", killing)
        assert selector(1).fit(lazy, y).get_support().tolist() == expected
        assert killed
