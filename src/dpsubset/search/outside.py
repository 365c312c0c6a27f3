"""The three questions for a solver that proves to a tolerance: the paper's strategy (T23).

Supports are visited one after the other: a visit scores one support exactly and rules it out. A
bound on all supports that were not visited ends the search when it comes near enough to the worst
score of the list.
"""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dpsubset.checks import one_of, yes_or_no
from dpsubset.cuts import CutMaker, cut_maker
from dpsubset.cuts.start import hard_thresholding, in_bucket, start
from dpsubset.errors import InputError
from dpsubset.limits import Allowance
from dpsubset.problem import Problem
from dpsubset.search.backends import Answer, Model, Positions, Watch, need
from dpsubset.search.found import Found
from dpsubset.search.solver import Solver

__all__ = ["Outside", "Session", "Side", "Support"]

_SMALLEST, _LARGEST = 1e-5, 0.5  # tolerances
_MARGIN = 1e-6  # by which bounds are lowered, against the value without columns
_INSIDE = 0.999  # of the tolerance, so that rounding does not take a result out of it
_STARTS = 4  # supports that a bucket's search starts from

Support = tuple[int, ...]


@dataclass(frozen=True)
class Side:
    """The supports that share `low` to `high` columns with a centre; by default all supports."""

    centre: Support = ()  # without the included columns
    low: int = 0
    high: int = 0

    def holds(self, support: Support) -> bool:
        """Whether a support is meant."""
        return self.low <= len(set(self.centre).intersection(support)) <= self.high

    def count(self, problem: Problem) -> int:
        """Return how many supports are meant."""
        others, t = problem.free.size - len(self.centre), problem.to_choose
        return sum(
            math.comb(len(self.centre), kept) * math.comb(others, t - kept)
            for kept in range(self.low, self.high + 1)
        )


_ALL = Side()


class Session:
    """One problem in the hands of an outside solver; values are in units of `scale`."""

    def __init__(self, maker: CutMaker, scale: float, model: Model) -> None:
        self.problem = maker.problem
        self.maker = maker
        self.scale = scale
        self.model = model

    def positions(self, support: Support) -> Positions:
        """Return the places of a support's columns among the free ones."""
        return np.flatnonzero(np.isin(self.problem.free, support))

    def support(self, positions: Positions) -> Support:
        """Return the support that has these free columns."""
        chosen = self.problem.free[positions]
        return tuple(sorted(int(j) for j in (*self.problem.include, *chosen)))

    def visit(self, support: Support) -> None:
        """Rule a support out, its score being known."""
        self.model.exclude(self.positions(support))

    def prepare(self, side: Side, goal: float, watch: Watch) -> float:
        """Do what helps before the model is solved; return a bound for the side, if it has one."""
        return -math.inf

    def ask(
        self, side: Side, goal: float, tolerance: float, allowance: Allowance, watch: Watch
    ) -> Answer:
        """Look for a support of the side that was not visited and may score below `goal`."""
        if side.centre:
            self.model.share(self.positions(side.centre), side.low, side.high)
        if self.prepare(side, goal, watch) >= goal:
            return Answer(goal, None, True)
        return self.model.solve(goal, tolerance, allowance, watch)


class Outside(Solver):
    """Answers within a relative tolerance, by whatever solver stands behind a session."""

    backends: tuple[str, ...]

    def __init__(self, tolerance: float, backend: str, tighten: bool) -> None:
        good = isinstance(tolerance, numbers.Real) and not isinstance(tolerance, bool)
        if not (good and _SMALLEST <= tolerance <= _LARGEST):
            raise InputError(
                f"tolerance must be a number between {_SMALLEST} and {_LARGEST}, not "
                f"{tolerance!r}; for exact answers use solver='branch-and-bound'"
            )
        one_of(backend, "backend", self.backends)
        self.tolerance = float(tolerance)
        self.backend = backend
        self.tighten = yes_or_no(tighten, "tighten")

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({options})"

    def check(self, problem: Problem) -> None:
        need(self.backend)  # whether it is missing must not depend on the data

    @abstractmethod
    def session(self, maker: CutMaker, scale: float) -> Session:
        """Set the solver up for a problem; `scale` is the value without columns."""

    def top(self, problem: Problem, count: int, allowance: Allowance) -> list[Found]:
        """Visit a best support, then all its one-swaps, then what else may be on the list.

        This is the strategy of the paper's appendix, which hopes that no support with two mistakes
        precedes one with one mistake. Where one does, this search goes on until its list is proven.
        """
        walk = _Walk(self, problem, allowance)
        walk.start()
        bound = walk.close(_ALL, 1, _ALL)
        if count > 1 and walk.swap(walk.list(_ALL, 1)[0][1]):
            walk.start(2)
            bound = walk.close(Side(walk.centre, 0, len(walk.centre) - 2), count, _ALL)
        listed = [walk.found(score, s, bound) for score, s in walk.list(_ALL, count)]
        if len(listed) < min(count, problem.n_supports):  # short of entries: proves nothing
            return [replace(entry, proven=False) for entry in listed]
        return listed

    def by_mistakes(self, problem: Problem, allowance: Allowance) -> list[Found]:
        """Visit a best support and all its one-swaps; then ask for 2, 3, ... mistakes."""
        walk = _Walk(self, problem, allowance)
        walk.start()
        bound = walk.close(_ALL, 1, _ALL)
        score, support = walk.list(_ALL, 1)[0]
        out = [first := walk.found(score, support, bound)]
        walk.swap(support)
        t = len(walk.centre)
        for mistakes in range(1, t + 1):
            side = Side(walk.centre, t - mistakes, t - mistakes)
            if side.count(problem) == 0:
                break
            if mistakes > 1 or not walk.list(side, 1):
                walk.start(mistakes)
            bound = walk.close(side, 1, side)
            for score, support in walk.list(side, 1):
                entry = walk.found(score, support, bound)
                out.append(replace(entry, proven=entry.proven and first.proven))
        return out


class _Walk:
    """The supports that were visited, and the solver that says where to go next."""

    def __init__(self, solver: Outside, problem: Problem, allowance: Allowance) -> None:
        solver.check(problem)
        self._solver = solver
        self._problem = problem
        self._allowance = allowance
        self._maker = cut_maker(problem)
        nothing = np.zeros(problem.n_rows)
        self._scale = float(problem.loss.value(problem.y, nothing).sum()) or 1.0
        self._session: Session | None = None
        self._scores: dict[Support, float] = {}
        self._ruled_out: list[Support] = []  # one-swaps are not: no later side holds them
        self._first: Support = ()
        self.centre: Support = ()  # the same without the included columns

    def list(self, side: Side, count: int) -> list[tuple[float, Support]]:
        """Return the best visited supports of a side, ascending."""
        return sorted((v, s) for s, v in self._scores.items() if side.holds(s))[:count]

    def found(self, score: float, support: Support, bound: float) -> Found:
        """Return an entry of a list whose missing supports score at least `bound`."""
        gap = max(score - bound, 0.0)
        return Found(support, score, gap <= self._allowed(score), gap)

    def _allowed(self, score: float) -> float:
        return max(self._solver.tolerance * score, _SMALLEST * self._scale)

    def start(self, mistakes: int = 0) -> None:
        """Visit a few good supports, found by the usual heuristics."""
        if mistakes:
            most = 1 if self._allowance.over else _STARTS
            known = in_bucket(self._maker, self._first, mistakes, most)
        else:
            known = [start(self._maker), hard_thresholding(self._problem)]
        for support in known:
            self._visit(support)

    def swap(self, support: Support) -> bool:
        """Score all one-swaps of a support, the centre from now on; False if a limit ends that."""
        self._first = support
        self.centre = tuple(j for j in support if j not in self._problem.include)
        for swapped, score in self._swaps(support):
            self._scores.setdefault(swapped, score)
        swaps = len(self.centre) * (self._problem.free.size - len(self.centre))
        near = Side(self.centre, len(self.centre) - 1, len(self.centre) - 1)
        return sum(near.holds(s) for s in self._scores) == swaps

    def _swaps(self, support: Support) -> Iterator[tuple[Support, float]]:
        """Return all one-swaps of a support with their scores, as far as the limits allow."""
        problem = self._problem
        others = problem.free[~np.isin(problem.free, support)]
        for j in support if others.size else ():
            if j in problem.include:
                continue
            if self._allowance.over:
                return
            inside = tuple(k for k in support if k != j)
            scores = self._maker.extended(inside, others)
            for new, score in zip(others, scores, strict=True):
                yield tuple(sorted((*inside, int(new)))), float(score)

    def _spread(self, support: Support, side: Side, count: int, listed: Side) -> None:
        """Visit the one-swaps of a support that belong on the list: they need not be asked for."""
        near = sorted((v, s) for s, v in self._swaps(support) if side.holds(s))
        best = [score for score, _ in self.list(listed, count)]
        for score, swapped in near:
            if (len(best) == count and score >= best[-1]) or self._allowance.over:
                break
            if self._visit(swapped):
                insort(best, score)
                del best[count:]

    def close(self, side: Side, count: int, listed: Side) -> float:
        """Visit supports of a side until no other may be among the `count` best listed ones.

        Returns a bound on the scores of the side that were not visited: infinite if all were.
        """
        bound = 0.0
        left = side.count(self._problem) - sum(side.holds(s) for s in self._scores)
        before = len(self._scores)
        while len(self._scores) - before < left:  # all that is visited here is of the side
            best = self.list(listed, count)
            goal = math.inf
            if len(best) == count:
                goal = best[-1][0] - _INSIDE * self._allowed(best[-1][0])
            if bound >= goal or self._allowance.over:
                return bound
            answer = self._ask(side, goal, bound)
            # No support below the goal is left. Without a goal that cannot be: some are left.
            if answer.chosen is None and answer.ended:
                return max(bound, min(goal, answer.bound)) if math.isfinite(goal) else bound
            if answer.chosen is None:
                return max(bound, answer.bound)
            bound = max(bound, answer.bound)
            support = self._opened().support(answer.chosen)
            sound = len(support) == self._problem.size and side.holds(support)
            if not sound or not self._visit(support) or not answer.ended:
                return bound
            if count > 1:
                self._spread(support, side, count, listed)
        return math.inf

    def _ask(self, side: Side, goal: float, bound: float) -> Answer:
        """Put the question in the solver's units; bounds come back with a margin taken off."""
        margin, scale = _MARGIN * self._scale, self._scale

        def watch(value: float) -> bool:
            best = min(self._scores.values(), default=math.inf)
            here = value * scale - margin if math.isfinite(value) else bound
            self._allowance.report(len(self._scores), best, max(bound, here))
            return self._allowance.over

        limit = (goal + margin) / scale
        answer = self._opened().ask(side, limit, self._solver.tolerance / 4, self._allowance, watch)
        self._allowance.spend(answer.nodes + 1)
        reached = goal if answer.bound >= limit else answer.bound * scale - margin
        return replace(answer, bound=reached)

    def _visit(self, support: Support) -> bool:
        """Score a support and rule it out; False if that was done before."""
        if support in self._scores:
            return False
        self._scores[support] = self._problem.score(support)
        self._ruled_out.append(support)
        if self._session is not None:
            self._session.visit(support)
        return True

    def _opened(self) -> Session:
        if self._session is None:
            self._session = self._solver.session(self._maker, self._scale)
            for support in self._ruled_out:
                self._session.visit(support)
        return self._session
