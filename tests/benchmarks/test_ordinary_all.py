"""Times on tables that nobody has chosen: targets by a seed, runs that resume, and the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import ordinary_all
from benchmarks.ordinary import Line, read
from benchmarks.ordinary_all import QUESTIONS, main, page, targets
from dpsubset import SubsetSelector


def frame(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    found = pd.DataFrame(rng.uniform(0, 1, (rows, 12)), columns=[f"x{j}" for j in range(12)])
    found["ward"] = rng.choice(["north", "", "south"], rows).astype(object)
    found["ill"] = rng.choice(["no", "yes"], rows).astype(object)
    return found


def test_targets_are_numbers_or_two_classes_and_stay_the_same() -> None:
    table = frame()
    drawn = {name for seed in range(60) for name in targets(table, seed)}
    assert drawn == set(table.columns) - {"ward"}
    assert targets(table, 5) == targets(table, 5)
    assert targets(table[["ward"]], 0) == []


def test_runs_resume_and_tables_of_few_features_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [("one", frame(), "ill"), ("few", frame().iloc[:, :9], "x0"), ("two", frame(), "x1")]
    monkeypatch.setattr(ordinary_all, "_tables", lambda: iter(tables))
    asked = []
    monkeypatch.setattr(SubsetSelector, "fit", lambda self, X, y: asked.append(self.epsilon))
    path = tmp_path / "lines.jsonl"
    main(path, most=1)
    assert len(asked) == len(QUESTIONS)
    main(path)
    main(path)
    assert len(asked) == 2 * len(QUESTIONS)
    assert {line.table for line in read(path)} == {"one", "two"}


def test_the_page_shows_what_took_longest_and_what_had_no_release() -> None:
    lines = [Line(f"a/b: {k}", 300, 12, 8, 3.0, 0.1 * k) for k in range(1, 30)]
    lines.append(Line("a/c: y", 300, 12, 8, 10.0, None))
    text = page(lines)
    assert "2 tables, 30 questions" in text
    assert "1 without a release" in text
    rows = text.splitlines()[4:]
    assert rows[0].startswith("| a/c: y |")
    assert "**none**" in rows[0]
    assert rows[1].startswith("| a/b: 29 |")
