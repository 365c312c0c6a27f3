"""Whether the core takes features of several columns."""

from __future__ import annotations

from dpsubset.designs import Features
from dpsubset.errors import InputError


def takes_groups() -> bool:
    try:
        return len(Features.of([[0, 1]], 2)) == 1
    except InputError:
        return False
