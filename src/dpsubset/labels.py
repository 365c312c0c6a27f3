"""Labels of two classes as -1 and +1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.designs import unmasked
from dpsubset.designs.dense import NOT_FINITE
from dpsubset.errors import InputError

__all__ = ["as_labels"]


def as_labels(y: Any, classes: Sequence[Any] | None = None) -> Floats:
    """Return -1 for the first and +1 for the second of two classes, in sorted order.

    `classes` names the two, as public knowledge; without it they are read off the labels, and a
    table that holds only one of them is refused.

    >>> as_labels(["no", "yes", "no"]), as_labels([True, True], classes=(False, True))
    (array([-1.,  1., -1.]), array([1., 1.]))
    """
    array = _plain(y)
    if classes is None:
        found = np.unique(array)
        if found.size != 2:
            raise InputError(
                "a classification loss needs labels of exactly two classes, such as -1 and +1, 0 "
                f"and 1, or two strings; there are {'more' if found.size > 2 else 'fewer'}. If one "
                "of two classes may be missing, name both: classes=(first, second)"
            )
        return np.where(array == found[1], 1.0, -1.0)
    first, second = _two(classes)
    with np.errstate(all="ignore"):
        low, high = np.asarray(array == first), np.asarray(array == second)
    if low.shape != array.shape or high.shape != array.shape or not (low | high).all():
        raise InputError("there are labels beside the two classes that were named")
    return np.where(high, 1.0, -1.0)


def _two(classes: Sequence[Any]) -> tuple[Any, Any]:
    plain = isinstance(classes, (str, bytes)) or not hasattr(classes, "__len__")
    if plain or len(classes) != 2 or classes[0] == classes[1]:
        raise InputError(f"classes must name two different classes, not {classes!r}")
    return classes[0], classes[1]


def _plain(y: Any) -> NDArray[Any]:
    """Return the labels as one-dimensional numbers, booleans or strings."""
    try:
        array = np.asarray(unmasked(y))
    except ValueError:
        raise InputError("the target is ragged; give one label a row") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"the target must have one dimension, not {array.ndim}")
    if array.dtype.kind == "O":
        kinds = {type(label) for label in array.tolist()}
        if kinds - {str, np.str_}:
            array = _numbers(array)
        else:
            array = array.astype(str)
    if array.dtype.kind not in "fiubUS" and array.dtype.kind != "T":
        raise InputError(f"the target has type {array.dtype}; labels are numbers or strings")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(NOT_FINITE)
    return array


def _numbers(array: NDArray[Any]) -> NDArray[Any]:
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError("the labels must be all numbers or all strings") from None
