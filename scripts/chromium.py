"""Chromium without a window, and a server on the loopback for the pages that it opens."""

from __future__ import annotations

import contextlib
import http.server
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, Callable, Optional

MISSING = "no Chromium here (Debian: apt install chromium fonts-noto-cjk)"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars")  # fmt: skip


def find() -> Optional[str]:
    """The browser's command; None if there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the files of a directory; subclasses add pages and take what pages send."""

    def reply(self, body: bytes, kind: str) -> None:
        """Answers with a body of a media type."""
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def posted(self) -> bytes:
        """What a page has sent."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
        return body

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def served(handler: Callable[..., Handler]) -> Iterator[str]:
    """Serves by a handler; the address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def opened(browser: str, address: str) -> Iterator[None]:
    """Keeps a page open in a browser with a profile of its own."""
    with tempfile.TemporaryDirectory(prefix="ascend-aclnn-chromium-", ignore_cleanup_errors=True) as profile:
        command = [browser, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0", address]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                yield
            finally:
                process.terminate()
