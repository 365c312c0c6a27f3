"""`dpsubset fit`: a private model, written to a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dpsubset.cli import options
from dpsubset.cli.ending import ending
from dpsubset.errors import InputError
from dpsubset.question import ModelQuestion

__all__ = ["fit"]


@options.asks(ModelQuestion)
def fit(
    table: options.Table,
    output: Annotated[
        Path,
        typer.Option(help="Write the model to this file as JSON.", rich_help_panel="Output"),
    ],
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
    report: options.Report = None,
    as_json: options.Json = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", help="Print nothing but errors.", rich_help_panel="Output"),
    ] = False,
    **given: Any,
) -> None:
    """Select columns of TABLE, fit coefficients on them, and write the private model to a file.

    Example: dpsubset fit table.csv --schema schema.toml --size 5 --output model.json

    One epsilon pays for both. Options on ridge and radius are those of the selection.
    """
    with ending(as_json):
        from dpsubset.cli.asked import Source
        from dpsubset.cli.quick import as_quick_as_possible
        from dpsubset.cli.reporting import reporting
        from dpsubset.cli.selecting import seeded_warning
        from dpsubset.cli.show import print_left, print_model
        from dpsubset.cli.stored import ways
        from dpsubset.cli.warned import print_warnings
        from dpsubset.cli.writing import announced, waiting, writing
        from dpsubset.compiled import interpreted
        from dpsubset.model import Model
        from dpsubset.model_file import write_model
        from dpsubset.planning.rule import likely_noise
        from dpsubset.privacy.ledger import as_ledger
        from dpsubset.wording import shortfall

        if given["mechanism"] == "all":
            raise InputError("a model rests on one selection: name one mechanism, not all")
        silent = quiet or as_json
        keep = (table, schema, bounds, ledger, covariates)
        written = announced(output, report)
        with writing(output, keep=keep) as write, reporting(report, output, keep) as certify:
            with waiting("fitting a model", shown=not silent):
                source = Source(
                    *(table, target, schema, bounds, features, classes, table_name),
                    *(private_target_bounds, memory, covariates),
                )
                with interpreted():  # on no rows
                    asks, reads = ways(source)
                    model = asks(Model, source, given, classes_needed=True)
                    method, nothing = model.method, model.fit_problem(model.rehearsal())
                    method.prepare(nothing, seeded=_seeded(given))
                    budget = as_ledger(ledger, by)
                    rows = reads(model, source)
                    quick = as_quick_as_possible([model], rows)
                with quick:
                    problem = model.problem(rows)
                    print_warnings([model.slow(problem)])
                    released = model.release(problem, budget)
            weaker = shortfall(model.guarantee(problem), model.epsilon, model.delta)
            try:
                if as_json:
                    typer.echo(json.dumps(released.to_dict(), indent=2))
                elif not quiet:
                    print_model(released)
                    print_left(budget)
                noise = likely_noise(model.settled(problem.n_rows), problem)
                print_warnings([weaker, seeded_warning(given["seed"]), noise])
            finally:  # neither a closed terminal nor a full disk may lose what was paid for
                try:
                    write(write_model(released))
                except InputError:
                    if quiet:
                        typer.echo(write_model(released))
                    raise
                finally:
                    certify(released.to_dict(), budget)
        if not silent:
            for line in written:
                typer.echo(line)


def _seeded(given: dict[str, Any]) -> bool:
    return given["seed"] is not None
