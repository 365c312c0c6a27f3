"""One trial: a table drawn from its own seed, and what every method makes of it."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset import mechanisms, search
from dpsubset.arrays import Floats
from dpsubset.coefficients import ObjectivePerturbation
from dpsubset.cuts import cut_maker
from dpsubset.cuts.listing import list_region
from dpsubset.cuts.region import root
from dpsubset.limits import Allowance
from dpsubset.losses import as_loss
from dpsubset.mechanisms import Mechanism, TopR
from dpsubset.mechanisms.searching import Searching
from dpsubset.planning.generate import GeneratedTable, paper_classes, paper_table
from dpsubset.problem import Problem
from dpsubset.reproduction.settings import Method, Panel, settings
from dpsubset.search import BranchAndBound, Found, Solver

__all__ = ["Job", "run_trial", "seed_of"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """What one process does: all methods on one table."""

    panel: str
    value: float | None  # None: all values of the axis on the same table
    trial: int
    draws: int


def seed_of(job: Job) -> int:
    """Return a seed fixed by panel, value and trial alone.

    >>> seed_of(Job("p100", 3000, 0, 50)) == seed_of(Job("p100", 3000, 0, 10))
    True
    """
    return zlib.crc32(f"{job.panel}/{job.value}/{job.trial}".encode())


def run_trial(job: Job, methods: Sequence[str] | None = None) -> list[Row]:
    """Return one row for each method; with its value where the job has all values of the axis."""
    panel = settings().panels[job.panel]
    if methods is not None:
        panel = replace(panel, methods=tuple(methods))
    if job.value is not None:
        panel = panel.at(job.value)
    table = _table(panel, seed_of(job))
    work = {"recovery": _recovery, "prediction": _prediction, "listed": _listed}[panel.kind]
    return [{key: _short(v) for key, v in row.items()} for row in work(panel, table, job)]


def _short(value: Any) -> Any:
    """Return a number to six digits: more would be noise, and files are kept."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _table(panel: Panel, seed: int) -> GeneratedTable:
    draw = paper_classes if as_loss(panel.loss).classification else paper_table
    options = {"size": panel.size, "snr": panel.snr, "rho": panel.rho, "seed": seed}
    return draw(int(panel.rows), panel.columns, **options)  # type: ignore[arg-type]


def _problem(panel: Panel, X: Any, y: Floats, method: Method | None = None) -> Problem:
    def own(name: str) -> Any:
        """Return the method's own parameter, or else the panel's."""
        given = None if method is None else getattr(method, name)
        return getattr(panel, name) if given is None else given

    loss = as_loss(own("loss"))
    return Problem(
        X,
        y,
        size=panel.size,
        loss=loss,
        x_bound=own("bound"),
        y_bound=None if loss.classification else own("bound"),
        radius=panel.radius,
        ridge=own("ridge"),
        classes=(-1.0, 1.0) if loss.classification else None,
    )


class _Once(Solver):
    """The default solver for one problem: draws and chances rest on one search."""

    name = "branch-and-bound"

    def __init__(self) -> None:
        self._known: dict[int, list[Found]] = {}  # by how many supports were asked for

    def top(self, problem: Problem, count: int, allowance: Allowance) -> list[Found]:
        if count not in self._known:
            self._known[count] = BranchAndBound().top(problem, count, allowance)
        return self._known[count]

    def by_mistakes(self, problem: Problem, allowance: Allowance) -> list[Found]:
        if 0 not in self._known:
            self._known[0] = BranchAndBound().by_mistakes(problem, allowance)
        return self._known[0]


def _mechanism(panel: Panel, method: Method, epsilon: float) -> Mechanism:
    kind = getattr(mechanisms, method.mechanism)
    options = dict(method.options)
    if method.mechanism == "MarkovChain":
        options["steps"] = panel.steps
    if issubclass(kind, Searching):
        options["solver"] = _Once()
    made: Mechanism = kind(epsilon, **options)
    return made


def _overlap(draws: NDArray[np.int64], truth: tuple[int, ...]) -> Floats:
    """Return the F1 score of every draw: both sets have the same size."""
    return np.asarray(np.isin(draws, truth).mean(axis=1))


def _recovery(panel: Panel, table: GeneratedTable, job: Job) -> Iterator[Row]:
    for name in panel.methods:
        method = settings().methods[name]
        began = time.perf_counter()
        problem = _problem(panel, table.X, table.y, method)
        mechanism = _mechanism(panel, method, panel.epsilon)
        rng = np.random.default_rng([seed_of(job), 1])
        draws = mechanism.draw(problem, job.draws, random_state=rng)
        f1 = _overlap(draws, table.support)
        yield {
            "method": name,
            "fraction": float((f1 == 1.0).mean()),
            "f1": float(f1.mean()),
            "chance": mechanism.chance(problem, table.support),
            "seconds": time.perf_counter() - began,
        }


def _prediction(panel: Panel, table: GeneratedTable, job: Job) -> Iterator[Row]:
    """Fit on 70% of the rows by objective perturbation, with half of epsilon; test on the rest."""
    cut, b = round(0.7 * len(table.y)), panel.bound
    train, target = table.X[:cut], table.y[:cut]
    X, y = np.clip(train, -b, b), np.clip(target, -b, b)
    X_test, y_test = np.clip(table.X[cut:], -b, b), np.clip(table.y[cut:], -b, b)
    fit = Problem(X, y, size=panel.size, x_bound=b, y_bound=b, radius=panel.radius)
    least = fit.score(search.best(_problem(panel, train, target)).support)
    for name in panel.methods:
        method = settings().methods[name]
        began = time.perf_counter()
        selection = _problem(panel, train, target, method)
        rng = np.random.default_rng([seed_of(job), 1])
        draws = _mechanism(panel, method, panel.epsilon / 2).draw(selection, job.draws, rng)
        private = ObjectivePerturbation(panel.epsilon / 2)
        errors, losses = [], []
        for support in draws:
            beta = np.array(private.release(fit, support, rng).values)
            errors.append(float(np.mean((y_test - X_test[:, support] @ beta) ** 2)))
            losses.append(float(np.sum((y - X[:, support] @ beta) ** 2)) - least)
        yield {
            "method": name,
            "error": float(np.mean(errors)),
            "utility": float(np.mean(losses)) / cut,
            "seconds": time.perf_counter() - began,
        }


def _listed(panel: Panel, table: GeneratedTable, job: Job) -> Iterator[Row]:
    """List all supports once; their scores give the exact distribution of top-R for every R."""
    began = time.perf_counter()
    problem = _problem(panel, table.X, table.y)
    supports, scores = list_region(cut_maker(problem), root(problem))
    f1 = _overlap(supports, table.support)
    best = supports[int(np.argmin(scores))]
    order = np.argsort(scores, kind="stable")
    mistakes = panel.size - np.isin(supports[order], best).sum(axis=1)
    first = [int(np.flatnonzero(mistakes >= k)[0]) + 1 for k in range(1, panel.size + 1)]
    for count in panel.values:
        mechanism = TopR(panel.epsilon, count=min(int(count), len(scores)), sensitivity="paper")
        law = np.exp(mechanism._law(problem, supports, scores))
        yield {
            "method": "top-r",
            "value": count,
            "chance": float(law[f1 == 1.0].sum()),
            "f1": float(law @ f1),
            "first_with_mistakes": first,
            "seconds": time.perf_counter() - began,
        }
