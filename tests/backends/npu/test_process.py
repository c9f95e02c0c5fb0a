"""The device path over the life of a process: its end in the right order, forks, threads that outlive main.

Each case is a small program on the emulated device, which exits with status 86 if a handle or memory was left.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ascend_aclnn.cli.emulator import environment

HEAD = """
import numpy as np, os, sys, threading, warnings
import ascend_aclnn as aclnn
from ascend_aclnn import ops
warnings.simplefilter("error")
x = np.arange(6, dtype=np.float32).reshape(2, 3)
y = np.ascontiguousarray(x.T)
def product(a=x, b=y):
    return ops.mm(aclnn.asarray(a), aclnn.asarray(b))
"""


def run(home: Path, program: str, status: int = 0, **options: str) -> str:
    """What a program prints; its exit status must be as said and its standard error empty unless it fails."""
    variables = environment(home, ASCEND_EMULATOR_STRICT="1", **options)
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program], env=variables, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == status, done.stderr
    if status == 0:
        assert done.stderr == ""
    return done.stdout + done.stderr


@pytest.mark.aclnn_findings("sync/*")  # whether its two streams are in order does not matter
@pytest.mark.parametrize("streams", ["background", "deferred", "eager"])
def test_what_is_left_in_globals_is_given_back_at_exit(emulator_home: Path, streams: str) -> None:
    program = """
kept = product()
stream, event = aclnn.Stream(), aclnn.Event()
with stream:
    more = product()
    event.record()
executor = aclnn.Executor("aclnnMm", aclnn.asarray(x), aclnn.asarray(y), kept, 0, repeatable=True)
executor.run(stream)
unused = aclnn.Executor("aclnnMm", aclnn.asarray(x), aclnn.asarray(y), kept, 0)
with aclnn.Device(1):
    elsewhere = product()
borrowed = aclnn.Tensor.from_pointer(kept.storage.address, (2, 2), np.float32, owner=kept)
ops.mm(borrowed, borrowed)
cycle = [product()]
cycle.append(cycle)
print(more.numpy()[1, 1], elsewhere.numpy()[0, 1])
"""
    assert run(emulator_home, program, ASCEND_EMULATOR_STREAMS=streams).split() == ["50.0", "14.0"]


def test_an_import_and_a_backend_alone_end_well(emulator_home: Path) -> None:
    assert run(emulator_home, "print(aclnn.backend().name)").strip() == "npu"
    assert run(emulator_home, "from ascend_aclnn.backends import npu; print('ok')").strip() == "ok"


def test_an_exception_ends_the_process_well(emulator_home: Path) -> None:
    text = run(emulator_home, "kept = product()\nraise SystemExit(3)", status=3)
    assert text == ""
    assert "ZeroDivisionError" in run(emulator_home, "kept = product()\n1 / 0", status=1)


def test_threads_that_still_run_at_the_end_are_refused_politely(emulator_home: Path) -> None:
    program = """
import time
def forever():
    with aclnn.use_backend("npu"):
        try:
            while True:
                product().numpy()
        except (RuntimeError, aclnn.AclError):
            time.sleep(60)
thread = threading.Thread(target=forever, daemon=True)
thread.start()
time.sleep(0.3)
print("end")
"""
    variables = environment(emulator_home)
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program], env=variables, capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "end"), done.stderr


def test_a_forked_child_is_refused_the_device(emulator_home: Path) -> None:
    program = """
import gc
kept = product()
stream, event = aclnn.Stream(), aclnn.Event()
executor = aclnn.Executor("aclnnMm", aclnn.asarray(x), aclnn.asarray(y), kept, 0, repeatable=True)
sys.stdout.flush()
child = os.fork()
if child == 0:
    refused = []
    for use in (product, kept.numpy, aclnn.synchronize, aclnn.Stream, executor.run, aclnn.memory_info, event.done):
        try:
            use()
        except RuntimeError as error:
            refused.append("forked" in str(error) and "spawn" in str(error))
    executor.close()
    stream.close()
    event.close()
    del kept, stream, event, executor
    gc.collect()
    print(refused)
    sys.exit(0)
_, status = os.waitpid(child, 0)
print(status, kept.numpy()[0, 0])
stream.close()
event.close()
executor.close()
"""
    lines = run(emulator_home, program).splitlines()
    assert lines == [str([True] * 7), "0 5.0"]


def test_a_child_that_first_uses_the_device_itself_may_be_forked(emulator_home: Path) -> None:
    program = """
sys.stdout.flush()
child = os.fork()
if child == 0:
    print(product().numpy()[0, 0])
    sys.exit(0)
_, status = os.waitpid(child, 0)
print(status, product().numpy()[0, 1])
"""
    assert run(emulator_home, program).splitlines() == ["5.0", "0 14.0"]


def test_who_initialised_first_finalizes(emulator_home: Path) -> None:
    program = """
import ctypes
libraries = [ctypes.CDLL(name) for name in ("libascendcl.so", "libnnopbase.so")]
runtime = libraries[0]
assert runtime.aclInit(None) == 0 and runtime.aclrtSetDevice(1) == 0
kept = product()
assert aclnn.backend().runtime.shared and kept.device == 1
print(kept.numpy()[0, 0])
aclnn.backend().runtime.close()
assert runtime.aclrtResetDevice(1) == 0 and runtime.aclFinalize() == 0
"""
    assert run(emulator_home, program).strip() == "5.0"


def test_the_owner_of_acl_may_have_finalized_before(emulator_home: Path) -> None:
    program = """
import ctypes, atexit
runtime = ctypes.CDLL("libascendcl.so")
assert runtime.aclInit(None) == 0 and runtime.aclrtSetDevice(0) == 0
value = product().numpy()[0, 0]
aclnn.empty_cache()
atexit.register(lambda: (runtime.aclrtResetDevice(0), runtime.aclFinalize()))  # runs before ours
print(value)
"""
    assert run(emulator_home, program).strip() == "5.0"


def test_results_are_waited_for_where_work_runs_only_when_it_is_waited_for(emulator_home: Path) -> None:
    """With deferred streams, a wait that is missing shows stale data every time."""
    program = """
stream, other = aclnn.Stream(), aclnn.Stream()
a = aclnn.asarray(x)
for factor in (1, 2, 3):
    a.assign(x * factor)  # ordered after what still reads it
    with stream:
        first = ops.mm(a, aclnn.asarray(y))
        event = stream.record_event()
    other.wait_event(event)
    with other:
        second = ops.mm(first, first)
    first.record_stream(other)
    del first  # its memory must not be handed out before `other` has passed
    with stream:
        noise = [ops.mm(aclnn.asarray(x * 0), aclnn.asarray(y)) for _ in range(5)]
    assert (second.numpy() == (x @ y * factor) @ (x @ y * factor)).all(), factor
    event.close()
print("ok")
stream.close()
other.close()
"""
    assert run(emulator_home, program, ASCEND_EMULATOR_STREAMS="deferred").strip() == "ok"


@pytest.mark.aclnn_findings("sync/write-after-write")  # the same results, on two streams
def test_workspaces_are_shared_by_a_stream_and_grow(emulator_home: Path) -> None:
    program = """
stream = aclnn.Stream()
out = aclnn.empty((2, 2), np.float32)
for one in (None, stream):
    for _ in range(3):
        ops.mm(aclnn.asarray(x), aclnn.asarray(y), out=out, stream=one)
    assert (out.numpy() == x @ y).all()
states = aclnn.backend().runtime.devices[0].streams
blocks = [states[handle].workspace for handle in (0, stream.handle)]
assert all(block.size >= 5_000_000 for block in blocks) and blocks[0].address != blocks[1].address
with aclnn.Executor("aclnnMm", aclnn.asarray(x), aclnn.asarray(y), out, 0, repeatable=True) as executor:
    print(executor.workspace_size)
    executor.run()
    executor.run(stream)
aclnn.empty_cache()
assert states[0].workspace is None
ops.mm(aclnn.asarray(x), aclnn.asarray(y), out=out)
aclnn.synchronize()
aclnn.set_memory_limit(1)
aclnn.empty_cache()
try:
    ops.mm(out, out, out=aclnn.empty((2, 2), np.float32))
except aclnn.AclError as error:
    print(error.status)
aclnn.set_memory_limit(None)
print((ops.mm(out, out).numpy() == x @ y @ x @ y).all())
"""
    assert run(emulator_home, program, ASCEND_EMULATOR_WORKSPACE="5000000").split() == ["5000000", "207001", "True"]


def test_no_device_is_no_backend(emulator_home: Path) -> None:
    program = """
import logging
logging.basicConfig(stream=sys.stdout)
from ascend_aclnn.backends.npu import find_backend as npu_backend
try:
    npu_backend()
except aclnn.LibraryNotFound as error:
    print(error)
os.environ["ASCEND_ACLNN_BACKEND"] = "auto"
print(aclnn.backend().name)
"""
    text = run(emulator_home, program, ASCEND_EMULATOR_DEVICES="0")
    assert "no usable NPU: aclrtGetDeviceCount returned 207004" in text and "npu-smi" in text
    assert text.startswith("WARNING:ascend_aclnn:CANN is installed but cannot be used")
    assert text.splitlines()[-1] == "numpy"
