"""Figures of the comparison: quality over epsilon, table by table; what was foretold and seen."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from dpsubset.planning.pictures import plotting

__all__ = ["draw_calibration", "draw_kind"]

CURVES = {
    "ours": ("#D55E00", "-", 2.0),
    "ours, stepwise": ("#E69F00", "-", 1.5),
    "ours, columns by Kendall": ("#CC79A7", "--", 1.0),
    "Kendall, boosted AdaSSP": ("#0072B2", "-", 1.0),
    "boosted AdaSSP": ("#56B4E9", "--", 1.0),
    "Kendall, TukeyEM": ("#009E73", "-", 1.0),
    "Frank-Wolfe": ("#999999", "-", 1.0),
}
_WIDE = 4


def draw_kind(found: Any, names: list[str], kind: str, epsilons: list[float], path: Path) -> None:
    """Draw medians over seeds of all methods, one panel a table, with quartiles of ours."""
    plt = plotting()
    high = math.ceil(len(names) / _WIDE)
    picture, places = plt.subplots(
        high, _WIDE, figsize=(3.0 * _WIDE, 2.4 * high), layout="constrained", squeeze=False
    )
    floor = -0.2 if kind == "numbers" else 0.4
    for place, name in zip(places.flat, names, strict=False):
        for method, (colour, style, width) in CURVES.items():
            curves = np.array([_quartiles(found[name, method, e]) for e in epsilons])
            curves = np.maximum(curves, floor)
            place.plot(epsilons, curves[:, 1], style, color=colour, linewidth=width, label=method)
            if method == "ours":
                place.fill_between(epsilons, curves[:, 0], curves[:, 2], color=colour, alpha=0.15)
        ceiling = _quartiles(found[name, "best subset", None])[1]
        place.axhline(ceiling, color="#000000", linewidth=0.8, linestyle=":")
        place.set_title(name, fontsize=9)
        place.set_xscale("log")
        place.set_ylim(floor - 0.02, None)
        place.tick_params(labelsize=7)
        for side in ("top", "right"):
            place.spines[side].set_visible(False)
    for place in places.flat[len(names) :]:
        place.axis("off")
    handles, labels = places[0, 0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    picture.savefig(path)
    plt.close(picture)


def _quartiles(rows: list[dict[str, Any]]) -> Any:
    values = [row["quality"] for row in rows if "quality" in row]
    return np.quantile(values, (0.25, 0.5, 0.75)) if values else np.full(3, np.nan)


Pair = tuple[float | None, float | None]


def draw_calibration(found: dict[str, dict[str, Pair]], path: Path) -> None:
    """Draw the epsilon that a plan foretold against the one that was seen, by its assumptions."""
    plt = plotting()
    picture, place = plt.subplots(figsize=(5.0, 4.6), layout="constrained")
    ends = np.array([0.07, 14.0])
    place.plot(ends, ends, color="#BBBBBB", linewidth=0.8)
    place.fill_between(ends, ends / 2, ends * 2, color="#EEEEEE")
    for (world, pairs), colour in zip(found.items(), ("#D55E00", "#BBBBBB"), strict=False):
        for number, (name, pair) in enumerate(pairs.items()):
            x, y = (12.0 if v is None else max(v, 0.1) for v in pair)
            label = world if number == 0 else None
            place.plot([x], [y], "o", color=colour, markersize=4, label=label)
            if colour == "#D55E00":
                place.annotate(f" {name}", (x, y), fontsize=7, color="#444444")
    place.legend(frameon=False, fontsize=8, loc="lower right")
    place.set_xscale("log")
    place.set_yscale("log")
    place.set_xlabel("epsilon foretold by plan (at the edge: beyond 0.1 to 10)")
    place.set_ylabel("epsilon seen")
    for side in ("top", "right"):
        place.spines[side].set_visible(False)
    picture.savefig(path)
    plt.close(picture)
