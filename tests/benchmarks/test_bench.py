"""The bench and the demo run from end to end on small tables."""

import json
import sys
import tempfile
from pathlib import Path
from time import sleep
from timeit import timeit

import pytest

from benchmarks import bench, demo
from benchmarks.measured import Row, time_best
from dpsubset import sampling
from dpsubset.errors import InputError

pytestmark = pytest.mark.slow


def test_the_least_of_a_few_runs_is_taken_and_of_more_where_they_are_short() -> None:
    runs: list[int] = []
    assert 0 <= time_best(lambda: runs.append(1), 2) < 0.1
    assert len(runs) == 20
    assert 0.25 <= time_best(lambda: (runs.append(1), sleep(0.26)), 2) < 5
    assert len(runs) == 22


def test_bench(tmp_path, capsys, monkeypatch) -> None:
    """Every row of it, each timed by one run."""
    for module in [m for name, m in sys.modules.items() if name.startswith("benchmarks.")]:
        if hasattr(module, "time_best"):
            monkeypatch.setattr(module, "time_best", lambda run, repeats=1: timeit(run, number=1))
    rows = bench.main(quick=True, output=tmp_path / "new" / "results.json")
    written = json.loads((tmp_path / "new" / "results.json").read_text())
    assert written["quick"] is True
    assert [row["case"] for row in written["rows"]] == [row.case for row in rows]
    assert all(row.ratio > 0 for row in rows)
    assert any("abess" in row.case for row in rows)
    assert any("memory" in row.case for row in rows)
    assert "ratio" in capsys.readouterr().out
    assert sampling.ENUMERATION_LIMIT > 0


def test_the_command_passes_its_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(bench, "main", lambda quick, output: calls.append((quick, output)))
    bench.command([])
    bench.command(["--quick", "--output", "r.json"])
    assert calls == [(False, None), (True, Path("r.json"))]


def test_a_file_that_cannot_be_written_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "warm_up", lambda: pytest.fail("work"))
    (tmp_path / "file").write_text("text")
    for output in (tmp_path, tmp_path / "file" / "r.json"):
        with pytest.raises(InputError, match="cannot write"):
            bench.main(output=output)
        with pytest.raises(SystemExit) as ended:
            bench.command(["--output", str(output)])
        assert ended.value.code == 2
        assert "cannot write" in capsys.readouterr().err


def test_rows_know_their_wishes() -> None:
    assert Row("a", 2.0, "u", 1.0, at_most=3.0).met is True
    assert Row("a", 4.0, "u", 1.0, at_most=3.0).met is False
    assert Row("a", 4.0, "u", 1.0, at_least=5.0).met is False
    assert Row("a", 4.0, "u", 1.0).met is None
    assert "at least 5" in Row("a", 4.0, "u", 1.0, at_least=5.0).shown()


def test_demo(tmp_path: Path) -> None:
    assert demo.main(tmp_path / "demo", n=300, p=40) == 0
    release = json.loads((tmp_path / "demo" / "release.json").read_text())
    assert len(release) > 0


def test_a_rehearsal_shows_no_release_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert demo.rehearse(n=300, p=40) == 0
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(demo, "_RUN", [sys.executable, "-m", "dpsubset", "select"])
    assert demo.rehearse(n=300, p=40) == 2
    assert "error" in capfd.readouterr().err.lower()
