"""What is public about a table: its columns, what they may hold, and how its target is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dpsubset.arrays import Floats
from dpsubset.data.bounds import column_limits, narrowed, rescale_target, target_limits
from dpsubset.data.cells import cells_of, pick_cells
from dpsubset.data.codebook import Codebook
from dpsubset.data.coding import Rows, coded, groups_of
from dpsubset.data.columns import Column, OneNumber
from dpsubset.data.frames import Table, as_matrix
from dpsubset.data.matching import match
from dpsubset.data.target import ANY, PRIVATE, Target, check_given
from dpsubset.designs import Store, as_design
from dpsubset.errors import InputError, at_once, without_context
from dpsubset.labels import Labels, named_classes

__all__ = ["Schema"]

_AT_ONCE = 1 << 14


@dataclass(frozen=True, eq=False)
class Schema:
    """Public knowledge about a table: nothing here may come from its rows.

    `names` are those of the columns, or None where they have none; `target_name` likewise.
    `picked` says that the columns were picked among those of the table. `columns` say what each
    may hold and what a missing cell counts as; None for columns that are numbers without missing
    ones. `ignored` are columns of the table that are no feature, `rows` the number of rows, if that
    is public.

    Parameters
    ----------
    names : tuple of str or None
        The names of the columns; None where they have none.
    limits : pair of arrays
        The lower and upper bounds of the columns.
    target : Target
        What the target holds.
    target_name : str, optional
        Its name.
    picked : bool
        Whether the columns were picked among those of the table.
    columns : tuple of Column, optional
        What each may hold, and what a missing cell counts as.
    ignored : tuple of str
        Columns of the table that are no feature.
    rows : int, optional
        The number of rows, if that is public.
    line_breaks : bool
        Whether texts in quotes of a CSV file may hold line breaks.

    Examples
    --------
    >>> schema = Schema.from_dict({
    ...     "columns": {"age": [0, 120], "region": ["north", "south", "west"]},
    ...     "target": {"name": "cost", "bounds": [0, 1e5]},
    ... })
    >>> schema.names, schema.groups
    (('age', 'region'), [[0], [1, 2]])
    """

    names: Sequence[str] | None
    limits: tuple[Floats, Floats]
    target: Target
    target_name: str | None = None
    picked: bool = False
    columns: tuple[Column, ...] | None = None
    ignored: tuple[str, ...] = ()
    rows: int | None = None
    line_breaks: bool = False

    @classmethod
    def of(
        cls,
        names: Sequence[str] | None,
        n_columns: int,
        bounds: Any,
        target: Target,
        target_name: str | None = None,
    ) -> Schema:
        """Return the schema of columns with bounds as users give them.

        >>> Schema.of(None, 2, (0, 10), Target((0.0, 1.0))).n_columns
        2
        """
        limits = column_limits(bounds, names, n_columns)
        return cls(names, limits, target, target_name or None)

    @classmethod
    def of_table(
        cls,
        book: Codebook,
        names: Sequence[str],
        *,
        target: str | None = None,
        features: Sequence[str] | None = None,
        labels: bool | None = None,
        classes: tuple[Any, Any] | None = None,
        private: bool = False,
    ) -> Schema:
        """Return what a codebook says of a table with these columns.

        `target`, `features` and `classes` are the user's wishes, where they are not the book's own;
        `labels` says whether the loss is one for two classes, if there is a loss already, and
        `private` that the bounds of the target are to be drawn from the table.
        """
        name, found, columns = match(book, names, target, features, labels, classes, private)
        spans = [c.span if isinstance(c, OneNumber) else (-1.0, 1.0) for c in columns.values()]
        lower, upper = np.array(spans).reshape(-1, 2).T
        ignored = tuple(one for one in names if one not in columns and one != name)
        return cls(
            tuple(columns),
            (lower.copy(), upper.copy()),
            found,
            name,
            features is not None,
            tuple(columns.values()),
            ignored,
            book.rows,
            book.line_breaks or _has_breaks((*columns.values(), found.column)),
        )

    @classmethod
    def read_toml(
        cls, path: str | Path, names: Sequence[str] | None = None, *, target: str | None = None
    ) -> Schema:
        """Read a schema file, for a table with the columns `names` (those of the file, if None)."""
        return cls._of_book(Codebook.read(Path(path)), names, target)

    from_toml = read_toml

    @classmethod
    def _of_book(
        cls, book: Codebook, names: Sequence[str] | None = None, target: str | None = None
    ) -> Schema:
        if names is None and (book.patterns or book.fallback is not None):
            raise InputError(
                f"{book.where} has lines for families of columns: say which columns the table has, "
                "names=[...]"
            )
        return cls.of_table(book, list(book.columns) if names is None else names, target=target)

    @property
    def n_columns(self) -> int:
        """The number of columns to choose from."""
        return int(self.limits[0].size)

    @property
    def groups(self) -> list[list[int]] | None:
        """The coded columns of each feature; None where every feature is one column."""
        return None if self.columns is None else groups_of(self.columns)

    @property
    def levels(self) -> dict[str, list[str]]:
        """The levels of the columns that have some, by name."""
        pairs = zip(self.names or (), self.columns or (), strict=False)
        return {name: list(c.levels) for name, c in pairs if hasattr(c, "levels")}

    @cached_property
    def sha256(self) -> str:
        """A fingerprint: equal for equal columns, bounds and targets, whoever asks."""
        if self.columns is not None:
            told = {k: v for k, v in self.to_dict().items() if k != "picked"}
            return hashlib.sha256(json.dumps(told).encode()).hexdigest()
        classes = None if self.target.classes is None else [str(c) for c in self.target.classes]
        target = [
            self.target_name,
            PRIVATE if self.target.private else self.target.limits,
            classes,
        ]
        digest = hashlib.sha256(b'{"names": ')
        for text in _json_parts(self.names):
            digest.update(text.encode())
        digest.update(f', "target": {json.dumps(target)}}}'.encode())
        for side in self.limits:
            for first in range(0, side.size, _AT_ONCE):
                digest.update(np.ascontiguousarray(side[first : first + _AT_ONCE], "<f8").data)
        return digest.hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for columns of all kinds in the layout of the schema file."""
        target = self.target
        if self.columns is not None:
            assert self.names is not None
            described = zip(self.names, self.columns, strict=True)
            ignored = {name: {"ignore": True} for name in self.ignored}
            return {
                "columns": {name: column.to_dict() for name, column in described} | ignored,
                "target": ({"name": self.target_name} if self.target_name else {})
                | target.to_dict(),
                "rows": self.rows,
                **({"line_breaks": True} if self.line_breaks else {}),
                "picked": self.picked,
            }
        return {
            "names": None if self.names is None else list(self.names),
            "lower": self.limits[0].tolist(),
            "upper": self.limits[1].tolist(),
            "target": self.target_name,
            "target_bounds": PRIVATE if target.private else _listed(target.limits),
            "classes": None if target.classes is None else list(target.classes),
            "picked": self.picked,
        }

    @classmethod
    @without_context
    def from_dict(cls, given: Any) -> Schema:
        """Return the schema that `to_dict` described, or a dictionary like a schema file."""
        if isinstance(given, Mapping) and "lower" not in given and "names" not in given:
            return replace(cls._of_book(Codebook.of(given)), picked=bool(given.get("picked")))
        try:
            names, classes, limits = given["names"], given["classes"], given["target_bounds"]
            lower, upper = (np.array(given[side], dtype=np.float64) for side in ("lower", "upper"))
            kept = None if names is None else tuple(map(str, names))
            column_limits((lower, upper), kept, lower.size)
            if kept is not None and len(kept) != lower.size:
                raise ValueError
            target = Target(
                None if limits is None else ANY if limits == PRIVATE else target_limits(limits),
                None if classes is None else named_classes(classes),
                limits == PRIVATE,
            )
            return cls(kept, (lower, upper), target, given["target"], bool(given["picked"]))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                "not a schema: parts are missing or wrong; give what Schema.to_dict returned"
            ) from None

    def label(self, column: int) -> str | int:
        """Return the name of a column, or its position where it has none."""
        return column if self.names is None else self.names[column]

    def check(self, names: Sequence[str], types: Mapping[str, Any] | None = None) -> None:
        """Refuse a table by its column names and declared types (of polars), all faults at once."""
        known = Codebook(dict(zip(self.names or (), self.columns or (), strict=False)))
        own = {*(self.names or ()), *self.ignored, self.target_name}
        extra = [repr(name) for name in names if name not in own]
        lacking = [repr(name) for name in self.names or () if name not in names]
        at_once(
            partial(_refuse_names, extra, "the schema does not describe"),
            partial(_refuse_names, lacking, "the table does not have"),
            partial(known.check_types, {n: t for n, t in (types or {}).items() if n in own}),
        )

    def read(self, table: Table, clip: float, *, constant: bool = False) -> Rows:
        """Read a table: columns and target clipped, coded, and mapped onto [-1, 1].

        With `constant` one more last column is there, 1 in all rows that count. A target that is
        one of labels already is taken as it is.
        """
        if self.columns is not None:
            return self._read_cells(self.columns, table, clip, constant)
        (matrix, names), target = at_once(partial(as_matrix, table.X), partial(self._target, table))
        if names is not None and self.names is not None and names != self.names:
            raise InputError("the columns of the table are not those of the schema, in their order")
        self._check_width(matrix.shape[1])
        lower, upper = narrowed(self.limits, clip)
        if (target.values if isinstance(target, Labels) else target).size != matrix.shape[0]:
            raise InputError("the table and the target have inconsistent numbers of samples (rows)")
        if not isinstance(target, Labels) and self.target.limits is not None:
            # Bounds that are still to be drawn are clipped once they are known.
            share = 1.0 if self.target.private else clip
            target = rescale_target(target, narrowed(self.target.limits, share))
        values = target.values if isinstance(target, Labels) else target
        partner = values if isinstance(matrix, Store) else None  # saves it a pass
        design = as_design(matrix, bound=1.0, lower=lower, upper=upper, partner=partner)
        return Rows(design.with_ones() if constant else design, target)

    def _check_width(self, width: int) -> None:
        if width != self.n_columns:
            raise InputError(f"the table has {width} columns; its schema has {self.n_columns}")

    def _read_cells(
        self, columns: Sequence[Column], table: Table, clip: float, constant: bool
    ) -> Rows:
        """Read cell by cell; nothing here fails because of what a cell holds."""
        cells = self.cells(table.X)
        target, present = self.target.coded(cells_of(check_given(table.y)), clip)
        if any(len(one) != present.size for one in cells):
            raise InputError("the table and the target have inconsistent numbers of samples (rows)")
        matrix = coded(columns, cells, present, clip, constant=constant)
        groups = groups_of(columns, constant=constant)
        return Rows(as_design(matrix, bound=1.0), target, groups, present)

    def cells(self, X: Any) -> list[pl.Series]:
        """Return the columns of the schema out of a table, by their names if it has some."""
        return pick_cells(X, self.names or ())

    def _target(self, table: Table) -> Floats | Labels:
        return table.y if isinstance(table.y, Labels) else self.target.read(table.y)

    def nothing(self) -> Table:
        """Return a table without rows: finds what is wrong for all tables before one is read."""
        if self.columns is not None:
            empty = pl.Series([], dtype=pl.String)
            return Table(pl.DataFrame(dict.fromkeys(self.names or (), empty)), empty)
        target = np.empty(0)
        labels = self.target.limits is None
        return Table(
            np.empty((0, self.n_columns)),
            Labels(target, self.target.classes is not None) if labels else target,
        )


def _has_breaks(columns: Sequence[Column | None]) -> bool:
    """Say whether a level holds a line break."""
    return any("\n" in level for c in columns for level in getattr(c, "levels", ()))


def _json_parts(names: Sequence[str] | None) -> Iterator[str]:
    """Write names as JSON, some at a time: there may be very many."""
    if names is None:
        yield "null"
        return
    yield "["
    for first in range(0, len(names), _AT_ONCE):
        yield ", " if first else ""
        yield json.dumps(list(names[first : first + _AT_ONCE]))[1:-1]
    yield "]"


def _refuse_names(names: Sequence[str], what: str) -> None:
    if names:
        more = f" and {len(names) - 20} more" if len(names) > 20 else ""
        raise InputError(f"{what} column {', '.join(names[:20])}{more}")


def _listed(pair: tuple[float, float] | None) -> list[float] | None:
    return None if pair is None else list(pair)
