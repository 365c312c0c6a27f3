"""How much a search or a sampler may spend, and what a stop at a limit means (T18)."""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dpsubset.clock import Watch, callback, watch_until
from dpsubset.errors import InputError, UnprovenError, without_context

__all__ = [
    "REFUSED",
    "Allowance",
    "Limits",
    "OutOfTime",
    "Progress",
    "ProgressCallback",
    "check_limits",
    "refusing",
]

REFUSED = (
    "the work ended at a limit before its answer was certain, so nothing is released; whether a "
    "limit is reached depends on the data, so count the budget as spent. Raise the limits, or make "
    "the problem easier: a larger ridge, fewer columns, a smaller size or epsilon"
)


@dataclass(frozen=True)
class Limits:
    """Limits on nodes and seconds; None is no limit.

    A search that reaches one says proven=False; a mechanism releases nothing.

    Seconds are looked at between pieces of work that take milliseconds, inside compiled loops too.
    Some pieces cannot be cut: a pass over the table, a factorisation, one call of scikit-learn, a
    function of the user, compiling on first use. They end before the clock is asked. Very long
    products are cut under such a limit, which may change their last digits.

    Parameters
    ----------
    nodes : int, optional
        The most nodes of a search tree, or pieces of work.
    seconds : float, optional
        The most seconds.

    Examples
    --------
    >>> Limits(seconds=10.0)
    Limits(nodes=None, seconds=10.0)
    """

    nodes: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("nodes", self.nodes), ("seconds", self.seconds)):
            number = isinstance(value, numbers.Real) and not isinstance(value, bool)
            if value is not None and not (number and value > 0):
                raise InputError(f"the limit on {name} must be larger than zero, not {value!r}")


@dataclass(frozen=True)
class Progress:
    """A report from a running search: for the owner's eyes only, it depends on the data.

    `open` counts the regions that wait; for an outside solver, the supports that were scored.

    Parameters
    ----------
    nodes : int
        Nodes that were looked at.
    open : int
        Regions that wait.
    best : float
        The best score found.
    bound : float
        What no support can be below.

    Examples
    --------
    >>> Progress(nodes=100, open=3, best=1.5, bound=1.25).best
    1.5
    """

    nodes: int
    open: int
    best: float
    bound: float


def check_limits(limits: Any) -> Limits | None:
    """Return limits, or say what they must be."""
    if limits is not None and not isinstance(limits, Limits):
        raise InputError(f"limits must be Limits(nodes=..., seconds=...) or None, not {limits!r}")
    return limits


ProgressCallback = Callable[[Progress], None]


class OutOfTime(UnprovenError):
    """The seconds are over, and work was given up half done: for a mechanism, a refusal."""

    def __init__(self) -> None:
        super().__init__(REFUSED)


@contextmanager
@without_context
def refusing() -> Iterator[None]:
    """Let all refusals look the same, tracebacks too: where work ended depends on the data."""
    try:
        yield
    except UnprovenError as error:
        raise UnprovenError(*error.args) from None


class Allowance:
    """What is left of the limits, shared by all parts of a job; also where progress goes."""

    def __init__(self, limits: Limits | None, progress: ProgressCallback | None = None) -> None:
        limits = check_limits(limits) or Limits()
        if progress is not None and not callable(progress):
            raise InputError("progress must be a function of one argument, or None")
        self._left = math.inf if limits.nodes is None else limits.nodes
        self.timed = limits.seconds is not None
        self._deadline, self._asked = math.inf, None
        if limits.seconds is not None:
            self._deadline = time.monotonic() + limits.seconds
            self._asked = callback(time.monotonic)
        self.watch: Watch = watch_until(self._deadline, self._asked)  # for compiled loops
        self._progress = progress
        self._spent = 0

    @property
    def over(self) -> bool:
        """Whether a limit is reached."""
        return self._left <= 0 or self._late

    @property
    def _stopped(self) -> bool:
        return bool(self.watch.state[2])

    @property
    def _late(self) -> bool:
        return self.timed and (self._stopped or time.monotonic() > self._deadline)

    def check(self) -> None:
        """Raise OutOfTime if the seconds are over."""
        if self._late:
            raise OutOfTime

    def check_watch(self) -> None:
        """Raise OutOfTime if a compiled loop was ended by the clock."""
        if self._stopped:
            raise OutOfTime

    @property
    def spent(self) -> int:
        """Nodes counted so far."""
        return self._spent

    @property
    def nodes(self) -> float:
        """Nodes left; infinite without a limit."""
        return self._left

    @property
    def seconds(self) -> float:
        """Seconds left; infinite without a limit."""
        return self._deadline - time.monotonic() if self.timed else math.inf

    def part(self, nodes: int | None) -> Limits:
        """Return limits for a part of the job: so many nodes, and the time that is left."""
        return Limits(nodes=nodes, seconds=max(self.seconds, 1e-3) if self.timed else None)

    def spend(self, nodes: int) -> None:
        """Count nodes."""
        self._left -= nodes
        self._spent += nodes

    def at_once(self, most: int) -> int:
        """Return how many nodes may be searched before limits are looked at again."""
        return int(max(1, min(most, self._left)))

    def report(self, waiting: int, best: float, bound: float) -> None:
        """Tell the callback, if there is one."""
        if self._progress is not None:
            self._progress(Progress(self._spent, waiting, best, bound))
