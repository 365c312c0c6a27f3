"""Dual points moved along columns at hand, where any other dual point costs a pass (T12)."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.cuts.cut import Cut, at_best_multiplier, largest
from dpsubset.cuts.recipe import Recipe, slices
from dpsubset.cuts.region import Region
from dpsubset.cuts.symmetric import inclusion
from dpsubset.designs.gram import GramRows
from dpsubset.losses.fitting import envelope
from dpsubset.problem import Problem

__all__ = ["Moved", "Moves", "Surrogate"]

_NEAR = 1e-4  # of the largest slope: how far differences of conjugates look
_ROUNDS = 8
_HALVINGS = 4  # of a step that does not lower the log mass
_ENOUGH = 0.02  # stop when a round lowers the log mass by less
_LONGEST = 4.0  # moves of a dual point, in units of its largest slope
_LEAST = 1e-3  # curvature of a loss that has none, relative to its slopes over predictions


class Surrogate(Problem):
    """A problem of squared loss that has another's slopes at zero, and about its curvature there.

    It guesses which columns matter: its moments are those of the table and need few passes. No
    bound comes from it.
    """

    def __init__(self, problem: Problem, products: Floats) -> None:
        """Take X'a of the slopes a at zero."""
        self.__dict__.update(copy.copy(problem).__dict__)
        for name in ("correlations", "energy"):
            self.__dict__.pop(name, None)
        self._shared = {"gram": problem.gram}
        rows, parameters, _ = problem.loss.compiled()
        _, slope, curve = envelope(rows, parameters, problem.y, np.zeros(problem.n_rows), np.inf)
        reached = problem.radius * problem.x_bound * np.sqrt(problem.size)
        least = _LEAST * float(np.abs(slope).mean()) / max(reached, 1e-300)
        bent = max(float(curve.mean()), least, 1e-300)
        self.ridge = 2 * problem.ridge / bent
        self._shared["correlations"] = -products / bent
        self._shared["energy"] = float(slope @ slope) / bent**2

    @property
    def quadratic(self) -> bool:
        """Scores follow from the moments."""
        return True


@dataclass(frozen=True, eq=False)
class Moved:
    """A cut of a dual point, where it is, the log mass under it and inclusion probabilities."""

    cut: Cut
    x: Floats
    mass: float
    shares: Floats


@dataclass(frozen=True, eq=False)
class Moves:
    """Dual points a + D x, where all products X'a and X'D are held: X'D costs no pass.

    D has columns of the table whose Gram columns are held, and what other dual points have beyond
    a. Whatever x is, a point with finite conjugates makes a cut.
    """

    problem: Problem
    index: NDArray[np.intp]
    point: Floats  # a
    products: Floats  # X'a
    others: tuple[tuple[Floats, Floats], ...] = ()  # dual points and their products

    @cached_property
    def _table(self) -> Floats:
        more = [point - self.point for point, _ in self.others]
        return np.vstack([self.problem.columns.rows(self.index), *more])

    @cached_property
    def _gram(self) -> GramRows:
        return self.problem.gram.rows(self.index)

    def _rows(self, part: slice | NDArray[np.intp]) -> Floats:
        """Return D'X at some columns."""
        more = [products[part] - self.products[part] for _, products in self.others]
        return np.vstack([self._gram.at(part), *more])

    def _at(self, x: Floats, part: slice | NDArray[np.intp]) -> Floats:
        """Return the products of a dual point with some columns."""
        return np.asarray(self.products[part] + x @ self._rows(part))

    def _slices(self) -> list[slice]:
        return slices(self.problem.features.n_columns)

    def fitted(self, region: Region) -> Moved | None:
        """Return the cut of about the fit on the features inside; None if none was found."""
        inside = self.problem.features.columns(region.inside)
        ones, x = np.ones(inside.size), np.zeros(len(self._table))
        best, height = None, -math.inf
        for _ in range(_ROUNDS):
            here = self._height(x, inside)
            if here <= height + 1e-9 * abs(height):
                break
            best, height = x, here
            x = self._newton(x, [(inside, ones)])
        return None if best is None else self.moved(region, best, None, None)

    def _height(self, x: Floats, inside: NDArray[np.intp]) -> float:
        """Return the bound on the score of the features inside alone."""
        constant = self._constant(self.point + x @ self._table)
        left = self._at(x, inside)
        return constant - float(left @ left) / (4 * max(self.problem.ridge, 1e-150))

    def _constant(self, a: Floats) -> float:
        return -float(self.problem.loss.conjugate(self.problem.y, a).sum())

    def lowered(self, region: Region, kappa: float) -> Moved | None:
        """Lower the log mass of exp(-kappa cut): Newton's steps on it, shortened if it rises.

        It is convex in x (T12); a step takes inclusion probabilities as they are.
        """
        first = self.fitted(region)
        if first is None:
            return None
        best = self.moved(region, first.x, kappa, None)
        for _ in range(_ROUNDS):
            self.problem.allowance.check()
            before, shares = best, self._shares(region, best.shares)
            target = self._newton(best.x, [(part, shares[part]) for part in self._slices()])
            for halved in range(_HALVINGS):
                x = before.x + 0.5**halved * (target - before.x)
                better = self.moved(region, x, kappa, before.shares)
                if better.mass < before.mass:
                    best = better
                    break
            if before.mass - best.mass < _ENOUGH:
                break
        return best

    def _shares(self, region: Region, shares: Floats) -> Floats:
        """Return the inclusion probability of every column."""
        features = self.problem.features
        of = np.zeros(len(features))
        of[region.free] = shares
        of[list(region.inside)] = 1.0
        return features.spread(of)

    def moved(self, region: Region, x: Floats, kappa: float | None, shares: Floats | None) -> Moved:
        """Return the cut of a dual point, at the best multiplier of the ball for these shares."""
        problem, features = self.problem, self.problem.features
        a = self.point + x @ self._table
        constant = self._constant(a)
        squares = Recipe(
            lambda part, columns: self._at(x, part)[columns - part.start] ** 2, features.n_columns
        )
        if features.identity:
            free = squares.at(region.free)
            partial = np.array([squares.at(np.array([j]))[0] for j in region.partial])
        else:
            every = features.sum(squares.at(np.arange(features.n_columns)))
            free, partial = every[region.free], every[list(region.partial)]
        fixed = float((self._at(x, features.columns(region.inside)) ** 2).sum())
        if shares is None:
            reached = fixed + largest(free, region.to_choose) + largest(partial, region.keep)
        else:
            reached = fixed + float(shares @ free)
        constant, penalty = at_best_multiplier(problem, constant, fixed, reached)
        made = Recipe(lambda part, columns: squares.of(part, columns) / (4 * penalty), squares.p)
        slim = made if features.identity else None
        free /= 4 * penalty
        cut = Cut(region, constant, free, partial / (4 * penalty), a, slim)
        if kappa is None or not math.isfinite(constant):
            return Moved(cut, x, math.inf, np.empty(0))
        total, found = inclusion(kappa * free, region.to_choose)
        return Moved(cut, x, float(total) - kappa * constant, np.asarray(found))

    def _newton(
        self, x: Floats, parts: Sequence[tuple[slice | NDArray[np.intp], Floats]]
    ) -> Floats:
        """Return where Newton's step from x leads, with so large shares of so many columns.

        Conjugates are known by their values alone: differences give slopes and curvatures, row by
        row.
        """
        problem = self.problem
        a = self.point + x @ self._table
        h = _NEAR * float(np.abs(a).max(initial=1e-300))
        here, up, down = (problem.loss.conjugate(problem.y, a + d) for d in (0.0, h, -h))
        inner = np.isfinite(up) & np.isfinite(down) & np.isfinite(here)
        with np.errstate(invalid="ignore"):
            slope = np.where(inner, (up - down) / (2 * h), 0.0)
            curve = np.where(inner, np.maximum((up - 2 * here + down) / h**2, 0.0), 1 / h)
        side, matrix = np.zeros(x.size), np.zeros((x.size, x.size))
        reached = 0.0
        for part, shares in parts:
            rows = self._rows(part)
            left = self.products[part] + x @ rows
            weighted = rows * shares
            side += weighted @ left
            matrix += weighted @ rows.T
            reached += float(shares @ left**2)
        penalty = max(problem.ridge, np.sqrt(reached) / (2 * problem.radius), 1e-150)
        side = side / (2 * penalty) + self._table @ slope
        matrix = matrix / (2 * penalty) + (self._table * curve) @ self._table.T
        matrix[np.diag_indices(x.size)] *= 1 + 1e-9
        try:
            moved = x - np.linalg.solve(matrix, side)
        except np.linalg.LinAlgError:
            return x
        # Products of the moves are rounded as those of a few slopes are (T19).
        size = float(np.abs(moved) @ np.abs(self._table).max(axis=1))
        most = _LONGEST * float(np.abs(self.point).max(initial=0.0))
        return np.asarray(moved * min(1.0, most / max(size, 1e-300)))
