"""Everything that is compared: private models, ours and others', and ceilings without privacy.

A method takes a split and returns predictions of the test rows (numbers, or scores of the second
class) and the features it used. All private ones see the same schema and nothing else of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from scipy.special import expit

from benchmarks.rival_models.adassp import boosted_adassp
from benchmarks.rival_models.frank_wolfe import frank_wolfe
from benchmarks.rival_models.tukey import tukey_em
from dpsubset import search
from dpsubset.arrays import Floats
from dpsubset.data import Schema, Table
from dpsubset.labels import Labels
from dpsubset.limits import Limits
from dpsubset.mechanisms import Kendall
from dpsubset.model import Model
from dpsubset.selection import Selection

__all__ = ["CEILINGS", "DELTA", "PRIVATE", "Answer", "Method", "Split", "refit"]

SIZE = 5
DELTA = 1e-5  # of those that need one; the papers' setting
_SECONDS = 20.0  # for a draw; beyond that it counts as slow

# How many columns, as a part of epsilon: half for the selection, half for the model.
Method = Callable[["Split", float, int], "Answer"]


@dataclass(frozen=True)
class Answer:
    """Predictions of the test rows, chances for labels if they are such, and features used."""

    predicted: Floats
    features: tuple[int, ...] | None = None
    chances: bool = False


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to fit and rows to judge by, as a schema describes them."""

    schema: Schema
    train: Table
    test: Table
    coded: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def labels(self) -> bool:
        """Whether the target is one of two classes."""
        return self.schema.target.limits is None

    @property
    def size(self) -> int:
        """How many columns are selected."""
        return min(SIZE, self.schema.n_columns - 1)

    def _read(self, table: Table) -> tuple[Floats, Floats]:
        rows = self.schema.read(table, 1.0, constant=True)
        y = rows.target.values if isinstance(rows.target, Labels) else rows.target
        return rows.design.take(np.arange(rows.design.n_columns)), np.asarray(y)

    @cached_property
    def fit(self) -> tuple[Floats, Floats]:
        """Coded columns of the rows to fit, the last one constant, and the target on [-1, 1]."""
        return self._read(self.train)

    @cached_property
    def judge(self) -> tuple[Floats, Floats]:
        """The same of the rows to judge by."""
        return self._read(self.test)

    @cached_property
    def outcome(self) -> Floats:
        """The target of the test rows on the scale [-1, 1], not clipped to its bounds."""
        if self.labels:
            return self.judge[1]
        lower, upper = self.schema.target.limits or (0.0, 1.0)
        y = self.test.y.cast(pl.Float64).to_numpy()
        return np.asarray((y - (lower + upper) / 2) / ((upper - lower) / 2))

    def columns(self, features: tuple[int, ...]) -> list[int]:
        """Return the coded columns of some features, and the constant one."""
        groups = self.schema.groups or [[j] for j in range(self.schema.n_columns)]
        return [j for f in features for j in groups[f]] + [self.fit[0].shape[1] - 1]

    def answer(self, columns: list[int], beta: Floats, features: Any = None) -> Answer:
        """Return predictions of a line, clipped to the target's bounds."""
        line = self.judge[0][:, columns] @ beta
        return Answer(line if self.labels else np.clip(line, -1.0, 1.0), features)


def ours(mechanism: str, **options: Any) -> Method:
    """Return our model with its defaults, by a mechanism; options as for a `Model`."""

    def run(split: Split, epsilon: float, seed: int) -> Answer:
        model = Model(
            schema=split.schema,
            epsilon=epsilon,
            mechanism=mechanism,
            seed=seed,
            max_seconds=_SECONDS,
            **{"size": split.size, **options},
        ).release(split.train)
        line = model.margins(split.test.X)
        if split.labels:
            return Answer(expit(line), model.positions, chances=True)
        lower, upper = model.target_bounds or (0.0, 1.0)
        scaled = (np.clip(line, lower, upper) - (lower + upper) / 2) / ((upper - lower) / 2)
        return Answer(scaled, model.positions)

    return run


def private_mean(split: Split, epsilon: float, seed: int) -> Answer:
    """Predict the mean of the target, with Laplace noise."""
    rng = np.random.default_rng(seed)
    y = split.fit[1]
    mean = float(np.clip(y.mean() + rng.laplace(scale=2.0 / (y.size * epsilon)), -1.0, 1.0))
    predicted = np.full(split.outcome.size, mean)
    if split.labels:
        return Answer(np.clip((predicted + 1.0) / 2.0, 1e-3, 1.0 - 1e-3), chances=True)
    return Answer(predicted)


def _scaled(split: Split, columns: list[int]) -> tuple[Floats, float]:
    """Return columns whose rows have norm at most 1, by public numbers, and their factor."""
    factor = float(np.sqrt(len(columns)))
    return split.fit[0][:, columns] / factor, factor


def _line(fit: Any, split: Split, columns: list[int], epsilon: float, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    y = split.fit[1]
    if fit is boosted_adassp:
        X, factor = _scaled(split, columns)
        return np.asarray(fit(X, y, epsilon, DELTA, rng) / factor)
    X = split.fit[0][:, columns]
    return np.asarray(fit(X, y, epsilon, 0.0 if fit is frank_wolfe else DELTA, rng))


def on_all(fit: Any) -> Method:
    """Return a model of others on all columns."""

    def run(split: Split, epsilon: float, seed: int) -> Answer:
        columns = list(range(split.fit[0].shape[1]))
        return split.answer(columns, _line(fit, split, columns, epsilon, seed))

    return run


def after_kendall(fit: Any) -> Method:
    """Return a model of others on columns by DPKendall, half of epsilon each."""

    def run(split: Split, epsilon: float, seed: int) -> Answer:
        asked = Selection(schema=split.schema, size=split.size, mechanism="kendall")
        problem = split.coded.setdefault("problem", asked.problem(split.train))
        drawn = Kendall(epsilon / 2).draw(problem, 1, random_state=seed)[0]
        features = tuple(int(j) for j in drawn if j < split.schema.n_columns)
        columns = split.columns(features)
        beta = _line(fit, split, columns, epsilon / 2, seed)
        return split.answer(columns, beta, features)

    return run


def _least_squares(split: Split, columns: list[int]) -> Floats:
    X, y = split.fit
    part = X[:, columns]
    ridge = 1e-3 * np.eye(len(columns))
    return np.asarray(np.linalg.solve(part.T @ part + ridge, part.T @ y))


def refit(split: Split, features: tuple[int, ...]) -> Answer:
    """Fit without privacy on features that were selected with it."""
    columns = split.columns(features)
    if not split.labels:
        return split.answer(columns, _least_squares(split, columns), features)
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1e3, max_iter=500, fit_intercept=False)
    X, y = split.fit
    model.fit(X[:, columns], y)
    return Answer(model.predict_proba(split.judge[0][:, columns])[:, 1], features, chances=True)


def all_columns(split: Split, epsilon: float, seed: int) -> Answer:
    """Fit all columns without privacy."""
    return refit(split, tuple(range(split.schema.n_columns)))


def lasso(split: Split, epsilon: float, seed: int) -> Answer:
    """Fit the lasso, or an l1 penalty for labels, by cross-validation, without privacy."""
    from sklearn.linear_model import LassoCV, LogisticRegressionCV

    X, y = split.fit
    inside = X[:, :-1]
    if not split.labels:
        model = LassoCV(cv=5, random_state=seed, alphas=30).fit(inside, y)
        return Answer(np.clip(model.predict(split.judge[0][:, :-1]), -1.0, 1.0))
    chosen = LogisticRegressionCV(
        Cs=5, cv=3, l1_ratios=(1.0,), solver="liblinear", use_legacy_attributes=False, tol=0.01
    ).fit(inside, y)
    return Answer(chosen.predict_proba(split.judge[0][:, :-1])[:, 1], chances=True)


def best_subset(split: Split, epsilon: float, seed: int) -> Answer:
    """Fit the best columns of that number by our own search, squared loss, without privacy."""
    target = split.fit[1]
    asked = Selection(schema=split.schema, size=split.size, radius=1e3, ridge=1e-2)
    problem = asked.problem(split.train)
    squared = type(problem)(
        problem.design,
        target,
        size=problem.size,
        x_bound=1.0,
        y_bound=1.0,
        radius=1e3,
        ridge=1e-2,
        include=problem.include,
        groups=problem.groups,
    )
    found = search.best(squared, limits=Limits(seconds=_SECONDS))
    return refit(split, tuple(j for j in found.support if j < split.schema.n_columns))


def abess(split: Split, epsilon: float, seed: int) -> Answer:
    """Fit columns of that number by abess, a heuristic for the best subset, without privacy."""
    from abess.linear import LinearRegression, LogisticRegression

    X, y = split.fit
    groups = split.schema.groups or [[j] for j in range(split.schema.n_columns)]
    owner = np.empty(X.shape[1] - 1, dtype=int)
    for feature, columns in enumerate(groups):
        owner[list(columns)] = feature
    kind = LogisticRegression if split.labels else LinearRegression
    made = kind(support_size=split.size, group=owner)
    labels = (y > 0).astype(float) if split.labels else y
    made.fit(X[:, :-1], labels, is_normal=False)  # columns that are constant would be refused
    return refit(split, tuple(np.unique(owner[np.abs(made.coef_) > 0]).tolist()))


PRIVATE: dict[str, Method] = {
    "ours": ours("permute-and-flip"),
    "ours, stepwise": ours("stepwise"),
    "ours, columns by Kendall": ours("kendall"),
    "ours, columns by screening": ours("screening"),
    "Kendall, boosted AdaSSP": after_kendall(boosted_adassp),
    "Kendall, TukeyEM": after_kendall(tukey_em),
    "boosted AdaSSP": on_all(boosted_adassp),
    "TukeyEM": on_all(tukey_em),
    "Frank-Wolfe": on_all(frank_wolfe),
    "private mean": private_mean,
}
CEILINGS: dict[str, Method] = {
    "all columns": all_columns,
    "lasso": lasso,
    "best subset": best_subset,
    "abess": abess,
}
