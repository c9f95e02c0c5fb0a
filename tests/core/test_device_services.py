"""What a device offers beside operators, on both backends: pinned memory, copies on a stream, modes, properties, statistics."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import ops
from ascend_aclnn.backends.interface import Backend
from ascend_aclnn.cli.emulator import environment


def test_copies_on_a_stream_follow_the_work_before_them(each_backend: Backend) -> None:
    source, target = aclnn.pinned((64, 3), np.float32), aclnn.pinned((64, 3), np.float32)
    source[...] = np.arange(192).reshape(64, 3)
    x = aclnn.empty((64, 3), np.float32)
    stream = aclnn.Stream(priority=1)
    x.copy_from(source, stream)
    y = ops.add(x, x, 1, stream=stream)
    y.copy_to(target, stream)
    stream.synchronize()
    np.testing.assert_array_equal(target, 2 * source)


def test_a_copy_waits_for_the_writer_on_another_stream(each_backend: Backend) -> None:
    first, second = aclnn.Stream(), aclnn.Stream()
    x = aclnn.asarray(np.ones((512, 512), np.float32))
    product = ops.mm(x, x, stream=first)
    target = aclnn.pinned((512, 512), np.float32)
    product.copy_to(target, second)
    second.synchronize()
    assert (target == 512).all()


def test_what_a_copy_reads_is_kept_until_it_has_run(each_backend: Backend) -> None:
    x = aclnn.empty((1 << 16,), np.int32)
    for i in range(20):
        source = aclnn.pinned(1 << 16, np.int32)
        source[...] = i
        x.copy_from(source)
        del source
        gc.collect(1)
    assert (x.numpy() == 19).all()


def test_pinned_memory_of_every_kind(each_backend: Backend) -> None:
    assert aclnn.pinned((0, 3), np.float32).shape == (0, 3)
    half = aclnn.pinned(4, ml_dtypes.bfloat16)
    half[...] = 2
    x = aclnn.empty((4,), ml_dtypes.bfloat16)
    x.copy_from(half)
    assert x.numpy().tolist() == [2] * 4
    with pytest.raises(TypeError, match="COMPLEX32"):
        aclnn.pinned(4, aclnn.DataType.COMPLEX32)


def test_copies_that_would_not_fit_are_refused(each_backend: Backend) -> None:
    x = aclnn.zeros((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"source is float32\(6,\); it must be float32\(2, 3\)"):
        x.copy_from(np.zeros(6, np.float32))
    with pytest.raises(ValueError, match="contiguous"):
        x.T.copy_to(np.zeros((3, 2), np.float32))
    frozen = np.zeros((2, 3), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        x.copy_to(frozen)


def test_streams_in_order_of_priority(each_backend: Backend) -> None:
    with pytest.raises(ValueError, match=r"priority is 8; it must be in \[0, 7\]"):
        aclnn.Stream(priority=8)
    first, second = aclnn.Stream(priority=7), aclnn.Stream()
    x = ops.abs(aclnn.asarray(np.array([-1.0, 2.0], np.float32)), stream=first)
    second.wait_stream(first)
    assert ops.add(x, x, 1, stream=second).numpy().tolist() == [2, 4]
    second.wait_stream(second)


def test_callbacks_run_in_order_and_see_finished_work(each_backend: Backend) -> None:
    stream, seen = aclnn.Stream(), []
    source, target = aclnn.pinned(1 << 20, np.int32), aclnn.pinned(1 << 20, np.int32)
    x = aclnn.empty((1 << 20,), np.int32)
    futures = []
    for i in range(10):
        source[...] = i
        x.copy_from(source, stream)
        x.copy_to(target, stream)
        futures.append(stream.add_callback(lambda i=i: seen.append((i, int(target[-1])))))  # type: ignore[misc]
        stream.synchronize()
        futures[-1].result(timeout=600)
    assert seen == [(i, i) for i in range(10)]
    failed = stream.add_callback(lambda: 1 // 0)
    assert isinstance(failed.exception(timeout=600), ZeroDivisionError)
    assert stream.add_callback(lambda: 7).result(timeout=600) == 7


def test_a_callback_does_not_hold_up_its_stream(each_backend: Backend) -> None:
    stream, release = aclnn.Stream(), threading.Event()
    waiting = stream.add_callback(lambda: release.wait(60))
    x = aclnn.asarray(np.array([-1.0, 2.0], np.float32))
    assert ops.abs(x, stream=stream).numpy().tolist() == [1, 2]
    assert not waiting.done()
    release.set()
    assert waiting.result(timeout=600)


def test_a_callback_waits_for_the_work_before_it(emulator_home: Path) -> None:
    program = """
import ctypes, os, signal, time
import numpy as np
import ascend_aclnn as aclnn
aclnn.use_backend("npu")
stream, seen = aclnn.Stream(), []
x = aclnn.ops.abs(aclnn.asarray(np.ones(4, np.float32)), stream=stream)
x.numpy()
pid = ctypes.CDLL(str(aclnn.backend().library_path)).aclemuDevicePid(0)
os.kill(pid, signal.SIGSTOP)
while open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
    time.sleep(0.01)
aclnn.ops.abs(x, stream=stream)
future = stream.add_callback(lambda: print("called"))
time.sleep(0.3)
assert not future.done()
os.kill(pid, signal.SIGCONT)
# the program ends here; its callback has not been called yet, and is
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(emulator_home), capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "called\n", "")


def test_modes_take_what_is_documented(each_backend: Backend) -> None:
    for level in (True, 2, 3, False):
        aclnn.set_deterministic(level)
    with pytest.raises(ValueError, match="level is 4"):
        aclnn.set_deterministic(4)
    assert aclnn.overflow_mode() == "inf_nan"  # the default of A2 and A3, and what torch_npu sets
    with pytest.raises(ValueError, match="'wrap'"):
        aclnn.set_overflow_mode("wrap")
    aclnn.set_overflow_mode("inf_nan")
    aclnn.set_operator_timeout(547)
    with pytest.raises(ValueError, match="must be positive"):
        aclnn.set_operator_timeout(0)


def test_the_overflow_mode_of_a_device_can_be_changed(each_backend: Backend) -> None:
    if each_backend.name == "numpy":
        with pytest.raises(NotImplementedError, match="does not saturate"):
            aclnn.set_overflow_mode("saturation")
        return
    aclnn.set_overflow_mode("saturation")
    assert aclnn.overflow_mode() == "saturation"
    aclnn.set_overflow_mode("inf_nan")


def test_properties_of_a_device(each_backend: Backend) -> None:
    found = aclnn.Device(0).properties
    assert found.soc == each_backend.soc and found.product and found.total_memory > 0
    if each_backend.name == "npu":
        assert found.cube_cores > 0 and found.vector_cores > 0 and found.l2_cache > 0


def test_statistics_of_the_pool(each_backend: Backend) -> None:
    before = aclnn.memory_statistics()
    x = aclnn.zeros((1 << 20,), np.float32)
    during = aclnn.memory_statistics()
    assert during.used >= before.used + x.nbytes and during.peak_used >= during.used
    if each_backend.name == "npu":
        assert during.reserved >= during.used and during.segments > 0 and during.allocations > before.allocations
        del x
        aclnn.zeros((1 << 20,), np.float32)
        assert aclnn.memory_statistics().from_cache > during.from_cache


def test_peaks_of_memory_begin_again(each_backend: Backend) -> None:
    aclnn.empty_cache()
    aclnn.reset_memory_peaks()
    base = aclnn.memory_statistics().peak_used
    for size in (1 << 20, 1 << 18):
        x = aclnn.zeros((size,), np.float32)
        del x
        assert aclnn.memory_statistics().peak_used >= base + 4 * size
        aclnn.reset_memory_peaks()
        again = aclnn.memory_statistics()
        assert again.peak_used == again.used < base + 4 * size


def test_a_snapshot_names_who_allocated(each_backend: Backend) -> None:
    if each_backend.name == "numpy":
        assert aclnn.memory_snapshot() == []
        return
    aclnn.record_memory_origins(True)
    try:
        x = aclnn.zeros((1 << 19,), np.float32)
        y = ops.abs(x)
    finally:
        aclnn.record_memory_origins(False)
    blocks = {block.address: block for block in aclnn.memory_snapshot()}
    for tensor in (x, y):
        block = blocks[tensor.data_ptr]
        assert block.nbytes >= tensor.nbytes and "test_device_services.py" in block.origin, block
        assert block.origin.endswith("test_a_snapshot_names_who_allocated")
    assert [b.nbytes for b in aclnn.memory_snapshot()] == sorted((b.nbytes for b in blocks.values()), reverse=True)


def test_copies_between_devices_keep_the_layout(each_backend: Backend) -> None:
    if each_backend.device_count() < 2:
        copy = aclnn.asarray(np.arange(6, dtype=np.float32)).to_device(0)
        assert copy.numpy().tolist() == list(range(6))
        with pytest.raises(ValueError, match="device 1: this host has 1"):
            copy.to_device(1)
        return
    x = aclnn.asarray(np.arange(24, dtype=np.int32).reshape(4, 6))
    view = ops.add(x, x, 1).T[1:, ::2]
    there = view.to_device(1)
    assert there.device == 1 and there.strides == view.strides and there.offset == view.offset
    np.testing.assert_array_equal(there.numpy(), view.numpy())
    with aclnn.Device(1):
        np.testing.assert_array_equal(ops.add(there, there, 1).numpy(), 2 * view.numpy())
    np.testing.assert_array_equal(there.to_device(0).numpy(), view.numpy())
    assert aclnn.empty((0, 3), np.float32).to_device(1).shape == (0, 3)


def test_ranges_reach_the_profilers_library(
    each_backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with aclnn.profiling_range("nothing listens"):
        pass
    if each_backend.name == "numpy":
        return
    source = tmp_path / "mstx.c"
    source.write_text(
        "#include <stdint.h>\n#include <string.h>\nchar message[64]; void *on; uint64_t open_ranges;\n"
        "uint64_t mstxRangeStartA(const char *m, void *s) { strncpy(message, m, 63); on = s; open_ranges++; return 7; }\n"
        "void mstxRangeEnd(uint64_t n) { open_ranges -= n == 7; }\n"
    )
    library = tmp_path / "libms_tools_ext.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    monkeypatch.setattr(each_backend.runtime.libraries, "directory", tmp_path)  # type: ignore[attr-defined]
    each_backend.__dict__.pop("_range_functions", None)
    try:
        stream = aclnn.Stream()
        with aclnn.profiling_range("forward", stream):
            loaded = ctypes.CDLL(str(library))
            assert ctypes.c_uint64.in_dll(loaded, "open_ranges").value == 1
            assert (ctypes.c_char * 64).in_dll(loaded, "message").value == b"forward"
            assert ctypes.c_void_p.in_dll(loaded, "on").value == stream.handle
        assert ctypes.c_uint64.in_dll(loaded, "open_ranges").value == 0
    finally:
        each_backend.__dict__.pop("_range_functions", None)
