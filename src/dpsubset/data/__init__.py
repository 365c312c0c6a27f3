"""Tables as their owners have them: read, validated and described, in this room alone."""

from __future__ import annotations

from dpsubset.data.bounds_file import TableBounds, read_bounds
from dpsubset.data.classes import check_classes
from dpsubset.data.codebook import Codebook, check_file, is_bounds_only
from dpsubset.data.covariates import with_covariates
from dpsubset.data.files import read_cells, read_columns, read_table
from dpsubset.data.frames import Table, as_matrix
from dpsubset.data.names import looks_headless, pick_features, read_names, read_types
from dpsubset.data.schema import Schema
from dpsubset.data.stores import open_table
from dpsubset.data.template import schema_template

__all__ = [
    "Codebook",
    "Schema",
    "Table",
    "TableBounds",
    "as_matrix",
    "check_classes",
    "check_file",
    "is_bounds_only",
    "looks_headless",
    "open_table",
    "pick_features",
    "read_bounds",
    "read_cells",
    "read_columns",
    "read_names",
    "read_table",
    "read_types",
    "schema_template",
    "with_covariates",
]
