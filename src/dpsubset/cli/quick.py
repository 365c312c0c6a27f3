"""Small tables are done before the first function is compiled: which ones are small?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from dpsubset.compiled import interpreted
from dpsubset.data.frames import Table
from dpsubset.labels import Labels
from dpsubset.selection import Selection

__all__ = ["as_quick_as_possible"]

# Rows times columns, over all supports: a second or so of plain Python, docs/scale.md.
_SMALL, _SMALL_WITH_KINKS = 150_000, 50_000
_LONG = ("markov-chain", "sample-aggregate", "lasso-stability")  # their work is not of supports


def as_quick_as_possible(asked: Sequence[Selection], table: Table) -> AbstractContextManager[None]:
    """Return a context in which functions are compiled if that pays; by sizes alone."""
    y = table.y.values if isinstance(table.y, Labels) else table.y
    return interpreted(all(_small(selection, len(y)) for selection in asked))


def _small(selection: Selection, n: int) -> bool:
    if selection.mechanism in _LONG:
        return False
    problem = selection.rehearsal()
    fits = problem.n_supports * problem.most_columns
    small = _SMALL if problem.loss.smooth else _SMALL_WITH_KINKS
    return n * (problem.features.n_columns + fits) <= small
