"""Private sure independence screening: features by their own product with the target (T43)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.docstrings import documented
from dpsubset.mechanisms.peeling import Peeling, Scorer
from dpsubset.problem import Problem

__all__ = ["Screening"]

_GRID = 2.0**15  # entries on it have products whose sums have no rounding (as in T28)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class Screening(Peeling):
    """Choose the features whose products with the target are largest, one after another.

    Fan and Lv's sure independence screening ranks features by |X'y|; its private form adds noise.
    The original standardises columns by their means and deviations, which are not private: here
    columns are on the scale of their public bounds. A category counts by the norm of its coded
    columns' products. Features are looked at one by one, so that repeated ones are chosen together.

    Parameters
    ----------
    epsilon : float
        The budget of one release; every round gets the same part of it.

    Examples
    --------
    >>> from dpsubset import Problem
    >>> X = np.random.default_rng(0).uniform(-1, 1, (400, 4)); y = X[:, 2]
    >>> problem = Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> Screening(epsilon=5.0).draw(problem, 2, random_state=0).tolist()
    [[2], [2]]
    """

    name = "sure independence screening mechanism"

    def moved(self, problem: Problem, round_number: int) -> float:
        """Return how far a row moves a product, on the scale [-1, 1]: 1, or 2 if replaced."""
        widest = float(problem.features.widths.max())
        norm = 1.0 if problem.features.identity else 1.0 + np.sqrt(widest) / _GRID
        return norm * (2.0 if self.neighbours == "replace-one" else 1.0)

    def _scorer(self, problem: Problem) -> Scorer:
        features = problem.features
        y = np.round(problem.y / problem.y_bound * _GRID) / _GRID
        products = np.array([_product(problem, int(j), y) for j in range(features.n_columns)])
        scores = np.abs(products) if features.identity else np.sqrt(features.sum(products**2))
        return lambda chosen: scores


def _product(problem: Problem, column: int, y: Floats) -> float:
    values = problem.design.take(np.array([column]))[:, 0] / problem.x_bound
    return float((np.round(values * _GRID) / _GRID) @ y)
