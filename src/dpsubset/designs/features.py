"""A feature is a group of columns that enter or leave a support together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsubset.errors import InputError

__all__ = ["Features"]


@dataclass(frozen=True)
class Features:
    """The features among which supports choose; now each is a group of one column.

    `order` lists each feature's column, None when feature j is column j.

    >>> Features(3).columns([0, 2])
    array([0, 2])
    """

    count: int
    order: tuple[int, ...] | None = None

    @classmethod
    def of(cls, groups: Sequence[Sequence[int]] | None, n_columns: int) -> Features:
        """Check the groups a user gave; None means one feature a column."""
        if groups is None:
            return cls(n_columns)
        given = [[int(j) for j in group] for group in groups]
        if any(len(group) != 1 for group in given):
            raise InputError(
                "a group of several columns was given; in this version every feature is one column"
            )
        order = tuple(group[0] for group in given)
        if sorted(order) != list(range(n_columns)):
            raise InputError("the groups must name every column exactly once")
        return cls(n_columns, order)

    def __len__(self) -> int:
        return self.count

    def columns(self, support: Sequence[int] | NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the columns of the features in a support, in the order of the support."""
        index = np.asarray(support, dtype=np.intp)
        return index if self.order is None else np.asarray(self.order, dtype=np.intp)[index]
