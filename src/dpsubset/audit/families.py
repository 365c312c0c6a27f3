"""Families of small tables, in which few tables make many pairs of neighbours.

Replace-one: the same rows and some choices of one more row; any two tables are neighbours.
Add-remove: some rows and every subset of some more; subsets that differ by one row are neighbours.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.checks import one_of
from dpsubset.losses import Loss, as_loss
from dpsubset.privacy import check_neighbours
from dpsubset.problem import Problem

__all__ = ["KINDS", "SHAPES", "Family", "families"]

_CHOICES = 12  # of the last row under replace-one: 66 pairs
_MORE = 5  # rows that may be there under add-remove: 80 pairs


@dataclass(frozen=True, eq=False)
class Family:
    """Problems of the same public shape, and which of them are neighbours.

    `rows` counts the rows as they were before a problem was made of them, if that matters.

    Parameters
    ----------
    problems : tuple of Problem
        The problems.
    pairs : tuple of pairs of int
        Which of them are neighbours, by their places.
    rows : tuple of Counter, optional
        The rows of the tables that they were made of.

    Examples
    --------
    >>> import numpy as np
    >>> shape = {"size": 1, "x_bound": 1.0, "y_bound": 1.0, "radius": 1.0}
    >>> two = tuple(Problem(np.eye(2), y, **shape) for y in ([0.0, 1.0], [0.0, 0.0]))
    >>> Family(two, ((0, 1),)).pairs
    ((0, 1),)
    """

    problems: tuple[Problem, ...]
    pairs: tuple[tuple[int, int], ...]
    rows: tuple[Counter[Any], ...] | None = None


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows that all tables share, rows worth changing, and the shape of the problem."""

    base: Floats
    special: Floats
    size: int
    radius: float
    ridge: float


def families(
    loss: Any,
    neighbours: str = "replace-one",
    random_state: int = 0,
    kind: str = "small",
    shape: str = "columns",
) -> Iterator[Family]:
    """Return families of tables of one kind without end; bounds are 1.

    small: few rows, most at corners. wide: more rows and a best support that is far ahead.
    extremal: rows that move two supports as far apart as the sensitivity allows (T38). swap: a best
    support that one row replaces by another, while a third column carries nearly all (T6). The
    shape of the problems: so many of the columns; "size auto", up to so many (T34); or "groups" of
    one to three columns, of which each row has one direction, or one column (T32).

    Parameters
    ----------
    loss : str or Loss
        The loss of the problems.
    neighbours : {"replace-one", "add-remove"}
        Which tables count as neighbours.
    random_state : int
        Where the tables begin.
    kind : {"small", "wide", "extremal", "swap"}
        The kind of the tables.
    shape : {"columns", "size auto", "groups"}
        The shape of the problems.

    Yields
    ------
    Family
        Problems, and which of them are neighbours.

    Examples
    --------
    >>> family = next(families("squared"))
    >>> len(family.problems), len(family.pairs)
    (12, 66)
    """
    check_neighbours(neighbours)
    one_of(kind, "kind of tables", KINDS)
    one_of(shape, "shape of problems", SHAPES)
    rng = np.random.default_rng(random_state)
    while True:
        chosen = as_loss(loss)
        yield _family(chosen, neighbours, KINDS[kind](chosen, rng), rng, shape)


def _family(
    loss: Loss, neighbours: str, rows: _Rows, rng: np.random.Generator, form: str
) -> Family:
    shape: dict[str, Any] = {
        "size": rows.size,
        "loss": loss,
        "x_bound": 1.0,
        "radius": rows.radius,
        "ridge": rows.ridge,
    }
    shape |= {"classes": (-1.0, 1.0)} if loss.classification else {"y_bound": 1.0}
    count = _CHOICES if neighbours == "replace-one" else _MORE
    fresh = _some_rows(loss, count, rows.base.shape[1] - 1, rng)
    more, base = np.vstack([rows.special, fresh])[:count], rows.base
    if form == "size auto":
        shape["false_columns"] = float(rng.choice([0.05, 0.5, 1.0]))
    if form == "groups":
        widths = rng.permutation([2, 3, *rng.integers(1, 3, base.shape[1] - 3)])
        shape["groups"] = np.split(np.arange(widths.sum()), np.cumsum(widths)[:-1])
        base, more = (
            _spread(table, widths, rng, bool(len(rows.special))) for table in (base, more)
        )
    if neighbours == "replace-one":
        tables = [np.vstack([base, row]) for row in more]
        pairs = tuple(itertools.combinations(range(count), 2))
    else:
        masks = range(2**count)
        tables = [np.vstack([base, more[[m >> i & 1 == 1 for i in range(count)]]]) for m in masks]
        pairs = tuple((m, m | 1 << i) for m in masks for i in range(count) if not m >> i & 1)
    return Family(tuple(Problem(t[:, :-1], t[:, -1], **shape) for t in tables), pairs)


def _spread(
    rows: Floats, widths: NDArray[np.int64], rng: np.random.Generator, aligned: bool
) -> Floats:
    """Return rows in which a number is a block of that norm: in its direction, or in one column.

    Where rows are `aligned`, as those that pull a support must be, all blocks have one direction.
    """
    owner = np.repeat(np.arange(widths.size), widths)
    blocks = rows[:, :-1][:, owner] / np.sqrt(widths)[owner]
    first = np.cumsum(widths) - widths
    for i, row in enumerate(rows[:, :-1]):
        for g in np.flatnonzero(rng.random(widths.size) < 0.5) if not aligned else ():
            blocks[i, owner == g] = 0.0
            blocks[i, first[g] + rng.integers(widths[g])] = row[g]
    return np.column_stack([blocks, rows[:, -1]])


def _some_rows(loss: Loss, count: int, p: int, rng: np.random.Generator) -> Floats:
    """Draw rows, most at corners, most with a target that one column explains."""
    corners = rng.choice([-1.0, 1.0], (count, p))
    X = np.where(rng.random((count, 1)) < 0.7, corners, rng.uniform(-1, 1, (count, p)))
    y = np.where(rng.random(count) < 0.6, X[:, rng.integers(p)], rng.choice([-1.0, 1.0], count))
    return np.column_stack([X, np.sign(y) if loss.classification else y])


def _small(loss: Loss, rng: np.random.Generator) -> _Rows:
    p, size = int(rng.integers(3, 6)), int(rng.integers(1, 3))
    base = _some_rows(loss, int(rng.integers(0, 6)), p, rng)
    radius, ridge = float(rng.choice([0.5, 1.0, 1.5])), float(rng.choice([0.0, 0.2]))
    return _Rows(base, np.empty((0, p + 1)), size, radius, ridge)


def _wide(loss: Loss, rng: np.random.Generator) -> _Rows:
    found = _small(loss, rng)
    clear = np.zeros((int(rng.integers(10, 150)), found.base.shape[1]))
    clear[::2, 0] = clear[1::2, 1] = clear[:, -1] = 1.0
    return _Rows(np.vstack([clear, found.base]), found.special, 2, found.radius, found.ridge)


def _extremal(loss: Loss, rng: np.random.Generator) -> _Rows:
    """Pull two disjoint supports to the end of the ball; what is bad for one is good for two."""
    size = int(rng.integers(1, 3))
    radius = float(rng.choice([0.4, 1.0, 1.5]))
    reach = radius * math.sqrt(size)  # the largest prediction
    pull = np.ones((60, 2 * size + 1))
    pull[:, :-1] *= min(1.0, 0.5 / reach)
    lead = pull[: int(rng.integers(0, 60))].copy()
    lead[:, size:-1] = 0.0  # these pull the first support only, and put it ahead
    # The good row is predicted without loss, or with as little as the ball allows.
    good = 1.0 if loss.classification else min(1.0, 1.0 / reach)
    special = []
    for sign, first in itertools.product((1.0, -1.0), (True, False)):
        one, two = np.full(size, sign), np.full(size, -sign * good)
        special.append(np.concatenate([one, two, [-sign]] if first else [two, one, [-sign]]))
    return _Rows(np.vstack([pull, lead]), np.array(special), size, radius, 0.0)


def _swap(loss: Loss, rng: np.random.Generator) -> _Rows:
    balanced = np.array(list(itertools.product([-1.0, 1.0], repeat=4)) * int(rng.integers(2, 9)))
    base = np.column_stack([balanced, balanced[:, 0]])  # column 0 explains the target alone
    little = np.array([[1.0, 0.5, 0.0, 0.0, 1.0]])  # column 1 helps a little
    helps = np.array([[1.0, 0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0, 1.0], [1.0, 1, 0, 0, 1.0]])
    return _Rows(np.vstack([base, little]), helps, 2, float(rng.choice([0.5, 0.7])), 0.0)


SHAPES = ("columns", "size auto", "groups")
KINDS: dict[str, Callable[[Loss, np.random.Generator], _Rows]] = {
    "small": _small,
    "wide": _wide,
    "extremal": _extremal,
    "swap": _swap,
}
