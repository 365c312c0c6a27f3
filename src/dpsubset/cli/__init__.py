"""The command `dpsubset`: parse, call, print; one file a command.

Heavy libraries are imported inside the commands, so that `dpsubset --help` answers at once.
"""

from __future__ import annotations

import io
import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpsubset.cli import options
from dpsubset.cli.audit import audit
from dpsubset.cli.ending import told
from dpsubset.cli.fit import fit
from dpsubset.cli.ledger import ledger
from dpsubset.cli.plan import plan
from dpsubset.cli.predict import predict
from dpsubset.cli.prepare import prepare
from dpsubset.cli.reproduce import reproduce
from dpsubset.cli.schema import schema
from dpsubset.cli.select import select
from dpsubset.cli.verify import verify
from dpsubset.errors import without_context
from dpsubset.version import __version__

__all__ = ["app", "main"]

_AGAIN_SECONDS = 0.5


class _Commands(TyperGroup):
    """The commands in the order of a user's work; a wrong option is told as JSON, too."""

    @without_context
    def invoke(self, ctx: Any) -> Any:
        words = [*ctx.args, *getattr(ctx, "_protected_args", ())]
        try:
            return super().invoke(ctx)
        except Exception as error:  # of whichever library parses the words
            wrong = getattr(error, "format_message", None)
            if wrong is None or "--json" not in words:
                raise
            told("error", wrong(), 2, True)
            raise typer.Exit(2) from None


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Private variable selection: the columns that best explain a target, under "
    "differential privacy.\n\nA first release: schema (what is public about the table), plan (are "
    "there enough rows?), ledger (a budget), select or fit, verify. Each has --help.\n\nExit "
    "codes: 0 done; 1 refused (a limit, a test of the mechanism, or the budget), or a check that "
    "fails; 2 a mistake in what was given, or the machine's memory or disk is not enough; 130, "
    "141, 143 interrupted, pipe closed, terminated.",
)
for _command in (schema, plan, ledger, select, fit, predict, verify, audit, reproduce, prepare):
    app.command(help=options.paragraphs(_command))(_command)
app.command("bounds", hidden=True, help="The old name of `schema`.")(schema)


def main() -> None:
    """Run the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without a letter shows its number
            stream.reconfigure(errors="backslashreplace")
    for name in ("SIGTERM", "SIGHUP"):  # the second is unknown on some systems
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop)
    try:
        app()
    finally:
        _again(0.0)


def _stop(number: int, frame: object) -> None:
    """End by an exception, so that no partial file stays behind.

    An exception that comes up inside a destructor is lost: it is raised again until it is heard.
    """
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, lambda *_: _stop(number, None))
    _again(_AGAIN_SECONDS)
    raise SystemExit(128 + number)


def _again(seconds: float) -> None:
    if hasattr(signal, "setitimer"):  # unknown on some systems
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dpsubset {__version__}")
        raise typer.Exit


@app.callback()
def _start(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass
