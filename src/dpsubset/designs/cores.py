"""All cores for one product: it is parted so that no sum depends on their number.

The library beneath (BLAS) is given one core meanwhile. Samplers make very many small products, for
which its threads wait for each other: on a busy machine that takes several times as long.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, TypeVar, cast

from dpsubset.arrays import Floats
from dpsubset.checks import whole
from dpsubset.sums import row_blocks

__all__ = [
    "add_blocks",
    "blas_alone",
    "check_jobs",
    "cores",
    "in_parallel",
    "mapped",
    "shares",
    "using",
]

A = TypeVar("A")
B = TypeVar("B")
_JOBS: ContextVar[int | None] = ContextVar("jobs", default=None)  # cores that may be used
_DEAR = 20_000_000  # multiplications from which a block of rows is worth a thread


class _Blas:
    """The threads of BLAS, a number that a whole process shares: the last to leave restores it.

    There is no lock, so that none is left behind by who is interrupted. If one enters just when the
    last leaves, BLAS may keep its threads for that one's work.
    """

    def __init__(self) -> None:
        self._inside: set[int] = set()
        self._libraries: Any = None
        self._limit: Any = None

    def enter(self, who: int) -> None:
        self._inside.add(who)
        if self._libraries is None:
            from threadpoolctl import ThreadpoolController

            self._libraries = ThreadpoolController().select(user_api="blas")
        if self._limit is None:
            self._limit = self._libraries.limit(limits=1)

    def leave(self, who: int) -> None:
        self._inside.discard(who)
        if self._inside or self._limit is None:
            return
        self._limit.restore_original_limits()
        self._limit = self._libraries.limit(limits=1) if self._inside else None


_BLAS = _Blas()


@contextmanager
def blas_alone() -> Iterator[None]:
    """Let BLAS use one core in this context; large products are parted by `add_blocks`."""
    own = object()
    try:
        _BLAS.enter(id(own))
        yield
    finally:
        _BLAS.leave(id(own))


def add_blocks(out: Floats, part: Callable[[slice], Floats], n: int, work: float) -> None:
    """Add what a function makes of each block of n rows, in order; `work` is the cost of a row."""
    blocks = list(row_blocks(n))
    together = cores() if blocks and work * (blocks[0].stop - blocks[0].start) > _DEAR else 1
    if min(together, len(blocks)) < 2:
        for rows in blocks:
            out += part(rows)
        return
    with ThreadPoolExecutor(together) as pool:
        for first in range(0, len(blocks), together):
            for made in pool.map(part, blocks[first : first + together]):
                out += made


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
