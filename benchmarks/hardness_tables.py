"""Synthetic tables of many kinds, for the map of hardness: columns, public bounds and a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.planning.generate import paper_classes, paper_table

__all__ = ["KINDS", "BoundedTable", "synthetic"]

Pair = tuple[float, float]
NORMAL: Pair = (-4.0, 4.0)
CHANCES = np.array([0.4, 0.25, 0.15, 0.1, 0.1])  # of the levels of a coded category
SHARE = 0.3  # of the target's variance that the true columns explain


@dataclass(frozen=True, eq=False)
class BoundedTable:
    """A table with what is public about it; `target` is None for labels, which are -1 and 1."""

    X: Floats
    y: Floats
    lower: Floats
    upper: Floats
    target: Pair | None


def synthetic(kind: str, n: int, p: int, size: int, labels: bool, seed: int) -> BoundedTable:
    """Draw a table of a kind; its target depends on `size` columns, but not where all is noise.

    >>> synthetic("rare ones", 50, 20, 3, False, 0).X.shape
    (50, 20)
    """
    rng = np.random.default_rng([seed, n, p, size])
    if kind == "paper":
        drawn = (paper_classes if labels else paper_table)(n, p, size=size, seed=seed)
        return _bounded(np.asarray(drawn.X, dtype=np.float64), drawn.y, NORMAL, labels)
    bounds, draw = KINDS[kind]
    X = draw(rng, n, p)
    noise = rng.standard_normal(n)
    latent = noise if kind == "noise" else _with_signal(X, noise, size)
    return _bounded(X, np.where(latent > 0, 1.0, -1.0) if labels else latent, bounds, labels)


def _bounded(X: Floats, y: Floats, bounds: Pair, labels: bool) -> BoundedTable:
    lower, upper = (np.full(X.shape[1], side) for side in bounds)
    return BoundedTable(X, y, lower, upper, None if labels else NORMAL)


def _with_signal(X: Floats, noise: Floats, size: int) -> Floats:
    """Return a target of variance 1 that some columns, spread over the table, explain in part."""
    true = np.linspace(0, X.shape[1] - 1, size).astype(int)
    columns = X[:, true] - X[:, true].mean(axis=0)
    signs = np.where(np.arange(size) % 3 == 2, -1.0, 1.0)
    signal = (columns / np.maximum(columns.std(axis=0), 1e-3)) @ signs
    signal /= max(float(signal.std()), 1e-9)
    return np.asarray(np.sqrt(SHARE) * signal + np.sqrt(1 - SHARE) * noise)


def _normal(rng: np.random.Generator, n: int, p: int) -> Floats:
    return rng.standard_normal((n, p))


def _uniform(rng: np.random.Generator, n: int, p: int) -> Floats:
    return rng.uniform(-1.0, 1.0, (n, p))


def _skewed(rng: np.random.Generator, n: int, p: int) -> Floats:
    return rng.exponential(size=(n, p))


def _common_factor(correlation: float) -> Callable[[np.random.Generator, int, int], Floats]:
    def draw(rng: np.random.Generator, n: int, p: int) -> Floats:
        X = rng.standard_normal((n, p))
        X *= np.sqrt(1 - correlation)
        X += np.sqrt(correlation) * rng.standard_normal((n, 1))
        return X

    return draw


def _autoregressive(rng: np.random.Generator, n: int, p: int) -> Floats:
    X = rng.standard_normal((n, p))
    for j in range(1, p):
        X[:, j] = 0.95 * X[:, j - 1] + np.sqrt(1 - 0.95**2) * X[:, j]
    return X


def _duplicated(rng: np.random.Generator, n: int, p: int) -> Floats:
    half = rng.standard_normal((n, (p + 1) // 2))
    return np.concatenate([half, half[:, : p // 2]], axis=1)


def _nearly_duplicated(rng: np.random.Generator, n: int, p: int) -> Floats:
    X = _duplicated(rng, n, p)
    X[:, (p + 1) // 2 :] += 0.1 * rng.standard_normal((n, p // 2))
    return X


def _rank_deficient(rng: np.random.Generator, n: int, p: int) -> Floats:
    """Columns that mix fewer hidden ones than there are rows, with fewer rows than columns."""
    hidden = max(2, min(n, p) // 4)
    mixed = rng.standard_normal((n, hidden)) @ rng.standard_normal((hidden, p))
    return np.asarray(mixed / np.sqrt(hidden))


def _rare_ones(rng: np.random.Generator, n: int, p: int) -> Floats:
    chances = np.exp(rng.uniform(np.log(0.005), np.log(0.1), p))
    return (rng.random((n, p)) < chances).astype(np.float64)


def _categories(rng: np.random.Generator, n: int, p: int) -> Floats:
    """Blocks of five columns, of which one is 1 in every row: a category with all its levels."""
    X = np.zeros((n, p))
    for start in range(0, p, CHANCES.size):
        chosen = start + rng.choice(CHANCES.size, n, p=CHANCES)
        inside = chosen < p
        X[np.flatnonzero(inside), chosen[inside]] = 1.0
    return X


Draw = Callable[[np.random.Generator, int, int], Floats]
KINDS: dict[str, tuple[Pair, Draw]] = {
    "paper": (NORMAL, _normal),  # drawn by the paper's own generator, at its SNR of 5
    "noise": (NORMAL, _normal),
    "uniform": ((-1.0, 1.0), _uniform),
    "skewed": ((0.0, 8.0), _skewed),
    "common factor .5": (NORMAL, _common_factor(0.5)),
    "common factor .9": (NORMAL, _common_factor(0.9)),
    "autoregressive .95": (NORMAL, _autoregressive),
    "duplicated": (NORMAL, _duplicated),
    "nearly duplicated": (NORMAL, _nearly_duplicated),
    "rank-deficient": (NORMAL, _rank_deficient),
    "rare ones": ((0.0, 1.0), _rare_ones),
    "categories": ((0.0, 1.0), _categories),
}
