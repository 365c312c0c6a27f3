"""How much quicker two cores are than one, for p = 100,000 columns.

`python -m benchmarks.cores` on a machine with two free cores. Each kind of work is done by one core
and by two in turn, several times; the ratio is that of the shortest times. BLAS is kept to one
thread: what is compared is what the library does itself.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale_files import write_large_bed
from dpsubset import Problem
from dpsubset.cuts.dual import DualCuts
from dpsubset.data import open_table
from dpsubset.designs import as_design

__all__ = ["ratio"]

_TIMES = 7
_N, _P = 1000, 100_000


def ratio(work: Callable[[], Any], times: int = _TIMES) -> dict[str, float]:
    """Return the least seconds by one core and by two, and how they compare.

    `times` is by the wall's clock. `path` is what CPU seconds say, which other work on the machine
    disturbs less: those of one core over the longest path of two, which is what the main thread
    does by itself and half of what the others do.
    """
    best, spent, alone = {1: np.inf, 2: np.inf}, {1: np.inf, 2: np.inf}, np.inf
    work()  # compiled, and in the cache of files
    for _ in range(times):
        for count in best:
            os.environ["OMP_NUM_THREADS"] = str(count)
            began, cpu, own = time.perf_counter(), time.process_time(), time.thread_time()
            work()
            best[count] = min(best[count], time.perf_counter() - began)
            spent[count] = min(spent[count], time.process_time() - cpu)
            alone = min(alone, time.thread_time() - own) if count == 2 else alone
    path = alone + (spent[2] - alone) / 2
    return {
        "one": best[1],
        "two": best[2],
        "times": best[1] / best[2],
        "path": spent[1] / path,
    }


def main() -> None:
    """Print a line for every kind of work."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (_N, _P)).astype(np.float32)
    y = np.clip(X[:, 0] / 2 + 0.1 * rng.normal(size=_N), -1, 1)
    U = rng.normal(size=(_N, 8))
    design = as_design(X, bound=1.0, lower=-1.0, upper=1.0)
    asked: dict[str, Any] = {"x_bound": 1.0, "y_bound": 1.0, "radius": 1.0}
    problem = Problem(design, y, size=3, loss="huber", ridge=10.0, **asked)
    maker, some = DualCuts(problem), np.arange(10, 2010)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cohort.bed"
        write_large_bed(path, _N, _P, seed=1)
        packed = as_design(open_table(path), bound=1.0, lower=0, upper=2)
        kinds: dict[str, Callable[[], Any]] = {
            "products, dense": lambda: design.correlate(U),
            "products, .bed": lambda: packed.correlate(U),
            "first look, dense": lambda: as_design(X, bound=1.0, lower=-1.0, upper=1.0),
            "fits": lambda: maker.extended((0, 1), some),
        }
        for name, work in kinds.items():
            print(json.dumps({"work": name, **ratio(work)}), flush=True)


if __name__ == "__main__":
    main()
