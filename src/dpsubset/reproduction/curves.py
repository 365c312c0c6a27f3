"""From rows of trials to curves: means, standard errors, and the rows that 90% recovery needs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpsubset.reproduction.trial import Row

__all__ = ["Point", "curves", "needed", "needed_text", "tables_text"]


@dataclass(frozen=True)
class Point:
    """A mean over trials at one value of the axis."""

    value: float
    mean: float
    error: float  # standard error of the mean; not a number for one trial
    trials: int
    estimate: float | None = None  # by draws, where the mean is of exact chances


def curves(rows: Iterable[Row], panel: str, metric: str) -> dict[str, list[Point]]:
    """Return the points of every method, by value.

    For the fraction of correct supports the exact chance is taken where it is known.

    >>> row = {"panel": "p", "value": 10, "trial": 0, "method": "m", "fraction": 0.5, "chance": 0.4}
    >>> curves([row], "p", "fraction")["m"][0].mean
    0.4
    """
    found: dict[str, dict[float, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["panel"] == panel and row.get(metric) is not None:
            found[row["method"]][row["value"]].append(row)
    return {
        method: [_point(value, group, metric) for value, group in sorted(by_value.items())]
        for method, by_value in found.items()
    }


def _point(value: float, rows: list[Row], metric: str) -> Point:
    exact = metric == "fraction" and all(row.get("chance") is not None for row in rows)
    numbers = np.array([row["chance" if exact else metric] for row in rows], dtype=np.float64)
    spread = float(numbers.std(ddof=1)) / math.sqrt(numbers.size) if numbers.size > 1 else math.nan
    drawn = [row["fraction"] for row in rows if exact and row.get("fraction") is not None]
    estimate = float(np.mean(drawn)) if drawn else None
    return Point(value, float(numbers.mean()), spread, numbers.size, estimate)


def needed(points: list[Point], share: float = 0.9) -> float:
    """Return where a curve first comes to a share, by straight lines; infinity if nowhere.

    >>> needed([Point(10, 0.0, 0.1, 3), Point(20, 1.0, 0.1, 3)], 0.5)
    15.0
    """
    before: Point | None = None
    for point in points:
        if point.mean >= share:
            if before is None:
                return point.value
            rise = (share - before.mean) / (point.mean - before.mean)
            return before.value + rise * (point.value - before.value)
        before = point
    return math.inf


def needed_text(points: list[Point]) -> str:
    """Return the rows that 90% recovery needs in words.

    >>> needed_text([Point(2000, 0.5, 0.1, 3)]), needed_text([])
    ('> 2,000', '')
    """
    if not points:
        return ""
    n = needed(points)
    if n == points[0].value:
        return f"<= {n:,.0f}"
    return f"> {points[-1].value:,.0f}" if math.isinf(n) else f"{n:,.0f}"


def tables_text(rows: Iterable[Row], panel: str, values: Iterable[float] = ()) -> str:
    """Return how many tables points of a panel have, those with most first; "" if all have none.

    `values` are points that should be there.

    >>> rows = [{"panel": "p", "value": v, "trial": t} for v, t in [(5, 0), (5, 1), (7, 0)]]
    >>> tables_text(rows, "p", [5, 7, 9])
    '2 at 5; 1 at 7; 0 at 9'
    """
    seen: dict[float, set[int]] = {value: set() for value in values}
    for row in rows:
        if row["panel"] == panel:
            seen.setdefault(row["value"], set()).add(row["trial"])
    if not any(seen.values()):
        return ""
    by_count: dict[int, list[float]] = defaultdict(list)
    for value, trials in sorted(seen.items()):
        by_count[len(trials)].append(value)
    if len(by_count) == 1:
        return f"{next(iter(by_count))} a point"
    return "; ".join(
        f"{count} at {', '.join(f'{value:g}' for value in by_count[count])}"
        for count in sorted(by_count, reverse=True)
    )
