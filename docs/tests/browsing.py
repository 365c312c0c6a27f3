"""A headless browser on a folder of pages: what a reader would see of all that links lead to."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
NEEDED = f"install one of {', '.join(NAMES)} (on Debian: apt-get install chromium)"
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
# Commands come in by file 3 and answers go out by file 4.
BEGIN = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)
SECONDS = 900  # for one walk
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
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


class Browser:
    """A browser without a window, led over two pipes (the DevTools protocol, JSON and a zero)."""

    def __init__(self, *, dark: bool) -> None:
        assert CHROMIUM is not None, f"the site is looked at in a browser: {NEEDED}"
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        own = (f"--user-data-dir={self._profile.name}", "--remote-debugging-pipe")
        # Both pipes above the two numbers that the browser wants them to have.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", BEGIN, *map(str, ends), CHROMIUM, *FLAGS, *own],
            pass_fds=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (theirs_in, theirs_out, *ends):
            os.close(end)
        self._out, self._in, self._told, self._rest = ours_out, ours_in, 0, b""
        self._session: dict[str, str] = {}
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        begun = self.tell("Target.attachToTarget", targetId=target, flatten=True)
        self._session = {"sessionId": begun["sessionId"]}
        self.tell("Page.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", features=[scheme])

    def tell(self, method: str, **params: Any) -> Any:
        """Send a command and return its answer."""
        self._told += 1
        told = {"id": self._told, "method": method, "params": params} | self._session
        os.write(self._out, json.dumps(told).encode() + b"\0")
        answer = self._wait(lambda message: message.get("id") == self._told)
        assert "error" not in answer, answer
        return answer["result"]

    def _wait(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + SECONDS
        while True:
            message, found, rest = self._rest.partition(b"\0")
            if found:
                self._rest = rest
                read: dict[str, Any] = json.loads(message)
                if wanted(read):
                    return read
                continue
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"the browser said nothing for {SECONDS} seconds"
            more = os.read(self._in, 1 << 16)
            assert more, "the browser ended"
            self._rest += more

    def run(self, page: str, script: str) -> Any:
        """Open a page, and return what an expression, or its promise, comes to there."""
        self.tell("Page.navigate", url=page)
        self._wait(lambda message: message.get("method") == "Page.loadEventFired")
        asked = {"expression": script, "awaitPromise": True, "returnByValue": True}
        answer = self.tell("Runtime.evaluate", **asked)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self._session = {}
        with suppress(OSError, AssertionError):
            self.tell("Browser.close")
        for end in (self._out, self._in):
            os.close(end)
        self._process.terminate()
        self._process.wait()
        self._profile.cleanup()


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
    with served(folder) as address, Browser(dark=dark) as browser:
        words = ", ".join(map(json.dumps, (f"{address}{start}", width, on)))
        found = browser.run(f"{address}_walk", f"walk({words})")
    assert isinstance(found, dict), found
    return found


if __name__ == "__main__":  # before a long build
    sys.exit(None if CHROMIUM else f"the site is looked at in a browser: {NEEDED}")
