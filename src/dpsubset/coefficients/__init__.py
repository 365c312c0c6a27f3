"""Private coefficients on a released support. How the support was chosen is not known here."""

from dpsubset.coefficients.base import CoefficientMechanism, Coefficients
from dpsubset.coefficients.objective import ObjectivePerturbation, objective_perturbation
from dpsubset.coefficients.statistics import NoisyStatistics, noisy_statistics

__all__ = [
    "CoefficientMechanism",
    "Coefficients",
    "NoisyStatistics",
    "ObjectivePerturbation",
    "noisy_statistics",
    "objective_perturbation",
]
