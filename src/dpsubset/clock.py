"""A clock for compiled loops: they ask it after so much work, and end when it is past a deadline.

Work is counted in units of some thousand operations, about a microsecond.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.compiled import compiled, taught

__all__ = ["Watch", "callback", "late", "stopped", "watch_until"]


class Watch(NamedTuple):
    """What a compiled loop is given; without a deadline its clock is never asked."""

    address: int  # where to call the clock
    state: Floats  # the deadline, the work since the last look, whether it was late


_OFTEN = 2000.0  # units of work between two looks: a few milliseconds
_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_double)


def callback(clock: Callable[[], float]) -> Any:
    """Return a C function that asks the clock; keep it as long as any watch made of it."""
    return _PROTOTYPE(clock)


def watch_until(deadline: float, asked: Any) -> Watch:
    """Return a watch that is late after the deadline by a `callback`; infinity is none."""
    address = ctypes.cast(asked, ctypes.c_void_p).value if deadline < math.inf else 0
    return Watch(address or 0, np.array([deadline, 0.0, 0.0]))


def _now(address: int) -> float:
    """Call the clock at an address."""
    return float(_PROTOTYPE(address)())


@taught
def _teach() -> None:
    """Teach numba to call the clock from compiled loops."""
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import types
    from numba.extending import intrinsic, overload

    @intrinsic
    def call(context, address):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            function = ir.FunctionType(ir.DoubleType(), [])
            return builder.call(builder.inttoptr(args[0], function.as_pointer()), [])

        return types.float64(types.int64), generate

    @overload(_now)
    def compiled_now(address):  # type: ignore[no-untyped-def]
        return lambda address: call(address)  # type: ignore[call-arg]


@compiled()
def late(watch, work):  # type: ignore[no-untyped-def]
    """Count work, and look at the clock if it is time to; return whether the deadline is over."""
    state = watch.state
    if state[0] == np.inf:
        return False
    state[1] += work
    if state[1] >= _OFTEN:
        state[1] = 0.0
        if _now(watch.address) > state[0]:
            state[2] = 1.0
    return state[2] != 0.0


@compiled()
def stopped(watch):  # type: ignore[no-untyped-def]
    """Whether work under this watch was ended; what it returned then has no meaning."""
    return watch.state[2] != 0.0
