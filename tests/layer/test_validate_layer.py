"""``layer run --validate``: what recordings show of order, sizes, lives and handles."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from recordings import HEADER, description

from ascend_aclnn.cli.emulator import environment
from ascend_aclnn.layer.validate import Validator
from ascend_aclnn.recording import Call, Frame, Prototype, Recording, TensorValue, Value, Writer

MUL = Prototype("aclnnMul", ("self", "other", "out"), ("in", "in", "out"))
SHAPE = description((4,))  # 16 bytes
ONE, TWO = 0x100, 0x200  # streams
X, Y, Z = 0x1000, 0x2000, 0x3000


class Program:
    """Writes a recording of what a program might do."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer = Writer(path, HEADER)
        self.time = 0

    def call(self, name: str, result: int = 0, **arguments: int) -> None:
        self.time += 1
        self.writer.call(Call(name, dict(arguments), result, 0, 1, (self.time, self.time), {}, ""))

    def mul(self, source: int, out: int, stream: int, **more: object) -> None:
        values = tuple(Value("tensor", TensorValue(SHAPE, address)) for address in (source, source, out))
        self.writer.launch(MUL, values, stream=stream, site=(Frame("net.py", out, "forward"),), **more)

    def start(self) -> None:
        for address in (X, Y, Z):
            self.call("aclrtMalloc", devPtr=address, size=16)
        for stream in (ONE, TWO):
            self.call("aclrtCreateStream", stream=stream)
        self.call("aclrtCreateEvent", event=7)

    def end(self) -> None:
        self.call("aclrtSynchronizeDevice")
        for address in (X, Y, Z):
            self.call("aclrtFree", devPtr=address)
        for stream in (ONE, TWO):
            self.call("aclrtDestroyStream", stream=stream)
        self.call("aclrtDestroyEvent", event=7)

    def found(self, kinds: str = "memory,sync") -> list[str]:
        self.writer.close()
        with Recording(self.path) as recording:
            return [f"{f.identifier}: {f.text}" for f in Validator(kinds).run(recording)]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    made = Program(tmp_path / "a.aclnn")
    made.start()
    return made


ORDERS = {
    "event": [("aclrtRecordEvent", {"event": 7, "stream": ONE}), ("aclrtStreamWaitEvent", {"event": 7, "stream": TWO})],
    "host": [("aclrtSynchronizeStream", {"stream": ONE})],
    "query": [("aclrtRecordEvent", {"event": 7, "stream": ONE}), ("aclrtQueryEventStatus", {"event": 7, "status": 1})],
    "device": [("aclrtSynchronizeDevice", {})],
}


@pytest.mark.parametrize("order", ORDERS)
def test_each_order_and_none(program: Program, tmp_path: Path, order: str) -> None:
    other = Program(tmp_path / "b.aclnn")
    other.start()
    for one, ordered in ((program, True), (other, False)):
        one.mul(X, Y, ONE)
        for name, arguments in ORDERS[order] if ordered else ():
            one.call(name, **arguments)
        one.mul(Y, Z, TWO)
        one.end()
    assert program.found() == []
    first, second = other.found()
    assert first.startswith(
        "sync/read-after-write: aclnnMul self (launch 1 on stream 0x200, net.py:12288 in forward) is not "
    )
    assert "ordered after aclnnMul out (launch 0 on stream 0x100, net.py:8192 in forward): 16 bytes at 0x2000" in first
    assert second.startswith("sync/read-after-write: aclnnMul other")


def test_writes_copies_and_graphs(program: Program) -> None:
    program.mul(X, Y, ONE)
    program.mul(Z, X, TWO)  # writes what is read
    program.mul(X, Y, TWO)  # and what is written
    program.call("aclrtMemcpy", dst=1, destMax=16, src=Y, count=16, kind=2)
    program.call("aclmdlRICaptureBegin", stream=ONE, mode=0)
    program.mul(Y, Z, ONE)  # runs with the graph
    program.call("aclmdlRICaptureEnd", stream=ONE, modelRI=9)
    program.call("aclmdlRIExecuteAsync", stream=ONE, modelRI=9)
    program.mul(Y, Z, ONE)  # what the replay waits for is not known
    program.end()
    assert [line.partition(" (")[0] for line in program.found()] == [
        "sync/write-after-read: aclnnMul out",
        "sync/write-after-write: aclnnMul out",
        "sync/read-after-write: aclrtMemcpy src",
    ]


def test_collectives_of_a_communicator(program: Program) -> None:
    def reduce(address: int, stream: int, comm: int = 5) -> None:
        buffers = {"sendBuf": address, "recvBuf": address, "count": 4, "dataType": 4, "op": 0}
        program.call("HcclAllReduce", comm=comm, stream=stream, **buffers)

    reduce(X, ONE)
    reduce(X, ONE)
    reduce(Y, TWO, comm=6)
    reduce(Y, TWO)  # nothing orders it after the one before
    program.call("aclrtSynchronizeStream", stream=TWO)
    reduce(Z, ONE)
    program.end()
    (found,) = program.found("sync")
    assert found == (
        "sync/communicator: HcclAllReduce (call at 10 ns) is not ordered after HcclAllReduce (call at 8 ns), "
        "of the same communicator"
    )


def test_memory_and_handles(program: Program) -> None:
    program.call("aclrtMalloc", devPtr=0x5000, size=8)
    program.mul(0x5000, X, ONE, workspace=(64, Z))
    program.call("aclrtFree", devPtr=0x5000)
    program.call("aclrtFree", devPtr=0x5000, result=107000)
    program.call("aclrtMemset", devPtr=0x5000, maxCount=8, value=0, count=8)
    program.call("aclrtDestroyStream", stream=TWO)
    program.mul(X, Y, TWO)
    program.call("aclrtDestroyStream", stream=TWO, result=107017)
    program.call("aclrtSynchronizeDevice")
    assert list(dict.fromkeys(line.split(" ")[0][:-1] for line in program.found("memory"))) == [
        "memory/out-of-bounds",
        "memory/workspace-too-small",
        "memory/free-in-use",
        "memory/double-free",
        "memory/use-after-free",
        "handle/use-after-destroy",
        "handle/double-destroy",
        "memory/leak",
    ]


def test_what_a_refused_call_shows(program: Program) -> None:
    """A CANN that refuses a call does so for what is wrong, and nothing else comes of the call."""
    program.mul(X, Y, ONE)
    program.call("aclrtFree", devPtr=Y, result=107000)  # in use
    program.call("aclrtMemset", devPtr=X, maxCount=32, value=0, count=32, result=107000)
    program.call("aclrtSynchronizeDevice")
    program.mul(Y, Z, TWO, workspace=(64, X), statuses=(0, 561000))  # too small, and never run
    program.mul(Y, Z, TWO, statuses=(161002, None))
    program.call("aclrtFree", devPtr=Z)
    program.call("aclrtMemset", devPtr=Z, maxCount=16, value=0, count=16, result=107000)
    program.call("aclrtDestroyStream", stream=TWO)
    program.call("aclrtSynchronizeStream", stream=TWO, result=107017)
    program.call("aclrtMalloc", devPtr=Z, size=16)
    program.call("aclrtCreateStream", stream=TWO)
    program.end()
    assert [line.partition(" (")[0] for line in program.found()] == [
        "memory/free-in-use: aclrtFree",
        "memory/out-of-bounds: aclrtMemset devPtr",
        "memory/workspace-too-small: aclnnMul workspace",
        "memory/use-after-free: aclrtMemset devPtr",
        "handle/use-after-destroy: aclrtSynchronizeStream",
    ]


def test_memory_of_the_host_is_used_again(program: Program) -> None:
    """What was pinned and is freed may be given out by malloc, which is not recorded."""
    program.call("aclrtMallocHost", hostPtr=0x9000, size=16)
    program.call("aclrtFreeHost", hostPtr=0x9000)
    program.call("aclrtMemcpy", dst=X, destMax=16, src=0x9000, count=16, kind=1)
    program.call("aclrtFreeHost", hostPtr=0x9000, result=107000)
    program.end()
    assert [line.partition(" ")[0] for line in program.found()] == ["memory/double-free:"]


# Of docs/emulator/validate.md, what a recording shows.
SEEN = (
    "sync/read-after-write",
    "sync/write-after-read",
    "sync/write-after-write",
    "sync/communicator",
    "memory/use-after-free",
    "memory/double-free",
    "memory/free-in-use",
    "memory/out-of-bounds",
    "memory/workspace-too-small",
    "handle/use-after-destroy",
    "handle/double-destroy",
    "memory/leak",
)

RACE = """
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops

x = aclnn.asarray(np.ones(1024, np.float32))
first, second = aclnn.Stream(), aclnn.Stream()
with first:
    y = ops.mul(x, x)
second.wait_event(first.record_event())
with second:
    z = ops.add(y, x, 1)
    ops.mul(x, x, out=y)
with first:
    ops.add(y, x, 1)
aclnn.synchronize()
"""


def test_programs_under_the_layer(emulator_home: Path, tmp_path: Path) -> None:
    file = tmp_path / "findings.json"

    def run(text: str) -> subprocess.CompletedProcess[str]:
        options = ["--validate", f"--validate-json={file}", f"--validate-suppress={tmp_path}/suppressions"]
        command = [sys.executable, "-m", "ascend_aclnn", "layer", "run", *options, "--", sys.executable, "-c", text]
        variables = environment(emulator_home)
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)

    (tmp_path / "suppressions").write_text("sync/communicator  HcclAllReduce\n", encoding="utf-8")
    page = (Path(__file__).parents[2] / "docs/emulator/validate.md").read_text(encoding="utf-8")
    examples = dict(re.findall(r"^### (\S+)$.*?```python\n(.*?)```", page, re.M | re.S))
    done = run("\n".join([RACE, *(examples[name] for name in SEEN)]))
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "sync/read-after-write: aclnnAdd self (launch 3 on stream" in done.stderr
    assert "<string>:15 in <module>) is not ordered after aclnnMul out (launch 2 on stream" in done.stderr
    calls = r"memory/double-free: aclrtFree \(call at \d+ ns, <string>:\d+ in <module>\)"
    assert re.search(calls, done.stderr), done.stderr
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["status"] == 0
    assert {finding["identifier"] for finding in report["findings"]} == {*SEEN} - {"sync/communicator"}
    done = run(RACE.replace("with first:\n    ops.add", "first.wait_stream(second)\nwith first:\n    ops.add"))
    assert done.returncode == 0 and ": 0 findings" in done.stderr, done.stderr
