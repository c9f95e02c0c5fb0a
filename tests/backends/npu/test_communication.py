"""Collectives on the default stream, which HCCL refuses, and the end of communicators."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import Communicator, Event, Stream, ops
from ascend_aclnn.backends.npu.backend import NpuBackend
from ascend_aclnn.backends.npu.communication import _SendRecvItem
from ascend_aclnn.cli.emulator import environment

HEAD = """
import sys, threading, warnings, weakref
early = weakref.finalize(sys, int)  # the first of the process: weakref runs all finalizers before what atexit got later
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import Communicator, ops
warnings.simplefilter("error")
def alone():
    return Communicator.from_root_info(Communicator.root_info(), 0, 1)
"""


def run(home: Path, program: str, **options: str) -> str:
    """What a program prints; the emulated device finds nothing that was left, and nothing is written to standard error."""
    variables = environment(home, ASCEND_EMULATOR_STRICT="1", **options)
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program], env=variables, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    return done.stdout


def alone() -> Communicator:
    return Communicator.from_root_info(Communicator.root_info(), 0, 1)


def matmul_all_reduce(comm: Communicator, a: aclnn.Tensor, b: aclnn.Tensor) -> aclnn.Tensor:
    actual: aclnn.Tensor = ops.matmul_all_reduce(a, b, None, comm.name, "sum", 0, 1)
    return actual


# ------------------------------------------------------------------------------------------------- the default stream
ORDER = """
comm = alone()
x = np.arange(12, dtype=np.float32).reshape(3, 4)
for turn in range(4):
    a = ops.mul(aclnn.asarray(x), aclnn.asarray(np.float32(turn)))  # before: on the default stream
    y = comm.all_reduce(a)
    b = ops.add(y, y, 1)  # after: there, too
    c = comm.all_gather(b)
    assert (ops.add(c, c, 1).numpy() == 4 * turn * x).all(), turn
    del a, y, b, c  # their memory is used again by what runs after
    noise = [ops.mul(aclnn.asarray(x), aclnn.asarray(np.float32(-1))) for _ in range(4)]
comm.barrier()
stream = aclnn.Stream()
with stream:
    other = comm.all_reduce(aclnn.asarray(x))
assert (other.numpy() == x).all()
stream.close()
print("ok")
"""

OPERATORS = """
comm = alone()
half = np.arange(64, dtype=np.float16).reshape(8, 8) / 64
for turn in range(4):
    a = ops.muls(aclnn.asarray(half), turn)
    y = ops.matmul_all_reduce(a, aclnn.asarray(half), None, comm.name, "sum", 0, 1)
    z = ops.add(y, y, 1)
    expected = 2 * turn * half.astype(np.float32) @ half.astype(np.float32)
    assert np.allclose(z.numpy(), expected, rtol=2e-3), turn
    del a, y, z
print("ok")
"""


@pytest.mark.parametrize(("streams", "workspace"), [("background", "4096"), ("deferred", "0"), ("eager", "0")])
def test_collectives_on_the_default_stream_stay_in_its_order(emulator_home: Path, streams: str, workspace: str) -> None:
    """With deferred streams a missing event shows stale data every time. Collectives have no workspace."""
    options = {"ASCEND_EMULATOR_STREAMS": streams, "ASCEND_EMULATOR_WORKSPACE": workspace}
    assert run(emulator_home, ORDER, **options).strip() == "ok"


@pytest.mark.parametrize("streams", ["background", "deferred", "eager"])
@pytest.mark.parametrize("workspace", ["0", "4096"])
def test_operators_that_communicate_stay_in_the_order_of_the_default_stream(
    emulator_home: Path, streams: str, workspace: str
) -> None:
    options = {"ASCEND_EMULATOR_STREAMS": streams, "ASCEND_EMULATOR_WORKSPACE": workspace}
    assert run(emulator_home, OPERATORS, **options).strip() == "ok"


def test_one_stream_of_a_device_stands_for_the_default_one(npu: NpuBackend) -> None:
    state = npu.runtime.current()
    with alone() as comm:
        before = len(state.streams)
        x = aclnn.ones(4, np.float32)
        assert comm.all_reduce(x).tolist() == [1, 1, 1, 1]
        created = state.created
        assert created is not None and created.handle and created.owned
        for _ in range(3):
            comm.all_reduce(x)
            comm.barrier()
        assert state.created is created and len(state.streams) <= before + 1
        storage = x.storage
        assert storage.writer is state.default and created not in storage.others  # type: ignore[attr-defined]
        aclnn.synchronize()  # a communicator's calls on another stream wait for nothing by themselves
        with Stream() as stream:
            comm.all_reduce(x)
        assert x.storage.writer is npu.runtime.stream(stream.device, stream.handle)  # type: ignore[attr-defined]
        aclnn.synchronize()
    stream.close()
    events = len(npu.runtime.events)
    with alone() as comm:
        for _ in range(20):
            comm.all_reduce(x)
            x.numpy()
        assert len(npu.runtime.events) <= events + 8  # they are used again


def test_operators_that_communicate_run_repeatedly_on_the_default_stream(npu: NpuBackend) -> None:
    half = np.eye(16, dtype=np.float16)
    with alone() as comm:
        a, b, out = aclnn.asarray(half * 3), aclnn.asarray(half), aclnn.zeros((16, 16), np.float16)
        arguments = (a, b, None, comm.name, "sum", 0, 1, out)
        for repeatable in (True, False):
            with aclnn.Executor("aclnnMatmulAllReduce", *arguments, repeatable=repeatable) as executor:
                out.assign(0)
                executor.run()
                assert (out.numpy() == half * 3).all()
        with Stream() as stream:
            assert (matmul_all_reduce(comm, a, b).numpy() == half * 3).all()
        stream.close()


def test_a_failure_of_a_collective_is_told_by_the_default_stream(emulator_home: Path) -> None:
    """What fails runs on the created stream; who waits for the default one hears of it, with the collective's name."""
    program = """
comm = alone()
x = aclnn.ones(4, np.float32)
comm.all_reduce(x).numpy()
comm.abort()
try:
    comm.all_reduce(x).numpy()
except aclnn.AclError as error:
    print("HcclAllReduce" in str(error), error.status)
"""
    variables = environment(emulator_home)
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program], env=variables, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "True 507057", done.stdout + done.stderr


# ------------------------------------------------------------------------------------------------- the emulated HCCL
def test_the_emulated_hccl_wants_a_created_stream(npu: NpuBackend) -> None:
    """Each function of HCCL that takes a stream refuses the null handle: HCCL_E_PTR and EI0003."""
    with alone() as comm:
        hccl, handle = npu.hccl, comm._endpoint.handle  # type: ignore[attr-defined]
        x = aclnn.ones(8, np.float32)
        at, numbers = x.data_ptr, (ctypes.c_uint64 * 1)(8)
        zero, one = (ctypes.c_uint64 * 1)(0), ctypes.addressof(numbers)
        starts = ctypes.addressof(zero)
        item = (ctypes.c_uint64 * 5)()
        calls = {
            "HcclAllReduce": (at, at, 8, 4, 0),
            "HcclReduce": (at, at, 8, 4, 0, 0),
            "HcclBroadcast": (at, 8, 4, 0),
            "HcclScatter": (at, at, 8, 4, 0),
            "HcclReduceScatter": (at, at, 8, 4, 0),
            "HcclReduceScatterV": (at, one, starts, at, 8, 4, 0),
            "HcclAllGather": (at, at, 8, 4),
            "HcclAllGatherV": (at, 8, at, one, starts, 4),
            "HcclAlltoAll": (at, 8, 4, at, 8, 4),
            "HcclAlltoAllV": (at, one, starts, 4, at, one, starts, 4),
            "HcclBarrier": (),
            "HcclSend": (at, 8, 4, 0),
            "HcclRecv": (at, 8, 4, 0),
            "HcclBatchSendRecv": (ctypes.addressof(item), 1),
        }
        for name, arguments in calls.items():
            with pytest.raises(aclnn.AclError, match="stream is a null pointer") as caught:
                hccl.call(name, *arguments, handle, None)
            assert caught.value.status == 2 and "EI0003" in str(caught.value), name
        x.numpy()


def test_operators_that_communicate_want_a_created_stream(npu: NpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    half = aclnn.asarray(np.eye(16, dtype=np.float16))
    with alone() as comm:
        plan = npu.launcher.plan(aclnn.catalog.get("aclnnMatmulAllReduce"))
        monkeypatch.setattr(plan, "communicates", False)
        with pytest.raises(aclnn.AclError, match="stream is a null pointer") as caught:
            matmul_all_reduce(comm, half, half)
        assert caught.value.status == 561000


# ------------------------------------------------------------------------------------------------- the end
def test_the_emulated_device_wants_communicators_destroyed_with_a_device_and_before_its_reset(
    emulator_home: Path,
) -> None:
    program = """
import ctypes
runtime, hccl = aclnn.backend().runtime.libraries.function, ctypes.CDLL("libhccl.so")
text = lambda: (runtime("aclGetRecentErrMsg")() or b"").decode()
comm = alone()
handle = comm._endpoint.handle
print(runtime("aclrtResetDevice")(0), text())
found = []
thread = threading.Thread(target=lambda: found.append((hccl.HcclCommDestroy(handle), text())))
thread.start()
thread.join()
print(*found[0])
comm.close()
"""
    reset, destroy = run(emulator_home, program).splitlines()
    assert reset.startswith(
        "107000 EMULATOR_LIVE_COMMUNICATOR: aclrtResetDevice: 1 communicator(s) of HCCL on device 0"
    )
    assert destroy.startswith("15 EMULATOR_NO_DEVICE: HcclCommDestroy:")


def test_open_communicators_are_destroyed_at_exit(emulator_home: Path) -> None:
    """With their device current, before it is reset; though the process has a finalizer from before."""
    program = """
comm, x = alone(), aclnn.ones(4, np.float32)
with aclnn.Device(1):
    elsewhere, y = alone(), aclnn.ones(4, np.float32)
    elsewhere.all_reduce(y)
comm.all_reduce(x)
half = comm.split([0])
half.all_reduce(x)
cycle = [alone()]
cycle.append(cycle)
print(len(aclnn.backend().hccl.communicators))
"""
    assert run(emulator_home, program, ASCEND_EMULATOR_DEVICES="2").strip() == "4"


def test_a_communicator_that_another_thread_collects_is_destroyed_by_the_next_call(npu: NpuBackend) -> None:
    comm: list[Communicator] = [alone()]
    endpoint = comm[0]._endpoint
    comm[0].all_reduce(aclnn.ones(4, np.float32)).numpy()
    called: list[str] = []
    functions = npu.hccl._functions
    npu.hccl.function("HcclCommDestroy")
    destroy = functions["HcclCommDestroy"]

    def spy(handle: ctypes.c_void_p) -> int:
        called.append(threading.current_thread().name)
        return int(destroy(handle))

    functions["HcclCommDestroy"] = spy
    try:
        thread = threading.Thread(target=comm.clear)
        thread.start()
        thread.join()
        gc.collect()
        assert not called and endpoint in npu.hccl.communicators
        aclnn.synchronize()
        assert called == [threading.current_thread().name] and endpoint not in npu.hccl.communicators
    finally:
        functions["HcclCommDestroy"] = destroy


def test_a_collected_communicator_is_kept_while_its_collectives_run(
    npu: NpuBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    with alone() as other:
        comm = alone()
        comm.all_reduce(aclnn.ones(4, np.float32))
        endpoint = comm._endpoint
        monkeypatch.setattr(endpoint, "_has_passed", lambda stream: False)
        del comm
        gc.collect()
        other.barrier()  # an ordinary call
        assert endpoint in npu.hccl.communicators
        monkeypatch.undo()
        aclnn.synchronize()
        assert endpoint not in npu.hccl.communicators


def test_a_refused_destruction_is_told(npu: NpuBackend) -> None:
    comm = alone()
    handle = comm._endpoint.handle  # type: ignore[attr-defined]
    npu.hccl.call("HcclCommDestroy", handle)
    with pytest.warns(ResourceWarning, match="HcclCommDestroy failed: 2 empty pointer"):
        comm.close()
    comm.close()


def test_an_event_orders_a_collective_of_the_default_stream(npu: NpuBackend) -> None:
    with alone() as comm, Stream() as stream:
        x = aclnn.ones(4, np.float32)
        x = ops.muls(x, 3)
        done = Event()
        done.record(stream)
        Stream.from_handle(0).wait_event(done)
        out = comm.all_reduce(x, stream=Stream.from_handle(0))
        assert np.asarray(out).tolist() == [3, 3, 3, 3]
        done.close()
    stream.close()


def test_hccl_refuses_a_batch_whose_items_with_itself_do_not_match(npu: NpuBackend) -> None:
    """In the call: the memory of a receive that nothing comes to is not left as it was without an error."""
    with alone() as comm, Stream() as stream:
        x, y = aclnn.ones(8, np.float32), aclnn.zeros(8, np.float32)
        rows = (_SendRecvItem * 2)(_SendRecvItem(0, x.data_ptr, 8, 4, 0), _SendRecvItem(1, y.data_ptr, 7, 4, 0))
        handle = comm._endpoint.handle  # type: ignore[attr-defined]
        for count in (1, 2):
            with pytest.raises(aclnn.AclError, match="1 sends to it and 0 receives from it of 8 elements") as caught:
                npu.hccl.call("HcclBatchSendRecv", ctypes.addressof(rows), count, handle, stream.handle)
            assert caught.value.status == 1
        rows[1].count = 8
        npu.hccl.call("HcclBatchSendRecv", ctypes.addressof(rows), 2, handle, stream.handle)
        stream.synchronize()
        assert y.tolist() == [1] * 8
    stream.close()
