"""Options of the commands: those of a selection come from its fields, the others are here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from dpsubset.question import Question

__all__ = ["asks"]

C = TypeVar("C", bound=Callable[..., None])

TABLE, PRIVACY, OUTPUT = "Table", "Privacy", "Output"
_PANELS = [None, TABLE, "Question", "Coefficients", PRIVACY, "Mechanism", OUTPUT]

Table = Annotated[
    Path,
    typer.Argument(
        help="A CSV or Parquet file with column names; or a table that stays on disk: a .bed, .npy "
        "or .zarr, or a folder of .parquet files, whose target is in a file of its own."
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        help="The column to explain; the schema's own if not given.", rich_help_panel=TABLE
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        help="For a table that stays on disk (.bed, .npy, .zarr, a folder of .parquet): how much "
        "memory its parts may take, such as 2GB.",
        rich_help_panel=TABLE,
    ),
]
Covariates = Annotated[
    Path | None,
    typer.Option(
        help="For a table that stays on disk: a CSV or Parquet file of numbers with a row for each "
        "of its rows (matched by IID, if it has that), such as age and sex. They are always "
        "included, and --size counts them; their bounds are in --bounds.",
        rich_help_panel=TABLE,
    ),
]
Schema = Annotated[
    Path | None,
    typer.Option(
        help="TOML file that says what is public: bounds, levels, what a missing value counts as; "
        "`dpsubset schema` writes a template.",
        rich_help_panel=TABLE,
    ),
]
Bounds = Annotated[
    Path | None,
    typer.Option(
        help="The older name of --schema. With a file of bounds alone missing values are refused.",
        rich_help_panel=TABLE,
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        help="Columns to choose from, a,b,c; all but the target if not given. A name that holds a "
        "comma is put in double quotes; may be repeated.",
        rich_help_panel=TABLE,
    ),
]
TableName = Annotated[
    str | None,
    typer.Option(
        help="What records and the ledger call the table; the name of its file if not given.",
        rich_help_panel=TABLE,
    ),
]
Classes = Annotated[
    list[str] | None,
    typer.Option(
        help="Labels of two classes: their names, no,yes, if no schema says them; the loss is "
        "then logistic if none is named. A model needs them. A selection with a loss for classes "
        "and without their names reads them off the target, and refuses a table with one class "
        "only, or a third, which depends on the data and is outside the guarantee.",
        rich_help_panel=TABLE,
    ),
]
PrivateTargetBounds = Annotated[
    bool,
    typer.Option(
        "--private-target-bounds",
        help="Draw the bounds of the target from the table, privately, with --target-bounds-share "
        "of epsilon; they are released, too. Bounds of the columns must be given all the same.",
        rich_help_panel=PRIVACY,
    ),
]
Ledger = Annotated[
    Path | None,
    typer.Option(
        help="Charge the release to this budget before it is made, or refuse if too little is "
        "left; `dpsubset ledger` begins one.",
        rich_help_panel=PRIVACY,
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        help="Who makes the release, for the entry of the ledger: a person or an office. Nobody "
        "checks it.",
        rich_help_panel=PRIVACY,
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        help="Write a certificate of the release to this file, an HTML page that prints: columns, "
        "guarantee, budget, how to check it.",
        rich_help_panel=OUTPUT,
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print JSON and nothing else, errors too.", rich_help_panel=OUTPUT),
]


def paragraphs(command: Callable[..., None]) -> str:
    """Return the words of a command with a paragraph a line: a terminal breaks lines itself."""
    text = inspect.getdoc(command) or ""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def asks(kind: type[Question], *without: str) -> Callable[[C], C]:
    """Give a command one option for every field of a selection, grouped as the fields are.

    The command takes them as keyword arguments, by the names of the fields.
    """

    def decorate(command: C) -> C:
        hints = get_type_hints(command, include_extras=True)
        own = [
            _keyword(parameter.name, parameter.default, hints[parameter.name])
            for parameter in inspect.signature(command).parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        types = get_type_hints(kind)
        more = [
            _keyword(
                field.name,
                None if field.default == () else field.default,
                _told(field.metadata, types[field.name]),
            )
            for field in fields(kind)
            if field.metadata and field.name not in without
        ]
        wanted = sorted([*own, *more], key=_place)
        command.__signature__ = inspect.Signature(wanted)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in wanted} | {"return": None}
        return command

    return decorate


def _told(said: Mapping[str, Any], typed: Any) -> Any:
    """Return the type of an option, with its help and its panel."""
    shown = typer.Option(help=said["help"], rich_help_panel=str(said["group"]).capitalize())
    return Annotated[said["typed"] or typed, shown]


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _place(parameter: inspect.Parameter) -> tuple[int, bool]:
    """Return where the help shows an option: by its panel, epsilon before its like."""
    panel = getattr(parameter.annotation.__metadata__[0], "rich_help_panel", None)
    return _PANELS.index(panel) if panel in _PANELS else 0, parameter.name != "epsilon"


def named(options: dict[str, Any]) -> dict[str, str]:
    """Return the fields by the names that a user types, for error messages.

    >>> named({"max_seconds": 1})
    {'max_seconds': '--max-seconds'}
    """
    return {name: f"--{name.replace('_', '-')}" for name in options}


def size_of(text: Any) -> Any:
    """Return a size as a number, where it is one; other words are judged where they are used.

    >>> size_of("5"), size_of("auto")
    (5, 'auto')
    """
    digits = isinstance(text, str) and text.lstrip("+-").isdecimal() and len(text) < 20
    try:
        return int(text) if digits else text
    except ValueError:  # two signs
        return text
