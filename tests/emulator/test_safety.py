"""Data is never lost and nothing of the program's is touched: forks, sizes that wrap, descriptors, children, many blocks."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_clients import run_c_client
from emulator_client import D2D, D2H, H2D, NEWEST, Cann, client, environment
from process_tools import open_files

from ascend_aclnn.emulator.build import build

SIZE_MAX = (1 << 64) - 1
EYE = np.eye(2, dtype=np.float32)


def matrices(cann: Cann) -> tuple[Any, ...]:
    return cann.tensor(EYE), cann.tensor(np.zeros((2, 2), np.float32))


# ---------------------------------------------------------------------------------------------------------------- forks


def in_child(work: Any) -> bytes:
    """What a forked child writes; it must end within two minutes."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        try:
            os.write(write, str(work()).encode())  # type: ignore[operator]
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    os.close(write)
    assert status == 0, status
    found = os.read(read, 1000)
    os.close(read)
    return found


@client()
def test_a_forked_child_leaves_its_parents_memory_alone(cann: Cann) -> None:
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)

    def release_everything() -> list[int]:
        names = ["aclrtSynchronizeDevice", "aclrtFree", "aclDestroyTensor", "aclrtResetDevice", "aclFinalize"]
        arguments = {"aclrtFree": (x.address,), "aclDestroyTensor": (x.handle,), "aclrtResetDevice": (0,)}
        return [cann.failure(name, *arguments.get(name, ())).status for name in names]

    assert in_child(release_everything) == str([507899] * 5).encode()
    assert cann.read(x).tolist() == cann.read(out).tolist() == EYE.tolist()
    cann.run("aclnnMm", out, x, out, 0)  # the parent is as it was


@client()
def test_a_forked_child_that_ends_as_usual_leaves_its_parents_memory_alone(cann: Cann) -> None:
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)
    child = os.fork()
    if child == 0:
        sys.exit(0)  # with all that runs at an exit
    os.waitpid(child, 0)
    assert cann.read(x).tolist() == cann.read(out).tolist() == EYE.tolist()


@client(ASCEND_EMULATOR_STREAMS="deferred")
def test_a_forked_child_does_not_wait_for_its_parents_streams(cann: Cann) -> None:
    """Its memory and its descriptors are its own, too: the numbers of closed connections may have been given away."""
    x, out = matrices(cann)
    stream = cann.create("aclrtCreateStream")
    executor, size = cann.prepare("aclnnMm", x, x, out, 0)
    workspace = cann.malloc(max(size, 1))
    cann.aclnnMm(workspace, size, executor, stream)

    def use_stream() -> list[int]:
        mine = [os.open("/dev/null", os.O_RDONLY) for _ in range(40)]
        statuses = [cann.failure(f"aclrt{name}", stream).status for name in ("SynchronizeStream", "DestroyStream")]
        for descriptor in mine:
            os.fstat(descriptor)  # nobody has closed it
        assert str(x.address) not in Path("/proc/self/maps").read_text()
        return statuses

    assert in_child(use_stream) == b"[507899, 507899]"
    cann.aclrtSynchronizeStream(stream)
    cann.aclrtDestroyStream(stream)
    cann.aclrtFree(workspace)
    assert cann.read(out).tolist() == EYE.tolist()


@client()
def test_a_forked_child_does_not_share_the_memory_onward(cann: Cann) -> None:
    x, _ = matrices(cann)
    mapped = in_child(lambda: Path("/proc/self/maps").read_text().count("ascend-device-memory"))
    held = in_child(lambda: sum("ascend-device" in link for link in open_files(os.getpid())))
    assert (mapped, held) == (b"0", b"0")
    assert cann.read(x).tolist() == EYE.tolist()


@client(ASCEND_EMULATOR_CANN=NEWEST)
def test_a_forked_child_writes_to_registered_memory_of_its_own(cann: Cann) -> None:
    host, found = cann.create("aclrtMallocHost", 8192), ctypes.c_void_p()
    values = np.frombuffer((ctypes.c_char * 8192).from_address(host), np.uint8)
    values[:] = 1
    cann.aclrtHostRegister(host, 8192, 0, ctypes.byref(found))
    assert found.value != host

    def overwrite() -> int:
        seen = int(values.sum())
        values[:] = 2
        return seen

    assert in_child(overwrite) == b"8192"
    assert (values == 1).all()
    error = cann.failure("aclrtFreeHost", host)  # its pages are the device's
    assert (error.status, error.error) == (107000, "EMULATOR_FREE_IN_USE")
    assert "aclrtHostUnregister" in error.message
    assert cann.failure("aclrtHostRegisterV2", host, 8192, 0).status == 507910
    cann.aclrtHostUnregister(host)
    assert cann.failure("aclrtHostUnregister", host).error == "EMULATOR_INVALID_ADDRESS"
    assert (values == 1).all()
    cann.aclrtFreeHost(host)


def test_a_child_forked_before_the_device_is_used_shares_nothing_of_its_parents(emulator_home: Path) -> None:
    """Its parent's table of what is shared is not mapped in it."""
    code = """
import ctypes, os, sys
from emulator_client import Cann
cann = Cann(initialise=False)
event, handle = ctypes.c_void_p(), ctypes.create_string_buffer(64)
cann.aclrtSetDevice(0)
cann.aclrtCreateEventExWithFlag(ctypes.byref(event), 64)
cann.aclrtIpcGetEventHandle(event, handle)
name = int.from_bytes(handle.raw[:8], "little")
child = os.fork()
if child == 0:
    own = (name & (1 << 40) - 1 | os.getpid() << 40).to_bytes(64, "little")
    statuses = [cann._function(f)(*a) for f, a in (
        ("aclrtSetDevice", (0,)),
        ("aclrtIpcGetEventHandle", (event, handle)),
        ("aclrtCreateEventExWithFlag", (ctypes.byref(ctypes.c_void_p()), 64)),
    )]
    opened = ctypes.c_void_p()
    class Handle(ctypes.Structure):
        _fields_ = [("reserved", ctypes.c_char * 64)]
    function = cann.libraries[0].aclrtIpcOpenEventHandle
    function.argtypes = [Handle, ctypes.c_void_p]
    statuses.append(function(Handle.from_buffer_copy(own), ctypes.byref(opened)))
    print(all(status != 0 for status in statuses[1:]) or statuses, flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1], flush=True)
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(build(cann=NEWEST), ASCEND_EMULATOR_CANN=NEWEST),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "True\n0\n", (done.stdout, done.stderr)


def test_a_fork_meets_another_thread_that_makes_contexts(emulator_home: Path) -> None:
    """fork takes the libraries' locks in the order in which other threads take them, so that neither waits for ever."""
    code = """
import ctypes, os, threading
from emulator_client import Cann
cann = Cann(initialise=False)
cann.aclrtSetDevice(0)
ended = threading.Event()

def make_contexts():
    while not ended.is_set():
        context = ctypes.c_void_p()
        cann.aclrtCreateContext(ctypes.byref(context), 0)
        cann.aclrtDestroyContext(context)

threads = [threading.Thread(target=make_contexts) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(200):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
ended.set()
for thread in threads: thread.join()
print("done", flush=True)
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        env=environment(emulator_home),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout == "done\n", (done.stdout, done.stderr)


def use_device(results: Any) -> None:
    """In a forked child: a device of its own."""
    cann = Cann()
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)
    results.put(cann.read(out).tolist())  # type: ignore[attr-defined]
    cann.finish()


def test_a_fork_before_the_device_is_used_leaves_the_child_able_to_use_it(emulator_home: Path) -> None:
    code = """
import ctypes, multiprocessing
from emulator_client import Cann
import test_safety
cann = Cann(initialise=False)
cann.aclrtGetDeviceCount(ctypes.byref(ctypes.c_uint32()))  # the libraries are in use, no device is
context = multiprocessing.get_context("fork")
results = context.Queue()
children = [context.Process(target=test_safety.use_device, args=(results,)) for _ in range(2)]
for child in children: child.start()
for child in children: child.join()
print([child.exitcode for child in children], results.get(), results.get())
"""
    variables = environment(emulator_home)
    variables["PYTHONPATH"] += os.pathsep + str(Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=300)
    assert done.stdout == f"[0, 0] {EYE.tolist()} {EYE.tolist()}\n", done.stderr


# ---------------------------------------------------------------------------------------------------------------- sizes


@client()
def test_sizes_that_wrap_are_out_of_bounds(cann: Cann) -> None:
    host = np.zeros(4096, np.uint8)
    address, block = host.ctypes.data, cann.malloc(4096)
    for name, arguments in (
        ("aclrtMemcpy", (block, SIZE_MAX, address, SIZE_MAX, H2D)),
        ("aclrtMemcpy", (address, SIZE_MAX, block, SIZE_MAX, D2H)),
        ("aclrtMemcpy", (block, SIZE_MAX, block + 64, SIZE_MAX - 64, D2D)),
        ("aclrtMemcpy", (block + 4096, 1, address, 1, H2D)),
        ("aclrtMemcpyAsync", (block, SIZE_MAX, address, SIZE_MAX, H2D, None)),
        ("aclrtMemset", (block, SIZE_MAX, 0, SIZE_MAX)),
        ("aclrtMemsetAsync", (block, SIZE_MAX, 0, SIZE_MAX, None)),
        ("aclrtMemcpy2d", (block, 1 << 63, address, 16, 16, 3, H2D)),
        ("aclrtMemcpy2d", (address, 1 << 63, block, 16, 16, 3, D2H)),
        ("aclrtMemcpy2dAsync", (block, 1 << 33, address, 1 << 33, 1 << 33, 1 << 31, H2D, None)),
        ("aclrtMemFlush", (block, SIZE_MAX)),
        ("aclrtMemInvalidate", (block + 64, SIZE_MAX - 32)),
    ):
        error = cann.failure(name, *arguments)
        assert (error.status, error.error) == (107000, "EMULATOR_OUT_OF_BOUNDS"), (name, arguments, error)
    cann.aclrtSynchronizeDevice()
    assert cann.failure("aclrtMalloc", ctypes.byref(ctypes.c_void_p()), SIZE_MAX, 0).status == 207001
    assert cann.failure("aclrtMallocHost", ctypes.byref(ctypes.c_void_p()), SIZE_MAX).status == 207001
    for start, size in (
        (address, SIZE_MAX),
        (8, 64),
        (1 << 63, 4096),
        (SIZE_MAX - 4096, 64),
        (block, 64),
        (address, 1 << 46),
    ):
        error = cann.failure("aclrtHostRegister", start, size, 0, ctypes.byref(ctypes.c_void_p()))
        assert (error.status, error.error[:13]) == (107000, "EMULATOR_OUT_" if size == SIZE_MAX else "EMULATOR_INVA"), (
            error
        )
    pinned = cann.create("aclrtMallocHost", 64)
    assert cann.failure("aclrtMemset", pinned, SIZE_MAX, 0, SIZE_MAX).error == "EMULATOR_OUT_OF_BOUNDS"
    cann.aclrtFreeHost(pinned)
    cann.aclrtFree(block)


@client()
def test_extents_that_wrap_are_out_of_bounds(cann: Cann) -> None:
    """Shapes, strides and offsets whose reach is a small number modulo 2**64."""
    block = cann.malloc(4096)
    out = cann.describe((2,), np.float32, block)
    for shape, strides, offset in (
        ((2,), (1 << 62,), 0),
        ((2,), ((1 << 63) - 1,), 1),
        ((2,), (-1,), 0),
        ((2,), (1,), -1),
        ((2,), (1,), (1 << 63) - 1),
        ((2,), (1,), 1 << 62),
        ((2,), (-4,), 2),
        ((3, 3), (1 << 62, 1 << 62), 0),
        ((-1, -1), (1, 1), 1 << 62),
    ):
        x = cann.describe(shape, np.float32, block, strides, offset)
        try:
            executor, size = cann.prepare("aclnnAbs", x, out)
        except RuntimeError as error:
            assert "16100" in str(error), error
        else:
            workspace = cann.malloc(size) if size else None
            error = cann.failure("aclnnAbs", workspace, size, executor, None)
            assert (error.status, error.error) == (161002, "EMULATOR_OUT_OF_BOUNDS"), (shape, strides, offset, error)
            if workspace:
                cann.aclrtFree(workspace)
        cann.aclDestroyTensor(x)
    cann.aclDestroyTensor(out)
    cann.aclrtFree(block)


@pytest.mark.long
def test_entry_points_hold_under_sanitizers(emulator_home: Path) -> None:
    """A short run of the fuzzer, with ASan and UBSan."""
    script = Path(__file__).parents[2] / "scripts" / "fuzz_emulator.py"
    command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", "--cann", NEWEST]
    command += ["--sanitize", "address,undefined", "--"]
    variables = {**os.environ, "ASCEND_EMULATOR_LEAKS": "0"}
    program = [sys.executable, str(script), "--seconds", "3", "--threads", "2"]
    done = subprocess.run([*command, *program], env=variables, capture_output=True, text=True, timeout=300)
    assert done.stdout.startswith("ok "), done.stdout + done.stderr[-3000:]
    assert "ERROR: AddressSanitizer" not in done.stderr
    assert "runtime error" not in done.stderr


class Heap(ctypes.Structure):
    """mallinfo2 of glibc, in size_t."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ["arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks"]
    ]
    _fields_ += [("fordblks", ctypes.c_size_t), ("keepcost", ctypes.c_size_t)]


def heap() -> int:
    """Bytes that the process has allocated and not freed."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Heap
    found = mallinfo()
    return int(found.uordblks + found.hblkhd)


@contextlib.contextmanager
def no_more_memory() -> Iterator[None]:
    """Lets allocations of some megabytes fail."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def fail_to_make_lists(cann: Cann) -> None:
    """Lists that cannot be made leave their members alone; lists that are made own each member once."""
    number = ctypes.c_float(1)

    def tensor() -> int:
        return cann.describe((2, 3), np.float32, None)

    def scalar() -> int:
        return int(cann.aclCreateScalar(ctypes.byref(number), 0))

    big = 1 << 20
    nulls = (ctypes.c_void_p * big)()

    def round_of(kind: str, make: Callable[[], int], other: Callable[[], int]) -> None:
        create, destroy = f"aclCreate{kind}List", f"aclDestroy{kind}List"
        a, b, c, dead, foreign = make(), make(), make(), make(), other()
        getattr(cann, f"aclDestroy{kind}")(dead)

        def failure(*members: int | None) -> None:
            before = cann.live()
            error = cann.failure(create, (ctypes.c_void_p * len(members))(*members), len(members))
            assert error.error, error
            assert cann.live() == before

        owner = getattr(cann, create)((ctypes.c_void_p * 2)(c, None), 2)
        for last in (a, c, dead, foreign, owner, 16):  # twice, of another list, no more, of another kind, never
            failure(a, None, b, last)
        nulls[0] = a
        for count in (big + 1, 1 << 62, (1 << 64) - 1):
            assert cann.failure(create, nulls, count).message
        with no_more_memory():
            assert "for which there is no memory" in cann.failure(create, nulls, big).message
        cann.fail_at(1, 561000, create)
        assert not cann._function(create)((ctypes.c_void_p * 2)(a, b), 2)
        assert cann._function(f"aclDestroy{kind}")(c) != 0  # its list does
        made = getattr(cann, create)((ctypes.c_void_p * 3)(a, None, b), 3)
        assert made, cann.message()
        for handle in (made, owner):
            getattr(cann, destroy)(handle)
            assert cann.failure(destroy, handle).error == "EMULATOR_DOUBLE_DESTROY"
        for handle in (a, b, c):
            assert cann.failure(f"aclDestroy{kind}", handle).error == "EMULATOR_DOUBLE_DESTROY"
        getattr(cann, "aclDestroyScalar" if kind == "Tensor" else "aclDestroyTensor")(foreign)
        assert cann.live() == 0, cann.dump()

    used = []
    for turn in range(120):
        round_of("Tensor", tensor, scalar)
        round_of("Scalar", scalar, tensor)
        if turn in (20, 119):
            gc.collect()
            used.append(heap())
    assert used[1] - used[0] < 4000, used  # 100 rounds; what a round leaks is 16 bytes at least


@client(ASCEND_EMULATOR_STRICT="1")
def test_lists_that_cannot_be_made_leak_nothing(cann: Cann) -> None:
    fail_to_make_lists(cann)


@pytest.mark.long
def test_lists_that_cannot_be_made_hold_under_sanitizers(emulator_home: Path) -> None:
    command = [sys.executable, "-m", "ascend_aclnn", "emulator", "run", "--sanitize", "address,undefined", "--"]
    code = f"import emulator_client; emulator_client.main({__file__!r}, 'fail_to_make_lists')"
    done = subprocess.run(
        [*command, sys.executable, "-c", code],
        env=environment(emulator_home),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "AddressSanitizer" not in done.stderr.replace("AddressSanitizer failed to allocate", ""), done.stderr
    assert "runtime error" not in done.stderr


@client(ASCEND_EMULATOR_DEVICES="5")
def test_communicators_of_several_devices_are_made_all_or_none(cann: Cann) -> None:
    """HcclCommInitAll where one of five is no device, or is named twice, which its rank learns while the others join."""
    hccl = ctypes.CDLL("libhccl.so")

    def make(devices: list[int]) -> tuple[int, list[int | None]]:
        made = (ctypes.c_void_p * len(devices))(*[7] * len(devices))
        numbers = (ctypes.c_int32 * len(devices))(*devices)
        return hccl.HcclCommInitAll(len(devices), numbers, made), list(made)

    def make_and_destroy(devices: list[int]) -> None:
        status, made = make(devices)
        assert status == 0 and len(set(made)) == len(devices)
        for status in (0, 2):  # what was destroyed is no communicator (HCCL_E_PTR)
            assert [hccl.HcclCommDestroy(ctypes.c_void_p(comm)) for comm in made] == [status] * len(devices)

    for device in range(5):
        cann.aclrtSetDevice(device)
        cann.aclrtFree(cann.malloc(64))
    everyone = list(range(5))
    for devices in ([0, 1, 99, 3, 4], [0, 1, 1, 3, 4]):
        status, made = make(devices)
        assert status != 0 and made == [None] * 5, (status, made)
        make_and_destroy(everyone)
    assert make([0] * 17)[0] == make([])[0] == 1  # no number of devices
    cann.message()
    for device in everyone:  # the first one is set twice
        cann.aclrtResetDevice(device)
    cann.aclrtSetDevice(0)


# ------------------------------------------------------------------------------------------- descriptors and child processes


@client()
def test_a_program_without_descriptors_keeps_its_device(cann: Cann) -> None:
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)
    stream = cann.create("aclrtCreateStream")
    executor, size = cann.prepare("aclnnMm", x, x, out, 0)
    workspace = cann.malloc(max(size, 1))
    streams = [cann.create("aclrtCreateStream") for _ in range(EMU_IDLE + 1)]
    for other in streams:  # take the connections that nobody uses
        again, _ = cann.prepare("aclnnMm", x, x, out, 0)
        cann.aclnnMm(workspace, size, again, other)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    highest = max(map(int, os.listdir("/proc/self/fd")))
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 20, hard))
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    cann.aclnnMm(workspace, size, executor, stream)
    error = cann.failure("aclrtSynchronizeStream", stream)
    assert (error.status, error.error) == (207005, "EMULATOR_OUT_OF_DESCRIPTORS"), error
    for descriptor in taken:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    cann.aclrtSynchronizeDevice()
    executor, size = cann.prepare("aclnnMm", x, x, out, 0)
    cann.aclnnMm(workspace, size, executor, stream)
    cann.aclrtSynchronizeStream(stream)
    assert cann.read(out).tolist() == EYE.tolist()
    for other in (stream, *streams):
        cann.aclrtDestroyStream(other)
    cann.aclrtFree(workspace)


EMU_IDLE = 16  # csrc/ascendcl/core/device.h


@client()
def test_idle_connections_are_few(cann: Cann) -> None:
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)
    before = len(os.listdir("/proc/self/fd"))
    streams = [cann.create("aclrtCreateStream") for _ in range(300)]
    workspace = cann.malloc(1 << 20)
    for stream in streams:
        executor, size = cann.prepare("aclnnMm", x, x, out, 0)
        cann.aclnnMm(workspace, size, executor, stream)
    for stream in streams:
        cann.aclrtDestroyStream(stream)
    cann.aclrtFree(workspace)
    assert len(os.listdir("/proc/self/fd")) <= before + EMU_IDLE


@client()
def test_the_program_never_sees_the_device_process_as_a_child(cann: Cann) -> None:
    x, out = matrices(cann)
    cann.run("aclnnMm", x, x, out, 0)
    assert cann.device_pid() > 0
    child = subprocess.Popen(["true"])
    assert os.wait()[0] == child.pid
    child.returncode = 0
    try:
        found = os.wait()
    except ChildProcessError:
        pass
    else:
        raise AssertionError(f"{found} is a child")


def test_handling_of_children_by_the_program_does_not_matter(emulator_home: Path) -> None:
    """Whether SIGCHLD is handled or ignored: no signal comes, and the device works."""
    code = """
import os, signal, sys
import numpy as np
seen = []
signal.signal(signal.SIGCHLD, signal.SIG_IGN if sys.argv[1] == "ignored" else lambda *a: seen.append(a))
from emulator_client import Cann
cann = Cann()
x, out = cann.tensor(np.eye(2, dtype=np.float32)), cann.tensor(np.zeros((2, 2), np.float32))
cann.run("aclnnMm", x, x, out, 0)
os.kill(cann.device_pid(), signal.SIGKILL)
error = None
try: cann.run("aclnnMm", x, x, out, 0)
except RuntimeError as caught: error = caught
cann.aclrtResetDevice(0); cann.aclrtSetDevice(0); cann._owned.clear()
x = cann.tensor(np.eye(2, dtype=np.float32)); cann.run("aclnnMm", x, x, x, 0)
print(seen, error.error)
"""
    for how in ("ignored", "handled"):
        done = subprocess.run(
            [sys.executable, "-c", code, how],
            env=environment(emulator_home),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.stdout == "[] EMULATOR_DEVICE_LOST\n", (how, done.stdout, done.stderr)


@client()
def test_an_unused_device_starts_no_process(cann: Cann) -> None:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    for device in (0, 1):
        cann.aclrtSetDevice(device)
        cann.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(total))
    assert (cann.device_pid(0), cann.device_pid(1)) == (0, 0)
    cann.aclrtFree(cann.malloc(64))
    assert cann.device_pid(0) == 0
    assert cann.device_pid(1) > 0
    cann.aclrtResetDevice(1)
    cann.aclrtSetDevice(0)
    cann.aclrtResetDevice(0)


# ---------------------------------------------------------------------------------------------------------------- races


@client()
def test_destroying_a_stream_while_its_device_is_reset(cann: Cann) -> None:
    """Each of both may be first: whoever is ends the stream, the other one is told or finds nothing to do."""

    def destroy(context: Any, streams: list[int], start: threading.Barrier) -> None:
        cann._function("aclrtSetCurrentContext")(context)
        start.wait()
        for stream in streams:
            cann._function("aclrtDestroyStream")(stream)

    for _ in range(200):
        cann.aclrtSetDevice(0)
        streams = [cann.create("aclrtCreateStream") for _ in range(4)]
        start = threading.Barrier(2)
        thread = threading.Thread(target=destroy, args=(cann.create("aclrtGetCurrentContext"), streams, start))
        thread.start()
        start.wait()
        cann.aclrtResetDeviceForce(0)
        thread.join()
    cann.aclrtSetDevice(0)


@client()
def test_shapes_are_read_while_answers_change_them(cann: Cann) -> None:
    """MaskedSelect gives its output another shape when its answer comes in, on whatever thread."""
    mask = cann.tensor(np.array([True, False] * 32))
    x, out = cann.tensor(np.arange(64, dtype=np.float32)), cann.tensor(np.zeros(64, np.float32))
    stop = threading.Event()

    def read_shapes() -> None:
        while not stop.is_set():
            dims, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
            cann._function("aclGetViewShape")(out.handle, ctypes.byref(dims), ctypes.byref(count))
            assert (count.value, dims[0]) in ((1, 64), (1, 32)), (count.value, dims[0])

    readers = [threading.Thread(target=read_shapes) for _ in range(2)]
    for reader in readers:
        reader.start()
    dims = (ctypes.c_int64 * 1)(64)
    for _ in range(100):
        cann.aclInitTensor(out.handle, dims, 1, 0, None, 0, 2, dims, 1, out.address)
        cann.run("aclnnMaskedSelect", x, mask, out)
    stop.set()
    for reader in readers:
        reader.join()


# ----------------------------------------------------------------------------------------------------- blocks and plans


@client()
def test_blocks_are_what_a_simple_model_says(cann: Cann) -> None:
    """No two overlap, all lie in the device's memory, and what is freed can be had again."""
    rng = np.random.default_rng(0)
    alive: dict[int, int] = {}
    for _ in range(4000):
        if alive and rng.random() < 0.48:
            address = list(alive)[rng.integers(len(alive))]
            cann.aclrtFree(address)
            del alive[address]
        else:
            size = int(rng.integers(1, 100_000))
            alive[cann.malloc(size)] = size
    found = [(a["address"], a["bytes"]) for a in cann.dump()["allocations"]]
    assert found == sorted(alive.items())
    assert all(start + size <= after for (start, size), (after, _) in zip(found, found[1:]))
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cann.aclrtGetMemInfo(1, ctypes.byref(free), ctypes.byref(total))
    assert total.value - free.value == sum(-(-(size + 32) // 512) * 512 for size in alive.values())
    for address in alive:
        cann.aclrtFree(address)
    whole = cann.malloc(total.value - 512)  # in one piece again
    cann.aclrtFree(whole)


@client(ASCEND_EMULATOR_MEMORY="64M")
def test_a_device_that_fills_up_hands_out_every_gap(cann: Cann) -> None:
    blocks = [cann.malloc(480) for _ in range((64 << 20) // 512)]
    assert cann.failure("aclrtMalloc", ctypes.byref(ctypes.c_void_p()), 1, 0).status == 207001
    for address in blocks[::2]:
        cann.aclrtFree(address)
    again = [cann.malloc(480) for _ in blocks[::2]]
    assert len({*again, *blocks[1::2]}) == len(blocks)
    for address in (*again, *blocks[1::2]):
        cann.aclrtFree(address)


@client(ASCEND_EMULATOR_NOOP="1")
def test_many_blocks_are_freed(cann: Cann) -> None:
    """In each order. If freeing looked at all live blocks, this would take ten minutes, and a client has two.

    ``scripts/bench_stream.c`` prints what freeing one of few and of many costs.
    """
    allocate, free = cann._function("aclrtMalloc"), cann._function("aclrtFree")
    address = ctypes.c_void_p()
    for order in (1, -1):
        blocks = []
        for _ in range(400_000):
            assert allocate(ctypes.byref(address), 64, 0) == 0
            blocks.append(address.value)
        assert len(set(blocks)) == len(blocks)
        assert not any(free(block) for block in blocks[::order])


@client()
def test_known_arguments_are_bounded_by_their_size(cann: Cann) -> None:
    """Arrays of a megabyte each are forgotten long before 8192 of them are known."""
    x, out = cann.tensor(np.ones((2, 2), np.float32)), cann.tensor(np.ones((2, 2), np.float32))

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    sizes = []
    for number in range(100):
        values = np.arange(number, number + 131072)
        dims = cann.aclCreateIntArray(ctypes.c_void_p(values.ctypes.data), values.size)
        results = ctypes.byref(ctypes.c_uint64()), ctypes.byref(ctypes.c_void_p())
        error = cann.failure("aclnnPermuteGetWorkspaceSize", x.handle, dims, out.handle, *results)
        assert error.status != 0
        cann.aclDestroyIntArray(dims)
        sizes.append(resident())
    assert sizes[-1] - sizes[20] < 32 << 20


@pytest.mark.usefixtures("compiler")
@pytest.mark.long
def test_threads_at_once_have_no_data_races(tmp_path: Path) -> None:
    """What ThreadSanitizer sees of a program whose threads use streams, events and memory at the same time."""
    run_c_client("stress", tmp_path, str(tmp_path), sanitize=("thread",))
