"""Parameters that a user gives, checked: what was given, and what is allowed."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from dpsubset.errors import InputError

__all__ = ["positive", "whole", "yes_or_no"]


def positive(value: Any, name: str, *, zero: bool = False) -> float:
    """Return a parameter as a float, or say what it must be.

    The range leaves room for squares and products in float64.
    """
    good = isinstance(value, numbers.Real) and not isinstance(value, bool)
    number = float(value) if good else math.nan
    if 1e-20 <= number <= 1e20 or (zero and number == 0):
        return number
    kind = "zero or a number" if zero else "a number"
    raise InputError(f"{name} must be {kind} between 1e-20 and 1e20, not {value!r}")


def whole(value: Any, name: str, least: int) -> int:
    """Return a whole number, or say what it must be."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def yes_or_no(value: Any, name: str) -> bool:
    """Return a switch, or say what it must be."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, not {value!r}")
    return bool(value)
