"""Parameters that classes or functions share are described once, where they are defined.

`documented` fills the list in a class's docstring up from its bases, `documented_like` that of a
function from another's, so that `help` and the reference show all of them.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from itertools import groupby
from typing import Any, TypeVar

__all__ = ["documented", "documented_like"]

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
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
    kind.__doc__ = _completed(own, known, kind)
    return kind


def documented_like(*others: Any) -> Callable[[F], F]:
    """Complete the parameters of a function by those that others describe.

    Parameters
    ----------
    *others : callable
        Functions or classes with parameters of the same names.

    Returns
    -------
    callable
        A decorator: the function keeps its own words, and gets what it does not describe itself.

    Examples
    --------
    >>> def first(a: int) -> None:
    ...     '''Begin.
    ...
    ...     Parameters
    ...     ----------
    ...     a : int
    ...         How many.
    ...     '''
    >>> @documented_like(first)
    ... def second(a: int) -> None:
    ...     '''Go on.'''
    >>> second.__doc__.endswith("How many.\\n")
    True
    """

    def decorate(function: F) -> F:
        own = inspect.cleandoc(function.__doc__ or "")
        if own:  # Python may run without docstrings
            known: dict[str, Entry] = {}
            for source in (*others, function):
                known |= dict(_entries(inspect.cleandoc(source.__doc__ or "")))
            function.__doc__ = _completed(own, known, function)
        return function

    return decorate


def _completed(own: str, known: dict[str, Entry], thing: Callable[..., Any]) -> str:
    """Return a docstring with all known parameters, in the order of the signature."""
    stars: dict[Any, str] = {
        inspect.Parameter.VAR_KEYWORD: "**",
        inspect.Parameter.VAR_POSITIONAL: "*",
    }
    parameters = inspect.signature(thing).parameters.values()
    names = [stars.get(each.kind, "") + each.name for each in parameters]
    listed = []
    for (typed, words), group in groupby((n for n in names if n in known), known.__getitem__):
        listed.append(f"{', '.join(group)} : {typed}\n{words}")
    before, after = _parted(own)
    return f"{before}\n\n{_HEAD}" + "\n".join(listed) + (f"\n\n{after}" if after else "") + "\n"


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
