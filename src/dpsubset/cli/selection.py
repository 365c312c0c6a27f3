"""What `dpsubset select` does, from the user's words to releases."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.errors import InputError, UnprovenError
from dpsubset.estimators.bounds import column_limits
from dpsubset.estimators.inputs import column_positions
from dpsubset.estimators.release import (
    MECHANISMS,
    Choice,
    check_seed,
    check_size,
    make_mechanism,
    make_problem,
    release,
)
from dpsubset.mechanisms import Mechanism
from dpsubset.privacy import Guarantee
from dpsubset.problem import Problem
from dpsubset.tables import pick_features, read_bounds, read_names, read_table

__all__ = ["Line", "Outcome", "Request", "select_columns"]


@dataclass(frozen=True)
class Request:
    """The options of `dpsubset select`, as the user gave them."""

    table: Path
    target: str
    size: int
    epsilon: float
    bounds: Path | None
    mechanism: str
    neighbours: str
    loss: str
    ridge: float
    radius: float
    features: str | None
    always_include: tuple[str, ...]
    intercept: bool
    count: int | None
    trials: int | None
    sensitivity: str
    seed: int | None


@dataclass(frozen=True)
class Line:
    """The answer of one mechanism: the selected columns, or why there are none."""

    mechanism: str
    columns: tuple[str, ...] | None
    guarantee: Guarantee
    refusal: str | None
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """All answers to a request; several when every mechanism was asked."""

    target: str
    n_features: int
    compared: bool
    settings: dict[str, Any]
    lines: tuple[Line, ...]

    @property
    def refused(self) -> bool:
        """Whether a mechanism released nothing."""
        return any(line.refusal is not None for line in self.lines)

    @property
    def epsilon(self) -> float:
        """What the answers spend together, by basic composition."""
        return float(sum(line.guarantee.epsilon for line in self.lines))


def select_columns(request: Request) -> Outcome:
    """Check everything that does not need the rows, read them, release.

    Raises
    ------
    InputError
        Before anything is released.
    UnprovenError
        If the only mechanism asked for released nothing.
    """
    mechanisms = _mechanisms(request)
    plan = _plan(request, mechanisms.values())
    table = read_table(request.table, request.target, plan.features)
    problem = plan.state(table.X, table.y, request.neighbours)
    guarantees = {name: mechanism.guarantee(problem) for name, mechanism in mechanisms.items()}
    compared = len(mechanisms) > 1
    lines = []
    for name, mechanism in mechanisms.items():
        began = time.perf_counter()
        if compared:
            # A problem keeps what was computed on it; each mechanism starts afresh, for fair times.
            problem = plan.state(table.X, table.y, request.neighbours)
        columns, guarantee, refusal = None, guarantees[name], None
        try:
            released = release(mechanism, problem, len(plan.features), request.seed)
            columns = tuple(plan.features[j] for j in released.support)
            guarantee = released.guarantee
        except UnprovenError as error:
            if not compared:
                raise
            refusal = str(error)
        lines.append(Line(name, columns, guarantee, refusal, time.perf_counter() - began))
    settings = _settings(request)
    return Outcome(request.target, len(plan.features), compared, settings, tuple(lines))


@dataclass(frozen=True)
class _Plan:
    """Everything but the rows."""

    features: tuple[str, ...]
    limits: tuple[NDArray[np.float64], NDArray[np.float64]]
    target_limits: tuple[float, float]
    choice: Choice

    def state(self, X: Any, y: Any, neighbours: str) -> Problem:
        return make_problem(
            X, y, self.limits, self.target_limits, self.choice, neighbours=neighbours
        )


def _plan(request: Request, mechanisms: Iterable[Mechanism]) -> _Plan:
    check_seed(request.seed, "--seed")
    if request.bounds is None:
        raise InputError(
            f"--bounds is missing: the limits of the columns must be public knowledge. "
            f"`dpsubset bounds {request.table} --output bounds.toml` writes a template to fill in"
        )
    known = read_names(request.table)
    always = request.always_include
    features = pick_features(known, request.target, _listed(request.features), always)
    include = column_positions(always, features, len(features), "--always-include")
    check_size(request.size, len(features), len(include), "--size")
    given = read_bounds(request.bounds, features, request.target, known=known)
    choice = Choice(
        size=request.size,
        loss=request.loss,
        radius=request.radius,
        ridge=request.ridge,
        include=include,
        intercept=request.intercept,
    )
    limits = column_limits(given.columns, features, len(features))
    plan = _Plan(features, limits, given.target, choice)
    # The problem of an empty table: finds a wrong parameter before any row is read.
    nothing = np.empty((0, len(features)))
    rehearsal = plan.state(nothing, nothing[:, 0], "add-remove")
    for mechanism in mechanisms:
        mechanism.guarantee(rehearsal)
    return plan


def _mechanisms(request: Request) -> dict[str, Mechanism]:
    compared = request.mechanism == "all"
    names = list(MECHANISMS) if compared else [request.mechanism]
    made = {}
    for name in names:
        own = name == "top-r" or not compared  # the count and the trials belong to top-r
        made[name] = make_mechanism(
            name,
            request.epsilon,
            neighbours=request.neighbours,
            sensitivity=request.sensitivity,
            count=request.count if own else None,
            trials=request.trials if own else None,
        )
    return made


def _listed(features: str | None) -> tuple[str, ...] | None:
    """Split a,b,c; a name that holds a comma is put in double quotes."""
    if features is None:
        return None
    try:
        names = next(csv.reader([features], strict=True, skipinitialspace=True), [])
    except csv.Error:
        raise InputError("--features has an open quote; give names separated by commas") from None
    if not names or not all(names):
        raise InputError("--features holds an empty name; give names separated by commas")
    return tuple(names)


def _settings(request: Request) -> dict[str, Any]:
    return {
        "size": request.size,
        "loss": request.loss,
        "ridge": request.ridge,
        "radius": request.radius,
        "always_include": list(request.always_include),
        "intercept": request.intercept,
    }
