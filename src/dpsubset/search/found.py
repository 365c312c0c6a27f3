"""What a search returns, and what it is allowed to spend."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Budget", "Found", "Limits", "Progress", "ProgressCallback"]


@dataclass(frozen=True)
class Found:
    """A support with its score; `proven` says that no support it should yield to was missed."""

    support: tuple[int, ...]
    score: float
    proven: bool


@dataclass(frozen=True)
class Limits:
    """How much a search may spend; at a limit it stops with proven=False (T18)."""

    nodes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Progress:
    """A report from a running search: for the owner's eyes only, it depends on the data."""

    nodes: int
    open: int
    best: float
    bound: float


ProgressCallback = Callable[[Progress], None]


class Budget:
    """What is left of a search's limits, shared by all its parts; also where progress goes."""

    def __init__(self, limits: Limits | None, progress: ProgressCallback | None) -> None:
        limits = limits or Limits()
        self._left = math.inf if limits.nodes is None else limits.nodes
        self._timed = limits.seconds is not None
        self._deadline = time.monotonic() + (limits.seconds or 0.0)
        self._progress = progress
        self._spent = 0

    @property
    def over(self) -> bool:
        """Whether a limit is reached."""
        return self._left <= 0 or (self._timed and time.monotonic() > self._deadline)

    def spend(self, nodes: int) -> None:
        """Count nodes."""
        self._left -= nodes
        self._spent += nodes

    def allowance(self, most: int) -> int:
        """Return how many nodes may be searched before limits are looked at again."""
        return int(max(1, min(most // 40 if self._timed else most, self._left)))

    def report(self, waiting: int, best: float, bound: float) -> None:
        """Tell the callback, if there is one."""
        if self._progress is not None:
            self._progress(Progress(self._spent, waiting, best, bound))
