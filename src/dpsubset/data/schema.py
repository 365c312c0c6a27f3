"""What is public about a table: its columns with their bounds, and how its target is read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.data.bounds import column_limits, narrowed, rescale_target, target_limits
from dpsubset.data.frames import Table, as_matrix
from dpsubset.data.target import ANY, PRIVATE, Target
from dpsubset.designs import Design, as_design
from dpsubset.errors import InputError, at_once, without_context
from dpsubset.labels import Labels, named_classes

__all__ = ["Schema"]


@dataclass(frozen=True, eq=False)
class Schema:
    """Public knowledge about a table: nothing here may come from its rows.

    `names` are those of the columns, or None where they have none; `target_name` likewise.
    `picked` says that the columns were picked among those of the table.
    """

    names: tuple[str, ...] | None
    limits: tuple[Floats, Floats]
    target: Target
    target_name: str | None = None
    picked: bool = False

    @classmethod
    def of(
        cls,
        names: tuple[str, ...] | None,
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

    @property
    def n_columns(self) -> int:
        """The number of columns to choose from."""
        return int(self.limits[0].size)

    @cached_property
    def sha256(self) -> str:
        """A fingerprint: equal for equal columns, bounds and targets, whoever asks."""
        classes = None if self.target.classes is None else [str(c) for c in self.target.classes]
        told = {
            "names": self.names,
            "target": [
                self.target_name,
                PRIVATE if self.target.private else self.target.limits,
                classes,
            ],
        }
        digest = hashlib.sha256(json.dumps(told).encode())
        for side in self.limits:
            digest.update(np.ascontiguousarray(side, dtype="<f8").tobytes())
        return digest.hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; `from_dict` reads them."""
        target = self.target
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
        """Return the schema that `to_dict` described."""
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

    def read(self, table: Table, clip: float) -> tuple[Design, Floats | Labels]:
        """Read a table: columns and target clipped and mapped onto [-1, 1] by their bounds.

        A target that is one of labels already is taken as it is.
        """
        (matrix, names), target = at_once(partial(as_matrix, table.X), partial(self._target, table))
        if names is not None and self.names is not None and names != self.names:
            raise InputError("the columns of the table are not those of the schema, in their order")
        if matrix.shape[1] != self.n_columns:
            raise InputError(
                f"the table has {matrix.shape[1]} columns; its schema has {self.n_columns}"
            )
        lower, upper = narrowed(self.limits, clip)
        design = as_design(matrix, bound=1.0, lower=lower, upper=upper)
        if (target.values if isinstance(target, Labels) else target).size != design.n_rows:
            raise InputError("the table and the target have inconsistent numbers of samples (rows)")
        if not isinstance(target, Labels) and self.target.limits is not None:
            # Bounds that are still to be drawn are clipped once they are known.
            share = 1.0 if self.target.private else clip
            target = rescale_target(target, narrowed(self.target.limits, share))
        return design, target

    def _target(self, table: Table) -> Floats | Labels:
        return table.y if isinstance(table.y, Labels) else self.target.read(table.y)

    def nothing(self) -> Table:
        """Return a table without rows: finds what is wrong for all tables before one is read."""
        target = np.empty(0)
        labels = self.target.limits is None
        return Table(
            np.empty((0, self.n_columns)),
            Labels(target, self.target.classes is not None) if labels else target,
        )


def _listed(pair: tuple[float, float] | None) -> list[float] | None:
    return None if pair is None else list(pair)
