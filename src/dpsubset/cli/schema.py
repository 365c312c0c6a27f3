"""`dpsubset schema`: a template from the names and types of a table, and a check of a schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsubset.cli import options
from dpsubset.cli.ending import ending
from dpsubset.errors import InputError

if TYPE_CHECKING:
    from dpsubset.data.columns import Column

__all__ = ["schema"]


def schema(
    table: Annotated[
        Path | None, typer.Argument(help="A CSV or Parquet file with column names.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="The target; has a place of its own.", rich_help_panel="Table"),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            help="Check this schema, with TABLE by its names and types, and name every fault.",
            rich_help_panel="Table",
        ),
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
    """Write a schema for TABLE, to be filled in: what is public about its columns.

    Example: dpsubset schema table.csv --target cost --output schema.toml

    Fill it in from public knowledge, such as a codebook. No row of the table is read. Then
    --check schema.toml table.csv names what is still wrong.
    """
    with ending(as_json):
        if check is not None:
            _check(check, table, as_json)
        elif table is None:
            raise InputError("name a table, a CSV or Parquet file, or a schema with --check")
        else:
            _write(table, target, output, force, as_json)


def _check(path: Path, table: Path | None, as_json: bool) -> None:
    from dpsubset.data import check_file, read_names, read_types
    from dpsubset.privacy.shown import printable

    names = None if table is None else read_names(table)
    book = check_file(path, names, {} if table is None else read_types(table))
    target = None if book.target is None else book.target_name
    shown = names or [*book.columns, *([] if target is None else [target])]
    kinds = {name: _kind(book.column(name)) for name in shown}
    if as_json:
        typer.echo(json.dumps({"columns": kinds, "target": book.target_name}))
        return
    width = max(map(len, map(printable, kinds)), default=0)
    for name, kind in kinds.items():
        mark = "    the target" if name == book.target_name else ""
        typer.echo(f"  {printable(name):{width}}  {kind}{mark}")
    typer.echo(f"No fault found in {path}.")


def _kind(column: Column | None) -> str:
    """Return what a person calls a kind of column."""
    from dpsubset.data.columns import Unbounded

    if isinstance(column, Unbounded):
        return "number, bounds drawn privately"
    return type(column).__name__.lower()


def _write(
    table: Path, target: str | None, output: Path | None, force: bool, as_json: bool
) -> None:
    from dpsubset.cli.writing import writing
    from dpsubset.data import (
        looks_headless,
        pick_features,
        read_names,
        read_types,
        schema_template,
    )

    if output is not None and output.exists() and not output.is_dir() and not force:
        raise InputError(f"{output} exists. Choose another name, or overwrite it with --force")
    names = read_names(table)
    if target is not None:
        pick_features(names, target, None)
    template = schema_template(names, target, read_types(table))
    with writing(output, keep=(table,)) as write:
        write(template)
    if as_json:
        typer.echo(json.dumps({"columns": names, "template": template}))
    elif output is None:
        typer.echo(template, nl=False)
    else:
        typer.echo(f"Wrote {output}: fill in what every column may hold.")
    if table.suffix.lower() == ".csv" and looks_headless(names):
        typer.echo("warning: some names are numbers; is the first line a header?", err=True)
