"""`dpsubset predict`: what a private model says of other tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dpsubset.cli import options
from dpsubset.cli.ending import ending
from dpsubset.errors import InputError

__all__ = ["predict"]


def predict(
    model: Annotated[Path, typer.Argument(help="A model that `dpsubset fit` wrote.")],
    table: options.Table,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Write the predictions to this file as CSV, not to the terminal.",
            rich_help_panel="Output",
        ),
    ] = None,
    covariates: options.Covariates = None,
    as_json: options.Json = False,
) -> None:
    """Predict the target for the rows of TABLE, one line a row, as CSV.

    Example: dpsubset predict model.json new.csv

    Rows are clipped to the bounds of the fit, and predicted numbers to the target's; missing values
    and unknown levels count as the schema of the fit says. The model is private; predictions for
    private rows tell of those rows.
    """
    with ending(as_json):
        import polars as pl

        from dpsubset.cli.stored import read_selected
        from dpsubset.cli.writing import writing
        from dpsubset.data import read_cells, read_columns
        from dpsubset.data.stores import is_stored
        from dpsubset.model_file import read_model
        from dpsubset.privacy.shown import printable

        with writing(output, keep=(table, model, covariates)) as write:
            stored = read_model(model)
            rows: Any
            if is_stored(table):
                rows = read_selected(stored, table, covariates)
            elif covariates is not None:
                raise InputError("--covariates are for a table that stays on disk: leave them out")
            else:
                rows = (
                    read_columns(table, stored.columns)
                    if stored.codings is None
                    else read_cells(table, stored.columns, line_breaks=stored.line_breaks)
                )
            found: dict[str, Any] = stored.predict(rows)
            text = pl.DataFrame(found).write_csv()
            write(text)
        if as_json:
            typer.echo(json.dumps({name: values.tolist() for name, values in found.items()}))
        elif output is None:
            if sys.stdout.isatty():  # a name could steer the terminal
                text = "\n".join(map(printable, text.split("\n")))
            typer.echo(text, nl=False, color=True)  # as it is, not without what looks like colour
