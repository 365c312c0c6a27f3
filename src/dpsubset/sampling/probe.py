"""Random numbers that only tell how fast a sampler is; no release depends on them."""

from __future__ import annotations

import numpy as np

from dpsubset.arrays import Floats

__all__ = ["Probe"]


class Probe:
    """The same numbers every time, so that the same table is served by the same sampler."""

    def __init__(self) -> None:
        self._generator = np.random.default_rng(0)

    def uniforms(self, count: int) -> Floats:
        """Return independent uniform numbers in (0, 1)."""
        return np.asarray(1.0 - self._generator.random(count))

    def exponential(self) -> float:
        """Return an exponential number of mean 1."""
        return float(self._generator.exponential())

    def exponentials(self, count: int) -> Floats:
        """Return independent exponential numbers of mean 1."""
        return np.asarray(self._generator.exponential(size=count))

    def below(self, bound: int) -> int:
        """Return a uniform whole number in 0, ..., bound - 1."""
        return int(self._generator.random() * bound)
