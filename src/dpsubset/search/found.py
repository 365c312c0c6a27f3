"""What a search returns, and what it is allowed to spend."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Found", "Limits", "Progress", "ProgressCallback"]


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

    def deadline(self) -> float:
        """Return the clock time at which to stop."""
        return float("inf") if self.seconds is None else time.monotonic() + self.seconds


@dataclass(frozen=True)
class Progress:
    """A report from a running search: for the owner's eyes only, it depends on the data."""

    nodes: int
    open: int
    best: float
    bound: float


ProgressCallback = Callable[[Progress], None]
