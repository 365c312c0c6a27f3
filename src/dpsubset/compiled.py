"""How functions are compiled: by numba, cached next to the sources where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import cfunc, njit, types
from numba.core import config

__all__ = ["compiled", "pointer"]


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function on its first call; without a place to cache it, at every start anew."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # neither the package's folder nor the user's can be written to
            return njit(**options)(function)

    return decorate


_COLUMN = types.float64[::1]
_ROWS = types.void(_COLUMN, _COLUMN, types.float64, *[_COLUMN] * 4)


def pointer(function: Callable[..., None]) -> Any:
    """Compile a loss's row function to a pointer, which any compiled function can be given.

    What takes it need not be compiled for each loss anew. It is kept for this process only: a
    cache next to a user's file would not notice changes in what the function calls.
    """
    plain = config.DISABLE_JIT  # type: ignore[attr-defined]
    return function if plain else cfunc(_ROWS)(function)
