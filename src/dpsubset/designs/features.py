"""A feature is a block of columns that enter or leave a support together (T32)."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.errors import InputError, without_context

__all__ = ["Features"]

_WRONG = (
    "groups must part the columns 0 to {} into features: a list of lists of columns, none of them "
    "empty, every column in exactly one, as in [[0], [1, 2, 3], [4, 5]]"
)


@dataclass(frozen=True)
class Features:
    """The features among which supports choose, each a block of columns.

    Without groups feature j is column j, and nothing here costs anything.

    >>> features = Features(3, ((0,), (1, 2, 3), (4, 5)))
    >>> features.columns([2, 1])
    array([4, 5, 1, 2, 3])
    >>> features.sum(np.array([1.0, 1.0, 2.0, 3.0, 4.0, 5.0]))
    array([1., 6., 9.])
    """

    count: int
    groups: tuple[tuple[int, ...], ...] | None = None

    @classmethod
    def of(cls, groups: Sequence[Sequence[int]] | None, n_columns: int) -> Features:
        """Check the groups a user gave; None means one feature a column."""
        if groups is None:
            return cls(n_columns)
        given = _listed(groups, n_columns)
        listed = [j for group in given for j in group]
        if sorted(listed) != list(range(n_columns)) or () in given:
            raise InputError(_WRONG.format(n_columns - 1))
        if len(given) == n_columns and listed == list(range(n_columns)):
            return cls(n_columns)
        return cls(len(given), given)

    def __len__(self) -> int:
        return self.count

    @property
    def identity(self) -> bool:
        """Whether feature j is column j."""
        return self.groups is None

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The columns, feature by feature."""
        if self.groups is None:
            return np.arange(self.count)
        return np.array([j for group in self.groups for j in group], dtype=np.intp)

    @cached_property
    def widths(self) -> NDArray[np.intp]:
        """How many columns each feature has."""
        if self.groups is None:
            return np.broadcast_to(np.intp(1), (self.count,))
        return np.array([len(group) for group in self.groups], dtype=np.intp)

    def width(self, support: NDArray[np.intp]) -> int:
        """Return how many columns some features have together."""
        return support.size if self.identity else int(self.widths[support].sum())

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where each feature begins in `order`; at the end, where the last one ends."""
        return np.concatenate([[0], np.cumsum(self.widths)]).astype(np.intp)

    @cached_property
    def of_column(self) -> NDArray[np.intp]:
        """The feature of every column."""
        out = np.empty(self.n_columns, dtype=np.intp)
        out[self.order] = np.repeat(np.arange(self.count), self.widths)
        return out

    @property
    def n_columns(self) -> int:
        """How many columns there are in all."""
        return self.count if self.groups is None else self.order.size

    def columns(self, support: Iterable[int] | NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the columns of the features in a support, in the order of the support."""
        chosen = np.asarray(support, dtype=np.intp)
        if self.identity:
            return chosen
        return self.order[self.places(chosen)]

    def places(self, support: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return where in `order` the columns of some features are."""
        widths = self.widths[support]
        ends = np.cumsum(widths)
        shift = np.repeat(self.starts[support] - (ends - widths), widths)
        return np.asarray(np.arange(int(widths.sum())) + shift, dtype=np.intp)

    def sum(self, values: Floats) -> Floats:
        """Return the sums over each feature's columns, along the last axis."""
        if self.identity:
            return values
        return np.add.reduceat(values[..., self.order], self.starts[:-1], axis=-1)

    def spread(self, values: Floats) -> Floats:
        """Return a value a feature as a value a column."""
        return values if self.identity else values[self.of_column]

    def first(self, order: NDArray[np.intp], columns: int, least: int) -> int:
        """Return how many leading features have that many columns together, at least `least`."""
        if self.identity:
            return max(min(columns, order.size), least)
        ends = np.cumsum(self.widths[order])
        return max(int(np.searchsorted(ends, columns, side="right")), least)

    def widest(self, include: Sequence[int], free: NDArray[np.intp], more: int) -> tuple[int, ...]:
        """Return the widths of the widest support: some features, and `more` of the free ones.

        >>> Features(3, ((0,), (1, 2, 3), (4, 5))).widest([0], np.array([1, 2]), 1)
        (1, 3)
        """
        wide = np.sort(self.widths[free])[free.size - more :]
        return tuple(int(width) for width in (*self.widths[list(include)], *wide))


@without_context
def _listed(groups: Sequence[Sequence[int]], n_columns: int) -> tuple[tuple[int, ...], ...]:
    """Return groups as tuples of whole numbers."""
    wrong = InputError(_WRONG.format(n_columns - 1))
    try:
        given = [list(group) for group in groups]
    except TypeError:
        raise wrong from None
    if not all(
        type(j) is int or (isinstance(j, numbers.Integral) and not isinstance(j, bool))
        for group in given
        for j in group
    ):
        raise wrong
    return tuple(tuple(int(j) for j in group) for group in given)
