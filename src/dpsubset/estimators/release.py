"""From a bounded table to a release: the same way for the estimator and for the command."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.checks import positive
from dpsubset.designs import as_design
from dpsubset.errors import InputError
from dpsubset.data.bounds import narrowed, rescale_target
from dpsubset.labels import Labels
from dpsubset.mechanisms import (
    Exponential,
    LassoStability,
    MarkovChain,
    Mechanism,
    Mistakes,
    PermuteAndFlip,
    Release,
    SampleAggregate,
    TopR,
)
from dpsubset.privacy import Guarantee
from dpsubset.privacy.guarantee import rounded_up
from dpsubset.problem import Problem
from dpsubset.search import Limits

__all__ = [
    "MECHANISMS",
    "OWN_OPTIONS",
    "RIVALS",
    "Choice",
    "check_seed",
    "check_size",
    "make_mechanism",
    "make_problem",
    "release",
    "released_by",
    "shortfall",
]

MECHANISMS: dict[str, type[Mechanism]] = {
    "permute-and-flip": PermuteAndFlip,
    "exponential": Exponential,
    "top-r": TopR,
    "mistakes": Mistakes,
}
RIVALS: dict[str, type[Mechanism]] = {
    "markov-chain": MarkovChain,
    "sample-aggregate": SampleAggregate,
    "lasso-stability": LassoStability,
}
OWN_OPTIONS = {  # and which mechanisms they belong to
    "count": ("top-r",),
    "trials": ("top-r",),
    "accounting": ("top-r",),
    "delta": ("mistakes", "lasso-stability"),
    "otherwise": ("mistakes",),
}
_UNSCALED = ("sample-aggregate", "lasso-stability")  # no score enters them, nor its sensitivity


@dataclass(frozen=True)
class Choice:
    """What is asked of a table: how many columns, by which loss, which columns always."""

    size: int
    loss: Any = "absolute"
    clip: float = 1.0
    radius: float = 1.0
    ridge: float = 10.0
    include: tuple[int, ...] = ()
    intercept: bool = True


def make_mechanism(
    name: str,
    epsilon: float,
    *,
    neighbours: str,
    sensitivity: str = "tight",
    max_seconds: float | None = None,
    **own: Any,
) -> Mechanism:
    """Make the mechanism of that name; `own` are options that only some have, None if not given.

    >>> make_mechanism("exponential", 1.0, neighbours="add-remove").epsilon
    1.0
    """
    known = MECHANISMS | RIVALS
    if not isinstance(name, str) or name not in known:
        raise InputError(f"unknown mechanism {name!r}; allowed: {', '.join(known)}")
    if not isinstance(neighbours, str):
        raise InputError('neighbours must be "replace-one" or "add-remove"')
    if isinstance(epsilon, Real) and epsilon == math.inf:
        raise InputError("epsilon is infinite, which is no privacy at all; give a finite number")
    options: dict[str, Any] = {"neighbours": neighbours}
    if name not in _UNSCALED:
        options["sensitivity"] = sensitivity
    elif sensitivity != "tight":
        raise InputError(f"{name} does not rest on the sensitivity of scores; leave its rule out")
    if max_seconds is not None:
        options["limits"] = Limits(seconds=positive(max_seconds, "max_seconds"))
    given = {key: value for key, value in own.items() if value is not None}
    for key in given:
        if name not in OWN_OPTIONS[key]:
            owners = " and ".join(OWN_OPTIONS[key])
            raise InputError(f"{key} belongs to {owners}; leave it out for {name}")
    options |= given
    return known[name](epsilon, **options)


def check_size(size: Any, n_columns: int, n_included: int, name: str) -> None:
    """Check the number of columns to select, under the name the user knows it by."""
    low = max(1, n_included)
    if isinstance(size, bool) or not isinstance(size, Integral):
        raise InputError(f"{name} must be a whole number, not {size!r}")
    if not low <= int(size) <= n_columns:
        raise InputError(
            f"{name} is {size}; with {n_columns} columns, {n_included} of them always included, it "
            f"must lie between {low} and {n_columns}"
        )


def check_seed(random_state: Any, name: str) -> int | np.random.Generator | None:
    """Return what the mechanisms take: None, a whole number or a generator."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    whole = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if not whole or random_state < 0:
        raise InputError(
            f"{name} must be None (a real release), a whole number from 0 on, or a numpy generator"
        )
    return int(random_state)


def make_problem(
    X: Any,
    y: NDArray[np.float64] | Labels,
    limits: tuple[NDArray[np.float64], NDArray[np.float64]],
    target_limits: tuple[float, float] | None,
    choice: Choice,
    *,
    neighbours: str,
) -> Problem:
    """Map columns and target onto [-1, 1] by their public limits and state the problem.

    A target without limits is one of labels, -1 and +1 already; a table may hold one of them only.

    Under replace-one the number of rows is public and must not be zero; under add-remove it is
    private, so an empty table is a table like any other.
    """
    if X.shape[0] == 0 and neighbours == "replace-one":
        raise InputError(
            "the table has 0 sample(s) (no rows) while a minimum of 1 is required when one row is "
            "replaced by another (replace-one)"
        )
    lower, upper = narrowed(limits, choice.clip)
    design = as_design(X, bound=1.0, lower=lower, upper=upper)
    size, include = int(choice.size), tuple(choice.include)
    if choice.intercept:
        # The constant column comes last, is always included and is dropped from the release.
        include, size = (*include, design.n_columns), size + 1
        design = design.with_ones()
    target = y
    if not (isinstance(y, Labels) or target_limits is None):
        target = rescale_target(y, narrowed(target_limits, choice.clip))
    return Problem(
        design,
        target,
        size=size,
        loss=choice.loss,
        x_bound=1.0,
        y_bound=1.0,
        radius=choice.radius,
        ridge=choice.ridge,
        include=include,
    )


def released_by(
    mechanism: Mechanism, problem: Problem, random_state: int | np.random.Generator | None
) -> Release:
    """Release for good, or with a random state as an experiment."""
    if random_state is None:
        return mechanism.release(problem)
    return mechanism.experiment(problem, random_state)


def release(
    mechanism: Mechanism,
    problem: Problem,
    n_columns: int,
    random_state: int | np.random.Generator | None = None,
) -> Release:
    """Release a support among the first `n_columns` columns.

    Without a random state the operating system's entropy is used. With one the draw can be
    repeated, hence foreseen: it is for experiments, and its guarantee says so.
    """
    released = released_by(mechanism, problem, random_state)
    kept = tuple(j for j in released.support if j < n_columns)
    return dataclasses.replace(released, support=kept)


def shortfall(promise: Guarantee, epsilon: float, delta: float = 0.0) -> str | None:
    """Say in what a promise is weaker than the epsilon and delta asked for, if it is.

    The text rests on the promise alone, so it is the same for all tables that count as neighbours.
    """
    found = []
    if promise.epsilon > epsilon:
        found.append(
            f"is {promise.epsilon}-differentially private, which is weaker than the epsilon of "
            f"{epsilon} asked for"
        )
    if promise.delta > delta:
        found.append(f"may fail to protect with a chance of {rounded_up(promise.delta)}")
    if promise.condition:
        found.append(f"is private only if {promise.condition}")
    return f"the {promise.mechanism} {' and '.join(found)}" if found else None
