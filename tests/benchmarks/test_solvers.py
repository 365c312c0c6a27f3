"""The comparison of the three solvers: runs on small tables, and tells of a search that ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import solvers
from benchmarks.solvers import QUESTIONS, Setting, measure, solver_rows

pytestmark = pytest.mark.slow

SMALL = Setting(12, 200, 20.0)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_every_solver_answers_every_question(loss: str) -> None:
    setting = Setting(9, 120, 20.0, loss)
    names = list(solvers.solvers())
    rows = list(measure(setting, 60.0, names))
    assert [(row.solver, row.question) for row in rows] == [
        (n, q) for n in names for q in QUESTIONS
    ]
    for row in rows:
        assert row.proven
        assert row.gap <= 0.005
        assert row.above <= row.gap + 1e-9
        assert (row.cuts is None) == ("outer" not in row.solver)
        assert (row.gap == 0.0) or (row.solver != "branch and bound")


def test_a_solver_at_its_limit_is_not_asked_further() -> None:
    rows = list(measure(SMALL, 1e-9, ["outer approximation"]))
    assert [row.question for row in rows] == ["best"]
    assert not rows[0].proven


def test_rows_for_the_bench_and_lines_for_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(list(solver_rows(quick=True))) == 2 * len(QUESTIONS)
    monkeypatch.setattr(solvers, "SETTINGS", (SMALL,))
    monkeypatch.setattr(solvers, "warm_up", lambda: None)
    solvers.main(tmp_path / "lines.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert len(lines) == len(solvers.solvers()) * len(QUESTIONS)
    assert all(line["setting"]["p"] == SMALL.p for line in lines)
