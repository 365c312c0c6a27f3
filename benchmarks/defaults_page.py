"""The tables of docs/defaults.md, from what `benchmarks.defaults_study` measured."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.defaults_measure import LIMIT, Candidate
from benchmarks.hardness_real import TABLES

__all__ = ["BEGIN", "END", "candidate_of", "tables", "write_page"]

BEGIN = "<!-- measured: written by python -m benchmarks.defaults_study -->"
END = "<!-- end of what is measured -->"
EPSILONS = (0.5, 1.0, 3.0, 10.0)

Line = dict[str, Any]
Place = tuple[str, float, int]  # table, epsilon, seed
Rated = dict[Place, float]


def candidate_of(line: Line) -> Candidate:
    """Return the settings of a line."""
    window = line.get("window_share", 0.0)
    given = line["loss"], line["radius"], line["offset_share"], line["ridge"], window
    return Candidate(*given, line.get("row_ridge", 0.0))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def _seconds(value: float) -> str:
    """Return seconds in two digits.

    >>> _seconds(0.0123), _seconds(0.456), _seconds(15.01)
    ('0.012', '0.46', '15')
    """
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


class Study:
    """What was measured on real tables, for numbers or labels, with so many columns asked."""

    def __init__(self, lines: Sequence[Line], labels: bool, size: int) -> None:
        self.labels = labels
        self._references = {
            (line["table"], line["seed"]): line
            for line in lines
            if line["kind"] == "reference" and line["size"] == size
        }
        self.lines: dict[Candidate, dict[Place, Line]] = defaultdict(dict)
        for line in lines:
            if (
                line["kind"] == "real"
                and line["size"] == size
                and TABLES[line["table"]].labels == labels
            ):
                place = (line["table"], line["epsilon"], line["seed"])
                self.lines[candidate_of(line)][place] = line

    def relative(self, place: Place, quality: float) -> float:
        """Return a quality as a share of the ceiling's; of an AUC, what is above one half."""
        base = 0.5 if self.labels else 0.0
        return (quality - base) / (self.quality(place, "ceiling") - base)

    def rated(self, candidate: Candidate) -> Rated:
        """Return the quality of all releases."""
        found = self.lines[candidate]
        return {
            place: self.relative(place, line["quality"])
            for place, line in found.items()
            if "quality" in line
        }

    def by_chance(self, places: Iterable[Place]) -> Rated:
        """Return what columns drawn at random would have."""
        chance = {key: line["chance"] for key, line in self._references.items()}
        return {place: self.relative(place, chance[place[0], place[2]]) for place in places}

    def quality(self, place: Place, name: str) -> float:
        """Return the quality of a reference at a place."""
        return float(self._references[place[0], place[2]][name])


def _mean(rated: Rated, epsilon: float | None = None) -> float:
    """Return the mean over tables of the means over their runs."""
    runs = defaultdict(list)
    for (table, at, _), value in rated.items():
        if epsilon in (None, at):
            runs[table].append(value)
    return float(np.mean([np.mean(found) for found in runs.values()])) if runs else math.nan


def _difference(one: Rated, other: Rated) -> str:
    """Return the mean difference of two candidates and its standard error, by tables."""
    runs = defaultdict(list)
    for place in one.keys() & other.keys():
        runs[place[0]].append(one[place] - other[place])
    found = np.array([np.mean(values) for values in runs.values()])
    error = found.std(ddof=1) / math.sqrt(len(found)) if len(found) > 1 else math.nan
    return f"{found.mean():+.3f} ± {error:.3f}"


def compared(study: Study, first: Candidate | None = None) -> str:
    """Return quality, refusals and seconds of candidates, compared with the first of them.

    Without a first, those with an offset or another ridge, each compared with itself without.
    """
    if first is None:
        varied = [c for c in study.lines if c != _plain(c)]
        shown = list(dict.fromkeys(one for c in varied for one in (_plain(c), c)))
    else:
        shown = [c for c in study.lines if c == _plain(c)]
    found = {c: study.lines[c] for c in shown}
    seen = set.intersection(*(set(lines) for lines in found.values()))
    common = {p for p in seen if all("quality" in lines[p] for lines in found.values())}

    def ratings(rated: Rated) -> list[str]:
        kept = {place: rated[place] for place in common}
        return [f"{_mean(kept, epsilon):.2f}" for epsilon in EPSILONS] + [f"{_mean(kept):.3f}"]

    rows = []
    for candidate, lines in found.items():
        base = first or _plain(candidate)
        own = study.rated(candidate)
        against = "" if candidate == base else _difference(own, study.rated(base))
        times = [_spent(lines[place]) for place in seen]
        share = np.mean([bool(lines[place].get("refused")) for place in seen])
        timed = [_seconds(float(np.quantile(times, q))) for q in (0.5, 0.9)]
        rows.append([candidate.name, *ratings(own), against, f"{100 * share:.0f}%", *timed])
    rows.append(["columns at random", *ratings(study.by_chance(common)), *[""] * 4])
    told = (
        f"Quality over the {len(common)} runs that all of them released, refusals and seconds over "
        f"all {len(seen)} runs."
    )
    name = "without" if first is None else first.name
    head = ["candidate", *(f"eps {e:g}" for e in EPSILONS), "mean", f"against {name}"]
    return told + "\n\n" + _table([*head, "refused", "median s", "90% s"], rows)


def _plain(candidate: Candidate) -> Candidate:
    return replace(candidate, offset_share=0.0, ridge=10.0, row_ridge=0.0)


def _spent(line: Line) -> float:
    return LIMIT if line.get("refused") else float(line["seconds"])


def by_table(study: Study, shown: Sequence[Candidate]) -> str:
    """Return the mean quality on every table, over all epsilons and splits where all released."""
    rows = []
    for table in TABLES:
        found = [{p: line for p, line in study.lines[c].items() if p[0] == table} for c in shown]
        seen = set.intersection(*(set(lines) for lines in found))
        common = [p for p in seen if all("quality" in lines[p] for lines in found)]
        if not common:
            continue
        row = [f"{table} ({len(common)} of {len(seen)})"]
        row += [
            f"{np.mean([study.quality(p, name) for p in common]):.3f}"
            for name in ("ceiling", "chance")
        ]
        for lines in found:
            times = [_spent(line) for line in lines.values()]
            mean = np.mean([lines[p]["quality"] for p in common])
            row.append(f"{mean:.3f} ({_seconds(float(np.mean(times)))} s)")
        rows.append(row)
    return _table(["table", "ceiling", "random", *(c.name for c in shown)], rows)


def recovery(lines: Sequence[Line], labels: bool) -> str:
    """Return the rows that candidates need on simulated tables."""
    cells: dict[Candidate, dict[str, str]] = defaultdict(dict)
    for line in lines:
        if line["kind"] == "recovery" and candidate_of(line).labels == labels:
            rows = "> 11,314" if line["rows"] is None else f"{line['rows']:,}"
            text = f"{rows} ({_seconds(line['seconds'])} s)"
            if line["refused_at"]:
                text += f", refused at {', '.join(f'{n:,}' for n in line['refused_at'])}"
            cells[candidate_of(line)][line["shape"]] = text
    shapes = list(dict.fromkeys(shape for found in cells.values() for shape in found))
    return _table(
        ["candidate", *shapes],
        ([c.name, *(found.get(shape, "") for shape in shapes)] for c, found in cells.items()),
    )


def tables(lines: Sequence[Line]) -> str:
    """Return all tables of the page."""
    numbers, labels = (Study(lines, kind, 5) for kind in (False, True))
    losses = ("absolute", "huber:0.1", "huber:0.2", "huber:0.4")
    parts = [
        "### Rows for 90% recovery (seconds a release)",
        recovery(lines, False),
        recovery(lines, True),
        "### Real tables with numbers",
        compared(numbers, Candidate("absolute")),
        "Table by table, R^2 on the test rows and mean seconds (runs that all released, of all):",
        by_table(numbers, [Candidate(loss) for loss in losses]),
        "With an offset or another ridge:",
        compared(numbers),
        "### Real tables with labels",
        compared(labels, Candidate("logistic")),
        "Table by table, AUC on the test rows and mean seconds (runs that all released, of all):",
        by_table(labels, [Candidate(loss) for loss in ("logistic", "huber_hinge", "hinge")]),
        "With an offset:",
        compared(labels),
    ]
    for kind, first in ((False, "absolute"), (True, "logistic")):
        eight = Study(lines, kind, 8)
        if Candidate(first) in eight.lines:
            asked = sorted({place[0] for found in eight.lines.values() for place in found})
            parts += [f"### Eight columns of {', '.join(asked)}", compared(eight, Candidate(first))]
    return "\n\n".join(parts)


def write_page(lines: Sequence[Line], page: Path) -> None:
    """Put the tables between the page's markers."""
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{tables(lines)}\n\n{END}{after}")
