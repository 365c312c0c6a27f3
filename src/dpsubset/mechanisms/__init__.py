"""Mechanisms: private choices among supports, each with its guarantee."""

from dpsubset.mechanisms.base import Mechanism, Release
from dpsubset.mechanisms.exponential import Exponential
from dpsubset.mechanisms.kendall import Kendall
from dpsubset.mechanisms.lasso_stability import LassoStability
from dpsubset.mechanisms.markov_chain import MarkovChain
from dpsubset.mechanisms.measurement import as_measurement
from dpsubset.mechanisms.mistakes import Mistakes
from dpsubset.mechanisms.peeling import Peeling
from dpsubset.mechanisms.permute_and_flip import PermuteAndFlip
from dpsubset.mechanisms.sample_aggregate import SampleAggregate
from dpsubset.mechanisms.screening import Screening
from dpsubset.mechanisms.stepwise import Stepwise
from dpsubset.mechanisms.top_r import TopR

__all__ = [
    "Exponential",
    "Kendall",
    "LassoStability",
    "MarkovChain",
    "Mechanism",
    "Mistakes",
    "Peeling",
    "PermuteAndFlip",
    "Release",
    "SampleAggregate",
    "Screening",
    "Stepwise",
    "TopR",
    "as_measurement",
]
