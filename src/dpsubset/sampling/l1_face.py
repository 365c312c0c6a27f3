"""All coefficients of a trial fit on their face of the l1 ball at once (T24j).

Where features overlap, fits of one after the other come nearer slowly. The coefficients that are
not 0, with their signs, solve one system of equations, and the ball's multiplier with them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled
from dpsubset.losses.ball import backward, factor, forward
from dpsubset.sampling.trials import count

__all__ = ["Face", "to_face"]

_TRUST = 1e-9  # smallest pivot, against its diagonal; any numbers serve


class Face(NamedTuple):
    """Room for the equations of a face."""

    where: NDArray[np.int64]  # the coefficients that are not 0
    block: Floats  # their products
    root: Floats
    ways: Floats  # what is left and the signs, by these equations; the change of all coefficients

    @classmethod
    def of(cls, k: int) -> Face:
        """Return room for so many coefficients."""
        return cls(
            np.zeros(k, dtype=np.int64), np.zeros((k, k)), np.zeros((k, k)), np.zeros((3, k))
        )


@compiled(nogil=True, counts=False, error_model="numpy")
def _equations(trial, face, which, at, penalty):  # type: ignore[no-untyped-def]
    """Fill in the products of the coefficients that are not 0, and return how many they are."""
    beta, where, block, products = trial.beta[which], face.where, face.block, trial.products
    strip, c, m = trial.strip, trial.change.size, 0
    low = at * c if which == 1 else beta.size  # the products there are of another feature
    for i in range(beta.size):
        if beta[i] != 0.0:
            where[m] = i
            m += 1
    for r in range(m):
        i = where[r]
        for q in range(r + 1):
            j = where[q]
            if low <= i < low + c:
                block[r, q] = strip[i - low, j]
            elif low <= j < low + c:
                block[r, q] = strip[j - low, i]
            else:
                block[r, q] = products[i, j]
        block[r, r] += penalty
    return m


@compiled(nogil=True, counts=False, error_model="numpy")
def _move(trial, which, at, change, penalty):  # type: ignore[no-untyped-def]
    """Change all coefficients, and what they leave; return how far."""
    beta, left, own, strip = trial.beta[which], trial.left[which], trial.short, trial.strip
    products, c, length = trial.products, trial.change.size, 0.0
    new, first = which == 1, at * c
    for j in range(c):
        own[j] = left[first + j]
    for q in range(beta.size):
        x = change[q]
        if x == 0.0:
            continue
        length += x * x
        row = strip[q - first] if new and first <= q < first + c else products[q]
        for i in range(beta.size):
            left[i] -= x * row[i]
    if new:  # the products at that place are of what stands here
        for j in range(c):
            v = own[j]
            for i in range(beta.size):
                v -= strip[j, i] * change[i]
            left[first + j] = v
    for i in range(beta.size):
        beta[i] += change[i]
        left[i] -= penalty * change[i]
    return np.sqrt(length)


@compiled(nogil=True, counts=False, error_model="numpy")
def to_face(alone, norm, trial, face, which, at):  # type: ignore[no-untyped-def]
    """Fit all coefficients that are not 0 to the ball, at its multiplier for them.

    One that would change its sign becomes 0. Return whether there was anything to do.
    """
    beta, left, numbers = trial.beta[which], trial.left[which], trial.numbers[which]
    penalty, radius = norm.ridge + numbers[0], norm.radius
    m = _equations(trial, face, which, at, penalty)
    root, where, change = face.root[:m, :m], face.where, face.ways[2]
    if m == 0 or not factor(face.block[:m, :m], 0.0, _TRUST, root):
        return False
    free, signs = face.ways[0, :m], face.ways[1, :m]
    size, reached, slope = 0.0, 0.0, 0.0
    for r in range(m):
        free[r] = left[where[r]]
        signs[r] = np.copysign(1.0, beta[where[r]])
        size += abs(beta[where[r]])
    forward(root, free)
    forward(root, signs)
    for r in range(m):
        reached += signs[r] * free[r]
        slope += signs[r] * signs[r]
    weight = max((size + reached - radius) / slope, 0.0)
    for r in range(m):
        free[r] -= weight * signs[r]
    backward(root, free)
    change[:] = 0.0
    for r in range(m):
        i = where[r]
        change[i] = free[r] if (beta[i] + free[r]) * beta[i] > 0.0 else -beta[i]
    numbers[3] = numbers[4] = weight
    count(numbers, alone.numbers[4], _move(trial, which, at, change, penalty))
    return True
