"""Zarr stores: an array in chunks, read chunk by chunk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.data.array_store import NumberStore, check_numbers, tile_shape
from dpsubset.designs.streamed import Tile
from dpsubset.errors import InputError, without_context
from dpsubset.sums import BLOCK

__all__ = ["ZarrStore"]

_PATIENCE = 10.0  # seconds


class ZarrStore(NumberStore):
    """A two-dimensional array of a Zarr store, version 2 or 3.

    Where rows are cut at other places than every 4096, chunks are read more than once a pass.
    """

    @without_context
    def __init__(self, path: Path) -> None:
        try:
            import zarr
        except ImportError:
            raise InputError("Zarr stores need the extra: pip install 'dpsubset[zarr]'") from None
        self._path = path
        try:
            found: Any = zarr.open(str(path), mode="r")
        except MemoryError:
            raise
        except Exception:
            raise InputError(f"{path} is not a Zarr store that can be read") from None
        if not isinstance(found, zarr.Array):
            raise InputError(f"{path} is a group of Zarr arrays; name one of them, {path}/name")
        if found.ndim != 2 or found.shape[1] == 0:
            raise InputError(f"{path}: a table has two dimensions and at least one column")
        self._array = found
        self._kind = np.dtype(found.dtype)
        check_numbers(self._kind, path)
        self.n_rows, self.n_columns = found.shape
        self._chunks = found.chunks
        self._seen = self._look()
        shards = getattr(found, "shards", None)  # of several chunks each
        deep, wide = shards or self._chunks
        wanted = -(-self.n_rows // deep) * -(-self.n_columns // wide)
        stored = getattr(found, "_nshards_initialized", None) if shards else None
        if (found.nchunks_initialized if stored is None else stored) < wanted:
            raise InputError(
                f"{path} lacks chunks: {wanted} make up the array, and fewer are there. A missing "
                "chunk would count as zeros; write the store anew, with write_empty_chunks"
            )

    def tiles(self, most: int) -> Iterator[Tile]:
        """Read tiles that are made of whole chunks, as far as memory allows."""
        n, p, item = self.n_rows, self.n_columns, self._kind.itemsize
        height, width = tile_shape(n, p, item, most)
        deep, wide = self._chunks
        if n * wide * item <= most:  # whole columns of chunks
            height, width = max(n, 1), max(wide, most // max(n * item, 1) // wide * wide)
        elif deep % BLOCK == 0 and deep * wide * item <= most:
            height, width = deep, max(wide, most // (deep * item) // wide * wide)
        for top in range(0, n, height):
            for first in range(0, p, width):
                rows = slice(top, min(top + height, n))
                columns = slice(first, min(first + width, p))
                yield Tile(rows, columns, self._read((rows, columns)))

    @without_context
    def _read(self, place: Any) -> NDArray[Any]:
        try:
            return np.asarray(self._array[place])
        except MemoryError:
            raise
        except Exception:  # its words may name what is in a chunk
            _settle()
            raise InputError(
                f"{self._path}: a chunk cannot be read; it is missing or damaged"
            ) from None

    def columns(self, index: NDArray[np.intp]) -> NDArray[Any]:
        """Read some columns, one chunk at a time: together they might not fit into memory."""
        out = np.empty((self.n_rows, index.size), dtype=self._kind)
        deep, wide = self._chunks
        for chunk in np.unique(index // wide):
            here = np.flatnonzero(index // wide == chunk)
            columns = slice(int(chunk) * wide, min((int(chunk) + 1) * wide, self.n_columns))
            for top in range(0, self.n_rows, deep):
                rows = slice(top, min(top + deep, self.n_rows))
                block = self._read((rows, columns))
                out[rows, here] = block[:, index[here] - columns.start]
        return out

    def _look(self) -> tuple[int, int, int]:
        """Return number, bytes and latest change of the files of a store in a folder."""
        count = size = latest = 0
        for file in self._path.rglob("*"):
            now = file.stat()
            count, latest = count + 1, max(latest, now.st_mtime_ns)
            size += now.st_size
        return count, size, latest

    @without_context
    def check(self) -> None:
        """Refuse a store that has changed."""
        try:
            now = self._look()
        except OSError:
            now = (-1, -1, -1)
        if now != self._seen:
            raise InputError(
                f"{self._path} has changed while it was read; leave it as it is and ask again"
            )


def _settle() -> None:
    """Let reads that were begun beside one that failed come to their end, or it tells of them."""

    async def others() -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*left, return_exceptions=True)

    with suppress(Exception):  # how it waits for its own work is zarr's affair
        from zarr.core.sync import sync

        sync(others(), timeout=_PATIENCE)
