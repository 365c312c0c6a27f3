"""What a measurement is: seconds over the seconds of a unit, both from the same run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.planning.generate import paper_table
from dpsubset.problem import Problem

__all__ = ["Row", "clipped_table", "problem_of", "time_best"]


@dataclass(frozen=True)
class Row:
    """One ratio, and what it should be if there is a wish."""

    case: str
    seconds: float
    unit: str
    unit_seconds: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def ratio(self) -> float:
        """How many units it took."""
        return self.seconds / self.unit_seconds

    @property
    def met(self) -> bool | None:
        """Whether the wish is met; None without one."""
        if self.at_most is not None:
            return self.ratio <= self.at_most
        return None if self.at_least is None else self.ratio >= self.at_least

    @property
    def wanted(self) -> str:
        """The wish in words."""
        if self.at_most is not None:
            return f"at most {self.at_most:g}"
        return "" if self.at_least is None else f"at least {self.at_least:g}"

    def shown(self) -> str:
        """Return the ratio as a phrase."""
        return f"{self.seconds:.3g} = {self.ratio:.3g} x {self.unit} {self.wanted}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "case": self.case,
            "seconds": self.seconds,
            "unit": self.unit,
            "unit_seconds": self.unit_seconds,
            "ratio": self.ratio,
            "wanted": self.wanted,
            "met": self.met,
        }


def time_best(run: Callable[[], Any], repeats: int = 3) -> float:
    """Return the least seconds of a few runs, more of them where they are short."""
    seconds: list[float] = []
    while len(seconds) < repeats or (sum(seconds) < 0.5 and len(seconds) < 10 * repeats):
        began = perf_counter()
        run()
        seconds.append(perf_counter() - began)
    return min(seconds)


def clipped_table(
    n: int,
    p: int,
    *,
    size: int = 5,
    rho: float = 0.1,
    dtype: type[np.float64] | type[np.float32] = np.float64,
) -> tuple[NDArray[np.floating], NDArray[np.float64]]:
    """Return the paper's table, clipped to [-1/2, 1/2]."""
    table = paper_table(n, p, size=size, rho=rho, seed=1, dtype=dtype)
    np.clip(table.X, -0.5, 0.5, out=table.X)
    return table.X, np.clip(table.y, -0.5, 0.5)


def problem_of(X: Any, y: Any, size: int, ridge: float) -> Problem:
    """Return a problem at the paper's bounds and radius."""
    return Problem(X, y, size=size, x_bound=0.5, y_bound=0.5, radius=1.1, ridge=ridge)
