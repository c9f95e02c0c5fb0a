"""libascendcl as this package uses it: start and end, device and context per thread, streams, events, copies.

Rules kept here, because breaking them is undefined on the device:

- A thread calls nothing before a device's context is current; ``current()`` sees to that. It asks CANN every time,
  because other components of the process (torch_npu) change the device of a thread too.
- Finalizers of Python objects run anywhere, even between two native calls that belong together. Those that would take
  a lock or wait leave a note instead, which the next ordinary call works off.
- At exit: wait for the devices, then executors and tensors, communicators, events and streams, memory, devices, ACL; the
  last two only if no other component of this process may use them.
- A forked child shares the device's state with its parent and must not touch it.
"""

from __future__ import annotations

import abc
import atexit
import collections
import contextlib
import ctypes
import itertools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional

from ascend_aclnn.backends.npu import prototypes
from ascend_aclnn.backends.npu.library import Libraries, loaded_stubs
from ascend_aclnn.backends.npu.waiting import WaitOutcome, Waits
from ascend_aclnn.core import torch_interop
from ascend_aclnn.core.error_codes import remedy_of
from ascend_aclnn.core.errors import STREAM_CAPTURED, AclError, LibraryNotFound, status_hint, status_name
from ascend_aclnn.core.interface import Recorder
from ascend_aclnn.core.streams import entered_streams

REPEAT_INITIALIZE = 100002
STUB_MODE = 100039
CONTEXT_NULL = 107002
NO_DEVICE = 207004

CHECK_CARD = "check the card and the driver with  npu-smi info"

EVENT_COMPLETE = 1  # aclrtQueryEventStatus; the older aclrtQueryEvent has it the other way round
STREAM_COMPLETE = 0

HOST_TO_DEVICE = 1
DEVICE_TO_HOST = 2
DEVICE_TO_DEVICE = 3

_LAUNCHES_KEPT = 64  # names of launched operators that a late device fault reports
_EXIT_WAIT_SECONDS = 60.0


class StreamGraph(abc.ABC):
    """A graph as the runtime and the memory know it, that captures a stream or has done so."""

    capturing: bool

    @abc.abstractmethod
    def add(
        self,
        kind: str,
        name: str,
        stream: StreamState,
        read: Iterable[object] = (),
        written: Iterable[object] = (),
        nbytes: int = 0,
    ) -> None:
        """Notes a task; ``nbytes`` beside those of the tensors."""

    @abc.abstractmethod
    def use(self, storage: Any, stream: StreamState) -> None:
        """Notes that the tasks use a NpuStorage."""

    @abc.abstractmethod
    def keep(self, block: Any, owner: object) -> None:
        """Keeps a block or an owner of memory until the graph is gone. The runtime's lock is held."""

    @abc.abstractmethod
    def destroy_later(self, index: int, handle: int) -> None:
        """Destroys a stream after its capture."""

    @abc.abstractmethod
    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits for the replays."""

    @abc.abstractmethod
    def streams(self) -> list[StreamState]:
        """Where replays may be under way."""


class StreamState:
    """What is known of one stream: its handle, its memory cache, and what was launched since it was last waited for."""

    __slots__ = ("alive", "bins", "device", "free", "handle", "launched", "lock", "owned", "workspace")

    graph: Optional[StreamGraph] = None  # that captures the stream, see graphs.GraphStreamState

    def __init__(self, device: DeviceState, handle: int, owned: bool) -> None:
        self.device = device
        self.handle = handle
        self.owned = owned
        self.alive = True  # False once destroyed: everything on it has passed
        self.launched: collections.deque[str] = collections.deque(maxlen=_LAUNCHES_KEPT)
        self.lock = threading.Lock()  # held from choosing the workspace to launching with it
        self.workspace: Any = None  # a memory.Block
        self.bins: dict[int, list[Any]] = {}  # free blocks by exact size, see memory.Pool
        self.free: list[Any] = []  # free blocks sorted by size


class DeviceState:
    """One device that this process uses: its default context, streams and memory."""

    __slots__ = ("context", "created", "default", "index", "order", "ours", "pool", "streams")

    def __init__(self, index: int, context: int, ours: bool) -> None:
        self.index = index
        self.context = context
        self.ours = ours  # aclrtSetDevice was called here, so aclrtResetDevice is due
        self.default = StreamState(self, 0, owned=False)
        self.streams: dict[int, StreamState] = {0: self.default}
        self.created: Optional[StreamState] = (
            None  # stands for the default stream where that is refused, see ``created``
        )
        self.order: collections.deque[tuple[int, StreamState]] = (
            collections.deque()
        )  # events of ``queue_after``, oldest first
        self.pool: Any  # a memory.Pool


class Cells(threading.local):
    """Per thread, the cells into which CANN writes what it answers most often, and their addresses."""

    def __init__(self) -> None:
        self.stale_message = ""  # text of aclGetRecentErrMsg that was read and not cleared
        self.has_context = False  # a context is known to be current: aclrtGetDevice may answer without one
        self.device = ctypes.c_int32()
        self.workspace_size = ctypes.c_uint64()
        self.executor = ctypes.c_void_p()
        self.answer = ctypes.c_int32()  # of a question whether a stream or event has passed
        self.device_at = ctypes.addressof(self.device)
        self.answer_at = ctypes.addressof(self.answer)
        self.workspace_size_at = ctypes.addressof(self.workspace_size)
        self.executor_at = ctypes.addressof(self.executor)


class Runtime:
    """One initialised ACL. Made once per process by ``start``."""

    def __init__(
        self, libraries: Libraries, new_pool: Callable[[Runtime, DeviceState], Any], shared: bool, soc: str, count: int
    ) -> None:
        self.libraries = libraries
        self.new_pool = new_pool
        self.shared = shared  # another component initialised ACL first, so it finalizes
        self.soc = soc
        self.count = count
        self.blocking = os.environ.get("ASCEND_ACLNN_BLOCKING", "0") not in ("", "0")
        self.cells = Cells()
        self.lock = threading.Lock()  # guards devices, pools and the work on ``deferred``
        self.order_lock = threading.Lock()  # guards the events between default streams and those that stand for them
        self.devices: dict[int, DeviceState] = {}
        self.captures: dict[tuple[int, int], Recorder] = {}  # by device and stream, see graphs.py
        self.deferred: collections.deque[Callable[[], None]] = collections.deque()  # worked off under the lock
        self.pending_destroy: collections.deque[tuple[int, int]] = (
            collections.deque()
        )  # streams to wait for and destroy
        self.clean_up_work: collections.deque[Callable[[], bool]] = collections.deque()  # see ``leave``
        self.at_exit: list[Callable[[], None]] = []  # run before events and streams go
        self.events: dict[int, int] = {}  # event handle -> device, of those not destroyed yet
        self.events_in_use: collections.deque[tuple[int, int]] = (
            collections.deque()
        )  # events to destroy once helpers no longer wait for them
        self.deterministic: Optional[int] = None
        self.record_origins = False
        self.memory_limit: Optional[int] = None
        self.closed = ""  # why nothing may be called any more
        self._closer: Optional[int] = None  # the thread that shuts down, which may
        self._bind()
        self.waits = Waits(self.set_current_context, self.recent_error)
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.close)

    def _bind(self) -> None:
        get = self.libraries.function
        self.get_device = get("aclrtGetDevice")
        self.set_current_context = get("aclrtSetCurrentContext")
        self.memcpy = get("aclrtMemcpy")
        self.synchronize_stream = get("aclrtSynchronizeStream")
        self.synchronize_event = get("aclrtSynchronizeEvent")
        self.query_stream = get("aclrtStreamQuery")
        self.query_event = get("aclrtQueryEventStatus")
        self.record_event = get("aclrtRecordEvent")
        self.recent_error_message = get("aclGetRecentErrMsg")

    # ------------------------------------------------------------------------------------------ start and end
    @classmethod
    def start(cls, libraries: Libraries, new_pool: Callable[[Runtime, DeviceState], Any]) -> Runtime:
        """aclInit, and the questions whose answers tell that there is a device; LibraryNotFound where there is none."""
        initialise, finalize, soc_name, device_count = (
            libraries.function(name) for name in ("aclInit", "aclFinalize", "aclrtGetSocName", "aclrtGetDeviceCount")
        )
        status = initialise(None)
        if status not in (0, REPEAT_INITIALIZE):
            raise LibraryNotFound(_no_device(libraries, "aclInit", status))
        shared = status == REPEAT_INITIALIZE
        try:
            count = ctypes.c_uint32()
            status = device_count(ctypes.byref(count))
            if status or not count.value:
                raise LibraryNotFound(_no_device(libraries, "aclrtGetDeviceCount", status))
            name = soc_name()
            if not name:
                raise LibraryNotFound(_no_device(libraries, "aclrtGetSocName", 0))
            return cls(libraries, new_pool, shared, name.decode(), count.value)
        except LibraryNotFound:
            if not shared:
                finalize()
            raise

    def _forked(self) -> None:
        self.closed = (
            "this process was forked after the NPU had been initialised, and the two cannot share it. Start children "
            'with multiprocessing.get_context("spawn"), or use the NPU only in the children'
        )
        self.lock = threading.Lock()  # the parent's may have been held
        self.waits.forget()

    def close(self) -> None:
        """Gives everything back in the right order. Runs once, at exit; never raises."""
        if self.closed:
            return
        self.closed = "the npu backend was shut down at exit"
        self._closer = threading.get_ident()
        if self._idle():
            self._release_all()
        self._closer = None

    @property
    def shares_process(self) -> bool:
        """Another component uses ACL in this process: devices and ACL itself are then left to it at exit."""
        return self.shared or "torch_npu" in sys.modules

    def _idle(self) -> bool:
        """Waits for the devices; False if one does not answer, and then nothing more is touched."""
        others = self.shares_process
        if others and self.get_device(self.cells.device_at):
            return False  # the other owner of ACL has shut it down before us
        for state in list(self.devices.values()):
            try:
                torch_interop.drain_queue(state.index)
                self.synchronize(state, _EXIT_WAIT_SECONDS)
            except (AclError, TimeoutError, RuntimeError) as error:
                if not others:
                    warnings.warn(f"device {state.index} is not released: {error}", ResourceWarning, stacklevel=1)
                return False
        return self.waits.all_ended(_EXIT_WAIT_SECONDS)

    def _release_all(self) -> None:
        self.drain()
        for release in self.at_exit:
            release()
        for event, index in list(self.events.items()):
            self._clean_up("aclrtDestroyEvent", self.devices[index], event)
        self.events.clear()
        for state in self.devices.values():
            for stream in [s for s in state.streams.values() if s.owned and s.alive]:
                stream.alive = False
                self._clean_up("aclrtDestroyStream", state, stream.handle)
            state.pool.close()
        # aclFinalize ignores how often ACL was initialised, aclrtResetDevice takes the context from under streams that
        # another component has made: neither is called where there is one. The process' end releases both.
        if not self.shares_process:
            reset = self.libraries.function("aclrtResetDevice")
            for state in self.devices.values():
                if state.ours:  # without making the device before it current again, whose context may be gone
                    self.warn("aclrtResetDevice", self.set_current_context(state.context) or reset(state.index))
        finalize_reference = self.libraries.optional("aclFinalizeReference")  # CANN 8.5: counts
        if finalize_reference is not None:
            references = ctypes.c_uint64()
            self.warn("aclFinalizeReference", finalize_reference(ctypes.byref(references)))
        elif not self.shares_process:
            self.warn("aclFinalize", self.libraries.function("aclFinalize")())

    def _clean_up(self, routine: str, state: DeviceState, argument: int) -> None:
        """A call that gives something back: warns where others raise."""
        try:
            with self.on(state):
                status = self.libraries.function(routine)(argument)
        except AclError as error:
            status = error.status
        self.warn(routine, status)

    def warn(self, routine: str, status: int) -> None:
        if status and not sys.is_finalizing():
            warnings.warn(f"{routine} failed: {status} {status_name(status)}", ResourceWarning, stacklevel=2)

    # ------------------------------------------------------------------------------------------ errors
    def recent_error(self) -> str:
        """CANN's text of what failed last on this thread, less what an earlier reading has got already.

        Reading clears the text on a healthy device only; elsewhere newer text is put before the old.
        """
        text = self._read_message()
        if not text:
            return ""
        cells = self.cells
        stale, cells.stale_message = cells.stale_message, text if self._read_message() else ""
        return text[: -len(stale)].strip() if stale and text.endswith(stale) else text

    def _read_message(self) -> str:
        text = self.recent_error_message()
        return text.decode(errors="replace").strip() if text else ""

    def error(self, routine: str, status: int, operator: Optional[str] = None) -> AclError:
        """The exception of a failed call; asks for CANN's text at once, on this thread."""
        return AclError(status, routine, self.recent_error(), operator=operator)

    def check(self, routine: str, status: int, operator: Optional[str] = None) -> None:
        if status:
            raise self.error(routine, status, operator)

    def call(self, routine: str, *arguments: Any) -> None:
        """Calls a runtime function by name and checks its status."""
        self.check(routine, self.libraries.function(routine)(*arguments))

    def create(self, routine: str, *arguments: Any) -> int:
        """Calls a function whose first parameter receives a handle; the handle."""
        handle = ctypes.c_void_p()
        self.call(routine, ctypes.byref(handle), *arguments)
        return handle.value or 0

    # ------------------------------------------------------------------------------------------ device and thread
    def current(self) -> DeviceState:
        """The device that is current on this thread; makes device 0 current where none is."""
        if self.closed:
            self._refuse()
        cells = self.cells
        if cells.has_context and self.get_device(cells.device_at) == 0:
            state = self.devices.get(cells.device.value)
            if state is not None:
                return state
        return self._look_up_current()

    def usable(self) -> bool:
        """False after the end and in a forked child, except for the thread that is shutting down."""
        return not self.closed or self._closer == threading.get_ident()

    def _refuse(self) -> None:
        if not self.usable():
            raise RuntimeError(self.closed)

    def _look_up_current(self) -> DeviceState:
        status = self.get_device(self.cells.device_at)
        if status == CONTEXT_NULL:
            self.recent_error()  # its text belongs to no later error
            return self.make_current(0)
        self.check("aclrtGetDevice", status)
        index = self.cells.device.value
        if not self._has_context():  # a default device (CANN 8.3): named, and not set on this thread
            return self.make_current(index)
        self.cells.has_context = True
        return self._open(index)

    def _has_context(self) -> bool:
        """Whether a context is current: some releases answer without one, with success and a null pointer or with 107002."""
        context = ctypes.c_void_p()
        status = self.libraries.function("aclrtGetCurrentContext")(ctypes.byref(context))
        if status:
            self.recent_error()
        return status == 0 and bool(context.value)

    def make_current(self, index: int) -> DeviceState:
        """Makes a device current on this thread."""
        if self.closed:
            self._refuse()
        state = self.devices.get(index) or self._open(index)
        self.check("aclrtSetCurrentContext", self.set_current_context(state.context))
        self.cells.has_context = True
        return state

    def _open(self, index: int) -> DeviceState:
        """First use of a device by this process. aclrtSetDevice counts its calls, so it is called once."""
        with self.lock:
            if index in self.devices:
                return self.devices[index]
            is_current = self.get_device(self.cells.device_at) == 0 and self.cells.device.value == index
            ours = not (is_current and self._has_context())
            if ours:
                self.call("aclrtSetDevice", index)
            state = DeviceState(index, self.create("aclrtGetCurrentContext"), ours)
            state.pool = self.new_pool(self, state)
            if self.deterministic is not None:
                self.call("aclrtCtxSetSysParamOpt", _deterministic_option(), self.deterministic)
            self.devices[index] = state
            return state

    @contextlib.contextmanager
    def on(self, state: DeviceState) -> Iterator[None]:
        """Makes a device current for a block, and the one before it again afterwards."""
        if self.closed:
            self._refuse()
        cells = self.cells
        has_device = cells.has_context and self.get_device(cells.device_at) == 0
        before = self.devices.get(cells.device.value) if has_device else None
        if before is state:
            yield
            return
        self.make_current(state.index)
        try:
            yield
        finally:
            if before is not None:
                self.make_current(before.index)

    def set_deterministic(self, level: int) -> None:
        """For the process (what phase one reads today) and for each context (what it read earlier)."""
        option = _deterministic_option()
        self.current()
        self.call("aclrtSetSysParamOpt", option, level)
        self.deterministic = level
        for state in list(self.devices.values()):
            with self.on(state):
                self.call("aclrtCtxSetSysParamOpt", option, level)

    # ------------------------------------------------------------------------------------------ what finalizers left
    def defer(self, work: Callable[[], None]) -> None:
        """Does clean-up work now if nothing is in the way, else leaves it for the next call. Never raises."""
        self.deferred.append(work)
        if self._undisturbed():
            self._drain()

    def _undisturbed(self) -> bool:
        """False inside a section that holds the lock: a finalizer that runs there must not wait for it."""
        if self.closed or not self.lock.acquire(blocking=False):
            return False
        self.lock.release()
        return True

    def drain(self) -> None:
        """Works off what finalizers left. Not to be called by one."""
        self._drain()
        for _ in range(len(self.clean_up_work)):
            try:
                work = self.clean_up_work.popleft()
            except IndexError:  # another thread was faster
                return
            if not work():
                self.clean_up_work.append(work)

    def _drain(self) -> None:
        """The part of it that a finalizer may do, too: memory and streams."""
        with self.lock:
            self.run_deferred()
        while self.pending_destroy:
            try:
                index, handle = self.pending_destroy.popleft()
            except IndexError:  # another thread was faster
                return
            self._destroy_stream(index, handle)
        for _ in range(len(self.events_in_use)):
            with contextlib.suppress(IndexError):  # another thread was faster
                self.destroy_event(*self.events_in_use.popleft())

    def leave(self, work: Callable[[], bool]) -> None:
        """Leaves clean-up work that needs no lock to the next call that drains: False where it is too early for it."""
        self.clean_up_work.append(work)

    def run_deferred(self) -> None:
        """The part of it that needs the lock, for callers that hold it."""
        while self.deferred:
            try:
                work = self.deferred.popleft()
            except IndexError:
                return
            work()

    # ------------------------------------------------------------------------------------------ waiting
    def stream(self, index: int, handle: int) -> StreamState:
        """The state of a stream; a foreign one is noted at first sight, and must outlive the tensors it writes."""
        state = self.devices.get(index)
        if state is None:
            before = self.current()
            state = self.make_current(index)
            self.make_current(before.index)
        stream_state = state.streams.get(handle)
        if stream_state is None:
            stream_state = state.streams[handle] = StreamState(state, handle, owned=False)
        return stream_state

    def current_stream(self, index: int) -> StreamState:
        """The stream that this thread uses on a device: the innermost entered with ``with``, else the default."""
        for entered in reversed(entered_streams()):
            if entered.device == index and entered.backend.name == "npu":
                handle = entered.handle  # once: asking torch_npu's drains its queue
                return self.devices[index].streams.get(handle) or self.stream(index, handle)
        return self.stream(index, 0)

    def captured_elsewhere(self, stream: StreamState) -> int:
        """The aclmdlRI of the graph for which another component (torch_npu) captures a stream of its own; 0 without one."""
        if stream.owned or not stream.handle or stream.graph is not None:
            return 0
        ask = self.libraries.optional("aclmdlRICaptureGetInfo")
        state, model = ctypes.c_int32(), ctypes.c_void_p()
        if ask is None or ask(stream.handle, ctypes.byref(state), ctypes.byref(model)):
            return 0
        return (model.value or 0) if state.value else 0

    def keep_until_passed(self, owner: object, stream: StreamState) -> None:
        """Keeps an object alive until what is queued on a stream has run."""
        with self.lock:
            stream.device.pool.release(None, (stream,), owner)

    def wait_for_memory(self, stream: StreamState) -> None:
        """Waits before memory of a stream goes back to the device; a foreign stream may have been destroyed by now."""
        if stream.owned or not stream.handle:
            self.wait_stream(stream)
        else:
            self.synchronize(stream.device)

    def wait_stream(self, stream: StreamState, timeout: Optional[float] = None) -> None:
        """Waits for a stream; TimeoutError after ``timeout`` seconds."""
        if not stream.alive:
            return
        if stream.graph is not None and not stream.graph.capturing:
            stream.graph.wait(timeout)
            return
        with self.on(stream.device):
            outcome = self.await_stream(stream, timeout)
            if outcome is None:
                raise TimeoutError(f"the stream has not finished after {timeout} s")
            if outcome.status:
                raise self._late_fault("aclrtSynchronizeStream", outcome, [stream])
        stream.launched.clear()
        created = stream.device.created
        if created is not None and stream is stream.device.default and created.launched:
            self.wait_stream(created, timeout)  # it has passed, too; only it has the status of what ran there

    def await_stream(self, stream: StreamState, timeout: Optional[float] = None) -> Optional[WaitOutcome]:
        """Waits for a stream of the current device; None after ``timeout`` seconds."""
        return self.waits.wait(
            self.synchronize_stream,
            stream.device.context,
            (stream.handle,),
            lambda: self._has_passed(self.query_stream, stream.handle, STREAM_COMPLETE),
            timeout,
        )

    def _has_passed(self, query: Callable[[int, int], int], handle: int, complete: int) -> bool:
        """Asks for a stream or event. Yes where the question fails, too: the native wait then says why."""
        cells = self.cells
        status = query(handle, cells.answer_at)
        if status:
            self.recent_error()
        return bool(status) or cells.answer.value == complete

    def synchronize(self, state: DeviceState, timeout: Optional[float] = None) -> None:
        """Waits for everything on a device; TimeoutError after ``timeout`` seconds."""
        streams = [stream for stream in list(state.streams.values()) if stream.alive]
        # Streams of others are not asked for: they may have been destroyed.
        ours = [stream.handle for stream in streams if stream.owned or not stream.handle]
        with self.on(state):
            outcome = self.waits.wait(
                self.libraries.function("aclrtSynchronizeDevice"),
                state.context,
                (),
                lambda: all(self._has_passed(self.query_stream, handle, STREAM_COMPLETE) for handle in ours),
                timeout,
                exact=len(ours) == len(streams) and not self.shares_process,
            )
            if outcome is None:
                raise TimeoutError(f"device {state.index} has not finished after {timeout} s")
            if outcome.status:
                raise self._late_fault("aclrtSynchronizeDevice", outcome, streams)
        for stream in streams:
            stream.launched.clear()

    def _late_fault(self, routine: str, outcome: WaitOutcome, streams: list[StreamState]) -> AclError:
        """A fault that surfaces while waiting: the operator is unknown, what may have caused it is not."""
        text = outcome.text or self.recent_error() or status_hint(outcome.status)
        if outcome.status == STREAM_CAPTURED:  # nothing has run
            return AclError(outcome.status, routine, text)
        launched = [name for stream in streams for name in stream.launched]
        if launched:
            text += "\n  launched since the last synchronisation: " + ", ".join(_counted(launched))
            text += "\n  ASCEND_ACLNN_BLOCKING=1 waits after each launch and names the operator"
        for stream in streams:
            stream.launched.clear()
        return AclError(outcome.status, routine, text)

    def stream_done(self, stream: StreamState) -> bool:
        if not stream.alive:
            return True
        answer = ctypes.c_int32()
        with self.on(stream.device):
            status = self.query_stream(stream.handle, ctypes.addressof(answer))
            if status:
                raise self._late_fault("aclrtStreamQuery", WaitOutcome(status, ""), [stream])
        return answer.value == STREAM_COMPLETE

    # ------------------------------------------------------------------------------------------ streams and events
    def create_stream(self, state: DeviceState, priority: int) -> int:
        flags = prototypes.constant("constants", "ACL_STREAM_FAST_LAUNCH")
        flags |= prototypes.constant("constants", "ACL_STREAM_FAST_SYNC")
        with self.on(state):
            handle = self.create("aclrtCreateStreamWithConfig", priority, flags)
        state.streams[handle] = StreamState(state, handle, owned=True)
        return handle

    def destroy_stream(self, index: int, handle: int) -> None:
        """Waits for the stream and destroys it, now or at the next call. Never raises."""
        recorder = self.captures.get((index, handle))
        if recorder is not None:
            graph = self.devices[index].streams[handle].graph
            if graph is not None:
                graph.destroy_later(index, handle)
                return
        self.pending_destroy.append((index, handle))
        if self._undisturbed():
            self._drain()

    def _destroy_stream(self, index: int, handle: int) -> None:
        state = self.devices[index]
        stream = state.streams.get(handle)
        if stream is None or not stream.alive:
            return
        fault = None
        try:
            self.wait_stream(stream)
        except AclError as error:
            fault = error
        with self.lock:
            stream.alive = False
            del state.streams[handle]
            state.pool.forget(stream)
        self._clean_up("aclrtDestroyStream", state, handle)
        if fault is not None:
            self.warn(fault.routine, fault.status)

    def created(self, default: StreamState) -> StreamState:
        """A stream that stands for a device's default one, whose null handle HCCL refuses; one for each device.

        What is queued there runs after what the default stream has now. ``queue_after(created, default)`` must follow, so
        that for all others (memory, writers, waits) it is as if the work were on the default stream.
        """
        state = default.device
        with self.lock:
            if state.created is None:
                state.created = state.streams[self.create_stream(state, 0)]
        self.queue_after(default, state.created)
        return state.created

    def queue_after(self, first: StreamState, then: StreamState) -> None:
        """What is queued on ``then`` from now on runs after what is queued on ``first`` now.

        For the default stream and ``created``, in both directions: each time ends the use of an earlier event.
        """
        state = then.device
        with self.on(state), self.order_lock:
            event = self._order_event(state)
            state.order.append((event, first))
            self.check("aclrtRecordEvent", self.record_event(event, first.handle))
            self.call("aclrtStreamWaitEvent", then.handle, event)

    def _order_event(self, state: DeviceState) -> int:
        """The oldest event of ``queue_after`` if it has been waited for, else a new one. ``order_lock`` is held.

        The stream that waits for it records the next one of the other direction: where that has passed, so has the wait.
        """
        order = state.order
        if order:
            event, first = order[0]
            answer = next((later for later, stream in order if stream is not first), None)
            if answer is not None and self.event_done(answer):
                order.popleft()
                return event
        return self.create_event(state, prototypes.constant("constants", "ACL_EVENT_SYNC"))

    def drop_order_events(self, state: DeviceState) -> None:
        """Waits for the default stream, if it was ordered with ``created``, and destroys the events for that."""
        with self.order_lock:
            if not state.order:
                return
            self.wait_stream(state.default)
            while state.order:
                self.destroy_event(state.index, state.order.popleft()[0])

    def create_event(self, state: DeviceState, flags: int) -> int:
        with self.on(state):
            event = self.create("aclrtCreateEventExWithFlag", flags)
        self.events[event] = state.index
        return event

    def destroy_event(self, index: int, event: int) -> None:
        """Never raises."""
        if self.closed:
            return
        if self.waits.under_way(self.devices[index].context, event):
            self.events_in_use.append((index, event))
        elif self.events.pop(event, None) is not None:
            self._clean_up("aclrtDestroyEvent", self.devices[index], event)

    def event_done(self, event: int) -> bool:
        answer = ctypes.c_int32()
        with self.on(self.devices[self.events[event]]):
            self.check("aclrtQueryEventStatus", self.query_event(event, ctypes.byref(answer)))
        return answer.value == EVENT_COMPLETE

    def wait_event(self, event: int, timeout: Optional[float]) -> None:
        """Waits for an event; TimeoutError after ``timeout`` seconds."""
        state = self.devices[self.events[event]]
        with self.on(state):
            outcome = self.waits.wait(
                self.synchronize_event,
                state.context,
                (event,),
                lambda: self._has_passed(self.query_event, event, EVENT_COMPLETE),
                timeout,
            )
            if outcome is None:
                raise TimeoutError(f"the event has not passed after {timeout} s")
            if outcome.status:
                raise AclError(outcome.status, "aclrtSynchronizeEvent", outcome.text or self.recent_error())

    def elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two events that have passed."""
        milliseconds = ctypes.c_float()
        with self.on(self.devices[self.events[end]]):
            self.call("aclrtEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return milliseconds.value


_NOTHING = {  # what a function answers that reports success and finds nothing
    "aclrtGetDeviceCount": "aclrtGetDeviceCount finds 0 devices",
    "aclrtGetSocName": "aclrtGetSocName names no SoC",
}


def _no_device(libraries: Libraries, routine: str, status: int) -> str:
    """Why a CANN that was found cannot be used."""
    message = libraries.optional("aclGetRecentErrMsg")
    text = message() if message is not None and status != STUB_MODE else None
    answer = f"{routine} returned {status} {status_name(status)}".rstrip() if status else _NOTHING[routine]
    lines = [f"{libraries.search_result.runtime} was found, but there is no usable NPU: {answer}"]
    if status:
        lines[0] += f" ({status_hint(status).rstrip('.')})" if status_hint(status) else ""
    if text:
        lines.append(text.decode(errors="replace").strip())
    stubs = loaded_stubs()
    if status != STUB_MODE and stubs:
        lines.append(f"{', '.join(stubs)} is a stub for compiling: the driver is not installed, or was not found")
    else:
        lines.append(remedy_of("\n".join(lines[1:]), status or NO_DEVICE) or CHECK_CARD)
    return "\n  ".join(lines)


def _deterministic_option() -> int:
    return prototypes.constant("aclSysParamOpt", "ACL_OPT_DETERMINISTIC")


def _counted(names: list[str]) -> Iterator[str]:
    for name, group in itertools.groupby(names):
        times = len(list(group))
        yield name if times == 1 else f"{name} x{times}"
