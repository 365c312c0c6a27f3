"""What `dpsubset select` does, from the user's words to releases."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dpsubset import __version__
from dpsubset.cli.plan import Plan, Request, make_mechanisms, make_plan
from dpsubset.errors import BudgetError, RefusedError, UnprovenError
from dpsubset.estimators.release import release, shortfall
from dpsubset.losses import as_loss
from dpsubset.privacy import Guarantee
from dpsubset.privacy.guarantee import decimal_sum, seeded_if
from dpsubset.privacy.ledger import as_ledger, charged
from dpsubset.tables import read_table

__all__ = ["Line", "Outcome", "select_columns", "settings_of", "warnings_of"]


@dataclass(frozen=True)
class Line:
    """The answer of one mechanism: the selected columns, or why there are none."""

    mechanism: str
    columns: tuple[str, ...] | None
    guarantee: Guarantee
    refusal: str | None
    seconds: float
    spent: bool = True


@dataclass(frozen=True)
class Outcome:
    """All answers to a request; several when every mechanism was asked."""

    target: str
    n_features: int
    compared: bool
    settings: dict[str, Any]
    lines: tuple[Line, ...]
    warnings: tuple[str, ...]

    @property
    def refused(self) -> bool:
        """Whether a mechanism released nothing."""
        return any(line.refusal is not None for line in self.lines)

    @property
    def epsilon(self) -> float:
        """What the answers spend together, by basic composition."""
        return decimal_sum(line.guarantee.epsilon for line in self.lines if line.spent)

    @property
    def delta(self) -> float:
        """The chance that one of the promises fails."""
        return decimal_sum(line.guarantee.delta for line in self.lines if line.spent)


def select_columns(request: Request) -> Outcome:
    """Check everything that does not need the rows, read them, release.

    Raises
    ------
    InputError
        Before anything is released.
    UnprovenError, RefusedError, BudgetError
        If the only mechanism asked for released nothing.
    """
    mechanisms = make_mechanisms(request)
    ledger = as_ledger(request.ledger)
    plan = make_plan(request, mechanisms.values())
    table = read_table(
        request.table, request.target, plan.features, labels=plan.labels, classes=plan.classes
    )
    problem = plan.state(table.X, table.y, request.neighbours)
    guarantees = {name: mechanism.guarantee(problem) for name, mechanism in mechanisms.items()}
    compared = len(mechanisms) > 1
    lines = []
    for name, mechanism in mechanisms.items():
        began = time.perf_counter()
        if compared:
            # A problem keeps what was computed on it; each mechanism starts afresh, for fair times.
            problem = plan.state(table.X, table.y, request.neighbours)
        columns, guarantee, refusal, spent = None, guarantees[name], None, True
        promise = seeded_if(request.seed is not None, guarantees[name])
        try:
            with charged(ledger, promise, _asked(request, plan, name)) as record:
                released = release(mechanism, problem, len(plan.features), request.seed)
                columns = tuple(plan.features[j] for j in released.support)
                record({"columns": columns})
            guarantee = released.guarantee
        except (UnprovenError, RefusedError, BudgetError) as error:
            if not compared:
                raise
            refusal, spent = str(error), not isinstance(error, BudgetError)
        lines.append(Line(name, columns, guarantee, refusal, time.perf_counter() - began, spent))
    released_lines = [line.guarantee for line in lines if line.columns is not None]
    return Outcome(
        target=request.target,
        n_features=len(plan.features),
        compared=compared,
        settings=settings_of(request, plan),
        lines=tuple(lines),
        warnings=warnings_of(request, released_lines, request.delta or 0.0),
    )


def _asked(request: Request, plan: Plan, mechanism: str) -> dict[str, Any]:
    """Return what a ledger writes down of a request."""
    return {
        "table": request.table.name,
        "target": request.target,
        "mechanism": mechanism,
        **settings_of(request, plan),
    }


def settings_of(request: Request, plan: Plan) -> dict[str, Any]:
    """Return what an audit of a release needs, or who has the table to repeat it: all public."""
    settings: dict[str, Any] = {
        "dpsubset": __version__,
        "size": request.size,
        "epsilon": request.epsilon,
        "loss": _with_parameter(request.loss),
        "ridge": request.ridge,
        "clip": request.clip,
        "radius": request.radius,
        "intercept": request.intercept,
        "sensitivity_rule": request.sensitivity,
        "n_candidates": len(plan.features),
        "features": None if request.features is None else list(plan.features),
        "always_include": list(request.always_include),
        "bounds_sha256": plan.bounds_sha256,
    }
    if plan.classes is not None:
        settings["classes"] = list(plan.classes)
    if request.mechanism in ("top-r", "all"):
        accounting = request.accounting or "paper"
        own = {"count": request.count, "trials": request.trials, "accounting": accounting}
        settings["top_r"] = own
    tested = {"delta": request.delta, "otherwise": request.otherwise}
    settings |= {name: value for name, value in tested.items() if value is not None}
    if request.max_seconds is not None:
        settings["max_seconds"] = request.max_seconds
    if request.seed is not None:
        settings["seed"] = request.seed
    return settings


def _with_parameter(loss: str) -> str:
    """Return the loss with its parameter, as typed or as it is by default.

    >>> _with_parameter("huber"), _with_parameter("quantile:0.25"), _with_parameter("hinge")
    ('huber:0.1', 'quantile:0.25', 'hinge')
    """
    name, _, typed = loss.partition(":")
    parameter = typed or repr(as_loss(loss)).partition("(")[2].rstrip(")")
    return f"{name}:{parameter}" if parameter else name


def warnings_of(
    request: Request, released: Iterable[Guarantee], delta: float = 0.0
) -> tuple[str, ...]:
    """Say in what promises are weaker than the epsilon asked for, and that draws are seeded."""
    found = [shortfall(guarantee, request.epsilon, delta) for guarantee in released]
    if request.seed is not None:
        found.append(
            "the draw is seeded, for experiments only: who knows --seed undoes the privacy"
        )
    return tuple(text for text in found if text is not None)
