"""The minimiser of a smooth loss with a ridge and a linear term over a ball, certified."""

from __future__ import annotations

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.errors import UnprovenError
from dpsubset.losses import Loss
from dpsubset.losses.ball import spectral
from dpsubset.losses.fitting import envelope
from dpsubset.sums import products

__all__ = ["IMPRECISE", "minimise"]

IMPRECISE = (
    "the coefficients could not be computed as precisely as the guarantee needs, so nothing is "
    "released; whether that happens depends on the data, so count the budget as spent. A larger "
    "ridge for the coefficients helps"
)
_STEPS = 200
_HALVINGS = 40


def minimise(
    loss: Loss, X: Floats, y: Floats, ridge: float, radius: float, term: Floats, residual: float
) -> Floats:
    """Minimise sum l(y, X beta) + ridge |beta|^2 + term'beta over |beta| <= radius.

    Newton's method with a minimum over the ball in every step, until beta is proven to be within
    residual / (2 ridge) of the minimiser (T27). Inside the ball it then solves exactly a problem
    whose linear term differs by at most `residual`, and its value is within residual^2 / (4 ridge)
    of the least one.

    >>> from dpsubset.losses import Squared
    >>> X, y = np.array([[1.0], [1.0]]), np.array([1.0, 0.0])
    >>> minimise(Squared(), X, y, 1.0, 1.0, np.zeros(1), 1e-9)
    array([0.33333333])
    """
    rows, parameters, _ = loss.compiled()
    beta = np.zeros(X.shape[1])
    value, gradient, half = _around(rows, parameters, X, y, term, beta)
    for _ in range(_STEPS):
        if _residual(gradient, ridge, radius, beta) <= residual:
            return beta
        new = np.empty_like(beta)
        # By eigenvalues: where columns depend on each other, nothing else meets the sphere exactly.
        spectral(half, half @ beta - 0.5 * gradient, ridge, radius, new)
        least = value + ridge * float(beta @ beta)
        slope = float((gradient + 2.0 * ridge * beta) @ (new - beta))
        share = 1.0
        for _ in range(_HALVINGS):
            trial = new if share == 1.0 else beta + share * (new - beta)
            value, gradient, half = _around(rows, parameters, X, y, term, trial)
            rise = value + ridge * float(trial @ trial) - least
            # Near the minimum the values are equal to rounding, and the step is to be trusted.
            if rise <= 1e-4 * share * slope + 1e-13 * abs(least):
                break
            share /= 2.0
        beta = trial
    raise UnprovenError(IMPRECISE)


def _around(
    rows: object, parameters: Floats, X: Floats, y: Floats, term: Floats, beta: Floats
) -> tuple[float, Floats, Floats]:
    """Return value, gradient and half the Hessian without the ridge."""
    values, slopes, curves = envelope(rows, parameters, y, X @ beta, np.inf)
    value = float(values.sum()) + float(term @ beta)
    return value, products(X, slopes) + term, 0.5 * (X.T @ (curves[:, None] * X))


def _residual(gradient: Floats, ridge: float, radius: float, beta: Floats) -> float:
    """Return 2 ridge times a bound on the distance to the minimiser.

    That is by how much the linear term would have to change for beta to be the minimiser. On the
    sphere the ball pushes back along beta, and the harder it pushes, the less such a change moves.
    """
    full = gradient + 2.0 * ridge * beta
    norm2, push = float(beta @ beta), 0.0
    if norm2 >= (radius * (1.0 - 1e-14)) ** 2:
        push = max(0.0, -float(full @ beta) / norm2)
    return float(np.linalg.norm(full + push * beta)) * ridge / (ridge + push / 4.0)
