"""Privacy: guarantees, neighbour relations, randomness. It knows no tables."""

from dpsubset.privacy.exports import to_dp_event
from dpsubset.privacy.guarantee import Guarantee, compose, compose_disjoint
from dpsubset.privacy.ledger import Ledger
from dpsubset.privacy.neighbours import NEIGHBOURS, check_neighbours, exponent
from dpsubset.privacy.randomness import Randomness, as_randomness

__all__ = [
    "NEIGHBOURS",
    "Guarantee",
    "Ledger",
    "Randomness",
    "as_randomness",
    "check_neighbours",
    "compose",
    "compose_disjoint",
    "exponent",
    "to_dp_event",
]
