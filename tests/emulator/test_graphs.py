"""Captured graphs (aclmdlRI*) of the emulated runtime: capture, replay, update, and what is refused."""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
import threading
from pathlib import Path

import numpy as np
from emulator_client import D2D, D2H, H2D, NEWEST, Cann, Tensor, client

from ascend_aclnn import catalog

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
NONE, ACTIVE, INVALID = 0, 1, 2
SYNC, EXTERNAL = 1, 32


def ones(count: int = 4) -> np.ndarray:
    return np.ones(count, np.float32)


class Multiply:
    """out = x * y, by aclnnMul on a stream; its workspaces live until ``free``."""

    def __init__(self, cann: Cann, *numbers: float) -> None:
        self.cann = cann
        self.x, self.y, self.out = (cann.tensor(np.full(4, number, np.float32)) for number in (*numbers, 0))
        self.workspaces: list[int] = []

    def __call__(self, stream: int | None) -> None:
        executor, size = self.cann.prepare("aclnnMul", self.x, self.y, self.out)
        self.workspaces.append(self.cann.malloc(max(size, 1)))
        self.cann.aclnnMul(self.workspaces[-1], size, executor, stream)

    def result(self) -> float:
        values = set(self.cann.read(self.out).tolist())
        assert len(values) == 1, values
        return float(values.pop())

    def free(self) -> None:
        for address in self.workspaces:
            self.cann.aclrtFree(address)


def captured(cann: Cann, stream: int) -> tuple[int, int | None]:
    """The state of a stream's capture, and its model."""
    status, model = ctypes.c_int32(9), ctypes.c_void_p()
    cann.aclmdlRICaptureGetInfo(stream, ctypes.byref(status), ctypes.byref(model))
    return status.value, model.value


def end(cann: Cann, stream: int) -> int:
    model = ctypes.c_void_p()
    cann.aclmdlRICaptureEnd(stream, ctypes.byref(model))
    assert model.value is not None
    return model.value


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


def create_event(cann: Cann, flag: int = SYNC) -> int:
    return cann.create("aclrtCreateEventExWithFlag" if flag == SYNC else "aclrtCreateEventWithFlag", flag)


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
