"""The table of larger ridges: a small case is measured, and the page has a place for it."""

from __future__ import annotations

from benchmarks import wide_ridges
from benchmarks.kept import written
from benchmarks.wide_ridges import Asked, Line


def test_a_small_table_is_measured() -> None:
    asked = Asked("absolute", "uniform", 0.05, 3000)
    assert wide_ridges.measured(asked, columns=20, tables=1) == Line(*asked, 10, 0)


def test_the_table_tells_rows_and_refusals() -> None:
    lines = [Line("logistic", "normal", 0.002, rows, rows // 40, 1) for rows in (800, 1131)]
    assert "| logistic | normal | 0.002 | 1,131 | 2 of 6 |" in wide_ridges.table(lines)
    assert "| > 800 |" in wide_ridges.table(lines[:1])


def test_the_page_has_a_place_for_the_table() -> None:
    text = wide_ridges.PAGE.read_text()
    assert "| 0.002 |" in text
    assert "| 0.002 |" not in written(text, "wide ridges", "none").split("begin wide ridges")[1]
