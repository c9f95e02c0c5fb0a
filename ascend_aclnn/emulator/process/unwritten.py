"""For ``--validate=memory``: outputs that CANN's kernels leave unwritten, and where unwritten bytes are moved to."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, Optional

import numpy as np

from ascend_aclnn.backends.numpy import NumpyBackend, run
from ascend_aclnn.backends.numpy.placed import Memory
from ascend_aclnn.emulator.process.plans import Plan
from ascend_aclnn.emulator.protocol import TOLD_UNWRITTEN

_MARK = 0x41  # in each byte of an element: a number that no cast to another data type makes 0
_ALIGNMENT = 32

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


Range = tuple[int, int, int]  # of a tensor by its number: the first byte, and how many


def moved(plan: Plan, backend: NumpyBackend, ranges: Sequence[Range]) -> list[Range]:
    """Where bytes of the inputs get to in a plan that only moves elements.

    It runs on memory of its own, which holds marks there and zeros everywhere else.
    """
    offsets, end = [], 0
    for planned in plan.tensors:
        offsets.append(end)
        end += 0 if planned is None else -(-planned.extent // _ALIGNMENT) * _ALIGNMENT
    memory = np.zeros(end, np.uint8)
    for tensor, start, count in ranges:
        memory[offsets[tensor] + start : offsets[tensor] + start + count] = _MARK
    plan.bind(backend, memory, struct.pack(f"<{len(offsets)}q", *offsets))()
    result: list[Range] = []
    for number, (planned, offset) in enumerate(zip(plan.tensors, offsets)):
        if planned is None:
            continue
        size = max(1, planned.spec.dtype.bits // 8)
        part = memory[offset : offset + planned.extent]
        marked = part[: len(part) // size * size].reshape(-1, size).any(axis=1)
        edges = np.flatnonzero(np.diff(marked, prepend=False, append=False)).reshape(-1, 2) * size
        result += [(number, int(first), int(last - first)) for first, last in edges]
    return result
