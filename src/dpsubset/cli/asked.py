"""From the words of a command to a selection: names, bounds and options checked, no row read."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

from dpsubset.cli.options import named, size_of
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
from dpsubset.data.target import ANY, Target
from dpsubset.errors import InputError, at_once, without_context
from dpsubset.losses import Loss, as_loss
from dpsubset.losses.weighted import weights_by_class
from dpsubset.question import default_loss
from dpsubset.selection import Selection

__all__ = ["Source", "ask", "listed", "read", "two_classes", "weighed"]

S = TypeVar("S", bound=Selection)


@dataclass(frozen=True)
class Source:
    """Where a table is, and what the user said about it besides the question."""

    table: Path
    target: str | None
    schema: Path | None
    bounds: Path | None
    features: Sequence[str] | None
    classes: Sequence[str] | None
    table_name: str | None
    private_target_bounds: bool = False
    memory: str | None = None
    covariates: Path | None = None


def ask(
    kind: type[S], source: Source, options: dict[str, Any], *, classes_needed: bool = False
) -> S:
    """State a selection of a file; all that is wrong for any rows is found here."""
    if source.covariates is not None:
        raise InputError(
            "--covariates are for a table that stays on disk; of another file they are columns: "
            "name them by --always-include"
        )
    path, known = at_once(lambda: _public(source), lambda: read_names(source.table))
    # A file of bounds alone, by its old name: missing values are refused, as they have been.
    plain = source.schema is None and is_bounds_only(path)
    book = None if plain else Codebook.read(path)
    named_two = bool(source.classes) or (book is not None and book.has_classes(source.target))
    loss = as_loss(default_loss(named_two) if options["loss"] is None else options["loss"])
    two, weights, wanted, included, excluded = at_once(
        lambda: two_classes(source.classes, loss),
        lambda: weighed(options["class_weights"]),
        lambda: listed(source.features, "--features", known),
        lambda: listed(options["always_include"], "--always-include", known),
        lambda: listed(options["exclude"], "--exclude", known),
    )
    given = options | {
        "size": size_of(options["size"]),
        "class_weights": weights,
        "always_include": included or (),
        "exclude": excluded or (),
    }
    stated = _Stated(path, known, wanted, two, loss)
    if book is None:
        schema = _by_bounds(source, stated, given)
    else:
        schema = _by_codebook(book, source, stated, given)
    if classes_needed and loss.classification and schema.target.classes is None:
        raise InputError("a model of labels names them: give --classes first,second")
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
    private = source.private_target_bounds
    if private and stated.loss.classification:
        raise InputError("--private-target-bounds is for a target of numbers; labels have none")
    limited = None if stated.loss.classification or private else target
    found = read_bounds(stated.path, chosen, limited, known=known)
    limits = column_limits(found.columns, chosen, len(chosen))
    read_as = Target(ANY, private=True) if private else Target(found.target, stated.classes)
    return Schema(chosen, limits, read_as, target, stated.wanted is not None)


def _by_codebook(book: Codebook, source: Source, stated: _Stated, given: dict[str, Any]) -> Schema:
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
        private=source.private_target_bounds,
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
        target = "" if source.target is None else f" --target {quote(source.target)}"
        raise InputError(
            "--schema is missing: what the columns may hold, their bounds (--bounds) or levels, "
            f"must be public knowledge. `dpsubset schema {source.table}{target} --output "
            "schema.toml` writes a template to fill in"
        )
    return found


def read(selection: Selection, source: Source) -> Table:
    """Read the rows of a file."""
    path = source.table
    schema = selection.schema
    assert schema.names is not None
    assert schema.target_name is not None
    if schema.columns is not None:
        wanted = [*schema.names, schema.target_name]
        frame = read_cells(path, wanted, line_breaks=schema.line_breaks)
        return Table(frame[:, :-1], frame.to_series(-1))
    labels = schema.target.limits is None
    return read_table(
        path, schema.target_name, schema.names, labels=labels, classes=schema.target.classes
    )


def two_classes(given: Sequence[str] | None, loss: Loss) -> tuple[str, str] | None:
    """Return the two classes that --classes names, for a loss that has some."""
    if given and not loss.classification:
        raise InputError(
            f"--classes is for the losses of labels, such as brier and logistic; the {loss.name} "
            "loss takes numbers. Leave --classes out, or choose --loss brier or logistic"
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
    if text in known and not all(name in known for name in names):
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
