"""One HTML page with all figures, their settings, versions and times; it needs no other file."""

from __future__ import annotations

import html
import platform
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from dpsubset.reproduction.curves import curves, needed_text
from dpsubset.reproduction.settings import Figure, settings
from dpsubset.reproduction.trial import Job, Row

__all__ = ["needed_table", "write_report"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222 }
body { max-width: 1200px; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0; font-size: 13px }
td, th { border: 1px solid #ddd; padding: 3px 8px; text-align: right }
td:first-child, th:first-child { text-align: left }
svg { width: 100%; height: auto }
.note { color: #666; font-size: 13px }
"""
_SHOWN = (
    "columns",
    "rows",
    "size",
    "snr",
    "rho",
    "epsilon",
    "loss",
    "ridge",
    "bound",
    "radius",
    "steps",
)


def write_report(
    path: Path,
    figures: Iterable[Figure],
    rows: list[Row],
    pictures: dict[str, list[Path]],
    failures: list[tuple[Job, str]],
    draws: int,
) -> None:
    """Write the page."""
    figures = list(figures)
    parts = [
        "<h1>The paper's figures, drawn again</h1>",
        f"<p>{len({(r['panel'], r['value'], r['trial']) for r in rows})} trials, {draws} draws a "
        f"method; {sum(r.get('seconds', 0.0) for r in rows) / 3600:.2f} hours of computing in all. "
        "Lines are means over trials, bars their standard errors. Where a mechanism's distribution "
        "is known the line is its exact chance, and open circles are the share of the draws.</p>",
        "<h2>Rows needed for 90% recovery</h2>",
        _table(needed_table(figures, rows)),
    ]
    for figure in figures:
        parts.append(f"<h2>{html.escape(figure.title)}</h2>")
        drawn = [p.read_text() for p in pictures.get(figure.name, ()) if p.suffix == ".svg"]
        parts += [text[text.index("<svg") :] for text in drawn]  # without the XML's own header
        parts.append(_settings(figure))
    if failures:
        parts.append("<h2>Trials that failed</h2><ul>")
        parts += [f"<li>{html.escape(f'{job}: {why}')}</li>" for job, why in failures]
        parts.append("</ul>")
    names = ("dpsubset", "numpy", "scipy", "numba", "scikit-learn", "matplotlib")
    used = ", ".join(f"{name} {version(name)}" for name in names)
    parts.append(f'<p class="note">Python {platform.python_version()}, {used}.</p>')
    body = "\n".join(parts)
    path.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>dpsubset: the paper\'s '
        f"figures</title><style>{_STYLE}</style><body>{body}</body></html>\n",
        encoding="utf-8",
    )


def needed_table(figures: Iterable[Figure], rows: list[Row]) -> list[list[str]]:
    """Return, for every panel over rows and every method, the n of 90% recovery."""
    names = dict.fromkeys(p for figure in figures for p in figure.panels)
    panels = [settings().panels[n] for n in names]
    panels = [p for p in panels if p.axis == "rows" and p.kind == "recovery"]
    found = {p.name: curves(rows, p.name, "fraction") for p in panels}
    panels = [p for p in panels if found[p.name]]
    methods = [
        m for m in settings().methods.values() if any(m.name in found[p.name] for p in panels)
    ]
    lines = [["setting", *(m.label for m in methods)]]
    lines += [
        [p.title, *(needed_text(found[p.name].get(m.name, [])) for m in methods)] for p in panels
    ]
    return lines


def _table(lines: list[list[str]]) -> str:
    head, *body = [[html.escape(cell) for cell in line] for line in lines]
    out = "<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"
    return (
        "<table>"
        + out
        + "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in body)
        + "</table>"
    )


def _settings(figure: Figure) -> str:
    lines = [["panel", *_SHOWN]]
    for name in figure.panels:
        given = asdict(settings().panels[name])
        varied = given["axis"]
        lines.append([name, *("varied" if key == varied else str(given[key]) for key in _SHOWN)])
    return _table(lines)
