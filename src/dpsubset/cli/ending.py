"""How the command ends: one line and an exit code for everything that goes wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer

from dpsubset.errors import BudgetError, DpsubsetError, RefusedError, UnprovenError, without_context

__all__ = ["errors_as_text"]

_SPENT = "count the budget as spent if a release was under way"


@contextmanager
@without_context
def errors_as_text() -> Iterator[None]:
    """Print an error of ours as one line; only a fault of the program shows a traceback."""
    try:
        yield
        if sys.stdout is not None:  # as with `>&-`
            sys.stdout.flush()  # what cannot be printed must show here, not when Python ends
    except (UnprovenError, RefusedError, BudgetError) as error:
        raise _ending(f"refused: {error}", 1) from None
    except DpsubsetError as error:
        raise _ending(f"error: {error}", 2) from None
    except MemoryError:
        raise _ending(f"error: the memory of this machine is not enough; {_SPENT}", 2) from None
    except KeyboardInterrupt:
        raise _ending(f"interrupted: {_SPENT}", 130) from None
    except BrokenPipeError:  # whoever read our words has gone, as in `dpsubset ... | head`
        _drop_the_rest()
        raise typer.Exit(141) from None
    except OSError as error:
        _drop_the_rest()
        where = f"{error.filename}: " if error.filename else ""
        why = error.strerror or "cannot be read or written"
        raise _ending(f"error: {where}{why}", 2) from None


def _drop_the_rest() -> None:
    """Let what is still to be printed vanish: Python would try again at its end, and complain."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    with suppress(OSError, ValueError, AttributeError):  # not a file of the system's: nothing to do
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _ending(text: str, code: int) -> typer.Exit:
    with suppress(OSError):  # the code tells, if nobody can be told
        typer.echo(text, err=True)
    return typer.Exit(code)
