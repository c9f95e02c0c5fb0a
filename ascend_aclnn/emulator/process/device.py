"""The device process: answers the emulated libraries' operators with the NumPy backend, on shared memory.

It is started by libascendcl (``csrc/ascendcl/core/device_connection.c``) with two descriptors: 3, the control socket, over
which connections arrive, and 4, the device memory. Each connection is a socket and a ring, and has a thread. Requests and
answers on the socket are a length, a word (the call, or the status of the answer) and a payload; launches come through the
ring (``csrc/ring/ring.h``). See ``csrc/nnopbase/executor.c`` for the payloads. The process ends when the control socket does:
with its client.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import mmap
import os
import resource
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

import numpy as np

from ascend_aclnn import catalog
from ascend_aclnn.backends.numpy import NumpyBackend, find_backend
from ascend_aclnn.backends.numpy.placed import Layout, Memory, PlacedCall, Tensors, layout_of
from ascend_aclnn.backends.numpy.storage import HostStorage
from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.core import addresses
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import FIND_KERNEL_ERROR, INNER_ERROR, OUT_OF_MEMORY, PARAM_INVALID, AclError
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import DEFAULT_SOC, Soc
from ascend_aclnn.core.socs import soc as find_soc
from ascend_aclnn.core.spec import TensorSpec, contiguous_strides
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.emulator.process import refusals
from ascend_aclnn.emulator.process.mappings import Mappings
from ascend_aclnn.emulator.protocol import Call, Descriptor, Record, Ring, Where, kinds

WORKSPACE = 32 << 10  # what phase one asks for where it asks for any
if TYPE_CHECKING:  # imported by who needs it: the process should start soon
    from ascend_aclnn.emulator.process import single_operators
    from ascend_aclnn.emulator.process.communication import Communicators
    from ascend_aclnn.emulator.process.faults import Faults

KNOWN = 1024  # accepted phase ones that are remembered
BOUND = 1 << 14  # plans on addresses that are kept ready
MAP_FIXED = 0x10


class BadArgument(ValueError):
    """An argument that no tensor or scalar can be made of."""


class NotSupported(ValueError):
    """What no operator stands for here."""


class PlannedTensor(NamedTuple):
    """A tensor argument without its address."""

    spec: TensorSpec
    extent: int  # the bytes of its allocation that it can reach
    is_within: bool  # whether it keeps to its extent, as the client's checks say
    layout: Optional[Layout]

    @classmethod
    def of(cls, spec: TensorSpec, extent: int) -> PlannedTensor:
        try:
            spec.check_within(extent)
        except ValueError:
            return cls(spec, extent, False, None)
        return cls(spec, extent, True, layout_of(spec))

    @classmethod
    def read(cls, words: Sequence[int], position: int) -> tuple[PlannedTensor, int]:
        """From the words of executor.c at a position; how many words it took beside."""
        rank, storage_rank = words[position + 4 : position + 6]
        count = 6 + 2 * rank + storage_rank
        return _described(tuple(words[position : position + count])), count


@functools.lru_cache(KNOWN)
def _described(words: tuple[int, ...]) -> PlannedTensor:
    dtype, format, offset, extent, rank, _ = words[:6]
    try:
        data_type = DataType(dtype)
    except ValueError:
        raise BadArgument(f"has data type {dtype}, which CANN does not have") from None
    try:
        known_format = Format(format)
    except ValueError:
        raise BadArgument(f"has format {format}, which CANN does not have") from None
    shape, strides = words[6 : 6 + rank], words[6 + rank : 6 + 2 * rank]
    spec = TensorSpec(shape, data_type, strides, offset, known_format, words[6 + 2 * rank :])
    return PlannedTensor.of(spec, extent)


# What a plan runs on some addresses, and what there is to say afterwards: new shapes of outputs.
Bound = Callable[[], Optional[bytes]]


class Plan:
    """Arguments that phase one has checked, ready to run on any addresses."""

    once = False  # whether it is forgotten after its launch

    def __init__(self, operator: Operator, words: Sequence[int]) -> None:
        self.operator = operator
        self.tensors: list[Optional[PlannedTensor]] = []  # None: a null pointer
        self.arguments: list[Any] = []  # of each parameter: the numbers of its tensors, or its value
        self.bound: dict[bytes, Bound] = {}
        self._words = words
        self._at = 0
        self._placed: Optional[PlacedCall] = None
        for parameter in operator.parameters:
            try:
                self.arguments.append(self._argument(parameter.kind))
            except BadArgument as error:
                raise BadArgument(f"{parameter.python_name} {error}") from None
        if self._at != len(words):
            raise RuntimeError(f"{len(words) - self._at} words too many")
        self.addresses = len(self.tensors)

    # -- reading the words of executor.c
    def _next(self) -> int:
        self._at += 1
        return self._words[self._at - 1]

    def _take(self, count: int) -> Sequence[int]:
        self._at += count
        return self._words[self._at - count : self._at]

    def _argument(self, kind: Kind) -> Any:
        if kind is Kind.TENSOR:
            return Tensors([self._tensor()], False)
        if kind is Kind.SCALAR:
            return self._scalar()
        if kind in _COUNTED:
            count = self._next()
            if count < 0:
                return None
            if kind is Kind.TENSOR_LIST:
                return Tensors([self._tensor() for _ in range(count)], True)
            if kind is Kind.SCALAR_LIST:
                return [self._scalar() for _ in range(count)]
            if kind is Kind.STRING:
                words = -(-count // 8)
                return struct.pack(f"<{words}q", *self._take(words))[:count].decode("utf-8", "replace")
            return _array(kind, self._take(count))
        return _number(kind, self._next())

    def _tensor(self) -> int:
        planned = None
        if self._next():
            planned, words = PlannedTensor.read(self._words, self._at)
            self._at += words
        self.tensors.append(planned)
        return len(self.tensors) - 1

    def _scalar(self) -> Optional[Scalar]:
        if not self._next():
            return None
        return _scalar(tuple(self._take(3)))

    # -- values
    def values(self, tensors: Sequence[Optional[TensorSpec]]) -> list[Any]:
        """One value for each parameter, as backends take them; of phase one with the specs of the tensors."""
        return [
            ([tensors[i] for i in value.numbers] if value.is_list else tensors[value.numbers[0]])
            if type(value) is Tensors
            else value
            for value in self.arguments
        ]

    def specs(self) -> list[Optional[TensorSpec]]:
        """Of the tensors, which have no memory in phase one."""
        return [None if planned is None else planned.spec for planned in self.tensors]

    def settle(self, soc: Soc) -> None:
        """Finds out, once phase one has passed, whether the plan can run without Tensors of its own."""
        within = all(planned is None or planned.is_within for planned in self.tensors)
        if within and PlacedCall.possible(self.operator, self.specs(), soc):
            layouts = [None if planned is None else planned.layout for planned in self.tensors]
            self._placed = PlacedCall(self.operator, self.arguments, layouts)

    def bind(self, backend: NumpyBackend, memory: Memory, addresses: bytes) -> Bound:
        """What runs the plan on tensors at these offsets in the device memory."""
        offsets = struct.unpack(f"<{self.addresses}q", addresses)
        if self._placed is not None:
            return self._placed.place(memory, offsets)
        tensors = self._on(backend, memory, offsets)
        call = backend.bind(self.operator, self.values(tensors))

        def run() -> bytes:
            call.run()
            return self._new_shapes(tensors)

        return run

    def _on(self, backend: NumpyBackend, memory: Memory, offsets: Sequence[int]) -> list[Optional[Tensor]]:
        return [
            None
            if planned is None
            else Tensor.on(HostStorage.over(backend, memory[offset : offset + planned.extent]), planned.spec)
            for planned, offset in zip(self.tensors, offsets)
        ]

    def _new_shapes(self, tensors: Sequence[Optional[Tensor]]) -> bytes:
        """Of outputs whose shape the data have told: number of the tensor, rank and sizes."""
        changed = b""
        for number, (tensor, planned) in enumerate(zip(tensors, self.tensors)):
            if tensor is not None and planned is not None and tensor.shape is not planned.spec.shape:
                changed += struct.pack(f"<{2 + tensor.ndim}q", self._told_as(number), tensor.ndim, *tensor.shape)
        return changed

    def _told_as(self, number: int) -> int:
        """Which tensor the client knows as this one."""
        return number


class SinglePlan(Plan):
    """The aclnn operator that stands for a single operator; it runs once."""

    once = True

    def __init__(self, call: single_operators.Call, extents: Sequence[int]) -> None:
        self.operator = call.operator
        self.tensors = []
        self.arguments = []
        self.bound = {}
        self.items: list[single_operators.Item] = []  # of each tensor
        self.addresses = len(extents)
        from ascend_aclnn.emulator.process.single_operators import Item

        for argument in call.arguments:
            if isinstance(argument, Item):
                self.arguments.append(Tensors([self._add(argument, extents)], False))
            elif isinstance(argument, list):
                self.arguments.append(Tensors([self._add(item, extents) for item in argument], True))
            else:
                self.arguments.append(argument)

    def _add(self, item: single_operators.Item, extents: Sequence[int]) -> int:
        """A tensor; its number."""
        extent = item.values.nbytes if item.values is not None else extents[item.number or 0]
        try:
            item.spec.check_within(extent)
        except ValueError as error:
            raise BadArgument(str(error)) from None
        self.items.append(item)
        self.tensors.append(PlannedTensor.of(item.spec, extent))
        return len(self.tensors) - 1

    def settle(self, soc: Soc) -> None:
        self._placed = None  # some of its tensors are in no device memory

    def _told_as(self, number: int) -> int:
        return self.items[number].number or 0

    def _on(self, backend: NumpyBackend, memory: Memory, offsets: Sequence[int]) -> list[Optional[Tensor]]:
        tensors: list[Optional[Tensor]] = []
        for item, planned in zip(self.items, self.tensors):
            if planned is None:
                raise RuntimeError("a plan of a single operator has no null pointers")
            if item.number is None and item.values is not None:
                data = np.ascontiguousarray(item.values).reshape(-1).view(np.uint8)
            else:
                offset = offsets[item.number or 0]
                data = memory[offset : offset + planned.extent]
            tensors.append(Tensor.on(HostStorage.over(backend, data), planned.spec))
        return tensors


_COUNTED = (Kind.TENSOR_LIST, Kind.SCALAR_LIST, Kind.INT_ARRAY, Kind.FLOAT_ARRAY, Kind.BOOL_ARRAY, Kind.STRING)


@functools.lru_cache(KNOWN)
def _scalar(words: tuple[int, ...]) -> Scalar:
    number, *raw = words
    dtype = DataType(number)
    if dtype.numpy is None:
        raise BadArgument(f"has data type {dtype.name}, for which the emulator has no host type")
    value = np.frombuffer(struct.pack("<2q", *raw), dtype.numpy, 1)[0]
    return Scalar(value.item(), dtype)


def _array(kind: Kind, words: Sequence[int]) -> tuple[Union[int, float, bool], ...]:
    if kind is Kind.BOOL_ARRAY:
        return tuple(map(bool, words))
    if kind is Kind.INT_ARRAY:
        return tuple(words)
    return struct.unpack(f"<{len(words)}d", struct.pack(f"<{len(words)}q", *words))


def _number(kind: Kind, word: int) -> Union[int, float, bool]:
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        number: float = struct.unpack("<d", struct.pack("<q", word))[0]
        return number
    if kind is Kind.BOOL:
        return bool(word)
    return word % (1 << 64) if kind is Kind.UINT64 else word


class RingFunctions:
    """What csrc/ring/ring.c does for the device process. Waiting lets other threads run; the rest is too short for that."""

    def __init__(self, path: str) -> None:
        self.wait = ctypes.CDLL(path).emu_ring_wait
        self.wait.argtypes = (ctypes.c_void_p, ctypes.c_uint64)
        self.wait.restype = ctypes.c_uint64
        self.done = ctypes.PyDLL(path).emu_ring_done
        self.done.argtypes = (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_bool)
        self.done.restype = None


_HEADER = struct.Struct("<Ii")


def _frame(status: int, answer: bytes) -> bytes:
    return _HEADER.pack(len(answer) + 4, status) + answer


class Device:
    """The plans, the memory and the backend that all connections share."""

    def __init__(self, backend: NumpyBackend, memory: Memory) -> None:
        self.backend = backend
        self.soc = find_soc(backend.soc)
        self._bound = 0
        self._calls = {
            Call.PREPARE: self.prepare,
            Call.LAUNCH: self.launch_alone,
            Call.DROP: self.drop,
            Call.COMMUNICATE: self.communicate,
            Call.SINGLE: self.prepare_single,
            Call.MAP: self.map,
            Call.PROFILE: self.profile,
        }
        self.run = self.launch  # or launch_timed, while it is profiled
        self._times: list[tuple[str, int, int, int]] = []
        self.memory = memory
        self.mappings = Mappings()
        self.plans: dict[int, Plan] = {}
        self._communicators: Optional[Communicators] = None
        self._communicators_lock = threading.Lock()
        self.known: dict[bytes, Plan] = {}  # by what phase one gets: what it has accepted once, it accepts again
        self.faults: Optional[Faults] = None  # that it makes on purpose

    def serve(self, connection: socket.socket, memory: mmap.mmap, ring: RingFunctions) -> None:
        """Answers the requests of one connection until it ends: the launches in its ring, in order, and calls."""
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        records = memoryview(memory)[Ring.HEAD : Ring.HEAD + Ring.RECORDS]
        words = records.cast("Q")
        size, header = Ring.RECORDS // 8, Ring.HEADER // 8
        filler, after, dropped = int(Record.FILLER), int(Record.AFTER), int(Record.DROPPED)
        at = done = 0
        failed = False  # the last launch, or it was skipped
        while True:
            sent = ring.wait(address, at)
            if sent == at and not self._answer_call(connection):
                return
            while at < sent:
                start = at % size
                count = words[start]
                at += count
                kind = words[start + 1]
                if kind == filler:
                    continue
                outcome = None
                if kind != dropped and not (failed and kind == after):
                    outcome = self.run(words[start + header], records[(start + header + 1) * 8 : (start + count) * 8])
                    failed = outcome is not None and outcome[0] != 0
                done += 1
                if outcome is None:
                    ring.done(address, done, False)
                else:
                    words[start + 1] = Record.ANSWERED
                    ring.done(address, done, True)
                    connection.sendall(_frame(*outcome))

    def _answer_call(self, connection: socket.socket) -> bool:
        """Answers the next call on a connection; False at its end."""
        header = connection.recv(_HEADER.size, socket.MSG_WAITALL)
        if not header:
            return False
        length, call = _HEADER.unpack(header)
        payload = connection.recv(length - 4, socket.MSG_WAITALL) if length > 4 else b""
        connection.sendall(_frame(*self._calls[call](payload)))
        return True

    def prepare(self, payload: bytes) -> tuple[int, bytes]:
        """Phase one: u64 plan, u32 and u32 lengths of the operator's name and kinds, words, name, kinds."""
        number, name_size, kinds_size = struct.unpack_from("<QII", payload)
        known = self.known.get(payload[8:])
        if known is not None:
            self.plans[number] = known
            return 0, _prepared(known.operator)
        tail = len(payload) - name_size - kinds_size
        name = payload[tail : tail + name_size].decode()
        try:
            operator = catalog.get(name)
        except KeyError:
            return FIND_KERNEL_ERROR, f"EMULATOR_NOT_SUPPORTED: {name}: not in this package's catalog".encode()
        if kinds(operator).encode() != payload[tail + name_size :]:
            return INNER_ERROR, f"{name}: the libraries were built from another catalog; build them again".encode()
        words = struct.unpack_from(f"<{(tail - 16) // 8}q", payload, 16)
        # The first word is the deterministic option: references always are.
        plan = self._checked(name, lambda: Plan(operator, words[1:]))
        if not isinstance(plan, Plan):
            idle = None if self.faults is None else self.faults.idle(name)
            if idle is None:
                return plan
            self.plans[number] = idle
            return 0, _prepared(operator)
        self.plans[number] = plan
        if not operator.data_dependent:  # its tensors change their shapes
            if len(self.known) >= KNOWN:
                self.known.clear()
            self.known[payload[8:]] = plan
        return 0, _prepared(operator)

    def _checked(self, name: str, make: Callable[[], Plan]) -> Union[Plan, tuple[int, bytes]]:
        """A plan that phase one accepts, or the refusal."""
        try:
            plan = make()
            values = plan.values(plan.specs())
            violation = self.backend.check(plan.operator, values)
            unsupported = self.backend.unsupported(plan.operator, values) if violation is None else None
        except NotSupported as error:
            return FIND_KERNEL_ERROR, f"EMULATOR_NOT_SUPPORTED: {name}: {error}".encode()
        except BadArgument as error:
            return PARAM_INVALID, f"{name}: {error}".encode()
        except AclError as error:
            return error.status, _text(name, error)
        except Exception:
            return INNER_ERROR, _unexpected(name)
        if violation is not None:
            own = refusals.lines(name, violation)
            return violation.status, f"{name}: {violation.detail}{'' if own is None else chr(0) + own}".encode()
        if unsupported is not None:
            return FIND_KERNEL_ERROR, f"EMULATOR_NOT_SUPPORTED: {name}: {unsupported}".encode()
        plan.settle(self.soc)
        return plan

    def prepare_single(self, payload: bytes) -> tuple[int, bytes]:
        """Phase one of a single operator: plan, type, inputs, outputs and attributes, as single_operator.c writes them."""
        from ascend_aclnn.emulator.process import single_operators

        reader = single_operators.Reader(payload)
        number, name = reader.integer() % (1 << 64), reader.text()
        extents: list[int] = []

        def items(what: str) -> list[Optional[single_operators.Item]]:
            return [_item(reader, extents, f"{what} {at}") for at in range(reader.integer())]

        def make() -> Plan:
            inputs, outputs = items("input"), [item for item in items("output") if item is not None]
            try:
                call = single_operators.translate(name, inputs, outputs, reader.attributes())
            except single_operators.NotTranslated as error:
                raise NotSupported(str(error)) from None
            return SinglePlan(call, extents)

        plan = self._checked(name, make)
        if not isinstance(plan, Plan):
            return plan
        self.plans[number] = plan
        return 0, b""

    def launch(self, number: int, addresses: memoryview) -> Optional[tuple[int, bytes]]:
        """Phase two: a plan on an offset in device memory for each tensor. An error, or new shapes of outputs, if any."""
        plan = self.plans[number]
        try:
            key = bytes(addresses[: 8 * plan.addresses])
            bound = plan.bound.get(key)
            if bound is None:
                bound = self._bind(plan, key)
            changed = bound()
        except AclError as error:
            return error.status, _text(plan.operator.name, error)
        except Exception:
            return INNER_ERROR, _unexpected(plan.operator.name)
        finally:
            if plan.once:
                del self.plans[number]
        return (0, changed) if changed else None

    def _bind(self, plan: Plan, addresses: bytes) -> Bound:
        bound = plan.bind(self.backend, self.memory, addresses)
        if self.faults is not None:
            bound = self.faults.around(plan, self.memory, addresses, bound)
        if plan.once or plan.operator.data_dependent:  # its tensors change their shapes
            return bound
        if self._bound >= BOUND:
            self._bound = 0
            for other in list(self.plans.values()):
                other.bound = {}
        self._bound += 1
        plan.bound[addresses] = bound
        return bound

    def launch_alone(self, payload: bytes) -> tuple[int, bytes]:
        """Phase two of a launch that is too long for the ring: u64 plan, addresses."""
        return self.run(int.from_bytes(payload[:8], "little"), memoryview(payload)[8:]) or (0, b"")

    def launch_timed(self, number: int, addresses: memoryview) -> Optional[tuple[int, bytes]]:
        """The same, and notes when it ran."""
        name, begin = self.plans[number].operator.name, time.monotonic_ns()
        try:
            return self.launch(number, addresses)
        finally:
            self._times.append((name, begin, time.monotonic_ns(), threading.get_native_id()))

    def profile(self, payload: bytes) -> tuple[int, bytes]:
        """Begins to note when operators run, or ends and gives the trace events, a comma behind each."""
        if any(payload):
            self._times = []
            self.run = self.launch_timed
            return 0, b""
        self.run = self.launch
        place = {"ph": "X", "pid": f"device process {os.getpid()}"}
        events = [
            {"name": name, **place, "tid": thread, "ts": begin / 1000, "dur": (end - begin) / 1000}
            for name, begin, end, thread in self._times
        ]
        self._times = []
        return 0, "".join(f"{json.dumps(event)},\n" for event in events).encode()

    def communicate(self, payload: bytes) -> tuple[int, bytes]:
        """Something about a communicator; the first request brings the module that knows of them."""
        with self._communicators_lock:
            if self._communicators is None:
                import site

                site.main()  # torch, whose gloo may be wanted, need not lie beside NumPy; the process starts without
                from ascend_aclnn.emulator.process.communication import Communicators

                self._communicators = Communicators(self.memory, self.mappings, self.soc.product)
        return self._communicators.act(payload)

    def map(self, payload: bytes) -> tuple[int, bytes]:
        """Maps a file that a process has open, or the device's own again, at an offset in the device memory."""
        offset, size, process, descriptor, start = struct.unpack("<5q", payload)
        try:
            if descriptor < 0:
                _map_at(self.memory.ctypes.data + offset, size, Descriptor.MEMORY, offset)
                self.mappings.remove(offset, size)
                return 0, b""
            opened = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
            try:
                is_own = os.path.sameopenfile(opened, Descriptor.MEMORY)
                self.mappings.add(offset, size, start if is_own else None)
                _map_at(self.memory.ctypes.data + offset, size, opened, start)
            finally:
                os.close(opened)
        except OSError as error:
            return OUT_OF_MEMORY, f"the device process cannot map it: {error}".encode()
        return 0, b""

    def drop(self, payload: bytes) -> tuple[int, bytes]:
        """Forgets plans: their numbers."""
        for (number,) in struct.iter_unpack("<Q", payload):
            self.plans.pop(number, None)
        return 0, b""


def _map_at(address: int, size: int, descriptor: int, offset: int) -> None:
    """mmap with MAP_FIXED, which Python's module does not have."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64)
    protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | MAP_FIXED
    if libc.mmap(address, size, protection, flags, descriptor, offset) != address:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _item(reader: single_operators.Reader, extents: list[int], what: str) -> Optional[single_operators.Item]:
    """An input or output of a single operator; notes the extent of one in device memory."""
    try:
        return _described_item(reader, extents)
    except ValueError as error:
        raise BadArgument(f"{what}: {error}") from None


def _described_item(reader: single_operators.Reader, extents: list[int]) -> Optional[single_operators.Item]:
    from ascend_aclnn.emulator.process.single_operators import Item

    where = reader.integer()
    if where == Where.ABSENT:
        return None
    dtype, format = reader.integer(), reader.integer()
    shape, storage_shape = tuple(reader.integers()), tuple(reader.integers())
    words = (dtype, format, 0, 0, len(shape), len(storage_shape), *shape, *contiguous_strides(shape), *storage_shape)
    spec = PlannedTensor.read(words, 0)[0].spec
    if min(shape, default=0) < 0:
        raise BadArgument(f"has shape {shape}, with an axis of negative length")
    if where == Where.DEVICE:
        extents.append(reader.integer())
        if not spec.format.private:
            spec.check_within(extents[-1])
        return Item(spec, len(extents) - 1)
    if spec.dtype.numpy is None:
        raise BadArgument(f"has data type {spec.dtype.name}, for which the emulator has no host type")
    raw = reader.raw()
    if len(raw) * 8 < spec.size * spec.dtype.bits:
        raise BadArgument(f"has shape {shape} and {len(raw)} bytes of values; {spec.dtype.name} needs more")
    return Item(spec, None, np.frombuffer(raw, spec.dtype.numpy, spec.size).reshape(shape))


def _prepared(operator: Operator) -> bytes:
    """The answer of a phase one that accepts: bytes of workspace, whether the executor can be repeated."""
    return struct.pack("<QQ", WORKSPACE if operator.needs_workspace else 0, operator.repeatable)


def _text(name: str, error: AclError) -> bytes:
    return f"{name}: {error.detail}".encode()


def _unexpected(name: str) -> bytes:
    """The message of an error in the reference itself; its trace goes to standard error."""
    traceback.print_exc()
    kind, value, _ = sys.exc_info()
    return f"{name}: {'' if kind is None else kind.__name__}: {value}".encode()


def main() -> None:
    """Serves until the client ends."""
    os.closerange(Descriptor.MEMORY + 1, 1 << 12)
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # torch's gloo may be wanted here, torch_npu is the client's
    control = socket.socket(fileno=Descriptor.CONTROL)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # as many connections as the client has streams
    try:
        backend = find_backend(os.environ.get("ASCEND_ACLNN_SOC") or DEFAULT_SOC)
        mapped = mmap.mmap(Descriptor.MEMORY, os.fstat(Descriptor.MEMORY).st_size)
        memory = np.frombuffer(mapped, np.uint8)
        device, base = Device(backend, memory), int(sys.argv[3], 16)  # where the client has mapped it
        if os.environ.get("ASCEND_EMULATOR_FAULT"):
            from ascend_aclnn.emulator.process.faults import Faults

            device.faults = Faults(os.environ["ASCEND_EMULATOR_FAULT"])

        def find(address: int, nbytes: int) -> Optional[Memory]:
            within = base <= address and address + nbytes <= base + memory.nbytes
            return memory[address - base : address - base + nbytes] if within else None

        addresses.enter(find)
        ring = RingFunctions(sys.argv[2])
        gc.freeze()  # what has been imported stays
        gc.set_threshold(20_000, 20, 100)  # plans stay, too, and are many objects
        gc.enable()
        sys.setswitchinterval(1e-3)  # a connection whose request has come in should not wait long for the others
        while True:
            data, received, _, _ = socket.recv_fds(control, 1, 16)
            if not data:
                break
            for pair in zip(received[::2], received[1::2]):
                threading.Thread(target=_serve, args=(device, ring, *pair), daemon=True).start()
    except ConnectionError:
        pass
    os._exit(0)  # the threads may be in the middle of an operator, and nobody waits for it any more


def _serve(device: Device, ring: RingFunctions, descriptor: int, memory: int) -> None:
    connection = socket.socket(fileno=descriptor)
    try:
        records = mmap.mmap(memory, Ring.HEAD + Ring.RECORDS)
        os.close(memory)
        device.serve(connection, records, ring)
    except ConnectionError:
        pass  # the client has ended; the control socket tells the main thread so
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    finally:
        connection.close()
