"""Every feature's own equations, by eigenvectors: what trial fits are made of (T24j)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.problem import Problem
from dpsubset.sums import BLOCK, dot

__all__ = ["Alone", "alone_of", "by_width", "far_alone", "learn", "nothing_alone", "padded"]

_UNIT = 2.0**-53


def padded(width: int) -> int:
    """Return the room of a feature, a multiple of four columns."""
    return -(-width // 4) * 4


class Alone(NamedTuple):
    """Every feature's own equations, padded to the widest: G_gg + ridge by its eigenvectors."""

    values: Floats
    vectors: Floats  # a row each
    targets: Floats  # X_g'y
    where: NDArray[np.int64]  # the features' columns in the table of moments, one after another
    starts: NDArray[np.int64]
    # Rounding of one operation, largest trace of a support, least and largest value, and the
    # length of X_S'y in units of that trace.
    numbers: Floats


def alone_of(problem: Problem, G: Floats) -> Alone:
    """Take every feature's own equations apart; G is of all columns."""
    features = problem.features
    alone = _nothing_yet(problem, 0)
    for own, columns in by_width(problem, np.arange(len(features))):
        blocks = G[columns[:, :, None], columns[:, None, :]]
        _fill_in(problem, alone, own, columns, blocks)
    alone.where[:] = features.order
    return alone


def far_alone(problem: Problem) -> Alone:
    """Return room for features whose equations are not yet known, and products of long vectors."""
    return _nothing_yet(problem, BLOCK + problem.n_rows // BLOCK + 1)


def learn(problem: Problem, alone: Alone, store: Floats, places: Any, some: Any) -> None:
    """Take apart the equations of some features, whose columns are rows of a store."""
    alone.where[:] = places[problem.features.order]
    for own, columns in by_width(problem, some[np.isnan(alone.values[some, 0])]):
        blocks = np.empty((own.size, columns.shape[1], columns.shape[1]))
        _own(store, places[columns], blocks)
        _fill_in(problem, alone, own, columns, blocks)


@compiled(nogil=True)
def _own(store, rows, out):  # type: ignore[no-untyped-def]
    """Fill in the products of every feature's own columns."""
    for f in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            for j in range(i + 1):
                out[f, i, j] = out[f, j, i] = dot(store[rows[f, i]], store[rows[f, j]])


def _nothing_yet(problem: Problem, long: int) -> Alone:
    features, ridge = problem.features, problem.ridge
    m, c = len(features), padded(int(features.widths.max()))
    traces = features.sum(np.ascontiguousarray(problem.gram.diagonal)) + ridge * features.widths
    trace = float(np.sort(traces)[-problem.size :].sum())
    unit = (12 * problem.size * c + 8 + long) * _UNIT
    reach = math.sqrt(problem.energy / trace) if trace > 0.0 else 0.0
    return Alone(
        np.full((m, c), np.nan),
        np.zeros((m, c, c)),
        np.zeros((m, c)),
        np.zeros(features.n_columns, dtype=np.int64),
        features.starts.astype(np.int64),
        np.array([unit, trace, ridge, ridge, reach]),
    )


def by_width(problem: Problem, some: NDArray[np.intp]) -> Iterator[Any]:
    """Return features of the same number of columns, and these columns."""
    features = problem.features
    for width in np.unique(features.widths[some]):
        own = some[features.widths[some] == width]
        yield own, features.order[features.starts[own][:, None] + np.arange(width)]


def _fill_in(problem: Problem, alone: Alone, own: Any, columns: Any, blocks: Floats) -> None:
    width = columns.shape[1]
    values, vectors = np.linalg.eigh(blocks)
    values = np.maximum(values, 0.0) + problem.ridge
    alone.values[own] = 1.0
    alone.values[own, :width] = values
    alone.vectors[own, :width, :width] = np.swapaxes(vectors, 1, 2)
    alone.targets[own, :width] = problem.correlations[columns]
    alone.numbers[3] = max(alone.numbers[3], values.max())


def nothing_alone() -> Alone:
    """Return nothing, where it would not pay."""
    one, whole = np.empty((0, 0)), np.empty(0, dtype=np.int64)
    return Alone(one, np.empty((0, 0, 0)), one, whole, whole, np.empty(5))
