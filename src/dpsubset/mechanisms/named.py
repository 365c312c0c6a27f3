"""Mechanisms by the names that users type, with the options that only some of them have."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from dpsubset.checks import positive
from dpsubset.errors import InputError
from dpsubset.limits import Limits
from dpsubset.mechanisms.base import Mechanism
from dpsubset.mechanisms.exponential import Exponential
from dpsubset.mechanisms.kendall import Kendall
from dpsubset.mechanisms.lasso_stability import LassoStability
from dpsubset.mechanisms.markov_chain import MarkovChain
from dpsubset.mechanisms.mistakes import Mistakes
from dpsubset.mechanisms.permute_and_flip import PermuteAndFlip
from dpsubset.mechanisms.sample_aggregate import SampleAggregate
from dpsubset.mechanisms.screening import Screening
from dpsubset.mechanisms.stepwise import Stepwise
from dpsubset.mechanisms.top_r import TopR

__all__ = ["BASELINES", "MECHANISMS", "OWN_OPTIONS", "UNSCALED", "make_mechanism"]

MECHANISMS: dict[str, type[Mechanism]] = {
    "permute-and-flip": PermuteAndFlip,
    "exponential": Exponential,
    "top-r": TopR,
    "mistakes": Mistakes,
}
STEPWISE: dict[str, type[Mechanism]] = {"stepwise": Stepwise}
BASELINES: dict[str, type[Mechanism]] = {
    "markov-chain": MarkovChain,
    "sample-aggregate": SampleAggregate,
    "lasso-stability": LassoStability,
    "kendall": Kendall,
    "screening": Screening,
}
OWN_OPTIONS = {  # and which mechanisms they belong to
    "count": ("top-r",),
    "trials": ("top-r",),
    "accounting": ("top-r",),
    "delta": ("mistakes", "lasso-stability"),
    "otherwise": ("mistakes",),
    "at_once": ("stepwise",),
}
UNSCALED = (  # no score of the problem enters them, nor its sensitivity
    "sample-aggregate",
    "lasso-stability",
    "kendall",
    "screening",
)


def make_mechanism(
    name: str,
    epsilon: float,
    *,
    neighbours: str,
    sensitivity: str = "tight",
    max_seconds: float | None = None,
    rows: int | None = None,
    **own: Any,
) -> Mechanism:
    """Make the mechanism of that name; `own` are options that only some have, None if not given.

    `rows` is a public number of rows, for a default that needs one under add-remove.

    >>> make_mechanism("exponential", 1.0, neighbours="add-remove").epsilon
    1.0
    """
    known = MECHANISMS | STEPWISE | BASELINES
    if not isinstance(name, str) or name not in known:
        raise InputError(f"unknown mechanism {name!r}; allowed: {', '.join(known)}")
    if not isinstance(neighbours, str):
        raise InputError('neighbours must be "replace-one" or "add-remove"')
    if isinstance(epsilon, Real) and epsilon == math.inf:
        raise InputError("epsilon is infinite, which is no privacy at all; give a finite number")
    options: dict[str, Any] = {"neighbours": neighbours}
    if name not in UNSCALED:
        options["sensitivity"] = sensitivity
    elif sensitivity != "tight":
        raise InputError(f"{name} does not rest on the sensitivity of scores; leave its rule out")
    if max_seconds is not None:
        options["limits"] = Limits(seconds=positive(max_seconds, "max_seconds"))
    given = {key: value for key, value in own.items() if value is not None}
    for key in given:
        if name not in OWN_OPTIONS[key]:
            owners = " and ".join(OWN_OPTIONS[key])
            raise InputError(f"{key} belongs to {owners}; leave it out for {name}")
    options |= given
    if name == "sample-aggregate" and neighbours == "add-remove" and rows is not None:
        options["blocks"] = max(1, math.isqrt(rows))  # as under replace-one, where n is public
    return known[name](epsilon, **options)
