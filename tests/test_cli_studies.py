"""The commands `reproduce` and `plan`: what they print and write, how they end, killed and resumed.

A real process tree is killed in the middle of its work, and goes on where it was.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from dpsubset.cli import app
from dpsubset.planning import rows
from dpsubset.reproduction import settings
from dpsubset.reproduction.runs import Results, jobs_of, run_jobs

SMALL = ["--features", "8", "--size", "2", "--epsilon", "6", "--tables", "2", "--draws", "5"]


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def plan(*more: Any) -> Result:
    return run("plan", *SMALL, *more)


def mistake(result: Result, expected: str) -> None:
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert expected in result.stderr
    assert "Traceback" not in result.output


def help_of(command: str) -> str:
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    return " ".join(result.stdout.replace("│", " ").split())


# Planning ---------------------------------------------------------------------------------------


def test_plan_tells_every_try_and_the_answer() -> None:
    result = plan("--epsilon", 3)
    assert result.exit_code == 0, result.output
    told = [line.split() for line in result.stderr.splitlines()]
    tried = {int(words[0].replace(",", "")): words[-4] for words in told}
    assert all(words[1:5] == ["rows:", "true", "columns", "in"] for words in told)
    answer, *words = result.stdout.split()
    assert " ".join(words) == "rows for 90%, to within a fifth."
    rows = int(answer.replace(",", ""))
    assert float(tried[rows].rstrip("%")) >= 90
    below = [n for n in tried if n < rows]
    assert float(tried[max(below)].rstrip("%")) < 90
    again = plan("--epsilon", 3)
    assert (again.stdout, again.stderr) == (result.stdout, result.stderr)
    other = plan("--epsilon", 3, "--share", 0.5)
    assert "rows for 50%" in other.stdout
    assert int(other.stdout.split()[0].replace(",", "")) < rows


def test_plan_gives_up_beyond_the_most() -> None:
    result = plan("--epsilon", 0.001, "--most", 600)
    assert result.exit_code == 0
    assert result.stdout == "More than 512 rows are needed for 90%.\n"
    assert len(result.stderr.splitlines()) == 3


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
def test_plan_by_other_losses(loss: str) -> None:
    result = plan("--epsilon", 100, "--loss", loss)
    assert result.exit_code == 0, result.output
    assert "rows for 90%" in result.stdout


def test_plan_passes_everything_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def recovery(setting: Any, n: int, tables: int, draws: int) -> float:
        seen.append((setting, tables, draws))
        return 1.0

    monkeypatch.setattr(rows, "recovery", recovery)
    given: dict[str, Any] = {
        "snr": 2.0,
        "rho": 0.3,
        "clip": 0.5,
        "ridge": 3.0,
        "radius": 2.0,
        "epsilon": 0.5,
    }
    words = {"loss": "hinge", "mechanism": "top-r", "neighbours": "add-remove"}
    options = [x for name, value in (given | words).items() for x in (f"--{name}", value)]
    assert plan(*options, "--always-include", 1).exit_code == 0
    ((setting, tables, draws),) = seen
    assert (setting.columns, setting.size, tables, draws) == (8, 2, 2, 5)
    for name, value in (given | words | {"included": 1}).items():
        assert getattr(setting, name) == value, name


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--share", "1.5"], "share must lie between 0 and 1, not 1.5"),
        (["--share", "0"], "share"),
        (["--size", "5"], "9 columns, not 8"),
        (["--features", "-8"], "columns, not -8"),
        (["--loss", "cubic"], "unknown loss 'cubic'"),
        (["--mechanism", "dice"], "unknown mechanism 'dice'"),
        (["--neighbours", "cousins"], "'cousins'"),
        (["--epsilon", "-1"], "epsilon"),
        (["--ridge", "-1"], "ridge"),
        (["--radius", "-1"], "radius"),
        (["--clip", "-1"], "clip"),
        (["--draws", "-1"], "whole number"),
        (["--draws", "0"], "draws"),
        (["--tables", "0"], "tables"),
        (["--tables", "-1"], "tables"),
        (["--size", "0"], "0"),
        (["--snr", "-1"], "-1"),
        (["--most", "-1"], "most"),
        (["--always-include", "2"], "always_include"),
        (["--always-include", "age"], "takes names with --schema"),
        (["--included-signal", "0.2"], "--included-signal is for a plan by --schema"),
        (["--output", "no/such/folder.png"], "no such folder"),
        (["--output", "answer.txt"], "answer.txt"),
        (["--output", "answer"], "answer"),
    ],
)
def test_plan_refuses_in_one_line(
    options: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mistake(plan("--most", "256", *options), expected)
    assert list(tmp_path.iterdir()) == []


def test_plan_draws(tmp_path: Path) -> None:
    for name in ("a.png", "a.svg"):
        result = plan("--output", tmp_path / name)
        assert result.exit_code == 0, result.output
        assert result.stdout.endswith(f"Written to {tmp_path / name}\n")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    words = " ".join(ElementTree.parse(tmp_path / "a.svg").getroot().itertext())
    assert "chance of the true columns" in words
    assert f"{result.stdout.split()[0]} rows" in words


def test_a_missing_library_is_noticed_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("reproduce", "ablation-ridge", "--quick", "--out", tmp_path / "out")
    mistake(result, "pip install 'dpsubset[figures]'")
    assert not (tmp_path / "out").exists()
    assert plan().exit_code == 0  # without a picture it is not needed
    mistake(plan("--output", tmp_path / "a.png"), "pip install 'dpsubset[figures]'")


# Reproducing ------------------------------------------------------------------------------------


def test_reproduce_passes_everything_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def main(name: str, **options: Any) -> Path:
        calls.append((name, options))
        return tmp_path / "report.html"

    stand_in = types.ModuleType("dpsubset.reproduction.main")
    stand_in.main = main  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    result = run("reproduce", "all", "--trials", 3, "--draws", 20, "--jobs", 1, "--out", tmp_path)
    assert result.stdout == f"Written to {tmp_path / 'report.html'}\n"
    run("reproduce", "p100", "--quick")
    run("reproduce", "p100", "--quick", "--trials", 1, "--draws", 4)
    plain = {"workers": 2, "quick": True, "draw_only": False, "out": Path("reproduction")}
    own = {"workers": 1, "quick": False, "draw_only": False, "out": tmp_path}
    assert calls == [
        ("all", {"trials": 3, "draws": 20, **own}),
        ("p100", {"trials": 2, "draws": 10, **plain}),
        ("p100", {"trials": 1, "draws": 4, **plain}),
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["p7"], "unknown figure 'p7'; allowed: all"),
        (["hinge", "--trials", "0"], "trials must be a whole number"),
        (["hinge", "--draws", "-1"], "draws must be a whole number"),
        (["hinge", "--jobs", "0"], "jobs"),
    ],
)
def test_reproduce_refuses_in_one_line(
    options: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = importlib.import_module("dpsubset.reproduction.runs")
    monkeypatch.setattr(runs, "run_trial", lambda *given: [])
    mistake(run("reproduce", *options, "--out", tmp_path), expected)


def test_reproduce_refuses_a_folder_it_cannot_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    mistake(run("reproduce", "hinge", "--quick", "--out", tmp_path / "file"), "file")
    (tmp_path / "results.jsonl").write_text("x,y\n1,2\n")
    mistake(run("reproduce", "hinge", "--quick", "--out", tmp_path), "no result of `dpsubset repro")
    assert (tmp_path / "results.jsonl").read_text() == "x,y\n1,2\n"


def test_results_that_are_there_are_drawn_without_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a figure: two of its points, of one table each; another figure has none."""
    asked = ["ablation-bound", "--draw-only", "--trials", 1, "--draws", 3, "--out", tmp_path]
    mistake(run("reproduce", *asked), "leave --draw-only out")
    jobs = jobs_of(settings().chosen("ablation-bound"), trials=1, draws=3)[1:3]
    list(run_jobs(jobs, Results(tmp_path / "results.jsonl")))
    known = (tmp_path / "results.jsonl").read_bytes()
    runs = importlib.import_module("dpsubset.reproduction.main")
    monkeypatch.setattr(runs, "run_jobs", lambda *given, **options: pytest.fail("a run"))
    result = run("reproduce", "all", *asked[1:])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "results.jsonl").read_bytes() == known
    assert {path.name.partition("-f")[0] for path in tmp_path.glob("*.png")} == {"ablation-bound"}
    assert "Ablation of clipping" in (tmp_path / "report.html").read_text()


def test_help_names_figures_and_options() -> None:
    words = help_of("reproduce")
    for name in ("all", *settings().figures, "--trials", "--draws", "--jobs", "--quick", "--out"):
        assert name in words
    words = help_of("plan")
    names = ("features", "size", "epsilon", "share", "snr", "rho", "loss", "mechanism", "most")
    for name in (*names, "neighbours", "clip", "ridge", "radius", "tables", "draws", "output"):
        assert f"--{name}" in words
    assert "no table of yours is read" in words
    top = " ".join(run("--help").stdout.split())
    assert "plan" in top
    assert "reproduce" in top


# Killed -----------------------------------------------------------------------------------------

JOBS = jobs_of(settings().chosen("ablation-ridge"), trials=2, draws=10, quick=True)


def command(out: Path) -> list[str]:
    program = [sys.executable, "-m", "dpsubset"]
    return [*program, "reproduce", "ablation-ridge", "--quick", "--out", str(out)]


def killed_after_its_first_line(out: Path) -> bytes:
    """Start a run, kill it and all its processes without warning; return what it had written."""
    path = out / "results.jsonl"
    with subprocess.Popen(
        command(out), start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        ends = time.monotonic() + 120
        while not (path.exists() and b"\n" in path.read_bytes()):
            assert running.poll() is None
            assert time.monotonic() < ends
            time.sleep(0.002)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait(timeout=60)
    assert running.returncode == -signal.SIGKILL
    return path.read_bytes()


def entries(path: Path) -> list[str]:
    """Return the entries of a file without their seconds, sorted."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for row in (row for entry in found for row in entry["rows"]):
        del row["seconds"]
    return sorted(json.dumps(entry, sort_keys=True) for entry in found)


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    for attempt in range(5):  # a slow machine may let a run end before the blow
        out = tmp_path / str(attempt)
        left = killed_after_its_first_line(out)
        if left.count(b"\n") < len(JOBS):
            break
    kept = left[: left.rfind(b"\n") + 1]
    assert 1 <= kept.count(b"\n") < len(JOBS)
    assert not (out / "report.html").exists()
    # The blow may also have fallen in the middle of a line: leave half of one.
    path = out / "results.jsonl"
    path.write_bytes(kept + kept[: len(kept) // 3].replace(b"\n", b""))
    resumed = subprocess.run(command(out), capture_output=True, text=True, timeout=120)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout == f"Written to {out / 'report.html'}\n"
    assert path.read_bytes().startswith(kept)
    list(run_jobs(JOBS, Results(tmp_path / "undisturbed")))
    assert len(entries(path)) == len(JOBS)
    assert entries(path) == entries(tmp_path / "undisturbed")
    assert {p.suffix for p in out.iterdir()} == {".jsonl", ".html", ".png", ".svg"}
