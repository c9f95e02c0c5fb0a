"""Host memory as the NumPy backend's storage."""

from __future__ import annotations

import math
import threading
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.backends.numpy.captures import Captures, StreamRecorder
from ascend_aclnn.core import addresses
from ascend_aclnn.core.dtypes import DataType
from ascend_aclnn.core.errors import OUT_OF_MEMORY, AclError
from ascend_aclnn.core.interface import Storage, StreamHandle
from ascend_aclnn.core.stored import StoredTensor, host_dtype
from ascend_aclnn.core.streams import current_stream
from ascend_aclnn.core.tensor import Tensor


class HostBackend(Backend):
    """The part of the NumPy backend that its storages know: it counts their memory against a limit, and captures streams."""

    def __init__(self) -> None:
        self.graphs = Captures()
        self.captures = self.graphs.streams
        self._limit: Optional[int] = None
        self._used = self._peak_used = 0
        self._lock = threading.RLock()

    def recorder(self, stream: Optional[StreamHandle]) -> Optional[StreamRecorder]:
        """What records the work of a stream (None: the current one), where that is captured."""
        chosen = current_stream() if stream is None else stream
        return self.graphs.streams.get((0, chosen.handle))

    def set_memory_limit(self, nbytes: Optional[int]) -> None:
        self._limit = nbytes

    def reserve(self, storage: HostStorage) -> npt.NDArray[np.uint8]:
        """Memory for a storage, counted until the storage dies and calls ``released``."""
        with self._lock:
            if self._limit is not None and self._used + storage.nbytes > self._limit:
                detail = f"{storage.nbytes} bytes asked for, {self._used} in use, limit {self._limit}"
                raise AclError(OUT_OF_MEMORY, "aclrtMalloc", detail)
            self._used += storage.nbytes
            self._peak_used = max(self._peak_used, self._used)
        storage.reserved = storage.nbytes
        return host_memory((storage.nbytes,), np.dtype(np.uint8))

    def released(self, nbytes: int) -> None:
        with self._lock:
            self._used -= nbytes


class HostStorage(Storage):
    """Host memory: reserved at the first touch, or borrowed."""

    backend: HostBackend
    writer: Optional[object] = None  # the capture whose tasks have written it,
    user: Optional[object] = None  # and one whose tasks use it

    def __init__(self, backend: HostBackend, nbytes: int, buffer: Optional[npt.NDArray[np.uint8]] = None) -> None:
        self.backend = backend
        self.device = 0
        self.nbytes = nbytes
        self.array = None
        self.reserved = 0  # bytes that the backend counts for this storage
        self._buffer = buffer
        self._owner: object = None

    def __del__(self) -> None:
        if self.reserved:
            self.backend.released(self.reserved)

    @classmethod
    def over(cls, backend: HostBackend, buffer: npt.NDArray[np.uint8], owner: object = None) -> HostStorage:
        """A storage over existing bytes; ``owner`` is kept alive with it."""
        storage = cls(backend, buffer.nbytes, buffer)
        storage._owner = owner
        return storage

    @property
    def buffer(self) -> npt.NDArray[np.uint8]:
        if self._buffer is None:
            self._buffer = self.backend.reserve(self)
        return self._buffer

    @property
    def has_memory(self) -> bool:
        return self._buffer is not None or self.array is not None

    @property
    def address(self) -> int:
        if self.array is not None:
            return self.array.ctypes.data
        return addresses.give_out(self, self.buffer.ctypes.data)

    def read(self, offset: int, nbytes: int) -> npt.NDArray[np.uint8]:
        if self.backend.captures:
            self.backend.graphs.refuse_copy(self.writer)
        return self.buffer[offset : offset + nbytes]

    def write(self, offset: int, data: npt.NDArray[np.uint8]) -> None:
        if self.backend.captures:
            self.backend.graphs.refuse_copy(self.user)
        self.buffer[offset : offset + data.nbytes] = data

    def write_async(self, offset: int, data: npt.NDArray[np.uint8], stream: Optional[StreamHandle]) -> None:
        self._copy(self.buffer[offset : offset + data.nbytes], data, data, stream)

    def read_async(self, offset: int, data: npt.NDArray[np.uint8], stream: Optional[StreamHandle]) -> None:
        self._copy(data, self.buffer[offset : offset + data.nbytes], data, stream)

    def _copy(
        self,
        target: npt.NDArray[np.uint8],
        source: npt.NDArray[np.uint8],
        host: npt.NDArray[np.uint8],
        stream: Optional[StreamHandle],
    ) -> None:
        """Copies in the order of a stream; ``host`` is the side that is no storage."""
        recorder = self.backend.recorder(stream) if self.backend.captures else None
        if recorder is not None:
            recorder.add_copy(target, source, host, self)
        elif host.nbytes:
            target[...] = source

    def record_stream(self, stream: StreamHandle) -> None:
        return None  # streams run at once: nothing can still use the memory


def wrap_array(backend: HostBackend, array: npt.NDArray[Any], dtype: DataType) -> Tensor:
    """A tensor over an ndarray's own memory. It is for one call: views of it are not made."""
    storage = HostStorage(backend, array.nbytes)
    storage.array = array
    size = array.itemsize
    return Tensor(storage, array.shape, dtype, tuple([s // size for s in array.strides]))


def host_memory(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """An uninitialised array; AclError where the host lacks the memory, as on a full device."""
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError):  # more than the host has, more than NumPy can index
        detail = (
            f"{math.prod(shape) * dtype.itemsize} bytes asked for (shape {shape}, {dtype}): more than this host has"
        )
        raise AclError(OUT_OF_MEMORY, "aclrtMalloc", detail) from None


def host_view(tensor: StoredTensor) -> npt.NDArray[Any]:
    """The elements of a NumPy-backend tensor as an ndarray over its own memory, which the tensor keeps as its handle."""
    if tensor.handle is not None:
        cached_view: npt.NDArray[Any] = tensor.handle
        return cached_view
    storage = tensor.storage
    assert isinstance(storage, HostStorage)
    if storage.array is not None:
        return storage.array
    dtype = host_dtype(tensor.dtype)
    if tensor.size == 0:
        return np.empty(tensor.shape, dtype)
    tensor.check_within(storage.nbytes)
    size = dtype.itemsize
    strides = [s * size if n > 1 else 0 for n, s in zip(tensor.shape, tensor.strides)]  # of one element: any number
    view: npt.NDArray[Any] = np.ndarray(tensor.shape, dtype, storage.buffer.data, tensor.offset * size, strides)
    tensor.handle = view
    return view
