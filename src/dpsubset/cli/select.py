"""`dpsubset select`: the columns that best explain a target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpsubset.cli import options
from dpsubset.cli.ending import ending
from dpsubset.errors import InputError
from dpsubset.question import Question

__all__ = ["select"]


@options.asks(Question)
def select(
    table: options.Table,
    target: options.Target = None,
    schema: options.Schema = None,
    bounds: options.Bounds = None,
    features: options.Features = None,
    classes: options.Classes = None,
    table_name: options.TableName = None,
    private_target_bounds: options.PrivateTargetBounds = False,
    memory: options.Memory = None,
    covariates: options.Covariates = None,
    ledger: options.Ledger = None,
    by: options.By = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the release to this file as JSON.", rich_help_panel="Output"),
    ] = None,
    report: options.Report = None,
    as_json: options.Json = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            help="Print the selected columns only, one a line.",
            rich_help_panel="Output",
        ),
    ] = False,
    timings: Annotated[
        bool,
        typer.Option(
            "--timings",
            help="Show seconds, for demonstrations: running times depend on the data and are no "
            "part of the guarantee.",
            rich_help_panel="Output",
        ),
    ] = False,
    **given: Any,
) -> None:
    """Select the columns of TABLE that best explain the target, under differential privacy.

    Example: dpsubset select table.csv --schema schema.toml --size 5 --epsilon 1

    --ledger charges a budget, --output and --report write the release and its certificate.
    --mechanism all compares the first four, each a release that spends its own epsilon.
    """
    with ending(as_json):
        from dpsubset.cli.asked import Source
        from dpsubset.cli.reporting import reporting
        from dpsubset.cli.selecting import select_columns
        from dpsubset.cli.show import print_outcome, to_json
        from dpsubset.cli.warned import print_warnings
        from dpsubset.cli.writing import announced, waiting, writing

        if report is not None and given["mechanism"] == "all":
            raise InputError("a certificate is of one release: name one mechanism, not all")
        keep = (table, schema, bounds, ledger, covariates)
        written = announced(output, report)
        with writing(output, keep=keep) as write, reporting(report, output, keep) as certify:
            with waiting("selecting columns", shown=not (quiet or as_json)):
                source = Source(
                    *(table, target, schema, bounds, features, classes, table_name),
                    *(private_target_bounds, memory, covariates),
                )
                outcome = select_columns(source, ledger, given, by)
            # Neither a full disk nor a closed terminal may lose a release that was paid for.
            try:
                if as_json:
                    typer.echo(to_json(outcome, timings=timings, ascii_only=True), nl=False)
                else:
                    print_outcome(outcome, quiet=quiet, timings=timings)
                print_warnings(outcome.warnings)
            finally:
                try:
                    write(to_json(outcome, timings=timings, ascii_only=False))
                finally:
                    certify(outcome.lines[0].record, outcome.ledger)
        if not (as_json or quiet):
            for line in written:
                typer.echo(line)
        if outcome.refused:
            raise typer.Exit(1)
