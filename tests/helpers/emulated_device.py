"""The emulated device's own functions, as tests of the npu backend use them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from process_tools import state, wait_until


class Emulator:
    """The emulator's own functions: failing on demand, counting what is alive."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.library.aclemuFailAt.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int32]
        self.library.aclemuFailedCall.restype = ctypes.c_char_p
        self.library.aclemuCallCount.restype = ctypes.c_uint64
        self.library.aclemuFastRuns.restype = ctypes.c_uint64
        self.library.aclemuLiveCount.argtypes = [ctypes.c_char_p]
        self.library.aclemuLiveCount.restype = ctypes.c_uint64

    def fail(self, nth: int, name: str = "", status: int = 507899) -> None:
        self.library.aclemuFailAt(name.encode() or None, nth, status)

    def failed(self) -> str:
        return (self.library.aclemuFailedCall() or b"").decode()

    def reset(self) -> None:
        self.library.aclemuReset()

    def calls(self) -> int:
        return int(self.library.aclemuCallCount())

    def fast_runs(self) -> int:
        return int(self.library.aclemuFastRuns())

    def alive(self, kind: str) -> int:
        return int(self.library.aclemuLiveCount(kind.encode()))

    @contextlib.contextmanager
    def stopped(self, device: int = 0) -> Iterator[None]:
        """What is launched meanwhile does not run: the device's process, which must exist, has stopped."""
        pid = int(self.library.aclemuDevicePid(device))
        assert pid > 0
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_until(lambda: state(pid) == "T", "the device process does not stop")
            yield
        finally:
            os.kill(pid, signal.SIGCONT)
