"""The map of hardness: seconds and passes to a release, over many kinds of tables and questions.

`python -m benchmarks.hardness --label after` measures what is missing in
benchmarks/hardness.jsonl, and draws docs/figures/hardness.png and the tables of docs/hardness.md
from that file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from rich.console import Console

from benchmarks.hardness_cells import Cell, all_cells
from benchmarks.hardness_page import read_lines, write_page
from benchmarks.hardness_pictures import draw
from benchmarks.hardness_real import TABLES
from benchmarks.hardness_times import fitted
from benchmarks.hardness_worker import Worker
from dpsubset.errors import InputError, MissingExtraError
from dpsubset.version import __version__

__all__ = ["command", "main", "missing", "run"]

OUTPUT = Path("benchmarks/hardness.jsonl")
FIGURE = Path("docs/figures/hardness.png")
PAGE = Path("docs/hardness.md")
LIMIT = 120.0


def missing(cells: Iterable[Cell], output: Path, label: str, limit: float) -> list[Cell]:
    """Return the cells that the file lacks under this label.

    One that was refused is asked again if it may take longer now.
    """
    done = {
        line["key"]
        for line in read_lines(output)
        if line["label"] == label and ("more" in line or line["limit"] >= limit)
    }
    return [cell for cell in cells if cell.key not in done]


def installed(cells: Iterable[Cell], console: Console) -> list[Cell]:
    """Leave out the tables whose packages are missing, and say so."""
    kept, told = [], {}
    for cell in cells:
        if cell.real and cell.table not in told:
            try:
                TABLES[cell.table].load()
                told[cell.table] = True
            except ImportError:
                told[cell.table] = False
                package = TABLES[cell.table].package
                console.print(f"{cell.table} is left out: {package} is not installed")
        if not cell.real or told[cell.table]:
            kept.append(cell)
    return kept


def run(
    cells: Sequence[Cell], limit: float, jobs: int = 1, warm: bool = True
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Measure cells, each as it comes to its end or its limit, in processes that are reused."""
    workers = [Worker(limit, warm) for _ in range(jobs)]
    idle: SimpleQueue[Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def measured(cell: Cell) -> tuple[Cell, dict[str, Any]]:
        worker = idle.get()
        try:
            return cell, worker.run(cell)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(jobs)
    try:
        for done in as_completed([pool.submit(measured, cell) for cell in cells]):
            yield done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.stop()


def main(
    cells: Sequence[Cell],
    output: Path,
    *,
    label: str,
    limit: float = LIMIT,
    jobs: int = 1,
    warm: bool = True,
) -> None:
    """Measure the cells that the file lacks, and append a line of JSON for each."""
    console = Console(stderr=True)
    left = installed(missing(cells, output, label, limit), console)
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("a") as file:
        for count, (cell, found) in enumerate(run(left, limit, jobs, warm), 1):
            line = {"label": label, "version": __version__, "key": cell.key, "limit": limit}
            file.write(json.dumps({**line, **asdict(cell), **found}) + "\n")
            file.flush()
            console.print(
                f"{count} of {len(left)}: {_shown(cell, found)}", highlight=False, soft_wrap=True
            )


def _shown(cell: Cell, found: dict[str, Any]) -> str:
    shape = "" if cell.real else f" {cell.n} x {cell.p}"
    parts = [f"{cell.table}{shape}, s {cell.size}, epsilon {cell.epsilon:g}, {cell.loss}"]
    parts += [f"{cell.mechanism}, {cell.neighbours}"]
    if "first" in found:
        parts.append(f"first {found['first']:.2f} s, {found['first_passes']:.0f} passes")
    if "more" in found:
        parts.append(f"20 more {found['more']:.2f} s")
    if "refused" in found:
        parts.append(f"refused at {found['seconds']:.0f} s")
    return ", ".join(parts)


def _quick(cells: Sequence[Cell]) -> list[Cell]:
    """Return a few cells that take no time, to see that all works."""
    small = [c for c in cells if not c.real and c.p <= 50 and c.n <= 1000 and c.size == 3]
    return [*small[:4], *[c for c in cells if c.table == "diabetes"][:2]]


def command(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure and draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hardness", description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the file of results")
    parser.add_argument("--label", default="after", help="a name for this version's lines")
    parser.add_argument("--quick", action="store_true", help="six small cells, nothing drawn")
    parser.add_argument("--limit", type=float, default=LIMIT, help="processor seconds for a cell")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time")
    parser.add_argument("--cells", type=int, help="only so many cells, spread evenly")
    parser.add_argument("--only", choices=("real", "synthetic"), help="one kind of tables")
    parser.add_argument("--draw-only", action="store_true", help="measure nothing")
    given = parser.parse_args(arguments)
    if not (given.limit > 0 and given.jobs > 0):
        parser.error("--limit and --jobs must be larger than zero")
    if not given.draw_only:
        cells = all_cells(given.only, given.cells)
        main(
            _quick(cells) if given.quick else cells,
            given.output,
            label=given.label,
            limit=given.limit,
            jobs=given.jobs,
        )
    if given.quick:
        return
    try:
        lines = read_lines(given.output)
        write_page(lines, PAGE)
        draw(lines, FIGURE)
        for kind, numbers in fitted(x for x in lines if x["label"] == given.label).items():
            print(f"{kind}: {numbers}")
    except (InputError, MissingExtraError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    command()
