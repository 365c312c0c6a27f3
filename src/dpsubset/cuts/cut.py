"""A cut: a modular lower bound on the scores of a region (T10), and who makes them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.cuts.recipe import Recipe
from dpsubset.cuts.region import Region
from dpsubset.problem import Problem

__all__ = ["Cut", "CutMaker", "at_best_multiplier", "largest"]

_STRETCH = 128  # weights that are looked at together


def largest(weights: Floats, count: int) -> float:
    """Return the sum of the largest weights.

    >>> largest(np.array([1.0, 5.0, 2.0]), 2)
    7.0
    """
    if not count:
        return 0.0
    if weights.size > _STRETCH * max(count, _STRETCH):
        weights = _heavy(weights, count)
    return float(np.partition(weights, -count)[-count:].sum())


def _heavy(weights: Floats, count: int) -> Floats:
    """Return few of many weights, among them the largest: of the stretches with the highest tops.

    Every other weight is below the tops of these.
    """
    whole = weights.size // _STRETCH * _STRETCH
    stretches = weights[:whole].reshape(-1, _STRETCH)
    heavy = np.argpartition(stretches.max(axis=1), -count)[-count:]
    return np.concatenate([stretches[heavy].ravel(), weights[whole:]])


@dataclass(frozen=True, eq=False)
class Cut:
    """R(S) >= constant - sum of weights over the free columns in S, for every S of the region."""

    region: Region
    constant: float
    weights: Floats  # one for each free column
    partial: Floats = field(default_factory=lambda: np.empty(0))  # one for each partial column
    point: Floats | None = None  # the dual point behind it, where there is one
    recipe: Recipe | None = None  # for all columns, where there is no room to keep weights

    def slim(self) -> Cut:
        """Return the same without weights, where they can be made anew."""
        if self.recipe is None:
            return self
        return Cut(self.region, self.constant, np.empty(0), self.partial, self.point, self.recipe)

    def whole(self) -> Cut:
        """Return the same with its weights."""
        if self.recipe is None or self.weights.size:
            return self
        return replace(self, weights=self.recipe.at(self.region.free))

    @property
    def least(self) -> float:
        """The bound on all scores of the region."""
        region = self.region
        return (
            self.constant
            - largest(self.weights, region.to_choose)
            - largest(self.partial, region.keep)
        )

    def log_weights(self, supports: NDArray[np.int64], kappa: float) -> Floats:
        """Return the log weights of some supports of the region, one a row."""
        each = np.zeros(int(supports.max(initial=-1)) + 1)
        inside = self.region.free < each.size
        each[self.region.free[inside]] = self.weights[inside]
        return np.asarray(kappa * (each[supports].sum(axis=1) - self.constant))

    def within(self, part: Region) -> Cut:
        """Return the same bound for a part of the region, neither with partial columns."""
        taken = np.isin(self.region.free, part.inside, assume_unique=True)
        kept = np.isin(self.region.free, part.free, assume_unique=True)
        constant = self.constant - float(self.weights[taken].sum())
        return Cut(part, constant, self.weights[kept], point=self.point)


def at_best_multiplier(
    problem: Problem, constant: float, fixed: float, reached: float
) -> tuple[float, float]:
    """Return a dual point's constant, and the penalty, at the best multiplier of the ball (T10).

    `fixed` are the squared products of the columns inside, `reached` those of a support.
    """
    penalty = max(problem.ridge, np.sqrt(reached) / (2 * problem.radius), 1e-150)
    constant -= (penalty - problem.ridge) * problem.radius**2
    constant -= fixed / (4 * penalty) + problem.slack / 2
    return constant, penalty


class CutMaker(ABC):
    """Cuts and scores of a problem: a cheap cut for every region, a better one where it pays."""

    tries: ClassVar[int] = 1  # how many of the columns of largest gain are worth a look
    trust: ClassVar[float] = 1.0  # and how near their gain must come to a column's own
    starts: ClassVar[int] = 2  # greedy starts that pay where columns of a support are exchanged
    parted: ClassVar[bool] = True  # whether to begin with the parts around a good support pays
    searchable: ClassVar[bool] = False  # whether long lists of the best can be proven in time
    sharpens: ClassVar[bool] = False  # whether `sharpen` can be of use
    bent: bool = False  # whether minorants serve by now: `expand` adds to them

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def settle(self, support: tuple[int, ...]) -> bool:
        """Take note of a good support; return whether cuts and gains change by it."""
        return False

    @abstractmethod
    def gains(self, inside: tuple[int, ...]) -> Floats:
        """Return, roughly, how much each column would lower the score of those inside."""

    @abstractmethod
    def bound(self, region: Region, hint: Floats | None = None) -> Cut:
        """Return a cut from the fit on the columns inside; `hint` is a dual point to try, too."""

    @abstractmethod
    def prepare(self) -> None:
        """Do at once what a hard problem needs sooner or later, if it can be had."""

    def expand(self, support: Iterable[int]) -> bool:
        """Make cuts tighter near a support, where that can be done; return whether it was."""
        return False

    def sharpen(self) -> bool:
        """Make all cuts tighter by work on the whole table, where that can be done; say whether.

        It helps where columns are many and hardly correlated.
        """
        return False

    @property
    def tells(self) -> bool:
        """Whether bounds on many single supports cost little."""
        return False

    def better(self, support: NDArray[np.intp], worst: float) -> float:
        """Return a bound on one support that costs less than its score; enough is `worst`."""
        return -np.inf

    @property
    def forms(self) -> int:
        """How many squared losses `raised` asks."""
        return 0

    @property
    def made(self) -> int:
        """How many there have been."""
        return 0

    @property
    def expanding(self) -> float:
        """What one more costs, in microseconds, roughly."""
        return math.inf

    def raised(self, supports: NDArray[np.int64], *, last: bool = False) -> Floats:
        """Return the highest bounds on the scores of supports that are at hand."""
        return np.full(len(supports), -np.inf)

    def listed(self, region: Region) -> tuple[NDArray[np.int64], Floats] | None:
        """Return all supports of a region and bounds on their scores, where that is quick."""
        return None

    def below(self) -> Floats | None:
        """Return a diagonal below X'X, a number a column; None if that says little (T48)."""
        return None

    def curvature(self) -> float:
        """Return d >= 0 with X'X - d I positive semidefinite, 0 where cuts make no use of it."""
        return 0.0

    def memory(self) -> int:
        """Return the bytes that a sampler holds for a cut, roughly."""
        return 32 * self.problem.n_columns

    def exact(self, region: Region) -> bool:
        """Whether the cheap cut of a region is the score itself, up to rounding."""
        return False

    def expect(self, region: Region, column: int, shares: Floats) -> bool:
        """Prepare for a split on a column, shares being inclusions; return whether that paid."""
        return False

    def cheap(self, region: Region) -> Cut:
        """Return the cut that a sampler starts from."""
        return self.bound(region)

    def cheap_all(self, regions: Sequence[Region]) -> Iterable[Cut]:
        """Return the same for several regions, one after the other."""
        return (self.cheap(region) for region in regions)

    @abstractmethod
    def optimised(
        self,
        cut: Cut,
        kappa: float,
        guess: Floats | None = None,
        *,
        worst: float = np.inf,
        near: Floats | None = None,
    ) -> Cut:
        """Improve a cut for weights exp(-kappa R) (T12).

        `guess` are inclusion probabilities to start from, for the region's free columns; `near` is
        the dual point of a larger region's best cut. A cut above `worst` everywhere is good enough.
        """

    @abstractmethod
    def tangent(self, region: Region, z: Floats, *, tighten: bool = True) -> Cut:
        """Return the cut that touches the perspective function at z, shares of the free columns.

        `tighten` uses known curvature, if there is any (T23).
        """

    @abstractmethod
    def extended(
        self, inside: tuple[int, ...], columns: NDArray[np.intp], worst: float = np.inf
    ) -> Floats:
        """Return R(inside + j) for every given column j; may be infinite if at least `worst`."""

    @abstractmethod
    def scores(self, supports: NDArray[np.intp]) -> Floats:
        """Return R(S) for every row S of `supports`."""

    @abstractmethod
    def listable(self, region: Region) -> bool:
        """Whether to list a region of not too many supports is quick."""

    @abstractmethod
    def patience(self, region: Region, *, split: bool) -> float:
        """Return the cost of a better cut, or of a split, in units of that of a rejected draw.

        Rough counts of operations; nothing measured, so that seeded runs repeat.
        """
