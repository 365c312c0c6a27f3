"""A headless browser on a folder of pages: what a reader would see, as the text of the page."""

from __future__ import annotations

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

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=9000",
)
# A window is never narrower than 500 pixels; a frame in it is as narrow as a phone. How wide its
# page is, and how wide the frame, is written where it can be read off.
FRAME = """<!DOCTYPE html><html><body><iframe id="phone" width="{width}" height="800" src="/{page}">
</iframe><script>setTimeout(() => {{
  const page = document.getElementById("phone").contentDocument.documentElement;
  document.documentElement.setAttribute("data-wide", page.scrollWidth + "/" + page.clientWidth);
}}, 6000);</script></body></html>"""


class _Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        framed = re.fullmatch(r"/_frame/(\d+)/(.*)", self.path)
        if framed is None:
            super().do_GET()
            return
        content = FRAME.format(width=framed[1], page=framed[2]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
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


def seen(address: str, *, dark: bool = False) -> str:
    """Return the page as the browser has it after its scripts ran."""
    assert CHROMIUM is not None
    colours = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        done = subprocess.run(
            [CHROMIUM, *FLAGS, colours, f"--user-data-dir={profile}", "--dump-dom", address],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    return done.stdout


def overflow(address: str, page: str, width: int, *, dark: bool = False) -> int:
    """Return by how many pixels a page is wider than a frame of some width."""
    told = seen(f"{address}_frame/{width}/{page}", dark=dark)
    found = re.search(r'data-wide="(\d+)/(\d+)"', told)
    assert found, "the page was not measured"
    assert width - 20 <= int(found[2]) <= width  # less a scroll bar
    return int(found[1]) - int(found[2])
