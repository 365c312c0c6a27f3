"""Tries that are drawn before they are decided, so that all cores fit them (T14).

Tries are drawn in order, and decided in order. One that is kept ends the draw, one that changes the
partition makes the others stale: what was drawn after it is thrown away, and nothing has looked at
it. How many are drawn at once never depends on the number of cores, nor on who was quick, so that a
seed gives the same release on any of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from types import TracebackType

import numpy as np

from dpsubset.designs.cores import cores
from dpsubset.problem import Begun
from dpsubset.sampling.deciding import begun_fit
from dpsubset.sampling.partition import Partition
from dpsubset.sampling.pieces import Support

__all__ = ["Ahead", "Try"]

_DEAR = 10_000  # entries of a support's columns, from which a fit costs more than a thread
_FIRST, _MOST = 1, 16  # tries that are drawn at once


@dataclass(slots=True)
class Try:
    """A support that was drawn, and what decides whether it is kept."""

    index: int  # of its piece; outside the pieces it says how the draw goes on
    now: float  # when it arrives
    support: Support = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    log_weight: float = 0.0
    height: float = 0.0  # the exponential number that its score has to stay below
    rising: Callable[[float], float] = float
    known: float | None = None  # kappa times what its score has above its bound, at least
    begun: Begun | None = None

    @property
    def question(
        self,
    ) -> tuple[float, Support, float, Callable[[float], float], float | None, Begun | None]:
        """What a partition is asked."""
        return self.height, self.support, self.log_weight, self.rising, self.known, self.begun


class Ahead:
    """The next tries of a partition; to be left as a context, which ends what was begun.

    `drawn` makes tries without end, of the partition as it is; it changes nothing but its source of
    randomness. One with an index outside the pieces is the last.
    """

    def __init__(self, partition: Partition, drawn: Callable[[], Iterator[Try]]) -> None:
        problem = partition.problem
        self._partition, self._drawn = partition, drawn
        self._most = _MOST if problem.scored_entries > _DEAR else 1
        self._waiting: deque[Try] = deque()
        self._tries: Iterator[Try] = iter(())
        self._version = -1
        self._length = self._count = 0
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._forget()
        if self._pool is not None:
            self._pool.shutdown()

    def next(self) -> Try:
        """Return the next try of the partition as it is now."""
        if self._version != self._partition.version:
            self._forget()
            self._version, self._tries = self._partition.version, self._drawn()
            self._length = min(max(self._count, _FIRST), self._most)  # as many as went well
            self._count = 0
        if not self._waiting:
            self._waiting.extend(islice(self._tries, self._length))
            if self._length > 1:
                self._partition.problem.gather([one.support for one in self._waiting])
                for one in self._waiting if cores() > 1 else ():
                    self._begin(one)
            self._length = min(2 * self._length, self._most)
        self._count += 1
        return self._waiting.popleft()

    def _begin(self, one: Try) -> None:
        """Let another core fit a try, if it will need that."""
        partition = self._partition
        inside = 0 <= one.index < len(partition.pieces)
        if not inside or partition.pieces[one.index].exact or partition.gone(one.support):
            return
        if one.known is None:
            one.known = partition.told(one.support, one.log_weight)
        if one.height < one.rising(one.known):
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(cores())
        how = one.height, one.support, one.log_weight, self._pool
        one.begun = begun_fit(partition.problem, partition.kappa, *how)

    def _forget(self) -> None:
        """Throw away what was drawn and is not decided."""
        for one in self._waiting:
            if one.begun is not None:
                one.begun.made.cancel()
        self._waiting.clear()
