"""The table of losses that all tests of this folder share: a new loss is a new row."""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf

import numpy as np
from numba import config

from dpsubset.arrays import Floats
from dpsubset.losses import (
    Absolute,
    Brier,
    Hinge,
    Huber,
    HuberHinge,
    HuberLogistic,
    Logistic,
    Loss,
    Quantile,
    Squared,
)


@dataclass(frozen=True)
class Case:
    """A loss and the ends of its conjugate's domain for a target y."""

    loss: Loss
    domain: Callable[[float], tuple[float, float]]

    def __str__(self) -> str:
        return repr(self.loss)

    def targets(self, size: int, rng: np.random.Generator, bound: float = 1.0) -> Floats:
        if self.loss.classification:
            return rng.choice([-1.0, 1.0], size)
        return rng.uniform(-bound, bound, size)


def _labels(y: float) -> tuple[float, float]:
    return min(-y, 0.0), max(-y, 0.0)


CASES = [
    Case(Squared(), lambda y: (-inf, inf)),
    Case(Absolute(), lambda y: (-1.0, 1.0)),
    Case(Quantile(0.3), lambda y: (-0.3, 0.7)),
    Case(Quantile(0.9), lambda y: (-0.9, 1.0 - 0.9)),
    Case(Huber(0.1), lambda y: (-0.2, 0.2)),
    Case(Huber(5), lambda y: (-10.0, 10.0)),
    Case(Brier(), lambda y: (-inf, inf)),
    Case(Hinge(), _labels),
    Case(HuberHinge(0.5), _labels),
    Case(HuberHinge(2.0), _labels),
    Case(Logistic(), _labels),
    Case(HuberLogistic(0.5), lambda y: tuple(end / (1.0 + exp(-0.5)) for end in _labels(y))),
]


def size(full: int, interpreted: int) -> int:
    """Return how much a test may do: less where compiled functions run as plain Python."""
    return interpreted if config.DISABLE_JIT else full


def penalty(v: Floats, ridge: float, radius: float) -> float:
    """Return the largest -v'beta - ridge |beta|^2 over the ball, by another formula than the fit's.

    The best beta points along -v, so one number is left: its length.
    """
    steep = float(np.linalg.norm(v))
    length = radius if ridge == 0.0 else min(radius, steep / (2.0 * ridge))
    return steep * length - ridge * length**2
