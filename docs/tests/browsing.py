"""A headless browser on a folder of pages: what a reader would see of all that links lead to."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
DRIVER = shutil.which("chromedriver")
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
    """A browser without a window, led by its driver (WebDriver, JSON over HTTP)."""

    def __init__(self, *, dark: bool) -> None:
        needed = f"chromedriver and one of {', '.join(NAMES)}"
        assert CHROMIUM is not None, f"the site is looked at in a browser: install {needed}"
        assert DRIVER is not None, f"the browser needs its driver: install {needed}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._driver = subprocess.Popen(
            [DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._address = f"http://127.0.0.1:{port}"
        self._wait()
        options = {"goog:chromeOptions": {"binary": CHROMIUM, "args": list(FLAGS)}}
        begun = self._tell("/session", {"capabilities": {"alwaysMatch": options}})
        self._address += f"/session/{begun['sessionId']}"
        self._tell("/timeouts", {"script": 1000 * SECONDS})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        told = {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [scheme]}}
        self._tell("/goog/cdp/execute", told)

    def _wait(self) -> None:
        for _ in range(600):
            with suppress(OSError), urlopen(f"{self._address}/status", timeout=5):
                return
            time.sleep(0.1)
        raise AssertionError("chromedriver did not begin")

    def _tell(self, path: str, content: dict[str, Any], method: str = "POST") -> Any:
        asked = Request(self._address + path, json.dumps(content).encode(), method=method)
        with urlopen(asked, timeout=SECONDS + 60) as answer:
            return json.load(answer)["value"]

    def run(self, page: str, script: str, *given: Any) -> Any:
        """Open a page, run a script there, and return what it tells its last argument."""
        self._tell("/url", {"url": page})
        return self._tell("/execute/async", {"script": script, "args": list(given)})

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):
            self._tell("", {}, method="DELETE")
        self._driver.terminate()
        self._driver.wait()


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
    script = (
        "walk(...[...arguments].slice(0, 3)).then(arguments[3], (e) => arguments[3](String(e)))"
    )
    with served(folder) as address, Browser(dark=dark) as browser:
        found = browser.run(f"{address}_walk", script, f"{address}{start}", width, on)
    assert isinstance(found, dict), found
    return found
