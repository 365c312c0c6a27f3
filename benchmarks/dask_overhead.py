"""What a Dask array costs beside the same table in memory: products and a whole release.

`python -m benchmarks.dask_overhead` starts two worker processes on this machine. Seconds are of
CPUs, the client's and the workers' together, and of the wall, which says little where other work
runs; the least of several in one run. A line goes to benchmarks/dask_overhead.jsonl.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np

from dpsubset import SubsetSelector
from dpsubset.data.stores import as_store
from dpsubset.designs import as_design

__all__ = ["measured"]

_workers: Any = distributed  # not annotated
RESULTS = Path(__file__).with_suffix(".jsonl")
_TIMES = 7


def _best(
    work: Callable[[], Any], spent: Callable[[], float], times: int = _TIMES
) -> dict[str, float]:
    """Return the least seconds that some work took, of the wall and of all CPUs."""
    wall, cpu = [], []
    for _ in range(times):
        began, before = time.perf_counter(), spent()
        work()
        wall.append(time.perf_counter() - began)
        cpu.append(spent() - before)
    return {"wall": min(wall), "cpu": min(cpu)}


def _selector() -> SubsetSelector:
    return SubsetSelector(
        n_features_to_select=3, epsilon=3.0, bounds_X=(0, 10), bounds_y=(0, 40), loss="squared",
        ridge=500.0, random_state=1,
    )  # fmt: skip


def measured(n: int, p: int, chunks: tuple[int, int]) -> dict[str, Any]:
    """Time one product, products with eight vectors, eight columns, and a release."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (n, p))
    y = X[:, :3].sum(axis=1) + rng.normal(size=n)
    u, U, columns = rng.normal(size=n), rng.normal(size=(n, 8)), list(range(0, p, p // 8))[:8]
    found: dict[str, Any] = {"n": n, "p": p, "chunks": list(chunks)}

    def line(name: str, table: Any, spent: Callable[[], float] = time.process_time) -> list[int]:
        design = as_design(as_store(table), bound=1.0, lower=0, upper=10)
        chosen: list[list[int]] = []

        def release() -> None:
            chosen.append(_selector().fit(table, y).get_support(indices=True).tolist())

        found[name] = {
            "product": _best(lambda: design.correlate(u), spent),
            "eight_products": _best(lambda: design.correlate(U), spent),
            "eight_columns": _best(lambda: design.take(columns), spent),
            "release": _best(release, spent, 3),
        }
        return chosen[0]

    same = [line("memory", X)]
    arrays: Any = da
    lazy = arrays.from_array(X, chunks=chunks)
    with dask.config.set(scheduler="threads"):
        same.append(line("threads", lazy))
    options: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": None}
    with (
        _workers.LocalCluster(n_workers=2, processes=True, **options) as cluster,
        _workers.Client(cluster) as client,
    ):
        held = client.persist(lazy)
        _workers.wait(held)

        def all_of_us() -> float:
            return time.process_time() + float(sum(client.run(time.process_time).values()))

        same.append(line("two worker processes", held, all_of_us))
    found["same_release"] = same[0] == same[1] == same[2]
    return found


if __name__ == "__main__":
    told = measured(16_384, 2000, (4096, 1000))
    with RESULTS.open("a") as file:
        file.write(json.dumps(told) + "\n")
    print(json.dumps(told, indent=1))
