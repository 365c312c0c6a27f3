"""Tables in which one row alone holds a label, a level or a value, as an owner would hand them in.

What is read off a table as a whole (which classes there are, their order, a type, a range) may
change for all rows when that one row does. The pairs here differ in one raw row, whatever becomes
of the others when the table is read.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.audit.families import Family
from dpsubset.losses import Loss, as_loss
from dpsubset.privacy import check_neighbours
from dpsubset.problem import Problem

__all__ = ["CLASSES", "RawTable", "RawTables", "lone_families", "lone_tables"]

CLASSES = ("a", "b")
_OTHERS = 3  # rows besides the one that changes: few, for distributions over all partitions of them
_WILD = (
    1e300,
    -7.5,
    0.25,
    True,
    2**53 + 1,
    -0.0,
)  # out of bounds, or of another type than all others


@dataclass(frozen=True, eq=False)
class RawTable:
    """Rows as an owner has them: entries of any type, labels as text; bounds are -1 and 1."""

    X: tuple[tuple[Any, ...], ...]
    y: tuple[Any, ...]

    def rows(self) -> Counter[Any]:
        """Return how often each row is there, as it was given."""
        return Counter(repr(row) for row in zip(self.X, self.y, strict=True))


@dataclass(frozen=True, eq=False)
class RawTables:
    """Tables of which the pairs are neighbours."""

    tables: tuple[RawTable, ...]
    pairs: tuple[tuple[int, int], ...]

    def read(self, read: Callable[[RawTable], Problem]) -> Family:
        """Return the problems that a reader makes of the tables."""
        rows = tuple(table.rows() for table in self.tables)
        return Family(tuple(map(read, self.tables)), self.pairs, rows)


def lone_tables(
    loss: str | Loss,
    neighbours: str,
    random_state: int = 0,
    *,
    named: bool = True,
    others: int = _OTHERS,
) -> Iterator[RawTables]:
    """Return families of tables without end: one row besides `others` changes, or comes and goes.

    With a classification loss all other rows have the second class, "b". With `named` classes the
    one row may have either; where a reader must find the two by itself it has "a" or "c", so that
    every table has two, and they sort differently.

    >>> family = next(lone_tables("hinge", "replace-one", named=False))
    >>> sorted({table.y[-1] for table in family.tables}), set(family.tables[0].y[:-1])
    (['a', 'c'], {'b'})
    """
    check_neighbours(neighbours)
    rng = np.random.default_rng(random_state)
    labels = as_loss(loss).classification
    own: tuple[Any, ...] = (CLASSES if named else ("a", "c")) if labels else (1.0, -1.0, *_WILD[:2])
    while True:
        X = rng.integers(-1, 2, (others, 3))
        target = ("b",) * others if labels else tuple(rng.choice([-1, 0, 1], others).tolist())
        if rng.random() < 0.5:
            X[:, int(rng.integers(3))] = 0  # a column to which only one row gives a value
        rest = tuple(tuple(row) for row in X.tolist())
        last = [
            (tuple(_entry(rng) for _ in range(3)), label)
            for label, _ in itertools.product(own, range(4))
        ]
        tables = [RawTable((*rest, x), (*target, y)) for x, y in last]
        pairs = list(itertools.combinations(range(len(tables)), 2))
        if neighbours == "add-remove":
            tables, pairs = _added(tables, last, RawTable(rest, target), labels and not named)
        yield RawTables(tuple(tables), tuple(pairs))


def _added(
    tables: list[RawTable], rows: list[tuple[Any, Any]], fewer: RawTable, found: bool
) -> tuple[list[RawTable], list[tuple[int, int]]]:
    """Add tables with one row more, and the one with one row less.

    Where classes are found, a table may neither get a third nor lose its only one.
    """
    more = [
        RawTable((*table.X, x), (*table.y, table.y[-1] if found else y))
        for table, (x, y) in zip(tables, rows[1:], strict=False)
    ]
    pairs = [(i, len(tables) + i) for i in range(len(more))]
    if found:
        return [*tables, *more], pairs
    last = len(tables) + len(more)
    return [*tables, *more, fewer], [*pairs, *((i, last) for i in range(len(tables)))]


def _entry(rng: np.random.Generator) -> Any:
    """Return an entry that no other row has, or an ordinary one."""
    if rng.random() < 0.5:
        return _WILD[int(rng.integers(len(_WILD)))]
    return int(rng.integers(-1, 2))


def lone_families(
    loss: str | Loss, neighbours: str, random_state: int = 0, *, named: bool = True
) -> Iterator[Family]:
    """Return the same as problems in unit bounds, without end, read as `Problem` reads them.

    >>> len(next(lone_families("squared", "add-remove")).problems)
    32
    """
    rng = np.random.default_rng(random_state)
    kind = as_loss(loss)
    for raw in lone_tables(kind, neighbours, random_state, named=named):
        shape: dict[str, Any] = {
            "size": int(rng.integers(1, 3)),
            "loss": kind,
            "x_bound": 1.0,
            "radius": float(rng.choice([0.5, 1.5])),
            "ridge": float(rng.choice([0.0, 0.2])),
        }
        if not kind.classification:
            shape["y_bound"] = 1.0
        elif named:
            shape["classes"] = CLASSES
        yield raw.read(lambda table, shape=shape: _problem(table, shape))  # type: ignore[misc]


def _problem(table: RawTable, shape: dict[str, Any]) -> Problem:
    X: Floats = np.array(table.X, dtype=np.float64)
    return Problem(X, list(table.y), **shape)
