"""The npu backend: what ``backends.interface.Backend`` asks for, on libascendcl and libopapi."""

from __future__ import annotations

import ctypes
import functools
import math
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.backends.interface import Backend, CommunicatorEndpoint
from ascend_aclnn.backends.npu import formats, prototypes
from ascend_aclnn.backends.npu.communication import CollectiveBlock, Hccl, HcclCommunicator
from ascend_aclnn.backends.npu.executor import Launcher, NpuPreparedCall
from ascend_aclnn.backends.npu.graphs import NpuGraph
from ascend_aclnn.backends.npu.library import Libraries, flaw, is_file
from ascend_aclnn.backends.npu.memory import NpuStorage, Pool, address_of, pinned_array
from ascend_aclnn.backends.npu.remembered import NpuRememberedCall, can_be_remembered
from ascend_aclnn.backends.npu.runtime import DEVICE_TO_HOST, HOST_TO_DEVICE, StreamState
from ascend_aclnn.backends.npu.session import Session
from ascend_aclnn.catalog import Operator
from ascend_aclnn.core.dtypes import DataType, Format
from ascend_aclnn.core.errors import STREAM_CAPTURED, AclError
from ascend_aclnn.core.hccl import CommunicatorConfig
from ascend_aclnn.core.interface import (
    DeviceProperties,
    MemoryBlock,
    MemoryInfo,
    MemoryStatistics,
    Storage,
    StreamHandle,
)
from ascend_aclnn.core.socs import accept_reported, soc
from ascend_aclnn.core.spec import TensorSpec
from ascend_aclnn.core.stored import host_dtype
from ascend_aclnn.core.streams import Stream
from ascend_aclnn.core.tensor import Tensor


class NpuBackend(Backend):
    """See backends.interface.Backend. One per process."""

    name = "npu"
    wraps_host_memory = False

    def __init__(self, libraries: Libraries) -> None:
        self.session = Session(self, libraries)
        self.runtime = self.session.runtime
        self.captures = self.runtime.captures
        self._graphs: weakref.WeakSet[NpuGraph] = weakref.WeakSet()
        self.soc = self.runtime.soc
        accept_reported(self.soc)
        self.emulated = libraries.exports("aclemuLiveCount")
        self.launcher = Launcher(self.session)
        self._remembered: weakref.WeakSet[NpuRememberedCall] = weakref.WeakSet()
        self._reachable: dict[tuple[int, int], bool] = {}  # device and peer
        self.runtime.at_exit.append(self._release_handles)

    @property
    def library_path(self) -> Path:
        """The runtime library in use."""
        return self.session.library_path

    def operator_library(self, operator: Operator) -> Path:
        """The library that an operator comes from; UnsupportedOperator where none has it."""
        return self.session.libraries.operator(operator)[2]

    # ------------------------------------------------------------------------------------------ operators
    def prepare(self, operator: Operator, values: Sequence[Any], repeatable: bool) -> NpuPreparedCall:
        return self.launcher.prepare(operator, values, repeatable)

    def run(self, operator: Operator, values: Sequence[Any], stream: Optional[Stream]) -> None:
        self.launcher.run(operator, values, stream)

    def remember(
        self, operator: Operator, values: Sequence[Any], sources: Sequence[int], results: Sequence[int]
    ) -> Optional[NpuRememberedCall]:
        plan = self.launcher.plan(operator)
        if not can_be_remembered(plan, values):
            return None
        call = NpuRememberedCall(self.session, plan, values, sources, results)
        self._remembered.add(call)
        return call

    def graph(self) -> NpuGraph:
        graph = NpuGraph(self.session)
        self._graphs.add(graph)
        return graph

    def convert_format(self, tensor: Tensor, format: Format) -> Tensor:
        return formats.convert(self.launcher, tensor, format)

    def view_shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The shape that an operator with a data-dependent output has given it; waits for the operator.

        The aclTensor with that shape is dropped: the Tensor itself still has its first shape.
        """
        if tensor.handle is None:
            return tensor.shape
        tensor.storage.wait()
        handle, tensor.handle = tensor.handle, None
        return self.session.handles.view_shape(handle.pointer)

    # ------------------------------------------------------------------------------------------ communication
    @functools.cached_property
    def hccl(self) -> Hccl:
        """libhccl, opened at first use."""
        return Hccl(self.session)

    def communicator_root_info(self) -> bytes:
        return self.hccl.root_info()

    def communicator(self, info: bytes, rank: int, size: int, config: CommunicatorConfig) -> HcclCommunicator:
        return self.hccl.join(info, rank, size, config)

    def communicators_of_devices(self, devices: Sequence[int]) -> list[CommunicatorEndpoint]:
        return list(self.hccl.join_devices(devices))

    def communicator_group(self) -> CollectiveBlock:
        return CollectiveBlock()

    def communicator_of_cluster(self, path: str, rank: int, config: CommunicatorConfig) -> HcclCommunicator:
        return self.hccl.join_cluster(path, rank, config)

    # ------------------------------------------------------------------------------------------ memory
    def from_host(self, array: npt.NDArray[Any], dtype: DataType) -> Tensor:
        spec = TensorSpec(array.shape, dtype)
        tensor = Tensor.on(self.allocate(spec.storage_nbytes, self.current_device()), spec)
        tensor.assign(array)
        return tensor

    def copy_in(self, arrays: Sequence[npt.NDArray[Any]], specs: Sequence[TensorSpec]) -> list[Tensor]:
        stream = self.session.target(None)
        tensors = [Tensor.on(self.allocate(spec.storage_nbytes, stream.device.index), spec) for spec in specs]
        storages: list[NpuStorage] = [tensor.storage for tensor in tensors]  # type: ignore[misc]  # as allocate() makes
        for storage in storages:
            storage.use(stream)
        if any(storage.block is not None and not storage.block.fresh for storage in storages):
            self.runtime.wait_stream(stream)  # kernels of the blocks' former users may still run there
        for storage, array in zip(storages, arrays):
            if storage.nbytes:
                host = np.ascontiguousarray(array)
                status = self.runtime.memcpy(
                    storage.base, storage.nbytes, address_of(host), storage.nbytes, HOST_TO_DEVICE
                )
                self.runtime.check("aclrtMemcpy", status)
        return tensors

    def copy_out(self, tensors: Sequence[Optional[Tensor]]) -> list[Optional[npt.NDArray[Any]]]:
        writers = {tensor.storage.writer for tensor in tensors if tensor is not None}  # type: ignore[attr-defined]
        for stream in writers:
            if stream is not None:
                self.runtime.wait_stream(stream)
        return [None if tensor is None else self._elements(tensor) for tensor in tensors]

    def _elements(self, tensor: Tensor) -> npt.NDArray[Any]:
        array = np.empty(tensor.shape, host_dtype(tensor.dtype))
        if array.nbytes:
            base = tensor.storage.address
            status = self.runtime.memcpy(address_of(array), array.nbytes, base, array.nbytes, DEVICE_TO_HOST)
            self.runtime.check("aclrtMemcpy", status)
        return array

    def allocate_output(self, spec: TensorSpec, for_host: bool) -> Tensor:
        return Tensor.on(self.allocate(spec.storage_nbytes, self.current_device()), spec)

    def allocate(self, nbytes: int, device: int) -> NpuStorage:
        return self.session.allocate(nbytes, device)

    def borrow(
        self, address: int, nbytes: int, device: int, owner: object, stream: Optional[StreamHandle] = None
    ) -> NpuStorage:
        storage = NpuStorage.borrow(self, self.runtime, device, nbytes, address, owner)
        if stream is not None:
            storage.owners_stream = stream
            storage.home = self._state(stream)
        return storage

    def memory_info(self, device: int) -> MemoryInfo:
        info: MemoryInfo = self.runtime.stream(device, 0).device.pool.info()
        return info

    def empty_cache(self) -> None:
        for recorder in self.captures.values():
            if recorder.capturing:
                text = "the cache cannot be emptied while a stream is captured"
                raise AclError(STREAM_CAPTURED, "aclrtSynchronizeStream", f"{text} ({recorder.describe()})")
        self._release_remembered()
        for state in list(self.runtime.devices.values()):
            self.runtime.drop_order_events(state)
            state.pool.empty()

    def set_memory_limit(self, nbytes: Optional[int]) -> None:
        """Counts for each device by itself."""
        self.runtime.memory_limit = nbytes

    def set_deterministic(self, level: int) -> None:
        self.runtime.set_deterministic(level)

    def memory_statistics(self, device: int) -> MemoryStatistics:
        return self._pool(device).statistics()

    def reset_memory_peaks(self, device: int) -> None:
        self._pool(device).reset_peaks()

    def memory_snapshot(self, device: int) -> list[MemoryBlock]:
        return self._pool(device).snapshot()

    def record_origins(self, enabled: bool) -> None:
        self.runtime.record_origins = enabled

    def _pool(self, device: int) -> Pool:
        pool: Pool = self.runtime.stream(device, 0).device.pool
        return pool

    def pinned(self, nbytes: int) -> npt.NDArray[np.uint8]:
        return pinned_array(self.runtime, nbytes)

    def device_properties(self, device: int) -> DeviceProperties:
        hardware = soc(self.soc)
        ask = self.runtime.libraries.function("aclGetDeviceCapability")
        numbers = []
        for member in ("ACL_DEVICE_INFO_AI_CORE_NUM", "ACL_DEVICE_INFO_VECTOR_CORE_NUM", "ACL_DEVICE_INFO_L2_SIZE"):
            value = ctypes.c_int64()
            status = ask(device, prototypes.constant("aclDeviceInfo", member), ctypes.byref(value))
            if status:
                self.runtime.recent_error()  # this product does not answer
            numbers.append(0 if status else value.value)
        cube, vector, cache = numbers
        return DeviceProperties(self.soc, hardware.product, cube, vector, cache, self.memory_info(device).total)

    def copy_storage(self, storage: Storage, device: int) -> NpuStorage:
        copy = self.allocate(storage.nbytes, device)
        if copy.nbytes and (device == storage.device or self._can_reach(device, storage.device)):
            copy.copy_from_device(storage)
        elif copy.nbytes:
            copy.write(0, storage.read(0, copy.nbytes))
        return copy

    def _can_reach(self, device: int, peer: int) -> bool:
        """Whether one device may read another's memory; asked, and allowed, once for each pair."""
        reachable = self._reachable.get((device, peer))
        if reachable is None:
            runtime, answer = self.runtime, ctypes.c_int32()
            with runtime.on(runtime.stream(device, 0).device):
                runtime.call("aclrtDeviceCanAccessPeer", ctypes.byref(answer), device, peer)
                if answer.value:
                    runtime.call("aclrtDeviceEnablePeerAccess", peer, 0)
            reachable = self._reachable[device, peer] = bool(answer.value)
        return reachable

    @functools.cached_property
    def _range_functions(self) -> Optional[tuple[Any, Any]]:
        """mstxRangeStartA and mstxRangeEnd of CANN's tools library, where it is installed."""
        path = self.runtime.libraries.directory / "libms_tools_ext.so"
        if not is_file(path) or flaw(path) is not None:
            return None
        library = ctypes.CDLL(str(path))
        try:
            start, end = library.mstxRangeStartA, library.mstxRangeEnd
        except AttributeError:
            return None
        start.restype, start.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_void_p]
        end.restype, end.argtypes = None, [ctypes.c_uint64]
        return start, end

    def start_range(self, message: str, stream: Optional[StreamHandle]) -> Optional[int]:
        functions = self._range_functions
        return None if functions is None else int(functions[0](message.encode(), stream.handle if stream else None))

    def end_range(self, number: int) -> None:
        if self._range_functions is not None:
            self._range_functions[1](number)

    def overflow_mode(self) -> str:
        mode = ctypes.c_int32()
        self.runtime.current()
        self.runtime.call("aclrtGetDeviceSatMode", ctypes.byref(mode))
        saturation = prototypes.constant("aclrtFloatOverflowMode", "ACL_RT_OVERFLOW_MODE_SATURATION")
        return "saturation" if mode.value == saturation else "inf_nan"

    def set_overflow_mode(self, mode: str) -> None:
        self.runtime.current()
        member = "ACL_RT_OVERFLOW_MODE_SATURATION" if mode == "saturation" else "ACL_RT_OVERFLOW_MODE_INFNAN"
        self.runtime.call("aclrtSetDeviceSatMode", prototypes.constant("aclrtFloatOverflowMode", member))

    def set_operator_timeout(self, seconds: float) -> None:
        self.runtime.current()
        self.runtime.call("aclrtSetOpExecuteTimeOut", math.ceil(seconds))

    # ------------------------------------------------------------------------------------------ devices
    def device_count(self) -> int:
        return self.runtime.count

    def current_device(self) -> int:
        return self.runtime.current().index

    def set_device(self, device: int) -> None:
        if not 0 <= device < self.runtime.count:
            raise ValueError(f"device {device}: this host has {self.runtime.count} device(s)")
        self.runtime.make_current(device)

    def synchronize(self, device: int, timeout: Optional[float]) -> None:
        self.runtime.synchronize(self.runtime.stream(device, 0).device, timeout)
        self.runtime.drain()

    # ------------------------------------------------------------------------------------------ streams and events
    def _state(self, stream: StreamHandle) -> StreamState:
        if not stream._release.alive:
            raise ValueError(f"{stream!r} is closed")
        return self.runtime.stream(stream.device, stream.handle)

    def keep_until_passed(self, owner: object, stream: StreamHandle) -> None:
        self.runtime.keep_until_passed(owner, self._state(stream))

    def create_stream(self, device: int, priority: int) -> int:
        self.runtime.drain()
        return self.runtime.create_stream(self.runtime.stream(device, 0).device, priority)

    def destroy_stream(self, device: int, stream: int) -> None:
        self.runtime.destroy_stream(device, stream)

    def stream_synchronize(self, stream: StreamHandle, timeout: Optional[float]) -> None:
        self.runtime.wait_stream(self._state(stream), timeout)

    def stream_done(self, stream: StreamHandle) -> bool:
        return self.runtime.stream_done(self._state(stream))

    def stream_wait_event(self, stream: StreamHandle, event: int) -> None:
        state = self._state(stream)
        with self.runtime.on(state.device):
            self.runtime.call("aclrtStreamWaitEvent", state.handle, event)
        for graph in self._capturing():
            if graph.record.knows(event):
                if state.graph is None:
                    graph.join(state)
                graph.record.wait(event, state.handle)

    def _capturing(self) -> set[NpuGraph]:
        """The graphs that are captured now."""
        return {graph for graph in self._graphs if graph.capturing} if self.captures else set()

    def create_event(self, device: int) -> int:
        flags = prototypes.constant("constants", "ACL_EVENT_SYNC")
        flags |= prototypes.constant("constants", "ACL_EVENT_TIME_LINE")
        return self.runtime.create_event(self.runtime.stream(device, 0).device, flags)

    def destroy_event(self, device: int, event: int) -> None:
        self.runtime.destroy_event(device, event)

    def event_record(self, event: int, stream: StreamHandle) -> None:
        state = self._state(stream)
        with self.runtime.on(state.device):
            self.runtime.check("aclrtRecordEvent", self.runtime.record_event(event, state.handle))
        for graph in self._capturing():
            if state.graph is graph:
                graph.record.record(event, state.handle)
            else:
                graph.record.forget(event)

    def event_synchronize(self, event: int, timeout: Optional[float]) -> None:
        self.runtime.wait_event(event, timeout)

    def event_done(self, event: int) -> bool:
        return self.runtime.event_done(event)

    def event_elapsed(self, start: int, end: int) -> float:
        return self.runtime.elapsed(start, end)

    # ------------------------------------------------------------------------------------------ the end
    def _release_remembered(self) -> None:
        for call in list(self._remembered):
            call.release()

    def _release_handles(self) -> None:
        """At exit: executors first, then the aclTensors that Tensors still hold."""
        for graph in list(self._graphs):
            graph.close()
        self.launcher.close()
        self._release_remembered()
        self.session.handles.close()
