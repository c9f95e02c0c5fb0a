"""Shapes, dtypes and refusals of a program on a SoC, and nothing else: no tensor has memory, no operator computes.

The rules are those of the NumPy backend, and so are devices, streams and events. What depends on data has its largest shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn import rules
from ascend_aclnn.backends.interface import CommunicatorEndpoint, PreparedCall, operands
from ascend_aclnn.backends.numpy.backend import NumpyBackend
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import OUT_OF_MEMORY, AclError, RuleViolation
from ascend_aclnn.core.hccl import CommunicatorConfig
from ascend_aclnn.core.interface import MemoryInfo, MemoryStatistics, Storage, StreamHandle
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.core.tensor import Tensor


class NamedSpec(NamedTuple):
    """A tensor of a call: the parameter's Python name, and what the tensor looks like."""

    name: str
    spec: TensorSpec

    def __str__(self) -> str:
        return f"{self.name} {self.spec.dtype.name} {self.spec.shape}"


class OperatorCall(NamedTuple):
    """One call of an operator, as ``shapes_only`` lists it."""

    operator: str
    inputs: tuple[NamedSpec, ...]
    outputs: tuple[NamedSpec, ...]

    def __str__(self) -> str:
        return f"{self.operator}: {', '.join(map(str, self.inputs))} -> {', '.join(map(str, self.outputs))}"


class ShapeStorage(Storage):
    """The size of a storage."""

    backend: ShapesBackend

    def __init__(self, backend: ShapesBackend, nbytes: int) -> None:
        self.backend = backend
        self.device = 0
        self.nbytes = nbytes
        self._counted = 0
        backend.count(nbytes)
        self._counted = nbytes

    def __del__(self) -> None:
        self.backend.count(-self._counted)

    @property
    def address(self) -> int:
        _no_values()

    @property
    def has_memory(self) -> bool:
        return False

    def read(self, offset: int, nbytes: int) -> npt.NDArray[np.uint8]:
        _no_values()

    def write(self, offset: int, data: npt.NDArray[np.uint8]) -> None:
        return None  # values are taken, so that a program can be run as it is, and not kept

    def record_stream(self, stream: StreamHandle) -> None:
        return None


def _no_values() -> NoReturn:
    raise TypeError("a Tensor of the shapes backend has a shape and a dtype; it has no values and no memory")


class ShapesBackend(NumpyBackend):
    """See backends.interface.Backend.

    ``checks`` False leaves refusing to CANN: only what the shape of an output needs is asked of the inputs. ``calls``,
    where it is a list, gets each call.
    """

    name = "shapes"
    wraps_host_memory = False
    has_values = False

    def __init__(self, soc: str, checks: bool = True) -> None:
        super().__init__(soc)
        self.calls: Optional[list[OperatorCall]] = None
        self._checks = checks
        self._alive = 0
        self._peak = 0

    # operators
    def check(self, operator: Operator, values: Sequence[Any]) -> Optional[RuleViolation]:
        return rules.check(operator, values, self._soc) if self._checks else None

    def unsupported(self, operator: Operator, values: Sequence[Any]) -> Optional[str]:
        return None

    def prepare(self, operator: Operator, values: Sequence[Any], repeatable: bool) -> PreparedCall:
        self.run(operator, values, None)
        return _ShapesPreparedCall(repeatable)

    def run(self, operator: Operator, values: Sequence[Any], stream: Optional[Stream]) -> None:
        violation = self.check(operator, values)
        if violation is not None:
            raise rules.error(operator, violation)
        recorder = self.recorder(stream) if self.captures else None
        if recorder is not None:
            recorder.add("operator", operator.name, _nothing, *operands(operator, values))
        if self.calls is not None:
            inputs = tuple(_specs(operator, values, "in inout"))
            self.calls.append(OperatorCall(operator.name, inputs, tuple(_specs(operator, values, "inout out"))))

    # memory
    def count(self, nbytes: int) -> None:
        """Counts the bytes that a device would hold."""
        with self._lock:
            if self._limit is not None and nbytes > 0 and self._alive + nbytes > self._limit:
                detail = f"{nbytes} bytes asked for, {self._alive} in use, limit {self._limit}"
                raise AclError(OUT_OF_MEMORY, "aclrtMalloc", detail)
            self._alive += nbytes
            self._peak = max(self._peak, self._alive)

    def allocate(self, nbytes: int, device: int) -> ShapeStorage:  # type: ignore[override]  # not a HostStorage
        return ShapeStorage(self, nbytes)

    def borrow(  # type: ignore[override]
        self, address: int, nbytes: int, device: int, owner: object, stream: Optional[StreamHandle] = None
    ) -> ShapeStorage:
        return ShapeStorage(self, nbytes)

    def copy_storage(self, storage: Storage, device: int) -> ShapeStorage:  # type: ignore[override]
        return ShapeStorage(self, storage.nbytes)

    def from_host(self, array: npt.NDArray[Any], dtype: DataType) -> Tensor:
        return Tensor.on(self.allocate(array.nbytes, 0), TensorSpec(array.shape, dtype))

    def allocate_output(self, spec: TensorSpec, for_host: bool) -> Tensor:
        return Tensor.on(self.allocate(spec.storage_nbytes, 0), spec)

    def convert_format(self, tensor: Tensor, format: Format) -> Tensor:
        return self.allocate_output(TensorSpec.of(tensor.shape, tensor.dtype, format=format), False)

    def host_array(self, tensor: Tensor) -> npt.NDArray[Any]:
        _no_values()

    def memory_info(self, device: int) -> MemoryInfo:
        total = super().memory_info(device).total if self._limit is None else self._limit
        return MemoryInfo(max(0, total - self._alive), total, self._alive, 0)

    def memory_statistics(self, device: int) -> MemoryStatistics:
        return MemoryStatistics(self._alive, self._peak, self._alive, self._peak, 0, 0, 0)

    def reset_memory_peaks(self, device: int) -> None:
        with self._lock:
            self._peak = self._alive

    # communication
    def communicator(self, info: bytes, rank: int, size: int, config: CommunicatorConfig) -> NoReturn:
        raise TypeError("the shapes backend does not communicate; use the numpy backend for a program of several ranks")

    def communicators_of_devices(self, devices: Sequence[int]) -> list[CommunicatorEndpoint]:
        return [self.communicator(b"", 0, 1, CommunicatorConfig())]

    def communicator_of_cluster(self, path: str, rank: int, config: CommunicatorConfig) -> NoReturn:
        self.communicator(b"", rank, 0, config)


class _ShapesPreparedCall(PreparedCall):
    def __init__(self, repeatable: bool) -> None:
        self.workspace_size = 0
        self.repeatable = repeatable

    def run(self, stream: Optional[Stream]) -> None:
        return None

    def close(self) -> None:
        return None


def _nothing() -> None:
    """A replay of an operator."""


def _specs(operator: Operator, values: Sequence[Any], directions: str) -> Iterator[NamedSpec]:
    for parameter, value in zip(operator.parameters, values):
        if parameter.direction in directions.split():
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, TensorSpec):
                    spec = TensorSpec(item.shape, item.dtype, item.strides, item.offset, item._format)
                    yield NamedSpec(parameter.python_name, spec)
