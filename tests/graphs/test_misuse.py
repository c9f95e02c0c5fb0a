"""What may not be done with graphs: each case is refused with CANN's status, the same on all backends, and does no harm."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, Event, Executor, Graph, Stream, Tensor, ops
from ascend_aclnn.backends.interface import Backend

EVERY = ("global", "thread-local", "relaxed")
STRICT = ("global", "thread-local")
HOST = np.ones(4, np.float32)


class Bench:
    """What the cases need, made before a capture; ``y`` is what the capture has computed when a case begins."""

    def __init__(self) -> None:
        self.stream, self.other = Stream(), Stream()
        self.x, self.apart, self.out = (aclnn.asarray(HOST * n) for n in (2, 5, 0))
        self.y = self.x
        self.late, self.event = Event(), Event()
        self.late.record(self.other)
        self.other.synchronize()
        self.graph, self.second, self.finished = Graph(), Graph(), Graph()
        with self.finished.capture(self.other), self.finished.group(self.other) as self.group:
            ops.adds(self.apart, 1, 1, out=self.apart)

    def begin(self) -> None:
        """The first calls of the capture."""
        self.y = ops.muls(self.x, 3)
        self.event.record(self.stream)

    def second_capture(self) -> Any:
        return self.second.capture(self.other)


def open_group(bench: Bench, act: Callable[[], Any]) -> None:
    with bench.graph.group():
        act()


def enter(context: Any) -> None:
    with context:
        pass


class Case(NamedTuple):
    status: int
    routine: str  # the C function that refuses
    text: str  # what the message says
    act: Callable[[Bench], Any]
    modes: tuple[str, ...] = EVERY
    ends: int = 0  # the status with which the capture ends; 0: it goes on


def says(error: AclError, text: str) -> bool:
    """Whether the message has a text; on a card, where texts are CANN's, only that there is one."""
    backend = aclnn.backend()
    return text in str(error) if backend.emulated or backend.wraps_host_memory else bool(error.detail)


SYNCHRONIZE, COPY = "aclrtSynchronizeStream", "aclrtMemcpy"
BEGIN, WAIT = "aclmdlRICaptureBegin", "aclrtStreamWaitEvent"

WHILE_CAPTURING = {
    # reading results
    "numpy of a captured result": Case(107027, SYNCHRONIZE, "behind the replay", lambda b: b.y.numpy()),
    "item of a captured result": Case(107027, SYNCHRONIZE, "captured last", lambda b: b.y[0].item()),
    "numpy of another tensor": Case(107030, COPY, "in front of the capture", lambda b: b.apart.numpy(), STRICT),
    "assign to what is used": Case(107027, SYNCHRONIZE, "front of the capture", lambda b: b.x.assign(0)),
    # host data
    "assign": Case(107030, COPY, "in front of the capture", lambda b: b.out.assign(0), STRICT),
    "asarray": Case(107030, COPY, "in front of the capture", lambda b: aclnn.asarray(HOST), STRICT),
    "zeros": Case(107030, COPY, "in front of the capture", lambda b: aclnn.zeros(4), STRICT),
    "ndarray beside a Tensor": Case(107030, COPY, "capture", lambda b: ops.add(b.x, HOST, 1), STRICT),
    "ndarrays": Case(107030, COPY, "in front of the capture", lambda b: ops.add(HOST, HOST, 1), STRICT),
    "ndarrays in relaxed mode": Case(107027, SYNCHRONIZE, "", lambda b: ops.add(HOST, HOST, 1), ("relaxed",)),
    "pageable copy_from": Case(107000, "aclrtMemcpyAsync", "pageable", lambda b: b.out.copy_from(HOST.copy())),
    "pageable copy_to": Case(107000, "aclrtMemcpyAsync", "pageable", lambda b: b.y.copy_to(HOST.copy())),
    "to_device": Case(107030, COPY, "in front of the capture", lambda b: b.apart.to_device(0), STRICT),
    # waiting
    "stream.synchronize": Case(107027, SYNCHRONIZE, "captured last", lambda b: b.stream.synchronize()),
    "stream.done": Case(107027, "aclrtStreamQuery", "captured last", lambda b: b.stream.done()),
    "synchronize": Case(107027, "aclrtSynchronizeDevice", "captured last", lambda b: aclnn.synchronize()),
    "device.synchronize": Case(107027, "aclrtSynchronizeDevice", "capture", lambda b: aclnn.Device(0).synchronize()),
    "event.synchronize": Case(107028, "aclrtSynchronizeEvent", "another event", lambda b: b.event.synchronize()),
    "event.done": Case(107028, "aclrtQueryEventStatus", "another event", lambda b: b.event.done()),
    "event.elapsed_ms": Case(107028, "aclrtEventElapsedTime", "another event", lambda b: b.late.elapsed_ms(b.event)),
    "empty_cache": Case(107027, SYNCHRONIZE, "cache", lambda b: aclnn.empty_cache()),
    "callback": Case(107027, "aclrtSynchronizeEvent", "callback", lambda b: b.stream.add_callback(int)),
    "data-dependent operator": Case(561000, "aclnnNonzero", "before the capture", lambda b: ops.nonzero(b.x)),
    # streams
    "stream.close": Case(107027, "aclrtDestroyStream", "destroyed", lambda b: b.stream.close()),
    "wait for an event from before": Case(107024, WAIT, "outside", lambda b: b.stream.wait_event(b.late)),
    "wait for a stream outside": Case(107024, WAIT, "outside", lambda b: b.stream.wait_stream(b.other)),
    "the default stream waits": Case(107031, WAIT, "default", lambda b: Stream.from_handle(0).wait_event(b.event)),
    # graphs
    "nested capture": Case(107027, BEGIN, "captured already", lambda b: enter(b.second.capture(b.stream))),
    "capture twice": Case(107026, BEGIN, "being captured", lambda b: enter(b.graph.capture(b.other))),
    "capture of the default stream": Case(
        100000, BEGIN, "null pointer", lambda b: enter(b.second.capture(Stream.from_handle(0)))
    ),
    "replay of the graph": Case(107026, "aclmdlRIExecuteAsync", "must end first", lambda b: b.graph.replay(b.other)),
    "replay on the captured stream": Case(107027, "aclmdlRIExecuteAsync", "captured", lambda b: b.finished.replay()),
    "close": Case(107026, "aclmdlRIDestroy", "must end first", lambda b: b.graph.close()),
    # task groups
    "group in a group": Case(
        107033, "aclmdlRICaptureTaskGrpBegin", "open", lambda b: open_group(b, lambda: enter(b.graph.group()))
    ),
    "group on another stream": Case(
        107029, "aclmdlRICaptureTaskGrpBegin", "not captured", lambda b: enter(b.graph.group(b.other))
    ),
    "update of the graph": Case(
        107026, "aclmdlRICaptureTaskUpdateBegin", "must end first", lambda b: enter(b.graph.update(b.group))
    ),
    "update on the captured stream": Case(
        107027, "aclmdlRICaptureTaskUpdateBegin", "captured", lambda b: enter(b.finished.update(b.group, b.stream))
    ),
}


@pytest.mark.parametrize("name", WHILE_CAPTURING)
def test_what_is_refused_while_a_stream_is_captured(each_backend: Backend, name: str) -> None:
    case, bench = WHILE_CAPTURING[name], Bench()
    for mode in EVERY:
        if mode not in case.modes:
            continue
        bench.x.assign(HOST * 2)
        graph = bench.graph = Graph()
        with graph.capture(bench.stream, mode=mode):
            bench.begin()
            with pytest.raises(AclError) as refused:
                case.act(bench)
            z = ops.adds(bench.y, 1, 1)  # the capture goes on
        error = refused.value
        assert (error.status, error.routine, says(error, case.text)) == (case.status, case.routine, True), (
            mode,
            error,
        )
        graph.replay(bench.stream)
        assert z.numpy().tolist() == [7.0] * 4
        bench.stream.synchronize()
        graph.close()


def test_what_relaxed_mode_allows(each_backend: Backend) -> None:
    bench, host = Bench(), HOST.copy()
    with bench.graph.capture(bench.stream, mode="relaxed"):
        assert bench.apart.numpy().tolist() == [5.0] * 4
        bench.out.assign(3)
        made = aclnn.asarray(host)
        y = ops.add(ops.add(made, bench.out, 1), host, 1)  # the values that host has now
        host[:] = 9
    bench.graph.replay()
    assert y.numpy().tolist() == [5.0] * 4


def test_host_values_of_a_relaxed_capture_last(each_backend: Backend) -> None:
    """Their memory is no intermediate's, neither of one before them nor of one behind them."""
    x, stream, graph = aclnn.asarray(HOST), Stream(), Graph()
    ops.adds(x, 1, stream=stream)
    aclnn.synchronize()
    with graph.capture(stream, mode="relaxed"):
        y = x
        for n in range(6):
            y = ops.adds(ops.muls(ops.add(y, HOST * n), 2), 1)
    expected = HOST
    for n in range(6):
        expected = (expected + n) * 2 + 1
    for _ in range(3):
        graph.replay(stream)
        assert y.numpy().tolist() == expected.tolist()


def use_other_stream_in_a_group(bench: Bench) -> None:
    bench.other.wait_event(bench.event)
    with bench.graph.group():
        ops.adds(bench.y, 1, 1)
        ops.adds(bench.y, 1, 1, stream=bench.other)


def join_two_captures(bench: Bench) -> None:
    with bench.second_capture():
        bench.other.wait_event(bench.event)


@pytest.mark.parametrize(
    ("act", "status", "word"),
    [(use_other_stream_in_a_group, 361001, "task group"), (join_two_captures, 107032, "captur")],
)
def test_what_makes_a_capture_invalid(
    each_backend: Backend, act: Callable[[Bench], None], status: int, word: str
) -> None:
    bench = Bench()
    with pytest.raises(AclError) as ended, bench.graph.capture(bench.stream):
        bench.begin()
        with pytest.raises(AclError) as refused:
            act(bench)
        ops.adds(bench.y, 1, 1)
    assert (refused.value.status, says(refused.value, word)) == (status, True), refused.value
    assert (ended.value.status, ended.value.routine) == (507903, "aclmdlRICaptureEnd"), ended.value
    assert_usable(bench)


def assert_usable(bench: Bench) -> None:
    """After a capture that has failed, streams run again, and the graph can be captured."""
    assert ops.adds(bench.apart, 1, 1, stream=bench.stream).numpy().tolist() == [6.0] * 4
    assert ops.adds(bench.apart, 1, 1, stream=bench.other).numpy().tolist() == [6.0] * 4
    with bench.graph.capture(bench.stream):
        y = ops.muls(bench.x, 2)
    bench.graph.replay()
    assert y.numpy().tolist() == [4.0] * 4


def work_that_is_not_recorded(bench: Bench) -> None:
    ops.adds(bench.y, 1, 1, stream=bench.other)


def an_event_that_is_not_waited_for(bench: Bench) -> None:
    bench.other.record_event()


@pytest.mark.parametrize("act", [work_that_is_not_recorded, an_event_that_is_not_waited_for])
def test_streams_that_have_not_returned(each_backend: Backend, act: Callable[[Bench], None]) -> None:
    bench = Bench()
    with pytest.raises(AclError, match=r"wait_stream\(side\)") as refused, bench.graph.capture(bench.stream):
        bench.begin()
        bench.other.wait_event(bench.event)
        act(bench)
    assert (refused.value.status, refused.value.routine) == (107025, "aclmdlRICaptureEnd")
    assert_usable(bench)


def replay_after_close(bench: Bench) -> None:
    bench.finished.close()
    bench.finished.replay()


def capture_after_close(bench: Bench) -> None:
    bench.finished.close()
    enter(bench.finished.capture(bench.stream))


def update_too_little(bench: Bench) -> None:
    with bench.finished.update(bench.group):
        pass


def update_too_much(bench: Bench) -> None:
    with bench.finished.update(bench.group):
        ops.adds(bench.apart, 2, 1, out=bench.apart)
        ops.adds(bench.apart, 2, 1, out=bench.apart)


def update_twice_at_once(bench: Bench) -> None:
    with bench.finished.update(bench.group):
        enter(bench.finished.update(bench.group, bench.stream))


EXECUTE, UPDATE_BEGIN, UPDATE_END = (
    "aclmdlRIExecuteAsync",
    "aclmdlRICaptureTaskUpdateBegin",
    "aclmdlRICaptureTaskUpdateEnd",
)

# status, routine, text, act
OTHERWISE = {
    "replay before the capture": (100000, EXECUTE, "nothing has been captured", lambda b: b.graph.replay()),
    "capture into a captured graph": (
        107026,
        BEGIN,
        "new Graph",
        lambda b: enter(b.finished.capture(b.stream)),
    ),
    "replay after close": (107017, EXECUTE, "closed", replay_after_close),
    "capture after close": (107017, BEGIN, "closed", capture_after_close),
    "group without a capture": (107029, "aclmdlRICaptureTaskGrpBegin", "", lambda b: enter(b.graph.group(b.stream))),
    "update before the capture": (100000, UPDATE_BEGIN, "nothing", lambda b: enter(b.graph.update(b.group))),
    "update on the default stream": (
        100000,
        UPDATE_BEGIN,
        "null pointer",
        lambda b: enter(b.finished.update(b.group, Stream.from_handle(0))),
    ),
    "update too little": (507000, UPDATE_END, "0 of the 1 task(s)", update_too_little),
    "update too much": (361001, "aclnnAdds", "all have been replaced", update_too_much),
    "update twice at once": (107033, UPDATE_BEGIN, "updates the task group", update_twice_at_once),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_is_refused_otherwise(each_backend: Backend, name: str) -> None:
    status, routine, text, act = OTHERWISE[name]
    bench = Bench()
    with pytest.raises(AclError) as refused:
        act(bench)
    error = refused.value
    assert (error.status, error.routine, says(error, text)) == (status, routine, True), error
    assert_usable(bench)
    if "close" not in name:
        bench.finished.replay(bench.other)
        assert bench.apart.numpy().tolist() == [7.0 if name == "update too much" else 6.0] * 4


@pytest.mark.aclnn_findings("memory/use-after-free")
def test_memory_that_its_owner_has_freed(each_backend: Backend) -> None:
    """Borrowed memory is the one kind that a graph cannot keep; only the emulated device knows what becomes of it."""
    if not each_backend.emulated:
        pytest.skip("nothing but the emulated device notices it")
    runtime = each_backend.runtime  # type: ignore[attr-defined]
    address = runtime.create("aclrtMalloc", 64, 0)
    borrowed, stream, graph = Tensor.from_pointer(address, (16,), "FLOAT"), Stream(), Graph()
    with graph.capture(stream):
        ops.muls(borrowed, 2)
    runtime.call("aclrtFree", address)
    with pytest.raises(AclError, match=r"aclnnMuls, uses the memory of its self .* freed after its capture") as refused:
        graph.replay(stream)
    assert (refused.value.status, "EMULATOR_USE_AFTER_FREE" in str(refused.value)) == (107000, True)


def test_a_full_device_while_a_stream_is_captured(each_backend: Backend) -> None:
    """Nothing is trimmed to make room; the capture goes on."""
    x, stream, graph = aclnn.asarray(HOST), Stream(), Graph()
    kept = aclnn.asarray(np.zeros(1 << 20, np.float32))
    limit = aclnn.memory_info().used + (8 << 20)
    del kept  # in the cache now, where there is one
    try:
        with graph.capture(stream):
            y = ops.muls(x, 3)
            aclnn.set_memory_limit(limit)
            with pytest.raises(AclError) as refused:
                ops.relu(aclnn.empty((8 << 20,), "FLOAT"))
    finally:
        aclnn.set_memory_limit(None)
    assert refused.value.status == 207001
    graph.replay()
    assert y.numpy().tolist() == [3.0] * 4


def test_a_group_of_another_graph(each_backend: Backend) -> None:
    bench = Bench()
    with bench.graph.capture(bench.stream):
        bench.begin()
    with pytest.raises(AclError, match="does not belong to this graph") as refused:
        enter(bench.graph.update(bench.group))
    assert refused.value.status == 107017


def elsewhere(act: Callable[[], Any]) -> Any:
    """What a function returns or raises on another thread, where the same backend is in use."""
    results: list[Any] = []

    def run() -> None:
        with aclnn.use_backend(backend.name):
            try:
                results.append(act())
            except Exception as error:
                results.append(error)

    backend = aclnn.backend()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


@pytest.mark.parametrize("mode", EVERY)
def test_other_threads_while_a_stream_is_captured(each_backend: Backend, mode: str) -> None:
    bench = Bench()
    with bench.graph.capture(bench.stream, mode=mode):
        bench.begin()
        read = elsewhere(bench.apart.numpy)
        again = elsewhere(lambda: enter(bench.second.capture(bench.stream)))
        z = elsewhere(lambda: ops.adds(bench.y, 1, 1, stream=bench.stream))  # the stream is captured for all threads
    assert isinstance(again, AclError) and (again.status, again.routine) == (107027, BEGIN)
    if mode == "global":
        assert isinstance(read, AclError) and (read.status, says(read, "another thread")) == (107030, True)
    else:
        assert read.tolist() == [5.0] * 4
    bench.graph.replay()
    assert z.numpy().tolist() == [7.0] * 4


@pytest.mark.parametrize("mode", EVERY)
def test_a_capture_that_ends_on_another_thread(each_backend: Backend, mode: str) -> None:
    bench = Bench()
    block = bench.graph._graph  # the with block of capture() cannot end on another thread: below it, it can
    block.begin(bench.stream, EVERY.index(mode))
    ops.adds(bench.x, 1, 1, stream=bench.stream)
    ended = elsewhere(block.end)
    if mode == "relaxed":
        assert ended is None
        block.close()
    else:
        assert isinstance(ended, AclError) and (ended.status, ended.routine) == (107038, "aclmdlRICaptureEnd")
    bench.graph = Graph()
    assert_usable(bench)


def test_two_captures_on_two_threads(each_backend: Backend) -> None:
    bench = Bench()

    def capture() -> Tensor:
        with bench.second.capture(bench.other, mode="thread_local"):
            z = ops.muls(bench.x, 7)
        bench.second.replay(bench.other)
        bench.other.synchronize()
        return z

    with bench.graph.capture(bench.stream, mode="thread-local"):
        bench.begin()
        z: Any = elsewhere(capture)
    bench.graph.replay()
    assert (bench.y.numpy().tolist(), z.numpy().tolist()) == ([6.0] * 4, [14.0] * 4)


def test_an_executor_of_a_data_dependent_operator(each_backend: Backend) -> None:
    bench = Bench()
    out = aclnn.empty((4, 1), "INT64")
    executor = Executor("aclnnNonzero", bench.x, out)
    with bench.graph.capture(bench.stream):
        bench.begin()
        with pytest.raises(AclError, match="depend on data") as refused:
            executor.run()
    assert refused.value.status == 561000
    executor.close()


def test_arguments_that_are_no_graphs_streams_or_modes(each_backend: Backend) -> None:
    bench = Bench()
    closed = Stream()
    closed.close()
    for error, word, act in (
        (ValueError, "mode is 'strict'", lambda: enter(bench.graph.capture(bench.stream, mode="strict"))),
        (TypeError, "must be a Stream", lambda: enter(bench.graph.capture(7))),  # type: ignore[arg-type]
        (ValueError, "is closed", lambda: enter(bench.graph.capture(closed))),
        (ValueError, "is closed", lambda: bench.finished.replay(closed)),
        (TypeError, "must be a TaskGroup", lambda: enter(bench.finished.update(1))),  # type: ignore[arg-type]
    ):
        with pytest.raises(error, match=word):
            act()
    assert_usable(bench)


def test_an_exception_ends_the_capture(each_backend: Backend) -> None:
    bench = Bench()
    with pytest.raises(KeyError), bench.graph.capture(bench.stream):
        bench.begin()
        bench.other.wait_event(bench.event)  # and has not returned
        raise KeyError
    assert_usable(bench)


def _in_a_forked_child(graph: Graph, connection: Any) -> None:
    statuses = []
    for act in (graph.replay, lambda: enter(Graph.capture(graph))):
        try:
            act()
        except AclError as error:
            statuses.append((error.status, "forked" in str(error), "npu-smi" in str(error)))
    graph.close()
    connection.send(statuses)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_cannot_use_a_graph(each_backend: Backend) -> None:
    bench = Bench()
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_in_a_forked_child, args=(bench.finished, theirs))
    child.start()
    assert ours.poll(60)
    assert ours.recv() == [(507899, True, False)] * 2
    child.join()
    assert child.exitcode == 0
    bench.finished.replay(bench.other)
    assert bench.apart.numpy().tolist() == [6.0] * 4
