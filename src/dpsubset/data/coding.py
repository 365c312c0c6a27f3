"""Tables as coded numbers: one feature a column of the owner, one or more coded columns each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.data.columns import Column
from dpsubset.designs import Design
from dpsubset.labels import Labels

__all__ = ["Rows", "coded", "groups_of"]


class Rows(NamedTuple):
    """A table as mechanisms see it.

    `groups` are the coded columns of every feature, None where each has one. `present` says which
    rows have a target; the others are rows of zeros, which count for nothing (T33d).
    """

    design: Design
    target: Floats | Labels
    groups: list[list[int]] | None = None
    present: NDArray[np.bool_] | None = None


def groups_of(columns: Sequence[Column], *, constant: bool = False) -> list[list[int]] | None:
    """Return the coded columns of every feature, and of a constant one after them.

    >>> from dpsubset.data.category import Category
    >>> from dpsubset.data.columns import Truth
    >>> groups_of([Truth(), Category(levels=("a", "b", "c"))], constant=True)
    [[0], [1, 2], [3]]
    """
    widths = [column.width for column in columns] + ([1] if constant else [])
    if all(width == 1 for width in widths):
        return None
    ends = np.cumsum(widths).tolist()
    return [list(range(end - width, end)) for width, end in zip(widths, ends, strict=True)]


def coded(
    columns: Sequence[Column],
    cells: Sequence[pl.Series],
    present: NDArray[np.bool_],
    clip: float,
    *,
    constant: bool,
) -> Floats:
    """Return the coded columns side by side, with a constant one at the end if asked for.

    Rows that are not `present` are zeros throughout, the constant included (T33d).
    """
    widths = [column.width for column in columns]
    out = np.zeros((present.size, sum(widths) + constant))
    end = 0
    for column, one, width in zip(columns, cells, widths, strict=True):
        if present.size:  # a table without rows is posed again and again, to check a question
            out[:, end : end + width] = column.code(one, clip)
        end += width
    if constant:
        out[:, end] = 1.0
    out[~present] = 0.0
    return out
