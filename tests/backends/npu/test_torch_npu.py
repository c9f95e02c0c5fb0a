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


# Programs that share a process, by what they show.
TOGETHER = {
    "callbacks on torch's stream while torch goes on": """
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
""",
    "operators on torch tensors run between torch's own": """
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
""",
    "a shared tensor is ordered after what torch has queued": """
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
""",
    "torch stream follows torch's current stream": """
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
""",
    "memory that torch frees is not taken before our work has run": """
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
""",
    # what is kept of an earlier call must be what the tensor is now: place, layout, stream, and which of two equal ones
    "torch tensors whose memory came before": """
base = torch.arange(64.0, device="npu").reshape(8, 8)
for _ in range(2):
    for view in (base, base[2:, 1::2], base.t(), base[3], base[3, 4], base[8:], base.view(64), base.view(torch.int32)):
        expected = view.cpu() + view.cpu()
        result = ops.add(view, view, 1)
        assert result.shape == view.shape and result.dtype == view.dtype
        assert torch.equal(result.cpu(), expected), (view.shape, result.cpu(), expected)
    base.add_(1)
for i in range(12):  # the allocator gives the same memory again, for other shapes and dtypes too
    t = torch.full([(16, 4), (4, 16), (64,)][i % 3], i, device="npu", dtype=[torch.float32, torch.int32][i % 2])
    y = ops.add(t.add_(8), t, 1)
    assert y.shape == t.shape and y.dtype == t.dtype and y.cpu().eq(2 * i + 16).all(), (i, y.cpu())

x = torch.zeros(8, device="npu")
also = x.view(8)  # another torch tensor over the same elements
one = torch.ones(8, device="npu")
assert ops.inplace_add(x, also, 1) is x and ops.inplace_add(also, one, 1) is also
assert ops.add(x, also, 1, out=also) is also and x.cpu().tolist() == [2.0] * 8
first, second = ops.foreach_abs([-x, -also])
assert first is not second and first.cpu().tolist() == second.cpu().tolist() == [2.0] * 8
y, rstd = ops.rms_norm(torch.zeros(0, 1, device="npu"), torch.ones(1, device="npu"))
assert y is not rstd and y.shape == rstd.shape == (0, 1)
leaf = torch.ones(4, device="npu", requires_grad=True)
for _ in range(2):
    with torch.no_grad():
        assert ops.add(leaf, leaf, 1).cpu().tolist() == [2.0] * 4 and not ops.add(leaf, leaf, 1).requires_grad
    try:
        ops.add(leaf, leaf, 1)
    except TypeError:
        pass
    else:
        raise AssertionError("a gradient was lost")
complex_ = torch.ones(2, dtype=torch.complex64).npu()
ops.add(complex_, complex_, 1)
try:
    ops.add(complex_.conj(), complex_, 1)
except BufferError as error:
    assert "resolve_conj" in str(error)
else:
    raise AssertionError("a lazy conjugate was taken for its memory")

side, t = torch.npu.Stream(), torch.zeros(64, device="npu")
torch.npu.synchronize()
for i in range(4):  # torch's current stream changes between calls, and each works where torch works
    with torch.npu.stream(side if i % 2 else torch.npu.current_stream()):
        assert ops.inplace_add(many(t), t, 1) is t
        many(t)
        assert t.cpu()[0] == [24, 72, 168, 360][i], t.cpu()
        torch.npu.synchronize()

there = torch.zeros(64, device="npu:1")
for i in range(3):
    for mine in (t.zero_(), there.zero_()):
        with torch.npu.device(mine.device):
            many(mine)
            y = ops.add(mine, mine, 1)
            assert y.device == mine.device and many(y).cpu()[0] == 24, (mine.device, y.cpu())
    assert torch.npu.current_device() == 0 and ops.add(there, there, 1).device.index == 1
""",
    "a call that came before asks little": """
import sys
x, gamma = torch.ones(4, 4, device="npu"), torch.ones(4, device="npu")
def entered(call):  # the Python functions that a call enters
    call(), call()
    names = []
    def note(frame, event, argument):
        if event == "call":
            names.append(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}")
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return names
for call in (lambda: ops.mm(x, x), lambda: ops.add(x, x, 1), lambda: ops.rms_norm(x, gamma)):
    names = entered(call)
    for costly in ("import_module", "_name_get", "current_stream", "share_torch", "describe", "borrow", "__init__"):
        times = sum(name.endswith("." + costly) for name in names)
        allowed = {"__init__": 2}.get(costly, 0)  # an Invocation, and the Scalar of alpha
        assert times <= allowed, (costly, times, names)
    assert sum(name.endswith(".handle") for name in names) == 1, names  # torch's queue is drained once
""",
    "shared memory may outlive the interpreter": """
kept = aclnn.asarray(np.ones(64, np.float32)).torch()
also = torch.from_dlpack(ops.add(aclnn.from_torch(kept), aclnn.from_torch(kept), 1))
many(also)
""",
}
IN_MODE_1 = {"a call that came before asks little"}  # torch's queue is asked once, where there is one


@modes
def test_programs(emulator_home: Path, mode: str) -> None:
    """In one process, for torch_npu takes seconds to import; what the last one made lives until the interpreter ends."""
    chosen = {name: text for name, text in TOGETHER.items() if mode == "1" or name not in IN_MODE_1}
    program = f"""
import gc
for name, text in {chosen!r}.items():
    variables = dict(globals())
    exec(compile(text, name, "exec"), variables)
    torch.npu.synchronize()
    print(name)
    if name != {list(chosen)[-1]!r}:
        variables.clear()
        gc.collect()
"""
    assert run(emulator_home, program, mode).splitlines()[: len(chosen)] == list(chosen)


def test_torch_tensors_in_formats_of_their_own(emulator_home: Path) -> None:
    program = """
torch.npu.config.allow_internal_format = True
a, b = (torch.randn(shape, device="npu").half() for shape in ((32, 48), (48, 64)))
blocked = torch_npu.npu_format_cast(b, 29)
for _ in range(2):
    for weight in (b, blocked):
        assert torch.equal(ops.mm(a, weight).cpu(), torch.mm(a, b).cpu())
    assert torch.equal(ops.matmul_weight_nz(a, blocked, 0).cpu(), torch.mm(a, b).cpu())
square = torch.randn(16, 16, device="npu").half()  # of the same size in both formats
before = ops.mm(square, square).cpu()
values = square.cpu()
del square
for _ in range(20):  # memory that was ND is FRACTAL_NZ now
    blocked = torch_npu.npu_format_cast(values.npu(), 29)
    again = ops.mm(values.npu(), blocked).cpu()
    assert torch.equal(again, before)

image, kernel = torch.randn(1, 2, 5, 5, device="npu").half(), torch.randn(3, 2, 3, 3, device="npu").half()
for _ in range(2):
    y = ops.convolution(image, kernel, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, 0)
    torch.testing.assert_close(y.cpu(), torch.nn.functional.conv2d(image.cpu(), kernel.cpu()), rtol=1e-2, atol=1e-2)
    assert ops.add(y, y, 1).shape == y.shape
"""
    run(emulator_home, program, "1", delay="0")


def test_threads_that_call_with_the_same_torch_tensor(emulator_home: Path) -> None:
    program = """
import threading
t = torch.ones(64, device="npu")
results = []
def work():
    with aclnn.use_backend("npu"):
        for _ in range(30):
            results.append(ops.add(t, t, 1).cpu()[0].item())
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert results == [2.0] * 120
"""
    run(emulator_home, program, "1", delay="0")


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


@pytest.mark.parametrize("release", ["8.1.RC1", "8.3.RC1", "8.5.0", pytest.param("9.0.0", marks=short)])
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


SHORT_EXITS = {("8.1.RC1", "theirs"), ("9.0.0", "ours"), ("9.0.0", "imported later")}
EXITS = [
    pytest.param(release, first, marks=short if (release, first) in SHORT_EXITS else ())
    for release in ("8.1.RC1", "8.3.RC1", "8.5.0", "9.0.0")
    for first in ("ours", "theirs", "imported later")
]


@pytest.mark.aclnn_findings("sync/*")  # its three streams do not wait for each other
@pytest.mark.parametrize(("release", "first"), EXITS)
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
