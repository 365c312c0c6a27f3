"""What is chosen where nothing is said: loss, radius, ridge and window, by public rules (T44)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from dpsubset.data.target import Target
from dpsubset.errors import InputError
from dpsubset.losses import Huber, as_loss
from dpsubset.question import WINDOWED, Question, default_loss, default_radius

__all__ = ["AUTO", "Ruled", "default_row_ridge", "ruled"]

AUTO = "auto"
_MANY = 1000.0  # epsilon n from which numbers are selected within a window
_WINDOW = 200.0  # epsilon n that a window needs
_STRAIGHT = 0.05  # ridge for every row of losses of numbers that do not bend (T47)
_LITTLE_BENT = 0.1  # Huber's losses up to this bend are hardly other than straight ones
_LABELS = {"logistic": 0.002, "huber_hinge": 0.005}  # the same of losses of labels that bend little
_LEAST_WINDOW, _MOST_WINDOW = 0.001, 0.1  # of epsilon


class Ruled(NamedTuple):
    """What a selection is asked with; `awaiting` names what the number of rows may change."""

    loss: Any
    radius: Any
    row_ridge: Any
    window_share: Any
    awaiting: tuple[str, ...]


def ruled(
    asked: Question,
    target: Target,
    size: Callable[[], int],
    budget: Callable[[], float | None],
) -> Ruled:
    """Return loss, radius, ridge and window of a question: as given, the others by rule.

    `size` tells the largest size, and may refuse; `budget` epsilon times the number of rows, None
    where public rules do not know it. What is no number is left as it is, to be refused with all
    else that is bad.

    >>> numbers = Target((0.0, 1.0))
    >>> ruled(Question(), numbers, lambda: 5, lambda: 2000.0)[:3]
    ('squared', 0.6124, 0.0)
    >>> ruled(Question(), numbers, lambda: 5, lambda: 500.0)[:3]
    ('huber:0.2', 0.5, 0.0)
    >>> ruled(Question(loss="absolute"), numbers, lambda: 5, lambda: 500.0)[:3]
    ('absolute', 0.5, 0.05)
    >>> ruled(Question(), Target(None, ("no", "yes")), lambda: 5, lambda: 500.0)[:3]
    ('brier', 0.4082, 0.0)
    """
    share: Any = asked.window_share
    awaiting: tuple[str, ...] = ()
    labels = target.limits is None
    if isinstance(share, str) and share != AUTO:
        with suppress(ValueError):
            share = float(share)
    unnamed = share is None and asked.loss is None and asked.mechanism in WINDOWED
    if unnamed and not labels and not target.private:
        share = AUTO if _many(budget()) else 0.0
        awaiting = ("loss", "radius", "window_share")
    elif share is None:
        share = 0.0
    elif share == AUTO:
        awaiting = ("window_share",)
    windowed = share != 0
    loss, radius = asked.loss, asked.radius
    if loss is None:
        loss = default_loss(labels, windowed=windowed, offset=asked.offset_share != 0)
    if radius is None:
        name = getattr(loss, "name", loss)
        radius = default_radius(name, labels, windowed=windowed, size=_at_least_one(size))
    row_ridge = asked.row_ridge
    if row_ridge is None:
        row_ridge = default_row_ridge(loss)
    found = _share(budget()) if share == AUTO else share
    return Ruled(loss, radius, row_ridge, found, awaiting)


def default_row_ridge(loss: Any) -> float:
    """Return the ridge for every row where none is given; what is no loss will be refused.

    Huber's loss is nearly 2 c times the absolute loss, and so is its ridge.

    >>> default_row_ridge("absolute"), default_row_ridge("huber:0.1"), default_row_ridge("squared")
    (0.05, 0.01, 0.0)
    """
    with suppress(InputError):
        known = as_loss(loss)
        if isinstance(known, Huber):
            return round(2 * known.c * _STRAIGHT, 6) if known.c <= _LITTLE_BENT else 0.0
        straight = 0.0 if known.bends or known.classification else _STRAIGHT
        return _LABELS.get(known.name, straight)
    return 0.0


def _at_least_one(size: Callable[[], int]) -> int:
    """Return a size, or 1 where it is bad and will be refused."""
    with suppress(InputError, TypeError, ValueError, OverflowError):
        return max(1, size())
    return 1


def _many(budget: float | None) -> bool:
    """Whether a window can be had for little; where the number of rows is unknown it is."""
    return budget is None or budget >= _MANY


def _share(budget: float | None) -> float:
    """Return the part of epsilon for a window."""
    if budget is None:
        return _MOST_WINDOW
    return round(min(_MOST_WINDOW, max(_LEAST_WINDOW, _WINDOW / max(budget, 1e-9))), 4)
