"""Replay: the same random bits on neighbouring tables, and all that could tell them apart.

A distribution says nothing of refusals, warnings, printed words or random numbers used. Here a
release is made again and again with one seed, and everything but the released support must be the
same.
"""

from __future__ import annotations

import contextlib
import io
import logging
import pickle
import random
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dpsubset.errors import RefusedError
from dpsubset.mechanisms import Mechanism
from dpsubset.privacy import Guarantee
from dpsubset.problem import Problem

__all__ = ["Difference", "ReplayReport", "replay"]

Run = Callable[[Problem, np.random.Generator], object]

_HARMLESS = {  # what a difference of this kind means
    "random numbers": "more or fewer random numbers were used, as rejection does: visible in the "
    "running time, and to anyone who watches the generator",
    "covered refusal": "a test that is part of the mechanism refused; the guarantee covers it",
}


@dataclass(frozen=True)
class _Seen:
    """What a release showed besides the support."""

    ending: str
    guarantee: str
    warnings: tuple[str, ...]
    printed: str
    logged: tuple[str, ...]
    state: str  # of the generator, afterwards
    global_state: bool  # whether somebody else's generators were used


@dataclass(frozen=True)
class Difference:
    """Something but the release that differs between the first table and a neighbour.

    Parameters
    ----------
    kind : str
        What differs: an exception, a warning, printed text, the generator.
    neighbour : int
        Which neighbour, counted from 0.
    first : str
        What was seen with the first table.
    other : str
        What was seen with the neighbour.

    Examples
    --------
    >>> Difference("printed words", 3, "a", "b").neighbour
    3
    """

    kind: str
    neighbour: int
    first: str
    other: str

    @property
    def harmless(self) -> bool:
        """Whether the guarantee covers it, or only the running time shows it."""
        return self.kind in _HARMLESS

    def __str__(self) -> str:
        if self.harmless:
            return f"neighbour {self.neighbour}: {_HARMLESS[self.kind]}"
        return f"neighbour {self.neighbour}: {self.kind} differ: {self.first!r}, {self.other!r}"


@dataclass(frozen=True)
class ReplayReport:
    """What differed, and how many neighbours were tried.

    Parameters
    ----------
    differences : tuple of Difference
        What differed; empty, if nothing did.
    neighbours : int
        How many neighbours were tried.

    Examples
    --------
    >>> ReplayReport((), neighbours=5).passed
    True
    """

    differences: tuple[Difference, ...]
    neighbours: int

    @property
    def passed(self) -> bool:
        """Whether nothing differs but what is harmless."""
        return all(difference.harmless for difference in self.differences)

    def __str__(self) -> str:
        said = "PASSED" if self.passed else "VIOLATED"
        kinds = dict.fromkeys(difference.kind for difference in self.differences)
        counts = [f"{k}: {sum(d.kind == k for d in self.differences)}" for k in kinds]
        lines = [
            f"Replay: {said}. {self.neighbours} neighbours with the same random bits; differences: "
            f"{', '.join(counts) or 'none'}."
        ]
        shown = [d for d in self.differences if not d.harmless]
        return "\n".join([*lines, *map(str, shown[:5])])


def replay(
    mechanism: Mechanism | Run,
    problem: Problem,
    neighbours: Iterable[Problem],
    random_state: int = 0,
) -> ReplayReport:
    """Make the same release, with the same random bits, from a table and its neighbours.

    Compared are exceptions and their words, the guarantee, warnings, printed and logged text, and
    the state of the generator afterwards. A function gets a problem and a generator.

    Parameters
    ----------
    mechanism : Mechanism or callable
        What is audited; a function gets a problem and a generator.
    problem : Problem
        The first table.
    neighbours : iterable of Problem
        Its neighbours.
    random_state : int
        The random bits that all share.

    Returns
    -------
    ReplayReport
        What differed.

    Examples
    --------
    >>> from dpsubset import Exponential, Problem
    >>> X = np.eye(3); problem = Problem(X, X[:, 0], size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> other = Problem(-X, X[:, 0], size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> replay(Exponential(1.0), problem, [other]).passed
    True
    """
    if isinstance(mechanism, Mechanism):
        run: Run = mechanism.experiment
        may_refuse = mechanism.guarantee(problem).delta > 0  # only with a delta is it covered
    else:
        run, may_refuse = mechanism, True
    _observe(run, problem, random_state)  # libraries that load now may use what they like
    first = _observe(run, problem, random_state)
    found: list[Difference] = []
    count = 0
    for count, neighbour in enumerate(neighbours, 1):
        other = _observe(run, neighbour, random_state)
        found += _compared(first, other, count - 1, may_refuse)
    return ReplayReport(tuple(found), count)


def _compared(first: _Seen, other: _Seen, number: int, may_refuse: bool) -> list[Difference]:
    found = []
    one_text = first.ending == "released" or other.ending == "released"
    for field in fields(_Seen):
        a, b = getattr(first, field.name), getattr(other, field.name)
        if field.name == "global_state" and (a or b):
            found.append(Difference("global random states", number, str(a), str(b)))
        elif field.name == "state" and a != b:
            if first.ending == other.ending:  # who stopped early drew less: that is said already
                found.append(Difference("random numbers", number, "", ""))
        elif a != b and (field.name != "guarantee" or first.ending == other.ending):
            refusals = {a.partition(":")[0], b.partition(":")[0]} if field.name == "ending" else {}
            covered = may_refuse and one_text and refusals == {"released", RefusedError.__name__}
            kind = "covered refusal" if covered else _NAMES[field.name]
            found.append(Difference(kind, number, str(a), str(b)))
    return found


_NAMES = {
    "ending": "endings",
    "guarantee": "guarantees",
    "warnings": "warnings",
    "printed": "printed words",
    "logged": "logged words",
}


class _Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(f"{record.name}: {record.getMessage()}")


def _observe(run: Run, problem: Problem, seed: int) -> _Seen:
    generator, printed, log = np.random.default_rng(seed), io.StringIO(), _Log()
    before = _global_state()
    root = logging.getLogger()
    level = root.level
    root.addHandler(log)
    root.setLevel(logging.NOTSET)
    ending, promise = "released", ""
    try:
        with (
            warnings.catch_warnings(record=True) as warned,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("always")
            try:
                promise = _told(getattr(run(problem, generator), "guarantee", None))
            except Exception as error:
                ending = f"{type(error).__name__}: {error}"
    finally:
        root.removeHandler(log)
        root.setLevel(level)
    return _Seen(
        ending,
        promise,
        tuple(f"{w.category.__name__}: {w.message}" for w in warned),
        printed.getvalue(),
        tuple(log.said),
        str(generator.bit_generator.state),
        _global_state() != before,
    )


def _told(guarantee: object) -> str:
    return str(guarantee.to_dict() if isinstance(guarantee, Guarantee) else guarantee)


def _global_state() -> tuple[Any, bytes]:
    return random.getstate(), pickle.dumps(np.random.get_state(legacy=False))  # noqa: NPY002
