"""A file that is read in parts over a long time, and must stay what it was."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpsubset.errors import InputError, without_context

__all__ = ["Watched"]


class Watched:
    """Reads parts of a file, from several threads if need be; notices that it has changed."""

    @without_context
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._number = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise InputError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from None
        weakref.finalize(self, os.close, self._number)
        self._seen = self._look()

    @property
    def size(self) -> int:
        """The bytes of the file when it was opened."""
        return self._seen[0]

    @without_context
    def _look(self) -> tuple[int, ...]:
        try:
            now = os.stat(self._path)
        except OSError:
            return (-1,)
        return now.st_size, now.st_mtime_ns, now.st_ino

    def check(self) -> None:
        """Refuse a file that has changed since it was opened."""
        if self._look() != self._seen:
            raise InputError(
                f"{self._path} has changed while it was read; leave it as it is and ask again"
            )

    def read(self, start: int, count: int) -> bytes:
        """Return some bytes, fewer at the end of the file."""
        return os.pread(self._number, count, start)

    @without_context
    def array(self, start: int, count: int) -> NDArray[np.uint8]:
        """Return so many bytes."""
        out = np.empty(count, dtype=np.uint8)
        view, done = memoryview(out), 0  # type: ignore[arg-type]
        while done < count:
            try:
                got = os.preadv(self._number, [view[done:]], start + done)
            except OSError as error:
                reason = os.strerror(error.errno or 0)
                raise InputError(f"{self._path} cannot be read: {reason}") from None
            if not got:
                raise InputError(
                    f"{self._path} has changed while it was read; leave it as it is and ask again"
                )
            done += got
        return out
