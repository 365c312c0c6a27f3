"""Rows for a share of true releases: enough by its own record, a step less is not, no step beyond.

Most of it runs on made-up curves in the place of simulations, so that the answer is known.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dpsubset.errors import InputError, MissingExtraError
from dpsubset.planning import Answer, Setting, draw_answer, rows, rows_for, simulate
from dpsubset.planning.simulate import recovery, shaped_table

SMALL = Setting("absolute", 1.0, 10.0, columns=8, size=2, epsilon=6.0)
STEP = 2**0.25
Curve = Callable[[int], float]


def with_curve(curve: Curve, *, share: float = 0.9, most: int = 1_000_000) -> Answer:
    """Run the search on a curve that is given."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "recovery", lambda setting, n, tables, draws: curve(n))
        return rows_for(SMALL, share=share, most=most)


def check(answer: Answer, least: int) -> None:
    """Check an answer on a curve that is enough from `least` rows on."""
    assert answer.rows is not None
    assert answer.tried[answer.rows] >= answer.share
    assert answer.rows >= least
    if answer.rows > 128:
        below = max(n for n in answer.tried if n < answer.rows)
        assert answer.tried[below] < answer.share
        assert below == pytest.approx(answer.rows / STEP, rel=0.01)
        assert answer.rows <= least * STEP * 1.01


# The search -------------------------------------------------------------------------------------


@hypothesis_settings(max_examples=200, deadline=None)
@given(st.integers(1, 500_000))
def test_a_sharp_step_is_found_to_within_one_step_of_ours(least: int) -> None:
    answer = with_curve(lambda n: float(n >= least))
    check(answer, least)
    assert answer.rows == with_curve(lambda n: float(n >= least)).rows


@hypothesis_settings(max_examples=50, deadline=None)
@given(st.floats(0.01, 0.99), st.floats(100, 1e5))
def test_a_smooth_curve_at_every_share(share: float, scale: float) -> None:
    def curve(n: int) -> float:
        return 1 - math.exp(-n / scale)

    least = math.ceil(-scale * math.log1p(-share))
    check(with_curve(curve, share=share), least)


@hypothesis_settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_the_curve_the_record_bears_the_answer(seed: int) -> None:
    """Shares by simulation go up and down: the answer must still be one that was enough."""

    def curve(n: int) -> float:
        return (math.sin(n * 12.9898 + seed) * 43758.5453) % 1.0

    answer = with_curve(curve, share=0.7, most=5000)
    if answer.rows is None:
        assert all(share < 0.7 for share in answer.tried.values())
    else:
        assert answer.tried[answer.rows] >= 0.7
        below = [n for n in answer.tried if n < answer.rows]
        assert not below or answer.tried[max(below)] < 0.7


def test_the_check_would_notice_a_search_that_stops_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin: with steps of a factor of 2 the answer is not right to within ours."""
    monkeypatch.setattr(rows, "_STEP", 2.0)
    with pytest.raises(AssertionError):
        check(with_curve(lambda n: float(n >= 1100)), 1100)


@pytest.mark.parametrize("most", [128, 300, 1000, 1024])
def test_none_beyond_the_most(most: int) -> None:
    answer = with_curve(lambda n: 0.2, most=most)
    assert answer.rows is None
    assert most / 2 < max(answer.tried) <= most
    found = with_curve(lambda n: float(n > most), most=most)
    assert found.rows is None
    enough = with_curve(lambda n: float(n >= most / 2), most=most)
    assert enough.rows is not None
    assert enough.rows <= most


@pytest.mark.parametrize("most", [0, 1, 100, 127])
def test_no_more_rows_than_the_most_are_tried(most: int) -> None:
    try:
        answer = with_curve(lambda n: 1.0, most=most)
    except InputError:
        return
    assert max(answer.tried, default=0) <= most


def test_every_try_is_told_as_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "recovery", lambda s, n, tables, draws: float(n >= 900))
    told: list[tuple[int, float]] = []
    answer = rows_for(SMALL, progress=lambda n, share: told.append((n, share)))
    assert told == list(answer.tried.items())
    assert [n for n, _ in told[:4]] == [128, 256, 512, 1024]


# Simulated --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["absolute", "hinge"])
def test_simulated_and_the_same_again(loss: str) -> None:
    setting = replace(SMALL, loss=loss, epsilon=3.0)
    answer = rows_for(setting, tables=2, draws=10)
    assert answer.rows is not None
    assert answer.rows > 128  # otherwise nothing was narrowed down
    check(answer, answer.rows)
    assert rows_for(setting, tables=2, draws=10) == answer
    assert all((share * 20) % 1 == pytest.approx(0, abs=1e-9) for share in answer.tried.values())
    easier = rows_for(replace(setting, epsilon=30.0), tables=2, draws=10)
    assert easier.rows is not None
    assert easier.rows < answer.rows


@pytest.mark.parametrize("loss", ["hinge", "logistic", "huber_hinge"])
def test_losses_of_labels_meet_labels(loss: str) -> None:
    table = shaped_table(replace(SMALL, loss=loss), 200, seed=1)
    assert set(table.y) == {-1.0, 1.0}
    assert table.support == (0, 2)


# What is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "options", "text"),
    [
        ({}, {"share": 0.0}, "share"),
        ({}, {"share": 1.0}, "share"),
        ({}, {"share": -0.5}, "share"),
        ({}, {"share": math.nan}, "share"),
        ({"size": 5}, {}, "9 columns"),
        ({"columns": -3}, {}, "columns"),
        ({"loss": "cubic"}, {}, "unknown loss"),
        ({"mechanism": "dice"}, {}, "unknown mechanism"),
        ({"neighbours": "cousins"}, {}, "relation"),
        ({"epsilon": -1.0}, {}, "epsilon"),
        ({"ridge": -1.0}, {}, "ridge"),
        ({"radius": -1.0}, {}, "radius"),
        ({"clip": -1.0}, {}, "clip"),
        ({}, {"draws": -1}, "whole number"),
        ({}, {"draws": 0}, "draws"),
        ({}, {"tables": 0}, "tables"),
        ({}, {"tables": -1}, "tables"),
        ({"size": 0}, {}, "size|true columns"),
        ({"size": -1}, {}, "size|true columns"),
        ({"snr": 0.0}, {}, "snr|signal"),
        ({"snr": -1.0}, {}, "snr|signal"),
        ({"rho": 2.0}, {}, "rho|correlation"),
    ],
)
def test_bad_use(changed: dict[str, object], options: dict[str, float], text: str) -> None:
    given = {"tables": 1, "draws": 2, "most": 256} | options
    with pytest.raises(InputError, match=text):
        rows_for(replace(SMALL, **changed), **given)  # type: ignore[arg-type]


# Drawn ------------------------------------------------------------------------------------------

ANSWER = Answer(181, 0.9, {128: 0.5, 256: 1.0, 181: 0.95, 152: 0.85})


@pytest.mark.slow
def test_an_answer_is_drawn(tmp_path: Path) -> None:
    for answer in (ANSWER, Answer(None, 0.9, {128: 0.5})):
        draw_answer(answer, SMALL, tmp_path / "a.png")
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        draw_answer(answer, SMALL, tmp_path / "a.svg")
        root = ElementTree.parse(tmp_path / "a.svg").getroot()
        words = " ".join(root.itertext())
        assert root.tag.endswith("svg")
        assert "2 of 8 columns, epsilon 6, absolute loss" in words
        assert ("181 rows" in words) == (answer is ANSWER)


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"dpsubset\[figures\]"):
        draw_answer(ANSWER, SMALL, tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()


# Columns that are always included ---------------------------------------------------------------


def test_columns_that_are_included_need_not_be_found() -> None:
    """One column fewer to find takes fewer rows; none is enough where all but one are known."""
    shares = [recovery(replace(SMALL, size=3, included=k), 200, 4, 25) for k in range(3)]
    assert shares[0] < shares[2]
    with pytest.raises(InputError, match="always_include"):
        rows_for(replace(SMALL, included=2))


def test_a_simulation_that_does_not_include_them_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = replace(SMALL, size=3, included=2)
    honest = recovery(given, 200, 4, 25)
    made = simulate._selection
    forgetful = lambda setting, *more: made(replace(setting, included=0), *more)  # noqa: E731
    monkeypatch.setattr(simulate, "_selection", forgetful)
    assert recovery(given, 200, 4, 25) < honest
