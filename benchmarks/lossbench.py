"""Measurements of the losses other than squared: fits, searches and releases."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.measured import Row, time_best
from dpsubset import search
from dpsubset.arrays import Floats
from dpsubset.losses import as_loss
from dpsubset.mechanisms import Exponential, Mechanism, PermuteAndFlip
from dpsubset.planning.generate import paper_classes, paper_table
from dpsubset.problem import Problem

__all__ = ["loss_rows"]

LOSSES = ("absolute", "quantile:0.3", "huber:0.1", "hinge", "logistic")


def loss_rows(quick: bool) -> Iterator[Row]:
    """Measure fits against Clarabel, then searches and releases against plain products."""
    yield from _fits(quick)
    yield from _hinge_searches(quick)
    yield from _hinge_releases(quick)
    yield from _absolute_releases(quick)


def _fits(quick: bool) -> Iterator[Row]:
    """Fit five columns, to a relative gap of 1e-8, which is Clarabel's own."""
    try:
        from benchmarks.conic import conic_fit
    except ImportError:
        Console(stderr=True).print("clarabel is not installed: pip install 'dpsubset[bench]'")
        return
    n = 500 if quick else 5000
    for name in LOSSES:
        loss = as_loss(name)
        table = (paper_classes if loss.classification else paper_table)(n, 10, seed=1)
        columns = np.clip(table.X[:, :5], -0.5, 0.5)
        y = np.clip(table.y, -1, 1)
        ours = loss.fit(columns, y, 10.0, 5.0)
        theirs = conic_fit(loss, columns, y, 10.0, 5.0)
        if abs(ours.primal - theirs) > 1e-6 * theirs:
            raise RuntimeError(f"the fits of the {name} loss differ")
        seconds = time_best(
            partial(loss.fit, columns, y, 10.0, 5.0, gap=1e-8 * ours.primal), repeats=10
        )
        clarabel = time_best(partial(conic_fit, loss, columns, y, 10.0, 5.0))
        case = f"Clarabel's fit, {name} loss; n={n}, s=5"
        yield Row(case, clarabel, "our fit", seconds, at_least=20.0)


def _problem(X: Any, y: Any, loss: str, ridge: float, bound: float = 0.5) -> Problem:
    return Problem(X, y, size=5, loss=loss, x_bound=bound, y_bound=bound, radius=1.1, ridge=ridge)


def _draw(
    mechanism: Mechanism, X: Any, y: Any, loss: str, ridge: float, bound: float, count: int
) -> None:
    mechanism.draw(_problem(X, y, loss, ridge, bound), count, random_state=1)


def _hinge_searches(quick: bool) -> Iterator[Row]:
    sizes = ((300, 30, 90.0),) if quick else ((3000, 100, 90.0), (5000, 100, 90.0))
    for n, p, ridge in sizes:
        table = paper_classes(n, p, seed=1)
        seconds = time_best(partial(_all_questions, table.X, table.y, ridge), 2)
        case = f"hinge: best, top 2+(p-s)s, best at every k; p={p}, n={n}, ridge {ridge:g}"
        yield Row(case, seconds, "one second", 1.0, at_most=2.0)
    n, p, ridge = (300, 50, 100.0) if quick else (5000, 1000, 100.0)
    table = paper_classes(n, p, seed=1)
    unit = time_best(partial(np.matmul, table.X.T, table.y))
    seconds = time_best(partial(_best_and_swaps, table.X, table.y, ridge), 1)
    case = f"hinge: best and all one-swaps, proven; p={p}, n={n}, ridge {ridge:g}"
    yield Row(case, seconds, "one pass X'y", unit)


def _all_questions(X: Any, y: Any, ridge: float) -> None:
    problem = _problem(X, y, "hinge", ridge)
    found = [
        search.best(problem),
        *search.top(problem, 2 + (problem.n_columns - 5) * 5),
        *search.best_by_mistakes(problem),
    ]
    if not all(f.proven for f in found):
        raise RuntimeError("a search was not proven")


def _best_and_swaps(X: Any, y: Any, ridge: float) -> None:
    problem = _problem(X, y, "hinge", ridge)
    found = search.top(problem, 2 + (problem.n_columns - 5) * 5)
    if not all(f.proven for f in found):
        raise RuntimeError("a search was not proven")


def _hinge_releases(quick: bool) -> Iterator[Row]:
    n, p = (500, 1000) if quick else (5000, 10_000)
    table = paper_classes(n, p, seed=1)
    X: Floats = np.clip(table.X, -0.5, 0.5)
    unit = time_best(lambda: X.T @ table.y)
    for kind, epsilon in ((Exponential, 1.0), (PermuteAndFlip, 1.0)):
        mechanism = kind(epsilon=epsilon)
        case = f"hinge, {mechanism.name}; p={p}, n={n}, ridge 170"
        first = time_best(partial(_draw, mechanism, X, table.y, "hinge", 170.0, 0.5, 1))
        yield Row(f"first draw; {case}", first, "one pass X'u", unit, at_most=60.0)
        more = time_best(partial(_draw, mechanism, X, table.y, "hinge", 170.0, 0.5, 2001))
        further = max(more - first, 0.0) / 2000
        yield Row(f"further draws, each; {case}", further, "one pass X'u", unit, at_most=0.5)


def _absolute_releases(quick: bool) -> Iterator[Row]:
    n, p = (300, 100) if quick else (1300, 1000)
    table = paper_table(n, p, seed=1)
    X = np.clip(table.X, -1, 1)
    unit = time_best(lambda: X.T @ table.y)
    mechanism = PermuteAndFlip(epsilon=1.0)
    for ridge in (30.0, 1.0, 0.0):
        wanted = 1000.0 if ridge == 30 else None
        case = f"absolute, {mechanism.name}; p={p}, n={n}, ridge {ridge:g}"
        first = time_best(partial(_draw, mechanism, X, table.y, "absolute", ridge, 1.0, 1))
        yield Row(f"first draw; {case}", first, "one pass X'u", unit, at_most=wanted)
        more = time_best(partial(_draw, mechanism, X, table.y, "absolute", ridge, 1.0, 501), 1)
        further = max(more - first, 0.0) / 500
        yield Row(f"further draws, each; {case}", further, "one pass X'u", unit)
