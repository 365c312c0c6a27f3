"""The exponential mechanism over all supports, drawn from exactly (T4, T14)."""

from __future__ import annotations

from scipy.special import logsumexp

from dpsubset.arrays import Floats
from dpsubset.docstrings import documented
from dpsubset.mechanisms.base import Mechanism, Sampler
from dpsubset.privacy import Guarantee
from dpsubset.privacy.guarantee import with_bounded_range
from dpsubset.problem import Problem
from dpsubset.sampling import sizes
from dpsubset.sampling.pieces import Support

__all__ = ["Exponential"]


@documented
class Exponential(Mechanism):
    """P(S) proportional to exp(-kappa R(S)): pure epsilon-DP without any condition (T4).

    It is drawn from exactly, whatever the number of supports. Log ratios of its chances have a
    range of epsilon, so that many releases add up to less than the sum of their epsilons (T30).

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Problem
    >>> X = np.vstack([np.eye(3)] * 40); y = X[:, 0]
    >>> problem = Problem(X, y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> Exponential(epsilon=5.0).draw(problem, 2, random_state=0).tolist()
    [[0], [0]]
    """

    name = "exponential mechanism"
    any_size = True

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the guarantee; log ratios have a range of epsilon, hence the zCDP bound (T30)."""
        return with_bounded_range(super().guarantee(problem))

    def _sampler(self, problem: Problem) -> Sampler:
        return sizes.proportional(problem, self.kappa(problem), self.limits)

    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        logs = self._log_weights(problem, supports, scores)
        return logs - logsumexp(logs)
