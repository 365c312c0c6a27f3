"""How values are shown to people: fields as text and as HTML, in which nothing can hide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["fields_html", "fields_text", "paragraph_html", "printable", "rows_html"]

# Colours are left to the notebook, be it light or dark; a grey line is seen on both.
_LINE = "border-bottom:1px solid rgba(128,128,128,0.4)"
_CELL = f"text-align:left;vertical-align:top;padding:2px 12px 2px 0;{_LINE}"
_TABLE = "border-collapse:collapse;margin:4px 0;color:inherit;background:transparent"


def printable(text: str) -> str:
    r"""Return a text without characters that would steer a terminal.

    >>> printable("age\x1b[2J")
    'age\\x1b[2J'
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def fields_text(fields: Sequence[tuple[str, str]]) -> str:
    """Return names and values, one pair a line.

    >>> print(fields_text([("epsilon", "1"), ("sensitivity", "4")]))
    epsilon      1
    sensitivity  4
    """
    width = max(len(name) for name, _ in fields)
    return "\n".join(f"{name:{width}}  {value}" for name, value in fields)


def fields_html(fields: Iterable[tuple[str, str]]) -> str:
    """Return names and values as a table of HTML.

    >>> "<script>" in fields_html([("table", "<script>")])
    False
    """
    rows = (f"<tr>{_cell('th', name)}{_cell('td', value)}</tr>" for name, value in fields)
    return f'<table style="{_TABLE}">{"".join(rows)}</table>'


def rows_html(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a head and rows as a table of HTML."""
    first = "".join(_cell("th", name) for name in head)
    others = "".join(f"<tr>{''.join(_cell('td', v) for v in row)}</tr>" for row in rows)
    return f'<table style="{_TABLE}"><tr>{first}</tr>{others}</table>'


def paragraph_html(text: str) -> str:
    """Return a paragraph of HTML."""
    return f'<p style="margin:4px 0">{escape(printable(text))}</p>'


def _cell(kind: str, text: str) -> str:
    return f'<{kind} style="{_CELL}">{escape(printable(text))}</{kind}>'
