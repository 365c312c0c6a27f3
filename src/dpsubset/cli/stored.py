"""From the words of a command to a selection of a table that stays on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dpsubset.cli.asked import Source, listed, two_classes, weighed
from dpsubset.cli.options import named, size_of
from dpsubset.data import Table, read_bounds
from dpsubset.data.bed import BedFile
from dpsubset.data.bounds import column_limits
from dpsubset.data.many_names import ManyNames
from dpsubset.data.parquet_store import ParquetParts
from dpsubset.data.phenotype import phenotype_name, read_phenotype
from dpsubset.data.schema import Schema
from dpsubset.data.stores import open_table
from dpsubset.data.target import ANY, Target
from dpsubset.designs import Store
from dpsubset.errors import InputError
from dpsubset.losses import as_loss
from dpsubset.question import default_loss
from dpsubset.selection import Selection

__all__ = ["ask_stored", "read_stored"]

S = TypeVar("S", bound=Selection)
_GENOTYPES = (0.0, 2.0)


def ask_stored(kind: type[S], source: Source, options: dict[str, Any]) -> S:
    """State a selection of a table on disk; all that is wrong for any rows is found here."""
    for wrong, option in ((source.schema, "--schema"), (source.features, "--features")):
        if wrong is not None:
            raise InputError(
                f"{option} is not for a table that stays on disk; give its bounds by --bounds, and "
                "--exclude for columns to leave out"
            )
    store, target = _opened(source)
    assert store.names is not None
    chosen = options["loss"]
    loss = as_loss(default_loss(bool(source.classes)) if chosen is None else chosen)
    given = options | {
        "size": size_of(options["size"]),
        "class_weights": weighed(options["class_weights"]),
        "always_include": listed(options["always_include"], "--always-include", store.names) or (),
        "exclude": listed(options["exclude"], "--exclude", store.names) or (),
    }
    private = source.private_target_bounds
    pair, bounds = _bounds(source, store, None if loss.classification or private else target)
    classes = two_classes(source.classes, loss)
    read_as = Target(ANY, private=True) if private else Target(bounds, classes)
    limits = column_limits(pair, store.names, store.n_columns)
    schema = Schema(store.names, limits, read_as, target)
    name = source.table_name or source.table.name
    return kind(schema=schema, table=name, called=named(given), **given)


def _opened(source: Source) -> tuple[Store, str]:
    """Return the table, whose columns are the features, and the name of the target."""
    store = open_table(source.table, memory=source.memory)
    if store.names is None:
        store.names = ManyNames(str(j) for j in range(store.n_columns))
    if source.target is None:
        raise InputError(
            "--target is missing: a CSV or Parquet file with one column (and IID, perhaps), or, of "
            "a folder of Parquet files, one of their columns"
        )
    if isinstance(store, ParquetParts) and source.target in store.names:
        return store.without(source.target), source.target
    return store, phenotype_name(Path(source.target))


def _bounds(source: Source, store: Store, target: str | None) -> tuple[Any, Any]:
    """Return the bounds of all columns, and of the target if it has any."""
    genotypes = isinstance(store, BedFile)
    if source.bounds is None:
        if genotypes and target is None:
            return _GENOTYPES, None
        raise InputError(
            "--bounds is missing: a TOML file with what is public. [columns] with the target's "
            "line, name = [lower, upper]; and, but for genotypes, [default] with bounds for all "
            "columns"
        )
    if genotypes:
        return _GENOTYPES, read_bounds(source.bounds, [], target).target
    assert store.names is not None
    found = read_bounds(source.bounds, store.names, target)
    sides = np.array([found.columns[name] for name in store.names]).T
    return (sides[0], sides[1]), found.target


def read_stored(selection: Selection, source: Source) -> Table:
    """Read the target; the table stays where it is."""
    store, name = _opened(source)
    target = selection.schema.target
    labels = target.limits is None
    if isinstance(store, ParquetParts) and source.target == name:
        return Table(store, store.target(name, labels=labels, classes=target.classes))
    people = store.people if isinstance(store, BedFile) else None
    path = Path(source.target or "")
    return Table(store, read_phenotype(path, people, labels=labels, classes=target.classes))
