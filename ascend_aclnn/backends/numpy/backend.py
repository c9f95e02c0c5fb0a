"""The NumPy backend: checks as CANN's phase one does, then answers with a reference, rounding once at the end.

Memory is host memory and streams run at once, so everything is done when a call returns; the rules are those of the
SoC that the backend was made for.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn import rules
from ascend_aclnn.backends.interface import CommunicatorEndpoint, HostRunner, PreparedCall, operands
from ascend_aclnn.backends.numpy import run
from ascend_aclnn.backends.numpy.captures import HostGraph, PinnedMemory, StreamRecorder, tensors_among
from ascend_aclnn.backends.numpy.storage import HostBackend, HostStorage, host_memory, host_view, wrap_array
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import STREAM_CAPTURED, AclError, RuleViolation
from ascend_aclnn.core.interface import (
    DeviceProperties,
    MemoryBlock,
    MemoryInfo,
    MemoryStatistics,
    Storage,
    StreamHandle,
)
from ascend_aclnn.core.socs import soc as find_soc
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.core.tensor import Tensor

if TYPE_CHECKING:  # imported on use: most programs do not communicate
    from ascend_aclnn.backends.numpy import communication
    from ascend_aclnn.core.hccl import CommunicatorConfig


class NumpyBackend(HostBackend):
    """See backends.interface.Backend."""

    name = "numpy"
    emulated = False
    wraps_host_memory = True

    def __init__(self, soc: str) -> None:
        super().__init__()
        self._soc = find_soc(soc)
        self.soc = self._soc.name
        self._handles = itertools.count(1)
        self._recorded: dict[int, float] = {}

    # operators
    def check(self, operator: Operator, values: Sequence[Any]) -> Optional[RuleViolation]:
        """What CANN's phase one would refuse on this SoC; None if nothing."""
        violation = rules.check(operator, values, self._soc)
        return run.missing_group(operator, values) if violation is None and operator.groups else violation

    def infer(self, operator: Operator, values: Sequence[Any]) -> dict[str, rules.OutputSpecs]:
        """Outputs that inputs have, by C name; RuleViolation where phase one would refuse the inputs."""
        violation = rules.check_inputs(operator, values, self._soc)
        if violation is not None:
            raise violation
        return rules.infer(operator, values, self._soc)

    def unsupported(self, operator: Operator, values: Sequence[Any]) -> Optional[str]:
        """Why ``execute`` cannot run the operator on such values, though CANN can; None if it can."""
        return run.unsupported(operator, values, self._soc)

    def execute(self, operator: Operator, values: Sequence[Any]) -> None:
        """Phase two: runs the reference on values that ``check`` has passed."""
        self.bind(operator, values).run()

    def bind(self, operator: Operator, values: Sequence[Any]) -> run.BoundCall:
        """``execute`` bound to these values, to be repeated; UnsupportedOperator where that is impossible."""
        return run.BoundCall(operator, values, self._soc)

    def host_array(self, tensor: Tensor) -> npt.NDArray[Any]:
        return host_view(tensor)

    def prepare(self, operator: Operator, values: Sequence[Any], repeatable: bool) -> PreparedCall:
        violation = self.check(operator, values)
        if violation is not None:
            raise rules.error(operator, violation)
        return _NumpyPreparedCall(self, operator, values, repeatable)

    def run(self, operator: Operator, values: Sequence[Any], stream: Optional[Stream]) -> Optional[HostRunner]:
        violation = self.check(operator, values)
        if violation is not None:
            raise rules.error(operator, violation)
        recorder = self.recorder(stream) if self.captures else None
        if recorder is not None:
            self._record(recorder, operator, values)
            return None
        bound = self.bind(operator, values)
        bound.run()
        return None if bound.arguments is None else bound.runner

    def _record(self, recorder: StreamRecorder, operator: Operator, values: Sequence[Any]) -> None:
        """Records a call instead of running it."""
        read, written = operands(operator, values)
        storages = [tensor.storage for tensor in tensors_among(written)]
        if any(storage.array is not None for storage in storages):
            text = f"{operator.name} was called with ndarrays, whose results the host would have to wait for"
            raise AclError(STREAM_CAPTURED, "aclrtSynchronizeStream", f"{text} ({recorder.describe()})")
        for storage in storages:
            if not storage.has_memory:
                recorder.graph.adopt(storage)
        with self.graphs.on_device():
            bound = self.bind(operator, values)
        bound.settle()
        recorder.add("operator", operator.name, bound.run, read, written)

    def graph(self) -> HostGraph:
        return HostGraph(self.graphs)

    def view_shape(self, tensor: Tensor) -> tuple[int, ...]:
        return tensor.shape

    def convert_format(self, tensor: Tensor, format: Format) -> Tensor:
        spec = TensorSpec.of(tensor.shape, tensor.dtype, format=format)
        converted = Tensor.on(self.allocate(spec.storage_nbytes, 0), spec)

        def convert() -> None:
            with self.graphs.on_device():
                converted.assign(tensor.numpy())

        recorder = self.recorder(None) if self.captures else None
        if recorder is None:
            convert()
        else:
            recorder.graph.adopt(converted.storage)
            recorder.add("operator", "aclnnNpuFormatCast", convert, [tensor], [converted])
        return converted

    # communication
    def communicator_root_info(self) -> bytes:
        from ascend_aclnn.backends.numpy import communication

        return communication.root_info()

    def communicator(
        self, info: bytes, rank: int, size: int, config: CommunicatorConfig
    ) -> communication.HostCommunicator:
        from ascend_aclnn.backends.numpy import communication

        return communication.HostCommunicator(self, info, rank, size, config)

    def communicators_of_devices(self, devices: Sequence[int]) -> list[CommunicatorEndpoint]:
        from ascend_aclnn.backends.numpy import communication

        for device in devices:
            self.set_device(device)  # there is one
        return [communication.HostCommunicator(self, communication.root_info(), 0, 1)]

    def communicator_of_cluster(
        self, path: str, rank: int, config: CommunicatorConfig
    ) -> communication.HostCommunicator:
        from ascend_aclnn.backends.numpy import communication

        return communication.cluster(self, path, rank, config)

    # memory
    def from_host(self, array: npt.NDArray[Any], dtype: DataType) -> Tensor:
        if self.captures:  # on a device this is a copy
            self.graphs.refuse_copy()
            return wrap_array(self, np.array(array, dtype.numpy, order="C"), dtype)
        size = array.itemsize
        plain = array.dtype.isnative and not [s for s in array.strides if s < 0 or s % size]
        return wrap_array(self, array if plain else np.array(array, dtype.numpy, order="C"), dtype)

    def allocate_output(self, spec: TensorSpec, for_host: bool) -> Tensor:
        if for_host and spec.dtype.numpy is not None:
            tensor = wrap_array(self, host_memory(spec.shape, spec.dtype.numpy), spec.dtype)
            return tensor if spec.has_auto_format else tensor.with_format(spec.format)
        return Tensor.on(self.allocate(spec.storage_nbytes, 0), spec)

    def allocate(self, nbytes: int, device: int) -> HostStorage:
        return HostStorage(self, nbytes)

    def borrow(
        self, address: int, nbytes: int, device: int, owner: object, stream: Optional[StreamHandle] = None
    ) -> HostStorage:
        raw = (ctypes.c_uint8 * nbytes).from_address(address)
        return HostStorage.over(self, np.frombuffer(raw, np.uint8), owner)  # type: ignore[call-overload]

    def memory_info(self, device: int) -> MemoryInfo:
        page = os.sysconf("SC_PAGE_SIZE")
        total, free = os.sysconf("SC_PHYS_PAGES") * page, os.sysconf("SC_AVPHYS_PAGES") * page
        if self._limit is not None:
            free = min(free, max(0, self._limit - self._used))
        return MemoryInfo(free, total, self._used, 0)

    def empty_cache(self) -> None:
        self.graphs.refuse_wait("aclrtSynchronizeStream", "the cache cannot be emptied")

    def set_deterministic(self, level: int) -> None:
        return None  # the references sum in a fixed order

    def memory_statistics(self, device: int) -> MemoryStatistics:
        return MemoryStatistics(self._used, self._peak_used, self._used, self._peak_used, 0, 0, 0)

    def reset_memory_peaks(self, device: int) -> None:
        with self._lock:
            self._peak_used = self._used

    def memory_snapshot(self, device: int) -> list[MemoryBlock]:
        return []  # NumPy's memory, which tracemalloc counts

    def record_origins(self, enabled: bool) -> None:
        return None

    def pinned(self, nbytes: int) -> npt.NDArray[np.uint8]:
        memory = PinnedMemory(nbytes)
        self.graphs.pinned.add(memory)
        return np.asarray(memory)

    def device_properties(self, device: int) -> DeviceProperties:
        return DeviceProperties(self.soc, find_soc(self.soc).product, 0, 0, 0, self.memory_info(device).total)

    def copy_storage(self, storage: Storage, device: int) -> HostStorage:
        copy = self.allocate(storage.nbytes, device)
        if storage.nbytes:
            copy.write(0, storage.read(0, storage.nbytes))
        return copy

    def overflow_mode(self) -> str:
        return "inf_nan"  # what references compute

    def set_overflow_mode(self, mode: str) -> None:
        if mode != "inf_nan":
            raise NotImplementedError("the NumPy backend computes infinities and NaN; it does not saturate")

    def set_operator_timeout(self, seconds: float) -> None:
        return None

    # devices, streams, events: one device, streams that run at once
    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def set_device(self, device: int) -> None:
        if device != 0:
            raise ValueError(f"device {device}: the NumPy backend has one device, 0")

    def synchronize(self, device: int, timeout: Optional[float]) -> None:
        self.graphs.refuse_wait("aclrtSynchronizeDevice", "the device cannot be waited for")

    def create_stream(self, device: int, priority: int) -> int:
        self.set_device(device)
        return next(self._handles)

    def destroy_stream(self, device: int, stream: int) -> None:
        return None

    def stream_synchronize(self, stream: StreamHandle, timeout: Optional[float]) -> None:
        self.refuse_captured(stream, "aclrtSynchronizeStream", "a stream cannot be waited for while it is captured")

    def stream_done(self, stream: StreamHandle) -> bool:
        self.refuse_captured(stream, "aclrtStreamQuery", "a stream cannot be asked while it is captured")
        return True

    def stream_wait_event(self, stream: StreamHandle, event: int) -> None:
        if self.captures:
            self.graphs.wait_event(event, stream)

    def create_event(self, device: int) -> int:
        self.set_device(device)
        return next(self._handles)

    def destroy_event(self, device: int, event: int) -> None:
        self._recorded.pop(event, None)
        self.graphs.forget_event(event)

    def event_record(self, event: int, stream: StreamHandle) -> None:
        if not self.graphs.record_event(event, stream):
            self._recorded[event] = time.perf_counter()

    def event_synchronize(self, event: int, timeout: Optional[float]) -> None:
        self.graphs.refuse_event(event, "aclrtSynchronizeEvent")

    def event_done(self, event: int) -> bool:
        self.graphs.refuse_event(event, "aclrtQueryEventStatus")
        return True

    def event_elapsed(self, start: int, end: int) -> float:
        for event in (start, end):
            self.graphs.refuse_event(event, "aclrtEventElapsedTime")
        missing = [e for e in (start, end) if e not in self._recorded]
        if missing:
            raise ValueError("elapsed_ms needs two recorded events")
        return (self._recorded[end] - self._recorded[start]) * 1e3


class _NumpyPreparedCall(PreparedCall):
    def __init__(self, backend: NumpyBackend, operator: Operator, values: Sequence[Any], repeatable: bool) -> None:
        self.workspace_size = 0
        self.repeatable = repeatable
        self._backend, self._operator, self._values = backend, operator, values
        self._bound: Optional[run.BoundCall] = None

    def run(self, stream: Optional[Stream]) -> None:
        backend = self._backend
        recorder = backend.recorder(stream) if backend.captures else None
        if recorder is not None:
            backend._record(recorder, self._operator, self._values)
            return
        if self._bound is None:
            self._bound = backend.bind(self._operator, self._values)
        self._bound.run()

    def close(self) -> None:
        return None
