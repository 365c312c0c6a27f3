"""All supports of a region, written out."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.cuts.cut import CutMaker
from dpsubset.cuts.region import Region

__all__ = ["list_region"]


@compiled()
def _combinations(p, t, count):  # type: ignore[no-untyped-def]
    """Return all increasing t-tuples below p in lexicographic order."""
    out = np.empty((count, t), np.int64)
    row = np.arange(t)
    for r in range(count):
        out[r] = row
        i = t - 1
        while i >= 0 and row[i] == p - t + i:
            i -= 1
        if i >= 0:
            row[i] += 1
            for k in range(i + 1, t):
                row[k] = row[k - 1] + 1
    return out


def list_region(maker: CutMaker, region: Region) -> tuple[NDArray[np.int64], Floats]:
    """Return every support of a region, in lexicographic order of the free columns, and R(S)."""
    t, k = region.to_choose, len(region.inside)
    count = math.comb(region.free.size, t)
    supports = np.empty((count, k + t), dtype=np.int64)
    supports[:, :k] = region.inside
    supports[:, k:] = region.free[_combinations(region.free.size, t, count)]
    supports.sort(axis=1)
    return supports, maker.scores(supports)
