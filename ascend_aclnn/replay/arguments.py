"""The arguments of a recorded launch, made again on the backend in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Optional

import numpy as np

from ascend_aclnn.backends.interface import current_backend
from ascend_aclnn.catalog import Kind, Operator, Parameter, atb
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import status_name
from ascend_aclnn.core.interface import Storage
from ascend_aclnn.core.scalar import Scalar
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.tensor import Tensor
from ascend_aclnn.recording import Launch, Recording, RecordingError, ScalarValue, TensorValue, Value


class Unavailable(Exception):
    """A launch cannot be run again, and why. ``kind`` is the reason without what differs from launch to launch."""

    def __init__(self, reason: str, kind: str = "") -> None:
        super().__init__(reason)
        self.kind = kind or reason


def name_of_status(launch: Launch, status: int) -> str:
    """ATB's operations have numbers of their own."""
    names = atb.shared_enums()["ErrorType"] if is_operation(launch) else {}
    return next((name for name, number in names.items() if number == status), "") or status_name(status)


def is_operation(launch: Launch) -> bool:
    """Whether it is an operation of ATB's that the catalog has."""
    return launch.operator.name.removesuffix("Operation") in atb.names()


def arguments(recording: Recording, launch: Launch, operator: Operator) -> list[Any]:
    """A value for each C parameter, as ``Executor`` takes them. Tensors that shared memory share memory again.

    Unavailable where data that the operator reads were not recorded; RecordingError where the file asks for what cannot be.
    """
    check_prototype(launch, operator)
    memory = _Memory(recording, launch, operator)
    return [value_of(parameter, value, memory.tensor) for parameter, value in _pairs(launch, operator)]


def outputs(launch: Launch, operator: Operator, values: list[Any]) -> Iterator[tuple[str, TensorValue, Tensor]]:
    """What the launch wrote: the name, the recorded tensor, the tensor among ``values`` (made by ``arguments``)."""
    for (parameter, value), argument in zip(_pairs(launch, operator), values):
        if parameter.direction == "in":
            continue
        if value.kind == "tensor":
            yield parameter.name, value.content, argument
        elif value.kind == "tensors":
            for at, (recorded, tensor) in enumerate(zip(value.content, argument)):
                if recorded is not None:
                    yield f"{parameter.name}[{at}]", recorded, tensor


def _pairs(launch: Launch, operator: Operator) -> Iterator[tuple[Any, Value]]:
    return zip(operator.parameters, launch.values)


def check_prototype(launch: Launch, operator: Operator) -> None:
    """Unavailable where the recorded parameters are not this version's."""
    names = tuple(parameter.name for parameter in operator.parameters)
    if launch.operator.parameters != names:
        raise Unavailable(
            f"it was recorded with the parameters ({', '.join(launch.operator.parameters)}); "
            f"this version knows ({', '.join(names)})"
        )


def value_of(parameter: Parameter, value: Value, tensor: Callable[[TensorValue], Tensor]) -> Any:
    """A recorded value as ``Executor`` takes it; ``tensor`` makes the tensors."""
    if value.kind == "tensor":
        return tensor(value.content)
    if value.kind == "tensors":
        return [None if member is None else tensor(member) for member in value.content]
    if value.kind == "scalar":
        return _scalar(parameter.name, value.content)
    if value.kind == "scalars":
        return [None if member is None else _scalar(parameter.name, member) for member in value.content]
    if value.kind == "unknown":
        raise Unavailable(f"{parameter.name} was a handle that the recorder had not seen made")
    if value.kind == "integer" and parameter.kind in (Kind.BOOL, Kind.DATA_TYPE):
        return bool(value.content) if parameter.kind is Kind.BOOL else int(value.content)
    return value.content


def _scalar(name: str, scalar: ScalarValue) -> Scalar:
    number = scalar.value
    if isinstance(number, bytes):
        raise Unavailable(f"{name} is a scalar of data type {scalar.dtype}, which has no value in NumPy")
    return Scalar(number, DataType(scalar.dtype))


class _Memory:
    """The memory of a launch's tensors: one storage for those whose bytes overlap, filled with what was recorded."""

    def __init__(self, recording: Recording, launch: Launch, operator: Operator) -> None:
        self._recording = recording
        self._tensors: dict[TensorValue, Tensor] = {}
        reads: dict[TensorValue, bool] = {}
        for parameter, value in _pairs(launch, operator):
            for tensor in value.tensors():
                reads[tensor] = reads.get(tensor, False) or parameter.direction != "out"
                if parameter.direction != "out" and tensor.before is None and tensor.description.byte_range[1]:
                    rest = f"were not recorded{_why(launch)}"
                    raise Unavailable(f"the data of {parameter.name} {rest}", kind=f"data {rest}")
        total = sum(max(stop - start, 0) for start, stop in (value.description.byte_range for value in reads))
        if total > recording.limit:
            raise Unavailable(f"its tensors have {total} bytes; the limit is {recording.limit}")
        for group in _overlapping(list(reads)):
            self._make(group)

    def tensor(self, value: TensorValue) -> Tensor:
        return self._tensors[value]

    def _make(self, group: list[TensorValue]) -> None:
        """Tensors of one storage. Elements of packed types and blocked formats have storages of their own."""
        base = min(value.address + min(value.description.byte_range[0], 0) for value in group)
        if any(_shift(value, base) is None for value in group):
            for value in group:
                self._place([value], value.address)
            return
        self._place(group, base)

    def _place(self, group: list[TensorValue], base: int) -> None:
        specs = [_spec(value, _shift(value, base) or 0) for value in group]
        size = max(spec.storage_nbytes for spec in specs)
        if size > self._recording.limit:
            raise RecordingError(
                f"{self._recording.path}: a tensor of {size} bytes; the limit is {self._recording.limit}"
            )
        backend = current_backend()
        storage = backend.allocate(size, backend.current_device())
        for value, spec in zip(group, specs):
            self._tensors[value] = Tensor.on(storage, spec)
        if size:
            storage.write(0, np.zeros(size, np.uint8))
        for value in group:
            _fill(storage, value.address - base, self._recording, value)


def tensor_of(recording: Recording, value: TensorValue) -> Tensor:
    """A tensor with memory of its own, filled with what was recorded before the launch."""
    spec = _spec(value, 0)
    if spec.storage_nbytes > recording.limit:
        raise RecordingError(
            f"{recording.path}: a tensor of {spec.storage_nbytes} bytes; the limit is {recording.limit}"
        )
    backend = current_backend()
    storage = backend.allocate(spec.storage_nbytes, backend.current_device())
    if spec.storage_nbytes:
        storage.write(0, np.zeros(spec.storage_nbytes, np.uint8))
    _fill(storage, 0, recording, value)
    return Tensor.on(storage, spec)


def _fill(storage: Storage, place: int, recording: Recording, value: TensorValue) -> None:
    """Writes a tensor's recorded bytes; ``place``: of its address in the storage."""
    start, stop = value.description.byte_range
    if value.before is None or stop <= start:
        return
    if place + start < 0:
        raise Unavailable(f"a tensor of strides {value.description.strides} has elements before its address")
    data = recording.data(value.before)
    if len(data) != stop - start:
        raise RecordingError(f"{recording.path}: {len(data)} bytes were recorded of a tensor that has {stop - start}")
    storage.write(place + start, np.frombuffer(data, np.uint8))


def _spec(value: TensorValue, shift: int) -> TensorSpec:
    try:
        spec = value.description.spec
    except ValueError as error:
        raise Unavailable(str(error)) from None
    if not shift:
        return spec
    return TensorSpec(spec.shape, spec.dtype, spec.strides, spec.offset + shift, spec.format, spec.storage_shape)


def _shift(value: TensorValue, base: int) -> Optional[int]:
    """The elements between an address and a tensor's own; None where they are no whole number, or cannot be counted."""
    if value.address == base:
        return 0
    try:
        spec = value.description.spec
    except ValueError:
        return None
    if spec.dtype.bits < 8 or spec.format.private:
        return None
    elements, rest = divmod((value.address - base) * 8, spec.dtype.bits)
    return None if rest else elements


def _overlapping(values: list[TensorValue]) -> Iterator[list[TensorValue]]:
    """The tensors in groups whose bytes overlap."""
    group: list[TensorValue] = []
    end = -1
    for value in sorted(values, key=_extent):
        start, stop = _extent(value)
        if group and start >= end:
            yield group
            group = []
        group.append(value)
        end = max(end, stop)
    if group:
        yield group


def _extent(value: TensorValue) -> tuple[int, int]:
    start, stop = value.description.byte_range
    return value.address + start, value.address + stop


def _why(launch: Launch) -> str:
    return f" ({launch.left_out.replace('data: ', '')})" if launch.left_out else ""
