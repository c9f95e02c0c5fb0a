"""MSPTI: activities of kernels, copies, calls, collectives and marks, and how they are tied to each other."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np
import pytest
from emulator_client import Cann, client

MARKER, KERNEL, API, HCCL, MEMORY, MEMSET, MEMCPY, EXTERNAL, COMMUNICATION, ACL_API, NODE_API = range(1, 12)
INT32, FP16 = 2, 3  # msptiCommunicationDataType
_U32, _U64, _TEXT = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_char_p

_TYPES = {"I": _U32, "Q": _U64, "s": _TEXT, "B": ctypes.c_uint8}
# Members behind ``kind``, packed, as the public headers have them: a letter for the type, and a name.
LAYOUTS = {
    MARKER: "I:flag I:source Q:time Q:id I:first I:second s:name s:domain",
    KERNEL: "Q:start Q:end I:device I:stream Q:correlation s:type s:name",
    ACL_API: "Q:start Q:end I:process I:thread Q:correlation s:name",
    MEMSET: "I:value Q:bytes Q:start Q:end I:device I:stream Q:correlation B:asynchronous",
    MEMCPY: "I:copy Q:bytes Q:start Q:end I:device I:stream Q:correlation B:asynchronous",
    EXTERNAL: "I:external_kind Q:external Q:correlation",
    COMMUNICATION: "I:dtype Q:count I:device I:stream Q:start Q:end s:algorithm s:name s:group Q:correlation",
}


def structure(members: str) -> Any:
    fields = [(name, _TYPES[letter]) for letter, name in (member.split(":") for member in members.split())]
    return type("Record", (ctypes.Structure,), {"_pack_": 1, "_fields_": [("kind", _U32), *fields]})


RECORDS = {kind: structure(members) for kind, members in LAYOUTS.items()}
_SIZE = ctypes.POINTER(ctypes.c_size_t)
REQUESTED = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), _SIZE, _SIZE)
COMPLETED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


class Subscriber:
    """Collects the records of some kinds, in buffers that hold a few each."""

    def __init__(self, *kinds: int) -> None:
        self.library = library = ctypes.CDLL("libmspti.so")
        self.records: list[Any] = []
        self.buffers: list[Any] = []
        self.most = 0

        def requested(buffer: Any, size: Any, most: Any) -> None:
            self.buffers.append((_U64 * 64)())
            buffer[0], size[0], most[0] = ctypes.addressof(self.buffers[-1]), 512, 0

        def completed(buffer: int, size: int, valid: int) -> None:
            record, count = ctypes.c_void_p(), 0
            while (
                library.msptiActivityGetNextRecord(
                    ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)
                )
                == 0
            ):
                kind = _U32.from_address(record.value or 0).value
                self.records.append(
                    RECORDS[ACL_API if kind in (API, NODE_API) else kind].from_address(record.value or 0)
                )
                count += 1
            self.most = max(self.most, count)

        self.callbacks = REQUESTED(requested), COMPLETED(completed)
        self.handle = ctypes.c_void_p()
        assert library.msptiSubscribe(ctypes.byref(self.handle), None, None) == 0
        assert library.msptiSubscribe(ctypes.byref(self.handle), None, None) == 2
        assert library.msptiActivityRegisterCallbacks(*self.callbacks) == 0
        for kind in kinds:
            assert library.msptiActivityEnable(kind) == 0 and library.msptiActivityIsEnabled(kind)

    def push(self, number: int) -> None:
        assert self.library.msptiActivityPushExternalCorrelationId(2, _U64(number)) == 0

    def pop(self) -> int:
        number = _U64()
        assert self.library.msptiActivityPopExternalCorrelationId(2, ctypes.byref(number)) == 0
        return number.value

    def finish(self) -> dict[int, list[Any]]:
        assert self.library.msptiActivityFlushAll(1) == 0
        assert self.library.msptiUnsubscribe(self.handle) == 0
        return {kind: [r for r in self.records if r.kind == kind] for kind in range(1, 13)}


@client()
def test_each_kernel_is_tied_to_its_call_and_to_what_the_profiler_says_of_it(cann: Cann) -> None:
    x, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))
    cann.run("aclnnNeg", x, out)  # before
    subscriber = Subscriber(KERNEL, ACL_API, EXTERNAL)
    begin = time.time_ns()
    for number in range(20):
        subscriber.push(100 + number)
        cann.run("aclnnAbs" if number % 2 else "aclnnNeg", x, out)
        assert subscriber.pop() == 100 + number
    cann.run("aclnnExp", x, out)  # outside of what is pushed
    end = time.time_ns()
    found = subscriber.finish()
    cann.run("aclnnNeg", x, out)  # after
    kernels, external = found[KERNEL], {r.correlation: r.external for r in found[EXTERNAL]}
    calls = {r.correlation: r for r in found[ACL_API] if r.name.startswith(b"aclnn")}
    assert [k.name for k in kernels] == [b"aclnnNeg", b"aclnnAbs"] * 10 + [b"aclnnExp"]
    for number, kernel in enumerate(kernels):
        call = calls[kernel.correlation]
        assert call.name == kernel.name
        assert begin <= call.start <= kernel.start <= kernel.end <= end
        assert external.get(kernel.correlation) == (100 + number if number < 20 else None)
    assert 1 < subscriber.most < len(subscriber.records)  # several buffers, with several records


@client()
def test_what_a_graph_replays_is_told_one_by_one(cann: Cann) -> None:
    """Kernels, a copy and a fill, tied to the call that executes the graph; a task that is disabled is not among them."""
    x, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))
    source, target = cann.malloc(64), cann.malloc(64)
    stream, graph = cann.create("aclrtCreateStream"), ctypes.c_void_p()
    prepared = [(name, *cann.prepare(name, one, out)) for name, one in (("aclnnNeg", x), ("aclnnAbs", out))]
    cann.aclmdlRICaptureBegin(stream, 0)
    for launch in prepared:
        cann.launch(*launch, stream)
    cann.aclrtMemcpyAsync(target, 64, source, 48, 3, stream)
    cann.aclrtMemsetAsync(target, 64, 7, 32, stream)
    cann.aclmdlRICaptureEnd(stream, ctypes.byref(graph))
    subscriber = Subscriber(KERNEL, ACL_API, MEMCPY, MEMSET, NODE_API)
    for _ in range(2):
        cann.aclmdlRIExecuteAsync(graph, stream)
    cann.aclrtSynchronizeStream(stream)
    found = subscriber.finish()
    executed = [r for r in found[ACL_API] if r.name == b"aclmdlRIExecuteAsync"]
    assert len(executed) == 2 and not found[NODE_API]
    assert [k.name for k in found[KERNEL]] == [b"aclnnNeg", b"aclnnAbs"] * 2
    ran = sorted([*found[KERNEL], *found[MEMCPY], *found[MEMSET]], key=lambda r: r.start)
    assert [r.correlation for r in ran] == [executed[0].correlation] * 4 + [executed[1].correlation] * 4
    assert [(r.copy, r.bytes) for r in found[MEMCPY]] == [(4, 48)] * 2  # MSPTI_ACTIVITY_MEMCPY_KIND_DTOD
    assert [(r.value, r.bytes) for r in found[MEMSET]] == [(7, 32)] * 2
    assert all(executed[0].start <= r.start <= r.end for r in ran)
    cann.aclmdlRIDestroy(graph)
    cann.aclrtDestroyStream(stream)
    for memory in (source, target):
        cann.aclrtFree(memory)


@client()
def test_what_is_captured_has_not_run(cann: Cann) -> None:
    """A kernel, a copy and a fill: their calls are told, and nothing of the device."""
    x, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))
    source, target = cann.malloc(64), cann.malloc(64)
    stream, graph = cann.create("aclrtCreateStream"), ctypes.c_void_p()
    launch = cann.prepare("aclnnNeg", x, out)
    subscriber = Subscriber(KERNEL, ACL_API, MEMCPY, MEMSET)
    cann.aclmdlRICaptureBegin(stream, 0)
    cann.launch("aclnnNeg", *launch, stream)
    cann.aclrtMemcpyAsync(target, 64, source, 48, 3, stream)
    cann.aclrtMemsetAsync(target, 64, 7, 32, stream)
    cann.aclmdlRICaptureEnd(stream, ctypes.byref(graph))
    found = subscriber.finish()
    called = [r.name for r in found[ACL_API]]
    assert called == [b"aclnnNeg", b"aclrtMemcpyAsync", b"aclrtMemsetAsync"]
    assert found[KERNEL] == found[MEMCPY] == found[MEMSET] == []
    cann.aclmdlRIDestroy(graph)
    cann.aclrtDestroyStream(stream)
    for memory in (source, target):
        cann.aclrtFree(memory)


@client()
def test_a_collective_is_told_with_its_type_count_and_group(cann: Cann) -> None:
    hccl = ctypes.CDLL("libhccl.so")
    communicator, name, stream = ctypes.c_void_p(), ctypes.create_string_buffer(128), cann.create("aclrtCreateStream")
    assert hccl.HcclCommInitAll(1, (ctypes.c_int32 * 1)(0), ctypes.byref(communicator)) == 0
    assert hccl.HcclGetCommName(communicator, name) == 0
    memory = cann.malloc(256)
    subscriber = Subscriber(COMMUNICATION, ACL_API)
    fp16, int32, total, first = 3, 2, 0, 0  # HcclDataType, HcclReduceOp, root
    pointer, handle = ctypes.c_void_p(memory), ctypes.c_void_p(stream)
    assert hccl.HcclAllReduce(pointer, pointer, ctypes.c_uint64(24), fp16, total, communicator, handle) == 0
    assert hccl.HcclBroadcast(pointer, ctypes.c_uint64(7), int32, first, communicator, handle) == 0
    cann.aclrtSynchronizeStream(stream)
    found = subscriber.finish()
    assert hccl.HcclCommDestroy(communicator) == 0
    calls = {r.correlation: r for r in found[ACL_API]}
    records = found[COMMUNICATION]
    told = [(r.name, r.count, r.dtype) for r in records]
    assert told == [
        (b"HcclAllReduce", 24, FP16),
        (b"HcclBroadcast", 7, INT32),
    ], told
    for record in records:
        assert record.group == name.value and record.algorithm == b"RANK_ORDER"
        assert calls[record.correlation].name == record.name
        assert calls[record.correlation].start <= record.start <= record.end
        assert record.device == 0
    assert len({r.stream for r in records}) == 1
    cann.aclrtDestroyStream(stream)
    cann.aclrtFree(memory)


@client()
def test_copies_and_fills_have_sizes(cann: Cann) -> None:
    subscriber = Subscriber(MEMCPY, MEMSET)
    memory = cann.malloc(4096)
    data = np.arange(1024, dtype=np.int32)
    cann.aclrtMemcpy(memory, 4096, data.ctypes.data, 4096, 1)
    cann.aclrtMemset(memory, 4096, 7, 64)
    cann.aclrtMemsetAsync(memory, 4096, 7, 32, None)
    cann.aclrtSynchronizeStream(None)
    found = subscriber.finish()
    (copy,) = found[MEMCPY]
    assert (copy.copy, copy.bytes, copy.asynchronous) == (2, 4096, 0)  # MSPTI_ACTIVITY_MEMCPY_KIND_HTOD
    assert [(r.bytes, r.value, r.asynchronous) for r in found[MEMSET]] == [(64, 7, 0), (32, 7, 1)]
    assert all(r.start <= r.end for r in [copy, *found[MEMSET]])
    cann.aclrtFree(memory)


@client()
def test_marks_are_noted_on_the_host_and_on_a_stream(cann: Cann) -> None:
    subscriber = Subscriber(MARKER)
    marks = ctypes.CDLL("libms_tools_ext.so")
    marks.mstxRangeStartA.restype = _U64
    marks.mstxDomainCreateA.restype = ctypes.c_void_p
    marks.mstxMarkA(b"now", None)
    stream = cann.create("aclrtCreateStream")
    number = marks.mstxRangeStartA(b"step", ctypes.c_void_p(stream))
    marks.mstxRangeEnd(_U64(number))
    domain = ctypes.c_void_p(marks.mstxDomainCreateA(b"mine"))
    marks.mstxDomainMarkA(domain, b"there", None)
    cann.aclrtSynchronizeStream(stream)
    found = subscriber.finish()[MARKER]
    cann.aclrtDestroyStream(stream)
    host = [(r.flag, r.name, r.domain) for r in found if r.source == 0]
    assert host == [(1, b"now", None), (16, b"step", None), (32, None, None), (1, b"there", b"mine")]
    device = [(r.flag, r.id) for r in found if r.source == 1]
    assert device == [(16, number), (32, number)]


@client()
def test_what_is_not_emulated_is_refused(cann: Cann) -> None:
    library = ctypes.CDLL("libmspti.so")
    assert library.msptiActivityEnable(MEMORY) == 1
    assert "MEMORY" in cann.message()
    assert library.msptiActivityEnable(99) == 1 and library.msptiActivityEnable(0) == 1
    assert library.msptiEnableCallback(1, None, 1, 1) == 1
    assert "callbacks are not emulated" in cann.message()
    assert library.msptiActivityPopExternalCorrelationId(2, None) == 5
    assert library.msptiActivityRegisterCallbacks(None, None) == 1
    assert library.msptiUnsubscribe(None) == 1


@pytest.mark.parametrize("kind", sorted(RECORDS))
def test_records_are_as_long_as_in_the_headers(kind: int) -> None:
    sizes = {MARKER: 56, KERNEL: 56, ACL_API: 48, MEMSET: 56, MEMCPY: 56, EXTERNAL: 24, COMMUNICATION: 72}
    assert -(-ctypes.sizeof(RECORDS[kind]) // 8) * 8 == sizes[kind]
