"""One feature's coefficients at a multiplier of the l1 ball, by its own equations (T24j)."""

from __future__ import annotations

from dpsubset.compiled import compiled

__all__ = ["own_curve", "shrunk"]

_PASSES = 3  # over a feature's coefficients; any numbers serve
_STILL = 0.03  # of the largest coefficient: changes that need no further pass


@compiled(nogil=True, counts=False)
def own_curve(alone, g, mu, i, j):  # type: ignore[no-untyped-def]
    """Return an entry of a feature's own equations G_gg + ridge + mu."""
    out = 0.0
    for k in range(alone.starts[g + 1] - alone.starts[g]):
        out += alone.vectors[g, k, i] * alone.vectors[g, k, j] * (alone.values[g, k] + mu)
    return out


@compiled(nogil=True, counts=False, error_model="numpy")
def shrunk(own, width, weight, beta, left, first, change):  # type: ignore[no-untyped-def]
    """Fill in how a feature's coefficients change when each is fitted to what is left in turn.

    Its own equations are given, of so many columns; more of them are padding.
    """
    for j in range(change.size):
        change[j] = 0.0
    for _ in range(_PASSES):
        largest, moved = 0.0, 0.0
        for j in range(width):
            v = left[first + j]
            for i in range(width):
                v -= own[j, i] * change[i]
            old = beta[first + j] + change[j]
            v += own[j, j] * old
            v = (max(v - weight, 0.0) + min(v + weight, 0.0)) / own[j, j]
            change[j] += v - old
            largest, moved = max(largest, abs(v)), max(moved, abs(v - old))
        if moved <= _STILL * largest:
            break
    for j in range(width):
        if beta[first + j] + change[j] == 0.0:
            change[j] = -beta[first + j]
