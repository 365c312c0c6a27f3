"""DPKendall: features by rank correlation with the target, and little with each other (T43)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.docstrings import documented
from dpsubset.mechanisms.peeling import Peeling, Scorer
from dpsubset.problem import Problem

__all__ = ["Kendall", "agreement"]

# How far a row moves n/2 times a rank correlation: replaced, and added or removed (T43).
_MOVED = {"replace-one": 2.0, "add-remove": 1.5}


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class Kendall(Peeling):
    """Choose features by Kendall's rank correlation (Dick, Gillenwater and Joseph, NeurIPS 2023).

    In every round the score of a feature is its absolute rank correlation with the target, less
    the mean of those with the features chosen before, times n/2. Pure epsilon-DP, no condition,
    and no bounds enter: only the order of values counts. A category scores as the best of its
    coded columns. Columns that are always included are not counted in the mean.

    Ties count as neither concordant nor discordant. (The authors' script divides by the number of
    pairs without ties, tau-b; its sensitivity then is not 3/2: docs/audits-of-others.md.)

    Parameters
    ----------
    epsilon : float
        The budget of one release; every round gets the same part of it.

    Examples
    --------
    >>> from dpsubset import Problem
    >>> X = np.random.default_rng(0).uniform(-1, 1, (400, 4)); y = X[:, 2] ** 3
    >>> problem = Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> Kendall(epsilon=5.0).draw(problem, 2, random_state=0).tolist()
    [[2], [2]]
    """

    name = "Kendall rank correlation mechanism"

    def moved(self, problem: Problem, round_number: int) -> float:
        """Return 3/2 in the first round and 3 after; 2 and 4 where a row is replaced."""
        return _MOVED[self.neighbours] * (1.0 if round_number == 0 else 2.0)

    def _scorer(self, problem: Problem) -> Scorer:
        features = problem.features
        ranks = [_ranked(problem.design.take(np.array([j]))[:, 0]) for j in features.order]
        with_target = _best(_ranked(problem.y), ranks, features.starts)
        pairs: dict[int, Floats] = {}

        def among(chosen: int) -> Floats:
            if chosen not in pairs:
                own = ranks[features.starts[chosen] : features.starts[chosen + 1]]
                each = [_best(one, ranks, features.starts) for one in own]
                pairs[chosen] = np.max(each, axis=0)
            return pairs[chosen]

        def score(chosen: tuple[int, ...]) -> Floats:
            if not chosen:
                return with_target
            mean = np.sum([among(j) for j in chosen], axis=0) / len(chosen)
            return np.asarray(with_target - mean)

        return score


def _ranked(values: Floats) -> NDArray[np.int64]:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _best(one: NDArray[np.int64], ranks: list[NDArray[np.int64]], starts: Any) -> Floats:
    """Return n/2 times the largest rank correlation of the columns of every feature."""
    n = one.size
    if n < 2:
        return np.zeros(len(starts) - 1)
    order = np.argsort(one, kind="stable")
    agreements = np.array([abs(agreement(one[order], other[order])) for other in ranks])
    return np.asarray(np.maximum.reduceat(agreements, starts[:-1]) / (n - 1))


@compiled()
def agreement(x: NDArray[np.int64], y: NDArray[np.int64]) -> int:
    """Return concordant less discordant pairs; x is sorted, both are ranks from 0 on.

    A Fenwick tree counts the ranks of y seen so far; rows with the same x enter it together.

    >>> agreement(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 1]))
    2
    """
    size = int(y.max()) + 2
    tree = np.zeros(size + 1, np.int64)
    total, begin = 0, 0
    for end in range(1, x.size + 1):
        if end < x.size and x[end] == x[begin]:
            continue
        for i in range(begin, end):
            below = 0
            k = y[i]
            while k > 0:
                below += tree[k]
                k -= k & -k
            up_to = 0
            k = y[i] + 1
            while k > 0:
                up_to += tree[k]
                k -= k & -k
            total += below - (begin - up_to)
        for i in range(begin, end):
            k = y[i] + 1
            while k <= size:
                tree[k] += 1
                k += k & -k
        begin = end
    return total
