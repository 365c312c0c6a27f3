"""dpsubset: differentially private variable selection.

Names are imported on first use, so that the command starts quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsubset import audit, search
    from dpsubset.estimators import SubsetClassifier, SubsetRegressor, SubsetSelector
    from dpsubset.mechanisms import (
        Exponential,
        LassoStability,
        MarkovChain,
        Mistakes,
        PermuteAndFlip,
        Release,
        SampleAggregate,
        TopR,
    )
    from dpsubset.privacy import Guarantee, Ledger
    from dpsubset.problem import Problem

__version__ = "0.1.0"

__all__ = [
    "Exponential",
    "Guarantee",
    "LassoStability",
    "Ledger",
    "MarkovChain",
    "Mistakes",
    "PermuteAndFlip",
    "Problem",
    "Release",
    "SampleAggregate",
    "SubsetClassifier",
    "SubsetRegressor",
    "SubsetSelector",
    "TopR",
    "audit",
    "search",
]

_ROOMS = {
    "Exponential": "mechanisms",
    "Guarantee": "privacy",
    "LassoStability": "mechanisms",
    "Ledger": "privacy",
    "MarkovChain": "mechanisms",
    "Mistakes": "mechanisms",
    "PermuteAndFlip": "mechanisms",
    "Problem": "problem",
    "Release": "mechanisms",
    "SampleAggregate": "mechanisms",
    "SubsetClassifier": "estimators",
    "SubsetRegressor": "estimators",
    "SubsetSelector": "estimators",
    "TopR": "mechanisms",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return getattr(import_module(f"dpsubset.{_ROOMS[name]}"), name)
    if name in ("audit", "search"):
        return import_module(f"dpsubset.{name}")
    raise AttributeError(f"module 'dpsubset' has no attribute {name!r}")
