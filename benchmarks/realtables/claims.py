"""What the comparison was to show, and whether it does: `python -m benchmarks.realtables.claims`.

Only the committed results are read (results.jsonl, foretold.jsonl). Baselines are models by others.
Our coefficients on columns by others are counted apart: half of such a model is ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.realtables import calibration
from benchmarks.realtables.page import (
    MEAN,
    MIXED,
    OTHERS,
    OURS,
    Found,
    kinds_of,
    median,
    read,
)
from benchmarks.realtables.run import SEEDS

__all__ = ["Claim", "claims", "told"]

_EPSILONS = (1.0, 3.0)
_MEASURES = {"numbers": "R^2", "labels": "AUC"}
_LEAST = -0.02  # R^2 over the private mean, on the worst table
_FACTOR = 2.0  # between an epsilon foretold and seen
_SHARE = 2 / 3  # of the tables


class Claim(NamedTuple):
    """A sentence, whether it holds, and the numbers that say so."""

    text: str
    holds: bool
    shown: str


def claims(found: Found) -> list[Claim]:
    """Return all claims, checked."""
    return [_all_seeds(found), *_ahead(found), _above_the_mean(found), *_foretold()]


def _all_seeds(found: Found) -> Claim:
    lacking = [key for key, rows in found.items() if len({r["seed"] for r in rows}) < SEEDS]
    shown = f"{len(found) - len(lacking)} of {len(found)} cells of table, method and epsilon"
    return Claim(f"All results have {SEEDS} seeds.", not lacking, shown)


def _over_tables(found: Found, names: list[str], method: str, epsilon: float) -> float:
    return float(np.median([median(found, t, method, epsilon, "quality") for t in names]))


def _ahead(found: Found) -> Iterator[Claim]:
    """Compare medians over tables of medians over seeds, and count the tables."""
    for kind, names in kinds_of(found).items():
        for epsilon in _EPSILONS:
            values = {
                m: _over_tables(found, names, m, epsilon) for m in (*OURS, *MIXED, *OTHERS, MEAN)
            }
            own = max(OURS, key=lambda m: values[m])
            theirs = max((*OTHERS, MEAN), key=lambda m: values[m])
            mixed = max(MIXED, key=lambda m: values[m])
            pairs = {
                t: [_best(found, t, methods, epsilon) for methods in (OURS, (*OTHERS, MEAN))]
                for t in names
            }
            lost = [f"{t} ({b:.3f}, ours {a:.3f})" for t, (a, b) in pairs.items() if a <= b]
            shown = (
                f"{own} {values[own]:.3f}, the best baseline {theirs} {values[theirs]:.3f}; "
                f"apart: {mixed} {values[mixed]:.3f}; "
                f"table by table ahead on {len(names) - len(lost)} of {len(names)}, behind: "
                f"{', '.join(lost) or 'nowhere'}"
            )
            what = f"Median {_MEASURES[kind]} over tables at epsilon {epsilon:g}"
            yield Claim(f"{what}: ours is ahead.", values[own] > values[theirs], shown)


def _best(found: Found, table: str, methods: tuple[str, ...], epsilon: float) -> float:
    return float(np.nanmax([median(found, table, m, epsilon, "quality") for m in methods]))


def _above_the_mean(found: Found) -> Claim:
    """Compare means over seeds with the private mean's, table by table."""
    over = {}
    for table in kinds_of(found)["numbers"]:
        own, mean = (
            np.mean([r["quality"] for r in found[table, m, 1.0] if "quality" in r])
            for m in (OURS[0], MEAN)
        )
        over[table] = float(own - mean)
    worst = min(over, key=lambda t: over[t])
    return Claim(
        "The default is nowhere more than 0.02 R^2 below the private mean at epsilon 1.",
        over[worst] >= _LEAST,
        f"the least is {over[worst]:+.3f}, on {worst}",
    )


def _foretold() -> Iterator[Claim]:
    for world in calibration.WORLDS:
        pairs = [(a, b) for _, a, b in calibration.compare(world)]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        near = sum(max(a / b, b / a) <= _FACTOR for a, b in both)
        yield Claim(
            f"plan ({world}) foretells epsilon within a factor of 2 on two thirds of the tables.",
            near >= _SHARE * len(pairs),
            f"{near} of {len(pairs)}, {len(pairs) - len(both)} of them above 10 foretold or seen",
        )


def told() -> str:
    """Return all claims as a list in Markdown."""
    return "\n".join(
        f"- {'**holds**' if c.holds else '**does not hold**'}: {c.text} {c.shown}."
        for c in claims(read())
    )


if __name__ == "__main__":
    print(told())
