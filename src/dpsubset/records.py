"""The record of a release, and the one place where a ledger is charged for it.

A record says what was asked (public settings), what was released, what it guarantees and which
version of dpsubset made it. Ledger, release file, model file and --json hold the same.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dpsubset.limits import Limits
from dpsubset.privacy import Guarantee
from dpsubset.privacy.ledger import Ledger, Record, charged
from dpsubset.version import __version__

__all__ = ["charging", "checksum", "described", "digest", "record"]

_PARTS = ("asked", "released", "guarantee", "dpsubset")


def record(
    asked: Mapping[str, Any], released: Mapping[str, Any] | None, guarantee: Guarantee
) -> dict[str, Any]:
    """Return a record as plain values."""
    return {
        "asked": dict(asked),
        "released": None if released is None else dict(released),
        "guarantee": guarantee.to_dict(),
        "dpsubset": __version__,
    }


def digest(record: Mapping[str, Any]) -> str:
    """Return the checksum of a record, be it in a release file, a model file or a ledger.

    >>> one = {"asked": {}, "released": {}, "guarantee": {}, "dpsubset": "0.1.0"}
    >>> digest(one) == digest({**one, "seconds": 1.0}), digest(one)[:8]
    (True, 'ed34c152')
    """
    return checksum({name: record[name] for name in _PARTS})


def checksum(content: Mapping[str, Any]) -> str:
    """Return a checksum of plain values, whatever the blanks and the order in their file."""
    canonical = json.dumps(dict(content), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


@contextmanager
def charging(
    ledger: Ledger | None, guarantee: Guarantee, asked: Mapping[str, Any]
) -> Iterator[Record]:
    """Charge a ledger, if there is one, before the block runs; the block gives what it releases."""
    with charged(ledger, guarantee, {**asked, "dpsubset": __version__}) as write:
        yield write


def described(thing: Any) -> dict[str, Any]:
    """Return a mechanism, or a method for coefficients, by its name and its parameters."""
    own = {name: value for name, value in vars(thing).items() if name != "ledger"}
    return {"name": type(thing).__name__, **{name: _plain(value) for name, value in own.items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, Limits):
        return {"seconds": value.seconds, "nodes": value.nodes}
    if isinstance(value, str | int | float | None) and value != math.inf:
        return value
    return getattr(value, "__qualname__", None) or repr(value)
