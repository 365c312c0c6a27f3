"""The command: what it prints, what it writes, how it ends, and what it never shows."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from dpsubset import Exponential, PermuteAndFlip
from dpsubset.cli import app
from dpsubset.cli.writing import waiting, writing
from dpsubset.errors import InputError, UnprovenError
from dpsubset.losses import as_loss
from dpsubset.mechanisms.named import MECHANISMS
from dpsubset.privacy.shown import printable

ROWS = 317  # a number of rows that nothing else equals
NAMES = [f"x{j}" for j in range(6)]
BOUNDS = '[default]\nbounds = [0, 10]\n[columns]\n"y" = [-10, 10]\n'
FILLED = ["--bounds", "b.toml", "--target", "y", "--size", "2", "--epsilon", "300"]
FOUR = ["permute-and-flip", "exponential", "top-r", "mistakes"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a table, in which x1 and x4 explain y, and its bounds."""
    X = np.random.default_rng(0).uniform(0, 10, (ROWS, 6))
    frame = pl.DataFrame(X, schema=NAMES).with_columns(y=pl.Series(X[:, 1] - X[:, 4]))
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    (tmp_path / "b.toml").write_text(BOUNDS)
    return tmp_path


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def select(folder: Path, *more: Any, table: str = "t.csv", epsilon: float = 300.0) -> Result:
    given = ["--target", "y", "--size", 2, "--epsilon", epsilon, "--bounds", folder / "b.toml"]
    if "--loss" not in more:  # one draw, without a window before it
        given += ["--window-share", 0]
    return run("select", folder / table, *given, *more)


def mistake(result: Result, expected: str) -> None:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert expected in result.stderr
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)


# What a release shows ---------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_a_release_names_columns_and_guarantee(folder: Path, table: str, neighbours: str) -> None:
    result = select(folder, "--neighbours", neighbours, table=table)
    assert result.exit_code == 0, result.output
    assert "2 of 6 columns for y\n  x1\n  x4\n" in result.stdout
    assert "Guarantee" in result.stdout
    assert "300" in result.stdout
    assert result.stderr == ""
    assert str(ROWS) not in result.output
    assert "second" not in result.output


@pytest.mark.parametrize("mechanism", FOUR)
def test_every_mechanism_by_name(folder: Path, mechanism: str) -> None:
    result = select(folder, "--mechanism", mechanism, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["asked"]["mechanism"]["name"] == MECHANISMS[mechanism].__name__
    assert document["released"]["columns"] == ["x1", "x4"]
    assert document["asked"]["target"] == "y"
    assert document["guarantee"]["epsilon"] == 300.0
    assert document["guarantee"]["neighbours"] == "replace-one"
    assert ("warning" in result.stderr) == (mechanism == "mistakes")


def test_json_holds_public_things_only(folder: Path) -> None:
    for relation in ("replace-one", "add-remove"):
        result = select(folder, "--json", "--neighbours", relation)
        document = json.loads(result.stdout)
        assert set(document) == {"asked", "released", "guarantee", "dpsubset"}
        assert str(ROWS) not in result.stdout
    timed = json.loads(select(folder, "--json", "--timings").stdout)
    assert timed["seconds"] > 0


def test_the_settings_are_enough_to_audit_and_repeat_a_release(folder: Path) -> None:
    def settings_of(*more: Any) -> Any:
        return json.loads(select(folder, "--json", *more).stdout)["asked"]

    flip = {"name": "PermuteAndFlip", "epsilon": 300.0, "neighbours": "replace-one"}
    flip |= {"sensitivity": "tight", "limits": None}
    expected = {
        "table": "t.csv",
        "target": "y",
        "n_columns": 6,
        "features": None,
        "size": 2,
        "loss": "huber:0.2",
        "clip": 1.0,
        "radius": 0.5,
        "ridge": 10.0,
        "intercept": True,
        "always_include": [],
        "exclude": [],
        "mechanism": flip,
    }
    found = settings_of()
    schema = found.pop("schema")
    assert len(schema) == 64
    assert found == expected
    picked = settings_of("--sensitivity", "paper", "--no-intercept", "--features", "x4,x1,x0")
    assert picked.pop("schema") != schema  # other columns
    assert picked == {
        **expected,
        "mechanism": {**flip, "sensitivity": "paper"},
        "intercept": False,
        "features": ["x4", "x1", "x0"],
        "n_columns": 3,
    }
    given = ["--count", 3, "--trials", 2, "--accounting", "sharp"]
    told = settings_of("--mechanism", "top-r", *given)["mechanism"]
    assert told["name"] == "TopR"
    assert {name: told[name] for name in ("count", "trials", "accounting")} == {
        "count": 3,
        "trials": 2,
        "accounting": "sharp",
    }
    limited = select(folder, "--json", "--mechanism", "all", "--seed", 4, "--max-seconds", 60)
    for entry in json.loads(limited.stdout)["releases"]:
        assert entry["asked"]["seed"] == 4
        assert entry["asked"]["mechanism"]["limits"] == {"seconds": 60.0, "nodes": None}
        assert entry["asked"]["schema"] == schema
    excluded = settings_of("--exclude", "x5", "--always-include", "x0", "--table-name", "study")
    assert (excluded["exclude"], excluded["always_include"]) == (["x5"], ["x0"])
    assert excluded["table"] == "study"


def test_letters_in_the_file_and_numbers_of_letters_on_the_terminal(folder: Path) -> None:
    pl.DataFrame(np.ones((5, 3)), schema=["größe", "年齢", "y"]).write_csv(folder / "t.csv")
    result = select(folder, "--json", "--output", folder / "r.json")
    assert result.stdout.isascii()
    assert "年齢" in (folder / "r.json").read_text(encoding="utf-8")
    assert json.loads((folder / "r.json").read_text(encoding="utf-8")) == json.loads(result.stdout)


def test_a_promise_weaker_than_asked_is_a_line_of_its_own(folder: Path) -> None:
    finite = ["--mechanism", "top-r", "--count", 3, "--trials", 2]
    for more, expected in [
        (["--mechanism", "mistakes"], "private only if"),
        (finite, "weaker than the epsilon of 300.0 asked for"),
        (["--seed", 1], "seeded"),
    ]:
        for shown in ([], ["--quiet"], ["--json"]):
            result = select(folder, *more, *shown)
            assert result.exit_code == 0, result.output
            assert result.stderr.startswith("warning: ")
            assert result.stderr.count("\n") == 1
            assert expected in result.stderr
            assert "warning" not in result.stdout
    assert select(folder, "--mechanism", "all", "--seed", 1).stderr.count("warning: ") == 2
    assert select(folder, "--mechanism", "top-r", "--quiet").stderr == ""


def test_all_mechanisms_side_by_side(folder: Path) -> None:
    result = select(folder, "--mechanism", "all", "--neighbours", "add-remove", epsilon=250.0)
    assert result.exit_code == 0, result.output
    for mechanism in FOUR:
        assert mechanism in result.stdout
    assert result.stdout.count("x4") == 4
    text = " ".join(result.stdout.split())
    assert "4 releases, and each spends its own epsilon" in text
    assert "spends 1000 in total" in text
    assert "econds" not in text
    assert str(ROWS) not in text
    document = json.loads(select(folder, "--mechanism", "all", "--json").stdout)
    names = [entry["asked"]["mechanism"]["name"] for entry in document["releases"]]
    assert names == [MECHANISMS[name].__name__ for name in FOUR]
    assert document["total_epsilon"] == 1200.0


def test_seconds_are_shown_on_request_with_a_warning(folder: Path) -> None:
    for more in ([], ["--mechanism", "all"]):
        text = " ".join(select(folder, "--timings", *more).stdout.split())
        assert "depend on the data and are no part of the guarantee" in text
    assert "depend on the data" in " ".join(run("select", "--help").stdout.replace("│", "").split())


def test_quiet_prints_names_only(folder: Path) -> None:
    assert select(folder, "--quiet").stdout == "x1\nx4\n"
    lines = select(folder, "--quiet", "--mechanism", "all").stdout.splitlines()
    assert lines == [f"{m}\t{x}" for m in FOUR for x in ("x1", "x4")]
    assert json.loads(select(folder, "--quiet", "--json").stdout)


def test_the_output_file_is_the_json(folder: Path) -> None:
    path = folder / "release.json"
    path.write_text("older")
    result = select(folder, "--output", path, "--seed", 1)
    assert f"Written to {path}" in result.stdout
    assert json.loads(path.read_text()) == json.loads(select(folder, "--seed", 1, "--json").stdout)
    assert sorted(p.name for p in folder.iterdir()) == [
        "b.toml",
        "release.json",
        "t.csv",
        "t.parquet",
    ]


def test_a_seed_repeats_the_draw_and_the_guarantee_says_so(folder: Path) -> None:
    first, second = (select(folder, "--seed", 3, "--json", epsilon=0.01) for _ in range(2))
    assert first.stdout == second.stdout
    assert json.loads(first.stdout)["guarantee"]["randomness"] == "seeded"
    drawn = {
        tuple(json.loads(drawn.stdout)["released"]["columns"])
        for drawn in (select(folder, "--seed", seed, "--json", epsilon=0.01) for seed in range(12))
    }
    assert len(drawn) > 2
    real = json.loads(select(folder, "--json").stdout)
    assert real["guarantee"]["randomness"] != "seeded"


def test_features_always_include_and_intercept(folder: Path) -> None:
    result = select(folder, "--features", "x0, x4,x5", "--always-include", "x5", "--json")
    assert json.loads(result.stdout)["released"]["columns"] == ["x4", "x5"]
    result = select(folder, "--always-include", "x5", "--always-include", "x0", "--json")
    document = json.loads(result.stdout)
    assert document["released"]["columns"] == ["x0", "x5"]
    # One more column in the sensitivity: predictions up to sqrt(3)/2 and not sqrt(2)/2.
    spread = as_loss(document["asked"]["loss"]).spread
    assert document["guarantee"]["sensitivity"] == pytest.approx(spread(1.0, 3**0.5 / 2))
    plain = json.loads(select(folder, "--no-intercept", "--json").stdout)
    assert plain["guarantee"]["sensitivity"] == pytest.approx(spread(1.0, 2**0.5 / 2))


def test_parameters_reach_the_mechanism(folder: Path) -> None:
    def guarantee(*more: Any) -> Any:
        result = select(folder, "--json", *more)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)["guarantee"]

    squared = ["--loss", "squared"]
    assert guarantee("--sensitivity", "paper", *squared) != guarantee(*squared)
    assert guarantee(*squared) != guarantee()
    assert guarantee("--radius", 2) != guarantee()
    finite = guarantee("--mechanism", "top-r", "--count", 3, "--trials", 2)
    assert finite["epsilon"] > 300.0
    assert guarantee("--mechanism", "top-r", "--count", 3)["epsilon"] == 300.0
    given = ["--mechanism", "top-r", "--count", 3, "--trials", 2, "--accounting", "sharp"]
    assert 300.0 < guarantee(*given)["epsilon"] < finite["epsilon"]
    assert guarantee(*given, "--neighbours", "add-remove")["epsilon"] < finite["epsilon"]


def test_an_empty_table_under_both_relations(folder: Path) -> None:
    (folder / "t.csv").write_text("x1,x4,y\n")
    for mechanism in [*FOUR, "all"]:
        result = select(folder, "--neighbours", "add-remove", "--mechanism", mechanism)
        assert result.exit_code == 0, result.output
    mistake(select(folder), "no rows")


def test_names_cannot_steer_the_terminal(folder: Path) -> None:
    names = ["[red]x", "a\x1b[2Jb", "y"]
    pl.DataFrame(np.ones((5, 3)), schema=names).write_csv(folder / "t.csv")
    for more in ([], ["--quiet"], ["--mechanism", "all"]):
        result = select(folder, *more)
        assert result.exit_code == 0, result.output
        assert "\x1b[2J" not in result.output
        assert "[red]x" in result.output
    assert printable("été_1") == "été_1"


# Losses -----------------------------------------------------------------------------------------

NUMBERS = ["squared", "absolute", "quantile", "quantile:0.3", "huber", "huber:0.05"]


@pytest.fixture
def classes(folder: Path) -> Path:
    """The same columns with targets of two classes: y as text, b as truth values, i as numbers."""
    X = pl.read_csv(folder / "t.csv")
    high = X["x1"] > X["x4"]
    words = high.replace_strict({True: "9137yes", False: "no"}, return_dtype=pl.String)
    frame = X.with_columns(y=words, b=high, i=high.cast(pl.Int8))
    frame.write_csv(folder / "t.csv")
    frame.write_parquet(folder / "t.parquet")
    (folder / "b.toml").write_text("[columns]\n" + "".join(f"{x} = [0, 10]\n" for x in NAMES))
    return folder


@pytest.mark.grid(every=3)
@pytest.mark.parametrize("loss", NUMBERS)
def test_every_loss_of_numbers(folder: Path, loss: str) -> None:
    document = json.loads(select(folder, "--loss", loss, "--json").stdout)
    assert document["released"]["columns"] == ["x1", "x4"]
    shown = {"quantile": "quantile:0.5", "huber": "huber:0.1"}.get(loss, loss)
    assert document["asked"]["loss"] == shown
    assert "classes" not in document["asked"]


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("table", ["t.csv", "t.parquet"])
def test_every_loss_of_labels(classes: Path, loss: str, table: str) -> None:
    only = ["--features", ",".join(NAMES), "--loss", loss, "--json"]
    for target, named in [("y", "no,9137yes"), ("b", "false,true"), ("i", "0,1"), ("i", "1.0,0")]:
        plain = select(classes, *only, "--target", target, table=table)
        assert plain.exit_code == 0, plain.output
        assert "9137" not in plain.output
        document = json.loads(plain.stdout)
        assert document["released"]["columns"] == ["x1", "x4"]
        assert document["asked"]["loss"] == loss
        assert "classes" not in document["asked"]
        other = select(classes, *only, "--target", target, "--classes", named, table=table)
        assert json.loads(other.stdout)["released"]["columns"] == ["x1", "x4"]
        assert json.loads(other.stdout)["asked"]["classes"] == named.split(",")


def test_all_mechanisms_with_labels(classes: Path) -> None:
    only = ["--features", ",".join(NAMES), "--loss", "hinge", "--mechanism", "all", "--json"]
    document = json.loads(select(classes, *only).stdout)
    assert [entry["released"]["columns"] for entry in document["releases"]] == [["x1", "x4"]] * 4


def test_limits_of_a_target_of_labels_are_not_looked_at(classes: Path) -> None:
    given = ["--features", ",".join(NAMES), "--loss", "hinge", "--quiet"]
    text = (classes / "b.toml").read_text()
    for line in ("y = []", "y = [0, 1]", ""):
        (classes / "b.toml").write_text(text + line)
        assert select(classes, *given).stdout == "x1\nx4\n"
    mistake(select(classes, "--features", ",".join(NAMES)), "no bounds for column 'y'")


def test_losses_that_do_not_fit_the_target(classes: Path) -> None:
    only = ["--features", ",".join(NAMES)]

    def refused(expected: str, *more: Any) -> None:
        for table in ("t.csv", "t.parquet"):
            result = select(classes, *(() if "--features" in more else only), *more, table=table)
            mistake(result, expected)
            assert "9137" not in result.output
            assert str(ROWS) not in result.output

    refused("there are more", "--loss", "hinge", "--target", "x0", "--features", "x1,x2")
    refused("other than the two classes", "--loss", "hinge", "--classes", "no,yes")
    refused("other than the two classes", "--loss", "hinge", "--classes", "0,1")
    (classes / "b.toml").write_text(BOUNDS)
    refused("loss for labels, brier or logistic", "--loss", "squared")
    frame = pl.read_csv(classes / "t.csv").filter(pl.col("y") == "no")
    frame.write_csv(classes / "t.csv")
    frame.write_parquet(classes / "t.parquet")
    refused("--classes first,second", "--loss", "logistic")
    named = ["--loss", "logistic", "--classes", "no,9137yes"]
    assert select(classes, *only, *named).exit_code == 0


def test_an_empty_table_of_labels(classes: Path) -> None:
    (classes / "t.csv").write_text("x1,x4,y\n")
    (classes / "b.toml").write_text(BOUNDS)
    given = ["--loss", "logistic", "--neighbours", "add-remove"]
    assert select(classes, *given, "--classes", "no,yes").exit_code == 0
    mistake(select(classes, *given), "--classes first,second")


# Refusals and mistakes --------------------------------------------------------------------------

BAD_OPTIONS = [
    (["--size", 0], "--size is 0"),
    (["--size", 7], "between 1 and 6"),
    (["--epsilon", 0], "epsilon"),
    (["--epsilon", "-1"], "epsilon"),
    (["--epsilon", "inf"], "no privacy at all"),
    (["--epsilon", "nan"], "epsilon"),
    (["--target", "z"], "'z' is not a column"),
    (["--features", "x0,y"], "cannot explain itself"),
    (["--features", "x0,zz"], "'zz' is not a column"),
    (["--features", "x0,,x1"], "empty name"),
    (["--features", ""], "empty name"),
    (["--features", 'x0,"x1'], "open quote"),
    (["--always-include", "y"], "cannot explain itself"),
    (["--always-include", "zz"], "'zz' is not a column"),
    (["--always-include", "x0", "--features", "x1,x2"], "not among the features"),
    (["--always-include", "x0", "--always-include", "x0"], "twice"),
    (["--always-include", "x0", "--always-include", "x1", "--always-include", "x2"], "between 3"),
    (["--target", " y"], "There is 'y'"),
    (
        ["--mechanism", "laplace"],
        "allowed: permute-and-flip, exponential, top-r, mistakes, stepwise, markov-chain",
    ),
    (["--neighbours", "nobody"], "allowed: replace-one, add-remove"),
    (["--sensitivity", "loose"], "sensitivity"),
    (
        ["--loss", "cubic"],
        "allowed: absolute, brier, hinge, huber, huber_hinge, huber_logistic, logistic, quantile, "
        "squared",
    ),
    (["--loss", "huber:x"], "huber:x"),
    (["--loss", "hinge:2"], "hinge:2"),
    (["--loss", "huber", "--classes", "no,yes"], "Leave --classes out"),
    (["--loss", "hinge", "--classes", "no"], "two different classes"),
    (["--loss", "hinge", "--classes", "no,yes,maybe"], "two different classes"),
    (["--loss", "hinge", "--classes", "no,no"], "two different classes"),
    (["--loss", "hinge", "--classes", "1,1.0"], "two different classes"),
    (["--loss", "hinge", "--classes", "no,"], "--classes holds an empty name"),
    (["--loss", "hinge", "--classes", 'no,"yes'], "--classes has an open quote"),
    (["--radius", 0], "radius"),
    (["--radius", "1e300"], "radius"),
    (["--ridge", "-1"], "ridge"),
    (["--ridge", "inf"], "ridge"),
    (["--count", 5], "belongs to top-r"),
    (["--trials", 5, "--neighbours", "add-remove"], "belongs to top-r"),
    (["--accounting", "paper"], "belongs to top-r"),
    (["--mechanism", "top-r", "--accounting", "none"], "allowed: paper, sharp"),
    (["--max-seconds", 0], "max_seconds"),
    (["--max-seconds", "nan"], "max_seconds"),
    (["--mechanism", "top-r", "--count", 0], "count"),
    (["--mechanism", "top-r", "--count", 100], "count"),
    (["--mechanism", "top-r", "--trials", 0], "trials"),
    (["--mechanism", "top-r", "--trials", 5, "--neighbours", "add-remove"], "accounting='sharp'"),
    (["--mechanism", "all", "--trials", 5, "--neighbours", "add-remove"], "accounting='sharp'"),
    (["--seed", "-1"], "--seed"),
    (["--bounds", "none.toml"], "no such file"),
    (["--output", "no/such/release.json"], "no such folder"),
]


@pytest.mark.parametrize(("options", "expected"), BAD_OPTIONS, ids=str)
def test_a_wrong_option_is_one_line(folder: Path, options: list[Any], expected: str) -> None:
    mistake(select(folder, *options), expected)


def test_wrong_use_ends_with_2(folder: Path) -> None:
    for arguments in (
        ["select"],
        ["select", folder / "t.csv"],
        ["select", folder / "t.csv", "--target", "y", "--size", "two"],
        ["select", folder / "t.csv", "--nonsense"],
        ["nonsense"],
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "Traceback" not in result.output


def test_missing_bounds_say_what_to_do(folder: Path) -> None:
    mistake(run("select", folder / "t.csv", "--target", "y"), "dpsubset schema")
    (folder / "b.toml").write_text('[columns]\n"y" = [0, 1]\n')
    mistake(select(folder), "no bounds for column 'x0' (6 missing in all)")
    (folder / "b.toml").write_text(BOUNDS + "zz = [0, 1]\n")
    mistake(select(folder), "'zz', which is not a column")
    (folder / "b.toml").write_text(BOUNDS + "x3 = [1, 0]\n")
    mistake(select(folder), "column 'x3' are 1 and 0")


def test_everything_is_checked_before_a_row_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a row was read")

    monkeypatch.setattr("dpsubset.cli.asked.read_table", forbidden)
    assert isinstance(select(folder).exception, AssertionError)
    for options, expected in BAD_OPTIONS:
        mistake(select(folder, *options), expected)
    mistake(select(folder, "--output", folder), "is a folder")
    mistake(select(folder, "--output", os.devnull), "not an ordinary file")
    mistake(select(folder, "--output", folder / "t.csv"), "one of the files to read")
    mistake(select(folder, "--output", folder / "b.toml"), "one of the files to read")


def test_nothing_is_released_before_all_mechanisms_are_checked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*arguments: Any) -> None:
        raise AssertionError("a release was made")

    monkeypatch.setattr("dpsubset.selection.Selection.release", forbidden)
    assert isinstance(select(folder).exception, AssertionError)
    mistake(select(folder, "--mechanism", "all", "--count", 1000), "count")
    (folder / "t.csv").write_text("x1,x4,y\n1,nan,3\n")
    mistake(select(folder, "--mechanism", "all"), "missing")


def test_a_refused_release_ends_with_1(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise UnprovenError("the search ended at its limits")

    monkeypatch.setattr(PermuteAndFlip, "release", refuse)
    path = folder / "release.json"
    result = select(folder, "--output", path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == "refused: the search ended at its limits\n"
    assert not path.exists()
    result = select(folder, "--mechanism", "all", "--output", path)
    assert result.exit_code == 1
    assert "refused: the search ended" in " ".join(result.stdout.split())
    entries = json.loads(path.read_text())["releases"]
    assert ["refused" in entry for entry in entries] == [True, False, False, False]
    assert entries[0]["released"] is None
    assert [entry["released"]["columns"] for entry in entries[1:]] == [["x1", "x4"]] * 3
    assert sum(p.name.startswith(".") for p in folder.iterdir()) == 0


@pytest.mark.parametrize("mechanism", FOUR)
def test_out_of_time_is_refused(folder: Path, mechanism: str) -> None:
    rng = np.random.default_rng(1)
    names = [*(f"x{j}" for j in range(25)), "y"]
    pl.DataFrame(rng.uniform(0, 10, (40, 26)), schema=names).write_csv(folder / "t.csv")
    path = folder / "r.json"
    given = ["--mechanism", mechanism, "--size", 8, "--max-seconds", 1e-9, "--output", path]
    result = select(folder, *given, epsilon=1e4)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("refused: ")
    assert "count the budget as spent" in result.stderr
    assert not path.exists()


def test_an_interrupt_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpsubset.selection.Selection.release", interrupt)
    result = select(folder, "--output", folder / "r.json")
    assert result.exit_code == 130
    assert result.stdout == ""
    assert result.stderr == ("interrupted: count the budget as spent if a release was under way\n")
    assert sorted(p.name for p in folder.iterdir()) == ["b.toml", "t.csv", "t.parquet"]


def test_a_fault_of_the_program_is_not_hidden(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(PermuteAndFlip, "release", fail)
    assert isinstance(select(folder).exception, ZeroDivisionError)
    monkeypatch.setattr(Exponential, "release", lambda *a: (_ for _ in ()).throw(MemoryError))
    mistake(select(folder, "--mechanism", "exponential"), "memory")
    mistake(select(folder, "--mechanism", "exponential"), "count the budget as spent")


def test_bad_tables_are_one_line(folder: Path) -> None:
    table = folder / "t.csv"
    for content, expected in [
        (b"", "empty"),
        (b"x1,x4,y\n1,2,3\n1,2,3,9137.25\n", "ragged"),
        (b"x1,x4,y\n1,9137.25q,3\n", "column 'x4' holds text"),
        (b"x1,x4,y\n1,,3\n", "missing"),
        (b"x1,x4,x4,y\n1,2,3,4\n", "two columns"),
        (b"\0\1\2", "not a text file"),
    ]:
        table.write_bytes(content)
        result = select(folder)
        mistake(result, expected)
        assert "9137" not in result.output
    table.unlink()
    mistake(select(folder), "no such file")
    table.mkdir()
    mistake(select(folder), "is a folder")


cells = st.sampled_from(
    ["1", "2.5", "-3e5", "true", "nan", "inf", "", "91374", "91374q", '"', "1e999"]
)


@settings(max_examples=30, derandomize=True, deadline=None)
@given(
    rows=st.lists(st.lists(cells, min_size=2, max_size=4), max_size=3),
    neighbours=st.sampled_from(["replace-one", "add-remove"]),
    size=st.integers(-1, 4),
)
def test_any_table_ends_with_0_or_2(rows: list[list[str]], neighbours: str, size: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [",".join(row) for row in [["x1", "x4", "y"], *rows]]
        (folder / "t.csv").write_text("\n".join(lines))
        (folder / "b.toml").write_text(BOUNDS)
        result = select(folder, "--neighbours", neighbours, "--size", size)
    assert "91374" not in result.output
    if result.exit_code == 0:
        assert 1 <= size <= 2
    else:
        mistake(result, "")


# Bounds -----------------------------------------------------------------------------------------


def test_bounds_writes_a_template_from_the_header_alone(folder: Path) -> None:
    shown = run("bounds", folder / "t.csv")
    assert shown.exit_code == 0
    assert '"x0" = []' in shown.stdout
    (folder / "t.csv").write_text("x0,x1,x2,x3,x4,x5,y\nnot,even,a,table\n")
    assert run("bounds", folder / "t.csv").stdout == shown.stdout
    assert (
        '[target]\nname = "y"\nbounds = []'
        in run("bounds", folder / "t.csv", "--target", "y").stdout
    )
    typed = run("bounds", folder / "t.parquet").stdout  # a Parquet file declares types
    assert '"x0" = []    # a number: [lower, upper]' in typed
    assert shown.stderr == ""
    (folder / "t.csv").write_text("34,Bob,7\n35,Ann,8\n")
    assert "is the first line a header?" in run("bounds", folder / "t.csv").stderr


def test_a_template_is_not_overwritten_and_works_when_filled_in(folder: Path) -> None:
    path = folder / "b.toml"
    mistake(run("bounds", folder / "t.csv", "--output", path), "--force")
    assert path.read_text() == BOUNDS
    assert run("bounds", folder / "t.csv", "--output", path, "--force").exit_code == 0
    empty = select(folder)
    assert empty.exit_code == 2
    assert empty.stderr.count("still empty") == 7  # all of them at once
    path.write_text(path.read_text().replace("[]", "[-10, 10]"))
    assert select(folder, "--quiet").stdout == "x1\nx4\n"


def test_bad_use_of_bounds(folder: Path) -> None:
    mistake(run("bounds", folder / "none.csv"), "no such file")
    mistake(run("bounds", folder / "t.csv", "--target", "z"), "'z' is not a column")
    mistake(run("bounds", folder / "t.csv", "--output", folder), "is a folder")
    mistake(run("bounds", folder / "t.csv", "--output", folder / "a" / "b"), "no such folder")
    mistake(run("bounds", folder / "t.csv", "--output", folder / "t.csv", "--force"), "to read")


# Writing, waiting, other commands ---------------------------------------------------------------


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("older")

    def interrupted() -> None:
        with writing(path):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]
    assert path.read_text() == "older"


def test_a_reader_of_the_older_file_is_not_disturbed(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text("older")
    with path.open() as reader:
        with writing(path) as write:
            write("newer")
        assert reader.read() == "older"
    assert path.read_text() == "newer"


def test_a_file_that_cannot_be_made(tmp_path: Path) -> None:
    path = tmp_path / ("r" * 250)  # leaves no room for the name of the temporary file
    with pytest.raises(InputError, match="cannot be written"), writing(path):
        raise AssertionError("not reached")


def test_a_full_disk_keeps_the_printed_release(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = select(folder, "--output", folder / "r.json")
    assert result.exit_code == 2
    assert "  x1\n  x4\n" in result.stdout
    assert "No space left" in result.stderr
    assert not (folder / "r.json").exists()


def test_waiting_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("work", shown=True):
        pass
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


@pytest.mark.parametrize("pause", [0.0, 0.3])
def test_a_spinner_appears_after_a_while(
    pause: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr("dpsubset.cli.writing._PATIENCE_SECONDS", 0.1)
    with waiting("selecting", shown=True):
        time.sleep(pause)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("selecting" in captured.err) == (pause > 0)


# As a program -----------------------------------------------------------------------------------


def program(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dpsubset", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def test_every_command_has_an_example_whose_options_exist() -> None:
    for command in app.registered_commands:
        if command.hidden:
            continue
        name = command.callback.__name__
        shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).stdout
        (example,) = re.findall(r"Example: (dpsubset .*)", shown)
        words = example.split()
        assert words[1] == name
        assert all(word in shown.replace(example, "") for word in words if word.startswith("--"))


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from dpsubset.cli import app\n"
        "from typer.testing import CliRunner\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "heavy = {'numpy', 'numba', 'scipy', 'sklearn', 'polars', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    code = code.replace("'--help'", "'bounds', 'none.csv'").replace("== 0", "== 2")
    code = code.replace("'numpy', 'numba', 'scipy', 'sklearn', 'polars', 'pandas'", "'sklearn'")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.slow
def test_the_program_from_table_to_release(folder: Path) -> None:
    assert "select" in program("--help").stdout
    assert program("--version").stdout.startswith("dpsubset ")
    done = program("select", "t.csv", *FILLED, "--output", "r.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "x1\n  x4\n" in done.stdout
    assert json.loads((folder / "r.json").read_text())["released"]["columns"] == ["x1", "x4"]
    wrong = program("select", "t.csv", *FILLED, "--size", 9, cwd=folder)
    assert wrong.returncode == 2
    assert wrong.stdout == ""
    assert wrong.stderr.startswith("error: --size is 9")


@pytest.mark.slow
def test_the_program_with_classes(classes: Path) -> None:
    only = ["--features", ",".join(NAMES), "--loss", "hinge", "--classes"]
    (classes / "t.csv").write_text((classes / "t.csv").read_text().replace("9137yes", "yes"))
    done = program("select", "t.csv", *FILLED, *only, "no,yes", "--json", cwd=classes)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert document["released"]["columns"] == ["x1", "x4"]
    assert document["asked"]["classes"] == ["no", "yes"]
    wrong = program("select", "t.csv", *FILLED, *only, "-1,1", cwd=classes)
    assert wrong.returncode == 2
    assert wrong.stdout == ""
    assert wrong.stderr == (
        "error: t.csv: column 'y' holds labels other than the two classes that --classes names\n"
    )
    words = " ".join(program("select", "--help").stdout.replace("│", "").split())
    for name in ("squared", "absolute", "quantile", "huber", "hinge", "logistic", "--classes"):
        assert name in words


@pytest.mark.slow
@pytest.mark.parametrize(("stream", "code"), [("full", 2), ("closed", 141)])
@pytest.mark.parametrize("shown", [[], ["--json"], ["--mechanism", "all"]])
def test_a_release_survives_its_terminal(
    folder: Path, stream: str, code: int, shown: list[str]
) -> None:
    if stream == "full":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, descriptor = os.pipe()
        os.close(reader)
    command = [sys.executable, "-m", "dpsubset", "select", "t.csv", *FILLED, "--output", "r.json"]
    done = subprocess.run(
        [*command, *shown], cwd=folder, stdout=descriptor, stderr=subprocess.PIPE, timeout=120
    )
    os.close(descriptor)
    assert done.returncode == code, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr
    assert "x4" in (folder / "r.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_no_partial_file(folder: Path, number: int, code: int) -> None:
    program = (
        "import time; from dpsubset.cli import main; from dpsubset.selection import Selection\n"
        "Selection.release = lambda *a: (print('under way', flush=True), time.sleep(60))\n"
        "main()"
    )
    command = [sys.executable, "-c", program, "select", "t.csv", *FILLED, "--output", "r.json"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "under way\n"
        assert any(p.name.endswith(".partial") for p in folder.iterdir())
        running.send_signal(number)
        _, words = running.communicate(timeout=60)
    assert running.returncode == code
    assert "Traceback" not in words
    assert sorted(p.name for p in folder.iterdir()) == ["b.toml", "t.csv", "t.parquet"]


@pytest.mark.slow
def test_the_program_on_a_terminal(folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "dpsubset", "select", "t.csv", *FILLED, "--json"]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=theirs, timeout=120, check=True
    )
    os.close(theirs)
    os.close(ours)
    assert json.loads(done.stdout)["released"]["columns"] == ["x1", "x4"]
