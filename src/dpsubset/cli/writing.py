"""Files written whole or not at all, and a sign of life while the user waits."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dpsubset.errors import InputError, without_context

__all__ = ["announced", "check_destination", "stepping", "waiting", "writing"]

_PATIENCE_SECONDS = 2.0
_TOLD_EVERY_SECONDS = 10.0  # where there is no terminal


def check_destination(path: Path, keep: Sequence[Path | None] = ()) -> None:
    """Refuse a destination that cannot be written, or that is one of the files to keep."""
    if path.is_dir():
        raise InputError(f"{path} is a folder. Name a file to write to")
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not an ordinary file. Name a file to write to")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: no such folder. Make it first, or write elsewhere")
    if path.exists() and any(k is not None and k.exists() and path.samefile(k) for k in keep):
        raise InputError(f"{path} is one of the files to read. Write to another file")


def announced(*paths: Path | None) -> list[str]:
    """Return what to say once files are written; asked before, to know which are replaced."""
    return [
        f"Written to {path}" + (", in place of an older file" if path.exists() else "")
        for path in paths
        if path is not None
    ]


@contextmanager
@without_context
def writing(
    path: Path | None, *, keep: Sequence[Path | None] = ()
) -> Iterator[Callable[[str], None]]:
    """Give a function that writes the whole file at once; None gives one that does nothing.

    A temporary file next to the destination is opened first, so a folder that cannot be written to
    is noticed before any budget is spent, and renamed last, so no reader sees half a file.
    """
    if path is None:
        yield lambda text: None
        return
    check_destination(path, keep)
    partial = path.with_name(f".{path.name}.{os.urandom(6).hex()}.partial")
    try:
        file = partial.open("x", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None

    @without_context
    def write(text: str) -> None:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            file.close()
            partial.replace(path)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from None

    try:
        yield write
    finally:
        with suppress(OSError):  # closing flushes, and a disk may be full
            file.close()
        with suppress(FileNotFoundError):
            partial.unlink()


@contextmanager
def waiting(text: str, *, shown: bool) -> Iterator[None]:
    """Show a spinner on the error stream, if that is a terminal and the work takes its time."""
    from rich.console import Console

    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield
        return
    status = console.status(text)
    timer = threading.Timer(_PATIENCE_SECONDS, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


@contextmanager
def stepping(text: str, *, shown: bool) -> Iterator[Callable[[int, int], None]]:
    """Give a function that shows on the error stream how many steps of how many are done."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not shown:
        yield lambda done, total: None
        return
    if not console.is_terminal:
        last = time.monotonic()

        def tell(done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last > _TOLD_EVERY_SECONDS:
                last = time.monotonic()
                console.print(f"{text}: {done} of at most {total} steps", highlight=False)

        yield tell
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(text)
        yield lambda done, total: bar.update(task, completed=done, total=total)
