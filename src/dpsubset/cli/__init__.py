"""The command `dpsubset`: parse, call, print.

Heavy libraries are imported inside the commands, so that `dpsubset --help` answers at once.
"""

from __future__ import annotations

import io
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from dpsubset import __version__
from dpsubset.cli import options
from dpsubset.cli.checking import audit, show_ledger
from dpsubset.cli.ending import errors_as_text
from dpsubset.cli.modelling import fit, predict
from dpsubset.cli.studying import plan, reproduce
from dpsubset.errors import InputError

__all__ = ["app", "main"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Private variable selection: the columns that best explain a target, under "
    "differential privacy. Exit codes: 0 done; 1 refused (a limit, a test of the mechanism, or the "
    "budget); 2 a mistake in what was given, or the machine's memory or disk is not enough; 130, "
    "141, 143 interrupted, pipe closed, terminated.",
)


def main() -> None:
    """Run the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without a letter shows its number
            stream.reconfigure(errors="backslashreplace")
    for name in ("SIGTERM", "SIGHUP"):  # the second is unknown on some systems
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop)
    app()


def _stop(number: int, frame: object) -> None:
    """End by an exception, so that no partial file stays behind."""
    raise SystemExit(128 + number)


app.command()(fit)
app.command()(predict)
app.command()(plan)
app.command("ledger")(show_ledger)
app.command()(audit)
app.command()(reproduce)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dpsubset {__version__}")
        raise typer.Exit


@app.callback()
def _start(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


@app.command()
def select(
    table: options.Table,
    target: options.Target,
    size: options.Size = 5,
    epsilon: Annotated[float, typer.Option(help="The privacy budget of a release.")] = 1.0,
    bounds: options.Bounds = None,
    mechanism: Annotated[
        str,
        typer.Option(
            help=f"{options.MECHANISMS}, or all: the first four side by side, each a release of "
            "its own that spends its own epsilon."
        ),
    ] = "permute-and-flip",
    neighbours: options.Neighbours = "replace-one",
    loss: options.Loss = "absolute",
    classes: Annotated[
        str | None,
        typer.Option(
            help="Losses for labels: the two classes, no,yes. Without it they are read off the "
            "target, and a table with one class only, or a third, is refused; that refusal depends "
            "on the data and is outside the guarantee."
        ),
    ] = None,
    ridge: options.Ridge = 10.0,
    clip: options.Clip = 1.0,
    radius: options.Radius = 1.0,
    features: options.Features = None,
    always_include: options.AlwaysInclude = None,
    intercept: options.Intercept = True,
    count: Annotated[
        int | None, typer.Option(help="top-r: how many best supports keep their own weight.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="top-r: how many draws in the tail; no limit if not given.")
    ] = None,
    accounting: Annotated[
        str | None,
        typer.Option(help="top-r with --trials: paper, or sharp (less is paid for the same)."),
    ] = None,
    sensitivity: Annotated[
        str, typer.Option(help="tight, or paper: the published, looser constant.")
    ] = "tight",
    delta: Annotated[
        float | None,
        typer.Option(
            help="mistakes: test the condition of its guarantee privately, with this chance of "
            "passing wrongly; epsilon pays for test and release. lasso-stability: of its test."
        ),
    ] = None,
    otherwise: Annotated[
        str | None,
        typer.Option(
            help="mistakes with --delta, if the test does not pass: refuse, or exponential (fall "
            "back to that mechanism)."
        ),
    ] = None,
    max_seconds: options.MaxSeconds = None,
    seed: options.Seed = None,
    ledger: options.Ledger = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the release to this file as JSON.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print the selected columns only, one a line.")
    ] = False,
    timings: Annotated[
        bool,
        typer.Option(
            "--timings",
            help="Show seconds, for demonstrations: running times depend on the data and are no "
            "part of the guarantee.",
        ),
    ] = False,
) -> None:
    """Select the columns of TABLE that best explain the target, under differential privacy."""
    with errors_as_text():
        from dpsubset.cli.plan import Request
        from dpsubset.cli.selection import select_columns
        from dpsubset.cli.show import print_outcome, to_json
        from dpsubset.cli.writing import waiting, writing

        request = Request(
            table=table,
            target=target,
            size=size,
            epsilon=epsilon,
            bounds=bounds,
            mechanism=mechanism,
            neighbours=neighbours,
            loss=loss,
            classes=classes,
            ridge=ridge,
            clip=clip,
            radius=radius,
            features=features,
            always_include=tuple(always_include or ()),
            intercept=intercept,
            count=count,
            trials=trials,
            accounting=accounting,
            sensitivity=sensitivity,
            max_seconds=max_seconds,
            seed=seed,
            delta=delta,
            otherwise=otherwise,
            ledger=ledger,
        )
        with writing(output, keep=(table, bounds, ledger)) as write:
            with waiting("selecting columns", shown=not (quiet or as_json)):
                outcome = select_columns(request)
            # Neither a full disk nor a closed terminal may lose a release that was paid for.
            try:
                if as_json:
                    typer.echo(to_json(outcome, timings=timings, ascii_only=True), nl=False)
                else:
                    print_outcome(outcome, quiet=quiet, timings=timings)
                for warning in outcome.warnings:
                    typer.echo(f"warning: {warning}", err=True)
            finally:
                write(to_json(outcome, timings=timings, ascii_only=False))
        if output is not None and not (as_json or quiet):
            typer.echo(f"Written to {output}")
        if outcome.refused:
            raise typer.Exit(1)


@app.command("bounds")
def write_template(
    table: options.Table,
    target: Annotated[str | None, typer.Option(help="The target; marked in the file.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the template to this file instead of the terminal.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a bounds file with the column names of TABLE and empty limits, to be filled in.

    Fill the limits in from public knowledge. No row of the table is read.
    """
    with errors_as_text():
        from dpsubset.cli.writing import writing
        from dpsubset.tables import bounds_template, looks_headless, pick_features, read_names

        if output is not None and output.exists() and not output.is_dir() and not force:
            raise InputError(f"{output} exists. Choose another name, or overwrite it with --force")
        names = read_names(table)
        if target is not None:
            pick_features(names, target, None)
        template = bounds_template(names, target)
        with writing(output, keep=(table,)) as write:
            write(template)
        if output is None:
            typer.echo(template, nl=False)
        else:
            typer.echo(f"Wrote {output}: fill in the limits of every column.")
        if table.suffix.lower() == ".csv" and looks_headless(names):
            typer.echo("warning: some names are numbers; is the first line a header?", err=True)
