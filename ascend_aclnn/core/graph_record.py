"""What a graph has captured, as both backends note it: nodes in their order, streams, events, bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Optional

from ascend_aclnn.core.spec import TensorSpec


class GraphNode(NamedTuple):
    """One task of a graph. Streams and events are numbered in the order in which the capture met them."""

    kind: str  # "operator", "collective", "copy", "record", "wait"
    name: str  # of the C function: aclnnMm, HcclAllReduce, aclrtMemcpyAsync, aclrtRecordEvent, aclrtStreamWaitEvent
    stream: int  # 0 is where the capture began
    arguments: str = ""  # "FLOAT(4, 8), FLOAT(8, 2) -> FLOAT(4, 2)"
    nbytes: int = 0  # of the tensors that it reads and writes
    event: Optional[int] = None  # of a record or wait
    after: Optional[int] = None  # of a wait: the number of the node that recorded the event
    group: Optional[int] = None  # the task group


class GraphRecord:
    """The nodes of a graph, and the numbers of its streams and events."""

    def __init__(self) -> None:
        self.nodes: list[GraphNode] = []
        self.streams: list[int] = []  # handles
        self._events: dict[int, tuple[int, int]] = {}  # handle -> number, and the node of the last record
        self._event_count = 0

    def stream(self, handle: int) -> int:
        """The number of a stream."""
        if handle not in self.streams:
            self.streams.append(handle)
        return self.streams.index(handle)

    def record(self, event: int, stream: int) -> None:
        """An event is recorded on a stream."""
        number = self._events.get(event, (self._event_count, 0))[0]
        self._event_count = max(self._event_count, number + 1)
        self._events[event] = (number, len(self.nodes))
        self.nodes.append(GraphNode("record", "aclrtRecordEvent", self.stream(stream), event=number))

    def wait(self, event: int, stream: int) -> None:
        """A stream waits for an event of the graph."""
        number, after = self._events[event]
        place = self.stream(stream)
        self.nodes.append(GraphNode("wait", "aclrtStreamWaitEvent", place, event=number, after=after))

    def knows(self, event: int) -> bool:
        return event in self._events

    def forget(self, event: int) -> None:
        """An event has been recorded outside of the capture."""
        self._events.pop(event, None)

    def forget_handles(self) -> None:
        """After the capture: other events and streams may get the same handles."""
        self._events.clear()


def node(
    kind: str,
    name: str,
    stream: int,
    read: Iterable[object] = (),
    written: Iterable[object] = (),
    group: Optional[int] = None,
    nbytes: int = 0,
) -> GraphNode:
    """A task with the texts and bytes of what it reads and writes: tensors, lists of them, and None; and more bytes."""
    inputs, outputs = list(_specs(read)), list(_specs(written))
    sides = [", ".join(map(_text, specs)) for specs in (inputs, outputs)]
    arguments = " -> ".join(side for side in sides if side)
    nbytes += sum(spec.nbytes for spec in (*inputs, *outputs))
    return GraphNode(kind, name, stream, arguments, nbytes, group=group)


def _specs(values: Iterable[object]) -> Iterable[TensorSpec]:
    for value in values:
        if isinstance(value, TensorSpec):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _specs(value)


def _text(spec: TensorSpec) -> str:
    return f"{spec.dtype.name}({', '.join(map(str, spec.shape))})"
