"""Device, Stream and Event: thin owners of a backend's handles, the same on both backends."""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union

import numpy.typing as npt

from ascend_aclnn.core.current import current_backend
from ascend_aclnn.core.dtypes import DTypeLike, as_datatype
from ascend_aclnn.core.interface import (
    DeviceInterface,
    DeviceProperties,
    MemoryBlock,
    MemoryInfo,
    MemoryStatistics,
    StreamHandle,
)

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Result = TypeVar("Result")


class Device:
    """One device by its index; ``with Device(1):`` makes it current for this thread."""

    def __init__(self, index: int = 0) -> None:
        self.backend = current_backend()
        if isinstance(index, bool) or not hasattr(index, "__index__"):
            raise TypeError(f"device index is {index!r}; it must be an integer, the device's index")
        self.index = index
        if not 0 <= index < self.backend.device_count():
            raise ValueError(f"device {index}: this host has {self.backend.device_count()} device(s)")
        self._previous: list[int] = []

    def use(self) -> None:
        """Makes the device current for this thread."""
        self.backend.set_device(self.index)

    def synchronize(self, timeout: Optional[float] = None) -> None:
        """Waits for everything that was queued on the device."""
        self.backend.synchronize(self.index, timeout)

    def memory_info(self) -> MemoryInfo:
        return self.backend.memory_info(self.index)

    @property
    def properties(self) -> DeviceProperties:
        """SoC, product, cores and memory of the device."""
        return self.backend.device_properties(self.index)

    def __enter__(self) -> Device:
        self._previous.append(self.backend.current_device())
        self.use()
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.backend.set_device(self._previous.pop())

    def __repr__(self) -> str:
        return f"Device({self.index})"


class Stream(StreamHandle):
    """An ordered queue of a device. ``with stream:`` makes it current for this thread.

    ``priority`` 0 is the highest, 7 the lowest that CANN has.
    """

    _callbacks: Optional[ThreadPoolExecutor] = None  # made by the first callback

    def __init__(self, device: Optional[int] = None, *, priority: int = 0) -> None:
        if not 0 <= priority <= 7:
            raise ValueError(f"priority is {priority}; it must be in [0, 7]")
        self.backend: DeviceInterface = current_backend()
        self.device = self.backend.current_device() if device is None else device
        self._handle = self.backend.create_stream(self.device, priority)
        self._release: weakref.finalize[..., Stream] = weakref.finalize(
            self, self.backend.destroy_stream, self.device, self._handle
        )
        self._release.atexit = False  # the backend destroys the remaining handles, in the right order

    @classmethod
    def from_handle(cls, handle: int, device: Optional[int] = None, *, owner: object = None) -> Stream:
        """A stream with another owner (torch_npu: ``torch.npu.current_stream().npu_stream``); 0 is the default stream."""
        backend = current_backend()
        return cls.adopt(backend, backend.current_device() if device is None else device, handle, owner)

    @classmethod
    def adopt(cls, backend: DeviceInterface, device: int, handle: int, owner: object = None) -> Stream:
        """The same on any backend, which need not be the one in use."""
        stream = cls.__new__(cls)
        stream._adopt(backend, device, handle, owner)
        return stream

    def _adopt(self, backend: DeviceInterface, device: int, handle: int, owner: object) -> None:
        """Borrows a stream, whose owner destroys it."""
        self.backend, self.device, self._handle = backend, device, handle
        self._release = weakref.finalize(self, _let_go, owner)
        self._release.atexit = False

    @property
    def handle(self) -> int:
        """The backend's raw handle (aclrtStream); 0 is the default stream."""
        return self._handle

    def synchronize(self, timeout: Optional[float] = None) -> None:
        """Waits until everything queued so far has run; TimeoutError after ``timeout`` seconds."""
        self.backend.stream_synchronize(self, timeout)

    def done(self) -> bool:
        """True when nothing is left to run."""
        return self.backend.stream_done(self)

    def wait_event(self, event: Event) -> None:
        """Work queued from now on runs after the event."""
        self.backend.stream_wait_event(self, event.handle)

    def wait_stream(self, other: StreamHandle) -> None:
        """Work queued from now on runs after what is queued on another stream now."""
        handle = other.handle  # read once: a borrowed stream's handle may change
        if other.device == self.device and handle == self.handle:
            return
        event = Event(other.device)
        event.record(Stream.from_handle(handle, other.device) if handle != other._handle else other)
        self.wait_event(event)
        self.backend.keep_until_passed(event, self)

    def record_event(self, event: Optional[Event] = None) -> Event:
        """Records an event (by default a new one) after what is queued."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def add_callback(self, function: Callable[[], Result]) -> Future[Result]:
        """Calls a function once everything queued so far has run; the future has what it returns or raises.

        A stream's functions are called in order, on a Python thread, while the stream goes on (CANN's
        ACL_CALLBACK_NO_BLOCK). A blocking callback on a thread of the runtime would wait for the interpreter lock while its
        stream waits for the callback: with torch_npu's queue in front of the stream that can deadlock. The program does
        not end before its callbacks have.
        """
        from concurrent.futures import ThreadPoolExecutor

        if self.backend.captures:
            text = "a callback waits for its stream, and would not be called at each replay; add it after the replay"
            self.backend.refuse_captured(self, "aclrtSynchronizeEvent", text)
        event = self.record_event()
        if self._callbacks is None:
            self._callbacks = ThreadPoolExecutor(1, "ascend-aclnn-callbacks")
        return self._callbacks.submit(_call_after, event, function)

    def close(self) -> None:
        """Synchronises and destroys the stream; idempotent. A borrowed stream is only released."""
        if self._release.alive and self.backend.captures:
            self.backend.refuse_captured(
                self, "aclrtDestroyStream", "a stream cannot be destroyed while it is captured"
            )
        self._release()

    def __enter__(self) -> Stream:
        entered_streams().append(self)
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        entered_streams().pop()

    def __repr__(self) -> str:
        return f"Stream({self.handle:#x}, device {self.device})"


def check_stream(stream: object, backend: DeviceInterface) -> None:
    """TypeError unless it is a stream of the backend, ValueError once it is closed and its handle is invalid."""
    if not isinstance(stream, Stream):
        raise TypeError(f"stream is {stream!r}; it must be a Stream (Stream.from_handle makes one of a raw handle)")
    if stream.backend is not backend:
        raise TypeError(f"stream is of the {stream.backend.name} backend; the backend in use is {backend.name}")
    if not stream._release.alive:
        raise ValueError(f"{stream!r} is closed")


class Event:
    """A mark in a stream that other streams and the host can wait for; keeps time."""

    def __init__(self, device: Optional[int] = None) -> None:
        self.backend: DeviceInterface = current_backend()
        self.device = self.backend.current_device() if device is None else device
        self.handle = self.backend.create_event(self.device)
        self._release = weakref.finalize(self, self.backend.destroy_event, self.device, self.handle)
        self._release.atexit = False

    def __repr__(self) -> str:
        return f"Event(device {self.device})"

    def record(self, stream: Optional[StreamHandle] = None) -> None:
        """Marks the work queued so far on a stream (by default the current one)."""
        self.backend.event_record(self.handle, current_stream() if stream is None else stream)

    def synchronize(self, timeout: Optional[float] = None) -> None:
        self.backend.event_synchronize(self.handle, timeout)

    def done(self) -> bool:
        return self.backend.event_done(self.handle)

    def elapsed_ms(self, end: Event) -> float:
        """Milliseconds from this event to a later one; both must have passed."""
        return self.backend.event_elapsed(self.handle, end.handle)

    def close(self) -> None:
        self._release()


def _call_after(event: Event, function: Callable[[], Result]) -> Result:
    event.synchronize()
    event.close()
    return function()


def _let_go(owner: object) -> None:
    """Releases a borrowed stream: nothing is destroyed, the owner is no longer kept alive."""


class _EnteredStreams(threading.local):
    def __init__(self) -> None:
        self.stack: list[Stream] = []


_entered = _EnteredStreams()


def entered_streams() -> list[Stream]:
    """The streams of this thread's ``with stream:`` blocks, innermost last."""
    return _entered.stack


class _DefaultStreams(threading.local):
    """The default stream of each device, for this thread."""

    def __init__(self) -> None:
        self._streams: dict[tuple[int, int], Stream] = {}

    def of(self, backend: DeviceInterface) -> Stream:
        key = (id(backend), backend.current_device())
        if key not in self._streams:
            self._streams[key] = Stream.from_handle(0, key[1])
        return self._streams[key]


_defaults = _DefaultStreams()


def current_stream() -> Stream:
    """The stream that calls without ``stream=`` use: the innermost ``with stream:``, else the device's default stream."""
    backend = current_backend()
    for stream in reversed(entered_streams()):
        if stream.backend is backend and stream.device == backend.current_device():
            return stream
    return _defaults.of(backend)


def synchronize(timeout: Optional[float] = None) -> None:
    """Waits for everything queued on the current device; TimeoutError after ``timeout`` seconds."""
    backend = current_backend()
    backend.synchronize(backend.current_device(), timeout)


def set_deterministic(level: Union[bool, int]) -> None:
    """Asks operators for bit-reproducible results, where CANN has such a mode; set it before calling them.

    False is off, True on. Newer CANNs take 2 (strong consistency) and 3 (the same for each item of any batch).
    """
    if not 0 <= int(level) <= 3:
        raise ValueError(f"level is {level}; it must be False, True, 2 or 3")
    current_backend().set_deterministic(int(level))


def overflow_mode() -> str:
    """ "inf_nan" or "saturation": what becomes of floating-point results beyond a type's range on the current device."""
    return current_backend().overflow_mode()


def set_overflow_mode(mode: str) -> None:
    """Chooses it, for streams that are made afterwards. The default is the device's: inf_nan wherever the device has it,
    which is also what torch_npu sets."""
    if mode not in ("inf_nan", "saturation"):
        raise ValueError(f"mode is {mode!r}; it must be 'inf_nan' or 'saturation'")
    current_backend().set_overflow_mode(mode)


def set_operator_timeout(seconds: float) -> None:
    """The longest that one operator may run on the device before it is ended with an error."""
    if not seconds > 0:
        raise ValueError(f"seconds is {seconds}; it must be positive")
    current_backend().set_operator_timeout(seconds)


def pinned(shape: Union[int, Sequence[int]], dtype: DTypeLike) -> npt.NDArray[Any]:
    """An uninitialised ndarray in host memory that the device copies from and to while the host goes on.

    See ``Tensor.copy_from`` and ``Tensor.copy_to``. On the NumPy backend it is an ordinary ndarray.
    """
    dims = (shape,) if isinstance(shape, int) else tuple(shape)
    kind = as_datatype(dtype).numpy
    if kind is None:
        raise TypeError(f"{as_datatype(dtype).name} has no NumPy counterpart")
    return current_backend().pinned(math.prod(dims) * kind.itemsize).view(kind).reshape(dims)


@contextlib.contextmanager
def profiling_range(message: str, stream: Optional[Stream] = None) -> Iterator[None]:
    """Names a stretch of the program in profiles (mstx), with its work on a stream where one is given.

    Nothing happens where CANN's tools library is absent, and on the NumPy backend.
    """
    backend = current_backend()
    number = backend.start_range(message, stream)
    try:
        yield
    finally:
        if number is not None:
            backend.end_range(number)


def memory_statistics() -> MemoryStatistics:
    """Counters of the current device's memory pool."""
    backend = current_backend()
    return backend.memory_statistics(backend.current_device())


def reset_memory_peaks() -> None:
    """Makes the peaks of ``memory_statistics()`` begin again at what the current device's pool has in use."""
    backend = current_backend()
    backend.reset_memory_peaks(backend.current_device())


def memory_snapshot() -> list[MemoryBlock]:
    """The pieces of the current device's memory that are in use, largest first.

    The line of the program is known for memory allocated under ``record_memory_origins(True)``.
    """
    backend = current_backend()
    return sorted(backend.memory_snapshot(backend.current_device()), key=lambda block: -block.nbytes)


def record_memory_origins(enabled: bool) -> None:
    """Makes each allocation record its line of the program, which costs some microseconds each."""
    current_backend().record_origins(enabled)


def memory_info() -> MemoryInfo:
    """Memory of the current device and what this process holds of it, in bytes."""
    backend = current_backend()
    return backend.memory_info(backend.current_device())


def empty_cache() -> None:
    """Gives memory that is kept for reuse back to the device."""
    current_backend().empty_cache()


def device_count() -> int:
    """How many devices the backend in use has; 1 on the NumPy backend."""
    return current_backend().device_count()


def set_memory_limit(nbytes: Optional[int]) -> None:
    """The most device memory this process takes (None: no limit); beyond it, allocation fails as a full device does."""
    if nbytes is not None and nbytes < 0:
        raise ValueError(f"nbytes is {nbytes}; it must be 0 or more, or None for no limit")
    current_backend().set_memory_limit(nbytes)


__all__ = [
    "Device",
    "Event",
    "Stream",
    "current_stream",
    "device_count",
    "empty_cache",
    "memory_info",
    "memory_snapshot",
    "memory_statistics",
    "overflow_mode",
    "pinned",
    "profiling_range",
    "record_memory_origins",
    "reset_memory_peaks",
    "set_deterministic",
    "set_memory_limit",
    "set_operator_timeout",
    "set_overflow_mode",
    "synchronize",
]
