"""Does an offset help a selection whose target lies far from the middle of its bounds?

`python -m benchmarks.offsets` measures it on synthetic tables (a few minutes on one core) and
writes the table of docs/losses.md. Every draw has a seed, so it prints the same again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.kept import written
from dpsubset.arrays import Floats
from dpsubset.data import Schema, Table
from dpsubset.data.target import Target
from dpsubset.selection import Selection

__all__ = ["main", "page", "share_found"]

PAGE = Path(__file__).parents[1] / "docs" / "losses.md"
COLUMNS, TRUE = 20, 3
TABLES, DRAWS = 4, 10
RADII, SHARES = (0.25, 0.5, 1.0), (0.0, 0.05, 0.1)


def _far(X: Floats, rng: np.random.Generator) -> Floats:
    """Return a target around 0.7, of which the true columns explain the half."""
    signal = X[:, :TRUE].sum(axis=1)
    return np.asarray(0.7 + 0.1 * (signal + rng.normal(size=len(X))))


def _rare(X: Floats, rng: np.random.Generator) -> Any:
    """Return labels, 7% of them of the second class."""
    odds = 2.0 * X[:, :TRUE].sum(axis=1) + rng.logistic(size=len(X))
    return np.where(odds > np.quantile(odds, 0.93), "yes", "no")


Make = Callable[[Floats, np.random.Generator], Any]
_NUMBERS, _LABELS = Target((-1.0, 1.0)), Target(None, ("no", "yes"))
# What is asked: rows, loss, epsilon, the public target, and the target itself.
ASKED: dict[str, tuple[int, str, float, Target, Make]] = {
    "target at 0.7 of bounds -1 and 1": (1500, "absolute", 1.0, _NUMBERS, _far),
    "the same target": (4000, "squared", 1.0, _NUMBERS, _far),
    "7% of one class": (6000, "logistic", 3.0, _LABELS, _rare),
}


def share_found(name: str, radius: float, share: float, tables: int, draws: int) -> float:
    """Return how often the true columns are released."""
    rows, loss, epsilon, target, make = ASKED[name]
    found = 0
    for number in range(tables):
        rng = np.random.default_rng([number, rows])
        X = rng.uniform(-1.0, 1.0, (rows, COLUMNS))
        table = Table(X, make(X, rng))
        for seed in range(draws):
            asked = Selection(
                schema=Schema.of(None, COLUMNS, (-1.0, 1.0), target),
                size=TRUE,
                epsilon=epsilon,
                loss=loss,
                radius=radius,
                offset_share=share,
                window_share=0.0,
                seed=seed,
            )
            found += set(asked.release(table).support) == set(range(TRUE))
    return found / (tables * draws)


def page(tables: int = TABLES, draws: int = DRAWS) -> str:
    """Measure, and return the table."""
    heads = ["no offset", *(f"share {share:g}" for share in SHARES[1:])]
    lines = [
        f"| table | radius | {' | '.join(heads)} |",
        f"| --- | ---: |{' ---: |' * len(SHARES)}",
    ]
    todo = [(name, radius) for name in ASKED for radius in RADII]
    for name, radius in track(todo, "drawing", console=Console(stderr=True)):
        rows, loss, epsilon, *_ = ASKED[name]
        cells = [f"{share_found(name, radius, share, tables, draws):.0%}" for share in SHARES]
        told = f"{rows:,} rows, {name}, `{loss}`, epsilon {epsilon:g}" if radius == RADII[0] else ""
        lines.append(f"| {told} | {radius:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and write the page."""
    PAGE.write_text(written(PAGE.read_text(), "offsets", page()))


if __name__ == "__main__":
    main()
