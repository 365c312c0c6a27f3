"""`check` passes sound losses and names the fault of unsound ones."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from losses.cases import CASES, Case

from dpsubset.arrays import Floats
from dpsubset.errors import InputError
from dpsubset.losses import LOSSES, Absolute, Hinge, Huber, Logistic, Loss, Quantile, Squared, check

DOCUMENT = Path(__file__).parents[2] / "docs" / "losses.md"


@pytest.mark.grid(every=2)
@pytest.mark.parametrize(
    ("y_bound", "t_bound", "seed"), [(1.0, 2.0, 0), (0.5, 0.2, 1), (3.0, 20.0, 2)]
)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_sound_losses_pass(case: Case, y_bound: float, t_bound: float, seed: int) -> None:
    check(case.loss, y_bound=y_bound, t_bound=t_bound, random_state=seed)


class Expectile(Loss):
    """Squares that weigh four times as much on one side: its slopes differ far out."""

    name = "expectile"
    smooth = True

    def value(self, y: Floats, t: Floats) -> Floats:
        return np.where(t < y, 0.8, 0.2) * (y - t) ** 2

    def conjugate(self, y: Floats, a: Floats) -> Floats:
        return a * y + a**2 / np.where(a < 0.0, 3.2, 0.8)

    def largest(self, y_bound: float, t_bound: float) -> float:
        return 0.8 * (y_bound + t_bound) ** 2

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        for i in range(y.size):
            d = w[i] - y[i]
            flat = 1.0 / (1.0 / (0.8 if d < 0.0 else 0.2) + 2.0 / sigma)
            value[i] = flat * d * d
            slope[i] = 2.0 * flat * d
            curve[i] = 2.0 * flat


@pytest.mark.parametrize("seed", range(3))
def test_a_sound_loss_with_unequal_sides_passes(seed: int) -> None:
    check(Expectile(), random_state=seed)


class Negative(Logistic):
    def value(self, y: Floats, t: Floats) -> Floats:
        return super().value(y, t) - 0.2


class Undefined(Squared):
    def value(self, y: Floats, t: Floats) -> Floats:
        return np.where(t == 0.0, np.nan, super().value(y, t))


class Summed(Squared):
    def value(self, y: Floats, t: Floats) -> Floats:
        return np.asarray(super().value(y, t).sum())


class Zero(Squared):
    def value(self, y: Floats, t: Floats) -> Floats:
        return 0.0 * y


class Capped(Absolute):
    """Robust, but not convex."""

    def value(self, y: Floats, t: Floats) -> Floats:
        return np.minimum(super().value(y, t), 1.5)


class SmallLargest(Huber):
    def largest(self, y_bound: float, t_bound: float) -> float:
        return super().largest(y_bound, t_bound) * 0.999


class ForgotTheTarget(Absolute):
    def largest(self, y_bound: float, t_bound: float) -> float:
        return t_bound


class LowConjugate(Squared):
    def conjugate(self, y: Floats, a: Floats) -> Floats:
        return a * y


class HighConjugate(Squared):
    def conjugate(self, y: Floats, a: Floats) -> Floats:
        return a * y + a**2 / 2


class WideConjugate(Hinge):
    def conjugate(self, y: Floats, a: Floats) -> Floats:
        return a * y


class NarrowConjugate(Quantile):
    def conjugate(self, y: Floats, a: Floats) -> Floats:
        return np.where(np.abs(a) <= 0.05, a * y, np.inf)


class NoConjugate(Logistic):
    def conjugate(self, y: Floats, a: Floats) -> Floats:
        q = np.clip(-a * y, -1.0, 2.0)
        with np.errstate(all="ignore"):
            return q * np.log(q) + (1 - q) * np.log(1 - q)


def rows_of(part: str) -> Any:
    """Return the rows of the squared hinge loss with one part spoiled."""
    sign = -1.0 if part == "slope" else 1.0
    bent = 0.5 if part == "curve" else 1.0
    moved = 0.1 if part == "value" else 0.0

    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        flat = 1.0 / (1.0 + 2.0 / sigma)
        for i in range(y.size):
            m = max(1.0 - y[i] * w[i], 0.0)
            value[i] = flat * m * m + moved
            slope[i] = -2.0 * flat * m * y[i] * sign
            curve[i] = 2.0 * flat * bent if m > 0.0 else 0.0

    return staticmethod(rows)


class SquaredHinge(Loss):
    name = "squared_hinge"
    classification = True
    smooth = True
    rows = rows_of("nothing")

    def value(self, y: Floats, t: Floats) -> Floats:
        return np.maximum(1.0 - y * t, 0.0) ** 2

    def conjugate(self, y: Floats, a: Floats) -> Floats:
        return np.where(a * y <= 0.0, a * y + a**2 / 4.0, np.inf)

    def largest(self, y_bound: float, t_bound: float) -> float:
        return (1.0 + t_bound) ** 2


class ForgotSigma(SquaredHinge):
    """Gives the loss itself for every sigma: enough for its fits, not for its cuts."""

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        for i in range(y.size):
            m = max(1.0 - y[i] * w[i], 0.0)
            value[i] = m * m
            slope[i] = -2.0 * m * y[i]
            curve[i] = 2.0 if m > 0.0 else 0.0


class Lopsided(Hinge):
    """One class weighs twice as much as the other, which is not said."""

    name = "lopsided"
    symmetric = True

    def value(self, y: Floats, t: Floats) -> Floats:
        return (1.5 + 0.5 * y) * np.maximum(1.0 - y * t, 0.0)

    def conjugate(self, y: Floats, a: Floats) -> Floats:
        m = a * y
        return np.where((m >= -1.5 - 0.5 * y) & (m <= 0.0), m, np.inf)

    def largest(self, y_bound: float, t_bound: float) -> float:
        return 2.0 * (1.0 + t_bound)

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        for i in range(y.size):
            m = max(1.0 - y[i] * w[i], 0.0)
            weight = 1.5 + 0.5 * y[i]
            slope[i] = curve[i] = 0.0
            if m >= weight / sigma and m > 0.0:
                value[i] = weight * (m - 0.5 * weight / sigma)
                slope[i] = -weight * y[i]
            elif m > 0.0:
                value[i] = 0.5 * sigma * m * m
                slope[i] = -sigma * m * y[i]
                curve[i] = sigma
            else:
                value[i] = 0.0


class WrongValue(SquaredHinge):
    rows = rows_of("value")


class WrongSlope(SquaredHinge):
    rows = rows_of("slope")


class WrongCurve(SquaredHinge):
    rows = rows_of("curve")


class Unfilled(SquaredHinge):
    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        for i in range(y.size):
            if y[i] * w[i] < 1.0:
                value[i] = (1.0 - y[i] * w[i]) ** 2
                slope[i] = -2.0 * (1.0 - y[i] * w[i]) * y[i]
                curve[i] = 2.0


class Uncompilable(SquaredHinge):
    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        value[:] = no_such_name(y, w)  # type: ignore[name-defined]  # noqa: F821


class NoEnvelope(Hinge):
    """Gives the loss for every sigma."""

    @staticmethod
    def rows(
        y: Any, w: Any, sigma: float, parameters: Any, value: Any, slope: Any, curve: Any
    ) -> None:
        for i in range(y.size):
            m = 1.0 - y[i] * w[i]
            value[i] = max(m, 0.0)
            slope[i] = -y[i] if m > 0.0 else 0.0
            curve[i] = 0.0


class NotSmooth(Hinge):
    smooth = True


class Rounded(Quantile):
    """Its fit is another loss's."""

    def compiled(self) -> Any:
        return Quantile(0.5).compiled() if self.fitting else super().compiled()

    fitting = False

    def fit(self, *args: Any, **options: Any) -> Any:
        self.fitting = True
        try:
            return super().fit(*args, **options)
        finally:
            self.fitting = False


@pytest.mark.grid(every=3)
@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (Negative(), r"the value is -.*at y=.*t=.*never negative"),
        (Undefined(), r"the value is nan"),
        (Summed(), r"one number a row"),
        (Zero(), r"zero everywhere"),
        (Capped(), r"above their chord.*at y=.*t=.*u=.*must be convex"),
        (SmallLargest(0.1), r"largest\(.*yet the value is.*noise is scaled by it"),
        (ForgotTheTarget(), r"largest\(.*yet the value is"),
        (LowConjugate(), r"conjugate .* below a t - value.*at y=.*a=.*supremum over all t"),
        (HighConjugate(), r"conjugate .* above the supremum"),
        (WideConjugate(), r"conjugate .* (below a t - value|grows without end).*infinity"),
        (NarrowConjugate(0.9), r"conjugate inf is above the supremum"),
        (NoConjugate(), r"conjugate nan is not a number"),
        (WrongValue(), r"rows gives the value .*at y=.*sigma=inf; the value must be min over u"),
        (WrongSlope(), r"rows gives the slope .*the slope must be the derivative"),
        (WrongCurve(), r"rows gives the curve .*must be the second derivative"),
        (ForgotSigma(), r"rows gives the value .*sigma=0.3; the value must be min over u"),
        (Unfilled(), r"rows gives the value nan"),
        (Uncompilable(), r"rows cannot be compiled"),
        (NoEnvelope(), r"rows gives the value .*sigma=0.3"),
        (Lopsided(), r"symmetric is True, yet the values at .*differ.*set symmetric = False"),
        (NotSmooth(), r"smooth is True, yet the slope jumps by 1\b.*set smooth = False"),
        (Rounded(0.9), r"in a fit on 40 rows .*primal=.*dual=.*scipy="),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, Loss) else "",
)
def test_the_fault_of_a_wrong_loss_is_named(loss: Loss, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(loss)


def test_a_sound_loss_of_ones_own_passes() -> None:
    check(SquaredHinge())


@pytest.mark.parametrize("given", [Absolute, "absolute", None])
def test_only_losses_are_checked(given: object) -> None:
    with pytest.raises(InputError, match="takes a loss"):
        check(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("bounds", [{"y_bound": 0.0}, {"t_bound": -1.0}, {"t_bound": np.inf}])
def test_bounds_are_positive(bounds: dict[str, float]) -> None:
    with pytest.raises(InputError, match="positive"):
        check(Absolute(), **bounds)


@pytest.fixture
def known() -> Iterator[None]:
    before = dict(LOSSES)
    yield
    LOSSES.clear()
    LOSSES.update(before)


@pytest.mark.usefixtures("known")
def test_the_example_of_the_document_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, str(DOCUMENT), "exec"), names)
    assert re.match(r"score \d+\.\d+, proven to within -?\de-\d\d", capsys.readouterr().out)
    assert names["fit"].primal - names["fit"].dual < 1e-10
    assert LOSSES["squared_hinge"] is names["SquaredHinge"]

    class Slip(names["SquaredHinge"]):  # type: ignore[misc]
        def conjugate(self, y: Floats, a: Floats) -> Floats:
            return np.where(a * y <= 0.0, a * y, np.inf)

    with pytest.raises(InputError, match=r"the conjugate .* below a t - value: bounds on scores"):
        check(Slip())


class _Steeper(Huber):
    """A slope larger than it says."""

    name = "steeper"

    def steepest(self, y_bound: float, t_bound: float) -> float:
        return 0.99 * super().steepest(y_bound, t_bound)


class _Rounder(Logistic):
    """A curvature larger than it says."""

    name = "rounder"

    def most_curved(self) -> float:
        return 0.24


@pytest.mark.parametrize(("loss", "part"), [(_Steeper(), "steepest"), (_Rounder(), "most_curved")])
def test_bounds_on_slope_and_curvature_are_checked(loss: Loss, part: str) -> None:
    with pytest.raises(InputError, match=f"{part} is .* noise of coefficients"):
        check(loss)
