"""All cores for one product: its columns are parted, so that no sum depends on their number."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, TypeVar, cast

from dpsubset.checks import whole

__all__ = ["check_jobs", "cores", "in_parallel", "mapped", "shares", "using"]

A = TypeVar("A")
B = TypeVar("B")
_JOBS: ContextVar[int | None] = ContextVar("jobs", default=None)  # cores that may be used


def check_jobs(jobs: Any, name: str) -> int | None:
    """Return how many cores were asked for; None for all, which -1 stands for, too."""
    if jobs is None or (jobs == -1 and not isinstance(jobs, bool)):
        return None
    return whole(jobs, name, 1)


@contextmanager
def using(jobs: int | None) -> Iterator[None]:
    """Let work in this context use so many cores; None changes nothing."""
    token = _JOBS.set(_JOBS.get() if jobs is None else jobs)
    try:
        yield
    finally:
        _JOBS.reset(token)


def shares(first: int, last: int, step: int = 1) -> list[tuple[int, int]]:
    """Part a range of columns among the cores, at multiples of a step.

    >>> all(a % 4 == 0 for a, _ in shares(0, 10, 4))
    True
    """
    count, steps = cores(), -(-(last - first) // step)
    ends = [min(first + step * (steps * k // count), last) for k in range(count + 1)]
    return [(a, b) for a, b in pairwise(ends) if a < b]


def cores() -> int:
    """Return how many cores may be used: what this process has, less if fewer are asked for.

    That is by `n_jobs`, or by OMP_NUM_THREADS.
    """
    known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    asked = os.environ.get("OMP_NUM_THREADS", "")
    most = int(asked) if asked.isdigit() and int(asked) else 1 << 16
    return max(1, min(known or 1, most, _JOBS.get() or 1 << 16))


def in_parallel(work: Callable[[Any], None], parts: list[Any]) -> None:
    """Do some work on all parts, which do not touch each other."""
    if len(parts) < 2:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(len(parts)) as pool:
        for done in [pool.submit(work, part) for part in parts]:
            done.result()


def mapped(work: Callable[[A], B], given: list[A]) -> list[B]:
    """Return what some work makes of each, in order.

    >>> mapped(lambda x: 2 * x, [1, 2, 3])
    [2, 4, 6]
    """
    found: list[B | None] = [None] * len(given)

    def some(ends: tuple[int, int]) -> None:
        for i in range(*ends):
            found[i] = work(given[i])

    in_parallel(some, shares(0, len(given)))
    return cast(list[B], found)
