"""Schemas on the command line: a template, a check, and from a file to a private model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from dpsubset.cli import app

RUNNER = CliRunner()


def run(*words: Any) -> Any:
    return RUNNER.invoke(app, [str(word) for word in words])


def mistake(result: Any, *texts: str) -> None:
    assert result.exit_code == 2, result.output
    for text in texts:
        assert text in result.stderr


CSV = """age,sex,grade,id,y
30,f,low,1,1.0
,m,high,2,2.0
50,"m",mid,3,
1e9,x,,4,3.5
text,f,"low",5,NA
20,f,high
60,m,low,7,2.5,extra
"""
SCHEMA = """
[columns]
age = [0, 100]
sex = ["f", "m"]
id = "ignore"
[columns.grade]
ordered = ["low", "mid", "high"]
[target]
name = "y"
bounds = [0, 5]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(CSV)
    (tmp_path / "s.toml").write_text(SCHEMA)
    return tmp_path


def select(folder: Path, *more: Any) -> Any:
    words = ("--schema", folder / "s.toml", "--size", 1, "--seed", 0)
    return run("select", folder / "t.csv", *words, *more)


def test_no_row_makes_a_selection_fail(folder: Path) -> None:
    found = select(folder, "--json")
    assert found.exit_code == 0, found.output
    record = json.loads(found.stdout)
    assert record["asked"]["target"] == "y"
    assert record["asked"]["n_columns"] == 3
    assert set(record["released"]["columns"]) <= {"age", "sex", "grade"}


@pytest.mark.grid(every=3)
@pytest.mark.parametrize(
    "line",
    [
        "\n",
        ",,,,\n",
        "a,b,c,d,e\n",
        "-1e400,inf,nan,null,true\n",
        "1,f,low,1\n",
        "1,f,low,1,1,1,1\n",
        "\xff\xfe,f,low,1,1\n",
        '"a ""quoted"" one","two\nlines",low,1,1\n',
        "2020-01-01,f,low,1,01/02/2020\n",
    ],
    ids=repr,
)
def test_no_row_at_all_makes_a_selection_fail(line: str, folder: Path) -> None:
    raw = CSV.encode() + line.encode("latin-1")
    (folder / "t.csv").write_bytes(raw)
    found = select(folder, "--json")
    assert found.exit_code == 0, found.output


def test_the_older_name_takes_a_schema_too(folder: Path) -> None:
    newer = select(folder, "--json")
    words = ("--size", 1, "--seed", 0, "--json")
    older = run("select", folder / "t.csv", "--bounds", folder / "s.toml", *words)
    assert older.stdout == newer.stdout
    both = select(folder, "--bounds", folder / "s.toml")
    mistake(both, "--schema and --bounds are both given")


def test_bounds_alone_refuse_missing_values_and_name_the_schema(folder: Path) -> None:
    (folder / "b.toml").write_text("[default]\nbounds = [0, 1]\n")
    (folder / "n.csv").write_text("a,y\n1,\n2,3\n")
    words = ("--target", "y", "--size", 1, "--seed", 0)
    old = run("select", folder / "n.csv", "--bounds", folder / "b.toml", *words)
    mistake(old, "missing", "--schema")
    new = run("select", folder / "n.csv", "--schema", folder / "b.toml", *words)
    assert new.exit_code == 0, new.output


def test_a_target_and_classes_come_from_the_schema(folder: Path) -> None:
    text = SCHEMA.replace("bounds = [0, 5]", 'classes = ["no", "yes"]')
    (folder / "s.toml").write_text(text)
    (folder / "t.csv").write_text(CSV.replace("1.0", "no").replace("2.0", "yes"))
    mistake(select(folder, "--loss", "huber"), "choose a loss")
    found = select(folder, "--json")  # brier, since there are classes
    assert json.loads(found.stdout)["asked"]["loss"] == "brier"
    assert json.loads(found.stdout)["asked"]["classes"] == ["no", "yes"]
    (folder / "s.toml").write_text(SCHEMA.replace("[target]\nname", "[target]\n#"))
    mistake(select(folder), "--target is missing")


def test_a_check_names_every_fault(folder: Path) -> None:
    good = run("schema", "--check", folder / "s.toml", folder / "t.csv")
    assert good.exit_code == 0, good.output
    assert "No fault" in good.stdout
    alone = run("schema", "--check", folder / "s.toml", "--json")
    assert json.loads(alone.stdout)["columns"]["sex"] == "category"
    (folder / "s.toml").write_text(SCHEMA.replace('["f", "m"]', '["f"]') + "[more]\n")
    bad = run("schema", "--check", folder / "s.toml", folder / "t.csv")
    mistake(bad, "one level", "'more'", "there are 2 faults")
    mistake(run("schema"), "name a table")


def test_a_template_knows_types_and_no_values(folder: Path) -> None:
    table = pl.DataFrame(
        {
            "n": [17.25],
            "t": [True],
            "s": ["secret"],
            "e": pl.Series(["b"], dtype=pl.Enum(["a", "b"])),
            "c": pl.Series(["hidden"], dtype=pl.Categorical),
            "d": pl.Series(["1999-09-09"]).str.to_date(),
        }
    )
    table.write_parquet(folder / "t.parquet")
    text = run("schema", folder / "t.parquet", "--target", "n").stdout
    for word in ("17", "secret", "hidden", "1999"):
        assert word not in text
    assert '"e" = ["a", "b"]' in text
    assert '"t" = "0/1"' in text
    assert '"d" = []    # a date' in text
    assert '[target]\nname = "n"' in text


def test_types_are_checked_against_the_schema(folder: Path) -> None:
    pl.DataFrame({"a": [[1.0]], "y": [1.0]}).write_parquet(folder / "t.parquet")
    (folder / "s.toml").write_text('[columns]\na = [0, 1]\n[target]\nname = "y"\nbounds = [0, 1]\n')
    words = ("--schema", folder / "s.toml", "--size", 1)
    mistake(run("select", folder / "t.parquet", *words), "'a' is described as a number")


@pytest.mark.grid(every=2)
@pytest.mark.parametrize("blocks", [False, True])
def test_from_a_file_to_a_private_model_by_five_commands(blocks: bool, tmp_path: Path) -> None:
    """The tutorial: Fair's survey of affairs, with holes as real tables have them."""
    from statsmodels.datasets import fair

    table = pl.from_pandas(fair.load_pandas().data)
    rng = np.random.default_rng(0)
    names = {1: "student", 2: "farming", 3: "white-collar", 4: "teacher", 5: "manager", 6: "doctor"}
    words = pl.Series([names[int(v)] for v in table["occupation"]])
    holes = pl.Series(rng.random(len(table)) < 0.1)
    table = table.with_columns(
        white_collar=words if blocks else (words == "white-collar").cast(pl.Int8),
        age=pl.when(holes).then(None).otherwise(pl.col("age")),
        answer=pl.when(pl.Series(rng.random(len(table)) < 0.05))
        .then(pl.lit("no answer"))
        .when(pl.col("affairs") > 0)
        .then(pl.lit("yes"))
        .otherwise(pl.lit("no")),
    ).drop("occupation", "occupation_husb", "affairs")
    csv, toml = tmp_path / "affairs.csv", tmp_path / "affairs.toml"
    table.write_csv(csv)

    assert run("schema", csv, "--target", "answer", "--output", toml).exit_code == 0
    codebook = {
        "rate_marriage": '{ordered = [1, 2, 3, 4, 5], note = "1 very poor to 5 very good"}',
        "age": '{bounds = [15, 60], missing = 30, unit = "years"}',
        "yrs_married": "[0, 30]",
        "children": "[0, 6]",
        "religious": "{ordered = [1, 2, 3, 4]}",
        "educ": "[8, 20]",
        "white_collar": '"0/1"',
    }
    if blocks:  # an occupation of six levels, and a coefficient for ages that are missing
        codebook["white_collar"] = json.dumps(list(names.values()))
        codebook["age"] = '{bounds = [15, 60], missing = "indicator", unit = "years"}'
    text = toml.read_text().replace("bounds = []", 'classes = ["no", "yes"]')
    for name, line in codebook.items():
        text = text.replace(f'"{name}" = []', f'"{name}" = {line}')
    toml.write_text(text)
    checked = run("schema", "--check", toml, csv)
    assert checked.exit_code == 0, checked.output
    asked = ("--schema", toml, "--loss", "logistic", "--size", 2, "--epsilon", 5, "--seed", 0)
    chosen = run("select", csv, *asked, "--quiet")
    assert chosen.exit_code == 0, chosen.output
    assert "rate_marriage" in chosen.stdout
    fitted = run("fit", csv, *asked, "--output", tmp_path / "model.json")
    assert fitted.exit_code == 0, fitted.output
    (tmp_path / "new.csv").write_text(
        "rate_marriage,age,yrs_married,children,religious,educ,white_collar\n"
        "1,35,15,2,1,14,yes\n5,,1,0,4,16,\n?,forty,,,,,\n"
    )
    told = run("predict", tmp_path / "model.json", tmp_path / "new.csv", "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert found["answer"][:2] == ["yes", "no"]
    chances = found["probability of yes"]
    assert chances[0] > 0.5 > chances[1]
    assert chances[1] < chances[2] < chances[0]  # of nothing known


def test_a_schema_by_itself_shows_its_target(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        '[columns]\na = [0, 1]\n[target]\nname = "y"\nbounds = [0, 1]\n'
    )
    shown = run("schema", "--check", tmp_path / "s.toml").stdout
    assert "  a  number\n  y  number    the target\n" in shown
    text = (
        (tmp_path / "s.toml").read_text().replace("\nbounds = [0, 1]\n", '\nbounds = "private"\n')
    )
    (tmp_path / "s.toml").write_text(text)
    shown = run("schema", "--check", tmp_path / "s.toml").stdout
    assert "  y  number, bounds drawn privately    the target\n" in shown
