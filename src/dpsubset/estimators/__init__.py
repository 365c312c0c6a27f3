"""The scikit-learn estimators, and the way from bounded tables to releases that they share."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsubset.estimators.models import SubsetClassifier, SubsetRegressor
    from dpsubset.estimators.selector import SubsetSelector

__all__ = ["SubsetClassifier", "SubsetRegressor", "SubsetSelector"]

_FILES = {"SubsetClassifier": "models", "SubsetRegressor": "models", "SubsetSelector": "selector"}


def __getattr__(name: str) -> Any:
    # scikit-learn takes a second to import; the command does without it.
    if name in _FILES:
        return getattr(import_module(f"dpsubset.estimators.{_FILES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
