"""What every loss promises, each property with a twin: a broken loss that it must catch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from losses.cases import CASES, Case, penalty, size

from dpsubset.arrays import Floats
from dpsubset.losses import Absolute, Fit, Hinge, Huber, Logistic, Loss, Quantile, Squared
from dpsubset.losses.fitting import envelope

SHARP = (0.3, 4.0, 500.0, np.inf)
Property = Callable[[Case], None]


def inside(case: Case, y: Floats, rng: np.random.Generator, reach: float = 8.0) -> Floats:
    """Draw points of the conjugate's domain, its ends among them."""
    ends = np.array([case.domain(v) for v in y])
    low, high = np.clip(ends[:, 0], -reach, reach), np.clip(ends[:, 1], -reach, reach)
    share = np.clip(rng.uniform(-0.1, 1.1, y.size), 0.0, 1.0)
    return np.where(share == 1.0, high, low + share * (high - low))


def table(case: Case, n: int, k: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, k))
    t = X @ rng.normal(size=k)
    if case.loss.classification:
        return X, np.where(t + rng.normal(size=n) > 0, 1.0, -1.0)
    return X, np.clip(t + 0.3 * rng.normal(size=n), -2, 2)


def unit(case: Case, X: Floats, y: Floats, radius: float) -> float:
    """Return n Delta, the unit of a fit's precision."""
    reach = radius * np.abs(X).max() * np.sqrt(X.shape[1])
    return y.size * case.loss.largest(float(np.abs(y).max()), float(reach))


def enclosed(case: Case, X: Floats, y: Floats, ridge: float, radius: float, fit: Fit) -> None:
    """Recompute both values of a fit from value, conjugate and the ball alone."""
    beta = fit.coefficients
    slack = 1e-14 * unit(case, X, y, radius)
    assert np.linalg.norm(beta) <= radius * (1 + 1e-14)
    value = case.loss.value(y, X @ beta).sum() + ridge * beta @ beta
    assert fit.primal == pytest.approx(value, abs=slack)
    dual = -case.loss.conjugate(y, fit.point).sum() - penalty(X.T @ fit.point, ridge, radius)
    assert fit.dual == pytest.approx(dual, abs=slack)
    assert fit.dual <= fit.primal + slack


def fenchel_young(case: Case) -> None:
    rng = np.random.default_rng(0)
    y = case.targets(2000, rng, 3.0)
    t = rng.uniform(-6, 6, y.size)
    a = inside(case, y, rng)
    conjugate = case.loss.conjugate(y, a)
    assert np.isfinite(conjugate).all()
    assert (case.loss.value(y, t) + conjugate - a * t >= -1e-12).all()


def fenchel_young_is_tight(case: Case) -> None:
    rng = np.random.default_rng(1)
    y = case.targets(2000, rng, 3.0)
    t = rng.uniform(-6, 6, y.size)
    a = case.loss.slopes(y, t)
    gap = case.loss.value(y, t) + case.loss.conjugate(y, a) - a * t
    assert np.abs(gap).max() <= 1e-12


def convex(case: Case) -> None:
    rng = np.random.default_rng(2)
    y = case.targets(20_000, rng, 3.0)
    t, u = rng.uniform(-6, 6, (2, y.size))
    value = case.loss.value
    assert (value(y, t) >= 0).all()
    assert (value(y, (t + u) / 2) <= (value(y, t) + value(y, u)) / 2 + 1e-12).all()


def conjugate_is_the_supremum(case: Case) -> None:
    rng = np.random.default_rng(3)
    y = case.targets(60, rng)
    a = inside(case, y, rng, reach=6.0)
    for target, point in zip(y, a, strict=True):
        grid = np.append(np.linspace(-40, 40, 80_001), target)  # every kink is at t = y
        brute = (point * grid - case.loss.value(target, grid)).max()
        given = float(case.loss.conjugate(target, point))
        assert brute - 1e-12 <= given <= brute + 1e-6


def conjugate_is_infinite_outside(case: Case) -> None:
    for y in (-1.0, 1.0) if case.loss.classification else (-1.0, 0.0, 0.4, 1.0):
        for end, way in zip(case.domain(y), (-1.0, 1.0), strict=True):
            if np.isfinite(end):
                for step in (1e-9, 1e-3, 1.0, 1e3):
                    assert case.loss.conjugate(np.array(y), np.array(end + way * step)) == np.inf
                assert np.isfinite(case.loss.conjugate(np.array(y), np.array(end)))


def largest_is_attained_and_never_exceeded(case: Case) -> None:
    rng = np.random.default_rng(4)
    for y_bound, t_bound in ((1.0, 2.0), (0.5, 0.1), (1.0, 30.0)):
        corner = 1.0 if case.loss.classification else y_bound
        y = case.targets(100_000, rng, corner)
        t = rng.uniform(-t_bound, t_bound, y.size)
        top = case.loss.largest(corner, t_bound)
        assert case.loss.value(y, t).max() <= top
        corners = case.loss.value(
            np.array([-1, -1, 1, 1]) * corner, np.array([-1, 1, -1, 1]) * t_bound
        )
        assert corners.max() == pytest.approx(top, rel=1e-15)
        assert case.loss.published(corner, t_bound) >= top * (1 - 1e-15)


def least(loss: Loss, y: float, w: float, sigma: float, reach: float) -> float:
    """Return the least value(y, u) + sigma (w - u)^2 / 2 up to `reach` away: ever finer grids.

    It is convex in u, so its minimum lies beside the best point of a grid; a kink may lie at y.
    """
    middle, best = w, np.inf
    for _ in range(3):
        u = np.append(middle + np.linspace(-reach, reach, 2_001), y)
        values = loss.value(y, u) + sigma / 2 * (w - u) ** 2
        middle, best = float(u[values.argmin()]), min(best, float(values.min()))
        reach /= 1_000
    return best


def rows_are_the_envelope(case: Case) -> None:
    rng = np.random.default_rng(5)
    y = case.targets(60, rng)
    w = rng.uniform(-3, 3, y.size)
    w[:10] = y[:10]  # kinks of the losses of y - t
    w[10:20] = y[10:20] + rng.normal(size=10) / 500
    rows, parameters, smooth = case.loss.compiled()
    h = 1e-6
    for sigma in SHARP:
        value, slope, curve = envelope(rows, parameters, y, w, sigma)
        left, left_slope, _ = envelope(rows, parameters, y, w - h, sigma)
        right, right_slope, _ = envelope(rows, parameters, y, w + h, sigma)
        for i in range(y.size):
            brute = float(case.loss.value(y[i], w[i]))
            if sigma < np.inf:  # the minimum is no further away than the square allows
                reach = np.sqrt(2 * brute / sigma)
                brute = least(case.loss, float(y[i]), float(w[i]), sigma, float(reach))
            assert value[i] == pytest.approx(brute, abs=1e-7)
        assert (slope >= (value - left) / h - 1e-6 * (1 + curve)).all()
        assert (slope <= (right - value) / h + 1e-6 * (1 + curve)).all()
        assert np.isfinite(case.loss.conjugate(y, slope)).all()
        assert (
            np.abs(case.loss.conjugate(y, slope) + value - slope * (w - slope / 2 / sigma)).max()
            <= 1e-12
        )
        if smooth or sigma < np.inf:
            one, other = (slope - left_slope) / h, (right_slope - slope) / h
            even = np.abs(one - other) <= 1e-4 * (1 + np.abs(one))
            assert even.mean() > 0.7
            assert (np.abs(curve - one)[even] <= 1e-3 * (1 + np.abs(one[even]))).all()


def fits_are_enclosed(case: Case) -> None:
    for seed in range(size(12, 4)):
        X, y = table(case, size(120, 30), 1 + seed % 6, seed)
        ridge, radius = [(0.0, 1.0), (2.0, 1.0), (0.0, 0.2), (50.0, 5.0)][seed % 4]
        fit = case.loss.fit(X, y, ridge, radius)
        enclosed(case, X, y, ridge, radius, fit)
        assert fit.primal - fit.dual <= 1e-11 * unit(case, X, y, radius)
        assert fit.primal - fit.dual <= 1e-8 * fit.primal


def fits_go_as_far_as_asked(case: Case) -> None:
    X, y = table(case, size(200, 30), 4, 7)
    for relative in (1e-2, 1e-5, 1e-8):
        exact = case.loss.fit(X, y, 1.0, 1.0)
        fit = case.loss.fit(X, y, 1.0, 1.0, gap=relative * exact.primal)
        enclosed(case, X, y, 1.0, 1.0, fit)
        assert fit.primal - fit.dual <= relative * exact.primal
        assert fit.dual <= exact.primal + 1e-12 * unit(case, X, y, 1.0)
        assert fit.primal >= exact.dual - 1e-12 * unit(case, X, y, 1.0)


def fits_start_anywhere(case: Case) -> None:
    X, y = table(case, size(150, 25), 6, 8)
    scale = unit(case, X, y, 1.0)
    for ridge in (0.0, 3.0):
        cold = case.loss.fit(X[:, :4], y, ridge, 1.0)
        fewer = case.loss.fit(X[:, :2], y, ridge, 1.0)
        sibling = case.loss.fit(X[:, 2:6], y, ridge, 1.0)
        outside = replace(cold, coefficients=np.full(4, 9.0), point=np.full(y.size, 1e3))
        for start in (cold, fewer, sibling, outside):
            fit = case.loss.fit(X[:, :4], y, ridge, 1.0, start=start)
            enclosed(case, X[:, :4], y, ridge, 1.0, fit)
            assert fit.primal - fit.dual <= 1e-11 * scale
            assert fit.primal == pytest.approx(cold.primal, abs=1e-11 * scale)


def fits_end_early(case: Case) -> None:
    X, y = table(case, size(200, 30), 5, 9)
    exact = case.loss.fit(X, y, 1.0, 1.0)
    empty = case.loss.value(y, np.zeros(y.size)).sum()
    for share in (0.1, 0.5, 0.9, 1.1):
        enough = share * exact.primal
        fit = case.loss.fit(X, y, 1.0, 1.0, enough=enough)
        enclosed(case, X, y, 1.0, 1.0, fit)
        assert fit.dual <= exact.primal + 1e-12 * unit(case, X, y, 1.0)
        assert fit.primal <= empty * (1 + 1e-12)
        assert fit.dual >= min(enough, exact.dual - 1e-11 * unit(case, X, y, 1.0))


def fits_without_rows_or_columns(case: Case) -> None:
    X, y = table(case, 12, 3, 10)
    none = case.loss.fit(X[:0], y[:0], 1.0, 1.0)
    assert (none.primal, none.dual) == (0.0, 0.0)
    empty = case.loss.fit(X[:, :0], y, 1.0, 1.0)
    assert empty.primal == pytest.approx(case.loss.value(y, 0 * y).sum(), rel=1e-15)
    enclosed(case, np.zeros((12, 1)), y, 1.0, 1.0, replace(empty, coefficients=np.zeros(1)))
    more = case.loss.fit(X, y, 1.0, 1.0, start=empty)
    assert more.primal == pytest.approx(case.loss.fit(X, y, 1.0, 1.0).primal, rel=1e-10)


PROPERTIES: list[Property] = [
    fenchel_young,
    fenchel_young_is_tight,
    convex,
    conjugate_is_the_supremum,
    conjugate_is_infinite_outside,
    largest_is_attained_and_never_exceeded,
    rows_are_the_envelope,
    fits_are_enclosed,
    fits_go_as_far_as_asked,
    fits_start_anywhere,
    fits_end_early,
    fits_without_rows_or_columns,
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_property(holds: Property, case: Case) -> None:
    holds(case)


class LowConjugate(Absolute):
    def conjugate(self, y: Floats, a: Floats) -> Floats:
        return super().conjugate(y, a) - 1e-3


class HighConjugate(Huber):
    def conjugate(self, y: Floats, a: Floats) -> Floats:
        return super().conjugate(y, a) + 1e-3 * a**2


class EndlessConjugate(Hinge):
    def conjugate(self, y: Floats, a: Floats) -> Floats:
        return a * y


class Dented(Squared):
    def value(self, y: Floats, t: Floats) -> Floats:
        return super().value(y, t) + 0.1 * np.cos(5 * t) + 0.1


class SmallLargest(Logistic):
    def largest(self, y_bound: float, t_bound: float) -> float:
        return 0.99 * super().largest(y_bound, t_bound)


class LooseLargest(Hinge):
    def largest(self, y_bound: float, t_bound: float) -> float:
        return 2.0 + t_bound


class WrongSign(Huber):
    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        c = parameters[0]
        for i in range(y.size):
            d = w[i] - y[i]
            value[i] = d * d if abs(d) <= c else c * (2.0 * abs(d) - c)
            slope[i] = -2.0 * min(max(d, -c), c)
            curve[i] = 2.0 if abs(d) <= c else 0.0


class Unsmoothed(Quantile):
    """Gives the loss itself where the envelope is asked for."""

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        for i in range(y.size):
            d = w[i] - y[i]
            slope[i] = parameters[1] if d > 0.0 else -parameters[0]
            value[i] = slope[i] * d
            curve[i] = 0.0


class Flat(Logistic):
    """A curvature that is too small by a factor."""

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        for i in range(y.size):
            m = y[i] * w[i]
            e = np.exp(-abs(m))
            value[i] = np.log1p(e) + max(-m, 0.0)
            slope[i] = -y[i] * (e if m > 0.0 else 1.0) / (1.0 + e)
            curve[i] = 0.5 * e / ((1.0 + e) * (1.0 + e))


def spoiled(base: type[Loss], change: Callable[[Fit], Fit]) -> type[Loss]:
    """Return a loss whose fits are spoiled afterwards."""

    class Spoiled(base):  # type: ignore[misc, valid-type]
        def fit(self, *args: Any, **options: Any) -> Fit:
            return change(super().fit(*args, **options))

    return Spoiled


Inflated = spoiled(Absolute, lambda fit: replace(fit, dual=fit.dual * (1 + 1e-9) + 1e-9))
Optimistic = spoiled(Hinge, lambda fit: replace(fit, primal=fit.primal * (1 - 1e-9)))
OffPoint = spoiled(Logistic, lambda fit: replace(fit, point=0.999 * fit.point))
Outside = spoiled(Huber, lambda fit: replace(fit, coefficients=1.001 * fit.coefficients))


class Idle(Absolute):
    """Stops at the first envelope."""

    def fit(self, *args: Any, **options: Any) -> Fit:
        return super().fit(*args, **{**options, "gap": 1e-3 * args[1].size})


class Deaf(Hinge):
    """Says that the lower bound is `enough` before it is."""

    def fit(self, *args: Any, **options: Any) -> Fit:
        enough = options.pop("enough", 0.0)
        fit = super().fit(*args, **options, enough=0.1 * enough)
        return replace(fit, dual=max(fit.dual, enough))


def twin(loss: Loss) -> Case:
    """Return a broken loss under the domain of the sound one."""
    sound = {type(case.loss): case.domain for case in CASES}
    return Case(loss, next(sound[kind] for kind in type(loss).__mro__ if kind in sound))


@pytest.mark.parametrize(
    ("holds", "broken"),
    [
        (fenchel_young, LowConjugate()),
        (fenchel_young_is_tight, HighConjugate(5)),
        (fenchel_young_is_tight, WrongSign(5)),
        (convex, Dented()),
        (conjugate_is_the_supremum, HighConjugate(5)),
        (conjugate_is_the_supremum, LowConjugate()),
        (conjugate_is_infinite_outside, EndlessConjugate()),
        (largest_is_attained_and_never_exceeded, SmallLargest()),
        (largest_is_attained_and_never_exceeded, LooseLargest()),
        (rows_are_the_envelope, WrongSign(5)),
        (rows_are_the_envelope, Unsmoothed(0.9)),
        (rows_are_the_envelope, Flat()),
        (fits_are_enclosed, Inflated()),
        (fits_are_enclosed, Optimistic()),
        (fits_are_enclosed, OffPoint()),
        (fits_are_enclosed, Outside(5)),
        (fits_are_enclosed, WrongSign(5)),
        (fits_are_enclosed, Idle()),
        (fits_go_as_far_as_asked, Idle()),
        (fits_start_anywhere, Idle()),
        (fits_start_anywhere, Inflated()),
        (fits_end_early, Deaf()),
        (fits_without_rows_or_columns, Inflated()),
    ],
    ids=lambda given: getattr(given, "__name__", type(given).__name__),
)
def test_twin_is_caught(holds: Property, broken: Loss) -> None:
    with pytest.raises(AssertionError):
        holds(twin(broken))
