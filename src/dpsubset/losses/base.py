"""What a loss is: a convex function of the prediction, its conjugate, its largest value, a fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.compiled import is_plain, pointer
from dpsubset.errors import InputError
from dpsubset.limits import Allowance
from dpsubset.losses.fitting import envelope, fit_rows

__all__ = ["Fit", "Loss", "compiled_rows"]

_OURS = "dpsubset.losses."
_KINKED = (
    "objective perturbation needs bounds on the slope and the curvature of the loss, which the {} "
    "loss does not give; for numbers take huber or squared, for labels logistic or huber_hinge"
)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit on a support: coefficients in the ball, and a value enclosed from both sides (T16).

    `point` is the dual point that proves `dual`, one number a row.

    Parameters
    ----------
    coefficients : array
        The coefficients.
    primal : float
        The value that they reach.
    dual : float
        What no coefficients can be below.
    point : array
        The dual point that proves it, one number a row.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset.losses import as_loss
    >>> fit = as_loss("huber").fit(np.eye(3), np.array([0.0, 0.5, 0.0]), ridge=1.0, radius=1.0)
    >>> fit.dual <= fit.primal
    True
    """

    coefficients: Floats
    primal: float
    dual: float
    point: Floats


class Loss(ABC):
    """A loss l(y, t) >= 0, convex in the prediction t, summed over rows (T1).

    A custom loss gives `value`, `conjugate`, `largest` and `rows`, and is known by its name
    after `register`; `check` tells whether the four belong together. With `spread` it needs less
    noise.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset.losses import as_loss
    >>> as_loss("absolute").value(np.array([0.5]), np.array([0.25]))
    array([0.25])
    """

    name: str
    classification: ClassVar[bool] = False  # y in {-1, +1}
    smooth: bool = False  # differentiable everywhere: no envelope is needed
    bends: bool = False  # its second derivative in t rises, then falls (T40); for losses here
    symmetric: ClassVar[bool] = False  # l(y, t) = l(-y, -t): the classes may be exchanged
    precision: ClassVar[float] = 2.5e-11  # of a score, in units of n times `largest` (T19)
    parameters: tuple[float, ...] = ()

    def __init_subclass__(cls) -> None:
        """Let a loss with values of its own not inherit the spread of another's, nor its bend."""
        super().__init_subclass__()
        if {"value", "largest"} & vars(cls).keys() and "spread" not in vars(cls):
            cls.spread = Loss.spread  # type: ignore[method-assign]
        if {"value", "rows", "compiled"} & vars(cls).keys() and "bends" not in vars(cls):
            cls.bends = False
        if not cls.__module__.startswith(_OURS):  # `check` does not test second derivatives
            cls.bends = False

    @abstractmethod
    def value(self, y: Floats, t: Floats) -> Floats:
        """Return l(y, t) for every row."""

    @abstractmethod
    def conjugate(self, y: Floats, a: Floats) -> Floats:
        """Return sup over t of a t - l(y, t), infinite outside its domain."""

    @abstractmethod
    def largest(self, y_bound: float, t_bound: float) -> float:
        """Return the largest l(y, t) over |y| <= y_bound, |t| <= t_bound (T2)."""

    def spread(self, y_bound: float, t_bound: float) -> float:
        """Return the largest difference of l(y, t) and l(y, u) over |t|, |u| <= t_bound, one y.

        It is how far one row moves what mechanisms see of the scores (T38). A loss that does not
        give it pays for its largest value, which is never less.
        """
        return self.largest(y_bound, t_bound)

    def published(self, y_bound: float, t_bound: float) -> float:
        """Return the paper's bound on the same maximum, to reproduce its figures (T2)."""
        return self.largest(y_bound, t_bound)

    def steepest(self, y_bound: float, t_bound: float) -> float:
        """Return the largest slope in t, in absolute value, over |y| <= y_bound, |t| <= t_bound.

        Objective perturbation needs it, and the largest curvature (T27).
        """
        raise InputError(_KINKED.format(self.name))

    def most_curved(self) -> float:
        """Return the largest second derivative in t."""
        raise InputError(_KINKED.format(self.name))

    @staticmethod
    @abstractmethod
    def rows(
        y: Floats,
        w: Floats,
        sigma: float,
        parameters: Floats,
        value: Floats,
        slope: Floats,
        curve: Floats,
    ) -> None:
        """Fill value, slope and curvature in w of the envelope min_u l(y, u) + sigma/2 (w-u)^2.

        At sigma = infinity that is the loss itself, with a slope out of its subdifferential. The
        slope is where a sigma-step of the conjugate leads, so it must lie in its domain. Numba
        compiles the function: write loops over rows.
        """

    def fit(
        self,
        columns: Floats,
        y: Floats,
        ridge: float,
        radius: float,
        *,
        start: Fit | None = None,
        gap: float = 0.0,
        enough: float = np.inf,
        allowance: Allowance | None = None,
    ) -> Fit:
        """Minimise sum l(y, columns @ beta) + ridge |beta|^2 over |beta| <= radius.

        Goes on until primal - dual <= gap, or as far as rounding allows; ends early once the
        dual is at least `enough`. `start` is a fit on the same rows to begin from; its columns may
        be fewer. OutOfTime if the allowance has no seconds left.
        """
        allowance = allowance or Allowance(None)
        k = columns.shape[1]
        beta, a = np.zeros(k), np.zeros(y.size)
        if start is not None:
            known = start.coefficients[:k]
            beta[: known.size] = known
            a[:] = start.point
        table = np.ascontiguousarray(columns.T)
        primal, dual = fit_rows(
            *self.compiled(), table, y, ridge, radius, beta, a, gap, enough, allowance.watch
        )
        allowance.check_watch()
        return Fit(beta, float(primal), float(dual), a)

    def compiled(self) -> tuple[Any, Floats, bool]:
        """Return what the compiled fit needs to know of the loss."""
        return (
            compiled_rows(type(self).rows),
            np.array(self.parameters, dtype=np.float64),
            self.smooth,
        )

    def slopes(self, y: Floats, t: Floats) -> Floats:
        """Return a slope of the loss in t for every row, a point of the conjugate's domain."""
        rows, parameters, _ = self.compiled()
        _, slope, _ = envelope(rows, parameters, y, t, np.inf)
        return np.asarray(slope)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.parameters))})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.parameters == getattr(other, "parameters", None)

    def __hash__(self) -> int:
        return hash((type(self), self.parameters))


_POINTERS: dict[tuple[Callable[..., None], bool], Any] = {}


def compiled_rows(rows: Callable[..., None]) -> Any:
    """Compile a loss's row function once."""
    key = rows, is_plain()
    if key not in _POINTERS:
        _POINTERS[key] = pointer(rows)
    return _POINTERS[key]
