"""`dpsubset plan`: how many rows, or how much epsilon, are enough? On synthetic tables only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dpsubset.cli import options
from dpsubset.cli.ending import ending
from dpsubset.errors import InputError, without_context
from dpsubset.question import Question

__all__ = ["plan"]

# What a simulated table has no use for.
_WITHOUT = (
    *("always_include", "exclude", "intercept", "seed", "max_seconds", "jobs", "sensitivity"),
    *("offset_share", "class_weights", "target_bounds_share", "max_size", "false_columns"),
    *("count", "trials", "accounting", "delta", "otherwise"),
)


_SNR = 5.0  # of the paper's tables


@options.asks(Question, *_WITHOUT)
def plan(
    features: Annotated[
        int | None,
        typer.Option(
            help="How many columns there are to choose from. With --schema: only where it has "
            "lines for families of columns."
        ),
    ] = None,
    schema: options.Schema = None,
    rows: Annotated[
        int | None,
        typer.Option(
            help="With --schema: the number of rows; the answer is over epsilons from a tenth to "
            "ten times --epsilon. If not given, it is how many rows --epsilon needs."
        ),
    ] = None,
    share: Annotated[
        float, typer.Option(help="How often the true columns are to be released.")
    ] = 0.9,
    signals: Annotated[
        str | None,
        typer.Option(
            help="With --schema: explained parts of the target's variance, R^2, to try; "
            "0.1,0.3,0.6,0.83 if not given."
        ),
    ] = None,
    balance: Annotated[
        float | None,
        typer.Option(help="With --schema: the share of the second class, 0.5 if not given."),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(
            help="With --schema: standard deviation of numbers and of the target, as a part of "
            "half the width of their bounds; 0.25 if not given."
        ),
    ] = None,
    decay: Annotated[
        float | None,
        typer.Option(
            help="With --schema: what each true column explains, as a part of what the one before "
            "does; if not given 1 for the right columns, all alike, and 0.5 for models, as in real "
            "tables."
        ),
    ] = None,
    common: Annotated[
        float | None,
        typer.Option(
            help="With --schema: how much of every column's variance is shared by all; if not "
            "given 0 for the right columns and 0.2 for models."
        ),
    ] = None,
    always_include: Annotated[
        list[str] | None,
        typer.Option(
            help="With --schema: columns that every release holds, a,b,c, such as covariates; may "
            "be repeated. With --features alone: how many. --size counts them.",
            rich_help_panel="Question",
        ),
    ] = None,
    included_signal: Annotated[
        float | None,
        typer.Option(
            help="With --schema: R^2 of the columns that are always included, all together, "
            "besides --signals; 0 if not given."
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="With --schema: about how long to simulate; 60 if not given."),
    ] = None,
    snr: Annotated[
        float | None,
        typer.Option(
            help="Signal to noise ratio, of variances; 5 if not given. With --schema: --signals."
        ),
    ] = None,
    rho: Annotated[float, typer.Option(help="Correlation of neighbouring columns.")] = 0.1,
    tables: Annotated[int, typer.Option(help="Simulated tables for each number of rows.")] = 5,
    draws: Annotated[int, typer.Option(help="Releases from each table.")] = 40,
    most: Annotated[int, typer.Option(help="Give up beyond so many rows.")] = 1_000_000,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Draw the chance over rows to this PNG or SVG file.", rich_help_panel="Output"
        ),
    ] = None,
    as_json: options.Json = False,
    **given: Any,
) -> None:
    """Say how many rows a selection needs, by simulation; no table of yours is read.

    Example: dpsubset plan --schema schema.toml --rows 5000 --size 3

    With --schema: how good selections and models of such a table will be, over epsilon (--rows) or
    over rows, for signals of several strengths. Numbers lie around the middle of their bounds,
    levels are equally frequent, and every true column explains the same part.

    With --features alone simulated columns are normal with standard deviation 1 and public bounds
    of -4 and 4, and so is the target; every true column has the same weight.
    """
    with ending(as_json):
        from dpsubset.cli.asked import listed
        from dpsubset.cli.writing import check_destination
        from dpsubset.planning import check_picture

        if output is not None:
            check_destination(output)
            check_picture(output)
        both = {"share": share, "rho": rho, "tables": tables, "draws": draws}
        own = {
            "rows": rows,
            "signals": signals,
            "balance": balance,
            "spread": spread,
            "decay": decay,
            "common": common,
            "included_signal": included_signal,
            "seconds": seconds,
        }
        if schema is not None:
            if snr is not None:
                raise InputError("--snr is for --features alone: with --schema give --signals")
            given["always_include"] = listed(always_include, "--always-include")
            _by_schema(schema, features, {**both, **own}, given, output, as_json)
            return
        for name, value in own.items():
            if value is not None:
                option = "--" + name.replace("_", "-")
                raise InputError(f"{option} is for a plan by --schema: give one, or leave it out")
        if features is None:
            raise InputError(
                "--schema or --features is missing: give a schema file, or the number of columns"
            )
        given["included"] = _count(always_include)
        _by_features(features, _SNR if snr is None else snr, most, both, given, output, as_json)


def _by_schema(
    schema: Path,
    features: int | None,
    world: dict[str, Any],
    given: dict[str, Any],
    output: Path | None,
    as_json: bool,
) -> None:
    """Simulate tables of a schema, and tell what they bear."""
    from dpsubset.cli.writing import stepping
    from dpsubset.planning import draw_plan
    from dpsubset.planning import plan as simulated

    world["signals"] = _numbers(world["signals"])
    asked = {name: value for name, value in {**world, **given}.items() if value is not None}
    asked["size"] = options.size_of(given["size"])
    with stepping("simulating", shown=not as_json) as progress:
        found = simulated(schema, features=features, progress=progress, **asked)
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
    else:
        typer.echo(str(found))
    if output is not None:
        draw_plan(found, output)
        if not as_json:
            typer.echo(f"Written to {output}")


@without_context
def _numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(one) for one in text.split(",")]
    except ValueError:
        raise InputError(
            f"--signals must be numbers between 0 and 1, such as 0.1,0.3, not {text!r}"
        ) from None


@without_context
def _count(given: list[str] | None) -> int:
    """Return how many columns are always included, where none has a name."""
    if not given:
        return 0
    if len(given) > 1 or not given[0].isdecimal():
        raise InputError(
            "--always-include takes names with --schema; with --features alone say how many columns"
        )
    return int(given[0])


def _by_features(
    features: int,
    snr: float,
    most: int,
    both: dict[str, Any],
    given: dict[str, Any],
    output: Path | None,
    as_json: bool,
) -> None:
    """Find the rows that the paper's tables need."""
    from dpsubset.planning import Setting, draw_answer, rows_for

    share = both["share"]
    setting = Setting(
        given["loss"],
        given["clip"],
        given["ridge"],
        radius=given["radius"],
        row_ridge=given["row_ridge"],
        window_share=given["window_share"],
        columns=features,
        epsilon=given["epsilon"],
        size=options.size_of(given["size"]),
        snr=snr,
        rho=both["rho"],
        neighbours=given["neighbours"],
        mechanism=given["mechanism"],
        included=given["included"],
    )

    def tell(n: int, found: float) -> None:
        typer.echo(f"{n:>9,} rows: true columns in {found:.0%} of the releases", err=True)

    answer = rows_for(
        setting,
        share=share,
        tables=both["tables"],
        draws=both["draws"],
        most=most,
        progress=tell,
    )
    if as_json:
        chances = {str(n): chance for n, chance in answer.tried.items()}
        typer.echo(json.dumps({"rows": answer.rows, "share": share, "tried": chances}))
    elif answer.rows is None:
        typer.echo(f"More than {max(answer.tried):,} rows are needed for {share:.0%}.")
    else:
        fewest = answer.rows == min(answer.tried)
        sure = "or fewer" if fewest else "to within a fifth"
        typer.echo(f"{answer.rows:,} rows for {share:.0%}, {sure}.")
    if output is not None:
        draw_answer(answer, setting, output)
        if not as_json:
            typer.echo(f"Written to {output}")
