"""Captured graphs (aclmdlRI*) of the emulated runtime: capture, replay, update, and what is refused."""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
from emulator_client import D2D, D2H, H2D, NEWEST, Cann, client
from graph_client import (
    ACTIVE,
    EXTERNAL,
    GLOBAL,
    INVALID,
    NONE,
    RELAXED,
    THREAD_LOCAL,
    Multiply,
    captured,
    create_event,
    end,
)


def body_replay(cann: Cann) -> None:
    stream, other, multiply = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream"), Multiply(cann, 1, 2)
    assert captured(cann, stream) == (NONE, None)
    cann.aclmdlRICaptureBegin(stream, GLOBAL)
    state, model = captured(cann, stream)
    assert state == ACTIVE and model is not None
    multiply(stream)
    cann.aclrtMemcpyAsync(multiply.x.address, 16, multiply.out.address, 16, D2D, stream)
    assert end(cann, stream) == model
    assert captured(cann, stream) == (NONE, None)
    assert multiply.result() == 0  # recorded, and not run
    for _ in range(3):
        cann.aclmdlRIExecuteAsync(model, other)
    cann.aclrtSynchronizeStream(other)
    assert multiply.result() == 8
    multiply(stream)  # the stream runs tasks again
    cann.aclrtSynchronizeStream(stream)
    assert multiply.result() == 16
    cann.aclmdlRIDestroy(model)
    assert cann.failure("aclmdlRIExecuteAsync", model, stream).error == "EMULATOR_USE_AFTER_DESTROY"
    multiply.free()
    for each in (stream, other):
        cann.aclrtDestroyStream(each)


test_a_graph_runs_what_was_captured = client()(body_replay)
test_a_graph_runs_in_a_deferred_stream = client(ASCEND_EMULATOR_STREAMS="deferred")(body_replay)
test_a_graph_runs_in_an_eager_stream = client(ASCEND_EMULATOR_STREAMS="eager")(body_replay)


@client()
def test_streams_join_a_capture_by_events(cann: Cann) -> None:
    origin, side, third = (cann.create("aclrtCreateStream") for _ in range(3))
    fork, pass_on, join = (create_event(cann) for _ in range(3))
    first, second = Multiply(cann, 2, 3), Multiply(cann, 1, 5)
    cann.aclmdlRICaptureBegin(origin, GLOBAL)
    model = captured(cann, origin)[1]
    first(origin)
    cann.aclrtRecordEvent(fork, origin)
    assert captured(cann, side) == (NONE, None)
    cann.aclrtStreamWaitEvent(side, fork)
    assert captured(cann, side) == (ACTIVE, model)
    cann.aclrtMemcpyAsync(second.x.address, 16, first.out.address, 16, D2D, side)
    cann.aclrtRecordEvent(pass_on, side)
    cann.aclrtStreamWaitEvent(third, pass_on)
    second(third)
    cann.aclrtRecordEvent(join, third)
    cann.aclrtStreamWaitEvent(origin, join)
    cann.aclrtMemcpyAsync(first.x.address, 16, second.out.address, 16, D2D, origin)
    assert end(cann, origin) == model
    assert [captured(cann, each) for each in (side, third)] == [(NONE, None)] * 2
    for expected in (30, 450):
        cann.aclmdlRIExecuteAsync(model, third)
        cann.aclrtSynchronizeStream(third)
        assert second.result() == expected
    cann.aclmdlRIDestroy(model)
    for event in (fork, pass_on, join):
        cann.aclrtRecordEvent(event, origin)  # an event of an ended capture is as any other
        cann.aclrtSynchronizeEvent(event)
        cann.aclrtDestroyEvent(event)
    for multiply in (first, second):
        multiply.free()
    for each in (origin, side, third):
        cann.aclrtDestroyStream(each)


class Misuse:
    """A stream in a capture, and what else the cases below need; one process makes them all."""

    def __init__(self, cann: Cann) -> None:
        self.cann = cann
        self.stream, self.other = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
        self.event, self.fork, self.late = (create_event(cann) for _ in range(3))
        self.plain = cann.create("aclrtCreateEvent")
        self.block, self.pinned = cann.malloc(64), cann.create("aclrtMallocHost", 64)
        self.pageable = np.zeros(64, np.uint8)
        self.multiply = Multiply(cann, 2, 3)
        self.handle = ctypes.c_void_p()
        cann.aclrtRecordEvent(self.late, self.other)
        cann.aclrtSynchronizeStream(self.other)

    def begin(self, mode: int) -> None:
        self.cann.aclmdlRICaptureBegin(self.stream, mode)
        self.multiply(self.stream)
        self.cann.aclrtRecordEvent(self.event, self.stream)

    def close(self) -> int:
        """Ends the capture: the status."""
        return int(self.cann._function("aclmdlRICaptureEnd")(self.stream, ctypes.byref(self.handle)))

    def free(self) -> None:
        cann = self.cann
        self.multiply.free()
        for event in (self.event, self.fork, self.late, self.plain):
            cann.aclrtDestroyEvent(event)
        for stream in (self.stream, self.other):
            cann.aclrtDestroyStream(stream)
        cann.aclrtFree(self.block)
        cann.aclrtFreeHost(self.pinned)


BEFORE = "captured last: aclnnMul, task 0"
JOINED = "captured last: aclrtRecordEvent, task 1"
EVERY_MODE = (GLOBAL, THREAD_LOCAL, RELAXED)
STRICT = (GLOBAL, THREAD_LOCAL)

BLOCKED = 107041  # from 9.0 on; before, 107030

# A call while a stream is captured: its modes, name, arguments, status, and what its text names.
FORBIDDEN = [
    (EVERY_MODE, "aclrtSynchronizeStream", lambda m: (m.stream,), 107027, JOINED),
    (EVERY_MODE, "aclrtSynchronizeStreamWithTimeout", lambda m: (m.stream, 10), 107027, JOINED),
    (EVERY_MODE, "aclrtSynchronizeDevice", lambda m: (), 107027, JOINED),
    (EVERY_MODE, "aclrtSynchronizeDeviceWithTimeout", lambda m: (10,), 107027, JOINED),
    (EVERY_MODE, "aclrtStreamQuery", lambda m: (m.stream, ctypes.byref(ctypes.c_int32())), 107027, JOINED),
    (EVERY_MODE, "aclrtDestroyStream", lambda m: (m.stream,), 107027, JOINED),
    (EVERY_MODE, "aclrtDestroyStreamForce", lambda m: (m.stream,), 107027, JOINED),
    (EVERY_MODE, "aclrtSetStreamOverflowSwitch", lambda m: (m.stream, 1), 107027, JOINED),
    (EVERY_MODE, "aclrtSynchronizeEvent", lambda m: (m.event,), 107028, "only orders streams"),
    (EVERY_MODE, "aclrtQueryEventStatus", lambda m: (m.event, ctypes.byref(ctypes.c_int32())), 107028, JOINED),
    (EVERY_MODE, "aclmdlRICaptureBegin", lambda m: (m.stream, GLOBAL), 107027, "is captured already"),
    (EVERY_MODE, "aclmdlRIDestroy", lambda m: (captured(m.cann, m.stream)[1],), 107026, "aclmdlRICaptureEnd"),
    (EVERY_MODE, "aclmdlRIExecuteAsync", lambda m: (captured(m.cann, m.stream)[1], m.other), 107026, "still captured"),
    (EVERY_MODE, "aclrtStreamWaitEvent", lambda m: (None, m.event), 107031, "default stream"),
    (EVERY_MODE, "aclrtStreamWaitEvent", lambda m: (m.stream, m.late), 107024, "outside of the capture"),
    (EVERY_MODE, "aclrtRecordEvent", lambda m: (m.plain, m.stream), 207000, "aclrtCreateEventExWithFlag"),
    (EVERY_MODE, "aclmdlRICaptureEnd", lambda m: (m.other, ctypes.byref(m.handle)), 107029, "not captured"),
    (EVERY_MODE, "aclmdlRICaptureTaskGrpEnd", lambda m: (m.stream, ctypes.byref(m.handle)), 107033, "no task group"),
    (EVERY_MODE, "aclmdlRICaptureTaskGrpBegin", lambda m: (m.other,), 107029, "not captured"),
    (EVERY_MODE, "aclmdlRICaptureTaskUpdateEnd", lambda m: (m.other,), 107033, "updates no task group"),
    (EVERY_MODE, "aclmdlRICaptureTaskUpdateBegin", lambda m: (m.other, 1 << 20), 107017, "never a aclrtTaskGrp"),
    (EVERY_MODE, "aclmdlRICaptureTaskUpdateBegin", lambda m: (m.stream, m.stream), 107027, "is captured"),
    (
        EVERY_MODE,
        "aclrtMemcpyAsync",
        lambda m: (m.block, 64, m.pageable.ctypes.data, 64, H2D, m.stream),
        107000,
        "pageable",
    ),
    (
        EVERY_MODE,
        "aclrtMemcpyAsync",
        lambda m: (m.pageable.ctypes.data, 64, m.block, 64, D2H, m.stream),
        107000,
        "pageable",
    ),
    (
        STRICT,
        "aclrtMemcpyAsync",
        lambda m: (m.block, 64, m.pageable.ctypes.data, 64, H2D, m.other),
        BLOCKED,
        "this thread",
    ),
    (STRICT, "aclrtMemcpy", lambda m: (m.block, 64, m.pageable.ctypes.data, 64, H2D), 107030, "ExchangeMode"),
    (STRICT, "aclrtMemcpy", lambda m: (m.pageable.ctypes.data, 64, m.block, 64, D2H), 107030, JOINED),
    (STRICT, "aclrtMemcpy2d", lambda m: (m.block, 8, m.pageable.ctypes.data, 8, 8, 4, H2D), 107030, JOINED),
    (STRICT, "aclrtMemset", lambda m: (m.block, 64, 0, 64), 107030, "before aclmdlRICaptureBegin"),
]


def refuse_what_is_forbidden(cann: Cann) -> None:
    misuse, version = Misuse(cann), ctypes.create_string_buffer(512)
    cann.aclsysGetCANNVersion(0, version)
    since_nine = int(version.value.partition(b".")[0]) >= 9
    for mode in EVERY_MODE:
        misuse.begin(mode)
        for modes, name, arguments, status, text in FORBIDDEN:
            if mode in modes:
                error = cann.failure(name, *arguments(misuse))
                expected = 107030 if status == BLOCKED and not since_nine else status
                assert (error.status, text in error.message, name in error.message) == (expected, True, True), (
                    mode,
                    error,
                )
            elif modes is STRICT:
                getattr(cann, name)(*arguments(misuse))
        assert captured(cann, misuse.stream)[0] == ACTIVE  # as in CANN, what was refused leaves the capture as it was
        assert misuse.close() == 0
        cann.aclmdlRIExecuteAsync(misuse.handle, misuse.stream)
        cann.aclrtSynchronizeStream(misuse.stream)
        cann.aclmdlRIDestroy(misuse.handle)
    for name, arguments, expected in (
        ("aclmdlRICaptureBegin", (None, 0), 100000),
        ("aclmdlRICaptureBegin", (misuse.stream, 3), 107000),
        ("aclmdlRICaptureEnd", (misuse.stream, None), 107000),
        ("aclmdlRICaptureGetInfo", (misuse.stream, None, None), 100000),
        ("aclmdlRIExecuteAsync", (None, misuse.stream), 100000),
        ("aclmdlRIDestroy", (misuse.handle,), 107017),
    ):
        assert cann.failure(name, *arguments).status == expected, name
    misuse.free()


test_what_may_not_be_done_while_a_stream_is_captured = client()(refuse_what_is_forbidden)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_what_the_newest_release_refuses(cann: Cann) -> None:
    default = cann.create("aclrtCtxGetCurrentDefaultStream")
    assert cann.failure("aclmdlRICaptureBegin", default, GLOBAL).status == 207000
    refuse_what_is_forbidden(cann)


@client()
def test_streams_that_have_not_returned_end_a_capture_with_an_error(cann: Cann) -> None:
    misuse = Misuse(cann)
    side = misuse.other

    def without_a_record() -> None:
        misuse.multiply(side)

    def without_a_wait() -> None:
        cann.aclrtRecordEvent(misuse.fork, side)

    for act, text in (
        (without_a_record, "the last task of stream"),
        (without_a_wait, "no stream of the capture waits"),
    ):
        misuse.begin(GLOBAL)
        cann.aclrtStreamWaitEvent(side, misuse.event)
        error = cann.failure("aclmdlRICaptureEnd", side, ctypes.byref(misuse.handle))
        assert (error.status, "must end there" in error.message) == (107036, True)
        act()
        error = cann.failure("aclmdlRICaptureEnd", misuse.stream, ctypes.byref(misuse.handle))
        assert (error.status, text in error.message, misuse.handle.value) == (107025, True, None), error
        assert [captured(cann, each)[0] for each in (misuse.stream, side)] == [NONE, NONE]
        cann.aclrtSynchronizeDevice()
    misuse.begin(GLOBAL)  # two captures that an event would join
    cann.aclmdlRICaptureBegin(side, RELAXED)
    assert cann.failure("aclrtStreamWaitEvent", side, misuse.event).status == 107032
    assert [captured(cann, each)[0] for each in (misuse.stream, side)] == [INVALID, INVALID]
    misuse.multiply(side)  # it stays invalid
    for each in (side, misuse.stream):
        error = cann.failure("aclmdlRICaptureEnd", each, ctypes.byref(misuse.handle))
        assert (error.status, "107032" in error.message) == (507903, True), error
    misuse.free()


@client()
def test_threads_and_their_modes(cann: Cann) -> None:
    misuse, found = Misuse(cann), []

    def elsewhere(call: Callable[[], object]) -> None:
        def run() -> None:
            cann.aclrtSetDevice(0)
            found.append(call())
            cann.aclrtResetDevice(0)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    def fill() -> int:
        return int(cann._function("aclrtMemset")(misuse.block, 64, 0, 64))

    for mode, expected in ((GLOBAL, 107030), (THREAD_LOCAL, 0), (RELAXED, 0)):
        misuse.begin(mode)
        elsewhere(fill)
        assert found.pop() == expected
        exchanged = ctypes.c_int32(RELAXED)
        cann.aclmdlRICaptureThreadExchangeMode(ctypes.byref(exchanged))
        assert (exchanged.value, fill()) == (GLOBAL, 0)  # each thread begins as GLOBAL
        cann.aclmdlRICaptureThreadExchangeMode(ctypes.byref(exchanged))
        elsewhere(misuse.close)
        assert found.pop() == (0 if mode == RELAXED else 107038)
        if mode == RELAXED:
            cann.aclmdlRIDestroy(misuse.handle)
        assert captured(cann, misuse.stream) == (NONE, None)
    misuse.free()


@client()
def test_a_graph_whose_memory_was_freed_names_the_operator_and_the_call(cann: Cann) -> None:
    misuse = Misuse(cann)
    misuse.begin(GLOBAL)
    cann.aclrtMemsetAsync(misuse.block, 64, 1, 64, misuse.stream)
    cann.aclrtMemcpyAsync(misuse.pinned, 64, misuse.block, 64, D2H, misuse.stream)
    assert misuse.close() == 0
    cann.aclmdlRIExecuteAsync(misuse.handle, misuse.stream)
    cann.aclrtSynchronizeStream(misuse.stream)
    assert ctypes.string_at(misuse.pinned, 64) == b"\1" * 64
    cann.aclrtFree(misuse.block)
    error = cann.failure("aclmdlRIExecuteAsync", misuse.handle, misuse.stream)
    assert error.error == "EMULATOR_USE_AFTER_FREE"
    assert "task 2, aclrtMemsetAsync, uses the memory of its dst" in error.message
    assert "freed after its capture by aclrtFree" in error.message
    cann.aclmdlRIDestroy(misuse.handle)
    misuse.block = cann.malloc(64)
    misuse.free()


@client()
def test_a_task_group_is_replaced(cann: Cann) -> None:
    stream, updates = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
    ready = create_event(cann, EXTERNAL)
    first, second, group = Multiply(cann, 2, 3), Multiply(cann, 5, 7), ctypes.c_void_p()
    cann.aclmdlRICaptureBegin(stream, GLOBAL)
    cann.aclrtStreamWaitEvent(stream, ready)
    cann.aclrtResetEvent(ready, stream)
    cann.aclmdlRICaptureTaskGrpBegin(stream)
    assert cann.failure("aclmdlRICaptureTaskGrpBegin", stream).status == 107033
    first(stream)
    cann.aclmdlRICaptureTaskGrpEnd(stream, ctypes.byref(group))
    model = end(cann, stream)
    for multiply, expected in ((first, 6), (second, 35), (first, 6)):
        cann.aclrtMemset(multiply.out.address, 16, 0, 16)
        cann.aclmdlRIExecuteAsync(model, stream)  # waits for the update
        cann.aclmdlRICaptureTaskUpdateBegin(updates, group)
        assert cann.failure("aclmdlRICaptureTaskUpdateBegin", stream, group).status == 107033
        assert cann.failure("aclrtMemsetAsync", first.out.address, 16, 0, 16, updates).status == 507009
        multiply(updates)
        cann.aclmdlRICaptureTaskUpdateEnd(updates)
        cann.aclrtRecordEvent(ready, updates)
        cann.aclrtSynchronizeStream(stream)
        assert multiply.result() == expected
    cann.aclmdlRICaptureTaskUpdateBegin(updates, group)
    error = cann.failure("aclmdlRICaptureTaskUpdateEnd", updates)
    assert (error.status, "0 of the 1 task(s)" in error.message) == (507000, True)
    cann.aclmdlRIDestroy(model)
    assert cann.failure("aclmdlRICaptureTaskUpdateBegin", updates, group).status == 107017
    cann.aclrtDestroyEvent(ready)
    for multiply in (first, second):
        multiply.free()
    for each in (stream, updates):
        cann.aclrtDestroyStream(each)


@client()
def test_a_stream_that_ends_while_it_updates_a_task_group_lets_it_go(cann: Cann) -> None:
    stream, group = cann.create("aclrtCreateStream"), ctypes.c_void_p()
    first, second = Multiply(cann, 2, 3), Multiply(cann, 5, 7)
    cann.aclmdlRICaptureBegin(stream, GLOBAL)
    cann.aclmdlRICaptureTaskGrpBegin(stream)
    first(stream)
    cann.aclmdlRICaptureTaskGrpEnd(stream, ctypes.byref(group))
    model = end(cann, stream)
    for ends in ("aclrtDestroyStream", "aclrtDestroyStreamForce", None):
        updates = cann.create("aclrtCreateStream")
        cann.aclmdlRICaptureTaskUpdateBegin(updates, group)
        second(updates)
        if ends is not None:
            getattr(cann, ends)(updates)
            continue
        cann.aclmdlRICaptureTaskUpdateEnd(updates)
        cann.aclrtDestroyStream(updates)
    cann.aclmdlRIExecuteAsync(model, stream)
    cann.aclrtSynchronizeStream(stream)
    assert (first.result(), second.result()) == (0, 35)
    cann.aclmdlRIDestroy(model)
    cann.aclrtDestroyStream(stream)
    for multiply in (first, second):
        multiply.free()


@client()
def test_a_graph_names_its_destroyed_external_event(cann: Cann) -> None:
    stream, event = cann.create("aclrtCreateStream"), create_event(cann, EXTERNAL)
    cann.aclmdlRICaptureBegin(stream, GLOBAL)
    cann.aclrtRecordEvent(event, stream)
    model = end(cann, stream)
    cann.aclmdlRIExecuteAsync(model, stream)
    cann.aclrtSynchronizeStream(stream)
    cann.aclrtDestroyEvent(event)
    other = create_event(cann, EXTERNAL)
    cann.aclmdlRIExecuteAsync(model, stream)
    error = cann.failure("aclrtSynchronizeStream", stream)
    assert (error.status, error.error) == (107017, "EMULATOR_USE_AFTER_DESTROY")
    cann.aclmdlRIDestroy(model)
    cann.aclrtDestroyEvent(other)
    cann.aclrtDestroyStream(stream)


@client()
def test_a_reset_device_ends_captures_and_graphs(cann: Cann) -> None:
    for ended in (False, True):
        stream, block = cann.create("aclrtCreateStream"), cann.malloc(64)
        cann.aclmdlRICaptureBegin(stream, GLOBAL)
        cann.aclrtMemsetAsync(block, 64, 1, 64, stream)
        model = end(cann, stream) if ended else captured(cann, stream)[1]
        cann.aclrtResetDeviceForce(0)
        cann.aclrtSetDevice(0)
        assert cann.failure("aclmdlRIDestroy", model).status == 107017
        cann.aclrtSynchronizeDevice()


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_a_graph_is_named_and_written_as_json(cann: Cann) -> None:
    misuse, ended = Misuse(cann), []
    misuse.begin(GLOBAL)
    assert misuse.close() == 0
    cann.aclmdlRISetName(misuse.handle, b"step")
    name, number = ctypes.create_string_buffer(16), ctypes.c_uint32()
    cann.aclmdlRIGetName(misuse.handle, 16, name)
    cann.aclmdlRIGetId(misuse.handle, ctypes.byref(number))
    assert (name.value, number.value > 0) == (b"step", True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.json"
        cann.aclmdlRIDebugJsonPrint(misuse.handle, os.fsencode(path), 0)
        assert [(row["name"], row["args"]["Task Id"]) for row in json.loads(path.read_text())] == [
            ("aclnnMul", 0),
            ("aclrtRecordEvent", 1),
        ]
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: ended.append(True))
    cann.aclmdlRIDestroyRegisterCallback(misuse.handle, callback, None)
    cann.aclmdlRIExecute(misuse.handle, -1)
    assert misuse.multiply.result() == 6
    cann.aclmdlRIDestroy(misuse.handle)
    assert ended == [True]
    misuse.free()
