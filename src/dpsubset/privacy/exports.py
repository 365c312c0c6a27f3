"""Guarantees in the words of other libraries: events of dp_accounting (T30)."""

from __future__ import annotations

import math
from typing import Any

from dpsubset.errors import InputError, MissingExtraError, without_context
from dpsubset.privacy.guarantee import Guarantee

__all__ = ["check_unconditional", "to_dp_event"]


def check_unconditional(guarantee: Guarantee) -> None:
    """Refuse a guarantee that others could not add up with theirs."""
    if guarantee.condition is not None:
        raise InputError(
            f"the guarantee of the {guarantee.mechanism} has a condition, which another library "
            "would forget; choose a mechanism without one"
        )
    if guarantee.randomness != "operating system":
        raise InputError("a seeded run is an experiment and has no guarantee to be added up")


@without_context
def to_dp_event(guarantee: Guarantee, *, concentrated: bool | None = None) -> Any:
    """Return an event for the accountants of dp_accounting (extra `accounting`).

    Parameters
    ----------
    guarantee : Guarantee
        Without delta and without a condition.
    concentrated : bool, optional
        True: a ZCDpEvent, for the RDP accountant. False: randomised response between two answers,
        which tells two tables apart at least as well as any epsilon-private mechanism; for the PLD
        and RDP accountants under replace-one. By default the first where the guarantee has its own
        rho or is for add-remove. A ZCDpEvent does not hold the relation: make the accountant for
        the guarantee's own.

    Returns
    -------
    dp_accounting.DpEvent
        The event.

    Examples
    --------
    >>> to_dp_event(Guarantee("exponential mechanism", 2.0, "replace-one", 4.0, rho=0.5))
    ZCDpEvent(rho=0.5, xi=0.0)
    """
    try:
        import dp_accounting
    except ImportError:
        raise MissingExtraError(
            "events are those of dp_accounting: pip install 'dpsubset[accounting]'"
        ) from None
    check_unconditional(guarantee)
    rho = guarantee.zcdp()
    if guarantee.delta or rho is None:
        raise InputError(
            f"dp_accounting has no event for a delta of {guarantee.delta:g}: choose a mechanism "
            "without delta, or add epsilons and deltas up with `compose`"
        )
    if concentrated is None:
        concentrated = guarantee.rho is not None or guarantee.neighbours == "add-remove"
    if concentrated:
        return dp_accounting.ZCDpEvent(rho)
    if guarantee.neighbours == "add-remove":
        raise InputError(
            "dp_accounting has randomised response for replaced rows only; under add-remove take "
            "concentrated=True"
        )
    # with chance p the answer is a fair coin: (1 - p/2)/(p/2) = e^epsilon
    less = math.exp(-guarantee.epsilon)
    return dp_accounting.RandomizedResponseDpEvent(2.0 * less / (1.0 + less), 2)
