"""Files: tables from CSV and Parquet, public bounds from TOML, models as JSON."""

from __future__ import annotations

from dpsubset.tables.classes import check_classes
from dpsubset.tables.files import Table, read_columns, read_table
from dpsubset.tables.limits import TableBounds, bounds_template, read_bounds
from dpsubset.tables.models import StoredModel, read_model, write_model
from dpsubset.tables.names import looks_headless, pick_features, read_names

__all__ = [
    "StoredModel",
    "Table",
    "TableBounds",
    "bounds_template",
    "check_classes",
    "looks_headless",
    "pick_features",
    "read_bounds",
    "read_columns",
    "read_model",
    "read_names",
    "read_table",
    "write_model",
]
