"""The commands `fit` and `predict`: a private model in a file, and what it says of other tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpsubset.cli import options
from dpsubset.cli.ending import errors_as_text
from dpsubset.errors import InputError

__all__ = ["fit", "predict"]


def fit(
    table: options.Table,
    target: options.Target,
    output: Annotated[Path, typer.Option(help="Write the model to this file as JSON.")],
    size: options.Size = 5,
    epsilon: Annotated[
        float, typer.Option(help="The privacy budget: selection and coefficients together.")
    ] = 1.0,
    bounds: options.Bounds = None,
    selection_share: Annotated[
        float, typer.Option(help="The part of epsilon for the selection (between 0 and 1).")
    ] = 0.5,
    mechanism: Annotated[
        str, typer.Option(help=f"How columns are selected: {options.MECHANISMS}.")
    ] = "permute-and-flip",
    coefficients: Annotated[
        str,
        typer.Option(
            help="How coefficients are made private: objective-perturbation, or noisy-statistics "
            "(squared loss)."
        ),
    ] = "objective-perturbation",
    coefficient_loss: Annotated[
        str | None,
        typer.Option(
            help="What they minimise: huber:0.2 if not given, squared for noisy-statistics, "
            "logistic or huber_hinge for labels."
        ),
    ] = None,
    coefficient_ridge: Annotated[
        float, typer.Option(help="Weight of their squared norm; more is taken where it must be.")
    ] = 0.0,
    coefficient_radius: Annotated[
        float | None,
        typer.Option(help="Largest norm; if not given 2, for squared loss 1, for labels 10."),
    ] = None,
    delta: Annotated[
        float,
        typer.Option(
            help="With delta > 0 the noise on coefficients is Gaussian, and the promise has this "
            "delta, too; lasso-stability adds its own."
        ),
    ] = 0.0,
    neighbours: options.Neighbours = "replace-one",
    loss: options.Loss = "absolute",
    classes: Annotated[
        str | None,
        typer.Option(help="Losses for labels: the two classes, no,yes; they must be named."),
    ] = None,
    ridge: options.Ridge = 10.0,
    clip: options.Clip = 1.0,
    radius: options.Radius = 1.0,
    features: options.Features = None,
    always_include: options.AlwaysInclude = None,
    intercept: options.Intercept = True,
    max_seconds: options.MaxSeconds = None,
    seed: options.Seed = None,
    ledger: options.Ledger = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Select columns of TABLE, fit coefficients on them, and write the private model to a file.

    Options on ridge and radius are those of the selection.
    """
    with errors_as_text():
        from dpsubset.cli.fitting import fit_table
        from dpsubset.cli.plan import Request
        from dpsubset.cli.show import print_model
        from dpsubset.cli.writing import waiting, writing
        from dpsubset.estimators.linear import Coefficient
        from dpsubset.tables import write_model

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
            max_seconds=max_seconds,
            seed=seed,
            ledger=ledger,
        )
        coefficient = Coefficient(
            coefficients, coefficient_loss, coefficient_radius, coefficient_ridge, delta
        )
        with writing(output, keep=(table, bounds, ledger)) as write:
            with waiting("fitting a model", shown=not quiet):
                model, warnings = fit_table(request, selection_share, coefficient)
            try:
                if not quiet:
                    print_model(model)
                for warning in warnings:
                    typer.echo(f"warning: {warning}", err=True)
            finally:  # neither a closed terminal nor a full disk may lose what was paid for
                try:
                    write(write_model(model))
                except InputError:
                    if quiet:
                        typer.echo(write_model(model))
                    raise
        if not quiet:
            typer.echo(f"Written to {output}")


def predict(
    model: Annotated[Path, typer.Argument(help="A model that `dpsubset fit` wrote.")],
    table: options.Table,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the predictions to this file as CSV, not to the terminal."),
    ] = None,
) -> None:
    """Predict the target for the rows of TABLE, one line a row, as CSV.

    Rows are clipped to the bounds of the fit, and predicted numbers to the target's. The model is
    private; predictions for private rows tell of those rows.
    """
    with errors_as_text():
        from dpsubset.cli.fitting import predictions
        from dpsubset.cli.writing import writing
        from dpsubset.privacy.shown import printable
        from dpsubset.tables import read_model

        with writing(output, keep=(table, model)) as write:
            text = predictions(read_model(model), table)
            write(text)
        if output is None:
            if sys.stdout.isatty():  # a name could steer the terminal
                text = "\n".join(map(printable, text.split("\n")))
            typer.echo(text, nl=False, color=True)  # as it is, not without what looks like colour
