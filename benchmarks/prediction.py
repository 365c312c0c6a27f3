"""Test error of private models: every selector with every way to fit coefficients.

`python -m benchmarks.prediction` measures the tables in docs/prediction.md.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from dpsubset import search
from dpsubset.arrays import Floats
from dpsubset.coefficients import CoefficientMechanism, NoisyStatistics, ObjectivePerturbation
from dpsubset.estimators import SubsetRegressor
from dpsubset.losses.squared import fit_moments
from dpsubset.mechanisms import (
    Exponential,
    LassoStability,
    MarkovChain,
    Mechanism,
    Mistakes,
    PermuteAndFlip,
    SampleAggregate,
    TopR,
)
from dpsubset.planning.generate import paper_table
from dpsubset.problem import Problem

__all__ = ["Result", "Sizes", "main", "measure", "whole_models"]

BOUND, RADIUS, RIDGE, SIZE, COLUMNS = 0.5, 1.1, 120.0, 5, 100  # the paper's
EPSILON = 2.0

SELECTORS: dict[str, Callable[[float], Mechanism]] = {
    "permute-and-flip": PermuteAndFlip,
    "exponential": Exponential,
    "top-R, as in the paper": lambda epsilon: TopR(epsilon, sensitivity="paper"),
    "mistakes, as in the paper": lambda epsilon: Mistakes(epsilon, sensitivity="paper"),
    "Markov chain, 1000 steps": lambda epsilon: MarkovChain(epsilon, steps=1000),
    "sample-and-aggregate": SampleAggregate,
    "lasso stability": LassoStability,
}

# Loss and method of the coefficients; the paper's is the first.
FITS: dict[str, tuple[str, Callable[[float], CoefficientMechanism]]] = {
    "objective perturbation, squared": ("squared", ObjectivePerturbation),
    "noisy statistics": ("squared", NoisyStatistics),
    "objective perturbation, huber": ("huber:0.2", ObjectivePerturbation),
}

MODELS: dict[str, dict[str, Any]] = {
    "SubsetRegressor": {},
    "SubsetRegressor, selection_share 0.25": {"selection_share": 0.25},
    "SubsetRegressor, selection_share 0.75": {"selection_share": 0.75},
    "SubsetRegressor, coefficient_loss squared": {"coefficient_loss": "squared"},
    "SubsetRegressor, noisy-statistics": {"coefficients": "noisy-statistics"},
}


@dataclass(frozen=True)
class Result:
    """A mean test error over draws, on one table."""

    rows: int
    trial: int
    selector: str
    coefficients: str
    error: float
    released: float  # the share of draws that were not refused


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rows: tuple[int, ...] = (2000, 3000, 5000, 8000)
    trials: int = 10
    draws: int = 20


def split(rows: int, seed: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return train and test parts of one of the paper's tables, 70 to 30."""
    table = paper_table(rows, COLUMNS, size=SIZE, seed=seed)
    cut = round(0.7 * rows)
    X = table.X.astype(np.float64, copy=False)
    return X[:cut], table.y[:cut], X[cut:], table.y[cut:]


def measure(rows: int, trial: int, draws: int, seed: int) -> Iterator[Result]:
    """Measure all selectors and fits on one table, clipped to the paper's bounds.

    >>> results = list(measure(400, 0, 1, seed=0))
    >>> len(results) == 2 + len(SELECTORS) * len(FITS)
    True
    """
    X, y, X_test, y_test = (np.clip(part, -BOUND, BOUND) for part in split(rows, seed))

    def pose(loss: str, ridge: float) -> Problem:
        return Problem(
            X,
            y,
            size=SIZE,
            loss=loss,
            x_bound=BOUND,
            y_bound=BOUND,
            radius=RADIUS,
            ridge=ridge,
        )

    def error(support: NDArray[Any] | tuple[int, ...], beta: Any) -> float:
        return float(np.mean((y_test - X_test[:, support] @ np.asarray(beta)) ** 2))

    selection = pose("squared", RIDGE)
    best = np.array(search.best(selection).support)
    part = X[:, best]
    exact, _, _ = fit_moments(part.T @ part, part.T @ y, float(y @ y), 0.0, RADIUS)
    yield Result(rows, trial, "none: the best support", "exact", error(best, exact), 1.0)
    yield Result(rows, trial, "none: no column", "none", float(np.mean(y_test**2)), 1.0)
    fits = {name: pose(loss, 0.0) for name, (loss, _) in FITS.items()}
    for selector, make in SELECTORS.items():
        rng = np.random.default_rng([seed, trial])
        supports = make(EPSILON / 2).draw(selection, draws, random_state=rng)
        released = supports[:, 0] >= 0  # a refusal is a model without columns
        for name, (_, method) in FITS.items():
            errors = [
                error(s, method(EPSILON / 2).release(fits[name], s, rng).values)
                if s[0] >= 0
                else float(np.mean(y_test**2))
                for s in supports
            ]
            yield Result(
                rows, trial, selector, name, float(np.mean(errors)), float(released.mean())
            )


def whole_models(rows: int, trial: int, seed: int, bound: float) -> Iterator[Result]:
    """Measure `SubsetRegressor` and its options, and diffprivlib's regression on all columns.

    Errors are in the table's own units; all get the same public bounds.
    """
    X, y, X_test, y_test = split(rows, seed)

    def tell(name: str, predicted: Floats) -> Result:
        error = float(np.mean((y_test - predicted) ** 2))
        return Result(rows, trial, name, f"bounds {bound:g}", error, 1.0)

    limits = (-bound, bound)
    same: dict[str, Any] = {"epsilon": EPSILON, "bounds_X": limits, "bounds_y": limits}
    for name, options in MODELS.items():
        model = SubsetRegressor(n_features_to_select=SIZE, random_state=trial, **same, **options)
        yield tell(name, model.fit(X, y).predict(X_test))
    everything = np.linalg.lstsq(X, y, rcond=None)[0]
    yield tell("least squares on all columns, not private", X_test @ everything)
    yield tell("the mean, not private", np.full(y_test.size, y.mean()))
    try:
        from diffprivlib.models import LinearRegression
    except ImportError:  # 0.6.6 does not import with scikit-learn 1.8 and newer
        return
    predicted = LinearRegression(random_state=trial, **same).fit(X, y).predict(X_test)
    yield tell("diffprivlib's LinearRegression", predicted)
    clipped = np.clip(predicted, *limits)
    yield tell("diffprivlib's LinearRegression, predictions clipped to the bounds", clipped)


def main(sizes: Sizes | None = None, output: Path | None = None) -> list[Result]:
    """Measure everything, print tables, and write every result to a file as JSON lines."""
    sizes = sizes or Sizes()
    results: list[Result] = []
    console = Console()
    jobs = [(n, trial) for n in sizes.rows for trial in range(sizes.trials)]
    for n, trial in track(jobs, "measuring", console=Console(stderr=True)):
        results += measure(n, trial, sizes.draws, seed=1000 + trial)
        for bound in (4.0, BOUND):
            results += whole_models(n, trial, 1000 + trial, bound)
    if output is not None:
        output.write_text("".join(json.dumps(asdict(r)) + "\n" for r in results))
    console.print(report(results, sizes.rows), soft_wrap=True, markup=False, highlight=False)
    return results


def report(results: list[Result], rows: tuple[int, ...]) -> str:
    """Return the means and their standard errors as a Markdown table.

    >>> print(report([Result(10, 0, "a", "b", 0.5, 1.0)], (10,)).splitlines()[-1])
    | a | b | 0.5 | 100% |
    """
    errors: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    released: dict[tuple[str, str], list[float]] = defaultdict(list)
    for r in results:
        errors[r.selector, r.coefficients][r.rows].append(r.error)
        released[r.selector, r.coefficients].append(r.released)
    lines = [
        f"| columns | coefficients | {' | '.join(f'n = {n}' for n in rows)} | released |",
        f"| --- | --- |{' ---: |' * (len(rows) + 1)}",
    ]
    for key, found in errors.items():
        cells = [_mean(found[n]) for n in rows]
        share = np.mean(released[key])
        lines.append(f"| {key[0]} | {key[1]} | {' | '.join(cells)} | {share:.0%} |")
    return "\n".join(lines)


def _mean(values: list[float]) -> str:
    mean = float(np.mean(values))
    if mean > 100.0 or len(values) < 2:
        return f"{mean:.3g}"
    return f"{mean:.3f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


if __name__ == "__main__":
    main(output=Path(sys.argv[1]) if len(sys.argv) > 1 else None)
