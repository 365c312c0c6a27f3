"""All supports of a problem, written out: of one size, or of every size where it is open (T34)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.cuts import cut_maker
from dpsubset.cuts.listing import list_region
from dpsubset.cuts.region import root
from dpsubset.problem import Problem

__all__ = ["EMPTY", "list_supports", "rows_of_supports"]

EMPTY = -2  # in the places behind a support's columns; a refusal has -1


def list_supports(problem: Problem) -> tuple[NDArray[np.int64], Floats]:
    """Return every support of a problem and R(S), the smallest supports first.

    Places behind a support's columns hold EMPTY.

    >>> X = np.eye(2)
    >>> problem = Problem(X, X[0], size=1, false_columns=0.1, x_bound=1, y_bound=1, radius=1)
    >>> supports, scores = list_supports(problem)
    >>> supports.tolist(), scores.round(6).tolist()
    ([[-2], [0], [1]], [1.0, 0.0, 1.0])
    """
    if problem.false_columns is None:
        return list_region(cut_maker(problem), root(problem))
    parts = [_list_size(problem.of_size(size)) for size in problem.sizes]
    supports = [rows_of_supports(listed, problem.size) for listed, _ in parts]
    return np.concatenate(supports), np.concatenate([scores for _, scores in parts])


def _list_size(part: Problem) -> tuple[NDArray[np.int64], Floats]:
    if part.size == 0:
        return np.empty((1, 0), dtype=np.int64), np.array([part.score(())])
    return list_region(cut_maker(part), root(part))


def rows_of_supports(supports: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return supports of one size as rows of a larger one, filled up with EMPTY."""
    rows = np.full((len(supports), size), EMPTY, dtype=np.int64)
    rows[:, : supports.shape[1]] = supports
    return rows
