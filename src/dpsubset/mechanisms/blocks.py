"""Rows into blocks, and the features that each block votes for (T25, T26)."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from dpsubset.arrays import Floats
from dpsubset.errors import InputError, UnprovenError
from dpsubset.limits import REFUSED, Allowance, OutOfTime
from dpsubset.losses import Weighted
from dpsubset.mechanisms.l1_svm import svm_path
from dpsubset.mechanisms.lasso import silence
from dpsubset.privacy import Randomness
from dpsubset.problem import Problem, check_classes_named, check_problem

__all__ = [
    "MOST_DEALS",
    "Selector",
    "Voters",
    "check_selector",
    "check_votes",
    "deal",
    "deals",
    "largest",
    "lasso_choice",
    "members",
    "svm_choice",
]

Selector = Callable[[Floats, Floats, int], Iterable[int]]

_HEAVY = 1e3  # included columns grow by this, so that the penalty hardly sees them
_STEP = 1.3  # from one penalty to the next
_STEPS = 60
MOST_DEALS = 5000


def largest(values: Floats, count: int) -> NDArray[np.intp]:
    """Return where the `count` largest values are, in ascending order; ties: the first ones."""
    return np.asarray(np.sort(np.argsort(-values, kind="stable")[:count]))


def _sizes(beta: Floats, starts: NDArray[np.intp] | None) -> Floats:
    """Return the norms of features, which begin where `starts` says; None: each is a column."""
    if starts is None:
        return np.abs(beta)
    return np.asarray(np.sqrt(np.add.reduceat(beta**2, starts, axis=0)))


def _cut(sizes: Floats, count: int) -> NDArray[np.intp]:
    """Return the `count` largest features, or all that are not zero if they are fewer."""
    chosen = largest(sizes, count)
    return np.asarray(chosen[sizes[chosen] != 0])


def _project_out(Z: Floats, table: Floats) -> Floats:
    """Return the table less its projection on the columns of Z (Frisch-Waugh)."""
    U, sizes, _ = np.linalg.svd(Z, full_matrices=False)
    U = U[:, sizes > 1e-10 * max(float(sizes.max(initial=0.0)), 1e-300)]
    return np.asarray(table - U @ (U.T @ table))


def lasso_choice(
    X: Floats,
    Z: Floats,
    y: Floats,
    count: int,
    allowance: Allowance | None = None,
    starts: NDArray[np.intp] | None = None,
) -> NDArray[np.intp]:
    """Return the features of the first point of the lasso path with `count` of them.

    A feature is a column, or some columns in a row, of which the first are at `starts`; it is on
    the path as soon as one of its coefficients is. The columns of Z are not penalised: they are
    projected out of X and y first. A point with more features is cut to those of largest norm; a
    path that ends before has fewer.
    """
    from sklearn.linear_model import lars_path  # takes a second: only who needs it pays

    if Z.shape[1]:
        X, y = _project_out(Z, X), _project_out(Z, y)
    steps = count
    while True:
        if allowance is not None:
            allowance.check()
        # coefficients may leave the path again, so `count` steps are mostly enough, not always
        path = lars_path(X, y, method="lasso", max_iter=steps)[2]
        sizes = _sizes(path, starts)
        reached = np.flatnonzero(np.count_nonzero(sizes, axis=0) >= count)
        if reached.size:
            return _cut(sizes[:, reached[0]], count)
        if path.shape[1] <= steps or steps > 8 * min(X.shape):
            return _cut(sizes[:, -1], count)
        steps *= 2


def svm_choice(
    X: Floats,
    Z: Floats,
    y: Floats,
    count: int,
    allowance: Allowance | None = None,
    starts: NDArray[np.intp] | None = None,
) -> NDArray[np.intp]:
    """Return the features of the first l1-penalised SVM, along falling penalties, with `count`.

    Features are as for the lasso. The SVM has the squared hinge. The columns of Z are made a
    thousand times larger, so that their coefficients are as much smaller and the penalty hardly
    sees them. Nobody is chosen by rows of one class.
    """
    steepest = 2.0 * float(np.abs(y @ X).max(initial=0.0))
    if np.unique(y).size < 2 or not steepest > 0.0:
        return np.empty(0, dtype=np.intp)
    penalties = (_STEP**k / steepest for k in range(1, _STEPS + 1))
    sizes = np.zeros(0)
    for w in svm_path(np.hstack([X, _HEAVY * Z]), y, penalties):
        if allowance is not None:
            allowance.check()
        sizes = _sizes(w[: X.shape[1]], starts)
        if np.count_nonzero(sizes) >= count:
            break
    return _cut(sizes, count)


_NAMED = {"lasso": lasso_choice, "l1-svm": svm_choice}


def check_selector(selector: str | Selector | None) -> str | Selector | None:
    """Return the selector if it is a known name, a function, or None for the loss's own."""
    named = isinstance(selector, str) and selector in _NAMED
    if selector is None or callable(selector) or named:
        return selector
    raise InputError(
        f"unknown selector {selector!r}; allowed: {', '.join(_NAMED)}, or a function of a block's "
        "X, y and the number of columns that returns their indices"
    )


def deal(randomness: Randomness, rows: int, blocks: int, neighbours: str) -> NDArray[np.int64]:
    """Return the block of every row.

    Replace-one: a random permutation is cut into parts whose sizes differ by one at most.
    Add-remove: every row goes its own way, uniformly, so that one row more touches one block and
    no other row; the cut of a permutation would move others.

    >>> from dpsubset.privacy import as_randomness
    >>> sorted(deal(as_randomness(0), 5, 2, "replace-one").tolist())
    [0, 0, 0, 1, 1]
    """
    if neighbours == "add-remove":
        return randomness.belows(blocks, rows)
    labels = np.empty(rows, dtype=np.int64)
    labels[randomness.permutation(rows)] = np.arange(rows) % blocks
    return labels


def deals(rows: int, blocks: int, neighbours: str) -> list[NDArray[np.int64]]:
    """Return all that `deal` may return, each as likely as any other; for tiny tables.

    >>> [labels.tolist() for labels in deals(2, 2, "replace-one")]
    [[0, 1], [1, 0]]
    """
    if neighbours == "add-remove":
        number = blocks**rows
    else:
        sizes = np.bincount(np.arange(rows) % blocks, minlength=blocks)
        number = math.factorial(rows) // math.prod(math.factorial(int(k)) for k in sizes)
    if number > MOST_DEALS:
        raise InputError(
            f"the distribution averages over all partitions of the rows, so it is listed for up to "
            f"{MOST_DEALS} of them; use draw"
        )
    every = (
        np.array(labels, dtype=np.int64) for labels in itertools.product(range(blocks), repeat=rows)
    )
    if neighbours == "add-remove":
        return list(every)
    return [each for each in every if (np.bincount(each, minlength=blocks) == sizes).all()]


def members(labels: NDArray[np.int64], blocks: int) -> Iterator[NDArray[np.intp]]:
    """Return the rows of one block after the other, each in the table's order.

    In that order a block with the same rows in two neighbouring tables is the same table.
    """
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=blocks))
    yield from np.split(order, ends[:-1])


def check_votes(problem: Problem) -> None:
    """Refuse a problem whose blocks could not vote by their rows alone (T25, T26)."""
    check_problem(problem)
    check_classes_named(problem, "a vote of blocks of rows")
    if isinstance(problem.loss, Weighted):
        raise InputError(
            "mechanisms by votes look at no scores, so class weights would do nothing: leave them "
            "out, or choose another mechanism"
        )


class Voters:
    """Blocks of a problem's rows that vote for at most t = `problem.to_choose` free features.

    A vote is a function of the block's rows alone, whatever the selector does with them. A block
    on which it fails votes for nothing, and nothing that it says leaves the block. The free and
    the included columns are held as a dense float64 table. The clock is looked at between blocks,
    and between the fits of an l1-SVM path; a lasso path or a selector of the user runs to its end.
    """

    def __init__(
        self, problem: Problem, selector: str | Selector | None, allowance: Allowance
    ) -> None:
        check_votes(problem)
        if selector is None:
            selector = "l1-svm" if problem.loss.classification else "lasso"
        if selector == "l1-svm" and not problem.loss.classification:
            raise InputError(
                f"the selector 'l1-svm' needs labels; the {problem.loss.name} loss has none. Use "
                "'lasso'"
            )
        self._selector = selector
        self.most = problem.to_choose
        self._allowance = allowance
        columns, widths = problem.features.columns, problem.features.widths[problem.free]
        self._owner = np.repeat(np.arange(widths.size), widths)  # the feature of a column of X
        single = problem.features.identity or not widths.size
        self._starts = None if single else np.cumsum(widths) - widths
        self._X = np.ascontiguousarray(problem.design.take(columns(problem.free)))
        self._Z = problem.design.take(columns(np.array(problem.include, dtype=np.intp)))
        self._y = problem.y

    def votes(self, labels: NDArray[np.int64], blocks: int) -> Iterator[NDArray[np.intp]]:
        """Return the places among the free features that each block votes for, ascending."""
        for rows in members(labels, blocks):
            if self._allowance.over:
                raise UnprovenError(REFUSED)
            self._allowance.spend(1)
            yield self._vote(rows)

    def _vote(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        try:
            with silence():
                return self._select(rows)
        except (MemoryError, OutOfTime):  # no vote for lack of these: the whole release fails
            raise
        except Exception:  # what went wrong depends on the data: it stays here
            return np.empty(0, dtype=np.intp)

    def _select(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        X, y = self._X[rows], self._y[rows]  # copies: a selector may write into them
        if not isinstance(self._selector, str):
            return self._valid(self._selector(X, y, self.most))
        choose = _NAMED[self._selector]
        return choose(X, self._Z[rows], y, self.most, self._allowance, self._starts)

    def _valid(self, answer: Iterable[int]) -> NDArray[np.intp]:
        """Return the first t different features of the columns in an answer."""
        kept: dict[int, None] = {}
        for j in answer:
            if len(kept) == self.most:
                break
            whole = isinstance(j, numbers.Integral) and not isinstance(j, bool)
            if whole and 0 <= j < self._X.shape[1]:
                kept[int(self._owner[j])] = None
        return np.array(sorted(kept), dtype=np.intp)
