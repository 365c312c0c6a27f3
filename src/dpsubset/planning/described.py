"""Synthetic tables that fit a schema: what is public, and a signal of known strength, nothing else.

Every column hides a standard normal number, correlated with its neighbours'. It shows as what the
schema says: a number or date around the middle of its bounds, a truth value, one of the levels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from dpsubset.arrays import Floats
from dpsubset.data import Schema, Table
from dpsubset.data.category import Category
from dpsubset.data.columns import Column, Number, Ordered, Truth
from dpsubset.data.dates import Dates
from dpsubset.labels import Labels

__all__ = ["Described", "described_table"]

_LOGISTIC_VARIANCE = math.pi**2 / 3


@dataclass(frozen=True, eq=False)
class Described:
    """A table as its schema describes it, its true columns, and what of each row is signal.

    `outcome` is the target as numbers, 1 and 0 for the second and the first class; `signal` its
    mean given the true columns and those that are always included: for classes, the chance of the
    second.
    """

    table: Table
    support: tuple[int, ...]
    outcome: Floats
    signal: Floats

    def parted(self, rows: int) -> tuple[Table, Described]:
        """Return the first rows as a table, and the others to judge models on."""
        X, y = self.table.X, self.table.y
        labels = isinstance(y, Labels)
        first = Labels(y.values[:rows], y.named) if labels else y[:rows]
        rest = Labels(y.values[rows:], y.named) if labels else y[rows:]
        kept = Table(X[rows:], rest)
        later = Described(kept, self.support, self.outcome[rows:], self.signal[rows:])
        return Table(X[:rows], first), later


def described_table(
    schema: Schema,
    rows: int,
    *,
    size: int,
    signal: float,
    spread: float = 0.25,
    rho: float = 0.1,
    balance: float = 0.5,
    decay: float = 1.0,
    common: float = 0.0,
    included: tuple[int, ...] = (),
    included_signal: float = 0.0,
    seed: int = 0,
) -> Described:
    """Draw a table of a schema in which `size` columns, drawn at random, explain the target.

    Each true column has the same part of the signal, or with `decay` below 1 that part of what the
    one before has; a category has effects of its levels drawn at random. `signal` is the explained
    part of the target's variance (R^2). For labels it is that of the margin, of which the label is
    the sign: the variance of the log odds over itself and pi^2 / 3. `spread` is the standard
    deviation of numbers and of the target, as a part of half the width of their bounds; `balance`
    is the share of the second class. `common` is the part of the variance of all columns that is
    one and the same number of a row: so much are any two of them correlated, besides neighbours,
    and all true columns pull the same way. Columns that are always `included` are none of the true
    ones; equal parts of `included_signal` are theirs, besides `signal`.

    >>> schema = Schema.from_dict({
    ...     "columns": {"age": [0, 100], "sex": "0/1", "arm": ["a", "b", "c"]},
    ...     "target": {"name": "cost", "bounds": [0, 10]},
    ... })
    >>> made = described_table(schema, 4, size=2, signal=0.5)
    >>> made.support, made.table.X.columns
    ((0, 2), ['age', 'sex', 'arm'])
    """
    rng = np.random.default_rng([seed, rows])
    p = schema.n_columns
    others = np.delete(np.arange(p), list(included))
    size = min(size, others.size)
    support = tuple(sorted(rng.choice(others, size=size, replace=False).tolist()))
    hidden = _neighbours(rng, rows, p, rho)
    if common:
        shared = rng.standard_normal((rows, 1))
        hidden = math.sqrt(common) * shared + math.sqrt(1.0 - common) * hidden
    kinds = schema.columns or tuple(
        Number(lower=a, upper=b) for a, b in zip(*schema.limits, strict=True)
    )
    line = np.zeros(rows)
    for k, j in enumerate(rng.permutation(support) if decay < 1.0 else support):
        line += math.sqrt(decay**k) * _effect(kinds[j], hidden[:, j], rng, signed=not common)
    line = _standard(line)
    if included_signal:
        effects = [_effect(kinds[j], hidden[:, j], rng, signed=not common) for j in included]
        known = _standard(np.sum(effects, axis=0))
        line = _standard(math.sqrt(signal) * line + math.sqrt(included_signal) * known)
    y, outcome, mean = _target(schema, line, signal + included_signal, spread, balance, rng)
    if schema.columns is None:
        lower, upper = schema.limits
        X: Any = np.clip((lower + upper) / 2 + hidden * spread * (upper - lower) / 2, lower, upper)
    else:
        shown = {
            name: _cells(kind, hidden[:, j], spread)
            for j, (name, kind) in enumerate(zip(schema.names or (), kinds, strict=True))
        }
        X = pl.DataFrame(shown)
    return Described(Table(X, y), support, outcome, mean)


def _neighbours(rng: np.random.Generator, rows: int, p: int, rho: float) -> Floats:
    """Return standard normal columns with correlation rho^|i-j|."""
    hidden = rng.standard_normal((rows, p))
    fresh = math.sqrt(1.0 - rho**2)
    for j in range(1, p if rho else 0):
        hidden[:, j] = rho * hidden[:, j - 1] + fresh * hidden[:, j]
    return hidden


def _places(hidden: Floats, count: int) -> NDArray[np.int64]:
    """Return one of so many equally likely levels for each number."""
    return np.minimum((ndtr(hidden) * count).astype(np.int64), count - 1)


def _effect(kind: Column, hidden: Floats, rng: np.random.Generator, *, signed: bool) -> Floats:
    """Return what a true column adds to the target, with mean 0 and variance 1."""
    sign = -1.0 if rng.random() >= 0.5 and signed else 1.0
    if isinstance(kind, Truth):
        return sign * np.where(hidden > 0, 1.0, -1.0)
    if isinstance(kind, Ordered):
        steps = np.arange(len(kind.levels), dtype=np.float64)
        return sign * _standard(steps)[_places(hidden, steps.size)]
    if isinstance(kind, Category):
        effects = _standard(rng.standard_normal(len(kind.levels)))
        return effects[_places(hidden, effects.size)]
    return sign * hidden


def _standard(values: Floats) -> Floats:
    """Return values with mean 0 and variance 1, where they are not all the same."""
    deviation = float(values.std())
    return (values - values.mean()) / deviation if deviation else np.zeros(values.size)


def _cells(kind: Column, hidden: Floats, spread: float) -> pl.Series:
    """Return the cells of a column in its owner's values."""
    if isinstance(kind, Truth):
        return pl.Series((hidden > 0).astype(np.float64))
    if isinstance(kind, (Category, Ordered)):
        places = _places(hidden, len(kind.levels))
        return pl.Series(list(kind.levels), dtype=pl.String).gather(places)
    if isinstance(kind, Dates):
        days = _within(kind.span, hidden, spread)
        return pl.Series([kind.first + timedelta(days=d) for d in days.tolist()])
    assert isinstance(kind, Number)
    return pl.Series(_within(kind.span, hidden, spread))


def _within(bounds: tuple[float, float], hidden: Floats, spread: float) -> Floats:
    lower, upper = bounds
    middle, half = lower / 2 + upper / 2, upper / 2 - lower / 2
    return np.clip(middle + spread * half * hidden, lower, upper)


def _target(
    schema: Schema,
    line: Floats,
    signal: float,
    spread: float,
    balance: float,
    rng: np.random.Generator,
) -> tuple[Any, Floats, Floats]:
    """Return the target as it is written in a table, as numbers, and its mean."""
    limits = schema.target.limits
    if limits is not None:
        noise = math.sqrt(1.0 - signal) * rng.standard_normal(line.size)
        mean = math.sqrt(signal) * line
        y = _within(limits, mean + noise, spread)
        return y, y, _within(limits, mean, spread)
    odds = math.sqrt(_LOGISTIC_VARIANCE * signal / (1.0 - signal)) * line
    chance = expit(odds + _shift(odds, balance))
    second = rng.random(line.size) < chance
    outcome = second.astype(np.float64)
    if schema.columns is None:
        named = schema.target.classes is not None
        return Labels(2.0 * outcome - 1.0, named=named), outcome, chance
    classes = np.array([str(one) for one in schema.target.classes or (0, 1)])
    return pl.Series(classes[second.astype(np.intp)]), outcome, chance


def _shift(odds: Floats, balance: float) -> float:
    """Return what log odds are shifted by so that the second class has its share."""
    if not odds.size:
        return 0.0
    from scipy.optimize import brentq  # slow to load, and not needed to select

    return float(brentq(lambda by: float(expit(odds + by).mean()) - balance, -60.0, 60.0))
