"""The study of open sizes: it resumes, counts rightly, and says what was not in time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import sizes
from benchmarks.sizes import Cell, Line, measure, page, read

EASY = Cell(10, 2, 3000, 0, "auto")


def test_true_columns_are_found_and_counted() -> None:
    for name in sizes.MECHANISMS:
        line = measure(Cell(10, 1, 6000, 0, name), draws=10)
        assert (line.draws, line.late) == (10, False)
        assert line.exact > 0.5
        assert line.exact <= line.clean
    few = measure(Cell(10, 5, 200, 0, "auto"), draws=10)
    assert few.exact == 0.0
    assert few.missed > 3


def test_a_run_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Cell] = []

    def measured(cell: Cell) -> Line:
        made.append(cell)
        return Line(cell, 4, 0.5, 0.75, 0.25, 0.5, 0.1, False)

    monkeypatch.setattr(sizes, "measure", measured)
    monkeypatch.setattr(sizes, "cells", lambda: [EASY, Cell(10, 2, 3000, 1, "told")])
    path = tmp_path / "lines.jsonl"
    path.write_text(json.dumps({**vars(measured(EASY)), "cell": vars(EASY)}) + "\n")
    made.clear()
    lines = sizes.main((), path)
    assert [cell.mechanism for cell in made] == ["told"]
    assert read(path) == lines
    assert len(lines) == 2


def test_the_page_says_what_was_not_in_time() -> None:
    cell = Cell(100, 3, 1000, 0, "auto")
    good = Line(cell, 30, 0.5, 1.0, 0.0, 0.5, 1.0, False)
    assert "| 3 | auto | 0.50 / 1.00 |" in page([good])
    late = Line(cell, 10, 0.5, 1.0, 0.0, 0.5, 1.0, True)
    assert "0.50 / 1.00 \\* 40" in page([good, late])
    assert "not in time" in page([Line(cell, 0, 0.0, 0.0, 0.0, 0.0, 9.0, True)])


def test_lines_that_are_kept_belong_to_the_study() -> None:
    known = set(sizes.cells())
    lines = read(sizes.LINES)
    assert lines
    assert {line.cell for line in lines} <= known
