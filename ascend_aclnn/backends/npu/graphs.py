"""Captured graphs on a device: aclmdlRI*, and the memory of what they captured.

While a stream is captured, another StreamState stands for it, whose cache of memory is the graph's: what is allocated there
is reused by later work of the same capture only, and after the capture by nothing. The graph keeps the storages from outside
that its tasks use. Replays are noted here, so that who waits for memory which a graph wrote waits for its replays.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable
from typing import Any, Optional

from ascend_aclnn.backends.interface import CapturedGraph
from ascend_aclnn.backends.npu.memory import Block, NpuStorage
from ascend_aclnn.backends.npu.runtime import CONTEXT_NULL, DeviceState, Runtime, StreamGraph, StreamState
from ascend_aclnn.backends.npu.session import Session
from ascend_aclnn.core.errors import STREAM_CAPTURED, AclError
from ascend_aclnn.core.graph_record import GraphNode, GraphRecord, node
from ascend_aclnn.core.interface import Recorder
from ascend_aclnn.core.streams import Stream, entered_streams

OTHER_CONTEXT = (CONTEXT_NULL, 107003, 107004)  # the stream's or the graph's context is not the thread's


class GraphStreamState(StreamState):
    """Stands for a stream while it is captured, or while it updates a task group."""

    __slots__ = ("before", "graph", "group", "outside", "replaced", "updated", "written")

    def __init__(self, before: StreamState, graph: NpuGraph) -> None:
        super().__init__(before.device, before.handle, before.owned)
        self.before = before
        self.graph = graph
        self.group: Optional[int] = None  # the open task group, or the one that is updated
        self.outside: set[NpuStorage] = set()  # memory of others that the tasks use
        self.replaced: set[NpuStorage] = set()  # that the tasks used before the update under way
        self.written: list[NpuStorage] = []  # by the tasks of the last update
        self.updated: Optional[list[GraphNode]] = (
            None  # what replaces the nodes of the group; None: the stream is captured
        )


class _StreamRecorder(Recorder):
    def __init__(self, graph: NpuGraph, state: GraphStreamState) -> None:
        self._graph = graph
        self.capturing = state.updated is None

    def describe(self) -> str:
        nodes = self._graph.record.nodes
        return f"captured last: {nodes[-1].name}, task {len(nodes) - 1}" if nodes else "nothing is captured yet"


class NpuGraph(CapturedGraph, StreamGraph):
    """One aclmdlRI. It is destroyed once, here."""

    def __init__(self, session: Session) -> None:
        self.record = GraphRecord()
        self.capturing = False
        self._session = session
        self._runtime: Runtime = session.runtime
        self._captures: dict[tuple[int, int], Recorder] = session.runtime.captures
        self._model = 0
        self._execute: Any = None  # aclmdlRIExecuteAsync
        self._states: list[GraphStreamState] = []  # the first is where the capture began
        self._updates: dict[int, GraphStreamState] = {}  # by task group
        self._groups: dict[int, int] = {}  # handles of the task groups, by number
        self._group_count = 0
        self._own: weakref.WeakSet[NpuStorage] = weakref.WeakSet()  # on memory of the graph's own
        self._parked: list[tuple[Optional[Block], object]] = []  # used on several streams of the graph, and dropped
        self._streams_to_destroy: list[tuple[int, int]] = []
        self._written: list[NpuStorage] = []  # by the captured tasks, and by those of updates
        self._captured: list[NpuStorage] = []  # by the captured ones
        self._replays: dict[StreamState, int] = {}  # where replays may be under way, and how many were queued
        self._name = ""
        self._origin: GraphStreamState  # the first of the states, once it is captured, and its device
        self._device: DeviceState

    # ---------------------------------------------------------------------------------------- capture
    def begin(self, stream: Stream, mode: int) -> None:
        runtime = self._runtime
        runtime.drain()
        state = runtime.stream(stream.device, stream.handle)
        with runtime.on(state.device):
            runtime.call("aclmdlRICaptureBegin", state.handle, mode)
        self.record = GraphRecord()
        self.capturing = True
        self._states, self._groups = [], {}
        self.join(state)

    def join(self, state: StreamState) -> None:
        """A stream becomes part of the capture."""
        captured = GraphStreamState(state, self)
        self._states.append(captured)
        self.record.stream(state.handle)
        self._enter(captured)

    def _enter(self, state: GraphStreamState) -> None:
        state.device.streams[state.handle] = state
        self._captures[state.device.index, state.handle] = _StreamRecorder(self, state)

    def _leave(self, state: GraphStreamState) -> None:
        state.device.streams[state.handle] = state.before
        self._captures.pop((state.device.index, state.handle), None)

    def end(self) -> None:
        error = self._end()
        if error is not None:
            self._drop()
            raise error
        self._origin, self._device = self._states[0], self._states[0].device
        self._execute = self._runtime.libraries.function("aclmdlRIExecuteAsync")
        outside = {storage for state in self._states for storage in state.outside}
        self._captured = [s for s in (*outside, *self._own) if s.writer is not None and s.writer.graph is self]
        self._written = self._captured
        self._name = f"a graph of {len(self.record.nodes)} nodes"

    def _end(self) -> Optional[AclError]:
        """aclmdlRICaptureEnd; what went wrong. The streams run again in any case."""
        runtime, origin = self._runtime, self._states[0]
        model = ctypes.c_void_p()
        try:
            with runtime.on(origin.device):
                end = runtime.libraries.function("aclmdlRICaptureEnd")
                status = end(origin.handle, ctypes.byref(model))
                error = runtime.error("aclmdlRICaptureEnd", status) if status else None
        finally:
            self.capturing = False
            for state in self._states:
                self._leave(state)
            self.record.forget_handles()
        self._model = model.value or 0
        runtime.pending_destroy.extend(self._streams_to_destroy)
        self._streams_to_destroy.clear()
        return error

    def abandon(self) -> None:
        if self._runtime.usable():
            self._end()
            self._destroy()

    # ---------------------------------------------------------------------------------------- what the capture records
    def add(
        self,
        kind: str,
        name: str,
        stream: StreamState,
        read: Iterable[object] = (),
        written: Iterable[object] = (),
        nbytes: int = 0,
    ) -> None:
        assert isinstance(stream, GraphStreamState)
        number = self.record.stream(stream.handle) if stream.updated is None else 0
        task = node(kind, name, number, read, written, stream.group, nbytes)
        (self.record.nodes if stream.updated is None else stream.updated).append(task)

    def use(self, storage: NpuStorage, stream: StreamState) -> None:
        """Notes that a task uses a storage, before its memory is reserved."""
        assert isinstance(stream, GraphStreamState)
        block = storage.block
        if (block is None and not storage.borrowed) or (block is not None and block.segment.stream.graph is self):
            self._own.add(storage)
        else:
            stream.outside.add(storage)

    def keep(self, block: Optional[Block], owner: object) -> None:
        self._parked.append((block, owner))

    def destroy_later(self, index: int, handle: int) -> None:
        """Leaves the end of a captured stream to the end of the capture."""
        self._streams_to_destroy.append((index, handle))

    # ---------------------------------------------------------------------------------------- task groups
    def begin_group(self, stream: Stream) -> None:
        state = self._runtime.stream(stream.device, stream.handle)
        with self._runtime.on(state.device):
            self._runtime.call("aclmdlRICaptureTaskGrpBegin", state.handle)
        if isinstance(state, GraphStreamState):
            self._group_count += 1
            state.group = self._group_count

    def end_group(self, stream: Stream) -> int:
        runtime = self._runtime
        state = runtime.stream(stream.device, stream.handle)
        number = 0
        if isinstance(state, GraphStreamState):
            number, state.group = state.group or 0, None
        handle = ctypes.c_void_p()
        with runtime.on(state.device):
            runtime.call("aclmdlRICaptureTaskGrpEnd", state.handle, ctypes.byref(handle))
        self._groups[number] = handle.value or 0
        return number

    def begin_update(self, stream: Stream, group: int) -> None:
        runtime = self._runtime
        state = runtime.stream(stream.device, stream.handle)
        for replayed in list(self._replays):  # the tasks are replaced after the replays that run them now
            if replayed.alive and replayed is not state:
                stream.wait_stream(Stream.adopt(self._session.backend, replayed.device.index, replayed.handle))
        with runtime.on(state.device):
            runtime.call("aclmdlRICaptureTaskUpdateBegin", state.handle, self._groups[group])
        updating = self._updates.get(group)
        if updating is None:
            updating = self._updates[group] = GraphStreamState(state, self)
        updating.before, updating.handle = state, state.handle
        updating.group, updating.updated = group, []
        updating.replaced, updating.outside = updating.outside, set()
        self._enter(updating)

    def end_update(self, stream: Stream) -> None:
        runtime = self._runtime
        updating = runtime.stream(stream.device, stream.handle)
        assert isinstance(updating, GraphStreamState)
        self._leave(updating)
        tasks, updating.updated = updating.updated or [], []
        replaced, updating.replaced = updating.replaced, set()
        try:
            with runtime.on(updating.device):
                runtime.call("aclmdlRICaptureTaskUpdateEnd", updating.handle)
        except BaseException:
            updating.outside |= replaced  # the group stays as it was
            raise
        nodes = self.record.nodes
        places = [i for i, task in enumerate(nodes) if task.group == updating.group]
        for place, task in zip(places, tasks):
            nodes[place] = task._replace(stream=nodes[place].stream)
        updating.written = [s for s in (*updating.outside, *self._own) if s.writer is updating]
        self._written = [*self._captured, *(s for state in self._updates.values() for s in state.written)]
        gone = replaced - updating.outside
        for storage in gone:
            storage.others = tuple(stream for stream in storage.others if stream is not updating)
        if gone:
            runtime.keep_until_passed(gone, updating.before)

    # ---------------------------------------------------------------------------------------- replay
    def replay(self, stream: Optional[Stream]) -> None:
        runtime, status = self._runtime, CONTEXT_NULL
        if stream is None and not runtime.closed and not entered_streams():
            target = self._device.default  # as target() mostly finds; a wrong context is CANN's to refuse
            status = self._execute(self._model, target.handle)
        if status:
            if status in OTHER_CONTEXT:
                target = self._session.target(stream)
                status = self._execute(self._model, target.handle)
            if status:
                raise runtime.error("aclmdlRIExecuteAsync", status)
        self.replayed = True
        self._replays[target] = self._replays.get(target, 0) + 1
        target.launched.append(self._name)
        origin = self._origin
        for storage in self._written:
            storage.writer = origin
        if runtime.blocking:
            runtime.wait_stream(target)

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits for the replays."""
        for stream, count in list(self._replays.items()):
            self._runtime.wait_stream(stream, timeout)
            passed = self._replays.pop(stream, count)
            if passed != count:  # another thread has queued one meanwhile
                self._replays[stream] = passed

    def streams(self) -> list[StreamState]:
        return [stream for stream in self._replays if stream.alive]

    # ---------------------------------------------------------------------------------------- the end
    @property
    def memory(self) -> int:
        states = {*self._states, *self._updates.values()}
        pools = {state.device.pool for state in states}
        return sum(s.size for pool in pools for s in list(pool.segments.values()) if s.stream in states)

    def close(self) -> None:
        if not self._runtime.usable():
            return
        try:
            self.wait()
        except AclError as error:
            self._runtime.warn(error.routine, error.status)
        self._destroy()

    def let_go(self) -> None:
        if self._states and self._runtime.usable():
            self._runtime.leave(self._close_if_passed)

    def _close_if_passed(self) -> bool:
        """Destroys the graph unless a replay is under way."""
        try:
            if not all(map(self._runtime.stream_done, self.streams())):
                return False
        except AclError as error:
            if error.status == STREAM_CAPTURED:  # and cannot be asked
                return False
        self._destroy()
        return True

    def _destroy(self) -> None:
        model, self._model = self._model, 0
        runtime = self._runtime
        if model:
            with runtime.on(self._states[0].device):
                runtime.warn("aclmdlRIDestroy", runtime.libraries.function("aclmdlRIDestroy")(model))
        self._drop()

    def _drop(self) -> None:
        """Gives the graph's memory back. Nothing runs on it."""
        runtime = self._runtime
        states = [*self._states, *self._updates.values()]
        self._states, self._updates, self._written, self._captured = [], {}, [], []
        self._replays.clear()
        with runtime.lock:
            runtime.run_deferred()
            for state in states:
                state.alive = False
                for storage in state.outside:
                    storage.others = tuple(stream for stream in storage.others if stream.graph is not self)
                pool = state.device.pool
                pool.collect()
                pool.forget(state)
            parked, self._parked = self._parked, []
            for block, owner in parked:
                (states[0].device.pool if block is None else block.segment.pool).pass_on(block, owner)
        for state in states:
            state.outside.clear()
