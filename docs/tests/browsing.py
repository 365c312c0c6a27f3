"""A headless browser on a folder of pages: what a reader would see of all that links lead to."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=3000000",  # timers run as soon as nothing else does
)
WALKER = Path(__file__).with_name("walker.js")
PAGE = '<!DOCTYPE html><html><body><script src="/_walker.js"></script></body></html>'


class _Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        here = self.path.partition("?")[0]
        own = {
            "/_walk": (PAGE, "text/html"),
            "/_walker.js": (WALKER.read_text(), "text/javascript"),
        }
        if here not in own:
            super().do_GET()
            return
        text, kind = own[here]
        content = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder and give its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def walked(
    folder: Path,
    width: int = 1280,
    *,
    dark: bool = False,
    start: str = "index.html",
    on: bool = True,
) -> dict[str, Any]:
    """Walk a folder of pages and return, page by page, what is seen, and all faults.

    Without `on` links are looked at, and not followed.
    """
    assert CHROMIUM is not None, f"the site is looked at in a browser: install one of {NAMES}"
    colours = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    with served(folder) as address, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        asked = {"start": start, "width": width} | ({"follow": 1} if on else {})
        page = f"{address}_walk?{urlencode(asked)}"
        done = subprocess.run(
            [CHROMIUM, *FLAGS, colours, f"--user-data-dir={home}", "--dump-dom", page],
            capture_output=True,
            text=True,
            timeout=900,
            check=True,
        )
    found = re.search(r'<script type="application/json" id="found">(.*?)</script>', done.stdout)
    assert found, "the walk did not come to its end"
    told: dict[str, Any] = json.loads(found[1])
    return told
