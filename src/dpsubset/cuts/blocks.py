"""What blocks of columns gain once others are eliminated: the block form of T11d (T32)."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.cuts.reduced import Reduced
from dpsubset.problem import Problem
from dpsubset.sums import products

__all__ = ["block_gains"]

_WIDE = 512  # columns, beyond which a block is not factored


class _Alike(NamedTuple):
    """The features of one width."""

    features: NDArray[np.intp]
    columns: NDArray[np.intp]  # of each, a row
    gram: Floats  # X_g'X_g of each


def block_gains(problem: Problem, reduced: Reduced) -> Floats:
    """Return b_g'H_gg^-1 b_g for every feature, H and b reduced by those inside.

    Of very wide features it is a number above that; of features inside it means nothing.
    """
    out = np.empty(problem.n_columns)
    least = max(reduced.penalty, 1e-300)
    for alike in cast(list[_Alike], problem.once("blocks", lambda: _alike(problem))):
        m, d = alike.columns.shape
        flat = alike.columns.ravel()
        b = reduced.correlations[alike.columns]
        if d == 1:
            out[alike.features] = b[:, 0] ** 2 / reduced.pivots[flat]
            continue
        if d > _WIDE:  # no eigenvalue is below the penalty
            out[alike.features] = (b**2).sum(axis=1) / least
            continue
        H = alike.gram.copy()
        if reduced.inside.size:
            rows = reduced.rows[:, flat].reshape(-1, m, d)
            gone = reduced.eliminated[:, flat].reshape(-1, m, d)
            H -= np.einsum("imd,ime->mde", rows, gone)
        H[:, np.arange(d), np.arange(d)] += reduced.penalty
        values, vectors = np.linalg.eigh((H + H.transpose(0, 2, 1)) / 2)
        # As for pivots: rounding cannot take an eigenvalue below its true minimum.
        along = np.einsum("mde,md->me", vectors, b)
        out[alike.features] = (along**2 / np.maximum(values, least)).sum(axis=1)
    return out


def _alike(problem: Problem) -> list[_Alike]:
    """Collect the features by their widths, with inner products of their columns."""
    features = problem.features
    found = []
    for d in np.unique(features.widths):
        some = np.flatnonzero(features.widths == d)
        columns = features.columns(some).reshape(-1, d)
        gram = np.empty((some.size, d, d) if 1 < d <= _WIDE else (0, d, d))
        for i, block in enumerate(columns[: len(gram)]):
            if problem.gram.held:
                gram[i] = problem.gram.block(block)
            else:
                taken = problem.design.take(block)
                gram[i] = products(taken, taken)
        found.append(_Alike(some, columns, gram))
    return found
