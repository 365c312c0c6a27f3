"""What is drawn before the columns: bounds of the target (T37), and an offset (T39)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsubset.data.bounds import narrowed, rescale_target
from dpsubset.data.target import ANY
from dpsubset.mechanisms.offset import PrivateOffset, moved, with_target
from dpsubset.mechanisms.target_bounds import TargetBounds
from dpsubset.privacy import Guarantee, Randomness
from dpsubset.privacy.guarantee import decimal_sum
from dpsubset.problem import Problem

__all__ = ["FirstDraws"]

Limits = tuple[float, float] | None


@dataclass(frozen=True)
class FirstDraws:
    """Bounds of the target and an offset of all predictions, each of them drawn or not.

    `limits` are the public bounds of the target; None for labels. `clip` narrows bounds of either
    kind.
    """

    bounds: TargetBounds | None
    offset: PrivateOffset | None
    limits: Limits
    clip: float

    def __bool__(self) -> bool:
        return self.bounds is not None or self.offset is not None

    @property
    def epsilon(self) -> float:
        """What they spend together."""
        parts = (self.bounds, self.offset)
        return decimal_sum([part.epsilon for part in parts if part is not None])

    def guarantees(self, problem: Problem) -> list[Guarantee]:
        """Return what is guaranteed of each."""
        parts = (self.bounds, self.offset)
        return [part.guarantee(problem) for part in parts if part is not None]

    def bounded(self, problem: Problem, randomness: Randomness) -> tuple[Limits, Problem]:
        """Return the bounds of the target, drawn if need be, and the problem within them."""
        if self.bounds is None:
            return self.limits, problem
        raw, present = problem.y * ANY[1], problem.present
        limits = self.bounds.draw(raw if present is None else raw[present], randomness)
        return limits, self.within(problem, limits)

    def within(self, problem: Problem, limits: tuple[float, float]) -> Problem:
        """Return a problem, read on the widest bounds, within others."""
        target = rescale_target(problem.y * ANY[1], narrowed(limits, self.clip))
        if problem.present is not None:  # a row without a target stays a row of zeros (T33d)
            target = np.where(problem.present, target, 0.0)
        return with_target(problem, target, problem.loss)

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
