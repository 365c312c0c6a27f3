"""Neighbouring tables to audit on: made from a table, or in families with many pairs.

In a family few tables make many pairs. Replace-one: the same rows and some choices of one more row;
any two tables are neighbours. Add-remove: some rows and every subset of some more; subsets that
differ by one row are neighbours.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.checks import whole
from dpsubset.losses import as_loss
from dpsubset.privacy import check_neighbours
from dpsubset.problem import Problem

__all__ = ["Family", "corner_rows", "families", "neighbouring", "rows_of", "with_rows"]

_CHOICES = 12  # of the last row, in a family under replace-one: 66 pairs
_MORE = 5  # rows that may be there, in a family under add-remove: 80 pairs


def rows_of(problem: Problem) -> Floats:
    """Return the rows of a problem as the mechanisms see them, clipped; the target comes last."""
    columns = problem.features.columns(np.arange(problem.n_columns))
    return np.column_stack([problem.design.take(columns), problem.y])


def with_rows(problem: Problem, rows: Floats) -> Problem:
    """Return the same problem of other rows."""
    return problem.with_rows(rows[:, :-1], rows[:, -1])


def corner_rows(problem: Problem, count: int, rng: np.random.Generator) -> Floats:
    """Return rows at the corners of the bounds."""
    X = rng.choice([-problem.x_bound, problem.x_bound], (count, problem.n_columns))
    return np.column_stack([X, rng.choice([-problem.y_bound, problem.y_bound], count)])


def neighbouring(
    problem: Problem, count: int, neighbours: str = "replace-one", random_state: int = 0
) -> list[Problem]:
    """Return neighbours of a problem: half with a row at a corner, half with a row inside.

    Under add-remove, a row is added or removed; under replace-one, replaced.

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
            new[0, :-1] *= rng.random(problem.n_columns)
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


@dataclass(frozen=True, eq=False)
class Family:
    """Problems of the same public shape, and which of them are neighbours."""

    problems: tuple[Problem, ...]
    pairs: tuple[tuple[int, int], ...]


def families(
    loss: Any, neighbours: str = "replace-one", random_state: int = 0, *, wide: bool = False
) -> Iterator[Family]:
    """Return families of small tables without end: most rows at corners, few columns, few rows.

    Wide ones have more rows, and two columns that explain them: a wide gap between the best support
    and the second, as the mistakes mechanism wants it.

    >>> family = next(families("squared"))
    >>> len(family.problems), len(family.pairs)
    (12, 66)
    """
    check_neighbours(neighbours)
    rng = np.random.default_rng(random_state)
    while True:
        yield _family(as_loss(loss), neighbours, rng, wide)


def _family(loss: Any, neighbours: str, rng: np.random.Generator, wide: bool) -> Family:
    p, size = int(rng.integers(3, 6)), 2 if wide else int(rng.integers(1, 3))
    shape = {
        "size": size,
        "loss": loss,
        "x_bound": 1.0,
        "radius": float(rng.choice([0.5, 1.0, 1.5])),
        "ridge": float(rng.choice([0.0, 0.2])),
    }
    shape |= {"classes": (-1.0, 1.0)} if loss.classification else {"y_bound": 1.0}
    if neighbours == "replace-one":
        rows = _base(loss, int(rng.integers(1, 6)), p, rng, wide)
        tables = [np.vstack([rows, row]) for row in _rows(loss, _CHOICES, p, rng)]
        pairs = tuple(itertools.combinations(range(_CHOICES), 2))
    else:
        rows = _base(loss, int(rng.integers(0, 4)), p, rng, wide)
        more = _rows(loss, _MORE, p, rng)
        masks = range(2**_MORE)
        tables = [np.vstack([rows, more[[m >> i & 1 == 1 for i in range(_MORE)]]]) for m in masks]
        pairs = tuple((m, m | 1 << i) for m in masks for i in range(_MORE) if not m >> i & 1)
    return Family(tuple(Problem(t[:, :-1], t[:, -1], **shape) for t in tables), pairs)


def _base(loss: Any, count: int, p: int, rng: np.random.Generator, wide: bool) -> Floats:
    rows = _rows(loss, count, p, rng)
    if not wide:
        return rows
    clear = np.zeros((int(rng.integers(10, 150)), p + 1))
    clear[::2, 0] = clear[1::2, 1] = clear[:, -1] = 1.0
    return np.vstack([clear, rows])


def _rows(loss: Any, count: int, p: int, rng: np.random.Generator) -> Floats:
    """Draw rows, most at corners, most with a target that one column explains."""
    corners = rng.choice([-1.0, 1.0], (count, p))
    X = np.where(rng.random((count, 1)) < 0.7, corners, rng.uniform(-1, 1, (count, p)))
    y = np.where(rng.random(count) < 0.6, X[:, rng.integers(p)], rng.choice([-1.0, 1.0], count))
    return np.column_stack([X, np.sign(y) if loss.classification else y])
