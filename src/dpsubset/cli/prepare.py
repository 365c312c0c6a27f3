"""`dpsubset prepare`: compile everything beforehand, for an image or a shared machine."""

from __future__ import annotations

import json

import typer

from dpsubset.cli import options
from dpsubset.cli.ending import ending

__all__ = ["prepare"]


def prepare(as_json: options.Json = False) -> None:
    """Compile the inner loops now, so that no later call waits for it (one or two minutes).

    Example: dpsubset prepare

    The code is kept next to the package if that folder can be written to (all users of the machine
    read it there), else in the user's cache folder, or where NUMBA_CACHE_DIR says.
    """
    with ending(as_json):
        from dpsubset.compiled import folders
        from dpsubset.warm import warm_up

        if not as_json:
            typer.echo("Compiling the inner loops: one or two minutes, once.", err=True)
        warm_up()
        where = folders()
        if as_json:
            typer.echo(json.dumps({"folders": where}))
        elif where:
            typer.echo(f"Prepared; kept in {where[0]}" + (" and others" if where[1:] else ""))
        else:
            typer.echo("Prepared for this process alone: no folder can be written to")
            raise typer.Exit(1)
