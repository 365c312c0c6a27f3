"""From the words of a command to a selection of a table that stays on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.cli.asked import Source, ask, listed, read, two_classes, weighed
from dpsubset.cli.options import named, size_of
from dpsubset.data import Table, read_bounds
from dpsubset.data.bed import BedFile
from dpsubset.data.bounds import column_limits
from dpsubset.data.covariates import covariate_names, read_covariates, with_covariates
from dpsubset.data.frames import places_of_names
from dpsubset.data.many_names import ManyNames
from dpsubset.data.parquet_store import ParquetParts
from dpsubset.data.phenotype import phenotype_name, read_phenotype
from dpsubset.data.schema import Schema
from dpsubset.data.stores import is_stored, open_table
from dpsubset.data.target import ANY, Target
from dpsubset.designs import Store
from dpsubset.errors import InputError
from dpsubset.losses import as_loss
from dpsubset.model_file import LinearModel
from dpsubset.question import default_loss
from dpsubset.selection import Selection

__all__ = ["ask_stored", "read_selected", "read_stored", "ways"]

S = TypeVar("S", bound=Selection)
_GENOTYPES = (0.0, 2.0)


def ways(source: Source) -> tuple[Callable[..., Any], Callable[[Selection, Source], Table]]:
    """Return how a selection of a table is stated, and how its rows are read."""
    return (ask_stored, read_stored) if is_stored(source.table) else (ask, read)


def ask_stored(
    kind: type[S], source: Source, options: dict[str, Any], *, classes_needed: bool = False
) -> S:
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
    more = () if source.covariates is None else covariate_names(source.covariates)
    named_in = listed(options["always_include"], "--always-include", store.names) or ()
    given = options | {
        "size": size_of(options["size"]),
        "class_weights": weighed(options["class_weights"]),
        "always_include": (*named_in, *more),
        "exclude": listed(options["exclude"], "--exclude", store.names) or (),
    }
    private = source.private_target_bounds
    pair, bounds, further = _bounds(
        source, store, None if loss.classification or private else target, more
    )
    classes = two_classes(source.classes, loss)
    if classes_needed and loss.classification and classes is None:
        raise InputError("a model of labels names them: give --classes first,second")
    read_as = Target(ANY, private=True) if private else Target(bounds, classes)
    limits = column_limits(pair, store.names, store.n_columns)
    names = store.names
    if more:
        sides = column_limits(further, more, len(more))
        limits = np.append(limits[0], sides[0]), np.append(limits[1], sides[1])
        names = ManyNames(chain(names, more))
    schema = Schema(names, limits, read_as, target)
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


def _bounds(
    source: Source, store: Store, target: str | None, more: Sequence[str]
) -> tuple[Any, Any, Any]:
    """Return the bounds of all columns, of the target if it has any, and of the covariates."""
    genotypes = isinstance(store, BedFile)
    if source.bounds is None:
        if genotypes and target is None and not more:
            return _GENOTYPES, None, None
        raise InputError(
            "--bounds is missing: a TOML file with what is public. [columns] with the target's "
            "line, name = [lower, upper], and one for each covariate; and, but for genotypes, "
            "[default] with bounds for all columns"
        )
    assert store.names is not None
    names = () if genotypes else tuple(store.names)
    found = read_bounds(source.bounds, [*names, *more], target)
    further = {name: found.columns[name] for name in more}
    if genotypes:
        return _GENOTYPES, found.target, further
    sides = np.array([found.columns[name] for name in names]).T
    return (sides[0], sides[1]), found.target, further


def read_stored(selection: Selection, source: Source) -> Table:
    """Read the target, and covariates; the table stays where it is."""
    store, name = _opened(source)
    target = selection.schema.target
    labels = target.limits is None
    if isinstance(store, ParquetParts) and source.target == name:
        y = store.target(name, labels=labels, classes=target.classes)
    else:
        people = store.people if isinstance(store, BedFile) else None
        path = Path(source.target or "")
        y = read_phenotype(path, people, labels=labels, classes=target.classes)
    if source.covariates is None:
        return Table(store, y)
    lower, upper = selection.schema.limits
    pairs = zip(lower[store.n_columns :], upper[store.n_columns :], strict=True)
    bounds = dict(zip(covariate_names(source.covariates), pairs, strict=True))
    return Table(with_covariates(store, source.covariates, bounds), y)


def read_selected(model: LinearModel, table: Path, covariates: Path | None) -> Floats:
    """Read the columns of a model out of a table on disk, and out of its covariates."""
    if model.bounds is None:
        raise InputError(
            "the model was fitted by a schema; a table that stays on disk holds numbers alone"
        )
    store = open_table(table)
    known = store.names or ManyNames(str(j) for j in range(store.n_columns))
    more = () if covariates is None else covariate_names(covariates)
    beside = [name for name in model.columns if name in more]
    own = [k for k, name in enumerate(model.columns) if name not in more]
    places = places_of_names(known, {model.columns[k] for k in own})
    lacking = [model.columns[k] for k in own if model.columns[k] not in places]
    if lacking:
        raise InputError(
            f"{table} does not have the model's column {lacking[0]!r}; a covariate of the model is "
            "given by --covariates"
        )
    middle = np.array([sum(model.bounds[k]) / 2 for k in own])
    out = np.empty((store.n_rows, len(model.columns)))
    index = np.array([places[model.columns[k]] for k in own], dtype=np.intp)
    out[:, own] = store.numbers(index, middle)
    if covariates is not None and beside:
        rest = [k for k in range(len(model.columns)) if k not in own]
        out[:, rest] = read_covariates(covariates, beside, store)
    return out
