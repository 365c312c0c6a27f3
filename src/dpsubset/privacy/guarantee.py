"""A guarantee: a value that exists before any data is touched, and prints as a sentence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dpsubset.privacy.neighbours import NEIGHBOURS

__all__ = ["Guarantee"]


def _rounded_up(epsilon: float) -> str:
    """Return a short number that is not below epsilon."""
    short = f"{epsilon:.6g}"
    return short if float(short) >= epsilon else repr(epsilon)


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
    sensitivity: float
    precision: float = 1e-12  # of a score, in units of n times the sensitivity
    delta: float = 0.0
    condition: str | None = None
    randomness: str = "operating system"

    def __str__(self) -> str:
        what = f"{_rounded_up(self.epsilon)}-differentially private"
        if self.delta:
            what = f"({_rounded_up(self.epsilon)}, {self.delta:.3g})-differentially private"
        when = f", provided that {self.condition}" if self.condition else ""
        source = (
            "operating system's randomness"
            if self.randomness == "operating system"
            else "SEEDED randomness, for experiments only: who knows the seed undoes the privacy"
        )
        return (
            f"The {self.mechanism} is {what} for {NEIGHBOURS[self.neighbours]}{when} "
            f"(sensitivity {self.sensitivity:.6g}; {source}; meant in exact arithmetic, rounding "
            f"of the scores adds a factor 1 + {4 * self.precision:g} n to epsilon, n the number of "
            "rows)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "sentence": str(self)}
