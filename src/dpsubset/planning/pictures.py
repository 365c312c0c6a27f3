"""Pictures by matplotlib, an extra: how it is reached, and the picture of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpsubset.errors import InputError, MissingExtraError, without_context
from dpsubset.planning.plans import Plan
from dpsubset.planning.rows import Answer
from dpsubset.planning.simulate import Setting

__all__ = [
    "answer_figure",
    "check_picture",
    "draw_answer",
    "draw_plan",
    "figure_of",
    "plan_figure",
    "plotting",
]

_COLOURS = ("#56B4E9", "#009E73", "#D55E00", "#0072B2", "#CC79A7", "#E69F00")


@without_context
def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError(
            "figures are drawn by matplotlib: pip install 'dpsubset[figures]'"
        ) from None
    return matplotlib


def plotting() -> Any:
    """Return matplotlib's pyplot, without a screen, or say how to get it."""
    matplotlib = _matplotlib()
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "dpsubset"  # the same picture is the same file
    matplotlib.rcParams["svg.fonttype"] = "none"
    import matplotlib.pyplot as plt

    return plt


def check_picture(path: Path) -> None:
    """Refuse a picture that could not be drawn, before any work.

    Parameters
    ----------
    path : Path
        Where the picture is to go.

    Examples
    --------
    >>> check_picture(Path("plan.png"))
    """
    plotting()
    if path.suffix.lower() not in (".png", ".svg"):
        raise InputError(f"{path}: the name of a picture must end in .png or .svg")


def figure_of(width: float, height: float, panels: int = 1) -> tuple[Any, Any]:
    """Return a figure, which belongs to no screen and leaves pyplot alone, and its axes.

    They are an array where there are several panels.
    """
    _matplotlib()
    from matplotlib.figure import Figure

    picture = Figure(figsize=(width, height), layout="constrained")
    places = picture.subplots(1, panels)
    for place in picture.axes:
        for side in ("top", "right"):
            place.spines[side].set_visible(False)
    return picture, places


def answer_figure(answer: Answer, setting: Setting) -> Any:
    """Return a figure of the share of true releases over rows."""
    picture, place = figure_of(6.4, 4.0)
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
        f"{setting.loss or 'default'} loss",
        fontsize=10,
    )
    return picture


def plan_figure(plan: Plan) -> Any:
    """Return a figure of chances and qualities of a plan, a curve for each strength of signal."""
    fitted = any(point.quality is not None for point in plan.points)
    picture, _ = figure_of(4.6 * (1 + fitted), 3.8, 1 + fitted)
    chances, qualities = picture.axes[0], picture.axes[-1]
    for k, signal in enumerate(plan.signals):
        points, colour = plan.of(signal), _COLOURS[k % len(_COLOURS)]
        at = [getattr(point, plan.over) for point in points]
        label = f"R^2 {signal:g}"
        chances.plot(at, [p.chance for p in points], "o-", color=colour, label=label)
        if fitted:
            qualities.plot(at, [p.quality for p in points], "o-", color=colour, label=label)
            qualities.plot(at, [p.best for p in points], ":", color=colour, linewidth=1.0)
    chances.axhline(plan.share, color="#BBBBBB", linewidth=0.8)
    chances.set_ylim(-0.03, 1.03)
    for place in picture.axes:
        place.set_xscale("log")
        place.set_xlabel(plan.over)
    if fitted:
        name = "AUC" if plan.labels else "R^2"
        qualities.set_ylabel(f"{name} of a private model (dotted: of the truth)")
    chances.set_ylabel("chance of the right columns")
    chances.legend(frameon=False, fontsize=8)
    return picture


def draw_answer(answer: Answer, setting: Setting, path: Path) -> None:
    """Plot the share of true releases over rows, as PNG or SVG by the ending of the name.

    Parameters
    ----------
    answer : Answer
        What `rows_for` found.
    setting : Setting
        What it was asked for.
    path : Path
        Where the picture goes.

    Examples
    --------
    >>> import tempfile
    >>> answer = Answer(256, 0.9, {128: 0.5, 256: 0.95})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "plan.png"
    ...     draw_answer(answer, Setting("huber:0.2", 1.0, 10.0), path)
    ...     path.stat().st_size > 1000
    True
    """
    _save(answer_figure(answer, setting), path)


def draw_plan(plan: Plan, path: Path) -> None:
    """Plot a plan, as PNG or SVG by the ending of the name.

    Parameters
    ----------
    plan : Plan
        What `plan` found.
    path : Path
        Where the picture goes.

    Examples
    --------
    >>> import tempfile
    >>> from dpsubset.planning.plans import Point
    >>> points = (Point(1000, 1.0, 0.3, 1, 0.1), Point(1000, 10.0, 0.3, 1, 0.9))
    >>> found = Plan(points, share=0.5, over="epsilon", labels=False, asked={})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "plan.png"
    ...     draw_plan(found, path)
    ...     path.stat().st_size > 1000
    True
    """
    _save(plan_figure(plan), path)


def _save(picture: Any, path: Path) -> None:
    plotting()  # its settings make the same picture the same file
    picture.savefig(path, dpi=110)
