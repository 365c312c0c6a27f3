"""Labels of two classes as -1 and +1."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.designs import unmasked
from dpsubset.errors import InputError, without_context

__all__ = ["Labels", "as_labels", "named_classes"]

MISSING_LABELS = (
    "the labels hold missing or infinite values; a classification loss takes numbers, truth values "
    "or strings only. Give such rows a class that is fixed and public (not computed from this "
    "table), or name the classes in a schema (schema=, --schema), by which they count for nothing"
)

_WHOLE = 2.0**53  # beyond it float64 has gaps between whole numbers


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels as -1 and +1, and whether it is public which class is which.

    Where the classes were read off the labels, one row may exchange them for all others: in a
    table whose only "a" becomes a "c", all "b" go from the second class to the first. Symmetric
    losses do not see it in a score; coefficients, votes of blocks and predictions would.
    """

    values: Floats
    named: bool

    def __post_init__(self) -> None:
        if not (np.abs(self.values) == 1.0).all():
            raise InputError("labels are -1 and +1 here: use as_labels first")

    @classmethod
    def of(cls, y: Any, classes: Any = None, *, option: str = "classes=(first, second)") -> Labels:
        """Read labels as `as_labels` does.

        >>> Labels.of(["no", "yes"]).named, Labels.of(["no", "no"], ("no", "yes")).named
        (False, True)
        """
        return cls(as_labels(y, classes, option=option), named=classes is not None)


def as_labels(y: Any, classes: Any = None, *, option: str = "classes=(first, second)") -> Floats:
    """Return -1 for the first and +1 for the second of two classes.

    `classes` names the two, as public knowledge. Without it they are read off the labels, in
    sorted order, and a table that holds only one of them, or a third, is refused: such a refusal
    depends on the data. Which class is +1 depends on the data then, too: a loss with
    l(y, t) = l(-y, -t), as hinge and logistic are, has the same scores for flipped labels, and
    whatever sees more than scores must have the classes named (`Labels`).

    `option` is how an error names the way to give the classes.

    >>> as_labels(["no", "yes", "no"]), as_labels([True, True], classes=(False, True))
    (array([-1.,  1., -1.]), array([1., 1.]))
    """
    array = _plain(y)
    first, second = _two_of(array, option) if classes is None else named_classes(classes)
    low, high = np.asarray(array == first), np.asarray(array == second)
    if not (low | high).all():
        raise InputError("there are labels other than the two classes that were named")
    return np.where(high, 1.0, -1.0)


def _two_of(array: NDArray[Any], option: str) -> tuple[Any, Any]:
    found = np.unique(array)
    if found.size != 2:
        raise _not_two(found.size, option)
    if found.dtype.kind == "f" and np.abs(found).max() >= _WHOLE:
        # They may have been whole numbers before one row made floats of all.
        raise InputError(f"labels of so many digits are told apart by their names only: {option}")
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
    except MemoryError:
        raise
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
    if array.dtype.kind not in "fiubUO":
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
    # Numbers are told apart as they are. As float64 two long codes could become one class, and one
    # row of another type would be enough to have all rows compared as float64.
    numbers = np.empty(len(entries), dtype=object)
    numbers[:] = [_exact(entry) for entry in entries]
    return numbers


def _exact(entry: Any) -> Any:
    """Return a Python number that compares exactly with all others."""
    number = entry.item() if isinstance(entry, np.generic) else entry
    finite = number.is_finite() if isinstance(number, Decimal) else number - number == 0
    if not finite:
        raise InputError(MISSING_LABELS)
    return Fraction(number) if isinstance(number, Decimal) else number
