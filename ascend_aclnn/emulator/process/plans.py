"""Plans: arguments that phase one has checked, ready to run on any addresses."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

import numpy as np

from ascend_aclnn.backends.numpy import NumpyBackend
from ascend_aclnn.backends.numpy.placed import Layout, Memory, PlacedCall, Tensors, layout_of
from ascend_aclnn.backends.numpy.storage import HostStorage
from ascend_aclnn.catalog import Kind, Operator, atb
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.socs import Soc
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.reference.kernels import Kernel, Pointer

if TYPE_CHECKING:  # imported by its users: the process should start soon
    from ascend_aclnn.emulator.process import single_operators

KNOWN = 1024  # accepted phase ones that are remembered


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
    direct: Optional[Callable[[bytes], bool]] = None  # runs it on addresses, without binding; False where it cannot

    def __init__(self, operator: Operator, words: Sequence[int]) -> None:
        self.operator = operator
        self.tensors: list[Optional[PlannedTensor]] = []  # None: a null pointer
        self.arguments: list[Any] = []  # of each parameter: the numbers of its tensors, or its value
        self.bound: dict[bytes, Bound] = {}
        self._words = words
        self._at = 0
        self._binds = 0
        self._placed: Optional[PlacedCall] = None
        for parameter in operator.parameters:
            try:
                self.arguments.append(self._argument(parameter.kind))
            except BadArgument as error:
                raise BadArgument(f"{parameter.python_name} {error}") from None
        if self._at != len(words):
            raise RuntimeError(f"{len(words) - self._at} words too many")
        self.addresses = len(self.tensors)

    @property
    def name(self) -> str:
        """The name that an error of the launch reports."""
        return self.operator.name

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

    def unsupported(self, backend: NumpyBackend, values: list[Any]) -> Optional[str]:
        """Why the device cannot run it on such values, though CANN can; None if it can."""
        return backend.unsupported(self.operator, values)

    def settle(self, soc: Soc) -> None:
        """Finds out, once phase one has passed, whether the plan can run without Tensors of its own."""
        within = all(planned is None or planned.is_within for planned in self.tensors)
        if within and PlacedCall.possible(self.operator, self.specs(), soc):
            layouts = [None if planned is None else planned.layout for planned in self.tensors]
            self._placed = PlacedCall(self.operator, self.arguments, layouts, soc)

    def note_bind(self, memory: Memory) -> None:
        """Called for each launch that is bound. From the second one on there may be a ``direct`` way, which is made once."""
        self._binds += 1
        if self._binds == 2 and self._placed is not None:
            self.direct = self._placed.direct(memory)

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
        """Number of the tensor, rank and sizes of each output whose shape depends on data."""
        changed = b""
        for number, (tensor, planned) in enumerate(zip(tensors, self.tensors)):
            if tensor is not None and planned is not None and tensor.shape is not planned.spec.shape:
                changed += struct.pack(f"<{2 + tensor.ndim}q", self._told_as(number), tensor.ndim, *tensor.shape)
        return changed

    def _told_as(self, number: int) -> int:
        """Which tensor the client knows as this one."""
        return number


class WeightPlan(Plan):
    """aclnnTransMatmulWeight: the memory of a matrix gets the blocks of FRACTAL_NZ, and the client's aclTensor their description.

    Tensors of the NumPy backend do not change their format, so that backend has no reference for it.
    """

    def unsupported(self, backend: NumpyBackend, values: list[Any]) -> Optional[str]:
        return None

    def settle(self, soc: Soc) -> None:
        self._placed = None

    def bind(self, backend: NumpyBackend, memory: Memory, addresses: bytes) -> Bound:
        (offset,), (planned,) = struct.unpack("<q", addresses), self.tensors
        if planned is None or not planned.spec.size:
            return lambda: None
        target = TensorSpec.of(planned.spec.shape, planned.spec.dtype, format=Format.FRACTAL_NZ)
        source = HostStorage.over(backend, memory[offset : offset + planned.extent])
        blocks = HostStorage.over(backend, memory[offset : offset + target.storage_nbytes])

        def run() -> None:
            Tensor.on(blocks, target).assign(Tensor.on(source, planned.spec).numpy())

        return run


class ParameterPlan(Plan):
    """The parameters of one of ATB's operations, which are checked when it is made: there is nothing to run."""

    def unsupported(self, backend: NumpyBackend, values: list[Any]) -> Optional[str]:
        operation = atb.get(self.operator.name.removesuffix("Param"))
        return operation.lacks(dict(zip(self.operator.positions, values)))

    def settle(self, soc: Soc) -> None:
        self._placed = None


def plan_class(operator: Operator) -> type[Plan]:
    """The plan that stands for an operator."""
    if operator.family == atb.FAMILY and not operator.outputs:
        return ParameterPlan
    return WeightPlan if operator.name == "aclnnTransMatmulWeight" else Plan


class SinglePlan(Plan):
    """The aclnn operator that stands for a single operator; it runs once."""

    once = True

    def __init__(self, call: single_operators.SingleCall, extents: Sequence[int]) -> None:
        self.operator = call.operator
        self.tensors = []
        self.arguments = []
        self.bound = {}
        self.items: list[single_operators.Item] = []  # of each tensor
        self._rows: dict[int, Any] = {}  # by number, the values of what memory holds in blocks
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
            if item.blocks is not None:
                stored = item.blocks.spec
                TensorSpec(stored.storage_shape, stored.dtype).check_within(extent)
        except ValueError as error:
            raise BadArgument(str(error)) from None
        self.items.append(item)
        self.tensors.append(PlannedTensor.of(item.spec, extent))
        return len(self.tensors) - 1

    def settle(self, soc: Soc) -> None:
        self._placed = None  # some of its tensors are in no device memory

    def _told_as(self, number: int) -> int:
        return self.items[number].number or 0

    def bind(self, backend: NumpyBackend, memory: Memory, addresses: bytes) -> Bound:
        self._rows = {}
        run, offsets = super().bind(backend, memory, addresses), struct.unpack(f"<{self.addresses}q", addresses)
        written = {item.number or 0: item.blocks for item in self.items if item.blocks and item.blocks.is_output}
        if not written:
            return run

        def run_and_pack() -> Any:
            changed = run()
            for number, blocks in written.items():
                blocks.pack(self._rows[number], memory[offsets[number] :])
            return changed

        return run_and_pack

    def _on(self, backend: NumpyBackend, memory: Memory, offsets: Sequence[int]) -> list[Optional[Tensor]]:
        tensors: list[Optional[Tensor]] = []
        for item, planned in zip(self.items, self.tensors):
            if planned is None:
                raise RuntimeError("a plan of a single operator has no null pointers")
            if item.blocks is not None:
                number = item.number or 0
                if number not in self._rows:
                    self._rows[number] = item.blocks.unpack(memory[offsets[number] :])
                data = self._rows[number].reshape(-1).view(np.uint8)
            elif item.number is None and item.values is not None:
                data = np.ascontiguousarray(item.values).reshape(-1).view(np.uint8)
            else:
                offset = offsets[item.number or 0]
                data = memory[offset : offset + planned.extent]
            tensors.append(Tensor.on(HostStorage.over(backend, data), planned.spec))
        return tensors


class KernelPlan(Plan):
    """The reference of a kernel that was launched as a binary, on the arguments of one launch."""

    once = True
    addresses = 0
    # If it is a list, each array that the kernel takes is appended to it, with a copy of its contents.
    watched: Optional[list[tuple[Memory, Memory]]] = None

    def __init__(self, kernel: Kernel, arguments: bytes) -> None:
        self._values = kernel.read(arguments)
        self._prepare(kernel, [value for value in self._values if isinstance(value, Pointer) and value])

    def _prepare(self, kernel: Kernel, pointers: list[Pointer]) -> None:
        """``pointers``: what is pinned until it has run."""
        self._kernel = kernel
        self.pointers = pointers
        self.tensors = []
        self.bound = {}

    @property
    def name(self) -> str:
        return self._kernel.name

    def read(self) -> list[Any]:
        """The arguments of a run: Pointers and numbers."""
        return self._values

    def bind(self, backend: NumpyBackend, memory: Memory, addresses: bytes) -> Bound:
        def run() -> None:
            values = self.read()
            for value in values:
                if isinstance(value, Pointer):
                    value.watched = self.watched
            self._kernel.function(*values)

        return run


class DeviceKernelPlan(KernelPlan):
    """The same, of arguments that lie in device memory, from which each run reads them."""

    def __init__(self, kernel: Kernel, address: int, size: int) -> None:
        if size < kernel.size:
            kernel.read(bytes(size))  # says what is missing
        arguments = Pointer(address, "arguments")
        arguments.reads, arguments.writes = kernel.size, 0
        self._prepare(kernel, [arguments])

    def read(self) -> list[Any]:
        return self._kernel.read(self.pointers[0].array(self._kernel.size, np.uint8).tobytes())


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
