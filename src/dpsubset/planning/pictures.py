"""Pictures by matplotlib, an extra: how it is reached, and the picture of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpsubset.errors import InputError, MissingExtraError, without_context
from dpsubset.planning.rows import Answer
from dpsubset.planning.simulate import Setting

__all__ = ["check_picture", "draw_answer", "draw_plan", "figure_of", "plotting"]


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

    Examples
    --------
    >>> check_picture(Path("plan.png"))
    """
    plotting()
    if path.suffix.lower() not in (".png", ".svg"):
        raise InputError(f"{path}: the name of a picture must end in .png or .svg")


def figure_of(width: float, height: float) -> tuple[Any, Any]:
    """Return a figure, which belongs to no screen and leaves pyplot alone, and its axes."""
    _matplotlib()
    from matplotlib.figure import Figure

    picture = Figure(figsize=(width, height), layout="constrained")
    place = picture.subplots()
    for side in ("top", "right"):
        place.spines[side].set_visible(False)
    return picture, place


def draw_plan(place: Any, answer: Answer, setting: Setting) -> None:
    """Draw the share of true releases over rows into axes."""
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


def draw_answer(answer: Answer, setting: Setting, path: Path) -> None:
    """Plot the share of true releases over rows, as PNG or SVG by the ending of the name.

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
    plotting()  # its settings make the same picture the same file
    picture, place = figure_of(6.4, 4.0)
    draw_plan(place, answer, setting)
    picture.savefig(path, dpi=110)
