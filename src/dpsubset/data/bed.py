"""PLINK's .bed files: genotypes in two bits each, variant after variant, with .bim and .fam."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.data.many_names import ManyNames
from dpsubset.data.watched import Watched
from dpsubset.designs.base import Design
from dpsubset.designs.packed import PackedDesign
from dpsubset.designs.streamed import Store, Tile
from dpsubset.errors import InputError, without_context

__all__ = ["BedFile"]

_MAGIC = b"\x6c\x1b\x01"
_COPIES = np.array([2.0, np.nan, 1.0, 0.0])  # of the first allele, by code; the second is missing


class BedFile(Store):
    """A .bed file next to its .bim (a variant a line) and .fam (a person a line).

    An entry is how often the person has the variant's first allele: 0, 1 or 2. A missing one is in
    the middle of the bounds (T33c).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.people = tuple(_second_words(path.with_suffix(".fam")))
        self.names = _unlike(ManyNames(_second_words(path.with_suffix(".bim"))), path)
        self.n_rows, self.n_columns = len(self.people), len(self.names)
        self._file = Watched(path)
        self._width = (self.n_rows + 3) // 4
        head = self._file.read(0, 3)
        if head != _MAGIC:
            raise InputError(
                f"{path} is not a .bed file of PLINK 1.9 with a variant after the other; "
                "`plink2 --make-bed` writes one"
            )
        expected = 3 + self._width * self.n_columns
        if self._file.size != expected:
            raise InputError(
                f"{path} has {self._file.size} bytes; with {self.n_rows} people in the .fam and "
                f"{self.n_columns} variants in the .bim it must have {expected}: it is truncated, "
                "or the files do not belong together"
            )

    def tiles(self, most: int) -> Iterator[Tile]:
        """Read some variants at a time."""
        step = max(1, most // max(self._width, 1))
        for first in range(0, self.n_columns, step):
            last = min(first + step, self.n_columns)
            yield Tile(slice(0, self.n_rows), slice(first, last), self._variants(first, last))

    def _variants(self, first: int, last: int) -> NDArray[Any]:
        count = (last - first) * self._width
        block = self._file.array(3 + first * self._width, count)
        return block.reshape(last - first, self._width)

    def columns(self, index: NDArray[np.intp]) -> NDArray[Any]:
        """Read some variants."""
        out = np.empty((index.size, self._width), dtype=np.uint8)
        for k, j in enumerate(index.tolist()):
            out[k] = self._variants(j, j + 1)[0]
        return out

    def numbers(self, index: NDArray[np.intp], middle: Floats) -> Floats:
        """Return how often people have the first allele of some variants."""
        packed = self.columns(index)
        self.check()
        codes = packed[:, :, None] >> np.arange(0, 8, 2, dtype=np.uint8) & 3
        copies = _COPIES[codes.reshape(index.size, -1)[:, : self.n_rows]].T
        return np.where(np.isnan(copies), middle, copies)

    def design(self, bound: float, middle: Floats, scale: Floats, partner: Floats | None) -> Design:
        """Return the design, whose entries are four numbers at most."""
        if self.n_columns and (np.ptp(middle) or np.ptp(scale)):
            raise InputError("a .bed table has the same bounds for all of its columns, 0 and 2")
        m, s = (middle[0], scale[0]) if self.n_columns else (1.0, bound)
        values = np.clip((np.nan_to_num(_COPIES, nan=m) - m) * s, -bound, bound)
        return PackedDesign(self, bound, values, partner)

    def check(self) -> None:
        """Refuse a file that has changed."""
        self._file.check()


def _second_words(path: Path) -> Iterator[str]:
    """Return the second word of every line: a variant's name, or a person's."""
    for line in _lines(path):
        words = line.split(maxsplit=2)
        if len(words) < 2:
            raise InputError(f"{path} has lines of fewer than two words; it is not one of PLINK's")
        yield words[1]


@without_context
def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="backslashreplace") as file:
            yield from file
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({os.strerror(error.errno or 0)}); a .bed file needs its .bim "
            "and .fam next to it"
        ) from None


def _unlike(names: ManyNames, path: Path) -> ManyNames:
    if not names.repeated():
        return names
    raise InputError(
        f"{path.with_suffix('.bim')} names a variant twice; `plink2 --set-all-var-ids '@:#:$r:$a'` "
        "gives each a name of its own"
    )
