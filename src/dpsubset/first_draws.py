"""What is drawn before the columns: bounds of the target (T37), a window (T44), an offset (T39)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.data.bounds import narrowed, rescale_target
from dpsubset.data.target import ANY
from dpsubset.mechanisms.offset import PrivateOffset, moved, with_target
from dpsubset.mechanisms.target_bounds import TargetBounds
from dpsubset.mechanisms.window import TargetWindow
from dpsubset.privacy import Guarantee, Randomness
from dpsubset.privacy.guarantee import decimal_sum
from dpsubset.problem import Problem

__all__ = ["FirstDraws"]

Limits = tuple[float, float] | None


@dataclass(frozen=True)
class FirstDraws:
    """Bounds of the target, a window of it and an offset of all predictions, each drawn or not.

    `limits` are the public bounds of the target; None for labels. `clip` narrows bounds of either
    kind.
    """

    bounds: TargetBounds | None
    window: TargetWindow | None
    offset: PrivateOffset | None
    limits: Limits
    clip: float

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def _parts(self) -> list[TargetBounds | PrivateOffset]:
        return [part for part in (self.bounds, self.window, self.offset) if part is not None]

    @property
    def epsilon(self) -> float:
        """What they spend together."""
        return decimal_sum([part.epsilon for part in self._parts])

    def guarantees(self, problem: Problem) -> list[Guarantee]:
        """Return what is guaranteed of each."""
        return [part.guarantee(problem) for part in self._parts]

    def drawn(
        self, problem: Problem, randomness: Randomness
    ) -> tuple[Limits, float | None, Problem]:
        """Draw all of them; return bounds or window, the offset, and the problem that is left."""
        limits, scored = self.bounded(problem, randomness)
        limits, scored = self.windowed(scored, limits, randomness)
        start, scored = self.started(scored, randomness)
        return limits, start, scored

    def bounded(self, problem: Problem, randomness: Randomness) -> tuple[Limits, Problem]:
        """Return the bounds of the target, drawn if need be, and the problem within them."""
        if self.bounds is None:
            return self.limits, problem
        limits = self.bounds.draw(_there(problem, problem.y * ANY[1]), randomness)
        return limits, self.within(problem, limits)

    def within(self, problem: Problem, limits: tuple[float, float]) -> Problem:
        """Return a problem, read on the widest bounds, within others."""
        return _rescaled(problem, problem.y * ANY[1], narrowed(limits, self.clip))

    def windowed(
        self, problem: Problem, limits: Limits, randomness: Randomness
    ) -> tuple[Limits, Problem]:
        """Return the window of the target in its units, and the problem within it.

        Without a window both are as they are.
        """
        if self.window is None:
            return limits, problem
        ends = self.window.draw(_there(problem, problem.y), randomness)
        told = (self.in_units(ends[0], limits), self.in_units(ends[1], limits))
        return told, _rescaled(problem, problem.y, ends)

    def started(self, problem: Problem, randomness: Randomness) -> tuple[float | None, Problem]:
        """Return an offset, if there is one, and the problem around it."""
        if self.offset is None:
            return None, problem
        start = self.offset.draw(problem, randomness)
        return start, moved(problem, start)

    def in_units(self, offset: float, limits: Limits) -> float:
        """Return an offset in the units of the target; log odds have none."""
        if limits is None:
            return offset
        lower, upper = narrowed(limits, self.clip)
        return float(lower / 2 + upper / 2 + offset * (upper / 2 - lower / 2))


def _there(problem: Problem, target: Floats) -> Floats:
    """Return the targets of the rows that have one (T33d)."""
    return target if problem.present is None else target[problem.present]


def _rescaled(problem: Problem, target: Floats, limits: tuple[float, float]) -> Problem:
    """Return the problem with its target clipped to limits and mapped onto [-1, 1]."""
    target = rescale_target(target, limits)
    if problem.present is not None:  # a row without a target stays a row of zeros (T33d)
        target = np.where(problem.present, target, 0.0)
    return with_target(problem, target, problem.loss)
