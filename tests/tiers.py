"""Which cases of a grid are run: first those that show all values of its axes, then all pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

__all__ = ["sample", "value"]

Case = Mapping[str, Hashable]  # the value on every axis


def sample(cases: Sequence[Case], every: int, of: int = 1) -> tuple[list[int], list[int]]:
    """Return the cases that are run at all, and those of them that the first tier runs.

    One in `of` is run, and more where a value would not come up; one of these in `every` is quick.
    """
    count = -(-len(cases) // of)
    run = list(range(count)) if of == 1 else _spread(cases, count, whole=True)
    first = -(-len(run) // every)
    return sorted(run), sorted(_spread(cases, first) if of == 1 else run[:first])


def _spread(cases: Sequence[Case], count: int, *, whole: bool = False) -> list[int]:
    """Choose cases one after the other, each with as much as possible that did not come up yet.

    Among equals, the one whose values came up least.
    """
    values = [set(case.items()) for case in cases]
    pairs = [set(combinations(sorted(case.items(), key=lambda i: i[0]), 2)) for case in cases]
    missing = set().union(*values) if whole else set()
    left, chosen = list(range(len(cases))), list[int]()
    seen: set[Any] = set()
    met: Counter[Any] = Counter()

    def worth(i: int) -> tuple[int, int, int]:
        new = len(values[i] - seen), len(pairs[i] - seen)
        return *new, -sum(met[one] for one in values[i])

    while left and (len(chosen) < count or missing):
        best = max(left, key=worth)
        if seen and not (values[best] | pairs[best]) - seen:
            seen.clear()  # all pairs came up: once more
            continue
        left.remove(best)
        chosen.append(best)
        seen |= values[best] | pairs[best]
        met.update(values[best])
        missing -= values[best]
    return chosen


def value(parameter: Any) -> Hashable:
    """Return what tells a parameter from others on its axis."""
    while isinstance(parameter, partial):
        parameter = parameter.func
    shown = getattr(parameter, "__qualname__", None) or repr(parameter)
    return id(parameter) if "<" in shown or len(shown) > 1000 else shown
