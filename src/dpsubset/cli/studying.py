"""The commands `reproduce` and `plan`: simulations, on made-up tables only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpsubset.cli import options
from dpsubset.cli.ending import errors_as_text

__all__ = ["plan", "reproduce"]


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
) -> None:
    """Draw the paper's figures again, with our mechanisms beside the paper's.

    Results are written as they arrive; a run that was ended goes on where it was.
    """
    with errors_as_text():
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
        typer.echo(f"Written to {report}")


def plan(
    features: Annotated[int, typer.Option(help="How many columns there are to choose from.")],
    size: options.Size = 5,
    epsilon: Annotated[float, typer.Option(help="The privacy budget of a release.")] = 1.0,
    share: Annotated[
        float, typer.Option(help="How often the true columns are to be released.")
    ] = 0.9,
    snr: Annotated[float, typer.Option(help="Signal to noise ratio, of variances.")] = 5.0,
    rho: Annotated[float, typer.Option(help="Correlation of neighbouring columns.")] = 0.1,
    loss: options.Loss = "absolute",
    mechanism: Annotated[str, typer.Option(help=f"{options.MECHANISMS}.")] = "permute-and-flip",
    neighbours: options.Neighbours = "replace-one",
    clip: options.Clip = 1.0,
    ridge: options.Ridge = 10.0,
    radius: options.Radius = 1.0,
    tables: Annotated[int, typer.Option(help="Simulated tables for each number of rows.")] = 5,
    draws: Annotated[int, typer.Option(help="Releases from each table.")] = 40,
    most: Annotated[int, typer.Option(help="Give up beyond so many rows.")] = 1_000_000,
    output: Annotated[
        Path | None, typer.Option(help="Draw the chance over rows to this PNG or SVG file.")
    ] = None,
) -> None:
    """Say how many rows a selection needs, by simulation; no table of yours is read.

    Simulated columns are normal with standard deviation 1 and public limits of -4 and 4, and so
    is the target; every true column has the same weight.
    """
    with errors_as_text():
        from dpsubset.cli.writing import check_destination
        from dpsubset.planning import Setting, check_picture, draw_answer, rows_for

        if output is not None:
            check_destination(output)
            check_picture(output)
        setting = Setting(
            loss,
            clip,
            ridge,
            radius=radius,
            columns=features,
            epsilon=epsilon,
            size=size,
            snr=snr,
            rho=rho,
            neighbours=neighbours,
            mechanism=mechanism,
        )

        def tell(n: int, found: float) -> None:
            typer.echo(f"{n:>9,} rows: true columns in {found:.0%} of the releases", err=True)

        answer = rows_for(
            setting, share=share, tables=tables, draws=draws, most=most, progress=tell
        )
        if answer.rows is None:
            typer.echo(f"More than {max(answer.tried):,} rows are needed for {share:.0%}.")
        else:
            fewest = answer.rows == min(answer.tried)
            sure = "or fewer" if fewest else "to within a fifth"
            typer.echo(f"{answer.rows:,} rows for {share:.0%}, {sure}.")
        if output is not None:
            draw_answer(answer, setting, output)
            typer.echo(f"Written to {output}")
