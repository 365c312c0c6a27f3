"""Rows of a problem, the same problem of other rows, and neighbours made from it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.checks import whole
from dpsubset.errors import InputError
from dpsubset.privacy import check_neighbours
from dpsubset.problem import Problem

__all__ = ["check_neighbour", "corner_rows", "neighbouring", "row_counts", "rows_of", "with_rows"]


def rows_of(problem: Problem) -> Floats:
    """Return the rows of a problem as the mechanisms see them, clipped; the target comes last."""
    columns = np.arange(problem.design.n_columns)
    return np.column_stack([problem.design.take(columns), problem.y])


def with_rows(problem: Problem, rows: Floats) -> Problem:
    """Return the same problem of other rows."""
    return problem.with_rows(rows[:, :-1], rows[:, -1])


def corner_rows(problem: Problem, count: int, rng: np.random.Generator) -> Floats:
    """Return rows at the corners of the bounds.

    In a feature of several columns that is a row of the largest norm: in all of them, or in one.
    """
    X = rng.choice([-problem.x_bound, problem.x_bound], (count, problem.design.n_columns))
    for group in problem.groups or ():
        for row in X if len(group) > 1 else ():
            kept = rng.integers(2 * len(group))
            alone = np.arange(len(group)) == kept
            row[list(group)] *= alone if alone.any() else 1.0 / np.sqrt(len(group))
    return np.column_stack([X, rng.choice([-problem.y_bound, problem.y_bound], count)])


def neighbouring(
    problem: Problem, count: int, neighbours: str = "replace-one", random_state: int = 0
) -> list[Problem]:
    """Return neighbours of a problem: half with a row at a corner, half with a row inside.

    Under add-remove, a row is added or removed; under replace-one, replaced.

    Parameters
    ----------
    problem : Problem
        A problem.
    count : int
        How many neighbours.
    neighbours : {"replace-one", "add-remove"}
        Which tables count as neighbours.
    random_state : int
        Where the new rows begin.

    Returns
    -------
    list of Problem
        Problems that differ from the first in one row.

    Examples
    --------
    >>> X = np.eye(3); problem = Problem(X, X[:, 0], size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> [other.n_rows for other in neighbouring(problem, 3, "add-remove")]
    [4, 2, 4]
    """
    check_neighbours(neighbours)
    rng = np.random.default_rng(random_state)
    rows, made = rows_of(problem), []
    for k in range(whole(count, "count", 0)):
        new = corner_rows(problem, 1, rng)
        if k % 4 > 1:
            new[0, :-1] *= rng.random(problem.design.n_columns)
            new[0, -1] *= 1.0 if problem.loss.classification else rng.random()
        place = int(rng.integers(max(len(rows), 1)))
        if neighbours == "add-remove":
            other = (
                np.delete(rows, place, axis=0) if k % 2 and len(rows) else np.vstack([rows, new])
            )
        else:
            other = rows.copy()
            other[place : place + 1] = new
        made.append(with_rows(problem, other))
    return made


def row_counts(problem: Problem) -> Counter[bytes]:
    """Return how often each row is there."""
    return Counter(row.tobytes() for row in rows_of(problem) + 0.0)  # -0.0 is 0.0


def check_neighbour(first: Counter[Any], other: Counter[Any], neighbours: str) -> None:
    """Refuse tables, as counts of their rows, that are no neighbours; replace-one allows equal."""
    gone, new = (first - other).total(), (other - first).total()
    added = neighbours == "add-remove"
    if not ({gone, new} == {0, 1} if added else gone == new <= 1):
        raise InputError(
            f"the tables are no neighbours under {neighbours}: {gone} rows are gone and {new} are "
            "new"
        )
