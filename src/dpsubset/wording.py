"""Words for records and people: what a loss is called, what a guarantee lacks; and seeds."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from dpsubset.errors import InputError
from dpsubset.losses import Loss
from dpsubset.privacy import Guarantee
from dpsubset.privacy.guarantee import rounded_up

__all__ = ["check_seed", "loss_name", "shortfall", "with_share"]


def with_share(part: Guarantee) -> Guarantee:
    """Return a guarantee whose name says what it takes of epsilon."""
    return replace(part, mechanism=f"{part.mechanism} (epsilon {rounded_up(part.epsilon)})")


def check_seed(random_state: Any, name: str) -> Any:
    """Return what the mechanisms take: None, a whole number or a generator."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    whole = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if not whole or random_state < 0:
        allowed = "a whole number from 0 on"
        if not name.startswith("--"):  # who types has no generator
            allowed = f"None (a real release), {allowed}, or a numpy generator"
        raise InputError(f"{name} must be {allowed}")
    return int(random_state)


def loss_name(loss: Loss) -> str:
    """Return the loss as users type it, with its parameter.

    >>> from dpsubset.losses import as_loss
    >>> loss_name(as_loss("huber")), loss_name(as_loss("hinge"))
    ('huber:0.1', 'hinge')
    """
    parameter = repr(loss).partition("(")[2].rstrip(")")
    return f"{loss.name}:{parameter}" if parameter else loss.name


def shortfall(guarantee: Guarantee, epsilon: float, delta: float = 0.0) -> str | None:
    """Say in what a guarantee is weaker than the epsilon and delta asked for, if it is.

    The text rests on the guarantee alone, so it is the same for all tables that count as
    neighbours.
    """
    found = []
    if guarantee.epsilon > epsilon:
        found.append(
            f"is {guarantee.epsilon}-differentially private, which is weaker than the epsilon of "
            f"{epsilon} asked for"
        )
    if guarantee.delta > delta:
        found.append(f"may fail to protect with a chance of {rounded_up(guarantee.delta)}")
    if guarantee.condition:
        found.append(f"is private only if {guarantee.condition}")
    return f"the {guarantee.mechanism} {' and '.join(found)}" if found else None
