"""Mechanisms: private choices among supports, each with its guarantee."""

from dpsubset.mechanisms.base import Mechanism, Release
from dpsubset.mechanisms.exponential import Exponential
from dpsubset.mechanisms.mistakes import Mistakes
from dpsubset.mechanisms.permute_and_flip import PermuteAndFlip
from dpsubset.mechanisms.top_r import TopR

__all__ = ["Exponential", "Mechanism", "Mistakes", "PermuteAndFlip", "Release", "TopR"]
