"""Everything that `dpsubset reproduce` does: trials, pictures, the report."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from dpsubset.experiments.reproduction.drawing import draw_figure, plotting
from dpsubset.experiments.reproduction.report import write_report
from dpsubset.experiments.reproduction.runs import Results, jobs_of, run_jobs
from dpsubset.experiments.reproduction.settings import settings

__all__ = ["main"]


def main(
    name: str,
    *,
    trials: int = 10,
    draws: int = 50,
    workers: int = 2,
    quick: bool = False,
    out: Path,
) -> Path:
    """Run what is missing, draw, and write the report; return its path."""
    figures = settings().chosen(name)
    plotting()  # a missing library is noticed now
    results = Results(out / "results.jsonl")
    jobs = jobs_of(figures, trials=trials, draws=draws, quick=quick)
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
    rows = results.rows(jobs)
    pictures = {figure.name: draw_figure(figure, rows, out) for figure in figures}
    report = out / "report.html"
    write_report(report, figures, rows, pictures, results.failures(jobs), draws)
    return report
