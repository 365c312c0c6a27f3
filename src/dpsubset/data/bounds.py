"""Public bounds of the columns and of the target: given by the user, never taken from the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.errors import InputError, at_once, without_context

__all__ = ["as_pair", "column_limits", "narrowed", "rescale_target", "target_limits"]


_SHOWN = 20  # names in one message
_NO_COLUMN = "which is not a column of the table: remove it or correct its name"

_HOW_X = (
    "give bounds_X=(lower, upper), two numbers or two arrays with one number for each column, or "
    "for a table with column names a mapping {name: (lower, upper)}"
)
_PUBLIC = "They must be public knowledge, such as a unit or a legal range, not read off this table"


def column_limits(
    bounds: Any, names: Sequence[str] | None, n_columns: int
) -> tuple[Floats, Floats]:
    """Return the lower and upper bound of every column.

    Parameters
    ----------
    bounds : pair (lower, upper) of scalars or arrays of length p, or mapping of names to pairs
        The public bounds.
    names : sequence of str or None
        The column names, if the table has any.
    n_columns : int
        The number of columns p.

    Examples
    --------
    >>> column_limits({"age": (0, 120), "dose": (-1, 1)}, ["dose", "age"], 2)
    (array([-1.,  0.]), array([  1., 120.]))
    """
    if bounds is None:
        raise InputError(f"the bounds of the columns are missing: {_HOW_X}. {_PUBLIC}")
    if isinstance(bounds, Mapping):
        return _limits_by_name(bounds, names)
    if not _is_pair(bounds):
        raise InputError(f"the bounds of the columns are not a pair: {_HOW_X}")
    lower = _one_per_column(bounds[0], n_columns, "lower")
    upper = _one_per_column(bounds[1], n_columns, "upper")
    wrong = np.flatnonzero(~(lower < upper) | _too_close(lower, upper))
    labels = [f"column {j}" if names is None else f"column {names[j]!r}" for j in wrong.tolist()]
    at_once(
        *(
            partial(_refuse, f"the bounds of {label}", float(lower[j]), float(upper[j]))
            for label, j in zip(labels[:_SHOWN], wrong.tolist(), strict=False)
        )
    )
    return lower, upper


def _is_pair(given: Any) -> bool:
    """Say whether something has a first and a second entry, and no more."""
    try:
        return not isinstance(given, (str, Mapping, Set)) and len(given) == 2
    except TypeError:  # an array without dimensions has no length
        return False


def target_limits(bounds: Any) -> tuple[float, float]:
    """Return the two bounds of the target.

    >>> target_limits((0, 10))
    (0.0, 10.0)
    """
    if bounds is None:
        raise InputError(
            f"the bounds of the target are missing: give bounds_y=(lower, upper), two numbers, or "
            f"bounds_y='private', which takes a part of epsilon. {_PUBLIC}"
        )
    return as_pair(bounds, "the bounds of the target")


def as_pair(given: Any, what: str) -> tuple[float, float]:
    """Check a pair of bounds; `what` names it in an error."""
    if not _is_pair(given):
        raise InputError(f"{what} must be a pair of numbers: a lower and an upper bound")
    pair = _as_floats(list(given), what)
    if pair.shape != (2,):
        raise InputError(f"{what} must be a pair of numbers: a lower and an upper bound")
    lower, upper = float(pair[0]), float(pair[1])
    if not lower < upper or _too_close(pair[0], pair[1]):
        raise _unusable(what, lower, upper)
    return lower, upper


def narrowed(limits: tuple[Any, Any], clip: float) -> tuple[Any, Any]:
    """Return bounds around the same middle, `clip` times as far apart.

    >>> narrowed((0.0, 10.0), 0.5)
    (2.5, 7.5)
    """
    if isinstance(clip, bool) or not isinstance(clip, (int, float)) or not 1e-6 <= clip <= 1:
        raise InputError(f"clip must be a number between 1e-6 and 1, not {clip!r}")
    lower, upper = limits
    if clip == 1:
        return lower, upper
    middle, half = lower / 2 + upper / 2, clip * (upper / 2 - lower / 2)
    return middle - half, middle + half


def rescale_target(y: Floats, limits: tuple[float, float]) -> Floats:
    """Clip the target to its bounds and map it linearly onto [-1, 1].

    >>> rescale_target(np.array([-3.0, 5.0, 10.0]), (0.0, 10.0))
    array([-1.,  0.,  1.])
    """
    lower, upper = limits
    middle, half = lower / 2 + upper / 2, upper / 2 - lower / 2
    mapped = (np.clip(y, lower, upper) - middle) / half
    return np.clip(mapped, -1.0, 1.0)


def _limits_by_name(
    bounds: Mapping[Any, Any], names: Sequence[str] | None
) -> tuple[Floats, Floats]:
    if names is None:
        raise InputError(
            "the bounds are a mapping of column names, but the table has no column names that are "
            "text: give a DataFrame with such names (X.columns = X.columns.astype(str) turns "
            "numbers into names), or bounds_X=(lower, upper)"
        )
    known = set(names)
    unknown = [repr(name) for name in bounds if name not in known]
    missing = [repr(name) for name in names if name not in bounds]
    given = [name for name in names if name in bounds]
    _, _, *pairs = at_once(
        partial(
            _refuse_if,
            unknown,
            "the bounds name {}, which is not a column of the table: correct or remove it",
        ),
        partial(_refuse_if, missing, f"the bounds of column {{}} are missing: {_HOW_X}. {_PUBLIC}"),
        *(partial(as_pair, bounds[name], f"the bounds of column {name!r}") for name in given),
    )
    lower, upper = np.array(pairs).T
    return lower.copy(), upper.copy()


def _refuse_if(names: Sequence[str], text: str) -> None:
    """Refuse with a text about names, if there are any."""
    if names:
        shown = ", ".join(names[:_SHOWN])
        more = len(names) - _SHOWN
        raise InputError(text.replace("{}", f"{shown} and {more} more" if more > 0 else shown))


def _one_per_column(given: Any, n_columns: int, side: str) -> Floats:
    limits = _as_floats(given, f"the {side} bounds")
    if limits.ndim > 1 or (limits.ndim == 1 and limits.size != n_columns):
        raise InputError(
            f"the {side} bounds have shape {limits.shape}; give one number, or one for each of the "
            f"{n_columns} columns"
        )
    return np.broadcast_to(limits, (n_columns,))  # one number takes no more than one


@without_context
def _as_floats(given: Any, what: str) -> Floats:
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be numbers") from None
    # Text that looks like a number and truth values are mistakes here, not bounds.
    if array.dtype.kind not in "fiuO" or any(isinstance(v, (str, bool)) for v in array.flat):
        raise InputError(f"{what} must be numbers")
    try:
        array = array.astype(np.float64)
    except (TypeError, OverflowError, ValueError):
        raise InputError(f"{what} must be numbers within the range of float64") from None
    if not np.isfinite(array).all():
        raise InputError(f"{what} must be finite numbers")
    return array


def _too_close(lower: Floats, upper: Floats) -> NDArray[np.bool_]:
    """Say where the map onto [-1, 1] would be steeper than float64 can tell."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(~np.isfinite(1 / (upper / 2 - lower / 2)))


def _refuse(what: str, lower: float, upper: float) -> None:
    raise _unusable(what, lower, upper)


def _unusable(what: str, lower: float, upper: float) -> InputError:
    why = "they are too close together for float64"
    if not lower < upper:
        why = "the lower bound must be below the upper one"
    return InputError(f"{what} are {lower:g} and {upper:g}; {why}")
