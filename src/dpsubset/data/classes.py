"""The target of a classification loss: a column of text, truth values or numbers in two classes.

Numbers are compared as numbers, with true and false as 1 and 0; everything else as text without the
blanks around it. No message holds a label of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from dpsubset.errors import InputError, without_context
from dpsubset.labels import Labels

__all__ = ["as_numbers", "check_classes", "is_missing", "read_labels"]

_MISSING_WORDS = ["", "na", "n/a", "nan", "null", "none", "-", "?", "."]  # in small letters
_TRUTH = {"true": "1", "false": "0"}


def check_classes(classes: Sequence[str]) -> tuple[str, str]:
    """Check the classes that were named: two, and different as numbers, too.

    Parameters
    ----------
    classes : sequence of str
        What was named.

    Returns
    -------
    pair of str
        The two classes.

    Examples
    --------
    >>> check_classes(["no", " yes"])
    ('no', 'yes')
    """
    names = [name.strip() for name in classes]
    numbers = as_numbers(pl.Series(names, dtype=pl.String))
    one_number = numbers.null_count() == 0 and numbers.n_unique() == 1
    if len(names) != 2 or names[0] == names[1] or one_number:
        raise InputError(
            "--classes must name two different classes, separated by a comma, such as no,yes"
        )
    return names[0], names[1]


@without_context
def read_labels(column: pl.Series, classes: tuple[str, str] | None, path: Path) -> Labels | None:
    """Return -1 for the first and +1 for the second class; None if a label is missing.

    Without `classes` the two are read off the column.
    """
    kind = column.dtype
    textual = kind in (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Null)
    if not (textual or kind.is_numeric()):
        raise InputError(
            f"{path}: column {column.name!r} holds neither text nor truth values nor numbers, so "
            "it cannot be a target of two classes"
        )
    text = column.cast(pl.String).str.strip_chars()
    if classes is not None:
        return _by_name(text, classes, path)
    if is_missing(text).any():
        return None
    numbers = as_numbers(text)
    numeric = numbers.null_count() == 0
    if numeric and not numbers.is_finite().all():
        return None
    try:
        return Labels.of((numbers if numeric else text).to_numpy(), option="--classes first,second")
    except InputError as error:
        raise InputError(f"{path}, column {column.name!r}: {error}") from None


def as_numbers(text: pl.Series) -> pl.Series:
    """Read text as numbers, and true and false as 1 and 0; null where it is neither.

    >>> as_numbers(pl.Series(["1.50", "True", "x"])).to_list()
    [1.5, 1.0, None]
    """
    plain = text.str.strip_chars().str.to_lowercase().replace(_TRUTH)
    return plain.cast(pl.Float64, strict=False)


def _by_name(text: pl.Series, classes: tuple[str, str], path: Path) -> Labels | None:
    """Place every label by itself: what other rows hold changes nothing."""
    labels, pair = text, pl.Series(classes)
    if as_numbers(pair).is_finite().sum() == 2:
        labels, pair = as_numbers(text), as_numbers(pair)
    first, second = labels.eq_missing(pair[0]), labels.eq_missing(pair[1])
    beside = text.filter(~(first | second))
    if is_missing(beside).any():
        return None
    if len(beside):
        raise InputError(
            f"{path}: column {text.name!r} holds labels other than the two classes that "
            "--classes names"
        )
    return Labels(np.where(second.to_numpy(), 1.0, -1.0), named=True)


def is_missing(text: pl.Series) -> pl.Series:
    """Say where text is empty or a word for a missing value."""
    return text.str.strip_chars().str.to_lowercase().is_in(_MISSING_WORDS).fill_null(True)
