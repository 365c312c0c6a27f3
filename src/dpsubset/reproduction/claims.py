"""The paper's statements about its figures, checked on results.

`python -m dpsubset.reproduction.claims FOLDER` prints them with their numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median

from dpsubset.reproduction.curves import Point, curves, needed_text, tables_text
from dpsubset.reproduction.report import needed_table, summary_table
from dpsubset.reproduction.runs import Results
from dpsubset.reproduction.settings import Panel, settings
from dpsubset.reproduction.trial import Row

__all__ = ["claims", "main"]

Curves = dict[str, list[Point]]
_HARDER = {  # each compared with the base panel of the same number of columns
    "smaller SNR": "snr2",
    "larger correlation": "rho5",
    "more true columns": "size8",
}


def claims(rows: list[Row]) -> Iterator[str]:
    """Return one line for each statement that the results can speak to."""
    found = {name: curves(rows, name, "fraction") for name in settings().panels}
    for panel in settings().panels.values():
        if tables := tables_text(rows, panel.name, panel.values):
            yield f"{panel.name}: tables: {tables}"
    recovery = {n: c for n, c in found.items() if c and settings().panels[n].kind == "recovery"}
    for name, drawn in recovery.items():
        panel = settings().panels[name]
        yield from _mistakes_above_top(panel, drawn)
        if panel.axis == "rows":
            yield from _above_rivals(panel, drawn)
    yield from _larger_count(rows)
    for name in ("ablation-ridge", "ablation-bound"):
        yield from _optimum(settings().panels[name], found[name])
    yield from _harder(recovery)
    for name in ("p10000", "p10000-hinge"):
        yield from _values(name, "fraction", recovery.get(name, {}), everywhere=True)
        yield from _seconds(name, rows)
    for name in ("p100-prediction", "p1000-prediction"):
        for metric in ("error", "utility"):
            yield from _values(name, metric, curves(rows, name, metric))


def _values(panel: str, metric: str, drawn: Curves, *, everywhere: bool = False) -> Iterator[str]:
    """Return all means at the smallest and the largest value, or at all; and of how many trials."""
    shown = {p.value for points in drawn.values() for p in (points[0], points[-1])}
    if everywhere:
        shown = {p.value for points in drawn.values() for p in points}
    for value in sorted(shown):
        here = {m: p for m, points in drawn.items() for p in points if p.value == value}
        text = ", ".join(f"{method} {point.mean:.4g}" for method, point in here.items())
        trials = min(point.trials for point in here.values())
        yield f"{panel}, {metric} at n = {value:g} (tables: {trials}): {text}"


def _seconds(panel: str, rows: list[Row]) -> Iterator[str]:
    """Return what the draws of a method took, the median over all tables and points."""
    taken: dict[str, list[float]] = {}
    for row in rows:
        if row["panel"] == panel and "seconds" in row:
            taken.setdefault(row["method"], []).append(row["seconds"])
    if taken:
        text = ", ".join(f"{method} {median(found):.1f}" for method, found in taken.items())
        yield f"{panel}, seconds for all draws from a table, median: {text}"


def _mistakes_above_top(panel: Panel, drawn: Curves) -> Iterator[str]:
    if not {"mistakes", "top-r"} <= set(drawn):
        return
    differences = [
        (m.value, m.mean, t.mean)
        for m, t in zip(drawn["mistakes"], drawn["top-r"], strict=True)
        if m.mean < t.mean
    ]
    if not differences:
        yield f"{panel.name}: mistakes is above top-R at all {len(drawn['top-r'])} points"
    else:
        worst = max(differences, key=lambda d: d[2] - d[1])
        yield (
            f"{panel.name}: mistakes is BELOW top-R at {len(differences)} of "
            f"{len(drawn['top-r'])} points, at most by {worst[2] - worst[1]:.1g} "
            f"({panel.axis} {worst[0]:g}: {worst[1]:.3f} against {worst[2]:.3f})"
        )


def _above_rivals(panel: Panel, drawn: Curves) -> Iterator[str]:
    last = {name: points[-1] for name, points in drawn.items()}
    rivals = [name for name in ("markov-chain", "sample-aggregate") if name in last]
    for name in ("top-r", "mistakes"):
        beaten = [r for r in rivals if last[name].mean > last[r].mean]
        others = [r for r in rivals if r not in beaten]
        text = ", ".join(f"{r} {last[r].mean:.3f}" for r in rivals)
        verdict = "above the baselines" if not others else f"NOT above {', '.join(others)}"
        here = f"at n = {last[name].value:g} {name} has {last[name].mean:.3f}"
        yield f"{panel.name}: {here}, {verdict} ({text})"


def _larger_count(rows: list[Row]) -> Iterator[str]:
    by_trial: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        if row["panel"] == "ablation-count":
            by_trial.setdefault(row["trial"], []).append((row["value"], row["chance"]))
    if by_trial:
        lowered = sum(
            b[1] < a[1] * (1 - 1e-9)
            for found in by_trial.values()
            for a, b in pairwise(sorted(found))
        )
        steps = sum(len(found) - 1 for found in by_trial.values())
        yield f"ablation-count: a larger R lowers the chance in {lowered} of {steps} steps"


def _optimum(panel: Panel, drawn: Curves) -> Iterator[str]:
    for name, points in drawn.items():
        best = max(points, key=lambda p: p.mean)
        ends = ", ".join(f"{p.mean:.3f} at {p.value:g}" for p in (points[0], points[-1]))
        yield f"{panel.name}, {name}: best {best.mean:.3f} at {panel.axis} {best.value:g}; {ends}"


def _harder(recovery: dict[str, Curves]) -> Iterator[str]:
    for base in ("p100", "p1000"):
        for what, name in _HARDER.items():
            other = recovery.get(f"{base}-{name}")
            if other and base in recovery:
                yield f"{what}, {base}: {_compared(recovery[base], other)}"
        easier = recovery.get(f"{base}-epsilon5")
        if easier and base in recovery:
            yield f"smaller epsilon (1 against 5), {base}: {_compared(easier, recovery[base])}"
    if {"p100", "p1000"} <= set(recovery):
        yield f"more columns, 100 to 1000: {_compared(recovery['p100'], recovery['p1000'])}"


def _compared(easy: Curves, hard: Curves) -> str:
    shown = (
        f"{name} {needed_text(easy[name])} to {needed_text(hard[name])}"
        for name in easy
        if name in hard
    )
    return f"rows for 90%: {'; '.join(shown)}"


def main(folder: Path) -> None:
    """Print the rows that 90% recovery needs, in short and in full, and all statements."""
    rows = Results(folder / "results.jsonl").all_rows()
    for table in (summary_table, needed_table):
        head, *lines = table(settings().figures.values(), rows)
        for line in (head, ["---"] + ["---:"] * (len(head) - 1), *lines):
            print(f"| {' | '.join(line)} |")
        print()
    for statement in claims(rows):
        print(f"- {statement}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
