"""A mechanism as a measurement of OpenDP, so that it can be part of larger pipelines there."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from dpsubset.checks import yes_or_no
from dpsubset.errors import InputError
from dpsubset.mechanisms.base import Mechanism
from dpsubset.privacy import Guarantee
from dpsubset.privacy.exports import check_unconditional
from dpsubset.privacy.noise import opendp
from dpsubset.problem import Problem

__all__ = ["as_measurement", "measurement_of"]


def as_measurement(mechanism: Mechanism, problem: Problem, *, concentrated: bool = False) -> Any:
    """Return an OpenDP measurement from a pair (X, y) to the support that the mechanism releases.

    The problem says everything but the rows: size, loss, bounds, columns; under replace-one also
    their number, which is public. Distances are numbers of rows replaced, or added and removed.
    The measure is pure differential privacy, approximate if the mechanism has a delta, and with
    `concentrated` zero-concentrated. Needs the extra `opendp`; OpenDP takes our word for the
    guarantee, which its feature "honest-but-curious" stands for.

    Parameters
    ----------
    mechanism : Mechanism
        What is to be released.
    problem : Problem
        Everything public; its rows are not used.
    concentrated : bool
        Whether to account by zero-concentrated privacy.

    Returns
    -------
    opendp.Measurement
        From (X, y) to a list of places.

    Examples
    --------
    >>> from dpsubset import Exponential
    >>> X = np.eye(3); problem = Problem(X, X[:, 0], size=1, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> as_measurement(Exponential(1.0), problem).map(2)
    2.0
    """
    mechanism = copy(mechanism)  # what the map says is what is run
    replaced = mechanism.neighbours == "replace-one"

    def release(X: Any, y: Any) -> list[int]:
        return list(mechanism.release(problem.with_rows(np.asarray(X), np.asarray(y))).support)

    return measurement_of(
        mechanism.guarantee(problem),
        (problem.n_rows if replaced else None, problem.design.n_columns),
        release,
        "Vec<i32>",
        concentrated=concentrated,
    )


def measurement_of(
    guarantee: Guarantee,
    shape: tuple[int | None, int],
    release: Callable[[Any, Any], Any],
    kind: str,
    *,
    concentrated: bool = False,
) -> Any:
    """Return an OpenDP measurement of tables (X, y) of a public shape; no rows: they are private.

    `release` is what is run, `kind` the type that OpenDP has for what it returns.
    """
    dp = opendp()
    dp.enable_features("honest-but-curious")
    check_unconditional(guarantee)
    measure, privacy_map = _measure(dp, guarantee.epsilon, guarantee.delta, None)
    if yes_or_no(concentrated, "concentrated"):
        rho = guarantee.zcdp()
        if rho is None:
            raise InputError("a mechanism with a delta has no zero-concentrated guarantee")
        measure, privacy_map = _measure(dp, guarantee.epsilon, 0.0, rho)
    rows, columns = shape

    def is_table(given: Any) -> bool:
        if not isinstance(given, tuple) or len(given) != 2:
            return False
        here, target = (getattr(part, "shape", None) or np.shape(part) for part in given)
        good = len(target) == 1 and tuple(here) == (target[0], columns)
        return good and rows in (None, target[0])

    def run(table: Any) -> Any:
        if not is_table(table):
            raise InputError(
                "the measurement takes a pair (X, y) with the columns of its problem, and under "
                "replace-one with its number of rows"
            )
        return release(*table)

    counted = "any number of" if rows is None else str(rows)
    return dp.m.make_user_measurement(
        dp.user_domain(f"tables (X, y) with {counted} rows and {columns} columns", is_table),
        dp.user_distance("rows added or removed" if rows is None else "rows replaced"),
        measure,
        run,
        privacy_map,
        TO=kind,
    )


def _measure(dp: Any, epsilon: float, delta: float, rho: float | None) -> tuple[Any, Any]:
    """Return OpenDP's measure, and what k rows cost in it (T30)."""
    if rho is not None:
        return dp.zero_concentrated_divergence(), lambda k: k**2 * rho
    if not delta:
        return dp.max_divergence(), lambda k: k * epsilon

    def cost(k: int) -> tuple[float, float]:
        if k * epsilon > 700.0:  # beyond float64, and beyond any use
            return k * epsilon, 1.0
        return k * epsilon, min(1.0, delta * math.fsum(math.exp(i * epsilon) for i in range(k)))

    return dp.approximate(dp.max_divergence()), cost
