"""Where time and memory go: ``profile()`` for the operators of a stretch of a program, ``benchmark()`` for one function.

with aclnn.profile() as profile:
    train_step()
print(profile)                       # a table of operators: calls, host and device time, bytes
profile.save_trace("step.json")      # for Perfetto or chrome://tracing
"""

from __future__ import annotations

import dataclasses
import html
import json
import os
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from ascend_aclnn import call
from ascend_aclnn.backends.interface import Backend, current_backend
from ascend_aclnn.core import notebook
from ascend_aclnn.core.graph_record import GraphNode
from ascend_aclnn.core.interface import MemoryBlock
from ascend_aclnn.core.streams import Event, Stream, current_stream
from ascend_aclnn.core.tensor import Tensor

_PENDING = 512  # events whose times are read together
_PEAK_STEP = 1.05  # the owners of memory are noted again where it has grown by so much


@dataclasses.dataclass
class Launch:
    """A call of an operator, or a replay of a graph ("Graph.replay").

    Times are microseconds since the profile began; device times are NaN where they are not known.
    """

    operator: str
    begin: float
    host: float  # what the call took the host
    device_begin: float
    device: float  # from its begin to its end on the stream, waits between its kernels included
    nbytes: int  # of its tensors
    shapes: str
    stream: int
    thread: int
    memory: int  # bytes in use by tensors behind the call
    replayed: tuple[GraphNode, ...] = ()  # what a replay of a graph runs, in order


class MemoryPoint(NamedTuple):
    """Bytes in use by tensors behind a call; its time in microseconds since the profile began."""

    time: float
    nbytes: int
    operator: str


class OperatorTimes(NamedTuple):
    """An operator's row of the table; times in microseconds.

    The row of graphs' replays is followed by rows of the operators that they ran; ``calls`` counts the runs of each.
    """

    operator: str
    calls: int
    host: float
    device: float
    nbytes: int
    replayed: bool = False  # by graphs; its times are those of the replays


class Profile:
    """What ``profile()`` has seen: ``launches`` in order, ``operators`` by their time, ``peak_memory`` and its owners."""

    def __init__(self, device_time: bool = True, memory: bool = False) -> None:
        self.launches: list[Launch] = []
        self.backend: Optional[Backend] = None
        self.peak_memory = 0  # bytes in use by tensors and workspaces, at most
        self.peak_owners: list[MemoryBlock] = []  # as seen behind calls
        self.peak_time = 0.0  # of the call behind which they were seen
        self._replayed: dict[tuple[GraphNode, ...], tuple[GraphNode, ...]] = {}  # each list of nodes once
        self._noted = 0  # bytes in use when the owners were noted
        self._device_time, self._memory = device_time, memory
        self._pending: list[tuple[int, Event, Event]] = []
        self._lock = threading.Lock()
        self._inside = threading.local()
        self._base: Optional[Event] = None
        self._last: dict[int, tuple[Event, float]] = {}  # by stream: its last event that was read, and when that was
        self._begin = 0.0
        self.seconds = 0.0

    # ------------------------------------------------------------------------------------------- the stretch
    def __enter__(self) -> Profile:
        if call.observer is not None:
            raise RuntimeError("a profile is being taken already; profiles do not nest")
        self.backend = current_backend()
        if self._device_time:
            self.backend.synchronize(self.backend.current_device(), None)
            self._base = Event()
            self._base.record(current_stream())
            self._base.synchronize()  # other streams would record their first events before it
        if self._memory:
            self.backend.record_origins(True)
        self.backend.reset_memory_peaks(self.backend.current_device())
        self._begin = time.perf_counter()
        call.observer = self
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        call.observer = None
        backend = self.backend
        assert backend is not None
        if self._memory:
            backend.record_origins(False)
        if self._device_time and kind is None:
            backend.synchronize(backend.current_device(), None)
            with self._lock:
                self._read(self._pending)
        for event, _ in self._last.values():
            event.close()
        self._pending, self._last = [], {}
        self.peak_memory = max(self.peak_memory, backend.memory_statistics(backend.current_device()).peak_used)
        self.seconds = time.perf_counter() - self._begin

    def busy(self) -> bool:
        """Whether this thread is inside of a call that is observed."""
        return getattr(self._inside, "call", False)

    def observe(self, name: str, args: Sequence[Any], stream: Optional[Stream], perform: Callable[[], Any]) -> Any:
        """Makes a call and notes it; see ``call.Observer``."""
        self._inside.call = True
        try:
            events = self._start(stream)
            begin = time.perf_counter()
            results = perform()
            end = time.perf_counter()
            if events is not None:
                events[1].record(events[2])
            self._note(name, args, results, begin, end, events)
            return results
        finally:
            self._inside.call = False

    def _start(self, stream: Optional[Stream]) -> Optional[tuple[Event, Event, Stream]]:
        backend = current_backend()
        if not self._device_time or backend is not self.backend or backend.captures:
            return None
        where = current_stream() if stream is None else stream
        first, last = Event(where.device), Event(where.device)
        first.record(where)
        return first, last, where

    def _note(
        self,
        name: str,
        args: Sequence[Any],
        results: Any,
        begin: float,
        end: float,
        events: Optional[tuple[Event, Event, Stream]],
    ) -> None:
        tensors = [*_tensors(args), *_tensors(results if isinstance(results, tuple) else (results,))]
        nodes = tuple(arg for arg in args if isinstance(arg, GraphNode) and arg.kind not in ("record", "wait"))
        used = self._used()
        launch = Launch(
            name,
            (begin - self._begin) * 1e6,
            (end - begin) * 1e6,
            float("nan"),
            float("nan"),
            sum(tensor.nbytes for tensor in (*tensors, *nodes)),
            " ".join(map(_described, tensors)),
            0 if events is None else events[2].handle,
            threading.get_native_id(),
            used,
            self._replayed.setdefault(nodes, nodes),
        )
        with self._lock:
            self.launches.append(launch)
            if events is not None:
                self._pending.append((len(self.launches) - 1, *events[:2]))
                if len(self._pending) >= 2 * _PENDING:
                    self._read(self._pending[:_PENDING])
                    del self._pending[:_PENDING]

    def _used(self) -> int:
        backend = current_backend()
        device = backend.current_device()
        used = backend.memory_statistics(device).used
        if self._memory and used > self._noted * _PEAK_STEP:
            self.peak_owners = sorted(backend.memory_snapshot(device), key=lambda block: -block.nbytes)
            self.peak_time = (time.perf_counter() - self._begin) * 1e6
            self._noted = used
        return used

    def _read(self, pending: Sequence[tuple[int, Event, Event]]) -> None:
        """The times of launches whose events have been recorded; waits for the last one.

        They count from the event before on the stream: the time between two events has the 24 bits of a float, which are
        microseconds after some seconds.
        """
        assert self._base is not None
        for index, first, last in pending:
            last.synchronize()
            launch = self.launches[index]
            before, when = self._last.get(launch.stream, (self._base, 0.0))
            launch.device_begin = when + before.elapsed_ms(first) * 1e3
            launch.device = first.elapsed_ms(last) * 1e3
            self._last[launch.stream] = last, launch.device_begin + launch.device
            first.close()
            if before is not self._base:
                before.close()

    # ------------------------------------------------------------------------------------------- what was seen
    @property
    def memory(self) -> list[MemoryPoint]:
        """Memory over time: what tensors hold behind each call."""
        return [MemoryPoint(launch.begin + launch.host, launch.memory, launch.operator) for launch in self.launches]

    @property
    def operators(self) -> list[OperatorTimes]:
        """A row for each operator, by device time (host time where it is not known), longest first.

        The row of graphs' replays is followed by rows of the operators that they ran; their own times are not known (NaN).
        """
        rows: dict[str, OperatorTimes] = {}
        replayed: dict[str, dict[str, OperatorTimes]] = {}
        for launch in self.launches:
            row = rows.get(launch.operator, OperatorTimes(launch.operator, 0, 0.0, 0.0, 0))
            rows[launch.operator] = OperatorTimes(
                row.operator,
                row.calls + 1,
                row.host + launch.host,
                row.device + launch.device,
                row.nbytes + launch.nbytes,
            )
            inner = replayed.setdefault(launch.operator, {})
            for node in launch.replayed:
                row = inner.get(node.name, OperatorTimes(node.name, 0, float("nan"), float("nan"), 0, True))
                inner[node.name] = row._replace(calls=row.calls + 1, nbytes=row.nbytes + node.nbytes)
        ordered = sorted(rows.values(), key=lambda row: -(row.device if row.device == row.device else row.host))
        return [row for outer in ordered for row in (outer, *replayed[outer.operator].values())]

    def __str__(self) -> str:
        lines = [f"{'operator':<40} {'calls':>7} {'host us':>10} {'device us':>10} {'per call':>9} {'MB':>9}"]
        for row in self.operators:
            each = (row.device if row.device == row.device else row.host) / row.calls
            times = f"{_number(row.host):>10} {_number(row.device):>10} {_number(each):>9}"
            lines.append(f"{'  ' * row.replayed + row.operator:<40} {row.calls:>7} {times} {row.nbytes / 1e6:>9.2f}")
        peak = f"tensors took {self.peak_memory / 1e6:.1f} MB at most"
        lines.append(f"{len(self.launches)} calls in {self.seconds * 1e3:.1f} ms; {peak}")
        for block in self.peak_owners[:10]:
            lines.append(f"  {block.nbytes / 1e6:>9.2f} MB  {block.origin or 'unknown origin'}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = ("operator", "calls", "host us", "device us", "MB")
        rows = [
            ("\u2002" * r.replayed + r.operator, r.calls, _number(r.host), _number(r.device), f"{r.nbytes / 1e6:.2f}")
            for r in self.operators
        ]
        return notebook.table(rows, head) + f"<p>{html.escape(str(self).splitlines()[len(rows) + 1])}</p>"

    def to_json(self) -> str:
        """Operators and launches as a JSON object; times in microseconds, NaN as null."""
        launches = [
            {k: _plain(v) for k, v in {**vars(launch), "replayed": [node.name for node in launch.replayed]}.items()}
            for launch in self.launches
        ]
        operators = [{k: _plain(v) for k, v in row._asdict().items()} for row in self.operators]
        owners = [{"bytes": block.nbytes, "origin": block.origin} for block in self.peak_owners]
        memory = {
            "peak_memory": self.peak_memory,
            "peak_owners": owners,
            "memory": [point._asdict() for point in self.memory],
        }
        return json.dumps({"operators": operators, "launches": launches, **memory})

    def save_trace(self, path: str) -> None:
        """Writes the launches in Chrome's trace format, with arrows from the host's call to its run on the stream."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": list(self._events()), "displayTimeUnit": "ns"}, file)

    def _events(self) -> Iterator[dict[str, Any]]:
        host, device = os.getpid(), 0
        yield {"ph": "M", "pid": host, "name": "process_name", "args": {"name": "host"}}
        yield {"ph": "M", "pid": device, "name": "process_name", "args": {"name": "device streams"}}
        streams = {
            handle: i for i, handle in enumerate(dict.fromkeys([0, *(launch.stream for launch in self.launches)]))
        }
        for number in streams.values():  # handles are longer than a thread's number may be
            name = f"stream {number}" if number else "default stream"
            yield {"ph": "M", "pid": device, "tid": number, "name": "thread_name", "args": {"name": name}}
        if self.peak_owners:
            owners = {
                f"{i}: {block.origin or 'unknown'}": block.nbytes for i, block in enumerate(self.peak_owners[:20])
            }
            peak = {"ph": "i", "s": "p", "name": "peak of memory", "pid": host, "tid": 0, "ts": self.peak_time}
            yield {**peak, "args": {"bytes": self.peak_memory, **owners}}
        ends: dict[int, float] = {}  # by stream; calls of several threads may be queued into each other
        for number, launch in enumerate(self.launches):
            facts: dict[str, Any] = {"shapes": launch.shapes, "bytes": launch.nbytes}
            if launch.replayed:
                facts["replayed"] = [f"{node.name} {node.arguments}" for node in launch.replayed]
            here = {"pid": host, "tid": launch.thread}
            there = {"pid": device, "tid": streams[launch.stream]}
            yield {"ph": "X", "name": launch.operator, **here, "ts": launch.begin, "dur": launch.host, "args": facts}
            yield {
                "ph": "C",
                "name": "memory",
                "pid": host,
                "ts": launch.begin + launch.host,
                "args": {"bytes": launch.memory},
            }
            if launch.device == launch.device:
                end = launch.device_begin + launch.device
                begin = min(max(launch.device_begin, ends.get(launch.stream, 0.0)), end)
                ends[launch.stream] = max(end, ends.get(launch.stream, 0.0))
                span = {"ts": begin, "dur": end - begin}
                yield {"ph": "X", "name": launch.operator, **there, **span, "args": facts}
                flow = {"name": "launch", "cat": "launch", "id": number}
                yield {"ph": "s", **flow, **here, "ts": launch.begin}
                yield {"ph": "f", "bp": "e", **flow, **there, "ts": begin}


def profile(device_time: bool = True, memory: bool = False) -> Profile:
    """Notes the calls of operators of a ``with`` block, on all threads: host time, device time, bytes, shapes, streams.

    ``device_time=False`` leaves the streams alone: no events are recorded around each call. ``memory=True`` also notes which
    lines of the program own memory at its peak, which costs some microseconds for each allocation. The memory pool's peaks
    begin again with the block. A replay of a graph is one call, "Graph.replay", with what it runs behind it. Operators of other
    packages (torch's own) are not seen; ``ascend-aclnn layer run`` sees all clients. RuntimeError where profiles would nest.
    """
    return Profile(device_time, memory)


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """Microseconds of a call: medians, and the spread between the quartiles."""

    name: str
    calls: int
    host: float  # the host's part: until the call returns
    host_spread: float
    total: float  # with the work that was queued, by the stream's events
    total_spread: float

    def __str__(self) -> str:
        host = f"{self.host:.1f} us (+-{self.host_spread / 2:.1f}) on the host"
        return f"{self.name}: {self.total:.1f} us (+-{self.total_spread / 2:.1f}) a call, {host}; {self.calls} calls"

    __repr__ = __str__


def benchmark(
    function: Callable[..., Any], *args: Any, seconds: float = 0.5, warm_up: int = 3, rounds: int = 9, **options: Any
) -> Benchmark:
    """Times ``function(*args, **options)``: the host's part, and a call's time on the current stream.

    After ``warm_up`` calls it makes ``rounds`` rounds of as many calls as fit into ``seconds``. A round's calls are queued
    one after the other and timed together by two events, so that launching and running overlap as in a program; the host's
    part is timed call by call. ValueError for counts and times that are not positive.
    """
    if seconds <= 0 or rounds < 1 or warm_up < 1:
        raise ValueError(f"seconds {seconds}, rounds {rounds} and warm_up {warm_up} must be positive")
    backend, stream = current_backend(), current_stream()
    for _ in range(warm_up):
        function(*args, **options)
    stream.synchronize()
    begin = time.perf_counter()
    function(*args, **options)
    stream.synchronize()
    each = max(1, int(seconds / rounds / max(time.perf_counter() - begin, 1e-7)))
    host, total = [], []
    first, last = Event(stream.device), Event(stream.device)
    for _ in range(rounds):
        first.record(stream)
        round_begin = time.perf_counter()
        for _ in range(each):
            before = time.perf_counter()
            function(*args, **options)
            host.append((time.perf_counter() - before) * 1e6)
        last.record(stream)
        last.synchronize()
        wall = (time.perf_counter() - round_begin) * 1e6
        queued = first.elapsed_ms(last) * 1e3 if backend.name != "numpy" else wall
        total.append(max(queued, 0.0) / each)
    first.close()
    last.close()
    name = getattr(function, "__name__", type(function).__name__)
    return Benchmark(name, len(host), statistics.median(host), _spread(host), statistics.median(total), _spread(total))


def _spread(values: list[float]) -> float:
    low, high = np.percentile(values, [25, 75])
    return float(high - low)


def _tensors(values: Sequence[Any]) -> Iterator[Any]:
    """The tensors among arguments or results: Tensors, ndarrays, and those in lists."""
    for value in values:
        if isinstance(value, (Tensor, np.ndarray)):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, (Tensor, np.ndarray)))


def _described(tensor: Any) -> str:
    name = getattr(tensor.dtype, "name", str(tensor.dtype))
    return f"{name.lower()}[{','.join(map(str, tensor.shape))}]"


def _number(value: float) -> str:
    return f"{value:.1f}" if value == value else "-"


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value


__all__ = ["Benchmark", "Launch", "MemoryPoint", "OperatorTimes", "Profile", "benchmark", "profile"]
