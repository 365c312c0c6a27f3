"""Times on ordinary tables: schemas that hold, runs that resume, and a page that shows refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import ordinary
from benchmarks.ordinary import Line, described, main, measure, page, read
from dpsubset import SubsetSelector
from dpsubset.errors import UnprovenError


def frame(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.uniform(18, 90, rows)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(rows) < 0.2, np.nan, age),
            "ward": rng.choice(["north", "south"], rows).astype(object),
            "name": [f"person {i}" for i in range(rows)],
            "stay": 0.2 * age,
        }
    )


def test_a_schema_has_round_bounds_levels_and_what_to_do_about_gaps() -> None:
    found = described(frame(), "stay")
    assert found["columns"] == {
        "age": {"bounds": [0.0, 100.0], "missing": "indicator"},
        "ward": {"levels": ["north", "south"]},
        "name": "ignore",
    }
    assert found["target"] == {"name": "stay", "bounds": [0.0, 20.0]}


def test_runs_resume_and_refusals_are_shown(tmp_path: Path, monkeypatch) -> None:
    path, asked = tmp_path / "lines.jsonl", []
    monkeypatch.setattr(ordinary, "SIZES", (1, 2))
    monkeypatch.setattr(ordinary, "EPSILONS", (1.0,))
    monkeypatch.setattr(ordinary, "table", lambda name: (frame(), "stay"))
    fit = SubsetSelector.fit

    def watched(self: SubsetSelector, X: object, y: object) -> object:
        asked.append(self.n_features_to_select)
        if self.n_features_to_select == 2:
            raise UnprovenError("no")
        return fit(self, X, y)

    monkeypatch.setattr(SubsetSelector, "fit", watched)
    main(["one"], path)
    main(["one"], path)
    assert asked == [1, 2]
    lines = read(path)
    assert [line.seconds is None for line in lines] == [False, True]
    text = page(lines)
    assert "2 questions" in text
    assert "1 without a release" in text
    assert "**none**" in text


def test_labels_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    table = frame()
    table["ill"] = np.where(table["stay"] > 10, "yes", "no").astype(object)
    (line,) = measure("one", table.drop(columns=["stay"]), "ill", [(1, 1.0)], 60.0)
    assert line == Line("one", 300, 2, 1, 1.0, line.seconds)
    assert line.seconds is not None
