"""What breaks a guarantee from outside, as far as an estimator can know it: a warning, in time.

Neither warning depends on the table: they rest on which objects were copied, fitted and chained.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from dpsubset.errors import PrivacyWarning

__all__ = ["Lineage", "warn_of_fitted_steps", "warn_of_refits"]

_DEEPEST = 40  # calls between a pipeline's fit and ours


@dataclass(frozen=True)
class Lineage:
    """An estimator among its copies: what scikit-learn's meta-estimators fit are copies of one.

    `fits` holds an entry for every fit of the family in this process; `number` says which copy of
    its original this one is, which is known in other processes, too.
    """

    fits: list[None] = field(default_factory=list)
    number: int = 0
    copies: list[None] = field(default_factory=list)

    def copy(self) -> Lineage:
        """Return the place of one more copy.

        >>> family = Lineage()
        >>> family.copy().number, family.copy().number
        (1, 2)
        """
        self.copies.append(None)
        return Lineage(self.fits, len(self.copies))

    def fitted(self) -> int:
        """Take note of a fit; return at least how many there were, as far as it is known."""
        self.fits.append(None)
        return max(len(self.fits), self.number)

    @property
    def first(self) -> bool:
        """Whether this process saw no other fit of the family."""
        return len(self.fits) == 1


def warn_of_refits(lineage: Lineage, epsilon: float, level: int) -> None:
    """Say at the second fit of an estimator or its copies, and at every doubling, what it spends.

    `level` counts the calls up to the user's, whose line the warning names.
    """
    count = lineage.fitted()
    if count < 2 or (count & (count - 1) and not lineage.first):
        return
    warnings.warn(
        f"this is fit {count} of one estimator and its copies, as GridSearchCV, cross_val_score "
        f"and other meta-estimators make them. Every fit spends its own epsilon of {epsilon:g}: "
        f"where they see rows of the same people they spend {count * epsilon:g} together, and "
        "guarantee_ speaks of one fit only. Choose settings on public or synthetic data, or give "
        "all fits one ledger=",
        PrivacyWarning,
        stacklevel=level,
    )


def warn_of_fitted_steps(estimator: Any, level: int) -> None:
    """Say which steps of a pipeline were fitted on the same rows before this one."""
    names = [f"{name!r} ({type(step).__name__})" for name, step in _steps_before(estimator)]
    if names:
        warnings.warn(
            f"in this pipeline {', '.join(names)} was fitted on the same rows before. What it "
            "learnt from them, such as means and scales, is private and is no part of the "
            "guarantee, which holds only if it is public: use public bounds (bounds_X=) or steps "
            "that learn nothing, such as FunctionTransformer",
            PrivacyWarning,
            stacklevel=level,
        )


def _steps_before(estimator: Any) -> list[tuple[str, Any]]:
    """Return the steps that learn from rows and come before an estimator in a running pipeline."""
    module = sys.modules.get("sklearn.pipeline")
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEEPEST if module is not None else 0):
        if frame is None:
            break
        owner = frame.f_locals.get("self")
        if module is not None and isinstance(owner, module.Pipeline):
            return _learning(owner.steps, estimator)
        frame = frame.f_back
    return []


def _learning(steps: list[tuple[str, Any]], estimator: Any) -> list[tuple[str, Any]]:
    from sklearn.utils import get_tags

    found: list[tuple[str, Any]] = []
    for name, step in steps:
        if step is estimator or type(step) is type(estimator):
            return found
        ours = hasattr(step, "_lineage")  # private itself, with a guarantee of its own
        if step not in (None, "passthrough") and not ours and get_tags(step).requires_fit:
            found.append((name, step))
    return []
