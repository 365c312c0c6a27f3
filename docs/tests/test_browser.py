"""The built site in a headless browser: every page, wide and narrow, light and dark.

`make docs` builds it, `make docs-test` looks at it. A fault of each kind is put into a small site,
to see that it is noticed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from browsing import walked
from test_docstrings import PUBLIC

SITE = Path(os.environ.get("SITE", Path(__file__).parents[2] / "build" / "site"))
DESKTOP, PHONE = 1280, 390
# Pages that Sphinx makes of itself hold no words of ours.
MADE = {"genindex.html", "py-modindex.html", "search.html"}
READABLE = 3.0  # contrast of text and ground; code has colours


VIEWS = {
    "desktop-light": (DESKTOP, False),
    "desktop-dark": (DESKTOP, True),
    "phone-light": (PHONE, False),
    "phone-dark": (PHONE, True),
}


@pytest.fixture(scope="module", params=list(VIEWS))
def walk(request: pytest.FixtureRequest) -> tuple[dict[str, Any], int, bool]:
    width, dark = VIEWS[request.param]
    assert (SITE / "index.html").exists(), f"{SITE} holds no site: `make docs` builds one"
    return walked(SITE, width, dark=dark), width, dark


def test_every_page_is_reached_and_nothing_is_broken(
    walk: tuple[dict[str, Any], int, bool],
) -> None:
    """Links, places on pages, pictures and formulas."""
    found, _, _ = walk
    assert found["faults"] == []
    built = {path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html")}
    assert built - set(found["pages"]) - MADE == set()


def test_formulas_are_set(walk: tuple[dict[str, Any], int, bool]) -> None:
    pages = walk[0]["pages"]
    assert pages["theory.html"]["formulas"] > 100
    assert not {name for name, page in pages.items() if page["formulas"] < page["wanted"]}


def test_no_page_is_wider_than_the_screen(walk: tuple[dict[str, Any], int, bool]) -> None:
    wide = {name: page["wider"] for name, page in walk[0]["pages"].items()}
    assert {name: by for name, by in wide.items() if by > 1} == {}


def test_pages_are_light_or_dark_and_can_be_read(walk: tuple[dict[str, Any], int, bool]) -> None:
    pages, dark = walk[0]["pages"], walk[2]
    assert {name for name, page in pages.items() if (page["back"] < 0.2) != dark} == set()
    faint = {name: page["contrast"] for name, page in pages.items()}
    assert {name: value for name, value in faint.items() if value < READABLE} == {}


@pytest.mark.parametrize(("word", "least", "most"), [("sensitivity", 4, 1000), ("xqzzy", 0, 0)])
def test_the_search_finds_what_is_there(word: str, least: int, most: int) -> None:
    page = f"search.html?q={word}"
    assert least <= walked(SITE, start=page, on=False)["pages"][page]["results"] <= most


def test_no_page_is_without_an_example_that_ran() -> None:
    """What ran leaves a mark in this build: its output, a picture, or a certificate."""
    marks = r'class\s*=\s*"[^"]*\b(?:printed|sphx-glr-script-out|sphx-glr-single-img|kept)\b'
    own = [p for p in SITE.rglob("*.html") if "_static" not in p.parts and p.name not in MADE]
    assert len(own) > 50
    silent = {p.relative_to(SITE).as_posix() for p in own if not re.search(marks, p.read_text())}
    assert silent == set()


def test_every_public_name_is_in_the_reference() -> None:
    """A room that imports its names when they are asked for would show none of them."""
    found = r'<span class="sig-name descname"><span class="pre">(\w+)</span>'
    pages = [path.read_text() for path in (SITE / "reference").glob("*.html")]
    shown = {name for text in pages for name in re.findall(found, text)}
    assert {name for name in PUBLIC if name.rpartition(".")[2] not in shown} == set()


# Twins: the same walk notices faults -------------------------------------------------------------

HEAD = '<!DOCTYPE html><html><meta name="viewport" content="width=device-width"><body>'


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="none.html">a</a>', "link none.html"),
        ('<a href="other.html#nowhere">a</a>', "place other.html#nowhere"),
        ('<img src="none.png">', "picture none.png"),
        ("<mjx-merror>x_1_2</mjx-merror>", "formula x_1_2"),
    ],
)
def test_twins_what_is_broken_is_noticed(tmp_path: Path, body: str, fault: str) -> None:
    (tmp_path / "index.html").write_text(HEAD + body)
    (tmp_path / "other.html").write_text(HEAD + "here")
    assert walked(tmp_path)["faults"] == [f"index.html: {fault}"]


def test_twins_wide_and_faint_pages_are_noticed(tmp_path: Path) -> None:
    style = "width: 3000px; color: #ccc; background: #fff"
    (tmp_path / "index.html").write_text(f'{HEAD}<p style="{style}">wide</p><a href="b.html">b</a>')
    (tmp_path / "b.html").write_text(f'{HEAD}<p class="math">x</p>')
    pages = walked(tmp_path, PHONE, dark=True)["pages"]
    assert set(pages) == {"index.html", "b.html"}
    assert pages["index.html"]["wider"] > 1000
    assert pages["index.html"]["contrast"] < READABLE
    assert pages["index.html"]["back"] > 0.2  # light, where dark was asked for
    assert pages["b.html"]["formulas"] < pages["b.html"]["wanted"]
