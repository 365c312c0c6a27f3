"""Laplace noise by OpenDP: its promise, its scale, and the seeded way around it (T28)."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from dpsubset.errors import MissingExtraError
from dpsubset.privacy import Randomness, as_randomness
from dpsubset.privacy import noise as module
from dpsubset.privacy.noise import add_laplace

FALSE_ALARM = 1e-6


class Unused(Randomness):
    """The operating system's randomness that must not be asked: OpenDP has its own."""

    def __init__(self) -> None:
        super().__init__(None, seeded=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [None, 4])
def test_scale_of_the_noise(state: int | None) -> None:
    """Level 1e-6; OpenDP's numbers are new every time."""
    values = np.linspace(-5, 5, 20_000)
    out = add_laplace(values, 3.0, 0.5, as_randomness(state))
    law = stats.laplace(scale=6.0)
    assert stats.kstest(out - values, law.cdf).pvalue > FALSE_ALARM
    assert stats.kstest((out - values) / 1.3, law.cdf).pvalue < FALSE_ALARM
    assert abs(stats.spearmanr(out[:-1] - values[:-1], out[1:] - values[1:]).statistic) < 0.04


def test_one_measurement_of_opendp_covers_all_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    make = dp.m.make_laplace

    def spy(*given: Any, **options: Any) -> Any:
        made.append(make(*given, **options))
        return made[-1]

    monkeypatch.setattr(dp.m, "make_laplace", spy)
    for sensitivity in (2.0, 2.25, 16 / 3, 27.5):
        for epsilon in (1e-3, 0.1, 1 / 3, 1.0, 50.0):
            made.clear()
            out = add_laplace(np.zeros(5), sensitivity, epsilon, Unused())
            assert made[-1].map(sensitivity) <= epsilon
            assert made[-1].map(sensitivity) > 0.999 * epsilon
            assert made[-1].map(2 * sensitivity) > epsilon  # the promise is about the l1 norm
            assert out.shape == (5,)
            assert len(made) <= 5


def test_a_scale_that_is_too_small_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenDP's map has the last word: what it does not certify is not drawn from."""
    tried: list[float] = []

    class Doubtful:
        def __init__(self, scale: float) -> None:
            self.scale = scale
            tried.append(scale)

        def map(self, sensitivity: float) -> float:
            return 1.0 if len(tried) > 4 else 1.0 + 1e-15

        def __call__(self, values: list[float]) -> list[float]:
            assert len(tried) > 4
            return values

    monkeypatch.setattr(dp.m, "make_laplace", lambda *_, scale: Doubtful(scale))
    add_laplace(np.zeros(2), 1.0, 1.0, Unused())
    assert tried == sorted(set(tried))


def test_without_opendp_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    monkeypatch.setitem(sys.modules, "opendp", None)
    with pytest.raises(MissingExtraError, match=r"dpsubset\[opendp\]") as refused:
        add_laplace(np.array([17.0]), 1.0, 1.0, as_randomness(None))
    assert "17" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert add_laplace(np.array([17.0]), 1.0, 1.0, as_randomness(1)).shape == (1,)


def test_seeds_repeat_and_values_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(4.0)
    first, second = (add_laplace(values, 1.0, 1.0, as_randomness(8)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(values, np.arange(4.0))
    assert not hasattr(module, "dp")  # the extra is asked for when it is needed only
