"""A private offset of all predictions, so that coefficients need not make up for it (T39)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.special import expit, logsumexp

from dpsubset.arrays import Floats
from dpsubset.checks import positive
from dpsubset.errors import InputError
from dpsubset.labels import Labels
from dpsubset.losses import Huber, Loss, Offset, Quantile, Weighted
from dpsubset.losses.offset import OFFSETTABLE, starting_from
from dpsubset.mechanisms.target_bounds import rank_misses
from dpsubset.privacy import Guarantee, Randomness, check_neighbours, exponent
from dpsubset.privacy.guarantee import with_bounded_range
from dpsubset.problem import Problem, check_classes_named
from dpsubset.sampling.deciding import draw_index

__all__ = ["PrivateOffset", "has_offset", "moved", "widest", "with_target"]


class Promising(Protocol):
    """What guarantees something on a problem: a mechanism, or a method for coefficients."""

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the guarantee."""


_LOG_ODDS = np.arange(-40, 41) / 10.0
_NUMBERS = np.arange(-100, 101) / 100.0  # in units of the target's bound
_PRIOR = (1.0, 0.4)  # how far log odds, and numbers in units of their bound, may be expected from 0
_ROUNDING = 4e-15  # of a count less a share of all rows, or a sum, in units of n (T19.4)


@dataclass(frozen=True)
class PrivateOffset:
    """What predictions start from: a number of a public grid, by the exponential mechanism (T39).

    For a target of numbers it is a median, or the loss's own quantile or centre; for labels the log
    odds of the second class. Where there is too little budget it falls back to about 0.

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
        offsets = grid(problem)
        logs = -kappa * _misses(problem) - 0.5 * (offsets / _expected(problem)) ** 2
        return offsets, np.asarray(logs - logsumexp(logs))

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


def _expected(problem: Problem) -> float:
    """Return how far from 0 an offset is expected to be, before the table is seen (T39)."""
    labels, numbers = _PRIOR
    return labels if problem.loss.classification else numbers * problem.y_bound


def _weights(loss: Loss) -> tuple[float, float]:
    return loss.weights if isinstance(loss, Weighted) else (1.0, 1.0)


def _share(problem: Problem) -> float:
    """Return which quantile of a target of numbers is wanted."""
    return problem.loss.tau if isinstance(problem.loss, Quantile) else 0.5


def _misses(problem: Problem) -> Floats:
    """Return for every offset how many rows it is off; rows without a target do not count."""
    y = problem.y if problem.present is None else problem.y[problem.present]
    offsets, n = grid(problem), y.size
    if problem.loss.classification:
        first, second = weights = _weights(problem.loss)
        ones = np.sum(y > 0)
        pull = second * ones * expit(-offsets) - first * (n - ones) * expit(offsets)
        return np.asarray(np.abs(pull) / max(weights))
    if isinstance(problem.loss, Huber):
        pulls = [np.clip((y - o) / problem.loss.c, -1.0, 1.0).sum() for o in offsets]
        return np.asarray(np.abs(pulls) / 2.0)
    halfway = problem.y_bound * (_NUMBERS[1:] + _NUMBERS[:-1]) / 2.0
    return rank_misses(np.sort(y), halfway, _share(problem))


def _check(problem: Problem) -> None:
    inner = problem.loss.loss if isinstance(problem.loss, Weighted) else problem.loss
    if isinstance(inner, Offset):
        raise InputError("the loss has an offset already; leave one of the two out")
    if problem.loss.classification:
        Offset(inner, 0.0)  # says for which losses there is one
        check_classes_named(problem, "an offset")


def has_offset(loss: Loss) -> bool:
    """Say whether predictions of a loss may start from an offset."""
    inner = loss.loss if isinstance(loss, Weighted) else loss
    return not loss.classification or type(inner) in OFFSETTABLE


def _with_offset(loss: Loss, offset: float) -> Loss:
    return loss.with_offset(offset) if isinstance(loss, Weighted) else starting_from(loss, offset)


def moved(problem: Problem, offset: float) -> Problem:
    """Return the problem whose predictions start from a public offset.

    A target of numbers is moved the other way and clipped to the same bound, so that one row counts
    no more than before; labels get a loss with an offset.
    """
    if problem.loss.classification:
        named = Labels(problem.y, problem.classes_named)
        return with_target(problem, named, _with_offset(problem.loss, offset))
    return with_target(problem, problem.y - offset, problem.loss)


def with_target(problem: Problem, target: Floats | Labels, loss: Loss) -> Problem:
    """Return the problem with another target, and a loss for it."""
    return Problem(
        problem.design,
        target,
        size=problem.size,
        loss=loss,
        x_bound=problem.x_bound,
        y_bound=None if loss.classification else problem.y_bound,
        radius=problem.radius,
        ridge=problem.fixed_ridge,
        row_ridge=problem.row_ridge,
        include=problem.include,
        exclude=problem.exclude,
        groups=problem.groups,
        false_columns=problem.false_columns,
        origin=problem.origin,
        present=problem.present,
    )


def widest(mechanism: Promising, problem: Problem) -> Guarantee:
    """Return what a mechanism guarantees on a problem, whatever its offset turns out to be."""
    offsets = grid(problem) if problem.loss.classification else [0.0]
    found = [mechanism.guarantee(moved(problem, float(o))) for o in offsets]
    most = max(found, key=lambda promise: promise.epsilon)
    return replace(most, precision=max(promise.precision for promise in found), sensitivity=None)
