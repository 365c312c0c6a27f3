"""How many rows a choice of loss, clipping and ridge needs: what the selector's defaults rest on.

`python -m benchmarks.defaults` measures the table in docs/defaults.md.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from dpsubset.planning.simulate import SHAPES, Setting, recovery

__all__ = ["main", "rows_needed"]

ROWS = tuple(round(250 * 2 ** (k / 2)) for k in range(15))  # 250 to 32,000
WANTED = 0.9


def rows_needed(setting: Setting, tables: int = 5, draws: int = 40) -> int | None:
    """Return the least number of rows on the grid that recovers the truth often enough."""
    low, high = -1, len(ROWS)  # too few, enough
    place = 6
    while high - low > 1:
        if recovery(setting, ROWS[place], tables, draws) >= WANTED:
            high = place
        else:
            low = place
        place = (low + high) // 2
    return None if high == len(ROWS) else ROWS[high]


def grid() -> Iterator[Setting]:
    """Return the settings of the table."""
    losses = ("squared", "absolute", "huber:0.1", "huber:0.3")
    for shape, loss, clip, ridge in itertools.product(
        SHAPES, losses, (1.0, 0.5, 0.25), (1.0, 10.0, 100.0)
    ):
        yield Setting(loss, clip, ridge, radius=1.0, shape=shape)
    for shape, loss, radius in itertools.product(SHAPES, losses[:2], (0.5, 0.7, 1.5)):
        yield Setting(loss, 1.0, 1.0, radius=radius, shape=shape)
    for loss, clip in itertools.product(losses[:2], (1.0, 0.5)):
        yield Setting(loss, clip, 1.0, radius=1.0, columns=1000)


def main(output: Path) -> None:
    """Measure every setting of the grid and write one line of JSON for each."""
    console = Console(stderr=True)
    with output.open("w") as file:
        for setting in grid():
            line = {**asdict(setting), "rows": rows_needed(setting)}
            console.print(line, highlight=False)
            file.write(json.dumps(line) + "\n")
            file.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "benchmarks/defaults.jsonl"))
