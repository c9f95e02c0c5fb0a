"""The device process: answers the emulated libraries' operators with the NumPy backend, on shared memory.

It is started by libascendcl (``csrc/link.c``) with two descriptors: 3, the control socket, over which connections
arrive, and 4, the device memory. Each connection has a thread. Requests and answers are a length, a word (the call, or
the status of the answer) and a payload; see ``csrc/executor.c`` for the payloads. The process ends with its client:
when the control socket does.
"""

from __future__ import annotations

import mmap
import os
import resource
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt

from ascend_aclnn import catalog
from ascend_aclnn.backends.numpy import NumpyBackend, find_backend
from ascend_aclnn.backends.numpy.run import BoundCall
from ascend_aclnn.backends.numpy.storage import HostStorage
from ascend_aclnn.catalog import Kind, Operator
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import FIND_KERNEL_ERROR, INNER_ERROR, PARAM_INVALID, AclError
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import DEFAULT_SOC
from ascend_aclnn.core.spec import TensorSpec, contiguous_strides
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.emulator import singles
from ascend_aclnn.emulator.protocol import Call, Descriptor, Where, kinds

WORKSPACE = 32 << 10  # what phase one asks for where it asks for any
if TYPE_CHECKING:
    from ascend_aclnn.emulator.communication import Communicators

KNOWN = 1024  # accepted phase ones that are remembered
BOUND = 8  # address sets that a plan remembers the tensors of


class BadArgument(ValueError):
    """An argument that no tensor or scalar can be made of."""


class PlannedTensor(NamedTuple):
    """A tensor argument without its address: the spec, and the bytes of its allocation that the tensor can reach."""

    spec: TensorSpec
    extent: int

    @classmethod
    def read(cls, words: Sequence[int], position: int) -> tuple[PlannedTensor, int]:
        """From the words of executor.c at a position; how many words it took beside."""
        dtype, format, offset, extent, rank, storage_rank = words[position : position + 6]
        try:
            data_type = DataType(dtype)
        except ValueError:
            raise BadArgument(f"has data type {dtype}, which CANN does not have") from None
        try:
            known_format = Format(format)
        except ValueError:
            raise BadArgument(f"has format {format}, which CANN does not have") from None
        at = position + 6
        shape = tuple(words[at : at + rank])
        strides = tuple(words[at + rank : at + 2 * rank])
        storage_shape = tuple(words[at + 2 * rank : at + 2 * rank + storage_rank])
        spec = TensorSpec(shape, data_type, strides, offset, known_format, storage_shape)
        return cls(spec, extent), 6 + 2 * rank + storage_rank


# A value in a plan: the number of a tensor, the numbers of a list's tensors, or the value itself.
_TENSOR, _TENSORS, _VALUE = range(3)
Slot = tuple[int, Any]


class Plan:
    """Arguments that phase one has checked, ready to run on any addresses."""

    def __init__(self, operator: Operator, words: Sequence[int]) -> None:
        self.operator = operator
        self.tensors: list[Optional[PlannedTensor]] = []  # None: a null pointer
        self.slots: list[Slot] = []
        self.bound: dict[bytes, tuple[list[Optional[Tensor]], BoundCall]] = {}
        self._words = words
        self._at = 0
        for parameter in operator.parameters:
            try:
                self.slots.append(self._slot(parameter.kind))
            except BadArgument as error:
                raise BadArgument(f"{parameter.python_name} {error}") from None
        if self._at != len(words):
            raise RuntimeError(f"{len(words) - self._at} words too many")

    # -- reading the words of executor.c
    def _next(self) -> int:
        self._at += 1
        return self._words[self._at - 1]

    def _take(self, count: int) -> Sequence[int]:
        self._at += count
        return self._words[self._at - count : self._at]

    def _slot(self, kind: Kind) -> Slot:
        if kind is Kind.TENSOR:
            return _TENSOR, self._tensor()
        if kind is Kind.TENSOR_LIST:
            count = self._next()
            return (_VALUE, None) if count < 0 else (_TENSORS, [self._tensor() for _ in range(count)])
        if kind is Kind.SCALAR:
            return _VALUE, self._scalar()
        if kind is Kind.SCALAR_LIST:
            count = self._next()
            return _VALUE, None if count < 0 else [self._scalar() for _ in range(count)]
        if kind in (Kind.INT_ARRAY, Kind.FLOAT_ARRAY, Kind.BOOL_ARRAY):
            count = self._next()
            return _VALUE, None if count < 0 else _array(kind, self._take(count))
        if kind is Kind.STRING:
            size = self._next()
            raw = b"" if size < 0 else struct.pack(f"<{-(-size // 8)}q", *self._take(-(-size // 8)))[:size]
            return _VALUE, None if size < 0 else raw.decode("utf-8", "replace")
        return _VALUE, _number(kind, self._next())

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
        number, *raw = self._take(3)
        dtype = DataType(number)
        if dtype.numpy is None:
            raise BadArgument(f"has data type {dtype.name}, for which the emulator has no host type")
        value = np.frombuffer(struct.pack("<2q", *raw), dtype.numpy, 1)[0]
        return Scalar(value.item(), dtype)

    # -- values
    def values(self, tensors: Sequence[Optional[TensorSpec]]) -> list[Any]:
        """One value for each parameter, as backends take them; of phase one with the specs of the tensors."""
        made: list[Any] = []
        for tag, what in self.slots:
            made.append(tensors[what] if tag == _TENSOR else [tensors[i] for i in what] if tag == _TENSORS else what)
        return made

    def checked_values(self) -> list[Any]:
        """Values for phase one, whose tensors have no memory."""
        return self.values([None if planned is None else planned.spec for planned in self.tensors])

    def bind(
        self, backend: NumpyBackend, memory: npt.NDArray[np.uint8], addresses: bytes
    ) -> tuple[list[Optional[Tensor]], BoundCall]:
        """The tensors on given addresses (offsets in the device memory), and the call that is bound to them."""
        found = self.bound.get(addresses)
        if found is not None:
            return found
        offsets = struct.unpack(f"<{len(self.tensors)}q", addresses)
        tensors = [
            None
            if planned is None
            else Tensor.on(HostStorage.over(backend, memory[offset : offset + planned.extent]), planned.spec)
            for planned, offset in zip(self.tensors, offsets)
        ]
        made = tensors, backend.bind(self.operator, self.values(tensors))
        if len(self.bound) >= BOUND:
            self.bound.clear()
        self.bound[addresses] = made
        return made


class SinglePlan(Plan):
    """The aclnn operator that stands for a single operator; it runs once."""

    def __init__(self, call: singles.Call, extents: Sequence[int]) -> None:
        self.operator = catalog.get(call.operator)
        self.tensors = []
        self.slots = []
        self.items: list[singles.Item] = []  # of each tensor
        self.bound = {}
        for argument in call.arguments:
            if isinstance(argument, singles.Item):
                self.slots.append((_TENSOR, len(self.tensors)))
                self.items.append(argument)
                extent = argument.values.nbytes if argument.number is None else extents[argument.number]  # type: ignore[union-attr]
                try:
                    argument.spec.check_within(extent)
                except ValueError as error:
                    raise BadArgument(str(error)) from None
                self.tensors.append(PlannedTensor(argument.spec, extent))
            else:
                self.slots.append((_VALUE, argument))

    def bind(
        self, backend: NumpyBackend, memory: npt.NDArray[np.uint8], addresses: bytes
    ) -> tuple[list[Optional[Tensor]], BoundCall]:
        offsets = struct.unpack(f"<{len(addresses) // 8}q", addresses)
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
        return tensors, backend.bind(self.operator, self.values(tensors))


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


class Device:
    """The plans, the memory and the backend that all connections share."""

    def __init__(self, backend: NumpyBackend, memory: npt.NDArray[np.uint8]) -> None:
        self.backend = backend
        self.memory = memory
        self.plans: dict[int, Plan] = {}
        self._communicators: Optional[Communicators] = None
        self._communicators_lock = threading.Lock()
        self.known: dict[bytes, Plan] = {}  # by what phase one gets: what it has accepted once, it accepts again

    def serve(self, connection: socket.socket) -> None:
        """Answers the requests of one connection, in order, until it ends; several may come in at once."""
        calls = {
            Call.PREPARE: self.prepare,
            Call.LAUNCH: self.launch,
            Call.DROP: self.drop,
            Call.COMMUNICATE: self.communicate,
            Call.SINGLE: self.prepare_single,
        }
        header = struct.Struct("<Ii")
        buffer = bytearray(1 << 16)
        have = 0  # bytes of the buffer that have come in
        while True:
            got = connection.recv_into(memoryview(buffer)[have:])
            if got == 0:
                return
            have += got
            at = 0
            while have - at >= header.size:
                length, call = header.unpack_from(buffer, at)
                end = at + 4 + length
                if end > have:
                    break
                status, answer = calls[call](bytes(buffer[at + header.size : end]))
                connection.sendall(header.pack(len(answer) + 4, status) + answer)
                at = end
            buffer[: have - at] = buffer[at:have]
            have -= at
            if have == len(buffer):
                buffer.extend(bytes(len(buffer)))

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
            return plan
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
            values = plan.checked_values()
            violation = self.backend.check(plan.operator, values)
            unsupported = self.backend.unsupported(plan.operator, values) if violation is None else None
        except singles.NotTranslated as error:
            return FIND_KERNEL_ERROR, f"EMULATOR_NOT_SUPPORTED: {name}: {error}".encode()
        except BadArgument as error:
            return PARAM_INVALID, f"{name}: {error}".encode()
        except AclError as error:
            return error.status, _text(name, error)
        except Exception:
            return INNER_ERROR, _unexpected(name)
        if violation is not None:
            return violation.status, f"{name}: {violation.detail}".encode()
        if unsupported is not None:
            return FIND_KERNEL_ERROR, f"EMULATOR_NOT_SUPPORTED: {name}: {unsupported}".encode()
        return plan

    def prepare_single(self, payload: bytes) -> tuple[int, bytes]:
        """Phase one of a single operator: the plan, its type, inputs, outputs and attributes, as csrc/op.c writes them."""
        reader = singles.Reader(payload)
        number, name = reader.integer() % (1 << 64), reader.text()
        extents: list[int] = []

        def items() -> list[Optional[singles.Item]]:
            return [_item(reader, extents) for _ in range(reader.integer())]

        def make() -> Plan:
            inputs, outputs = items(), [item for item in items() if item is not None]
            return SinglePlan(singles.translate(name, inputs, outputs, reader.attributes()), extents)

        plan = self._checked(name, make)
        if not isinstance(plan, Plan):
            return plan
        self.plans[number] = plan
        return 0, b""

    def launch(self, payload: bytes) -> tuple[int, bytes]:
        """Phase two: u64 plan, an offset in device memory for each tensor. Answers the new shapes of outputs."""
        number = int.from_bytes(payload[:8], "little")
        plan = self.plans[number]
        name = plan.operator.name
        if type(plan) is SinglePlan:
            del self.plans[number]
        try:
            tensors, bound = plan.bind(self.backend, self.memory, payload[8:])
            bound.run()
        except AclError as error:
            return error.status, _text(name, error)
        except Exception:
            return INNER_ERROR, _unexpected(name)
        changed = b""
        for number, (tensor, planned) in enumerate(zip(tensors, plan.tensors)):
            if tensor is not None and planned is not None and tensor.shape is not planned.spec.shape:
                changed += struct.pack(f"<{2 + tensor.ndim}q", number, tensor.ndim, *tensor.shape)
        if changed:
            plan.bound.pop(payload[8:], None)
        return 0, changed

    def communicate(self, payload: bytes) -> tuple[int, bytes]:
        """Something about a communicator; the first request brings the module that knows of them."""
        with self._communicators_lock:
            if self._communicators is None:
                from ascend_aclnn.emulator.communication import Communicators

                self._communicators = Communicators(self.memory)
        return self._communicators.act(payload)

    def drop(self, payload: bytes) -> tuple[int, bytes]:
        """Forgets plans: their numbers."""
        for (number,) in struct.iter_unpack("<Q", payload):
            self.plans.pop(number, None)
        return 0, b""


def _item(reader: singles.Reader, extents: list[int]) -> Optional[singles.Item]:
    """An input or output of a single operator; notes the extent of one in device memory."""
    where = reader.integer()
    if where == Where.ABSENT:
        return None
    dtype, format = reader.integer(), reader.integer()
    shape, storage_shape = tuple(reader.integers()), tuple(reader.integers())
    words = (dtype, format, 0, 0, len(shape), len(storage_shape), *shape, *contiguous_strides(shape), *storage_shape)
    spec = PlannedTensor.read(words, 0)[0].spec
    if where == Where.DEVICE:
        extents.append(reader.integer())
        return singles.Item(spec, len(extents) - 1)
    if spec.dtype.numpy is None:
        raise BadArgument(f"has data type {spec.dtype.name}, for which the emulator has no host type")
    raw = reader.raw()
    return singles.Item(spec, None, np.frombuffer(raw, spec.dtype.numpy, spec.size).reshape(shape))


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
    control = socket.socket(fileno=Descriptor.CONTROL)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # as many connections as the client has streams
    try:
        backend = find_backend(os.environ.get("ASCEND_ACLNN_SOC") or DEFAULT_SOC)
        mapped = mmap.mmap(Descriptor.MEMORY, os.fstat(Descriptor.MEMORY).st_size)
        device = Device(backend, np.frombuffer(mapped, np.uint8))
        sys.setswitchinterval(1e-3)  # a connection whose request has come in should not wait long for the others
        while True:
            data, received, _, _ = socket.recv_fds(control, 1, 16)
            if not data:
                break
            for descriptor in received:
                connection = socket.socket(fileno=descriptor)
                threading.Thread(target=_serve, args=(device, connection), daemon=True).start()
    except ConnectionError:
        pass
    os._exit(0)  # the threads may be in the middle of an operator, and nobody waits for it any more


def _serve(device: Device, connection: socket.socket) -> None:
    try:
        device.serve(connection)
    except ConnectionError:
        pass  # the client has ended; the control socket tells the main thread so
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    finally:
        connection.close()
