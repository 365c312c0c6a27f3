"""Names of very many columns, in a few bytes each: as Python's own texts they would fill memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, overload

import numpy as np

__all__ = ["ManyNames"]

_AT_ONCE = 1 << 14


class ManyNames(Sequence[str]):
    """Texts one after the other in one piece of memory.

    >>> names = ManyNames(["rs1", "rs22", "rs3"])
    >>> names[1], len(names), list(names[1:]), "rs3" in names, names.repeated()
    ('rs22', 3, ['rs22', 'rs3'], True, False)
    """

    def __init__(self, names: Iterable[str]) -> None:
        text, ends, hashes = bytearray(), array("q", [0]), array("q")
        for name in names:
            text += name.encode("utf-8", "surrogatepass")
            ends.append(len(text))
            hashes.append(hash(name))
        self._text, self._ends = bytes(text), np.frombuffer(ends, dtype=np.int64)
        self._repeated = self._look_for_equal(np.array(hashes, dtype=np.int64))

    def _look_for_equal(self, hashes: Any) -> bool:
        """Say whether a name is there twice; names of equal hashes are compared."""
        order = np.sort(hashes)
        twice = np.unique(order[1:][order[1:] == order[:-1]])
        if not twice.size:
            return False
        same = np.flatnonzero(np.isin(hashes, twice))
        return len({self[int(j)] for j in same}) < same.size

    def followed_by(self, more: Iterable[str]) -> ManyNames:
        """Return these names and some more behind them."""
        return ManyNames(chain(self, more))

    def repeated(self) -> bool:
        """Whether a name is there twice."""
        return self._repeated

    def __len__(self) -> int:
        return self._ends.size - 1

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[j] for j in range(len(self))[place]]
        j = range(len(self))[place]
        return self._text[self._ends[j] : self._ends[j + 1]].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _AT_ONCE):
            ends = self._ends[first : first + _AT_ONCE + 1].tolist()
            for a, b in pairwise(ends):
                yield self._text[a:b].decode("utf-8", "surrogatepass")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ManyNames):
            return self._text == other._text and np.array_equal(self._ends, other._ends)
        if not isinstance(other, (tuple, list)) or len(other) != len(self):
            return False
        return all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((self._text, len(self)))
