"""Lines of JSON that a study keeps: read, gone on with where they end, shown on a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import track

__all__ = ["go_on", "keep", "read_lines", "write_below", "written"]

K = TypeVar("K")
L = TypeVar("L")


def read_lines(path: Path, make: Callable[..., L]) -> list[L]:
    """Return what earlier runs have kept, each line made of its fields; nothing if none has."""
    if not path.exists():
        return []
    return [make(**json.loads(text)) for text in path.read_text().splitlines()]


def keep(line: Any, path: Path) -> None:
    """Append a line, at once: a run may be stopped at any moment."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(line)) + "\n")


def go_on(
    lines: list[L],
    path: Path,
    wanted: Iterable[K],
    key: Callable[[L], K],
    measure: Callable[[K], L],
) -> None:
    """Measure what the lines lack of what is wanted, and keep it."""
    known = {key(line) for line in lines}
    left = [one for one in wanted if one not in known]
    for one in track(left, "measuring", console=Console(stderr=True)):
        lines.append(measure(one))
        keep(lines[-1], path)


def write_below(page: Path, mark: str, text: str) -> None:
    """Put a text in the place of all that stands below a mark of a page."""
    before = page.read_text().partition(mark)[0]
    page.write_text(f"{before}{mark}\n{text}")


def written(text: str, part: str, content: str) -> str:
    """Return a text with the part between two marks exchanged.

    >>> written("<!-- begin a -->old<!-- end a -->", "a", "new")
    '<!-- begin a -->\\n\\nnew\\n\\n<!-- end a -->'
    """
    begin, end = f"<!-- begin {part} -->", f"<!-- end {part} -->"
    found = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", flags=re.S)
    if len(found.findall(text)) != 1:
        raise ValueError(f"the marks of {part!r} are not there just once")
    return found.sub(lambda _: f"{begin}\n\n{content}\n\n{end}", text)
