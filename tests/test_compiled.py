"""Compilation goes on without a cache where none can be kept."""

import numba
import pytest

from dpsubset import compiled as module


def test_without_a_place_for_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def njit(**options):
        asked.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    monkeypatch.setattr(module, "njit", njit)
    double = module.compiled(fastmath=True)(lambda x: 2 * x)
    assert double(4) == 8
    assert asked == [{"cache": True, "fastmath": True}, {"fastmath": True}]
