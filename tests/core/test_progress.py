"""The line about work that takes long."""

from __future__ import annotations

import io
import re
import threading

import pytest

from ascend_aclnn.core import progress


class Terminal(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        count = super().write(text)
        self.written.set()
        return count


def test_a_terminal_shows_what_is_done_and_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    terminal = Terminal()
    with progress.Progress("compiling", 7, terminal) as line:
        line.step()
        assert terminal.written.wait(60)
    text = terminal.getvalue()
    assert re.search(r"ascend-aclnn: compiling: [01] of 7, \d+ s", text)
    assert text.endswith("\r\x1b[K")  # taken away


def test_what_is_quick_or_no_terminal_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 600.0)  # on a busy machine nothing is quick
    terminal = Terminal()
    with progress.Progress("compiling", 7, terminal):
        pass
    file = io.StringIO()
    with progress.Progress("compiling", stream=file):
        pass
    assert terminal.getvalue() == file.getvalue() == ""
