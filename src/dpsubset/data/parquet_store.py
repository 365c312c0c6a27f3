"""Parquet data sets: one file, or a folder of them, whose rows follow each other by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.data.array_store import NumberStore, tile_shape
from dpsubset.data.classes import read_labels
from dpsubset.data.files import read_cells
from dpsubset.data.frames import MISSING
from dpsubset.data.names import opened, quietly
from dpsubset.data.watched import Watched
from dpsubset.designs.streamed import Tile
from dpsubset.errors import InputError
from dpsubset.labels import Labels

__all__ = ["ParquetParts"]


class ParquetParts(NumberStore):
    """Files with the same columns, all of them numbers, in the order of their names."""

    def __init__(self, path: Path, features: tuple[str, ...] | None = None) -> None:
        self._path = path
        self._parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not self._parts:
            raise InputError(f"{path} holds no file whose name ends in .parquet")
        self._files = [Watched(part) for part in self._parts]
        first, *others = [self._schema(part) for part in self._parts]
        for part, other in zip(self._parts[1:], others, strict=True):
            if other != first:
                raise InputError(
                    f"{part} has other columns, or columns of other types, than {self._parts[0]}; "
                    "the parts of a data set must agree"
                )
        self.names = tuple(first) if features is None else features
        text = [
            name
            for name in self.names
            if not (first[name].is_numeric() or first[name] == pl.Boolean)
        ]
        if text:
            raise InputError(
                f"{path}: column {text[0]!r} holds no numbers. A data set on disk must hold "
                "numbers; encode it, or leave it out"
            )
        self.n_columns = len(self.names)
        counts = [self._height(part) for part in self._parts]
        self._starts = np.cumsum([0, *counts])
        self.n_rows = int(self._starts[-1])

    @staticmethod
    def _schema(part: Path) -> dict[str, Any]:
        found = quietly(lambda: opened(part, pl.read_parquet_schema))
        if not found:
            raise InputError(f"{part} is not a readable Parquet file")
        return dict(found)

    @staticmethod
    def _height(part: Path) -> int:
        found = quietly(lambda: pl.scan_parquet(part).select(pl.len()).collect().item())
        if found is None:
            raise InputError(f"{part} is not a readable Parquet file: its contents are damaged")
        return int(found)

    def tiles(self, most: int) -> Iterator[Tile]:
        """Read some rows of some columns at a time."""
        assert self.names is not None
        height, width = tile_shape(self.n_rows, self.n_columns, 8, most)
        for top in range(0, self.n_rows, height):
            rows = slice(top, min(top + height, self.n_rows))
            for first in range(0, self.n_columns, width):
                columns = slice(first, min(first + width, self.n_columns))
                yield Tile(rows, columns, self._read(rows, tuple(self.names[columns])))

    def _read(self, rows: slice, names: tuple[str, ...]) -> NDArray[Any]:
        out = np.empty((rows.stop - rows.start, len(names)))
        for k, part in enumerate(self._parts):
            low = max(rows.start, int(self._starts[k]))
            high = min(rows.stop, int(self._starts[k + 1]))
            if low < high:
                first = low - int(self._starts[k])
                out[low - rows.start : high - rows.start] = self._numbers(
                    part, names, first, high - low
                )
        return out

    def _numbers(self, part: Path, names: tuple[str, ...], first: int, count: int) -> NDArray[Any]:
        def read() -> NDArray[Any]:
            # By `pl.col` of a list: a name is not taken for a pattern.
            lazy = pl.scan_parquet(part).slice(first, count)
            frame = lazy.select(pl.col(list(names)).cast(pl.Float64)).collect()
            return frame.to_numpy()

        found = quietly(read)
        if found is None or found.shape != (count, len(names)):
            raise InputError(f"{part} is not a readable Parquet file: its contents are damaged")
        return found

    def columns(self, index: NDArray[np.intp]) -> NDArray[Any]:
        """Read some columns."""
        assert self.names is not None
        return self._read(slice(0, self.n_rows), tuple(self.names[j] for j in index.tolist()))

    def without(self, target: str) -> ParquetParts:
        """Return the same without a column, which is the target."""
        assert self.names is not None
        found = ParquetParts(self._path, tuple(name for name in self.names if name != target))
        found.memory = self.memory
        return found

    def target(
        self, name: str, *, labels: bool, classes: tuple[str, str] | None = None
    ) -> Floats | Labels:
        """Read one column as the target."""
        if not labels:
            found = np.ascontiguousarray(self._read(slice(0, self.n_rows), (name,))[:, 0])
            if not np.isfinite(found).all():
                raise InputError(f"{self._path}: the target {MISSING}")
            return found
        cells = pl.concat([read_cells(part, [name]).to_series(0) for part in self._parts])
        known = read_labels(cells, classes, self._path)
        if known is None:
            raise InputError(f"{self._path}: a label is missing; every row needs one")
        return known

    def check(self) -> None:
        """Refuse parts that have changed."""
        for file in self._files:
            file.check()
