"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Found"]


@dataclass(frozen=True)
class Found:
    """A support with its score, and how far the search has proven its place.

    Every support that could stand in its place (one that is not before it on the list, or that has
    as many mistakes) scores at least `score - gap`. `proven` says that the search came to its end:
    for branch and bound the gap is then 0, up to rounding; any other solver has reached its
    tolerance.

    Parameters
    ----------
    support : tuple of int
        The features.
    score : float
        Their score.
    proven : bool
        Whether the search came to its end.
    gap : float
        By how much another support may be better, at most.

    Examples
    --------
    >>> Found((1, 3), 0.0, proven=True).gap
    0.0
    """

    support: tuple[int, ...]
    score: float
    proven: bool
    gap: float = 0.0
