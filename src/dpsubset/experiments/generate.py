"""The paper's generator of tables (Section 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["GeneratedTable", "paper_table"]


@dataclass(frozen=True, eq=False)
class GeneratedTable:
    """A table whose true support is known."""

    X: NDArray[np.floating]
    y: NDArray[np.float64]
    support: tuple[int, ...]


def paper_table(
    n: int,
    p: int,
    *,
    size: int = 5,
    snr: float = 5.0,
    rho: float = 0.1,
    seed: int = 0,
    dtype: type[np.float64] | type[np.float32] = np.float64,
) -> GeneratedTable:
    """Draw rows with correlation rho^|i-j|; the true columns are 0, 2, 4, ..., each 1/sqrt(size).

    The noise is scaled so that |X beta|^2 / |noise|^2 equals `snr`, as the paper defines it.

    >>> paper_table(50, 20, seed=1).support
    (0, 2, 4, 6, 8)
    """
    rng = np.random.default_rng(seed)
    X: NDArray[np.floating] = rng.standard_normal((n, p), dtype=dtype)
    fresh = np.sqrt(1.0 - rho**2)
    for j in range(1, p if rho else 0):
        X[:, j] = rho * X[:, j - 1] + fresh * X[:, j]
    support = tuple(range(0, 2 * size, 2))
    signal = X[:, list(support)].astype(np.float64).sum(axis=1) / np.sqrt(size)
    noise = rng.standard_normal(n)
    noise *= np.linalg.norm(signal) / (np.sqrt(snr) * np.linalg.norm(noise))
    return GeneratedTable(X, signal + noise, support)
