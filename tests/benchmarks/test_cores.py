"""One core against two: what is measured, and the page that it is written to; on small tables."""

import json
import os
from pathlib import Path

import pytest

from benchmarks import cores
from dpsubset.designs.cores import cores as allowed


def test_work_is_done_by_one_core_and_by_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    seen: list[int] = []
    found = cores.ratio(lambda: seen.append(allowed()), times=2)
    assert seen == [7, 1, 2, 1, 2]
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert found["times"] == pytest.approx(found["one"] / found["two"])


def test_one_command_writes_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "scale.md"
    page.write_text("before\n<!-- begin cores -->\n<!-- end cores -->\nafter\n")
    monkeypatch.setattr(cores, "PAGE", page)
    monkeypatch.setattr(cores, "RESULTS", tmp_path / "cores.jsonl")
    cores.main(300, 2100, times=1)
    lines = [json.loads(line) for line in (tmp_path / "cores.jsonl").read_text().splitlines()]
    names = [line["work"] for line in lines]
    for loss in ("squared", "logistic", "absolute"):
        assert {f"a first release, {loss} loss", f"20 more, {loss} loss"} <= set(names)
    text = page.read_text()
    assert text.startswith("before")
    assert text.endswith("after\n")
    assert all(f"| {name} |" in text for name in names)
    cores.main(300, 2100, times=1, dry=True)
    assert page.read_text() == text
