"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Found"]


@dataclass(frozen=True)
class Found:
    """A support with its score; `proven` says that no support it should yield to was missed."""

    support: tuple[int, ...]
    score: float
    proven: bool
