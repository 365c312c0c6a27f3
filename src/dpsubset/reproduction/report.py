"""One HTML page with all figures, their settings, versions and times; it needs no other file."""

from __future__ import annotations

import html
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from dpsubset.reproduction.curves import Point, curves, needed, needed_text, tables_text
from dpsubset.reproduction.drawing import METRICS
from dpsubset.reproduction.settings import Figure, Panel, settings
from dpsubset.reproduction.trial import Job, Row

__all__ = ["needed_table", "summary_table", "write_report"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222 }
body { max-width: 760px; margin: 1em auto; padding: 0 1em }
div { overflow-x: auto }
table { border-collapse: collapse; margin: 1em 0; font-size: 13px }
figure { margin: 1em 0 }
td, th { border: 1px solid #ddd; padding: 3px 8px; text-align: right }
td:first-child, th:first-child { text-align: left }
svg { width: 100%; height: auto }
figcaption, .note { color: #666; font-size: 13px }
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
        "<p>Made by <code>dpsubset reproduce</code>. "
        f"{len({(r['panel'], r['value'], r['trial']) for r in rows})} trials, {draws} draws a "
        f"method; {sum(r.get('seconds', 0.0) for r in rows) / 3600:.2f} hours of computing in all. "
        "Lines are means over trials, bars their standard errors. Where a mechanism's distribution "
        "is known the line is its exact chance, and open circles are the share of the draws.</p>",
        "<h2>How many rows?</h2>",
        "<p>For the true columns in 90% of the releases: the paper's better mechanism (top-R, "
        "mistakes), and the better of ours (permute-and-flip, one of its losses).</p>",
        _table(summary_table(figures, rows), _places(figures)),
        "<ul>",
        *(f'<li><a href="#{f.name}">{html.escape(f.title)}</a></li>' for f in figures),
        '<li><a href="#all-methods">Rows needed, all methods</a></li></ul>',
    ]
    for figure in figures:
        parts.append(f'<h2 id="{figure.name}">{html.escape(figure.title)}</h2>')
        drawn = [p.read_text() for p in pictures.get(figure.name, ()) if p.suffix == ".svg"]
        for text, metric in zip(drawn, figure.metrics, strict=False):
            svg = text[text.index("<svg") :]  # without the XML's own header
            caption = html.escape(
                f"{figure.title}: {METRICS[metric]}. {_tables_told(figure, rows)}."
            )
            parts.append(f"<figure>{svg}<figcaption>{caption}</figcaption></figure>")
        told = "Settings, and how many tables each point has"
        inside = _settings(figure) + _table(_tables_of_points(figure, rows))
        parts.append(f"<details><summary>{told}</summary>{inside}</details>")
    parts.append('<h2 id="all-methods">Rows needed for 90% recovery, all methods</h2>')
    parts.append(_table(needed_table(figures, rows)))
    if failures:
        parts.append("<h2>Trials that failed</h2><ul>")
        parts += [f"<li>{html.escape(f'{job}: {why}')}</li>" for job, why in failures]
        parts.append("</ul>")
    names = ("dpsubset", "numpy", "scipy", "numba", "scikit-learn", "matplotlib")
    used = ", ".join(f"{name} {version(name)}" for name in names)
    parts.append(f'<p class="note">Python {platform.python_version()}, {used}.</p>')
    body = "\n".join(parts)
    path.write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width, initial-scale=1"><title>dpsubset: the paper\'s '
        f"figures</title><style>{_STYLE}</style><body>{body}</body></html>\n",
        encoding="utf-8",
    )


def _tables_told(figure: Figure, rows: list[Row]) -> str:
    """Return in a few words how many tables the points of a figure have that were run."""
    trials: dict[tuple[str, float], set[int]] = {}
    for row in rows:
        if row["panel"] in figure.panels:
            trials.setdefault((row["panel"], row["value"]), set()).add(row["trial"])
    counts = sorted({len(found) for found in trials.values()}) or [0]
    most = f" to {counts[-1]}" if len(counts) > 1 else ""
    return f"Tables a point: {counts[0]}{most}"


def _tables_of_points(figure: Figure, rows: list[Row]) -> list[list[str]]:
    """Return, panel by panel, how many tables its points have, those that were not run, too."""
    panels = [settings().panels[name] for name in figure.panels]
    texts = [[p.name, tables_text(rows, p.name, p.values) or "none"] for p in panels]
    return [["panel", "tables"], *texts]


def _places(figures: Iterable[Figure]) -> dict[str, str]:
    """Return, by the title of a panel, the figure that shows it first."""
    places: dict[str, str] = {}
    for figure in figures:
        for name in figure.panels:
            places.setdefault(settings().panels[name].title, figure.name)
    return places


def _recoveries(
    figures: Iterable[Figure], rows: list[Row]
) -> tuple[list[Panel], dict[str, dict[str, list[Point]]]]:
    """Return the panels over rows that have results, and the curves of each."""
    names = dict.fromkeys(p for figure in figures for p in figure.panels)
    panels = [settings().panels[n] for n in names]
    panels = [p for p in panels if p.axis == "rows" and p.kind == "recovery"]
    found = {p.name: curves(rows, p.name, "fraction") for p in panels}
    return [p for p in panels if found[p.name]], found


def summary_table(figures: Iterable[Figure], rows: list[Row]) -> list[list[str]]:
    """Return, for every panel over rows, the n of 90% recovery by the paper and by us."""
    panels, found = _recoveries(figures, rows)
    lines = [["setting", "paper", "ours"]]
    for panel in panels:
        cells = []
        for kinds in (("TopR", "Mistakes"), ("PermuteAndFlip",)):
            here = [
                points
                for name, points in found[panel.name].items()
                if settings().methods[name].mechanism in kinds
            ]
            cells.append(needed_text(min(here, key=needed)) if here else "")
        lines.append([panel.title, *cells])
    return lines


def needed_table(figures: Iterable[Figure], rows: list[Row]) -> list[list[str]]:
    """Return, for every panel over rows and every method, the n of 90% recovery."""
    panels, found = _recoveries(figures, rows)
    methods = [
        m for m in settings().methods.values() if any(m.name in found[p.name] for p in panels)
    ]
    lines = [["setting", *(m.label for m in methods)]]
    lines += [
        [p.title, *(needed_text(found[p.name].get(m.name, [])) for m in methods)] for p in panels
    ]
    return lines


def _table(lines: list[list[str]], places: Mapping[str, str] | None = None) -> str:
    """Return a table; first cells that have a place on the page are links to it."""
    head, *body = lines
    out = "<tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in head) + "</tr>"
    for first, *others in body:
        place = (places or {}).get(first)
        shown = html.escape(first)
        cells = [f'<a href="#{place}">{shown}</a>' if place else shown, *map(html.escape, others)]
        out += "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    return f"<div><table>{out}</table></div>"


def _settings(figure: Figure) -> str:
    lines = [["panel", *_SHOWN]]
    for name in figure.panels:
        given = asdict(settings().panels[name])
        varied = given["axis"]
        lines.append([name, *("varied" if key == varied else str(given[key]) for key in _SHOWN)])
    return _table(lines)
