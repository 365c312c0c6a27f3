"""A region of features of several columns, made ready for the compiled search (T32)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from dpsubset.arrays import Floats
from dpsubset.cuts.curvature import smallest_eigenvalue
from dpsubset.cuts.moments import MomentCut
from dpsubset.limits import Allowance
from dpsubset.problem import Problem
from dpsubset.search.block_kernel import BlockMoments, explore_blocks
from dpsubset.search.kernel import Rule

if TYPE_CHECKING:
    from dpsubset.search.tree import Shortlist

__all__ = ["search_blocks"]

_SMALL = 300  # columns up to which blocks are made orthonormal, and eigenvalues looked at


def search_blocks(
    problem: Problem,
    cut: MomentCut,
    curvature: float,
    shortlist: Shortlist,
    allowance: Allowance,
    most: int,
) -> bool:
    """Run the compiled search on a region; False when its nodes ran out.

    The scale of a block does not change what it gains, so its columns are made orthonormal, if the
    region is small: eigenvalues then tell how features, not columns, go together.
    """
    region, reduced, features = cut.region, cut.reduced, problem.features
    strength = features.sum(reduced.correlations**2)[region.free]
    free = region.free[np.argsort(-strength, kind="stable")]
    among = features.columns(free)
    names = np.concatenate([reduced.inside, among])
    G = np.ascontiguousarray(problem.gram.block(names))
    k = reduced.inside.size
    H = G[k:, k:] - reduced.rows[:, among].T @ reduced.eliminated[:, among]
    H[np.diag_indices(among.size)] += reduced.penalty
    b = reduced.correlations[among]
    starts = np.concatenate([[0], np.cumsum(features.widths[free])]).astype(np.int64)
    smallest = reduced.penalty + curvature
    if among.size <= _SMALL:
        scale = float(problem.gram.diagonal.max()) + reduced.penalty
        H, b, smallest = _orthonormal(H, b, starts, smallest, scale)
    inside = np.array(region.inside, dtype=np.int64)
    order = np.zeros(features.n_columns, dtype=np.int64)
    order[features.places(np.concatenate([inside, free]))] = np.arange(names.size)
    moments = BlockMoments(
        G,
        problem.correlations[names],
        problem.energy,
        problem.ridge,
        problem.radius,
        order,
        features.starts.astype(np.int64),
        shortlist.column_keys,
    )
    support = np.empty(region.size, dtype=np.int64)
    support[: inside.size] = inside
    nodes = allowance.at_once(most)
    filled, left = explore_blocks(
        np.ascontiguousarray(H),
        np.ascontiguousarray(b),
        starts,
        free.astype(np.int64),
        reduced.base,
        region.to_choose,
        Rule(smallest, problem.slack - cut.error, problem.slack),
        moments,
        support,
        shortlist.heap,
        shortlist.filled,
        nodes,
        allowance.watch,
    )
    shortlist.filled = int(filled)
    allowance.spend(nodes - max(int(left), 0))
    allowance.check_watch()
    return bool(left >= 0)


def _orthonormal(
    H: Floats, b: Floats, starts: NDArray[np.int64], known: float, scale: float
) -> tuple[Floats, Floats, float]:
    """Change the basis of every block so that it is the identity; bound the eigenvalues then."""
    C, c, least = H.copy(), b.copy(), np.inf
    for low, high in pairwise(starts.tolist()):
        factor, failed = lapack.dpotrf(H[low:high, low:high], lower=1)
        if failed:
            return H, b, known
        least = min(least, float(np.diag(factor).min()) ** 2)
        C[low:high] = lapack.dtrtrs(factor, C[low:high], lower=1)[0]
        C[:, low:high] = lapack.dtrtrs(factor, C[:, low:high].T, lower=1)[0].T
        c[low:high] = lapack.dtrtrs(factor, c[low:high], lower=1)[0]
    C = (C + C.T) / 2
    found = smallest_eigenvalue(C, scale / max(min(least, known), 1e-300))
    return (C, c, found) if found > 0.0 else (H, b, known)
