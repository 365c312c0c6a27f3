"""Bounds of a target of numbers, from the table itself and private (T37)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp

from dpsubset.arrays import Floats
from dpsubset.checks import positive
from dpsubset.privacy import Guarantee, Randomness, check_neighbours, exponent
from dpsubset.privacy.guarantee import with_bounded_range
from dpsubset.problem import Problem
from dpsubset.sampling.deciding import draw_index

__all__ = ["GRID", "QUANTILES", "TargetBounds", "between", "rank_misses"]

_STEPS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)  # a decade, in round numbers
_POSITIVE = np.array([step * 10.0**k for k in range(-3, 9) for step in _STEPS] + [1e9])
GRID: Floats = np.concatenate([-_POSITIVE[::-1], [0.0], _POSITIVE])
QUANTILES = (0.25, 0.75)
_ROUNDING = 1e-15  # of a count less a share of all rows, in units of n (T19.4)


@dataclass(frozen=True)
class TargetBounds:
    """Two bounds of a target: around two quantiles, each drawn from a public grid (T37).

    Cells of the grid are drawn by the exponential mechanism, with half of epsilon for each of the
    two; the score of a cell is by how many rows it misses the quantile.

    >>> from dpsubset.privacy import as_randomness
    >>> y = np.linspace(10.0, 50.0, 2000)
    >>> TargetBounds(1.0, "replace-one").draw(y, as_randomness(0))
    (5.0, 65.0)
    """

    epsilon: float
    neighbours: str
    name: ClassVar[str] = "private bounds of the target"
    grid: ClassVar[Floats] = GRID

    def __post_init__(self) -> None:
        positive(self.epsilon, "epsilon of the target's bounds")
        check_neighbours(self.neighbours)

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the guarantee; it depends on public parameters only."""
        moves = self._sensitivity()
        return with_bounded_range(
            Guarantee(
                self.name,
                self.epsilon,
                self.neighbours,
                moves,
                _ROUNDING / moves,
                bounds=problem.public_bounds,
            )
        )

    def probabilities(self, y: Floats) -> tuple[Floats, Floats]:
        """Return for both quantiles the log of the exact probabilities over the cells; not private.

        `y` are the targets that there are: a row without one counts for nothing.
        """
        # A row moves scores up and down: adding one is no better than replacing one.
        kappa = exponent(self.epsilon / 2.0, self._sensitivity(), "replace-one")
        ordered = np.sort(y)
        logs = [-kappa * rank_misses(ordered, self.grid[1:-1], share) for share in QUANTILES]
        low, high = (np.asarray(law - logsumexp(law)) for law in logs)
        return low, high

    def draw(self, y: Floats, randomness: Randomness) -> tuple[float, float]:
        """Draw both quantiles and return the bounds that follow; charge nothing."""
        first, second = (draw_index(law, randomness) for law in self.probabilities(y))
        return self._between(int(first), int(second))

    def _between(self, first: int, second: int) -> tuple[float, float]:
        return between(first, second)

    def _sensitivity(self) -> float:
        """Return how far one row moves a score."""
        return 1.0 if self.neighbours == "replace-one" else max(QUANTILES)


def between(first: int, second: int) -> tuple[float, float]:
    """Return bounds from the cells of two quantiles: a public rule.

    Quantiles that crossed are exchanged; the lower counts as the left end of its cell, the upper as
    the right end, so that equal ones are parted. Then both are moved out by half their distance.

    >>> zero = len(GRID) // 2
    >>> float(GRID[zero]), between(zero, zero), between(zero + 3, zero + 1)
    (0.0, (-0.0005, 0.0015), (0.0, 0.004))
    """
    lower, upper = float(GRID[min(first, second)]), float(GRID[max(first, second) + 1])
    out = (upper - lower) / 2.0
    return lower - out, upper + out


def rank_misses(ordered: Floats, edges: Floats, share: float) -> Floats:
    """Return for every cell by how many rows it misses a quantile of sorted numbers (T37, T39).

    `edges` part the line into cells that hold their left ends; the first and the last cell have no
    other end. A cell that holds a quantile misses none.

    >>> rank_misses(np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 3.5]), 0.5)
    array([1., 0., 1.])
    """
    n, before = ordered.size, np.searchsorted(ordered, edges, side="left")
    below, above = np.append(0, before), np.append(n - before, 0)
    over = np.maximum(below - share * n, above - (1.0 - share) * n)
    return np.asarray(np.maximum(over, 0.0))
