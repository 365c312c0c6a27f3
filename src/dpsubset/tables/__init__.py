"""Files: tables from CSV and Parquet, public bounds from TOML."""

from __future__ import annotations

from dpsubset.tables.files import Table, pick_features, read_names, read_table
from dpsubset.tables.limits import TableBounds, bounds_template, read_bounds

__all__ = [
    "Table",
    "TableBounds",
    "bounds_template",
    "pick_features",
    "read_bounds",
    "read_names",
    "read_table",
]
