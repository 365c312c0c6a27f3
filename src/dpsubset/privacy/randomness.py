"""Randomness: the operating system's unless a seed is given for an experiment (T20)."""

from __future__ import annotations

import math
import numbers
import os
import secrets
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpsubset.errors import InputError

__all__ = ["Randomness", "as_randomness"]

_DEEP = 8 * math.log(2.0)
_LOW = np.uint64((1 << 11) - 1)


class _Bits(Protocol):
    def words(self, count: int) -> NDArray[np.uint64]: ...

    def below(self, bound: int) -> int: ...


class _System:
    """The operating system's generator, asked anew each time.

    It keeps nothing: words kept for later would be drawn twice after a fork, from a copy or a
    pickle, or by two threads. Asking costs a microsecond, less than what is made of the words.
    """

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)

    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)


class _Seeded:
    """A reproducible generator, for experiments only."""

    def __init__(self, seed: int | np.random.Generator) -> None:
        self._generator = np.random.default_rng(seed)

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)

    def below(self, bound: int) -> int:
        bits = bound.bit_length()
        while True:  # rejection: no modulo bias
            value = int.from_bytes(self._generator.bytes((bits + 7) // 8), "little")
            value &= (1 << bits) - 1
            if value < bound:
                return value


class Randomness:
    """Uniform and exponential numbers, and whole numbers without bias.

    Parameters
    ----------
    bits : callable
        A source of random 64-bit words.
    seeded : bool
        Whether the source can be repeated.

    Examples
    --------
    >>> numbers = as_randomness(0)
    >>> numbers.seeded, 0 <= numbers.below(6) < 6, numbers.uniforms(3).shape
    (True, True, (3,))
    """

    def __init__(self, bits: _Bits, seeded: bool) -> None:
        self._bits = bits
        self.seeded = seeded

    def uniforms(self, count: int) -> NDArray[np.float64]:
        """Return independent uniform numbers, never 0 or 1.

        Multiples of 2^-53, and below 2^-11 of 2^-64: U < p has chance p for every such p.
        """
        return _as_uniform(self._bits.words(count))

    def exponential(self) -> float:
        """Return an exponential number of mean 1, its tail not cut off by 53 bits."""
        return float(self.exponentials(1)[0])

    def exponentials(self, count: int) -> NDArray[np.float64]:
        """Return independent exponential numbers of mean 1.

        -log(1 - U) has the fine grid of U at 0, so that E > x has chance exp(-x) also for tiny x.
        Beyond 8 ln 2 the distribution starts afresh (it has no memory), so that 53 bits do
        not end it.
        """
        values = -np.log1p(-_as_uniform(~self._bits.words(count)))
        deep = np.flatnonzero(values >= _DEEP)
        if deep.size:
            values[deep] = _DEEP + self.exponentials(deep.size)
        return np.asarray(values)

    def laplaces(self, count: int) -> NDArray[np.float64]:
        """Return independent Laplace numbers of scale 1: differences of two exponential ones."""
        return self.exponentials(count) - self.exponentials(count)

    def normals(self, count: int) -> NDArray[np.float64]:
        """Return independent standard normal numbers, in pairs of a radius and an angle."""
        pairs = (count + 1) // 2
        radius = np.sqrt(2.0 * self.exponentials(pairs))
        angle = 2.0 * np.pi * self.uniforms(pairs)
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]

    def below(self, bound: int) -> int:
        """Return a uniform whole number in 0, ..., bound - 1."""
        return self._bits.below(bound)

    def belows(self, bound: int, count: int) -> NDArray[np.int64]:
        """Return independent uniform whole numbers in 0, ..., bound - 1; bound at most 2^62."""
        mask = np.uint64((1 << (bound - 1).bit_length()) - 1)
        out = np.empty(count, dtype=np.int64)
        missing = np.arange(count)
        while missing.size:  # rejection: no modulo bias
            values = self._bits.words(missing.size) & mask
            kept = values < bound
            out[missing[kept]] = values[kept]
            missing = missing[~kept]
        return out

    def permutation(self, count: int) -> NDArray[np.intp]:
        """Return 0, ..., count - 1 in uniformly random order."""
        while True:
            keys = self._bits.words(count)
            order = np.argsort(keys)
            if (np.diff(keys[order]) > 0).all():  # equal keys would favour their first order
                return order


def _as_uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return words as numbers in (0, 1), rounded down to 53 bits: none becomes 1.

    >>> _as_uniform(np.array([0, 1, 2**63, 2**64 - 1], dtype=np.uint64)).tolist()
    [2.710505431213761e-20, 5.421010862427522e-20, 0.5, 0.9999999999999999]
    """
    kept = np.where(words >> np.uint64(53), words & ~_LOW, words)  # all are exact in float64
    return np.asarray(np.maximum(kept.astype(np.float64), 0.5) * 2.0**-64)


def as_randomness(random_state: int | np.random.Generator | None) -> Randomness:
    """Return the operating system's randomness for None, else a seeded one.

    Parameters
    ----------
    random_state : None, int or numpy.random.Generator
        None for a real release.

    Returns
    -------
    Randomness
        The source.

    Examples
    --------
    >>> as_randomness(None).seeded, as_randomness(7).seeded
    (False, True)
    """
    if random_state is None:
        return Randomness(_System(), seeded=False)
    whole = isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool)
    if not isinstance(random_state, np.random.Generator) and not (whole and random_state >= 0):
        raise InputError(
            f"random_state must be None, a whole number of at least 0 or a numpy Generator, not "
            f"{random_state!r}"
        )
    return Randomness(_Seeded(random_state), seeded=True)
