"""Tables that stay on disk, by the names of their files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from dpsubset.data.array_store import ArrayFile
from dpsubset.data.bed import BedFile
from dpsubset.data.dask_store import DaskTable, is_dask
from dpsubset.data.parquet_store import ParquetParts
from dpsubset.data.zarr_store import ZarrStore
from dpsubset.designs.streamed import DEFAULT_MEMORY, Store
from dpsubset.errors import InputError

__all__ = ["as_store", "is_stored", "memory_of", "open_table"]

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_LEAST = 64 * 10**6
_KINDS = ".bed, .zarr, .npy, .parquet, or a folder of .parquet files"


def open_table(path: str | os.PathLike[str], *, memory: int | str | None = None) -> Store:
    """Open a table that stays on disk: for `fit`, in place of an array.

    Parameters
    ----------
    path : str or path
        A PLINK .bed file (with .bim and .fam), a Zarr store, a .npy file, a Parquet file or a
        folder of Parquet files.
    memory : int or str, optional
        How many bytes tiles of the table may take, such as "2GB"; 1 GB if not given.

    Returns
    -------
    Store
        The table, of which blocks are read when they are needed.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/table.npy", np.eye(3))
    ...     open_table(f"{folder}/table.npy", memory="1GB").shape
    (3, 3)
    """
    found = _opened(Path(path))
    found.memory = memory_of(memory)
    return found


def _opened(path: Path) -> Store:
    kind = path.suffix.lower()
    if not path.exists():
        raise InputError(f"{path}: no such file; a table on disk ends in {_KINDS}")
    if kind == ".bed":
        return BedFile(path)
    if kind == ".npy":
        return ArrayFile.of_npy(path)
    if kind == ".zarr" or _is_zarr(path):
        return ZarrStore(path)
    if kind in (".parquet", ".pq") or path.is_dir():
        return ParquetParts(path)
    raise InputError(f"{path}: a table on disk ends in {_KINDS}")


def _is_zarr(path: Path) -> bool:
    return (path / "zarr.json").exists() or (path / ".zarray").exists()


def is_stored(path: Path) -> bool:
    """Say whether a command's table is one that stays on disk."""
    if path.suffix.lower() in (".bed", ".npy", ".zarr"):
        return True
    return path.is_dir() and (_is_zarr(path) or any(path.glob("*.parquet")))


def as_store(X: Any) -> Any:
    """Return what is to be read from disk as a store; anything else as it is."""
    if isinstance(X, (str, os.PathLike)):
        return open_table(X)
    if is_dask(X):
        return DaskTable(X)
    if isinstance(X, np.memmap):
        found = ArrayFile.of_map(X)
        return X if found is None else found
    return X


def memory_of(given: int | str | None) -> int:
    """Read a number of bytes.

    >>> memory_of("2GB"), memory_of(10**9), memory_of("512 MB")
    (2000000000, 1000000000, 512000000)
    """
    if given is None:
        return DEFAULT_MEMORY
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)I?B?\s*", str(given), re.IGNORECASE)
    size = 0 if found is None else int(float(found[1]) * _UNITS[found[2].upper()])
    if size < _LEAST:
        raise InputError(f"memory is {given!r}; give 64 MB or more, such as 2GB")
    return size
