"""The list of the best supports so far: a heap with the worst on top, in plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled

__all__ = ["Heap", "leaf_nodes", "push", "worst"]


class Heap(NamedTuple):
    """The list, and a hash set of the keys of the supports on it.

    The set also holds some that left the list: they are worse than the threshold and never come
    back.
    """

    scores: Floats
    keys: NDArray[np.uint64]
    supports: NDArray[np.int64]
    seen: NDArray[np.uint64]
    used: NDArray[np.int64]  # one number: how full the set is


@compiled()
def worst(scores, filled):  # type: ignore[no-untyped-def]
    """Return the score to beat: the worst of a full list, infinity for one with room."""
    return scores[0] if filled == scores.size else np.inf


@compiled()
def _is_new(seen, used, key):  # type: ignore[no-untyped-def]
    """Put a key, never 0, into the set; False if it was there."""
    mask = np.uint64(seen.size - 1)
    i = key & mask
    while seen[i] != 0:
        if seen[i] == key:
            return False
        i = (i + np.uint64(1)) & mask
    seen[i] = key
    used[0] += 1
    return True


@compiled()
def push(heap, filled, score, key, support):  # type: ignore[no-untyped-def]
    """Put a support on the list, unless it is there or not good enough; return the new length."""
    scores, keys, supports, seen, used = heap
    room = scores.size
    if score >= worst(scores, filled) or not _is_new(seen, used, key):
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
    if 2 * used[0] > seen.size:  # start the set afresh from what is on the list
        seen[:] = 0
        used[0] = 0
        for i in range(filled):
            _is_new(seen, used, keys[i])
    return filled


@compiled()
def leaf_nodes(heap, filled, columns):  # type: ignore[no-untyped-def]
    """Return what a leaf of so many columns costs in nodes: nothing while the list has room."""
    return 1 + columns**3 // 512 if filled == heap.scores.size else 0
