"""Everything that `dpsubset reproduce` does: trials, pictures, the report."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from dpsubset.checks import whole
from dpsubset.errors import InputError
from dpsubset.planning.pictures import plotting
from dpsubset.reproduction.drawing import draw_figure
from dpsubset.reproduction.report import write_report
from dpsubset.reproduction.runs import Results, jobs_of, run_jobs
from dpsubset.reproduction.settings import settings
from dpsubset.reproduction.trial import Job

__all__ = ["main"]


def main(
    name: str,
    *,
    trials: int = 10,
    draws: int = 50,
    workers: int = 2,
    quick: bool = False,
    draw_only: bool = False,
    out: Path,
) -> Path:
    """Run what is missing, unless told not to, draw, and write the report; return its path."""
    figures, workers = settings().chosen(name), whole(workers, "jobs", 1)
    plotting()  # a missing library is noticed now
    results = Results(out / "results.jsonl")
    jobs = jobs_of(figures, trials=trials, draws=draws, quick=quick)
    if not jobs:
        raise InputError(f"the figure {name!r} has no quick points: leave --quick out")
    if not draw_only:
        _run(jobs, results, workers)
    rows = results.rows(jobs)
    shown = {row["panel"] for row in rows}
    figures = [figure for figure in figures if shown.intersection(figure.panels)]
    if not figures:
        raise InputError(f"{out} has no results of {name!r} yet: leave --draw-only out")
    pictures = {figure.name: draw_figure(figure, rows, out) for figure in figures}
    report = out / "report.html"
    write_report(report, figures, rows, pictures, results.failures(jobs), draws)
    return report


def _run(jobs: list[Job], results: Results, workers: int) -> None:
    """Run what is missing, with a bar that shows the time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        missing = [job for job in jobs if job not in results]
        task = progress.add_task("trials", total=len(jobs), completed=len(jobs) - len(missing))
        for job in run_jobs(missing, results, workers=workers):
            progress.update(task, advance=1, description=f"{job.panel}")
