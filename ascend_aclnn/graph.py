"""Graph: work that is captured once and replayed often (aclmdlRI, "ACL Graph"), the same on both backends."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Callable, NoReturn, Optional

from ascend_aclnn import call
from ascend_aclnn.backends.interface import current_backend
from ascend_aclnn.core.errors import FORKED, INVALID_HANDLE, INVALID_PARAM, MODEL_CAPTURED, AclError
from ascend_aclnn.core.graph_record import GraphNode
from ascend_aclnn.core.streams import Stream, check_stream, current_stream

_MODES = {"global": 0, "thread-local": 1, "relaxed": 2}  # aclmdlRICaptureMode
_NEW, _CAPTURING, _CAPTURED, _CLOSED = "new", "being captured", "captured", "closed"


class _Forked:
    """Whether this process is a forked child, in which ``os.getpid()`` is worth its time."""

    here = False


_forked = _Forked()
os.register_at_fork(after_in_child=lambda: setattr(_forked, "here", True))


class TaskGroup:
    """Tasks of a graph that ``Graph.update`` replaces together. ``Graph.group`` makes it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = weakref.ref(graph)
        self._number: Optional[int] = None

    def __repr__(self) -> str:
        return f"TaskGroup({'not ended yet' if self._number is None else self._number})"


class Graph:
    """Work of a stream, captured once and replayed often without the cost of its calls.

        graph = Graph()
        with graph.capture(stream):
            y = ops.relu(ops.mm(x, w))
        x.assign(batch)
        graph.replay(stream)

    The calls in the block are recorded and not run. A replay runs them again, on the same memory: ``x``, ``w`` and ``y`` stay
    where they were. The graph keeps the memory of all Tensors that it uses; those that are made in the block come from memory
    of its own, which goes back when the graph is closed and the Tensors are dropped. docs/graphs.md has the rules.
    """

    def __init__(self) -> None:
        self._backend = current_backend()
        self._graph = self._backend.graph()
        self._state = _NEW
        self._changing = threading.Lock()
        self._process = os.getpid()
        self._replay: Optional[Callable[[Optional[Stream]], None]] = None  # once it is captured
        self._stream: Optional[Stream] = None  # where it was captured
        self._updated: Optional[Stream] = None  # a replay has to wait for an update on this stream
        self._release: weakref.finalize[..., Graph] = weakref.finalize(self, self._graph.let_go)
        self._release.atexit = False  # the backend releases what is left, in the right order

    def __repr__(self) -> str:
        if self._state != _CAPTURED:
            return f"Graph({self._state}, {self._backend.name})"
        return (
            f"Graph({_counted(len(self.nodes), 'node')}, {_counted(self.stream_count, 'stream')}, {self._backend.name})"
        )

    # ---------------------------------------------------------------------------------------- capture
    @contextlib.contextmanager
    def capture(self, stream: Optional[Stream] = None, *, mode: str = "global") -> Iterator[Graph]:
        """Records what is queued on a stream in the block, and on streams that wait for its events, instead of running it.

        The stream is current for the block (None: a new one); the default stream cannot be captured. Other streams must have
        been waited for at the end. ``mode`` says which synchronous copies are refused meanwhile: "global", all of this
        process's threads that use the device; "thread-local", those of this thread; "relaxed", none. AclError, with CANN's
        status, for what cannot be captured. An exception in the block ends the capture, and the graph can be captured again.
        """
        routine = "aclmdlRICaptureBegin"
        number = _MODES.get(mode.replace("_", "-"))  # torch writes "thread_local"
        if number is None:
            raise ValueError(f"mode is {mode!r}; it must be one of {', '.join(_MODES)}")
        if stream is not None:
            check_stream(stream, self._backend)
        self._refuse_forked(routine)
        with self._changing:
            if self._state in (_CAPTURING, _CAPTURED):
                hint = "" if self._state == _CAPTURING else "; capture into a new Graph, or close() this one"
                raise AclError(MODEL_CAPTURED, routine, f"the graph is {self._state} already{hint}")
            if self._state == _CLOSED:
                self._refuse_closed(routine)
            chosen = Stream() if stream is None else stream
            self._graph.begin(chosen, number)
            self._state, self._stream = _CAPTURING, chosen
        try:
            with chosen:
                yield self
        except BaseException:
            self._state = _NEW
            self._graph.abandon()
            raise
        self._state = _NEW
        self._graph.end()
        self._state, self._replay = _CAPTURED, self._graph.replay

    @contextlib.contextmanager
    def group(self, stream: Optional[Stream] = None) -> Iterator[TaskGroup]:
        """A block whose calls on a captured stream (None: the current one) become a task group, which can be updated."""
        chosen = current_stream() if stream is None else stream
        check_stream(chosen, self._backend)
        self._graph.begin_group(chosen)
        group = TaskGroup(self)
        try:
            yield group
        except BaseException:
            with contextlib.suppress(AclError):
                self._graph.end_group(chosen)
            raise
        group._number = self._graph.end_group(chosen)

    # ---------------------------------------------------------------------------------------- replay and update
    def replay(self, stream: Optional[Stream] = None) -> None:
        """Queues what was captured on a stream (None: the current one), in its order, and returns."""
        replay = self._replay
        if replay is None or (_forked.here and self._is_forked()):
            self._refuse_replay()
        if stream is not None:
            check_stream(stream, self._backend)
        if self._updated is not None:
            updated, self._updated = self._updated, None
            (current_stream() if stream is None else stream).wait_stream(updated)
        observer = call.observer
        if observer is None:
            replay(stream)
        else:
            observer.observe("Graph.replay", self.nodes, stream, lambda: replay(stream))

    @contextlib.contextmanager
    def update(self, group: TaskGroup, stream: Optional[Stream] = None) -> Iterator[None]:
        """Replaces the tasks of a group by those of the calls in the block, as many as the group has.

        The calls are made on a stream (None: the one that was captured), which is current for the block, and not run there.
        They replace the tasks when the stream comes to the end of the block; later replays wait for that. Where the block
        raises, the group stays as it was, unless all of its tasks had been replaced by then.
        """
        routine = "aclmdlRICaptureTaskUpdateBegin"
        if not isinstance(group, TaskGroup):
            raise TypeError(f"group is a {type(group).__name__}; it must be a TaskGroup, which group() makes")
        if self._replay is None or self._is_forked():
            self._refuse_replay(routine)
        if group._graph() is not self or group._number is None:
            raise AclError(INVALID_HANDLE, routine, "the task group does not belong to this graph")
        chosen = self._stream if stream is None else stream
        assert chosen is not None
        check_stream(chosen, self._backend)
        self._graph.begin_update(chosen, group._number)
        try:
            with chosen:
                yield
        except BaseException:
            with contextlib.suppress(AclError):
                self._graph.end_update(chosen)
                self._updated = chosen
            raise
        self._graph.end_update(chosen)
        self._updated = chosen

    def _refuse_replay(self, routine: str = "aclmdlRIExecuteAsync") -> NoReturn:
        self._refuse_forked(routine)
        if self._state == _CAPTURING:
            raise AclError(
                MODEL_CAPTURED, routine, "the graph is being captured; the with block of capture() must end first"
            )
        if self._state == _CLOSED:
            self._refuse_closed(routine)
        raise AclError(INVALID_PARAM, routine, "nothing has been captured; put calls into  with graph.capture(stream):")

    def _refuse_closed(self, routine: str) -> NoReturn:
        raise AclError(INVALID_HANDLE, routine, "the graph is closed; its memory is gone. Capture into a new Graph")

    def _is_forked(self) -> bool:
        return _forked.here and os.getpid() != self._process

    def _refuse_forked(self, routine: str) -> None:
        if self._is_forked():
            text = "this process was forked after the graph was made; make graphs in the child, or start it with spawn"
            raise AclError(FORKED, routine, text, explained=True)

    # ---------------------------------------------------------------------------------------- the end
    def close(self) -> None:
        """Waits for replays and releases the graph and its memory; idempotent."""
        with self._changing:
            if self._state == _CAPTURING:
                text = "the graph is being captured; the with block of capture() must end first"
                raise AclError(MODEL_CAPTURED, "aclmdlRIDestroy", text)
            self._state, self._replay = _CLOSED, None
        if self._release.detach() is not None and not self._is_forked():
            self._graph.close()

    def __enter__(self) -> Graph:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---------------------------------------------------------------------------------------- look
    @property
    def nodes(self) -> list[GraphNode]:
        """What was captured, in order: kind, name, stream, arguments, bytes, events."""
        return list(self._graph.record.nodes)

    @property
    def stream_count(self) -> int:
        """How many streams the graph was captured on."""
        return len(self._graph.record.streams)

    @property
    def memory(self) -> int:
        """Bytes of the graph's own memory: of the Tensors that were made while it was captured, and of workspaces."""
        return self._graph.memory

    def to_json(self) -> str:
        """Nodes, streams, and bytes as JSON text."""
        from ascend_aclnn import graph_pictures

        return graph_pictures.json_text(self.nodes, self.stream_count, self.memory, self._backend.name)

    def draw(self) -> str:
        """A picture of the graph as SVG text: a column for each stream, events as arrows. ``str(graph)`` is its table."""
        from ascend_aclnn import graph_pictures

        return graph_pictures.svg(self.nodes, self.stream_count)

    def __str__(self) -> str:
        from ascend_aclnn import graph_pictures

        return graph_pictures.text(repr(self), self.nodes, self.stream_count, self.memory)

    def _repr_html_(self) -> str:
        from ascend_aclnn import graph_pictures

        return graph_pictures.html_text(repr(self), self.nodes, self.stream_count, self.memory)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


__all__ = ["Graph", "TaskGroup"]
