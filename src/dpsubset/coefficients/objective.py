"""Objective perturbation: the minimiser of a loss plus a random linear term (T27)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpsubset.arrays import Floats
from dpsubset.checks import positive, whole
from dpsubset.coefficients.base import CoefficientMechanism, Coefficients
from dpsubset.coefficients.minimum import minimise
from dpsubset.docstrings import documented, documented_like
from dpsubset.errors import InputError
from dpsubset.privacy import Randomness
from dpsubset.problem import Problem, check_problem

__all__ = ["Constants", "ObjectivePerturbation", "objective_perturbation"]

_INEXACT = 1e-7  # how far from the exact minimiser a fit may be, in units of the radius
_MASK_SHARE = 0.01  # of epsilon: noise that hides where in that distance the fit is
_PULL = 0.7
_LARGEST_RIDGE = 1e15
_BISECTIONS = 20
_GRID = 2.0**-10  # of that noise: coefficients are rounded to a grid


@dataclass(frozen=True)
class Constants:
    """The public numbers of one release.

    `epsilon` = `noise_epsilon` + `curvature_epsilon` + `mask_epsilon`.
    """

    row: float  # largest norm of a row on the support
    parts: tuple[int, ...]  # columns of each part of a row that has a bound of its own
    slope: float  # largest norm of a row's gradient, in each of these parts
    curvature: float  # largest curvature of a row's loss
    ridge: float  # weight of the squared norm, at least the problem's
    noise_epsilon: float  # spent on the linear term
    curvature_epsilon: float  # spent on how a row changes the volume around the minimiser
    mask_epsilon: float  # spent on the inexactness of the fit
    scale: float  # of the linear term
    inexact: float  # largest distance of the fit from the minimiser
    mask: float  # scale of the noise that hides it


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class ObjectivePerturbation(CoefficientMechanism):
    """Minimise the loss plus ridge, plus a random linear term, over the ball (T27, T45).

    The loss must have bounded slope and curvature: squared, huber, logistic, huber_hinge. The
    smaller its slope, the smaller the noise, so huber is far better than squared where residuals
    are small against the bounds.

    Parameters
    ----------
    delta : float
        With 0 the linear term is of the shape of a row's gradients, with a Gamma-distributed size,
        and privacy is pure; above 0 it is Gaussian.
    row_bound : float, optional
        Rows whose norm on the support is larger are scaled down to it. By default the largest norm
        that the bounds allow, x_bound sqrt(size), so that no row is changed.
    curvature_share : float, optional
        The part of epsilon that may be spent on curvature; a smaller part means a larger ridge,
        which pulls the coefficients to zero, and less noise. By default the two are balanced.
    tolerance : float, optional
        Raise the ridge until the noise is expected to cost each row at most so much loss (T42), so
        that with too little budget coefficients fall back to zero instead of noise. By default the
        ridge is the problem's.
    rows : int, optional
        With a tolerance: the number of rows to count on, as public knowledge. Under add-remove it
        must be given; under replace-one it is the table's by default.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Problem
    >>> X = np.vstack([np.eye(3)] * 2000); y = 0.5 * X[:, 0]
    >>> problem = Problem(X, y, size=1, loss="huber", x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> fit = ObjectivePerturbation(epsilon=1.0).release(problem, [0], random_state=0)
    >>> round(fit.values[0], 1)
    0.5
    """

    name = "objective perturbation"

    row_bound: float | None = None
    curvature_share: float | None = None
    tolerance: float | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.row_bound is not None:
            self.row_bound = positive(self.row_bound, "row_bound")
        share = self.curvature_share
        if share is not None and not positive(share, "curvature_share") <= 0.9:
            raise InputError(f"curvature_share must lie between 0 and 0.9, not {share!r}")
        if self.tolerance is not None:
            self.tolerance = positive(self.tolerance, "tolerance")
            if self.neighbours != "replace-one" and self.rows is None:
                raise InputError(
                    "tolerance is a loss per row, and under add-remove the number of rows is "
                    "private: give rows, if a number is public, or a problem with a ridge"
                )
        if self.rows is not None:
            self.rows = whole(self.rows, "rows", 1)
            if self.tolerance is None:
                raise InputError("rows are for a tolerance: give one, or leave rows out")

    def sensitivity(self, problem: Problem) -> float:
        """Return how far one row moves the gradient of the sum."""
        return self._shift(self.constants(problem).slope)

    def _shift(self, slope: float) -> float:
        return 2.0 * slope if self.neighbours == "replace-one" else slope

    def constants(self, problem: Problem, support: Sequence[int] | None = None) -> Constants:
        """Return the public numbers: bounds on a row's part, the budget's split, the noise.

        Of a support that is public, or of the widest that there can be.
        """
        check_problem(problem)
        widths = problem.widest if support is None else problem.features.widths[list(support)]
        row = problem.x_bound * math.sqrt(problem.size)
        parts, part = tuple(int(w) for w in widths), problem.x_bound
        if self.row_bound is not None:
            row = min(row, self.row_bound)
        if self.delta or row < problem.x_bound * math.sqrt(problem.size):
            parts, part = (sum(parts),), row  # a bound on the whole row only
        steepest = problem.loss.steepest(problem.y_bound, problem.radius * row)
        slope = part * steepest
        curvature = row**2 * problem.loss.most_curved()
        mask_epsilon = _MASK_SHARE * self.epsilon
        share = self.curvature_share
        if share is None:
            # With a part s the noise has length about noise / (1 - s), the ridge pulls like
            # pull / s; this s makes the sum least. The weight of the two was found by trying.
            noise = math.sqrt(self._shift(slope)) * _squared(parts) ** 0.25
            pull = math.sqrt(_PULL * curvature * problem.radius)
            share = min(0.9, pull / (noise + pull))
        # Below a thousandth of a row's curvature a ridge saves nothing and costs precision.
        spent = min(share * self.epsilon, math.log1p(500.0))
        least = curvature / (2.0 * math.expm1(spent))
        ridge = max(problem.ridge, least)
        if self.tolerance is not None:
            ridge = self._tolerant(problem, parts, slope, curvature, ridge)
        curvature_epsilon = math.log1p(curvature / (2.0 * ridge))
        noise_epsilon = self.epsilon - curvature_epsilon - mask_epsilon
        inexact = _INEXACT * problem.radius
        return Constants(
            row,
            parts,
            slope,
            curvature,
            ridge,
            noise_epsilon,
            curvature_epsilon,
            mask_epsilon,
            self._scale(self._shift(slope), noise_epsilon),
            inexact,
            2.0 * inexact * math.sqrt(sum(parts)) / mask_epsilon,
        )

    def _tolerant(
        self,
        problem: Problem,
        parts: tuple[int, ...],
        slope: float,
        curvature: float,
        least: float,
    ) -> float:
        """Return the least ridge, from `least` on, whose noise costs the rows little (T42).

        A larger ridge leaves more of epsilon for the noise, too, so the cost falls with it.
        """
        assert self.tolerance is not None
        allowed = self.tolerance * max(self.rows or problem.n_rows, 1)
        left = (1.0 - _MASK_SHARE) * self.epsilon
        squared = sum(parts) if self.delta else _squared(parts)

        def cost(ridge: float) -> float:
            scale = self._scale(self._shift(slope), left - math.log1p(curvature / (2.0 * ridge)))
            return squared * scale**2 / (16.0 * ridge)

        high = least
        while cost(high) > allowed and high < _LARGEST_RIDGE:
            high *= 2.0
        low = max(least, high / 2.0)
        for _ in range(_BISECTIONS):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if cost(middle) <= allowed else (middle, high)
        return high

    def _scale(self, shift: float, epsilon: float) -> float:
        """Return the scale of the linear term for a gradient that one row moves by `shift`."""
        if not self.delta:
            return shift / epsilon
        # The part of the Gaussian term that meets the changed rows has two dimensions, or one.
        if self.neighbours == "replace-one":
            t = math.sqrt(-2.0 * math.log(self.delta))
        else:
            t = float(-ndtri(self.delta / 2.0))
        return shift * (t + math.sqrt(t**2 + 2.0 * epsilon)) / (2.0 * epsilon)

    def _fit(self, problem: Problem, support: tuple[int, ...], randomness: Randomness) -> Floats:
        given = self.constants(problem, support)
        X = problem.design.take(problem.features.columns(support))
        norms = np.linalg.norm(X, axis=1)
        long = norms > given.row
        X[long] *= (given.row / norms[long])[:, None]
        found = minimise(
            problem.loss,
            X,
            problem.y,
            given.ridge,
            problem.radius,
            self._term(given.parts, given.scale, randomness),
            given.ridge * given.inexact,
        )
        masked = found + given.mask * randomness.laplaces(X.shape[1])
        masked *= min(1.0, problem.radius / max(float(np.linalg.norm(masked)), 1e-300))
        grid = 2.0 ** math.floor(math.log2(given.mask * _GRID))
        return np.trunc(masked / grid) * grid  # towards zero: it stays in the ball

    def _term(self, parts: tuple[int, ...], scale: float, randomness: Randomness) -> Floats:
        """Draw the linear term: density exp(-|b| / scale), or Gaussian.

        |b| is the largest of the norms of its parts: a Gamma-distributed number times a point of
        the body where that is at most 1, a product of balls (T45).
        """
        size = sum(parts)
        direction = randomness.normals(size)
        if self.delta:
            return scale * direction
        starts = np.concatenate([[0], np.cumsum(parts)[:-1]]).astype(np.intp)
        norms = np.sqrt(np.add.reduceat(direction**2, starts))
        lengths = randomness.uniforms(len(parts)) ** (1.0 / np.array(parts))
        times = scale * float(randomness.exponentials(size + 1).sum())
        return np.asarray(times * np.repeat(lengths / norms, parts) * direction)


def _squared(parts: Sequence[int]) -> float:
    """Return the expected squared norm of a linear term of scale 1 (T45).

    >>> _squared([2]), _squared([1, 1])  # a bound on the whole row, or on each of two entries
    (6.0, 8.0)
    """
    size = sum(parts)
    return (size + 1) * (size + 2) * math.fsum(width / (width + 2) for width in parts)


@documented_like(CoefficientMechanism, CoefficientMechanism.release)
def objective_perturbation(
    problem: Problem, support: Iterable[int], epsilon: float, **options: Any
) -> Coefficients:
    """Release coefficients on a support by objective perturbation; options as for the class.

    Parameters
    ----------
    **options : dict
        Further parameters of `ObjectivePerturbation`.

    Returns
    -------
    Coefficients
        The coefficients, and what they guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> from dpsubset import Problem
    >>> X = np.vstack([np.eye(3)] * 2000); y = 0.5 * X[:, 0]
    >>> problem = Problem(X, y, size=1, loss="huber", x_bound=1.0, y_bound=1.0, radius=1.0)
    >>> round(objective_perturbation(problem, [0], 1.0, random_state=0).values[0], 1)
    0.5
    """
    random_state = options.pop("random_state", None)
    return ObjectivePerturbation(epsilon, **options).release(problem, support, random_state)
