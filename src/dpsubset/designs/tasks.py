"""What a worker does with one chunk of a table; sums are made as on one machine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.designs.dense import project, scan
from dpsubset.sums import row_blocks

__all__ = ["Map", "first_look", "floats", "mapped", "products"]

Map = tuple[Floats, Floats, float]  # middle and scale of a chunk's columns, and the bound


def floats(given: Any) -> NDArray[np.floating]:
    """Return a block as numbers that compiled functions take; small ones are exact so."""
    block: NDArray[Any] = np.asarray(given)
    if block.dtype not in (np.float32, np.float64):
        small = block.dtype.itemsize <= 2
        with np.errstate(over="ignore"):  # extended precision may become infinite
            return block.astype(np.float32 if small else np.float64, order="C")
    return np.ascontiguousarray(block)


def products(block: Any, how: Map, vectors: Floats) -> Floats:
    """Return U'V, V the clipped and mapped block."""
    numbers = floats(block)
    out = np.zeros((vectors.shape[1], numbers.shape[1]))
    for rows in row_blocks(len(numbers)):
        out += project(numbers[rows], *how, False, vectors[rows])
    return out


def first_look(block: Any, how: Map, vectors: Floats) -> tuple[Floats, Floats, bool]:
    """Return products, sums of squares, and whether an entry is not finite."""
    numbers = floats(block)
    squares, broken = np.zeros(numbers.shape[1]), False
    for rows in row_blocks(len(numbers)):
        more = np.zeros(numbers.shape[1])
        broken |= bool(scan(numbers[rows], *how, more)[1])
        squares += more
    return products(numbers, how, vectors), squares, broken


def mapped(block: Any, how: Map, index: NDArray[np.intp]) -> Floats:
    """Return some columns, clipped and mapped."""
    middle, scale, bound = how
    out = np.asarray(block)[:, index].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # huge entries are clipped next
        out -= middle[index]
        out *= scale[index]
    return np.clip(out, -bound, bound, out=out)
