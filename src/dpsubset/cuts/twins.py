"""Columns that are equal row by row: a support needs only so many of them (T17)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.problem import Problem

__all__ = ["Thinned", "thin"]

_CHUNK = 64


class Thinned:
    """A problem without superfluous copies of columns, and the way back to all supports.

    Of more than t equal free columns, t the number to choose, the first t are kept: any support
    can exchange its copies for those, and scores do not change.
    """

    def __init__(self, problem: Problem, classes: list[NDArray[np.intp]]) -> None:
        self._classes = [[int(j) for j in members] for members in classes]
        t = problem.to_choose
        dropped = [j for members in self._classes for j in members[t:]]
        self.problem = problem
        if dropped:
            self.problem = copy.copy(problem)  # the caches are shared
            self.problem.free = problem.free[~np.isin(problem.free, dropped)]

    def images(self, support: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Return every support that differs from this one by an exchange of equal columns only."""
        chosen = set(support)
        twins = {j for members in self._classes for j in members}
        used = [(m, sum(j in chosen for j in m)) for m in self._classes]
        yield from _exchanged(sorted(chosen - twins), [(m, c) for m, c in used if c])


def _exchanged(rest: list[int], used: list[tuple[list[int], int]]) -> Iterator[tuple[int, ...]]:
    """Choose from one class after the other; one support at a time, for there may be very many."""
    if not used:
        yield tuple(sorted(rest))
        return
    members, count = used[0]
    for part in combinations(members, count):
        yield from _exchanged([*rest, *part], used[1:])


def thin(problem: Problem, kept: Sequence[int] = ()) -> Thinned:
    """Leave out copies of columns beyond what a support can use; columns `kept` stay."""
    t = problem.to_choose
    free = problem.free[~np.isin(problem.free, kept)]
    if t == 0 or free.size <= t:
        return Thinned(problem, [])
    features = problem.features
    norms = features.sum(problem.gram.diagonal)[free]
    products = features.sum(problem.correlations)[free]
    scale = max(float(np.abs(norms).max()), float(np.abs(products).max()), 1e-300)
    looks = np.round(np.column_stack([norms, products]) / scale, 9)
    if not features.identity:  # the columns of a category add up to zero, and so do products
        lengths = np.sqrt(features.sum(problem.correlations**2)[free])
        looks = np.column_stack([looks, np.round(lengths / scale, 9), features.widths[free]])
    _, group, count = np.unique(looks, axis=0, return_inverse=True, return_counts=True)
    classes: list[NDArray[np.intp]] = []
    for suspect in np.flatnonzero(count > t):
        classes += _equal_columns(problem, free[group.ravel() == suspect], t)
    return Thinned(problem, classes)


def _equal_columns(problem: Problem, some: NDArray[np.intp], t: int) -> list[NDArray[np.intp]]:
    """Part features that look alike into classes of equal ones; keep classes of more than t.

    They have the same number of columns, which are compared in their order.
    """
    classes = []
    while some.size > t:
        first = _taken(problem, some[:1])
        equal = np.concatenate(
            [
                (_taken(problem, some[i : i + _CHUNK]) == first).all(axis=(0, 2))
                for i in range(0, some.size, _CHUNK)
            ]
        )
        if equal.sum() > t:
            classes.append(some[equal])
        some = some[~equal]
    return classes


def _taken(problem: Problem, some: NDArray[np.intp]) -> Floats:
    """Return the columns of features of one width, an (n, features, width) array."""
    taken = problem.design.take(problem.features.columns(some))
    return taken.reshape(problem.n_rows, some.size, taken.shape[1] // some.size)
