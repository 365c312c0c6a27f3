"""What `dpsubset select` does, from the user's words to releases."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpsubset.cli.asked import Source
from dpsubset.cli.quick import as_quick_as_possible
from dpsubset.cli.stored import ways
from dpsubset.cli.warned import print_warnings
from dpsubset.compiled import interpreted
from dpsubset.errors import BudgetError, RefusedError, UnprovenError
from dpsubset.mechanisms.named import MECHANISMS, OWN_OPTIONS
from dpsubset.planning.rule import likely_noise
from dpsubset.privacy import Guarantee, Ledger
from dpsubset.privacy.guarantee import decimal_sum
from dpsubset.privacy.ledger import as_ledger
from dpsubset.records import record
from dpsubset.selection import Selection
from dpsubset.wording import shortfall

__all__ = ["Line", "Outcome", "seeded_warning", "select_columns"]


@dataclass(frozen=True)
class Line:
    """The answer of one mechanism: the selected columns, or why there are none."""

    mechanism: str
    columns: tuple[str, ...] | None
    guarantee: Guarantee
    record: dict[str, Any]
    refusal: str | None
    seconds: float
    spent: bool = True
    noise: str | None = None  # from public numbers: whether the answer is likely noise


@dataclass(frozen=True)
class Outcome:
    """All answers to a request; several when every mechanism was asked."""

    target: str
    n_features: int
    lines: tuple[Line, ...]
    warnings: tuple[str, ...]
    ledger: Ledger | None

    @property
    def compared(self) -> bool:
        """Whether every mechanism was asked."""
        return len(self.lines) > 1

    @property
    def refused(self) -> bool:
        """Whether a mechanism released nothing."""
        return any(line.refusal is not None for line in self.lines)

    @property
    def epsilon(self) -> float:
        """What the answers spend together, by basic composition."""
        return decimal_sum(line.guarantee.epsilon for line in self.lines if line.spent)

    @property
    def delta(self) -> float:
        """The chance that one of the guarantees fails."""
        return decimal_sum(line.guarantee.delta for line in self.lines if line.spent)


def select_columns(
    source: Source, ledger: Path | None, options: dict[str, Any], by: str | None = None
) -> Outcome:
    """Check everything that does not need the rows, read them, release.

    Raises
    ------
    InputError
        Before anything is released.
    UnprovenError, RefusedError, BudgetError
        If the only mechanism asked for released nothing.
    """
    with interpreted():  # on no rows
        asks, reads = ways(source)
        asked = [asks(Selection, source, given) for given in _each(options)]
        budget = as_ledger(ledger, by)
        rows = reads(asked[0], source)
        quick = as_quick_as_possible(asked, rows)
    with quick:
        if len(asked) > 1:  # nothing is released before all of them are checked
            for selection in asked:
                selection.guarantee(selection.problem(rows))
        lines = tuple(_line(selection, rows, budget, len(asked) > 1) for selection in asked)
    found = [
        shortfall(line.guarantee, options["epsilon"], options["delta"] or 0.0)
        for line in lines
        if line.columns is not None
    ]
    seeded = seeded_warning(options["seed"])
    return Outcome(
        target=asked[0].schema.target_name or "the target",
        n_features=asked[0].schema.n_columns,
        lines=lines,
        warnings=tuple(text for text in [*found, seeded, _noise(lines)] if text is not None),
        ledger=budget,
    )


def _noise(lines: Sequence[Line]) -> str | None:
    """Return the one line that says so, if all answers are likely noise."""
    told = [line.noise for line in lines if line.columns is not None]
    return told[0] if told and None not in told else None


def seeded_warning(seed: int | None) -> str | None:
    """Say what a seed does, if there is one."""
    if seed is None:
        return None
    return (
        "the draw is seeded, for experiments only: anyone who knows --seed can undo the protection"
    )


def _each(options: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the options of every mechanism that is asked."""
    if options["mechanism"] != "all":
        return [options]
    every = []
    for name in MECHANISMS:  # what belongs to one of them is not for the others
        foreign = {o: None for o, owners in OWN_OPTIONS.items() if name not in owners}
        every.append(options | foreign | {"mechanism": name})
    return every


def _line(selection: Selection, rows: Any, ledger: Ledger | None, compared: bool) -> Line:
    """Release by one mechanism; its problem is its own, so that times are fair."""
    began = time.perf_counter()
    problem = selection.problem(rows)
    print_warnings([selection.slow(problem)])
    refusal, spent = None, True
    try:
        released = selection.release(problem, ledger)
    except (UnprovenError, RefusedError, BudgetError) as error:
        if not compared:
            raise
        refusal, spent = str(error), not isinstance(error, BudgetError)
        promise = selection.guarantee(problem)
        kept = record(selection.made.asked(problem), None, promise) | {"refused": refusal}
        return Line(
            selection.mechanism,
            None,
            promise,
            kept,
            refusal,
            time.perf_counter() - began,
            spent,
        )
    return Line(
        selection.mechanism,
        released.columns,
        released.guarantee,
        released.to_dict(),
        None,
        time.perf_counter() - began,
        noise=likely_noise(selection, problem),
    )
