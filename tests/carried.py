"""What an error takes along: errors that came before it, groups, notes. Tracebacks are left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["carried"]


def carried(error: BaseException) -> dict[str, str]:
    """Return all that can be reached from an error beside its own words, by the way to it."""
    found: dict[str, str] = {}
    _follow(error, "", found, {id(error)})
    return found


def _follow(error: BaseException, way: str, found: dict[str, str], met: set[int]) -> None:
    for name, part in _parts(error):
        if id(part) in met:
            continue
        if isinstance(part, BaseException):
            met.add(id(part))
            found[way + name] = f"{type(part).__qualname__} {part} {part.args!r} {vars(part)!r}"
            _follow(part, way + name, found, met)
        elif name.startswith(".__notes__"):
            found[way + name] = f"{part}"


def _parts(error: BaseException) -> Iterator[tuple[str, Any]]:
    for name in ("__context__", "__cause__"):
        yield f".{name}", getattr(error, name)
        yield f".{name}, the real one", getattr(BaseException, name).__get__(error)
    listed = {"args": error.args, **vars(error)}
    if isinstance(error, BaseExceptionGroup):
        listed["exceptions"] = error.exceptions
    for name, value in listed.items():
        several = value if isinstance(value, (list, tuple)) else [value]
        yield from ((f".{name}[{i}]", part) for i, part in enumerate(several))
