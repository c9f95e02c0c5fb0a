"""Streams, events and host callbacks of the emulated runtime, in its three modes."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from emulator_client import D2H, H2D, NEWEST, Cann, client
from graph_client import EXTERNAL, GLOBAL, create_event, end

DEFERRED = {"ASCEND_EMULATOR_STREAMS": "deferred"}
EAGER = {"ASCEND_EMULATOR_STREAMS": "eager"}
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
SYNC, TIME_LINE = 1, 8


class Gate:
    """A host function that holds a stream up until it is opened."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.entered = threading.Event()
        self.function = HOST_FUNCTION(self._wait)

    def _wait(self, _: object) -> None:
        self.entered.set()
        assert self._open.wait(60)

    def open(self) -> None:
        self._open.set()


def values(cann: Cann, address: int, count: int) -> list[int]:
    """What lies in device memory now; not ordered with any stream."""
    host = np.empty(count, np.uint8)
    cann.aclrtMemcpy(host.ctypes.data, count, address, count, D2H)
    return host.tolist()


def query(cann: Cann, stream: int | None) -> int:
    status = ctypes.c_int32(9)
    cann.aclrtStreamQuery(stream, ctypes.byref(status))
    return status.value


def recorded(cann: Cann, event: int) -> int:
    status = ctypes.c_int32(9)
    cann.aclrtQueryEventStatus(event, ctypes.byref(status))
    return status.value


# ---------------------------------------------------------------------------------------------------------- background


def body_order(cann: Cann) -> None:
    stream, block = cann.create("aclrtCreateStream"), cann.malloc(8)
    cann.aclrtMemset(block, 8, 0, 8)
    for value in range(1, 200):
        cann.aclrtMemsetAsync(block, 8, value, 8 - value % 8, stream)
    cann.aclrtSynchronizeStream(stream)
    assert values(cann, block, 8)[0] == 199
    x = cann.tensor(np.full((2, 2), 1, np.float32))
    double, out = cann.tensor(np.eye(2, dtype=np.float32) * 2), cann.tensor(np.zeros((2, 2), np.float32))
    staged = cann.malloc(16)
    workspaces = []
    for _ in range(100):  # x := x @ 2 I, through copies between the launches now and then
        executor, size = cann.prepare("aclnnMm", x, double, out, 0)
        workspaces.append(cann.malloc(max(size, 1)))
        cann.aclnnMm(workspaces[-1], size, executor, stream)
        cann.aclrtMemcpyAsync(staged, 16, out.address, 16, 3, stream)
        cann.aclrtMemcpyAsync(x.address, 16, staged, 16, 3, stream)
    cann.aclrtSynchronizeStream(stream)
    assert (cann.read(x) == np.float32(2.0**100)).all()
    for address in (block, staged, *workspaces):
        cann.aclrtFree(address)
    cann.aclrtDestroyStream(stream)


test_a_background_stream_keeps_its_order = client()(body_order)
test_an_eager_stream_keeps_its_order = client(**EAGER)(body_order)
test_a_deferred_stream_keeps_its_order = client(**DEFERRED)(body_order)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_a_stream_runs_while_the_program_goes_on(cann: Cann) -> None:
    stream, gate, block = cann.create("aclrtCreateStream"), Gate(), cann.malloc(4)
    cann.aclrtMemset(block, 4, 0, 4)
    cann.aclrtLaunchHostFunc(stream, gate.function, None)
    cann.aclrtMemsetAsync(block, 4, 7, 4, stream)
    assert gate.entered.wait(60)  # without any synchronisation
    assert query(cann, stream) == 1
    assert values(cann, block, 4) == [0] * 4
    error = cann.failure("aclrtSynchronizeStreamWithTimeout", stream, 20)
    assert error.status == 507046
    assert cann.failure("aclrtSynchronizeDeviceWithTimeout", 20).status == 507046
    assert cann.failure("aclrtSynchronizeStreamWithTimeout", stream, 0).status == 107000
    gate.open()
    cann.aclrtSynchronizeStreamWithTimeout(stream, 60_000)
    assert query(cann, stream) == 0
    assert values(cann, block, 4) == [7] * 4
    cann.aclrtFree(block)
    cann.aclrtDestroyStream(stream)


@client()
def test_a_poll_sees_a_launch_end(cann: Cann) -> None:
    x, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))
    executor, size = cann.prepare("aclnnMm", x, x, out, 0)
    workspace = cann.malloc(max(size, 1))
    cann.aclnnMm(workspace, size, executor, None)
    end = time.monotonic() + 60
    while query(cann, None) != 0 and time.monotonic() < end:
        pass
    assert query(cann, None) == 0
    cann.aclrtFree(workspace)  # nothing uses it any more


@client()
def test_many_launches_may_be_on_their_way(cann: Cann) -> None:
    x, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))
    workspace = cann.malloc(1 << 20)
    for _ in range(2000):
        executor, size = cann.prepare("aclnnMm", x, x, out, 0)
        cann.aclnnMm(workspace, size, executor, None)
    cann.aclrtSynchronizeStream(None)
    assert cann.read(out).tolist() == [[1, 0], [0, 1]]
    cann.aclrtFree(workspace)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_host_memory_of_copies(cann: Cann) -> None:
    stream, gate, block = cann.create("aclrtCreateStream"), Gate(), cann.malloc(4)
    pinned = cann.create("aclrtMallocHost", 4)
    pageable = np.full(4, 5, np.uint8)
    ctypes.memset(pinned, 3, 4)
    cann.aclrtLaunchHostFunc(stream, gate.function, None)
    cann.aclrtMemcpyAsync(block, 4, pageable.ctypes.data, 4, H2D, stream)
    pageable[:] = 9  # it was read before the call returned
    cann.aclrtMemcpyAsync(block, 2, pinned, 2, H2D, stream)
    ctypes.memset(pinned, 4, 4)  # pinned memory is read when the copy runs
    assert cann.failure("aclrtFreeHost", pinned).error == "EMULATOR_FREE_IN_USE"
    assert cann.failure("aclrtFree", block).error == "EMULATOR_FREE_IN_USE"
    gate.open()
    cann.aclrtMemcpyAsync(pageable.ctypes.data, 4, block, 4, D2H, stream)  # done when it returns
    assert pageable.tolist() == [4, 4, 5, 5]
    assert cann.failure("aclrtMemcpyAsync", pinned, 4, pageable.ctypes.data, 4, 0, stream).status == 207000
    cann.aclrtSynchronizeStream(stream)
    cann.aclrtFreeHost(pinned)
    cann.aclrtFree(block)
    cann.aclrtDestroyStream(stream)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_destroying_a_stream_ends_its_work(cann: Cann) -> None:
    block = cann.malloc(4)
    for name, wanted in (("aclrtDestroyStream", 7), ("aclrtDestroyStreamForce", 0)):
        cann.aclrtMemset(block, 4, 0, 4)
        stream, gate = cann.create("aclrtCreateStream"), Gate()
        cann.aclrtLaunchHostFunc(stream, gate.function, None)
        assert gate.entered.wait(60)
        cann.aclrtMemsetAsync(block, 4, 7, 4, stream)
        if name == "aclrtDestroyStream":  # waits
            opener = threading.Timer(0.05, gate.open)
            opener.start()
            cann.aclrtDestroyStream(stream)
            opener.join()
        else:
            cann.aclrtDestroyStreamForce(stream)
            gate.open()
        end = time.monotonic() + 60
        while cann.dump()["allocations"][0]["in_use"] and time.monotonic() < end:
            time.sleep(0.001)
        assert values(cann, block, 4) == [wanted] * 4
    cann.aclrtFree(block)


@client()
def test_errors_stay_with_their_stream(cann: Cann) -> None:
    bad, good = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
    weight, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((1, 2), np.float32))
    workspace = cann.malloc(1 << 20)
    for stream, row in ((bad, 9), (good, 1)):
        indices = cann.tensor(np.array([row], np.int64))
        executor, size = cann.prepare("aclnnEmbedding", weight, indices, out)
        cann.aclnnEmbedding(workspace, size, executor, stream)
    cann.aclrtSynchronizeStream(good)
    assert cann.failure("aclrtSynchronizeDevice").status == 161002
    cann.aclrtSynchronizeDevice()
    for stream in (bad, good):
        cann.aclrtDestroyStream(stream)
    cann.aclrtFree(workspace)


@client()
def test_a_stream_may_stop_at_its_first_error(cann: Cann) -> None:
    stream = cann.create("aclrtCreateStream")
    weight, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((1, 2), np.float32))
    workspace = cann.malloc(1 << 20)
    for mode, wanted in ((0, [[0, 1]]), (1, [[0, 0]])):
        cann.aclrtSetStreamFailureMode(stream, mode)
        cann.aclrtMemset(out.address, 8, 0, 8)
        for row in (9, 1):
            indices = cann.tensor(np.array([row], np.int64))
            executor, size = cann.prepare("aclnnEmbedding", weight, indices, out)
            cann.aclnnEmbedding(workspace, size, executor, stream)
        assert cann.failure("aclrtSynchronizeStream", stream).status == 161002
        assert cann.read(out).tolist() == wanted
    cann.aclrtDestroyStream(stream)
    cann.aclrtFree(workspace)


@client()
def test_nothing_of_a_long_queue_runs_behind_an_error(cann: Cann) -> None:
    """Though the device process has hundreds of its launches already; what comes after the error was told runs again."""
    stream = cann.create("aclrtCreateStream")
    cann.aclrtSetStreamFailureMode(stream, 1)
    weight, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((1, 2), np.float32))
    rows = {row: cann.tensor(np.array([row], np.int64)) for row in (0, 1, 9)}
    workspace = cann.malloc(1 << 20)

    def launch(row: int) -> None:
        executor, size = cann.prepare("aclnnEmbedding", weight, rows[row], out)
        cann.aclnnEmbedding(workspace, size, executor, stream)

    for behind in (1, 20, 700):
        for row in (*[1] * 40, 0, 9, *[1] * behind):
            launch(row)
        assert cann.failure("aclrtSynchronizeStream", stream).status == 161002
        assert cann.read(out).tolist() == [[1, 0]]
        for row in (0, 1):
            launch(row)
        cann.aclrtSynchronizeStream(stream)
        assert cann.read(out).tolist() == [[0, 1]]
    cann.aclrtDestroyStream(stream)
    cann.aclrtFree(workspace)


@client()
def test_streams_are_limited_as_on_the_chip(cann: Cann) -> None:
    streams = [cann.create("aclrtCreateStream") for _ in range(1983)]
    error = cann.failure("aclrtCreateStream", ctypes.byref(ctypes.c_void_p()))
    assert error.status == 207008
    for stream in streams:
        cann.aclrtDestroyStream(stream)
    cann.aclrtDestroyStream(cann.create("aclrtCreateStream"))


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_the_default_stream_is_that_of_the_context(cann: Cann) -> None:
    default = cann.create("aclrtCtxGetCurrentDefaultStream")
    block = cann.malloc(4)
    cann.aclrtMemsetAsync(block, 4, 1, 4, default)
    cann.aclrtMemsetAsync(block, 4, 2, 4, None)
    cann.aclrtSynchronizeStream(default)
    assert values(cann, block, 4) == [2] * 4
    assert cann.failure("aclrtDestroyStream", default).status == 107000
    cann.aclrtFree(block)


# -------------------------------------------------------------------------------------------------------------- events


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_waits_that_last_for_their_whole_timeout_are_counted_and_logged(cann: Cann) -> None:
    # Here, for the processes of the other tests need no command line.
    from ascend_aclnn.cli.host_checks import last_log_lines

    timed_out = cann._hook("aclemuTimedOutWaits", ctypes.c_uint64)
    stream, event, gate = cann.create("aclrtCreateStream"), cann.create("aclrtCreateEvent"), Gate()
    with tempfile.TemporaryDirectory() as place:
        os.environ["ASCEND_PROCESS_LOG_PATH"] = place
        cann.aclrtLaunchHostFunc(stream, gate.function, None)
        cann.aclrtRecordEvent(event, stream)
        assert cann.failure("aclrtSynchronizeStreamWithTimeout", stream, 20).message.startswith("EE1002: ")
        assert cann.failure("aclrtSynchronizeDeviceWithTimeout", 20).message.startswith("EE1002: ")
        assert cann.failure("aclrtSynchronizeEventWithTimeout", event, 20).message.startswith("EE8888: ")
        gate.open()
        cann.aclrtSynchronizeStreamWithTimeout(stream, 60_000)
        cann.aclrtSynchronizeEventWithTimeout(event, 60_000)
        cann.aclrtSynchronizeDevice()
        assert timed_out() == 3
        lines = last_log_lines(Path(place), os.environ)
        assert [line.partition("]")[0] for line in lines] == ["[ERROR"] * 3
        assert all(f"RUNTIME({os.getpid()}," in line and " after " in line for line in lines)
    cann.aclrtDestroyEvent(event)
    cann.aclrtDestroyStream(stream)


def body_events(cann: Cann) -> None:
    first, second = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
    block = cann.malloc(4)
    cann.aclrtMemset(block, 4, 0, 4)
    event = cann.create("aclrtCreateEventExWithFlag", SYNC | TIME_LINE)
    assert recorded(cann, event) == 1  # never recorded: complete
    for value in range(1, 30):
        cann.aclrtMemsetAsync(block, 4, value, 4, first)
        cann.aclrtRecordEvent(event, first)
        cann.aclrtStreamWaitEvent(second, event)
        cann.aclrtMemsetAsync(block, 2, value + 100, 2, second)
        cann.aclrtRecordEvent(event, second)  # the same event, recorded again while the first wait may be pending
        cann.aclrtStreamWaitEvent(first, event)
    cann.aclrtSynchronizeEvent(event)
    assert recorded(cann, event) == 1
    assert values(cann, block, 4) == [129, 129, 29, 29]
    cann.aclrtDestroyEvent(event)
    for stream in (first, second):
        cann.aclrtDestroyStream(stream)
    cann.aclrtFree(block)


test_events_order_background_streams = client()(body_events)
test_events_order_eager_streams = client(**EAGER)(body_events)
test_events_order_deferred_streams = client(**DEFERRED)(body_events)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_an_external_event_is_reset_behind_the_wait_for_it(cann: Cann) -> None:
    stream, waiting = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
    event, gate = create_event(cann, EXTERNAL), Gate()
    cann.aclmdlRICaptureBegin(stream, GLOBAL)
    cann.aclrtRecordEvent(event, stream)
    model = end(cann, stream)
    cann.aclrtLaunchHostFunc(waiting, gate.function, None)
    cann.aclrtStreamWaitEvent(waiting, event)
    cann.aclmdlRIExecuteAsync(model, stream)
    cann.aclrtSynchronizeStream(stream)
    cann.aclrtResetEvent(event, waiting)  # the event is recorded, and the wait has not looked yet
    assert recorded(cann, event) == 1
    gate.open()
    cann.aclrtSynchronizeStream(waiting)
    assert recorded(cann, event) == 0
    gate = Gate()
    cann.aclrtLaunchHostFunc(waiting, gate.function, None)
    cann.aclrtResetEvent(event, waiting)
    cann.aclrtRecordEvent(event, waiting)
    gate.open()
    cann.aclrtSynchronizeStream(waiting)
    assert recorded(cann, event) == 1  # the record came behind the reset
    cann.aclmdlRIDestroy(model)
    cann.aclrtDestroyEvent(event)
    for used in (stream, waiting):
        cann.aclrtDestroyStream(used)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_events_say_when_they_have_passed(cann: Cann) -> None:
    stream, gate = cann.create("aclrtCreateStream"), Gate()
    plain = cann.create("aclrtCreateEvent")
    assert recorded(cann, plain) == 0  # not ready: this query counts the other way round
    cann.aclrtLaunchHostFunc(stream, gate.function, None)
    cann.aclrtRecordEvent(plain, stream)
    status = ctypes.c_int32(9)
    cann.aclrtQueryEvent(plain, ctypes.byref(status))
    assert (recorded(cann, plain), status.value) == (0, 1)
    assert cann.failure("aclrtSynchronizeEventWithTimeout", plain, 20).status == 507047
    gate.open()
    cann.aclrtSynchronizeEventWithTimeout(plain, 60_000)
    cann.aclrtQueryEvent(plain, ctypes.byref(status))
    assert (recorded(cann, plain), status.value) == (1, 0)
    ex = cann.create("aclrtCreateEventExWithFlag", SYNC)
    assert cann.failure("aclrtQueryEvent", ex, ctypes.byref(status)).status == 207000
    assert cann.failure("aclrtResetEvent", ex, stream).status == 207000
    assert cann.failure("aclrtResetEvent", plain, stream).status == 207000
    flagged = cann.create("aclrtCreateEventWithFlag", TIME_LINE)
    assert cann.failure("aclrtStreamWaitEvent", stream, flagged).status == 107000  # made without ACL_EVENT_SYNC
    cann.aclrtRecordEvent(flagged, stream)
    cann.aclrtSynchronizeEvent(flagged)
    cann.aclrtResetEvent(flagged, stream)
    assert recorded(cann, flagged) == 0
    assert cann.failure("aclrtCreateEventWithFlag", ctypes.byref(ctypes.c_void_p()), 0).status == 107000
    for event in (plain, ex, flagged):
        cann.aclrtDestroyEvent(event)
    cann.aclrtDestroyStream(stream)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_events_keep_time(cann: Cann) -> None:
    stream, gate = cann.create("aclrtCreateStream"), Gate()
    start, end = (cann.create("aclrtCreateEventWithFlag", SYNC | TIME_LINE) for _ in range(2))
    untimed = cann.create("aclrtCreateEventWithFlag", SYNC)
    ms = ctypes.c_float(-1)
    assert cann.failure("aclrtEventElapsedTime", ctypes.byref(ms), start, end).status == 107006
    cann.aclrtRecordEvent(start, stream)
    cann.aclrtSynchronizeStream(stream)
    cann.aclrtLaunchHostFunc(stream, gate.function, None)
    cann.aclrtRecordEvent(end, stream)
    assert cann.failure("aclrtEventElapsedTime", ctypes.byref(ms), start, end).status == 507006
    gate.open()
    cann.aclrtRecordEvent(untimed, stream)
    cann.aclrtSynchronizeStream(stream)
    cann.aclrtEventElapsedTime(ctypes.byref(ms), start, end)
    assert ms.value >= 0
    assert cann.failure("aclrtEventElapsedTime", ctypes.byref(ms), end, start).status == 107007
    assert cann.failure("aclrtEventElapsedTime", ctypes.byref(ms), start, untimed).status == 107006
    for event in (start, end, untimed):
        cann.aclrtDestroyEvent(event)
    cann.aclrtDestroyStream(stream)


def body_chain(cann: Cann) -> None:
    """A chain of launches over streams that wait for each other; nobody looks before its end."""
    streams = [cann.create("aclrtCreateStream") for _ in range(3)]
    events = [cann.create("aclrtCreateEventExWithFlag", flags) for flags in (SYNC, SYNC, SYNC | TIME_LINE)]
    ends = [cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))]
    double, workspaces = cann.tensor(np.eye(2, dtype=np.float32) * 2), []
    random = np.random.default_rng(5)
    for step in range(100):
        stream, event = streams[random.integers(3)], events[random.integers(3)]
        executor, size = cann.prepare("aclnnMm", ends[step % 2], double, ends[(step + 1) % 2], 0)
        workspaces.append(cann.malloc(max(size, 1)))
        cann.aclnnMm(workspaces[-1], size, executor, stream)
        cann.aclrtRecordEvent(event, stream)
        for other in streams:
            for _ in range(random.integers(1, 3)):
                cann.aclrtStreamWaitEvent(other, event)
    cann.aclrtSynchronizeStream(streams[random.integers(3)])
    assert (cann.read(ends[0]) == np.eye(2) * 2.0**100).all()
    for event in events:
        cann.aclrtDestroyEvent(event)
    for stream in streams:
        cann.aclrtDestroyStream(stream)
    for workspace in workspaces:
        cann.aclrtFree(workspace)


test_streams_wait_for_each_other = client()(body_chain)
test_deferred_streams_wait_for_each_other = client(**DEFERRED)(body_chain)
test_eager_streams_wait_for_each_other = client(**EAGER)(body_chain)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_who_waits_for_a_stream_that_waits_gives_up_in_time(cann: Cann) -> None:
    first, second, gate = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream"), Gate()
    event = cann.create("aclrtCreateEventExWithFlag", SYNC)
    cann.aclrtLaunchHostFunc(first, gate.function, None)
    cann.aclrtRecordEvent(event, first)
    cann.aclrtStreamWaitEvent(second, event)
    assert cann.failure("aclrtSynchronizeStreamWithTimeout", second, 20).status == 507046
    assert (query(cann, second), recorded(cann, event)) == (1, 0)
    gate.open()
    cann.aclrtSynchronizeStreamWithTimeout(second, 60_000)
    assert (query(cann, second), recorded(cann, event)) == (0, 1)
    cann.aclrtDestroyEvent(event)
    for stream in (first, second):
        cann.aclrtDestroyStream(stream)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_an_event_may_go_while_streams_wait_for_it(cann: Cann) -> None:
    first, second, gate = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream"), Gate()
    event, block = cann.create("aclrtCreateEventExWithFlag", SYNC), cann.malloc(4)
    cann.aclrtMemset(block, 4, 0, 4)
    cann.aclrtLaunchHostFunc(first, gate.function, None)
    cann.aclrtMemsetAsync(block, 4, 1, 4, first)
    cann.aclrtRecordEvent(event, first)
    cann.aclrtStreamWaitEvent(second, event)
    cann.aclrtDestroyEvent(event)
    cann.aclrtMemsetAsync(block, 2, 2, 2, second)
    assert values(cann, block, 4) == [0] * 4
    gate.open()
    cann.aclrtSynchronizeStream(second)
    assert values(cann, block, 4) == [2, 2, 1, 1]
    for stream in (first, second):
        cann.aclrtDestroyStream(stream)
    cann.aclrtFree(block)


# ------------------------------------------------------------------------------------------------------------ deferred


@client(**DEFERRED)
def test_reading_too_early_shows_stale_data(cann: Cann) -> None:
    x, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.full((2, 2), 9, np.float32))
    executor, size = cann.prepare("aclnnMm", x, x, out, 0)
    workspace = cann.malloc(max(size, 1))
    cann.aclnnMm(workspace, size, executor, None)
    time.sleep(0.05)
    assert (cann.read(out) == 9).all()
    assert cann.failure("aclrtFree", workspace).error == "EMULATOR_FREE_IN_USE"
    other = cann.create("aclrtCreateStream")
    cann.aclrtSynchronizeStream(other)  # of another stream
    assert (cann.read(out) == 9).all()
    cann.aclrtSynchronizeStream(None)
    assert cann.read(out).tolist() == [[1, 0], [0, 1]]
    cann.aclrtFree(workspace)
    cann.aclrtDestroyStream(other)


@client(**DEFERRED)
def test_an_event_releases_what_is_before_it(cann: Cann) -> None:
    stream, other, block = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream"), cann.malloc(4)
    cann.aclrtMemset(block, 4, 0, 4)
    event = cann.create("aclrtCreateEventExWithFlag", SYNC)
    cann.aclrtMemsetAsync(block, 4, 1, 4, stream)
    cann.aclrtRecordEvent(event, stream)
    cann.aclrtMemsetAsync(block, 2, 2, 2, stream)
    cann.aclrtStreamWaitEvent(other, event)
    cann.aclrtSynchronizeStream(other)
    assert values(cann, block, 4) == [1] * 4
    cann.aclrtSynchronizeDevice()
    assert values(cann, block, 4) == [2, 2, 1, 1]
    cann.aclrtDestroyEvent(event)
    for handle in (stream, other):
        cann.aclrtDestroyStream(handle)
    cann.aclrtFree(block)


@client(**DEFERRED)
def test_polling_comes_to_an_end(cann: Cann) -> None:
    stream, block = cann.create("aclrtCreateStream"), cann.malloc(4)
    event = cann.create("aclrtCreateEventExWithFlag", SYNC)
    for value in range(5):
        cann.aclrtMemsetAsync(block, 4, value, 4, stream)
    cann.aclrtRecordEvent(event, stream)
    assert recorded(cann, event) == 0
    end = time.monotonic() + 60
    while recorded(cann, event) == 0 and time.monotonic() < end:
        pass
    assert recorded(cann, event) == 1
    assert values(cann, block, 4) == [4] * 4
    assert query(cann, stream) == 0
    cann.aclrtDestroyEvent(event)
    cann.aclrtDestroyStream(stream)
    cann.aclrtFree(block)


@client(**EAGER)
def test_an_eager_stream_is_done_when_the_call_returns(cann: Cann) -> None:
    x, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))
    executor, size = cann.prepare("aclnnMm", x, x, out, 0)
    workspace = cann.malloc(max(size, 1))
    cann.aclnnMm(workspace, size, executor, None)
    cann.aclrtFree(workspace)
    assert cann.read(out).tolist() == [[1, 0], [0, 1]]


# ----------------------------------------------------------------------------------------------------------- callbacks


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_callbacks_run_where_reports_are_processed(cann: Cann) -> None:
    stream = cann.create("aclrtCreateStream")
    order: list[str] = []
    ready, stop = threading.Event(), threading.Event()
    identity: list[int] = []
    status: list[int] = []

    def process() -> None:
        identity.append(threading.get_ident())
        ready.set()
        subscribed.wait(60)
        while not stop.is_set():
            try:
                cann.aclrtProcessReport(20)
            except RuntimeError as error:
                status.append(error.status)  # type: ignore[attr-defined]

    subscribed = threading.Event()
    thread = threading.Thread(target=process)
    thread.start()
    ready.wait(60)
    callback = HOST_FUNCTION(lambda _: order.append("callback"))
    assert cann.failure("aclrtLaunchCallback", callback, None, 1, stream).status == 107015
    cann.aclrtSubscribeReport(identity[0], stream)
    subscribed.set()
    assert cann.failure("aclrtSubscribeReport", identity[0], stream).status == 107011
    cann.aclrtLaunchCallback(callback, None, 1, stream)  # the stream waits for it
    after = HOST_FUNCTION(lambda _: order.append("after"))
    cann.aclrtLaunchHostFunc(stream, after, None)
    cann.aclrtSynchronizeStream(stream)
    assert order == ["callback", "after"]
    end = time.monotonic() + 60
    while 507012 not in status and time.monotonic() < end:
        time.sleep(0.01)
    stop.set()
    thread.join()
    assert set(status) == {507012}
    cann.aclrtUnSubscribeReport(identity[0], stream)
    assert cann.failure("aclrtProcessReport", 20).status == 107012  # this thread has no stream
    cann.aclrtDestroyStream(stream)
