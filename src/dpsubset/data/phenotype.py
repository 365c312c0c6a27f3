"""A target in a file of its own, for a table on disk that holds none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dpsubset.arrays import Floats
from dpsubset.data.classes import read_labels
from dpsubset.data.files import read_cells, read_columns
from dpsubset.data.names import read_names
from dpsubset.errors import InputError
from dpsubset.labels import Labels

__all__ = ["PEOPLE", "phenotype_name", "places_of", "read_phenotype"]

PEOPLE = ("FID", "#FID", "IID", "#IID")  # PLINK's own words for whose row it is


def phenotype_name(path: Path) -> str:
    """Return the name of the one column that holds the target; no row is read."""
    names = [name for name in read_names(path) if name not in PEOPLE]
    if len(names) != 1:
        raise InputError(
            f"{path} must hold one column besides FID and IID, the target; it has {len(names)}"
        )
    return names[0]


def read_phenotype(
    path: Path,
    people: Sequence[str] | None,
    *,
    labels: bool,
    classes: tuple[str, str] | None = None,
) -> Floats | Labels:
    """Read the target: row by row, or by IID where the file has it and the table names people."""
    name = phenotype_name(path)
    places = places_of(path, people)
    if not labels:
        numbers: Floats = read_columns(path, [name])[:, 0].astype(np.float64)[places]
        return numbers
    found = read_labels(read_cells(path, [name]).to_series(0), classes, path)
    if found is None:
        raise InputError(f"{path}: a label is missing; every person needs one")
    return Labels(found.values[places], found.named)


def places_of(path: Path, people: Sequence[str] | None) -> Any:
    """Return which row of the file is each person's."""
    ids = [name for name in read_names(path) if name in ("IID", "#IID")]
    if not ids or people is None:
        return slice(None)
    rows = read_cells(path, ids).to_series(0).cast(pl.String).to_list()
    place = {one: i for i, one in enumerate(rows)}
    if len(place) < len(rows) or len(set(people)) < len(people):
        raise InputError(f"{path}: an IID is there twice, or twice in the .fam; each must be one")
    if any(one not in place for one in people):
        raise InputError(
            f"{path} lacks people of the .fam file: every person needs a row. Leave people without "
            "a target out of both"
        )
    return np.array([place[one] for one in people], dtype=np.intp)
