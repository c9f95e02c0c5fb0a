"""``emulator run --validate``: accesses without an order, reads of unwritten memory, and silence about right programs."""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import json
import mmap
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest
from emulator_client import H2D, NEWEST, Cann, Location, Property, Tensor, run_body
from process_tools import wait_until
from requirements import needs_torch_npu

from ascend_aclnn import cli
from ascend_aclnn.emulator import validation

pytestmark = pytest.mark.own_validation

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "emulator" / "validate.md"
IDENTIFIER = r'"((?:sync|memory|handle)/[\w-]+)"'
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_ACCESS = r"(\S+) (\S+) \((\w+) (\d+) of (the host|stream \d+), [^()]+\)"
MISSED = re.compile(rf"EMULATOR_VALIDATE: (\S+): {_ACCESS} is not ordered after {_ACCESS}: (\d+) bytes")


class Streams:
    """Two streams and three matrices; what they do is what a test is about."""

    def __init__(self, cann: Cann) -> None:
        self.cann = cann
        self.first, self.second = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
        self.x, self.y, self.z = (cann.tensor(np.ones((4, 8), np.float32)) for _ in range(3))
        self.event = cann.create("aclrtCreateEvent")

    def multiply(self, source: Tensor | int, out: Tensor | int, stream: int) -> None:
        executor, size = self.cann.prepare("aclnnMul", source, source, out)
        assert size == 0
        self.cann.aclnnMul(None, 0, executor, stream)

    def wait(self) -> None:
        self.cann.aclrtRecordEvent(self.event, self.first)
        self.cann.aclrtStreamWaitEvent(self.second, self.event)

    def close(self) -> None:
        self.cann.aclrtSynchronizeDevice()
        self.cann.aclrtDestroyEvent(self.event)
        for stream in (self.first, self.second):
            self.cann.aclrtDestroyStream(stream)


def lines(home: Path, body: object, **settings: str) -> list[str]:
    done = run_body(body, home, ASCEND_EMULATOR_VALIDATE="sync,memory", **settings)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("EMULATOR_VALIDATE")]


def body_missing(cann: Cann) -> None:
    s = Streams(cann)
    s.multiply(s.x, s.y, s.first)
    s.multiply(s.y, s.z, s.second)  # reads y
    s.multiply(s.z, s.x, s.second)  # writes x, which the first launch reads
    s.multiply(s.x, s.y, s.second)  # writes y
    s.wait()
    cann.aclrtMemsetAsync(s.z.address, 128, 0, 64, s.first)  # the wait orders the other direction
    s.close()


def test_all_three_kinds_name_both_launches(emulator_home: Path) -> None:
    found = lines(emulator_home, body_missing)
    streams = sorted({int(n) for line in found for n in re.findall(r"of stream (\d+)", line)})
    first, second = streams
    pairs = [match.groups() for match in map(MISSED.match, found) if match]
    of_first, of_second = f"stream {first}", f"stream {second}"
    written, again = ("aclnnMul", "out", "launch", "1", of_first), ("aclnnMul", "out", "launch", "1", of_second)
    expected = [
        ("sync/read-after-write", "aclnnMul", "self", "launch", "1", of_second, *written, "128"),
        ("sync/read-after-write", "aclnnMul", "other", "launch", "1", of_second, *written, "128"),
        (
            "sync/write-after-read",
            "aclnnMul",
            "out",
            "launch",
            "2",
            of_second,
            "aclnnMul",
            "other",
            *written[2:],
            "128",
        ),
        ("sync/write-after-write", "aclnnMul", "out", "launch", "3", of_second, *written, "128"),
        ("sync/write-after-write", "aclrtMemsetAsync", "devPtr", "fill", "2", of_first, *again, "64"),
    ]
    assert pairs == expected
    assert found[0].count(f"test_validate.py:{Streams.multiply.__code__.co_firstlineno + 1} in multiply") == 2
    assert found[len(pairs)].endswith(": 5 findings, seen 5 times")


KERNELS = """
import numpy as np
from ascend_aclnn.reference.kernels import kernel

@kernel("void doubled(GM_ADDR x, GM_ADDR y, uint32_t count)",
        reads=lambda x, y, count: {"x": 4 * count}, writes=lambda x, y, count: {"y": 4 * count})
def doubled(x, y, count):
    y.array(count, np.float32)[...] = 2 * x.array(count, np.float32)

@kernel("void undeclared(GM_ADDR x, GM_ADDR y, uint32_t count)")
def undeclared(x, y, count):
    y.array(count, np.float32)[...] = x.array(count, np.float32)
"""


def body_kernels(cann: Cann) -> None:
    s = Streams(cann)
    stubs = {name: ctypes.create_string_buffer(1) for name in (b"doubled", b"undeclared")}
    for name, stub in stubs.items():
        cann.rtFunctionRegister(None, stub, name, None, 0)

    def launch(name: bytes, source: int, target: int, stream: int) -> None:
        arguments = struct.pack("<QQI", source, target, 32)
        cann.rtKernelLaunch(stubs[name], 1, arguments, len(arguments), None, ctypes.c_void_p(stream))

    launch(b"doubled", s.x.address, s.y.address, s.first)
    s.multiply(s.y, s.z, s.second)  # reads y
    launch(b"doubled", s.z.address, s.x.address, s.second)  # writes x, which the first launch reads
    s.wait()
    launch(b"doubled", s.x.address, s.y.address, s.second)  # ordered
    cann.aclrtSynchronizeDevice()
    assert (cann.read(s.y) == 8 * 2).all()
    cann.aclmdlRICaptureBegin(s.first, 0)
    launch(b"doubled", s.y.address, s.z.address, s.first)
    model = ctypes.c_void_p()
    cann.aclmdlRICaptureEnd(s.first, ctypes.byref(model))
    cann.aclmdlRIExecuteAsync(model, s.first)
    s.multiply(s.x, s.z, s.second)  # writes z
    cann.aclrtSynchronizeDevice()
    cann.aclmdlRIDestroy(model)
    fresh = cann.malloc(128)
    launch(b"undeclared", fresh, s.z.address, s.first)  # not compared
    s.multiply(s.z, s.x, s.second)
    cann.aclrtSynchronizeDevice()
    cann.aclrtFree(fresh)
    fresh = cann.malloc(128)
    launch(b"doubled", fresh, s.z.address, s.first)
    cann.aclrtSynchronizeDevice()
    cann.aclrtFree(fresh)
    s.close()


def test_kernels_are_compared_where_their_accesses_are_declared(emulator_home: Path, tmp_path: Path) -> None:
    file = tmp_path / "my_kernels.py"
    file.write_text(KERNELS)
    *found, never_written, summary = lines(emulator_home, body_kernels, ASCEND_EMULATOR_OPERATORS=str(file))
    pairs = [[match[1], *match[2].split(), *match.group(3, 7, 8, 12)] for match in map(MISSED.match, found) if match]
    assert pairs == [
        ["sync/read-after-write", "aclnnMul", "self", "doubled", "y", "128"],
        ["sync/read-after-write", "aclnnMul", "other", "doubled", "y", "128"],
        ["sync/write-after-read", "doubled", "y", "doubled", "x", "128"],
        ["sync/write-after-write", "aclnnMul", "out", "doubled", "y", "128"],
    ]
    assert " in launch < test_validate.py:" in found[0]
    assert "memory/unwritten-read: doubled x (launch" in never_written
    assert summary.endswith(": 5 findings, seen 5 times")


def body_ordered(cann: Cann) -> None:
    s = Streams(cann)
    x, y, z = s.x, s.y, s.z
    s.multiply(x, y, s.first)
    s.wait()
    s.multiply(y, z, s.second)  # an event
    cann.aclrtSynchronizeStream(s.second)
    s.multiply(z, x, s.first)  # the host
    s.multiply(x, y, s.first)  # the same stream
    cann.aclrtSynchronizeDevice()
    s.multiply(y, z, s.second)
    cann.aclrtRecordEvent(s.event, s.second)
    cann.aclrtSynchronizeEvent(s.event)
    cann.read(z)
    s.multiply(z, y, s.second)
    status = ctypes.c_int32(0)
    while status.value != 1:  # a query that says complete
        time.sleep(0.001)
        cann.aclrtQueryEventStatus(s.event, ctypes.byref(status))
    cann.aclrtSynchronizeStream(s.second)
    s.multiply(y, z, s.first)
    entered: list[int] = []
    function = HOST_FUNCTION(lambda _: entered.append(1))
    cann.aclrtLaunchHostFunc(s.first, function, None)
    while not entered:
        time.sleep(0.001)
    cann.read(z)  # the function has been called
    # Parts of one allocation: rows, and columns that lie between each other's.
    block = cann.tensor(np.ones((4, 8), np.float32))
    views = [cann.describe((2, 8), np.float32, block.address, (8, 1), offset, storage=(32,)) for offset in (0, 16)] + [
        cann.describe((4, 4), np.float32, block.address, (8, 1), offset, storage=(32,)) for offset in (0, 4)
    ]
    other = [cann.describe((2, 8), np.float32, z.address), cann.describe((4, 4), np.float32, z.address)]
    for left, right, source in ((views[0], views[1], other[0]), (views[2], views[3], other[1])):
        s.multiply(source, left, s.first)
        s.multiply(source, right, s.second)
        cann.aclrtSynchronizeDevice()
    # Each second element of a tensor, into the first half of it: CANN copies such an input first.
    halves = (
        cann.describe((16,), np.float32, z.address, (2,), storage=(32,)),
        cann.describe((16,), np.float32, z.address),
    )
    s.multiply(*halves, s.first)
    for view in (*views, *other, *halves):
        cann.aclDestroyTensor(view)
    s.close()


@pytest.mark.parametrize("streams", ["background", "eager"])
def test_what_is_ordered_is_not_reported(emulator_home: Path, streams: str) -> None:
    found = lines(emulator_home, body_ordered, ASCEND_EMULATOR_STREAMS=streams, ASCEND_EMULATOR_CANN=NEWEST)
    assert [line for line in found if "/" in line] == []
    assert re.fullmatch(
        r"EMULATOR_VALIDATE: \d+ launches, copies and fills on \d timelines: 0 findings, seen 0 times", found[-1]
    )


def body_host_copy(cann: Cann) -> None:
    """The host reads without waiting; and a view overlaps by its last column."""
    s = Streams(cann)
    s.multiply(s.x, s.y, s.first)
    cann.read(s.y)
    left = cann.describe((4, 5), np.float32, s.z.address, (8, 1), 0, storage=(32,))
    right = cann.describe((4, 4), np.float32, s.z.address, (8, 1), 4, storage=(32,))
    five = cann.describe((4, 5), np.float32, s.x.address)
    four = cann.describe((4, 4), np.float32, s.x.address)
    s.multiply(five, left, s.first)
    s.multiply(four, right, s.second)
    for handle in (left, right, five, four):
        cann.aclDestroyTensor(handle)
    s.close()


def test_a_copy_of_the_host_and_overlapping_views(emulator_home: Path) -> None:
    found = lines(emulator_home, body_host_copy)
    pairs = [match.groups() for match in map(MISSED.match, found) if match]
    assert [(p[0], p[1], p[2], p[5] == "the host", p[11]) for p in pairs] == [
        ("sync/read-after-write", "aclrtMemcpy", "src", True, "128"),
        ("sync/write-after-write", "aclnnMul", "out", False, "4"),
    ]
    assert "4 times: sync/write-after-write" in found[-1]  # a column of four elements


def body_memory(cann: Cann) -> None:
    s = Streams(cann)
    fresh = cann.malloc(128)
    handle = cann.describe((4, 8), np.float32, fresh)
    host = np.ones(16, np.float32)
    cann.aclrtMemcpy(fresh, 128, host.ctypes.data, 64, H2D)  # the first half
    s.multiply(handle, s.y, s.first)
    cann.aclrtSynchronizeStream(s.first)
    found = np.empty(32, np.float32)
    cann.aclrtMemcpy(found.ctypes.data, 128, fresh, 128, 2)  # named once
    assert (found[:16] == 1).all() and (found[16:].view(np.uint8) == 0xA5).all()
    written = cann.malloc(128)
    out = cann.describe((4, 8), np.float32, written)
    s.multiply(s.x, out, s.first)
    s.multiply(out, s.z, s.first)
    s.close()
    for tensor, address in ((handle, fresh), (out, written)):
        cann.aclDestroyTensor(tensor)
        cann.aclrtFree(address)


def test_reads_of_unwritten_memory(emulator_home: Path) -> None:
    found = [line for line in lines(emulator_home, body_memory) if "/" in line]
    assert len(found) == 1
    assert re.match(
        r"EMULATOR_VALIDATE: memory/unwritten-read: aclnnMul self \(launch 1 of stream \d+, .* in multiply\) reads device "
        r"memory that was never written: 64 bytes",
        found[0],
    )


def body_large(cann: Cann) -> None:
    """What is read of large memory that was never written; a copy of it moves that along."""
    fresh, copied = (cann.malloc(40 << 20) for _ in range(2))
    found = np.empty(64, np.uint8)
    stream = cann.create("aclrtCreateStream")
    cann.aclrtMemcpyAsync(copied, 40 << 20, fresh, 40 << 20, 3, stream)
    cann.aclrtMemsetAsync(fresh + (36 << 20), 32, 1, 32, stream)
    cann.aclrtSynchronizeStream(stream)
    for address in (copied + (36 << 20), fresh + (36 << 20), fresh + (8 << 20)):
        cann.aclrtMemcpy(found.ctypes.data, 64, address, 64, 2)
        assert (found[32:] == 0xA5).all() and (found[:32] == (1 if address == fresh + (36 << 20) else 0xA5)).all()
    for address in (fresh, copied):
        cann.aclrtFree(address)
    cann.aclrtDestroyStream(stream)


def test_unwritten_memory_is_poisoned_where_it_is_read(emulator_home: Path) -> None:
    found = [line for line in lines(emulator_home, body_large) if "memory/unwritten-read" in line]
    assert found and all("aclrtMemcpy src" in line for line in found)


HOST_ACCESS = re.compile(
    r"EMULATOR_VALIDATE: sync/host-access: the host \((\S+) in (\w+)[^()]*\) uses what (\w+) dst \(copy \d+ of stream"
)


def body_host(cann: Cann) -> None:
    """Copies to pinned memory that the host uses; a line on standard error stands before each."""

    def begin(name: str) -> None:
        cann.aclrtSynchronizeDevice()
        print("===", name, file=sys.stderr, flush=True)

    faulthandler.enable()  # a handler of the program's
    stream, other = cann.create("aclrtCreateStream"), cann.create("aclrtCreateStream")
    x, size = cann.tensor(np.arange(4096, dtype=np.float32)), 4 * 4096
    host, second = (cann.create("aclrtMallocHost", size) for _ in range(2))
    array, beside = (np.ctypeslib.as_array((ctypes.c_float * 4096).from_address(at)) for at in (host, second))
    event = cann.create("aclrtCreateEvent")

    def copy(count: int = size, offset: int = 0) -> None:
        cann.aclrtMemcpyAsync(host + offset, count, x.address + offset, count, 2, stream)

    def read() -> float:
        return float(array[5])

    def write() -> None:
        array[5] = 7

    begin("waited for")
    copy()
    beside[:] = 1
    cann.aclrtSynchronizeStream(stream)
    assert read() == 5
    copy()
    cann.aclrtRecordEvent(event, stream)
    cann.aclrtSynchronizeEvent(event)
    assert (array == np.arange(4096)).all()
    begin("read")
    copy()
    read()
    read()
    begin("done, and not waited for")
    array[:] = 9
    copy()
    cann.aclrtSynchronizeStream(other)
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        wait_until(lambda: os.pread(memory.fileno(), 4, host + 20) == struct.pack("f", 5), "the copy")
    read()
    begin("written")
    copy()
    write()
    begin("beside it")  # of a page of which the copy writes a part
    copy(16)
    assert read() == 7 or read() == 5
    begin("in a graph")
    cann.aclmdlRICaptureBegin(stream, 0)
    copy()
    model = ctypes.c_void_p()
    cann.aclmdlRICaptureEnd(stream, ctypes.byref(model))
    assert read() == 7 or read() == 5
    cann.aclmdlRIExecuteAsync(model, stream)
    read()
    begin("several copies")
    for at in range(0, size, 1024):
        copy(1024, at)
    array.sum()
    begin("in a child")
    copy()
    child = os.fork()
    if child == 0:
        os._exit(0 if read() >= 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    begin("freed")
    copy()
    cann.aclrtSynchronizeStream(stream)
    for address in (host, second):
        cann.aclrtFreeHost(address)
    cann.aclmdlRIDestroy(model)
    cann.aclrtDestroyEvent(event)
    for each in (stream, other):
        cann.aclrtDestroyStream(each)


@pytest.mark.parametrize("release", [None, pytest.param("9.0.0", marks=pytest.mark.long)])
def test_what_the_host_uses_too_early(emulator_home: Path, release: Optional[str]) -> None:
    settings = {} if release is None else {"ASCEND_EMULATOR_CANN": release}
    done = run_body(body_host, emulator_home, ASCEND_EMULATOR_VALIDATE="sync,memory,host", **settings)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[tuple[str, str]]] = {}
    for line in done.stderr.splitlines():
        match = HOST_ACCESS.match(line)
        if line.startswith("==="):
            found[line[4:]] = []
        elif match:
            assert match[1].startswith("test_validate.py:")
            found[list(found)[-1]].append((match[2], match[3]))
        else:
            assert "EMULATOR_VALIDATE: " not in line or " findings" in line or " times: " in line or "leak" in line, (
                line
            )
    copied = "aclrtMemcpyAsync"
    assert found == {
        "waited for": [],
        "read": [("read", copied)],
        "done, and not waited for": [("read", copied)],
        "written": [("write", copied)],
        "beside it": [],
        "in a graph": [("read", copied)],
        "several copies": [("body_host", copied)],
        "in a child": [],
        "freed": [],
    }, done.stderr


def body_moves(cann: Cann) -> None:
    """What was never written is moved about; a line on standard error stands before each launch that uses a part of it."""
    s = Streams(cann)
    fresh = cann.malloc(128)
    cann.aclrtMemset(fresh, 128, 0, 64)
    made: list[int] = []

    def at(shape: tuple[int, ...], address: int, strides: Optional[tuple[int, ...]] = None, offset: int = 0) -> int:
        made.append(cann.describe(shape, np.float32, address, strides, offset, storage=(64,)))
        return made[-1]

    def use(name: str, source: int, shape: tuple[int, ...]) -> None:
        print("===", name, file=sys.stderr, flush=True)
        s.multiply(source, at(shape, s.z.address), s.first)

    def move(name: str, *arguments: object) -> None:
        executor, _ = cann.prepare(name, *arguments)
        getattr(cann, name)(None, 0, executor, s.first)

    blocks = [cann.malloc(256) for _ in range(5)]
    half, permuted, joined, narrow, copied = blocks
    dims = (ctypes.c_int64 * 2)(1, 0)
    order = cann.aclCreateIntArray(dims, 2)
    move("aclnnPermute", at((4, 8), fresh), order, at((8, 4), permuted))
    use("written columns", at((8, 2), permuted, (4, 1)), (8, 2))
    use("other columns", at((8, 2), permuted, (4, 1), 2), (8, 2))
    handles = (ctypes.c_void_p * 2)(
        cann.describe((4, 8), np.float32, s.x.address), cann.describe((4, 8), np.float32, fresh)
    )
    tensors = cann.aclCreateTensorList(handles, 2)
    move("aclnnCat", tensors, 1, at((4, 16), joined))
    use("joined", at((4, 8), joined, (16, 1)), (4, 8))
    use("joined to", at((2, 8), joined, (16, 1), 40), (2, 8))
    half_type = cann.describe((4, 8), np.float16, half)
    move("aclnnCast", at((4, 8), fresh), 1, half_type)
    move("aclnnCast", half_type, 0, at((4, 8), narrow))  # moved twice
    use("cast", at((2, 8), narrow), (2, 8))
    use("cast of more", at((3, 8), narrow), (3, 8))
    cann.aclrtMemcpyAsync(copied, 256, fresh, 128, 3, s.first)
    use("copied", at((2, 8), copied), (2, 8))
    use("copied, more", at((3, 8), copied), (3, 8))
    print("=== end", file=sys.stderr, flush=True)
    s.close()
    cann.aclDestroyTensorList(tensors)
    cann.aclDestroyIntArray(order)
    for handle in (*made, half_type):
        cann.aclDestroyTensor(handle)
    for address in (fresh, *blocks):
        cann.aclrtFree(address)


def test_moves_take_unwritten_bytes_along(emulator_home: Path) -> None:
    """A move is no use. The use of what it has moved is found, and the use of what lies beside it is not."""
    done = run_body(body_moves, emulator_home, ASCEND_EMULATOR_VALIDATE="memory")
    assert done.returncode == 0, done.stderr
    found: dict[str, set[tuple[str, ...]]] = {}
    pattern = (
        r"EMULATOR_VALIDATE: memory/unwritten-read: aclnnMul self \(.*\) reads what was never written, and what (\w+ \w+) \(.*\) "
        r"has moved here: (\d+) bytes"
    )
    for line in done.stderr.splitlines():
        match = re.match(pattern, line)
        if line.startswith("==="):
            found[line[4:]] = set()
        elif match:
            found[list(found)[-1]].add(match.groups())
        else:
            assert "memory/" not in line or " times: " in line, line
    assert found == {
        "written columns": set(),
        "other columns": {("aclnnPermute out", "8")},
        "joined": set(),
        "joined to": {("aclnnCat out", "32")},
        "cast": set(),
        "cast of more": {("aclnnCast out", "32")},
        "copied": set(),
        "copied, more": {("aclrtMemcpyAsync dst", "32")},
        "end": set(),
    }


def examples() -> dict[str, str]:
    """The page's examples, by the finding that they cause."""
    found = re.findall(r"^### (\S+)$.*?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return dict(found)


def run(
    *program: str, options: tuple[str, ...] = ("--validate",), **variables: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", *options, "--", *program]
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_the_page_has_every_finding() -> None:
    folder = ROOT / "ascend_aclnn/emulator/csrc"
    sources = [*(folder / "ascendcl/validate").glob("*.c"), folder / "nnopbase/executor.c"]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    layer = set(re.findall(IDENTIFIER, (ROOT / "ascend_aclnn/layer/validate.py").read_text(encoding="utf-8")))
    assert layer and layer < set(examples())
    assert set(re.findall(IDENTIFIER, text)) == set(examples())


RUN_EXAMPLES = """
import re, sys
for name, text in re.findall(r"^### (\\S+)$.*?```python\\n(.*?)```", open(sys.argv[1], encoding="utf-8").read(), re.M | re.S):
    print("===", name, file=sys.stderr, flush=True)
    exec(compile(text, name, "exec"), {"__name__": name})
"""


@pytest.mark.parametrize("release", [None, pytest.param("9.0.0", marks=pytest.mark.long)])
def test_examples_of_the_page(emulator_home: Path, tmp_path: Path, release: Optional[str]) -> None:
    """All in one process; each causes its own finding and no other."""
    file = tmp_path / "findings.json"
    options = (
        "--validate=memory,sync,host",
        f"--validate-json={file}",
        *([] if release is None else [f"--cann={release}"]),
    )
    done = run(sys.executable, "-c", RUN_EXAMPLES, str(PAGE), options=options)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    found: dict[str, set[str]] = {}
    for line in done.stderr.splitlines():
        if line.startswith("==="):
            found[line[4:]] = set()
        match = re.match(r"EMULATOR_VALIDATE: (?:warning: )?(\w+/[\w-]+): ", line)
        if match and match[1] != "memory/leak":
            list(found.values())[-1].add(match[1])
    assert found == {name: set() if name == "memory/leak" else {name} for name in examples()}
    assert "64 bytes of aclrtMalloc (leak:5 in <module>" in done.stderr
    assert "aclrtMemset (use-after-free:7 in <module>" in done.stderr
    assert "it was freed by aclrtFree (use-after-free:6 in <module>" in done.stderr
    report = json.loads(file.read_text(encoding="utf-8"))
    assert {finding["identifier"] for finding in report["findings"]} == set(examples())
    first = report["findings"][0]
    assert first["severity"] == "error" and first["times"] == 1 and first["identifier"] == "sync/read-after-write"
    sides = first["later"], first["earlier"]
    assert [(side["operator"], side["argument"], side["kind"], side["number"]) for side in sides] == [
        ("aclnnAdd", "self", "launch", 1),
        ("aclnnMul", "out", "launch", 1),
    ]
    assert [["sync/read-after-write", line, "<module>"] in side["frames"] for side, line in zip(sides, (10, 8))] == [
        True
    ] * 2


SUPPRESSED = """
# comment
sync/*  aclnnAdd self*is not ordered
memory/leak
"""


def test_suppressed_findings_do_not_count(emulator_home: Path, tmp_path: Path) -> None:
    (tmp_path / "suppressions").write_text(SUPPRESSED, encoding="utf-8")
    options = ("--validate", f"--validate-suppress={tmp_path}/suppressions")
    example = examples()["sync/read-after-write"]
    done = run(sys.executable, "-c", example.replace("ops.add(y, y, 1)", "ops.add(y, x, 1)"), options=options)
    assert done.returncode == 0 and ": 0 findings, seen 0 times, 1 suppressed" in done.stderr, done.stderr
    done = run(sys.executable, "-c", example, options=options)  # aclnnAdd other is not suppressed
    assert done.returncode == 1 and done.stderr.count("sync/") == 1, done.stderr


def body_single(cann: Cann) -> None:
    s = Streams(cann)
    descs = [cann.aclCreateTensorDesc(0, 2, (ctypes.c_int64 * 2)(4, 8), 2) for _ in range(2)]

    def run_abs(source: Tensor, target: Tensor, stream: int) -> None:
        buffers = [cann.aclCreateDataBuffer(tensor.address, 128) for tensor in (source, target)]
        columns = [(ctypes.c_void_p * 1)(item) for item in (descs[0], buffers[0], descs[1], buffers[1])]
        cann.aclopExecute(b"Abs", 1, columns[0], columns[1], 1, columns[2], columns[3], None, ctypes.c_void_p(stream))
        for buffer in buffers:
            cann.aclDestroyDataBuffer(buffer)

    run_abs(s.x, s.y, s.first)
    s.multiply(s.y, s.z, s.second)  # reads y
    s.wait()
    run_abs(s.y, s.x, s.second)
    cann.aclrtSynchronizeDevice()
    s.multiply(s.y, s.z, s.first)
    run_abs(s.x, s.y, s.second)  # writes y, which the first stream reads
    for desc in descs:
        cann.aclDestroyTensorDesc(desc)
    s.close()


def test_single_operators_are_compared(emulator_home: Path) -> None:
    *found, summary = lines(emulator_home, body_single)
    pairs = [[match[1], *match[2].split(), *match.group(3, 7, 8)] for match in map(MISSED.match, found) if match]
    assert pairs == [
        ["sync/read-after-write", "aclnnMul", "self", "Abs", "outputs[0]"],
        ["sync/read-after-write", "aclnnMul", "other", "Abs", "outputs[0]"],
        ["sync/write-after-read", "Abs", "outputs[0]", "aclnnMul", "other"],
    ]
    assert summary.endswith(": 3 findings, seen 3 times")


def body_communicator(cann: Cann) -> None:
    s = Streams(cann)
    hccl, communicator = ctypes.CDLL("libhccl.so"), ctypes.c_void_p()
    assert hccl.HcclCommInitAll(1, (ctypes.c_int32 * 1)(0), ctypes.byref(communicator)) == 0

    def reduce(tensor: Tensor, stream: int) -> None:
        data = ctypes.c_void_p(tensor.address)
        assert hccl.HcclAllReduce(data, data, ctypes.c_uint64(32), 4, 0, communicator, ctypes.c_void_p(stream)) == 0

    reduce(s.x, s.first)
    reduce(s.x, s.first)
    s.wait()
    reduce(s.y, s.second)  # after a wait for the event
    cann.aclrtSynchronizeStream(s.second)
    reduce(s.x, s.first)  # after the host's wait
    reduce(s.y, s.second)
    cann.aclrtSynchronizeDevice()
    assert hccl.HcclCommDestroy(communicator) == 0
    s.close()


def test_collectives_of_a_communicator_need_an_order(emulator_home: Path, tmp_path: Path) -> None:
    file = tmp_path / "report"
    file.touch()
    lines(emulator_home, body_communicator, ASCEND_EMULATOR_VALIDATE_REPORT=str(file))
    reader = validation.Reader(file)
    reader.update()
    (finding,) = (*reader.printed, *reader.compared)
    assert finding["identifier"] == "sync/communicator" and finding["times"] == 1
    sides = [(side["operator"], side["number"]) for side in (finding["later"], finding["earlier"])]
    assert sides == [("HcclAllReduce", 2), ("HcclAllReduce", 3)]
    assert finding["text"].endswith("of the same communicator") and " in reduce < " in finding["text"]


def body_orders(cann: Cann) -> None:
    """Each kind of order with a race and without one; a line on standard error stands before each."""

    def begin(name: str) -> Streams:
        cann.aclrtSynchronizeDevice()
        print("===", name, file=sys.stderr, flush=True)
        return s

    s = Streams(cann)
    notify = cann.create("aclrtCreateNotify", 0)
    flag = cann.tensor(np.zeros(1, np.int64))
    for ordered in (True, False):
        begin(f"notify {ordered}").multiply(s.x, s.y, s.first)
        cann.aclrtRecordNotify(notify, s.first)
        if not ordered:
            s.multiply(s.x, s.y, s.first)
        cann.aclrtWaitAndResetNotify(notify, s.second, 0)
        s.multiply(s.y, s.z, s.second)
    for ordered in (True, False):
        begin(f"value {ordered}")
        cann.aclrtValueWrite(flag.address, 0, 0, s.first)
        s.multiply(s.x, s.y, s.first)
        cann.aclrtValueWrite(flag.address, 7, 0, s.first)
        if not ordered:
            s.multiply(s.x, s.y, s.first)
        cann.aclrtValueWait(flag.address, 7, 1, s.second)
        s.multiply(s.y, s.z, s.second)
    entered = threading.Event()
    function = HOST_FUNCTION(lambda _: entered.set())
    for ordered in (True, False):
        begin(f"function {ordered}")
        entered.clear()
        s.multiply(s.x, s.y, s.first)
        cann.aclrtLaunchHostFunc(s.first, function, None)
        assert entered.wait(60)
        if not ordered:
            s.multiply(s.x, s.y, s.first)
        cann.read(s.y)
    fork, joined = (cann.create("aclrtCreateEventExWithFlag", 1) for _ in range(2))
    for outside, inside in ((True, True), (False, True), (True, False)):
        begin(f"graph {outside} {inside}")
        cann.aclmdlRICaptureBegin(s.first, 0)
        s.multiply(s.x, s.y, s.first)
        cann.aclrtRecordEvent(fork, s.first)
        cann.aclrtStreamWaitEvent(s.second, fork)
        s.multiply(s.y, s.z, s.second)
        if inside:
            cann.aclrtRecordEvent(joined, s.second)
            cann.aclrtStreamWaitEvent(s.first, joined)
        s.multiply(s.x, s.y, s.first)
        if not inside:
            cann.aclrtRecordEvent(joined, s.second)
            cann.aclrtStreamWaitEvent(s.first, joined)
        model = ctypes.c_void_p()
        cann.aclmdlRICaptureEnd(s.first, ctypes.byref(model))
        s.multiply(s.z, s.x, s.second)
        if outside:
            cann.aclrtRecordEvent(s.event, s.second)
            cann.aclrtStreamWaitEvent(s.first, s.event)
        cann.aclmdlRIExecuteAsync(model, s.first)
        s.multiply(s.x, s.x, s.first)  # behind the graph
        cann.aclrtSynchronizeDevice()
        cann.aclmdlRIDestroy(model)
    for event in (fork, joined):
        cann.aclrtDestroyEvent(event)
    cann.aclrtDestroyNotify(notify)
    s.close()


def body_graph_orders(cann: Cann) -> None:
    """What graphs order with other streams, with a race and without one; a line on standard error stands before each."""

    def begin(name: str) -> None:
        cann.aclrtSynchronizeDevice()
        print("===", name, file=sys.stderr, flush=True)

    def capture(stream: int, *calls: Callable[[], object]) -> int:
        cann.aclmdlRICaptureBegin(stream, 0)
        for call in calls:
            call()
        model = ctypes.c_void_p()
        cann.aclmdlRICaptureEnd(stream, ctypes.byref(model))
        assert model.value is not None
        models.append(model.value)
        return model.value

    every, models = list[Streams](), list[int]()
    notify, event = cann.create("aclrtCreateNotify", 0), cann.create("aclrtCreateEventWithFlag", 32)
    flag = cann.tensor(np.zeros(1, np.int64)).address
    signals: dict[str, tuple[Callable[[int], object], Callable[[int], object]]] = {
        "notify": (
            lambda stream: cann.aclrtRecordNotify(notify, stream),
            lambda stream: cann.aclrtWaitAndResetNotify(notify, stream, 0),
        ),
        "value": (
            lambda stream: cann.aclrtValueWrite(flag, 7, 0, stream),
            lambda stream: (cann.aclrtValueWait(flag, 7, 1, stream), cann.aclrtValueWrite(flag, 0, 0, stream)),
        ),
        "external event": (
            lambda stream: cann.aclrtRecordEvent(event, stream),
            lambda stream: (cann.aclrtStreamWaitEvent(stream, event), cann.aclrtResetEvent(event, stream)),
        ),
    }
    for name, (tell, wait) in signals.items():
        s = Streams(cann)  # a finding of streams that is like an earlier one is not told again
        every.append(s)
        write = functools.partial(s.multiply, s.x, s.y, s.first)
        read = functools.partial(s.multiply, s.y, s.z, s.second)
        for ordered in (True, False):
            give, take = functools.partial(tell, s.first), functools.partial(wait, s.second)
            writes, reads = ([write, give], [take, read]) if ordered else ([give, write], [read, take])
            begin(f"a graph gives a {name} {ordered}")
            cann.aclmdlRIExecuteAsync(capture(s.first, *writes), s.first)
            take()
            read()
            begin(f"a graph takes a {name} {ordered}")
            graph = capture(s.second, *reads)
            write()
            give()
            cann.aclmdlRIExecuteAsync(graph, s.second)
        begin(f"a {name} that is given later")
        graph = capture(s.second, take, read)
        for _ in range(2):  # what the first wait takes is not what the second one waits for
            cann.aclmdlRIExecuteAsync(graph, s.second)
            write()
            give()
            cann.aclrtSynchronizeDevice()
    s, entered = Streams(cann), threading.Event()
    every.append(s)
    begin("a value that a fill has taken back")
    cann.aclrtValueWrite(flag, 7, 0, s.first)
    cann.aclrtSynchronizeStream(s.first)
    cann.aclrtMemset(flag, 8, 0, 8)
    cann.aclrtValueWait(flag, 7, 1, s.second)
    s.multiply(s.x, s.y, s.first)
    cann.aclrtValueWrite(flag, 7, 0, s.first)
    s.multiply(s.y, s.z, s.second)
    function = HOST_FUNCTION(lambda _: entered.set())
    call = functools.partial(cann.aclrtLaunchHostFunc, s.first, function, None)
    multiply = functools.partial(s.multiply, s.x, s.y, s.first)
    for ordered in (True, False):
        begin(f"a graph calls the host {ordered}")
        entered.clear()
        cann.aclmdlRIExecuteAsync(capture(s.first, *([multiply, call] if ordered else [call, multiply])), s.first)
        assert entered.wait(300)
        cann.read(s.y)
    graph = capture(s.first, multiply)
    for ordered in (True, False):
        begin(f"replays by two streams {ordered}")
        cann.aclmdlRIExecuteAsync(graph, s.first)
        if ordered:
            s.wait()
        cann.aclmdlRIExecuteAsync(graph, s.second)
    host = cann.create("aclrtMallocHost", 128)
    array = np.ctypeslib.as_array((ctypes.c_float * 32).from_address(host))
    array[:] = 1
    graph = capture(s.first, lambda: cann.aclrtMemcpyAsync(s.x.address, 128, host, 128, 1, s.first))
    for ordered in (True, False):
        begin(f"a source of a captured copy {ordered}")
        cann.aclmdlRIExecuteAsync(graph, s.first)
        if ordered:
            cann.aclrtSynchronizeStream(s.first)
        array[:] += 1
        cann.aclrtSynchronizeStream(s.first)
    group = ctypes.c_void_p()
    others = [cann.tensor(np.ones((4, 8), np.float32)) for _ in range(2)]
    graph = capture(
        s.first,
        lambda: cann.aclmdlRICaptureTaskGrpBegin(s.first),
        lambda: s.multiply(*others, s.first),
        lambda: cann.aclmdlRICaptureTaskGrpEnd(s.first, ctypes.byref(group)),
        multiply,
    )
    for ordered in (True, False):
        begin(f"beside a task group {ordered}")
        cann.aclmdlRIExecuteAsync(graph, s.first)
        if ordered:
            s.wait()
        s.multiply(s.y, s.z, s.second)
    begin("end")
    for model in models:
        cann.aclmdlRIDestroy(model)
    cann.aclrtFreeHost(host)
    cann.aclrtDestroyEvent(event)
    cann.aclrtDestroyNotify(notify)
    for s in every:
        s.close()


@pytest.mark.parametrize("release", [NEWEST, pytest.param("8.5.0", marks=pytest.mark.long)])
def test_what_graphs_order_with_other_streams(emulator_home: Path, release: str) -> None:
    done = run_body(
        body_graph_orders, emulator_home, ASCEND_EMULATOR_VALIDATE="sync,memory", ASCEND_EMULATOR_CANN=release
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, set[str]] = {}
    for line in done.stderr.splitlines():
        if line.startswith("==="):
            found[line[4:]] = set()
        elif re.match(r"EMULATOR_VALIDATE: \w+/", line) and "memory/leak" not in line and " times: " not in line:
            list(found.values())[-1].add(line.split(": ")[1])
    raw, waw = "sync/read-after-write", "sync/write-after-write"
    expected: dict[str, set[str]] = {"a value that a fill has taken back": set(), "end": set()}
    for name in ("notify", "value", "external event"):
        expected[f"a {name} that is given later"] = set()
        for does in ("gives", "takes"):
            expected |= {f"a graph {does} a {name} True": set(), f"a graph {does} a {name} False": {raw}}
    races = {
        "a graph calls the host": raw,
        "replays by two streams": waw,
        "a source of a captured copy": "memory/host-changed",
        "beside a task group": raw,
    }
    for name, rule in races.items():
        expected |= {f"{name} True": set(), f"{name} False": {rule}}
    assert found == expected, done.stderr


def body_aliases(cann: Cann) -> None:
    """Memory that has two addresses, with a race and without one; a line on standard error stands before each case."""

    def begin(name: str) -> None:
        cann.aclrtSynchronizeDevice()
        print("===", name, file=sys.stderr, flush=True)

    def race(first: int, second: int, name: str) -> None:
        """What one stream writes at one address another one reads at the other."""
        out, source = (cann.describe((4, 8), np.float32, address) for address in (first, second))
        for ordered in (True, False):
            begin(f"{name} {ordered}")
            s.multiply(s.x, out, s.first)
            if ordered:
                s.wait()
            s.multiply(source, s.y, s.second)
        cann.aclrtSynchronizeDevice()
        for tensor in (out, source):
            cann.aclDestroyTensor(tensor)

    s, page = Streams(cann), 2 << 20
    on_device = ctypes.byref(Property(0, 0, 4, Location(0, 1), 0))
    block = cann.create("aclrtMallocPhysical", page, on_device, 0)
    addresses = cann.create("aclrtReserveMemAddress", 3 * page, 0, None, 1)
    cann.aclrtMapMem(addresses, page, 0, block, 0)
    out = cann.describe((4, 8), np.float32, addresses + 256)
    begin("before it is mapped twice")
    s.multiply(s.x, out, s.first)
    cann.aclrtMapMem(addresses + 2 * page, page, 0, block, 0)
    source = cann.describe((4, 8), np.float32, addresses + 2 * page + 256)
    s.multiply(source, s.y, s.second)
    for tensor in (out, source):
        cann.aclDestroyTensor(tensor)
    race(addresses, addresses + 2 * page, "mapped twice")
    begin("mapped once again")
    cann.aclrtUnmapMem(addresses + 2 * page)
    other = cann.create("aclrtMallocPhysical", page, on_device, 0)
    cann.aclrtMapMem(addresses + 2 * page, page, 0, other, 0)
    tensors = [cann.describe((4, 8), np.float32, addresses + at) for at in (0, 2 * page)]
    s.multiply(s.x, tensors[0], s.first)
    s.multiply(tensors[1], s.y, s.second)
    cann.aclrtSynchronizeDevice()
    for tensor in tensors:
        cann.aclDestroyTensor(tensor)
    for at, physical in ((0, block), (2 * page, other)):
        cann.aclrtUnmapMem(addresses + at)
        cann.aclrtFreePhysical(physical)
    cann.aclrtReleaseMemAddress(addresses)

    pages = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    host = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    mapped = ctypes.c_void_p()
    cann.aclrtHostRegister(host, mmap.PAGESIZE, 0, ctypes.byref(mapped))
    assert mapped.value is not None and mapped.value != host
    out = cann.describe((4, 8), np.float32, mapped.value)
    for ordered in (True, False):
        begin(f"registered {ordered}")
        s.multiply(s.x, out, s.first)
        if ordered:
            s.wait()
        cann.aclrtMemcpyAsync(s.y.address, 128, host, 128, 1, s.second)
    begin("end")
    cann.aclDestroyTensor(out)
    cann.aclrtHostUnregister(host)
    s.close()


def test_memory_with_two_addresses_is_one(emulator_home: Path) -> None:
    done = run_body(body_aliases, emulator_home, ASCEND_EMULATOR_VALIDATE="sync,memory", ASCEND_EMULATOR_CANN=NEWEST)
    assert done.returncode == 0, done.stderr
    found: dict[str, set[tuple[str, ...]]] = {}
    for line in done.stderr.splitlines():
        match = MISSED.match(line)
        if line.startswith("==="):
            found[line[4:]] = set()
        elif match:
            found[list(found)[-1]].add((match[1], *match[2].split(), match[3], match[7], match[8], match[12]))
    race = {("sync/read-after-write", "aclnnMul", argument, "aclnnMul", "out", "128") for argument in ("self", "other")}
    assert found == {
        "before it is mapped twice": race,
        "mapped twice True": set(),
        "mapped twice False": race,
        "mapped once again": set(),
        "registered True": set(),
        "registered False": {("sync/read-after-write", "aclrtMemcpyAsync", "src", "aclnnMul", "out", "128")},
        "end": set(),
    }, done.stderr


def test_each_kind_of_order_with_and_without_a_race(emulator_home: Path) -> None:
    done = run_body(body_orders, emulator_home, ASCEND_EMULATOR_VALIDATE="sync,memory", ASCEND_EMULATOR_CANN=NEWEST)
    assert done.returncode == 0, done.stderr
    found: dict[str, set[str]] = {}
    for line in done.stderr.splitlines():
        if line.startswith("==="):
            found[line[4:]] = set()
        elif "sync/" in line and " times: " not in line:
            list(found.values())[-1].add(line.split(": ")[1])
    raw, war, waw = "sync/read-after-write", "sync/write-after-read", "sync/write-after-write"
    assert found == {
        "notify True": set(),
        "notify False": {raw},
        "value True": set(),
        "value False": {raw},
        "function True": set(),
        "function False": {raw},
        "graph True True": set(),
        "graph False True": {raw, war, waw},
        "graph True False": {war},
    }


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """What is found in two ranks that share memory, with and without an order (clients/validated_ranks.py)."""
    file = tmp_path_factory.mktemp("ranks") / "findings.json"
    options = ("--cann", NEWEST, "--validate", f"--validate-json={file}")
    client = Path(__file__).parent / "clients" / "validated_ranks.py"
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "helpers")])
    done = run(sys.executable, str(client), options=options, PYTHONPATH=path)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    findings = json.loads(file.read_text(encoding="utf-8"))["findings"]
    return done, [finding for finding in findings if finding["severity"] == "error"]


def test_ranks_that_share_memory(ranks: tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]) -> None:
    """Each race of the client is found, and nothing else."""
    found: dict[str, set[tuple[str, str, str, bool]]] = {}
    for finding in ranks[1]:
        sides = finding["later"], finding["earlier"]
        case = {name for side in sides for _, _, name in side["frames"]} - {"main", "<module>", "meet"}
        (name,) = case - {"call", "prepare", "multiply", "read", "write", "create", "hccl", "message", "join"}
        between = sides[0].get("process") != sides[1].get("process")
        arguments = ("self" if side["argument"] == "other" else side["argument"] for side in sides)
        found.setdefault(name, set()).add((finding["identifier"], *arguments, between))
        assert {side["operator"] for side in sides} == {"aclnnMul"}
    assert found == {
        "read_after_write": {("sync/read-after-write", "self", "out", True)},
        "write_after_read": {("sync/write-after-read", "out", "self", True)},
        "write_after_write": {("sync/write-after-write", "out", "out", True)},
        "collective_of_another_stream": {("sync/write-after-read", "out", "self", True)},
        "other_rank_sends_first": {("sync/write-after-write", "out", "out", False)},
    }


def test_findings_between_processes_name_them(
    ranks: tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]],
) -> None:
    side = r"aclnnMul \w+ \(launch \d+ of stream \d+ of process (\d+), [^()]+\)"
    line = rf"^EMULATOR_VALIDATE: sync/write-after-write: {side} is not ordered after {side}: 64 bytes at 0x\w+$"
    match = re.search(line, ranks[0].stderr, re.M)
    assert match and match[1] != match[2], ranks[0].stderr


PLUGIN_TEST = """
import numpy as np
import pytest
import ascend_aclnn as aclnn
from ascend_aclnn import ops

MEANT = pytest.mark.aclnn_findings

@pytest.mark.parametrize("ordered", [
    True, False, False, pytest.param(False, marks=MEANT()), pytest.param(False, marks=MEANT("sync/*")),
    pytest.param(False, marks=MEANT("memory/*")),
])
def test_streams(aclnn_backend, ordered):
    first, second = aclnn.Stream(), aclnn.Stream()
    x = aclnn.asarray(np.ones(8, np.float32))
    with first:
        y = ops.mul(x, x)
    if ordered:
        second.wait_stream(first)
    with second:
        z = ops.add(y, x, 1)
    aclnn.synchronize()
    for stream in (first, second):
        stream.close()
"""


def test_the_plugin_fails_tests_with_findings(emulator_home: Path, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PLUGIN_TEST, encoding="utf-8")
    # -rN: the summary repeats the findings where the environment has CI.
    command = [sys.executable, "-m", "pytest", "-q", "-rN", "-p", "no:cacheprovider", "--aclnn-backend=emulator"]
    done = subprocess.run(
        [*command, "--aclnn-validate=memory,sync", "test_it.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "3 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert "EMULATOR_VALIDATE" not in done.stdout + done.stderr  # the plugin tells
    assert "--aclnn-validate: 6 tests on the emulated device, 2 with findings on purpose, 3 with others" in done.stdout
    named = re.findall(r"^sync/read-after-write: (\S+ \S+) \(.* is not ordered after (\S+ \S+) \(", done.stdout, re.M)
    assert named == [("aclnnAdd self", "aclnnMul out")] * 3


@pytest.mark.parametrize("sample", ["moe_layer", pytest.param("rms_norm_grad", marks=pytest.mark.long)])
def test_samples_have_no_finding(emulator_home: Path, sample: str) -> None:
    done = run(sys.executable, f"samples/{sample}.py")
    assert done.returncode == 0, done.stderr
    assert ": 0 findings" in done.stderr


@pytest.mark.parametrize(
    "programs",
    [("streams",), pytest.param(("pinned", "graphs", "signals"), marks=pytest.mark.long)],
)
def test_deleted_waits_are_found(emulator_home: Path, programs: tuple[str, ...]) -> None:
    """A short version of scripts/race_table.py."""
    command = [sys.executable, "scripts/race_table.py", *(f"--program={name}" for name in programs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in programs:
        row = re.search(rf"^\| {name} \| (\d+) \| \d+ \| (\d+) \| 0 \| 0 \|$", done.stdout, re.M)
        assert row and int(row[1]) > int(row[2]) > 0, done.stdout


def test_the_first_finding_may_stop_the_program(emulator_home: Path) -> None:
    text = examples()["memory/unwritten-read"] + "print('went on')\n"
    for options, went_on in ((("--validate",), True), (("--validate", "--validate-stop"), False)):
        done = run(sys.executable, "-c", text, options=options)
        assert done.returncode == 1 and "memory/unwritten-read: aclnnMul self" in done.stderr, done.stderr
        assert ("went on" in done.stdout) == went_on


def test_one_kind_alone(emulator_home: Path) -> None:
    text = "\n".join(examples()[name] for name in ("memory/unwritten-read", "memory/overlap", "handle/double-destroy"))
    done = run(sys.executable, "-c", text, options=("--validate=sync",))
    assert done.returncode == 0 and ": 0 findings" in done.stderr, done.stderr


RECORDED = """
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops
y = aclnn.empty((4, 1024), np.float32)
ops.inplace_zero(y)  # the recorder reads y before it
first, second = aclnn.Stream(), aclnn.Stream()
x = aclnn.asarray(np.ones((4, 1024), np.float32))
with first:
    z = ops.mul(x, x)  # the recorder waits for it
with second:
    ops.add(z, x, 1)
first.synchronize()
second.synchronize()
"""


def test_what_a_recorder_reads_and_waits_for_is_no_part_of_the_program(emulator_home: Path, tmp_path: Path) -> None:
    recorder = ["-m", "ascend_aclnn", "layer", "run", "--record", str(tmp_path / "run.aclnn"), "--data", "all", "--"]
    done = run(sys.executable, *recorder, sys.executable, "-c", RECORDED)
    assert done.returncode == validation.FOUND, done.stderr
    found = re.findall(r"^EMULATOR_VALIDATE: (\w+/\S+): (\S+ \S+)", done.stderr, re.M)
    assert found == [("sync/read-after-write", "aclnnAdd self")], done.stderr


def test_the_status_of_the_program_is_passed_on(emulator_home: Path) -> None:
    assert run("sh", "-c", "exit 7").returncode == 7
    assert run("sh", "-c", "kill -KILL $$").returncode == -signal.SIGKILL


def test_signals_reach_the_program(emulator_home: Path) -> None:
    command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", "--validate", "--", "sh", "-c"]
    script = "trap 'echo ended; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    with subprocess.Popen([*command, script], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 5 and process.stdout.read() == "ended\n"


def test_an_unknown_kind_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["emulator", "run", "--validate=sink", "--", "true"])
    assert "sink is not a list of memory, sync and host" in capsys.readouterr().err
    assert validation.parse("sync,memory") == "memory,sync"
    assert cli.main(["layer", "run", "--validate=sync,host", "--", "true"]) != 0
    assert "the layer sees memory and sync only" in capsys.readouterr().err


@pytest.mark.clients
@needs_torch_npu
def test_without_its_cache_torch_npu_shows_what_each_tensor_lacks(emulator_home: Path) -> None:
    """Memory that torch_npu's allocator gives out again counts as written; without it each tensor is fresh memory."""
    program = """
import torch, torch_npu
written = torch.ones(256, device="npu") * 2
del written
fresh = torch.empty(256, device="npu")
print((fresh + 1).isfinite().all().item())
del fresh
torch.npu.synchronize()
"""
    for setting, status in (("0", 0), ("1", 1)):
        variables = {"PYTORCH_NO_NPU_MEMORY_CACHING": setting, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        done = run(sys.executable, "-c", program, **variables)
        assert done.stdout == "True\n", done.stderr
        assert done.returncode == status, done.stderr
        assert ("memory/unwritten-read: aclnnAdds self (launch" in done.stderr) == bool(status)


@pytest.mark.clients
@needs_torch_npu
def test_memory_that_torch_npus_cache_gives_out_too_early_is_found(emulator_home: Path) -> None:
    """A tensor that a side stream still reads is deleted: without record_stream the next one gets its memory at once."""
    program = """
import sys
import torch, torch_npu
side, main = torch.npu.Stream(), torch.npu.current_stream()
for recorded in (True, False):
    torch.npu.synchronize()
    print("===", recorded, file=sys.stderr, flush=True)
    x = torch.ones(1 << 18, device="npu")
    side.wait_stream(main)
    with torch.npu.stream(side):
        y = x * 2
    if recorded:
        x.record_stream(side)
    del x
    z = torch.zeros(1 << 18, device="npu")
torch.npu.synchronize()
"""
    done = run(sys.executable, "-c", program, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 1, done.stderr
    recorded, missing = (re.findall(r"sync/.*", part) for part in done.stderr.split("=== ")[1:])
    assert recorded == []
    (finding,) = (line for line in missing if " times: " not in line)
    sides = r"(\S+ \S+) \(launch \d+ of stream \d+, <string>:(\d+) in <module>\)"
    match = re.match(rf"sync/write-after-read: {sides} is not ordered after {sides}: 1048576 bytes", finding)
    assert match and match.groups() == ("aclnnInplaceZero selfRef", "15", "aclnnMuls self", "11"), finding


class Extent(ctypes.Structure):
    _fields_ = [("start", ctypes.c_uint64), ("end", ctypes.c_uint64)]


class Position(ctypes.Structure):
    _fields_ = [("leaf", ctypes.c_size_t), ("at", ctypes.c_size_t)]


class Extents(ctypes.Structure):
    _fields_ = [
        ("leaves", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("room", ctypes.c_size_t),
        ("searched", Position),
    ]


EXTENTS = """
#include "ascendcl/validate/extents.h"
emu_extent *at(emu_extents *extents, emu_position position) { return emu_extent_at(extents, position); }
emu_position next(emu_extents *extents, emu_position position) { return emu_extent_next(extents, position); }
"""


def test_extents_are_what_a_sorted_list_says(compiler: str, tmp_path: Path) -> None:
    source, folder = tmp_path / "extents.c", ROOT / "ascend_aclnn/emulator/csrc"
    source.write_text(EXTENTS, encoding="utf-8")
    command = [compiler, "-shared", "-fPIC", f"-I{folder}", source, folder / "ascendcl/validate/extents.c"]
    subprocess.run([*command, "-o", tmp_path / "extents.so"], check=True)
    library = ctypes.CDLL(str(tmp_path / "extents.so"))
    library.at.restype = ctypes.POINTER(Extent)
    for name in ("next", "emu_extents_after", "emu_extents_insert", "emu_extents_erase"):
        getattr(library, name).restype = Position
    extents, number = Extents(), ctypes.c_uint64
    rng = np.random.default_rng(0)
    alive: dict[int, Extent] = {}  # by the start; none is longer than 8, at multiples of 10

    def start_at(position: Position) -> Optional[int]:
        extent = library.at(ctypes.byref(extents), position)
        return extent.contents.start if extent else None

    def first_after(address: int) -> Optional[int]:
        return min((start for start, extent in alive.items() if extent.end > address), default=None)

    for step in range(6000):
        start = 10 * int(rng.integers(1500)) if step % 3 else 10 * (step // 3)
        position = library.emu_extents_after(ctypes.byref(extents), number(start))
        assert start_at(position) == first_after(start)
        if start not in alive:
            alive[start] = Extent(start, start + int(rng.integers(1, 9)))
            position = library.emu_extents_insert(ctypes.byref(extents), position, ctypes.byref(alive[start]))
            assert start_at(position) == start
        elif step >= 4000:
            count = int(rng.integers(0, 300)) if step % 50 == 0 else 1
            removed = [s for s in sorted(alive) if s >= start][:count]
            position = library.emu_extents_erase(ctypes.byref(extents), position, ctypes.c_size_t(len(removed)))
            for each in removed:
                del alive[each]
            assert start_at(position) == first_after(start)
    position, found = Position(0, 0), []
    while (at := start_at(position)) is not None:
        found.append(at)
        position = library.next(ctypes.byref(extents), position)
    assert found == sorted(alive) and len(found) > 100
