"""A guarantee: a value that exists before any data is touched, and prints as a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dpsubset.errors import InputError
from dpsubset.privacy.neighbours import NEIGHBOURS

__all__ = ["Guarantee", "compose", "rounded_up"]


def rounded_up(value: float) -> str:
    """Return a short number that is not below the value."""
    short = f"{value:.6g}"
    return short if float(short) >= value else repr(value)


@dataclass(frozen=True)
class Guarantee:
    """What a release promises, to whom, and on what it rests.

    >>> print(Guarantee("exponential mechanism", 1.0, "add-remove", sensitivity=4.0))
    The exponential mechanism is 1-differentially private for tables of which one has one row more \
(sensitivity 4; operating system's randomness; meant in exact arithmetic, rounding of the scores \
adds a factor 1 + 4e-12 n to epsilon, n the number of rows).
    """

    mechanism: str
    epsilon: float
    neighbours: str
    sensitivity: float | None  # None for a composition: its parts have their own
    precision: float = 1e-12  # of a score, in units of n times the sensitivity; 0 if none is used
    delta: float = 0.0
    condition: str | None = None
    randomness: str = "operating system"

    def __str__(self) -> str:
        budget = rounded_up(self.epsilon)
        if self.delta:
            budget = f"({budget}, {rounded_up(self.delta)})"
        when = f", provided that {self.condition}" if self.condition else ""
        source = (
            "operating system's randomness"
            if self.randomness == "operating system"
            else "SEEDED randomness, for experiments only: who knows the seed undoes the privacy"
        )
        basis = [source, "meant in exact arithmetic"]
        if self.sensitivity is not None:
            basis.insert(0, f"sensitivity {self.sensitivity:.6g}")
        if self.precision:
            basis[-1] += (
                f", rounding of the scores adds a factor 1 + {4 * self.precision:g} n to epsilon, "
                "n the number of rows"
            )
        return (
            f"The {self.mechanism} is {budget}-differentially private for "
            f"{NEIGHBOURS[self.neighbours]}{when} ({'; '.join(basis)})."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "sentence": str(self)}


def compose(parts: Sequence[Guarantee]) -> Guarantee:
    """Return what several releases from one table promise together: epsilons and deltas add (T29).

    Later parts may be chosen by what earlier ones released.

    >>> one = Guarantee("exponential mechanism", 1.0, "replace-one", 4.0)
    >>> both = compose([one, Guarantee("objective perturbation", 0.5, "replace-one", 2.0)])
    >>> both.mechanism, both.epsilon
    ('exponential mechanism followed by objective perturbation', 1.5)
    """
    if not parts:
        raise InputError("there is no guarantee to add up; give at least one")
    if len({part.neighbours for part in parts}) != 1:
        raise InputError("guarantees for different neighbour relations cannot be added up")
    conditions = [part.condition for part in parts if part.condition]
    seeded = any(part.randomness != "operating system" for part in parts)
    return Guarantee(
        " followed by ".join(part.mechanism for part in parts),
        math.fsum(part.epsilon for part in parts),
        parts[0].neighbours,
        None,
        max(part.precision for part in parts),
        math.fsum(part.delta for part in parts),
        "; and that ".join(conditions) if conditions else None,
        "seeded" if seeded else "operating system",
    )
