"""The page of the map of hardness: what its file of results says, as tables between markers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpsubset.errors import InputError

__all__ = [
    "QUICK",
    "Line",
    "first_seconds",
    "is_quick",
    "labels_of",
    "read_lines",
    "tables",
    "write_page",
]

BEGIN = "<!-- measured: written by python -m benchmarks.hardness -->"
END = "<!-- end of what is measured -->"
QUICK = 2.0  # seconds
PASSES = 100  # X'u, if they take longer than that
PATIENT = 30.0  # seconds

Line = dict[str, Any]


def read_lines(path: Path) -> list[Line]:
    """Read a file of results; of a cell that was measured twice the last line counts."""
    if not path.exists():
        return []
    lines = (json.loads(text) for text in path.read_text().splitlines())
    return list({(line["label"], line["key"]): line for line in lines}.values())


def labels_of(lines: Iterable[Line]) -> list[str]:
    """Return the labels in the file, in the order of their first lines."""
    return list(dict.fromkeys(line["label"] for line in lines))


def first_seconds(line: Line) -> float:
    """Return the seconds to the first release, infinite if there was none."""
    return float(line.get("first", math.inf))


def is_quick(line: Line) -> bool:
    """Whether the first release took at most 2 s, or 100 passes over the table.

    >>> is_quick({"first": 2.5, "pass_seconds": 0.001}), is_quick({"first": 2.5, "pass_seconds": 1})
    (False, True)
    """
    return first_seconds(line) <= max(QUICK, PASSES * float(line["pass_seconds"]))


def write_page(lines: Sequence[Line], page: Path) -> None:
    """Write the tables of a file of results into the page, between its markers."""
    text = page.read_text() if page.exists() else f"{BEGIN}\n{END}\n"
    if not 0 <= text.find(BEGIN) < text.find(END):
        raise InputError(f"{page} has lost its markers: {BEGIN} and {END}")
    before, after = text[: text.index(BEGIN)], text[text.index(END) :]
    page.write_text(f"{before}{BEGIN}\n\n{tables(lines)}\n\n{after}")


def tables(lines: Sequence[Line]) -> str:
    """Return all tables: the labels compared, and each by kind, by level, and what takes long."""
    labels = labels_of(lines)
    parts = [_compared(lines, labels[0], labels[-1])] if len(labels) > 1 else []
    for_label = {label: [line for line in lines if line["label"] == label] for label in labels}
    return "\n\n".join([*parts, *(_of_label(*entry) for entry in for_label.items())])


def _compared(lines: Sequence[Line], old: str, new: str) -> str:
    """Return the table of the cells that were measured under two labels."""
    known = {line["key"]: line for line in lines if line["label"] == old}
    both = [line for line in lines if line["label"] == new and line["key"] in known]
    title = f"## The same cells, {old} and {new}"
    if not both:
        return f"{title}\n\nThere are none."
    heads = ("table", "cells", *(f"{what}, {k}" for what in _COMPARED for k in (old, new)))
    rows = []
    for name, after in [*_grouped(both, lambda line: line["table"]), ("**all**", both)]:
        sides = [known[line["key"]] for line in after], after
        rows.append(
            (name, str(len(after)), *(f(side) for f in _COMPARED.values() for side in sides))
        )
    return f"{title}\n\n{_table(heads, rows, 1)}"


def _of_label(label: str, lines: list[Line]) -> str:
    limits = ", ".join(f"{limit:g} s" for limit in sorted({line["limit"] for line in lines}))
    synthetic = [line for line in lines if not line["real"]]
    real = [line for line in lines if line["real"]]
    parts = [
        f"## {label.capitalize()}",
        f"{len(lines)} cells, at most {limits} each, of which {_sentence(lines)}",
    ]
    for title, some in (("synthetic tables", synthetic), ("real tables", real)):
        if some:
            by_table = _grouped(some, lambda line: line["table"])
            parts.append(_summary(title, [*by_table, (f"**all {title}**", some)]))
    if synthetic:
        parts.append("The synthetic tables again, by what is asked and by their shape:")
        levels = [
            (f"{name} {level}", group)
            for name, get in _FACTORS.items()
            for level, group in _grouped(synthetic, get)
        ]
        parts.append(_summary("level", levels))
    parts.append(_failures(lines))
    return "\n\n".join(parts)


_FACTORS: dict[str, Callable[[Line], Any]] = {
    "p =": lambda line: line["p"],
    "n =": lambda line: line["n"],
    "s =": lambda line: line["size"],
    "epsilon =": lambda line: line["epsilon"],
    "loss": lambda line: line["asked_loss"],
    "": lambda line: line["mechanism"],
    " ": lambda line: line["neighbours"],
}


_COMPARED: dict[str, Callable[[list[Line]], str]] = {
    "within 2 s or 100 passes": lambda lines: _share(_counts(lines)[0], lines),
    "refused": lambda lines: _share(_counts(lines)[2], lines),
    "first, median": lambda lines: _median([first_seconds(line) for line in lines]),
    "first, worst": lambda lines: _seconds(max(first_seconds(line) for line in lines)),
}


def _grouped(lines: list[Line], get: Callable[[Line], Any]) -> list[tuple[str, list[Line]]]:
    levels = sorted({get(line) for line in lines})
    return [(_plain(level), [line for line in lines if get(line) == level]) for level in levels]


def _plain(level: Any) -> str:
    return f"{level:,}" if isinstance(level, int) else str(level)


def _sentence(lines: list[Line]) -> str:
    quick, patient, refused = _counts(lines)
    return (
        f"{_share(quick, lines)} released within 2 s or 100 passes and {_share(patient, lines)} "
        f"within 30 s; {_share(refused, lines)} had no release at their limit."
    )


def _counts(lines: list[Line]) -> tuple[int, int, int]:
    seconds = [first_seconds(line) for line in lines]
    quick = sum(map(is_quick, lines))
    return quick, sum(s <= PATIENT for s in seconds), sum(map(math.isinf, seconds))


def _share(count: int, lines: list[Line]) -> str:
    return f"{100 * count / len(lines):.0f}%"


def _summary(title: str, groups: list[tuple[str, list[Line]]]) -> str:
    heads = (
        title,
        "cells",
        "within 2 s or 100 passes",
        "within 30 s",
        "refused",
        "first, median",
        "first, worst",
        "passes, median",
        "20 more, median",
        "20 more not in time",
    )
    rows = []
    for name, lines in groups:
        quick, patient, refused = _counts(lines)
        first = [first_seconds(line) for line in lines]
        more = [line.get("more", math.inf) for line in lines]
        passes = [line.get("first_passes", math.inf) for line in lines]
        rows.append(
            (
                name.strip(),
                str(len(lines)),
                *(_share(count, lines) for count in (quick, patient, refused)),
                _median(first),
                _seconds(max(first)),
                _number(float(np.quantile(passes, 0.5, method="lower"))),
                _median(more, "not in time"),
                _share(sum(map(math.isinf, more)), lines),
            )
        )
    return _table(heads, rows, 1)


def _median(seconds: list[float], never: str = "refused") -> str:
    return _seconds(float(np.quantile(seconds, 0.5, method="lower")), never)


def _seconds(value: float, never: str = "refused") -> str:
    return never if math.isinf(value) else f"{value:.2g} s" if value < 10 else f"{value:.0f} s"


def _number(value: float) -> str:
    return "" if math.isinf(value) else f"{value:,.0f}"


def _failures(lines: list[Line]) -> str:
    slow = [line for line in lines if first_seconds(line) > PATIENT]
    if not slow:
        return "No cell took longer than 30 s."
    slow.sort(key=lambda line: (line["real"], line["table"], line["columns"], line["rows"]))
    heads = ("table", "n", "p", "s", "epsilon", "loss", "mechanism", "neighbours", "first", "why")
    rows = [
        (
            line["table"],
            f"{line['rows']:,}",
            f"{line['columns']:,}",
            str(line["size"]),
            f"{line['epsilon']:g}",
            line["asked_loss"],
            line["mechanism"],
            line["neighbours"],
            _seconds(first_seconds(line)),
            _why(line),
        )
        for line in slow
    ]
    title = f"The {len(rows)} cells without a release within 30 s, or within their limit"
    shown = _table(heads, rows, len(heads))
    return f"<details><summary>{title}</summary>\n\n{shown}\n\n</details>"


def _why(line: Line) -> str:
    if "refused" not in line:
        return "slow"
    if line["refused"] == "limit":
        return f"ended at its limit of {line['limit']:g} s"
    return str(line["refused"]).partition(";")[0]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> str:
    """Return a table in Markdown, the first columns to the left and numbers to the right."""
    marks = ["---" if k < left else "---:" for k in range(len(heads))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, marks, *rows))
