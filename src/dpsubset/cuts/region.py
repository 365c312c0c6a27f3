"""A region: the supports that contain some columns and choose the rest among others (T10)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from dpsubset.problem import Problem

__all__ = ["Region", "outside", "patterns", "root"]

_MOST_PATTERNS = 100


@dataclass(frozen=True, eq=False)
class Region:
    """All supports of `size` columns: those inside, `keep` of the partial, the rest free ones."""

    inside: tuple[int, ...]
    free: NDArray[np.intp]
    size: int
    partial: tuple[int, ...] = ()
    keep: int = 0

    @property
    def to_choose(self) -> int:
        """How many columns are still to be chosen among the free ones."""
        return self.size - len(self.inside) - self.keep

    def decide(self) -> list[Region]:
        """Return the parts with and without the first of the partial columns."""
        first, rest = self.partial[0], self.partial[1:]
        parts = []
        if self.keep > 0:
            inside = (*self.inside, first)
            parts.append(Region(inside, self.free, self.size, rest, self.keep - 1))
        if self.keep <= len(rest):
            parts.append(Region(self.inside, self.free, self.size, rest, self.keep))
        return [_settle(part) for part in parts]

    @property
    def empty(self) -> bool:
        """Whether there are too few free columns to fill a support."""
        return self.free.size < self.to_choose

    def split(self, column: int) -> list[Region]:
        """Return the non-empty parts with and without a free column."""
        others = self.free[self.free != column]
        parts = [
            Region((*self.inside, column), others, self.size),
            Region(self.inside, others, self.size),
        ]
        return [_settle(part) for part in parts if not part.empty]


def _settle(region: Region) -> Region:
    """Take in the columns when all are needed, drop them when none is."""
    if region.partial and region.keep in (0, len(region.partial)):
        inside = (*region.inside, *(region.partial if region.keep else ()))
        return _settle(Region(inside, region.free, region.size))
    if region.partial:
        return region
    if region.to_choose == 0:
        return Region(region.inside, region.free[:0], region.size)
    if region.free.size == region.to_choose:
        inside = (*region.inside, *(int(j) for j in region.free))
        return Region(inside, region.free[:0], region.size)
    return region


def root(problem: Problem) -> Region:
    """Return the region of all supports of a problem."""
    return _settle(Region(problem.include, problem.free, problem.size))


def outside(problem: Problem, support: tuple[int, ...]) -> NDArray[np.intp]:
    """Return the free columns that are not in a support."""
    return problem.free[~np.isin(problem.free, support)]


def patterns(
    problem: Problem,
    support: tuple[int, ...],
    mistakes: int,
    others: NDArray[np.intp] | None = None,
) -> list[Region]:
    """Return the parts of the supports with that many columns outside `support` (T17).

    Each part shares exactly some columns with `support`, and the included ones. Where these parts
    are many they are left together, to be parted as needed. `others` are the columns outside, where
    they are known already: one array then serves all parts.
    """
    chosen = [j for j in support if j not in problem.include]
    others = outside(problem, support) if others is None else others
    if mistakes > min(len(chosen), others.size):
        return []
    if comb(len(chosen), mistakes) > _MOST_PATTERNS:
        kept = len(chosen) - mistakes
        return [_settle(Region(problem.include, others, problem.size, tuple(chosen), kept))]
    return [
        _settle(Region((*problem.include, *kept), others, problem.size))
        for kept in combinations(chosen, len(chosen) - mistakes)
    ]
