"""Uniform supports by number: every support of a problem has one (combinatorial number system)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["rank", "skip", "unrank"]


def rank(subset: Sequence[int]) -> int:
    """Return the number of an increasing tuple among all of its length.

    >>> [rank(c) for c in ((0, 1), (0, 2), (1, 2), (0, 3))]
    [0, 1, 2, 3]
    """
    return sum(math.comb(c, k + 1) for k, c in enumerate(subset))


def unrank(number: int, size: int, n: int) -> tuple[int, ...]:
    """Return the increasing tuple below n with that number.

    >>> unrank(3, 2, 5)
    (0, 3)
    """
    out = []
    high = n
    for k in range(size, 0, -1):
        low, top = k - 1, high
        while top - low > 1:  # the largest c below `high` with comb(c, k) <= number
            middle = (low + top) // 2
            if math.comb(middle, k) <= number:
                low = middle
            else:
                top = middle
        out.append(low)
        number -= math.comb(low, k)
        high = low
    return tuple(reversed(out))


def skip(position: int, taken: Sequence[int]) -> int:
    """Return the number at a position among those not in the sorted list `taken`.

    >>> [skip(i, [1, 2, 5]) for i in range(4)]
    [0, 3, 4, 6]
    """
    low, high = 0, len(taken)
    while low < high:  # how many taken numbers come before it
        middle = (low + high) // 2
        if taken[middle] - middle <= position:
            low = middle + 1
        else:
            high = middle
    number = position + low
    assert bisect_left(taken, number) == len(taken) or taken[bisect_left(taken, number)] != number
    return number
