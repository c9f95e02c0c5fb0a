"""How often threads of a program and of its device process went to sleep: voluntary context switches, one for each wake-up."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from pathlib import Path

POLLING = ("release_thread", "hccl_watchdog_t")  # torch_npu's threads that sleep and look again all the time


def switches(process: int) -> int:
    """Of all threads of a process so far, but for those that poll; a thread that has ended takes its own along."""
    count = 0
    for path in Path(f"/proc/{process}/task").glob("*/status"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            status = path.read_text(encoding="utf-8")
            name, number = (
                re.findall(rf"^{key}:\s*(.*)", status, re.M)[0] for key in ("Name", "voluntary_ctxt_switches")
            )
            count += int(number) if name not in POLLING else 0
    return count


def device_process(device: int = 0) -> int:
    """The process of one of this process's devices; 0 where it does not run."""
    return int(ctypes.CDLL("libascendcl.so").aclemuDevicePid(device))


def switches_of_both(device: int = 0) -> tuple[int, int]:
    """Of this process and of its device process."""
    process = device_process(device)
    return switches(os.getpid()), switches(process) if process else 0
