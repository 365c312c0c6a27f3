"""Losses by name."""

from __future__ import annotations

from dpsubset.errors import InputError
from dpsubset.losses.base import Fit, Loss
from dpsubset.losses.squared import Squared

__all__ = ["LOSSES", "Fit", "Loss", "Squared", "as_loss"]

LOSSES: dict[str, type[Loss]] = {"squared": Squared}


def as_loss(loss: str | Loss) -> Loss:
    """Return the loss of that name, or the loss itself.

    >>> as_loss("squared").name
    'squared'
    """
    if isinstance(loss, Loss) and type(loss) in LOSSES.values():
        return loss
    if not isinstance(loss, str) or loss not in LOSSES:
        raise InputError(f"unknown loss {loss!r}; allowed: {', '.join(sorted(LOSSES))}")
    return LOSSES[loss]()
