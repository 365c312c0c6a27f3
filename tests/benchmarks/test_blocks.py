"""The times of blocks: the tables are alike, runs resume, and what is too slow is shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import blocks
from benchmarks.blocks import Case, Line, make_tables, measure, page, read
from dpsubset.errors import UnprovenError

SMALL = Case("best set", "squared", 200, 6, 3)


def test_categories_have_norm_one_and_single_columns_say_the_same() -> None:
    (corners, single, first), y = make_tables(SMALL)
    corners, levels = corners.reshape(200, 6, 3), single.reshape(200, 6, 3)
    assert np.allclose(np.linalg.norm(corners, axis=2), 1.0)
    for g in range(6):
        both = np.column_stack([corners[:, g], levels[:, g]])
        assert [len(np.unique(some, axis=0)) for some in (both, corners[:, g], levels[:, g])] == [
            4
        ] * 3
    assert np.array_equal(first, single[:, ::3])
    assert np.abs(y).max() < 2


@pytest.mark.grid(every=8)
@pytest.mark.parametrize("what", [*blocks.EVERY, *blocks.SQUARED])
def test_everything_runs_on_a_small_table(what: str) -> None:
    line = measure(Case(what, "squared", 200, 6, 2), repeats=1)
    assert None not in (line.blocks, line.columns, line.features)


def test_what_is_not_in_time_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(problem: object) -> None:
        raise UnprovenError("no")

    monkeypatch.setitem(blocks.EVERY, "best set", never)
    line = measure(SMALL, repeats=1)
    assert (line.blocks, line.columns, line.features) == (None, None, None)


def test_a_run_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Case] = []

    def measured(case: Case) -> Line:
        made.append(case)
        return Line(case, 1.0, 2.0, None)

    other = Case("best set", "hinge", 200, 6, 3)
    monkeypatch.setattr(blocks, "measure", measured)
    monkeypatch.setattr(blocks, "cases", lambda: [SMALL, other])
    path = tmp_path / "lines.jsonl"
    lines = blocks.main((), path)
    assert read(path) == lines
    assert blocks.main((), path) == lines
    assert made == [SMALL, other]


def test_ratios_above_the_number_of_columns_stand_out() -> None:
    case = Case("best set", "squared", 2000, 40, 3)
    assert "| 3 | 1.5 | **6** |" in page([Line(case, 3.0, 2.0, 0.5)])
    assert "| 3 | these not in time | **6** |" in page([Line(case, 3.0, None, 0.5)])
    assert "| not in time |  |  |" in page([Line(case, None, 2.0, 0.5)])


def test_other_tables_are_what_they_are_called() -> None:
    repeated = "each repeats the one before in 7 of 10 rows"
    chain = blocks.CHAINS[0]
    (_, single, _), _ = make_tables(Case(chain, "squared", 2000, 6, 3, repeated))
    levels = single.reshape(2000, 6, 3).argmax(axis=2)
    same = (levels[:, 1:] == levels[:, :-1]).mean()
    assert abs(same - (0.7 + 0.3 / 3)) < 0.02
    shown = page([Line(Case(chain, "squared", 2000, 40, 8, repeated), 9.0, 1.0, None)])
    late = "these not in time"
    assert f"| {repeated} | {chain} | | | |  | 9 | **9** | {late} | {late} |" in shown
    one = next(iter(blocks.ONE))
    shown = page([Line(Case(one, "squared", 2000, blocks.MANY, 3, "no ridge"), 2.0, 1.0, None)])
    assert (
        f"| {blocks.MANY} features, no ridge | {one} | 2 | 2 | {late} | {late} | | | |  |" in shown
    )


def test_lines_that_are_kept_belong_to_the_study() -> None:
    assert {line.case for line in read(blocks.LINES)} <= set(blocks.cases())
