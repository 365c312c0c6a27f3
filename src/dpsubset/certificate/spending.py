"""Where a release stands in its ledger: its entry, and the budget before and after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpsubset.privacy import Guarantee, Ledger
from dpsubset.privacy.guarantee import decimal_rest, decimal_sum
from dpsubset.privacy.ledger import Entry

__all__ = ["Spend", "find_spend", "same_question"]


@dataclass(frozen=True)
class Spend:
    """An entry of a ledger, with epsilon and delta spent before it and left after it."""

    entry: Entry
    budget: tuple[float, float]
    before: tuple[float, float]
    left: tuple[float, float]

    @property
    def day(self) -> str:
        """The day of the charge; the time of day is nobody's business."""
        return self.entry.time.partition("T")[0]


def find_spend(ledger: Ledger, record: Mapping[str, Any]) -> Spend | None:
    """Return the newest entry that holds a record, or None.

    Entries of others before and after it count as they were charged, whenever this is asked.
    """
    history = ledger.history()
    found = [i for i, entry in enumerate(history) if _holds(entry, record)]
    if not found:
        return None
    budget, place = (ledger.epsilon, ledger.delta), found[-1]
    before = _spent([entry.guarantee for entry in history[:place]])
    after = _spent([entry.guarantee for entry in history[: place + 1]])
    left = decimal_rest(budget[0], after[0]), decimal_rest(budget[1], after[1])
    return Spend(history[place], budget, before, left)


def same_question(entry: Entry, record: Mapping[str, Any]) -> bool:
    """Say whether an entry asks what a record asks, whatever came of it."""
    version = {"dpsubset": record["dpsubset"]}
    return entry.asked == {**record["asked"], **version}


def _holds(entry: Entry, record: Mapping[str, Any]) -> bool:
    return (
        same_question(entry, record)
        and entry.released == record["released"]
        and entry.guarantee.to_dict() == record["guarantee"]
    )


def _spent(parts: list[Guarantee]) -> tuple[float, float]:
    return decimal_sum(p.epsilon for p in parts), decimal_sum(p.delta for p in parts)
