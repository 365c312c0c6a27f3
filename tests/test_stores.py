"""Tables on disk: the release is that of the table in memory, and bad files are refused."""

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from genotypes import genotypes, write_bed
from typer.testing import CliRunner

from dpsubset import Ledger, SubsetSelector
from dpsubset.cli import app
from dpsubset.data.stores import memory_of, open_table
from dpsubset.designs import as_design
from dpsubset.errors import InputError

KINDS = ["npy", "map", "zarr", "parquet", "parts"]


def table(n: int = 4300, p: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (n, p))
    return X, X[:, 3] + 2 * X[:, 5] + rng.normal(size=n)


def written(folder: Path, X: np.ndarray, kind: str) -> Path:
    if kind in ("npy", "map"):
        np.save(folder / "t.npy", X)
        return folder / "t.npy"
    if kind == "zarr":
        zarr = pytest.importorskip("zarr")
        store = zarr.create_array(
            str(folder / "t.zarr"), shape=X.shape, chunks=(900, 3), dtype="f8"
        )
        store[:] = X
        return folder / "t.zarr"
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(X.shape[1])])
    if kind == "parquet":
        frame.write_parquet(folder / "t.parquet")
        return folder / "t.parquet"
    (folder / "parts").mkdir()
    for k, (a, b) in enumerate([(0, 1000), (1000, 1001), (1001, len(X))]):
        frame[a:b].write_parquet(folder / "parts" / f"part-{k}.parquet")
    return folder / "parts"


def selector(**options) -> SubsetSelector:
    settings = {"bounds_X": (0, 10), "bounds_y": (0, 30), "random_state": 3, "epsilon": 0.3}
    return SubsetSelector(n_features_to_select=3, **settings | options)


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_release_as_in_memory(tmp_path: Path, kind: str, loss: str) -> None:
    X, y = table()
    path = written(tmp_path, X, kind)
    given = np.load(path, mmap_mode="r") if kind == "map" else str(path)
    for seed in range(3):
        expected = selector(loss=loss, random_state=seed).fit(X, y)
        stored = selector(loss=loss, random_state=seed).fit(given, y)
        assert stored.get_support().tolist() == expected.get_support().tolist()
        assert stored.guarantee_ == expected.guarantee_


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_same_release_of_genotypes(tmp_path: Path, loss: str) -> None:
    copies = genotypes(300, 40)
    write_bed(tmp_path / "a.bed", copies)
    filled = np.nan_to_num(copies, nan=1.0)
    y = filled[:, 3] - filled[:, 9] + np.random.default_rng(0).normal(size=300)
    options = {"bounds_X": (0, 2), "loss": loss, "epsilon": 5.0}
    if loss == "logistic":
        y, options = y > 0, options | {"bounds_y": None, "classes": (False, True)}
    for seed in range(3):
        expected = selector(**options, random_state=seed).fit(filled, y)
        stored = selector(**options, random_state=seed).fit(tmp_path / "a.bed", y)
        assert stored.get_support().tolist() == expected.get_support().tolist()
    assert list(stored.get_feature_names_out()) == [f"rs{j}" for j in stored.get_support(True)]


def test_memory_is_bounded_by_tiles(tmp_path: Path) -> None:
    X, _ = table()
    store = open_table(written(tmp_path, X, "npy"))
    sizes = [tile.block.nbytes for tile in store.tiles(40_000)]
    assert max(sizes) <= 40_000
    assert sum(sizes) == X.nbytes


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["npy", "zarr"])
def test_a_table_of_twice_the_memory_limit(tmp_path: Path, kind: str) -> None:
    """The same releases as in memory, and the table is never held: numpy's memory is counted."""
    n, p, limit = 4200, 4000, 64 * 10**6
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (n, p))
    y = X[:, 3] + 2 * X[:, 5] + rng.normal(size=n)
    assert X.nbytes > 2 * limit
    path = tmp_path / "t.npy"
    if kind == "npy":
        np.save(path, X)
    else:
        zarr = pytest.importorskip("zarr")
        path = tmp_path / "t.zarr"
        chunks = {"shape": X.shape, "chunks": (2100, 125), "dtype": "f8"}
        zarr.create_array(str(path), **chunks)[:] = X
    asked = [selector(loss="squared", ridge=500.0, epsilon=0.5, random_state=k) for k in range(3)]
    expected = [one.fit(X, y).get_support(True).tolist() for one in asked]
    del X
    tracemalloc.start()
    found = [one.fit(open_table(path, memory=limit), y).get_support(True).tolist() for one in asked]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == expected
    assert len({tuple(one) for one in found}) > 1
    assert peak < limit


# Bad files: the same words for all data, and nothing is spent -------------------------------------


def refused(tmp_path: Path, path: Path, words: str, y: np.ndarray) -> None:
    ledger = Ledger(tmp_path / "budget.db", epsilon=1.0)
    with pytest.raises(InputError, match=words):
        selector(ledger=ledger, random_state=None).fit(path, y)
    assert ledger.spent == (0.0, 0.0)


def test_a_truncated_bed(tmp_path: Path) -> None:
    write_bed(tmp_path / "a.bed", genotypes(30, 4))
    whole = (tmp_path / "a.bed").read_bytes()
    for cut, words in ((whole[:-1], "truncated"), (b"PK" + whole[2:], "not a .bed")):
        (tmp_path / "a.bed").write_bytes(cut)
        refused(tmp_path, tmp_path / "a.bed", words, np.zeros(30))
    (tmp_path / "a.bim").unlink()
    refused(tmp_path, tmp_path / "a.bed", "needs its .bim", np.zeros(30))


def test_a_truncated_array(tmp_path: Path) -> None:
    X, y = table(50)
    path = written(tmp_path, X, "npy")
    path.write_bytes(path.read_bytes()[:-8])
    refused(tmp_path, path, "truncated", y)
    path.write_bytes(b"no array")
    refused(tmp_path, path, "not a .npy", y)


def test_missing_numbers_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    X, y = table(50)
    X[49, 7] = np.nan
    refused(tmp_path, written(tmp_path, X, "npy"), "missing or infinite", y)


def test_a_missing_chunk(tmp_path: Path) -> None:
    X, y = table(2000)
    path = written(tmp_path, X, "zarr")
    (path / "c" / "1" / "0").unlink()
    refused(tmp_path, path, "lacks chunks", y)


def test_a_damaged_chunk(tmp_path: Path) -> None:
    X, y = table(2000)
    path = written(tmp_path, X, "zarr")
    (path / "c" / "1" / "0").write_bytes(b"nothing")
    refused(tmp_path, path, "missing or damaged", y)


def test_a_damaged_chunk_is_one_line_of_the_command(tmp_path: Path) -> None:
    """Reads beside the one that failed are not told of."""
    X, y = table(4000)
    path = written(tmp_path, X, "zarr")
    (path / "c" / "1" / "0").write_bytes(b"nothing")
    pl.DataFrame({"y": y}).write_csv(tmp_path / "y.csv")
    (tmp_path / "b.toml").write_text("[default]\nbounds = [0, 10]\n[columns]\ny = [0, 20]\n")
    words = ["select", path, "--target", tmp_path / "y.csv", "--bounds", tmp_path / "b.toml"]
    done = subprocess.run(
        [sys.executable, "-m", "dpsubset", *map(str, words), "--size", "2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"error: {path}: a chunk cannot be read; it is missing or damaged"
    ]


def test_a_missing_shard(tmp_path: Path) -> None:
    """Also where the last shards hold fewer chunks than they could."""
    zarr = pytest.importorskip("zarr")
    X, y = table(801)
    shape = {"shape": X.shape, "chunks": (100, 2), "shards": (200, 4), "dtype": "f8"}
    zarr.create_array(tmp_path / "a.zarr", **shape)[:] = X
    assert open_table(tmp_path / "a.zarr").n_rows == 801
    (tmp_path / "a.zarr" / "c" / "1" / "0").unlink()
    refused(tmp_path, tmp_path / "a.zarr", "lacks chunks", y)


def test_a_part_of_another_schema(tmp_path: Path) -> None:
    X, y = table(2000)
    path = written(tmp_path, X, "parts")
    frame = pl.read_parquet(path / "part-1.parquet")
    for other in (frame.rename({"x0": "z"}), frame.cast({"x0": pl.Float32}), frame.drop("x0")):
        other.write_parquet(path / "part-1.parquet")
        refused(tmp_path, path, "other columns, or columns of other types", y)
    (path / "part-1.parquet").write_bytes(b"PAR1")
    refused(tmp_path, path, "not a readable Parquet", y)


@pytest.mark.parametrize("kind", ["npy", "zarr", "parts"])
def test_a_file_that_changes_during_the_run(tmp_path: Path, kind: str) -> None:
    X, _ = table(2000)
    path = written(tmp_path, X, kind)
    design = as_design(open_table(path), bound=1.0, lower=0, upper=10)
    changed = next(f for f in sorted(path.rglob("*")) if f.is_file()) if path.is_dir() else path
    os.utime(changed, ns=(1, 1))
    os.utime(changed, ns=(10**19 // 3, 10**19 // 3))
    with pytest.raises(InputError, match="has changed while it was read"):
        design.correlate(np.arange(2000.0))
    with pytest.raises(InputError, match="has changed while it was read"):
        design.take([0])


def test_a_bed_that_shrinks_during_the_run(tmp_path: Path) -> None:
    write_bed(tmp_path / "a.bed", genotypes(30, 4))
    design = as_design(open_table(tmp_path / "a.bed"), bound=1.0, lower=0, upper=2)
    os.truncate(tmp_path / "a.bed", 10)
    with pytest.raises(InputError, match="has changed while it was read"):
        design.correlate(np.arange(30.0))


def test_memory_in_words() -> None:
    assert memory_of("1.5 GiB") == 1_500_000_000
    for wrong in ("much", "-1GB", "1KB", 5):
        with pytest.raises(InputError, match="give 64 MB or more"):
            memory_of(wrong)


# The command -------------------------------------------------------------------------------------


@pytest.fixture
def cohort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    monkeypatch.chdir(tmp_path)
    copies = genotypes(200, 6, seed=1)
    write_bed(tmp_path / "cohort.bed", copies)
    y = np.nan_to_num(copies, nan=1.0)[:, [1, 4]].sum(axis=1)
    order = np.random.default_rng(0).permutation(200)
    ids = [f"i{i}" for i in order]
    pl.DataFrame({"IID": ids, "height": y[order]}).write_parquet("height.parquet")
    pl.DataFrame({"ill": np.where(y > 1.5, "yes", "no")}).write_csv("ill.csv")
    (tmp_path / "bounds.toml").write_text("[columns]\nheight = [0, 4]\n")
    return y


def command(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["select", *map(str, words), "--size", "2", "--quiet"])
    return done.exit_code, done.stdout + done.stderr


@pytest.mark.usefixtures("cohort")
def test_the_command_selects_genotypes() -> None:
    target = ("--target", "height.parquet", "--bounds", "bounds.toml", "--memory", "64MB")
    assert command("cohort.bed", *target, "--epsilon", 1e4) == (0, "rs1\nrs4\n")
    labels = ("--target", "ill.csv", "--classes", "no,yes")
    assert command("cohort.bed", *labels, "--epsilon", 1e4) == (0, "rs1\nrs4\n")


@pytest.mark.usefixtures("cohort")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--target is missing"),
        (("--target", "height.parquet"), "--bounds is missing"),
        (("--target", "bounds.toml", "--bounds", "bounds.toml"), "not supported"),
        (("--target", "height.parquet", "--schema", "bounds.toml"), "--schema is not for"),
        (("--target", "ill.csv", "--classes", "no,yes", "--memory", "2"), "64 MB"),
    ],
)
def test_the_command_refuses(words: tuple[str, ...], told: str) -> None:
    code, text = command("cohort.bed", *words, "--epsilon", 1)
    assert code == 2
    assert told in text


@pytest.mark.usefixtures("cohort")
def test_people_without_a_row_are_told() -> None:
    frame = pl.read_parquet("height.parquet")
    frame[:-1].write_parquet("height.parquet")
    code, text = command(
        "cohort.bed", "--target", "height.parquet", "--bounds", "bounds.toml", "--epsilon", 1
    )
    assert code == 2
    assert "lacks people" in text


def test_the_command_selects_from_parquet_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    X, y = table(2000)
    written(tmp_path, np.column_stack([X, y]), "parts")
    (tmp_path / "b.toml").write_text("[default]\nbounds = [0, 10]\n[columns]\nx8 = [0, 30]\n")
    words = ("parts", "--target", "x8", "--bounds", "b.toml", "--epsilon", 1e4)
    assert command(*words) == (0, "x3\nx5\n")
