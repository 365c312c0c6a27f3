"""Dense arrays, float64 or float32, clipped and mapped block by block on the way to a product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.designs.base import Columns, Design
from dpsubset.designs.cores import add_blocks, in_parallel, shares
from dpsubset.errors import InputError
from dpsubset.sums import dot, row_blocks

__all__ = ["NOT_FINITE", "DenseDesign", "project", "scan"]

NOT_FINITE = (
    "the table holds missing or infinite values; dpsubset takes finite numbers only. Replace them "
    "by fixed values that are public (not computed from this table), for instance the middle of "
    "the column's bounds, or say what they count as in a schema (schema=, --schema)"
)

_LONG = 500_000_000  # multiplications between two looks at the clock
_BLOCK_BYTES = 1 << 21  # a converted block stays in the second-level cache
_TILE = 1024  # columns that the compiled loops work on at once
_FEW = 8  # vectors that they work on at once
_ALONE = 1 << 22  # multiplications from which threads pay


@compiled(fastmath={"contract", "reassoc"})
def _scan_row(source, middle, scale, bound, squares):  # type: ignore[no-untyped-def]
    """Add the squares of a row's mapped entries; count those outside and those not finite."""
    outside = 0
    broken = 0
    for j in range(source.size):
        x = np.float64(source[j])
        broken += x - x != 0.0
        x = (x - middle[j]) * scale[j]
        outside += not (-bound <= x <= bound)
        x = bound if x > bound else x
        x = -bound if x < -bound else x
        squares[j] += x * x
    return outside, broken


@compiled(nogil=True)
def _scan(X, middle, scale, bound, squares, first, last):  # type: ignore[no-untyped-def]
    """Scan some columns in tiles, so that what is summed stays in the cache."""
    outside = 0
    broken = 0
    for start in range(first, last, _TILE):
        tile = slice(start, min(start + _TILE, last))
        for i in range(X.shape[0]):
            found = _scan_row(X[i, tile], middle[tile], scale[tile], bound, squares[tile])
            outside += found[0]
            broken += found[1]
    return outside, broken


def scan(
    array: NDArray[np.floating],
    middle: Floats,
    scale: Floats,
    bound: float,
    squares: Floats,
    parallel: bool = False,
) -> tuple[int, int]:
    """Add the squares of a block's entries; count entries outside and entries not finite."""
    found: list[tuple[int, int]] = []

    def work(ends: tuple[int, int]) -> None:
        found.append(_scan(array, middle, scale, bound, squares, *ends))

    _by_columns(work, array, parallel)
    return sum(int(a) for a, _ in found), sum(int(b) for _, b in found)


def _by_columns(
    work: Callable[[tuple[int, int]], None], array: NDArray[Any], parallel: bool, times: int = 1
) -> None:
    """Do some work on the columns of a block, parted among the cores where that pays."""
    large = parallel and array.size * times > _ALONE
    in_parallel(work, shares(0, array.shape[1], _TILE) if large else [(0, array.shape[1])])


@compiled(fastmath={"contract", "reassoc"})
def _peak_rows(x0, x1, x2, x3, y, squares, peaks, products):  # type: ignore[no-untyped-def]
    for j in range(squares.size):
        a, b = np.float64(x0[j]), np.float64(x1[j])
        c, d = np.float64(x2[j]), np.float64(x3[j])
        squares[j] += a * a + b * b + c * c + d * d
        products[j] += a * y[0] + b * y[1] + c * y[2] + d * y[3]
        a, b, c, d = abs(a), abs(b), abs(c), abs(d)
        a = a if a > b else b
        c = c if c > d else d
        a = a if a > c else c
        peaks[j] = a if a > peaks[j] else peaks[j]


@compiled(nogil=True)
def _peaks(X, y, squares, peaks, products, first, last):  # type: ignore[no-untyped-def]
    """Sum squares and products with y and find largest sizes of some columns, all in one pass.

    That is all that a table inside its bounds needs. An entry that is not a number shows in the
    squares.
    """
    n = X.shape[0]
    none = np.zeros(_TILE, X.dtype)
    weights = np.zeros(4)
    for start in range(first, last, _TILE):
        tile = slice(start, min(start + _TILE, last))
        rest = none[: tile.stop - tile.start]
        for i in range(0, n, 4):
            weights[:] = 0.0
            weights[: min(4, n - i)] = y[i : i + 4]
            x1 = X[i + 1, tile] if i + 1 < n else rest
            x2 = X[i + 2, tile] if i + 2 < n else rest
            x3 = X[i + 3, tile] if i + 3 < n else rest
            _peak_rows(X[i, tile], x1, x2, x3, weights, squares[tile], peaks[tile], products[tile])


@compiled(fastmath={"contract", "reassoc"})
def _load(source, middle, scale, bound, plain, out):  # type: ignore[no-untyped-def]
    """Write a row, widened to float64 and, unless it is plain, mapped and clipped."""
    if plain:
        for j in range(source.size):
            out[j] = source[j]
    else:
        for j in range(source.size):
            x = (np.float64(source[j]) - middle[j]) * scale[j]
            x = bound if x > bound else x
            out[j] = -bound if x < -bound else x


@compiled(nogil=True, fastmath={"contract", "reassoc"})
def _project(X, middle, scale, bound, plain, U, out, first, last):  # type: ignore[no-untyped-def]
    """Add U'V to `out` (k, p), V the clipped and mapped X; four rows and a tile at a time.

    Of the columns from `first` to `last` alone.
    """
    n = X.shape[0]
    rows = np.zeros((4, _TILE))
    weights = np.zeros((U.shape[1], 4))
    for start in range(first, last, _TILE):
        stop = min(start + _TILE, last)
        m, s = middle[start:stop], scale[start:stop]
        r0, r1 = rows[0, : stop - start], rows[1, : stop - start]
        r2, r3 = rows[2, : stop - start], rows[3, : stop - start]
        for i in range(0, n, 4):
            weights[:] = 0.0
            for r in range(min(4, n - i)):
                _load(X[i + r, start:stop], m, s, bound, plain, rows[r, : stop - start])
                weights[:, r] = U[i + r]
            for k in range(U.shape[1]):
                target = out[k, start:stop]
                a, b, c, d = weights[k, 0], weights[k, 1], weights[k, 2], weights[k, 3]
                for j in range(target.size):
                    target[j] += r0[j] * a + r1[j] * b + r2[j] * c + r3[j] * d


def project(
    array: NDArray[np.floating],
    middle: Floats,
    scale: Floats,
    bound: float,
    plain: bool,
    vectors: Floats,
    parallel: bool = False,
) -> Floats:
    """Return U'V for vectors U and a block of rows, clipped and mapped to V."""
    part = np.zeros((vectors.shape[1], array.shape[1]))
    for start in range(0, vectors.shape[1], _FEW):
        U = np.ascontiguousarray(vectors[:, start : start + _FEW])
        into = part[start : start + _FEW]

        def work(ends: tuple[int, int], U: Floats = U, into: Floats = into) -> None:
            _project(array, middle, scale, bound, plain, U, into, *ends)

        _by_columns(work, array, parallel, len(into))
    return part


def _neighbours(index: NDArray[np.intp]) -> bool:
    return bool(index[-1] - index[0] == index.size - 1 and (np.diff(index) == 1).all())


class DenseDesign(Design):
    """A dense table; column j is clipped to [lower_j, upper_j] and mapped onto [-bound, bound].

    No copy of the table is made: blocks of rows of a float64 table that is already inside its
    bounds are handed to BLAS as they are, those of any other are clipped, mapped and widened to
    float64 first.
    """

    threaded = True

    def __init__(
        self,
        array: NDArray[np.floating],
        bound: float,
        middle: Floats,
        scale: Floats,
        partner: Floats | None = None,
    ) -> None:
        self._array = array
        self._middle = middle
        self._scale = scale
        self.n_rows, self.n_columns = array.shape
        self.bound = bound
        self._squares = np.zeros(self.n_columns)
        self._partner = partner
        self._products: Floats | None = None
        same = not middle.any() and bool(np.all(scale == 1.0))
        outside, broken = self._check(same)
        if broken:
            raise InputError(NOT_FINITE)
        self._plain = same and not outside
        self._direct = self._plain and array.dtype == np.float64

    def _check(self, same: bool) -> tuple[int, int]:
        """Count entries outside the bounds and entries not finite; sum up the squares."""
        if not self._array.flags.c_contiguous:
            return self._check_columns()
        if same:
            peaks, products = np.zeros((2, self.n_columns))
            y = np.zeros(self.n_rows) if self._partner is None else self._partner
            for rows in row_blocks(self.n_rows):
                squares, more = np.zeros((2, self.n_columns))
                given = self._array[rows], y[rows], squares, peaks, more

                def work(ends: tuple[int, int], given: tuple[Any, ...] = given) -> None:
                    _peaks(*given, *ends)

                _by_columns(work, given[0], parallel=True)
                self._squares += squares
                products += more
            if peaks.max() <= self.bound and np.isfinite(self._squares).all():
                self._products = products
                return 0, 0
            self._squares[:] = 0.0
        outside = broken = 0
        for rows in row_blocks(self.n_rows):
            squares = np.zeros(self.n_columns)
            how = self._middle, self._scale, self.bound
            found = scan(self._array[rows], *how, squares, parallel=True)
            self._squares += squares
            outside += found[0]
            broken += found[1]
        return outside, broken

    def _check_columns(self) -> tuple[int, int]:
        outside = broken = 0
        for columns in self._blocks(self.n_columns, self.n_rows):
            block = self._array[:, columns].astype(np.float64, order="F")
            broken += int(np.count_nonzero(~np.isfinite(block)))
            mapped = self._map(block, columns)
            outside += int(np.count_nonzero(np.abs(mapped) > self.bound))
            np.clip(mapped, -self.bound, self.bound, out=mapped)
            self._squares[columns] = [dot(column, column) for column in mapped.T]
        return outside, broken

    def _map(self, block: Floats, columns: slice | NDArray[np.intp]) -> Floats:
        """Map a block onto [-bound, bound] in place, without clipping it."""
        with np.errstate(over="ignore", invalid="ignore"):  # huge entries are clipped next
            block -= self._middle[columns]
            block *= self._scale[columns]
        return block

    @staticmethod
    def _blocks(length: int, other: int) -> Iterator[slice]:
        step = max(1, _BLOCK_BYTES // (8 * max(other, 1)))
        for start in range(0, length, step):
            yield slice(start, min(start + step, length))

    def _mapped(self, rows: slice, columns: slice | NDArray[np.intp]) -> Floats:
        block = self._array[rows, columns]
        if self._direct:
            return np.asarray(block, dtype=np.float64)
        mapped = block.astype(np.float64)
        if self._plain:
            return mapped
        return np.clip(self._map(mapped, columns), -self.bound, self.bound, out=mapped)

    def take(self, columns: Columns) -> Floats:
        index = np.asarray(columns, dtype=np.intp)
        if index.size > 1 and 0 <= index[0] < index[-1] < self.n_columns and _neighbours(index):
            run = slice(int(index[0]), int(index[-1]) + 1)  # neighbours are copied sooner
            taken = self._mapped(slice(None), run)
            return taken.copy() if self._direct else taken
        return self._mapped(slice(None), index)

    def correlate(self, vectors: Floats) -> Floats:
        if vectors is self._partner and self._products is not None:
            return self._products
        if vectors.ndim == 1:
            return self.correlate(vectors[:, None])[:, 0]
        out = np.zeros((vectors.shape[1], self.n_columns))
        if self._direct:
            work = float(vectors.shape[1] * self.n_columns)
            add_blocks(out, lambda rows: vectors[rows].T @ self._array[rows], self.n_rows, work)
        elif self._array.flags.c_contiguous:
            for rows in row_blocks(self.n_rows):
                block, U = self._array[rows], vectors[rows]
                how = self._middle, self._scale, self.bound
                out += project(block, *how, self._plain, U, parallel=True)
        else:
            for columns in self._blocks(self.n_columns, self.n_rows):
                for rows in row_blocks(self.n_rows):
                    out[:, columns] += vectors[rows].T @ self._mapped(rows, columns)
        return out.T

    def square_norms(self) -> Floats:
        return self._squares

    def full_gram(self, between: Callable[[], None] | None = None) -> Floats:
        p = self.n_columns
        out = np.zeros((p, p))
        long = self.n_rows * p * p > _LONG

        def part(rows: slice) -> Floats:
            if between is not None and long:
                between()
            block = self._mapped(rows, slice(None))
            return np.asarray(block.T @ block)

        add_blocks(out, part, self.n_rows, float(p * p))
        return out
