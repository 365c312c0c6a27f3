"""Dask arrays: products are NumPy's, releases those of one machine, a killed worker costs time."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from dpsubset import Ledger, SubsetSelector
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


def selector(seed: int | None) -> SubsetSelector:
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


# Worker processes ---------------------------------------------------------------------------------

WORKERS = {"threads_per_worker": 1, "dashboard_address": None}


def slow():
    """Return what a worker does; made here, so that it travels as a whole."""

    def slowly(block):
        time.sleep(0.05)
        return block

    return slowly


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", [0, 1, 2])
def test_two_workers_one_of_which_is_killed_in_the_middle(
    monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """In the middle of the first look, of the first columns, and of the first product."""
    distributed = pytest.importorskip("distributed")
    X, y = table()
    expected = selector(1).fit(X, y).get_support().tolist()
    with (
        distributed.LocalCluster(n_workers=2, processes=True, **WORKERS) as cluster,
        distributed.Client(cluster) as client,
    ):
        lazy = da.from_array(X, chunks=(100, 4)).map_blocks(slow(), dtype=float, meta=X[:0])
        assert selector(1).fit(lazy, y).get_support().tolist() == expected
        asked, calls, killed = module._computed, [], []

        def killing(tasks):
            if len(calls) == call:
                victim = next(iter(client.run(os.getpid).values()))
                killed.append(victim)
                threading.Timer(0.2, os.kill, (victim, signal.SIGKILL)).start()
            calls.append(len(tasks))
            return asked(tasks)

        monkeypatch.setattr(module, "_computed", killing)
        assert selector(1).fit(lazy, y).get_support().tolist() == expected
        assert killed
        assert killed[0] not in client.run(os.getpid).values()


def deadly(path: Path):
    def dies(block):
        if path.exists():
            os._exit(1)
        return block

    return dies


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("late", [False, True])
def test_a_chunk_that_kills_every_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """Told without words of the workers; charged only if it happens after the first look."""
    distributed = pytest.importorskip("distributed")
    X, y = table()
    path = tmp_path / "die"
    ledger = Ledger(tmp_path / "budget.db", epsilon=1.0)
    if late:
        asked, calls = module._computed, []

        def dying(tasks):
            if calls:
                path.touch()
            calls.append(1)
            return asked(tasks)

        monkeypatch.setattr(module, "_computed", dying)
    else:
        path.touch()
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=2, processes=True, **WORKERS) as cluster,
        distributed.Client(cluster),
    ):
        lazy = da.from_array(X, chunks=(300, 6)).map_blocks(deadly(path), dtype=float, meta=X[:0])
        with pytest.raises(InputError, match="Dask could not compute") as told:
            selector(None).set_params(ledger=ledger).fit(lazy, y)
    assert told.value.__cause__ is None
    assert ledger.spent == ((0.5, 0.0) if late else (0.0, 0.0))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_workers_that_have_all_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    X, y = table()
    with (
        distributed.LocalCluster(n_workers=1, processes=False, **WORKERS) as cluster,
        distributed.Client(cluster) as client,
    ):
        cluster.scale(0)
        while client.scheduler_info()["workers"]:
            time.sleep(0.05)
        with pytest.raises(InputError, match="Dask could not compute"):
            selector(0).fit(da.from_array(X, chunks=(300, 12)), y)
