"""Pages that live elsewhere: THEORY.md and its like at the root, and pages that scripts write.

Files keep their paths and their links, which work where the repository is read. Here links are
turned into those of the site, and pages that scripts write get an example from `tried/`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
PAGES = {
    "theory": "THEORY.md",
    "security": "SECURITY.md",
    "changes": "CHANGELOG.md",
    "contributors/architecture": "ARCHITECTURE.md",
    "contributors/contributing": "CONTRIBUTING.md",
}
HOME = "https://github.com/dpsubset/dpsubset/blob/main/"
WHERE = {name: page for page, name in PAGES.items()} | {"README.md": "index"}


def linked(text: str, folder: str, page: str) -> str:
    """Return a text whose links to files of the repository are links of the site."""
    depth = "../" * page.count("/")

    def replaced(found: re.Match[str]) -> str:
        target, mark = found[1], found[2] or ""
        path = (ROOT / folder / target).resolve()
        if not path.is_relative_to(ROOT) or not path.exists():
            return found[0]
        name = path.relative_to(ROOT).as_posix()
        if name in WHERE:
            return f"]({depth}{WHERE[name]}.md{mark})"
        if name.startswith("docs/"):
            return f"]({depth}{name.removeprefix('docs/')}{mark})"
        return f"]({HOME}{name}{mark})"

    return re.sub(r"\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)", replaced, text)


def read(app: Sphinx, page: str, source: list[str]) -> None:
    """Fill in a page when its source is read."""
    if page in PAGES:
        file = ROOT / PAGES[page]
        source[0] = linked(file.read_text(encoding="utf-8"), ".", page)
        app.env.note_dependency(str(file))
    elif (app.srcdir / f"{page}.md").exists() and "/" not in page:
        source[0] = linked(source[0], "docs", page)
    tried = app.srcdir / "tried" / f"{page.replace('/', '-')}.md"
    if tried.exists():
        source[0] += "\n\n## Try it\n\n" + tried.read_text(encoding="utf-8")
        app.env.note_dependency(str(tried))


def setup(app: Sphinx) -> dict[str, Any]:
    """Listen to pages that are read."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
