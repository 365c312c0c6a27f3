"""A model: a selection and coefficients on what it selects, as one value under one budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.checks import positive
from dpsubset.coefficients import CoefficientMechanism, NoisyStatistics, ObjectivePerturbation
from dpsubset.data.bounds import narrowed
from dpsubset.data.frames import Table
from dpsubset.data.schema import Schema
from dpsubset.docstrings import documented
from dpsubset.errors import InputError, at_once
from dpsubset.labels import Labels
from dpsubset.losses import HuberLogistic, Logistic, Loss, as_loss
from dpsubset.mechanisms import LassoStability, Mechanism, Peeling, SampleAggregate
from dpsubset.mechanisms.offset import has_offset, moved, widest
from dpsubset.model_file import LinearModel
from dpsubset.privacy import Guarantee, as_randomness, compose
from dpsubset.privacy.guarantee import decimal_rest, seeded_if
from dpsubset.privacy.ledger import LedgerLike
from dpsubset.problem import Problem
from dpsubset.question import ModelQuestion
from dpsubset.records import charging, described
from dpsubset.selection import Selection
from dpsubset.wording import loss_name, shortfall, with_share

__all__ = ["METHODS", "Model"]

METHODS: tuple[str, ...] = ("objective-perturbation", "noisy-statistics")

# By kind of target: the loss, and the ball. docs/prediction.md has the figures behind them.
_LOSS = {"objective-perturbation": "huber:0.2", "noisy-statistics": "squared"}
_LABEL_LOSS = "huber_logistic:0.5"
_RADIUS = {"squared": 1.0, "huber": 2.0}
_LABEL_RADIUS = 10.0

# What noise may cost a row, in squares of the target's half width, and in log loss (T42); and the
# part of epsilon for an offset: rows times its epsilon is a first guess's worth, within limits.
# docs/prediction.md has the figures behind them.
_TOLERANCE = {False: 0.003, True: 0.02}
_FIRST_GUESS = 50.0
_LEAST, _MOST = 0.01, 0.9
_SHARE = 0.1  # where the number of rows is private
_SELECTION = 0.5  # of what is left, for the selection
_FEW, _SELECTION_OF_FEW = 1000.0, 0.35  # epsilon n of numbers below which coefficients need more


@documented
@dataclass(frozen=True, kw_only=True, eq=False)
class Model(ModelQuestion, Selection):
    """A sparse linear model: what is asked of a table, selection and coefficients together.

    `epsilon` is the budget of both. A mechanism object brings its own epsilon, and what it leaves
    goes to the coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset.data import Schema, Table
    >>> from dpsubset.data.target import Target
    >>> schema = Schema.of(("age", "dose"), 2, (0, 10), Target((0.0, 10.0)))
    >>> model = Model(schema=schema, size=1, epsilon=50.0, seed=0)
    >>> X = np.random.default_rng(0).uniform(0, 10, (500, 2))
    >>> model.release(Table(X, X[:, 1])).columns
    ('dose',)
    """

    def __post_init__(self) -> None:
        self._make_plain()
        at_once(
            partial(positive, self.epsilon, "epsilon"),
            self._check_share,
            lambda: chosen_loss(self.coefficients, self.coefficient_loss, self._labels),
        )
        super().__post_init__()
        self._check_units()

    def _check_share(self) -> None:
        if self.selection_share is None:
            return
        if not positive(self.selection_share, "selection_share") < 1:
            raise InputError(
                "selection_share must lie between 0 and 1, both excluded, not "
                f"{self.selection_share!r}"
            )

    def _own_options(self) -> dict[str, Any]:
        return super()._own_options() | {"delta": None}  # ours is the coefficients'

    def _selection_epsilon(self) -> float:
        share = _SELECTION if self.selection_share is None else self.selection_share
        return share * positive(self._left(), "epsilon")

    def _settle(self, rows: int) -> Self:
        """Give shares of epsilon, too: where none were given, by public rules (T42)."""
        model = super()._settle(rows)
        ruled: dict[str, Any] = {}
        if model.selection_share is None:
            ruled["selection_share"] = model._ruled_selection(rows)
        if model.offset_share is None:
            ruled["offset_share"] = model._ruled_share(rows)
        return replace(model, **ruled, seed=model.checked_seed) if ruled else model

    def _ruled_selection(self, rows: int | None) -> float:
        """Return the selection's part of what is left of epsilon."""
        known = self.public_rows(rows)
        few = known is not None and known * self.epsilon < _FEW
        return _SELECTION_OF_FEW if few and not self._labels else _SELECTION

    def _checked_share(self, name: str, none: str, *, or_auto: bool = False) -> float:
        if name == "offset_share" and self.offset_share is None:
            return self._ruled_share(None)  # before there are rows
        return super()._checked_share(name, none, or_auto=or_auto)

    def _ruled_share(self, rows: int | None) -> float:
        """Return the part of epsilon for an offset that is as exact as a first guess need be."""
        loss = chosen_loss(self.coefficients, self.coefficient_loss, self._labels)
        if not (self.intercept and has_offset(loss)):
            return 0.0
        # An object brings its own epsilon; the target's bounds and window take theirs.
        taken = [self.mechanism.epsilon] if isinstance(self.mechanism, Mechanism) else []
        taken += [part.epsilon for part in (self.target_bounds, self.window) if part is not None]
        free = max(0.0, 1.0 - math.fsum(taken) / positive(self.epsilon, "epsilon"))
        known = self.public_rows(rows)
        if known is None:
            return round(_SHARE * free, 4)
        wanted = _FIRST_GUESS / (max(known, 1) * free * self.epsilon)
        return round(free * min(_MOST, max(_LEAST, wanted)), 4)

    @property
    def _labels(self) -> bool:
        return self.schema.target.limits is None

    def _check_offset(self) -> None:
        """Refuse a window where a selection would; coefficients may have an offset alone."""
        if self.window is not None:
            self._check_before(self._called("window_share"), scored=True)

    @cached_property
    def _around(self) -> bool:
        """Whether columns are selected around the offset, too, and not coefficients alone.

        Some mechanisms look at no scores, or have a condition on the table of the scores (T39).
        """
        return (
            self.offset is not None
            and self.window is None  # which is around the target itself
            and not isinstance(self.made, (SampleAggregate, LassoStability, Peeling))
            and has_offset(as_loss(self.loss))
            and self.made.guarantee(self.rehearsal()).condition is None
        )

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
        left = self._left()
        if not mechanism.epsilon < left:
            offset = "" if self.offset is None else f", {self.offset.epsilon:g} of it on an offset"
            raise InputError(
                f"the mechanism object spends epsilon {mechanism.epsilon:g} on the selection, and "
                f"the model may spend {self.epsilon:g} in all{offset}: nothing is left for "
                "coefficients. Give the model the larger epsilon"
            )

    @cached_property
    def method(self) -> CoefficientMechanism:
        """The method for coefficients, with what the selection leaves of epsilon."""
        epsilon = decimal_rest(float(self._left()), self.made.epsilon)
        neighbours = self.made.neighbours
        if check_method(self.coefficients) == "objective-perturbation":
            by_table = neighbours == "replace-one"
            rows = None if by_table else self.schema.rows
            ruled = self.coefficient_ridge is None and (by_table or rows is not None)
            tolerance = _TOLERANCE[self._labels] * max(self._weights or (1.0,))
            return ObjectivePerturbation(
                epsilon,
                delta=self.delta,
                neighbours=neighbours,
                tolerance=tolerance if ruled else None,
                rows=rows if ruled else None,
            )
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
            loss=self.weighted(loss),
            x_bound=selection.x_bound,
            y_bound=selection.y_bound,
            radius=radius,
            ridge=0.0 if self.coefficient_ridge is None else self.coefficient_ridge,
            groups=selection.groups,
            origin=selection.origin,
            present=selection.present,
        )

    def _guarantee(self, problem: Problem) -> Guarantee:
        """Return what selection and coefficients guarantee together (T29)."""
        fit = self.fit_problem(problem)
        selects = self._selects(problem)
        first = self.first.guarantees(fit)
        if not first:
            return compose([selects, self.method.guarantee(fit)])
        coefficients = widest(self.method, fit) if self.offset else self.method.guarantee(fit)
        return compose([with_share(part) for part in [*first, selects, coefficients]])

    def _selects(self, problem: Problem) -> Guarantee:
        return widest(self.made, problem) if self._around else self.made.guarantee(problem)

    def _weaker(self, problem: Problem) -> str | None:
        """Say in what the selection's guarantee is weaker than what was asked for, if it is."""
        return shortfall(self._selects(problem), self.made.epsilon)

    def release(self, table: Table | Problem, ledger: LedgerLike = None) -> LinearModel:  # type: ignore[override]
        """Spend the budget: select columns, then fit coefficients on them; charged once."""
        released: LinearModel = self._spend(table, ledger)
        return released

    def _release(self, problem: Problem, ledger: Any) -> LinearModel:
        fit = self.fit_problem(problem)
        seed = self.checked_seed
        self.method.prepare(fit, seeded=seed is not None)  # said before anything is spent
        promise = seeded_if(seed is not None, self._guarantee(problem))
        asked = {
            **self.made.asked(problem),
            "selection_share": self.selection_share,
            "coefficients": described(self.method)
            | {"loss": loss_name(fit.loss), "radius": fit.radius, "ridge": fit.ridge},
        }
        randomness = as_randomness(seed)  # one stream for both draws
        with charging(ledger, promise, asked) as write:
            limits, scored = self.first.bounded(problem, randomness)
            start, fit = self.first.started(self.fit_problem(scored), randomness)
            if start is not None and self._around:
                scored = moved(scored, start)
            _, scored = self.first.windowed(scored, limits, randomness)
            support = self.made.chosen(scored, randomness)
            values = self.method.fitted(fit, support, randomness)
            line = self._in_words(problem, support, values, start, limits)
            model = replace(line, guarantee=promise.to_dict(), asked=asked)
            write(model.released())
        return model

    def _in_words(
        self,
        problem: Problem,
        support: tuple[int, ...],
        values: Sequence[float],
        offset: float | None,
        target_limits: tuple[float, float] | None,
    ) -> LinearModel:
        """Return the model in the owner's columns and units; predictions begin at the offset."""
        schema, origin = self.schema, problem.origin
        start = offset or 0.0
        seen = origin.seen(support)
        loss = chosen_loss(self.coefficients, self.coefficient_loss, self._labels)
        model = LinearModel(
            target=schema.target_name,
            columns=tuple(str(schema.label(j)) for j in seen),
            coefficients=(),
            intercept=0.0,
            classes=schema.target.classes,
            probabilities=has_chances(loss),
            target_bounds=target_limits,
            positions=seen,
            offset=None if offset is None else self.first.in_units(offset, target_limits),
        )
        if schema.columns is not None:
            found, intercept = in_levels(schema, support, values, start, target_limits, self.clip)
            codings = tuple(schema.columns[j] for j in seen)
            return replace(
                model,
                coefficients=found,
                intercept=intercept,
                codings=codings,
                clip=self.clip,
                line_breaks=schema.line_breaks,
            )
        own_constant = (v for j, v in zip(support, values, strict=True) if j not in seen)
        constant = math.fsum([start, *own_constant])
        own = np.array([v for j, v in zip(support, values, strict=True) if j in seen])
        line, intercept = in_units(seen, own, constant, schema.limits, target_limits, self.clip)
        lower, upper = narrowed(schema.limits, self.clip)
        return replace(
            model,
            coefficients=tuple(float(line[j]) for j in seen),
            intercept=intercept,
            bounds=tuple((float(lower[j]), float(upper[j])) for j in seen),
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


def has_chances(loss: Loss) -> bool:
    """Say whether predictions by a loss are log odds."""
    return isinstance(loss, (Logistic, HuberLogistic))


def in_levels(
    schema: Schema,
    support: Sequence[int],
    values: Sequence[float],
    start: float,
    target_limits: tuple[float, float] | None,
    clip: float,
) -> tuple[tuple[float, ...], float]:
    """Return the coefficients of numbers and levels, feature by feature, and the intercept.

    The values are those of the coded columns, on the scale [-1, 1], in the order of the support;
    what lies beyond the schema's columns is a constant. Predictions begin at `start`, too.
    """
    assert schema.columns is not None
    low, high = (-1.0, 1.0)
    if target_limits is not None:
        low, high = narrowed(target_limits, clip)
    half = high / 2 - low / 2
    intercept = low / 2 + high / 2 + start * half
    weights = half * np.asarray(values, dtype=np.float64)
    found: list[float] = []
    for feature in support:
        if feature >= schema.n_columns:
            intercept, weights = intercept + float(weights[0]), weights[1:]
            continue
        column = schema.columns[feature]
        effects, shift = column.effects(weights[: column.width], clip)
        found, intercept = [*found, *effects.tolist()], intercept + shift
        weights = weights[column.width :]
    return tuple(found), float(intercept)


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
