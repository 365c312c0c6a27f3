"""The errors a user may see. Their texts hold no value taken from the data."""

from __future__ import annotations

__all__ = [
    "BudgetError",
    "DpsubsetError",
    "InputError",
    "LedgerError",
    "MissingExtraError",
    "OutOfMemoryError",
    "PrivacyWarning",
    "RefusedError",
    "UnprovenError",
]


class DpsubsetError(Exception):
    """Root of all errors raised on purpose by dpsubset."""


class InputError(DpsubsetError, ValueError):
    """A mistake in what the user gave: says what was given, what is allowed and what to do."""


class UnprovenError(DpsubsetError, RuntimeError):
    """A search ended at its limits, so nothing may be released (T18).

    Whether a limit is reached depends on the data. The budget of the refused release therefore
    counts as spent.
    """


class RefusedError(DpsubsetError, RuntimeError):
    """A test that is part of a mechanism did not pass, so it released nothing.

    The refusal is an outcome that the mechanism's guarantee covers; its budget is spent.
    """


class BudgetError(DpsubsetError, RuntimeError):
    """A ledger has too little left for what was asked; nothing was run and nothing spent."""


class LedgerError(DpsubsetError, OSError):
    """A ledger could not be read or written, so nothing may be released."""


class OutOfMemoryError(DpsubsetError, MemoryError):
    """Memory ran out during a release, so nothing is released; the budget counts as spent."""


class MissingExtraError(DpsubsetError, ImportError):
    """A package that only some users need is not installed: says which extra brings it."""


class PrivacyWarning(UserWarning):
    """Something around a fit may spend more than its guarantee says: fits again, fitted steps."""
