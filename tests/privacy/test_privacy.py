"""Randomness without edges or bias, and guarantees that print as sentences."""

import math

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from dpsubset.errors import InputError
from dpsubset.privacy import Guarantee, Randomness, as_randomness, exponent
from dpsubset.privacy import randomness as module


class FixedBits:
    def __init__(self, *words: int) -> None:
        self._words = list(words)

    def words(self, count: int) -> np.ndarray:
        taken, self._words = self._words[:count], self._words[count:]
        return np.array(taken, dtype=np.uint64)

    def below(self, bound: int) -> int:
        return 0


def test_uniforms_stay_inside_the_open_interval() -> None:
    ends = Randomness(FixedBits(0, 2**64 - 1), seeded=True).uniforms(2)
    assert 0.0 < ends[0] < 1e-15
    assert 1 - 1e-15 < ends[1] < 1.0
    assert math.log(ends[0]) > -40


def test_exponential_goes_on_beyond_the_bits() -> None:
    deep = Randomness(FixedBits(0, 0, 2**63), seeded=True).exponential()
    assert deep == pytest.approx(2 * 32 * math.log(2) + math.log(2), rel=1e-12)


@pytest.mark.parametrize("state", [None, 5])
def test_laws_of_the_numbers(state: int | None) -> None:
    """Level 1e-6 each; the system's numbers are new every time."""
    source = as_randomness(state)
    assert source.seeded == (state is not None)
    assert kstest(source.uniforms(20_000), "uniform").pvalue > 1e-6
    assert kstest(source.exponentials(20_000), "expon").pvalue > 1e-6
    counts = np.bincount([source.below(7) for _ in range(7000)], minlength=7)
    assert chisquare(counts).pvalue > 1e-6
    assert source.below(1) == 0
    assert 0 <= source.below(10**40) < 10**40


def test_a_biased_source_would_be_noticed() -> None:
    source = as_randomness(3)
    assert kstest(source.uniforms(20_000) ** 1.1, "uniform").pvalue < 1e-6


def test_seeds_repeat_and_the_system_does_not() -> None:
    np.testing.assert_array_equal(as_randomness(1).uniforms(9), as_randomness(1).uniforms(9))
    assert not np.array_equal(as_randomness(None).uniforms(9), as_randomness(None).uniforms(9))


def test_no_module_state() -> None:
    kinds = (int, float, str, type, list)
    assert not [k for k, v in vars(module).items() if isinstance(v, np.random.Generator)]
    assert not [k for k, v in vars(module).items() if isinstance(v, list) and k != "__all__"]
    assert kinds


def test_exponent() -> None:
    assert exponent(2.0, 4.0, "replace-one") == 0.25
    assert exponent(2.0, 4.0, "add-remove") == 0.5
    for unknown in ("both", ["replace-one"]):
        with pytest.raises(InputError, match="allowed: replace-one, add-remove"):
            exponent(1.0, 1.0, unknown)  # type: ignore[arg-type]


def test_guarantees_print_as_sentences() -> None:
    plain = Guarantee("exponential mechanism", 1.0, "replace-one", 4.0)
    assert str(plain).startswith("The exponential mechanism is 1-differentially private for tables")
    assert "provided" not in str(plain)
    full = Guarantee("m", 0.5, "add-remove", 4.0, delta=1e-6, condition="it rains")
    assert "(0.5, 1e-06)-differentially private" in str(full)
    assert "provided that it rains" in str(full)
    seeded = Guarantee("m", 0.5, "add-remove", 4.0, randomness="seeded")
    assert "SEEDED" in str(seeded)
    assert seeded.to_dict()["sentence"] == str(seeded)
    assert seeded.to_dict()["epsilon"] == 0.5
    rounded = Guarantee("m", 0.5, "add-remove", 4.0, precision=2.5e-11)
    assert "adds a factor 1 + 1e-10 n to epsilon" in str(rounded)
