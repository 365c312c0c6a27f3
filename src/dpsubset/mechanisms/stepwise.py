"""Stepwise: permute-and-flip over a few columns at a time, in bounded time on every table (T35)."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.checks import whole
from dpsubset.cuts.supports import EMPTY, list_supports
from dpsubset.docstrings import documented
from dpsubset.limits import Allowance
from dpsubset.mechanisms.base import Mechanism, Sampler
from dpsubset.mechanisms.permute_and_flip import race_law
from dpsubset.privacy import Guarantee, Randomness, exponent
from dpsubset.problem import Problem
from dpsubset.sampling import sizes
from dpsubset.sampling.drawing import Draw
from dpsubset.sampling.pieces import Support

__all__ = ["Stepwise"]

_KEPT = 256  # steps whose partitions are kept for further draws
_NODES = 10**9


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class Stepwise(Mechanism):
    """Choose `at_once` columns by permute-and-flip, keep them, choose the next (T35).

    Pure epsilon-DP without any condition. With one column at a time each step needs at most one
    fit for each column, whatever the table: a release in bounded time, where an exact draw of all
    columns together may take very long. The price is that of forward selection: columns that
    explain the target only together may be missed.

    Where the size is open (T34) every step may also choose fewer columns, or none; it is the last
    then. Each of the steps that may be made has its part of epsilon, so that a larger largest size
    makes all of them noisier.

    Parameters
    ----------
    epsilon : float
        The budget of one release; every step gets the same part of it.
    at_once : int
        How many columns a step chooses; all of them at once is `PermuteAndFlip`.

    Examples
    --------
    >>> from dpsubset import Problem
    >>> X = np.vstack([np.eye(4)] * 80); y = X[:, 0] + 0.6 * X[:, 2]
    >>> problem = Problem(X, y, size=2, x_bound=1.0, y_bound=1.0, radius=2.0)
    >>> Stepwise(epsilon=20.0).draw(problem, 2, random_state=0).tolist()
    [[0, 2], [0, 2]]
    """

    name = "stepwise mechanism"
    any_size = True

    at_once: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_once = whole(self.at_once, "at_once", 1)

    def steps(self, problem: Problem) -> list[int]:
        """Return how many columns each step chooses.

        >>> from dpsubset import Problem
        >>> X = np.eye(6); problem = Problem(X, X[0], size=5, x_bound=1, y_bound=1, radius=1)
        >>> Stepwise(epsilon=1.0, at_once=2).steps(problem)
        [2, 2, 1]
        """
        self._check(problem)
        full, rest = divmod(problem.to_choose, self.at_once)
        return [self.at_once] * full + [rest] * bool(rest)

    def guarantee(self, problem: Problem) -> Guarantee:
        """Return the guarantee; of all steps the one whose scores are least precise counts."""
        sizes = [len(problem.include) + done for done in accumulate(self.steps(problem))]
        unit = problem.radius * problem.x_bound
        precisions = [problem.precision(self.sensitivity, unit * math.sqrt(k)) for k in sizes]
        promise = super().guarantee(problem)
        return replace(promise, precision=max(precisions, default=promise.precision))

    def _kappa(self, step: Problem, count: int) -> float:
        """Return the exponent of one of so many steps: a smaller support moves less with a row."""
        sensitivity = step.sensitivity(self.sensitivity)
        return exponent(self.epsilon / count, sensitivity, self.neighbours)

    def _sampler(self, problem: Problem) -> Sampler:
        numbers, allowance = self.steps(problem), Allowance(self.limits)
        kept: dict[tuple[int, ...], Draw] = {}

        def prepared(chosen: tuple[int, ...], number: int) -> Draw:
            if chosen not in kept:
                if len(kept) == _KEPT:
                    kept.clear()
                step = problem.extended(chosen, number)
                limits = allowance.part(_NODES) if allowance.timed else self.limits
                kept[chosen] = sizes.race(step, self._kappa(step, len(numbers)), limits)
            return kept[chosen]

        def draw(randomness: Randomness) -> Support:
            chosen = problem.include
            for number in numbers:
                found = prepared(chosen, number)(randomness)
                before, chosen = chosen, tuple(sorted(int(j) for j in found))
                if len(chosen) < len(before) + number:  # it has stopped by itself
                    break
            return np.array(chosen, dtype=np.int64)

        return draw

    def probabilities(self, problem: Problem) -> tuple[NDArray[np.int64], Floats]:
        """Return all supports and the log of their exact probabilities, for small problems."""
        self._check_may_be_listed(problem)
        numbers = self.steps(problem)
        going: dict[tuple[int, ...], float] = {problem.include: 0.0}
        ended: dict[tuple[int, ...], list[float]] = defaultdict(list)
        for number in numbers:
            ways: dict[tuple[int, ...], list[float]] = defaultdict(list)
            for chosen, log in going.items():
                for support, one in self._step_law(problem.extended(chosen, number), len(numbers)):
                    whole_step = len(support) == len(chosen) + number
                    (ways if whole_step else ended)[support].append(log + one)
            going = {support: float(np.logaddexp.reduce(logs)) for support, logs in ways.items()}
        for support, log in going.items():
            ended[support].append(log)
        listed = sorted(ended, key=lambda support: (len(support), support))
        rows = np.full((len(listed), problem.size), EMPTY, dtype=np.int64)
        for row, support in zip(rows, listed, strict=True):
            row[: len(support)] = support
        return rows, np.array([float(np.logaddexp.reduce(ended[support])) for support in listed])

    def _step_law(self, step: Problem, count: int) -> list[tuple[tuple[int, ...], float]]:
        """Return where one of so many steps may lead, with log probabilities."""
        rows, scores = list_supports(step)
        chosen = np.count_nonzero(rows != EMPTY, axis=1) - len(step.include)
        heights = self._kappa(step, count) * scores + step.column_cost * chosen
        supports = [tuple(j for j in row if j != EMPTY) for row in rows.tolist()]
        return list(zip(supports, race_law(heights - heights.min()).tolist(), strict=True))

    def _law(self, problem: Problem, supports: Support, scores: Floats) -> Floats:
        raise NotImplementedError  # scores of whole supports are not enough
