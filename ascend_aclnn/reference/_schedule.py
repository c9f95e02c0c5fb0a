"""Schedule contexts as references use them: sizes, flags, and the memory that their addresses mean.

Tokens and flags lie in windows, to which other ranks write while an operator waits.
"""

from __future__ import annotations

import math
import threading
import time
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from ascend_aclnn.collectives.interface import execute_timeout
from ascend_aclnn.core import addresses
from ascend_aclnn.core.errors import AclError
from ascend_aclnn.core.schedule import SCHEDULE_CONTEXT
from ascend_aclnn.numerics import Array
from ascend_aclnn.reference.declare import DataError

AICPU_TIMEOUT = 507017  # how a card's stream reports an operator that has waited too long
READY = 1  # a flag

_lock = threading.Lock()


class Schedule:
    """A schedule context where it lies, so that what others write to it is seen."""

    def __init__(self, context: Array, argument: str) -> None:
        if context.nbytes < SCHEDULE_CONTEXT.itemsize or not context.flags.c_contiguous:
            raise DataError(
                argument, f"has {context.nbytes} bytes; it must have {SCHEDULE_CONTEXT.itemsize}, one after another"
            )
        self._fields = context.reshape(-1)[: SCHEDULE_CONTEXT.itemsize].view(SCHEDULE_CONTEXT)
        self._argument = argument

    def __getitem__(self, name: str) -> int:
        return int(self._fields[name][0])

    def __setitem__(self, name: str, value: int) -> None:
        self._fields[name] = value

    def require(self, condition: bool, name: str, allowed: str) -> None:
        if not condition:
            raise DataError(self._argument, f"has {name} {self[name]}; it must be {allowed}")

    def positive(self, *names: str) -> list[int]:
        """Sizes, which must be above 0."""
        for name in names:
            self.require(self[name] > 0, name, "above 0")
        return [self[name] for name in names]

    def buffer(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike = np.int32, sized: bool = False) -> Any:
        """The array at an address of the context; ``sized``: its bytes, which the context states, are checked."""
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        if sized:
            self.require(self[f"{name}_size"] >= nbytes, f"{name}_size", f"at least {nbytes}")
        return self._bytes(name, nbytes).view(dtype).reshape(shape)

    def rows(self, name: str, count: int, width: int, step: int) -> Array:
        """Rows of bytes at an address of the context, each ``step`` bytes behind the last, and maybe within it."""
        memory = self._bytes(name, (count - 1) * step + width)
        return np.lib.stride_tricks.as_strided(memory, (count, width), (step, 1))

    def _bytes(self, name: str, nbytes: int) -> npt.NDArray[np.uint8]:
        """The bytes at an address of the context; no address is needed for zero bytes."""
        memory = addresses.find(self[name], nbytes) if self[name] and nbytes else None
        if memory is None and nbytes:
            text = f"has {name} {self[name]:#x}; it must be the address of {nbytes} bytes of memory of this process's device"
            raise DataError(self._argument, text)
        return np.empty(0, np.uint8) if memory is None else memory

    def wait(self, ready: Callable[[], bool]) -> bool:
        """Waits for a condition; False once the program has set run_flag to 0."""
        return wait(lambda: self["run_flag"] == 0 or ready(), self._argument) and self["run_flag"] != 0


def wait(ready: Callable[[], bool], what: str) -> bool:
    """Polls a condition that other ranks fulfil; AclError 507017 after HCCL_EXEC_TIMEOUT."""
    seconds = execute_timeout()
    deadline, pause = time.monotonic() + seconds, 1e-5
    while not ready():
        if time.monotonic() > deadline:
            detail = f"{what}: what is waited for did not come in {seconds:g} s"
            raise AclError(AICPU_TIMEOUT, "aclrtSynchronizeStream", detail)
        time.sleep(pause)
        pause = min(pause * 1.5, 1e-3)
    fence()
    return True


def fence() -> None:
    """Orders memory between tokens and flags, on processors too that reorder reads or writes (Arm).

    What lies before one release of a lock comes before what lies behind the next acquisition.
    """
    for _ in range(2):
        with _lock:
            pass
