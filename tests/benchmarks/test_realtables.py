"""The comparison on real tables: schemas, splits, runs that resume, a page that says who loses."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.realtables import calibration, claims, losing, page, run
from benchmarks.realtables.methods import CEILINGS, PRIVATE
from benchmarks.realtables.tables import TABLES
from dpsubset.data import Schema


def test_every_table_has_a_schema_that_reads() -> None:
    kinds = [Schema.read_toml(table.path).target.limits is None for table in TABLES.values()]
    assert len(kinds) >= 12
    assert 5 <= sum(kinds) <= len(kinds) - 5


def test_a_split_is_public_knowledge_and_rows() -> None:
    split = run.split_of("diabetes", 0)
    X, y = split.fit
    assert (len(y), len(split.outcome)) == (309, 133)
    assert np.abs(X).max() <= 1
    assert (X[:, -1] == 1).all()
    other = run.split_of("diabetes", 1)
    assert not np.array_equal(other.fit[1], y)
    assert split.columns((0, 3)) == [0, 3, 10]


@pytest.mark.slow
def test_runs_resume_and_the_page_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "results.jsonl"
    for module in (run, page, calibration):
        monkeypatch.setattr(module, "RESULTS", results)
    monkeypatch.setattr(page, "DOCS", tmp_path)
    monkeypatch.setattr(calibration, "FORETOLD", tmp_path / "none.jsonl")
    run._run(1, ["diabetes"], [3.0], float("inf"))
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert [r["method"] for r in rows] == [*CEILINGS, *PRIVATE]
    assert all(np.isfinite(r["quality"]) for r in rows)
    by_name: dict[str, Any] = {r["method"]: r for r in rows}
    assert by_name["best subset"]["quality"] > 0.3
    assert abs(by_name["private mean"]["quality"]) < 0.1
    assert len(by_name["ours"]["features"]) == 5
    run._run(1, ["diabetes"], [3.0], float("inf"))  # nothing is left to do
    assert len(results.read_text().splitlines()) == len(rows)
    # A method whose results are taken out is run again, and no other.
    kept = [json.dumps(r) for r in rows if r["method"] != "ours"]
    results.write_text("".join(f"{line}\n" for line in kept))
    run._run(1, ["diabetes"], [3.0], float("inf"))
    again = [json.loads(line) for line in results.read_text().splitlines()]
    assert len(again) == len(rows)
    assert again[-1]["features"] == by_name["ours"]["features"]

    found = page.read()
    told = page._losses(found, {"numbers": ["diabetes"], "labels": []})
    best = max((*page.OTHERS, *page.MIXED), key=lambda m: by_name[m]["quality"])
    behind = by_name[best]["quality"] > 0.005 + max(by_name[m]["quality"] for m in page.OURS)
    line = next(one for one in told.splitlines() if "epsilon 3" in one)
    assert (f"diabetes ({best}" in line) == behind
    assert ("nowhere" in line) != behind


def test_an_auc_is_turned_into_a_signal_and_back() -> None:
    low, high = (calibration.signal_of_auc(wanted, 0.3) for wanted in (0.6, 0.9))
    assert 0.02 < low < high < 0.95
    assert calibration.signal_of_auc(0.4, 0.5) == 0.02


def _made_up(ours: float, theirs: float, mixed: float) -> page.Found:
    """Return results of all methods on one table of each kind, the same for all seeds."""
    found: page.Found = defaultdict(list)
    value = dict.fromkeys(page.OURS, ours) | dict.fromkeys(page.MIXED, mixed) | {page.MEAN: 0.0}
    for table, labels in (("diabetes", False), ("digits", True)):
        for method in PRIVATE:
            for epsilon in run.EPSILONS:
                found[table, method, epsilon] = [
                    {"seed": s, "labels": labels, "quality": value.get(method, theirs)}
                    for s in range(run.SEEDS)
                ]
    return found


def test_claims_hold_where_they_do_and_only_there() -> None:
    good = claims.claims(_made_up(0.6, 0.5, 0.7))  # a mixture is no baseline
    assert all(c.holds for c in good[:-1])  # the last one is of plan, and reads its own file
    assert "0.700" in good[1].shown
    assert "behind: nowhere" in good[1].shown
    bad = claims.claims(_made_up(-0.1, 0.5, 0.0))
    assert [c.holds for c in bad[:-1]] == [True] + [False] * 5
    assert "diabetes (0.500, ours -0.100)" in bad[1].shown
    short = _made_up(0.6, 0.5, 0.7)
    short["digits", "ours", 1.0].pop()
    assert not claims.claims(short)[0].holds


def test_the_committed_results_hold_what_the_page_says() -> None:
    told = claims.told()
    assert told in (page.DOCS / "real-tables.md").read_text()
    assert told.count("- **") == 7


def test_where_we_lose_is_told_by_its_own_results() -> None:
    schema = Schema.read_toml(TABLES["deliveries"].path)
    assert list(schema.names or ())[losing.DISTANCE] == "distance"
    table = losing.compared().splitlines()
    assert "against the default" in table[-1]
    assert all(line.count("|") == len(losing.RULES) + 4 for line in table)
    told = (page.DOCS / "real-tables.md").read_text()
    assert losing.compared() in told
    assert losing.elsewhere() in told
    other = losing._with_line("deliveries", "distance = [0, 20]", "distance = [0, 8]")
    assert (other.columns or ())[losing.DISTANCE].upper == 8
