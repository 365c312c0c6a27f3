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
    """The groups of columns among which supports choose; now every group holds one column.

    >>> Features.single(3).columns([0, 2])
    array([0, 2])
    """

    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def single(cls, n_columns: int) -> Features:
        """Make every column a feature of its own."""
        return cls(tuple((j,) for j in range(n_columns)))

    @classmethod
    def of(cls, groups: Sequence[Sequence[int]] | None, n_columns: int) -> Features:
        """Check the groups a user gave; None means one feature a column."""
        if groups is None:
            return cls.single(n_columns)
        given = tuple(tuple(int(j) for j in group) for group in groups)
        if any(len(group) != 1 for group in given):
            raise InputError(
                "a group of several columns was given; in this version every feature is one column"
            )
        if sorted(j for group in given for j in group) != list(range(n_columns)):
            raise InputError("the groups must name every column exactly once")
        return cls(given)

    def __len__(self) -> int:
        return len(self.groups)

    def columns(self, support: Sequence[int] | NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the columns of the features in a support, in the order of the support."""
        return np.array([j for f in support for j in self.groups[int(f)]], dtype=np.intp)
