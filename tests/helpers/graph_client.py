"""What test bodies use that capture and run graphs on the emulated CANN."""

from __future__ import annotations

import ctypes
from typing import Optional

import numpy as np
from emulator_client import Cann

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
NONE, ACTIVE, INVALID = 0, 1, 2
SYNC, EXTERNAL = 1, 32


class Multiply:
    """out = x * y, by aclnnMul on a stream; its workspaces live until ``free``."""

    def __init__(self, cann: Cann, *numbers: float) -> None:
        self.cann = cann
        self.x, self.y, self.out = (cann.tensor(np.full(4, number, np.float32)) for number in (*numbers, 0))
        self.workspaces: list[int] = []

    def __call__(self, stream: Optional[int]) -> None:
        executor, size = self.cann.prepare("aclnnMul", self.x, self.y, self.out)
        self.workspaces.append(self.cann.malloc(max(size, 1)))
        self.cann.aclnnMul(self.workspaces[-1], size, executor, stream)

    def result(self) -> float:
        values = set(self.cann.read(self.out).tolist())
        assert len(values) == 1, values
        return float(values.pop())

    def free(self) -> None:
        for address in self.workspaces:
            self.cann.aclrtFree(address)


def captured(cann: Cann, stream: int) -> tuple[int, Optional[int]]:
    """The state of a stream's capture, and its model."""
    status, model = ctypes.c_int32(9), ctypes.c_void_p()
    cann.aclmdlRICaptureGetInfo(stream, ctypes.byref(status), ctypes.byref(model))
    return status.value, model.value


def end(cann: Cann, stream: int) -> int:
    model = ctypes.c_void_p()
    cann.aclmdlRICaptureEnd(stream, ctypes.byref(model))
    assert model.value is not None
    return model.value


def create_event(cann: Cann, flag: int = SYNC) -> int:
    return cann.create("aclrtCreateEventExWithFlag" if flag == SYNC else "aclrtCreateEventWithFlag", flag)
