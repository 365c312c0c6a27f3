"""How good predictions are: R^2 of numbers, the area under the ROC curve of two classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats

__all__ = ["auc", "quality_of", "r_squared"]


def quality_of(outcome: Floats, predicted: Floats, *, labels: bool) -> float:
    """Return R^2 of predictions, or their AUC where the outcome is 1 and 0 for two classes."""
    return auc(outcome > 0.5, predicted) if labels else r_squared(outcome, predicted)


def r_squared(y: Floats, predicted: Floats) -> float:
    """Return the explained part of the variance; below 0 the mean would have been better.

    >>> r_squared(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0]))
    1.0
    """
    around = float(((y - y.mean()) ** 2).sum())
    return 1.0 - float(((y - predicted) ** 2).sum()) / around if around else 0.0


def auc(second: NDArray[np.bool_], predicted: Floats) -> float:
    """Return the chance that a row of the second class is above one of the first.

    >>> auc(np.array([False, True, True]), np.array([0.1, 0.1, 0.3]))
    0.75
    """
    ones = int(second.sum())
    zeros = second.size - ones
    if not ones or not zeros:
        return 0.5
    # Ranks from 1; equal predictions share the middle of theirs.
    _, place, count = np.unique(predicted, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]
    return float((ranks[second].sum() - ones * (ones + 1) / 2) / (ones * zeros))
