"""The list of the best supports so far: a heap with the worst on top, in plain arrays."""

from __future__ import annotations

from numba import njit

__all__ = ["push", "worst"]


@njit(cache=True)
def worst(scores, filled):  # type: ignore[no-untyped-def]
    """Return the score to beat: the worst of a full list, infinity for one with room."""
    return scores[0] if filled == scores.size else float("inf")


@njit(cache=True)
def push(heap, filled, score, key, support):  # type: ignore[no-untyped-def]
    """Put a support on the list, unless it is there or not good enough; return the new length."""
    scores, keys, supports = heap
    room = scores.size
    if filled == room and score >= scores[0]:
        return filled
    for i in range(filled):
        if keys[i] == key:
            return filled
    if filled < room:
        i = filled
        filled += 1
        while i > 0 and scores[(i - 1) // 2] < score:
            parent = (i - 1) // 2
            scores[i], keys[i], supports[i] = scores[parent], keys[parent], supports[parent]
            i = parent
    else:
        i = 0
        while True:
            child = 2 * i + 1
            if child >= room:
                break
            if child + 1 < room and scores[child + 1] > scores[child]:
                child += 1
            if scores[child] <= score:
                break
            scores[i], keys[i], supports[i] = scores[child], keys[child], supports[child]
            i = child
    scores[i], keys[i] = score, key
    supports[i] = support
    return filled
