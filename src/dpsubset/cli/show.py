"""Outcomes on the terminal and as JSON. The number of rows is shown nowhere."""

from __future__ import annotations

import json
from textwrap import indent
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpsubset.cli.selecting import Line, Outcome
from dpsubset.model_file import LinearModel
from dpsubset.privacy import Guarantee, Ledger
from dpsubset.privacy.shown import printable

__all__ = ["print_left", "print_model", "print_outcome", "to_json"]

_TIMES = "The seconds depend on the data and are no part of the guarantee."


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave the end to the command; the library's exit code 1 would mean a refusal."""
        raise BrokenPipeError


def to_json(outcome: Outcome, *, timings: bool, ascii_only: bool) -> str:
    """Return the record of a release, or of a comparison an object with a list of records.

    A terminal may lack letters that a file can hold; `ascii_only` escapes them.
    """
    entries = [
        line.record | ({"seconds": line.seconds} if timings else {}) for line in outcome.lines
    ]
    document: dict[str, Any] = entries[0]
    if outcome.compared:
        document = {"releases": entries, "total_epsilon": outcome.epsilon}
    return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=ascii_only) + "\n"


def print_outcome(outcome: Outcome, *, quiet: bool, timings: bool) -> None:
    """Print an outcome for people."""
    if quiet:
        for line in outcome.lines:
            prefix = f"{line.mechanism}\t" if outcome.compared else ""
            for name in line.columns or ():
                typer.echo(prefix + printable(name))
        return
    console = _Console(highlight=False, markup=False, emoji=False)
    if outcome.compared:
        _print_comparison(console, outcome, timings)
    else:
        _print_release(console, outcome, outcome.lines[0])
        if timings:
            console.print(f"{outcome.lines[0].seconds:.2f} seconds. {_TIMES}")
    print_left(outcome.ledger)


def print_left(ledger: Ledger | None) -> None:
    """Print what is left of a budget."""
    if ledger is not None:
        typer.echo(f"Budget: {ledger}")


def print_model(model: LinearModel) -> None:
    """Print a model for people."""
    console = _Console(highlight=False, markup=False, emoji=False)
    n = len(model.columns)
    head = f"{n} column{'' if n == 1 else 's'} for {printable(model.target or 'the target')}"
    console.print(Text(head, style="bold"))
    width = max(map(len, map(printable, model.labels)), default=0)
    for name, value in zip(model.labels, model.coefficients, strict=True):
        console.print(f"  {printable(name):{width}}  {value:.6g}", soft_wrap=True)
    console.print(f"  {'intercept':{width}}  {model.intercept:.6g}", soft_wrap=True)
    _print_guarantee(console, Guarantee.from_dict(model.guarantee))


def _print_release(console: Console, outcome: Outcome, line: Line) -> None:
    columns = line.columns or ()
    head = f"{len(columns)} of {outcome.n_features} columns for {printable(outcome.target)}"
    console.print(Text(head, style="bold"))
    for name in columns:
        console.print(f"  {printable(name)}", soft_wrap=True)
    offset = (line.record["released"] or {}).get("offset")
    if offset is not None:
        console.print(f"offset {offset:.6g}")
    bounds = (line.record["released"] or {}).get("target_bounds")
    if bounds is not None:
        window = "window_share" in line.record["asked"]
        name = "window" if window else "bounds"
        console.print(f"target's {name} {bounds[0]:.6g} to {bounds[1]:.6g}")
    _print_guarantee(console, line.guarantee)


def _print_guarantee(console: Console, guarantee: Guarantee) -> None:
    console.print(Text("Guarantee", style="bold"))
    console.print(indent(str(guarantee), "  "), soft_wrap=True)


def _print_comparison(console: Console, outcome: Outcome, timings: bool) -> None:
    title = f"Columns selected among {outcome.n_features} for {printable(outcome.target)}"
    table = Table(title=title, show_lines=True)
    table.add_column("Mechanism", no_wrap=True)
    table.add_column("Columns", overflow="fold")
    table.add_column("Guarantee", overflow="fold")
    if timings:
        table.add_column("Seconds", justify="right", no_wrap=True)
    for line in outcome.lines:
        names = "\n".join(map(printable, line.columns or ())) or "none"
        shown = names if line.refusal is None else f"refused: {line.refusal}"
        cells = [line.mechanism, shown, str(line.guarantee)]
        table.add_row(*map(Text, [*cells, f"{line.seconds:.2f}"] if timings else cells))
    console.print(table)
    conditional = any(line.guarantee.condition for line in outcome.lines)
    console.print(
        f"These are {len(outcome.lines)} releases, and each spends its own epsilon: publishing all "
        f"of them spends {outcome.epsilon:.12g} in total"
        + (f", with a delta of {outcome.delta:.6g}" if outcome.delta else "")
        + (", if the conditions named above hold. " if conditional else ". ")
        + "Choose one mechanism for real use."
    )
    if timings:
        console.print(f"{_TIMES} They are shown for the demonstration.")
