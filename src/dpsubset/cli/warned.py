"""Warnings of a command."""

from __future__ import annotations

from collections.abc import Iterable

import typer

__all__ = ["print_warnings"]


def print_warnings(texts: Iterable[str | None]) -> None:
    """Print warnings where results are not."""
    for text in texts:
        if text is not None:
            typer.echo(f"warning: {text}", err=True)
