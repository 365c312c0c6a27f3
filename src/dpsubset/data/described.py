"""From the words of a schema file to one column: what is wrong is told by the words alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

from dpsubset.data.bounds import as_pair
from dpsubset.data.category import Category, Ignored
from dpsubset.data.cells import level_keys
from dpsubset.data.columns import (
    ANY,
    MISSING_LEVEL,
    PRIVATE,
    Column,
    Number,
    Ordered,
    Truth,
    Unbounded,
)
from dpsubset.data.dates import Dates, as_moment, reads_dates
from dpsubset.errors import InputError

__all__ = ["LARGEST_LEVELS", "STILL_EMPTY", "TRUTH", "as_level", "column_of", "unbounded"]

LARGEST_LEVELS = 1000

TRUTH = ("0/1", "yes/no", "true/false")  # one kind: each takes the words of all
_SHORT = (
    '[lower, upper], [first-date, last-date], ["level", "level", ...], "0/1" or "yes/no" for a '
    'truth value, or "ignore"'
)
_FILL = f"from public knowledge, a codebook or a form, not from the table: {_SHORT}"
_EMPTY = f"{{}} is still empty. Fill it in {_FILL}"
STILL_EMPTY = f"still empty: {{}}. Fill them in {_FILL}"


def column_of(given: Any, what: str) -> Column:
    """Return the column that a value of a schema file describes; `what` names it in an error.

    >>> column_of([0, 120], "age")
    Number(missing=None, unit=None, note=None, lower=0.0, upper=120.0)
    >>> column_of({"levels": ["north", "south"], "missing": "level"}, "region").labels
    ('north', 'south', 'missing')
    """
    if isinstance(given, dict):
        return _from_table(given, what)
    if given in ([], ""):
        raise InputError(_EMPTY.format(what))
    if given in TRUTH:
        return Truth()
    if given == "ignore":
        return Ignored()
    if isinstance(given, list):
        if all(isinstance(entry, (date, datetime)) for entry in given):
            return _from_table({"dates": given}, what)
        if any(isinstance(entry, str) for entry in given):
            return _from_table({"levels": given}, what)
        if len(given) == 2:
            return _from_table({"bounds": given}, what)
        if len(given) > 2 and all(type(entry) in (int, float) for entry in given):
            raise InputError(
                f"{what} has {len(given)} numbers: write {{levels = [...]}} if these are the "
                "levels of a category, {ordered = [...]} if they are steps of a scale, or [lower, "
                "upper]"
            )
    raise InputError(f"{what} is not described: write {_SHORT}, or a table with more")


def _from_table(given: dict[str, Any], what: str) -> Column:
    kinds = [kind for kind in _KINDS if kind in given]
    if len(kinds) != 1:
        found = " and ".join(kinds) if kinds else "none of them"
        raise InputError(f"{what} needs one of {', '.join(_KINDS)}; it has {found}")
    allowed = {kinds[0], "missing", "unit", "note"} | ({"format"} if kinds[0] == "dates" else set())
    extra = [str(key) for key in given if key not in allowed]
    if extra:
        raise InputError(
            f"{what} has {', '.join(map(repr, extra))}, which a column with {kinds[0]} does not "
            f"know; allowed: {', '.join(sorted(allowed))}"
        )
    return _KINDS[kinds[0]](given, what, _words(given, what))


def _words(given: dict[str, Any], what: str) -> dict[str, Any]:
    return {key: _word(given[key], what, key) for key in ("unit", "note") if key in given}


def _word(given: Any, what: str, key: str) -> str:
    if not isinstance(given, str):
        raise InputError(f"the {key} of {what} must be a text")
    return given


def _number(given: dict[str, Any], what: str, words: dict[str, Any]) -> Column:
    if given["bounds"] == []:
        raise InputError(_EMPTY.format(what))
    if given["bounds"] == PRIVATE:
        raise InputError(
            f'{what}: bounds = "private" is for the target alone; give a column its own'
        )
    if not isinstance(given["bounds"], list):
        raise InputError(f"the bounds of {what} must be a pair [lower, upper] of numbers")
    if any(isinstance(end, bool) for end in given["bounds"]):
        raise InputError(
            f"the bounds of {what} must be numbers; what is true or false is written "
            '"yes/no" or "0/1"'
        )
    lower, upper = as_pair(given["bounds"], f"the bounds of {what}")
    missing = given.get("missing")
    if missing not in (None, "indicator") and not _within(missing, lower, upper):
        raise _wrong_missing(what, '"indicator", or a number within the bounds')
    missing = missing if missing in (None, "indicator") else float(missing)
    return Number(lower=lower, upper=upper, missing=missing, **words)


def unbounded(given: dict[str, Any], what: str) -> Column:
    """Return a target with bounds = "private", which are drawn from the table (T37)."""
    missing = given.get("missing")
    if missing is not None and not _within(missing, *ANY):
        raise InputError(
            f'{what} missing must be "ignore" or a number between {ANY[0]:.0f} and {ANY[1]:.0f}'
        )
    words = _words(given, what)
    return Unbounded(missing=None if missing is None else float(missing), **words)


def _within(given: Any, lower: float, upper: float) -> bool:
    good = isinstance(given, (int, float)) and not isinstance(given, bool)
    return good and lower <= given <= upper


def _truth(given: dict[str, Any], what: str, words: dict[str, Any]) -> Column:
    if given["truth"] not in (True, *TRUTH):
        raise InputError(f"{what}: truth must be true")
    missing = given.get("missing")
    if missing not in (None, "indicator"):
        if isinstance(missing, str) or missing not in (0, 1):
            raise _wrong_missing(what, '"indicator", 0 or 1')
        missing = int(missing)
    return Truth(missing=missing, **words)


def _ignored(given: dict[str, Any], what: str, words: dict[str, Any]) -> Column:
    if given["ignore"] is not True:
        raise InputError(f"{what}: ignore must be true; leave it out for a column that counts")
    if "missing" in given:
        raise InputError(f"{what} is ignored, so nothing need be said about missing values")
    return Ignored(**words)


def _category(given: dict[str, Any], what: str, words: dict[str, Any]) -> Column:
    levels = _levels(given["levels"], what)
    missing = _level_for_missing(given.get("missing"), levels, what, "level")
    if missing == "level":
        if "level" in levels:
            raise InputError(
                f"{what} has a level 'level', so missing = \"level\" may mean two things: call "
                "the level by another name in the table and here"
            )
        if level_keys([MISSING_LEVEL])[0] in level_keys(levels):
            raise InputError(
                f'{what} has a level {MISSING_LEVEL!r} already: write missing = "{MISSING_LEVEL}" '
                "for cells that are empty"
            )
    return Category(levels=levels, missing=missing, **words)


def _ordered(given: dict[str, Any], what: str, words: dict[str, Any]) -> Column:
    levels = _levels(given["ordered"], what)
    missing = _level_for_missing(given.get("missing"), levels, what, "indicator")
    return Ordered(levels=levels, missing=missing, **words)


def _level_for_missing(missing: Any, levels: tuple[str, ...], what: str, word: str) -> Any:
    if missing is None or missing == word:
        return missing
    level = as_level(missing)
    if level is None or level_keys([level])[0] not in level_keys(levels):
        raise _wrong_missing(what, f'"{word}", or one of its levels')
    return level


def _levels(given: Any, what: str) -> tuple[str, ...]:
    """Check levels: text, or numbers and truth values as text; two at least, all different."""
    if given == []:
        raise InputError(_EMPTY.format(what))
    levels = [as_level(level) for level in given] if isinstance(given, list) else [None]
    found = [level for level in levels if level is not None and level.strip()]
    if len(found) < len(levels):
        raise InputError(
            f"{what}: its levels must be a list of texts (or numbers), none of them empty"
        )
    if len(found) < 2:
        raise InputError(f"{what} has one level only, so it tells nothing: name two, or ignore it")
    if len(found) > LARGEST_LEVELS:
        raise InputError(
            f"{what} has {len(found)} levels; at most {LARGEST_LEVELS} are served. Join levels in "
            "the table by a public rule (a region for a postcode), or ignore the column"
        )
    if any(level.strip().lower().lstrip("+-") == "nan" for level in found):
        raise InputError(
            f"{what} has a level 'NaN', which is what libraries write for a missing number: call "
            "it by another name in the table and here"
        )
    keys = level_keys(found)
    key, count = Counter(keys).most_common(1)[0]
    if count > 1:
        alike = " and ".join(repr(level) for level, k in zip(found, keys, strict=True) if k == key)
        raise InputError(
            f"the levels {alike} of {what} are read as the same: name one of them. Blanks around a "
            "level do not count, and numbers are compared as numbers"
        )
    return tuple(level.strip() for level in found)


def as_level(given: Any) -> str | None:
    """Return a level as text; None for what is neither text, number nor truth value.

    >>> as_level(1), as_level(1.5), as_level(True), as_level(None)
    ('1', '1.5', 'true', None)
    """
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, (int, float)):
        return repr(given) if math.isfinite(given) else None
    return given if isinstance(given, str) else None


def _dates(given: dict[str, Any], what: str, words: dict[str, Any]) -> Column:
    pair = given["dates"]
    if pair == []:
        raise InputError(_EMPTY.format(what))
    ends = [as_moment(end) for end in pair] if isinstance(pair, list) else []
    first, last = ends if len(ends) == 2 else (None, None)
    if first is None or last is None or not first < last:
        raise InputError(
            f"the dates of {what} must be a pair, the first before the last, such as "
            "[2019-01-01, 2024-12-31]"
        )
    missing = given.get("missing")
    if missing not in (None, "indicator"):
        missing = as_moment(missing)
        if missing is None or not first <= missing <= last:
            raise _wrong_missing(what, '"indicator", or a date within the bounds')
    formats = given.get("format", [])
    listed = [formats] if isinstance(formats, str) else formats
    good = isinstance(listed, list) and all(isinstance(one, str) for one in listed)
    if not good or not all(map(reads_dates, listed)):
        raise InputError(
            f'the format of {what} must tell day, month and year, such as "%d.%m.%Y" or '
            '"%m/%d/%Y"; without a format dates are read as 2024-12-31'
        )
    return Dates(first=first, last=last, formats=tuple(listed), missing=missing, **words)


def _wrong_missing(what: str, allowed: str) -> InputError:
    return InputError(f"missing of {what} must be {allowed}; or leave it out, for the middle")


_KINDS: dict[str, Callable[[dict[str, Any], str, dict[str, Any]], Column]] = {
    "bounds": _number,
    "truth": _truth,
    "levels": _category,
    "ordered": _ordered,
    "dates": _dates,
    "ignore": _ignored,
}
