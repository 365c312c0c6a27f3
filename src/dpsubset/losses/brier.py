"""Squared loss for labels: four times the Brier score of the chance (1 + t) / 2."""

from __future__ import annotations

from dpsubset.losses.squared import Squared

__all__ = ["Brier"]


class Brier(Squared):
    """Squared distance of a label, -1 or 1, from the prediction: l(y, t) = (y - t)^2.

    As the chance of the second class, (1 + t) / 2, a prediction has a quarter of this as its Brier
    score. Scores follow from X'X and X'y, so that exact draws take no longer than for numbers.

    Examples
    --------
    >>> Brier().largest(1.0, 1.0), Brier().spread(1.0, 0.5)
    (4.0, 2.0)
    """

    name = "brier"
    classification = True
    symmetric = True
