"""The target: numbers within public bounds, or labels of two classes; by the loss.

No message here holds a value of the target or its number of rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.data.bounds import target_limits
from dpsubset.data.columns import ANY, PRIVATE, Column
from dpsubset.data.frames import MISSING, EntryError, as_array, from_objects
from dpsubset.errors import InputError, without_context
from dpsubset.labels import Labels, named_classes
from dpsubset.losses import Loss

__all__ = ["ANY", "OR_LABELS", "PRIVATE", "Target", "check_given", "plan_target"]

OR_LABELS = "or choose a loss for labels, brier or logistic, if these are labels of two classes"


@dataclass(frozen=True)
class Target:
    """How a target is read: numbers within `limits`, or labels of two classes if those are None.

    `classes` are the two, as public knowledge, or None if they are read off the labels. `private`
    says that narrower bounds are to be drawn from the table (T37); the limits are then `ANY`.
    `column` says what a cell may hold, where a schema does.
    """

    limits: tuple[float, float] | None
    classes: tuple[Any, Any] | None = None
    private: bool = False
    column: Column | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return bounds or classes, and what a missing target counts as, as plain values."""
        more: dict[str, Any] = {} if self.column is None else self.column.to_dict()
        kept: dict[str, Any] = {
            key: more[key] for key in ("missing", "unit", "note") if key in more
        }
        if self.limits is not None:
            return {"bounds": PRIVATE if self.private else list(self.limits), **kept}
        if more.get("truth"):
            return {"truth": True, **kept}
        return {"classes": None if self.classes is None else list(self.classes), **kept}

    def coded(self, cells: pl.Series, clip: float) -> tuple[Floats | Labels, NDArray[np.bool_]]:
        """Return the target on the scale [-1, 1], and which rows have one.

        The others get 0, or as labels +1: their rows are zeros and count for nothing (T33d).
        """
        assert self.column is not None
        present = self.column.there(cells)
        values = np.where(present, self.column.code(cells, clip)[:, 0], 0.0)
        if self.limits is not None:
            return values, present
        return Labels(np.where(present, values, 1.0), named=True), present

    def read(self, y: Any) -> Floats | Labels:
        """Return one number for each row: finite, or -1 and +1 for labels."""
        y = check_given(y)
        return Labels.of(y, self.classes) if self.limits is None else _numbers(y)


def check_given(y: Any) -> Any:
    """Return a target, unless there is none or it is sparse."""
    if y is None:
        raise InputError(
            "the selection requires y to be passed, but the target y is None: give one number "
            "or label for each row"
        )
    if sp.issparse(y):
        raise InputError("the target is sparse: give a dense array")
    if len(getattr(y, "shape", ())) == 2 and y.shape[1] == 1:
        _warn_of_a_column()
    return y


def plan_target(loss: Loss, bounds_y: Any, classes: Any) -> Target:
    """Check what was said about the target: bounds for a regression loss, classes for labels.

    >>> from dpsubset.losses import as_loss
    >>> plan_target(as_loss("brier"), None, ("no", "yes"))
    Target(limits=None, classes=('no', 'yes'), private=False)
    """
    if not loss.classification:
        if classes is not None:
            raise InputError(
                "classes are for the losses of labels, such as brier and logistic; the "
                f"{loss.name} loss takes numbers. Leave classes out"
            )
        if isinstance(bounds_y, str) and bounds_y == PRIVATE:
            return Target(ANY, private=True)
        return Target(target_limits(bounds_y))
    if bounds_y is not None:
        raise InputError(
            f"bounds_y are for regression losses; the {loss.name} loss takes labels of two "
            "classes, which have no bounds. Leave bounds_y out"
        )
    if classes is not None:
        return Target(None, named_classes(classes))
    if not loss.symmetric:
        # One new label that sorts before the others would exchange the classes of all rows.
        raise InputError(
            f"the {loss.name} loss may treat its two classes differently, so which is which must "
            "be public: give classes=(first, second)"
        )
    return Target(None)


def _numbers(y: Any) -> Floats:
    array = _or_labels(lambda: as_array(y, "the target"))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.ravel()
    if array.ndim != 1:
        raise InputError("the target y should be a 1d array with one number for each row")
    if array.dtype.kind == "O":
        array = _or_labels(lambda: from_objects(array, "the target"))
    vector: Floats = array.astype(np.float64, copy=False)
    if not np.isfinite(vector).all():
        raise InputError(f"the target {MISSING}")
    return vector


@without_context
def _or_labels(read: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """Read numbers; where there is text, say that some losses take labels."""
    try:
        return read()
    except EntryError as error:
        raise EntryError(f"{error}, {OR_LABELS}") from None


def _warn_of_a_column() -> None:
    from sklearn.exceptions import DataConversionWarning

    message = "A column-vector y was passed when a 1d array was expected: give y.ravel()"
    warnings.warn(message, DataConversionWarning, stacklevel=2)
