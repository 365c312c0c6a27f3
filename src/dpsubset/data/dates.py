"""Columns of dates and times, coded as one number (T33c)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import Any, ClassVar

import numpy as np
import polars as pl

from dpsubset.arrays import Floats
from dpsubset.data.cells import kind_of, text_of
from dpsubset.data.classes import as_numbers
from dpsubset.data.columns import OneNumber

__all__ = ["Dates", "as_moment", "reads_dates"]

_EPOCH = datetime(1970, 1, 1)
_SAMPLE = datetime(2021, 6, 5)
_DAY = 86_400_000_000  # microseconds
_TIMES = ("%H:%M:%S%.f", "%H:%M", "%H:%M:%S%.f%#z")
_ISO = ("%Y-%m-%d", *(f"%Y-%m-%d{between}{clock}" for between in ("T", " ") for clock in _TIMES))


@dataclass(frozen=True, kw_only=True)
class Dates(OneNumber):
    """A date, or a time, within public bounds, in days since the first of them.

    Text is read in the formats that are named, and as ISO dates (2024-12-31, perhaps with a time),
    which is what libraries make of dates that they have read; any other text counts as missing.

    >>> visit = Dates(first=datetime(2020, 1, 1), last=datetime(2020, 1, 11))
    >>> visit.code(pl.Series(["2020-01-06", "2030-01-01", "6 January"])).ravel()
    array([0., 1., 0.])
    """

    first: datetime
    last: datetime
    formats: tuple[str, ...] = field(default=())

    types: ClassVar[tuple[str, ...]] = ("number", "text", "date", "nothing")

    @property
    def span(self) -> tuple[float, float]:
        return 0.0, _days(self.last) - _days(self.first)

    @property
    def fill(self) -> float | None:
        if self.missing in (None, "indicator"):
            return None
        return _days(self.missing) - _days(self.first)

    def numbers(self, cells: pl.Series) -> Floats:
        found = pl.Series(cells.name, [None], dtype=pl.Datetime("us")).new_from_index(0, len(cells))
        if kind_of(cells.dtype) == "date":
            found = _naive(cells)
        elif kind_of(cells.dtype) in ("text", "number"):
            text = text_of(cells)
            for one in (*self.formats, *_ISO):
                given = _digits(text, one) if one in self.formats else text
                read = given.str.to_datetime(one, time_unit="us", strict=False, exact=True)
                found = found.zip_with(found.is_not_null(), _naive(read))
        since = found.to_physical().cast(pl.Float64).fill_null(math.nan).to_numpy() / _DAY
        return np.asarray(since - _days(self.first))

    def described(self) -> dict[str, Any]:
        dates: dict[str, Any] = {"dates": [_plain_date(self.first), _plain_date(self.last)]}
        return dates | ({"format": list(self.formats)} if self.formats else {})

    def _plain_missing(self) -> Any:
        return _plain_date(self.missing) if isinstance(self.missing, datetime) else self.missing


def _digits(text: pl.Series, one: str) -> pl.Series:
    """Return dates of digits alone as such, though a library has made numbers of the column.

    20200105, 20200105.0 and, for days first, 5012020 are the same cell whatever other rows hold.
    """
    sample = _SAMPLE.strftime(one)
    if not sample.isdigit():
        return text
    numbers = as_numbers(text)
    whole = numbers.is_finite() & (numbers == numbers.round()) & numbers.is_between(0, 1e15)
    plain = numbers.cast(pl.Int64, strict=False).cast(pl.String).str.zfill(len(sample))
    return plain.zip_with(whole.fill_null(False), text)


def _naive(times: pl.Series) -> pl.Series:
    """Return times in microseconds, without a zone: those that have one in UTC."""
    if isinstance(times.dtype, pl.Datetime) and times.dtype.time_zone is not None:
        times = times.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return times.cast(pl.Datetime("us"), strict=False)  # beyond its range: missing


def _days(moment: datetime) -> float:
    return (moment - _EPOCH).total_seconds() / 86_400


def as_moment(given: Any) -> datetime | None:
    """Return a date or a time as one without a zone; None for what is neither.

    >>> as_moment("2020-02-01"), as_moment(date(2020, 2, 1)) == as_moment("2020-02-01")
    (datetime.datetime(2020, 2, 1, 0, 0), True)
    """
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given.strip())
        except ValueError:
            return None
    if isinstance(given, datetime):
        return given if given.tzinfo is None else given.astimezone(UTC).replace(tzinfo=None)
    if isinstance(given, date):
        return datetime(given.year, given.month, given.day)
    return None


def _plain_date(moment: datetime) -> str:
    return (moment if moment.time() != time.min else moment.date()).isoformat()


def reads_dates(one: str) -> bool:
    """Say whether a format tells day, month and year, and looks like no number with a point.

    >>> reads_dates("%d.%m.%Y"), reads_dates("%m/%Y"), reads_dates("DD/MM/YYYY")
    (True, False, False)
    >>> reads_dates("%Y%m%d"), reads_dates("%Y.%m%d")
    (True, False)
    """
    try:
        written = _SAMPLE.strftime(one)
    except ValueError:
        return False
    text = pl.Series([written])
    if as_numbers(text)[0] is not None and not (written.isdigit() and len(written) < 15):
        return False  # a library that makes numbers of such a column would change its cells
    read = text.str.to_datetime(one, time_unit="us", strict=False, exact=True)
    return read.to_list() == [_SAMPLE]
