"""Which cells the map of hardness has: a fixed sample that covers every pair of levels."""

from __future__ import annotations

import itertools
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.hardness_real import TABLES
from benchmarks.hardness_tables import KINDS

__all__ = ["FACTORS", "Cell", "all_cells", "feasible", "pairs", "real_cells", "synthetic_cells"]

SYNTHETIC = 1000
LARGEST = 50_000_000  # entries of a table
_CANDIDATES = 40  # that compete for every place

Level = Any
# Every level with its weight: heavier where draws are hard, so that the map is denser there. The
# loss "default" is whatever a user gets who names none.
FACTORS: dict[str, dict[Level, float]] = {
    "table": {
        kind: 2.0 if kind in ("common factor .9", "autoregressive .95", "categories") else 1.0
        for kind in KINDS
    },
    "p": {20: 1, 50: 2, 100: 2, 200: 2, 500: 1.5, 1000: 1, 5000: 0.7, 20_000: 0.5},
    "n": {200: 1, 1000: 1.5, 2500: 1, 5000: 1.5, 10_000: 1, 50_000: 1},
    "size": {3: 1, 5: 1.5, 8: 2},
    "epsilon": {0.1: 1, 0.3: 1, 1.0: 1.5, 3.0: 1.5, 10.0: 2},
    "loss": {
        "default": 1,  # with "absolute", its name until now, twice the others
        "absolute": 1,
        "squared": 1,
        "huber": 1,
        "quantile:0.8": 1,
        "logistic": 2,
        "hinge": 1,
        "huber_hinge": 1,
    },
    "neighbours": {"replace-one": 1, "add-remove": 1},
    "mechanism": {"permute-and-flip": 1, "exponential": 1},
}
LABELS = ("logistic", "hinge", "huber_hinge")


@dataclass(frozen=True)
class Cell:
    """One measurement: a table and a question. Of a real table n and p are 0: it has its own."""

    table: str
    p: int
    n: int
    size: int
    epsilon: float
    loss: str
    neighbours: str
    mechanism: str
    real: bool = False

    @property
    def key(self) -> str:
        """Return the cell's name in the file of results."""
        return "|".join(f"{value}" for value in asdict(self).values())

    @property
    def labels(self) -> bool:
        """Whether the target is one of two classes."""
        return self.loss in LABELS


def feasible(levels: Mapping[str, Level]) -> bool:
    """Whether these levels, of some or all factors, can stand together."""
    n, p = levels.get("n"), levels.get("p")
    if levels.get("table") == "rank-deficient":
        # Fewer rows than columns, of the grid's own numbers.
        if p is not None and not min(FACTORS["n"]) < p:
            return False
        if n is not None and not n < max(q for q in FACTORS["p"] if q * n <= LARGEST):
            return False
        if n is not None and p is not None and not n < p:
            return False
    return n is None or p is None or n * p <= LARGEST


def pairs(levels: Mapping[str, Level]) -> Iterable[tuple[str, Level, str, Level]]:
    """Return all pairs of levels of two factors."""
    return ((a, levels[a], b, levels[b]) for a, b in itertools.combinations(FACTORS, 2))


def synthetic_cells(count: int = SYNTHETIC, seed: int = 16) -> list[Cell]:
    """Return the sample; a shorter one is the beginning of a longer one.

    Each place goes to the candidate whose pairs of levels were met least, in proportion to their
    weights; candidates are random, and every second is made to hold a pair never met.
    """
    rng = np.random.default_rng(seed)
    met: Counter[tuple[str, Level, str, Level]] = Counter()
    wanted = [pair for pair in _all_pairs() if feasible({pair[0]: pair[1], pair[2]: pair[3]})]
    chosen: dict[Cell, None] = {}
    while len(chosen) < count:
        wanted = [pair for pair in wanted if not met[pair]]
        drawn = [_candidate(rng, wanted if k % 2 else []) for k in range(_CANDIDATES)]
        fresh = [levels for levels in drawn if Cell(**levels) not in chosen]
        if not fresh:
            continue
        best = max(fresh, key=lambda levels: sum(_worth(pair, met[pair]) for pair in pairs(levels)))
        met.update(pairs(best))
        chosen[Cell(**best)] = None
    return list(chosen)


def _all_pairs() -> list[tuple[str, Level, str, Level]]:
    return [
        (a, x, b, y)
        for a, b in itertools.combinations(FACTORS, 2)
        for x in FACTORS[a]
        for y in FACTORS[b]
    ]


def _worth(pair: tuple[str, Level, str, Level], met: int) -> float:
    a, x, b, y = pair
    weight = FACTORS[a][x] * FACTORS[b][y]
    return weight / (weight + met) + (2.0 if met == 0 else 0.0)


def _candidate(rng: np.random.Generator, wanted: list[Any]) -> dict[str, Level]:
    while True:
        levels = {name: _level(rng, name) for name in FACTORS}
        if wanted:
            a, x, b, y = wanted[rng.integers(len(wanted))]
            levels |= {a: x, b: y}
        if feasible(levels):
            return levels


def _level(rng: np.random.Generator, name: str) -> Level:
    levels, ends = _ends(name)
    return levels[bisect(ends, rng.random())]


@cache
def _ends(name: str) -> tuple[list[Level], list[float]]:
    """Return the levels of a factor, and where their shares of (0, 1) end."""
    shares = np.cumsum(list(FACTORS[name].values()))
    return list(FACTORS[name]), (shares / shares[-1]).tolist()


def real_cells(seed: int = 16) -> list[Cell]:
    """Return all questions to the real tables, in a mixed order.

    Labels are asked by logistic loss, too, whose draws take longest.
    """
    product = itertools.product(TABLES, (0.5, 1.0, 3.0, 10.0), (5, 8), FACTORS["mechanism"])
    cells = [
        Cell(table, 0, 0, size, epsilon, loss, "replace-one", mechanism, True)
        for table, epsilon, size, mechanism in product
        for loss in (("default", "logistic") if TABLES[table].labels else ("default",))
    ]
    order = np.random.default_rng(seed).permutation(len(cells))
    return [cells[k] for k in order]


def all_cells(only: str | None = None, count: int | None = None) -> list[Cell]:
    """Return the cells of the map, both kinds mixed evenly; fewer are the beginning of it."""
    lists = [
        [] if only == "real" else synthetic_cells(),
        [] if only == "synthetic" else real_cells(),
    ]
    placed = [((k + 0.5) / len(cells), cell) for cells in lists for k, cell in enumerate(cells)]
    return [cell for _, cell in sorted(placed, key=lambda entry: entry[0])][:count]
