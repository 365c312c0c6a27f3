"""The commands `ledger` and `audit`, and --ledger of `select` and `fit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from audit_broken import BROKEN
from typer.testing import CliRunner, Result

from dpsubset import Ledger
from dpsubset.audit.campaign import AUDITED
from dpsubset.cli import app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (300, 4))
    names = [f"x{j}" for j in range(4)]
    table = pl.DataFrame(X, schema=names).with_columns(y=pl.Series(X[:, 1] + rng.normal(size=300)))
    table.write_csv(tmp_path / "t.csv")
    (tmp_path / "b.toml").write_text("[default]\nbounds = [0, 10]\n")
    return tmp_path


def run(*words: Any) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def select(folder: Path, *more: Any) -> Result:
    given = ["--target", "y", "--size", 1, "--bounds", folder / "b.toml", *more]
    return run("select", folder / "t.csv", *given)


def test_a_budget_from_beginning_to_end(folder: Path) -> None:
    budget = folder / "budget.db"
    begun = run("ledger", budget, "--epsilon", 2.5)
    assert begun.exit_code == 0, begun.output
    assert "epsilon 0 of 2.5 spent, 2.5 left" in begun.stdout
    for _ in range(2):
        done = select(folder, "--ledger", budget)
        assert done.exit_code == 0, done.output
    refused = select(folder, "--ledger", budget)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("refused: the release asked for costs epsilon 1.0")
    assert "0.5" in refused.stderr
    assert refused.stdout == ""
    fitted = run(
        "fit", folder / "t.csv", "--target", "y", "--size", 1, "--bounds", folder / "b.toml",
        "--epsilon", 0.5, "--output", folder / "m.json", "--ledger", budget,
    )  # fmt: skip
    assert fitted.exit_code == 0, fitted.output
    ledger = Ledger(budget)
    assert ledger.remaining == (0.0, 0.0)
    assert [entry.outcome for entry in ledger.history()] == ["released"] * 3
    shown = run("ledger", budget)
    assert shown.exit_code == 0
    assert shown.stdout.count("released") == 3
    assert "epsilon 2.5 of 2.5 spent, 0 left" in shown.stdout
    for part in ("offset", "permute-and-flip mechanism", "objective perturbation"):
        assert part in shown.stdout
    content = json.loads(run("ledger", budget, "--json").stdout)
    assert content["budget"] == {"epsilon": 2.5, "delta": 0.0, "neighbours": "replace-one"}
    assert content["spent"]["epsilon"] == 2.5
    entry = content["history"][0]
    assert entry["released"]["columns"][0] in ("x0", "x1", "x2", "x3")
    assert entry["asked"]["target"] == "y"
    assert entry["guarantee"]["epsilon"] == 1.0


def test_all_mechanisms_with_too_small_a_budget(folder: Path) -> None:
    """What was paid for is shown; what was not is refused, in its place."""
    Ledger(folder / "budget.db", epsilon=2.0)
    result = select(folder, "--ledger", folder / "budget.db", "--mechanism", "all", "--json")
    assert result.exit_code == 1
    lines = json.loads(result.stdout)
    assert [one["released"] is not None for one in lines["releases"]] == [True, True, False, False]
    assert lines["total_epsilon"] == 2.0
    assert Ledger(folder / "budget.db").remaining[0] == 0.0


def test_mistakes_are_found_before_anything_is_spent(folder: Path) -> None:
    Ledger(folder / "budget.db", epsilon=2.0)
    for wrong in (["--size", 9], ["--loss", "x"], ["--delta", "1e-6"], ["--mechanism", "x"]):
        assert select(folder, "--ledger", folder / "budget.db", *wrong).exit_code == 2
    other = select(folder, "--ledger", folder / "budget.db", "--neighbours", "add-remove")
    assert other.exit_code == 2
    assert "the ledger is for replace-one" in other.stderr
    (folder / "t.csv").write_text("x0,y\n1,a\n")
    assert select(folder, "--ledger", folder / "budget.db").exit_code == 2
    assert Ledger(folder / "budget.db").history() == []
    missing = select(folder, "--ledger", folder / "none.db")
    assert missing.exit_code == 2
    assert "--epsilon 3" in missing.stderr
    assert not (folder / "none.db").exists()
    assert run("ledger", folder / "none.db").exit_code == 2
    (folder / "text.db").write_text("hello")
    assert "error: the ledger" in run("ledger", folder / "text.db").stderr
    assert select(folder, "--ledger", folder / "t.csv").exit_code == 2
    same = select(folder, "--ledger", folder / "budget.db", "--output", folder / "budget.db")
    assert same.exit_code == 2
    assert "one of the files to read" in same.stderr


def test_seeds_and_conditions_are_shown(folder: Path) -> None:
    Ledger(folder / "budget.db", epsilon=9.0)
    select(folder, "--ledger", folder / "budget.db", "--seed", 1, "--mechanism", "mistakes")
    shown = run("ledger", folder / "budget.db").stdout
    assert "Some releases were seeded" in shown
    assert "rests on the condition that" in shown
    assert "      mistakes mechanism; on a condition; seeded\n" in shown


@pytest.mark.parametrize("otherwise", [None, "refuse", "exponential"])
def test_mistakes_with_a_test(folder: Path, otherwise: str | None) -> None:
    more = [] if otherwise is None else ["--otherwise", otherwise]
    lines = (folder / "t.csv").read_text().splitlines()
    (folder / "t.csv").write_text("\n".join(lines[:21]) + "\n")
    Ledger(folder / "budget.db", epsilon=1.0, delta=1e-6)
    given = ["--mechanism", "mistakes", "--delta", "1e-6", "--ledger", folder / "budget.db"]
    result = select(folder, *given, *more)
    entry = Ledger(folder / "budget.db").history()[0]
    if otherwise == "exponential":
        assert result.exit_code == 0, result.output
        assert "\n  delta        1e-06\n" in result.stdout
        assert "at most e^1 = 2.72, plus at most 1e-06, between" in result.stdout
        assert result.stderr.startswith("warning: the answer is likely noise")
        assert result.stderr.count("\n") == 1
        assert entry.outcome == "released"
    else:  # 20 rows pass with a chance of some 1e-6
        assert result.exit_code == 1
        assert result.stderr.startswith("refused: ")
        assert entry.outcome == "refused"
    assert entry.guarantee.delta == 1e-6


# ---- audit --------------------------------------------------------------------------------------


def audit(*more: Any) -> Result:
    given = ["--loss", "squared", "--neighbours", "replace-one", "--pairs", 60, *more]
    return run("audit", *given)


def test_an_audit_that_passes() -> None:
    result = audit("--mechanism", "exponential")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("passed    exponential")
    assert "307 pairs" in result.stdout
    assert result.stdout.endswith("1 of 1 combinations passed.\n")


@pytest.mark.slow
def test_an_audit_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AUDITED, "exponential", BROKEN["a quarter of the sensitivity"])
    result = audit("--mechanism", "exponential", "--pairs", 600)
    assert result.exit_code == 1
    assert result.stdout.startswith("VIOLATED  exponential")
    assert "family" in result.stdout
    assert "0 of 1 combinations passed." in result.stdout


@pytest.mark.parametrize(
    "wrong",
    [["--mechanism", "x"], ["--loss", "x"], ["--neighbours", "x"], ["--pairs", 0], ["--seed", -1],
     ["--epsilon", 0]],
)  # fmt: skip
def test_wrong_options_are_one_line(wrong: list[Any]) -> None:
    result = audit(*wrong)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
