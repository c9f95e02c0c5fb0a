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
from typing import NamedTuple

import numpy as np
import pytest
from emulator_client import D2D, D2H, H2D, NEWEST, Cann, CannError, Property, Tensor, client, environment
from emulator_client import Location as DeviceLocation
from process_tools import alive, kill, open_files, shared_files, state, wait_until

from ascend_aclnn.emulator.protocol import Ring

DEADLINE = 600  # seconds: a process that takes so long hangs


def lost(cann: Cann, name: str, *arguments: object) -> None:
    error = cann.failure(name, *arguments)
    assert (error.status, error.error) == (507899, "EMULATOR_DEVICE_LOST"), error


def matrices(cann: Cann) -> tuple[object, ...]:
    return cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))


# ------------------------------------------------------------------------------------------------- the device process ends


@client()
def test_a_lost_device_fails_calls_until_it_is_reset(cann: Cann) -> None:
    x, out = matrices(cann)
    new = cann.tensor(np.ones((2, 2), np.float32))
    cann.run("aclnnMm", x, x, out, 0)
    executor, size = cann.prepare("aclnnMm", x, x, out, 0)
    workspace = cann.malloc(max(size, 1))
    os.kill(cann.device_pid(), signal.SIGKILL)
    try:
        cann.aclnnMm(workspace, size, executor, None)  # the process may not have ended yet
    except CannError as error:
        assert error.status == 507899, error
    lost(cann, "aclrtSynchronizeStream", None)
    cann.aclrtFree(workspace)
    try:
        cann.prepare("aclnnMm", new, x, out, 1)  # a plan that is not known yet
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


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_waits_that_nothing_would_end_learn_that_the_device_is_lost(cann: Cann) -> None:
    """For a value that is never written, and a notify that is never recorded: their streams have no launch that would fail."""
    values, notify = cann.tensor(np.zeros(1, np.int64)), cann.create("aclrtCreateNotify", 0)
    streams = [cann.create("aclrtCreateStream") for _ in range(2)]
    cann.aclrtValueWait(values.address, 1, 0, streams[0])
    cann.aclrtWaitAndResetNotify(notify, streams[1], 0)
    kill(cann.device_pid())
    for stream in streams:
        lost(cann, "aclrtSynchronizeStream", stream)
        cann.aclrtDestroyStream(stream)
    cann.aclrtDestroyNotify(notify)


@client()
def test_whatever_comes_first_after_a_kill_says_that_the_device_is_lost(cann: Cann) -> None:
    """Calls that use the device's memory or wait for it; mapped memory is no exception. What is held can be let go."""
    place = Property(0, 0, 4, DeviceLocation(0, 1), 0)
    read = ctypes.create_string_buffer(16)

    def calls() -> Iterator[tuple[str, tuple[object, ...]]]:
        """Each with a device, and handles on it, that have just lost their process."""
        names = "aclrtMemset Mapped ToHost ToDevice Within Async FillAsync Stream Device Event Map Executor".split()  # noqa: SIM905
        for name in names:
            x, out = matrices(cann)
            cann.run("aclnnMm", x, x, out, 0)
            executor, size = cann.prepare("aclnnMm", x, x, out, 1)
            stream, event = cann.create("aclrtCreateStream"), cann.create("aclrtCreateEvent")
            workspace, pinned = cann.malloc(max(size, 1)), cann.create("aclrtMallocHost", 16)
            handle = cann.create("aclrtMallocPhysical", 2 << 20, ctypes.byref(place), 0)
            base = cann.create("aclrtReserveMemAddress", 4 << 20, 0, None, 0)
            cann.aclrtMapMem(base, 2 << 20, 0, handle, 0)
            cann.aclrtRecordEvent(event, stream)
            kill(cann.device_pid())
            yield {
                "aclrtMemset": ("aclrtMemset", (x.address, 16, 1, 16)),
                "Mapped": ("aclrtMemset", (base, 16, 1, 16)),
                "ToHost": ("aclrtMemcpy", (ctypes.addressof(read), 16, base, 16, D2H)),
                "ToDevice": ("aclrtMemcpy", (x.address, 16, ctypes.addressof(read), 16, H2D)),
                "Within": ("aclrtMemcpy", (x.address, 16, base, 16, D2D)),
                "Async": ("aclrtMemcpyAsync", (pinned, 16, x.address, 16, D2H, stream)),
                "FillAsync": ("aclrtMemsetAsync", (base, 16, 1, 16, stream)),
                "Stream": ("aclrtSynchronizeStream", (stream,)),
                "Device": ("aclrtSynchronizeDevice", ()),
                "Event": ("aclrtSynchronizeEvent", (event,)),
                "Map": ("aclrtMapMem", (base + (2 << 20), 2 << 20, 0, handle, 0)),
                "Executor": ("aclrtSetDevice", (0,)),
            }[name]
            cann.aclDestroyAclOpExecutor(executor)
            for tensor in (x, out):
                cann.drop(tensor)
            cann.aclrtFree(workspace)
            cann.aclrtFreeHost(pinned)
            cann.aclrtUnmapMem(base)
            cann.aclrtReleaseMemAddress(base)
            cann.aclrtFreePhysical(handle)
            cann.aclrtDestroyEvent(event)
            cann.aclrtDestroyStream(stream)
            assert cann.live() == 0, cann.dump()
            cann.aclrtResetDeviceForce(0)
            cann.aclrtSetDevice(0)

    for name, arguments in calls():
        lost(cann, name, *arguments)


@client()
def test_a_lost_device_makes_nothing_and_answers_no_query(cann: Cann) -> None:
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)
    stream, event = cann.create("aclrtCreateStream"), cann.create("aclrtCreateEventWithFlag", 1)
    context = cann.create("aclrtGetCurrentContext")
    cann.aclrtRecordEvent(event, stream)
    cann.aclrtSynchronizeStream(stream)
    kill(cann.device_pid())
    handle, status, size = ctypes.c_void_p(), ctypes.c_int32(9), (ctypes.c_size_t * 2)()
    place = Property(0, 0, 4, DeviceLocation(0, 1), 0)
    into = ctypes.byref(handle)
    lost(cann, "aclrtMalloc", into, 32, 0)
    lost(cann, "aclrtCreateStream", into)
    lost(cann, "aclrtCreateStreamWithConfig", into, 0, 1)
    lost(cann, "aclrtCreateEvent", into)
    lost(cann, "aclrtCreateEventExWithFlag", into, 1)
    lost(cann, "aclrtCreateContext", into, 0)
    lost(cann, "aclrtMallocPhysical", into, 2 << 20, ctypes.byref(place), 0)
    lost(cann, "aclrtStreamQuery", stream, ctypes.byref(status))
    lost(cann, "aclrtQueryEvent", event, ctypes.byref(status))
    lost(cann, "aclrtQueryEventStatus", event, ctypes.byref(status))
    lost(cann, "aclrtQueryEventWaitStatus", event, ctypes.byref(status))
    lost(cann, "aclrtGetMemInfo", 1, ctypes.byref(size, 0), ctypes.byref(size, 8))
    assert handle.value is None and status.value == 9 and list(size) == [0, 0]
    cann.aclrtSetCurrentContext(context)
    cann.aclrtDestroyEvent(event)
    cann.aclrtDestroyStream(stream)
    for tensor in (x, out):
        cann.drop(tensor)
    assert cann.live() == 0, cann.dump()


@client()
def test_a_device_that_has_lost_its_process_can_be_reset_before_that_is_noticed(cann: Cann) -> None:
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)
    pid = cann.device_pid()
    for tensor in (x, out):
        cann.drop(tensor)
    kill(pid)
    status = ctypes.c_int32(9)
    cann.aclrtQueryDeviceStatus(0, ctypes.byref(status))
    assert status.value == 1  # abnormal
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


# ------------------------------------------------------------------------------------------------ waiting for each other


def wake_everybody() -> int:
    """Wakes whoever sleeps on a word of a ring, with nothing to do; how many that were."""
    libc = ctypes.CDLL(None)
    number = {"x86_64": 202, "aarch64": 98}[os.uname().machine]  # of futex(2)
    rings = [line for line in Path("/proc/self/maps").read_text().splitlines() if "ascend-launches" in line]
    addresses = [int(line.partition("-")[0], 16) for line in rings]
    words = [address + offset for address in addresses for offset in range(0, Ring.HEAD, 4)]
    wake = 1
    return sum(libc.syscall(number, ctypes.c_void_p(word), wake, 1, None, None, 0) for word in words)


class Held(NamedTuple):
    """A device process that has stopped, and a product of matrices on the default stream that it has not begun."""

    pid: int
    out: Tensor
    workspace: int

    def finish(self, cann: Cann) -> None:
        """Checks the product, once the process has gone on and the stream has passed."""
        assert cann.read(self.out).tolist() == [[1, 0], [0, 1]]
        cann.aclrtFree(self.workspace)


def hold(cann: Cann) -> Held:
    """What is launched runs when the device process gets SIGCONT; it has been used before."""
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)
    cann.aclrtMemset(out.address, 16, 0, 16)
    pid = cann.device_pid()
    stop(pid)
    executor, size = cann.prepare("aclnnMm", x, x, out, 0)
    workspace = cann.malloc(max(size, 1))
    cann.aclnnMm(workspace, size, executor, None)
    return Held(pid, out, workspace)


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state(pid) == "T", "the device process does not stop")


def environment_of(pid: int) -> list[bytes]:
    """The variables of a process that may have been spawned a moment ago: /proc has none of them at first."""
    path = Path(f"/proc/{pid}/environ")
    wait_until(lambda: path.read_bytes() != b"", "the process has no environment")
    return path.read_bytes().split(b"\0")


@client(ASCEND_EMULATOR_DEVICES="2")
def test_threads_of_blas_sleep_soon_in_a_device_process_unless_the_client_says_when(cann: Cann) -> None:
    name = "OPENBLAS_THREAD_TIMEOUT"
    os.environ.pop(name, None)
    for device, value in ((0, "16"), (1, "20")):
        cann.aclrtSetDevice(device)
        cann.aclrtFree(cann.malloc(64))
        variables = environment_of(cann.device_pid(device))
        assert [v for v in variables if v.startswith(name.encode())] == [f"{name}={value}".encode()], variables
        os.environ[name] = "20"


@client()
def test_neither_signals_nor_spurious_wake_ups_end_a_wait(cann: Cann) -> None:
    """Of a client for a device process that is slow, and of an idle device process."""
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)
    wait_until(wake_everybody, "the device process does not sleep")
    held, ran = hold(cann), []

    def disturb() -> None:
        wait_until(wake_everybody, "the client does not sleep")
        main = threading.main_thread().ident
        assert main is not None
        for _ in range(20):
            time.sleep(0.001)
            wake_everybody()
            signal.pthread_kill(main, signal.SIGUSR1)
        os.kill(held.pid, signal.SIGCONT)

    signal.signal(signal.SIGUSR1, lambda *_: ran.append("handler"))
    signal.siginterrupt(signal.SIGUSR1, True)
    thread = threading.Thread(target=disturb)
    thread.start()
    cann.aclrtSynchronizeStream(None)
    thread.join()
    assert ran
    held.finish(cann)


@client()
def test_every_waiting_thread_learns_that_the_device_is_lost(cann: Cann) -> None:
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)
    context, pid = cann.create("aclrtGetCurrentContext"), cann.device_pid()
    streams = [cann.create("aclrtCreateStream") for _ in range(3)]
    stop(pid)
    workspace, statuses = cann.malloc(1 << 20), []
    for stream in streams:
        executor, size = cann.prepare("aclnnMm", x, x, out, 0)
        cann.aclnnMm(workspace, size, executor, stream)

    def wait(stream: int) -> None:
        cann.aclrtSetCurrentContext(context)
        statuses.append(cann.failure("aclrtSynchronizeStream", stream).status)

    threads = [threading.Thread(target=wait, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    wait_until(lambda: wake_everybody() >= len(streams), "the threads do not sleep")
    os.kill(pid, signal.SIGKILL)
    for thread in threads:
        thread.join()
    assert statuses == [507899] * 3
    for stream in streams:
        cann.aclrtDestroyStream(stream)
    cann.aclrtFree(workspace)


@client()
def test_answers_of_more_launches_than_a_socket_holds_are_taken(cann: Cann) -> None:
    """The device process must not be kept from its work by answers that a client leaves while it waits for the last launch."""
    weight, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((1, 2), np.float32))
    wrong, right = (cann.tensor(np.array([row], np.int64)) for row in (9, 1))
    workspace = cann.malloc(1 << 20)
    for rows in (right, wrong):  # both plans are known from here on
        executor, size = cann.prepare("aclnnEmbedding", weight, rows, out)
        cann.aclnnEmbedding(workspace, size, executor, None)
    assert cann.failure("aclrtSynchronizeStream", None).status == 161002
    pid = cann.device_pid()
    stop(pid)
    for rows in (*[wrong] * 2000, right):
        executor, size = cann.prepare("aclnnEmbedding", weight, rows, out)
        cann.aclnnEmbedding(workspace, size, executor, None)
    threading.Timer(0.2, os.kill, (pid, signal.SIGCONT)).start()
    assert cann.failure("aclrtSynchronizeStream", None).status == 161002
    assert cann.read(out).tolist() == [[0, 1]]
    cann.aclrtFree(workspace)


@client()
def test_a_process_that_has_forked_goes_on_waiting(cann: Cann) -> None:
    held, context = hold(cann), cann.create("aclrtGetCurrentContext")

    def wait() -> None:
        cann.aclrtSetCurrentContext(context)
        cann.aclrtSynchronizeStream(None)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(wake_everybody, "the thread does not sleep")
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    os.kill(held.pid, signal.SIGCONT)
    thread.join()
    held.finish(cann)


def switches(pid: int) -> list[str]:
    """How often each thread of a process has stopped running."""
    tasks = sorted(Path(f"/proc/{pid}/task").iterdir())
    return [line for task in tasks for line in (task / "status").read_text().splitlines() if "ctxt_switches" in line]


@client()
def test_an_idle_device_process_does_nothing(cann: Cann) -> None:
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)

    def idles() -> bool:
        before = switches(cann.device_pid())
        time.sleep(0.2)
        return switches(cann.device_pid()) == before

    wait_until(idles, "the device process does something")
    cann.run("aclnnMm", x, x, out, 0)
    assert cann.read(out).tolist() == [[1, 0], [0, 1]]


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


def test_a_killed_client_leaves_nothing(emulator_home: Path) -> None:
    for how in ("launches", "sleeps"):
        with running(emulator_home, how) as (process, device):
            assert alive(device)
            shared = shared_files(process.pid) | shared_files(device)
            time.sleep(0.05)  # in most runs it launches by then
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE)
            wait_until(lambda pid=device: not alive(pid), f"the device process outlives a client that {how}")
            assert not [path for path in shared if path.exists()]


def test_a_client_that_ends_takes_the_device_with_it(emulator_home: Path) -> None:
    for how in ("exits", "aborts"):
        with running(emulator_home, how) as (process, device):
            process.wait(DEADLINE)
            wait_until(lambda pid=device: not alive(pid), f"the device process outlives a client that {how}")


def test_the_device_process_does_not_hold_the_clients_files(emulator_home: Path) -> None:
    """A pipe of the client comes to its end with the client, and its standard output is its own."""
    with running(emulator_home, "sleeps") as (process, device):
        links = open_files(device)
        mine = os.readlink(f"/proc/{process.pid}/fd/1")
        assert mine.startswith("pipe:")
        assert mine not in links


# -------------------------------------------------------------------------------------------- processes that share a device

CROWD = """
import ctypes, os, signal
cann = ctypes.CDLL("libascendcl.so")
cann.aclGetRecentErrMsg.restype = ctypes.c_char_p

def start(*devices, reset=False):
    answers, told = os.pipe()
    child = os.fork()
    if child:
        os.close(told)
        with os.fdopen(answers) as pipe:
            return child, pipe.readline().strip()
    assert cann.aclInit(None) == 0
    status = next(filter(None, (cann.aclrtSetDevice(device) for device in devices)), 0)
    text = (cann.aclGetRecentErrMsg() or b"").decode().partition(":")[0]
    if reset:
        assert [cann.aclrtResetDevice(device) for device in devices] == [0] * len(devices)
    os.write(told, f"{status} {text}\\n".encode())
    os.close(told)
    signal.pause()

def end(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)

children = []
try:
    for number in range(PROCESSES):
        child, answer = start(0)
        children.append(child)
        assert answer == "0", (number, answer)
    def once(*devices, reset=False):
        child, answer = start(*devices, reset=reset)
        end(child)
        return answer
    print(once(0))
    print(once(1))
    os.environ["ASCEND_EMULATOR_HOST"] = os.environ["ASCEND_EMULATOR_HOST"] + "-2"
    print(once(0))
    os.environ["ASCEND_EMULATOR_HOST"] = os.environ["ASCEND_EMULATOR_HOST"][:-2]
    end(children.pop())
    child, answer = start(0, reset=True)
    children.append(child)
    print(answer)
    child, answer = start(0)
    children.append(child)
    print(answer)
    print(once(0))
finally:
    for child in children:
        end(child)
"""


@pytest.mark.parametrize(("soc", "processes"), [("Ascend910B1", 63), ("Ascend310P3", 64)])
def test_a_device_takes_so_many_processes_and_no_more(emulator_home: Path, soc: str, processes: int) -> None:
    """Those of another emulated host do not count; one that was killed, or has reset the device, leaves its place."""
    variables = environment(emulator_home, ASCEND_ACLNN_SOC=soc, ASCEND_EMULATOR_HOST=f"crowd-{os.getpid()}-{soc}")
    program = CROWD.replace("PROCESSES", str(processes))
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["507033 E30003", "0", "0", "0", "0", "507033 E30003"]
