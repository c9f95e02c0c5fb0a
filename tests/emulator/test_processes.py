"""The device process and its client: either may end at any moment, and the other one then ends cleanly."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from emulator_client import Cann, client, environment

DEADLINE = 60


def lost(cann: Cann, name: str, *arguments: object) -> None:
    error = cann.failure(name, *arguments)
    assert (error.status, error.error) == (507899, "EMULATOR_DEVICE_LOST"), error


def matrices(cann: Cann) -> tuple[object, ...]:
    return cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))


def state(pid: int) -> str:
    """The letter of a process's state, "X" when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    return state(pid) not in ("Z", "X")


def wait_until(condition: object, what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.005)


# ------------------------------------------------------------------------------------------------- the device process ends


@client()
def test_a_lost_device_fails_calls_until_it_is_reset(cann: Cann) -> None:
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)
    executor, size = cann.prepare("aclnnMm", x, x, out, 0)
    os.kill(cann.device_pid(), signal.SIGKILL)
    workspace = cann.malloc(max(size, 1))
    cann.aclnnMm(workspace, size, executor, None)  # asynchronous, or refused
    lost(cann, "aclrtSynchronizeStream", None)
    cann.aclrtFree(workspace)
    new = cann.tensor(np.ones((2, 2), np.float32))  # a plan that is not known yet
    try:
        cann.prepare("aclnnMm", new, x, out, 1)
    except RuntimeError as error:
        assert "EMULATOR_DEVICE_LOST" in str(error)
        assert "has ended: it was killed" in str(error)
    else:
        raise AssertionError("phase one needs the device process")
    for tensor in (x, out, new):
        cann.drop(tensor)
    cann.aclrtResetDevice(0)
    cann.aclrtSetDevice(0)
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)
    assert cann.read(out).tolist() == [[1, 0], [0, 1]]


@client()
def test_a_waiting_thread_learns_that_the_device_is_lost(cann: Cann) -> None:
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)
    pid = cann.device_pid()
    os.kill(pid, signal.SIGSTOP)  # it does not answer any more
    wait_until(lambda: state(pid) == "T", "the device process does not stop")
    executor, size = cann.prepare("aclnnMm", x, x, out, 0)
    workspace = cann.malloc(max(size, 1))
    cann.aclnnMm(workspace, size, executor, None)
    assert cann.failure("aclrtSynchronizeStreamWithTimeout", None, 50).status == 507046
    killer = threading.Timer(0.5, os.kill, (pid, signal.SIGKILL))
    killer.start()
    lost(cann, "aclrtSynchronizeStream", None)
    status = ctypes.c_int32(9)
    cann.aclrtQueryDeviceStatus(0, ctypes.byref(status))
    assert status.value == 1  # abnormal
    cann.aclrtFree(workspace)


def test_a_device_process_that_cannot_start_is_explained(emulator_home: Path) -> None:
    code = f"from emulator_client import Cann; c = Cann(False); c.aclInit(None); print({FIRST_OPERATOR})"
    for python, text in (("/nonexistent/python", "cannot start /nonexistent/python"), ("/bin/false", "has ended")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment(emulator_home, ASCEND_EMULATOR_PYTHON=python),
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
        assert "507899" in done.stdout, done.stderr
        assert text in done.stdout


FIRST_OPERATOR = (
    "(c.aclrtSetDevice(0), setattr(c, 'x', c.describe((2, 2), 'float32', None)),"
    " c.failure('aclnnMmGetWorkspaceSize', c.x, c.x, c.x, 0, __import__('ctypes').create_string_buffer(8),"
    " __import__('ctypes').create_string_buffer(8)))"
)


# ------------------------------------------------------------------------------------------------------- the client ends

CLIENT = """
import sys, time
import numpy as np
from emulator_client import Cann
cann = Cann()
x, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))
cann.run("aclnnMm", x, x, out, 0)
print(cann.device_pid(), flush=True)
how = sys.argv[1]
if how == "launches":
    workspace = cann.malloc(1 << 20)
    while True:
        executor, size = cann.prepare("aclnnMm", x, x, out, 0)
        cann.aclnnMm(workspace, size, executor, None)
elif how == "sleeps":
    time.sleep(600)
elif how == "exits":
    sys.exit(0)
elif how == "aborts":
    import os
    os.abort()
"""


@contextlib.contextmanager
def running(home: Path, how: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A client that has run an operator, and its device process."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, how],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        yield process, int(line)
    finally:
        process.kill()
        process.communicate()


def shared_memory() -> set[str]:
    """Files of shared memory, but for the semaphores of Python's multiprocessing, which other programs come and go with."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith(("sem.mp-", "psm_", "torch_"))}


def test_a_killed_client_leaves_nothing(emulator_home: Path) -> None:
    shared = shared_memory()
    for how in ("launches", "sleeps"):
        with running(emulator_home, how) as (process, device):
            assert alive(device)
            time.sleep(0.05)
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE)
            wait_until(lambda pid=device: not alive(pid), f"the device process outlives a client that {how}")
    assert shared_memory() <= shared


def test_a_client_that_ends_takes_the_device_with_it(emulator_home: Path) -> None:
    for how in ("exits", "aborts"):
        with running(emulator_home, how) as (process, device):
            process.wait(DEADLINE)
            wait_until(lambda pid=device: not alive(pid), f"the device process outlives a client that {how}")


def test_the_device_process_does_not_hold_the_clients_files(emulator_home: Path) -> None:
    """A pipe of the client comes to its end with the client, and its standard output is its own."""
    with running(emulator_home, "sleeps") as (process, device):
        links = [os.readlink(f"/proc/{device}/fd/{fd}") for fd in os.listdir(f"/proc/{device}/fd")]
        mine = os.readlink(f"/proc/{process.pid}/fd/1")
        assert mine.startswith("pipe:")
        assert mine not in links
