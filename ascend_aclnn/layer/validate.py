"""Misuse and missing synchronisation that a recording shows: handles, sizes, lifetimes and order, and no bytes.

The identifiers are those of ``emulator run --validate`` (docs/emulator/validate.md), whose clocks these are: a vector clock
for each stream and for the host, and of each range of bytes the last write and the reads since then. What is waited for and
not known, a replay of a graph for one, ends the comparison of a stream until the host waits.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from ascend_aclnn.recording import Call, Frame, Launch, Recording, TensorValue, shown_frames
from ascend_aclnn.recording.reader import Event

HOST = (-1, 0)  # the timeline of all of its threads
Timeline = tuple[int, int]  # device and stream
Clock = dict[Timeline, int]

# Bytes of an element by HCCL's number of a data type.
_HCCL_BYTES = dict(enumerate((1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2)))


class Access(NamedTuple):
    """A read or write of a task: a launch, a copy or a fill."""

    task: str
    argument: str
    timeline: Timeline
    number: int  # of the task in its timeline
    where: str  # "launch 3, train.py:12 in step"

    def __str__(self) -> str:
        return f"{self.task} {self.argument} ({self.where})" if self.argument else self.where


@dataclasses.dataclass
class Finding:
    """What was found, the first time; ``times``: how often."""

    identifier: str
    severity: str  # "error" or "warning"
    text: str
    later: str
    earlier: str
    times: int = 1

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclasses.dataclass
class _Segment:
    start: int
    end: int
    write: Optional[Access] = None
    reads: list[Access] = dataclasses.field(default_factory=list)


class _Memory:
    """What is known of ranges of bytes, by address; they do not overlap."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._segments: list[_Segment] = []

    def _split(self, address: int) -> None:
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0 or not self._segments[at].start < address < self._segments[at].end:
            return
        old = self._segments[at]
        self._insert(at + 1, _Segment(address, old.end, old.write, list(old.reads)))
        old.end = address

    def _insert(self, at: int, segment: _Segment) -> None:
        self._starts.insert(at, segment.start)
        self._segments.insert(at, segment)

    def inside(self, start: int, end: int, fill: bool = False) -> list[_Segment]:
        """The segments of a range, divided at its ends; ``fill``: with new ones where nothing is known."""
        self._split(start)
        self._split(end)
        first, last = bisect.bisect_left(self._starts, start), bisect.bisect_left(self._starts, end)
        if not fill:
            return self._segments[first:last]
        at = start
        while at < end:
            if first < len(self._segments) and self._starts[first] == at:
                at = self._segments[first].end
            else:
                following = self._starts[first] if first < len(self._starts) else end
                self._insert(first, _Segment(at, min(following, end)))
                at = min(following, end)
            first += 1
        return self.inside(start, end)

    def replace(self, start: int, end: int, write: Optional[Access]) -> None:
        """Forgets a range; or it was written."""
        self._split(start)
        self._split(end)
        first, last = bisect.bisect_left(self._starts, start), bisect.bisect_left(self._starts, end)
        self._starts[first:last], self._segments[first:last] = [], []
        if write is not None:
            self._insert(first, _Segment(start, end, write))


class _Block(NamedTuple):
    size: int
    task: str  # what allocated it, or freed it
    host: bool = False  # pinned: once freed, its addresses may be any memory of the host


class Validator:
    """The findings of a recording. ``kinds``: "memory", "sync", or both with a comma between."""

    def __init__(self, kinds: str = "memory,sync") -> None:
        self._kinds = kinds.split(",")
        self.findings: dict[tuple[str, str, str], Finding] = {}
        self.tasks = 0
        self._clocks: dict[Timeline, Clock] = {HOST: {}}
        self._lost: set[Timeline] = set()
        self._events: dict[
            int, Optional[Clock]
        ] = {}  # what has passed with the latest recording; None: it is a graph's
        self._memory = _Memory()
        self._blocks: dict[int, _Block] = {}
        self._addresses: list[int] = []
        self._freed: dict[int, _Block] = {}
        self._handles: dict[int, str] = {}  # of streams and events that are alive: what made them
        self._destroyed: dict[int, str] = {}
        self._collectives: dict[int, Access] = {}  # the last one of each communicator, which accesses it
        self._captured: dict[Timeline, int] = {}  # streams of graphs, and the stream where the capture began

    def run(self, recording: Recording) -> list[Finding]:
        """Everything that a recording shows."""
        for event in recording.events():
            self.add(event)
        if recording.ended is not None:
            self._leaks()
        return list(self.findings.values())

    def add(self, event: Event) -> None:
        """The next event of the recording."""
        if isinstance(event, Launch):
            self._launch(event)
        elif isinstance(event, Call):
            self._call(event)

    # ------------------------------------------------------------------------------------------------ clocks
    def _clock(self, timeline: Timeline) -> Clock:
        """A timeline's clock, which has what the host has waited for."""
        clock = self._clocks.setdefault(timeline, {})
        if timeline != HOST:
            _join(clock, self._clocks[HOST])
        return clock

    def _waited(self, timeline: Timeline) -> None:
        """The host has waited for a stream."""
        _join(self._clocks[HOST], self._clock(timeline))
        self._lost.discard(timeline)

    def _waited_for_all(self, device: Optional[int]) -> None:
        for timeline in list(self._clocks):
            if timeline != HOST and (device is None or timeline[0] == device):
                self._waited(timeline)

    # ------------------------------------------------------------------------------------------------- tasks
    def _launch(self, launch: Launch) -> None:
        timeline = (launch.device, launch.stream)
        where = f"launch {launch.index} on stream {launch.stream:#x}{_place(launch.site)}"
        if launch.statuses[0] != 0 or launch.statuses[1] is None:
            return  # it has no phase two
        self._used(launch.stream, launch.operator.name, where)
        accesses: list[tuple[str, str, int, int]] = []  # argument, direction, start, end
        prototype = launch.operator
        for name, direction, value in zip(prototype.parameters, prototype.directions, launch.values):
            for number, tensor in enumerate(value.tensors()):
                argument = name if value.kind == "tensor" else f"{name}[{number}]"
                low, high = tensor.description.byte_range
                if tensor.address and high > low:
                    self._check_block(prototype.name, argument, where, tensor.address, high)
                    if _is_whole(tensor):
                        accesses.append((argument, direction, tensor.address + low, tensor.address + high))
        size, address = launch.workspace
        if size and address:
            self._check_block(prototype.name, "workspace", where, address, size, "memory/workspace-too-small")
            accesses.append(("workspace", "out", address, address + size))
        if launch.statuses[1] == 0:
            self._task(timeline, prototype.name, where, accesses)

    def _task(self, timeline: Timeline, task: str, where: str, accesses: list[tuple[str, str, int, int]]) -> None:
        if timeline in self._captured:
            return  # it runs with the graph
        clock = self._clock(timeline)
        clock[timeline] = number = clock.get(timeline, 0) + 1
        self.tasks += 1
        if timeline in self._lost:
            for _, direction, start, end in accesses:
                if direction != "in":
                    self._memory.replace(start, end, None)
            return
        for argument, direction, start, end in accesses:
            if direction == "in":
                self._read(clock, Access(task, argument, timeline, number, where), start, end)
        for argument, direction, start, end in accesses:
            if direction != "in":
                access = Access(task, argument, timeline, number, where)
                self._write(clock, access, start, end, direction == "inout")

    def _read(self, clock: Clock, access: Access, start: int, end: int) -> None:
        for segment in self._memory.inside(start, end, fill=True):
            if segment.write is not None and not _passed(clock, segment.write):
                self._unordered("sync/read-after-write", access, segment.write, segment)
            segment.reads = [read for read in segment.reads if not _passed(clock, read)]
            segment.reads.append(access)

    def _write(self, clock: Clock, access: Access, start: int, end: int, updates: bool) -> None:
        for segment in self._memory.inside(start, end):
            if segment.write is not None and not _passed(clock, segment.write):
                kind = "sync/read-after-write" if updates else "sync/write-after-write"
                self._unordered(kind, access, segment.write, segment)
                continue
            for read in segment.reads:
                if not _passed(clock, read):
                    self._unordered("sync/write-after-read", access, read, segment)
        self._memory.replace(start, end, access)

    def _unordered(self, identifier: str, later: Access, earlier: Access, segment: _Segment) -> None:
        text = f"is not ordered after {earlier}: {segment.end - segment.start} bytes at {segment.start:#x}"
        self._find(identifier, str(later), text, str(earlier))

    def _find(self, identifier: str, later: str, text: str, earlier: str = "", severity: str = "error") -> None:
        if ("sync" if identifier.startswith("sync/") else "memory") not in self._kinds:
            return
        key = identifier, _without_number(later), _without_number(earlier)
        if key in self.findings:
            self.findings[key].times += 1
        else:
            self.findings[key] = Finding(identifier, severity, f"{later} {text}", later, earlier)

    # ------------------------------------------------------------------------------------------------- lives
    def _check_block(
        self, task: str, argument: str, where: str, address: int, size: int, beyond: str = "memory/out-of-bounds"
    ) -> None:
        """That the bytes from an address on are within what was allocated; nothing where that is not known."""
        at = bisect.bisect_right(self._addresses, address) - 1
        block = self._blocks[self._addresses[at]] if at >= 0 else None
        start = self._addresses[at] if at >= 0 else 0
        later = f"{task} {argument} ({where})"
        if block is not None and address < start + block.size:
            if address + size > start + block.size:
                left = start + block.size - address
                text = f"needs {size} bytes at {address:#x}, where {left} are left of the {block.size} of {block.task}"
                self._find(beyond, later, text, block.task)
            return
        for start, old in self._freed.items():
            if start <= address < start + old.size and not old.host:
                self._find("memory/use-after-free", later, f"({address:#x}) was freed by {old.task}", old.task)
                return

    def _allocated(self, address: int, size: int, task: str) -> None:
        for start in [s for s, old in self._freed.items() if s < address + size and address < s + old.size]:
            del self._freed[start]
        if address not in self._blocks:
            bisect.insort(self._addresses, address)
        self._blocks[address] = _Block(size, task)
        self._memory.replace(address, address + size, None)

    def _free(self, address: int, task: str) -> None:
        block = self._blocks.pop(address, None)
        if block is None:
            old = self._freed.get(address)
            if old is not None:
                self._find("memory/double-free", task, f"frees {address:#x}, which was freed by {old.task}", old.task)
            return
        self._addresses.remove(address)
        self._freed[address] = _Block(block.size, task, task.startswith("aclrtFreeHost"))
        if len(self._freed) > 4096:
            del self._freed[next(iter(self._freed))]
        self._check_free(address, block.size, task)
        self._memory.replace(address, address + block.size, None)

    def _check_free(self, address: int, size: int, task: str) -> None:
        host = self._clocks[HOST]
        for segment in self._memory.inside(address, address + size):
            open_ = next((a for a in (segment.write, *segment.reads) if a is not None and not _passed(host, a)), None)
            if open_ is not None:
                text = f"frees memory before the host has waited for {open_}"
                self._find("memory/free-in-use", task, text, str(open_))
                break

    def _used(self, handle: int, task: str, where: str) -> None:
        if handle and handle not in self._handles and handle in self._destroyed:
            earlier = self._destroyed[handle]
            text = f"uses {handle:#x}, which was destroyed by {earlier}"
            self._find("handle/use-after-destroy", f"{task} ({where})", text, earlier)

    def _leaks(self) -> None:
        for block in self._blocks.values():
            self._find("memory/leak", block.task, f"were never freed: {block.size} bytes", severity="warning")
        for task in self._handles.values():
            self._find("memory/leak", task, "was never destroyed", severity="warning")

    # ------------------------------------------------------------------------------------------------- calls
    def _call(self, call: Call) -> None:
        name, values = call.name, call.arguments
        where = f"call at {call.times[0]} ns{_place(call.site)}"
        task = f"{name} ({where})"
        if call.status != 0:
            if name in ("aclrtFree", "aclrtFreeHost"):
                address = _integer(values, "devPtr", "hostPtr")
                if address not in self._blocks:
                    self._free(address, task)
                else:
                    self._check_free(address, self._blocks[address].size, task)
            elif name in ("aclrtDestroyStream", "aclrtDestroyEvent"):
                handle = _integer(values, "stream", "event")
                if handle not in self._handles and handle in self._destroyed:
                    text = f"destroys {handle:#x}, which was destroyed by {self._destroyed[handle]}"
                    self._find("handle/double-destroy", task, text, self._destroyed[handle])
        stream = (call.device, _integer(values, "stream"))
        event = _integer(values, "event")
        if "stream" in values and not name.startswith(("aclrtCreate", "aclrtDestroy")):
            self._used(stream[1], name, where)
        if "event" in values and not name.startswith(("aclrtCreate", "aclrtDestroy")):
            self._used(event, name, where)
        if call.status != 0:  # nothing has come of it, but it may be refused for what is wrong here
            if name.startswith(("aclrtMemcpy", "aclrtMemset")):
                self._check_copy(call, where)
            return
        if name.startswith("aclrtMalloc"):
            self._allocated(_integer(values, "devPtr", "hostPtr", "ptr"), _integer(values, "size"), task)
        elif name.startswith("aclrtFree"):
            if name.endswith("WithDevSync"):
                self._waited_for_all(call.device)
            self._free(_integer(values, "devPtr", "hostPtr"), task)
        elif name.startswith(("aclrtMemcpy", "aclrtMemset")):
            self._copy(call, stream, where)
        elif name.startswith(("aclrtCreateStream", "aclrtCreateEvent")):
            handle = _integer(values, "stream", "event")
            self._handles[handle] = task
            self._destroyed.pop(handle, None)
            self._events.pop(handle, None)
        elif name.startswith(("aclrtDestroyStream", "aclrtDestroyEvent")):
            handle = _integer(values, "stream", "event")
            if name.startswith("aclrtDestroyStream"):
                self._waited(stream)
                self._clocks.pop(stream, None)  # its numbers stay in what has waited for it
                self._captured.pop(stream, None)
            self._handles.pop(handle, None)
            self._destroyed[handle] = task
        elif name.startswith("aclrtRecordEvent"):
            self._events[event] = None if stream in self._captured else dict(self._clock(stream))
        elif name.startswith("aclrtResetEvent"):
            self._events.pop(event, None)
        elif name.startswith("aclrtStreamWaitEvent"):
            self._wait(stream, event)
        elif name.startswith(("aclrtSynchronizeEvent", "aclrtQueryEvent")):
            clock = self._events.get(event)
            if clock is not None:
                _join(self._clocks[HOST], clock)
            elif event not in self._events:
                self._waited_for_all(None)  # an event that was recorded elsewhere
        elif name.startswith(("aclrtSynchronizeStream", "aclrtStreamQuery")):
            self._waited(stream)
        elif name.startswith(("aclrtSynchronizeDevice", "aclrtResetDevice")):
            self._waited_for_all(call.device)
        elif name == "aclFinalize":
            self._waited_for_all(None)
        elif name.startswith("aclrtLaunch"):
            if stream not in self._captured:
                _join(self._clocks[HOST], self._clock(stream))  # the host may learn of its end by itself
        elif name == "aclmdlRICaptureBegin":
            self._captured[stream] = stream[1]
        elif name == "aclmdlRICaptureEnd":
            for captured in [s for s, first in self._captured.items() if first == stream[1]]:
                del self._captured[captured]
        elif name.startswith("aclmdlRIExecute"):
            self._lost.add(stream)
        elif name.startswith("Hccl") and "stream" in values:
            self._collective(call, stream, task)

    def _wait(self, stream: Timeline, event: int) -> None:
        clock = self._events.get(event)
        if clock is not None:
            _join(self._clock(stream), clock)
        elif event in self._events:  # recorded in a capture, which this stream joins
            first = next(iter(self._captured.values()), stream[1])
            self._captured.setdefault(stream, first)
        elif self._captured.get(stream) is None:
            self._lost.add(stream)  # recorded elsewhere, or not at all

    def _check_copy(self, call: Call, where: str) -> list[tuple[str, str, int, int]]:
        """What a copy or fill accesses of memory that is known."""
        values = call.arguments
        if "height" in values or "numBatches" in values or "count" not in values:
            return []
        count = _integer(values, "count")
        accesses = []
        for argument, direction in (("src", "in"), ("dst", "out"), ("devPtr", "out")):
            address = _integer(values, argument)
            at = bisect.bisect_right(self._addresses, address) - 1
            start = self._addresses[at] if at >= 0 else 0
            if not address or not count:
                continue
            self._check_block(call.name, argument, where, address, count)
            if at >= 0 and address < start + self._blocks[start].size:  # device memory, or pinned
                accesses.append((argument, direction, address, address + count))
        return accesses

    def _copy(self, call: Call, stream: Timeline, where: str) -> None:
        if "height" in call.arguments or "numBatches" in call.arguments or "count" not in call.arguments:
            return
        timeline = stream if "stream" in call.arguments else HOST
        self._task(timeline, call.name, where, self._check_copy(call, where))

    def _collective(self, call: Call, stream: Timeline, task: str) -> None:
        values = call.arguments
        count = _integer(values, "count", "recvCount", "sendCount")
        size = count * _HCCL_BYTES.get(_integer(values, "dataType"), 0)
        accesses = []
        for argument, direction in (("sendBuf", "in"), ("buf", "inout"), ("recvBuf", "out")):
            address = _integer(values, argument)
            whole = call.name in ("HcclAllReduce", "HcclReduce", "HcclBroadcast", "HcclSend", "HcclRecv")
            if address and size and whole:
                accesses.append((argument, direction, address, address + size))
        self._task(stream, call.name, task, accesses)
        if stream in self._captured:
            return
        clock, communicator = self._clock(stream), _integer(values, "comm")
        last, access = self._collectives.get(communicator), Access(call.name, "", stream, clock[stream], task)
        if last is not None and stream not in self._lost and not _passed(clock, last):
            text = f"is not ordered after {last}, of the same communicator"
            self._find("sync/communicator", str(access), text, str(last))
        self._collectives[communicator] = access


def _join(clock: Clock, other: Clock) -> None:
    for timeline, number in other.items():
        if clock.get(timeline, 0) < number:
            clock[timeline] = number


def _passed(clock: Clock, access: Access) -> bool:
    return clock.get(access.timeline, 0) >= access.number


def _integer(values: dict[str, Any], *names: str) -> int:
    return next((value for name in names if isinstance(value := values.get(name), int)), 0)


def _is_whole(tensor: TensorValue) -> bool:
    """Whether its elements fill the bytes between the first and the last one."""
    low, high = tensor.description.byte_range
    elements = math.prod(n for n, step in zip(tensor.description.shape, tensor.description.strides) if step or n == 1)
    return (high - low) * 8 <= max(1, elements) * tensor.description.spec.dtype.bits + 7


def _place(site: tuple[Frame, ...]) -> str:
    """The frame of a call site that says most, as the end of what names a launch or call."""
    return "".join(f", {frame}" for frame in shown_frames(site, 1))


def _without_number(text: str) -> str:
    """A side of a finding, without what differs each time: launches and calls of one line count as one."""
    head, mark, rest = text.partition(" (launch ")
    if mark:
        return head + rest[rest.find(" on stream") :]
    head, _, rest = text.partition(" (call at ")
    return head + rest.partition(" ns")[2]


def summary(validators: Iterator[Validator]) -> str:
    """How much was compared and found."""
    every = list(validators)
    found = [finding for validator in every for finding in validator.findings.values()]
    return f"{sum(v.tasks for v in every)} launches, copies and fills: {len(found)} findings"
