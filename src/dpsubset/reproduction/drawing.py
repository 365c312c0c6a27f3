"""Figures as PNG and SVG: one plot a panel, the same method in the same colour everywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dpsubset.planning.pictures import plotting
from dpsubset.reproduction.curves import Point, curves
from dpsubset.reproduction.settings import Figure, Panel, settings
from dpsubset.reproduction.trial import Row

__all__ = ["draw_figure", "spread_out"]

METRICS = {
    "fraction": "chance of the true support",
    "chance": "chance of the true support",
    "f1": "F1 score",
    "error": "mean squared test error",
    "utility": "utility loss, per row",
}
AXES = {
    "rows": "rows n",
    "ridge": "ridge",
    "bound": "clipping bound",
    "count": "supports with their own weight, R",
}
_LOGARITHMIC = ("ridge", "bound", "count")
_SIZE = (4.6, 3.8)  # of a panel; one below the other, as wide as a phone
_APART = 0.093  # names of curves, of two lines each


def draw_figure(figure: Figure, rows: list[Row], folder: Path) -> list[Path]:
    """Draw a figure once for every metric; return the files written."""
    plt = plotting()
    written = []
    for metric in figure.metrics:
        drawn = [(p, curves(rows, p, metric)) for p in figure.panels]
        drawn = [(name, found) for name, found in drawn if found]
        if not drawn:
            continue
        wide, high = _SIZE
        picture, places = plt.subplots(
            len(drawn), 1, figsize=(wide, high * len(drawn)), squeeze=False, layout="constrained"
        )
        for place, (name, found) in zip(places.flat, drawn, strict=True):
            _draw_panel(place, settings().panels[name], metric, found, rows)
        picture.suptitle(f"{figure.title}: {METRICS[metric]}", fontsize=10)
        for kind in ("png", "svg"):
            path = folder / f"{figure.name}-{metric}.{kind}"
            extra = {"metadata": {"Date": None}} if kind == "svg" else {"dpi": 110}
            picture.savefig(path, **extra)
            written.append(path)
        plt.close(picture)
    return written


def _draw_panel(
    place: Any, panel: Panel, metric: str, found: dict[str, list[Point]], rows: Iterable[Row]
) -> None:
    values = sorted({p.value for points in found.values() for p in points})
    if panel.axis in _LOGARITHMIC:
        place.set_xscale("log")
    elif len(values) == 1:
        place.set_xticks(values)
    else:
        place.locator_params(axis="x", nbins=5)  # five digits have room
    ends = []
    for name in (m for m in panel.methods if m in found and settings().methods[m].drawn):
        method, points = settings().methods[name], found[name]
        x, y = [p.value for p in points], [p.mean for p in points]
        errors = [0.0 if math.isnan(p.error) else p.error for p in points]
        style = {"color": method.colour, "marker": "o", "markersize": 3.5, "linewidth": 1.6}
        place.errorbar(x, y, yerr=errors, capsize=2, elinewidth=0.8, **style)
        drawn = [(p.value, p.estimate) for p in points if p.estimate is not None]
        if drawn:
            place.plot(*zip(*drawn, strict=True), "o", mfc="none", mec=method.colour, ms=6, mew=0.7)
        ends.append((y[-1], method.label, method.colour))
    if metric in ("fraction", "chance", "f1"):
        place.set_ylim(-0.03, 1.03)
    for mark in _steps(panel, rows):
        place.axvline(mark, color="#BBBBBB", linewidth=0.8, zorder=0)
    _label_ends(place, ends)
    place.set_title(panel.title, fontsize=8.5)
    place.set_xlabel(AXES[panel.axis])
    place.set_ylabel(METRICS[metric])
    place.grid(axis="y", color="#E5E5E5", linewidth=0.6)
    for side in ("top", "right"):
        place.spines[side].set_visible(False)


def _steps(panel: Panel, rows: Iterable[Row]) -> list[float]:
    """Return where, in the mean, supports with one mistake more begin to be listed."""
    firsts = [
        r["first_with_mistakes"]
        for r in rows
        if r["panel"] == panel.name and "first_with_mistakes" in r
    ]
    return [sum(column) / len(column) for column in zip(*firsts, strict=True)] if firsts else []


def _label_ends(place: Any, ends: list[tuple[float, str, str]]) -> None:
    """Name the curves at their ends, moved apart where they meet."""
    low, high = place.get_ylim()
    heights = spread_out([(y - low) / (high - low) for y, _, _ in ends], _APART)
    for height, (_, label, colour) in zip(heights, ends, strict=True):
        place.annotate(
            label.replace(", ", ",\n"),
            (1.01, height),
            xycoords="axes fraction",
            color=colour,
            fontsize=8,
            va="center",
            annotation_clip=False,
        )


def spread_out(heights: list[float], apart: float) -> list[float]:
    """Return heights near the given ones, in the same order, at least `apart` from each other.

    They stay between 0 and 1 as long as there is room.

    >>> [round(h, 2) for h in spread_out([0.5, 0.5, 1.0, 1.0], 0.1)]
    [0.45, 0.55, 0.9, 1.0]
    """
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    groups: list[list[int]] = []
    for i in order:
        groups.append([i])
        while len(groups) > 1 and _start(groups[-1], heights, apart) < (
            _start(groups[-2], heights, apart) + apart * len(groups[-2])
        ):
            last = groups.pop()
            groups[-1] += last
    out = list(heights)
    for group in groups:
        start = _start(group, heights, apart)
        for k, i in enumerate(group):
            out[i] = start + k * apart
    return out


def _start(group: list[int], heights: list[float], apart: float) -> float:
    """Return where a stack of labels begins: around the middle of its heights, inside the plot."""
    span = apart * (len(group) - 1)
    middle = sum(heights[i] for i in group) / len(group)
    return max(min(middle - span / 2, 1.0 - span), 0.0)
