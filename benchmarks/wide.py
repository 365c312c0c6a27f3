"""A table of 100,000 columns: time in passes, and memory, measured in a process of its own."""

from __future__ import annotations

import multiprocessing
import resource
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measured import Row, clipped_table, problem_of, time_best
from dpsubset.mechanisms import PermuteAndFlip
from dpsubset.warm import warm_up

__all__ = ["wide_rows"]


def wide_rows(quick: bool) -> Iterator[Row]:
    """Measure a first release on a wide float32 table, and the memory it took."""
    n, p = (300, 3000) if quick else (6000, 100_000)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        unit, releases, peak, table = pool.apply(_measure, (n, p))
    case = f"p={p}, n={n}, float32"
    for ridge, seconds in releases.items():
        name = f"first permute-and-flip release; {case}, ridge {ridge:g}"
        yield Row(name, seconds, "one float32 pass X'y", unit, at_most=25.0)
    yield Row(f"largest memory, bytes; {case}", peak, "the table", table, at_most=1.3)


def _release(X: Any, y: Any, ridge: float) -> None:
    PermuteAndFlip(epsilon=1.0).release(problem_of(X, y, 5, ridge))


def _measure(n: int, p: int) -> tuple[float, dict[float, float], float, float]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        warm_up()
        X, y = clipped_table(n, p, dtype=np.float32)
        target = y.astype(np.float32)
        unit = time_best(lambda: X.T @ target)
        releases = {ridge: time_best(partial(_release, X, y, ridge), 2) for ridge in (600.0, 50.0)}
    scale = 1 if sys.platform == "darwin" else 1024
    peak = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale)
    return unit, releases, peak, float(X.nbytes)
