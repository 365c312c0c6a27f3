"""The study of defaults: its qualities, its cells, how it goes on, and what it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import defaults_measure, defaults_study
from benchmarks.defaults_measure import Candidate, greedy, measure_real, quality, reference
from benchmarks.defaults_page import BEGIN, END, Study, tables, write_page
from benchmarks.hardness_real import TABLES
from benchmarks.hardness_tables import synthetic
from dpsubset.planning.simulate import SHAPES

Line = dict[str, Any]
EVERY = (
    *defaults_study.NUMBERS,
    *defaults_study.WINDOWED,
    *defaults_study.LABELS,
    *defaults_study.BRIER,
    *defaults_study.VARIANTS,
)


def test_greedy_finds_the_columns_that_make_the_target() -> None:
    table = synthetic("uniform", 2000, 12, 3, False, seed=1)
    assert greedy(table.X, table.y, 3) == (0, 5, 11)
    twice = np.column_stack([table.X[:, 0], table.X[:, 0], table.X[:, 5]])
    assert greedy(twice, table.y, 2) in {(0, 2), (1, 2)}
    assert len(set(greedy(twice, table.y, 3))) == 3


def test_qualities_are_those_of_other_software() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    metrics = pytest.importorskip("sklearn.metrics")
    training, test = np.arange(300), np.arange(300, 500)
    numbers, classes = (synthetic("uniform", 500, 8, 3, kind, seed=1) for kind in (False, True))
    fit = linear_model.LinearRegression().fit(numbers.X[training][:, [0, 3]], numbers.y[training])
    wanted = fit.score(numbers.X[test][:, [0, 3]], numbers.y[test])
    assert quality(numbers, training, test, (0, 3)) == pytest.approx(wanted)
    fit = linear_model.LogisticRegression().fit(classes.X[training][:, [0, 3]], classes.y[training])
    score = fit.decision_function(classes.X[test][:, [0, 3]])
    wanted = metrics.roc_auc_score(classes.y[test], score)
    assert quality(classes, training, test, (0, 3)) == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize(
    ("table", "candidate"),
    [("diabetes", Candidate("huber:0.2", 0.5, 0.05)), ("wine", Candidate("logistic", 1.0, 0.05))],
)
def test_a_cell_has_seconds_and_a_quality_below_its_ceiling(
    table: str, candidate: Candidate
) -> None:
    found = measure_real(table, 3, 100.0, 0, candidate)
    ends = reference(table, 3, 0)
    assert found == measure_real(table, 3, 100.0, 0, candidate) | {"seconds": found["seconds"]}
    assert 0 < found["seconds"] < 15
    assert found["draws"] == defaults_measure.DRAWS
    assert ends["chance"] < ends["ceiling"]
    assert ends["chance"] - 0.05 < found["quality"] < ends["ceiling"] + 0.1


def test_a_release_beyond_its_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults_measure, "LIMIT", 1e-4)
    found = measure_real("digits", 5, 1.0, 0, Candidate("hinge"))
    assert found.keys() == {"refused", "seconds"}


def test_rows_needed_lie_on_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def enough(shape: str, candidate: Candidate, n: int) -> tuple[bool, bool, float]:
        asked.append(n)
        return n >= least, n < 600, n / 1000

    monkeypatch.setattr(defaults_measure, "_recovered", enough)
    for least in (*defaults_measure.ROWS, 10**6):
        asked.clear()
        found = defaults_measure.rows_needed("normal", Candidate("absolute"))
        assert found["rows"] == (least if least < 10**6 else None)
        assert len(asked) <= 4
        assert found["refused_at"] == ([500] if 500 in asked and least > 500 else [])
        assert found["seconds"] in {n / 1000 for n in asked}


def test_recovery_is_counted_release_by_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults_measure, "TABLES_DRAWN", 1)
    enough, refused, seconds = defaults_measure._recovered(
        "uniform", Candidate("huber:0.1", 0.5), 5000
    )
    assert enough
    assert not refused
    assert seconds > 0
    assert not defaults_measure._recovered("uniform", Candidate("huber:0.1", 0.5), 100)[0]


def test_cells_are_fixed_and_hold_every_candidate() -> None:
    cells = list(defaults_study.cells())
    keys = [defaults_study._key(cell) for cell in cells]
    assert len(set(keys)) == len(keys)
    real = [cell for cell in cells if cell["kind"] == "real"]
    assert {cell["table"] for cell in real} == set(TABLES)
    assert {cell["shape"] for cell in cells if cell["kind"] == "recovery"} == set(SHAPES)
    told = ("loss", "radius", "offset_share", "ridge", "window_share")
    met = {Candidate(*(c[k] for k in told)) for c in real}
    assert met == {*EVERY, *defaults_study.WITH_EIGHT}


def test_the_study_goes_on_where_it_was_and_does_not_try_a_refused_cell_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def measured(*at: Any) -> Line:
        tried.append(at)
        return {"refused": True, "seconds": 15.0} if at[0] == "b" else {"quality": 0.5}

    cells = [
        defaults_study._cell(Candidate("absolute"), table, 5, 1.0, seed)
        for seed in (0, 1)
        for table in ("a", "b")
    ]
    monkeypatch.setattr(defaults_study, "cells", lambda: iter(cells))
    monkeypatch.setattr(defaults_study, "measure_real", measured)
    monkeypatch.setattr(defaults_study, "reference", lambda *at: {"ceiling": 1.0, "chance": 0.0})
    monkeypatch.setattr(defaults_study, "warm_up", lambda: None)
    output = tmp_path / "lines.jsonl"
    defaults_study.main(output, seconds=-1.0)
    assert not tried
    defaults_study.main(output)
    lines = defaults_study.read_lines(output)
    assert [(at[0], at[3]) for at in tried] == [("a", 0), ("b", 0), ("a", 1)]
    assert [line["kind"] for line in lines].count("reference") == 4
    assert lines[-1]["untried"]
    defaults_study.main(output)
    assert len(defaults_study.read_lines(output)) == len(lines)


def some_lines() -> list[Line]:
    ends = {"size": 5, "seed": 0, "ceiling": 0.9, "chance": 0.6}
    lines: list[Line] = [{"kind": "reference", "table": table, **ends} for table in TABLES]
    for candidate in EVERY:
        lines.append({"kind": "recovery", "shape": "normal", "rows": 2000, "seconds": 0.1})
        lines[-1] |= {"refused_at": [500], **vars(candidate)}
        for table, spec in TABLES.items():
            if spec.labels == candidate.labels:
                refused = table == "card" and candidate.loss == "absolute"
                found = {"refused": True} if refused else {"seconds": 0.5, "quality": 0.7}
                lines.append(defaults_study._cell(candidate, table, 5, 1.0, 0) | found)
    return lines


def test_the_page_tells_refusals_and_shares_of_the_ceiling(tmp_path: Path) -> None:
    lines = some_lines()
    text = tables(lines)
    row = next(line for line in text.splitlines() if line.startswith("| absolute, radius 1 | nan"))
    assert "0.78" in row
    assert "| 11% | 0.5 | 3.4 |" in row
    assert "+0.000 ± 0.000" in text
    assert "over the 8 runs that all of them released, refusals and seconds over all 9 runs" in text
    assert "card (" not in text.partition("### Real tables with numbers")[2].partition("labels")[0]
    study = Study(lines, True, 5)
    assert study.relative(("wine", 1.0, 0), 0.7) == pytest.approx(0.5)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_page(lines, page)
    assert page.read_text() == f"before\n{BEGIN}\n\n{text}\n\n{END}\nafter\n"
