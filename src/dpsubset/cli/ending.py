"""How the command ends: one line and an exit code for everything that goes wrong."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer

from dpsubset.errors import BudgetError, DpsubsetError, RefusedError, UnprovenError, without_context

__all__ = ["ending", "told"]

_SPENT = "count the budget as spent if a release was under way"


@contextmanager
@without_context
def ending(as_json: bool = False) -> Iterator[None]:
    """Print an error of ours as text, or as JSON; only a fault of the program shows a traceback."""
    try:
        yield
        if sys.stdout is not None:  # as with `>&-`
            sys.stdout.flush()  # what cannot be printed must show here, not when Python ends
    except (UnprovenError, RefusedError, BudgetError) as error:
        raise _told("refused", str(error), 1, as_json) from None
    except DpsubsetError as error:
        raise _told("error", str(error), 2, as_json) from None
    except MemoryError:
        text = f"the memory of this machine is not enough; {_SPENT}"
        raise _told("error", text, 2, as_json) from None
    except KeyboardInterrupt:
        raise _told("interrupted", _SPENT, 130, as_json) from None
    except BrokenPipeError:  # whoever read our words has gone, as in `dpsubset ... | head`
        _drop_the_rest()
        raise typer.Exit(141) from None
    except OSError as error:
        _drop_the_rest()
        where = f"{error.filename}: " if error.filename else ""
        why = error.strerror or "cannot be read or written"
        raise _told("error", where + why, 2, as_json) from None


def told(kind: str, text: str, code: int, as_json: bool) -> None:
    """Print how a command ends: as text on the error stream, as JSON where results would be."""
    with suppress(OSError):  # the code tells, if nobody can be told
        if as_json:
            typer.echo(json.dumps({kind: text, "exit_code": code}))
        else:
            typer.echo(f"{kind}: {text}", err=True)


def _told(kind: str, text: str, code: int, as_json: bool) -> typer.Exit:
    told(kind, text, code, as_json)
    return typer.Exit(code)


def _drop_the_rest() -> None:
    """Let what is still to be printed vanish: Python would try again at its end, and complain."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    with suppress(OSError, ValueError, AttributeError):  # not a file of the system's: nothing to do
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
