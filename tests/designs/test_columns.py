"""Columns that are kept: all of them where there is room, at places that then stay."""

import numpy as np
import pytest

from dpsubset.designs import ColumnCache, as_design, columns


def _cache(room: int, rows: int = 30, p: int = 7) -> tuple[np.ndarray, ColumnCache, list[int]]:
    X = np.random.default_rng(5).uniform(-1, 1, size=(rows, p))
    design = as_design(X, bound=1.0, partner=np.zeros(rows))
    fetched: list[int] = []
    take = design.take

    def counting(index: np.ndarray) -> np.ndarray:
        fetched.append(len(index))
        return take(index)

    design.take = counting  # type: ignore[method-assign]
    cache = ColumnCache(design)
    cache._store = np.empty((room, rows))
    return X, cache, fetched


@pytest.mark.parametrize("at_once", [1, 60, 1 << 22])
@pytest.mark.parametrize("before", [(), (5, 2), (6, 5, 4, 3, 2, 1, 0)])
def test_all_columns_are_kept_in_their_order(monkeypatch, before, at_once: int) -> None:
    monkeypatch.setattr(columns, "_AT_ONCE", at_once)
    X, cache, fetched = _cache(room=7)
    if before:
        np.testing.assert_array_equal(cache.rows(np.array(before)), X[:, before].T)
    whole = cache.whole()
    assert whole is not None
    np.testing.assert_array_equal(whole, X.T)
    fetched.clear()
    some = np.array([4, 1])
    np.testing.assert_array_equal(cache.rows(some), X[:, some].T)
    assert cache.places(some).tolist() == [4, 1]
    assert cache.whole() is whole
    assert not fetched


def test_what_another_thread_reads_does_not_change() -> None:
    X, cache, _ = _cache(room=7)
    cache.rows(np.array([6, 0]))
    later = cache.later(np.array([0, 6]))
    assert cache.whole() is not None
    np.testing.assert_array_equal(later(), X[:, [0, 6]].T)


def test_without_room_for_all_there_is_no_whole() -> None:
    X, cache, fetched = _cache(room=6)
    assert cache.whole() is None
    assert not fetched
    np.testing.assert_array_equal(cache.rows(np.arange(6)), X[:, :6].T)
