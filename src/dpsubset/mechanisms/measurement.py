"""A mechanism as a measurement of OpenDP, so that it can be part of larger pipelines there."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np

from dpsubset.checks import yes_or_no
from dpsubset.errors import InputError
from dpsubset.mechanisms.base import Mechanism
from dpsubset.privacy.exports import check_unconditional
from dpsubset.privacy.noise import opendp
from dpsubset.problem import Problem

__all__ = ["as_measurement"]


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
    dp = opendp()
    dp.enable_features("honest-but-curious")
    mechanism = copy(mechanism)  # what the map says is what is run
    promise = mechanism.guarantee(problem)
    check_unconditional(promise)
    measure, privacy_map = _measure(dp, promise.epsilon, promise.delta, None)
    if yes_or_no(concentrated, "concentrated"):
        rho = promise.zcdp()
        if rho is None:
            raise InputError("a mechanism with a delta has no zero-concentrated guarantee")
        measure, privacy_map = _measure(dp, promise.epsilon, 0.0, rho)
    replaced = promise.neighbours == "replace-one"

    def is_table(given: Any) -> bool:
        if not isinstance(given, tuple) or len(given) != 2:
            return False
        X, y = (np.asarray(part) for part in given)
        rows = y.shape == (problem.n_rows,) if replaced else y.ndim == 1
        return rows and X.shape == (y.size, problem.design.n_columns)

    def release(table: Any) -> list[int]:
        if not is_table(table):
            raise InputError(
                "the measurement takes a pair (X, y) with the columns of its problem, and under "
                "replace-one with its number of rows"
            )
        return list(mechanism.release(problem.with_rows(*map(np.asarray, table))).support)

    return dp.m.make_user_measurement(
        dp.user_domain("tables (X, y) of public shape", is_table),
        dp.user_distance("rows replaced" if replaced else "rows added or removed"),
        measure,
        release,
        privacy_map,
        TO="Vec<i32>",
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
