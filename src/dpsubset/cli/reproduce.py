"""`dpsubset reproduce`: the paper's figures, drawn again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dpsubset.cli import options
from dpsubset.cli.ending import ending

__all__ = ["reproduce"]


def reproduce(
    figure: Annotated[
        str,
        typer.Argument(
            help="p100, p1000, p10000, hinge, prediction, ablation-count, ablation-ridge, "
            "ablation-bound, or all."
        ),
    ],
    trials: Annotated[int, typer.Option(help="Tables for each point.")] = 10,
    draws: Annotated[int, typer.Option(help="Draws of each method from a table.")] = 50,
    jobs: Annotated[int, typer.Option(help="Processes at a time.")] = 2,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer points, 2 tables, 10 draws: to see it work.")
    ] = False,
    draw_only: Annotated[
        bool, typer.Option("--draw-only", help="Run nothing: draw the results that are there.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for results, pictures and the report.")] = Path(
        "reproduction"
    ),
    as_json: options.Json = False,
) -> None:
    """Draw the paper's figures again, with our mechanisms alongside the paper's.

    Example: dpsubset reproduce all --out figures

    Results are written as they arrive; a run that was ended goes on where it was.
    """
    with ending(as_json):
        from dpsubset.reproduction.main import main

        if quick:
            trials, draws = min(trials, 2), min(draws, 10)
        report = main(
            figure,
            trials=trials,
            draws=draws,
            workers=jobs,
            quick=quick,
            draw_only=draw_only,
            out=out,
        )
        typer.echo(json.dumps({"report": str(report)}) if as_json else f"Written to {report}")
