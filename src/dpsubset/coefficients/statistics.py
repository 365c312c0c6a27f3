"""Noisy sufficient statistics: least squares from private X'X and X'y (T28)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.coefficients.base import CoefficientMechanism, Coefficients
from dpsubset.docstrings import documented, documented_like
from dpsubset.errors import InputError
from dpsubset.losses.squared import fit_moments
from dpsubset.privacy import Guarantee, Randomness
from dpsubset.privacy.noise import add_laplace, opendp
from dpsubset.problem import Problem, check_problem

__all__ = ["NoisyStatistics", "blocks_sensitivity", "noisy_statistics", "statistics_sensitivity"]

_GRID = 2.0**15


def statistics_sensitivity(size: int, neighbours: str) -> float:
    """Return how far one row moves X'X (its upper half) and X'y in the l1 norm (T28).

    All entries lie in [-1, 1]. The worst row that is added has entries of absolute value 1; the
    worst replacement is less than one entry worse.

    >>> statistics_sensitivity(1, "add-remove"), statistics_sensitivity(1, "replace-one")
    (2.0, 2.25)
    """
    if neighbours == "add-remove":
        return size * (size + 3) / 2
    return size * (size + 2) ** 2 / (2 * (size + 1))


def blocks_sensitivity(widths: Sequence[int], neighbours: str) -> float:
    """Return the same for features of several columns, whose rows have norm at most 1 (T28).

    >>> blocks_sensitivity([1], "add-remove"), round(blocks_sensitivity([9], "add-remove"), 2)
    (2.0, 8.0)
    """
    size, blocks = sum(widths), np.array(widths, dtype=np.float64)
    # Entries are rounded to a grid, so a norm may be above 1 by so much.
    norm = 1.0 + np.where(blocks > 1, np.sqrt(blocks) / _GRID, 0.0)
    l1 = float((norm * np.sqrt(blocks)).sum())
    added = (l1**2 + float((norm**2).sum())) / 2 + l1
    if neighbours == "add-remove":
        return min(added, statistics_sensitivity(size, neighbours))
    both = float((norm * np.where(blocks > 1, np.sqrt(2 * blocks), 1.0)).sum())
    squares = float((norm**2 * np.where(blocks > 1, 2.0, 1.0)).sum())
    replaced = (both + 1) ** 2 / 2 + squares / 2
    return min(replaced, 2 * added, statistics_sensitivity(size, neighbours))


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class NoisyStatistics(CoefficientMechanism):
    """Add Laplace noise to X'X and X'y on the support, then solve; squared loss only (T28).

    The noise comes from OpenDP's samplers (extra `opendp`); with a random state it does not, and
    the guarantee says that it is for experiments.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Problem
    >>> X = np.vstack([np.eye(3)] * 2000); y = 0.5 * X[:, 0]
    >>> problem = Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> fit = NoisyStatistics(epsilon=1.0).release(problem, [0], random_state=0)
    >>> round(fit.values[0], 1)
    0.5
    """

    name = "noisy sufficient statistics"

    delta: float = field(default=0.0, init=False)  # pure only

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the guarantee; a loss other than squared has other statistics."""
        check_problem(problem)
        if not problem.quadratic:
            raise InputError(
                "X'X and X'y are the statistics of squared loss; for the "
                f"{problem.loss.name} loss take objective perturbation"
            )
        return super().guarantee(problem)

    def prepare(self, problem: Problem, *, seeded: bool) -> None:
        """Raise what `release` would raise for any table."""
        super().prepare(problem, seeded=seeded)
        if not seeded:
            opendp()

    def sensitivity(self, problem: Problem) -> float:
        """Return how far one row moves the statistics in the l1 norm, on the scale [-1, 1]."""
        check_problem(problem)
        if problem.features.identity:
            return statistics_sensitivity(problem.size, self.neighbours)
        return blocks_sensitivity(problem.widest, self.neighbours)

    def _fit(self, problem: Problem, support: tuple[int, ...], randomness: Randomness) -> Floats:
        columns = problem.features.columns(support)
        k = columns.size
        X = _gridded(problem.design.take(columns) / problem.x_bound)
        upper = np.triu_indices(k)
        exact = np.concatenate([(X.T @ X)[upper], X.T @ _gridded(problem.y / problem.y_bound)])
        noisy = add_laplace(exact, self.sensitivity(problem), self.epsilon, randomness)
        # From here on nothing but the noisy numbers is used.
        G = np.zeros((k, k))
        G[upper] = noisy[: upper[0].size]
        G = np.triu(G) + np.triu(G, 1).T
        ridge = problem.ridge / problem.x_bound**2 + self._noise_level(problem)
        beta, _, _ = fit_moments(
            _no_less_than_zero(G),
            noisy[upper[0].size :] * problem.y_bound / problem.x_bound,
            0.0,
            ridge,
            problem.radius,
        )
        return beta

    def _noise_level(self, problem: Problem) -> float:
        """Return about the largest eigenvalue of the noise on X'X: what lies below is noise."""
        deviation = math.sqrt(2.0) * self.sensitivity(problem) / self.epsilon
        return deviation * math.sqrt(problem.most_columns)


def _gridded(values: Floats) -> Floats:
    """Return entries on a grid so coarse that sums of their products have no rounding (T28).

    The sums of neighbouring tables then differ by the sensitivity and no more: up to 2^23 rows.
    """
    return np.round(values * _GRID) / _GRID


def _no_less_than_zero(G: Floats) -> Floats:
    """Return the nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(G)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


@documented_like(CoefficientMechanism, CoefficientMechanism.release)
def noisy_statistics(
    problem: Problem, support: Iterable[int], epsilon: float, **options: Any
) -> Coefficients:
    """Release least-squares coefficients by noisy statistics; options as for the class.

    Parameters
    ----------
    **options : dict
        Further parameters of `NoisyStatistics`.

    Returns
    -------
    Coefficients
        The coefficients, and what they guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Problem
    >>> X = np.vstack([np.eye(3)] * 2000); y = 0.5 * X[:, 0]
    >>> problem = Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> noisy_statistics(problem, [0], 5.0, random_state=0).support
    (0,)
    """
    random_state = options.pop("random_state", None)
    return NoisyStatistics(epsilon, **options).release(problem, support, random_state)
