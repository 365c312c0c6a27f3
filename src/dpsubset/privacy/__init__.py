"""Privacy: guarantees, neighbour relations, randomness. It knows no tables."""

from dpsubset.privacy.guarantee import Guarantee, compose
from dpsubset.privacy.neighbours import NEIGHBOURS, check_neighbours, exponent
from dpsubset.privacy.randomness import Randomness, as_randomness

__all__ = [
    "NEIGHBOURS",
    "Guarantee",
    "Randomness",
    "as_randomness",
    "check_neighbours",
    "compose",
    "exponent",
]
