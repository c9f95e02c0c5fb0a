"""Beside torch_npu in one process: order with its queue of launches, shared tensors, its current stream.

Each case is a program on the emulated device, with torch_npu's queue off (0), of launches (1), and of whole operators (2).
Launches from torch_npu's own thread are slow on purpose: what does not drain the queue overtakes it.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from ascend_aclnn.cli.emulator import environment

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(
        importlib.util.find_spec("torch_npu") is None,
        reason="torch_npu is not installed: the order of its work and ours is not tested",
    ),
]

HEAD = """
import numpy as np, torch, torch_npu
import ascend_aclnn as aclnn
from ascend_aclnn import ops
aclnn.use_backend("npu")
def many(t):  # work that torch has queued and not launched yet
    for _ in range(8):
        t.add_(1)
    return t
"""


def run(home: Path, program: str, mode: str, *, head: str = HEAD, delay: str = "20", **options: str) -> str:
    """What a program prints on either output; it must end well."""
    variables = environment(home, TASK_QUEUE_ENABLE=mode, ASCEND_EMULATOR_LAUNCH_DELAY=delay, **options)
    variables.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    for key in list(variables):
        if key.startswith("PYTEST"):
            del variables[key]
    variables["ASCEND_EMULATOR_LEAKS"] = "0"  # torch_npu keeps a stream and its memory to the end
    done = subprocess.run(
        [sys.executable, "-c", head + program], env=variables, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout + done.stderr


short = pytest.mark.clients_short
modes = pytest.mark.parametrize("mode", ["0", pytest.param("1", marks=short), "2"])


@modes
def test_callbacks_on_torchs_stream_while_torch_goes_on(emulator_home: Path, mode: str) -> None:
    program = """
seen, t = [], torch.zeros(64, device="npu")
futures = []
for _ in range(20):
    many(t)
    futures.append(aclnn.torch_stream().add_callback(lambda: seen.append(sum(range(10**5)))))
many(t)
torch.npu.synchronize()
for future in futures:
    future.result(timeout=60)
assert len(seen) == 20 and t.cpu().tolist() == [168.0] * 64
"""
    run(emulator_home, program, mode)


@modes
def test_operators_on_torch_tensors_run_between_torchs_own(emulator_home: Path, mode: str) -> None:
    program = """
t = many(torch.zeros(64, device="npu"))
doubled = ops.add(t, t, 1)
assert isinstance(doubled, torch.Tensor) and doubled.device == t.device
many(doubled)
assert doubled.cpu().tolist() == [24.0] * 64, doubled.cpu()
assert ops.inplace_add(many(t), doubled, 1) is t and t.cpu().tolist() == [40.0] * 64
out = torch.empty(64, device="npu")
assert ops.abs(many(t), out=out) is out and out.cpu().tolist() == [48.0] * 64
b = ops.mul(many(t).bfloat16(), torch.full((64,), 2.0, device="npu").bfloat16())
assert b.dtype == torch.bfloat16 and b.cpu()[0] == 112, b
values = ops.masked_select(t, torch.arange(64, device="npu") < 3)
assert values.cpu().tolist() == [56.0] * 3
"""
    run(emulator_home, program, mode)


@modes
def test_a_shared_tensor_is_ordered_after_what_torch_has_queued(emulator_home: Path, mode: str) -> None:
    program = """
t = many(torch.zeros(64, device="npu"))
x = aclnn.from_torch(t)
assert x.data_ptr == t.data_ptr()
assert ops.add(x, x, 1).numpy()[0] == 16  # on our current stream
assert aclnn.from_dlpack(many(t)).numpy()[0] == 16
many(t)
assert x.numpy()[0] == 24  # reading waits for torch, too
y = ops.add(x, x, 1)
back = y.torch()
assert back.data_ptr() == y.data_ptr and many(back).cpu()[0] == 56
del y
assert torch.from_dlpack(ops.add(x, x, 1)).cpu()[0] == 48
assert x.torch().data_ptr() == t.data_ptr()
"""
    run(emulator_home, program, mode)


@modes
def test_torch_stream_follows_torchs_current_stream(emulator_home: Path, mode: str) -> None:
    program = """
stream = aclnn.torch_stream()
assert stream.handle == torch.npu.current_stream().npu_stream != 0
t = torch.zeros(64, device="npu")
x = aclnn.from_torch(t)
side = torch.npu.Stream()
torch.npu.synchronize()
with torch.npu.stream(side):
    assert stream.handle == side.npu_stream
    for i in range(3):
        many(t)
        ops.inplace_add(x, aclnn.asarray(np.ones(64, np.float32)), 1, stream=stream)
    with aclnn.torch_stream():
        ops.inplace_add(x, x, 1)
        assert aclnn.current_stream().handle == side.npu_stream
    many(t)
    assert t.cpu()[0] == 62, t.cpu()
assert stream.handle != side.npu_stream
event = stream.record_event()
stream.synchronize()
assert event.done() and stream.done()
"""
    run(emulator_home, program, mode)


@modes
def test_shared_memory_may_outlive_the_interpreter(emulator_home: Path, mode: str) -> None:
    program = """
kept = aclnn.asarray(np.ones(64, np.float32)).torch()
also = torch.from_dlpack(ops.add(aclnn.from_torch(kept), aclnn.from_torch(kept), 1))
many(also)
"""
    run(emulator_home, program, mode)


@modes
def test_memory_that_torch_frees_is_not_taken_before_our_work_has_run(emulator_home: Path, mode: str) -> None:
    program = """
ours = aclnn.Stream()
for i in range(20):
    t = torch.full((4096,), float(i), device="npu")
    with ours:
        y = ops.add(aclnn.from_torch(t), aclnn.from_torch(t), 1)
    del t
    torch.full((4096,), -1.0, device="npu")
    assert y.numpy()[5] == 2 * i
for i in range(50):  # nothing is kept for calls on torch's own stream
    t = torch.full((1 << 20,), float(i), device="npu")
    assert ops.add(t, t, 1).cpu()[7] == 2 * i
assert torch.npu.memory_allocated() <= 4 << 22, torch.npu.memory_allocated()
"""
    run(emulator_home, program, mode, delay="0")


def test_what_cannot_be_shared_is_refused(emulator_home: Path) -> None:
    program = """
def refused(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError("not refused")
t = torch.ones(4, device="npu")
refused(BufferError, "asarray() copies", lambda: aclnn.from_torch(torch.ones(4)))
refused(TypeError, "one device", lambda: ops.add(t, torch.ones(4), 1))
refused(TypeError, "from_torch", lambda: ops.add(t, aclnn.asarray(np.ones(4, np.float32)), 1))
refused(TypeError, "leave stream out", lambda: ops.abs(t, stream=aclnn.Stream()))
with aclnn.use_backend("numpy"):
    refused(TypeError, 'use_backend("npu")', lambda: ops.abs(t))
    refused(BufferError, "npu", lambda: aclnn.from_torch(t))
assert ops.abs(torch.tensor([-1.0], device="npu:1")).device.index == 1
assert ops.abs(torch.tensor([-1.0])).tolist() == [1.0]  # on the host: uploaded, run, downloaded
"""
    run(emulator_home, program, "1")


RELEASES = [pytest.param("8.1.RC1", marks=short), "8.3.RC1", "8.5.0", pytest.param("9.0.0", marks=short)]


@pytest.mark.parametrize("release", RELEASES)
def test_threads_without_a_context_get_their_device(emulator_home: Path, release: str) -> None:
    # torch_npu's configuration names a default device from 8.3 on: aclrtGetDevice then answers on any thread
    program = """
import threading
t = torch.ones(64, device="npu")
x = aclnn.from_torch(t)
executor = aclnn.Executor("aclnnMm", *[aclnn.asarray(np.eye(2, dtype=np.float32)) for _ in range(3)], 0, repeatable=True)
errors = []
def work(job):
    try:
        with aclnn.use_backend("npu"):
            job()
    except Exception as error:
        errors.append(error)
jobs = [
    lambda: ops.add(x, x, 1).numpy(),
    lambda: executor.run(),
    lambda: aclnn.asarray(np.ones(3)).numpy(),
    lambda: aclnn.Stream().synchronize(),
    lambda: aclnn.memory_info(),
    lambda: aclnn.Event().record(),
]
for job in jobs:
    thread = threading.Thread(target=work, args=(job,))
    thread.start()
    thread.join()
    assert not errors, errors
"""
    run(emulator_home, program, "1", delay="0", ASCEND_EMULATOR_CANN=release)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("first", ["ours", "theirs", "imported later"])
def test_neither_ends_the_others_device_at_exit(emulator_home: Path, release: str, first: str) -> None:
    before = {
        "ours": "y = ops.add(aclnn.asarray(np.ones(4)), aclnn.asarray(np.ones(4)), 1)",
        "theirs": "t = torch.ones(4, device='npu')",
        "imported later": "",
    }[first]
    program = f"""
{before}
side, t = torch.npu.Stream(), torch.zeros(64, device="npu")
x, ours = aclnn.from_torch(t), aclnn.Stream()
with ours:
    z = ops.add(x, x, 1)
with torch.npu.stream(side):
    many(t)
kept = z.torch()
many(kept)
"""
    head = HEAD
    if first == "imported later":  # our backend has initialised ACL before torch_npu is imported
        head = HEAD.replace("import numpy as np, torch, torch_npu\n", "import numpy as np\n") + (
            "ops.abs(aclnn.asarray(np.ones(4)))\nimport torch, torch_npu\n"
        )
    assert "Error" not in run(emulator_home, program, "1", head=head, delay="5", ASCEND_EMULATOR_CANN=release)


@modes
def test_memory_that_torch_keeps_for_reuse_is_asked_for_before_the_end(emulator_home: Path, mode: str) -> None:
    program = """
size = 40 << 20
def reserved():
    return torch.npu.memory_reserved()
torch.empty(size, dtype=torch.int8, device="npu")
kept = reserved()
assert kept >= size
mine = aclnn.zeros((size,), np.int8)  # the device has 64 MiB
assert mine.numpy().sum() == 0 and reserved() < kept
del mine
t = torch.empty(8 << 20, dtype=torch.int8, device="npu")
for limit in (None, 4 << 20):
    aclnn.set_memory_limit(limit)
    aclnn.empty_cache()
    torch.empty(16 << 20, dtype=torch.int8, device="npu")
    kept = reserved()
    try:
        aclnn.zeros((60 << 20,), np.int8)
    except aclnn.AclError as error:
        assert error.status == 207001 and "cannot allocate" in error.detail, error
    else:
        raise AssertionError("there is not that much")
    assert (reserved() < kept) is (limit is None), "only what the device refused is worth torch's cache"
assert t.zero_().cpu().sum() == 0
"""
    run(emulator_home, program, mode, ASCEND_EMULATOR_MEMORY="64M")
