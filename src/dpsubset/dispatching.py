"""Functions of numba's, kept on disk. Loading this loads numba, which takes half a second."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

from numba import cfunc, njit, types
from numba.core import caching as numba_caching

__all__ = ["Notes", "dispatcher", "row_pointer"]

caching: Any = numba_caching  # it has no annotations


class Notes(Protocol):
    """Who is told what becomes of compiled code."""

    def compiling(self) -> None:
        """Take note that nothing was found on disk."""

    def unkept(self, reason: str | None) -> None:
        """Take note that code could not be kept."""

    def kept(self, folder: str) -> None:
        """Take note of a folder where code is kept, or was found."""


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

    def __init__(self, function: Callable[..., Any], notes: Notes) -> None:
        super().__init__(function)
        self._notes = notes
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
            self._notes.compiling()
        else:
            self._notes.kept(self.cache_path)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
            self._notes.kept(self.cache_path)
        except OSError as error:  # a full disk costs time at the next start, nothing else
            self._notes.unkept(error.strerror)


class _Later(caching.NullCache):  # type: ignore[misc]
    """Looks for a place only when something is to be compiled."""

    def __init__(self, function: Callable[..., Any], notes: Notes) -> None:
        self._function, self._notes = function, notes

    @cached_property
    def _kept(self) -> _Kept:
        return _Kept(self._function, self._notes)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return self._kept.load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        self._kept.save_overload(sig, data)


def dispatcher(function: Callable[..., Any], options: dict[str, Any], notes: Notes | None) -> Any:
    """Return numba's form of a function; its code is kept on disk if there is who is told."""
    found: Any = njit(**options)(function)
    if notes is not None:
        found._cache = _Later(function, notes)
    return found


_COLUMN = types.float64[::1]
_ROWS = types.void(_COLUMN, _COLUMN, types.float64, *[_COLUMN] * 4)


def row_pointer(function: Callable[..., None]) -> Any:
    """Compile a loss's row function to a pointer."""
    return cfunc(_ROWS)(function)
