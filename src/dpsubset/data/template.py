"""A schema file to be filled in, made from column names and declared types, never from values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from dpsubset.data.cells import kind_of
from dpsubset.data.described import LARGEST_LEVELS

__all__ = ["quoted", "schema_template"]

_HEADER = """\
# What is public about a table, for dpsubset select --schema and dpsubset fit --schema.
#
# Fill in every line from public knowledge: a codebook, a form, a unit, a legal range, the scale of
# an instrument. Do not look anything up in the table itself: bounds or levels taken from the data
# break the privacy guarantee. `dpsubset schema --check FILE TABLE` names all that is wrong.
#
#   age = [0, 120]                      a number; values outside are clipped
#   smoker = "yes/no"                   a truth value: yes and no, true and false, 0 and 1; or "0/1"
#   region = ["north", "south"]         a category with its levels; any other value is "other"
#   visit = [2019-01-01, 2024-12-31]    a date
#   id = "ignore"                       no feature
#   "lab_*" = [0, 100]                  all columns whose names begin with lab_
#
# With more words (missing values count as the middle of the column, unless something is said):
#
#   [columns.income]
#   bounds = [0, 2e5]
#   missing = "indicator"               a coefficient of its own; or a fixed value, such as 0
#   unit = "EUR"
#   note = "per year, before taxes"
#
#   [columns.grade]
#   ordered = ["low", "mid", "high"]    levels in their order, as one number
#
#   [columns.party]
#   levels = ["red", "green"]
#   missing = "level"                   missing values are a level of their own
#
# rows = 5000                           the number of rows, if that is public
# line_breaks = true                    if texts in quotes of the CSV file hold line breaks
"""
_TARGET = """
[target]
name = {}
bounds = []    # numbers: [lower, upper], or "private"; or two classes: classes = ["no", "yes"]
# A row whose target is missing counts for nothing, unless a value is said for it: missing = 0
"""
_NO_TARGET = """
# [target]
# name = "the column to explain"
# bounds = [0, 1e5]    # or two classes: classes = ["no", "yes"]
"""
_HINTS = {
    "number": "[]    # a number: [lower, upper]",
    "truth": '"0/1"    # a truth value',
    "text": '[]    # text: its levels, ["a", "b"], or "ignore"',
    "date": "[]    # a date: [2019-01-01, 2024-12-31]",
    "nothing": '"ignore"    # no type is declared',
    "other": '"ignore"    # neither numbers nor text nor dates',
}


def schema_template(
    names: Sequence[str], target: str | None = None, types: Mapping[str, Any] | None = None
) -> str:
    r"""Return a schema file whose lines are still empty, but for what types declare.

    Parameters
    ----------
    names : sequence of str
        The columns.
    target : str, optional
        The target.
    types : mapping of str to type, optional
        The types that a file declares.

    Returns
    -------
    str
        A file to fill in.

    Examples
    --------
    >>> text = schema_template(["age", 'a"b'], types={"age": pl.Enum(["young", "old"])})
    >>> print("\n".join(text.splitlines()[-2:]))
    "age" = ["young", "old"]    # levels as the type declares them
    "a\"b" = []
    """
    known = types or {}
    lines = [f"{quoted(name)} = {_value(known.get(name))}" for name in names if name != target]
    head = _NO_TARGET if target is None else _TARGET.format(quoted(target))
    return _HEADER + head + "\n[columns]\n" + "\n".join(lines) + "\n"


def _value(declared: Any) -> str:
    if declared is None:
        return "[]"
    if isinstance(declared, pl.Enum):
        levels = declared.categories.to_list()
        if 2 <= len(levels) <= LARGEST_LEVELS:
            return f"[{', '.join(map(quoted, levels))}]    # levels as the type declares them"
    return _HINTS[kind_of(declared)]


def quoted(name: str) -> str:
    """Return text as TOML: a basic string, quotes and control characters escaped."""
    escaped = (
        f"\\u{ord(character):04x}"
        if ord(character) < 0x20 or ord(character) == 0x7F
        else "\\" + character
        if character in '"\\'
        else character
        for character in name
    )
    return '"' + "".join(escaped) + '"'
