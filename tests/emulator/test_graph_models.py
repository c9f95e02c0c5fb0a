"""Graphs of the emulated runtime: streams side by side, conditions, models built by hand, and single tasks."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from emulator_client import D2D, NEWEST, Cann, client
from graph_client import GLOBAL, RELAXED, Multiply, captured, create_event, end

PERSISTENT = 4
IF, WHILE, SWITCH = 0, 1, 2
KERNEL, EVENT_RECORD, EVENT_WAIT, VALUE_WRITE, VALUE_WAIT = 1, 2, 3, 5, 6
EQUAL = 1  # ACL_STREAM_WAIT_VALUE_EQ


def body_streams_side_by_side(cann: Cann) -> None:
    """A wait for a value that another stream writes later in the order of the capture."""
    origin, side, replays = (cann.create("aclrtCreateStream") for _ in range(3))
    fork, join = create_event(cann), create_event(cann)
    flag, multiply = cann.malloc(8), Multiply(cann, 2, 3)
    cann.aclmdlRICaptureBegin(origin, GLOBAL)
    cann.aclrtMemsetAsync(flag, 8, 0, 8, origin)
    cann.aclrtRecordEvent(fork, origin)
    cann.aclrtStreamWaitEvent(side, fork)
    cann.aclrtValueWait(flag, 7, EQUAL, origin)
    multiply(origin)
    cann.aclrtMemcpyAsync(multiply.x.address, 16, multiply.y.address, 16, D2D, side)
    cann.aclrtValueWrite(flag, 7, 0, side)
    cann.aclrtRecordEvent(join, side)
    cann.aclrtStreamWaitEvent(origin, join)
    model = end(cann, origin)
    for _ in range(3):
        cann.aclrtMemset(multiply.out.address, 16, 0, 16)
        cann.aclmdlRIExecuteAsync(model, replays)
        cann.aclrtSynchronizeStream(replays)
        assert multiply.result() == 9  # 3 * 3: the copy came before the value
    cann.aclmdlRIExecuteAsync(model, replays)
    cann.aclmdlRIExecuteAsync(model, side)  # both at once
    cann.aclrtSynchronizeDevice()
    cann.aclmdlRIDestroy(model)
    cann.aclrtFree(flag)
    multiply.free()
    for event in (fork, join):
        cann.aclrtDestroyEvent(event)
    for stream in (origin, side, replays):
        cann.aclrtDestroyStream(stream)


test_streams_of_a_graph_run_side_by_side = client(ASCEND_EMULATOR_CANN="8.5.0")(body_streams_side_by_side)
test_deferred_streams_run_graphs_side_by_side = client(
    ASCEND_EMULATOR_CANN="8.5.0", ASCEND_EMULATOR_STREAMS="deferred"
)(body_streams_side_by_side)
test_eager_streams_run_graphs_side_by_side = client(ASCEND_EMULATOR_CANN="8.5.0", ASCEND_EMULATOR_STREAMS="eager")(
    body_streams_side_by_side
)


@client(ASCEND_EMULATOR_CANN="8.5.0")
def test_an_error_in_another_stream_of_a_graph_is_that_of_the_replay(cann: Cann) -> None:
    origin, side = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
    fork, join = create_event(cann), create_event(cann)
    pinned, block = cann.create("aclrtMallocHost", 64), cann.malloc(64)
    cann.aclmdlRICaptureBegin(origin, GLOBAL)
    cann.aclrtRecordEvent(fork, origin)
    cann.aclrtStreamWaitEvent(side, fork)
    cann.aclrtMemcpyAsync(pinned, 64, block, 64, 2, side)
    cann.aclrtValueWait(block, 0, EQUAL, side)
    cann.aclrtRecordEvent(join, side)
    cann.aclrtStreamWaitEvent(origin, join)
    model = end(cann, origin)
    cann.aclrtMemset(block, 64, 0, 64)
    cann.aclmdlRIExecuteAsync(model, origin)
    cann.aclrtSynchronizeStream(origin)
    cann.aclrtFreeHost(pinned)
    cann.aclmdlRIExecuteAsync(model, origin)
    error = cann.failure("aclrtSynchronizeStream", origin)
    assert (error.error, "dst of the captured copy" in error.message) == ("EMULATOR_USE_AFTER_FREE", True)
    cann.aclrtSynchronizeDevice()  # once
    cann.aclmdlRIDestroy(model)
    cann.aclrtFree(block)
    for event in (fork, join):
        cann.aclrtDestroyEvent(event)
    for stream in (origin, side):
        cann.aclrtDestroyStream(stream)


@client(ASCEND_EMULATOR_CANN="8.5.0")
def test_notifies_order_streams_and_are_taken_back(cann: Cann) -> None:
    first, second, notify = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream"), ctypes.c_void_p()
    cann.aclrtCreateNotify(ctypes.byref(notify), 0)
    number, multiply = ctypes.c_uint32(99), Multiply(cann, 2, 3)
    cann.aclrtGetNotifyId(notify, ctypes.byref(number))
    assert number.value != 99
    fork, join = create_event(cann), create_event(cann)
    cann.aclmdlRICaptureBegin(first, GLOBAL)
    cann.aclrtRecordEvent(fork, first)
    cann.aclrtStreamWaitEvent(second, fork)
    cann.aclrtWaitAndResetNotify(notify, first, 0)
    multiply(first)
    cann.aclrtMemcpyAsync(multiply.x.address, 16, multiply.y.address, 16, D2D, second)
    cann.aclrtRecordNotify(notify, second)
    cann.aclrtRecordEvent(join, second)
    cann.aclrtStreamWaitEvent(first, join)
    graph = end(cann, first)
    for _ in range(2):
        cann.aclmdlRIExecuteAsync(graph, first)
        cann.aclrtSynchronizeStream(first)
        assert multiply.result() == 9
    cann.aclmdlRIDestroy(graph)
    cann.aclrtRecordNotify(notify, first)
    cann.aclrtSynchronizeStream(first)
    cann.aclrtNotifyBatchReset(ctypes.byref(notify), 1)
    cann.aclrtWaitAndResetNotify(notify, second, 1)
    error = cann.failure("aclrtSynchronizeStream", second)
    assert (error.status, "has not been recorded for 1 s" in error.message) == (107020, True)
    for name, arguments in (
        ("aclrtCreateNotify", (None, 0)),
        ("aclrtCreateNotify", (ctypes.byref(ctypes.c_void_p()), 2)),
        ("aclrtRecordNotify", (None, first)),
        ("aclrtNotifyBatchReset", (None, 1)),
    ):
        assert cann.failure(name, *arguments).status == 107000, name
    cann.aclrtDestroyNotify(notify)
    assert cann.failure("aclrtRecordNotify", notify, first).status == 107017
    multiply.free()
    for event in (fork, join):
        cann.aclrtDestroyEvent(event)
    for stream in (first, second):
        cann.aclrtDestroyStream(stream)


@client()
def test_operators_whose_shapes_depend_on_data_are_refused_in_a_capture(cann: Cann) -> None:
    stream = cann.create("aclrtCreateStream")
    x, out = cann.tensor(np.array([0, 1, 2], np.float32)), cann.tensor(np.zeros((3, 1), np.int64))
    executor, size = cann.prepare("aclnnNonzero", x, out)
    workspace = cann.malloc(max(size, 1))
    cann.aclmdlRICaptureBegin(stream, RELAXED)
    error = cann.failure("aclnnNonzero", workspace, size, executor, stream)
    assert (error.status, "depend on data" in error.message) == (561000, True), error
    assert "stream" in error.message and "mode RELAXED" in error.message
    cann.aclmdlRIDestroy(end(cann, stream))
    cann.aclrtFree(workspace)
    cann.aclrtDestroyStream(stream)


# ---------------------------------------------------------------------------------------------------------- conditions


class CondTaskParams(ctypes.Structure):
    """aclmdlRICondTaskParams."""

    _fields_ = [
        ("handle", ctypes.c_void_p),
        ("type", ctypes.c_int32),
        ("size", ctypes.c_uint32),
        ("models", ctypes.POINTER(ctypes.c_void_p)),
    ]


class Condition:
    """A condition of a graph whose capture is under way, its value in device memory, and the task with its branches."""

    def __init__(self, cann: Cann, stream: int, initial: int | None = None) -> None:
        self.cann = cann
        function = cann._function("aclmdlRIAddCondTask")
        function.argtypes = [CondTaskParams, ctypes.c_void_p, ctypes.c_uint32]
        model = captured(cann, stream)[1]
        handle, value = ctypes.c_void_p(), ctypes.c_void_p()
        cann.aclmdlRICondHandleCreate(model, initial or 0, initial is not None, ctypes.byref(handle))
        cann.aclmdlRICondHandleGetCondPtr(handle, ctypes.byref(value))
        assert handle.value is not None and value.value is not None
        self.handle, self.value = handle.value, value.value

    def params(self, kind: int, size: int) -> CondTaskParams:
        self.models = (ctypes.c_void_p * max(size, 1))()
        return CondTaskParams(self.handle, kind, size, self.models)

    def add(self, stream: int, kind: int, size: int) -> list[int | None]:
        self.cann.aclmdlRIAddCondTask(self.params(kind, size), stream, 0)
        return list(self.models)

    def set(self, value: int) -> None:
        number = ctypes.c_uint64(value)
        self.cann.aclrtMemcpy(self.value, 8, ctypes.addressof(number), 8, 1)


@contextmanager
def branch(cann: Cann, stream: int, model: int | None) -> Iterator[None]:
    cann.aclmdlRICaptureToModelRIBegin(stream, model, GLOBAL)
    yield
    assert end(cann, stream) == model


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_conditions_choose_what_a_graph_runs(cann: Cann) -> None:
    stream, side = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
    cases = [Multiply(cann, 2, number) for number in (3, 5, 7)]
    out = cases[0].out
    for case in cases[1:]:
        case.out = out
    for kind, size, results in (
        (IF, 1, {0: 0, 1: 6, 9: 6}),
        (IF, 2, {0: 10, 1: 6}),
        (SWITCH, 3, {0: 6, 1: 10, 2: 14, 3: 0}),
    ):
        cann.aclmdlRICaptureBegin(stream, GLOBAL)
        condition = Condition(cann, stream)
        models = condition.add(stream, kind, size)
        for model, case in zip(models, cases):
            with branch(cann, side, model):
                case(side)
        graph = end(cann, stream)
        for value, expected in results.items():
            condition.set(value)
            cann.aclrtMemset(out.address, 16, 0, 16)
            cann.aclmdlRIExecuteAsync(graph, side)
            cann.aclrtSynchronizeStream(side)
            assert cases[0].result() == expected, (kind, size, value)
        cann.aclmdlRIDestroy(graph)
        assert cann.failure("aclmdlRIGetId", models[0], ctypes.byref(ctypes.c_uint32())).status == 107017
    for case in cases:
        case.free()
    for each in (stream, side):
        cann.aclrtDestroyStream(each)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_a_loop_runs_until_its_value_is_zero_and_begins_with_its_default(cann: Cann) -> None:
    stream, side, third = (cann.create("aclrtCreateStream") for _ in range(3))
    multiply = Multiply(cann, 1, 3)
    count, one = cann.tensor(np.array([4], np.int64)), cann.tensor(np.array([1], np.int64))
    alpha = ctypes.c_int64(1)
    scalar = cann.aclCreateScalar(ctypes.byref(alpha), 9)
    cann.aclmdlRICaptureBegin(stream, GLOBAL)
    loop = Condition(cann, stream, initial=1)
    (body,) = loop.add(stream, WHILE, 1)
    with branch(cann, side, body):
        multiply(side)
        cann.aclrtMemcpyAsync(multiply.x.address, 16, multiply.out.address, 16, D2D, side)
        executor, size = cann.prepare("aclnnInplaceSub", count, one, scalar)
        multiply.workspaces.append(cann.malloc(max(size, 1)))
        cann.aclnnInplaceSub(multiply.workspaces[-1], size, executor, side)
        cann.aclrtMemcpyAsync(loop.value, 8, count.address, 8, D2D, side)
        inner = Condition(cann, side)  # a condition within the body
        (nested,) = inner.add(side, IF, 1)
        with branch(cann, third, nested):
            multiply(third)
    graph = end(cann, stream)
    cann.aclmdlRIExecuteAsync(graph, stream)
    cann.aclrtSynchronizeStream(stream)
    assert multiply.result() == 3**4
    number = np.array([2], np.int64)
    cann.aclrtMemcpy(count.address, 8, number.ctypes.data, 8, 1)
    inner.set(1)
    cann.aclmdlRIExecuteAsync(graph, stream)  # the default starts the loop again
    cann.aclrtSynchronizeStream(stream)
    assert multiply.result() == 3**7  # x is 81: 81 * 3 * 3, and the nested branch once more
    for name, arguments in (
        ("aclmdlRIDestroy", (body,)),
        ("aclmdlRIExecuteAsync", (body, stream)),
        ("aclmdlRIUpdate", (body,)),
        ("aclmdlRIAbort", (body,)),
        ("aclmdlRIGetStreams", (body, None, ctypes.byref(ctypes.c_uint32()))),
    ):
        error = cann.failure(name, *arguments)
        assert (error.status, "condition of model" in error.message or "captured" in error.message) == (207000, True), (
            error
        )
    cann.aclrtFree(multiply.out.address)
    assert cann.failure("aclmdlRIExecuteAsync", graph, stream).error == "EMULATOR_USE_AFTER_FREE"
    cann.aclmdlRIDestroy(graph)
    cann.aclDestroyScalar(scalar)
    multiply.out = multiply.out._replace(address=cann.malloc(16))
    cann._owned = [
        t._replace(address=multiply.out.address) if t.handle == multiply.out.handle else t for t in cann._owned
    ]
    multiply.free()
    for each in (stream, side, third):
        cann.aclrtDestroyStream(each)


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_misuse_of_conditions(cann: Cann) -> None:
    stream, side = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
    handle = ctypes.c_void_p()
    cann.aclmdlRICaptureBegin(stream, GLOBAL)
    parent = captured(cann, stream)[1]
    condition, other = Condition(cann, stream), Condition(cann, stream)
    for name, arguments, status, text in (
        ("aclmdlRICondHandleCreate", (parent, 0, 2, ctypes.byref(handle)), 107000, "flag is 2"),
        ("aclmdlRICondHandleCreate", (None, 0, 0, ctypes.byref(handle)), 100000, "modelRI"),
        ("aclmdlRICondHandleGetCondPtr", (condition.handle, None), 100000, "ptr"),
        ("aclmdlRIAddCondTask", (condition.params(IF, 3), stream, 0), 107000, "IF needs 1 or 2"),
        ("aclmdlRIAddCondTask", (condition.params(WHILE, 2), stream, 0), 107000, "WHILE needs 1"),
        ("aclmdlRIAddCondTask", (condition.params(SWITCH, 0), stream, 0), 107000, "SWITCH needs 1"),
        ("aclmdlRIAddCondTask", (condition.params(3, 1), stream, 0), 107000, "params.type is 3"),
        ("aclmdlRIAddCondTask", (condition.params(IF, 1), stream, 1), 107000, "flags is 1"),
        ("aclmdlRIAddCondTask", (condition.params(IF, 1), side, 0), 107029, "not captured"),
        ("aclmdlRICaptureToModelRIBegin", (side, parent, GLOBAL), 107000, "no branch"),
    ):
        error = cann.failure(name, *arguments)
        assert (error.status, text in error.message) == (status, True), error
    (model,) = condition.add(stream, IF, 1)
    assert cann.failure("aclmdlRIAddCondTask", condition.params(IF, 1), stream, 0).status == 107000  # used already
    assert cann.failure("aclmdlRICaptureToModelRIBegin", stream, model, GLOBAL).status == 107027
    with branch(cann, side, model):
        assert cann.failure("aclmdlRIAddCondTask", other.params(IF, 1), side, 0).status == 107000  # the parent's
    assert cann.failure("aclmdlRICaptureToModelRIBegin", side, model, GLOBAL).status == 107026  # captured already
    other.add(stream, IF, 1)
    error = cann.failure("aclmdlRICaptureEnd", stream, ctypes.byref(handle))
    assert (error.status, "has not been captured" in error.message) == (107045, True)
    assert cann.failure("aclmdlRICondHandleGetCondPtr", condition.handle, ctypes.byref(handle)).status == 107017
    for each in (stream, side):
        cann.aclrtDestroyStream(each)


# -------------------------------------------------------------------------------------------------------- built by hand


@client(ASCEND_EMULATOR_CANN="8.5.0")
def test_a_model_is_built_by_hand(cann: Cann) -> None:
    streams = [cann.create("aclrtCreateStreamWithConfig", 0, PERSISTENT) for _ in range(2)]
    plain, event = cann.create("aclrtCreateStream"), cann.create("aclrtCreateEvent")
    first, second = Multiply(cann, 2, 3), Multiply(cann, 1, 5)
    model = cann.create("aclmdlRIBuildBegin", 0)
    for name, arguments, status, text in (
        ("aclmdlRIBuildBegin", (ctypes.byref(ctypes.c_void_p()), 1), 107000, "flag is 1"),
        ("aclmdlRIBindStream", (model, plain, 0), 107000, "ACL_STREAM_PERSISTENT"),
        ("aclmdlRIBuildEnd", (model, None), 107005, "has no stream"),
        ("aclmdlRIEndTask", (model, plain), 507000, "not bound"),
        ("aclmdlRIExecuteAsync", (model, plain), 507011, "still built"),
    ):
        error = cann.failure(name, *arguments)
        assert (error.status, text in error.message) == (status, True), error
    for stream in streams:
        cann.aclmdlRIBindStream(model, stream, 0)
    assert cann.failure("aclmdlRIBindStream", model, streams[0], 0).status == 107005
    first(streams[0])
    cann.aclrtRecordEvent(event, streams[0])
    cann.aclrtStreamWaitEvent(streams[1], event)
    cann.aclrtMemcpyAsync(second.x.address, 16, first.out.address, 16, D2D, streams[1])
    second(streams[1])
    cann.aclrtMemset(first.out.address, 16, 0, 16)  # nothing is captured, and nothing forbidden
    assert cann.failure("aclmdlRIBuildEnd", model, None).status == 507011
    cann.aclmdlRIEndTask(model, streams[0])
    cann.aclmdlRIBuildEnd(model, None)
    error = cann.failure("aclrtMemsetAsync", first.out.address, 16, 0, 16, streams[0])
    assert (error.status, "takes no more tasks" in error.message) == (107005, True), error
    assert cann.failure("aclmdlRIExecuteAsync", model, streams[0]).status == 107000
    assert first.result() == 0
    for _ in range(2):
        cann.aclrtMemset(second.out.address, 16, 0, 16)
        cann.aclmdlRIExecute(model, -1)
        assert second.result() == 30
    for stream in streams:
        cann.aclmdlRIUnbindStream(model, stream)
        assert cann.failure("aclmdlRIUnbindStream", model, stream).status == 107005
    cann.aclmdlRIDestroy(model)
    first(streams[0])
    cann.aclrtSynchronizeStream(streams[0])
    unfinished = cann.create("aclmdlRIBuildBegin", 0)
    cann.aclmdlRIBindStream(unfinished, streams[0], 0)
    first(streams[0])
    cann.aclmdlRIDestroy(unfinished)
    cann.aclrtDestroyEvent(event)
    for multiply in (first, second):
        multiply.free()
    for stream in (*streams, plain):
        cann.aclrtDestroyStream(stream)


@client(ASCEND_EMULATOR_CANN="8.5.0")
def test_a_model_that_waits_for_ever_is_aborted(cann: Cann) -> None:
    stream, plain = cann.create("aclrtCreateStreamWithConfig", 0, PERSISTENT), cann.create("aclrtCreateStream")
    flag, model = cann.malloc(8), cann.create("aclmdlRIBuildBegin", 0)
    cann.aclrtMemset(flag, 8, 0, 8)
    cann.aclmdlRIBindStream(model, stream, 0)
    cann.aclrtValueWait(flag, 1, EQUAL, stream)
    cann.aclmdlRIEndTask(model, stream)
    cann.aclmdlRIBuildEnd(model, None)
    cann.aclmdlRIAbort(model)  # nothing runs
    cann.aclmdlRIExecuteAsync(model, plain)
    cann.aclmdlRIAbort(model)
    error = cann.failure("aclrtSynchronizeStream", plain)
    assert (error.status, "aclmdlRIAbort has ended" in error.message) == (507023, True), error
    number = ctypes.c_uint64(1)
    cann.aclrtMemcpy(flag, 8, ctypes.addressof(number), 8, 1)
    cann.aclmdlRIExecuteAsync(model, plain)
    cann.aclrtSynchronizeStream(plain)
    cann.aclmdlRIDestroy(model)
    cann.aclrtFree(flag)
    for each in (stream, plain):
        cann.aclrtDestroyStream(each)
    captured_stream = cann.create("aclrtCreateStream")
    cann.aclmdlRICaptureBegin(captured_stream, GLOBAL)
    graph = end(cann, captured_stream)
    assert cann.failure("aclmdlRIAbort", graph).status == 207000
    cann.aclmdlRIDestroy(graph)
    cann.aclrtDestroyStream(captured_stream)


# --------------------------------------------------------------------------------------------------------- single tasks


class TaskParams(ctypes.Structure):
    """aclmdlRITaskParams, with the parameters of the kinds that have an address or a handle first."""

    _fields_ = [
        ("type", ctypes.c_int32),
        ("reserved", ctypes.c_uint32 * 3),
        ("group", ctypes.c_void_p),
        ("info", ctypes.c_void_p),
        ("info_size", ctypes.c_size_t),
        ("reserved1", ctypes.c_uint8 * 32),
        ("first", ctypes.c_void_p),
        ("second", ctypes.c_uint64),
        ("third", ctypes.c_uint32),
        ("rest", ctypes.c_uint8 * 108),
    ]


def handles(cann: Cann, name: str, of: int | None) -> list[int]:
    count = ctypes.c_uint32()
    getattr(cann, name)(of, None, ctypes.byref(count))
    found = (ctypes.c_void_p * (count.value + 1))()
    count.value += 1
    getattr(cann, name)(of, found, ctypes.byref(count))
    values = list(found)
    assert values.pop() is None and None not in values
    return [value for value in values if value is not None]


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_single_tasks_of_a_graph_are_read_and_changed(cann: Cann) -> None:
    assert ctypes.sizeof(TaskParams) == 16 + 24 + 32 + 128
    stream, event = cann.create("aclrtCreateStream"), create_event(cann)
    multiply, block = Multiply(cann, 2, 3), cann.malloc(16)
    cann.aclrtMemset(block, 16, 0, 16)
    cann.aclmdlRICaptureBegin(stream, GLOBAL)
    multiply(stream)
    cann.aclrtValueWrite(block, 5, 0, stream)
    cann.aclrtValueWait(block, 5, EQUAL, stream)
    cann.aclrtRecordEvent(event, stream)
    cann.aclrtMemsetAsync(multiply.x.address, 16, 0, 16, stream)
    graph = end(cann, stream)
    (own,) = handles(cann, "aclmdlRIGetStreams", graph)
    assert own != stream
    assert cann.failure("aclrtMemsetAsync", block, 16, 0, 16, own).status == 107005
    assert cann.failure("aclmdlRIGetTasksByStream", stream, None, ctypes.byref(ctypes.c_uint32())).status == 107000
    tasks = handles(cann, "aclmdlRIGetTasksByStream", own)
    short = ctypes.c_uint32(1)
    assert cann.failure("aclmdlRIGetTasksByStream", own, (ctypes.c_void_p * 1)(), ctypes.byref(short)).status == 107039
    kinds, numbers = [], []
    for task in tasks:
        kind, number = ctypes.c_int32(), ctypes.c_uint32()
        cann.aclmdlRITaskGetType(task, ctypes.byref(kind))
        cann.aclmdlRITaskGetSeqId(task, ctypes.byref(number))
        kinds.append(kind.value)
        numbers.append(number.value)
    assert (kinds, numbers) == ([KERNEL, VALUE_WRITE, VALUE_WAIT, EVENT_RECORD, 0], [0, 1, 2, 3, 4])
    params = TaskParams()
    cann.aclmdlRITaskGetParams(tasks[3], ctypes.byref(params))
    assert (params.type, params.first) == (EVENT_RECORD, event)
    cann.aclmdlRITaskGetParams(tasks[2], ctypes.byref(params))
    assert (params.type, params.first, params.second, params.third) == (VALUE_WAIT, block, 5, EQUAL)
    error = cann.failure("aclmdlRITaskGetParams", tasks[0], ctypes.byref(params))
    assert (error.error, "aclnnMul" in error.message) == ("EMULATOR_NOT_SUPPORTED", True)
    for position, value in ((1, 9), (2, 9)):
        cann.aclmdlRITaskGetParams(tasks[position], ctypes.byref(params))
        params.first, params.second = block + 8, value
        cann.aclmdlRITaskSetParams(tasks[position], ctypes.byref(params))
    cann.aclmdlRITaskDisable(tasks[0])
    assert cann.failure("aclmdlRIExecuteAsync", graph, stream).status == 507011  # aclmdlRIUpdate must come first
    cann.aclmdlRIUpdate(graph)
    cann.aclmdlRIExecuteAsync(graph, stream)
    cann.aclrtSynchronizeStream(stream)
    values = np.zeros(2, np.uint64)
    cann.aclrtMemcpy(values.ctypes.data, 16, block, 16, 2)
    assert (values.tolist(), multiply.result()) == ([0, 9], 0)  # the product is disabled
    assert cann.failure("aclmdlRITaskDisable", tasks[4]).status == 107000
    assert cann.failure("aclmdlRIUpdate", graph).status == 107040  # a change has failed
    cann.aclmdlRIDestroy(graph)
    assert cann.failure("aclmdlRITaskGetType", tasks[0], ctypes.byref(ctypes.c_int32())).status == 107017
    cann.aclrtFree(block)
    cann.aclrtDestroyEvent(event)
    multiply.free()
    cann.aclrtDestroyStream(stream)


# ------------------------------------------------------------------------------------------------------- while it runs


@client(ASCEND_EMULATOR_STREAMS="deferred")
def test_memory_of_a_running_graph_cannot_be_freed(cann: Cann) -> None:
    stream, block, other = cann.create("aclrtCreateStream"), cann.malloc(64), cann.malloc(64)
    cann.aclmdlRICaptureBegin(stream, GLOBAL)
    cann.aclrtMemsetAsync(block, 64, 1, 64, stream)
    graph = end(cann, stream)
    cann.aclmdlRIExecuteAsync(graph, stream)  # and does not run before the stream is waited for
    assert cann.failure("aclrtFree", block).error == "EMULATOR_FREE_IN_USE"
    cann.aclrtFree(other)
    cann.aclmdlRIDestroy(graph)  # waits for the replay
    cann.aclrtSynchronizeStream(stream)
    cann.aclrtFree(block)
    cann.aclrtDestroyStream(stream)


@client(ASCEND_EMULATOR_CANN="8.5.0")
def test_destroying_a_graph_waits_for_its_replay(cann: Cann) -> None:
    stream, other = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
    flag, multiply, destroyed = cann.malloc(8), Multiply(cann, 2, 3), threading.Event()
    cann.aclrtMemset(flag, 8, 0, 8)
    cann.aclmdlRICaptureBegin(stream, GLOBAL)
    cann.aclrtValueWait(flag, 1, EQUAL, stream)
    multiply(stream)
    graph = end(cann, stream)
    cann.aclmdlRIExecuteAsync(graph, stream)

    def destroy() -> None:
        cann.aclrtSetDevice(0)
        cann.aclmdlRIDestroy(graph)
        destroyed.set()
        cann.aclrtResetDevice(0)

    thread = threading.Thread(target=destroy)
    thread.start()
    assert not destroyed.wait(0.1)
    cann.aclrtValueWrite(flag, 1, 0, other)
    thread.join()
    assert destroyed.is_set() and multiply.result() == 6
    assert cann.failure("aclmdlRIExecuteAsync", graph, stream).status == 107017
    cann.aclrtFree(flag)
    multiply.free()
    for each in (stream, other):
        cann.aclrtDestroyStream(each)


@client()
def test_a_forked_child_has_no_graphs(cann: Cann) -> None:
    stream, multiply = cann.create("aclrtCreateStream"), Multiply(cann, 2, 3)
    cann.aclmdlRICaptureBegin(stream, GLOBAL)
    multiply(stream)
    captured_before = captured(cann, stream)[1]
    read, write = os.pipe()
    child = os.fork()  # during the capture
    if child == 0:
        errors = [
            cann.failure("aclmdlRICaptureEnd", stream, ctypes.byref(ctypes.c_void_p())),
            cann.failure("aclmdlRIExecuteAsync", captured_before, stream),
        ]
        os.write(write, " ".join(f"{error.status} {error.error}" for error in errors).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(read, 100) == b"507899 EMULATOR_FORKED 507899 EMULATOR_FORKED"
    graph = end(cann, stream)
    cann.aclmdlRIExecuteAsync(graph, stream)
    cann.aclrtSynchronizeStream(stream)
    assert multiply.result() == 6
    cann.aclmdlRIDestroy(graph)
    multiply.free()
    cann.aclrtDestroyStream(stream)


def resident(pid: int) -> int:
    """Bytes of a process's own memory."""
    return int(re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) << 10  # type: ignore[index]


def replay_again_and_again(cann: Cann, replays: int) -> None:
    """Graphs of two streams that are captured, replayed and destroyed; then nothing is left, in either process."""
    origin, side = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
    fork, join = create_event(cann), create_event(cann)
    multiply, pinned = Multiply(cann, 2, 3), cann.create("aclrtMallocHost", 16)
    called: list[None] = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: called.append(None))

    def once(count: int) -> None:
        cann.aclmdlRICaptureBegin(origin, GLOBAL)
        cann.aclrtRecordEvent(fork, origin)
        cann.aclrtStreamWaitEvent(side, fork)
        multiply(origin)
        cann.aclrtMemcpyAsync(pinned, 16, multiply.x.address, 16, 2, side)
        cann.aclrtLaunchHostFunc(side, function, None)
        cann.aclrtRecordEvent(join, side)
        cann.aclrtStreamWaitEvent(origin, join)
        graph = end(cann, origin)
        for at in range(count):
            cann.aclmdlRIExecuteAsync(graph, origin)
            if at % 5 == 0:
                cann.aclrtSynchronizeStream(origin)
        cann.aclrtSynchronizeStream(origin)
        cann.aclmdlRIDestroy(graph)
        multiply.free()
        multiply.workspaces.clear()

    once(200)
    handles, before = cann.live(), [resident(pid) for pid in (os.getpid(), cann.device_pid())]
    for _ in range(replays // 50):
        once(50)
    assert len(called) == 200 + replays // 50 * 50
    assert cann.live() == handles
    grown = [resident(pid) - old for pid, old in zip((os.getpid(), cann.device_pid()), before)]
    assert max(grown) < 2 << 20, grown
    cann.aclrtFreeHost(pinned)
    for event in (fork, join):
        cann.aclrtDestroyEvent(event)
    for stream in (origin, side):
        cann.aclrtDestroyStream(stream)


@client(ASCEND_EMULATOR_CANN="8.5.0")
def test_replays_leave_nothing(cann: Cann) -> None:
    replay_again_and_again(cann, 500)


@pytest.mark.long
@client(ASCEND_EMULATOR_CANN="8.5.0")
def test_ten_thousand_replays_leave_nothing(cann: Cann) -> None:
    replay_again_and_again(cann, 10_000)
