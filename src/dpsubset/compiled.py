"""How functions are compiled: by numba, at their first call, and kept on disk.

Small work is done before the first function is compiled: `interpreted` runs them all as they are.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from numba import cfunc, njit, types
from numba.core import caching as numba_caching
from numba.core import config
from numba.core.registry import CPUDispatcher

__all__ = ["compiled", "folders", "interpreted", "is_plain", "pointer"]

caching: Any = numba_caching  # it has no annotations

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


def _tell(text: str) -> None:
    """Say something once."""
    if text not in _Way.told:
        _Way.told.add(text)
        logging.getLogger("dpsubset").warning(text)


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
    return _Way.plain or bool(config.DISABLE_JIT)  # type: ignore[attr-defined]


def folders() -> list[str]:
    """Return where code of this process is kept, or was found."""
    return sorted(_Way.folders)


class _Function(CPUDispatcher):
    """A function of numba's that may be called uncompiled; compiled code does not come by here."""

    def __call__(self, *args: Any) -> Any:
        return self.py_func(*args) if _Way.plain else super().__call__(*args)


class _Unwritable(caching.InTreeCacheLocator):  # type: ignore[misc]
    """The last resort where no folder can be written to: code next to the sources is read only."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        return cls(py_func, py_file) if os.path.exists(py_file) else None


class _Place(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = [*caching.CompileResultCacheImpl._locator_classes, _Unwritable]  # noqa: RUF012


class _Kept(caching.FunctionCache):  # type: ignore[misc]
    """Code of one function on disk; also what an image holds next to the sources, made by root."""

    _impl_class = _Place

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        beside = os.path.join(os.path.dirname(inspect.getfile(function)), "__pycache__")
        stamp = self._impl.locator.get_source_stamp()
        self._beside = caching.IndexDataCacheFile(beside, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            found = super().load_overload(sig, target_context)
            if found is None:
                kept = self._beside.load(self._index_key(sig, target_context.codegen()))
                found = None if kept is None else self._impl.rebuild(target_context, kept)
        except OSError:  # a file that this user may not read
            found = None
        if found is None:
            _tell(PREPARING)
        else:
            _Way.folders.add(self.cache_path)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
            _Way.folders.add(self.cache_path)
        except OSError as error:  # a full disk costs time at the next start, nothing else
            _tell(UNKEPT.format(reason=error.strerror))


class _Later(caching.NullCache):  # type: ignore[misc]
    """Looks for a place only when something is to be compiled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _kept(self) -> _Kept:
        return _Kept(self._function)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return self._kept.load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        self._kept.save_overload(sig, data)


def compiled(*, kept: bool = True, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function on its first call; `kept` on disk, for the next start."""

    def decorate(function: Callable[..., Any]) -> Any:
        found = njit(**options)(function)
        if isinstance(found, CPUDispatcher):  # not a plain function, by NUMBA_DISABLE_JIT
            found.__class__ = _Function
            if kept:
                found._cache = _Later(function)  # type: ignore[attr-defined]
        return found

    return decorate


_COLUMN = types.float64[::1]
_ROWS = types.void(_COLUMN, _COLUMN, types.float64, *[_COLUMN] * 4)


def pointer(function: Callable[..., None]) -> Any:
    """Compile a loss's row function to a pointer, which any compiled function can be given.

    What takes it need not be compiled for each loss anew. It is kept for this process only: a
    cache next to a user's file would not notice changes in what the function calls.
    """
    return function if is_plain() else cfunc(_ROWS)(function)
