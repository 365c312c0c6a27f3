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
    """The features among which supports choose; in this version feature j is column j.

    >>> Features(3).columns([0, 2])
    array([0, 2])
    """

    count: int

    @classmethod
    def of(cls, groups: Sequence[Sequence[int]] | None, n_columns: int) -> Features:
        """Check the groups a user gave; None means one feature a column."""
        try:
            given = None if groups is None else [list(group) for group in groups]
        except TypeError:
            given = []
        if given is not None and given != [[j] for j in range(n_columns)]:
            raise InputError(
                "groups must be [[0], [1], ...]: in this version every feature is one column, in "
                "the order of the columns"
            )
        return cls(n_columns)

    def __len__(self) -> int:
        return self.count

    def columns(self, support: Sequence[int] | NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the columns of the features in a support, in the order of the support."""
        return np.asarray(support, dtype=np.intp)
