"""All cores for one product: its columns are parted, so that no sum depends on their number."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

__all__ = ["cores", "in_parallel", "shares"]


def shares(first: int, last: int, step: int = 1) -> list[tuple[int, int]]:
    """Part a range of columns among the cores, at multiples of a step.

    >>> all(a % 4 == 0 for a, _ in shares(0, 10, 4))
    True
    """
    count, steps = cores(), -(-(last - first) // step)
    ends = [min(first + step * (steps * k // count), last) for k in range(count + 1)]
    return [(a, b) for a, b in pairwise(ends) if a < b]


def cores() -> int:
    """Return how many cores this process may use, or OMP_NUM_THREADS if that is less."""
    known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(known or 1, int(asked) if asked.isdigit() and int(asked) else 1 << 16))


def in_parallel(work: Callable[[Any], None], parts: list[Any]) -> None:
    """Do some work on all parts, which do not touch each other."""
    if len(parts) < 2:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(len(parts)) as pool:
        for done in [pool.submit(work, part) for part in parts]:
            done.result()
