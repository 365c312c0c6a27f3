"""Randomness without edges or bias, and sentences of guarantees."""

import itertools
import math
import re

import numpy as np
import pytest
from scipy.stats import chisquare, kstest, spearmanr

from dpsubset.errors import InputError
from dpsubset.privacy import Guarantee, Randomness, as_randomness, compose, exponent
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
    assert math.log(ends[0]) > -46


@pytest.mark.parametrize("p", [2.0**-64, 3 * 2.0**-60, 2.0**-53, 0.1, 1 / 3, 0.5, 1 - 2.0**-53])
def test_a_uniform_number_is_below_p_with_chance_p(p: float) -> None:
    """Exactly p 2^64 of the 2^64 words give a number below p, for every p on the grid."""
    p = p if p < 2.0**-11 else math.floor(p * 2.0**53) * 2.0**-53
    edge = int(p * 2.0**64)
    below, at = Randomness(FixedBits(edge - 1, edge), seeded=True).uniforms(2)
    assert below < p <= at


@pytest.mark.parametrize("x", [1e-19, 1e-16, 1e-9, 0.5, 5.5])
def test_small_and_large_exponential_numbers_have_their_chances(x: float) -> None:
    """The chance of E <= x, by the word at which the numbers pass x, has 9 digits or the grid."""
    low, high = 0, 2**64 - 1  # words, from the largest number to the smallest
    while high - low > 1:
        middle = (low + high) // 2
        value = Randomness(FixedBits(middle, 2**63), seeded=True).exponential()
        low, high = (middle, high) if value > x else (low, middle)
    assert (2**64 - high) / 2**64 == pytest.approx(-math.expm1(-x), rel=1e-9, abs=2.0**-63)


def test_exponential_goes_on_beyond_the_bits() -> None:
    deep = Randomness(FixedBits(0, 0, 2**63), seeded=True).exponential()
    assert deep == pytest.approx(2 * 8 * math.log(2) + math.log(2), rel=1e-12)


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


def test_sentences_of_guarantees() -> None:
    plain = Guarantee("exponential mechanism", 1.0, "replace-one", 4.0)
    beginning = "The exponential mechanism is 1-differentially private for tables"
    assert plain.sentence.startswith(beginning)
    assert "provided" not in plain.sentence
    full = Guarantee("m", 0.5, "add-remove", 4.0, delta=1e-6, condition="it rains")
    assert "(0.5, 1e-06)-differentially private" in full.sentence
    assert "provided that it rains" in full.sentence
    seeded = Guarantee("m", 0.5, "add-remove", 4.0, randomness="seeded")
    assert "SEEDED" in seeded.sentence
    assert seeded.to_dict()["sentence"] == seeded.sentence
    assert seeded.to_dict()["epsilon"] == 0.5
    rounded = Guarantee("m", 0.5, "add-remove", 4.0, precision=2.5e-11)
    assert "adds a factor 1 + 1e-10 n to epsilon" in rounded.sentence


def permutation_counts(source: Randomness, count: int) -> np.ndarray:
    """Count the orders of three things."""
    places = {order: i for i, order in enumerate(itertools.permutations(range(3)))}
    orders = [places[tuple(int(j) for j in source.permutation(3))] for _ in range(count)]
    return np.bincount(orders, minlength=6)


@pytest.mark.parametrize("state", [None, 6])
def test_laws_of_derived_numbers(state: int | None) -> None:
    """Level 1e-6 each; the system's numbers are new every time."""
    source = as_randomness(state)
    assert kstest(source.laplaces(20_000), "laplace").pvalue > 1e-6
    assert kstest(source.normals(20_001), "norm").pvalue > 1e-6
    for bound in (1, 2, 3, 7, 1000):
        numbers = source.belows(bound, 20 * bound + 5000)
        assert numbers.dtype == np.int64
        counts = np.bincount(numbers, minlength=bound)
        assert counts.size == bound
        assert bound == 1 or chisquare(counts).pvalue > 1e-6
    assert chisquare(permutation_counts(source, 6000)).pvalue > 1e-6
    huge = source.belows(2**62, 2000)
    assert huge.min() >= 0
    assert kstest(huge / 2.0**62, "uniform").pvalue > 1e-6


def test_derived_numbers_are_independent() -> None:
    """Level 1e-6 each. A radius and an angle make two normal numbers: they must not know another.

    Not even in size: their squares are uncorrelated too.
    """
    source = as_randomness(2)
    normals = source.normals(40_000)
    first, second = normals[:20_000], normals[20_000:]
    laplaces = source.laplaces(20_001)
    pairs = [(first, second), (normals[:-1], normals[1:]), (laplaces[:-1], laplaces[1:])]
    for one, other in pairs:
        assert spearmanr(one, other).pvalue > 1e-6
        assert spearmanr(np.abs(one), np.abs(other)).pvalue > 1e-6
    broken = np.sqrt(2 * source.exponentials(20_000))  # one radius, but no angle
    assert spearmanr(np.abs(broken), np.abs(broken * 0.5)).pvalue < 1e-6


def test_broken_numbers_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    source = as_randomness(3)
    assert kstest(source.exponentials(20_000), "laplace").pvalue < 1e-6
    assert kstest(source.normals(20_000) * 1.1, "norm").pvalue < 1e-6
    modulo = source.belows(1024, 25_000) % 1000  # what rejection avoids
    assert chisquare(np.bincount(modulo, minlength=1000)).pvalue < 1e-6
    few = [np.argsort(source.belows(4, 3), kind="stable") for _ in range(6000)]  # equal keys
    monkeypatch.setattr(Randomness, "permutation", lambda self, count: few.pop())
    assert chisquare(permutation_counts(source, 6000)).pvalue < 1e-6


def test_equal_keys_are_drawn_again() -> None:
    source = Randomness(FixedBits(5, 5, 1, 9, 3, 7), seeded=True)
    assert source.permutation(3).tolist() == [1, 2, 0]


def test_small_counts() -> None:
    source = as_randomness(0)
    for draw in (source.laplaces, source.normals, source.permutation):
        assert draw(0).shape == (0,)
        assert draw(1).shape == (1,)
    assert source.belows(5, 0).shape == (0,)
    assert source.belows(1, 4).tolist() == [0] * 4
    assert sorted(source.permutation(50).tolist()) == list(range(50))


def test_composition_adds_up() -> None:
    one = Guarantee("first", 0.1, "replace-one", 4.0, delta=1e-6, condition="it rains")
    two = Guarantee("second", 0.2, "replace-one", 2.0, precision=0.0, condition="it snows")
    both = compose([one, two, two])
    assert both.mechanism == "first followed by second followed by second"
    assert both.epsilon == math.fsum([0.1, 0.2, 0.2])
    assert both.delta == 1e-6
    assert both.sensitivity is None
    assert both.precision == one.precision  # the least precise part counts
    assert "it rains; and that it snows" in str(both)
    assert "sensitivity" not in str(both)
    assert both.randomness == "operating system"
    seeded = Guarantee("third", 0.2, "replace-one", 2.0, randomness="seeded")
    assert "SEEDED" in str(compose([one, seeded]))
    assert compose([two]).epsilon == 0.2
    other = Guarantee("fourth", 0.2, "add-remove", 2.0)
    for wrong in ([one, other], []):
        with pytest.raises(InputError):
            compose(wrong)


def field(guarantee: Guarantee, name: str) -> str:
    """Return what the printed table says of something."""
    return dict(line.split(maxsplit=1) for line in str(guarantee).splitlines())[name]


def test_a_printed_epsilon_is_never_below_the_true_one() -> None:
    for epsilon in (0.1 + 0.2, 1 / 3, 2 / 3, 1.23456789, 1e-7 / 3, 12345678.9):
        guarantee = Guarantee("m", epsilon, "replace-one", 1.0)
        assert float(guarantee.sentence.split(" is ")[1].split("-differentially")[0]) >= epsilon
        assert float(field(guarantee, "epsilon")) >= epsilon


def test_a_printed_delta_is_never_below_the_true_one() -> None:
    for delta in (1.2344e-6, 1 / 3000, 3e-7 / 7):
        guarantee = Guarantee("m", 1.0, "replace-one", 1.0, delta=delta)
        assert float(guarantee.sentence.split(", ")[1].split(")")[0]) >= delta
        assert float(field(guarantee, "delta")) >= delta
        assert float(re.search(r"plus at most (\S+), between", str(guarantee))[1]) >= delta


def test_no_rounding_is_promised_where_no_score_is_used() -> None:
    plain = Guarantee("m", 0.5, "add-remove", 4.0, precision=0.0)
    assert "rounding" not in plain.sentence
    assert "meant in exact arithmetic" in plain.sentence
