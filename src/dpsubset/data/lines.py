"""Lines of a CSV file as rows, whatever they hold: a row never changes how others are read.

The rule is the same for all files. A row is a line, and ends with it. A field that begins with a
double quote ends at the next quote that is not doubled, or with the row; what follows up to a
comma belongs to it. In all other fields quotes are characters like any other. Fields that a row
lacks are empty, those it has too many are left out. Where a schema says that texts hold line
breaks, a row goes on after a line that ends within quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

__all__ = ["mended"]

_QUOTED = rb'"(?:[^"]++|"")*+'
_FIELD = re.compile(rb"(" + _QUOTED + rb')(?:"([^,]*+))?+|([^,]*+)')
_WITHIN = re.compile(rb'(?:[^"]++|"")*+')


def mended(path: Path, n_fields: int, *, spanning: bool) -> BytesIO | None:
    """Return a file whose rows all have so many fields and closed quotes; None if they have.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "t.csv"
    ...     _ = path.write_text('a,b\\n1,"x\\n2\\n3,4,5\\n6" 7,8\\n')
    ...     print(mended(path, 2, spanning=False).read().decode())
    a,b
    1,"x"
    2,
    3,4
    "6"" 7",8
    <BLANKLINE>
    """
    one = rb"(?:" + _QUOTED + rb'"|[^",\r]*+)'
    whole = re.compile(one + rb"(?:," + one + rb"){%d}" % (n_fields - 1))
    with path.open("rb") as file:
        if all(_is_whole(row, whole, n_fields) for row in _rows(file, spanning)):
            return None
        file.seek(0)
        lines = [file.readline().rstrip(b"\r\n")]
        lines += (
            row if _is_whole(row, whole, n_fields) else _row(row, n_fields)
            for row in _rows(file, spanning, first=False)
        )
    return BytesIO(b"\n".join([*lines, b""]))


def _is_whole(row: bytes, whole: re.Pattern[bytes], n_fields: int) -> bool:
    if b'"' not in row and b"\r" not in row:
        return row.count(b",") == n_fields - 1
    return whole.fullmatch(row) is not None


def _rows(file: Iterator[bytes], spanning: bool, first: bool = True) -> Iterator[bytes]:
    """Return the rows of a file, without the names in its first line and without line ends."""
    if first:
        next(file, None)
    for line in file:
        parts = [line]
        if spanning and b'"' in line:
            while _is_open(parts[-1], len(parts) > 1) and (more := next(file, b"")):
                parts.append(more)
        row = b"".join(parts)
        row = row[:-1] if row.endswith(b"\n") else row
        yield row[:-1] if row.endswith(b"\r") else row


def _is_open(line: bytes, within: bool) -> bool:
    """Say whether a line ends within quotes, if it begins within them or not."""
    place = 0
    if within:
        found = _WITHIN.match(line)
        place = found.end() if found else 0
        if place == len(line):
            return True
        place = line.find(b",", place) + 1
        if place == 0:
            return False
    while True:
        found = _FIELD.match(line, place)
        if found is None or found.end() == len(line):
            return bool(found and found[1] is not None and found[2] is None)
        place = found.end() + 1


def _row(row: bytes, n_fields: int) -> bytes:
    """Write a row anew, with its first fields, all quotes closed."""
    out: list[bytes] = []
    place = 0
    while len(out) < n_fields and place <= len(row):
        found = _FIELD.match(row, place)
        assert found is not None  # a field may be empty
        quoted, after, plain = found.groups()
        if quoted is None and b'"' not in plain and b"\r" not in plain:
            out.append(plain)
        else:
            text = plain.replace(b'"', b'""') if quoted is None else quoted[1:]
            out.append(b'"' + text + (after or b"").replace(b'"', b'""') + b'"')
        place = found.end() + 1
    return b",".join(out + [b""] * (n_fields - len(out)))
