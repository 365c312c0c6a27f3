"""The documentation site: its links, and what a browser shows of it. `make docs` builds it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from browsing import CHROMIUM, overflow, seen, served

ROOT = Path(__file__).parents[1]
NARROW = (
    "index",
    "start",
    "officer",
    "security",
    "theory",
    "hardness",
    "guides/mechanism",
    "gallery/index",
    "gallery/plot_03_neighbours",
    "reference/estimators",
    "reference/command",
)


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


@pytest.mark.slow
def test_the_site_is_built_walked_and_looked_at(tmp_path: Path) -> None:
    """All examples run, no warning, no broken link; formulas, search and narrow screens work."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(tmp_path / "trees"), str(ROOT / "docs"), str(tmp_path / "site")],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert links().broken(tmp_path / "site") == []
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: the site was built and walked, not looked at")
    with served(tmp_path / "site") as address:
        look(address)


def look(address: str) -> None:
    theory = seen(f"{address}theory.html")
    assert theory.count("<mjx-container") > 100
    assert "<mjx-merror" not in theory
    assert "data-mjx-error" not in theory
    found = seen(f"{address}search.html?q=sensitivity")
    assert len(re.findall(r'<li class="kind-', found)) > 3
    wide = {name: overflow(address, f"{name}.html", 390, dark=True) for name in NARROW}
    assert {name: by for name, by in wide.items() if by > 1} == {}
    assert overflow(address, "_static/kept/release.html", 390) <= 1


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_twin_a_wide_page_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, index='<!DOCTYPE html><html><div style="width: 3000px">wide</div></html>')
    with served(tmp_path) as address:
        assert overflow(address, "index.html", 390) > 1000
