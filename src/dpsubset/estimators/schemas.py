"""A schema as users give it to an estimator, and the table that it is for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl

from dpsubset.data.cells import as_cells, names_of
from dpsubset.data.codebook import Codebook
from dpsubset.data.schema import Schema
from dpsubset.errors import InputError

__all__ = ["as_schema", "picked_columns", "with_names"]


def as_schema(
    given: Any, X: Any, target_name: str | None, labels: bool | None, private: bool = False
) -> tuple[Schema, tuple[str, ...]]:
    """Return the schema of a table, and the names of all its columns; no cell is read.

    `private` says that the bounds of the target are to be drawn.

    A table without names must have the columns of the schema, in their order, the ignored ones
    included.
    """
    names = names_of(X)
    if isinstance(given, Schema):
        return _of_schema(given, names, labels, private)
    book = _book(given)
    if names is None:
        if book.patterns or book.fallback is not None:
            raise InputError(
                "the schema has patterns of names, but the table has no column names: give a data "
                "frame"
            )
        names = tuple(name for name in book.columns if name != book.target_name)
    own = book.target is not None or book.target_name is not None
    wanted = None if own else target_name
    schema = Schema.of_table(book, names, target=wanted, labels=labels, private=private)
    return replace(schema, target_name=schema.target_name or target_name), names


def _of_schema(
    given: Schema, names: tuple[str, ...] | None, labels: bool | None, private: bool
) -> tuple[Schema, tuple[str, ...]]:
    if given.columns is None:
        raise InputError(
            "this schema holds bounds alone; give it as bounds_X and bounds_y, or read one with "
            "Schema.read_toml"
        )
    if labels is not None and (given.target.limits is None) != labels:
        kind = "labels of two classes" if labels else "numbers"
        raise InputError(f"the loss is for {kind}, and the schema's target is not: choose another")
    if private and not given.target.private:
        raise InputError(
            'the schema says what the target holds: read one with bounds = "private" under '
            '[target], or leave bounds_y="private" out'
        )
    found = (*(given.names or ()), *given.ignored) if names is None else names
    given.check(found)
    return given, found


def _book(given: Any) -> Codebook:
    if isinstance(given, Codebook):
        return given
    if isinstance(given, (str, os.PathLike)):
        return Codebook.read(Path(given))
    if isinstance(given, Mapping):
        return Codebook.of(given)
    raise InputError(
        f"schema must be a path to a schema file, a dictionary like one, or a Schema, not "
        f"{type(given).__name__}"
    )


def with_names(X: Any, names: Sequence[str]) -> Any:
    """Return a table as it is if it has names, and as a data frame with these names otherwise."""
    if names_of(X) is not None:
        return X
    cells, _ = as_cells(X)
    if len(cells) != len(names):
        raise InputError(
            f"the table has {len(cells)} columns without names, and the schema has {len(names)}"
        )
    return pl.DataFrame(dict(zip(names, cells, strict=True)))


def picked_columns(X: Any, places: Sequence[int]) -> Any:
    """Return some columns of a data frame or an array, of the same kind, as they are."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame[:, list(places)].to_native()
    return X[:, list(places)]
