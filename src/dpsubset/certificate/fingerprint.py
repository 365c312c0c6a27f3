"""The schema of a record again, from a schema file and the record's own words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpsubset.data import Codebook, Schema, is_bounds_only, pick_features, read_bounds
from dpsubset.data.bounds import column_limits
from dpsubset.data.target import ANY, PRIVATE, Target
from dpsubset.errors import InputError
from dpsubset.losses import as_loss

__all__ = ["check_schema_file", "fingerprints"]


def check_schema_file(path: Path, names: Sequence[str] | None) -> None:
    """Refuse a schema file that cannot be read, or that needs the columns of the table."""
    book = Codebook.read(path)
    if names is None and (book.patterns or book.fallback is not None):
        raise InputError(
            f"{path} has lines for families of columns: name the table, of which the header alone "
            "is read (--table, or names=[...])"
        )


def fingerprints(path: Path, asked: Mapping[str, Any], names: Sequence[str] | None) -> set[str]:
    """Return the fingerprints that a release of a schema file, or a file of bounds, may have.

    `names` are the columns of the table, in their order; without them those of the file.

    Raises
    ------
    InputError
        If the file cannot be what was asked.
    """
    found, faults = set(), []
    for schema in _readings(path, asked, names):
        try:
            found.add(schema().sha256)
        except InputError as error:
            faults.append(error)
    if not found:
        raise faults[0]
    return found


def _readings(path: Path, asked: Mapping[str, Any], names: Sequence[str] | None) -> Iterator[Any]:
    """Give each way in which the file may have been read: the record does not tell which."""
    labels = _labels(asked)
    given = tuple(asked["classes"]) if "classes" in asked else None
    for classes in dict.fromkeys((None, given)):
        yield lambda classes=classes: _by_codebook(path, asked, names, labels, classes)
        if names is not None and is_bounds_only(path):
            yield lambda classes=classes: _by_bounds(path, asked, names, labels, classes)


def _labels(asked: Mapping[str, Any]) -> bool:
    try:
        return as_loss(asked["loss"]).classification
    except InputError:  # a custom loss that is not registered here
        return "classes" in asked


def _by_codebook(
    path: Path,
    asked: Mapping[str, Any],
    names: Sequence[str] | None,
    labels: bool,
    classes: tuple[Any, Any] | None,
) -> Schema:
    book, target = Codebook.read(path), asked["target"]
    known = list(names or book.columns)
    if target not in known:
        known.append(target)
    return Schema.of_table(
        book, known, target=target, features=asked["features"], labels=labels, classes=classes
    )


def _by_bounds(
    path: Path,
    asked: Mapping[str, Any],
    names: Sequence[str],
    labels: bool,
    classes: tuple[Any, Any] | None,
) -> Schema:
    target, wanted = asked["target"], asked["features"]
    chosen = pick_features(names, target, wanted, asked["always_include"], asked["exclude"])
    private = asked.get("target_bounds") == PRIVATE
    found = read_bounds(path, chosen, None if labels or private else target, known=names)
    limits = column_limits(found.columns, chosen, len(chosen))
    read_as = Target(ANY, private=True) if private else Target(found.target, classes)
    return Schema(chosen, limits, read_as, target, wanted is not None)
