"""From the words of a command to a selection: names, bounds and options checked, no row read."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dpsubset.cli.options import named
from dpsubset.data import (
    Schema,
    Table,
    check_classes,
    pick_features,
    read_bounds,
    read_names,
    read_table,
)
from dpsubset.data.bounds import column_limits
from dpsubset.data.target import ANY, Target
from dpsubset.errors import InputError, at_once, without_context
from dpsubset.losses import Loss, as_loss
from dpsubset.losses.weighted import weights_by_class
from dpsubset.question import default_loss
from dpsubset.selection import Selection

__all__ = ["Source", "ask", "read"]

S = TypeVar("S", bound=Selection)


@dataclass(frozen=True)
class Source:
    """Where a table is, and what the user said about it besides the question."""

    table: Path
    target: str
    bounds: Path | None
    features: Sequence[str] | None
    classes: Sequence[str] | None
    table_name: str | None
    private_target_bounds: bool = False


def ask(kind: type[S], source: Source, options: dict[str, Any]) -> S:
    """State a selection of a file; all that is wrong for any rows is found here."""
    table, target = source.table, source.target
    named_loss = options["loss"]
    if named_loss is None:
        named_loss = default_loss(bool(source.classes))
    loss = as_loss(named_loss)
    bounds, known, two, weights = at_once(
        lambda: _bounds(source),
        lambda: read_names(table),
        lambda: _classes(source.classes, loss),
        lambda: weighed(options["class_weights"]),
    )
    wanted, included, excluded = at_once(
        lambda: listed(source.features, "--features", known),
        lambda: listed(options["always_include"], "--always-include", known),
        lambda: listed(options["exclude"], "--exclude", known),
    )
    given = options | {
        "loss": named_loss,
        "class_weights": weights,
        "always_include": included or (),
        "exclude": excluded or (),
    }
    chosen = pick_features(known, target, wanted, given["always_include"], given["exclude"])
    private = source.private_target_bounds
    if private and loss.classification:
        raise InputError("--private-target-bounds is for a target of numbers; labels have none")
    limited = None if loss.classification or private else target
    stated = read_bounds(bounds, chosen, limited, known=known)
    limits = column_limits(stated.columns, chosen, len(chosen))
    read_as = Target(ANY, private=True) if private else Target(stated.target, two)
    schema = Schema(chosen, limits, read_as, target, wanted is not None)
    name = source.table_name or table.name
    return kind(schema=schema, table=name, called=named(given), **given)


def _bounds(source: Source) -> Path:
    if source.bounds is None:
        raise InputError(
            f"--bounds is missing: the bounds of the columns must be public knowledge. "
            f"`dpsubset schema {source.table} --output bounds.toml` writes a template to fill in"
        )
    return source.bounds


def read(selection: Selection, path: Path) -> Table:
    """Read the rows of a file."""
    schema = selection.schema
    assert schema.names is not None
    assert schema.target_name is not None
    labels = schema.target.limits is None
    return read_table(
        path, schema.target_name, schema.names, labels=labels, classes=schema.target.classes
    )


def _classes(given: Sequence[str] | None, loss: Loss) -> tuple[str, str] | None:
    if given and not loss.classification:
        raise InputError(
            f"--classes is for the classification losses, hinge and logistic; the {loss.name} loss "
            "takes numbers. Leave --classes out, or choose --loss hinge or logistic"
        )
    names = listed(given, "--classes")
    return None if names is None else check_classes(names)


def listed(
    given: Sequence[str] | None, option: str, known: Sequence[str] = ()
) -> tuple[str, ...] | None:
    """Return the names of an option that may be repeated, each time with one name or several.

    They are separated by commas; a name that holds a comma is put in double quotes. Where that
    gives names that are not known, and the text as it is typed is a known name, that is meant.

    >>> listed(['a,"b,c"', "d"], "--features"), listed(["b,c"], "--exclude", ["b,c"])
    (('a', 'b,c', 'd'), ('b,c',))
    """
    if not given:
        return None
    names = [name for text in given for name in _names(text, option, known)]
    return tuple(names)


@without_context
def _names(text: str, option: str, known: Sequence[str]) -> Sequence[str]:
    try:
        names = next(csv.reader([text], strict=True, skipinitialspace=True), [])
    except csv.Error:
        if text in known:
            return (text,)
        raise InputError(f"{option} has an open quote; give names separated by commas") from None
    if text in known and not set(names) <= set(known):
        return (text,)
    if not names or not all(names):
        raise InputError(f"{option} holds an empty name; give names separated by commas")
    return names


@without_context
def weighed(given: str | None) -> dict[str, float] | None:
    """Read weights of classes, no=1,yes=5; names are quoted as in --features.

    >>> weighed('no=1,"yes, very"=5')
    {'no': 1.0, 'yes, very': 5.0}
    """
    if given is None:
        return None
    if "=" not in given:
        weights_by_class(given, None)  # says that no word will do
    # A quote may enclose the name alone; the weight follows the last equals sign.
    try:
        cells = next(csv.reader([_quoted(given)], strict=True, skipinitialspace=True))
        pairs = [cell.rpartition("=") for cell in cells]
        found = {name.strip(): float(weight) for name, _, weight in pairs}
    except (csv.Error, ValueError):
        found = {}
    if len(found) != 2:
        raise InputError("--class-weights must give both classes a number, such as no=1,yes=5")
    return found


def _quoted(text: str) -> str:
    """Let a quote that encloses a name enclose its weight, too."""
    return re.sub(r'"=([^,"]*)', r'=\1"', text)
