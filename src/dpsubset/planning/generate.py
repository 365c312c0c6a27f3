"""The paper's generators of tables (Section 5, and its appendix on hinge loss)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

__all__ = ["GeneratedTable", "paper_classes", "paper_table"]


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


def paper_classes(
    n: int,
    p: int,
    *,
    size: int = 5,
    snr: float = 5.0,
    rho: float = 0.1,
    seed: int = 0,
    dtype: type[np.float64] | type[np.float32] = np.float64,
) -> GeneratedTable:
    """Draw a table as `paper_table` does, and labels: +1 with chance 1 / (1 + exp(-y)), else -1.

    That is what the authors' scripts do; the paper's text has the two chances exchanged. From the
    same uniform numbers the one gives minus the labels of the other. A loss of the product y t
    alone, as hinge and logistic are, with a penalty and a ball that are the same for beta and
    -beta, does not tell them apart: every support keeps its score, by coefficients of the opposite
    sign, so searches and releases give the same supports.

    >>> table = paper_classes(6, 20, seed=1)
    >>> table.y, table.support
    (array([ 1.,  1., -1., -1.,  1., -1.]), (0, 2, 4, 6, 8))
    """
    table = paper_table(n, p, size=size, snr=snr, rho=rho, seed=seed, dtype=dtype)
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])  # not the table's stream
    labels = np.where(rng.random(n) <= expit(table.y), 1.0, -1.0)
    return GeneratedTable(table.X, labels, table.support)
