"""What tensors and streams need of a backend: memory, devices, streams and events.

``Backend`` in ``ascend_aclnn.backends.interface`` adds what works on tensors: operators and communication.
"""

from __future__ import annotations

import abc
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.core.errors import STREAM_CAPTURED, AclError


class MemoryInfo(NamedTuple):
    """Bytes: free and total of the device, and what this process holds (in use by tensors, kept for reuse)."""

    free: int
    total: int
    used: int
    cached: int


class MemoryStatistics(NamedTuple):
    """Counters of a device's memory pool: bytes, and requests to the device and to the pool."""

    used: int  # in use by tensors
    peak_used: int
    reserved: int  # taken from the device
    peak_reserved: int
    segments: int  # pieces taken from the device
    allocations: int  # of tensors and workspaces, ever
    from_cache: int  # of these, served without the device


class MemoryBlock(NamedTuple):
    """A piece of device memory in use, and the line of the program that allocated it, where that was recorded."""

    address: int
    nbytes: int
    stream: int
    origin: str


class DeviceProperties(NamedTuple):
    """Properties of a device; 0 where the backend does not know."""

    soc: str
    product: str
    cube_cores: int
    vector_cores: int
    l2_cache: int  # bytes
    total_memory: int  # bytes


class StreamHandle(abc.ABC):
    """A stream as a backend sees it. ``core.streams.Stream`` is the one class of it."""

    backend: DeviceInterface
    device: int
    _handle: int
    _release: weakref.finalize[..., Any]  # dead once the stream is closed

    @property
    @abc.abstractmethod
    def handle(self) -> int:
        """The backend's raw handle (aclrtStream); 0 is the default stream."""

    @abc.abstractmethod
    def wait_stream(self, other: StreamHandle) -> None:
        """Work queued from now on runs after what is queued on another stream now."""


class GraphState:
    """What memory knows of the graph whose capture made it."""

    replayed = False


class Recorder(abc.ABC):
    """Takes what is queued on a stream: for a graph that is captured, or to replace the tasks of a task group."""

    capturing: bool

    @abc.abstractmethod
    def describe(self) -> str:
        """ "graph 1, mode global; captured last: aclnnAdd, task 3", for messages."""


class Storage(abc.ABC):
    """One allocation of a backend's memory, shared by a tensor and its views and released exactly once."""

    backend: DeviceInterface
    device: int
    nbytes: int
    array: Optional[npt.NDArray[Any]] = None  # the ndarray that the storage stands for as a whole, strides and all

    @property
    @abc.abstractmethod
    def address(self) -> int:
        """Address of the first byte; the memory is reserved when this is first asked for."""

    @abc.abstractmethod
    def read(self, offset: int, nbytes: int) -> npt.NDArray[np.uint8]:
        """A host copy (or, on the NumPy backend, a view) of some bytes, after the last writer's stream has passed."""

    @abc.abstractmethod
    def write(self, offset: int, data: npt.NDArray[np.uint8]) -> None:
        """Copies host bytes into the storage; ordered after the work that uses it, done when this returns."""

    owner: object = None  # the owner of borrowed memory
    graph: Optional[GraphState] = None  # that the memory was made for, while it was captured

    @property
    @abc.abstractmethod
    def has_memory(self) -> bool:
        """False until the memory is reserved."""

    def wait(self) -> None:
        """Waits for the stream that wrote last."""
        return

    def make_wait(self, stream: StreamHandle) -> None:
        """Makes what is queued on a stream from now on run after what wrote last."""
        return

    def write_async(self, offset: int, data: npt.NDArray[np.uint8], stream: Optional[StreamHandle]) -> None:
        """Queues a copy of contiguous host bytes into the storage; ``data`` is kept until it has run."""
        self.write(offset, data)

    def read_async(self, offset: int, data: npt.NDArray[np.uint8], stream: Optional[StreamHandle]) -> None:
        """Queues a copy of bytes of the storage into contiguous host memory, which is kept until it has run."""
        data[...] = self.read(offset, data.nbytes)

    @abc.abstractmethod
    def record_stream(self, stream: StreamHandle) -> None:
        """Keeps the memory from being reused before what is now queued on another stream has run."""


class DeviceInterface(abc.ABC):
    """Memory, devices, streams and events of a backend."""

    name: str
    soc: str
    emulated: bool
    wraps_host_memory: bool  # an ndarray can be an operator's argument as it is
    has_values = True  # False: tensors have shapes and dtypes only, and operators compute nothing
    # what is queued on these streams (device and handle) is recorded and not run; mostly empty
    captures: Mapping[tuple[int, int], Recorder]

    def refuse_captured(self, stream: StreamHandle, routine: str, why: str) -> None:
        """Raises 107027 while a stream is captured."""
        recorder = self.captures.get((stream.device, stream.handle))
        if recorder is not None and recorder.capturing:
            raise AclError(STREAM_CAPTURED, routine, f"{why} ({recorder.describe()})")

    # memory
    @abc.abstractmethod
    def allocate(self, nbytes: int, device: int) -> Storage:
        """A Storage whose memory is reserved at its first touch."""

    @abc.abstractmethod
    def borrow(
        self, address: int, nbytes: int, device: int, owner: object, stream: Optional[StreamHandle] = None
    ) -> Storage:
        """A Storage over memory with another owner; ``owner`` is kept alive with it.

        ``stream`` is the stream on which the owner uses the memory, also after its release. With a stream and no owner
        the memory is used on that stream alone, as the owner would, and only while the owner lives.
        """

    @abc.abstractmethod
    def memory_info(self, device: int) -> MemoryInfo: ...

    @abc.abstractmethod
    def empty_cache(self) -> None: ...

    @abc.abstractmethod
    def set_memory_limit(self, nbytes: Optional[int]) -> None: ...

    @abc.abstractmethod
    def set_deterministic(self, level: int) -> None:
        """0: off, 1: on; newer CANNs know 2 and 3."""

    @abc.abstractmethod
    def memory_statistics(self, device: int) -> MemoryStatistics: ...

    @abc.abstractmethod
    def reset_memory_peaks(self, device: int) -> None:
        """The peaks of the statistics begin again at what is in use."""

    @abc.abstractmethod
    def memory_snapshot(self, device: int) -> list[MemoryBlock]: ...

    @abc.abstractmethod
    def record_origins(self, enabled: bool) -> None:
        """Whether the program's lines that ask for memory are recorded from now on."""

    @abc.abstractmethod
    def pinned(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """Host memory that the device copies from and to asynchronously, as bytes."""

    @abc.abstractmethod
    def device_properties(self, device: int) -> DeviceProperties: ...

    @abc.abstractmethod
    def overflow_mode(self) -> str:
        """ "inf_nan" or "saturation": what becomes of results beyond a type's range, on the current device."""

    @abc.abstractmethod
    def set_overflow_mode(self, mode: str) -> None: ...

    @abc.abstractmethod
    def set_operator_timeout(self, seconds: float) -> None: ...

    @abc.abstractmethod
    def copy_storage(self, storage: Storage, device: int) -> Storage:
        """A storage with the same bytes on another device; done when this returns."""

    def start_range(self, message: str, stream: Optional[StreamHandle]) -> Optional[int]:
        """Begins a named range in a profile; None without a profiler's library."""
        return None

    def end_range(self, number: int) -> None:
        return None

    # devices, streams, events: raw handles, owned by the classes of ascend_aclnn.core.streams
    @abc.abstractmethod
    def device_count(self) -> int: ...

    @abc.abstractmethod
    def current_device(self) -> int: ...

    @abc.abstractmethod
    def set_device(self, device: int) -> None: ...

    @abc.abstractmethod
    def synchronize(self, device: int, timeout: Optional[float]) -> None:
        """Waits for everything on a device; TimeoutError after ``timeout`` seconds."""

    @abc.abstractmethod
    def create_stream(self, device: int, priority: int) -> int: ...

    @abc.abstractmethod
    def destroy_stream(self, device: int, stream: int) -> None:
        """Synchronises and destroys; called once for each created stream. Never raises."""

    @abc.abstractmethod
    def stream_synchronize(self, stream: StreamHandle, timeout: Optional[float]) -> None: ...

    @abc.abstractmethod
    def stream_done(self, stream: StreamHandle) -> bool: ...

    @abc.abstractmethod
    def stream_wait_event(self, stream: StreamHandle, event: int) -> None: ...

    def keep_until_passed(self, owner: object, stream: StreamHandle) -> None:
        """Keeps an object alive until what is queued on a stream has run."""
        return

    @abc.abstractmethod
    def create_event(self, device: int) -> int: ...

    @abc.abstractmethod
    def destroy_event(self, device: int, event: int) -> None:
        """Called once for each created event. Never raises."""

    @abc.abstractmethod
    def event_record(self, event: int, stream: StreamHandle) -> None: ...

    @abc.abstractmethod
    def event_synchronize(self, event: int, timeout: Optional[float]) -> None: ...

    @abc.abstractmethod
    def event_done(self, event: int) -> bool: ...

    @abc.abstractmethod
    def event_elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two recorded events."""
