"""Exact audits of tables that a schema codes: one raw row changes a level, a mark, a target (T33).

Cells are raw, as an owner has them: known and unknown levels, missing marks, numbers out of bounds,
text where a number should be. What is compared is what a mechanism would release, from the raw
table on; and how many coded rows one raw row changes, which must be one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dpsubset.audit.exact import ExactReport, exact_pairs
from dpsubset.audit.lone import RawTable, RawTables
from dpsubset.audit.tables import row_counts
from dpsubset.checks import whole
from dpsubset.data.category import Category
from dpsubset.data.columns import Column, Number, Ordered
from dpsubset.data.dates import Dates
from dpsubset.data.frames import Table
from dpsubset.data.schema import Schema
from dpsubset.privacy import check_neighbours
from dpsubset.selection import Selection

__all__ = ["CodedFinding", "coded", "coded_tables", "raw_cells"]

_CHOICES = 10  # of the row that changes: 45 pairs
_GONE: tuple[Any, ...] = (None, "", "NA")


@dataclass(frozen=True)
class CodedFinding:
    """What an audit found: the report on distributions, and how many coded rows one row changed."""

    report: ExactReport
    moved: int

    @property
    def passed(self) -> bool:
        """Whether the guarantee holds, and a raw row changes its own coded row only."""
        return self.report.passed and self.moved <= 1


def raw_cells(column: Column) -> list[Any]:
    """Return cells worth trying: what a column may hold, and what it should not.

    >>> raw_cells(Category(levels=("a", "b")))
    ['a', 'b', 'none of them', None, '', 'NA']
    """
    if isinstance(column, (Category, Ordered)):
        own: list[Any] = [*column.levels, "none of them"]
    elif isinstance(column, Dates):
        own = [column.first.isoformat(), column.last.isoformat(), "1066-10-14", "some day"]
    elif isinstance(column, Number):
        lower, upper = column.span
        own = [str(v) for v in (lower, upper, lower / 2 + upper / 2, 1e300)] + ["-inf", "text"]
    else:
        own = ["0", "1", "yes", "false", "2"]
    return [*own, *_GONE]


def coded_tables(
    schema: Schema, neighbours: str, random_state: int = 0, others: int = 4
) -> Iterator[RawTables]:
    """Return families of raw tables without end: one row changes, or comes and goes.

    In half of them most cells of the other rows are missing, so that whatever is filled in by a
    number of the whole table moves many rows.
    """
    check_neighbours(neighbours)
    rng = np.random.default_rng(random_state)
    columns = [*(schema.columns or ()), _target_of(schema)]
    cells = [raw_cells(column) for column in columns]
    for number in itertools.count():
        rest = [_row(cells, rng, 0.8 * (number % 2)) for _ in range(others)]
        last = [_row(cells, rng, 0.0) for _ in range(_CHOICES)]
        if neighbours == "replace-one":
            tables = [_table([*rest, row]) for row in last]
            pairs = list(itertools.combinations(range(len(last)), 2))
        else:
            tables = [_table(rest), *(_table([*rest, row]) for row in last)]
            pairs = [(0, j) for j in range(1, len(tables))]
        yield RawTables(tuple(tables), tuple(pairs))


def _target_of(schema: Schema) -> Column:
    assert schema.target.column is not None
    return schema.target.column


def _row(cells: list[list[Any]], rng: np.random.Generator, gone: float) -> tuple[Any, ...]:
    """Draw a row; all cells but the target are missing with some chance."""
    row = [one[int(rng.integers(len(one)))] for one in cells]
    lost = rng.random(len(row) - 1) < gone
    return (*(None if away else cell for cell, away in zip(row[:-1], lost, strict=True)), row[-1])


def _table(rows: list[tuple[Any, ...]]) -> RawTable:
    return RawTable(tuple(row[:-1] for row in rows), tuple(row[-1] for row in rows))


def coded(selection: Selection, *, pairs: int = 90, seed: int = 0, others: int = 4) -> CodedFinding:
    """Audit a selection on tables of its schema, on at least so many pairs.

    >>> schema = Schema.from_dict({
    ...     "columns": {"sex": ["f", "m"], "age": {"bounds": [0, 99], "missing": 40}},
    ...     "target": {"bounds": [0, 1]},
    ... })
    >>> coded(Selection(schema=schema, size=1, radius=1.5), pairs=45).passed
    True
    """
    source = coded_tables(selection.schema, selection.made.neighbours, seed, others)
    reports: list[ExactReport] = []
    moved, wanted = 0, whole(pairs, "pairs", 1)
    while sum(report.pairs for report in reports) < wanted:
        family = next(source).read(lambda table: selection.problem(_framed(selection, table)))
        assert family.rows is not None
        reports.append(exact_pairs(selection.made, family.problems, family.pairs, rows=family.rows))
        counts = [row_counts(problem) for problem in family.problems]
        for i, j in family.pairs:
            gone, new = (counts[i] - counts[j]).total(), (counts[j] - counts[i]).total()
            moved = max(moved, gone, new)
    return CodedFinding(_joined(reports), moved)


def _framed(selection: Selection, table: RawTable) -> Table:
    names = selection.schema.names or ()
    columns = zip(*table.X, strict=True) if table.X else ((),) * len(names)
    cells = {name: pl.Series(c, dtype=pl.String) for name, c in zip(names, columns, strict=True)}
    return Table(pl.DataFrame(cells), pl.Series(table.y, dtype=pl.String))


def _joined(reports: list[ExactReport]) -> ExactReport:
    return ExactReport(
        reports[0].claimed,
        sum(report.pairs for report in reports),
        max(report.epsilon for report in reports),
        max(report.delta for report in reports),
        tuple(violation for report in reports for violation in report.violations),
    )
