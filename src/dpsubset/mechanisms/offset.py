"""A private offset of all predictions, so that coefficients need not make up for it (T39)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logsumexp

from dpsubset.arrays import Floats
from dpsubset.checks import positive
from dpsubset.errors import InputError
from dpsubset.labels import Labels
from dpsubset.losses import Offset, Quantile
from dpsubset.mechanisms.base import Mechanism
from dpsubset.privacy import Guarantee, Randomness, check_neighbours, exponent
from dpsubset.privacy.guarantee import with_bounded_range
from dpsubset.problem import Problem, check_classes_named
from dpsubset.sampling.deciding import draw_index

__all__ = ["PrivateOffset", "moved", "widest"]

_LOG_ODDS = np.arange(-40, 41) / 10.0
_NUMBERS = np.arange(-100, 101) / 100.0  # in units of the target's bound
_ROUNDING = 1e-15  # of a count less a share of all rows, in units of n (T19.4)


@dataclass(frozen=True)
class PrivateOffset:
    """What predictions start from: a number of a public grid, by the exponential mechanism (T39).

    For a target of numbers it is a median, or the loss's own quantile; for labels the log odds of
    the second class.

    >>> y = np.repeat([0.5, 0.52, -1.0], 100)
    >>> problem = Problem(np.ones((300, 1)), y, size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> from dpsubset.privacy import as_randomness
    >>> 0.45 < PrivateOffset(5.0, "replace-one").draw(problem, as_randomness(0)) < 0.55
    True
    """

    epsilon: float
    neighbours: str

    def __post_init__(self) -> None:
        positive(self.epsilon, "epsilon of the offset")
        check_neighbours(self.neighbours)

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the guarantee; it depends on public parameters only."""
        _check(problem)
        told = Guarantee(
            "private offset",
            self.epsilon,
            self.neighbours,
            self._sensitivity(problem),
            _ROUNDING / self._sensitivity(problem),
            bounds=problem.public_bounds,
        )
        return with_bounded_range(told)

    def probabilities(self, problem: Problem) -> tuple[Floats, Floats]:
        """Return all offsets and the log of their exact probabilities; no private output."""
        _check(problem)
        # A row moves scores up and down: adding one is no better than replacing one.
        kappa = exponent(self.epsilon, self._sensitivity(problem), "replace-one")
        logs = -kappa * _misses(problem)
        return grid(problem), np.asarray(logs - logsumexp(logs))

    def draw(self, problem: Problem, randomness: Randomness) -> float:
        """Draw the offset, on the scale of the problem's predictions; charge nothing."""
        offsets, logs = self.probabilities(problem)
        return float(offsets[draw_index(logs, randomness)])

    def _sensitivity(self, problem: Problem) -> float:
        """Return how far one row moves a score."""
        if self.neighbours == "replace-one":
            return 1.0
        if problem.loss.classification:
            return float(expit(_LOG_ODDS[-1]))
        return max(_share(problem), 1.0 - _share(problem))


def grid(problem: Problem) -> Floats:
    """Return the offsets to choose from."""
    return _LOG_ODDS if problem.loss.classification else problem.y_bound * _NUMBERS


def _share(problem: Problem) -> float:
    """Return which quantile of a target of numbers is wanted."""
    return problem.loss.tau if isinstance(problem.loss, Quantile) else 0.5


def _misses(problem: Problem) -> Floats:
    """Return for every offset how many rows it is off."""
    offsets, n = grid(problem), problem.n_rows
    if problem.loss.classification:
        return np.asarray(np.abs(np.sum(problem.y > 0) - n * expit(offsets)))
    ordered, share = np.sort(problem.y), _share(problem)
    below = np.searchsorted(ordered, offsets, side="left")
    above = n - np.searchsorted(ordered, offsets, side="right")
    over = np.maximum(below - share * n, above - (1.0 - share) * n)
    return np.asarray(np.maximum(over, 0.0))


def _check(problem: Problem) -> None:
    if isinstance(problem.loss, Offset):
        raise InputError("the loss has an offset already; leave one of the two out")
    if problem.loss.classification:
        Offset(problem.loss, 0.0)  # says for which losses there is one
        check_classes_named(problem, "an offset")


def moved(problem: Problem, offset: float) -> Problem:
    """Return the problem whose predictions start from a public offset.

    A target of numbers is moved the other way and clipped to the same bound, so that one row counts
    no more than before; labels get a loss with an offset.
    """
    labels = problem.loss.classification
    return Problem(
        problem.design,
        Labels(problem.y, problem.classes_named) if labels else problem.y - offset,
        size=problem.size,
        loss=Offset(problem.loss, offset) if labels else problem.loss,
        x_bound=problem.x_bound,
        y_bound=None if labels else problem.y_bound,
        radius=problem.radius,
        ridge=problem.ridge,
        include=problem.include,
        exclude=problem.exclude,
        false_columns=problem.false_columns,
        origin=problem.origin,
    )


def widest(mechanism: Mechanism, problem: Problem) -> Guarantee:
    """Return what a mechanism guarantees on a problem, whatever its offset turns out to be."""
    offsets = [o for o in grid(problem) if o >= 0.0] if problem.loss.classification else [0.0]
    found = [mechanism.guarantee(moved(problem, float(o))) for o in offsets]
    most = max(found, key=lambda promise: promise.epsilon)
    return replace(most, precision=max(promise.precision for promise in found), sensitivity=None)
