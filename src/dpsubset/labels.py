"""Labels of two classes as -1 and +1."""

from __future__ import annotations

import math
from contextlib import suppress
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.designs import unmasked
from dpsubset.errors import InputError, without_context

__all__ = ["as_labels", "found_classes", "named_classes"]

MISSING_LABELS = (
    "the labels hold missing or infinite values; a classification loss takes numbers, truth values "
    "or strings only. Give such rows a class that is fixed and public (not computed from this "
    "table)"
)


def as_labels(y: Any, classes: Any = None, *, option: str = "classes=(first, second)") -> Floats:
    """Return -1 for the first and +1 for the second of two classes.

    `classes` names the two, as public knowledge. Without it they are read off the labels, in
    sorted order, and a table that holds only one of them, or a third, is refused: such a refusal
    depends on the data. Which class is +1 depends on the data then, too, and shows nowhere: a loss
    l(y, t) = l(-y, -t), as hinge and logistic are, has the same scores for flipped labels.

    `option` is how an error names the way to give the classes.

    >>> as_labels(["no", "yes", "no"]), as_labels([True, True], classes=(False, True))
    (array([-1.,  1., -1.]), array([1., 1.]))
    """
    array = _plain(y)
    first, second = _two_of(array, option) if classes is None else named_classes(classes)
    low, high = np.asarray(array == first), np.asarray(array == second)
    if not (low | high).all():
        raise InputError("there are labels beside the two classes that were named")
    return np.where(high, 1.0, -1.0)


def found_classes(y: Any) -> tuple[Any, Any]:
    """Return the two classes that occur in the labels, in sorted order; others are refused.

    >>> found_classes([1, 0, 1])
    (0, 1)
    """
    first, second = _two_of(_plain(y), "classes=(first, second)")
    return first.item(), second.item()


def _two_of(array: NDArray[Any], option: str) -> tuple[Any, Any]:
    found = np.unique(array)
    if found.size != 2:
        raise _not_two(found.size, option)
    return found[0], found[1]


def named_classes(classes: Any) -> tuple[Any, Any]:
    """Check the names of two classes.

    >>> named_classes(["no", "yes"])
    ('no', 'yes')
    """
    listed = isinstance(classes, (tuple, list)) or (
        isinstance(classes, np.ndarray) and classes.ndim == 1
    )
    pair = list(classes) if listed else []
    keys = [_key(entry) for entry in pair]
    one_kind = {type(key) for key in keys} in ({str}, {float})
    if len(keys) != 2 or not one_kind or keys[0] == keys[1]:
        raise InputError(
            "classes must name two different classes, a pair of strings, of numbers or of truth "
            f"values; not {classes!r}"
        )
    return pair[0], pair[1]


def _key(entry: Any) -> str | float | None:
    if isinstance(entry, str):
        return str(entry)
    number = math.inf
    with suppress(OverflowError):
        number = float(entry) if isinstance(entry, (Real, np.bool_)) else math.nan
    return number if math.isfinite(number) else None


def _not_two(count: int, option: str) -> InputError:
    if count > 2:
        return InputError(
            "Only binary classification is supported. A classification loss needs labels of "
            "exactly two classes, such as -1 and +1, 0 and 1, or two strings; there are more. For "
            "a continuous target, one of numbers, choose a regression loss, such as squared"
        )
    return InputError(
        "a classification loss needs labels of exactly two classes; there is one class, or none. "
        f"If a table need not hold both, name them: {option}"
    )


@without_context
def _plain(y: Any) -> NDArray[Any]:
    """Return the labels as one-dimensional numbers, truth values or strings."""
    plain = unmasked(y)
    try:
        # As objects, or numpy would turn [nan, "a"] and [1, "a"] into strings.
        array = np.asarray(plain, dtype=object if isinstance(y, (list, tuple)) else None)
    except ValueError:
        raise InputError("the target is ragged; give one label a row") from None
    except Exception:  # another library's column, with words of its own
        raise InputError("the target cannot be turned into an array of labels") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"the target must have one dimension, not {array.ndim}")
    if array.dtype.kind in "OT":
        array = _from_objects(array.astype(object))
    if array.dtype.kind == "c":
        raise InputError("Complex data not supported: labels are numbers, truth values or strings")
    if array.dtype.kind not in "fiubU":
        raise InputError(
            f"the target has type {array.dtype.type.__name__}; labels are numbers, truth values or "
            "strings"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(MISSING_LABELS)
    return array


@without_context
def _from_objects(array: NDArray[Any]) -> NDArray[Any]:
    entries = array.tolist()
    kinds = set(map(type, entries))
    if all(issubclass(kind, str) for kind in kinds):
        return array.astype(str)
    absent = any(kind.__name__ in ("NoneType", "NAType", "NaTType") for kind in kinds)
    if absent or any(entry != entry for entry in entries if isinstance(entry, float)):
        raise InputError(MISSING_LABELS)
    if not all(issubclass(kind, (Real, Decimal, np.bool_)) for kind in kinds):
        raise InputError("the labels must be all numbers, all truth values or all strings")
    with suppress(OverflowError):  # whole numbers stay whole: codes of classes may have many digits
        if all(issubclass(kind, Integral) for kind in kinds):
            return array.astype(np.int64)
    try:
        return array.astype(np.float64)
    except (OverflowError, TypeError, ValueError):
        raise InputError("the labels hold numbers beyond the range of float64") from None
