"""How many rows does a selection need? By simulation, before a table is touched."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpsubset.checks import positive, whole
from dpsubset.errors import InputError
from dpsubset.losses import as_loss
from dpsubset.planning.simulate import Setting, recovery

__all__ = ["Answer", "rows_for"]

_MOST_COLUMNS = 10**7
_FEWEST = 128
_STEP = 2.0**0.25  # the answer is right to within a step


@dataclass(frozen=True)
class Answer:
    """The least number of rows found, or None, and the share of true releases at all tried.

    Parameters
    ----------
    rows : int or None
        The least number of rows that is enough; None if none was found.
    share : float
        The wished share of true releases.
    tried : dict of int to float
        The share at every number of rows that was tried.

    Examples
    --------
    >>> Answer(256, 0.9, {128: 0.5, 256: 0.95}).rows
    256
    """

    rows: int | None
    share: float
    tried: dict[int, float]


def rows_for(
    setting: Setting,
    *,
    share: float = 0.9,
    tables: int = 5,
    draws: int = 40,
    most: int = 1_000_000,
    progress: Callable[[int, float], None] | None = None,
) -> Answer:
    """Find the least number of rows for which that share of releases are the true columns.

    Rows are doubled until they are enough, and then narrowed down in steps of a factor of the
    fourth root of 2.

    Parameters
    ----------
    setting : Setting
        Selector and tables.
    share : float
        The wished share of true releases.
    tables : int
        How many tables to simulate for each number of rows.
    draws : int
        How many releases to draw from each.
    most : int
        Where to give up.
    progress : callable, optional
        Called with rows and share after each step.

    Returns
    -------
    Answer
        The number of rows, and what was tried.

    Examples
    --------
    >>> setting = Setting("absolute", 1.0, 10.0, columns=8, size=2, epsilon=20.0)
    >>> answer = rows_for(setting, tables=2, draws=5)
    >>> answer.tried[answer.rows] >= 0.9
    True
    """
    tables, draws = whole(tables, "tables", 1), whole(draws, "draws", 1, most=10**6)
    most = whole(most, "most", _FEWEST)
    _check(setting, share)
    if 2 * setting.size - 1 > setting.columns:
        raise InputError(
            f"{setting.size} true columns, every second one, need at least {2 * setting.size - 1} "
            f"columns, not {setting.columns}"
        )
    tried: dict[int, float] = {}

    def enough(n: int) -> bool:
        tried[n] = recovery(setting, n, tables, draws)
        if progress is not None:
            progress(n, tried[n])
        return tried[n] >= share

    high = _FEWEST
    while not enough(high):
        if 2 * high > most:
            return Answer(None, share, tried)
        high *= 2
    # Between too few, or none, and enough: whole numbers of steps.
    low, up = 0, round(math.log(2.0) / math.log(_STEP))
    if high == _FEWEST:
        return Answer(high, share, tried)
    start = high // 2
    while up - low > 1:
        middle = (low + up) // 2
        if enough(round(start * _STEP**middle)):
            up = middle
        else:
            low = middle
    return Answer(round(start * _STEP**up), share, tried)


def _check(setting: Setting, share: float) -> None:
    """Say what is wrong with a setting before anything is simulated."""
    if setting.loss is not None:
        as_loss(setting.loss)
    whole(setting.size, "size", 1)
    whole(setting.included, "always_include", 0, most=setting.size - 1)
    if setting.columns > _MOST_COLUMNS:
        raise InputError(f"at most {_MOST_COLUMNS} columns are simulated, not {setting.columns!r}")
    positive(setting.snr, "snr")
    if not -1.0 < setting.rho < 1.0:
        raise InputError(f"rho must lie between -1 and 1, not {setting.rho!r}")
    if not 0.0 < share < 1.0:
        raise InputError(f"the share must lie between 0 and 1, not {share!r}")
