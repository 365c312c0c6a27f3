"""Parameters that a user gives, checked: what was given, and what is allowed."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from dpsubset.errors import InputError

__all__ = ["one_of", "positive", "whole", "yes_or_no"]


def positive(value: Any, name: str, *, zero: bool = False) -> float:
    """Return a parameter as a float, or say what it must be.

    The range leaves room for squares and products in float64.
    """
    good = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        number = float(value) if good else math.nan
    except OverflowError:
        number = math.inf
    if 1e-20 <= number <= 1e20 or (zero and number == 0):
        return number
    kind = "zero or a number" if zero else "a number"
    raise InputError(f"{name} must be {kind} between 1e-20 and 1e20, not {value!r}")


def whole(value: Any, name: str, least: int, most: int = 10**9) -> int:
    """Return a whole number, or say what it must be."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    if int(value) > most:
        raise InputError(f"{name} must be a whole number of at most {most}")
    return int(value)


def one_of(value: Any, what: str, allowed: Iterable[str]) -> str:
    """Return a word, or say which ones there are.

    >>> one_of("tight", "sensitivity rule", ("tight", "largest", "paper"))
    'tight'
    """
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"unknown {what} {value!r}; allowed: {', '.join(allowed)}")
    return value


def yes_or_no(value: Any, name: str) -> bool:
    """Return a switch, or say what it must be."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, not {value!r}")
    return bool(value)
