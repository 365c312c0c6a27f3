"""Tables on disk: every product is NumPy's, whatever the tiles; a pass is a pass."""

from pathlib import Path

import numpy as np
import pytest
from genotypes import genotypes, write_bed

from dpsubset.data.bed import BedFile
from dpsubset.data.stores import open_table
from dpsubset.designs import as_design, packed
from dpsubset.designs import cores as module
from dpsubset.designs.cores import in_parallel


@pytest.mark.parametrize("n", [1, 3, 64, 65, 130, 4096, 4101, 8250])
def test_products_on_packed_bytes(tmp_path: Path, n: int) -> None:
    copies = genotypes(n, 7, seed=n)
    write_bed(tmp_path / "a.bed", copies)
    mapped = np.nan_to_num(copies, nan=1.0) - 1.0
    store = BedFile(tmp_path / "a.bed")
    store.memory = 16 * 3 * ((n + 3) // 4)  # three columns a tile
    rng = np.random.default_rng(1)
    y, U = rng.normal(size=n), rng.normal(size=(n, 3))
    design = as_design(store, bound=1.0, lower=0, upper=2, partner=y)
    assert design.passes == 1
    np.testing.assert_allclose(design.square_norms(), (mapped**2).sum(axis=0), rtol=0, atol=0)
    np.testing.assert_allclose(design.correlate(y), mapped.T @ y, atol=1e-11)
    np.testing.assert_allclose(design.correlate(-3.0 * y), -3.0 * mapped.T @ y, atol=1e-11)
    assert design.passes == 1  # both are known from the first one
    np.testing.assert_allclose(design.correlate(U), mapped.T @ U, atol=1e-11)
    assert design.passes == 2
    np.testing.assert_array_equal(design.take([6, 0]), mapped[:, [6, 0]])
    assert design.take([]).shape == (n, 0)
    assert (design.passes, design.fetched) == (2, 2)


def test_clipped_genotypes_and_other_bounds(tmp_path: Path) -> None:
    copies = genotypes(50, 4)
    write_bed(tmp_path / "a.bed", copies)
    store = BedFile(tmp_path / "a.bed")
    for lower, upper in ((0.5, 1.5), (0.0, 4.0), (-1.0, 1.0)):
        middle = (lower + upper) / 2
        filled = np.nan_to_num(copies, nan=middle)
        expected = np.clip((filled - middle) / (upper - middle), -1, 1)
        design = as_design(store, bound=1.0, lower=lower, upper=upper)
        np.testing.assert_allclose(design.take(range(4)), expected)
        np.testing.assert_allclose(design.correlate(np.ones(50)), expected.sum(axis=0))


@pytest.mark.parametrize("twin", ["missing", "padding", "order"])
def test_broken_lookups_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, twin: str
) -> None:
    """A twin that reads codes, or the last byte's padding, in a wrong way gives other products."""
    n = 66
    copies = genotypes(n, 5, missing=0.2)
    write_bed(tmp_path / "a.bed", copies)
    mapped = np.nan_to_num(copies, nan=1.0) - 1.0
    honest = packed._worth

    def broken(u, values, table):
        if twin == "missing":
            values = np.array([values[0], values[0], values[2], values[3]])
        if twin == "order":
            values = values[::-1].copy()
        if twin == "padding":
            u = np.concatenate([u, np.ones(-u.size % 4)])
        honest(u, values, table)

    monkeypatch.setattr(packed, "_worth", broken)
    monkeypatch.setattr(packed, "_products", getattr(packed._products, "py_func", packed._products))
    u = np.random.default_rng(0).normal(size=n)
    design = as_design(BedFile(tmp_path / "a.bed"), bound=1.0, lower=0, upper=2)
    assert np.abs(design.correlate(u) - mapped.T @ u).max() > 0.1


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("kind", ["float64", "float32", "int8", "bool"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("share", [100, 5000, 10**6])
def test_arrays_on_disk_are_arrays(tmp_path: Path, kind: str, order: str, share: int) -> None:
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2 if kind == "bool" else 9, (4500, 6)).astype(kind)
    np.save(tmp_path / "a.npy", np.asarray(X, order=order))
    store = open_table(tmp_path / "a.npy")
    store.memory = 16 * share * 6
    stored = as_design(store, bound=1.0, lower=0, upper=5)
    memory = as_design(X, bound=1.0, lower=0, upper=5)
    U = rng.normal(size=(4500, 2))
    np.testing.assert_array_equal(stored.square_norms(), memory.square_norms())
    np.testing.assert_array_equal(stored.correlate(U), memory.correlate(U))
    np.testing.assert_array_equal(stored.take([5, 2]), memory.take([5, 2]))


def test_the_number_of_cores_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bed(tmp_path / "a.bed", genotypes(300, 11))
    u, found = np.random.default_rng(0).normal(size=300), []
    for cores in ("1", "2", "3"):
        monkeypatch.setattr(module, "cores", lambda cores=cores: int(cores))
        design = as_design(BedFile(tmp_path / "a.bed"), bound=1.0, lower=0, upper=2)
        found.append(design.correlate(u))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.large
def test_dense_products_do_not_depend_on_the_number_of_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = np.random.default_rng(0).uniform(0, 3, (900, 5001)).astype(np.float32)
    u, found = np.random.default_rng(1).normal(size=900), []
    for cores in (1, 2, 5):
        monkeypatch.setattr(module, "cores", lambda cores=cores: cores)
        found.append(as_design(X, bound=1.0, lower=0, upper=2).correlate(u))
    expected = np.clip(X.astype(np.float64) - 1, -1, 1).T @ u
    np.testing.assert_allclose(found[0], expected, atol=1e-10)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_a_fault_in_one_part_is_told() -> None:
    def work(part: int) -> None:
        if part == 1:
            raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        in_parallel(work, [0, 1])


@pytest.mark.large
@pytest.mark.parametrize(("n", "kind"), [(90, np.int16), (40_000, np.int32)])
def test_rows_of_the_gram_matrix_are_whole_numbers(tmp_path: Path, n: int, kind: type) -> None:
    copies = genotypes(n, 5)
    write_bed(tmp_path / "a.bed", copies)
    mapped = np.nan_to_num(copies, nan=1.0) - 1.0
    design = as_design(BedFile(tmp_path / "a.bed"), bound=1.0, lower=0, upper=2).with_ones()
    full = np.column_stack([mapped, np.ones(n)])
    rows = design.gram_rows([5, 0, 3])
    assert all(row.dtype == kind for row in rows)
    np.testing.assert_array_equal(rows, (full.T @ full)[[5, 0, 3]])


@pytest.mark.parametrize("bounds", [(0.5, 1.6), (0.0, 4.0)])
def test_rows_that_are_no_whole_numbers_lose_nothing(
    tmp_path: Path, bounds: tuple[float, float]
) -> None:
    write_bed(tmp_path / "a.bed", genotypes(90, 5))
    lower, upper = bounds
    design = as_design(BedFile(tmp_path / "a.bed"), bound=1.0, lower=lower, upper=upper).with_ones()
    expected = design.correlate(design.take([5, 0, 3])).T
    np.testing.assert_array_equal(design.gram_rows([5, 0, 3]), expected)


def test_a_constant_that_is_no_whole_number_is_seen(tmp_path: Path) -> None:
    """Entries may be whole where the bound is not: the constant column is at the bound."""
    write_bed(tmp_path / "a.bed", genotypes(40, 3))
    design = as_design(BedFile(tmp_path / "a.bed"), bound=2.5, lower=-1.5, upper=3.5).with_ones()
    np.testing.assert_array_equal(design.gram_rows([3, 0]), design.correlate(design.take([3, 0])).T)
