"""Where the time of a recorded program went: its launches on the host, and on streams where times of the device were noted."""

from __future__ import annotations

import statistics
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from ascend_aclnn.recording import Call, Launch, Recording
from ascend_aclnn.replay.summary import tensor_words

_ALLOCATORS = {"aclrtMalloc": "size", "aclrtMallocAlign32": "size"}
_UNKNOWN = float("nan")
_NO_STREAM = 0xFFFFFFFF  # MSPTI_INVALID_STREAM_ID
_MOST_RUNS = 10**9  # of a process: arrows have numbers, for Perfetto drops those with other names
_SHOWN = 10  # blocks of the peak of memory that are listed
_EXECUTES = "aclmdlRIExecute"  # how the names of functions begin that replay a graph
_UNTIED = "of no call that was recorded"

Cause = Union[Launch, Call]


class Run(NamedTuple):
    """What the device did: a kernel, a copy, a fill or a collective; microseconds of the program's clock."""

    kind: str
    name: str
    begin: float
    duration: float
    device: int
    stream: int
    cause: Optional[Cause]  # what queued it; for a graph's task the call that replayed the graph


class Block(NamedTuple):
    """Device memory that the program allocated, and the launch before which it did."""

    nbytes: int
    time: float
    before: str


class Row(NamedTuple):
    """An operator of the table, or another function that queued work; microseconds."""

    operator: str
    calls: int  # of one that a graph replayed: how often it ran
    host: float  # NaN where a graph replayed it
    device: float  # NaN where no time of the device is known
    nbytes: float  # NaN where it is not known
    replayed_by: str = ""  # the function that replayed it; its row comes before


class Timeline:
    """The launches of a recording with their times, and the memory that the program held."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.launches = list(recording.launches)
        self.calls = [event for event in recording.events() if isinstance(event, Call)]
        begins = [*(launch.times[0] for launch in self.launches), *(call.times[0] for call in self.calls)]
        self.begin = min(filter(None, begins), default=0)  # ns
        self.runs = self._read_times(Path(f"{recording.path}.times"))
        self.memory, self.peak, self.peak_blocks = self._trace_memory()

    # ------------------------------------------------------------------------------------------------ the device
    def _read_times(self, path: Path) -> list[Run]:
        """What the device did. Its calls are those of the recording, thread by thread, in order; that gives its clock, too."""
        if not path.is_file():
            return []
        tasks: list[tuple[str, int, int, int, int, int, str]] = []
        calls: list[tuple[int, int, int, str]] = []
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            words = line.split(" ")
            if words[0] == "call" and len(words) == 6:
                calls.append((int(words[1]), int(words[3]), int(words[4]), words[5]))
            elif len(words) == 7 and words[0] in ("kernel", "copy", "set", "collective"):
                start, end, device, stream, correlation = map(int, words[1:6])
                if stream != _NO_STREAM:  # else the call itself did it
                    tasks.append((words[0], start, end, device, stream, correlation, words[6]))
        waiting: dict[tuple[int, str], deque[Cause]] = defaultdict(deque)
        for launch in self.launches:
            if launch.statuses == (0, 0):
                waiting[launch.threads[1], launch.operator.name].append(launch)
        for call in self.calls:
            if call.status == 0:
                waiting[call.thread, call.name].append(call)
        causes: dict[int, Cause] = {}
        offsets = []
        for start, thread, correlation, name in sorted(calls):
            queue = waiting.get((thread, name))
            if queue:
                causes[correlation] = queue.popleft()
                offsets.append(start - _place(causes[correlation])[0])
        offset = statistics.median(offsets) if offsets else 0
        runs = []
        for kind, start, end, device, stream, correlation, name in tasks:
            begin = self._microseconds(start - offset)
            runs.append(Run(kind, name, begin, (end - start) / 1000, device, stream, causes.get(correlation)))
        return sorted(runs, key=lambda run: run.begin)

    def _microseconds(self, time: float) -> float:
        return (time - self.begin) / 1000

    # ---------------------------------------------------------------------------------------------------- memory
    def _trace_memory(self) -> tuple[list[tuple[float, int]], int, list[Block]]:
        """Bytes allocated over time, the most, and the blocks that were there then."""
        blocks: dict[int, Block] = {}
        points, used, peak, owners = [], 0, 0, []
        launched = [(launch.times[0], launch) for launch in self.launches]
        at = 0
        for call in self.calls:
            while at < len(launched) and launched[at][0] <= call.times[0]:
                at += 1
            if call.status != 0:
                continue
            time = self._microseconds(call.times[1])
            if call.name in _ALLOCATORS:
                address, nbytes = call.arguments.get("devPtr"), call.arguments.get(_ALLOCATORS[call.name])
                if not isinstance(address, int) or not isinstance(nbytes, int):
                    continue
                following = (
                    f"#{launched[at][1].index} {launched[at][1].operator.name}" if at < len(launched) else "the end"
                )
                blocks[address] = Block(nbytes, time, following)
                used += nbytes
            elif call.name == "aclrtFree":
                freed = blocks.pop(call.arguments.get("devPtr", 0), None)  # type: ignore[arg-type]
                used -= 0 if freed is None else freed.nbytes
            else:
                continue
            points.append((time, used))
            if used > peak:
                peak, owners = used, list(blocks.values())
        return points, peak, sorted(owners, key=lambda block: -block.nbytes)

    # ----------------------------------------------------------------------------------------------- results
    @property
    def rows(self) -> list[Row]:
        """A row for each operator, and for each other function that queued work, by time on the device (on the host where that
        is not known), longest first.

        The row of a function that replays graphs is followed by rows of their tasks. Work of the device whose call was not
        recorded has rows behind "of no call that was recorded".
        """
        device: dict[int, float] = defaultdict(float)
        inner: dict[str, dict[str, Row]] = defaultdict(dict)
        for run in self.runs:
            if run.cause is not None:
                device[id(run.cause)] += run.duration
            by = _UNTIED if run.cause is None else _name(run.cause)
            if by == _UNTIED or by.startswith(_EXECUTES):
                row = inner[by].get(run.name, Row(run.name, 0, _UNKNOWN, 0.0, _UNKNOWN, by))
                inner[by][run.name] = row._replace(calls=row.calls + 1, device=row.device + run.duration)
        rows: dict[str, Row] = {}
        causes: list[Cause] = [*self.launches, *self.calls]
        for cause in causes:
            name = _name(cause)
            if isinstance(cause, Launch) or id(cause) in device or name.startswith(_EXECUTES):
                took = device.get(id(cause), 0.0 if self.runs else _UNKNOWN)
                row = rows.get(name, Row(name, 0, 0.0, 0.0, 0.0))
                rows[name] = Row(
                    name, row.calls + 1, row.host + _host(cause), row.device + took, row.nbytes + _nbytes(cause)
                )
        if _UNTIED in inner:
            rows[_UNTIED] = Row(_UNTIED, 0, _UNKNOWN, sum(row.device for row in inner[_UNTIED].values()), _UNKNOWN)
        return [
            row for outer in _longest_first(rows) for row in (outer, *_longest_first(inner.get(outer.operator, {})))
        ]

    def lines(self) -> Iterator[str]:
        """A table of operators, and the peak of memory with its blocks."""
        yield f"{'operator':<40} {'calls':>7} {'host us':>10} {'device us':>10} {'MB':>9}"
        for row in self.rows:
            name = f"  {row.operator}" if row.replayed_by else row.operator
            times = f"{_number(row.host, 1):>10} {_number(row.device, 1):>10}"
            yield f"{name:<40} {row.calls:>7} {times} {_number(row.nbytes / 1e6, 2):>9}"
        tied = sum(run.cause is not None for run in self.runs)
        yield f"{len(self.launches)} launches; {len(self.runs)} runs on the device, {tied} tied to the call that caused them"
        if self.peak:
            yield f"the program had {self.peak / 1e6:.1f} MB of the device at most, in {len(self.peak_blocks)} blocks"
            for block in self.peak_blocks[:_SHOWN]:
                yield f"  {block.nbytes / 1e6:>9.2f} MB  allocated before {block.before}"

    def events(self) -> Iterator[dict[str, Any]]:
        """Chrome's trace events: both phases of each launch, other calls, runs on streams, arrows to them, memory."""
        process = self.recording.header.process
        name = f"{' '.join(self.recording.header.program)[:80] or 'program'} ({process})"
        yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
        devices = {device: _device_process(process, device) for device in sorted({run.device for run in self.runs})}
        for device, number in devices.items():
            yield {"ph": "M", "pid": number, "name": "process_name", "args": {"name": f"device {device} of {process}"}}
        for device, stream in sorted({(run.device, run.stream) for run in self.runs}):
            title = {"name": f"stream {stream}"}
            yield {"ph": "M", "pid": devices[device], "tid": stream, "name": "thread_name", "args": title}
        for launch in self.launches:
            yield from self._launch_events(launch, process)
        for call in self.calls:
            begin, end = call.times
            if end:
                span = {"ts": self._microseconds(begin), "dur": (end - begin) / 1000}
                facts = {"status": call.status, **call.arguments}
                yield {"ph": "X", "name": call.name, "pid": process, "tid": call.thread, **span, "args": facts}
        for number, run in enumerate(self.runs):
            there = {"pid": devices[run.device], "tid": run.stream}
            yield {
                "ph": "X",
                "name": run.name,
                **there,
                "ts": run.begin,
                "dur": run.duration,
                "args": {"kind": run.kind},
            }
            if run.cause is not None:
                begin, thread = _place(run.cause)
                flow = {"name": "launch", "cat": "launch", "id": process * _MOST_RUNS + number}
                here = {"pid": process, "tid": thread}
                yield {"ph": "s", **flow, **here, "ts": self._microseconds(begin)}
                yield {"ph": "f", "bp": "e", **flow, **there, "ts": run.begin}
        for time, used in self.memory:
            yield {"ph": "C", "name": "device memory", "pid": process, "ts": time, "args": {"bytes": used}}

    def _launch_events(self, launch: Launch, process: int) -> Iterator[dict[str, Any]]:
        shapes = ", ".join(tensor_words(tensor.description) for value in launch.values for tensor in value.tensors())
        facts = {"launch": launch.index, "tensors": shapes, "stream": f"{launch.stream:#x}"}
        for number, (begin, end) in enumerate((launch.times[:2], launch.times[2:])):
            if end:
                name = launch.operator.name + ("GetWorkspaceSize" if number == 0 else "")
                span = {"ts": self._microseconds(begin), "dur": (end - begin) / 1000}
                yield {"ph": "X", "name": name, "pid": process, "tid": launch.threads[number], **span, "args": facts}


def _device_process(process: int, device: int) -> int:
    return process * 100 + 1 + device  # a number of its own: processes of several ranks share a trace


def _name(cause: Cause) -> str:
    return cause.operator.name if isinstance(cause, Launch) else cause.name


def _place(cause: Cause) -> tuple[int, int]:
    """When the call began that queued the work, in ns, and its thread."""
    return (cause.times[2], cause.threads[1]) if isinstance(cause, Launch) else (cause.times[0], cause.thread)


def _host(cause: Cause) -> float:
    """Both phases of a launch, or the call, on the host, in microseconds."""
    return sum(max(0, end - begin) for begin, end in zip(cause.times[::2], cause.times[1::2])) / 1000


def _nbytes(cause: Cause) -> float:
    """Bytes of a launch's tensors, and of what is copied or filled."""
    if isinstance(cause, Call):
        count = cause.arguments.get("count") if cause.name.startswith("aclrtMem") else None
        return count if isinstance(count, int) else _UNKNOWN
    ranges = (tensor.description.byte_range for value in cause.values for tensor in value.tensors())
    return sum(stop - start for start, stop in ranges)


def _longest_first(rows: dict[str, Row]) -> list[Row]:
    return sorted(rows.values(), key=lambda row: -(row.device if row.device == row.device else row.host))


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if value == value else "-"
