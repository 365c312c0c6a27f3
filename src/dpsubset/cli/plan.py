"""`dpsubset plan`: how many rows are enough? By simulation, on synthetic tables only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dpsubset.cli import options
from dpsubset.cli.ending import ending
from dpsubset.question import Question, default_loss, default_radius

__all__ = ["plan"]

# What a simulated table has no use for.
_WITHOUT = (
    *("always_include", "exclude", "intercept", "seed", "max_seconds", "sensitivity"),
    *("offset_share", "class_weights", "target_bounds_share", "max_size", "false_columns"),
    *("count", "trials", "accounting", "delta", "otherwise"),
)


@options.asks(Question, *_WITHOUT)
def plan(
    features: Annotated[int, typer.Option(help="How many columns there are to choose from.")],
    share: Annotated[
        float, typer.Option(help="How often the true columns are to be released.")
    ] = 0.9,
    snr: Annotated[float, typer.Option(help="Signal to noise ratio, of variances.")] = 5.0,
    rho: Annotated[float, typer.Option(help="Correlation of neighbouring columns.")] = 0.1,
    tables: Annotated[int, typer.Option(help="Simulated tables for each number of rows.")] = 5,
    draws: Annotated[int, typer.Option(help="Releases from each table.")] = 40,
    most: Annotated[int, typer.Option(help="Give up beyond so many rows.")] = 1_000_000,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Draw the chance over rows to this PNG or SVG file.", rich_help_panel="Output"
        ),
    ] = None,
    as_json: options.Json = False,
    **given: Any,
) -> None:
    """Say how many rows a selection needs, by simulation; no table of yours is read.

    Simulated columns are normal with standard deviation 1 and public bounds of -4 and 4, and so
    is the target; every true column has the same weight.
    """
    with ending(as_json):
        from dpsubset.cli.writing import check_destination
        from dpsubset.planning import Setting, check_picture, draw_answer, rows_for

        if output is not None:
            check_destination(output)
            check_picture(output)
        setting = Setting(
            default_loss(labels=False) if given["loss"] is None else given["loss"],
            given["clip"],
            given["ridge"],
            radius=default_radius(labels=False) if given["radius"] is None else given["radius"],
            columns=features,
            epsilon=given["epsilon"],
            size=options.size_of(given["size"]),
            snr=snr,
            rho=rho,
            neighbours=given["neighbours"],
            mechanism=given["mechanism"],
        )

        def tell(n: int, found: float) -> None:
            typer.echo(f"{n:>9,} rows: true columns in {found:.0%} of the releases", err=True)

        answer = rows_for(
            setting, share=share, tables=tables, draws=draws, most=most, progress=tell
        )
        if as_json:
            chances = {str(n): chance for n, chance in answer.tried.items()}
            typer.echo(json.dumps({"rows": answer.rows, "share": share, "tried": chances}))
        elif answer.rows is None:
            typer.echo(f"More than {max(answer.tried):,} rows are needed for {share:.0%}.")
        else:
            fewest = answer.rows == min(answer.tried)
            sure = "or fewer" if fewest else "to within a fifth"
            typer.echo(f"{answer.rows:,} rows for {share:.0%}, {sure}.")
        if output is not None:
            draw_answer(answer, setting, output)
            if not as_json:
                typer.echo(f"Written to {output}")
