"""References of kernels that clients launch as binaries, by the kernel's name.

    @kernel("void scale_rows(GM_ADDR x, GM_ADDR y, uint32_t rows, uint32_t columns, float scale)")
    def scale_rows(x: Pointer, y: Pointer, rows: int, columns: int, scale: float) -> None:
        y.array((rows, columns), np.float16)[...] = x.array((rows, columns), np.float16) * scale

On a card such a kernel runs; the emulated device calls the function in its place, in the order of the stream. A module with such
functions is named by ``ascend-aclnn emulator run --operators``. ``run`` calls one on arrays, for its tests.

How many bytes a kernel reads and writes at its pointers can be declared, from the numbers among its arguments. Then
``emulator run --validate`` compares its launches with others, and the function is held to it:

    @kernel("void add_one(GM_ADDR x, GM_ADDR y, uint32_t count)",
            reads=lambda x, y, count: {"x": 2 * count}, writes=lambda x, y, count: {"y": 2 * count})

None stands for a size that depends on data: nothing is compared at that pointer.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core import addresses
from ascend_aclnn.core.errors import DataError

_POINTER = "Q"
# The letter of struct for a C type.
_LETTERS = {
    "bool": "?",
    "int8_t": "b",
    "uint8_t": "B",
    "int16_t": "h",
    "uint16_t": "H",
    "int32_t": "i",
    "int": "i",
    "uint32_t": "I",
    "int64_t": "q",
    "uint64_t": "Q",
    "float": "f",
    "double": "d",
}


# A function of a launch's arguments: how many bytes at each of some pointers, by the prototype's names; None: it depends on data.
Sizes = Callable[..., Mapping[str, Optional[int]]]


class Pointer:
    """An address that a kernel gets. A null pointer is false.

    ``reads`` and ``writes`` are the bytes that the kernel reads and writes there by its declaration; both None without one.
    ``watched`` may be a list: each writable array that is taken is appended to it, with a copy of its contents.
    """

    def __init__(self, address: int, name: str, memory: Optional[addresses.Bytes] = None) -> None:
        """``memory``: the bytes at the address, if they belong to an array on the host."""
        self.address = address
        self.name = name
        self.memory = memory
        self.reads: Optional[int] = None
        self.writes: Optional[int] = None
        self.watched: Optional[list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]] = None

    def __bool__(self) -> bool:
        return self.address != 0

    def array(self, shape: Union[int, Sequence[int]], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """The elements at the address, in C order: what is assigned to them is written. DataError where there is no memory.

        If the kernel declares what it accesses: DataError for more than that, and an array that it only reads is read-only.
        """
        lengths = (shape,) if isinstance(shape, int) else tuple(map(int, shape))
        size = int(np.prod(lengths, dtype=np.int64)) * np.dtype(dtype).itemsize
        if size <= 0:
            return np.empty(lengths, dtype)
        memory = addresses.find(self.address, size) if self.memory is None else self.memory[:size]
        if memory is None or memory.size < size:
            raise DataError(
                self.name, f"is {self.address:#x}; {size} bytes are read or written there, and memory ends before"
            )
        elements = memory.view(dtype).reshape(lengths)
        if self.reads is not None and self.writes is not None:
            if size > max(self.reads, self.writes):
                declared = f"the kernel's declaration says {self.reads} read and {self.writes} written"
                raise DataError(self.name, f"has {size} bytes read or written; {declared}")
            elements.flags.writeable = self.writes > 0
        if self.watched is not None and elements.flags.writeable:
            self.watched.append((elements, elements.copy()))
        return elements


class Parameter(NamedTuple):
    name: str
    letter: str
    offset: int  # in the launch's arguments
    is_pointer: bool


class Kernel(NamedTuple):
    name: str
    parameters: tuple[Parameter, ...]
    size: int  # of the arguments, in bytes; compilers append more
    function: Callable[..., None]
    reads: Optional[Sizes] = None
    writes: Optional[Sizes] = None

    def read(self, arguments: bytes) -> list[Any]:
        """The values of a launch's arguments: Pointers, with what is declared of them, and numbers.

        DataError where they are too short, or what is declared is no count of bytes at a pointer.
        """
        if len(arguments) < self.size:
            raise DataError("arguments", f"have {len(arguments)} bytes; the registered prototype needs {self.size}")
        values = []
        for name, letter, offset, is_pointer in self.parameters:
            (value,) = struct.unpack_from(f"<{letter}", arguments, offset)
            values.append(Pointer(value, name) if is_pointer else value)
        if self.reads is not None and self.writes is not None:
            pointers = {value.name: value for value in values if isinstance(value, Pointer)}
            reads, writes = self.reads(*values), self.writes(*values)
            for name, size in (*reads.items(), *writes.items()):
                if name not in pointers or (size is not None and size < 0):
                    raise DataError(
                        name, f"is declared with {size} bytes; pointers of the prototype are {', '.join(pointers)}"
                    )
            for name, pointer in pointers.items():
                sizes = reads.get(name, 0), writes.get(name, 0)
                if None not in sizes:
                    pointer.reads, pointer.writes = sizes
        return values


KERNELS: dict[str, Kernel] = {}


def kernel(
    *prototypes: str, reads: Optional[Sizes] = None, writes: Optional[Sizes] = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers a function as what kernels with these C prototypes compute.

    It takes a Pointer for each pointer (``GM_ADDR`` or ``*``) and a number for each scalar, in C order, and writes its results
    through the pointers. DataError means bad arguments: the stream gets an error. Arguments lie as launchers lay them out, at
    multiples of their sizes and of 4. ValueError for a prototype that cannot be read.

    ``reads`` and ``writes``, both or neither: functions of the same arguments, to the bytes that are read and written at the
    pointers; None where that depends on data. They are called when a launch is queued, before earlier work has run, so they may
    use numbers alone.
    """
    if (reads is None) != (writes is None):
        raise ValueError("kernel: reads and writes are declared together")
    declared = [_parse(prototype) for prototype in prototypes]

    def register(function: Callable[..., None]) -> Callable[..., None]:
        for name, parameters, size in declared:
            KERNELS[name] = Kernel(name, parameters, size, function, reads, writes)
        return function

    return register


def find(name: str) -> Optional[Kernel]:
    """The kernel registered by a name, None where there is none."""
    return KERNELS.get(name)


def run(name: str, *arguments: Any) -> None:
    """Runs a kernel on the host, for tests: contiguous arrays or None stand for pointers, numbers for scalars, in C order.

    Scalars become what the launch's bytes say, as on a device. KeyError for a kernel that is not registered, ValueError where the
    arguments are not what its prototype says.
    """
    entry = KERNELS[name]
    packed, arrays = bytearray(entry.size), {}
    for (parameter, letter, offset, is_pointer), value in zip(entry.parameters, arguments):
        if is_pointer and value is not None:
            if not value.flags.c_contiguous:
                raise ValueError(f"kernel {name}: {parameter} is not contiguous")
            arrays[parameter] = value.reshape(-1).view(np.uint8)
            value = value.ctypes.data
        struct.pack_into(f"<{letter}", packed, offset, 0 if is_pointer and value is None else value)
    if len(arguments) != len(entry.parameters):
        raise ValueError(f"kernel {name}: {len(arguments)} arguments; the prototype has {len(entry.parameters)}")
    values = entry.read(bytes(packed))
    for value in values:
        if isinstance(value, Pointer) and value:
            value.memory = arrays[value.name]
    entry.function(*values)


def _parse(prototype: str) -> tuple[str, tuple[Parameter, ...], int]:
    match = re.fullmatch(r'\s*(?:extern\s+"C"\s+)?(?:\w+\s+)*?void\s+(\w+)\s*\((.*)\)\s*;?\s*', prototype, re.S)
    if match is None:
        raise ValueError(f"kernel: {prototype!r} is no prototype of the form  void name(GM_ADDR x, uint32_t count)")
    parameters, end = [], 0
    for declaration in filter(None, map(str.strip, match[2].split(","))):
        words = re.fullmatch(r"(.*?)(\w+)", declaration, re.S)
        type_name = "" if words is None else words[1].strip()
        is_pointer = "*" in type_name or type_name == "GM_ADDR"
        letter = _POINTER if is_pointer else _LETTERS.get(type_name.removeprefix("const "))
        if words is None or letter is None:
            raise ValueError(f"kernel {match[1]}: {declaration!r}; types are GM_ADDR, T * and {', '.join(_LETTERS)}")
        size = struct.calcsize(f"<{letter}")
        step = max(size, 4)
        offset = -(-end // step) * step
        parameters.append(Parameter(words[2], letter, offset, is_pointer))
        end = offset + size
    return match[1], tuple(parameters), end


__all__ = ["DataError", "Kernel", "Pointer", "find", "kernel", "run"]
