"""``emulator run --validate``: accesses without an order, reads of unwritten memory, and silence about right programs."""

from __future__ import annotations

import ctypes
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from emulator_client import H2D, NEWEST, Cann, Tensor, run_body

from ascend_aclnn import cli
from ascend_aclnn.emulator import validation

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "emulator" / "validate.md"
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_ACCESS = r"(\S+) (\S+) \((\w+) (\d+) of (.+)\)"
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
    launch = ("aclnnMul", "out", "launch")
    assert pairs == [
        (
            "sync/read-after-write",
            "aclnnMul",
            "self",
            "launch",
            "1",
            f"stream {second}",
            *launch,
            "1",
            f"stream {first}",
            "128",
        ),
        (
            "sync/read-after-write",
            "aclnnMul",
            "other",
            "launch",
            "1",
            f"stream {second}",
            *launch,
            "1",
            f"stream {first}",
            "128",
        ),
        (
            "sync/write-after-read",
            "aclnnMul",
            "out",
            "launch",
            "2",
            f"stream {second}",
            "aclnnMul",
            "other",
            "launch",
            "1",
            f"stream {first}",
            "128",
        ),
        (
            "sync/write-after-write",
            "aclnnMul",
            "out",
            "launch",
            "3",
            f"stream {second}",
            *launch,
            "1",
            f"stream {first}",
            "128",
        ),
        (
            "sync/write-after-write",
            "aclrtMemsetAsync",
            "devPtr",
            "fill",
            "2",
            f"stream {first}",
            *launch,
            "1",
            f"stream {second}",
            "64",
        ),
    ]
    assert found[len(pairs)].endswith(": 5 findings, seen 5 times")


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
    for view in (*views, *other):
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
        r"EMULATOR_VALIDATE: memory/unwritten-read: aclnnMul self \(launch 1 of stream \d+\) reads device memory that was never "
        r"written: 64 bytes",
        found[0],
    )


def examples() -> dict[str, str]:
    """The page's examples, by the finding that they cause."""
    found = re.findall(r"^### (\S+)$.*?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return dict(found)


def run(*program: str, options: tuple[str, ...] = ("--validate",)) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", *options, "--", *program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_the_page_has_every_finding() -> None:
    source = (ROOT / "ascend_aclnn/emulator/csrc/ascendcl/validate/validate.c").read_text(encoding="utf-8")
    assert set(re.findall(r'"((?:sync|memory)/[\w-]+)"', source)) == set(examples())


@pytest.mark.parametrize(
    "finding", ["sync/read-after-write", "sync/write-after-read", "sync/write-after-write", "memory/unwritten-read"]
)
def test_examples_of_the_page(emulator_home: Path, finding: str) -> None:
    done = run(sys.executable, "-c", examples()[finding])
    assert done.returncode == 1, done.stderr
    rules = {
        line.split(": ")[1] for line in done.stderr.splitlines() if line.startswith("EMULATOR_VALIDATE") and "/" in line
    }
    assert rules == {finding}


def test_examples_are_right_with_an_order(emulator_home: Path) -> None:
    """The remedy that the page names."""
    fixed = [
        text.replace("with second:", "second.wait_event(first.record_event())\nwith second:").replace(
            "empty(", "zeros("
        )
        for text in examples().values()
    ]
    done = run(sys.executable, "-c", "\n".join(fixed))
    assert done.returncode == 0, done.stderr
    assert ": 0 findings" in done.stderr


@pytest.mark.parametrize("sample", ["moe_layer", "rms_norm_grad"])
def test_samples_have_no_finding(emulator_home: Path, sample: str) -> None:
    done = run(sys.executable, f"samples/{sample}.py")
    assert done.returncode == 0, done.stderr
    assert ": 0 findings" in done.stderr


def test_one_kind_alone(emulator_home: Path) -> None:
    done = run(sys.executable, "-c", examples()["memory/unwritten-read"], options=("--validate=sync",))
    assert done.returncode == 0, done.stderr


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
    assert "sink is not a list of memory and sync" in capsys.readouterr().err
    assert validation.parse("sync,memory") == "memory,sync"
