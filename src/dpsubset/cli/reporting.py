"""`--report`: the certificate of a release, written next to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpsubset.cli.writing import writing
from dpsubset.errors import InputError
from dpsubset.privacy import Ledger

__all__ = ["reporting"]


@contextmanager
def reporting(
    report: Path | None, output: Path | None, keep: Sequence[Path | None]
) -> Iterator[Callable[[Mapping[str, Any], Ledger | None], None]]:
    """Give a function that writes the certificate of a record; None gives one that does nothing.

    The day is that on which the work began: when it ends depends on the data.
    """
    if report is None:
        yield lambda record, ledger: None
        return
    if output is not None and os.path.abspath(report) == os.path.abspath(output):
        raise InputError("--report and --output are the same file: give them two names")
    day = datetime.now(UTC).date().isoformat()
    with writing(report, keep=keep) as write:

        def certify(record: Mapping[str, Any], ledger: Ledger | None) -> None:
            from dpsubset.certificate import page

            write(page(record, ledger=ledger, day=day))

        yield certify
