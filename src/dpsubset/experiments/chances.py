"""The exact chance that a mechanism gives a certain support, where its law is known.

Such a chance depends on the data and on the truth: for experiments only.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from dpsubset import search
from dpsubset.mechanisms import Exponential, Mechanism, Mistakes, PermuteAndFlip, TopR
from dpsubset.problem import Problem

__all__ = ["chance_of"]

_LISTED = 200_000


def chance_of(mechanism: Mechanism, problem: Problem, support: tuple[int, ...]) -> float | None:
    """Return the probability of a support, or None where the law is not known.

    Known are the paper's two mechanisms (without a limit on trials), from proven searches; and the
    exponential mechanism and permute-and-flip where the supports can be listed.

    >>> import numpy as np
    >>> X = np.vstack([np.eye(3)] * 40); y = X[:, 0]
    >>> problem = Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> supports, logs = TopR(1.0, count=2).probabilities(problem)
    >>> exact = np.exp(logs[(supports == 0).ravel()][0])
    >>> bool(np.isclose(chance_of(TopR(1.0, count=2), problem, (0,)), exact))
    True
    """
    support = tuple(problem.as_support(support).tolist())
    wanted = set(support)
    if not set(problem.include) <= wanted or wanted & set(problem.exclude):
        return 0.0
    if isinstance(mechanism, TopR) and math.isinf(mechanism.trials):
        return _top(mechanism, problem, support)
    if isinstance(mechanism, Mistakes):
        return _mistakes(mechanism, problem, support)
    known = isinstance(mechanism, (Exponential, PermuteAndFlip))
    if not known or problem.n_supports > _LISTED:
        return None
    supports, logs = mechanism.probabilities(problem)
    return float(np.exp(logs[(supports == np.array(support)).all(axis=1)][0]))


def _top(mechanism: TopR, problem: Problem, support: tuple[int, ...]) -> float:
    found = search.top(problem, mechanism._resolved_count(problem))
    kappa, worst = mechanism.kappa(problem), found[-1].score
    logs = np.array([-kappa * (f.score - worst) for f in found])
    rest = problem.n_supports - len(found)
    total = logsumexp(np.append(logs, math.log(rest) if rest else -np.inf))
    listed = next((i for i, f in enumerate(found) if f.support == support), None)
    return math.exp((0.0 if listed is None else logs[listed]) - total)


def _mistakes(mechanism: Mistakes, problem: Problem, support: tuple[int, ...]) -> float:
    found = search.best_by_mistakes(problem)
    kappa, t, others = mechanism.kappa(problem), problem.to_choose, problem.free.size
    sizes = [math.comb(t, k) * math.comb(others - t, k) for k in range(len(found))]
    logs = np.array([-kappa * (f.score - found[0].score) for f in found])
    total = logsumexp(logs + np.log(np.array(sizes, dtype=np.float64)))
    wrong = problem.size - len(set(support) & set(found[0].support))
    return math.exp(logs[wrong] - total)
