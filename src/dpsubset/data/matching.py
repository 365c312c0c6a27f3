"""A codebook and the columns of a table: which of them are features, and how the target is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsubset.data.category import Category, Ignored
from dpsubset.data.codebook import Codebook
from dpsubset.data.columns import Column, Number, Truth, Unbounded
from dpsubset.data.target import Target
from dpsubset.errors import InputError, at_once

__all__ = ["match"]

_NO_TARGET = (
    "{} does not say what {} holds: add [target] with its name, and bounds = "
    "[lower, upper] for numbers or classes = [first, second] for labels"
)


def match(
    book: Codebook,
    names: Sequence[str],
    target: str | None,
    features: Sequence[str] | None,
    labels: bool | None,
    classes: tuple[Any, Any] | None,
    private: bool = False,
) -> tuple[str | None, Target, dict[str, Column]]:
    """Return the target's name, how it is read, and the columns of the features by name.

    `private` says that the bounds of the target are to be drawn from the table.
    """
    name = target or book.target_name
    if len(set(names)) < len(names):
        raise InputError("the table has two columns of the same name: rename one of them")
    wanted = [one for one in (names if features is None else features) if one != name]
    _, found = at_once(
        lambda: book.check_names(names, wanted, name),
        lambda: _target(book, name, labels, classes, private),
    )
    described = {one: column for one in wanted if (column := book.column(one)) is not None}
    if features is not None:
        for one, column in described.items():
            if isinstance(column, Ignored):
                raise InputError(f"{one!r} is a feature that {book.where} ignores: choose one")
    kept = {one: c for one, c in described.items() if not isinstance(c, Ignored)}
    if not kept:
        raise InputError(f"{book.where} leaves no column to choose from: describe one at least")
    return name, found, kept


def _target(
    book: Codebook,
    name: str | None,
    labels: bool | None,
    classes: tuple[Any, Any] | None,
    private: bool,
) -> Target:
    own = name == book.target_name and book.target is not None
    column = book.target if own else (None if name is None else book.column(name))
    if private:
        column = _to_be_drawn(book, name, column, bool(labels) or classes is not None)
    if classes is not None:  # said anew by the user
        return Target(None, classes, column=Category(levels=(str(classes[0]), str(classes[1]))))
    what = "the target" if name is None else f"the target {name!r}"
    if isinstance(column, Number) and column.missing != "indicator":
        if labels:
            raise InputError(
                f"{what} is described by bounds, and the loss is one for two classes: write "
                "classes = [first, second] instead, or give --classes"
            )
        return Target(column.span, None, isinstance(column, Unbounded), column=column)
    two = isinstance(column, Truth) or (isinstance(column, Category) and len(column.labels) == 2)
    if column is None or not two or column.missing in ("indicator", "level"):
        raise InputError(_NO_TARGET.format(book.where, what))
    if labels is False:
        raise InputError(
            f"{what} has two classes: choose a loss for them, brier or logistic, not one for "
            "numbers"
        )
    if isinstance(column, Category):
        pair = book.classes if own and book.classes else column.levels
        return Target(None, (pair[0], pair[1]), column=column)
    return Target(None, (0, 1), column=column)


def _to_be_drawn(book: Codebook, name: str | None, column: Column | None, labels: bool) -> Column:
    """Return a target whose bounds are to be private, unless the codebook says what it holds."""
    if labels:
        raise InputError("private bounds are for a target of numbers; labels have none")
    if isinstance(column, Unbounded):
        return column
    if column is not None and (column is book.target or name in book.columns):
        raise InputError(
            f"{book.where} says what the target holds, and private bounds are asked for as well: "
            'write bounds = "private" under [target], or do not ask for them'
        )
    return Unbounded()
