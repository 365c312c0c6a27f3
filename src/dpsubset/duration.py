"""How long an exact draw takes, from public numbers alone: said before a budget is spent.

The numbers are fitted to the map of hardness (docs/hardness.md) by
`python -m benchmarks.hardness --draw-only`, which prints them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["Duration", "Fitted", "expected", "kind_of"]


class Fitted(NamedTuple):
    """The logarithm of the seconds: linear in these; `long` is added for one table in twenty."""

    constant: float
    log_rows: float
    log_columns: float
    size: float
    log_epsilon: float
    long: float


FITTED = {
    "squared": Fitted(-9.75, 0.35, 0.7, 0.07, 0.14, 2.1),
    "bent": Fitted(-10.58, 0.68, 0.4, 0.17, 0.15, 1.9),
    "straight": Fitted(-11.02, 0.63, 0.5, 0.2, 0.28, 2.6),
    "loose": Fitted(-12.7, 0.81, 0.61, 0.24, 0.44, 3.0),  # of the map before T47
}
_FIT = 1e-7  # seconds of a fit for each of its entries


class Duration(NamedTuple):
    """Seconds of one core, for half of the tables, and for all but one in twenty.

    >>> print(Duration(usual=0.3, long=6.2))
    less than a second on most tables, some 6 seconds or more on some
    """

    usual: float
    long: float

    def __str__(self) -> str:
        return f"{_about(self.usual)} on most tables, {_about(self.long)} or more on some"


def kind_of(quadratic: bool, bends: bool, loose: bool = False) -> str:
    """Return the kind of a loss whose draws take about as long.

    `loose` is said of one for numbers that does not bend and has no ridge for every row.

    >>> kind_of(quadratic=False, bends=True), kind_of(quadratic=False, bends=False, loose=True)
    ('bent', 'loose')
    """
    if bends or quadratic:
        return "squared" if quadratic else "bent"
    return "loose" if loose else "straight"


def expected(
    kind: str, rows: float, columns: int, size: int, epsilon: float, supports: int
) -> Duration:
    """Return how long a draw of so many columns takes.

    Where supports are few, it takes no longer than to score all of them.

    >>> small = expected("bent", 5000, 70, 8, 3.0, supports=10**9)
    >>> large = expected("bent", 50_000, 500, 8, 3.0, supports=10**17)
    >>> small.usual < small.long and small.usual < large.usual
    True
    """
    fitted = FITTED[kind]
    log_usual = (
        fitted.constant
        + fitted.log_rows * math.log(max(rows, 1.0))
        + fitted.log_columns * math.log(columns)
        + fitted.size * size
        + fitted.log_epsilon * math.log(epsilon)
    )
    most = supports * (_FIT * max(rows, 1000.0) * (size + 1))
    return Duration(*(min(math.exp(log_usual + more), most) for more in (0.0, fitted.long)))


def _about(seconds: float) -> str:
    if seconds < 1.0:
        return "less than a second"
    if seconds < 90.0:
        rounded = int(seconds) if seconds < 10.0 else 10 * round(seconds / 10)
        return f"some {rounded} seconds" if rounded > 1 else "a second"
    return f"{round(seconds / 60)} minutes" if seconds < 5400 else "hours"
