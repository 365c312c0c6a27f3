"""A model: a selection and coefficients on what it selects, as one value under one budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.checks import positive
from dpsubset.coefficients import CoefficientMechanism, NoisyStatistics, ObjectivePerturbation
from dpsubset.data.bounds import narrowed
from dpsubset.data.frames import Table
from dpsubset.errors import InputError, at_once
from dpsubset.labels import Labels
from dpsubset.losses import Logistic, Loss, as_loss
from dpsubset.mechanisms import Mechanism
from dpsubset.model_file import LinearModel
from dpsubset.privacy import Guarantee, as_randomness, compose
from dpsubset.privacy.guarantee import decimal_rest, seeded_if
from dpsubset.privacy.ledger import LedgerLike
from dpsubset.problem import Problem
from dpsubset.question import ModelQuestion
from dpsubset.records import charging, described
from dpsubset.selection import Selection, loss_name, shortfall

__all__ = ["METHODS", "Model"]

METHODS: tuple[str, ...] = ("objective-perturbation", "noisy-statistics")

# By kind of target: the loss, and the ball. docs/prediction.md has the figures behind them.
_LOSS = {"objective-perturbation": "huber:0.2", "noisy-statistics": "squared"}
_LABEL_LOSS = "logistic"
_RADIUS = {"squared": 1.0, "huber": 2.0}
_LABEL_RADIUS = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Model(ModelQuestion, Selection):
    """A sparse linear model: what is asked of a table, selection and coefficients together.

    `epsilon` is the budget of both. A mechanism object brings its own epsilon, and what it leaves
    goes to the coefficients.
    """

    def __post_init__(self) -> None:
        self._make_plain()
        if self.offset_share != 0:
            raise InputError("offset_share is for selections; a model has an intercept of its own")
        at_once(
            partial(positive, self.epsilon, "epsilon"),
            self._check_share,
            lambda: chosen_loss(
                self.coefficients, self.coefficient_loss, self.schema.target.limits is None
            ),
        )
        super().__post_init__()
        self._check_units()

    def _check_share(self) -> None:
        if not positive(self.selection_share, "selection_share") < 1:
            raise InputError(
                "selection_share must lie between 0 and 1, both excluded, not "
                f"{self.selection_share!r}"
            )

    def _own_options(self) -> dict[str, Any]:
        return super()._own_options() | {"delta": None}  # ours is the coefficients'

    def _selection_epsilon(self) -> float:
        return self.selection_share * positive(self.epsilon, "epsilon")

    def _check_twice_given(self, mechanism: Mechanism) -> None:
        if self.neighbours not in ("replace-one", mechanism.neighbours):
            raise InputError(
                "neighbours is given twice and differs: to the mechanism object and to the model"
            )
        if mechanism.ledger is not None:
            raise InputError(
                "the mechanism object has a ledger, which would not see the coefficients: give the "
                "ledger to the model"
            )
        if not mechanism.epsilon < self.epsilon:
            raise InputError(
                f"the mechanism object spends epsilon {mechanism.epsilon:g} on the selection, and "
                f"the model may spend {self.epsilon:g} in all: nothing is left for coefficients. "
                "Give the model the larger epsilon"
            )

    @cached_property
    def method(self) -> CoefficientMechanism:
        """The method for coefficients, with what the selection leaves of epsilon."""
        epsilon = decimal_rest(float(self.epsilon), self.made.epsilon)
        neighbours = self.made.neighbours
        if check_method(self.coefficients) == "objective-perturbation":
            return ObjectivePerturbation(epsilon, delta=self.delta, neighbours=neighbours)
        if positive(self.delta, "delta", zero=True):
            raise InputError("noisy-statistics has no delta: leave it out, or at 0")
        return NoisyStatistics(epsilon, neighbours=neighbours)

    def fit_problem(self, selection: Problem) -> Problem:
        """Return the problem of the coefficients, on the table of the selection."""
        labels = selection.loss.classification
        loss = chosen_loss(self.coefficients, self.coefficient_loss, labels)
        radius = self.coefficient_radius
        if radius is None:
            radius = _LABEL_RADIUS if labels else _RADIUS.get(loss.name, 1.0)
        return Problem(
            selection.design,
            Labels(selection.y, selection.classes_named) if labels else selection.y,
            size=selection.size,
            false_columns=selection.false_columns,
            loss=loss,
            x_bound=selection.x_bound,
            y_bound=selection.y_bound,
            radius=radius,
            ridge=self.coefficient_ridge,
            origin=selection.origin,
        )

    def guarantee(self, problem: Problem | None = None) -> Guarantee:
        """Return what selection and coefficients guarantee together (T29)."""
        problem = problem or self.rehearsal()
        return compose(
            [self.made.guarantee(problem), self.method.guarantee(self.fit_problem(problem))]
        )

    def weaker(self, problem: Problem) -> str | None:
        """Say in what the selection's guarantee is weaker than what was asked for, if it is."""
        return shortfall(self.made.guarantee(problem), self.made.epsilon)

    def release(self, table: Table | Problem, ledger: LedgerLike = None) -> LinearModel:  # type: ignore[override]
        """Spend the budget: select columns, then fit coefficients on them; charged once."""
        problem = self.posed(table)
        fit = self.fit_problem(problem)
        seed = self.checked_seed
        self.method.prepare(fit, seeded=seed is not None)  # said before anything is spent
        promise = seeded_if(seed is not None, self.guarantee(problem))
        asked = {
            **self.made.asked(problem),
            "selection_share": self.selection_share,
            "coefficients": described(self.method)
            | {"loss": loss_name(fit.loss), "radius": fit.radius, "ridge": fit.ridge},
        }
        randomness = as_randomness(seed)  # one stream for both draws
        with charging(self.check_ledger(ledger), promise, asked) as write:
            support = self.made.chosen(problem, randomness)
            values = self.method.fitted(fit, support, randomness)
            model = self._in_words(problem, fit, support, values, promise, asked)
            write(model.released())
        return model

    def _in_words(
        self,
        problem: Problem,
        fit: Problem,
        support: tuple[int, ...],
        values: Sequence[float],
        promise: Guarantee,
        asked: dict[str, Any],
    ) -> LinearModel:
        """Return the model in the owner's columns and units."""
        schema, origin = self.schema, problem.origin
        seen = origin.seen(support)
        constant = math.fsum(v for j, v in zip(support, values, strict=True) if j not in seen)
        own = np.array([v for j, v in zip(support, values, strict=True) if j in seen])
        line, intercept = in_units(
            seen, own, constant, schema.limits, schema.target.limits, self.clip
        )
        lower, upper = narrowed(schema.limits, self.clip)
        return LinearModel(
            target=schema.target_name,
            columns=tuple(str(schema.label(j)) for j in seen),
            coefficients=tuple(float(line[j]) for j in seen),
            intercept=intercept,
            classes=schema.target.classes,
            probabilities=isinstance(fit.loss, Logistic),
            guarantee=promise.to_dict(),
            asked=asked,
            bounds=tuple((float(lower[j]), float(upper[j])) for j in seen),
            target_bounds=schema.target.limits,
            positions=seen,
        )

    def _check_units(self) -> None:
        """Refuse bounds for which coefficients in the table's units would leave float64."""
        columns = tuple(range(self.schema.n_columns))
        huge = np.full(len(columns), 1e20)  # a radius is not larger
        limits, target = self.schema.limits, self.schema.target.limits
        with np.errstate(over="ignore", invalid="ignore"):
            line, intercept = in_units(columns, huge, 1e20, limits, target, self.clip)
        if not (np.isfinite(line).all() and math.isfinite(intercept)):
            raise InputError(
                "the bounds of columns and target are of such different size that coefficients "
                "would leave float64: give them in other units"
            )


def check_method(method: Any) -> str:
    """Return the name of a method for coefficients, or say which there are."""
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(
            f"unknown method {method!r} for coefficients; allowed: {', '.join(METHODS)}"
        )
    return method


def chosen_loss(method: Any, given: Any, labels: bool) -> Loss:
    """Return the loss of the coefficients; it must suit the kind of target."""
    default = _LABEL_LOSS if labels else _LOSS[check_method(method)]
    loss = as_loss(default if given is None else given)
    if loss.classification != labels:
        kind = "labels of two classes" if labels else "numbers"
        raise InputError(f"the {loss.name} loss of the coefficients is not for {kind}")
    return loss


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
    labels (no bounds of the target) the result gives the margin, whose sign is the class.
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
