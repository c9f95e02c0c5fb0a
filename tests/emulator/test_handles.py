"""Handles that threads share: an object in use outlives its handle, and the next use of the handle is refused by name."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

import numpy as np
import pytest
from emulator_client import D2H, H2D, Cann, CannError, client
from process_tools import wait_until
from stress_handles import compile_stress

USED = "EMULATOR_USE_AFTER_DESTROY"
DELAY = (
    "200"  # milliseconds: how long phase two of another thread than the first one has its executor before it reads it
)


@pytest.mark.usefixtures("compiler")
def test_threads_share_destroy_and_lose_everything(tmp_path: Path) -> None:
    """Statuses that are not documented, hangs and crashes end the program."""
    done = compile_stress(tmp_path).run(2.5, seed=24, kill_every=900, reset_every=400)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    assert done.stdout.startswith("done ")


@pytest.mark.usefixtures("compiler")
@pytest.mark.long
@pytest.mark.parametrize("sanitize", [("thread",), ("address", "undefined")], ids=",".join)
def test_shared_handles_hold_under_sanitizers(sanitize: tuple[str, ...], tmp_path: Path) -> None:
    done = compile_stress(tmp_path, sanitize).run(4, seed=24, kill_every=1500, reset_every=700)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("ThreadSanitizer does not know this kernel's layout of addresses")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"


class Launch(threading.Thread):
    """Phase two on a thread of its own, which has the executor and waits before it reads it."""

    def __init__(self, cann: Cann, executor: int) -> None:
        super().__init__()
        self.cann, self.executor, self.error = cann, executor, ""
        self.calls = cann.calls()  # before it begins

    def run(self) -> None:
        self.cann.aclrtSetDevice(0)
        try:
            self.cann.aclnnAdd(None, 0, self.executor, None)
        except CannError as error:
            self.error = error.error
        self.cann.aclrtResetDevice(0)


def prepare(cann: Cann, repeatable: bool) -> tuple[int, list[object]]:
    """An executor that adds two tensors, and the tensors."""
    one = ctypes.c_float(1)
    scalar = cann.aclCreateScalar(ctypes.byref(one), 0)
    x, out = cann.tensor(np.arange(4, dtype=np.float32)), cann.tensor(np.zeros(4, np.float32))
    executor, size = cann.prepare("aclnnAdd", x, x, scalar, out)
    assert size == 0
    if repeatable:
        cann.aclSetAclOpExecutorRepeatable(executor)
    return executor, [x, out, scalar]


def start(cann: Cann, launch: Launch) -> None:
    """Starts it and waits until it has the executor."""
    launch.start()
    wait_until(lambda: cann.calls() == launch.calls + 2, "the thread has not called aclrtSetDevice and aclnnAdd")
    threading.Event().wait(0.05)


@client(ASCEND_EMULATOR_LAUNCH_DELAY=DELAY)
def test_an_executor_that_is_destroyed_while_it_runs_finishes_its_run(cann: Cann) -> None:
    executor, (_, out, scalar) = prepare(cann, repeatable=True)
    launch = Launch(cann, executor)
    start(cann, launch)
    cann.aclDestroyAclOpExecutor(executor)
    # Memory that has been freed is another object's by now.
    scalars = [cann.aclCreateScalar(ctypes.byref(ctypes.c_float(2)), 0) for _ in range(2000)]
    launch.join()
    assert launch.error == ""
    cann.aclrtSynchronizeDevice()
    assert cann.read(out).tolist() == [0, 2, 4, 6]  # type: ignore[arg-type]
    assert cann.failure("aclnnAdd", None, 0, executor, None).error == USED
    for each in (*scalars, scalar):
        cann.aclDestroyScalar(each)


@client(ASCEND_EMULATOR_LAUNCH_DELAY=DELAY)
def test_only_one_thread_runs_an_executor_that_runs_once(cann: Cann) -> None:
    executor, (_, out, scalar) = prepare(cann, repeatable=False)
    launch = Launch(cann, executor)
    start(cann, launch)
    assert cann.failure("aclnnAdd", None, 0, executor, None).error == USED
    launch.join()
    assert launch.error == ""
    cann.aclrtSynchronizeDevice()
    assert cann.read(out).tolist() == [0, 2, 4, 6]  # type: ignore[arg-type]
    cann.aclDestroyScalar(scalar)


@client(ASCEND_EMULATOR_FILL="0")
def test_a_device_address_of_before_the_end_is_not_taken_for_the_hosts(cann: Cann) -> None:
    """Device memory stays mapped: what another thread uses while the device ends is an error, and no crash."""
    address = cann.malloc(64)
    values = np.ones(16, np.float32)
    cann.aclrtMemcpy(address, 64, values.ctypes.data, 64, H2D)
    cann.aclrtFree(address)
    cann.aclrtResetDevice(0)
    cann.aclFinalize()
    cann.aclInit(None)
    cann.aclrtSetDevice(0)
    error = cann.failure("aclrtMemcpy", values.ctypes.data, 64, address, 64, D2H)
    assert (error.status, error.error) == (107000, "EMULATOR_INVALID_ADDRESS")
    assert (values == 1).all()
    new = cann.malloc(64)
    cann.aclrtMemcpy(values.ctypes.data, 64, new, 64, D2H)
    assert (values == 0).all()
    cann.aclrtFree(new)


@client()
def test_a_context_ends_under_the_threads_that_have_it(cann: Cann) -> None:
    context = cann.create("aclrtCreateContext", 0)
    stream, event = cann.create("aclrtCreateStream"), cann.create("aclrtCreateEvent")
    seen: list[int] = []
    go, done = threading.Event(), threading.Event()

    def use() -> None:
        cann.aclrtSetCurrentContext(context)
        go.set()
        done.wait()
        seen.extend(cann.failure(name, *arguments).status for name, arguments in uses)

    uses = [("aclrtSynchronizeStream", (None,)), ("aclrtRecordEvent", (event, stream)), ("aclrtCreateStream", (None,))]
    uses[2] = ("aclrtCreateStream", (ctypes.byref(ctypes.c_void_p()),))
    thread = threading.Thread(target=use)
    thread.start()
    go.wait()
    cann.aclrtSetDevice(0)
    cann.aclrtDestroyContext(context)
    done.set()
    thread.join()
    assert seen == [107002] * 3
    assert cann.failure("aclrtSynchronizeStream", stream).error == USED
    cann.aclrtDestroyEvent(event)
    cann.aclrtResetDevice(0)
