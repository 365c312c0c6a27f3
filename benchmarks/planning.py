"""Calibrate the cheap rule of `select` and `fit` on simulations of `plan`.

`python -m benchmarks.planning` simulates selections on schemas of several kinds, writes
benchmarks/planning.jsonl, and prints how many true columns are found by the rule's advantage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from dpsubset.planning import plan
from dpsubset.planning.foretelling import schema_of
from dpsubset.planning.rule import advantage
from dpsubset.selection import Selection

__all__ = ["cases", "main", "report"]

RESULTS = Path(__file__).with_suffix(".jsonl")
TARGETS: dict[str, dict[str, Any]] = {
    "numbers": {"bounds": [0, 10]},
    "labels": {"classes": ["no", "yes"]},
}
EDGES = (-np.inf, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0, np.inf)


def schema(columns: int, kind: str, target: str) -> dict[str, Any]:
    """Return a schema of numbers, or one in which two of three columns are categories."""
    other: list[Any] = [[0, 100], "0/1", ["a", "b", "c", "d"]]
    lines = {f"x{k}": [0, 100] if kind == "plain" else other[k % 3] for k in range(columns)}
    return {"columns": lines, "target": {"name": "y", **TARGETS[target]}}


def cases() -> Iterator[dict[str, Any]]:
    """Yield the questions: schemas, sizes, losses, mechanisms, rows."""
    for target in TARGETS:
        for kind, columns in (("plain", 20), ("plain", 200), ("mixed", 30)):
            for size, mechanism in (
                (3, "permute-and-flip"),
                (5, "permute-and-flip"),
                (5, "stepwise"),
            ):
                for rows in (1000, 10_000):
                    yield {
                        "target": target,
                        "kind": kind,
                        "columns": columns,
                        "size": size,
                        "mechanism": mechanism,
                        "rows": rows,
                    }


def measure(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Simulate one question at all epsilons, with the rule's advantage alongside."""
    lines = schema(case["columns"], case["kind"], case["target"])
    asked = {"size": case["size"], "mechanism": case["mechanism"]}
    found = plan(
        lines, rows=case["rows"], models=False, tables=2, draws=10, signals=(0.1, 0.3, 0.6), **asked
    )
    for point in found.points:
        selection = Selection(schema=schema_of(lines), epsilon=point.epsilon, **asked)
        own = advantage(selection, point.rows, point.signal)
        yield {**case, **point.to_dict(), "advantage": own}


def report(results: list[dict[str, Any]]) -> str:
    """Return shares of true columns by advantage, as a Markdown table."""
    lines = [
        "| advantage | points | true columns found, median | quartiles |",
        "| --- | ---: | ---: | ---: |",
    ]
    at = np.array([r["advantage"] for r in results])
    share = np.array([r["share"] for r in results])
    for low, high in pairwise(EDGES):
        inside = share[(at >= low) & (at < high)]
        if inside.size:
            q1, q2, q3 = np.quantile(inside, (0.25, 0.5, 0.75))
            lines.append(
                f"| {low:g} to {high:g} | {inside.size} | {q2:.0%} | {q1:.0%} to {q3:.0%} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Measure what is not measured yet, and print the table."""
    known = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    results = [json.loads(line) for line in known]
    names = ("target", "kind", "columns", "size", "mechanism", "rows")
    done = {tuple(r[name] for name in names) for r in results}
    todo = [case for case in cases() if tuple(case[name] for name in names) not in done]
    for case in track(todo, "simulating", console=Console(stderr=True)):
        new = list(measure(case))
        with RESULTS.open("a") as file:
            file.writelines(json.dumps(r) + "\n" for r in new)
        results += new
    print(report(results))


if __name__ == "__main__":
    main()
