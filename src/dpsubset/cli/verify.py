"""`dpsubset verify`: is a release file what it says?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dpsubset.cli import options
from dpsubset.cli.ending import ending

__all__ = ["verify"]


def verify(
    release: Annotated[
        Path, typer.Argument(help="What `select --output` or `fit --output` wrote.")
    ],
    ledger: Annotated[
        Path | None,
        typer.Option(help="The ledger that was charged: does it hold just this release?"),
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="The schema, or the file of bounds, of the release.")
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="The table, if the schema does not list all columns in their order. Its header "
            "alone is read."
        ),
    ] = None,
    sha256: Annotated[
        str | None, typer.Option(help="The checksum of the record that a certificate shows.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check a release file or a model file: its record, its entry in a ledger, its schema.

    Example: dpsubset verify release.json --schema schema.toml --ledger budget.db

    What is not given is not checked, and said to be so. A record alone cannot show that it was
    edited with care: the ledger can, and the checksum of a signed certificate. The exit code is 1
    if anything fails.
    """
    with ending(as_json):
        from dpsubset.certificate import read_record
        from dpsubset.certificate import verify as check
        from dpsubset.data import read_names

        verdict = check(
            read_record(release),
            ledger=ledger,
            schema=schema,
            names=None if table is None else read_names(table),
            sha256=sha256,
        )
        typer.echo(json.dumps(verdict.to_dict(), indent=2) if as_json else str(verdict))
        if not verdict.holds:
            raise typer.Exit(1)
