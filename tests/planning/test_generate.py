"""The generators follow the paper."""

import numpy as np
import pytest

from dpsubset.planning.generate import paper_classes, paper_table


def test_generator() -> None:
    table = paper_table(40_000, 6, size=2, snr=4.0, rho=0.5, seed=3)
    assert table.support == (0, 2)
    distance = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    np.testing.assert_allclose(np.corrcoef(table.X.T), 0.5**distance, atol=0.02)
    signal = table.X[:, [0, 2]].sum(axis=1) / np.sqrt(2)
    ratio = np.sum(signal**2) / np.sum((table.y - signal) ** 2)
    assert ratio == pytest.approx(4.0)
    again = paper_table(10, 6, size=2, seed=3)
    np.testing.assert_array_equal(again.X, paper_table(10, 6, size=2, seed=3).X)
    assert paper_table(10, 6, size=2, dtype=np.float32).X.dtype == np.float32


def test_generator_of_classes() -> None:
    table, numbers = (make(40_000, 6, size=2, seed=3) for make in (paper_classes, paper_table))
    np.testing.assert_array_equal(table.X, numbers.X)
    assert table.support == numbers.support
    assert set(table.y) == {-1.0, 1.0}
    # P(y = 1) = 1 / (1 + exp(-z)), in ten groups of 4000 rows; 0.04 is five standard deviations.
    for rows in np.array_split(np.argsort(numbers.y), 10):
        expected = np.mean(1 / (1 + np.exp(-numbers.y[rows])))
        assert np.mean(table.y[rows] == 1) == pytest.approx(expected, abs=0.04)
    again = paper_classes(40_000, 6, size=2, seed=3)
    np.testing.assert_array_equal(table.y, again.y)
    assert (paper_classes(40, 6, size=2, seed=4).y != again.y[:40]).any()
    assert paper_classes(10, 6, size=2, dtype=np.float32).X.dtype == np.float32
