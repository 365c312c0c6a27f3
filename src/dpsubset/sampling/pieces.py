"""The pieces of a partition of all supports: a cut's envelope, or a list (T14)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.cuts import Cut
from dpsubset.cuts.cut import largest
from dpsubset.cuts.symmetric import (
    block_tables,
    draw_subset,
    draw_subsets,
    draw_within,
    next_block,
    suffixes,
)
from dpsubset.problem import Problem
from dpsubset.sampling.ranks import rank, skip, unrank

__all__ = ["Envelope", "Listed", "Piece", "RandomSource", "Tail", "pick", "picked"]

Support = NDArray[np.int64]
_NARROW = 1024  # columns of a region up to which many draws are made together


class RandomSource(Protocol):
    """Where a sampler takes its randomness from."""

    def uniforms(self, count: int) -> Floats:
        """Return independent uniform numbers in (0, 1)."""

    def exponential(self) -> float:
        """Return an exponential number of mean 1."""

    def exponentials(self, count: int) -> Floats:
        """Return independent exponential numbers of mean 1."""

    def below(self, bound: int) -> int:
        """Return a uniform whole number in 0, ..., bound - 1."""


def pick(cumulated: Floats, source: RandomSource) -> int:
    """Draw an index in proportion to the steps of a cumulated sum."""
    return int(picked(cumulated, source, 1)[0])


def picked(cumulated: Floats, source: RandomSource, count: int) -> NDArray[np.intp]:
    """Draw so many indices in proportion to the steps of a cumulated sum."""
    at = np.searchsorted(cumulated, source.uniforms(count) * cumulated[-1], side="right")
    return np.asarray(np.minimum(at, cumulated.size - 1), dtype=np.intp)


class Piece(ABC):
    """A set of supports under an envelope: log weights that are never below -kappa R(S)."""

    log_mass: float  # log of the envelope's sum over the piece
    peak: float  # log of its largest weight
    exact = False  # whether the envelope is -kappa R(S) itself

    @abstractmethod
    def draw(self, source: RandomSource) -> tuple[Support, float]:
        """Draw a support in proportion to the envelope; return it with its log weight there."""

    def draw_many(self, source: RandomSource, count: int) -> tuple[Support, Floats]:
        """Draw so many supports, one a row."""
        drawn = [self.draw(source) for _ in range(count)]
        return np.array([one for one, _ in drawn]), np.array([weight for _, weight in drawn])


class Listed(Piece):
    """Supports written out, heaviest first, with exact weights or with bounds on them."""

    rejected = 0  # draws from it, by better bounds than its own
    met = 0  # minorants that had been made when all of them bounded it

    def __init__(self, supports: Support, log_weights: Floats, *, exact: bool = True) -> None:
        order = np.argsort(-log_weights, kind="stable")
        self.exact = exact
        self._set(supports[order], log_weights[order])

    def _set(self, supports: Support, log_weights: Floats) -> None:
        self.supports, self.log_weights = supports, log_weights
        self.peak = float(log_weights[0])
        self._cumulated = np.cumsum(np.exp(log_weights - self.peak))
        self.log_mass = self.peak + math.log(self._cumulated[-1])

    def draw(self, source: RandomSource) -> tuple[Support, float]:
        i = pick(self._cumulated, source)
        return self.supports[i], float(self.log_weights[i])

    def take_out(self, level: float) -> tuple[Support, Floats, Listed | None]:
        """Part with supports of log weight above `level`, at least one; return both sides."""
        count = max(1, self.above(level))
        heavy = self.supports[:count], self.log_weights[:count]
        if count == self.log_weights.size:
            return *heavy, None
        rest = Listed.__new__(Listed)
        rest.exact, rest.met = self.exact, self.met
        rest._set(self.supports[count:], self.log_weights[count:])
        return *heavy, rest

    def above(self, level: float) -> int:
        """Return how many weights are above a level."""
        return int(np.searchsorted(-self.log_weights, -level, side="left"))

    @staticmethod
    def joined(rest: Listed | None, lower: list[tuple[Support, float]]) -> Listed | None:
        """Return a list of bounds with some more; None if there are none."""
        if not lower:
            return rest
        supports = np.array([support for support, _ in lower])
        log_weights = np.array([log_weight for _, log_weight in lower])
        if rest is not None:
            supports = np.concatenate([rest.supports, supports])
            log_weights = np.concatenate([rest.log_weights, log_weights])
        out = Listed(supports, log_weights, exact=False)
        out.met = 0 if rest is None else rest.met
        return out

    def under(self, log_weights: Floats) -> Listed:
        """Return the same list with weights nowhere above the given ones."""
        return Listed(self.supports, np.minimum(self.log_weights, log_weights), exact=self.exact)

    def lowered(self, support: Support, log_weight: float) -> Listed:
        """Return the same list with a lower bound on the weight of one support."""
        at = int(np.flatnonzero((self.supports == support).all(axis=1))[0])
        self.log_weights[at] = min(self.log_weights[at], log_weight)
        return Listed(self.supports, self.log_weights, exact=self.exact)


class Tail(Piece):
    """All supports but some, under one common weight: what a proven list of the best leaves."""

    def __init__(self, problem: Problem, taken: list[Support], log_weight: float) -> None:
        self._problem = problem
        place = {int(j): i for i, j in enumerate(problem.free)}
        self._taken = sorted(
            rank(sorted(place[int(j)] for j in support if int(j) in place)) for support in taken
        )
        self._count = problem.n_supports - len(taken)
        self.peak = log_weight
        self.log_mass = log_weight + math.log(self._count)

    def draw(self, source: RandomSource) -> tuple[Support, float]:
        number = skip(source.below(self._count), self._taken)
        free = self._problem.free
        chosen = free[list(unrank(number, self._problem.to_choose, free.size))]
        support = np.sort(np.array([*self._problem.include, *chosen], dtype=np.int64))
        return support, self.peak


class Envelope(Piece):
    """A region under exp(-kappa cut), drawn from by conditional Bernoulli sampling (T13)."""

    def __init__(self, cut: Cut, kappa: float) -> None:
        self._cut = cut.slim()
        self.region = cut.region
        self.kappa = kappa
        self.optimised = False
        self.evidence = self.loose = 0.0
        log_weights = kappa * cut.weights
        self._held = None if cut.recipe else log_weights
        self._ends: Floats | None = None  # what many draws need, made when they come
        t, p = cut.region.to_choose, cut.region.free.size
        self._block = max(32, min(1024, math.isqrt(p) * 2))
        self._own, self._later = block_tables(log_weights, t, self._block)
        self.log_mass = float(self._later[0, t]) - kappa * cut.constant
        self.peak = largest(log_weights, t) - kappa * cut.constant

    @property
    def cut(self) -> Cut:
        """The cut behind the envelope."""
        return self._cut.whole()

    @property
    def to_hand_on(self) -> Cut | None:
        """The cut for the parts of the region; None where its weights are not held."""
        return None if self._held is None else self._cut

    @property
    def log_weights(self) -> Floats:
        """The log weights of the free columns, made anew where they are not held."""
        return self.kappa * self.cut.weights if self._held is None else self._held

    def draw(self, source: RandomSource) -> tuple[Support, float]:
        t = self.region.to_choose
        uniforms = source.uniforms(self._own.shape[0] + t * self._block)
        tables = self._own, self._later
        if self._held is None:
            chosen, weight = self._draw_by_blocks(uniforms)
        else:
            chosen = draw_subset(self._held, t, self._block, *tables, uniforms)
            weight = float(self._held[chosen].sum())
        support = np.sort(np.array([*self.region.inside, *self.region.free[chosen]]))
        return support.astype(np.int64), weight - self.kappa * self._cut.constant

    def draw_many(self, source: RandomSource, count: int) -> tuple[Support, Floats]:
        t, p = self.region.to_choose, self.region.free.size
        if self._held is None or p > _NARROW or count == 1:
            return super().draw_many(source, count)
        if self._ends is None:
            self._ends = suffixes(self._held, t, self._block)
        blocks = self._own.shape[0]
        uniforms = source.uniforms(count * (blocks + t)).reshape(count, blocks + t)
        chosen, weights = draw_subsets(
            self._held, t, self._block, self._own, self._later, self._ends, uniforms
        )
        inside = np.tile(np.array(self.region.inside, dtype=np.int64), (count, 1))
        supports = np.sort(np.concatenate([inside, self.region.free[chosen]], axis=1), axis=1)
        return supports.astype(np.int64), weights - self.kappa * self._cut.constant

    def _draw_by_blocks(self, uniforms: Floats) -> tuple[NDArray[np.int64], float]:
        """Draw as `draw_subset` does, with the weights of those blocks alone that are opened."""
        recipe, free, t = self._cut.recipe, self.region.free, self.region.to_choose
        assert recipe is not None
        found: list[NDArray[np.int64]] = []
        weight, count, used, g = 0.0, 0, 0, 0
        while count < t:
            g, take, used = next_block(self._own, self._later, g, t - count, uniforms, used)
            if take == 0:
                break
            start = g * self._block
            w = self.kappa * recipe.at(free[start : start + self._block])
            inside, used = draw_within(w, take, uniforms, used)
            found.append(start + inside)
            weight += float(w[inside].sum())
            count, g = count + take, g + 1
        return np.concatenate(found), weight
