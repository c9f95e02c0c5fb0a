"""The device process: answers the emulated libraries' operators with the NumPy backend, on shared memory.

It is started by libascendcl (``csrc/ascendcl/core/device_connection.c``) with two descriptors: 3, the control socket, over
which connections arrive, and 4, the device memory. Each connection is a socket and a ring, and has a thread. Requests and
answers on the socket are a length, a word (the call, or the status of the answer) and a payload; launches come through the
ring (``csrc/ring/ring.h``). See ``csrc/nnopbase/executor.c`` for the payloads. The process ends when the control socket does:
with its client.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import resource
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Optional, Union

import numpy as np

from ascend_aclnn import catalog
from ascend_aclnn.backends.numpy import NumpyBackend
from ascend_aclnn.backends.numpy.placed import Memory
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core import addresses
from ascend_aclnn.core.errors import (
    FIND_KERNEL_ERROR,
    INNER_ERROR,
    OUT_OF_MEMORY,
    PARAM_INVALID,
    AclError,
    DataError,
    RuleViolation,
)
from ascend_aclnn.core.socs import DEFAULT_SOC
from ascend_aclnn.core.socs import soc as find_soc
from ascend_aclnn.core.spec import TensorSpec, contiguous_strides
from ascend_aclnn.emulator.process import refusals, unwritten
from ascend_aclnn.emulator.process.mappings import Mappings
from ascend_aclnn.emulator.process.plans import (
    KNOWN,
    BadArgument,
    Bound,
    DeviceKernelPlan,
    KernelPlan,
    NotSupported,
    Plan,
    PlannedTensor,
    SinglePlan,
    plan_class,
)
from ascend_aclnn.emulator.process.programs import Program, read_steps
from ascend_aclnn.emulator.protocol import UNDECLARED, Call, Descriptor, Record, Ring, Where, kinds
from ascend_aclnn.numerics import floating_errors
from ascend_aclnn.reference import kernels

WORKSPACE = 32 << 10  # what phase one asks for where it asks for any
if TYPE_CHECKING:  # imported by their users: the process should start soon
    from ascend_aclnn.emulator.process import single_operators
    from ascend_aclnn.emulator.process.communication import Communicators
    from ascend_aclnn.emulator.process.faults import Faults

BOUND = 1 << 14  # plans on addresses that are kept ready
# Plans on addresses that are remembered as bound once. Only those that come again are kept: in training most do not, and keeping
# each of them fills the processor's caches.
SEEN = 1 << 10
MAP_FIXED = 0x10


class RingFunctions:
    """What csrc/ring/ring.c does for the device process. Waiting lets other threads run; the rest is too short for that.

    ``done`` and ``answered`` are of the ring that the thread has waited for.
    """

    def __init__(self, path: str) -> None:
        if not hasattr(ctypes.CDLL(path), "emu_ring_answered"):
            raise SystemExit(f"{path} is of another version of ascend_aclnn; run  ascend-aclnn emulator build  again")
        self.wait = ctypes.CDLL(path).emu_ring_wait
        self.wait.argtypes = (ctypes.c_void_p, ctypes.c_uint64)
        self.wait.restype = ctypes.c_uint64
        self.done, self.answered = ctypes.PyDLL(path).emu_ring_done, ctypes.PyDLL(path).emu_ring_answered
        self.done.restype = self.answered.restype = None


_HEADER = struct.Struct("<Ii")


def _frame(status: int, answer: bytes) -> bytes:
    return _HEADER.pack(len(answer) + 4, status) + answer


class Device:
    """The plans, the memory and the backend that all connections share."""

    def __init__(self, backend: NumpyBackend, memory: Memory) -> None:
        self.backend = backend
        self.soc = find_soc(backend.soc)
        self._bound = 0
        self._seen: set[int] = set()  # of plans on addresses that were bound of late
        self._calls = {
            Call.PREPARE: self.prepare,
            Call.LAUNCH: self.launch_alone,
            Call.DROP: self.drop,
            Call.COMMUNICATE: self.communicate,
            Call.SINGLE: self.prepare_single,
            Call.MAP: self.map,
            Call.PROFILE: self.profile,
            Call.PROGRAM: self.make_program,
            Call.REPLACE: self.replace_step,
            Call.INFER: self.infer,
            Call.KERNEL: self.prepare_kernel,
            Call.MOVE: self.move,
        }
        self._times: list[tuple[int, int, int]] = []  # of launches with a correlation: it, begin, end
        self.memory = memory
        self.mappings = Mappings()
        self.plans: dict[int, Plan] = {}
        self._communicators: Optional[Communicators] = None
        self._communicators_lock = threading.Lock()
        self.accepted: dict[bytes, Plan] = {}  # by what phase one gets: what it has accepted once, it accepts again
        self.faults: Optional[Faults] = None  # that it makes on purpose
        self.tells_unwritten = unwritten.wanted()
        if self.tells_unwritten:
            unwritten.begin()

    def serve(self, connection: socket.socket, memory: mmap.mmap, ring: RingFunctions) -> None:
        """Answers the requests of one connection until it ends: the launches in its ring, in order, and calls."""
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        records = memoryview(memory)[Ring.HEAD : Ring.HEAD + Ring.RECORDS]
        words = records.cast("Q")
        size, header = Ring.RECORDS // 8, Ring.HEADER // 8
        filler, after, dropped = int(Record.FILLER), int(Record.AFTER), int(Record.DROPPED)
        mask = (1 << Ring.KIND_BITS) - 1
        at = 0
        failed = False  # the last launch, or it was skipped
        while True:
            sent = ring.wait(address, at)
            if sent == at and not self._answer_call(connection):
                return
            while at < sent:
                start = at % size
                at += words[start]
                kind = words[start + 1]
                if kind == filler:
                    continue
                outcome, correlation = None, kind >> Ring.KIND_BITS if kind > dropped else 0
                if correlation:
                    kind &= mask
                if kind != dropped and not (failed and kind == after):
                    body = start + header
                    if correlation:
                        outcome = self.launch_timed(correlation, words[body], records, 8 * body + 8)
                    else:
                        outcome = self.launch(words[body], records, 8 * body + 8)
                    failed = outcome is not None and outcome[0] != 0
                if outcome is None:
                    ring.done()
                else:
                    words[start + 1] = Record.ANSWERED
                    ring.answered()
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
        accepted_plan = self.accepted.get(payload[8:])
        if accepted_plan is not None:
            self.plans[number] = accepted_plan
            return 0, _prepared(accepted_plan.operator)
        tail = len(payload) - name_size - kinds_size
        name = payload[tail : tail + name_size].decode()
        operator = _operator(name)
        if operator is None:
            return FIND_KERNEL_ERROR, f"EMULATOR_NOT_SUPPORTED: {name}: not in this package's catalog".encode()
        if kinds(operator).encode() != payload[tail + name_size :]:
            return INNER_ERROR, f"{name}: the libraries were built from another catalog; build them again".encode()
        words = struct.unpack_from(f"<{(tail - 16) // 8}q", payload, 16)
        # The first word is the deterministic option: references always are.
        plan = self._checked(name, lambda: plan_class(operator)(operator, words[1:]))
        if not isinstance(plan, Plan):
            idle = None if self.faults is None else self.faults.idle(name)
            if idle is None:
                return plan
            self.plans[number] = idle
            return 0, _prepared(operator)
        self.plans[number] = plan
        if not operator.data_dependent:  # its tensors change their shapes
            if len(self.accepted) >= KNOWN:
                self.accepted.clear()
            self.accepted[payload[8:]] = plan
        return 0, _prepared(operator)

    def infer(self, payload: bytes) -> tuple[int, bytes]:
        """Outputs of one of ATB's operations: as phase one, without a plan. Of each: data type, format, rank and sizes."""
        from ascend_aclnn.catalog import atb

        name_size, kinds_size = struct.unpack_from("<II", payload)
        tail = len(payload) - name_size - kinds_size
        name = payload[tail : tail + name_size].decode()
        operator = _operator(name)
        if operator is None or operator.family != atb.FAMILY:
            return FIND_KERNEL_ERROR, f"EMULATOR_NOT_SUPPORTED: {name}: outputs are not inferred".encode()
        same = {slot.name: slot.in_place for slot in atb.get(name.removesuffix("Operation")).outputs}
        try:
            plan = Plan(operator, struct.unpack_from(f"<{(tail - 8) // 8}q", payload, 8)[1:])
            values = plan.values(plan.specs())
            for output, position in operator.positions.items():
                if same.get(output):
                    values[position] = values[operator.positions[same[output]]]
            specs = self.backend.infer(operator, values)
        except RuleViolation as violation:
            return violation.status, f"{name}: {violation.detail}".encode()
        except BadArgument as error:
            return PARAM_INVALID, f"{name}: {error}".encode()
        except Exception:
            return INNER_ERROR, _unexpected(name)
        answer = b""
        for output in same:
            spec = values[operator.positions[output]] if same[output] else specs.get(output)
            if isinstance(spec, TensorSpec):
                words = (int(spec.dtype), int(spec.format), spec.ndim, *spec.shape)
                answer += struct.pack(f"<{len(words)}q", *words)
        return 0, answer

    def _checked(self, name: str, make: Callable[[], Plan]) -> Union[Plan, tuple[int, bytes]]:
        """A plan that phase one accepts, or the refusal."""
        try:
            plan = make()
            values = plan.values(plan.specs())
            violation = self.backend.check(plan.operator, values)
            unsupported = plan.unsupported(self.backend, values) if violation is None else None
        except NotSupported as error:
            return FIND_KERNEL_ERROR, f"EMULATOR_NOT_SUPPORTED: {name}: {error}".encode()
        except BadArgument as error:
            return PARAM_INVALID, f"{name}: {error}".encode()
        except AclError as error:
            return error.status, _text(name, error)
        except Exception:
            return INNER_ERROR, _unexpected(name)
        if violation is not None:
            words = refusals.lines(name, violation)
            return violation.status, f"{name}: {violation.detail}{'' if words is None else chr(0) + words}".encode()
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

    def prepare_kernel(self, payload: bytes) -> tuple[int, bytes]:
        """A kernel that was launched as a binary: plan, length of the name, address and size of the arguments, name, arguments.

        The address is 0 where they follow. The answer: how many pointers; of each the address, and the bytes that are read and
        written there, or UNDECLARED; and their names. Of arguments in device memory it is their own address alone.
        """
        number, length, address, size = struct.unpack_from("<4Q", payload)
        name, arguments = payload[32 : 32 + length].decode("utf-8", "replace"), payload[32 + length :]
        entry = kernels.find(name)
        if entry is None:
            return FIND_KERNEL_ERROR, b""
        try:
            plan = DeviceKernelPlan(entry, address, size) if address else KernelPlan(entry, arguments)
        except DataError as error:
            return PARAM_INVALID, f"{name}: {error.argument}: {error.detail}".encode()
        self.plans[number] = plan
        words = [len(plan.pointers)]
        for pointer in plan.pointers:
            sizes = pointer.reads, pointer.writes
            words += [pointer.address, *(UNDECLARED if size is None else size for size in sizes)]
        names = " ".join(pointer.name for pointer in plan.pointers)
        return 0, struct.pack(f"<{len(words)}Q", *words) + names.encode()

    def launch(self, number: int, data: memoryview, at: int, correlation: int = 0) -> Optional[tuple[int, bytes]]:
        """Phase two: a plan on an offset in device memory for each tensor, which begin somewhere in the data.

        An error, or new shapes of outputs, if any. ``correlation``: of a graph's first step, whose times are noted.
        """
        plan = self.plans[number]
        try:
            key = bytes(data[at : at + 8 * plan.addresses]) if plan.addresses else b""
            direct = plan.direct
            if direct is not None and direct(key):
                return None
            bound = plan.bound.get(key)
            if bound is None:
                bound = self._bind(plan, key)
            if correlation and isinstance(plan, Program):
                plan.run_timed(correlation, self._times)
                return None
            changed = bound()
        except AclError as error:
            return error.status, _text(plan.name, error)
        except DataError as error:  # of a kernel: operators make it an AclError
            return PARAM_INVALID, f"{plan.name}: {error}".encode()
        except Exception:
            return INNER_ERROR, _unexpected(plan.name)
        finally:
            if plan.once:
                del self.plans[number]
        return (0, changed) if changed else None

    def _bind_once(self, plan: Plan, addresses: bytes) -> Bound:
        bound = plan.bind(self.backend, self.memory, addresses)
        if self.faults is None:
            return bound
        return self.faults.around(plan, self.memory, addresses, bound)

    def _bind(self, plan: Plan, addresses: bytes) -> Bound:
        bound = self._bind_once(plan, addresses)
        if self.tells_unwritten:
            bound = unwritten.around(self.memory, bound)
        if plan.once or plan.operator.data_dependent:  # its tensors change their shapes
            return bound
        if self.faults is None and not self.tells_unwritten:
            plan.note_bind(self.memory)
        again = hash((plan, addresses))
        if again not in self._seen:
            if len(self._seen) >= SEEN:
                self._seen.clear()
            self._seen.add(again)
            return bound
        if self._bound >= BOUND:
            self._bound = 0
            for other in list(self.plans.values()):
                other.bound = {}
        self._bound += 1
        plan.bound[addresses] = bound
        return bound

    def move(self, payload: bytes) -> tuple[int, bytes]:
        """Where a plan takes bytes of its inputs to: u64 plan; tensor, start and count of the bytes of each range (u64)."""
        plan = self.plans[int.from_bytes(payload[:8], "little")]
        try:
            ranges = unwritten.moved(plan, self.backend, list(struct.iter_unpack("<3Q", payload[8:])))
        except Exception:
            return INNER_ERROR, _unexpected(plan.name)
        return 0, b"".join(struct.pack("<3Q", *each) for each in ranges)

    def make_program(self, payload: bytes) -> tuple[int, bytes]:
        """Prepares the steps of a captured graph: u64 number of the program, steps."""
        try:
            steps = read_steps(payload, 8, self.memory, self.plans, self._bind_once)
            self.plans[int.from_bytes(payload[:8], "little")] = Program(list(steps))
        except Exception:
            return INNER_ERROR, _unexpected("a graph")
        return 0, b""

    def replace_step(self, payload: bytes) -> tuple[int, bytes]:
        """Exchanges a step of a program: u64 program, u64 number of the step, the step."""
        number, at = struct.unpack_from("<2Q", payload)
        try:
            (step,) = read_steps(payload, 16, self.memory, self.plans, self._bind_once)
            program = self.plans[number]
            if not isinstance(program, Program):
                raise TypeError(f"{number} is no program")
            program.replace(at, step)
        except Exception:
            return INNER_ERROR, _unexpected("a graph")
        return 0, b""

    def launch_alone(self, payload: bytes) -> tuple[int, bytes]:
        """Phase two of a launch that is too long for the ring: u64 plan, addresses."""
        return self.launch(int.from_bytes(payload[:8], "little"), memoryview(payload), 8) or (0, b"")

    def launch_timed(self, correlation: int, number: int, data: memoryview, at: int) -> Optional[tuple[int, bytes]]:
        """The same, and notes when it ran."""
        begin = time.monotonic_ns()
        of_graph = isinstance(self.plans.get(number), Program)
        try:
            return self.launch(number, data, at, correlation)
        finally:
            if not of_graph:
                self._times.append((correlation, begin, time.monotonic_ns()))

    def profile(self, payload: bytes) -> tuple[int, bytes]:
        """When launches have run since the last time; see Call.PROFILE."""
        count = len(self._times)  # other threads append meanwhile
        times = self._times[:count]
        del self._times[:count]
        return 0, b"".join(struct.pack("<3Q", *run) for run in times)

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


def _operator(name: str) -> Optional[Operator]:
    """An aclnn operator, or one of ATB's operations; None where there is none."""
    try:
        return catalog.get(name)
    except KeyError:
        from ascend_aclnn.catalog import atb

        return atb.find_operator(name)


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
        backend = NumpyBackend(os.environ.get("ASCEND_ACLNN_SOC") or DEFAULT_SOC)
        mapped = mmap.mmap(Descriptor.MEMORY, os.fstat(Descriptor.MEMORY).st_size)
        memory = np.frombuffer(mapped, np.uint8)
        device, base = Device(backend, memory), int(sys.argv[3], 16)  # where the client has mapped it
        if os.environ.get("ASCEND_EMULATOR_OPERATORS"):
            from ascend_aclnn.emulator import operators

            operators.load_from_environment()
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
    os._exit(0)  # the threads may be in the middle of an operator, and no process waits for it any more


def _serve(device: Device, ring: RingFunctions, descriptor: int, memory: int) -> None:
    connection = socket.socket(fileno=descriptor)
    try:
        records = mmap.mmap(memory, Ring.HEAD + Ring.RECORDS)
        os.close(memory)
        with floating_errors.ignored_in_all():
            device.serve(connection, records, ring)
    except ConnectionError:
        pass  # the client has ended; the control socket tells the main thread so
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    finally:
        connection.close()
