"""A cheap rule from public numbers: is what is selected likely noise?

How much more likely a true column is than another follows from kappa and from how much it lowers
the loss of a row, which is a matter of two integrals. The threshold is calibrated on simulations
(`python -m benchmarks.planning`, docs/planning.md).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpsubset.data import Schema
from dpsubset.data.category import Category
from dpsubset.data.columns import Ordered, Truth
from dpsubset.mechanisms import LassoStability, Peeling, SampleAggregate, Stepwise
from dpsubset.mechanisms.window import LEAST_HALF
from dpsubset.problem import Problem
from dpsubset.selection import Selection

__all__ = ["advantage", "likely_noise"]

TYPICAL = 0.3  # R^2 of a signal that is worth a release: half of real tables had less
SPREAD = 0.25  # as in `plan`
ENOUGH = -1.0  # advantage from which on more than half of the true columns are found
_NODES = 24  # of the integrals
_WINDOW = 1.0  # half of a window of a normal target, in deviations (T44)
_SCALES = np.linspace(0.0, 1.0, 41)


def likely_noise(selection: Selection, problem: Problem) -> str | None:
    """Say, from public numbers alone, if columns of a usual signal would rarely be found.

    Under add-remove the number of rows is private, and nothing is said.
    """
    made = selection.made
    votes = isinstance(made, (SampleAggregate, LassoStability, Peeling))  # not by scores
    if made.neighbours != "replace-one" or votes:
        return None
    if advantage(selection, problem.n_rows) >= ENOUGH:
        return None
    return (
        f"the answer is likely noise: by the public numbers, of columns that explain {TYPICAL:.0%} "
        "of the target's variance fewer than half would be found. More rows, a larger epsilon, "
        "fewer columns or narrower bounds help; `dpsubset plan --schema` says how much"
    )


def advantage(selection: Selection, rows: int, signal: float = TYPICAL) -> float:
    """Return the log odds of a true column against all other columns together, roughly.

    It depends on what is asked, on the schema and on the number of rows, not on the rows.

    >>> from dpsubset.data.target import Target
    >>> asked = Selection(schema=Schema.of(None, 50, (0, 1), Target((0.0, 1.0))), size=5)
    >>> advantage(asked, 500) < 0 < advantage(asked, 50_000)
    True
    """
    selection = selection.settled(rows)  # loss, window and shares by their rules
    problem = selection.rehearsal()
    half = 1.0 if selection.window is None else max(_WINDOW * SPREAD, LEAST_HALF)
    made: Any = selection.made
    size = selection.largest_size
    steps = len(made.steps(problem)) if isinstance(made, Stepwise) else 1
    gain = _gain(problem, selection.schema, signal, max(rows, 1), half)
    others = selection.schema.n_columns - size
    if others <= 0:
        return math.inf
    return float(made.kappa(problem) / steps * rows * gain / size - math.log(others))


def _gain(problem: Problem, schema: Schema, signal: float, rows: int, half: float) -> float:
    """Return how much a signal lowers the mean loss of a row, within the ball.

    A target of numbers is seen in a window of so much of half its width.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()
    z = np.repeat(nodes, _NODES)
    mass = np.outer(weights, weights).ravel()
    width = _deviation(schema)
    if problem.loss.classification:
        slope = math.sqrt(math.pi**2 / 3 * signal / (1.0 - signal))
        second = 1.0 / (1.0 + np.exp(-slope * z))
        ends = [(np.ones_like(z), mass * second), (-np.ones_like(z), mass * (1.0 - second))]
        line = slope * z
    else:
        line = SPREAD / half * math.sqrt(signal) * z
        noise = SPREAD / half * math.sqrt(1.0 - signal) * np.tile(nodes, _NODES)
        ends = [(np.clip(line + noise, -1.0, 1.0), mass)]
    norm = float(np.sqrt((mass * line**2).sum())) / width  # of the coefficients that it takes
    most = min(1.0, problem.radius / norm) if norm else 1.0
    losses: list[float] = []
    for part in most * _SCALES:
        loss = math.fsum(float((w * problem.loss.value(y, part * line)).sum()) for y, w in ends)
        losses.append(loss + problem.ridge * (part * norm) ** 2 / rows)
    return losses[0] - min(losses)


def _deviation(schema: Schema) -> float:
    """Return the usual deviation of a coded column; that of levels is 1, of numbers less."""
    kinds = schema.columns or ()
    whole = sum(isinstance(kind, (Truth, Ordered, Category)) for kind in kinds)
    part = whole / schema.n_columns
    return math.sqrt(part + (1.0 - part) * SPREAD**2)
