"""Permute-and-flip over all supports, as a race of uniform clocks (T8, T15)."""

from __future__ import annotations

from functools import cache

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.docstrings import documented
from dpsubset.mechanisms.base import Mechanism, Sampler
from dpsubset.problem import Problem
from dpsubset.sampling import sizes
from dpsubset.sampling.pieces import Support

__all__ = ["PermuteAndFlip"]


@documented
class PermuteAndFlip(Mechanism):
    """Pure epsilon-DP without any condition; never less likely than EM to give the best (T8, T9).

    The default of selections. Supports are looked at in random order, and each is taken with a
    chance that falls with its score; it is drawn from exactly, whatever the number of supports.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Problem
    >>> X = np.vstack([np.eye(3)] * 40); y = X[:, 0]
    >>> problem = Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> PermuteAndFlip(epsilon=5.0).draw(problem, 2, random_state=0).tolist()
    [[0], [0]]
    """

    name = "permute-and-flip mechanism"
    any_size = True

    def _sampler(self, problem: Problem) -> Sampler:
        return sizes.race(problem, self.kappa(problem), self.limits)

    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        logs = self._log_weights(problem, supports, scores)
        return race_law(logs.max() - logs)


@cache
def _legendre() -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(40)


def race_law(heights: Floats) -> Floats:
    """Return log P(S rings first) for clocks uniform on (0, exp(height)), the least height 0 (T8).

    P(S) is the integral over x in (0, 1) of a_S times the product of 1 - a_T x over the others.
    The integrand falls at least as fast as exp(-x (sum a - 1)), so panels doubling from that
    scale, with 40 Gauss-Legendre nodes each, give it to rounding.
    """
    a = np.exp(-heights)
    start = min(1.0, 0.5 / float(a.sum()))
    ends = [0.0, start]
    while ends[-1] < min(1.0, 160 * start):
        ends.append(min(1.0, 2 * ends[-1]))
    # A last panel of hardly any width would have nodes that round to 1.
    ends = [*(end for end in ends if end < 1.0 - 1e-6), 1.0]
    nodes, shares = _legendre()
    width = np.diff(ends)[:, None]
    x = (np.array(ends[:-1])[:, None] + width * (nodes + 1) / 2).ravel()
    log_share = np.log((width * shares / 2).ravel())
    survival = np.zeros(x.size)
    for part in np.array_split(a, max(1, a.size // 4096)):
        survival += np.log1p(-np.outer(x, part)).sum(axis=1)
    out = np.empty(a.size)
    for part in np.array_split(np.arange(a.size), max(1, a.size // 4096)):
        terms = survival[:, None] - np.log1p(-np.outer(x, a[part])) + log_share[:, None]
        top = terms.max(axis=0)
        out[part] = top + np.log(np.exp(terms - top).sum(axis=0)) - heights[part]
    return out
