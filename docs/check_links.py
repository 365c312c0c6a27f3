"""Walk the built site: every link and picture inside it leads somewhere, and every page is reached.

python docs/check_links.py build/site
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

UNLINKED = {"genindex.html", "py-modindex.html", "search.html", "404.html"}


class Page(HTMLParser):
    """The links, pictures and anchors of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag refers to, and what refers to it."""
        for name, value in attrs:
            if value is not None and ((tag in ("a", "link") and name == "href") or (name == "src")):
                self.links.append(value)
            if value is not None and (name == "id" or (tag == "a" and name == "name")):
                self.anchors.add(value)


def broken(site: Path) -> list[str]:
    """Return what is wrong with a site, one line each."""
    pages = {p.resolve(): Page(p) for p in sorted(site.rglob("*.html")) if "_static" not in p.parts}
    found, reached = [], {(site / "index.html").resolve()}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            where = f"{path.relative_to(site.resolve())}: {link}"
            if not target.exists():
                found.append(f"{where}: no such file")
            elif target in pages:
                if unquote(parts.fragment) not in pages[target].anchors:
                    found.append(f"{where}: no such place on the page")
                if target != path:
                    reached.add(target)
    lost = [p for p in pages if p not in reached and p.name not in UNLINKED]
    return found + [f"{path.relative_to(site.resolve())}: no page links to it" for path in lost]


def main() -> None:
    """Print what is broken, and end with 1 if anything is."""
    site = Path(sys.argv[1])
    if not (site / "index.html").exists():
        sys.exit(f"{site} holds no site: `make docs` builds one")
    found = broken(site)
    print("\n".join(found) or "All links of the site lead somewhere.")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
