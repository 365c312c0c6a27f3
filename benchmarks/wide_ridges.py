"""What would a larger ridge for every row buy, and cost, where columns are thousands?

`python -m benchmarks.wide_ridges` measures what `benchmarks/wide_ridges.jsonl` lacks (ten minutes
on one core) and writes the table of docs/defaults.md. Every draw has a seed; a draw may take ten
seconds of the processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.defaults_measure import Candidate, draws
from benchmarks.kept import go_on, read_lines, written
from dpsubset.data import Schema, Table
from dpsubset.data.target import Target
from dpsubset.errors import UnprovenError
from dpsubset.losses import as_loss
from dpsubset.planning.simulate import SHAPES, Setting, shaped_table
from dpsubset.question import default_radius

__all__ = ["Asked", "Line", "main", "measured", "table"]

OUTPUT = Path(__file__).parent / "wide_ridges.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "defaults.md"
COLUMNS, TRUE, EPSILON = 5000, 5, 10.0
SNR = 3 / 7  # five columns explain 30% of the target
TABLES, DRAWS, SECONDS = 3, 10, 10.0
ROWS = (566, 800, 1131, 1600, 2263, 3200)
WANTED = 0.9
RIDGES = {  # the default first
    ("absolute", "normal"): (0.05, 0.1, 0.2),
    ("absolute", "uniform"): (0.05, 0.1, 0.2),
    ("huber:0.1", "normal"): (0.01, 0.03),
    ("huber:0.1", "uniform"): (0.01, 0.03),
    ("logistic", "normal"): (0.002, 0.02),
    ("huber_hinge", "normal"): (0.005, 0.05),
}


class Asked(NamedTuple):
    """One loss with one ridge for every row, on tables of one shape."""

    loss: str
    shape: str
    row_ridge: float
    rows: int


@dataclass(frozen=True)
class Line:
    """How many of the releases are the true columns, and from how many tables there were none."""

    loss: str
    shape: str
    row_ridge: float
    rows: int
    right: int
    refused: int


def measured(asked: Asked, columns: int = COLUMNS, tables: int = TABLES) -> Line:
    """Return what came of some releases from every table."""
    labels = as_loss(asked.loss).classification
    bounds, within = SHAPES[asked.shape]
    schema = Schema.of(
        None, columns, bounds, Target(None, (-1.0, 1.0)) if labels else Target(within)
    )
    radius = default_radius(asked.loss, labels, windowed=False, size=TRUE)
    candidate = Candidate(asked.loss, radius=radius, row_ridge=asked.row_ridge)
    selection = candidate.selection(schema, TRUE, EPSILON, SECONDS)
    setting = Setting(asked.loss, 1.0, 10.0, shape=asked.shape, columns=columns, snr=SNR)
    right = refused = 0
    for seed in range(tables):
        made = shaped_table(setting, asked.rows, seed)
        try:
            problem = selection.problem(Table(made.X, made.y))
            right += sum(s == made.support for s in draws(selection, problem, seed, DRAWS, SECONDS))
        except UnprovenError:
            refused += 1
    return Line(*asked, right, refused)


def table(lines: Sequence[Line]) -> str:
    """Return the rows needed, and the tables without a release, for every loss and ridge."""
    heads = ["loss", "columns", "ridge for every row", "rows for 90%", "tables refused"]
    out = [f"| {' | '.join(heads)} |", "| --- | --- | ---: | ---: | ---: |"]
    for (loss, shape), ridges in RIDGES.items():
        for ridge in ridges:
            some = [x for x in lines if (x.loss, x.shape, x.row_ridge) == (loss, shape, ridge)]
            if some:
                enough = [x.rows for x in some if x.right >= WANTED * TABLES * DRAWS]
                rows = f"{min(enough):,}" if enough else f"> {max(x.rows for x in some):,}"
                refused = f"{sum(x.refused for x in some)} of {TABLES * len(some)}"
                out.append(f"| {loss} | {shape} | {ridge:g} | {rows} | {refused} |")
    return "\n".join(out)


def main() -> None:
    """Measure what is missing, and write the page."""
    wanted = [
        Asked(loss, shape, ridge, rows)
        for (loss, shape), ridges in RIDGES.items()
        for ridge in ridges
        for rows in ROWS
    ]
    lines = read_lines(OUTPUT, Line)
    go_on(lines, OUTPUT, wanted, lambda x: Asked(x.loss, x.shape, x.row_ridge, x.rows), measured)
    PAGE.write_text(written(PAGE.read_text(), "wide ridges", table(lines)))


if __name__ == "__main__":
    main()
