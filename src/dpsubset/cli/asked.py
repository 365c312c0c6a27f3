"""From the words of a command to a selection: names, bounds and options checked, no row read."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dpsubset.cli.options import named
from dpsubset.data import (
    Codebook,
    Schema,
    Table,
    check_classes,
    is_bounds_only,
    pick_features,
    read_bounds,
    read_cells,
    read_names,
    read_table,
    read_types,
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
    target: str | None
    schema: Path | None
    bounds: Path | None
    features: str | None
    classes: str | None
    table_name: str | None


def ask(kind: type[S], source: Source, options: dict[str, Any]) -> S:
    """State a selection of a file; all that is wrong for any rows is found here."""
    loss = as_loss(options["loss"])
    path, known, wanted, two = at_once(
        lambda: _public(source),
        lambda: read_names(source.table),
        lambda: listed(source.features, "--features"),
        lambda: _classes(source.classes, loss),
    )
    given = options | {name: tuple(options[name] or ()) for name in ("always_include", "exclude")}
    stated = _Stated(path, known, wanted, two, loss)
    # A file of bounds alone, by its old name: missing values are refused, as they have been.
    plain = source.schema is None and is_bounds_only(path)
    schema = (_by_bounds if plain else _by_codebook)(source, stated, given)
    name = source.table_name or source.table.name
    return kind(schema=schema, table=name, called=named(given), **given)


@dataclass(frozen=True)
class _Stated:
    """What is known before a schema is: the file with it, names, wishes, classes and the loss."""

    path: Path
    known: Sequence[str]
    wanted: Sequence[str] | None
    classes: tuple[str, str] | None
    loss: Loss


def _by_bounds(source: Source, stated: _Stated, given: dict[str, Any]) -> Schema:
    known, target = stated.known, _target(source.target, stated.path)
    chosen = pick_features(known, target, stated.wanted, given["always_include"], given["exclude"])
    limited = None if stated.loss.classification else target
    found = read_bounds(stated.path, chosen, limited, known=known)
    limits = column_limits(found.columns, chosen, len(chosen))
    picked = stated.wanted is not None
    return Schema(chosen, limits, Target(found.target, stated.classes), target, picked)


def _by_codebook(source: Source, stated: _Stated, given: dict[str, Any]) -> Schema:
    book = Codebook.read(stated.path)
    known, target = stated.known, _target(source.target or book.target_name, stated.path)
    pick_features(known, target, stated.wanted, given["always_include"], given["exclude"])
    book.check_types({n: t for n, t in read_types(source.table).items() if n != target})
    return Schema.of_table(
        book,
        known,
        target=target,
        features=stated.wanted,
        labels=stated.loss.classification,
        classes=stated.classes,
    )


def _target(given: str | None, path: Path) -> str:
    if given is None:
        raise InputError(f"--target is missing, and {path} does not name it under [target]")
    return given


def _public(source: Source) -> Path:
    if source.schema is not None and source.bounds is not None:
        raise InputError("--schema and --bounds are both given: leave --bounds, its old name, out")
    found = source.schema or source.bounds
    if found is None:
        raise InputError(
            "--schema is missing: what the columns may hold, their bounds (--bounds) or levels, "
            f"must be public knowledge. `dpsubset schema {source.table} --output schema.toml` "
            "writes a template to fill in"
        )
    return found


def read(selection: Selection, path: Path) -> Table:
    """Read the rows of a file."""
    schema = selection.schema
    assert schema.names is not None
    assert schema.target_name is not None
    if schema.columns is not None:
        frame = read_cells(path, [*schema.names, schema.target_name])
        return Table(frame[:, :-1], frame.to_series(-1))
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
