"""Large files and what is measured of them, on small ones; the GWAS example, too."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import gwas, scale, scale_files
from dpsubset.data import open_table


def copies(path: Path) -> np.ndarray:
    store = open_table(path)
    index = np.arange(store.n_columns)
    return store.numbers(index, np.ones(index.size))


def test_a_written_file_holds_genotypes_of_known_frequencies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale_files, "_AT_ONCE", 500)  # several pieces
    y, causal = scale_files.write_large_bed(tmp_path / "a.bed", 1000, 60, seed=3)
    X = copies(tmp_path / "a.bed")
    assert set(np.unique(X)) == {0.0, 1.0, 2.0}
    for first, share in ((0, 0.5), (1, 0.25), (2, 0.125)):
        assert abs(X[:, first::3].mean() / 2 - share) < 0.02
    assert y.std() == pytest.approx(1.0, abs=0.1)
    strength = np.abs(np.corrcoef(X.T, y)[-1, :-1])
    assert sorted(np.argsort(-strength)[: scale_files.CAUSAL].tolist()) == causal


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_what_is_measured(tmp_path: Path, loss: str) -> None:
    path, trait, causal = scale._cohort(tmp_path, 120, 1000)
    found = scale.measured(path, trait, loss, 1e3, 20.0, "64MB")
    assert found["bytes"] == path.stat().st_size
    assert len(set(found["support"]) & set(causal)) >= 4
    assert found["passes"] >= 1
    assert scale._cohort(tmp_path, 120, 1000) == (path, trait, causal)


def test_an_association_study(tmp_path: Path) -> None:
    n, p = 400, 200
    X, trait, causal = gwas.cohort(n, p, heritability=0.9, seed=1)
    more, added = gwas.covariates(n, seed=2)
    gwas.write_bed(tmp_path / "a.bed", X)
    np.testing.assert_array_equal(copies(tmp_path / "a.bed"), X)
    assert trait.var() == pytest.approx(1.0, abs=0.2)
    found = gwas.found(tmp_path / "a.bed", more, trait + added, causal, epsilon=1e4, seed=0)
    assert found == (gwas.CAUSAL, gwas.CAUSAL)


def test_an_association_study_is_planned() -> None:
    found = gwas.planned(30_000, 40, tables=1, draws=3)
    assert found.asked["always_include"] == ["age", "sex"]
    assert found.asked["true_columns"] == gwas.CAUSAL
    first, *_, last = found.points
    assert first.share < last.share
    assert last.chance > 0.6


def test_a_whole_run_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scale, "RESULTS", tmp_path / "scale.jsonl")
    folder = tmp_path / "files"
    scale.main(120, 400, ["squared"], 1e3, 20.0, folder, "64MB")
    assert "needs 0.0 GB in" in capsys.readouterr().err
    line = json.loads((tmp_path / "scale.jsonl").read_text())
    assert (line["p"], line["n"], line["loss"]) == (120, 400, "squared")
    disk, _ = scale.needed(120, 400, ["squared"])
    assert sum(file.stat().st_size for file in folder.iterdir()) < disk + 10_000
    monkeypatch.setattr(scale.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 100}))
    with pytest.raises(SystemExit, match="too little room"):
        scale.main(124, 400, ["squared"], 1e3, 20.0, folder, "64MB")
    assert not (folder / "cohort-124-400.bed").exists()
