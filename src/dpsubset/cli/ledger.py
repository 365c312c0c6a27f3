"""`dpsubset ledger`: a privacy budget in a file, and what was spent of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsubset.cli import options
from dpsubset.cli.ending import ending

if TYPE_CHECKING:
    from dpsubset.privacy import Ledger

__all__ = ["ledger"]


def ledger(
    path: Annotated[Path, typer.Argument(help="The file of the ledger.")],
    epsilon: Annotated[
        float | None, typer.Option(help="Begin a ledger with this budget; it cannot be changed.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Its budget of deltas; 0 if not given.")
    ] = None,
    neighbours: Annotated[
        str | None,
        typer.Option(help="What it is meant for: replace-one if not given, or add-remove."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            help="The name of the table that it is for; if not given, that of the first one that "
            "is charged. Other tables are refused."
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Begin a privacy budget in a file, or show what was spent of one, on what.

    Example: dpsubset ledger budget.db --epsilon 3

    `select` and `fit` charge it with --ledger. A ledger is for one table, known by its name (that
    of its file, or --table-name), and refuses others.
    """
    with ending(as_json):
        from dpsubset.privacy import Ledger

        found = Ledger(path, epsilon, delta, neighbours, table)
        if as_json:
            budget = {"epsilon": found.epsilon, "delta": found.delta}
            content = {
                "table": found.table,
                "budget": budget | {"neighbours": found.neighbours},
                "spent": dict(zip(("epsilon", "delta"), found.spent, strict=True)),
                "history": [entry.to_dict() for entry in found.history()],
            }
            typer.echo(json.dumps(content, indent=2))
        else:
            _print_ledger(found)


def _print_ledger(ledger: Ledger) -> None:
    from dpsubset.privacy.guarantee import rounded_up
    from dpsubset.privacy.shown import printable

    typer.echo(str(ledger))
    history = ledger.history()
    for entry in history:
        released = entry.released or {}
        names = (
            released.get("columns") or released.get("positions") or released.get("support") or ()
        )
        shown = ", ".join(printable(str(name)) for name in names)
        typer.echo(
            f"{entry.number:>4}  {entry.time}  epsilon {rounded_up(entry.guarantee.epsilon):<8} "
            f"delta {rounded_up(entry.guarantee.delta):<8} {entry.outcome:<9} {shown}".rstrip()
        )
        unnamed = "" if entry.table is not None else "table not named; "
        by = "" if entry.by is None else f"by {printable(entry.by)}; "
        held = "; on a condition" if entry.guarantee.condition else ""
        seeded = "; seeded" if entry.guarantee.randomness == "seeded" else ""
        mechanism = printable(entry.guarantee.mechanism)
        typer.echo(f"      {unnamed}{by}{mechanism}{held}{seeded}")
    conditions = dict.fromkeys(e.guarantee.condition for e in history if e.guarantee.condition)
    for condition in conditions:
        typer.echo(f"What was spent rests on the condition that {printable(condition)}.")
    if any(entry.guarantee.randomness == "seeded" for entry in history):
        typer.echo("Some releases were seeded: for experiments only, not private.")
