"""`dpsubset schema`: a template for the bounds of a table, made from its names alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dpsubset.cli import options
from dpsubset.cli.ending import ending
from dpsubset.errors import InputError

__all__ = ["schema"]


def schema(
    table: options.Table,
    target: Annotated[
        str | None,
        typer.Option(help="The target; marked in the file.", rich_help_panel="Table"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Write the template to this file instead of the terminal.",
            rich_help_panel="Output",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite an existing file.", rich_help_panel="Output"),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Write a file with the column names of TABLE and empty bounds, to be filled in.

    Fill the bounds in from public knowledge. No row of the table is read.
    """
    with ending(as_json):
        from dpsubset.cli.writing import writing
        from dpsubset.data import bounds_template, looks_headless, pick_features, read_names

        if output is not None and output.exists() and not output.is_dir() and not force:
            raise InputError(f"{output} exists. Choose another name, or overwrite it with --force")
        names = read_names(table)
        if target is not None:
            pick_features(names, target, None)
        template = bounds_template(names, target)
        with writing(output, keep=(table,)) as write:
            write(template)
        if as_json:
            typer.echo(json.dumps({"columns": names, "template": template}))
        elif output is None:
            typer.echo(template, nl=False)
        else:
            typer.echo(f"Wrote {output}: fill in the bounds of every column.")
        if table.suffix.lower() == ".csv" and looks_headless(names):
            typer.echo("warning: some names are numbers; is the first line a header?", err=True)
