"""Where nobody knows how many columns matter: are they found, and no others?

`python -m benchmarks.sizes` measures what `benchmarks/sizes.jsonl` lacks, one line of JSON a table
and mechanism, and writes the tables and the figure of docs/sizes.md. It can be stopped and started
again; `--draw-only` measures nothing.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kept import go_on, read_lines, write_below
from dpsubset.arrays import Floats
from dpsubset.data import Schema, Table
from dpsubset.data.target import Target
from dpsubset.errors import UnprovenError
from dpsubset.planning.pictures import plotting
from dpsubset.privacy import as_randomness
from dpsubset.selection import Selection

__all__ = ["Cell", "Line", "cells", "main", "measure", "page"]

HERE = Path(__file__).parent
LINES, PAGE = HERE / "sizes.jsonl", HERE.parent / "docs" / "sizes.md"
FIGURE = HERE.parent / "docs" / "figures" / "sizes.png"
MARK = "<!-- measured: written by python -m benchmarks.sizes -->"

COLUMNS = (100, 1000)
TRUE = (0, 1, 3, 5, 8)
ROWS = {
    100: (1000, 2000, 4000, 8000, 16_000, 32_000),
    1000: (1000, 2000, 4000, 8000, 16_000),
}
TABLES, DRAWS, SECONDS = 2, 40, 600.0
NOISE = 1 / 5  # of the target's variance without noise: the paper's signal-to-noise ratio
BOUND = 4.0  # standard deviations

MECHANISMS: dict[str, dict[str, Any]] = {
    "auto": {"size": "auto"},
    "told": {},
    "stepwise auto": {"size": "auto", "mechanism": "stepwise"},
}


@dataclass(frozen=True)
class Cell:
    """One table and one mechanism."""

    p: int
    true: int
    rows: int
    table: int
    mechanism: str


@dataclass(frozen=True)
class Line:
    """What came of it: shares of releases."""

    cell: Cell
    draws: int  # within the seconds
    exact: float  # the true columns, and no others
    clean: float  # no false column
    false: float  # false columns, on average
    missed: float  # true columns that are not there, on average
    seconds: float
    late: bool  # a draw was not ready in time; it and those after it are not counted


def cells() -> Iterator[Cell]:
    """Return all cells, those that take long last."""
    every = itertools.product(COLUMNS, TRUE, range(TABLES), MECHANISMS)
    found = [Cell(p, true, n, t, name) for p, true, t, name in every for n in ROWS[p]]
    wanted = [cell for cell in found if cell.true or cell.mechanism != "told"]  # told 0: no draw
    yield from sorted(wanted, key=lambda cell: cell.p * cell.rows)


def make_table(cell: Cell) -> tuple[Floats, Floats]:
    """Draw independent normal columns, and a target of the first few, each with the same weight."""
    rng = np.random.default_rng([cell.p, cell.true, cell.rows, cell.table])
    X = rng.standard_normal((cell.rows, cell.p))
    noise = rng.standard_normal(cell.rows)
    if not cell.true:
        return X, noise
    return X, X[:, : cell.true].sum(axis=1) / np.sqrt(cell.true) + np.sqrt(NOISE) * noise


def measure(cell: Cell, draws: int = DRAWS, seconds: float = SECONDS) -> Line:
    """Draw from one table, with the defaults of `SubsetSelector` in all but the size.

    >>> line = measure(Cell(10, 1, 2000, 0, "auto"), draws=5)
    >>> line.draws, line.missed
    (5, 0.0)
    """
    limits = (-BOUND, BOUND)
    options = {"size": cell.true, **MECHANISMS[cell.mechanism]}
    schema = Schema.of(None, cell.p, limits, Target(limits))
    selection = Selection(schema=schema, max_seconds=seconds, **options)
    problem = selection.problem(Table(*make_table(cell)))
    truth, found, late = set(range(cell.true)), [], False
    began = time.process_time()
    rng = np.random.default_rng([1, cell.p, cell.true, cell.rows, cell.table])
    for support in _drawn(selection, problem, draws, rng):
        if support is None:
            late = True
            break
        found.append(support)
    return Line(
        cell,
        len(found),
        _mean(chosen == truth for chosen in found),
        _mean(chosen <= truth for chosen in found),
        _mean(len(chosen - truth) for chosen in found),
        _mean(len(truth - chosen) for chosen in found),
        round(time.process_time() - began, 3),
        late,
    )


def _drawn(
    selection: Selection, problem: Any, draws: int, rng: np.random.Generator
) -> Iterator[set[int] | None]:
    """Draw as often as the seconds allow, from one window and sampler; None if they do not."""
    randomness = as_randomness(rng)
    try:
        settled = selection.settled(problem.n_rows)
        sampler = settled.made._sampler(settled.scored(problem, randomness))
        for _ in range(draws):
            yield set(problem.origin.seen(sampler(randomness)))
    except UnprovenError:
        yield None


def _mean(values: Iterable[Any]) -> float:
    listed = [float(value) for value in values]
    return sum(listed) / len(listed) if listed else 0.0  # of no draw


def read(path: Path) -> list[Line]:
    """Read the lines of earlier runs."""
    return read_lines(path, lambda cell, **found: Line(Cell(**cell), **found))


def page(lines: Sequence[Line]) -> str:
    """Return the tables of docs/sizes.md."""
    out = []
    for p in COLUMNS:
        out += [f"\n### {p} columns\n"]
        heads = " | ".join(f"n = {n:,}" for n in ROWS[p])
        out += [
            f"| true columns | mechanism | {heads} |",
            f"| ---: | --- |{' --- |' * len(ROWS[p])}",
        ]
        for true in TRUE:
            for name in MECHANISMS:
                own = [
                    x for x in lines if (x.cell.p, x.cell.true, x.cell.mechanism) == (p, true, name)
                ]
                if own:
                    shown = [_shown([x for x in own if x.cell.rows == n]) for n in ROWS[p]]
                    out.append(f"| {true} | {name} | {' | '.join(shown)} |")
    return "\n".join(out) + "\n"


def _shown(lines: Sequence[Line]) -> str:
    """Return a cell of the table: exact / no false column; a star if draws were not ready."""
    draws = sum(line.draws for line in lines)
    if not draws:
        return "not in time" if lines else ""
    exact, clean = (
        sum(getattr(line, name) * line.draws for line in lines if line.draws) / draws
        for name in ("exact", "clean")
    )
    star = f" \\* {draws}" if any(line.late for line in lines) else ""
    return f"{exact:.2f} / {clean:.2f}{star}"


def draw(lines: Sequence[Line], path: Path) -> None:
    """Draw the chance of exactly the true columns over rows."""
    plt = plotting()
    picture, places = plt.subplots(
        len(COLUMNS), len(TRUE), figsize=(13, 5.4), sharex=True, sharey=True, layout="constrained"
    )
    for row, p in zip(places, COLUMNS, strict=True):
        for place, true in zip(row, TRUE, strict=True):
            for name, style in zip(MECHANISMS, ("C0o-", "C1s--", "C2^:"), strict=True):
                points = []
                for n in ROWS[p]:
                    own = [
                        x
                        for x in lines
                        if x.cell.mechanism == name
                        and (x.cell.p, x.cell.true, x.cell.rows) == (p, true, n)
                    ]
                    drawn = sum(x.draws for x in own)
                    if drawn:
                        points.append((n, sum(x.exact * x.draws for x in own if x.draws) / drawn))
                if points:
                    place.plot(*zip(*points, strict=True), style, label=name)
            place.set(xscale="log", ylim=(-0.03, 1.03), title=f"p = {p}, {true} true columns")
            place.set_xticks(ROWS[100], [f"{n // 1000}k" for n in ROWS[100]])
            place.minorticks_off()
    for place in places[-1]:
        place.set_xlabel("rows")
    places[0][1].legend()
    places[0][0].set_ylabel("exactly the true columns")
    picture.savefig(path, dpi=80)
    plt.close(picture)


def main(arguments: Sequence[str] = (), output: Path = LINES) -> list[Line]:
    """Measure what is missing, write it down line by line, and write the page."""
    lines = read(output)
    wanted = () if "--draw-only" in arguments else cells()
    go_on(lines, output, wanted, lambda line: line.cell, measure)
    if PAGE.exists() and output == LINES:
        write_below(PAGE, MARK, page(lines))
        draw(lines, FIGURE)
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
