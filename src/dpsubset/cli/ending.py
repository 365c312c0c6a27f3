"""How the command ends: one line and an exit code for everything that goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from dpsubset.errors import DpsubsetError, UnprovenError

__all__ = ["errors_as_text"]

_SPENT = "count the budget as spent if a release was under way"


@contextmanager
def errors_as_text() -> Iterator[None]:
    """Print an error of ours as one line; only a fault of the program shows a traceback."""
    try:
        yield
    except UnprovenError as error:
        raise _ending(f"refused: {error}", 1) from None
    except DpsubsetError as error:
        raise _ending(f"error: {error}", 2) from None
    except MemoryError:
        raise _ending(f"error: the memory of this machine is not enough; {_SPENT}", 2) from None
    except KeyboardInterrupt:
        raise _ending(f"interrupted: {_SPENT}", 130) from None
    except BrokenPipeError:  # whoever read our words has gone, as in `dpsubset ... | head`
        raise typer.Exit(141) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        why = error.strerror or "cannot be read or written"
        raise _ending(f"error: {where}{why}", 2) from None


def _ending(text: str, code: int) -> typer.Exit:
    typer.echo(text, err=True)
    return typer.Exit(code)
