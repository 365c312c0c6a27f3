"""Dask arrays as designs: products, columns and the first look are tasks, all else stays here.

Tasks are named by numbers alone: a dashboard shows nothing of the data.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.designs.base import Columns, Design
from dpsubset.designs.dense import NOT_FINITE
from dpsubset.designs.tasks import Map, first_look, mapped, products
from dpsubset.errors import InputError, without_context

__all__ = ["DaskDesign"]

_FAILED = (
    "Dask could not compute a part of the table: its workers died, or a chunk cannot be read. "
    "Nothing is released; look at the workers and ask again"
)


_PATIENCE = 60.0  # seconds without an answer before the workers are counted


class DaskDesign(Design):
    """A table in chunks, wherever they are; sums over chunks of rows are made in their order."""

    def __init__(
        self,
        array: Any,
        bound: float,
        middle: Floats,
        scale: Floats,
        partner: Floats | None = None,
    ) -> None:
        self.n_rows, self.n_columns = (int(side) for side in array.shape)
        self.bound = bound
        self._middle, self._scale = middle, scale
        self._rows, self._columns = (_slices(sizes) for sizes in array.chunks)
        self._blocks = array.to_delayed(optimize_graph=False)
        self.passes = 0
        self._partner = np.zeros(self.n_rows) if partner is None else partner
        self._squares = np.zeros(self.n_columns)
        self._products = self._first()

    def _how(self, columns: slice) -> Map:
        return self._middle[columns], self._scale[columns], self.bound

    def _first(self) -> Floats:
        out, broken = np.zeros(self.n_columns), False
        vectors = self._partner[:, None]
        for columns, found in self._each(first_look, vectors):
            for part, squares, wrong in found:
                out[columns] += part[0]
                self._squares[columns] += squares
                broken |= wrong
        if broken:
            raise InputError(NOT_FINITE)
        return out

    def _each(self, task: Callable[..., Any], vectors: Floats) -> list[tuple[slice, list[Any]]]:
        """Run a task on every chunk; return by columns what its rows give, in their order."""
        self.passes += 1
        tasks = [
            (task, self._blocks[i, j], self._how(columns), vectors[rows])
            for j, columns in enumerate(self._columns)
            for i, rows in enumerate(self._rows)
        ]
        found, step = _computed(tasks), len(self._rows)
        parts = [found[k * step : (k + 1) * step] for k in range(len(self._columns))]
        return list(zip(self._columns, parts, strict=True))

    def correlate(self, vectors: Floats) -> Floats:
        """Return X'u, or X'U."""
        if vectors.ndim == 1:
            if np.array_equal(vectors, self._partner):
                return self._products
            return self.correlate(vectors[:, None])[:, 0]
        out = np.zeros((vectors.shape[1], self.n_columns))
        for columns, found in self._each(products, vectors):
            for part in found:
                out[:, columns] += part
        return out.T

    def take(self, columns: Columns) -> Floats:
        """Return columns, clipped and mapped."""
        index = np.asarray(columns, dtype=np.intp)
        out = np.empty((self.n_rows, index.size))
        tasks, places = [], []
        for j, part in enumerate(self._columns):
            inside = np.flatnonzero((part.start <= index) & (index < part.stop))
            if inside.size:
                local = index[inside] - part.start
                for i, rows in enumerate(self._rows):
                    tasks.append((mapped, self._blocks[i, j], self._how(part), local))
                    places.append((rows, inside))
        for (rows, inside), block in zip(places, _computed(tasks), strict=True):
            out[rows, inside] = block
        return out

    def square_norms(self) -> Floats:
        """Return the squared norm of every column."""
        return self._squares


def _slices(sizes: Sequence[int]) -> list[slice]:
    ends = np.cumsum([0, *sizes]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


@without_context
def _computed(tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
    import dask

    dask_: Any = dask  # its names are not exported by their types
    name = f"dpsubset-{uuid.uuid4().hex}"
    lazy = [
        dask_.delayed(task, pure=False)(*given, dask_key_name=f"{name}-{k}")
        for k, (task, *given) in enumerate(tasks)
    ]
    try:
        client = _client(dask_, lazy)
        if client is not None:
            return _by_workers(client, lazy)
        return list(dask_.compute(*lazy, optimize_graph=True))
    except MemoryError:
        raise
    except Exception:  # words of a worker may hold entries
        raise InputError(_FAILED) from None


def _client(dask_: Any, lazy: list[Any]) -> Any:
    """Return the client of dask.distributed that would compute this; None if there is none."""
    chosen = getattr(dask_.base.get_scheduler(collections=lazy), "__self__", None)
    return chosen if hasattr(chosen, "scheduler_info") else None


def _by_workers(client: Any, lazy: list[Any]) -> list[Any]:
    """Compute by workers. Where they have all gone, and nobody comes back, that is an end, too."""
    import distributed

    wait: Any = distributed.wait  # not annotated
    futures = client.compute(lazy, optimize_graph=True)
    try:
        while True:
            try:
                wait(futures, timeout=_PATIENCE)
                return list(client.gather(futures))
            except TimeoutError:
                if not client.scheduler_info()["workers"]:
                    raise
    finally:
        client.cancel(futures)
