"""Covariates beside a table on disk: a few columns of numbers, known for every row."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.data.bed import BedFile
from dpsubset.data.bounds import column_limits
from dpsubset.data.files import read_columns
from dpsubset.data.frames import MISSING, as_matrix
from dpsubset.data.many_names import ManyNames
from dpsubset.data.names import read_names
from dpsubset.data.phenotype import PEOPLE, places_of
from dpsubset.data.stores import as_store
from dpsubset.designs import Store
from dpsubset.designs.base import Design
from dpsubset.designs.beside import BesideDesign
from dpsubset.designs.dense import DenseDesign
from dpsubset.designs.streamed import Tile
from dpsubset.errors import InputError

__all__ = ["Beside", "covariate_names", "read_covariates", "with_covariates"]


def with_covariates(X: Any, covariates: Any, bounds: Mapping[str, tuple[float, float]]) -> Store:
    """Put a few columns of numbers beside a table on disk, for `fit`.

    Name them in `always_include`, so that they are part of every selection.

    Parameters
    ----------
    X : path or Store
        The table on disk.
    covariates : data frame, or path to a CSV or Parquet file
        One row for each row of the table, in its order; a file with a column IID is matched to the
        people of a .bed table.
    bounds : mapping {name: (lower, upper)}
        Their public bounds; `bounds_X` then speaks of the other columns.

    Returns
    -------
    Store
        The table with the covariates as its last columns.

    Examples
    --------
    >>> import numpy as np, polars as pl, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/table.npy", np.eye(3))
    ...     age = pl.DataFrame({"age": [30.0, 40.0, 50.0]})
    ...     with_covariates(f"{folder}/table.npy", age, {"age": (0, 120)}).shape
    (3, 4)
    """
    store = as_store(X)
    if not isinstance(store, Store):
        raise InputError(
            "covariates go alongside a table on disk: give its path, or open_table(path)"
        )
    if isinstance(covariates, (str, os.PathLike)):
        names = covariate_names(Path(covariates))
        matrix = read_covariates(Path(covariates), names, store)
    else:
        matrix, given = as_matrix(covariates)
        if given is None or not isinstance(matrix, np.ndarray):
            raise InputError("covariates need names: give a data frame, or the path of a file")
        names = tuple(given)
    return Beside(store, np.ascontiguousarray(matrix, dtype=np.float64), names, bounds)


def covariate_names(path: Path) -> tuple[str, ...]:
    """Return the names of the covariates in a file; no row is read."""
    names = tuple(name for name in read_names(path) if name not in PEOPLE)
    if not names:
        raise InputError(f"{path} holds no column besides FID and IID; covariates are missing")
    return names


def read_covariates(path: Path, names: Sequence[str], store: Store) -> Floats:
    """Read some columns of a file with a row for each row of a table on disk."""
    people = store.people if isinstance(store, BedFile) else None
    numbers: Floats = read_columns(path, list(names)).astype(np.float64)[places_of(path, people)]
    return numbers


class Beside(Store):
    """A table on disk and a few columns in memory behind it."""

    def __init__(
        self,
        store: Store,
        covariates: Floats,
        names: tuple[str, ...],
        bounds: Mapping[str, tuple[float, float]],
    ) -> None:
        if covariates.shape[0] != store.n_rows:
            raise InputError("the covariates and the table have different numbers of rows")
        if not np.isfinite(covariates).all():
            raise InputError(f"a covariate {MISSING}")
        self.store, self.covariates, self.covariate_names = store, covariates, names
        self._limits = column_limits(bounds, names, len(names))
        self.n_rows, self.n_columns = store.n_rows, store.n_columns + len(names)
        self.memory = store.memory
        own: Sequence[str] = store.names or ManyNames(str(j) for j in range(store.n_columns))
        many = own if isinstance(own, ManyNames) else ManyNames(own)
        self.names = many.followed_by(names)
        if self.names.repeated():
            raise InputError("a covariate has the name of a column of the table: rename it")

    def bounds(self, given: Any) -> tuple[Floats, Floats]:
        """Return the bounds of all columns; those given are of the table on disk."""
        names = self.store.names
        sides = column_limits(given, names, self.store.n_columns)
        lower, upper = (np.concatenate(two) for two in zip(sides, self._limits, strict=True))
        return lower, upper

    def tiles(self, most: int) -> Iterator[Tile]:
        """Read the table on disk, without the covariates."""
        return self.store.tiles(most)

    def columns(self, index: NDArray[np.intp]) -> NDArray[Any]:
        """Read some columns of the table on disk."""
        return self.store.columns(index)

    def numbers(self, index: NDArray[np.intp], middle: Floats) -> Floats:
        """Return some columns in their own units."""
        p = self.store.n_columns
        out = np.empty((self.n_rows, index.size))
        large = index < p
        out[:, large] = self.store.numbers(index[large], middle[large])
        out[:, ~large] = self.covariates[:, index[~large] - p]
        return out

    def design(self, bound: float, middle: Floats, scale: Floats, partner: Floats | None) -> Design:
        """Return the two designs beside each other."""
        p = self.store.n_columns
        few = DenseDesign(self.covariates, bound, middle[p:], scale[p:])
        return BesideDesign(self.store.design(bound, middle[:p], scale[:p], partner), few)

    def check(self) -> None:
        """Refuse a file that has changed."""
        self.store.check()
