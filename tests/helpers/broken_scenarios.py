"""Scenarios for the tests of ``scripts/attack``: one per way in which a turn is a finding, and one that holds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from attacks.scenario import Run, scenario


@scenario(seconds=0.1)
def holds(run: Run) -> None:
    """Nothing is wrong."""
    for _ in run.rounds():
        run.count("held")


@scenario(seconds=0.1)
def broken(run: Run) -> None:
    """Wrong, and something is left: a process, shared memory, a temporary file."""
    for choice in run.rounds():
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        Path(tempfile.gettempdir(), "left.txt").write_text("left")
        Path("/dev/shm", f"attack-left-{os.getppid()}").write_text("left")
        run.step(f"the number {choice.randrange(1000)} is drawn")
        run.expect(False, "broken on purpose")


@scenario(seconds=0.1)
def crashes(run: Run) -> None:
    """Ends as by a fault of native code."""
    for _ in run.rounds():
        os.kill(os.getpid(), signal.SIGSEGV)
