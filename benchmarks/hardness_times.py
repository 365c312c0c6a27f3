"""What `dpsubset.duration` says beforehand, fitted to the lines of the map of hardness."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from benchmarks.hardness_page import Line, first_seconds
from dpsubset.duration import Fitted, kind_of
from dpsubset.losses import as_loss

__all__ = ["fitted"]

_LONG = 0.95  # of the tables take no longer
_CENSORED = 2.0  # times its limit: what a cell without a release counts as


def fitted(lines: Iterable[Line]) -> dict[str, Fitted]:
    """Return least squares of log seconds for every kind of loss, and how far the slow ones go."""
    by_kind: dict[str, list[Line]] = {}
    for line in lines:
        loss = as_loss(line["asked_loss"])
        by_kind.setdefault(kind_of(loss.name in ("squared", "brier"), loss.bends), []).append(line)
    return {kind: _fit(some) for kind, some in sorted(by_kind.items())}


def _fit(lines: list[Line]) -> Fitted:
    asked = np.array(
        [
            [
                1.0,
                math.log(line["rows"]),
                math.log(line["columns"]),
                line["size"],
                math.log(line["epsilon"]),
            ]
            for line in lines
        ]
    )
    found = np.log([min(first_seconds(line), _CENSORED * line["limit"]) for line in lines])
    weights = np.linalg.lstsq(asked, found, rcond=None)[0]
    rest = float(np.quantile(found - asked @ weights, _LONG))
    constant, rows, columns, size, epsilon = (round(float(w), 2) for w in weights)
    return Fitted(constant, rows, columns, size, epsilon, round(rest, 1))
