"""Exact audits of tables that a schema codes: one raw row changes a level, a mark, a target (T33).

Cells are raw, as an owner has them: known and unknown levels, missing marks, numbers out of bounds,
text where a number should be; and framed as libraries frame them, which infer the type of a column
from all of its cells (`framing`). What is compared is what a mechanism would release, from the raw
table on; and how many coded rows one raw row changes, which must be one. Where the bounds of the
target are drawn, their own distribution is compared, and the rest within a few fixed bounds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dpsubset.audit.exact import ExactReport, exact_pairs
from dpsubset.audit.framing import available, framed
from dpsubset.audit.lone import RawTable, RawTables
from dpsubset.audit.tables import row_counts
from dpsubset.checks import whole
from dpsubset.data.category import Category
from dpsubset.data.columns import ANY, Column, Number, Ordered, Unbounded
from dpsubset.data.dates import Dates
from dpsubset.data.frames import Table
from dpsubset.data.schema import Schema
from dpsubset.mechanisms.target_bounds import TargetBounds
from dpsubset.privacy import check_neighbours
from dpsubset.problem import Problem
from dpsubset.selection import Selection

__all__ = ["CodedFinding", "coded", "coded_tables", "raw_cells"]

_CHOICES = 10  # of the row that changes: 45 pairs
_GONE: tuple[Any, ...] = (None, "", "NA")
_LIMITS = ((-1.0, 1.0), (0.0, 50.0))  # that may be drawn


@dataclass(frozen=True)
class CodedFinding:
    """What an audit found: the report on distributions, and how many coded rows one row changed.

    `drawn` is the largest log ratio of bounds of the target that are drawn, in units of the epsilon
    they have.
    """

    report: ExactReport
    moved: int
    drawn: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the guarantee holds, and a raw row changes its own coded row only."""
        return self.report.passed and self.moved <= 1 and self.drawn <= 1.0 + 1e-9


def raw_cells(column: Column) -> list[Any]:
    """Return cells worth trying: what a column may hold, and what it should not.

    >>> raw_cells(Category(levels=("a", "b")))
    ['a', 'b', 'none of them', None, '', 'NA']
    """
    if isinstance(column, (Category, Ordered)):
        own: list[Any] = [*column.levels, "none of them"]
    elif isinstance(column, Dates):
        ends = column.first, column.last
        own = [end.strftime(one) for one in column.formats for end in ends]
        own += [*(end.date().isoformat() for end in ends), "1066-10-14", "some day"]
    elif isinstance(column, Unbounded):
        own = ["0", "3.5", "-20", "700", "1e300", "-inf", "text"]
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

    In a third of them most cells of the other rows are missing, so that whatever is filled in by a
    number of the whole table moves many rows. In another third those of a column are all numbers,
    or all dates, if it has any: the one row decides what a library takes the column for.
    """
    check_neighbours(neighbours)
    rng = np.random.default_rng(random_state)
    columns = [*(schema.columns or ()), _target_of(schema)]
    cells = [raw_cells(column) for column in columns]
    alike = [_alike(one) for one in cells]
    for number in itertools.count():
        gone = 0.8 * (number % 3 == 1)
        held = [one[int(rng.integers(len(one)))] for one in alike] if number % 3 == 2 else cells
        rest = [_row(held, rng, gone) for _ in range(others)]
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


def _alike(cells: list[Any]) -> list[list[Any]]:
    """Return the cells that a library would take for numbers, and for dates; all, if for neither.

    >>> _alike(["7", "Inf", "x", None, "2020-06-05"]), _alike(["a"])
    ([['7', 'Inf'], ['2020-06-05']], [['a']])
    """
    text = pl.Series(cells, dtype=pl.String)
    numbers = text.filter(text.cast(pl.Float64, strict=False).is_not_nan().fill_null(False))
    days = text.filter(text.str.to_date("%Y-%m-%d", strict=False).is_not_null())
    return [some for some in (numbers.to_list(), days.to_list()) if some] or [cells]


def _row(cells: list[list[Any]], rng: np.random.Generator, gone: float) -> tuple[Any, ...]:
    """Draw a row; all cells but the target are missing with some chance."""
    row = [one[int(rng.integers(len(one)))] for one in cells]
    lost = rng.random(len(row) - 1) < gone
    return (*(None if away else cell for cell, away in zip(row[:-1], lost, strict=True)), row[-1])


def _table(rows: list[tuple[Any, ...]]) -> RawTable:
    return RawTable(tuple(row[:-1] for row in rows), tuple(row[-1] for row in rows))


def coded(
    selection: Selection,
    *,
    pairs: int = 90,
    seed: int = 0,
    others: int = 4,
    frames: Sequence[str] | None = None,
) -> CodedFinding:
    """Audit a selection on tables of its schema, on at least so many pairs.

    `frames` says how the tables arrive, one way after the other: "text", or types inferred by
    "polars" or "pandas"; all that are at hand, if None.

    >>> schema = Schema.from_dict({
    ...     "columns": {"sex": ["f", "m"], "age": {"bounds": [0, 99], "missing": 40}},
    ...     "target": {"bounds": [0, 1]},
    ... })
    >>> coded(Selection(schema=schema, size=1, radius=1.5), pairs=45).passed
    True
    """
    source = coded_tables(selection.schema, selection.made.neighbours, seed, others)
    reports: list[ExactReport] = []
    moved, drawn, seen, wanted = 0, 0.0, 0, whole(pairs, "pairs", 1)
    for frame in itertools.cycle(frames or available()):
        if seen >= wanted:
            break
        family = next(source)
        rows = [table.rows() for table in family.tables]
        problems = [selection.problem(_framed(selection, t, frame)) for t in family.tables]
        seen += len(family.pairs)
        reports += [
            exact_pairs(selection.made, some, family.pairs, rows=rows)
            for some in _within(selection, problems)
        ]
        counts = [row_counts(problem) for problem in problems]
        for i, j in family.pairs:
            gone, new = (counts[i] - counts[j]).total(), (counts[j] - counts[i]).total()
            moved = max(moved, gone, new)
            if selection.target_bounds is not None:
                drawn = max(drawn, _told(selection.target_bounds, problems[i], problems[j]))
    return CodedFinding(_joined(reports), moved, drawn)


def _within(selection: Selection, problems: list[Problem]) -> list[list[Problem]]:
    """Return the problems that columns are selected in: within each of a few drawn bounds."""
    if selection.target_bounds is None:
        return [problems]
    return [[selection.first.within(p, limits) for p in problems] for limits in _LIMITS]


def _told(bounds: TargetBounds, one: Problem, other: Problem) -> float:
    """Return the largest log ratio of a pair of cells, against the epsilon of both."""
    laws = []
    for problem in (one, other):
        assert problem.present is not None
        laws.append(bounds.probabilities(problem.y[problem.present] * ANY[1]))
    apart = [a - b for a, b in zip(*laws, strict=True)]
    most = max(sum(float(a.max()) for a in apart), sum(float(-a.min()) for a in apart))
    return most / bounds.epsilon


def _framed(selection: Selection, table: RawTable, frame: str = "text") -> Table:
    names = selection.schema.names or ()
    columns = zip(*table.X, strict=True) if table.X else ((),) * len(names)
    cells = dict(zip(names, columns, strict=True))
    target = framed({"y": table.y}, frame)["y"]  # by itself: it may have no rows
    return Table(framed(cells, frame), target)


def _joined(reports: list[ExactReport]) -> ExactReport:
    return ExactReport(
        reports[0].claimed,
        sum(report.pairs for report in reports),
        max(report.epsilon for report in reports),
        max(report.delta for report in reports),
        tuple(violation for report in reports for violation in report.violations),
    )
