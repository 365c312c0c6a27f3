"""Pictures by matplotlib, an extra: how it is reached, and the picture of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpsubset.errors import InputError, MissingExtraError, without_context
from dpsubset.planning.plans import Plan
from dpsubset.planning.rows import Answer
from dpsubset.planning.simulate import Setting

__all__ = ["check_picture", "draw_answer", "draw_plan", "plotting"]

_COLOURS = ("#56B4E9", "#009E73", "#D55E00", "#0072B2", "#CC79A7", "#E69F00")


@without_context
def plotting() -> Any:
    """Return matplotlib's pyplot, without a screen, or say how to get it."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError(
            "figures are drawn by matplotlib: pip install 'dpsubset[figures]'"
        ) from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "dpsubset"  # the same picture is the same file
    matplotlib.rcParams["svg.fonttype"] = "none"
    import matplotlib.pyplot as plt

    return plt


def check_picture(path: Path) -> None:
    """Refuse a picture that could not be drawn, before any work."""
    plotting()
    if path.suffix.lower() not in (".png", ".svg"):
        raise InputError(f"{path}: the name of a picture must end in .png or .svg")


def draw_answer(answer: Answer, setting: Setting, path: Path) -> None:
    """Plot the share of true releases over rows, as PNG or SVG by the ending of the name."""
    plt = plotting()
    picture, place = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    points = sorted(answer.tried.items())
    place.plot(*zip(*points, strict=True), "o-", color="#D55E00")
    place.axhline(answer.share, color="#BBBBBB", linewidth=0.8)
    if answer.rows is not None:
        place.axvline(answer.rows, color="#BBBBBB", linewidth=0.8)
        place.annotate(f"  {answer.rows:,} rows", (answer.rows, 0.02), color="#444444")
    place.set_xscale("log")
    place.set_ylim(-0.03, 1.03)
    place.set_xlabel("rows")
    place.set_ylabel("chance of the true columns")
    place.set_title(
        f"{setting.size} of {setting.columns} columns, epsilon {setting.epsilon:g}, "
        f"{setting.loss} loss",
        fontsize=10,
    )
    for side in ("top", "right"):
        place.spines[side].set_visible(False)
    picture.savefig(path, dpi=110)
    plt.close(picture)


def draw_plan(plan: Plan, path: Path) -> None:
    """Plot chances and qualities of a plan, a curve for each strength of the signal."""
    plt = plotting()
    fitted = any(point.quality is not None for point in plan.points)
    picture, places = plt.subplots(
        1, 1 + fitted, figsize=(4.6 * (1 + fitted), 3.8), layout="constrained", squeeze=False
    )
    for k, signal in enumerate(plan.signals):
        points, colour = plan.of(signal), _COLOURS[k % len(_COLOURS)]
        at = [getattr(point, plan.over) for point in points]
        label = f"R^2 {signal:g}"
        places[0, 0].plot(at, [p.chance for p in points], "o-", color=colour, label=label)
        if fitted:
            places[0, 1].plot(at, [p.quality for p in points], "o-", color=colour, label=label)
            places[0, 1].plot(at, [p.best for p in points], ":", color=colour, linewidth=1.0)
    places[0, 0].axhline(plan.share, color="#BBBBBB", linewidth=0.8)
    places[0, 0].set_ylabel("chance of the right columns")
    places[0, 0].set_ylim(-0.03, 1.03)
    if fitted:
        name = "AUC" if plan.labels else "R^2"
        places[0, 1].set_ylabel(f"{name} of a private model (dotted: of the truth)")
    for place in places.flat:
        place.set_xscale("log")
        place.set_xlabel(plan.over)
        for side in ("top", "right"):
            place.spines[side].set_visible(False)
    places[0, 0].legend(frameon=False, fontsize=8)
    picture.savefig(path, dpi=110)
    plt.close(picture)
