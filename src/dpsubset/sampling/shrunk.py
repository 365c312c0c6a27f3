"""One feature's coefficients at a multiplier of the l1 ball, by its own equations (T24j)."""

from __future__ import annotations

from dpsubset.compiled import compiled

__all__ = ["own_curve", "shrunk"]

_PASSES = 6  # over a feature's coefficients; any numbers serve
_STILL = 1e-3  # of the largest coefficient: changes that need no further pass


@compiled(nogil=True)
def own_curve(alone, g, mu, i, j):  # type: ignore[no-untyped-def]
    """Return an entry of a feature's own equations G_gg + ridge + mu."""
    out = 0.0
    for k in range(alone.starts[g + 1] - alone.starts[g]):
        out += alone.vectors[g, k, i] * alone.vectors[g, k, j] * (alone.values[g, k] + mu)
    return out


@compiled(nogil=True, error_model="numpy")
def shrunk(alone, g, numbers, beta, left, first, change, room):  # type: ignore[no-untyped-def]
    """Fill in how a feature's coefficients change when each is fitted to what is left in turn.

    What is left of the feature follows. The room is for its equations.
    """
    mu, weight, width = numbers[0], numbers[3], alone.starts[g + 1] - alone.starts[g]
    for i in range(width):
        for j in range(i + 1):
            room[i, j] = room[j, i] = own_curve(alone, g, mu, i, j)
    for j in range(change.size):
        change[j] = 0.0
    for _ in range(_PASSES):
        largest, moved = 0.0, 0.0
        for j in range(width):
            v = left[first + j]
            for i in range(width):
                v -= room[j, i] * change[i]
            old = beta[first + j] + change[j]
            v += room[j, j] * old
            v = (max(v - weight, 0.0) + min(v + weight, 0.0)) / room[j, j]
            change[j] += v - old
            largest, moved = max(largest, abs(v)), max(moved, abs(v - old))
        if moved <= _STILL * largest:
            break
    for j in range(width):
        if beta[first + j] + change[j] == 0.0:
            change[j] = -beta[first + j]
    for j in range(width):
        for i in range(width):
            left[first + j] -= room[j, i] * change[i]
