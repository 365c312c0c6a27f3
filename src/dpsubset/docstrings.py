"""Parameters that classes share are described once, where they are defined.

`documented` fills the list in a class's docstring up from its bases, so that `help` and the
reference show all of them.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import groupby
from typing import TypeVar

__all__ = ["documented"]

C = TypeVar("C", bound=type)
Entry = tuple[str, str]  # the type of a parameter, and what is said of it

_HEAD = "Parameters\n----------\n"
_NEXT = re.compile(r"^(?:Attributes|Examples|Returns|Notes)\n-+$", flags=re.M)
_WIDTH = 92


def documented(kind: C) -> C:
    """Complete the parameters of a class by those that its bases and its fields describe.

    Parameters
    ----------
    kind : type
        A class with a signature. Its own words come first, then those of its bases, then the help
        of fields that are options.

    Returns
    -------
    type
        The same class, with a docstring that lists all parameters in their order.

    Examples
    --------
    >>> class First:
    ...     '''Begin.
    ...
    ...     Parameters
    ...     ----------
    ...     a : int
    ...         How many.
    ...     '''
    >>> @documented
    ... class Second(First):
    ...     '''Go on.'''
    ...     def __init__(self, a: int) -> None: ...
    >>> print(Second.__doc__.strip())
    Go on.
    <BLANKLINE>
    Parameters
    ----------
    a : int
        How many.
    """
    own = inspect.cleandoc(kind.__doc__ or "")
    if not own:  # Python may run without docstrings
        return kind
    known: dict[str, Entry] = _helped(kind)
    for base in reversed(kind.__mro__):
        known |= dict(_entries(inspect.cleandoc(base.__doc__ or "")))
    names = [name for name in inspect.signature(kind).parameters if name in known]
    listed = []
    for (typed, words), group in groupby(names, known.__getitem__):
        listed.append(f"{', '.join(group)} : {typed}\n{words}")
    before, after = _parted(own)
    text = f"{before}\n\n{_HEAD}" + "\n".join(listed) + (f"\n\n{after}" if after else "")
    kind.__doc__ = text + "\n"
    return kind


def _parted(text: str) -> tuple[str, str]:
    """Return what stands before the parameters, and what comes after them."""
    before, head, rest = text.partition(_HEAD)
    found = _NEXT.search(rest if head else before)
    if found is None:
        return before.rstrip(), ""
    if head:
        return before.rstrip(), rest[found.start() :]
    return before[: found.start()].rstrip(), before[found.start() :]


def _entries(text: str) -> Iterator[tuple[str, Entry]]:
    _, _, rest = text.partition(_HEAD)
    found = _NEXT.search(rest)
    section = (rest if found is None else rest[: found.start()]).rstrip()
    for entry in re.split(r"\n(?=\S)", section):
        head, _, words = entry.partition("\n")
        names, _, typed = head.partition(" : ")
        for name in filter(None, names.split(", ")):
            yield name, (typed, words)


def _helped(kind: type) -> dict[str, Entry]:
    """Return the fields of a data class that are options, with their help as words."""
    found = {}
    for field in fields(kind) if is_dataclass(kind) else ():
        if "help" in field.metadata:
            text = re.sub(r"--([a-z-]+)", lambda m: m[1].replace("-", "_"), field.metadata["help"])
            text = text[0].upper() + text[1:]
            words = textwrap.indent(textwrap.fill(text, _WIDTH), "    ")
            typed = "object" if field.type == "Any" else str(field.type).replace(" | ", " or ")
            found[field.name] = f"{typed}, default={field.default!r}", words
    return found
