"""What can a table of this schema bear? By simulation from public knowledge alone (`plan`)."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dpsubset.checks import positive, whole
from dpsubset.data import Codebook, Schema, Table
from dpsubset.errors import InputError, UnprovenError
from dpsubset.model import Model
from dpsubset.planning.described import Described, described_table
from dpsubset.planning.plans import Plan, Point
from dpsubset.planning.quality import quality_of
from dpsubset.selection import Selection

__all__ = ["SIGNALS", "plan", "schema_of"]

SIGNALS = (0.1, 0.3, 0.6, 0.83)
_EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)  # times the epsilon that is asked for
_ROWS = (300, 1000, 3000, 10_000, 30_000, 100_000)
_CELLS = 2_000_000  # of a simulated table
_LEAST_ROWS = 2000
_FRESH = 2000  # rows that a model is judged on
_TRUE = 5  # columns, where the size is open
_PATIENCE = 5.0  # seconds for the releases from one table, at least
# Decay and common part where none is given: of tables for "the right columns", all true columns
# alike; and of tables for models, which are more like real ones (docs/real-tables.md).
_ALIKE, _LIKE_REAL = (1.0, 0.0), (0.5, 0.2)


@dataclass(frozen=True)
class _World:
    """What simulated tables are like."""

    size: int
    spread: float
    rho: float
    balance: float
    decay: float | None
    common: float | None
    included: tuple[int, ...]
    included_signal: float

    def tables(self, otherwise: tuple[float, float]) -> dict[str, Any]:
        """Return what a table is drawn with; what is not said is as given here."""
        decay, common = otherwise
        return {
            "size": self.size,
            "spread": self.spread,
            "rho": self.rho,
            "balance": self.balance,
            "decay": decay if self.decay is None else self.decay,
            "common": common if self.common is None else self.common,
            "included": self.included,
            "included_signal": self.included_signal,
        }


def plan(
    schema: Any,
    *,
    rows: int | None = None,
    epsilon: float = 1.0,
    size: Any = 5,
    features: int | None = None,
    signals: Sequence[float] = SIGNALS,
    share: float = 0.9,
    true_columns: int | None = None,
    spread: float = 0.25,
    rho: float = 0.1,
    balance: float = 0.5,
    decay: float | None = None,
    common: float | None = None,
    included_signal: float = 0.0,
    models: bool = True,
    tables: int = 5,
    draws: int = 40,
    seconds: float = 60.0,
    progress: Callable[[int, int], None] | None = None,
    **question: Any,
) -> Plan:
    """Simulate selections and models on tables of a schema, before a table is touched.

    With `rows` the answer is over epsilon, without over rows. Everything rests on what is public:
    columns, bounds, levels, and assumptions that the answer repeats.

    Parameters
    ----------
    schema : path, mapping or Schema
        What is public about the table.
    rows : int, optional
        The number of rows; if not given, the answer is how many are needed at `epsilon`.
    epsilon : float
        With `rows`: the middle of the epsilons that are tried, a tenth to ten times of it.
    size : int or "auto"
        How many columns are selected.
    features : int, optional
        The number of columns of the table, where the schema has lines for families of them.
    signals : sequence of float
        Explained parts of the target's variance, R^2, each between 0 and 1.
    share : float
        The chance of the right columns that is to be reached.
    true_columns : int, optional
        How many columns explain the target, besides those that are always included: as many as
        `size` leaves for them if not given, 5 where that is open.
    spread : float
        Standard deviation of numbers and of the target, in halves of the width of their bounds.
    rho : float
        Correlation of neighbouring columns.
    balance : float
        The share of the second class, where the target has two.
    decay : float, optional
        What each true column explains, as a part of what the one before explains; 1 for all alike.
        If not given 1 for the right columns, 0.5 for models, which is more like real tables.
    common : float, optional
        How much of every column's variance is one number of the row that all columns share. If not
        given 0 for the right columns, 0.2 for models.
    included_signal : float
        R^2 of the columns that are always included, all together, besides the signals.
    models : bool
        Whether private models are fitted, too, with the same epsilon.
    tables, draws : int
        How many tables are simulated at most, and releases from each.
    seconds : float
        No table is begun that would end later, as far as can be told; one is simulated in any case.
    progress : callable, optional
        Called with the number of points that are done, and of all.
    **question
        Options of the selection, by their names: loss, mechanism, neighbours, clip, radius, ridge,
        and `always_include`, a list of columns that every release holds and `size` counts, such as
        covariates.

    Returns
    -------
    Plan
        Chances and qualities at all points, and what is needed for `share`.

    Examples
    --------
    >>> schema = {
    ...     "columns": {"age": [0, 100], "sex": "0/1", "arm": ["a", "b", "c"], "dose": [0, 1]},
    ...     "target": {"name": "cost", "bounds": [0, 10]},
    ... }
    >>> found = plan(schema, rows=3000, size=1, signals=[0.6], tables=1, draws=5, models=False)
    >>> [point.epsilon for point in found.points]
    [0.1, 0.3, 1.0, 3.0, 10.0]
    >>> found.points[-1].chance
    1.0
    """
    known = schema_of(schema, features)
    signals = [_part(one, "signals") for one in signals]
    _part(share, "share"), _part(balance, "balance")
    if not signals:
        raise InputError("signals is empty: give at least one R^2 between 0 and 1, such as 0.3")
    if decay is not None and not 0.0 < positive(decay, "decay") <= 1.0:
        raise InputError(f"decay must lie between 0 and 1, not {decay!r}")
    if not -1.0 < rho < 1.0:
        raise InputError(f"rho must lie between -1 and 1, not {rho!r}")
    if common is not None and not 0.0 <= common < 1.0:
        raise InputError(f"common must be 0 or lie between 0 and 1, not {common!r}")
    tables, draws = whole(tables, "tables", 1), whole(draws, "draws", 1, most=10**6)
    seconds = positive(seconds, "seconds")
    asked = {"schema": known, "size": size, **question}
    first = Selection(epsilon=positive(epsilon, "epsilon"), **asked)  # says what is wrong
    included = first.included
    free = known.n_columns - len(included)
    if first.largest_size == len(included):
        raise InputError("size leaves no column to find besides those that are always included")
    true = _TRUE if first.open_size else first.largest_size - len(included)
    true = min(free, whole(true_columns or true, "true_columns", 1))
    shape = positive(spread, "spread"), float(rho), float(balance), decay, common
    world = _World(true, *shape, included, _beside(included_signal, signals, included))
    if rows is None:
        pairs = [(n, float(epsilon)) for n in _ROWS]
    else:
        n = whole(rows, "rows", 10)
        pairs = [(n, float(f"{epsilon * times:.6g}")) for times in _EPSILONS]
    wanted = [(*pair, signal) for signal, pair in product(signals, pairs)]
    found = _simulate(wanted, asked, world, models, tables, draws, seconds, progress)
    return Plan(
        tuple(found),
        share=share,
        over="rows" if rows is None else "epsilon",
        labels=known.target.limits is None,
        asked=_told(first, world, draws),
    )


def _beside(given: Any, signals: Sequence[float], included: tuple[int, ...]) -> float:
    """Return the signal of the columns that are always included; all together stay below 1."""
    if isinstance(given, (int, float)) and given == 0:
        return 0.0
    value = _part(given, "included_signal")
    if not included:
        raise InputError("included_signal is of columns that are always included: name them")
    if value + max(signals) >= 1.0:
        raise InputError(
            f"included_signal and signals are parts of one variance: {value:g} and "
            f"{max(signals):g} are too much together"
        )
    return value


def _told(selection: Selection, world: _World, draws: int) -> dict[str, Any]:
    """Return the question and the assumptions, for the record."""
    return {
        **selection.asked(),
        "mechanism": selection.made.name,
        "neighbours": selection.made.neighbours,
        "true_columns": world.size,
        "included_signal": world.included_signal,
        "spread": world.spread,
        "rho": world.rho,
        "decay": world.decay,
        "common": world.common,
        "balance": world.balance if selection.schema.target.limits is None else None,
        "draws": draws,
    }


def _simulate(
    wanted: Sequence[tuple[int, float, float]],
    asked: dict[str, Any],
    world: _World,
    models: bool,
    tables: int,
    draws: int,
    seconds: float,
    progress: Callable[[int, int], None] | None,
) -> list[Point]:
    """Simulate table after table, each at all points, until the time is up."""
    began, found = time.monotonic(), [Point(*one) for one in wanted]
    each = max(_PATIENCE, seconds / len(wanted))
    for seed in range(tables):
        now = time.monotonic() - began
        if seed and now + now / seed > seconds:
            break
        for k, (rows, epsilon, signal) in enumerate(wanted):
            point = _one(asked, world, rows, epsilon, signal, seed, draws, models, each)
            found[k] = found[k] + point
            if progress is not None:
                progress(seed * len(wanted) + k + 1, tables * len(wanted))
    return found


def _one(
    asked: dict[str, Any],
    world: _World,
    rows: int,
    epsilon: float,
    signal: float,
    seed: int,
    draws: int,
    models: bool,
    limit: float,
) -> Point:
    """Simulate one table and releases from it, and a model of one that is more like real ones."""
    schema: Schema = asked["schema"]
    # Scores grow with the rows, and noise with 1 / epsilon: fewer rows at a larger epsilon, and
    # less ridge, have about the same distribution (docs/planning.md).
    width = schema.n_columns if schema.groups is None else schema.groups[-1][-1] + 1
    few = min(rows, max(_LEAST_ROWS, _CELLS // width))
    times = rows / few

    def drawn_with(options: dict[str, Any]) -> Described:
        return described_table(schema, few + _FRESH, signal=signal, seed=seed, **options)

    alike, like_real = world.tables(_ALIKE), world.tables(_LIKE_REAL)
    made = drawn_with(alike)
    table, fresh = made.parted(few)
    labels = schema.target.limits is None
    given = {**asked, "epsilon": epsilon * times, "ridge": asked.get("ridge", 10.0) / times}
    given["max_seconds"] = limit
    chance = share = quality = 0.0
    slow = 0
    try:
        selection = Selection(**given)
        drawn = selection.experiments(selection.problem(table), draws, seed)
        true = set(made.support)
        free = set(range(schema.n_columns)) - set(world.included)
        both = [free.intersection(row.tolist()) for row in drawn]
        chance = sum(one == true for one in both) / draws
        share = sum(len(one & true) for one in both) / (draws * len(true))
    except UnprovenError:
        slow = 1
    if models and like_real != alike:
        table, fresh = drawn_with(like_real).parted(few)
    best = quality_of(fresh.outcome, fresh.signal, labels=labels)
    if models:
        try:
            quality = _model_quality(given, table, fresh, seed)
        except UnprovenError:
            slow, quality = 1, 0.5 if labels else 0.0
    return Point(rows, epsilon, signal, 1, chance, share, quality if models else None, best, slow)


def _model_quality(given: dict[str, Any], table: Table, fresh: Described, seed: int) -> float:
    model = Model(**given, seed=seed).release(table)
    X = fresh.table.X
    if model.codings is None:
        X = X[:, list(model.positions or ())]
    line = model.margins(X)
    if model.target_bounds is not None:
        line = np.clip(line, *model.target_bounds)
    return quality_of(fresh.outcome, line, labels=model.classes is not None)


def schema_of(given: Any, features: int | None = None) -> Schema:
    """Return a schema without a table; families of columns are written out up to `features`.

    >>> book = {"columns": {"age": [0, 100], "lab_*": [0, 1]}, "target": {"bounds": [0, 1]}}
    >>> schema_of(book, features=3).names
    ('age', 'lab_1', 'lab_2')
    """
    if isinstance(given, Schema):
        return given
    if isinstance(given, (str, os.PathLike)):
        book = Codebook.read(Path(given))
    elif isinstance(given, Mapping):
        book = Codebook.of(given)
    else:
        raise InputError(
            "schema must be a path to a schema file, a dictionary like one, or a Schema, not "
            f"{type(given).__name__}"
        )
    families = [*book.patterns, *(["*"] if book.fallback is not None else [])]
    names = [name for name in book.columns if name not in families]
    if families and features is None:
        raise InputError(
            f"{book.where} has lines for families of columns: say how many columns the table has, "
            "features=... or --features"
        )
    if features is not None:
        most = whole(features, "features", 1)
        if not families and most != len(names):
            raise InputError(
                f"{book.where} describes {len(names)} columns, and features says {most}: leave it "
                "out"
            )
        more = most - len(names)
        for k in range(max(0, more)):
            family = families[k % len(families)]
            names.append(family.replace("*", f"{k // len(families) + 1}", 1).replace("*", ""))
    return Schema.of_table(book, names)


def _part(given: Any, name: str) -> float:
    value = positive(given, name)
    if not (value < 1.0 and math.isfinite(value)):
        raise InputError(f"{name} must lie between 0 and 1, not {given!r}")
    return value
