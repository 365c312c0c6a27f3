"""What a plan says: chances and qualities at points of rows, epsilon and signal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Plan", "Point"]


@dataclass(frozen=True)
class Point:
    """Simulated tables of one kind.

    Parameters
    ----------
    rows : int
        The number of rows.
    epsilon : float
        The budget.
    signal : float
        R^2 of the true columns.
    tables : int
        How many tables were simulated.
    chance : float
        How often the true columns were released, all of them and no other.
    share : float
        The mean share of the true columns that were released.
    quality : float, optional
        The mean R^2, or AUC, of private models on fresh rows.
    best : float
        The same of the true signal, which no model can beat.
    slow : int
        Of how many tables a release took too long; those count as wrong.

    Examples
    --------
    >>> Point(1000, 1.0, 0.3, tables=4, chance=0.5).share
    0.0
    """

    rows: int
    epsilon: float
    signal: float
    tables: int = 0
    chance: float = 0.0
    share: float = 0.0
    quality: float | None = None
    best: float = 0.0
    slow: int = 0

    def __add__(self, other: Point) -> Point:
        """Return both together: means over all tables."""
        total = self.tables + other.tables

        def mean(a: float, b: float) -> float:
            return (a * self.tables + b * other.tables) / total

        quality = other.quality
        if self.quality is not None and other.quality is not None:
            quality = mean(self.quality, other.quality)
        return Point(
            *(self.rows, self.epsilon, self.signal, total),
            mean(self.chance, other.chance),
            mean(self.share, other.share),
            quality,
            mean(self.best, other.best),
            self.slow + other.slow,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the point as plain values."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class Plan:
    """The answer of `plan`: points, and what is needed for the wished chance.

    `over` is what the answer is over, "epsilon" or "rows"; `asked` are question and assumptions.

    Parameters
    ----------
    points : tuple of Point
        What was simulated.
    share : float
        The wished chance.
    over : {"epsilon", "rows"}
        What the answer is over.
    labels : bool
        Whether the target holds labels.
    asked : mapping
        Question and assumptions.

    Examples
    --------
    >>> points = [Point(1000, e, 0.3, 1, chance) for e, chance in [(1.0, 0.1), (10.0, 1.0)]]
    >>> found = Plan(tuple(points), share=0.55, over="epsilon", labels=False, asked={})
    >>> round(found.needed()[0.3], 3)
    3.162
    """

    points: tuple[Point, ...]
    share: float
    over: str
    labels: bool
    asked: Mapping[str, Any]

    @property
    def signals(self) -> list[float]:
        """The strengths of the signal, as they were given."""
        return list(dict.fromkeys(point.signal for point in self.points))

    def of(self, signal: float) -> list[Point]:
        """Return the points of one strength of the signal."""
        return [point for point in self.points if point.signal == signal]

    def needed(self) -> dict[float, float | None]:
        """Return the least epsilon, or number of rows, for the share, by strength of the signal.

        Between points chances are taken to be linear in the logarithm. None: more than was tried.
        """
        return {
            signal: _reached(
                [getattr(point, self.over) for point in self.of(signal)],
                [point.chance for point in self.of(signal)],
                self.share,
            )
            for signal in self.signals
        }

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "over": self.over,
            "share": self.share,
            "quality": "AUC" if self.labels else "R^2",
            "asked": dict(self.asked),
            "needed": [{"signal": s, self.over: value} for s, value in self.needed().items()],
            "points": [point.to_dict() for point in self.points],
        }

    def __str__(self) -> str:
        name = "AUC" if self.labels else "R^2"
        lines = [
            "signal         R^2 of the true columns",
            "right columns  how often a release is the true columns, and no other",
            "true found     how many of the true columns are in a release, on average",
            f"{name:<14} of private models, on new rows",
            "best           the same of a model that knows the truth",
            "",
            f"{'signal':>7} {self.over:>9}  right columns  true found  {name:>5}  best",
        ]
        for point in self.points:
            at = getattr(point, self.over)
            quality = "    -" if point.quality is None else f"{point.quality:5.2f}"
            slow = (
                f"  too slow, counted as wrong: {point.slow} of {point.tables}"
                if point.slow
                else ""
            )
            lines.append(
                f"{point.signal:>7g} {at:>9,g}  {point.chance:>13.0%}  {point.share:>10.0%}  "
                f"{quality}  {point.best:4.2f}{slow}"
            )
        return "\n".join([*lines, "", *self.sentences()])

    def sentences(self) -> list[str]:
        """Return what is needed, one sentence for each strength of the signal."""
        return [self._sentence(signal, value) for signal, value in self.needed().items()]

    def _sentence(self, signal: float, value: float | None) -> str:
        tried = [getattr(point, self.over) for point in self.of(signal)]
        what, wish = f"R^2 {signal:g}:", f"for the right columns in {self.share:.0%} of releases"
        if value is None:
            return f"{what} {self.over} above {max(tried):,g} {wish}"
        if value <= min(tried):
            return f"{what} {self.over} {min(tried):,g} or less {wish}"
        if self.over == "rows":
            return (
                f"{what} about {round(value, 1 - math.floor(math.log10(value))):,.0f} rows {wish}"
            )
        return f"{what} epsilon about {value:.2g} {wish}"


def _reached(at: Sequence[float], chances: Sequence[float], share: float) -> float | None:
    """Return where chances reach a share and stay there."""
    enough = [chance >= share for chance in chances]
    if not enough or not enough[-1]:
        return None
    k = len(enough) - 1
    while k and enough[k - 1]:
        k -= 1
    if not k:
        return float(at[0])
    part = (share - chances[k - 1]) / (chances[k] - chances[k - 1])
    return math.exp(math.log(at[k - 1]) + part * (math.log(at[k]) - math.log(at[k - 1])))
