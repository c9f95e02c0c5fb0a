"""Captured graphs of the NumPy backend: prepared calls that are recorded, and run again in the order of their capture.

What may be done while a stream is captured is what CANN's runtime allows, with its statuses, so that a program with graphs
can be tested where there is no device.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Callable, NamedTuple, NoReturn, Optional

import numpy as np
import numpy.typing as npt

from ascend_aclnn.backends.interface import CapturedGraph
from ascend_aclnn.core.errors import (
    CAPTURE_CONFLICT,
    CAPTURE_DEPENDENCY,
    CAPTURE_IMPLICIT,
    CAPTURE_INVALIDATED,
    CAPTURE_MODE_NOT_SUPPORT,
    CAPTURE_WRONG_THREAD,
    EVENT_CAPTURED,
    INVALID_PARAM,
    RT_INTERNAL_ERROR,
    RT_PARAM_INVALID,
    RUNTIME_ERROR,
    STREAM_CAPTURED,
    STREAM_NOT_CAPTURED,
    STREAM_UNJOINED,
    TASK_GROUP_INTERRUPTED,
    TASK_GROUP_STATUS,
    AclError,
)
from ascend_aclnn.core.graph_record import GraphNode, GraphRecord, node
from ascend_aclnn.core.interface import Recorder, Storage, StreamHandle
from ascend_aclnn.core.stored import StoredTensor
from ascend_aclnn.core.streams import Stream, current_stream
from ascend_aclnn.numerics import floating_errors

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
MODES = ("global", "thread-local", "relaxed")

Run = Callable[[], None]
Key = tuple[int, int]  # a stream: device and handle


class _Task(NamedTuple):
    """What a replay does for a node."""

    run: Run
    tensors: tuple[Any, ...]  # that it uses, whose memory the graph keeps


_NOTHING = _Task(lambda: None, ())  # of an event: tasks run in the order of their capture


class _Mark:
    """An event as a capture has recorded it last."""

    def __init__(self, capture: Capture, stream: CapturedStream) -> None:
        self.capture = capture
        self.stream = stream
        self.waits = 0  # of other streams
        self.returned = False  # one of them is where the capture began


class Capture:
    """A capture that is under way."""

    def __init__(self, graph: HostGraph, mode: int) -> None:
        self.graph = graph
        self.mode = mode
        self.thread = threading.get_ident()
        self.active = True
        self.streams: list[CapturedStream] = []
        self.invalid = ""  # why
        self.groups = 0
        self.open_groups = 0

    def invalidate(self, reason: str) -> None:
        self.invalid = self.invalid or reason

    def describe(self) -> str:
        nodes = self.graph.record.nodes
        last = f"captured last: {nodes[-1].name}, task {len(nodes) - 1}" if nodes else "nothing is captured yet"
        return f"graph {self.graph.number}, mode {MODES[self.mode]}; {last}"

    def refuse_end(self) -> None:
        """Raises what is wrong with the capture as a whole."""
        routine = "aclmdlRICaptureEnd"
        if self.thread != threading.get_ident() and self.mode != RELAXED:
            text = "the thread that began the capture must end it, unless its mode is relaxed"
            raise AclError(CAPTURE_WRONG_THREAD, routine, text)
        if self.invalid:
            raise AclError(CAPTURE_INVALIDATED, routine, f"the capture is invalid: {self.invalid}")
        if self.open_groups:
            raise AclError(TASK_GROUP_STATUS, routine, "a task group of the capture is open")
        joined = self.streams[1:]
        for stream in joined:
            mark = stream.last
            if mark is None:
                text = f"the last task of stream {stream.number} in the capture is no record of an event"
                self._unjoined(f"{text}; let stream 0, where the capture began, wait for it: wait_stream()")
            if not mark.waits:
                self._unjoined(f"no stream of the capture waits for the last event of stream {stream.number}")
        if joined and not any(stream.last is not None and stream.last.returned for stream in joined):
            self._unjoined(f"stream 0, where the capture began, waits for none of the other {len(joined)} stream(s)")

    def _unjoined(self, text: str) -> NoReturn:
        raise AclError(STREAM_UNJOINED, "aclmdlRICaptureEnd", f"{text} ({self.describe()})")


class StreamRecorder(Recorder):
    """Takes the tasks of a stream."""

    graph: HostGraph

    def describe(self) -> str:
        return f"graph {self.graph.number}"

    def add(self, kind: str, name: str, run: Run, read: Sequence[Any] = (), written: Sequence[Any] = ()) -> None:
        """Records a task, which ``run`` does at each replay."""
        raise NotImplementedError

    def add_copy(
        self,
        target: npt.NDArray[np.uint8],
        source: npt.NDArray[np.uint8],
        host: npt.NDArray[np.uint8],
        storage: Storage,
    ) -> None:
        """Records a copy between a storage and host memory, which must be pinned."""
        if not self.graph.captures.is_pinned(host):
            text = "the ndarray is pageable host memory; a captured copy needs memory of pinned()"
            raise AclError(RT_PARAM_INVALID, "aclrtMemcpyAsync", text)
        tensor = [_Bytes(storage, host.nbytes)]
        sides = ((), tensor) if source is host else (tensor, ())
        self.add("copy", "aclrtMemcpyAsync", lambda: np.copyto(target, source), *sides)


class _Bytes:
    """Stands for a tensor where only its storage is known."""

    def __init__(self, storage: Storage, nbytes: int) -> None:
        self.storage = storage
        self.nbytes = nbytes


class CapturedStream(StreamRecorder):
    """A stream in a capture."""

    capturing = True

    def __init__(self, capture: Capture, key: Key) -> None:
        self.capture = capture
        self.graph = capture.graph
        self.key = key
        self.number = len(capture.streams)
        self.last: Optional[_Mark] = None  # the event, where recording it was the last task
        self.group: Optional[int] = None
        capture.streams.append(self)

    def describe(self) -> str:
        return self.capture.describe()

    def add(self, kind: str, name: str, run: Run, read: Sequence[Any] = (), written: Sequence[Any] = ()) -> None:
        self.check_group(name, kind)
        graph, capture = self.graph, self.capture
        for tensor in tensors_among(read):
            tensor.storage.user = capture
        for tensor in tensors_among(written):
            tensor.storage.user = tensor.storage.writer = capture
        graph.tasks.append(_Task(run, (*read, *written)))
        number = graph.record.stream(self.key[1])
        graph.record.nodes.append(_described(kind, name, number, read, written, self.group))
        self.last = None

    def check_group(self, routine: str, kind: str = "") -> None:
        capture = self.capture
        if capture.open_groups and self.group is None:
            capture.invalidate("another stream was used while a task group was open")
            text = f"stream {self.number} is used while a task group is open on another stream ({self.describe()})"
            raise _refusal(TASK_GROUP_INTERRUPTED, routine, kind, text)


class UpdatingStream(StreamRecorder):
    """A stream whose tasks replace those of a task group."""

    capturing = False

    def __init__(self, graph: HostGraph, group: int) -> None:
        self.graph = graph
        self.group = group
        self.places = [i for i, task in enumerate(graph.record.nodes) if task.group == group]
        self.tasks: list[tuple[_Task, GraphNode]] = []

    def add(self, kind: str, name: str, run: Run, read: Sequence[Any] = (), written: Sequence[Any] = ()) -> None:
        if len(self.tasks) == len(self.places):
            text = f"the task group has {len(self.places)} task(s), and all have been replaced"
            raise _refusal(RT_INTERNAL_ERROR, name, kind, text)
        stream = self.graph.record.nodes[self.places[len(self.tasks)]].stream
        task = _Task(run, (*read, *written))
        self.tasks.append((task, _described(kind, name, stream, read, written, self.group)))


def _described(
    kind: str, name: str, stream: int, read: Sequence[Any], written: Sequence[Any], group: Optional[int]
) -> GraphNode:
    copied = sum(part.nbytes for part in (*read, *written) if isinstance(part, _Bytes))
    return node(kind, name, stream, read, written, group, copied)


def _refusal(status: int, routine: str, kind: str, text: str) -> AclError:
    """The error of a task that cannot be recorded: an operator's phase two has one status for all of the runtime's."""
    if kind == "operator":
        return AclError(RUNTIME_ERROR, routine, text, operator=routine, explained=True)
    return AclError(status, routine, text)


def tensors_among(values: Sequence[Any]) -> Iterator[Any]:
    """The tensors among values and the lists among them."""
    for value in values:
        if isinstance(value, (StoredTensor, _Bytes)):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_among(value)


class Captures:
    """The captures of a NumPy backend, and what may be done meanwhile."""

    def __init__(self) -> None:
        self.streams: dict[Key, StreamRecorder] = {}
        self.under_way: list[Capture] = []
        self.numbers = itertools.count(1)
        self.pinned: weakref.WeakSet[PinnedMemory] = weakref.WeakSet()
        self._marks: dict[int, _Mark] = {}  # by event
        self._recorded: set[int] = set()  # events that are recorded outside of captures
        self._device = threading.local()

    # ---------------------------------------------------------------------------------------- what is refused
    @contextlib.contextmanager
    def on_device(self) -> Iterator[None]:
        """Copies in this block are a task's own, and not the program's."""
        before = getattr(self._device, "working", False)
        self._device.working = True
        try:
            yield
        finally:
            self._device.working = before

    def refuse_copy(self, capture: Optional[object] = None, routine: str = "aclrtMemcpy") -> None:
        """Raises where a synchronous copy is not allowed; ``capture``: whose tasks the copy would have to wait for."""
        if getattr(self._device, "working", False):
            return
        if isinstance(capture, Capture) and capture.active:
            text = f"the tensor is used by a stream that is captured, which cannot be waited for ({capture.describe()})"
            raise AclError(STREAM_CAPTURED, "aclrtSynchronizeStream", text)
        here = [c for c in self.under_way if c.thread == threading.get_ident()]
        anywhere = [c for c in self.under_way if c.mode == GLOBAL]
        refusing = [c for c in here if c.mode == THREAD_LOCAL] or anywhere
        if refusing:
            place = "this" if refusing[0] in here else "another"
            text = (
                f"a synchronous copy is not permitted while {place} thread captures a stream ({refusing[0].describe()})"
            )
            raise AclError(CAPTURE_MODE_NOT_SUPPORT, routine, text)

    def refuse_wait(self, routine: str, why: str) -> None:
        """Raises where the whole device cannot be waited for."""
        for capture in self.under_way:
            raise AclError(STREAM_CAPTURED, routine, f"{why} while a stream is captured ({capture.describe()})")

    def refuse_event(self, event: int, routine: str) -> None:
        mark = self._mark(event)
        if mark is not None:
            text = f"the event is part of a capture, where it only orders streams ({mark.capture.describe()})"
            raise AclError(EVENT_CAPTURED, routine, text)

    # ---------------------------------------------------------------------------------------- events
    def _mark(self, event: int) -> Optional[_Mark]:
        mark = self._marks.get(event)
        if mark is not None and not mark.capture.active:
            del self._marks[event]
            return None
        return mark

    def forget_event(self, event: int) -> None:
        self._marks.pop(event, None)
        self._recorded.discard(event)

    def record_event(self, event: int, stream: StreamHandle) -> bool:
        """Records an event; False where its stream is not captured."""
        recorder = self.streams.get((0, stream.handle))
        if not isinstance(recorder, CapturedStream):
            self._marks.pop(event, None)
            self._recorded.add(event)
            return False
        recorder.check_group("aclrtRecordEvent")
        recorder.last = self._marks[event] = _Mark(recorder.capture, recorder)
        recorder.graph.record.record(event, stream.handle)
        recorder.graph.tasks.append(_NOTHING)
        return True

    def wait_event(self, event: int, stream: StreamHandle) -> None:
        """A stream waits for an event, and joins its capture."""
        routine, key = "aclrtStreamWaitEvent", (0, stream.handle)
        mark, recorder = self._mark(event), self.streams.get(key)
        waiting = recorder if isinstance(recorder, CapturedStream) else None
        if mark is None:
            if waiting is not None and event in self._recorded:
                text = f"the event was recorded outside of the capture, which cannot wait for it ({waiting.describe()})"
                raise AclError(CAPTURE_DEPENDENCY, routine, text)
            return
        capture = mark.capture
        if not stream.handle:
            text = f"the event is part of a capture, and the default stream cannot be ({capture.describe()})"
            raise AclError(CAPTURE_IMPLICIT, routine, text)
        if waiting is not None and waiting.capture is not capture:
            capture.invalidate("its event was waited for by a stream of another capture")
            waiting.capture.invalidate("a stream of it waited for an event of another capture")
            text = (
                f"the event is part of one capture ({capture.describe()}), the stream of another ({waiting.describe()})"
            )
            raise AclError(CAPTURE_CONFLICT, routine, text)
        if waiting is None:
            if capture.invalid:
                raise AclError(RT_INTERNAL_ERROR, routine, f"the capture is invalid: {capture.invalid}")
            waiting = self.streams[key] = CapturedStream(capture, key)
        waiting.check_group(routine)
        if mark.stream is not waiting:
            mark.waits += 1
            mark.returned = mark.returned or waiting.number == 0
        waiting.last = None
        capture.graph.record.wait(event, stream.handle)
        capture.graph.tasks.append(_NOTHING)

    # ---------------------------------------------------------------------------------------- pinned memory
    def is_pinned(self, array: npt.NDArray[Any]) -> bool:
        start: int = array.__array_interface__["data"][0]
        return not array.nbytes or any(m.start <= start and start + array.nbytes <= m.end for m in list(self.pinned))


class PinnedMemory:
    """Host memory that stands for pinned memory: a captured copy can be told from one of pageable memory."""

    def __init__(self, nbytes: int) -> None:
        self._memory = np.empty(nbytes, np.uint8)
        self.__array_interface__ = self._memory.__array_interface__
        self.start: int = self.__array_interface__["data"][0]
        self.end = self.start + nbytes


class HostGraph(CapturedGraph):
    """The calls that a capture has recorded."""

    def __init__(self, captures: Captures) -> None:
        self.captures = captures
        self.number = next(captures.numbers)
        self.record = GraphRecord()
        self.tasks: list[_Task] = []  # one for each node
        self.storages: weakref.WeakSet[Storage] = weakref.WeakSet()  # made in the capture
        self._capture: Optional[Capture] = None
        self._program: tuple[Run, ...] = ()
        self._replaying = threading.Lock()

    def adopt(self, storage: Storage) -> None:
        """Memory that is made in the capture is the graph's."""
        storage.graph = self
        self.storages.add(storage)

    @property
    def memory(self) -> int:
        return sum(storage.nbytes for storage in list(self.storages))

    def begin(self, stream: Stream, mode: int) -> None:
        routine, key = "aclmdlRICaptureBegin", (stream.device, stream.handle)
        if not stream.handle:
            raise AclError(INVALID_PARAM, routine, "stream is the default stream, whose handle is a null pointer")
        recorder = self.captures.streams.get(key)
        if recorder is not None and recorder.capturing:
            raise AclError(STREAM_CAPTURED, routine, f"the stream is captured already ({recorder.describe()})")
        self.record, self.tasks = GraphRecord(), []
        self.record.stream(stream.handle)
        self._capture = capture = Capture(self, mode)
        self.captures.streams[key] = CapturedStream(capture, key)
        self.captures.under_way.append(capture)

    def end(self) -> None:
        capture = self._capture
        assert capture is not None
        try:
            capture.refuse_end()
        except BaseException:
            self._leave(capture)
            self.tasks = []
            raise
        self._leave(capture)
        self._settle()

    def _leave(self, capture: Capture) -> None:
        capture.active = False
        self._capture = None
        self.captures.under_way.remove(capture)
        for stream in capture.streams:
            del self.captures.streams[stream.key]
        self.record.forget_handles()

    def _settle(self) -> None:
        self._program = tuple(task.run for task in self.tasks if task is not _NOTHING)

    def abandon(self) -> None:
        if self._capture is not None:
            self._leave(self._capture)
        self.tasks = []

    def replay(self, stream: Optional[Stream]) -> None:
        if self.captures.streams:
            chosen = current_stream() if stream is None else stream
            recorder = self.captures.streams.get((chosen.device, chosen.handle))
            if recorder is not None and recorder.capturing:
                text = f"the stream is captured, and a graph cannot be part of another ({recorder.describe()})"
                raise AclError(STREAM_CAPTURED, "aclmdlRIExecuteAsync", text)
        self.replayed = True
        program = self._program
        with self._replaying:
            if len(program) == 1:
                program[0]()
                return
            with floating_errors.ignored_in_all():
                for run in program:
                    run()

    def begin_group(self, stream: Stream) -> None:
        captured = self._captured(stream, "aclmdlRICaptureTaskGrpBegin")
        if captured.group is not None:
            raise AclError(TASK_GROUP_STATUS, "aclmdlRICaptureTaskGrpBegin", "a task group is open already")
        capture = captured.capture
        capture.groups += 1
        capture.open_groups += 1
        captured.group = capture.groups

    def end_group(self, stream: Stream) -> int:
        routine = "aclmdlRICaptureTaskGrpEnd"
        captured = self._captured(stream, routine)
        number = captured.group
        if number is None:
            raise AclError(TASK_GROUP_STATUS, routine, "no task group is open on the stream")
        captured.group = None
        captured.capture.open_groups -= 1
        if captured.capture.invalid:
            text = f"the capture is invalid: {captured.capture.invalid}"
            raise AclError(TASK_GROUP_INTERRUPTED, routine, text)
        return number

    def _captured(self, stream: Stream, routine: str) -> CapturedStream:
        recorder = self.captures.streams.get((stream.device, stream.handle))
        if not isinstance(recorder, CapturedStream) or recorder.graph is not self:
            raise AclError(STREAM_NOT_CAPTURED, routine, "the stream is not captured by this graph")
        return recorder

    def begin_update(self, stream: Stream, group: int) -> None:
        routine, key = "aclmdlRICaptureTaskUpdateBegin", (stream.device, stream.handle)
        if not stream.handle:
            raise AclError(INVALID_PARAM, routine, "stream is the default stream, whose handle is a null pointer")
        recorder = self.captures.streams.get(key)
        if recorder is not None:
            if recorder.capturing:
                raise AclError(STREAM_CAPTURED, routine, f"the stream is captured ({recorder.describe()})")
            raise AclError(TASK_GROUP_STATUS, routine, "the stream updates a task group already")
        others = list(self.captures.streams.values())
        if any(isinstance(r, UpdatingStream) and r.graph is self and r.group == group for r in others):
            raise AclError(TASK_GROUP_STATUS, routine, "another stream updates the task group")
        self.captures.streams[key] = UpdatingStream(self, group)

    def end_update(self, stream: Stream) -> None:
        routine = "aclmdlRICaptureTaskUpdateEnd"
        recorder = self.captures.streams.pop((stream.device, stream.handle), None)
        if not isinstance(recorder, UpdatingStream):
            raise AclError(TASK_GROUP_STATUS, routine, "the stream updates no task group")
        wanted, replaced = len(recorder.places), len(recorder.tasks)
        if replaced != wanted:
            text = f"{replaced} of the {wanted} task(s) of the group were replaced; all must be"
            raise AclError(RT_INTERNAL_ERROR, routine, text, explained=True)
        for place, (task, description) in zip(recorder.places, recorder.tasks):
            self.tasks[place], self.record.nodes[place] = task, description
        self._settle()

    def close(self) -> None:
        with self._replaying:
            self.tasks, self._program = [], ()

    def let_go(self) -> None:
        self.tasks, self._program = [], ()
