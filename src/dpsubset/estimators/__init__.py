"""The scikit-learn estimators, and the way from bounded tables to releases that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsubset.estimators.selector import SubsetSelector

__all__ = ["SubsetSelector"]


def __getattr__(name: str) -> Any:
    # scikit-learn takes a second to import; the command does without it.
    if name == "SubsetSelector":
        from dpsubset.estimators.selector import SubsetSelector

        return SubsetSelector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
