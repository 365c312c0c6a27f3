"""What `dpsubset fit` and `dpsubset predict` do, from the user's words to a model and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl

from dpsubset.checks import positive
from dpsubset.cli.plan import Request, make_mechanisms, make_plan
from dpsubset.cli.selection import settings_of, warnings_of
from dpsubset.errors import InputError
from dpsubset.estimators.bounds import narrowed
from dpsubset.estimators.linear import (
    Coefficient,
    check_share,
    check_units,
    fit_model,
)
from dpsubset.losses import Logistic, as_loss
from dpsubset.privacy.guarantee import decimal_rest
from dpsubset.privacy.ledger import as_ledger
from dpsubset.tables import StoredModel, read_columns, read_table

__all__ = ["fit_table", "predictions"]


def fit_table(
    request: Request, selection_share: float, coefficient: Coefficient
) -> tuple[StoredModel, tuple[str, ...]]:
    """Check everything that does not need the rows, read them, release a model.

    Raises
    ------
    InputError
        Before anything is released.
    UnprovenError, RefusedError
        If the selection released nothing.
    """
    if request.mechanism == "all":
        raise InputError("a model rests on one selection: name one mechanism, not all")
    ledger = as_ledger(request.ledger)
    share, epsilon = check_share(selection_share), positive(request.epsilon, "epsilon")
    labels = as_loss(request.loss).classification
    if labels and request.classes is None:
        raise InputError("a model of labels names them: give --classes first,second")
    mechanisms = make_mechanisms(replace(request, epsilon=share * epsilon))
    method = coefficient.mechanism(decimal_rest(epsilon, share * epsilon), request.neighbours)
    plan = make_plan(request, mechanisms.values())
    fit = coefficient.problem(plan.rehearsal())
    method.prepare(fit, seeded=request.seed is not None)
    check_units(plan.limits, plan.target_limits, request.clip)
    table = read_table(
        request.table, request.target, plan.features, labels=plan.labels, classes=plan.classes
    )
    problem = plan.state(table.X, table.y, request.neighbours)
    (mechanism,) = mechanisms.values()
    fitted = fit_model(
        mechanism,
        method,
        problem,
        coefficient,
        len(plan.features),
        request.seed,
        ledger,
        request.table.name,
    )
    line, intercept = fitted.in_units(plan.limits, plan.target_limits, request.clip)
    lower, upper = narrowed(plan.limits, request.clip)
    model = StoredModel(
        request.target,
        tuple(plan.features[j] for j in fitted.support),
        tuple(float(line[j]) for j in fitted.support),
        intercept,
        plan.classes,
        isinstance(fit.loss, Logistic),
        fitted.guarantee.to_dict(),
        settings_of(request, plan)
        | {
            "mechanism": request.mechanism,
            "selection_share": share,
            "coefficients": coefficient.method,
            "coefficient_loss": repr(fit.loss),
            "coefficient_radius": fit.radius,
            "coefficient_ridge": fit.ridge,
            "delta": method.delta,
        },
        tuple((float(lower[j]), float(upper[j])) for j in fitted.support),
        plan.target_limits,
    )
    return model, warnings_of(request, [fitted.guarantee], method.delta)


def predictions(model: StoredModel, path: Path) -> str:
    """Return the model's predictions for the rows of a file, as CSV."""
    return pl.DataFrame(model.predict(read_columns(path, model.columns))).write_csv()
