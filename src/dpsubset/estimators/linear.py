"""From released columns to a released linear model: the same way for estimators and command."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.checks import positive
from dpsubset.coefficients import CoefficientMechanism, NoisyStatistics, ObjectivePerturbation
from dpsubset.errors import InputError
from dpsubset.estimators.bounds import narrowed
from dpsubset.estimators.release import released_by
from dpsubset.labels import Labels
from dpsubset.losses import Loss, as_loss
from dpsubset.mechanisms import Mechanism
from dpsubset.privacy import Guarantee, Ledger, compose
from dpsubset.privacy.guarantee import seeded_if
from dpsubset.privacy.ledger import charged
from dpsubset.problem import Problem

__all__ = [
    "METHODS",
    "Coefficient",
    "LinearModel",
    "check_share",
    "check_units",
    "fit_model",
    "in_units",
]

METHODS: tuple[str, ...] = ("objective-perturbation", "noisy-statistics")

# By kind of target: the loss, and the ball. docs/prediction.md has the figures behind them.
_LOSS = {"objective-perturbation": "huber:0.2", "noisy-statistics": "squared"}
_LABEL_LOSS = "logistic"
_RADIUS = {"squared": 1.0, "huber": 2.0}
_LABEL_RADIUS = 10.0


@dataclass(frozen=True)
class Coefficient:
    """How coefficients are fitted; None means the default for the kind of target."""

    method: Any = "objective-perturbation"
    loss: Any = None
    radius: Any = None
    ridge: Any = 0.0
    delta: Any = 0.0

    def mechanism(self, epsilon: float, neighbours: str) -> CoefficientMechanism:
        """Make the method of that name."""
        if _known(self.method) == "objective-perturbation":
            return ObjectivePerturbation(epsilon, delta=self.delta, neighbours=neighbours)
        if positive(self.delta, "delta", zero=True):
            raise InputError("noisy-statistics has no delta: leave it out, or at 0")
        return NoisyStatistics(epsilon, neighbours=neighbours)

    def chosen_loss(self, labels: bool) -> Loss:
        """Return the loss of the fit; it must suit the kind of target."""
        default = _LABEL_LOSS if labels else _LOSS[_known(self.method)]
        loss = as_loss(default if self.loss is None else self.loss)
        if loss.classification != labels:
            kind = "labels of two classes" if labels else "numbers"
            raise InputError(f"the {loss.name} loss of the coefficients is not for {kind}")
        return loss

    def problem(self, selection: Problem) -> Problem:
        """Pose the problem of the fit on the table of the selection."""
        labels = selection.loss.classification
        loss = self.chosen_loss(labels)
        radius = self.radius
        if radius is None:
            radius = _LABEL_RADIUS if labels else _RADIUS.get(loss.name, 1.0)
        return Problem(
            selection.design,
            Labels(selection.y, selection.classes_named) if labels else selection.y,
            size=selection.size,
            loss=loss,
            x_bound=selection.x_bound,
            y_bound=selection.y_bound,
            radius=radius,
            ridge=self.ridge,
        )


def _known(method: Any) -> str:
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(
            f"unknown method {method!r} for coefficients; allowed: {', '.join(METHODS)}"
        )
    return method


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A released linear model over the first columns of a table, in units of the scale [-1, 1].

    `constant` is the coefficient of the constant column, 0 if there is none.
    """

    support: tuple[int, ...]
    values: Floats
    constant: float
    guarantee: Guarantee

    def in_units(
        self,
        limits: tuple[Floats, Floats],
        target_limits: tuple[float, float] | None,
        clip: float,
    ) -> tuple[Floats, float]:
        """Return one coefficient for each column, and the intercept, in the table's units."""
        return in_units(self.support, self.values, self.constant, limits, target_limits, clip)


def check_share(share: Any) -> float:
    """Return the selection's part of epsilon, or say what it must be."""
    if not (positive(share, "selection_share") < 1):
        raise InputError(f"selection_share must lie between 0 and 1, both excluded, not {share!r}")
    return float(share)


def check_units(
    limits: tuple[Floats, Floats], target_limits: tuple[float, float] | None, clip: float
) -> None:
    """Refuse limits for which coefficients in the table's units would leave float64."""
    columns = tuple(range(limits[0].size))
    huge = np.full(len(columns), 1e20)  # a radius is not larger
    with np.errstate(over="ignore", invalid="ignore"):
        line, intercept = in_units(columns, huge, 1e20, limits, target_limits, clip)
    if not (np.isfinite(line).all() and math.isfinite(intercept)):
        raise InputError(
            "the bounds of columns and target are of such different size that coefficients would "
            "leave float64: give them in other units"
        )


def fit_model(
    mechanism: Mechanism,
    method: CoefficientMechanism,
    problem: Problem,
    coefficient: Coefficient,
    n_columns: int,
    seed: int | np.random.Generator | None = None,
    ledger: Ledger | None = None,
    table_name: str | None = None,
) -> LinearModel:
    """Release columns, then coefficients on them; the guarantee is the composition (T29).

    A ledger is charged once, for both, under the table's name if it has one.
    """
    fit = coefficient.problem(problem)
    method.prepare(fit, seeded=seed is not None)  # what is wrong is said before anything is spent
    if mechanism.ledger is not None:
        raise InputError(
            "the mechanism object has a ledger, which would not see the coefficients: give the "
            "ledger to the model"
        )
    both = compose([mechanism.guarantee(problem), method.guarantee(fit)])
    promise = seeded_if(seed is not None, both)
    seed = None if seed is None else np.random.default_rng(seed)  # one stream for both draws
    asked = mechanism.asked(problem) | {"coefficients": method.asked(fit)}
    if table_name is not None:
        asked["table"] = table_name
    with charged(ledger, promise, asked) as record:
        chosen = released_by(mechanism, problem, seed)
        fitted = method.release(fit, chosen.support, seed)
        record({"support": fitted.support, "values": fitted.values})
    values = np.array(fitted.values)
    inside = np.array(fitted.support) < n_columns
    return LinearModel(
        tuple(j for j in fitted.support if j < n_columns),
        values[inside],
        float(values[~inside].sum()),
        promise,
    )


def in_units(
    support: tuple[int, ...],
    values: Floats,
    constant: float,
    limits: tuple[Floats, Floats],
    target_limits: tuple[float, float] | None,
    clip: float,
) -> tuple[Floats, float]:
    """Return one coefficient for each column, and the intercept, in the units of the table.

    The values, and the coefficient of the constant column, are those on the scale [-1, 1]. For
    labels (no limits of the target) the result gives the margin, whose sign is the class.
    """
    lower, upper = narrowed(limits, clip)
    middle, half = lower / 2 + upper / 2, upper / 2 - lower / 2
    chosen = list(support)
    coefficients = np.zeros(lower.size)
    coefficients[chosen] = values / half[chosen]
    intercept = constant - float(coefficients[chosen] @ middle[chosen])
    if target_limits is not None:
        low, high = narrowed(target_limits, clip)
        coefficients *= high / 2 - low / 2
        intercept = low / 2 + high / 2 + intercept * (high / 2 - low / 2)
    return coefficients, intercept
