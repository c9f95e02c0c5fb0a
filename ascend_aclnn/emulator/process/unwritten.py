"""Outputs that CANN's kernels leave unwritten, for ``--validate=memory``: which bytes of device memory those of a launch are."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.backends.numpy import run
from ascend_aclnn.backends.numpy.placed import Memory
from ascend_aclnn.emulator.protocol import TOLD_UNWRITTEN

_mine = threading.local()  # arrays: what the references of this thread's launch have left


def wanted() -> bool:
    """Whether the program asks for it."""
    return "memory" in os.environ.get("ASCEND_EMULATOR_VALIDATE", "").split(",")


def begin() -> None:
    """From now on references say what they leave."""
    run.when_unwritten = _collect


def _collect(arrays: Sequence[Any]) -> None:
    _mine.arrays = [*getattr(_mine, "arrays", ()), *(array for array in arrays if isinstance(array, np.ndarray))]


def around(memory: Memory, bound: Callable[[], Optional[bytes]]) -> Callable[[], Optional[bytes]]:
    """A launch whose answer also names what it has left."""
    start = memory.__array_interface__["data"][0]

    def launch() -> Optional[bytes]:
        _mine.arrays = ()
        answer = bound() or b""
        for array in _mine.arrays:
            address = array.__array_interface__["data"][0]
            if array.flags.c_contiguous and start <= address < start + memory.nbytes:
                answer += struct.pack("<4q", TOLD_UNWRITTEN, 2, address - start, array.nbytes)
        return answer or None

    return launch
