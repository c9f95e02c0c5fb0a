"""Processes as the system sees them: whether one runs, ending one, waiting for a condition."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Callable

DEADLINE = 300  # seconds, on a machine as busy as may be
SHARED_MEMORY = Path("/dev/shm")


def state(pid: int) -> str:
    """The letter of a process's state, "X" when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    return state(pid) not in ("Z", "X")


def open_files(pid: int) -> list[str]:
    """What the descriptors of a process lead to; some may be closed meanwhile."""
    links = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(descriptor))
    return links


def shared_files(pid: int) -> set[Path]:
    """The files of shared memory that a process has mapped and that still have a name. Other programs' come and go."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {path for line in lines if (path := Path(line.split(maxsplit=5)[-1])).parent == SHARED_MEMORY}


def kill(pid: int) -> None:
    """Until it has no thread and no socket any more; it is a zombie when the first thread has ended."""

    def has_threads() -> bool:
        with contextlib.suppress(OSError):
            return len(os.listdir(f"/proc/{pid}/task")) > 1 or alive(pid)
        return False

    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not has_threads(), "the device process does not end")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.005)
