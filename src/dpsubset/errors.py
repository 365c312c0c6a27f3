"""The errors a user may see. Their texts hold no value taken from the data."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, ParamSpec, TypeVar, cast

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
    "at_once",
    "without_context",
]

_SHOWN = 20  # faults in one message

P = ParamSpec("P")
T = TypeVar("T")


class DpsubsetError(Exception):
    """Root of all errors raised on purpose by dpsubset.

    Examples
    --------
    >>> issubclass(BudgetError, DpsubsetError)
    True
    """


class InputError(DpsubsetError, ValueError):
    """A mistake in what the user gave: says what was given, what is allowed and what to do.

    Examples
    --------
    >>> from dpsubset import PermuteAndFlip
    >>> try:
    ...     PermuteAndFlip(epsilon=-1.0)
    ... except InputError as error:
    ...     print(error)
    epsilon must be a number between 1e-20 and 1e20, not -1.0
    """


class UnprovenError(DpsubsetError, RuntimeError):
    """A search ended at its limits, so nothing may be released (T18).

    Whether a limit is reached depends on the data. The budget of the refused release therefore
    counts as spent.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Limits, PermuteAndFlip, Problem
    >>> problem = Problem(np.eye(9), np.ones(9), size=4, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> try:
    ...     PermuteAndFlip(1.0, limits=Limits(seconds=1e-9)).release(problem)
    ... except UnprovenError:
    ...     print("nothing is released; count the budget as spent")
    nothing is released; count the budget as spent
    """


class RefusedError(DpsubsetError, RuntimeError):
    """A test that is part of a mechanism did not pass, so it released nothing.

    The refusal is an outcome that the mechanism's guarantee covers; its budget is spent.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Mistakes, Problem
    >>> problem = Problem(np.eye(5), np.ones(5), size=2, x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> try:
    ...     Mistakes(0.1, delta=1e-6).experiment(problem, 0)
    ... except RefusedError:
    ...     print("the private test did not pass")
    the private test did not pass
    """


class BudgetError(DpsubsetError, RuntimeError):
    """A ledger has too little left for what was asked; nothing was run and nothing spent.

    Examples
    --------
    >>> import tempfile
    >>> from dpsubset import Guarantee, Ledger
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(f"{folder.name}/budget.db", epsilon=0.5)
    >>> try:
    ...     with ledger.charge(Guarantee("exponential mechanism", 1.0, "replace-one", 4.0), {}):
    ...         pass
    ... except BudgetError:
    ...     print(ledger.remaining)
    (0.5, 0.0)
    >>> folder.cleanup()
    """


class LedgerError(DpsubsetError, OSError):
    """A ledger could not be read or written, so nothing may be released.

    Examples
    --------
    >>> issubclass(LedgerError, OSError)
    True
    """


class OutOfMemoryError(DpsubsetError, MemoryError):
    """Memory ran out during a release, so nothing is released; the budget counts as spent.

    Examples
    --------
    >>> issubclass(OutOfMemoryError, MemoryError)
    True
    """


class MissingExtraError(DpsubsetError, ImportError):
    """A package that only some users need is not installed: says which extra brings it.

    Examples
    --------
    >>> issubclass(MissingExtraError, ImportError)
    True
    """


class PrivacyWarning(UserWarning):
    """Something around a fit may spend more than its guarantee says: fits again, fitted steps.

    What is warned of is outside the guarantee; the release itself is what it says.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", PrivacyWarning)  # what spends more ends at once
    """


def without_context(work: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function that says `raise ... from None`, so that it means it.

    Python hides the error that came before from print, but keeps it in `__context__`, where its
    words may quote the table. Put this closest to the function: under `@contextmanager` it guards
    the block of the `with` statement too.

    Parameters
    ----------
    work : callable
        The function.

    Returns
    -------
    callable
        The same, whose errors keep no error before them.

    Examples
    --------
    >>> @without_context
    ... def read(text):
    ...     try:
    ...         return float(text)
    ...     except ValueError:
    ...         raise InputError("not a number") from None
    >>> try:
    ...     read("a private text")
    ... except InputError as error:
    ...     print(error, error.__context__)
    not a number None
    """
    if isgeneratorfunction(work):

        @wraps(work)
        def generate(*given: P.args, **options: P.kwargs) -> Any:
            try:
                return (yield from work(*given, **options))
            except BaseException as error:
                _forget(error)
                raise

        return cast(Callable[P, T], generate)

    @wraps(work)
    def call(*given: P.args, **options: P.kwargs) -> T:
        try:
            return work(*given, **options)
        except BaseException as error:
            _forget(error)
            raise  # alone: naming the error would give it a context anew

    return call


@without_context
def at_once(*checks: Callable[[], Any]) -> list[Any]:
    """Run checks that do not depend on each other; tell all their faults in one error.

    Parameters
    ----------
    *checks : callables
        What to run; each returns something or raises InputError.

    Returns
    -------
    list
        What they returned.

    Examples
    --------
    >>> at_once(lambda: 1, lambda: 2)
    [1, 2]
    """
    found: list[Any] = []
    faults: list[InputError] = []
    for check in checks:
        try:
            found.append(check())
        except InputError as error:
            faults.append(error)
    if len(faults) == 1:
        raise faults[0]
    if faults:
        kind = type(faults[0]) if len({type(fault) for fault in faults}) == 1 else InputError
        texts = list(dict.fromkeys(line for fault in faults for line in _lines(fault)))
        more = len(texts) - _SHOWN
        shown = [*texts[:_SHOWN], f"and {more} more"] if more > 0 else texts
        raise kind(f"there are {len(texts)} faults:\n" + "\n".join(f"- {t}" for t in shown))
    return found


def _lines(fault: InputError) -> list[str]:
    """Return the faults that an error tells, one or several."""
    first, *others = str(fault).split("\n- ")
    return others if others and first.startswith("there are ") else [str(fault)]


def _forget(error: BaseException) -> None:
    """Let an error that a user may see forget what came before; a fault of a program may not."""
    from_none = error.__suppress_context__ and error.__cause__ is None
    if from_none or isinstance(error, (DpsubsetError, MemoryError, KeyboardInterrupt)):
        error.__cause__ = error.__context__ = None
        vars(error).pop("__notes__", None)  # none are ours
