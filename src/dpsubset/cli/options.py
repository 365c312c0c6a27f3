"""Options that several commands share: one wording for each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MECHANISMS = (
    "permute-and-flip, exponential, top-r, mistakes; the rivals markov-chain, sample-aggregate, "
    "lasso-stability (sample-aggregate under replace-one only)"
)

Table = Annotated[Path, typer.Argument(help="A CSV or Parquet file with column names.")]
Target = Annotated[str, typer.Option(help="The column to explain.")]
Size = Annotated[int, typer.Option(help="How many columns to select.")]
Bounds = Annotated[
    Path | None,
    typer.Option(help="TOML file with public limits; `dpsubset bounds` writes a template."),
]
Neighbours = Annotated[
    str,
    typer.Option(help="replace-one, or add-remove (the number of rows is private, too)."),
]
Loss = Annotated[
    str,
    typer.Option(
        help="For a target of numbers: squared, absolute, quantile, huber, with a parameter as "
        "in quantile:0.9 and huber:0.1. For a target of two classes (text, truth values or "
        "numbers): hinge, logistic, huber_hinge; limits of the target are not needed then, nor "
        "looked at."
    ),
]
Ridge = Annotated[float, typer.Option(help="Weight of the squared coefficients.")]
Clip = Annotated[
    float,
    typer.Option(help="Clip to this share of the limits, around their middle (0 to 1)."),
]
Radius = Annotated[float, typer.Option(help="Largest norm of the coefficients.")]
Features = Annotated[
    str | None,
    typer.Option(help="Columns to choose from, a,b,c; all but the target if not given."),
]
AlwaysInclude = Annotated[
    list[str] | None,
    typer.Option(help="A column to select in any case; may be repeated. It counts in --size."),
]
Intercept = Annotated[
    bool,
    typer.Option(
        help="Add a constant, not counted in --size: limits are rarely centred at the mean of "
        "the data, and without it a column far from its middle is taken for a constant. It "
        "costs one more column in the sensitivity."
    ),
]
MaxSeconds = Annotated[
    float | None,
    typer.Option(
        help="Refuse after so many seconds of work on a release; its budget counts as spent. "
        "Whether a limit is reached depends on the data, which is outside the guarantee."
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(help="Experiments only: a draw that can be repeated, and its guarantee says so."),
]
Ledger = Annotated[
    Path | None,
    typer.Option(
        help="Charge the release to this budget before it is made, or refuse if too little is "
        "left; `dpsubset ledger` begins one."
    ),
]
