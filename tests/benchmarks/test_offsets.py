"""The table of offsets: it shows what it is said to show, and its page has a place for it."""

from __future__ import annotations

from benchmarks import offsets
from benchmarks.kept import written


def test_an_offset_frees_a_small_ball() -> None:
    far = next(iter(offsets.ASKED))
    without, with_one = (offsets.share_found(far, 0.25, share, 1, 3) for share in (0.0, 0.05))
    assert without < with_one


def test_the_page_has_a_place_for_the_table() -> None:
    text = offsets.PAGE.read_text()
    assert "| 0.25 |" in text
    assert "| 0.25 |" not in written(text, "offsets", "none")
