"""Calls of aclnn operators through the compiled helper: new addresses for aclTensors and both phases in one native call.

The structures are those of csrc/call.c.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, Optional

# What a call has done: everything, everything but phase two, or all before the step that failed.
LAUNCHED, PREPARED, NOT_INITIALIZED, NO_ADDRESS, NO_EXECUTOR, NOT_LAUNCHED = range(6)

INTEGERS, FLOATS = 56, 8  # arguments of phase one that the helper can pass, its two results among the integers

_FLOATING = (ctypes.c_float, ctypes.c_double)


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("tensor", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("rank", ctypes.c_uint64),
        ("type", ctypes.c_int32),
        ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
        ("format", ctypes.c_int32),
        ("storage_shape", ctypes.c_void_p),
        ("storage_rank", ctypes.c_uint64),
        ("address", ctypes.c_void_p),
    ]


class _Call(ctypes.Structure):
    _fields_ = [
        ("initialize", ctypes.c_void_p),
        ("set_address", ctypes.c_void_p),
        ("phase_one", ctypes.c_void_p),
        ("phase_two", ctypes.c_void_p),
        ("integers", ctypes.c_uint64 * INTEGERS),
        ("floats", ctypes.c_uint64 * FLOATS),
        ("tensors", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("workspace_size", ctypes.c_uint64),
        ("executor", ctypes.c_void_p),
        ("status", ctypes.c_int32),
    ]


def can_call(phase_one: Any) -> bool:
    """Whether the helper can pass as many arguments as a phase one takes."""
    floats = sum(kind in _FLOATING for kind in phase_one.argtypes)
    return floats <= FLOATS and len(phase_one.argtypes) - floats <= INTEGERS


class NativeCall:
    """A call as the helper makes it, once or more often, with the arguments ``values`` and other addresses each time.

    ``initialize`` (None: the operator leaves descriptions alone), ``set_address``, ``phase_one`` and ``phase_two`` are functions
    of ctypes with their prototypes. ``tensors`` has the aclTensors among the values, ``descriptions`` what aclInitTensor takes
    between aclTensor and address. All that these point to must live as long as this.
    """

    __slots__ = ("_at", "_function", "_lives", "_pack", "_record")

    def __init__(
        self,
        function: Any,
        initialize: Optional[Any],
        set_address: Any,
        phase_one: Any,
        phase_two: Any,
        values: Sequence[Any],
        tensors: Sequence[int],
        descriptions: Sequence[tuple[int, ...]],
    ) -> None:
        self._function = function
        record = self._record = _Call()
        items = (_Tensor * len(tensors))(*(_Tensor(t, *rest, None) for t, rest in zip(tensors, descriptions)))
        functions = (initialize, set_address, phase_one, phase_two)
        self._lives = [items, *functions, *values]
        record.initialize, record.set_address, record.phase_one, record.phase_two = map(_address, functions)
        record.tensors, record.count = ctypes.addressof(items), len(tensors)
        at = self._at = ctypes.addressof(record)
        results = (at + _Call.workspace_size.offset, at + _Call.executor.offset)
        integers: list[int] = []
        floats: list[int] = []
        for kind, value in zip(phase_one.argtypes, (*values, *results)):
            (floats if kind in _FLOATING else integers).append(_bits(kind, value))
        record.integers[: len(integers)] = integers
        record.floats[: len(floats)] = floats
        self._pack = struct.Struct(f"{len(tensors)}Q").pack

    def call(self, addresses: Sequence[int], stream: int, at_once: bool) -> int:
        """What was done; ``status``, ``workspace_size`` and ``executor`` say more. Phase two is left out without ``at_once``."""
        done: int = self._function(self._at, self._pack(*addresses), stream, at_once)
        return done

    @property
    def status(self) -> int:
        return int(self._record.status)

    @property
    def workspace_size(self) -> int:
        return int(self._record.workspace_size)

    @property
    def executor(self) -> int:
        return self._record.executor or 0


def _address(function: Any) -> Optional[int]:
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value


def _bits(kind: Any, value: Any) -> int:
    """An argument as a register holds it: a float in the lower half, an integer extended by its sign."""
    if kind in _FLOATING:
        return int.from_bytes(bytes(kind(value)), "little")
    if kind is ctypes.c_char_p:
        return ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p).value or 0
    return int(kind(value).value or 0) & (2**64 - 1)


__all__ = [
    "LAUNCHED",
    "NOT_INITIALIZED",
    "NOT_LAUNCHED",
    "NO_ADDRESS",
    "NO_EXECUTOR",
    "PREPARED",
    "NativeCall",
    "can_call",
]
