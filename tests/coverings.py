"""Coverings whose parts are small, and of one kind: for tests of draws over all supports (T41)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dpsubset.cuts import walk
from dpsubset.sampling import covering as covering_module
from dpsubset.sampling.covering import Covering

WAYS = ("kept", "streamed", "common")
_EVERYTHING = 10**9


@dataclass
class Watched:
    """What became of draws: by which kind of part they were scored, and what was made of parts."""

    scored: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))
    accepted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))
    made: list[Covering] = field(default_factory=list)
    divided: int = 0
    kept: int = 0
    expanded: int = 0
    singles: int = 0


def take_way(
    monkeypatch: pytest.MonkeyPatch, way: str, *, most: int = 6, more: float = 3.0
) -> None:
    """Make parts of at most so many supports; of the way "common", light ones by `more` nats more.

    The constants are compiled into the survey, so that it is interpreted.
    """
    plain = getattr(walk.survey, "py_func", walk.survey)
    common = way == "common"
    monkeypatch.setattr(walk, "MOST_IN_A_PART", most)
    monkeypatch.setattr(walk, "FEW_IN_A_PART", most)
    monkeypatch.setattr(walk, "FEWEST_IN_ONE", 1 if common else _EVERYTHING)
    if way == "streamed":
        monkeypatch.setattr(covering_module, "_KEPT", 0)
    if common:
        monkeypatch.setattr(covering_module, "_FINER", 1)
        monkeypatch.setattr(covering_module, "_DIRECT", 0)
        monkeypatch.setattr(covering_module, "_AHEAD", -math.inf)  # in a race, too

    def survey(tails: walk.Tails, t: int, kappa: float, light: float, *rest: Any) -> Any:
        return plain(tails, t, kappa, light + (more if common else 0.0), *rest)

    monkeypatch.setattr(walk, "survey", survey)


def watch(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Take note of what coverings do from now on."""
    seen = Watched()
    truly = {
        name: getattr(Covering, name)
        for name in ("__init__", "_decide", "_divide", "_keep", "_expand", "_open")
    }

    def init(self: Covering, *args: Any, **options: Any) -> None:
        seen.made.append(self)
        truly["__init__"](self, *args, **options)

    def decide(self: Covering, at: int, *args: Any) -> bool:
        way = "kept"
        if at < 0:
            way = "common" if self._parts.offset[-1 - at] == walk.COMMON else "streamed"
        seen.scored[way] += 1
        good = truly["_decide"](self, at, *args)
        seen.accepted[way] += good
        return bool(good)

    def divide(self: Covering, r: int) -> None:
        seen.divided += 1
        truly["_divide"](self, r)

    def keep(self: Covering, which: Any) -> None:
        seen.kept += which.size
        truly["_keep"](self, which)

    def expand(self: Covering, support: Any) -> None:
        seen.expanded += 1
        truly["_expand"](self, support)

    def opened(self: Covering) -> None:
        before = len(self._singles)
        truly["_open"](self)
        seen.singles += len(self._singles) - before

    changed = (init, decide, divide, keep, expand, opened)
    for name, function in zip(truly, changed, strict=True):
        monkeypatch.setattr(Covering, name, function)
    return seen


def bounds_of(covering: Covering) -> dict[tuple[int, ...], list[float]]:
    """Return for every support all bounds that a covering gives it: one, if it is right.

    A support that was set free has its score, and infinity in its part.
    """
    parts, t, k = covering._parts, covering.problem.to_choose, covering._order.size
    found: dict[tuple[int, ...], list[float]] = {}

    def add(chosen: Any, bound: float) -> None:
        support = tuple(covering._support(np.array(chosen, dtype=np.int64)).tolist())
        if support not in covering._free:
            found.setdefault(support, []).append(bound)

    for r in range(parts.length.size):
        length, start = int(parts.length[r]), int(parts.start[r])
        prefix = parts.prefix[r, :length].tolist()
        own = [(*prefix, *rest) for rest in combinations(range(start, k), t - length)]
        if parts.offset[r] == walk.COMMON:
            bounds = np.full(len(own), covering._lows[r])
        elif parts.offset[r] == walk.STREAMED:
            form = covering._forms[int(covering._served[r])]
            bounds = np.full(len(own), -math.inf)
            walk.fill_part(form, t, parts, r, walk.levels(form, t), bounds, 0)
        else:
            first = int(parts.offset[r])
            bounds = covering._bounds[first : first + int(parts.size[r])]
        for chosen, bound in zip(own, bounds, strict=True):
            add(chosen, float(bound))
    for support, weight in zip(covering._singles, covering._weights, strict=True):
        found.setdefault(tuple(support.tolist()), []).append(-float(weight) / covering.kappa)
    return found
