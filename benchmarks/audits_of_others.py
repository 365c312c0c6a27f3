"""Audits of what users would use instead: pairs of neighbouring tables, and draws from both.

`python -m benchmarks.audits_of_others` prints the table of docs/audits-of-others.md. diffprivlib
0.6.6 does not import with scikit-learn 1.8 and newer: without an older one its rows are left out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from dpsubset import Problem
from dpsubset.audit import sampled
from dpsubset.audit.sampled import Draw

__all__ = ["Case", "binned", "cases", "kendall_scores"]

EPSILON = 1.0


@dataclass(frozen=True)
class Case:
    """A claim, a pair of neighbours, and how to draw."""

    name: str
    claim: str
    draw: Draw
    tables: tuple[Problem, Problem]
    draws: int
    epsilon: float = EPSILON
    delta: float = 0.0


def table(X: Any, y: Any, x_bound: float) -> Problem:
    """Return rows as what audits take; nothing but the rows is used."""
    return Problem(
        np.asarray(X, float), np.asarray(y, float), size=1, x_bound=x_bound, y_bound=1.0, radius=1.0
    )


def rows_of(problem: Problem) -> tuple[Any, Any]:
    """Return the rows of a table."""
    return problem.design.take(np.arange(problem.n_columns)), problem.y


def binned(value: float) -> Hashable:
    """Return the sign and the magnitude of a number, in powers of two."""
    return 0 if value == 0 else (value > 0, max(-40, round(math.log2(abs(value)))))


def diffprivlib_regression(intercept: bool, lower: float) -> Draw:
    """Return draws of the coefficient of diffprivlib's LinearRegression, bounds (lower, 100)."""
    from diffprivlib.models import LinearRegression

    def draw(problem: Problem, count: int, rng: Any) -> list[Hashable]:
        X, y = rows_of(problem)
        made = []
        for _ in range(count):
            model = LinearRegression(
                epsilon=EPSILON,
                bounds_X=(lower, 100),
                bounds_y=(0, 1),
                fit_intercept=intercept,
                random_state=int(rng.integers(2**31)),
            )
            made.append(binned(float(model.fit(X, y).coef_[0])))
        return made

    return draw


def noisy_pipeline(problem: Problem, count: int, rng: Any) -> list[Hashable]:
    """Standardise, fit least squares, add Laplace noise of 2 / (n epsilon) to the coefficient."""
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = rows_of(problem)
    exact = float(make_pipeline(StandardScaler(), LinearRegression()).fit(X, y)[-1].coef_[0])
    scale = 2.0 / (len(y) * EPSILON)
    return [round((exact + noise) / scale) for noise in rng.laplace(scale=scale, size=count)]


def kendall_scores(X: Any, y: Any) -> Any:
    """Return n/2 times |tau-b|, as the published script of DPKendall scores columns."""
    n = len(y)
    return np.array([n / 2 * abs(kendalltau(x, y, variant="b").statistic) for x in X.T])


def kendall_by_tau_b(problem: Problem, count: int, rng: Any) -> list[Hashable]:
    """Choose one column by those scores, with Gumbel noise for a sensitivity of 3/2."""
    scores = kendall_scores(*rows_of(problem))
    noise = rng.gumbel(scale=2.0 * 1.5 / EPSILON, size=(count, scores.size))
    return [int(j) for j in np.argmax(scores + noise, axis=1)]


def tukey_test(scale: float) -> Draw:
    """Return draws of TukeyEM's private test at a distance, which is the table's number of rows."""
    half, delta = EPSILON / 2, 1e-5

    def draw(problem: Problem, count: int, rng: Any) -> list[Hashable]:
        noise = rng.laplace(scale=scale, size=count)
        return [bool(one) for one in problem.n_rows + noise > math.log(1 / (2 * delta)) / half]

    return draw


def _spread(n: int, extra: list[tuple[float, float]]) -> Problem:
    """Return n rows: a column of zeros but one, another without a trend, and more rows."""
    y = np.linspace(-1, 1, n)
    rare = (np.arange(n) == n // 2).astype(float)
    other = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    X = np.column_stack([rare, other])
    more = np.array([[x, 0.0] for x, _ in extra]).reshape(-1, 2)
    return table(np.vstack([X, more]), np.append(y, [v for _, v in extra]), 1.0)


def cases() -> Iterator[Case]:
    """Yield all audits that can be run here."""
    near, far = table([[1.0]], [0.0], 100.0), table([[100.0]], [0.0], 100.0)
    rows = np.full((20, 1), 1.0)
    lone = np.vstack([rows[1:], [[100.0]]])
    several = table(rows, np.zeros(20), 100.0), table(lone, np.zeros(20), 100.0)
    try:
        for intercept, lower, pair in (
            (False, 0, (near, far)),
            (False, 0, several),
            (True, 0, several),
            (False, -100, several),  # where the lower bound is as large as the upper one
        ):
            words = "with" if intercept else "without"
            yield Case(
                f"diffprivlib LinearRegression, bounds ({lower}, 100), {words} intercept, "
                f"{pair[0].n_rows} row(s)",
                "pure, one row replaced",
                diffprivlib_regression(intercept, lower),
                pair,
                4000,
            )
    except ImportError:
        print("diffprivlib cannot be imported here: its rows are left out")
    x = np.linspace(-0.1, 0.1, 50)
    calm = table(x[:, None], np.zeros(50), 1.0)
    wild = table(np.append(x[1:], 1.0)[:, None], np.append(np.zeros(49), 1.0), 1.0)
    yield Case(
        "scikit-learn: scaler, least squares, Laplace noise of 2/(n epsilon) on the coefficient",
        "pure, one row replaced",
        noisy_pipeline,
        (calm, wild),
        100_000,
    )
    yield Case(
        "DPKendall scored by tau-b, as the published script does; a column with ties",
        "pure, one row added",
        kendall_by_tau_b,
        (_spread(1001, []), _spread(1001, [(1.0, 1.0)])),
        100_000,
    )
    low = math.floor(math.log(1 / (2 * 1e-5)) / (EPSILON / 2))
    distances = (
        table(np.zeros((low - 1, 1)), np.zeros(low - 1), 1.0),
        table(np.zeros((low, 1)), np.zeros(low), 1.0),
    )
    for words, scale in (("epsilon/2, as published", EPSILON / 2), ("2/epsilon", 2 / EPSILON)):
        yield Case(
            f"TukeyEM's test with Laplace noise of scale {words}; distances {low - 1} and {low}",
            "half of epsilon",
            tukey_test(scale),
            distances,
            1_000_000,
            epsilon=EPSILON / 2,
            delta=1e-5,
        )


def main() -> None:
    """Run all audits and print a Markdown table."""
    warnings.simplefilter("ignore")
    print("| what | claim | claimed epsilon | found, at least | draws | |")
    print("| --- | --- | ---: | ---: | ---: | --- |")
    for case in cases():
        report = sampled(
            case.draw,
            *case.tables,
            draws=case.draws,
            confidence=0.99,
            random_state=0,
            epsilon=case.epsilon,
            delta=case.delta,
        )
        said = "kept, as far as seen" if report.passed else "**violated**"
        print(
            f"| {case.name} | {case.claim} | {case.epsilon:g} | {report.epsilon:.2f} | "
            f"{report.draws:,} | {said} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
