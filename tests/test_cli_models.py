"""The commands `fit` and `predict`: a round trip, what they print, how they end."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from dpsubset import SubsetClassifier, SubsetRegressor
from dpsubset.cli import app
from dpsubset.coefficients import CoefficientMechanism
from dpsubset.errors import RefusedError, UnprovenError
from dpsubset.mechanisms import Mechanism
from dpsubset.model_file import read_model

ROWS = 317  # a number of rows that nothing else equals
NAMES = [f"x{j}" for j in range(6)]
BOUNDS = '[default]\nbounds = [0, 10]\n[columns]\n"y" = [-10, 15]\n"x4" = [-5, 11]\n'
LIMITS = {name: (-5, 11) if name == "x4" else (0, 10) for name in NAMES}


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (ROWS, 6))
    return X, X[:, 1] - X[:, 4] + rng.normal(size=ROWS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a table, in which x1 and x4 explain y and the label c, and its bounds."""
    X, y = data()
    frame = pl.DataFrame(X, schema=NAMES).with_columns(y=pl.Series(y))
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    labels = pl.Series(np.where(y > 0, "yes", "9137no"))
    frame.drop("y").with_columns(c=labels).write_csv(tmp_path / "c.csv")
    (tmp_path / "b.toml").write_text(BOUNDS)
    (tmp_path / "labels.toml").write_text("[default]\nbounds = [0, 10]\n[columns]\nx4 = [-5, 11]\n")
    return tmp_path


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all mechanisms that released."""
    found: list[str] = []
    select, fit = Mechanism.chosen, CoefficientMechanism.fitted

    def selecting(self: Any, *arguments: Any) -> Any:
        found.append(self.name)
        return select(self, *arguments)

    def fitting(self: Any, *arguments: Any) -> Any:
        found.append(self.name)
        return fit(self, *arguments)

    monkeypatch.setattr(Mechanism, "chosen", selecting)
    monkeypatch.setattr(CoefficientMechanism, "fitted", fitting)
    return found


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def fit(folder: Path, *more: Any, table: str = "t.csv", epsilon: float = 40.0) -> Result:
    given = ["--target", "y", "--size", 2, "--epsilon", epsilon, "--bounds", folder / "b.toml"]
    return run("fit", folder / table, *given, "--output", folder / "m.json", *more)


def fit_labels(folder: Path, *more: Any) -> Result:
    given = ["--target", "c", "--bounds", folder / "labels.toml", "--loss", "hinge"]
    return fit(folder, *given, *more, table="c.csv", epsilon=60.0)


def predict(folder: Path, *more: Any, table: str = "t.csv") -> Result:
    return run("predict", folder / "m.json", folder / table, *more)


def mistake(result: Result, expected: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert expected in result.stderr
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)


def column(text: str, name: str) -> list[str]:
    return [row[name] for row in csv.DictReader(io.StringIO(text))]


# From a table to a model and to predictions -----------------------------------------------------


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("table", ["t.csv", "t.parquet"])
@pytest.mark.parametrize(
    ("options", "same"),
    [
        ([], {}),
        (
            ["--clip", 0.8, "--no-intercept", "--neighbours", "add-remove", "--delta", 1e-6],
            {"clip": 0.8, "fit_intercept": False, "neighbours": "add-remove", "delta": 1e-6},
        ),
        (
            ["--coefficients", "noisy-statistics", "--mechanism", "exponential"],
            {"coefficients": "noisy-statistics", "mechanism": "exponential"},
        ),
        (
            ["--selection-share", 0.3, "--coefficient-loss", "squared", "--always-include", "x0"],
            {"selection_share": 0.3, "coefficient_loss": "squared", "always_include": ["x0"]},
        ),
        (
            ["--loss", "squared", "--ridge", 2, "--radius", 3],
            {"loss": "squared", "ridge": 2.0, "radius": 3.0},
        ),
    ],
)
def test_the_command_fits_the_model_of_the_estimator(
    folder: Path, table: str, options: list[Any], same: dict[str, Any]
) -> None:
    result = fit(folder, "--seed", 3, *options, table=table)
    assert result.exit_code == 0, result.output
    frame = pl.read_csv(folder / "t.csv")
    model = SubsetRegressor(
        n_features_to_select=2,
        epsilon=40.0,
        bounds_X=LIMITS,
        bounds_y=(-10, 15),
        random_state=3,
        **same,
    ).fit(frame.select(NAMES), frame["y"])
    stored = read_model(folder / "m.json")
    chosen = np.flatnonzero(model.support_)
    assert list(stored.columns) == [NAMES[j] for j in chosen]
    assert list(stored.coefficients) == model.coef_[chosen].tolist()
    assert stored.intercept == model.intercept_
    assert stored.guarantee == model.guarantee_.to_dict()
    assert stored.guarantee["epsilon"] == 40.0
    shown = predict(folder, table=table)
    assert shown.exit_code == 0, shown.output
    assert shown.stderr == ""
    values = [float(v) for v in column(shown.stdout, "y")]
    np.testing.assert_allclose(values, model.predict(frame.select(NAMES)), rtol=1e-12)


def test_labels(folder: Path) -> None:
    frame = pl.read_csv(folder / "c.csv")
    for more, loss in [([], None), (["--coefficient-loss", "huber_hinge"], "huber_hinge")]:
        result = fit_labels(folder, "--classes", "9137no,yes", "--seed", 2, *more)
        assert result.exit_code == 0, result.output
        model = SubsetClassifier(
            n_features_to_select=2,
            epsilon=60.0,
            bounds_X=LIMITS,
            classes=("9137no", "yes"),
            random_state=2,
            coefficient_loss=loss,
        ).fit(frame.select(NAMES), frame["c"])
        stored = read_model(folder / "m.json")
        assert list(stored.coefficients) == model.coef_[0, model.support_].tolist()
        text = predict(folder, table="c.csv").stdout
        assert column(text, "c") == model.predict(frame.select(NAMES)).tolist()
        header = text.splitlines()[0]
        if loss is None:
            chances = [float(v) for v in column(text, "probability of yes")]
            expected = model.predict_proba(frame.select(NAMES))[:, 1]
            np.testing.assert_allclose(chances, expected, rtol=1e-12)
            assert header == "c,probability of yes"
        else:
            assert header == "c"


def test_labels_must_be_named_before_a_row_is_read(folder: Path, spent: list[str]) -> None:
    mistake(fit_labels(folder), "--classes")
    mistake(fit_labels(folder, "--classes", "a,b,c"), "--classes")
    refused = fit_labels(folder, "--classes", "yes,other")
    mistake(refused, "other than the two classes")
    assert "9137" not in refused.output
    mistake(fit(folder, "--loss", "huber", "--classes", "no,yes"), "--classes is for")
    assert spent == []
    assert not (folder / "m.json").exists()


def test_what_is_printed(folder: Path) -> None:
    result = fit(folder)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert result.stdout.startswith("2 columns for y\n  x1  ")
    for part in ("\n  x4  ", "\n  intercept  ", "Guarantee\n", "\n  epsilon     40\n"):
        assert part in result.stdout
    assert "followed by objective perturbation" in result.stdout
    assert result.stdout.endswith(f"Written to {folder / 'm.json'}\n")
    everything = result.output + (folder / "m.json").read_text()
    assert not re.search(rf"(?<![\w.]){ROWS}(?!\w)", everything)
    assert "SEEDED" not in everything
    assert "econd" not in everything.replace("max_seconds", "")
    quiet = fit(folder, "--quiet")
    assert (quiet.exit_code, quiet.output) == (0, "")
    for name in ("t.csv", "b.toml", "m.json"):
        assert (folder / name).exists()
    assert not [p for p in folder.iterdir() if p.name.startswith(".")]


def test_the_file_holds_public_things_only(folder: Path) -> None:
    asked = ("--neighbours", "add-remove", "--window-share", "0", "--quiet")
    assert fit(folder, *asked).exit_code == 0
    document = json.loads((folder / "m.json").read_text())
    assert set(document) == {
        *("format", "version", "asked", "released", "guarantee", "dpsubset", "sha256"),
    }
    assert set(document["released"]) == {
        *("positions", "columns", "coefficients", "intercept", "target", "classes"),
        *("probabilities", "bounds", "target_bounds", "offset"),
    }
    assert document["asked"]["offset_share"] == 0.1  # whatever the number of rows
    assert document["asked"]["mechanism"]["epsilon"] == 18.0
    assert document["asked"]["selection_share"] == 0.5
    assert document["asked"]["coefficients"]["name"] == "ObjectivePerturbation"
    assert document["asked"]["coefficients"]["epsilon"] == 18.0
    assert "seed" not in document["asked"]
    X, y = data()
    text = (folder / "m.json").read_text()
    assert not [v for v in [*X.ravel(), *y] if repr(float(v)) in text]


def test_two_real_runs_differ_and_seeded_ones_do_not(folder: Path) -> None:
    def text(*more: Any) -> str:
        result = fit(folder, "--quiet", *more, epsilon=1.0)
        assert result.exit_code == 0, result.output
        return (folder / "m.json").read_text()

    assert text("--seed", 1) == text("--seed", 1) != text("--seed", 2)
    assert text() != text()
    assert json.loads(text("--seed", 1))["guarantee"]["randomness"] == "seeded"
    assert json.loads(text())["guarantee"]["randomness"] == "operating system"


def test_what_is_weaker_has_a_line_of_its_own(folder: Path) -> None:
    for more, expected in [(["--seed", 1], "seeded"), (["--mechanism", "mistakes"], "only if")]:
        for shown in ([], ["--quiet"]):
            result = fit(folder, *more, *shown)
            assert result.exit_code == 0, result.output
            assert result.stderr.startswith("warning: ")
            assert result.stderr.count("\n") == 1
            assert expected in result.stderr
            assert "warning" not in result.stdout


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.1, 7.7])
@pytest.mark.parametrize("share", [0.1, 0.37, 0.9])
def test_rounding_of_the_shares_is_no_weaker_promise(
    folder: Path, epsilon: float, share: float
) -> None:
    result = fit(folder, "--selection-share", share, epsilon=epsilon)
    assert result.exit_code == 0
    assert "weaker" not in result.stderr
    assert f"\n  epsilon     {epsilon}\n" in result.stdout


def test_an_empty_table(folder: Path, spent: list[str]) -> None:
    (folder / "t.csv").write_text(",".join([*NAMES, "y"]) + "\n")
    mistake(fit(folder), "no rows")
    assert spent == []
    assert fit(folder, "--neighbours", "add-remove").exit_code == 0
    assert predict(folder).stdout == "y\n"


# What is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--mechanism", "all"], "name one mechanism"),
        (["--mechanism", "nonsense"], "unknown mechanism"),
        (["--coefficients", "nonsense"], "unknown method"),
        (["--coefficients", "noisy-statistics", "--delta", 1e-6], "delta"),
        (["--coefficients", "noisy-statistics", "--coefficient-loss", "huber"], "squared loss"),
        (["--coefficient-loss", "nonsense"], "unknown loss"),
        (["--coefficient-loss", "absolute"], "loss"),
        (["--coefficient-loss", "logistic"], "not for numbers"),
        (["--selection-share", 0], "selection_share"),
        (["--selection-share", 1], "selection_share"),
        (["--selection-share", "nan"], "selection_share"),
        (["--epsilon", 0], "epsilon"),
        (["--epsilon", "nan"], "epsilon"),
        (["--epsilon", "inf"], "epsilon"),
        (["--delta", 0.5], "delta"),
        (["--delta", "nan"], "delta"),
        (["--size", 7], "--size"),
        (["--clip", 2], "clip"),
        (["--radius", 0], "radius"),
        (["--ridge", -1], "ridge"),
        (["--seed", -1], "--seed"),
        (["--neighbours", "nobody"], "neighbour"),
        (["--target", "z"], "not a column"),
        (["--features", "x0,y"], "cannot explain itself"),
        (["--always-include", "z"], "not a column"),
        (["--loss", "nonsense"], "unknown loss"),
        (["--max-seconds", 0], "max_seconds"),
        (["--output", "none/m.json"], "no such folder"),
        (["--output", "."], "is a folder"),
        (["--output", "t.csv"], "one of the files to read"),
        (["--output", "../{folder}/b.toml"], "one of the files to read"),
        (["--output", "/proc/m.json"], "cannot be written"),
        (["--output", "/dev/full"], "not an ordinary file"),
    ],
)
def test_a_wrong_option_is_one_line_before_a_row_is_read(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    spent: list[str],
    options: list[Any],
    expected: str,
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("dpsubset.cli.asked.read_table", lambda *a, **k: pytest.fail("read"))
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    options = [str(option).replace("{folder}", folder.name) for option in options]
    mistake(fit(folder, *options), expected)
    assert spent == []
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_wrong_use_ends_with_2(folder: Path) -> None:
    for arguments in (
        ["fit", folder / "t.csv", "--target", "y"],  # no output
        ["fit", folder / "t.csv", "--output", folder / "m.json"],  # no target
        ["predict", folder / "m.json"],
        ["fit", folder / "t.csv", "--target", "y", "--output", "m", "--epsilon", "much"],
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "Traceback" not in result.output
    given = ["--target", "y", "--output", folder / "m.json"]
    mistake(run("fit", folder / "t.csv", *given), "--schema is missing")


def test_a_very_large_epsilon_ends_without_a_traceback(folder: Path) -> None:
    result = fit(folder, epsilon=1e4)
    assert result.exit_code in (0, 1, 2)
    assert result.exception is None or isinstance(result.exception, SystemExit)


def test_limits_far_apart_lose_no_release(folder: Path, spent: list[str]) -> None:
    X, y = data()
    frame = pl.DataFrame(X * 1e-201, schema=NAMES).with_columns(y=pl.Series((y + 10) * 1e199))
    frame.write_csv(folder / "t.csv")
    (folder / "b.toml").write_text("[default]\nbounds = [0, 1e-200]\n[columns]\ny = [0, 2e200]\n")
    result = fit(folder, epsilon=10.0)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert (result.exit_code == 0) == bool(spent)
    assert result.exit_code == 0 or "Traceback" not in result.output


@pytest.mark.parametrize(
    ("error", "code", "start"),
    [
        (UnprovenError("too hard"), 1, "refused: too hard"),
        (RefusedError("not stable"), 1, "refused: not stable"),
        (MemoryError(), 2, "error: the memory"),
        (KeyboardInterrupt(), 130, "interrupted: count the budget as spent"),
    ],
)
def test_a_fit_that_fails_leaves_no_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, start: str
) -> None:
    def fail(*arguments: Any) -> None:
        raise error

    monkeypatch.setattr(CoefficientMechanism, "fitted", fail)
    (folder / "m.json").write_text("older")
    names = sorted(p.name for p in folder.iterdir())
    result = fit(folder)
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith(start)
    assert result.stderr.count("\n") == 1
    assert (folder / "m.json").read_text() == "older"
    assert sorted(p.name for p in folder.iterdir()) == names


def test_bad_tables_show_no_value(folder: Path, spent: list[str]) -> None:
    head = ",".join([*NAMES, "y"])
    for row, expected in [
        ("1,2,3,4,5,9137.25q,1", "column 'x5' holds text"),
        ("1,2,3,4,5,,9137.25", "missing"),
        ("1,2,3,4,5,6,9137.25,8", "ragged"),
        ("1,2,3,4,5,6,9137q", "column 'y' holds text"),
    ]:
        (folder / "t.csv").write_text(f"{head}\n{row}\n")
        result = fit(folder)
        mistake(result, expected)
        assert "9137" not in result.output
    assert spent == []


# Predictions ------------------------------------------------------------------------------------


@pytest.fixture
def model(folder: Path) -> Path:
    assert fit(folder, "--seed", 0, "--quiet").exit_code == 0
    assert read_model(folder / "m.json").columns == ("x1", "x4")
    return folder


def test_order_and_extra_columns_do_not_matter(model: Path) -> None:
    frame = pl.read_csv(model / "t.csv")
    expected = predict(model).stdout
    other = frame.select(["x4", "x0", "x1"]).with_columns(
        text=pl.lit("a,b"), empty=pl.lit(None, dtype=pl.Float64), nan=pl.lit(float("nan"))
    )
    other.write_parquet(model / "o.parquet")
    assert predict(model, table="o.parquet").stdout == expected
    other.drop("empty", "nan").write_csv(model / "o.csv")
    assert predict(model, table="o.csv").stdout == expected
    stored = read_model(model / "m.json")
    line = frame.select("x1", "x4").to_numpy() @ np.array(stored.coefficients) + stored.intercept
    np.testing.assert_allclose([float(v) for v in column(expected, "y")], line, rtol=1e-12)


def test_tables_that_cannot_be_predicted(model: Path) -> None:
    for content, expected in [
        ("x1,x5\n1,2\n", "has no column 'x4', which the model needs"),
        ("x1,x4\n1,9137q\n", "column 'x4' holds text"),
        ("x1,x4\n1,nan\n", "missing"),
        ("x1,x4\n9137,\n", "missing"),
        ("x1,x4\n9137,inf\n", "missing"),
        ("x1,x4\n9137,1,2\n", "ragged"),
        ("", "empty"),
    ]:
        (model / "o.csv").write_text(content)
        result = predict(model, table="o.csv")
        mistake(result, expected)
        assert "9137" not in result.output
    mistake(predict(model, table="none.csv"), "no such file")
    mistake(predict(model, table="b.toml"), "not supported")
    (model / "o.csv").write_text("x4,x1\n")
    assert predict(model, table="o.csv").stdout == "y\n"


def test_predictions_to_a_file(model: Path) -> None:
    expected = predict(model).stdout
    result = predict(model, "--output", model / "p.csv")
    assert (result.exit_code, result.output) == (0, "")
    assert (model / "p.csv").read_text() == expected
    for output, text in [
        (model / "t.csv", "one of the files to read"),
        (model / "m.json", "one of the files to read"),
        (model, "is a folder"),
        (model / "none" / "p.csv", "no such folder"),
    ]:
        mistake(predict(model, "--output", output), text)
    (model / "o.csv").write_text("x1\n1\n")
    mistake(predict(model, "--output", model / "p.csv", table="o.csv"), "no column 'x4'")
    assert (model / "p.csv").read_text() == expected
    assert not [p for p in model.iterdir() if p.name.startswith(".")]


def test_broken_models_are_one_line(model: Path) -> None:
    path = model / "m.json"
    text = path.read_text()
    number = str(json.loads(text)["released"]["intercept"])
    other = str(json.loads(text)["released"]["intercept"] + 1)
    for content, expected in [
        ("", "not valid JSON"),
        (text[: len(text) // 2], "not valid JSON"),
        (text.replace(number, other), "was changed"),
        (text.replace(number, "NaN"), "not valid JSON"),
        (text.replace('"version": 3', '"version": 4'), "newer"),
        ("[" * 100_000, "not valid JSON"),
        ('{"columns": ["x1"]}', "is not a model"),
        ("x1,x4\n1,2\n", "not valid JSON"),
    ]:
        path.write_text(content)
        mistake(predict(model), expected)
    path.write_bytes(b"\xff\xfe")
    mistake(predict(model), "UTF-8")
    path.unlink()
    mistake(predict(model), "no such file")
    mistake(run("predict", model, model / "t.csv"), "is a folder")
    long = run("predict", model / ("m" * 300), model / "t.csv")
    mistake(long, "too long")


# Names ------------------------------------------------------------------------------------------

STRANGE = ["a,b", 'q"q', "größe", "年齢", "x\x1b[2J", "[red]r", " blank ", ":heart:"]


@pytest.mark.grid(every=5)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("target", ["plain", 'y,"1"', "ziel\x1b[2J", "=1+1", "größe²"])
def test_strange_names_make_the_round_trip(folder: Path, kind: str, target: str) -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(rng.uniform(0, 10, (30, 8)), schema=STRANGE)
    frame = frame.with_columns(pl.Series(target, rng.uniform(0, 10, 30)))
    write = frame.write_csv if kind == "csv" else frame.write_parquet
    write(folder / f"s.{kind}")
    (folder / "b.toml").write_text("[default]\nbounds = [0, 10]\n")
    options = ["--target", target, "--size", 8, "--seed", 1]
    result = fit(folder, *options, table=f"s.{kind}")
    assert result.exit_code == 0, result.output
    assert "\x1b[2J" not in result.output
    assert "[red]r" in result.stdout
    stored = read_model(folder / "m.json")
    assert list(stored.columns) == STRANGE
    assert stored.target == target
    predicted = predict(folder, "--output", folder / "p.csv", table=f"s.{kind}")
    assert predicted.exit_code == 0, predicted.output
    values = column((folder / "p.csv").read_text(encoding="utf-8"), target)
    expected = frame.select(STRANGE).to_numpy() @ stored.coefficients + stored.intercept
    np.testing.assert_allclose([float(v) for v in values], np.clip(expected, 0, 10), rtol=1e-12)


def test_predictions_are_printed_as_they_are_written(folder: Path) -> None:
    for target in ('y,"1"', "ziel\x1b[2J"):
        frame = pl.read_csv(folder / "t.csv").rename({"y": target})
        frame.write_parquet(folder / "s.parquet")
        (folder / "b.toml").write_text("[default]\nbounds = [-10, 15]\n")
        assert fit(folder, "--target", target, table="s.parquet").exit_code == 0
        assert predict(folder, "--output", folder / "p.csv", table="s.parquet").exit_code == 0
        shown = predict(folder, table="s.parquet").stdout
        assert shown == (folder / "p.csv").read_text(encoding="utf-8")


def test_names_are_shown_as_they_are(folder: Path) -> None:
    text = (folder / "t.csv").read_text().replace("x1", ":heart:", 1)
    (folder / "t.csv").write_text(text)
    assert ":heart:" in fit(folder, "--seed", 1).stdout


def test_names_with_line_ends(folder: Path) -> None:
    names = ["a\nb", "c\r\nd"]
    frame = pl.DataFrame(np.random.default_rng(2).uniform(0, 10, (9, 3)), schema=[*names, "y\nz"])
    frame.write_parquet(folder / "s.parquet")
    (folder / "b.toml").write_text("[default]\nbounds = [0, 10]\n")
    result = fit(folder, "--target", "y\nz", "--seed", 1, table="s.parquet")
    assert result.exit_code == 0, result.output
    assert "a\\nb" in result.stdout
    assert len(column(predict(folder, table="s.parquet").stdout, "y\nz")) == 9
    mistake(predict(folder), "has no column")


def test_a_target_named_like_the_chances_keeps_its_column(folder: Path) -> None:
    name = "probability of yes"
    text = (folder / "c.csv").read_text()
    (folder / "c.csv").write_text(text.replace(",c\n", f",{name}\n", 1))
    given = ["--target", name, "--classes", "9137no,yes", "--seed", 1]
    assert fit_labels(folder, *given).exit_code == 0
    assert predict(folder, table="c.csv").stdout.splitlines()[0].count(name) == 2


# As a program -----------------------------------------------------------------------------------

FILLED = ["--bounds", "b.toml", "--target", "y", "--size", "2", "--epsilon", "40"]


@pytest.mark.slow
def test_the_program_survives_a_closed_pipe(folder: Path) -> None:
    reader, descriptor = os.pipe()
    os.close(reader)
    start = [sys.executable, "-m", "dpsubset"]
    options = {"cwd": folder, "stdout": descriptor, "stderr": subprocess.PIPE, "timeout": 120}
    done = subprocess.run([*start, "fit", "t.csv", *FILLED, "--output", "m.json"], **options)  # type: ignore[call-overload]
    assert done.returncode == 141, done.stderr
    assert read_model(folder / "m.json").columns == ("x1", "x4")  # it was paid for
    shown = subprocess.run([*start, "predict", "m.json", "t.csv"], **options)  # type: ignore[call-overload]
    os.close(descriptor)
    assert shown.returncode == 141, shown.stderr
    assert done.stderr + shown.stderr == b""


@pytest.mark.slow
def test_a_signal_leaves_no_partial_file(folder: Path) -> None:
    program = (
        "import time; from dpsubset.cli import main; from dpsubset.model import Model\n"
        "Model.release = lambda *a: (print('under way', flush=True), time.sleep(60))\n"
        "main()"
    )
    command = [sys.executable, "-c", program, "fit", "t.csv", *FILLED, "--output", "m.json"]
    before = sorted(p.name for p in folder.iterdir())
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "under way\n"
        running.send_signal(signal.SIGINT)
        _, words = running.communicate(timeout=60)
    assert running.returncode == 130
    assert words == "interrupted: count the budget as spent if a release was under way\n"
    assert sorted(p.name for p in folder.iterdir()) == before


def test_a_copy_of_the_model_elsewhere_works_alike(folder: Path, tmp_path: Path) -> None:
    assert fit(folder, "--quiet").exit_code == 0
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(folder / "m.json", other / "größe.json")
    assert run("predict", other / "größe.json", folder / "t.csv").stdout == predict(folder).stdout
