"""Measure one candidate for the defaults: on a real table by refits, on simulated ones by recovery.

Time is the processor's, without compiling; so is the limit after which a release is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from time import process_time
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from scipy.special import expit
from scipy.stats import rankdata

from benchmarks import hardness_worker
from benchmarks.hardness_real import TABLES
from benchmarks.hardness_tables import BoundedTable
from dpsubset import limits
from dpsubset.arrays import Floats
from dpsubset.data import Schema, Table
from dpsubset.data.target import Target
from dpsubset.errors import RefusedError, UnprovenError
from dpsubset.losses import as_loss
from dpsubset.planning.simulate import SHAPES, Setting, shaped_table
from dpsubset.privacy import as_randomness
from dpsubset.problem import Problem
from dpsubset.selection import Selection

__all__ = ["LIMIT", "Candidate", "greedy", "measure_real", "quality", "reference", "rows_needed"]

LIMIT = 15.0  # seconds until a release is refused
SOONER = 5.0  # seconds for the twenty of a simulated table
DRAWS = 10  # of one split: the first is timed, the others make the mean steadier
PATIENCE = 2.0  # seconds for the others
TRAINING = 0.7
ROWS = tuple(round(500 * 2 ** (k / 2)) for k in range(10))  # 500 to 11,314
WANTED, TABLES_DRAWN, RELEASES, OFFSETS = 0.9, 3, 20, 4
Support = tuple[int, ...]
Found = dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """What may become a default.

    >>> Candidate("huber:0.2", radius=0.5).name
    'huber:0.2, radius 0.5'
    """

    loss: str
    radius: float = 1.0
    offset_share: float = 0.0
    ridge: float = 10.0
    window_share: float | str = 0.0
    row_ridge: float = 0.0

    @property
    def labels(self) -> bool:
        """Whether it is for labels of two classes."""
        return as_loss(self.loss).classification

    @property
    def name(self) -> str:
        """How tables call it: the usual ridge and no offset are left out."""
        offset = f", offset {self.offset_share:g}" if self.offset_share else ""
        ridge = f", ridge {self.ridge:g}" if self.ridge != 10.0 else ""
        ridge += f", {self.row_ridge:g} a row" if self.row_ridge else ""
        window = ", window" if self.window_share else ""
        return f"{self.loss}{window}, radius {self.radius:g}{offset}{ridge}"

    def selection(self, schema: Schema, size: int, epsilon: float, seconds: float) -> Selection:
        """Return the question with these settings."""
        return Selection(
            schema=schema,
            size=size,
            loss=self.loss,
            radius=self.radius,
            ridge=self.ridge,
            row_ridge=self.row_ridge,
            offset_share=self.offset_share,
            window_share=self.window_share,
            epsilon=epsilon,
            max_seconds=seconds,
        )


@contextmanager
def _limited_by_work() -> Iterator[None]:
    """Let limits count the processor's seconds: other work on the machine must not refuse."""
    with mock.patch.object(limits, "time", SimpleNamespace(monotonic=process_time)):
        yield


def draws(
    selection: Selection, problem: Problem, seed: int, count: int, patience: float = np.inf
) -> Iterator[Support]:
    """Release some supports one after the other, of one offset and window; without the constant."""
    randomness, constant = as_randomness(seed), problem.design.n_columns - 1
    with _limited_by_work():
        selection = selection.settled(problem.n_rows)
        problem = selection.scored(problem, randomness)
        sampler = selection.made._sampler(problem)
        began = process_time()
        for k in range(count):
            if k and process_time() - began > patience:
                return
            support = tuple(int(j) for j in sampler(randomness) if j != constant)
            if k == 0:
                began = process_time()
            yield support


@cache
def _table(name: str) -> BoundedTable:
    """Return a table with its target within the bounds: few rows far outside would decide R^2."""
    table = TABLES[name].read()
    return table if table.target is None else replace(table, y=np.clip(table.y, *table.target))


def _split(rows: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    order = np.random.default_rng([seed, rows]).permutation(rows)
    cut = int(TRAINING * rows)
    return np.sort(order[:cut]), np.sort(order[cut:])


def measure_real(name: str, size: int, epsilon: float, seed: int, candidate: Candidate) -> Found:
    """Return seconds of the first release, and the mean quality of refits on what is released."""
    table = _table(name)
    training, test = _split(len(table.y), seed)
    target = Target(None, (-1.0, 1.0)) if table.target is None else Target(table.target)
    schema = Schema.of(None, table.X.shape[1], (table.lower, table.upper), target)
    selection = candidate.selection(schema, size, epsilon, LIMIT)
    watch = hardness_worker._Watch()
    found: list[Support] = []
    try:
        problem = selection.problem(Table(table.X[training], table.y[training]))
        for support in draws(selection, problem, seed, DRAWS, PATIENCE):
            if not found:
                seconds = watch.seconds()
            found.append(support)
    except (UnprovenError, RefusedError):
        if not found:
            return {"refused": True, "seconds": round(watch.seconds(), 4)}
    scores = {support: quality(table, training, test, support) for support in set(found)}
    mean = float(np.mean([scores[support] for support in found]))
    return {"seconds": round(seconds, 4), "draws": len(found), "quality": round(mean, 5)}


def reference(name: str, size: int, seed: int, count: int = 30) -> Found:
    """Return the quality of greedy forward selection, and of columns drawn at random."""
    table = _table(name)
    training, test = _split(len(table.y), seed)
    rng = np.random.default_rng(seed)
    any_columns = [rng.choice(table.X.shape[1], size, replace=False) for _ in range(count)]
    best = greedy(table.X[training], table.y[training], size)
    by_chance = [quality(table, training, test, tuple(columns)) for columns in any_columns]
    return {
        "ceiling": round(quality(table, training, test, best), 5),
        "chance": round(float(np.mean(by_chance)), 5),
    }


def greedy(X: Floats, y: Floats, size: int) -> Support:
    """Return the columns that least squares adds one by one.

    >>> greedy(np.eye(4)[:, :3], np.array([0.0, 2.0, 0.0, -1.0]), 1)
    (1,)
    """
    left = X - X.mean(axis=0)
    scale = left.std(axis=0)
    left = left / np.where(scale > 0, scale, 1.0)
    rest = y - y.mean()
    chosen: list[int] = []
    for _ in range(size):
        norms = np.einsum("ij,ij->j", left, left)
        usable = norms > 1e-8 * len(y)
        gain = np.where(usable, (left.T @ rest) ** 2 / np.where(usable, norms, 1.0), -1.0)
        gain[chosen] = -2.0
        j = int(np.argmax(gain))
        chosen.append(j)
        if usable[j]:
            unit = left[:, j] / np.sqrt(norms[j])
            rest = rest - unit * (unit @ rest)
            left = left - np.outer(unit, unit @ left)
    return tuple(sorted(chosen))


def quality(table: BoundedTable, training: Any, test: Any, support: Support) -> float:
    """Return R^2 on the test rows of least squares, or the AUC of a logistic fit, not private."""
    Z = table.X[:, list(support)]
    centre, scale = Z[training].mean(axis=0), Z[training].std(axis=0)
    Z = np.column_stack([(Z - centre) / np.where(scale > 0, scale, 1.0), np.ones(len(Z))])
    y = table.y
    if table.target is None:
        return _auc(Z[test] @ _logistic(Z[training], y[training]), y[test] > 0)
    beta = np.linalg.lstsq(Z[training], y[training], rcond=1e-9)[0]
    return float(
        1.0 - np.sum((y[test] - Z[test] @ beta) ** 2) / np.sum((y[test] - y[test].mean()) ** 2)
    )


def _logistic(Z: Floats, y: Floats, steps: int = 12) -> Floats:
    """Fit by Newton's method; a slight ridge holds what is separated."""
    beta, ridge = np.zeros(Z.shape[1]), np.eye(Z.shape[1])
    for _ in range(steps):
        chance = expit(Z @ beta)
        slope = Z.T @ ((y > 0) - chance) - beta
        step = np.linalg.solve((Z.T * (chance * (1.0 - chance))) @ Z + ridge, slope)
        beta = beta + step
        if np.abs(step).max() < 1e-6:
            break
    return beta


def _auc(score: Floats, positive: Any) -> float:
    ranks, count = rankdata(score), int(positive.sum())
    above = ranks[positive].sum() - count * (count + 1) / 2
    return float(above / (count * (len(score) - count)))


def rows_needed(shape: str, candidate: Candidate) -> Found:
    """Return the least number of rows on the grid that recovers the truth, and seconds there.

    `refused_at` are the numbers of rows that were too few because releases were refused.
    """
    low, high, place = -1, len(ROWS), 4  # too few, enough
    times: dict[int, float] = {}
    refused_at = []
    while high - low > 1:
        enough, refused, times[place] = _recovered(shape, candidate, ROWS[place])
        if refused and not enough:
            refused_at.append(ROWS[place])
        low, high = (low, place) if enough else (place, high)
        place = (low + high) // 2
    at = min(high, len(ROWS) - 1)
    rows = ROWS[high] if high < len(ROWS) else None
    return {"rows": rows, "seconds": round(times[at], 4), "refused_at": sorted(refused_at)}


def _recovered(shape: str, candidate: Candidate, n: int) -> tuple[bool, bool, float]:
    """Whether so many rows suffice, whether any was refused, median seconds of a first release."""
    bounds, within = SHAPES[shape]
    missed, times, refused = 0, [], False
    target = Target(None, (-1.0, 1.0)) if candidate.labels else Target(within)
    setting = Setting(candidate.loss, 1.0, candidate.ridge, shape=shape)
    for seed in range(TABLES_DRAWN):
        table = shaped_table(setting, n, seed)
        schema = Schema.of(None, setting.columns, bounds, target)
        selection = candidate.selection(schema, setting.size, setting.epsilon, SOONER)
        offsets = OFFSETS if selection.first else 1
        for k in range(offsets):
            each, drawn = RELEASES // offsets, 0
            watch = hardness_worker._Watch()
            try:
                problem = selection.problem(Table(table.X, table.y))
                for support in draws(selection, problem, OFFSETS * seed + k, each):
                    if not drawn:
                        times.append(watch.seconds())
                    drawn += 1
                    missed += support != table.support
            except (UnprovenError, RefusedError):
                times += [] if drawn else [watch.seconds()]
                missed += each - drawn
                refused = True
        if missed > (1.0 - WANTED) * TABLES_DRAWN * RELEASES:
            return False, refused, float(np.median(times))
    return True, refused, float(np.median(times))
