"""Quadratic minorants: below any loss that bends lies a squared loss (T40)."""

from __future__ import annotations

import copy
import math

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.designs import Gram
from dpsubset.designs.scaled import ScaledDesign
from dpsubset.losses.fitting import envelope
from dpsubset.problem import Problem

__all__ = ["Evened", "Expansions", "Minorant", "bends", "reach", "row_curvature"]

_NEAR = 1e-2  # of the range of predictions: nearer to its end a difference quotient is rounding
_LOST = 1e-11  # of the largest loss over the squared range, for the rounding of a quotient
_WIDE = 2e9  # entries of a table whose rows are not looked at one by one
_EVEN = 0.3  # of the mean curvature: rows with less make one curvature for all of no use
_AT_ONCE = 1 << 22  # entries of the table that are looked at together


def reach(problem: Problem) -> Floats:
    """Return for every row the largest prediction that a support's coefficients can make.

    That is the radius times the norm of the included entries and the largest of the others; a
    feature's entries count together (T32).
    """
    design, features, t = problem.design, problem.features, problem.to_choose
    largest = problem.radius * problem.x_bound * np.sqrt(problem.size)
    if not features.identity:  # norms of blocks are bounded up to rounding (T32)
        largest *= 1 + 1e-12
    if problem.n_rows * features.n_columns > _WIDE:  # not worth a look at every entry
        return np.full(problem.n_rows, largest)
    include = features.columns(problem.include)
    squares = np.zeros((problem.n_rows, t + 1))
    step = max(1, _AT_ONCE // max(problem.n_rows * int(features.widths.max()), 1))
    for first in range(0, problem.free.size, step):
        some = problem.free[first : first + step]
        block = design.take(features.columns(some)) ** 2
        if not features.identity:
            widths = features.widths[some]
            block = np.add.reduceat(block, np.cumsum(widths) - widths, axis=1)
        held = np.concatenate([squares[:, :t], block], axis=1)
        if t:
            held = np.partition(held, held.shape[1] - t, axis=1)[:, -t:]
            squares[:, :t] = held
    total = squares.sum(axis=1) + (design.take(include) ** 2).sum(axis=1)
    return np.asarray(np.minimum(problem.radius * np.sqrt(total) * (1 + 1e-12), largest))


def row_curvature(problem: Problem, t0: Floats, limit: Floats) -> tuple[Floats, Floats, Floats]:
    """Return value and slope at t0 and gamma, with l(t) >= value + slope d + gamma d^2, d = t - t0.

    It holds for every |t| <= limit, row by row: the least quotient lies at an end of the range,
    or at t0 itself, where it is half the second derivative (T40).
    """
    loss, y = problem.loss, problem.y
    rows, parameters, _ = loss.compiled()
    value, slope, curve = envelope(rows, parameters, y, t0, np.inf)
    gamma = np.where(np.abs(t0) <= limit, curve / 2, np.inf)
    for end in (limit, -limit):
        d = end - t0
        near = np.abs(d) <= _NEAR * limit
        far = np.where(near, 1.0, d)
        quotient = (loss.value(y, end) - value - slope * far) / far**2
        _, _, there = envelope(rows, parameters, y, end, np.inf)
        gamma = np.minimum(gamma, np.where(near, np.minimum(curve, there) / 2, quotient))
    lost = _LOST * loss.largest(problem.y_bound, float(limit.max(initial=0.0)))
    gamma -= lost / np.maximum(limit, 1e-100) ** 2
    return value, slope, np.where(gamma > 0.0, gamma, 0.0)


def bends(problem: Problem) -> bool:
    """Whether the loss has a curvature that a minorant can use."""
    return problem.quadratic or problem.loss.bends


class Expansions:
    """Problems of squared loss below a problem that bends, expanded at its supports.

    Squared loss itself needs one only.
    """

    def __init__(self, problem: Problem, gap: float) -> None:
        self._problem, self._gap = problem, gap
        self.more = not problem.quadratic
        self._limit = reach(problem) if self.more else np.empty(0)

    def at(self, support: NDArray[np.intp]) -> Problem:
        """Return one that is near the problem where the fit of a support is, up to the gap."""
        if not self.more:
            return self._problem
        beta = self._problem.coefficients(support, self._gap)
        return self.mixed(np.sort(self._problem.features.columns(support)), beta)

    def mixed(self, columns: NDArray[np.intp], beta: Floats) -> Problem:
        """Return one that is expanded at any coefficients on some columns."""
        whole = self._problem.columns.whole()  # mapped once for all expansions
        return Minorant(self._problem, columns, beta, self._limit, whole)


class Minorant(Problem):
    """A problem of squared loss whose scores are nowhere above those of another problem (T40).

    It is expanded at coefficients on some columns: there, and for supports whose fit is near, it
    is tight. Only its scores mean something; it has no target.
    """

    def __init__(
        self,
        problem: Problem,
        columns: NDArray[np.intp],
        beta: Floats,
        limit: Floats,
        whole: Floats | None = None,
    ) -> None:
        self.__dict__.update(copy.copy(problem).__dict__)
        for name in ("gram", "columns", "correlations", "energy"):
            self.__dict__.pop(name, None)
        self._shared = {}
        self._above = problem
        table = problem.columns.rows(columns)
        t0 = beta @ table
        value, slope, gamma = row_curvature(problem, t0, limit)
        self.design = ScaledDesign(problem.design, np.sqrt(gamma), whole)
        bent = gamma * t0
        # value - slope t0 + gamma t0^2 + (slope - 2 gamma t0) t + gamma t^2, written around 0.
        self._shared["gram"] = Gram(self.design)
        self._shared["correlations"] = problem.design.correlate(bent - slope / 2)
        self._shared["energy"] = float(np.sum(value - slope * t0 + bent * t0))

    @property
    def quadratic(self) -> bool:
        """Scores follow from the moments."""
        return True

    @property
    def slack(self) -> float:
        """Bound on rounding, that of the problem above."""
        return self._above.slack

    @property
    def magnitude(self) -> float:
        """A bound on what coefficients in the ball gain, and the constant."""
        largest = float(np.abs(self.correlations).max(initial=0.0))
        return abs(self.energy) + 2 * self.radius * math.sqrt(self.most_columns) * largest


class Evened(Problem):
    """A minorant with one curvature for all rows, the least: its Gram matrix is the problem's own.

    Whole tables are wide or long enough to make a Gram matrix of its own dear. It is kept in units
    in which that curvature is 1: a score times `curvature` is nowhere above the problem's (T40).
    """

    def __init__(self, problem: Problem, t0: Floats, limit: Floats) -> None:
        """Expand at predictions t0; `complete` it by products with all columns."""
        self.__dict__.update(copy.copy(problem).__dict__)
        for name in ("correlations", "energy"):
            self.__dict__.pop(name, None)
        value, slope, gamma = row_curvature(problem, t0, limit)
        self._above = problem
        self.curvature = float(gamma.min(initial=np.inf))
        self.even = self.curvature >= _EVEN * float(gamma.mean()) > 0.0
        bent = self.curvature * t0
        self.vector = bent - slope / 2
        self._shared = {"gram": problem.gram}
        if self.even:
            energy = float(np.sum(value - slope * t0 + bent * t0))
            self._shared["energy"] = energy / self.curvature
            self.ridge = problem.ridge / self.curvature

    def complete(self, products: Floats) -> None:
        """Take note of the products of all columns with `vector`."""
        self._shared["correlations"] = products / self.curvature

    @property
    def quadratic(self) -> bool:
        """Scores follow from the moments."""
        return True

    @property
    def slack(self) -> float:
        """Bound on rounding, that of the problem above."""
        return self._above.slack / self.curvature

    @property
    def magnitude(self) -> float:
        """A bound on what coefficients in the ball gain, and the constant."""
        largest = float(np.abs(self.correlations).max(initial=0.0))
        return abs(self.energy) + 2 * self.radius * math.sqrt(self.most_columns) * largest
