"""Does a loss keep its word? Its value, conjugate, largest value and rows against each other.

A wrong conjugate gives bounds that do not hold, a largest value or a spread that is too small gives
noise that is too small: both would break the privacy of every release without a sign. All numbers
in the errors are synthetic; no data is touched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpsubset.arrays import Floats
from dpsubset.errors import InputError
from dpsubset.losses.base import Loss
from dpsubset.losses.fitting import envelope, penalty_conjugate

__all__ = ["check"]

_ROWS = 400
_FAR = 30.0  # how far predictions go where a supremum is sought, against the bounds
_SHARP = (0.3, 3.0, 100.0)  # of the envelopes that are tried
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True)
class _Sample:
    """Synthetic rows for the check, and the scale of the loss over them."""

    y: Floats
    t: Floats
    y_bound: float
    t_bound: float
    scale: float

    @property
    def far(self) -> float:
        return _FAR * (self.y_bound + self.t_bound)


def check(loss: Loss, *, y_bound: float = 1.0, t_bound: float = 2.0, random_state: int = 0) -> None:
    """Raise InputError when the parts of a loss do not belong together; say which, and where.

    Looks at targets up to y_bound (labels -1 and +1 for classification) and predictions up to
    t_bound, so choose them as your data has them. A check by numbers finds faults, it proves
    nothing.

    Parameters
    ----------
    loss : Loss
        The loss.
    y_bound : float
        The largest target.
    t_bound : float
        The largest prediction.
    random_state : int
        Where the numbers to try begin.

    Examples
    --------
    >>> from dpsubset.losses import Huber
    >>> check(Huber(0.5))
    """
    if not isinstance(loss, Loss):
        raise InputError("check takes a loss, such as Huber(0.1), not its class or its name")
    if not (0.0 < y_bound < np.inf and 0.0 < t_bound < np.inf):
        raise InputError("y_bound and t_bound must be positive numbers")
    rng = np.random.default_rng(random_state)
    sample = _sample(loss, float(y_bound), float(t_bound), rng)
    _check_convex(loss, sample, rng)
    _check_largest(loss, sample, rng)
    _check_spread(loss, sample)
    _check_conjugate(loss, sample, rng)
    _check_rows(loss, sample, rng)
    if loss.symmetric:
        _check_symmetric(loss, sample)
    if loss.smooth:
        _check_smooth(loss, sample)
    if _has_slopes(loss):
        _check_slopes(loss, sample)
    _check_fit(loss, sample, rng)


def _has_slopes(loss: Loss) -> bool:
    """Say whether a loss bounds its slopes; one that wraps another, if that one does."""
    while isinstance(inner := getattr(loss, "loss", None), Loss):
        loss = inner
    return type(loss).steepest is not Loss.steepest


def _fault(loss: Loss, what: str, remedy: str, **numbers: float) -> InputError:
    where = ", ".join(f"{name}={value:.12g}" for name, value in numbers.items())
    return InputError(f"the loss {loss.name!r}: {what}, at {where}; {remedy}")


def _targets(loss: Loss, y_bound: float, size: int, rng: np.random.Generator) -> Floats:
    if loss.classification:
        return rng.choice([-1.0, 1.0], size)
    return np.clip(rng.uniform(-1.1 * y_bound, 1.1 * y_bound, size), -y_bound, y_bound)


def _sample(loss: Loss, y_bound: float, t_bound: float, rng: np.random.Generator) -> _Sample:
    """Make up rows, among them the corners, t = 0 and t = y; see that all values are numbers."""
    if loss.classification:
        y_bound = 1.0
    y = _targets(loss, y_bound, _ROWS, rng)
    t = np.clip(rng.uniform(-1.1 * t_bound, 1.1 * t_bound, _ROWS), -t_bound, t_bound)
    t[:20] = 0.0
    t[20:40] = np.clip(y[20:40], -t_bound, t_bound)
    y[40:44] = np.array([-1.0, -1.0, 1.0, 1.0]) * y_bound
    t[40:44] = np.array([-1.0, 1.0, -1.0, 1.0]) * t_bound
    value = np.asarray(loss.value(y, t), dtype=np.float64)
    if value.shape != y.shape:
        raise InputError(
            f"the loss {loss.name!r}: value gives shape {value.shape} for {y.shape} rows; return "
            "one number a row"
        )
    bad = ~(np.isfinite(value) & (value >= 0.0))
    if bad.any():
        i = int(np.argmax(bad))
        raise _fault(
            loss,
            f"the value is {value[i]:.6g}",
            "a loss is a number and never negative: the sensitivity of the scores rests on it",
            y=y[i],
            t=t[i],
        )
    if not value.max() > 0.0:
        raise InputError(f"the loss {loss.name!r}: the value is zero everywhere")
    return _Sample(y, t, y_bound, t_bound, float(value.max()))


def _check_convex(loss: Loss, sample: _Sample, rng: np.random.Generator) -> None:
    """Compare every value between two predictions with the chord."""
    y = np.tile(sample.y, 5)
    t = np.tile(sample.t, 5)
    u = rng.permutation(t)
    share = rng.uniform(0.0, 1.0, t.size)
    middle = loss.value(y, share * t + (1.0 - share) * u)
    chord = share * loss.value(y, t) + (1.0 - share) * loss.value(y, u)
    above = middle - chord
    i = int(np.argmax(above))
    if not above[i] <= 1e-9 * sample.scale:
        raise _fault(
            loss,
            f"the value {middle[i]:.6g} between two predictions is above their chord "
            f"{chord[i]:.6g}",
            "a loss must be convex in the prediction",
            y=y[i],
            t=t[i],
            u=u[i],
        )


def _check_slopes(loss: Loss, sample: _Sample) -> None:
    """Compare slopes, and how fast they change, with the bounds: noise is scaled by them (T27)."""
    step = 1e-4 * sample.t_bound
    t = np.clip(sample.t, -sample.t_bound + step, sample.t_bound - step)
    ahead, behind = loss.slopes(sample.y, t + step), loss.slopes(sample.y, t - step)
    found = {
        "steepest": (np.abs(loss.slopes(sample.y, sample.t)), sample.t),
        "most_curved": ((ahead - behind) / (2.0 * step), t),
    }
    given = {
        "steepest": loss.steepest(sample.y_bound, sample.t_bound),
        "most_curved": loss.most_curved(),
    }
    for name, (values, at) in found.items():
        i = int(np.argmax(values))
        if not values[i] <= given[name] * (1.0 + 1e-6):
            raise _fault(
                loss,
                f"{name} is {given[name]:.6g}, and the rows show {values[i]:.6g}",
                f"{name} must not be smaller: the noise of coefficients is scaled by it",
                y=sample.y[i],
                t=at[i],
            )


def _check_largest(loss: Loss, sample: _Sample, rng: np.random.Generator) -> None:
    """Look for a value above the largest, also for other bounds."""
    for factor in (0.1, 1.0, 10.0):
        y_bound = sample.y_bound * (1.0 if loss.classification else factor)
        y = sample.y if loss.classification else sample.y * factor
        t = sample.t * factor
        top = loss.largest(y_bound, sample.t_bound * factor)
        value = loss.value(y, t)
        i = int(np.argmax(value))
        if not (np.isfinite(top) and value[i] <= top * (1.0 + 1e-9)):
            raise _fault(
                loss,
                f"largest({y_bound:g}, {sample.t_bound * factor:g}) is {top:.6g}, yet the value "
                f"is {value[i]:.6g}",
                "return a maximum over |y| <= y_bound and |t| <= t_bound: noise is scaled by it",
                y=y[i],
                t=t[i],
            )


def _check_spread(loss: Loss, sample: _Sample) -> None:
    """Look for a target whose loss moves by more than the spread, also for other bounds (T38)."""
    for wide, far in itertools.product((0.1, 1.0, 10.0), (0.01, 0.1, 1.0, 10.0)):
        if loss.classification and wide != 1.0:
            continue
        y, y_bound, t_bound = sample.y * wide, sample.y_bound * wide, sample.t_bound * far
        end = np.full(y.size, t_bound)
        values = partial(loss.value, y)
        ends = values(-end), values(end)  # a convex loss is largest at an end
        least = np.minimum(values(_lowest(values, -end, end)), np.minimum(*ends))
        moved = np.maximum(*ends) - least
        given = loss.spread(y_bound, t_bound)
        i = int(np.argmax(moved))
        if not (np.isfinite(given) and moved[i] <= given * (1.0 + 1e-9)):
            raise _fault(
                loss,
                f"spread({y_bound:g}, {t_bound:g}) is {given:.6g}, yet the values of one target "
                f"differ by {moved[i]:.6g}",
                "return the largest difference of two values over |t| <= t_bound with the same y, "
                "or leave spread out: noise is scaled by it",
                y=y[i],
            )


def _lowest(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Return where convex functions, one a row, are lowest between two ends: golden section."""
    low, high = low.copy(), high.copy()
    for _ in range(120):
        width = _GOLDEN * (high - low)
        left, right = high - width, low + width
        down = function(left) > function(right)
        low, high = np.where(down, left, low), np.where(down, high, right)
    return 0.5 * (low + high)


def _check_conjugate(loss: Loss, sample: _Sample, rng: np.random.Generator) -> None:
    """Compare the conjugate with the supremum, found by search, inside and outside its domain."""
    y = np.tile(sample.y, 3)
    far = np.full(y.size, sample.far)
    step = 1e-6 * sample.t_bound
    steep = np.abs(loss.value(y, far) - loss.value(y, far - step)) / step
    steep = np.maximum(steep, np.abs(loss.value(y, -far) - loss.value(y, step - far)) / step)
    near = np.abs(loss.value(y, far / _FAR) - loss.value(y, far / _FAR - step)) / step
    a = rng.uniform(-1.5, 1.5, y.size) * np.where(rng.random(y.size) < 0.5, steep, near)
    a[: sample.y.size // 4] = 0.0
    given = np.asarray(loss.conjugate(y, a), dtype=np.float64)

    def shortfall(t: Floats) -> Floats:
        return np.asarray(loss.value(y, t) - a * t)

    where = _lowest(shortfall, -far, far)
    for end in (-far, far):
        where = np.where(shortfall(end) < shortfall(where), end, where)
    supremum = -shortfall(where)
    tolerance = 1e-7 * (sample.scale + np.abs(supremum))
    inner = np.abs(where) < 0.9 * far
    with np.errstate(over="ignore", invalid="ignore"):  # so far out that any curvature has told
        beyond = -shortfall(np.sign(where) * 1e6 * far)
    endless = ~inner & (beyond > supremum + 0.1 * np.abs(supremum) + tolerance)
    for wrong, what, remedy in (
        (np.isnan(given), "is not a number", "return infinity outside the domain"),
        (
            ~np.isnan(given) & (given < supremum - tolerance),
            "is below a t - value: bounds on scores would not hold",
            "return the supremum over all t of a t - value, infinity outside the domain",
        ),
        (
            inner & (given > supremum + tolerance),
            "is above the supremum of a t - value",
            "return the supremum itself, and infinity only where it is infinite",
        ),
        (
            endless & np.isfinite(given),
            "is finite where a t - value grows without end",
            "return infinity outside the domain",
        ),
    ):
        if wrong.any():
            i = int(np.argmax(wrong))
            raise _fault(
                loss,
                f"the conjugate {given[i]:.6g} {what} (supremum {supremum[i]:.6g})",
                remedy,
                y=y[i],
                a=a[i],
                t=where[i],
            )


def _rows(loss: Loss, y: Floats, w: Floats, sigma: float) -> Floats:
    """Return value, slope and curvature as the compiled fit sees them."""
    rows, parameters, _ = loss.compiled()
    return np.asarray(envelope(rows, parameters, y, w, sigma))


def _compiles(loss: Loss, sample: _Sample) -> None:
    try:
        _rows(loss, sample.y, sample.t, np.inf)
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise InputError(
            f"the loss {loss.name!r}: rows cannot be compiled ({type(error).__name__}: {first}); "
            "write plain loops over rows that fill value, slope and curve"
        ) from error


def _check_rows(loss: Loss, sample: _Sample, rng: np.random.Generator) -> None:
    """Compare the envelope with its definition, its slope and its curvature with differences."""
    _compiles(loss, sample)
    y, w = sample.y, sample.t
    h = 1e-5 * (sample.t_bound + sample.y_bound)
    for sigma in (np.inf, *_SHARP):
        value, slope, curve = _rows(loss, y, w, sigma)
        below, at_left, _ = _rows(loss, y, w - h, sigma)
        above, at_right, _ = _rows(loss, y, w + h, sigma)
        right_value = loss.value(y, w)
        if sigma < np.inf:
            right_value = _envelope(loss, y, w, sigma, sample)
        conjugate = np.asarray(loss.conjugate(y, slope), dtype=np.float64)
        told = slope * (w - slope / (2.0 * sigma)) - value  # the conjugate, as the fit sees it
        near = 1e-7 * (sample.scale + np.abs(right_value))
        rough = 1e-4 * (np.abs(slope) + sample.scale / sample.t_bound)
        left, right = (at_left - slope) / -h, (at_right - slope) / h
        settled = np.abs(left - right) <= 1e-3 * (np.abs(left) + np.abs(right)) + 1e-6
        used = loss.smooth or sigma < np.inf  # otherwise the curvature is not looked at
        tests = (
            (np.abs(value - right_value) <= near, "value", value, "min over u of value(y, u) + "
             "sigma/2 (w - u)^2, or value(y, w) at sigma = infinity"),
            ((slope >= (value - below) / h - rough) & (slope <= (above - value) / h + rough),
             "slope", slope, "the derivative of the envelope in w"),
            (np.isfinite(conjugate), "slope", slope, "a point of the conjugate's domain, also "
             "after rounding"),
            (np.abs(conjugate - told) <= 10.0 * near, "slope", slope, "the point at which the "
             "conjugate is slope * u - value(y, u), with u the minimiser"),
            (((curve >= 0.0) & (curve < np.inf)) if used else np.full(y.size, True),
             "curve", curve, "finite and not negative"),
            (~settled | (np.abs(curve - left) <= 1e-2 * np.abs(left) + 1e-3) if used
             else np.full(y.size, True), "curve", curve, "the second derivative of the envelope"),
        )  # fmt: skip
        for good, name, given, wanted in tests:
            if not good.all():
                i = int(np.argmin(good))
                raise _fault(
                    loss,
                    f"rows gives the {name} {given[i]:.6g}",
                    f"the {name} must be {wanted}",
                    y=y[i],
                    t=w[i],
                    a=slope[i],
                    sigma=sigma,
                )


def _envelope(loss: Loss, y: Floats, w: Floats, sigma: float, sample: _Sample) -> Floats:
    """Return the Moreau envelope by search."""

    def cost(u: Floats) -> Floats:
        return np.asarray(loss.value(y, u) + 0.5 * sigma * (w - u) ** 2)

    reach = np.sqrt(2.0 * loss.value(y, w) / sigma) + 1e-9  # further away the square alone is more
    return np.minimum(cost(_lowest(cost, w - reach, w + reach)), cost(w))


def _check_symmetric(loss: Loss, sample: _Sample) -> None:
    """Compare values at (y, t) and (-y, -t)."""
    off = np.abs(loss.value(sample.y, sample.t) - loss.value(-sample.y, -sample.t))
    i = int(np.argmax(off))
    if off[i] > 1e-9 * sample.scale:
        raise _fault(
            loss,
            f"symmetric is True, yet the values at (y, t) and (-y, -t) differ by {off[i]:.6g}",
            "set symmetric = False",
            y=float(sample.y[i]),
            t=float(sample.t[i]),
        )


def _check_smooth(loss: Loss, sample: _Sample) -> None:
    """Follow the largest jump of the slope to see whether it is one."""
    for target in np.unique(sample.y)[:: max(1, np.unique(sample.y).size // 8)]:
        grid = np.linspace(-sample.far, sample.far, 4001)
        for _ in range(8):
            slope = _rows(loss, np.full(grid.size, target), grid, np.inf)[1]
            i = int(np.argmax(np.abs(np.diff(slope))))
            jump = abs(slope[i + 1] - slope[i])
            grid = np.linspace(grid[i], grid[i + 1], 11)
        if jump > 1e-3 * max(sample.scale / sample.t_bound, float(np.abs(slope).max())):
            raise _fault(
                loss,
                f"smooth is True, yet the slope jumps by {jump:.6g}",
                "set smooth = False",
                y=float(target),
                t=float(grid[0]),
            )


def _check_fit(loss: Loss, sample: _Sample, rng: np.random.Generator) -> None:
    """Fit a small table; recompute both sides of the score, and let scipy look for a lower one."""
    from scipy.optimize import minimize  # slow to load, and for this check alone

    n, k = 40, 2
    X = rng.uniform(-1.0, 1.0, (n, k))
    y = _targets(loss, sample.y_bound, n, rng)
    for ridge, radius in ((0.0, sample.t_bound), (0.5, 0.5 * sample.t_bound)):
        fit = loss.fit(X, y, ridge, radius)

        def score(beta: Floats, ridge: float = ridge, radius: float = radius) -> float:
            if beta @ beta > radius**2 * (1.0 + 1e-12):
                return np.inf
            return float(loss.value(y, X @ beta).sum() + ridge * beta @ beta)

        dual = -loss.conjugate(y, fit.point).sum()
        dual -= penalty_conjugate(X.T @ fit.point, ridge, radius)
        found = min(
            minimize(score, start, method="Nelder-Mead", options={"xatol": 1e-9}).fun
            for start in (np.zeros(k), 0.99 * fit.coefficients)
        )
        scale = n * loss.largest(sample.y_bound, radius * np.sqrt(k))
        for good, what in (
            (abs(score(fit.coefficients) - fit.primal) <= 1e-9 * scale, "its value is not that "
             "of its coefficients"),
            (abs(dual - fit.dual) <= 1e-9 * scale, "its lower bound is not that of its dual point"),
            (fit.primal - fit.dual <= 1e-8 * scale, "its two sides do not meet"),
            (fit.primal <= found + 1e-8 * scale, "scipy finds a lower value"),
            (fit.dual <= found + 1e-8 * scale, "scipy finds a value below its lower bound"),
        ):  # fmt: skip
            if not good:
                raise _fault(
                    loss,
                    f"in a fit on {n} rows {what}",
                    "look at rows: its slope and curvature must be those of the envelope",
                    primal=fit.primal,
                    dual=fit.dual,
                    scipy=found,
                )
