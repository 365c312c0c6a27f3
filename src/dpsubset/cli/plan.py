"""What `dpsubset select` settles before a row is read: mechanisms, columns, bounds."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.errors import InputError, without_context
from dpsubset.data.bounds import column_limits
from dpsubset.data.frames import column_positions
from dpsubset.estimators.release import (
    MECHANISMS,
    OWN_OPTIONS,
    RIVALS,
    Choice,
    check_seed,
    check_size,
    make_mechanism,
    make_problem,
)
from dpsubset.labels import Labels
from dpsubset.losses import Loss, as_loss
from dpsubset.mechanisms import Mechanism
from dpsubset.problem import Problem
from dpsubset.tables import check_classes, pick_features, read_bounds, read_names

__all__ = ["Plan", "Request", "make_mechanisms", "make_plan"]


@dataclass(frozen=True)
class Request:
    """The options of `dpsubset select`, as the user gave them; `fit` has most of them, too."""

    table: Path
    target: str
    size: int
    epsilon: float
    bounds: Path | None
    mechanism: str
    neighbours: str
    loss: str
    classes: str | None
    ridge: float
    clip: float
    radius: float
    features: str | None
    always_include: tuple[str, ...]
    intercept: bool
    count: int | None = None
    trials: int | None = None
    accounting: str | None = None
    sensitivity: str = "tight"
    max_seconds: float | None = None
    seed: int | None = None
    delta: float | None = None
    otherwise: str | None = None
    ledger: Path | None = None


@dataclass(frozen=True)
class Plan:
    """Everything but the rows."""

    features: tuple[str, ...]
    limits: tuple[NDArray[np.float64], NDArray[np.float64]]
    target_limits: tuple[float, float] | None
    classes: tuple[str, str] | None
    bounds_sha256: str
    choice: Choice

    @property
    def labels(self) -> bool:
        """Whether the target holds labels of two classes."""
        return self.target_limits is None

    def state(self, X: Any, y: Any, neighbours: str) -> Problem:
        """State the problem of the rows."""
        return make_problem(
            X, y, self.limits, self.target_limits, self.choice, neighbours=neighbours
        )

    def rehearsal(self) -> Problem:
        """State the problem of an empty table: finds a wrong parameter before any row is read."""
        nothing, no_target = np.empty((0, len(self.features))), np.empty(0)
        target = Labels(no_target, self.classes is not None) if self.labels else no_target
        return self.state(nothing, target, "add-remove")


def make_plan(request: Request, mechanisms: Iterable[Mechanism]) -> Plan:
    """Check the options, the names of the columns and the bounds; no row is read."""
    check_seed(request.seed, "--seed")
    loss = as_loss(request.loss)
    classes = _classes(request.classes, loss)
    if request.bounds is None:
        raise InputError(
            f"--bounds is missing: the limits of the columns must be public knowledge. "
            f"`dpsubset bounds {request.table} --output bounds.toml` writes a template to fill in"
        )
    known = read_names(request.table)
    always = request.always_include
    listed = _listed(request.features, "--features")
    features = pick_features(known, request.target, listed, always)
    include = column_positions(always, features, len(features), "--always-include")
    check_size(request.size, len(features), len(include), "--size")
    limited = None if loss.classification else request.target
    given = read_bounds(request.bounds, features, limited, known=known)
    choice = Choice(
        size=request.size,
        loss=loss,
        clip=request.clip,
        radius=request.radius,
        ridge=request.ridge,
        include=include,
        intercept=request.intercept,
    )
    limits = column_limits(given.columns, features, len(features))
    plan = Plan(features, limits, given.target, classes, given.sha256, choice)
    rehearsal = plan.rehearsal()
    for mechanism in mechanisms:
        mechanism.guarantee(rehearsal)
    return plan


def make_mechanisms(request: Request) -> dict[str, Mechanism]:
    """Make the mechanisms asked for, by name."""
    compared = request.mechanism == "all"
    if not compared and request.mechanism not in MECHANISMS | RIVALS:
        allowed = ", ".join([*MECHANISMS, *RIVALS, "all"])
        raise InputError(f"unknown mechanism {request.mechanism!r}; allowed: {allowed}")
    tried = request.trials is not None and request.mechanism in ("top-r", "all")
    if tried and request.accounting != "sharp" and request.neighbours == "add-remove":
        raise InputError(
            "the paper's accounting for --trials depends on the number of rows, which is private "
            "under add-remove. Leave --trials out, or give --accounting sharp"
        )
    made = {}
    for name in MECHANISMS if compared else [request.mechanism]:
        options = {option: getattr(request, option) for option in OWN_OPTIONS}
        if compared:  # what belongs to one of them is not for the others
            options = {o: value for o, value in options.items() if name in OWN_OPTIONS[o]}
        made[name] = make_mechanism(
            name,
            request.epsilon,
            neighbours=request.neighbours,
            sensitivity=request.sensitivity,
            max_seconds=request.max_seconds,
            **options,
        )
    return made


def _classes(given: str | None, loss: Loss) -> tuple[str, str] | None:
    if given is not None and not loss.classification:
        raise InputError(
            f"--classes is for the classification losses, hinge and logistic; the {loss.name} loss "
            "takes numbers. Leave --classes out, or choose --loss hinge or logistic"
        )
    listed = _listed(given, "--classes")
    return None if listed is None else check_classes(listed)


@without_context
def _listed(given: str | None, option: str) -> tuple[str, ...] | None:
    """Split a,b,c; a name that holds a comma is put in double quotes."""
    if given is None:
        return None
    try:
        names = next(csv.reader([given], strict=True, skipinitialspace=True), [])
    except csv.Error:
        raise InputError(f"{option} has an open quote; give names separated by commas") from None
    if not names or not all(names):
        raise InputError(f"{option} holds an empty name; give names separated by commas")
    return tuple(names)
