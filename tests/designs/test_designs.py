"""Designs answer products as numpy does, whatever the storage, without copies of the table."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsubset.designs import Features, Gram, as_design
from dpsubset.designs import dense as dense_module
from dpsubset.designs import gram as gram_module
from dpsubset.errors import InputError

RNG = np.random.default_rng(3)
TABLE = RNG.normal(size=(101, 37))
STORAGES = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "columns first": np.asfortranarray,
    "float32 columns first": lambda X: np.asfortranarray(X.astype(np.float32)),
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "int": lambda X: np.rint(2 * X).astype(np.int64),
    "bool": lambda X: X > 0,
    "csr": lambda X: sp.csr_array(np.where(X > 0.5, X, 0.0)),
    "csc matrix": lambda X: sp.csc_matrix(np.where(X > 0.5, X, 0.0)),
}
MAPS = {
    "inside": {"bound": 100.0},
    "clipped": {"bound": 0.5},
    "mapped": {"bound": 1.0, "lower": -1.5, "upper": 1.5},
    "shifted": {"bound": 2.0, "lower": -1.0, "upper": np.linspace(1, 3, 37)},
}


def expected(X, bound, lower=None, upper=None):
    values = (X.toarray() if sp.issparse(X) else np.asarray(X)).astype(np.float64)
    if lower is not None:
        values = (values - (np.add(lower, upper) / 2)) * (2 * bound / np.subtract(upper, lower))
    return np.clip(values, -bound, bound)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("mapped", MAPS)
def test_products(storage: str, mapped: str) -> None:
    X, options = STORAGES[storage](TABLE), MAPS[mapped]
    if sp.issparse(X) and mapped == "shifted":
        with pytest.raises(InputError, match="symmetric"):
            as_design(X, **options)
        return
    design = as_design(X, **options)
    V = expected(X, **options)
    vectors = RNG.normal(size=(101, 19))
    tolerance = {"rtol": 0, "atol": 1e-10 * max(1.0, np.abs(V).max()) ** 2 * 101}
    np.testing.assert_allclose(design.take([5, 0, 36]), V[:, [5, 0, 36]], atol=1e-12)
    np.testing.assert_allclose(design.correlate(vectors), V.T @ vectors, **tolerance)
    np.testing.assert_allclose(design.correlate(vectors[:, 0]), V.T @ vectors[:, 0], **tolerance)
    np.testing.assert_allclose(design.gram([3, 4]), V.T @ V[:, [3, 4]], **tolerance)
    np.testing.assert_allclose(design.full_gram(), V.T @ V, **tolerance)
    np.testing.assert_allclose(design.square_norms(), (V**2).sum(axis=0), **tolerance)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("storage", ["float64", "float32", "columns first", "csr"])
def test_few_rows(n: int, storage: str) -> None:
    X = STORAGES[storage](TABLE[:n])
    design = as_design(X, bound=0.5)
    V = expected(X, 0.5)
    for _ in range(20):  # uninitialised memory shows now and then only
        np.testing.assert_allclose(design.correlate(np.ones(n)), V.sum(axis=0), atol=1e-12)


def test_intercept_column() -> None:
    design = as_design(TABLE, bound=0.5).with_ones()
    V = np.column_stack([np.clip(TABLE, -0.5, 0.5), np.full(101, 0.5)])
    np.testing.assert_allclose(design.take([37, 2]), V[:, [37, 2]])
    np.testing.assert_allclose(design.full_gram(), V.T @ V, atol=1e-10)
    np.testing.assert_allclose(design.square_norms(), (V**2).sum(axis=0))
    np.testing.assert_allclose(design.gram([37, 0]), V.T @ V[:, [37, 0]], atol=1e-10)
    assert design.n_columns == 38


def test_masked_and_one_dimensional_tables_are_refused() -> None:
    with pytest.raises(InputError, match="masked"):
        as_design(np.ma.masked_array([[1.0, 2.0]], mask=[[True, False]]), bound=1.0)
    with pytest.raises(InputError, match="two dimensions"):
        as_design(sp.coo_array(np.ones(5)), bound=1.0)


def test_no_copy_of_the_table() -> None:
    for X in (TABLE, TABLE.astype(np.float32), np.asfortranarray(TABLE)):
        assert as_design(X, bound=0.5)._array is X


def test_float32_is_summed_in_float64() -> None:
    X = np.full((200_000, 1), 0.1, dtype=np.float32)
    total = as_design(X, bound=1.0).correlate(np.ones(200_000))[0]
    assert total == pytest.approx(200_000 * float(np.float32(0.1)), rel=1e-13)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_broken_values_are_refused_alike(order: str, bad: float, dtype: type) -> None:
    texts = set()
    for i, j in ((0, 0), (100, 36), (50, 7)):
        X = np.array(TABLE, dtype=dtype, order=order)
        X[i, j] = bad
        for options in MAPS.values():
            with pytest.raises(InputError) as caught:
                as_design(X, **options)
            texts.add(str(caught.value))
    assert texts == {dense_module.NOT_FINITE}


def test_sparse_broken_value() -> None:
    with pytest.raises(InputError, match="missing or infinite"):
        as_design(sp.csr_array(np.array([[np.nan, 0.0]])), bound=1.0)


@pytest.mark.parametrize("order", ["C", "F"])
def test_huge_entries_are_clipped(order: str) -> None:
    X = np.array([[1e308, -1e308], [0.0, 1e300]], order=order)
    design = as_design(X, bound=1.0, lower=-1e-3, upper=1e-3)
    np.testing.assert_array_equal(design.take([0, 1]), [[1.0, -1.0], [0.0, 1.0]])
    sparse = as_design(sp.csr_array(X), bound=1.0, lower=-1e-3, upper=1e-3)
    np.testing.assert_array_equal(sparse.take([0, 1]), [[1.0, -1.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        ([[1, 2], [3]], {}, "ragged"),
        ([1.0, 2.0], {}, "two dimensions"),
        ([["a"]], {}, "numbers"),
        ([[2**70]], {}, "numbers"),
        ([[1j]], {}, "numbers"),
        (np.empty((3, 0)), {}, "no columns"),
        ([[1.0]], {"lower": 0}, "both"),
        ([[1.0]], {"lower": 1, "upper": 1}, "lower < upper"),
        ([[1.0]], {"lower": 2, "upper": 1}, "lower < upper"),
        ([[1.0]], {"lower": [0, 1], "upper": 2}, "shape"),
        ([[1.0]], {"lower": "low", "upper": 2}, "numbers"),
        ([[1.0]], {"lower": -np.inf, "upper": 2}, "finite"),
        ([[1.0]], {"lower": 0, "upper": 5e-324}, "too close"),
    ],
)
def test_bad_tables(X, options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_design(X, bound=1.0, **options)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.inf, np.nan])
def test_bad_bound(bound: float) -> None:
    with pytest.raises(InputError, match="bound"):
        as_design([[1.0]], bound=bound)


@given(st.lists(st.lists(st.integers(0, 29), min_size=1, max_size=6), min_size=1, max_size=8))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_gram_on_demand_equals_full(asked: list[list[int]]) -> None:
    design = as_design(TABLE[:, :30], bound=1.0)
    full = design.full_gram()
    gram = Gram(design, memory=0)
    gram._fewest = 4  # forget quickly
    for columns in asked:
        index = np.array(columns)
        np.testing.assert_allclose(gram.columns(index), full[index], atol=1e-10)
        np.testing.assert_allclose(gram.block(index), full[np.ix_(index, index)], atol=1e-10)
        assert len(gram._kept) <= max(4, index.size)
    assert gram.affordable
    assert not gram.held


def _blocks_are_right(asked: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether all blocks are as numpy has them, where nearly every one is kept for the next."""
    monkeypatch.setattr(gram_module, "_MANY", 2)
    monkeypatch.setattr(gram_module, "_SQUARE", 12)  # begins anew now and then
    design = as_design(TABLE, bound=1.0)
    full, gram = design.full_gram(), Gram(design)
    blocks = [(gram.block(np.array(some)), full[np.ix_(some, some)]) for some in asked]
    return all(np.allclose(found, true, atol=1e-10) for found, true in blocks)


ASKED = [RNG.permutation(37)[:k].tolist() for k in (3, 5, 2, 12, 4, 13, 9, 9, 1, 12, 3)] * 3


def test_blocks_that_are_kept_equal_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _blocks_are_right(ASKED, monkeypatch)


def test_twin_products_with_new_columns_on_one_side_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lopsided(gram_module._Square):
        def _add(self, new: np.ndarray) -> None:
            old = self._index.size
            super()._add(new)
            self._products[old:, :old] = 0.0

    monkeypatch.setattr(gram_module, "_Square", Lopsided)
    assert not _blocks_are_right(ASKED, monkeypatch)


def test_features() -> None:
    assert Features.of(None, 4).columns([3, 1]).tolist() == [3, 1]
    assert len(Features.of([[0], [1]], 2)) == 2
    features = Features.of([[3], [1, 2], [0]], 4)
    assert len(features) == 3
    assert features.columns([1, 0]).tolist() == [1, 2, 3]
    assert features.sum(np.array([1.0, 2.0, 3.0, 4.0])).tolist() == [4.0, 5.0, 1.0]
    assert features.of_column.tolist() == [2, 1, 1, 0]
    for groups in ([[0, 1]], [[0], [0], [1], [2]], [[0]], [[0, 1, 2], []], [[0, 1, True]], 3, [0]):
        with pytest.raises(InputError, match="every column in exactly one"):
            Features.of(groups, 3)


@pytest.mark.parametrize("mapped", [False, True])
def test_neighbouring_columns_are_taken_as_any_others(mapped: bool) -> None:
    X = np.random.default_rng(3).uniform(-1, 1, size=(9, 6))
    given = {"lower": -0.5, "upper": 0.7} if mapped else {}
    design = as_design(X, bound=1.0, **given)
    run = design.take([2, 3, 4])
    assert np.array_equal(run, design.take([4, 2, 3])[:, [1, 2, 0]])
    run[:] = 9.0  # a copy
    assert np.abs(design.take([2, 3, 4])).max() <= 1.0
    with pytest.raises(IndexError):
        design.take([4, 5, 6])
