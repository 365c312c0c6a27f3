"""Random regions, all supports of a region, and how far a cut stays below their scores."""

from __future__ import annotations

import itertools

import numpy as np

from dpsubset import Problem
from dpsubset.cuts import Cut
from dpsubset.cuts.region import Region


def random_region(rng: np.random.Generator, problem: Problem, left: int | None = None) -> Region:
    """Take some columns in and leave some out; `left` columns are to be chosen if possible."""
    t = problem.to_choose
    left = int(rng.integers(0, t + 1)) if left is None else min(left, t)
    order = rng.permutation(problem.free)
    inside = tuple(int(j) for j in (*problem.include, *order[: t - left]))
    others = order[t - left :]
    kept = len(others) if left == 0 else int(rng.integers(left, len(others) + 1))
    free = np.sort(others[:kept] if left else others[:0])
    return Region(inside, free, problem.size)


def partial_region(rng: np.random.Generator, problem: Problem) -> Region | None:
    """Choose some of a few columns and the rest among others; None if there are too few."""
    t = problem.to_choose
    if t < 2 or problem.free.size < t + 1:
        return None
    order = rng.permutation(problem.free)
    many = int(rng.integers(2, t + 1))
    keep = int(rng.integers(max(1, t - (order.size - many)), many)) if many > 1 else 1
    partial = tuple(int(j) for j in order[:many])
    rest = order[many:]
    return Region(problem.include, np.sort(rest), problem.size, partial, keep)


def listed(region: Region) -> tuple[np.ndarray, np.ndarray]:
    """Return all supports of a region and the positions of their free columns."""
    supports, positions, _ = listed_partial(region)
    return supports, positions


def listed_partial(region: Region) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the same and the positions of their partial columns."""
    free = list(itertools.combinations(range(region.free.size), region.to_choose))
    some = list(itertools.combinations(range(len(region.partial)), region.keep))
    pairs = list(itertools.product(free, some))
    positions = np.array([one for one, _ in pairs], dtype=np.int64)
    positions = positions.reshape(len(pairs), region.to_choose)
    kept = np.array([one for _, one in pairs], dtype=np.int64).reshape(len(pairs), region.keep)
    inside = np.tile(np.array(region.inside, dtype=np.int64), (len(pairs), 1))
    partial = np.array(region.partial, dtype=np.int64)
    supports = np.hstack([inside, region.free[positions], partial[kept]])
    return np.sort(supports, axis=1), positions, kept


def margin(
    cut: Cut, positions: np.ndarray, scores: np.ndarray, kept: np.ndarray | None = None
) -> float:
    """Return how far the cut stays below the scores where it comes nearest; negative is wrong."""
    bounds = cut.constant - cut.weights[positions].sum(axis=1)
    if kept is not None:
        bounds = bounds - cut.partial[kept].sum(axis=1)
    assert np.all(np.isfinite(bounds))
    assert cut.least <= bounds.min() + 1e-12 * abs(bounds.min())
    return float((scores - bounds).min())
