"""Are private models worse than none? Test scores on real tables, from small budgets to large.

`python -m benchmarks.small_budgets OUTPUT.jsonl [PICTURE.png]` measures what docs/prediction.md
shows, one table after another; tables whose package is missing are left out. The model "before"
has neither the offset nor the ridge that are chosen by public rules (T42).
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from scipy.special import logit

from benchmarks.hardness_real import TABLES
from benchmarks.hardness_tables import BoundedTable
from dpsubset.arrays import Floats
from dpsubset.estimators import SubsetClassifier, SubsetRegressor
from dpsubset.planning.pictures import plotting

__all__ = ["Line", "draw", "main", "measure", "report"]

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SEEDS = 20
ROWS = 5000  # a larger table is thinned: small budgets are the question
SIZE = 5
BEFORE: dict[str, Any] = {"offset_share": 0.0, "coefficient_ridge": 0.0}


@dataclass(frozen=True)
class Line:
    """Means over seeds on one table at one epsilon, on test rows.

    For numbers R^2 against the mean of the training rows; for labels the log loss of their base
    rate less the model's, in nats. Above 0 is better than none. `mean` is the private mean, or base
    rate, with all of epsilon.
    """

    table: str
    labels: bool
    rows: int
    epsilon: float
    before: float
    after: float
    mean: float
    error: float  # standard error of `after`


def measure(
    name: str, table: BoundedTable, epsilon: float, seeds: Sequence[int], size: int = SIZE
) -> Line:
    """Measure one table at one epsilon: 70% of the rows train, 30% test, parted by the seed."""
    X, y = _thinned(table)
    scores = []
    for seed in seeds:
        order = np.random.default_rng([11, seed]).permutation(y.size)
        train, test = np.split(order, [round(0.7 * y.size)])
        rows = (X[train], y[train], X[test], y[test])
        scores.append(_scores(table, rows, epsilon, seed, size))
    before, after, mean = np.mean(scores, axis=0)
    error = np.std(scores, axis=0, ddof=1)[1] / np.sqrt(len(seeds)) if len(seeds) > 1 else 0.0
    found = (round(float(v), 4) for v in (before, after, mean, error))
    return Line(name, table.target is None, round(0.7 * y.size), epsilon, *found)


def _thinned(table: BoundedTable) -> tuple[Floats, Floats]:
    every = -(-table.y.size // ROWS)
    return table.X[::every], table.y[::every]


def _scores(
    table: BoundedTable,
    rows: tuple[Floats, Floats, Floats, Floats],
    epsilon: float,
    seed: int,
    size: int,
) -> tuple[float, float, float]:
    X, y, X_test, y_test = rows
    same = {
        "n_features_to_select": size,
        "epsilon": epsilon,
        "bounds_X": (table.lower, table.upper),
        "random_state": seed,
    }
    models: list[Any]
    rng = np.random.default_rng([12, seed])
    if table.target is None:
        models = [
            SubsetClassifier(loss="logistic", classes=(-1.0, 1.0), **more, **same)
            for more in (BEFORE, {})
        ]
        lines = [model.fit(X, y).decision_function(X_test) for model in models]
        count = float(np.sum(y > 0)) + rng.laplace(0.0, 1.0 / epsilon)
        shares = [float(np.mean(y > 0)), min(max(count, 1.0), y.size - 1.0) / y.size]
        base, private = (np.full(y_test.size, logit(share)) for share in shares)
        least = _log_loss(y_test, base)
        before, after, mean = (least - _log_loss(y_test, t) for t in (*lines, private))
        return before, after, mean
    lower, upper = table.target
    models = [SubsetRegressor(bounds_y=table.target, **more, **same) for more in (BEFORE, {})]
    lines = [model.fit(X, y).predict(X_test) for model in models]
    inside = np.clip(y, lower, upper)
    noisy = inside.mean() + rng.laplace(0.0, (upper - lower) / (epsilon * y.size))
    private = np.full(y_test.size, np.clip(noisy, lower, upper))
    known = np.clip(y_test, lower, upper)
    worst = float(np.mean((known - inside.mean()) ** 2))
    before, after, mean = (
        1.0 - float(np.mean((known - t) ** 2)) / worst for t in (*lines, private)
    )
    return before, after, mean


def _log_loss(y: Floats, line: Floats) -> float:
    return float(np.mean(np.logaddexp(0.0, -y * line)))


def _read(names: Iterable[str]) -> Iterator[tuple[str, BoundedTable]]:
    for name in names:
        try:
            yield name, TABLES[name].read()
        except ImportError:
            continue


def main(
    output: Path,
    picture: Path | None = None,
    *,
    names: Iterable[str] = tuple(TABLES),
    epsilons: Sequence[float] = EPSILONS,
    seeds: int = SEEDS,
) -> list[Line]:
    """Measure, write every line as JSON, print the report, draw the picture."""
    lines: list[Line] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of fits again and again: tables are public
        for name, table in track(list(_read(names)), "measuring", console=Console(stderr=True)):
            lines += [measure(name, table, epsilon, range(seeds)) for epsilon in epsilons]
            output.write_text("".join(json.dumps(asdict(line)) + "\n" for line in lines))
    Console().print(report(lines), soft_wrap=True, markup=False, highlight=False)
    if picture is not None:
        draw(lines, picture)
    return lines


def report(lines: Sequence[Line]) -> str:
    """Return a Markdown table: before -> after, at every epsilon.

    >>> print(report([Line("a", False, 70, 1.0, -0.5, 0.1, -0.01, 0.02)]).splitlines()[-1])
    | a | 70 | -0.50 → 0.10 |
    """
    epsilons = sorted({line.epsilon for line in lines})
    head = " | ".join(f"epsilon {e:g}" for e in epsilons)
    out = [f"| table | rows | {head} |", f"| --- | ---: |{' ---: |' * len(epsilons)}"]
    for labels in (False, True):
        for name in dict.fromkeys(line.table for line in lines if line.labels == labels):
            own = {line.epsilon: line for line in lines if line.table == name}
            rows = next(iter(own.values())).rows
            cells = [f"{own[e].before:.2f} → {own[e].after:.2f}" for e in epsilons]
            out.append(f"| {name} | {rows} | {' | '.join(cells)} |")
    return "\n".join(out)


def draw(lines: Sequence[Line], path: Path) -> None:
    """Draw the curves over epsilon, before and after: numbers left, labels right."""
    plt = plotting()
    picture, axes = plt.subplots(2, 2, figsize=(10, 7), sharex=True, layout="constrained")
    for column, labels in enumerate((False, True)):
        for row, when in enumerate(("before", "after")):
            axis = axes[row, column]
            for name in dict.fromkeys(line.table for line in lines if line.labels == labels):
                own = [line for line in lines if line.table == name]
                curve = [getattr(line, when) for line in own]
                axis.plot([line.epsilon for line in own], curve, marker=".", label=name)
            axis.axhline(0.0, color="black", linewidth=1)
            axis.set(xscale="log", ylim=(-0.6, 0.5) if labels else (-1.2, 0.6))
            axis.set_title(f"{'labels' if labels else 'numbers'}, {when}")
            axis.set_ylabel("log loss saved, nats" if labels else "R² on test rows")
            if row:
                axis.set_xlabel("epsilon")
                axis.legend(fontsize=6, ncols=2, loc="lower right")
    picture.savefig(path, dpi=110)
    plt.close(picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
