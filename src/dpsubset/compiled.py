"""How functions are compiled: by numba, at their first call, and kept on disk.

Small work is done before the first function is compiled: `interpreted` runs them all as they are,
and numba, which takes half a second, is not even loaded.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, update_wrapper
from threading import RLock
from typing import Any

__all__ = ["compiled", "folders", "interpreted", "is_plain", "pointer", "taught"]

PREPARING = (
    "dpsubset: compiling its inner loops for this machine, some 30 seconds of work that later "
    "calls are spared; `dpsubset prepare` does all of it beforehand"
)
UNKEPT = (
    "dpsubset: the compiled code cannot be kept ({reason}), so that every start compiles anew. "
    "Name a folder with NUMBA_CACHE_DIR=..."
)


class _Way:
    """How this process calls its functions, and what it has told about that."""

    plain = False
    told: set[str] = set()  # noqa: RUF012
    folders: set[str] = set()  # noqa: RUF012
    lessons: list[Callable[[], None]] = []  # noqa: RUF012
    lock = RLock()  # threads may call their first function at the same time


def _tell(text: str) -> None:
    """Say something once."""
    if text not in _Way.told:
        _Way.told.add(text)
        logging.getLogger("dpsubset").warning(text)


class _Notes:
    """Tells what becomes of compiled code, where that is of interest."""

    def compiling(self) -> None:
        _tell(PREPARING)

    def unkept(self, reason: str | None) -> None:
        _tell(UNKEPT.format(reason=reason))

    def kept(self, folder: str) -> None:
        _Way.folders.add(folder)


@contextmanager
def interpreted(wanted: bool = True) -> Iterator[None]:
    """Run compiled functions as plain Python: slower by far, but at once.

    >>> with interpreted():
    ...     is_plain()
    True
    """
    before, _Way.plain = _Way.plain, wanted
    try:
        yield
    finally:
        _Way.plain = before


def is_plain() -> bool:
    """Whether functions are run as plain Python, by `interpreted` or NUMBA_DISABLE_JIT."""
    return _Way.plain or _disabled()


def _disabled() -> bool:
    """Whether numba is switched off; it reads its settings when it is loaded."""
    said = getattr(sys.modules.get("numba.core.config"), "DISABLE_JIT", None)
    if said is not None:  # another thread may be loading it right now
        return bool(said)
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def folders() -> list[str]:
    """Return where code of this process is kept, or was found."""
    return sorted(_Way.folders)


def taught(lesson: Callable[[], None]) -> Callable[[], None]:
    """Call a function before the first one is compiled: it teaches numba something."""
    _Way.lessons.append(lesson)
    return lesson


class _Function:
    """A function that is compiled when it is called, or run as it is.

    Compiled code that calls it does not come by here: it sees numba's form.
    """

    def __init__(
        self, function: Callable[..., Any], options: dict[str, Any], notes: _Notes | None
    ) -> None:
        update_wrapper(self, function)
        self.py_func, self._options, self._notes = function, options, notes
        self._made: Any = None

    @cached_property
    def _dispatcher(self) -> Any:
        from dpsubset.dispatching import dispatcher

        with _Way.lock:
            while _Way.lessons:
                _Way.lessons[-1]()
                _Way.lessons.pop()
            if self._made is None:
                self._made = dispatcher(self.py_func, self._options, self._notes)
        return self._made

    @property
    def _numba_type_(self) -> Any:
        """What numba takes this for."""
        return self._dispatcher._numba_type_

    @property
    def signatures(self) -> list[Any]:
        """The types that it was compiled for."""
        return [] if self._made is None else list(self._made.signatures)

    def __call__(self, *args: Any) -> Any:
        plain = _Way.plain or _disabled()
        return self.py_func(*args) if plain else self._dispatcher(*args)


def compiled(
    *, kept: bool = True, counts: bool = True, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function on its first call; `kept` on disk, for the next start.

    One that makes and returns no arrays, nor calls what does, need not count who holds those it is
    given: its caller holds them. Where they are many and it does little, counting takes most of
    its time; such a one says so by `counts=False`.
    """
    if not counts:
        options["_nrt"] = False

    def decorate(function: Callable[..., Any]) -> Any:
        return _Function(function, options, _Notes() if kept else None)

    return decorate


def pointer(function: Callable[..., None]) -> Any:
    """Compile a loss's row function to a pointer, which any compiled function can be given.

    What takes it need not be compiled for each loss anew. It is kept for this process only: a
    cache next to a user's file would not notice changes in what the function calls.
    """
    if is_plain():
        return function
    from dpsubset.dispatching import row_pointer

    return row_pointer(function)
