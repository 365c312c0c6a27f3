"""The documentation site, before it is built: what looks at its links, and examples on all pages.

`make docs` builds it, `make docs-test` looks at it in a browser.
"""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def links() -> Any:
    spec = spec_from_file_location("check_links", ROOT / "docs" / "check_links.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder: Path, **pages: str) -> Path:
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text)
    return folder


def test_links_that_lead_somewhere_pass(tmp_path: Path) -> None:
    site = write(
        tmp_path,
        index='<a href="other.html#here">a</a><a href="https://elsewhere.org/x">b</a>',
        other='<p id="here"><a href="index.html">c</a><a href="#here">d</a></p>',
    )
    assert links().broken(site) == []


@pytest.mark.parametrize(
    ("index", "fault"),
    [
        ('<a href="other.html">a</a><a href="none.html">b</a>', "no such file"),
        ('<a href="other.html#nowhere">a</a>', "no such place"),
        ('<a href="other.html">a</a><img src="none.png">', "no such file"),
        ("<p>no link</p>", "no page links to it"),
    ],
)
def test_twins_broken_links_are_noticed(tmp_path: Path, index: str, fault: str) -> None:
    site = write(tmp_path, index=index, other="<p>here</p>")
    assert [line for line in links().broken(site) if fault in line]


def test_every_page_has_an_example_that_runs() -> None:
    """Pages that scripts write, and those of the root, have theirs in docs/tried."""
    docs = ROOT / "docs"
    pages = [p for p in docs.rglob("*.md") if not {"tried", "gallery"} & set(p.parts)]
    assert len(pages) > 40
    for page in pages:
        name = page.relative_to(docs).with_suffix("").as_posix().replace("/", "-")
        tried = docs / "tried" / f"{name}.md"
        text = page.read_text() + (tried.read_text() if tried.exists() else "")
        assert re.search(r"^```\{(ran|terminal)\}", text, flags=re.M), page


def test_the_gallery_has_enough_pictures() -> None:
    examples = list((ROOT / "docs" / "examples").glob("plot_*.py"))
    assert len(examples) >= 8
    assert all("plt.show()" in path.read_text() for path in examples)
