"""Candidates for the selector's defaults, with time as a second axis.

`python -m benchmarks.defaults_study` measures what is missing in benchmarks/defaults_real.jsonl
and writes the tables of docs/defaults.md from that file.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks import hardness_worker
from benchmarks.defaults_measure import (
    Candidate,
    measure_real,
    reference,
    rows_needed,
)
from benchmarks.defaults_page import candidate_of, write_page
from benchmarks.hardness_real import TABLES
from dpsubset.planning.simulate import SHAPES
from dpsubset.warm import warm_up

__all__ = ["LABELS", "NUMBERS", "OUTPUT", "VARIANTS", "cells", "main"]

OUTPUT = Path("benchmarks/defaults_real.jsonl")
PAGE = Path("docs/defaults.md")
EPSILONS = (0.5, 1.0, 3.0, 10.0)
FEWER = {"happiness": (1.0, 10.0), "flights": (1.0, 10.0)}  # the largest tables
SEEDS = 5
EIGHT = ("card", "injury", "loanapp", "alcohol")  # tables of which eight columns are asked, too

Line = dict[str, Any]

NUMBERS = tuple(
    Candidate(loss, radius)
    for loss in ("huber:0.2", "huber:0.1", "huber:0.4", "absolute")
    for radius in (1.0, 0.5)
)
WINDOWED = tuple(
    Candidate(loss, radius, window_share="auto")
    for loss, radius in (("squared", 0.7), ("squared", 0.5), ("huber:1.0", 0.7))
)
LABELS = (
    *(
        Candidate(loss, radius)
        for loss in ("logistic", "huber_hinge")
        for radius in (1.0, 0.5, 2.0)
    ),
    Candidate("hinge"),
)
BRIER = tuple(Candidate("brier", radius) for radius in (0.4082, 0.5, 0.7))
VARIANTS = (  # with an offset or another ridge
    Candidate("huber:0.2", 1.0, 0.05),
    Candidate("huber:0.2", 0.5, 0.05),
    Candidate("huber:0.2", 0.5, 0.1),
    Candidate("huber:0.1", 1.0, 0.05),
    Candidate("huber:0.1", 0.5, 0.05),
    Candidate("huber:0.2", 1.0, ridge=1.0),
    Candidate("huber:0.2", 1.0, ridge=30.0),
    Candidate("logistic", 1.0, 0.05),
    Candidate("logistic", 0.5, 0.05),
    Candidate("huber_hinge", 1.0, 0.05),
    Candidate("absolute", 0.5, 0.05),
)
BY_ROW = (  # with a ridge for every row
    Candidate("absolute", 0.5, row_ridge=0.05),
    Candidate("absolute", 0.5, row_ridge=0.1),
    Candidate("huber:0.1", 0.5, row_ridge=0.05),
    Candidate("absolute", 0.5, row_ridge=0.03),
    Candidate("absolute", 0.5, row_ridge=0.3),
    Candidate("huber:0.1", 0.5, row_ridge=0.02),
    Candidate("huber_hinge", 1.0, row_ridge=0.02),
    Candidate("huber_hinge", 1.0, row_ridge=0.05),
    Candidate("huber:0.1", 0.5, row_ridge=0.01),
    Candidate("huber:0.2", 0.5, row_ridge=0.02),
    Candidate("huber_hinge", 1.0, row_ridge=0.01),
    Candidate("logistic", 1.0, row_ridge=0.01),
    Candidate("huber_hinge", 1.0, row_ridge=0.005),
    Candidate("logistic", 1.0, row_ridge=0.005),
    Candidate("huber_hinge", 1.0, row_ridge=0.002),
    Candidate("huber:0.2", 0.5, row_ridge=0.01),
    Candidate("logistic", 1.0, row_ridge=0.002),
    Candidate("logistic", 1.0, row_ridge=0.02),
)
SIMULATED = (
    *(Candidate(loss) for loss in ("absolute", "huber:0.1", "huber:0.2")),
    Candidate("absolute", 0.5),
    *(Candidate(loss) for loss in ("logistic", "huber_hinge", "hinge")),
    Candidate("huber:0.2", 0.5),
    Candidate("huber:0.4", 0.5),
    Candidate("huber:0.4"),
    Candidate("huber:0.1", 0.5),
)
WITH_EIGHT = (
    *(
        Candidate(loss)
        for loss in ("huber:0.2", "huber:0.1", "absolute", "logistic", "huber_hinge")
    ),
    Candidate("brier", 0.3333),
)
WITH_FLIGHTS = (Candidate("logistic"), Candidate("huber_hinge"), *BRIER)


def _real(candidates: Iterable[Candidate], seed: int) -> Iterator[Line]:
    for candidate in candidates:
        for table, spec in TABLES.items():
            left_out = table == "flights" and (candidate not in WITH_FLIGHTS or seed > 0)
            if spec.labels == candidate.labels and not left_out:
                for epsilon in FEWER.get(table, EPSILONS):
                    yield _cell(candidate, table, 5, epsilon, seed)


def _cell(candidate: Candidate, table: str, size: int, epsilon: float, seed: int) -> Line:
    at = {"table": table, "size": size, "epsilon": epsilon, "seed": seed}
    return {"kind": "real", **at, **vars(candidate)}


def cells() -> Iterator[Line]:
    """Return what is to be measured, first what matters most: one split, then more of them."""
    yield from _real((*NUMBERS, *LABELS, *BRIER), 0)
    yield from _recovery(SIMULATED[:-2])
    yield from _real(VARIANTS, 0)
    yield from _recovery(SIMULATED[-2:])
    yield from _recovery(WINDOWED)
    yield from _real(WINDOWED, 0)
    yield from _real(BY_ROW, 0)
    yield from _recovery(BY_ROW[:-1])
    yield from _real(BY_ROW, 1)
    yield from _recovery(BRIER)
    for seed in range(1, SEEDS):
        yield from _real((*BRIER, *WINDOWED, *NUMBERS, *LABELS), seed)
        yield from _eight(seed - 1)
        yield from _real(VARIANTS, seed)


def _recovery(candidates: Iterable[Candidate]) -> Iterator[Line]:
    for candidate in candidates:
        for shape in ("normal",) if candidate.labels else SHAPES:
            yield {"kind": "recovery", "shape": shape, **vars(candidate)}


def _eight(seed: int) -> Iterator[Line]:
    for candidate in WITH_EIGHT:
        for table in EIGHT:
            if TABLES[table].labels == candidate.labels:
                for epsilon in EPSILONS:
                    yield _cell(candidate, table, 8, epsilon, seed)


def _measured(cell: Line, refused: set[str]) -> Line:
    if cell["kind"] == "recovery":
        return rows_needed(cell["shape"], candidate_of(cell))
    if _key({**cell, "seed": 0}) in refused:  # what was refused once is not tried again
        return {"refused": True, "untried": True}
    at = (cell["table"], cell["size"], cell["epsilon"], cell["seed"])
    return measure_real(*at, candidate_of(cell))


def _key(cell: Line) -> str:
    told = ("kind", "table", "shape", "size", "epsilon", "seed")
    named = [f"{cell[name]}" for name in told if name in cell]
    return " | ".join([*named, "" if cell["kind"] == "reference" else candidate_of(cell).name])


def read_lines(path: Path) -> list[Line]:
    """Return what was measured so far."""
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def main(output: Path, seconds: float = math.inf) -> None:
    """Measure what is missing, for at most so many seconds of work, and write it line by line."""
    lines = read_lines(output)
    done = {_key(line) for line in lines}
    refused = {_key(line) for line in lines if line.get("refused")}
    hardness_worker._compiling.listen()
    console = Console(stderr=True)
    with threadpool_limits(1), output.open("a") as file:
        warm_up()
        began = process_time()

        def write(line: Line) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()
            done.add(_key(line))
            if line.get("refused"):
                refused.add(_key(line))

        for cell in cells():
            if process_time() - began > seconds:
                console.print("the time is over; the same command goes on")
                return
            if cell["kind"] == "real":
                at = {name: cell[name] for name in ("table", "size", "seed")}
                if _key({"kind": "reference", **at}) not in done:
                    found = reference(at["table"], at["size"], at["seed"])
                    write({"kind": "reference", **at, **found})
            if _key(cell) not in done:
                write({**cell, **_measured(cell, refused)})


def command() -> None:
    """Read the command's options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--seconds", type=float, default=math.inf, help="of work, then stop")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the tables go")
    given = parser.parse_args()
    main(given.output, given.seconds)
    write_page(read_lines(given.output), given.page)


if __name__ == "__main__":
    command()
