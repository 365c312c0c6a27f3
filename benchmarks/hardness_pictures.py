"""The picture of the map of hardness: where a first release is slow, label beside label."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hardness_page import Line, first_seconds, labels_of
from benchmarks.hardness_real import TABLES
from benchmarks.hardness_tables import KINDS
from dpsubset.arrays import Floats
from dpsubset.planning.pictures import plotting

__all__ = ["draw", "heat"]

REFUSED = "#FF2D95"  # not on the scale of seconds
NOTHING = "#EDEDED"
FASTEST, SLOWEST = 0.01, 100.0  # the ends of the scale, in seconds

Column = tuple[float, ...]


def heat(
    lines: Sequence[Line], rows: Sequence[str], columns: Sequence[Column], fields: Sequence[str]
) -> Floats:
    """Return the 90th percentile of the seconds in every bin; NaN where nothing was measured.

    >>> line = {"table": "noise", "p": 20, "first": 3.0}
    >>> heat([line], ["noise", "paper"], [(20,), (50,)], ["p"]).tolist()
    [[3.0, nan], [nan, nan]]
    """
    out = np.full((len(rows), len(columns)), np.nan)
    for i, table in enumerate(rows):
        for j, column in enumerate(columns):
            bin_ = [
                first_seconds(line)
                for line in lines
                if line["table"] == table and tuple(line[name] for name in fields) == column
            ]
            if bin_:
                out[i, j] = np.quantile(bin_, 0.9, method="higher")
    return out


def draw(lines: Sequence[Line], path: Path) -> None:
    """Draw the map: kinds of tables by size and epsilon and by columns, and real tables."""
    plt = plotting()
    labels = labels_of(lines)
    synthetic = [line for line in lines if not line["real"]]
    real = [line for line in lines if line["real"]]
    kinds = _in_order(synthetic, KINDS)
    tables = _in_order(real, TABLES)
    height = 2.6 + 0.3 * (len(kinds) + len(tables))
    picture = plt.figure(figsize=(2.0 + 9.5 * max(len(labels), 1), height), layout="constrained")
    grid = picture.add_gridspec(
        2,
        2 * max(len(labels), 1),
        width_ratios=[15, 8] * max(len(labels), 1),
        height_ratios=[max(len(kinds), 1), max(len(tables), 1)],
    )
    asked = _columns(synthetic, ("size", "epsilon"))
    asked_of_real = _columns(real, ("size", "epsilon"))
    widths = _columns(synthetic, ("p",))
    for k, label in enumerate(labels):

        def panel(
            row: int,
            column: int,
            some: Sequence[Line],
            names: list[str],
            columns: list[Column],
            fields: tuple[str, ...],
            label: str = label,
            k: int = k,
        ) -> Any:
            place = picture.add_subplot(grid[row, 2 * k + column])
            chosen = [line for line in some if line["label"] == label]
            _panel(place, heat(chosen, names, columns, fields), columns)
            shown = names if k == column == 0 else [""] * len(names)
            place.set_yticks(range(len(names)), shown, fontsize=11)
            return place

        if synthetic:
            place = panel(0, 0, synthetic, kinds, asked, ("size", "epsilon"))
            place.set_title(f"{label}: s and epsilon", fontsize=14)
            panel(0, 1, synthetic, kinds, widths, ("p",)).set_title("columns", fontsize=14)
        if real:
            place = panel(1, 0, real, tables, asked_of_real, ("size", "epsilon"))
            place.set_title(f"{label}: real tables", fontsize=14)
    if labels:
        _legend(picture, picture.add_subplot(grid[1, 2 * len(labels) - 1]), plt)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, dpi=80)
    plt.close(picture)


def _in_order(lines: Sequence[Line], known: Iterable[str]) -> list[str]:
    found = {line["table"] for line in lines}
    return [name for name in known if name in found]


def _columns(lines: Sequence[Line], fields: tuple[str, ...]) -> list[Column]:
    return sorted({tuple(line[name] for name in fields) for line in lines})


def _colour() -> Callable[[float], Any]:
    """Return the colour of seconds: light is quick, dark is slow."""
    import matplotlib

    scale = matplotlib.colormaps["YlGnBu"]
    low, high = math.log10(FASTEST), math.log10(SLOWEST)

    def colour(seconds: float) -> Any:
        if math.isnan(seconds):
            return NOTHING
        if math.isinf(seconds):
            return REFUSED
        return scale((math.log10(max(seconds, FASTEST)) - low) / (high - low))

    return colour


def _panel(place: Any, seconds: Floats, columns: list[Column]) -> None:
    from matplotlib.colors import to_rgb

    colour = _colour()
    image = np.array([[to_rgb(colour(s)) for s in row] for row in seconds])
    place.imshow(image, aspect="auto")
    for i, row in enumerate(seconds):
        for j, value in enumerate(row):
            if math.isfinite(value):
                dark = value > 2.0
                shown = f"{value:.0f}" if value >= 9.95 else f"{value:.1g}".removeprefix("0")
                ink = "white" if dark else "#555555"
                place.text(j, i, shown, ha="center", va="center", fontsize=8, color=ink)
    place.set_xticks(range(len(columns)), [_tick(c) for c in columns], fontsize=10)
    ends = [j for j in range(1, len(columns)) if len(columns[0]) > 1]
    for j in ends:
        if columns[j][0] != columns[j - 1][0]:
            place.axvline(j - 0.5, color="black", linewidth=1.2)
    place.tick_params(length=0)


def _tick(column: Column) -> str:
    if len(column) == 1:
        return f"{column[0]:,}" if column[0] < 1000 else f"{column[0] / 1000:g}k"
    size, epsilon = column
    return f"{epsilon:g}\ns={size:g}"


def _legend(picture: Any, place: Any, plt: Any) -> None:
    import matplotlib
    from matplotlib.colors import LogNorm

    place.set_axis_off()
    scale = matplotlib.cm.ScalarMappable(LogNorm(FASTEST, SLOWEST), "YlGnBu")
    bar = picture.colorbar(scale, cax=place.inset_axes((0.12, 0.1, 0.08, 0.8)))
    bar.set_label("processor seconds to the\nfirst release, 90th percentile", fontsize=11)
    bar.ax.tick_params(labelsize=11)
    patches = [
        plt.Rectangle((0, 0), 1, 1, color=REFUSED, label="no release at the limit"),
        plt.Rectangle((0, 0), 1, 1, color=NOTHING, label="not measured"),
    ]
    place.legend(handles=patches, loc="upper right", fontsize=11, frameon=False)
