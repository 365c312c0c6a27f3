"""Does a larger ball for the selection pay where there are many rows? On the tables of numbers.

`python -m benchmarks.realtables.radius` adds to radius.jsonl what is missing, and prints a table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.realtables.methods import ours
from benchmarks.realtables.run import judged, split_of
from benchmarks.realtables.tables import TABLES
from dpsubset.data import Schema

__all__ = ["main", "report"]

RESULTS = Path(__file__).with_name("radius.jsonl")
RADII = (0.5, 1.0, 2.0)  # the first is the default
EPSILONS = (1.0, 3.0, 10.0)


def report() -> str:
    """Return mean R^2 over seeds by radius, table and epsilon, as a Markdown table."""
    rows = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    keys = sorted({(r["rows"], r["table"]) for r in rows})
    heads = [f"{e:g}, radius {radius:g}" for e in EPSILONS for radius in RADII]
    lines = [f"| table | rows | {' | '.join(heads)} |", f"| --- | ---: |{' ---: |' * len(heads)}"]
    for n, table in keys:
        cells = []
        for epsilon in EPSILONS:
            for radius in RADII:
                found = [
                    r["quality"]
                    for r in rows
                    if (r["table"], r["epsilon"], r["radius"]) == (table, epsilon, radius)
                ]
                cells.append(f"{np.mean(found):.2f}" if found else "-")
        lines.append(f"| {table} | {n:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(seeds: int) -> None:
    """Run what is missing, and print the table."""
    known = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    done = {(r["seed"], r["table"]) for r in map(json.loads, known)}
    numbers = [t for t in TABLES if Schema.read_toml(TABLES[t].path).target.limits is not None]
    todo = [(s, t) for s in range(seeds) for t in numbers if (s, t) not in done]
    for seed, table in track(todo, "comparing radii", console=Console(stderr=True)):
        split = split_of(table, seed)
        rows = []
        for epsilon in EPSILONS:
            for radius in RADII:
                answer = ours("permute-and-flip", radius=radius)(split, epsilon, seed)
                rows.append(
                    {
                        "table": table,
                        "rows": split.fit[1].size,
                        "seed": seed,
                        "epsilon": epsilon,
                        "radius": radius,
                        "quality": judged(split, answer)["quality"],
                    }
                )
        with RESULTS.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    print(report())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
