"""From the words of a command to a selection: names, bounds and options checked, no row read."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dpsubset.cli.options import named, size_of
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
from dpsubset.data.target import Target
from dpsubset.errors import InputError, at_once, without_context
from dpsubset.losses import Loss, as_loss
from dpsubset.selection import Selection

__all__ = ["Source", "ask", "read"]

S = TypeVar("S", bound=Selection)


@dataclass(frozen=True)
class Source:
    """Where a table is, and what the user said about it besides the question."""

    table: Path
    target: str
    bounds: Path | None
    features: str | None
    classes: str | None
    table_name: str | None


def ask(kind: type[S], source: Source, options: dict[str, Any]) -> S:
    """State a selection of a file; all that is wrong for any rows is found here."""
    table, target = source.table, source.target
    loss = as_loss(options["loss"])
    bounds, known, wanted, two = at_once(
        lambda: _bounds(source),
        lambda: read_names(table),
        lambda: listed(source.features, "--features"),
        lambda: _classes(source.classes, loss),
    )
    given = options | {name: tuple(options[name] or ()) for name in ("always_include", "exclude")}
    given["size"] = size_of(options["size"])
    chosen = pick_features(known, target, wanted, given["always_include"], given["exclude"])
    limited = None if loss.classification else target
    stated = read_bounds(bounds, chosen, limited, known=known)
    limits = column_limits(stated.columns, chosen, len(chosen))
    schema = Schema(chosen, limits, Target(stated.target, two), target, wanted is not None)
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


def _classes(given: str | None, loss: Loss) -> tuple[str, str] | None:
    if given is not None and not loss.classification:
        raise InputError(
            f"--classes is for the classification losses, hinge and logistic; the {loss.name} loss "
            "takes numbers. Leave --classes out, or choose --loss hinge or logistic"
        )
    names = listed(given, "--classes")
    return None if names is None else check_classes(names)


@without_context
def listed(given: str | None, option: str) -> Sequence[str] | None:
    """Split a,b,c; a name that holds a comma is put in double quotes."""
    if given is None:
        return None
    try:
        names = next(csv.reader([given], strict=True, skipinitialspace=True), [])
    except csv.Error:
        raise InputError(f"{option} has an open quote; give names separated by commas") from None
    if not names or not all(names):
        raise InputError(f"{option} holds an empty name; give names separated by commas")
    return tuple(names)
