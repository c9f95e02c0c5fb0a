"""Where the time of a recorded program went: its launches on the host, and on streams where times of the device were noted."""

from __future__ import annotations

import statistics
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ascend_aclnn.recording import Call, Launch, Recording
from ascend_aclnn.replay.summary import tensor_words

_ALLOCATORS = {"aclrtMalloc": "size", "aclrtMallocAlign32": "size"}
_NO_STREAM = 0xFFFFFFFF  # MSPTI_INVALID_STREAM_ID
_SHOWN = 10  # blocks of the peak of memory that are listed


class Run(NamedTuple):
    """What the device did: a kernel, a copy, a fill or a collective; microseconds of the program's clock."""

    kind: str
    name: str
    begin: float
    duration: float
    device: int
    stream: int
    launch: Optional[int]  # the index of the launch that caused it


class Block(NamedTuple):
    """Device memory that the program allocated, and the launch before which it did."""

    nbytes: int
    time: float
    before: str


class Row(NamedTuple):
    """An operator of the table; microseconds."""

    operator: str
    calls: int
    host: float
    device: float  # NaN where no time of the device is known
    nbytes: int


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
        waiting: dict[tuple[int, str], deque[Launch]] = defaultdict(deque)
        for launch in self.launches:
            if launch.statuses == (0, 0):
                waiting[launch.threads[1], launch.operator.name].append(launch)
        launch_of: dict[int, Launch] = {}
        offsets = []
        for start, thread, correlation, name in sorted(calls):
            queue = waiting.get((thread, name))
            if queue:
                launch_of[correlation] = queue.popleft()
                offsets.append(start - launch_of[correlation].times[2])
        offset = statistics.median(offsets) if offsets else 0
        runs = []
        for kind, start, end, device, stream, correlation, name in tasks:
            found = launch_of.get(correlation)
            begin = self._microseconds(start - offset)
            runs.append(
                Run(kind, name, begin, (end - start) / 1000, device, stream, None if found is None else found.index)
            )
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
        """A row for each operator, the one with the most time of the device (of the host where it is not known) first."""
        device: dict[int, float] = defaultdict(float)
        for run in self.runs:
            if run.launch is not None:
                device[run.launch] += run.duration
        rows: dict[str, Row] = {}
        for launch in self.launches:
            row = rows.get(launch.operator.name, Row(launch.operator.name, 0, 0.0, 0.0, 0))
            took = device.get(launch.index, 0.0 if self.runs else float("nan"))
            nbytes = sum(_nbytes(tensor.description) for value in launch.values for tensor in value.tensors())
            rows[row.operator] = Row(
                row.operator, row.calls + 1, row.host + _host(launch), row.device + took, row.nbytes + nbytes
            )
        return sorted(rows.values(), key=lambda row: -(row.device if row.device == row.device else row.host))

    def lines(self) -> Iterator[str]:
        """A table of operators, and the peak of memory with its blocks."""
        yield f"{'operator':<40} {'calls':>7} {'host us':>10} {'device us':>10} {'MB':>9}"
        for row in self.rows:
            device = f"{row.device:.1f}" if row.device == row.device else "-"
            yield f"{row.operator:<40} {row.calls:>7} {row.host:>10.1f} {device:>10} {row.nbytes / 1e6:>9.2f}"
        tied = sum(run.launch is not None for run in self.runs)
        yield f"{len(self.launches)} launches; {len(self.runs)} runs on the device, {tied} tied to a launch"
        if self.peak:
            yield f"the program had {self.peak / 1e6:.1f} MB of the device at most, in {len(self.peak_blocks)} blocks"
            for block in self.peak_blocks[:_SHOWN]:
                yield f"  {block.nbytes / 1e6:>9.2f} MB  allocated before {block.before}"

    def events(self) -> Iterator[dict[str, Any]]:
        """Chrome's trace events: both phases of each launch, runs on streams, arrows between them, memory."""
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
            if run.launch is not None:
                launch = self.launches[run.launch]
                flow = {"name": "launch", "cat": "launch", "id": f"{process}.{number}"}
                here = {"pid": process, "tid": launch.threads[1]}
                yield {"ph": "s", **flow, **here, "ts": self._microseconds(launch.times[2])}
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


def _host(launch: Launch) -> float:
    """Both phases on the host, in microseconds."""
    begin, end, begin_two, end_two = launch.times
    return (end - begin + max(0, end_two - begin_two)) / 1000


def _nbytes(description: Any) -> int:
    start, stop = description.byte_range
    return int(stop - start)
