"""Covariates beside a table on disk, and models of such tables."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from genotypes import genotypes, write_bed
from typer.testing import CliRunner

from dpsubset import SubsetClassifier, SubsetRegressor, SubsetSelector
from dpsubset.cli import app
from dpsubset.data import with_covariates
from dpsubset.errors import InputError

N = 300
BOUNDS = {"age": (0.0, 100.0), "sex": (0.0, 1.0)}


def cohort(folder: Path) -> tuple[np.ndarray, np.ndarray, pl.DataFrame]:
    """Return genotypes with missing ones filled in, a trait and covariates; write the .bed."""
    copies = genotypes(N, 12, seed=2, missing=0.05)
    write_bed(folder / "a.bed", copies)
    rng = np.random.default_rng(3)
    more = pl.DataFrame({"age": rng.uniform(20, 90, N), "sex": rng.integers(0, 2, N)})
    filled = np.nan_to_num(copies, nan=1.0)
    y = filled[:, 4] - filled[:, 7] + more["age"].to_numpy() / 30 + rng.normal(size=N) / 2
    return filled, y, more


def in_memory(filled: np.ndarray, more: pl.DataFrame) -> tuple[pl.DataFrame, dict]:
    names = [f"rs{j}" for j in range(filled.shape[1])]
    frame = pl.DataFrame(filled, schema=names).hstack(more.cast(pl.Float64))
    return frame, dict.fromkeys(names, (0.0, 2.0)) | BOUNDS


OPTIONS = {"n_features_to_select": 4, "always_include": ["age", "sex"], "epsilon": 3.0}


@pytest.mark.parametrize("loss", ["squared", "huber:0.2"])
def test_the_same_release_as_one_table_in_memory(tmp_path: Path, loss: str) -> None:
    filled, y, more = cohort(tmp_path)
    frame, bounds = in_memory(filled, more)
    table = with_covariates(tmp_path / "a.bed", more, BOUNDS)
    drawn = set()
    for seed in range(5):
        options = OPTIONS | {"bounds_y": (-3, 6), "loss": loss, "random_state": seed}
        expected = SubsetSelector(bounds_X=bounds, **options).fit(frame, y)
        found = SubsetSelector(bounds_X=(0, 2), **options).fit(table, y)
        assert found.get_support(True).tolist() == expected.get_support(True).tolist()
        assert set(found.get_support(True)) >= {12, 13}
        assert found.guarantee_ == expected.guarantee_
        assert list(found.get_feature_names_out()) == list(expected.get_feature_names_out())
        np.testing.assert_array_equal(found.transform(table), expected.transform(frame))
        drawn.add(tuple(found.get_support(True)))
    assert len(drawn) > 1


@pytest.mark.parametrize("covariates", [False, True])
def test_models_of_tables_on_disk(tmp_path: Path, covariates: bool) -> None:
    filled, y, more = cohort(tmp_path)
    frame, bounds = in_memory(filled, more)
    options = {"n_features_to_select": 3, "epsilon": 20.0, "random_state": 1}
    table = tmp_path / "a.bed"
    if covariates:
        options |= {"always_include": ["age"]}
        table = with_covariates(table, more, BOUNDS)
    else:
        frame = frame[:, :-2]
        bounds = {name: bounds[name] for name in frame.columns}
    expected = SubsetRegressor(bounds_X=bounds, bounds_y=(-3, 6), **options).fit(frame, y)
    found = SubsetRegressor(bounds_X=(0, 2), bounds_y=(-3, 6), **options).fit(table, y)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-9)
    np.testing.assert_allclose(found.predict(table), expected.predict(frame), atol=1e-9)
    labels = np.where(y > np.median(y), "ill", "well")
    options |= {"classes": ("well", "ill")}
    expected = SubsetClassifier(bounds_X=bounds, **options).fit(frame, labels)
    found = SubsetClassifier(bounds_X=(0, 2), **options).fit(table, labels)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-9)
    np.testing.assert_allclose(found.predict_proba(table), expected.predict_proba(frame), atol=1e-9)


def test_models_of_arrays_on_disk(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (400, 6))
    y = X[:, 1] - X[:, 4]
    np.save(tmp_path / "t.npy", X)
    options = {"n_features_to_select": 2, "epsilon": 20.0, "random_state": 1}
    model = SubsetRegressor(bounds_X=(0, 10), bounds_y=(-10, 10), **options)
    expected = model.fit(X, y).predict(X)
    np.testing.assert_allclose(model.fit(tmp_path / "t.npy", y).predict(X), expected, atol=1e-9)
    np.testing.assert_allclose(model.predict(tmp_path / "t.npy"), expected, atol=1e-9)
    np.save(tmp_path / "u.npy", X[:, :5])
    with pytest.raises(InputError, match="the table has 5 columns"):
        model.predict(tmp_path / "u.npy")
    X[7, 1] = np.nan
    np.save(tmp_path / "v.npy", X)
    with pytest.raises(InputError, match="missing or infinite"):
        model.predict(tmp_path / "v.npy")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f[:-1], "different numbers of rows"),
        (lambda f: f.with_columns(age=pl.lit(float("nan"))), "missing"),
        (lambda f: f.rename({"age": "rs3"}), "are missing|is not a column"),
        (lambda f: f.to_numpy(), "need names"),
    ],
)
def test_bad_covariates(tmp_path: Path, change, words: str) -> None:
    _, _, more = cohort(tmp_path)
    with pytest.raises(InputError, match=words):
        with_covariates(tmp_path / "a.bed", change(more), BOUNDS)


def test_a_covariate_with_the_name_of_a_variant(tmp_path: Path) -> None:
    _, _, more = cohort(tmp_path)
    with pytest.raises(InputError, match="rename it"):
        with_covariates(
            tmp_path / "a.bed", more[["age"]].rename({"age": "rs3"}), {"rs3": (0.0, 1.0)}
        )
    with pytest.raises(InputError, match="alongside a table on disk"):
        with_covariates(np.eye(3), more, BOUNDS)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Write what a command needs; people are in another order in the target and the covariates."""
    monkeypatch.chdir(tmp_path)
    filled, y, more = cohort(tmp_path)
    order = np.random.default_rng(0).permutation(N)
    ids = pl.Series("IID", [f"i{i}" for i in range(N)])
    pl.DataFrame({"IID": ids, "height": y})[order].write_parquet("height.parquet")
    more.insert_column(0, ids)[order[::-1]].write_csv("more.csv")
    Path("bounds.toml").write_text("[columns]\nheight = [-3, 6]\nage = [0, 100]\nsex = [0, 1]\n")
    return np.column_stack([filled, y])


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout + done.stderr


COMMAND = (
    *("a.bed", "--target", "height.parquet", "--bounds", "bounds.toml"),
    *("--covariates", "more.csv", "--size", 4, "--epsilon", 1e4),
)


@pytest.mark.usefixtures("files")
def test_the_command_always_includes_covariates() -> None:
    code, text = run("select", *COMMAND, "--quiet")
    assert (code, text.split()) == (0, ["rs4", "rs7", "age", "sex"])


def test_the_command_fits_and_predicts(files: np.ndarray) -> None:
    code, text = run("fit", *COMMAND, "--output", "model.json", "--quiet", "--seed", 1)
    assert code == 0, text
    model = json.loads(Path("model.json").read_text())
    assert model["released"]["columns"] == ["rs4", "rs7", "age", "sex"]
    code, text = run("predict", "model.json", "a.bed", "--covariates", "more.csv", "--json")
    assert code == 0, text
    predicted = np.array(json.loads(text)["height"])
    assert np.corrcoef(predicted, files[:, -1])[0, 1] > 0.8
    code, text = run("predict", "model.json", "a.bed")
    assert code == 2
    assert "--covariates" in text


@pytest.mark.usefixtures("files")
def test_the_command_fits_without_covariates() -> None:
    Path("bounds.toml").write_text("[columns]\nheight = [-3, 6]\n")
    words = (*COMMAND[:5], "--size", 2, "--epsilon", 1e4, "--memory", "64MB")
    code, text = run("fit", *words, "--output", "model.json", "--quiet", "--seed", 1)
    assert code == 0, text
    code, text = run("predict", "model.json", "a.bed")
    assert code == 0
    assert len(text.split()) == N + 1


@pytest.mark.usefixtures("files")
def test_labels_of_a_model_are_named() -> None:
    pl.DataFrame({"ill": ["yes", "no"] * (N // 2)}).write_csv("ill.csv")
    words = ("a.bed", "--target", "ill.csv", "--loss", "logistic", "--size", 2)
    code, text = run("fit", *words, "--output", "model.json")
    assert code == 2
    assert "--classes" in text


@pytest.mark.usefixtures("files")
def test_covariates_need_a_table_on_disk() -> None:
    words = ("--target", "height", "--covariates", "more.csv", "--schema", "bounds.toml")
    code, text = run("select", "height.parquet", *words)
    assert code == 2
    assert "--always-include" in text
