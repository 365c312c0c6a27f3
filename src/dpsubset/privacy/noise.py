"""Laplace noise on released numbers, by OpenDP's samplers, which are safe in floating point."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.errors import MissingExtraError, without_context
from dpsubset.privacy.randomness import Randomness

__all__ = ["add_laplace", "opendp"]


@without_context
def opendp() -> Any:
    """Return the library, or say how to get it."""
    try:
        import opendp.prelude as dp
    except ImportError:
        raise MissingExtraError(
            "noisy statistics draw their noise by OpenDP: pip install 'dpsubset[opendp]'"
        ) from None
    dp.enable_features("contrib")
    return dp


def add_laplace(
    values: Floats, sensitivity: float, epsilon: float, randomness: Randomness
) -> Floats:
    """Return the values with Laplace noise that makes them epsilon-private.

    `sensitivity` bounds how far one row moves the vector in the l1 norm. OpenDP draws on a grid in
    whole-number arithmetic, where floating-point noise would leave traces in the last bits. It has
    no seeds: a seeded experiment adds plain floating-point noise of the same scale.

    >>> from dpsubset.privacy import as_randomness
    >>> add_laplace(np.ones(2), 1.0, 1e9, as_randomness(0)).round(6)
    array([1., 1.])
    """
    scale = sensitivity / epsilon
    if randomness.seeded:
        return np.asarray(values + scale * randomness.laplaces(values.size))
    dp = opendp()
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    measurement = dp.m.make_laplace(*space, scale=scale)
    while float(measurement.map(sensitivity)) > epsilon:  # by rounding
        scale = math.nextafter(scale, math.inf)
        measurement = dp.m.make_laplace(*space, scale=scale)
    return np.array(measurement(values.tolist()), dtype=np.float64)
