"""A line on a terminal about work that takes long: what is done, how far it is, for how many seconds."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Optional, TextIO

PATIENCE = 2.0  # seconds of silence before the line appears
_INTERVAL = 0.5


class Progress:
    """Shows a line on standard error from ``PATIENCE`` on, where that is a terminal, and takes it away at the end.

    ``step()`` counts towards ``total``; without a total the line shows the time only. Any thread may step.
    """

    def __init__(self, what: str, total: int = 0, stream: Optional[TextIO] = None) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._shown = False

    def step(self) -> None:
        """One part is done."""
        with self._lock:
            self.done += 1

    def __enter__(self) -> Progress:
        if self._stream is not None and self._stream.isatty():
            self._thread = threading.Thread(target=self._show, args=(time.monotonic(),), daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self, began: float) -> None:
        if self._ended.wait(PATIENCE):
            return
        while True:
            count = f" {self.done} of {self.total}," if self.total else ""
            line = f"ascend-aclnn: {self.what}:{count} {time.monotonic() - began:.0f} s"
            self._stream.write(f"\r{line}\x1b[K")
            self._stream.flush()
            if self._ended.wait(_INTERVAL):
                break
        self._stream.write("\r\x1b[K")
        self._stream.flush()
