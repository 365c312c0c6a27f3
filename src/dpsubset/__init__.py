"""dpsubset: differentially private variable selection.

Names are imported on first use, so that the command starts quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpsubset.version import __version__

if TYPE_CHECKING:
    from dpsubset import audit, certificate, coefficients, data, errors, losses, plot, search
    from dpsubset.data import Schema
    from dpsubset.errors import PrivacyWarning
    from dpsubset.estimators import SubsetClassifier, SubsetRegressor, SubsetSelector
    from dpsubset.limits import Limits
    from dpsubset.mechanisms import (
        Exponential,
        Kendall,
        LassoStability,
        MarkovChain,
        Mistakes,
        PermuteAndFlip,
        Release,
        SampleAggregate,
        Screening,
        Stepwise,
        TopR,
    )
    from dpsubset.model import Model
    from dpsubset.planning import plan
    from dpsubset.privacy import Guarantee, Ledger
    from dpsubset.problem import Problem
    from dpsubset.selection import Selection

__all__ = [
    "Exponential",
    "Guarantee",
    "Kendall",
    "LassoStability",
    "Ledger",
    "Limits",
    "MarkovChain",
    "Mistakes",
    "Model",
    "PermuteAndFlip",
    "PrivacyWarning",
    "Problem",
    "Release",
    "SampleAggregate",
    "Schema",
    "Screening",
    "Selection",
    "Stepwise",
    "SubsetClassifier",
    "SubsetRegressor",
    "SubsetSelector",
    "TopR",
    "__version__",
    "audit",
    "certificate",
    "coefficients",
    "data",
    "errors",
    "losses",
    "plan",
    "plot",
    "search",
]

_ROOMS = {
    "Exponential": "mechanisms",
    "Guarantee": "privacy",
    "Kendall": "mechanisms",
    "LassoStability": "mechanisms",
    "Ledger": "privacy",
    "Limits": "limits",
    "MarkovChain": "mechanisms",
    "Mistakes": "mechanisms",
    "Model": "model",
    "PermuteAndFlip": "mechanisms",
    "PrivacyWarning": "errors",
    "Problem": "problem",
    "Release": "mechanisms",
    "SampleAggregate": "mechanisms",
    "Schema": "data",
    "Screening": "mechanisms",
    "Selection": "selection",
    "Stepwise": "mechanisms",
    "SubsetClassifier": "estimators",
    "SubsetRegressor": "estimators",
    "SubsetSelector": "estimators",
    "TopR": "mechanisms",
    "plan": "planning",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return getattr(import_module(f"dpsubset.{_ROOMS[name]}"), name)
    if name in __all__:  # a room of its own
        return import_module(f"dpsubset.{name}")
    raise AttributeError(f"module 'dpsubset' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
