"""Calls that are made again: their results, their native calls, and what they keep."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated_device import Emulator
from live_objects import assert_nothing_left

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, Tensor, native, ops
from ascend_aclnn.backends.npu.backend import NpuBackend
from ascend_aclnn.call import plan, replay
from ascend_aclnn.cli.emulator import environment
from ascend_aclnn.native import library

X = np.arange(6, dtype=np.float32).reshape(2, 3)
WARM = 3  # calls until one is remembered and has its handles


def remembered(name: str) -> int:
    """How many calls of an operator are remembered."""
    return sum(call is not replay._SEEN for call in plan(aclnn.signature(name)).replays.values())


@pytest.fixture(autouse=True)
def _forget(npu: NpuBackend) -> None:
    """No call of an earlier test is remembered."""
    for name in (
        "aclnnMm",
        "aclnnAdd",
        "aclnnRmsNorm",
        "aclnnInplaceAdd",
        "aclnnNonzero",
        "aclnnCat",
        "aclnnAdaptiveAvgPool2d",
    ):
        plan(aclnn.signature(name)).replays.clear()


@pytest.fixture(params=["helper", "Python"])
def way(request: pytest.FixtureRequest, built_helper: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Calls are made with the compiled helper, or without."""
    monkeypatch.setattr(library, "PACKAGED", built_helper)
    monkeypatch.setenv("ASCEND_ACLNN_NATIVE", "auto" if request.param == "helper" else "0")
    monkeypatch.setattr(native, "_status", None)
    monkeypatch.setattr(native, "_library", None)
    assert (native.call_function() is None) == (request.param == "Python")
    return str(request.param)


both_ways = pytest.mark.usefixtures("way")


def tensors(factor: float = 1) -> tuple[Tensor, Tensor]:
    return aclnn.asarray(X * np.float32(factor)), aclnn.asarray(np.ascontiguousarray(X.T))


def warm(times: int = WARM) -> None:
    a, b = tensors()
    for _ in range(times):
        ops.mm(a, b)
    aclnn.synchronize()


def native_calls(emulator: Emulator, call: Any) -> int:
    before = emulator.calls()
    call()
    return emulator.calls() - before


# ------------------------------------------------------------------------------------------ what is computed


@both_ways
def test_other_memory_gives_other_results(npu: NpuBackend) -> None:
    keep = []
    for factor in range(1, 8):
        a, b = tensors(factor)
        keep.append((a, b, ops.mm(a, b)))
    assert remembered("aclnnMm") == 1
    for factor, (_, _, result) in enumerate(keep, 1):
        np.testing.assert_array_equal(result.numpy(), factor * (X @ X.T))


@both_ways
def test_views_at_other_places_and_of_other_storages(npu: NpuBackend) -> None:
    for rows in (5, 6, 7):
        whole = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
        x = aclnn.asarray(whole)
        for first in (0, 1, 2):
            for _ in range(3):
                view = x[first : first + 2, ::2]
                expected = 2 * whole[first : first + 2, ::2]
                np.testing.assert_array_equal(ops.add(view, view, 1).numpy(), expected)


def test_arguments_of_the_same_value_and_another_type_are_other_calls(npu: NpuBackend) -> None:
    x = aclnn.asarray(np.array([3, 5], np.int32))
    for _ in range(WARM):
        assert ops.add(x, x, 1).dtype is aclnn.DataType.INT32
        np.testing.assert_array_equal(ops.add(x, x, 2).numpy(), [9, 15])


@both_ways
def test_what_is_changed_in_place_and_what_is_passed_in_out(npu: NpuBackend) -> None:
    for factor in (1, 2, 3, 4):
        a, b = tensors(factor)
        out = aclnn.empty((2, 2), np.float32)
        assert ops.mm(a, b, out=out) is out
        np.testing.assert_array_equal(out.numpy(), factor * (X @ X.T))
        assert ops.inplace_add(a, a, 1) is a
        np.testing.assert_array_equal(a.numpy(), 2 * factor * X)
    assert remembered("aclnnMm") == remembered("aclnnInplaceAdd") == 1


@both_ways
def test_an_operator_whose_source_is_not_known_is_described_again(npu: NpuBackend, emulator: Emulator) -> None:
    gamma = aclnn.asarray(np.ones(3, np.float32))
    assert not aclnn.signature("aclnnRmsNorm").keeps_arguments
    for factor in (1, 2, 3, 4):
        x = aclnn.asarray(X * factor)
        y, _ = ops.rms_norm(x, gamma)
        expected = X * factor / np.sqrt(np.mean((X * factor) ** 2, axis=1, keepdims=True) + 1e-6)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)
    assert remembered("aclnnRmsNorm") == 1
    emulator.fail(1, "aclInitTensor")
    with pytest.raises(AclError, match="aclInitTensor"):
        ops.rms_norm(x, gamma)


@both_ways
def test_tensors_without_elements_and_without_dimensions(npu: NpuBackend) -> None:
    full, gamma = aclnn.asarray(X), aclnn.asarray(np.ones(3, np.float32))
    one = aclnn.asarray(np.float32(4))
    for _ in range(WARM + 1):
        assert ops.add(full[:0], full[:0], 1).shape == (0, 3)
        assert ops.rms_norm(aclnn.empty((0, 3), np.float32), gamma)[0].shape == (0, 3)
        assert ops.rms_norm(full[1:1], gamma)[0].shape == (0, 3)
        assert ops.add(one, one, 1).numpy() == 8


@pytest.mark.parametrize("name", ["aclnnNonzero", "aclnnCat"])
def test_what_depends_on_data_or_takes_lists_is_not_remembered(npu: NpuBackend, name: str) -> None:
    for number in range(1, WARM + 2):
        x = aclnn.asarray(np.arange(4, dtype=np.float32) // number)
        if name == "aclnnNonzero":
            np.testing.assert_array_equal(ops.nonzero(x).numpy(), np.argwhere(x.numpy()))
        else:
            np.testing.assert_array_equal(ops.cat([x, x], 0).numpy(), np.tile(x.numpy(), 2))
    assert remembered(name) == 0


def test_an_operator_that_changes_descriptions_is_not_remembered(npu: NpuBackend) -> None:
    operator = aclnn.signature("aclnnAdaptiveAvgPool2d")
    x = aclnn.asarray(np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4))
    for _ in range(WARM + 1):
        np.testing.assert_array_equal(ops.adaptive_avg_pool2d(x, [1, 1]).numpy(), [[[[7.5]]]])
    assert operator.rewrites_arguments and remembered(operator.name) == 0


@both_ways
def test_ndarrays_come_and_go(npu: NpuBackend) -> None:
    for factor in (1, 2, 3, 4):
        x = X * np.float32(factor)
        np.testing.assert_array_equal(ops.mm(x, x.T), x @ x.T)
        out = np.full((2, 2), np.float32(np.nan))
        assert ops.mm(x, x.T, out=out) is out
        np.testing.assert_array_equal(out, x @ x.T)
        strided = np.zeros((2, 4), np.float32)[:, ::2]
        assert ops.mm(x, x.T, out=strided) is strided
        np.testing.assert_array_equal(strided, x @ x.T)
        changed = x.copy()
        assert ops.inplace_add(changed, x, 1) is changed
        np.testing.assert_array_equal(changed, 2 * x)
        number = ops.add(np.array(factor, np.int32), np.array(1, np.int32), 1)
        assert number.shape == () and number == factor + 1
        assert ops.add(x[:0], x[:0], 1).shape == (0, 3)
    assert remembered("aclnnMm") == 3 and remembered("aclnnInplaceAdd") == 1 and remembered("aclnnAdd") == 2
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        ops.mm(x, x.T, out=out)


def test_ndarrays_of_another_byte_order(npu: NpuBackend) -> None:
    x = X.astype(">f4")
    for _ in range(WARM + 1):
        with contextlib.suppress(TypeError):  # or the right values
            np.testing.assert_array_equal(ops.add(x, x, 1), 2 * X)


def test_ndarrays_wait_for_the_former_users_of_their_memory(npu: NpuBackend) -> None:
    """The copies to the device are in no stream's order."""
    n = 300
    square = np.ones((n, n), np.float32)
    for _ in range(WARM):
        ops.add(square, square, 1)
    for number in range(1, 4):
        big = aclnn.asarray(square)
        last = ops.mm(ops.mm(big, big), big)
        del big
        np.testing.assert_array_equal(ops.add(square * number, square, 1), square * (number + 1))
        assert last.numpy()[0, 0] == n * n


# ------------------------------------------------------------------------------------------ native calls


@both_ways
def test_a_call_made_again_is_two_phases_and_new_addresses(npu: NpuBackend, emulator: Emulator) -> None:
    warm()
    a, b = tensors()
    out = aclnn.empty((2, 2), np.float32)
    out.assign(0)
    for _ in range(WARM):
        ops.mm(a, b, out=out)
    assert native_calls(emulator, lambda: ops.mm(a, b, out=out)) == 3  # aclrtGetDevice and both phases
    other, _ = tensors(2)
    assert native_calls(emulator, lambda: ops.mm(other, b, out=out)) == 4
    result = ops.mm(other, b)  # is given the memory that the next but one gets
    del result
    assert native_calls(emulator, lambda: ops.mm(other, b)) <= 5
    np.testing.assert_array_equal(out.numpy(), 2 * (X @ X.T))


def test_a_shape_that_comes_once_makes_no_handles_of_its_own(npu: NpuBackend, emulator: Emulator) -> None:
    a, b = tensors()
    result = ops.mm(a, b)
    assert emulator.alive("tensor") == 3 and remembered("aclnnMm") == 0
    del result


# ------------------------------------------------------------------------------------------ streams, devices, threads


@both_ways
def test_two_streams_use_one_remembered_call(npu: NpuBackend) -> None:
    warm()
    streams = [aclnn.Stream(), aclnn.Stream()]
    results = []
    for number in range(12):
        with streams[number % 2]:
            a, b = tensors(number)
            results.append(ops.mm(a, b))
            assert results[-1].storage.writer.handle == streams[number % 2].handle  # type: ignore[attr-defined]
    for number, result in enumerate(results):
        np.testing.assert_array_equal(result.numpy(), number * (X @ X.T))
    assert remembered("aclnnMm") == 1
    for stream in streams:
        stream.close()


def test_two_devices_use_one_remembered_call(npu: NpuBackend) -> None:
    warm()
    for number in range(6):
        with aclnn.Device(number % 2):
            a, b = tensors(number)
            result = ops.mm(a, b)
            assert result.device == number % 2
        np.testing.assert_array_equal(result.numpy(), number * (X @ X.T))
    with pytest.raises(ValueError, match="tensor on device 1 is used on a stream of device 0"):
        ops.mm(a, b)
    a, b = tensors()
    np.testing.assert_array_equal(ops.mm(a, b).numpy(), X @ X.T)


def test_memory_may_be_dropped_while_the_launch_is_queued(npu: NpuBackend) -> None:
    results = []
    for number in range(200):
        a, b = tensors(number)
        results.append(ops.mm(ops.add(a, a, 1), b))  # the sum's memory goes at once
        del a, b
    for number, result in enumerate(results):
        np.testing.assert_array_equal(result.numpy(), 2 * number * (X @ X.T))


@both_ways
def test_threads_share_operators(npu: NpuBackend) -> None:
    wrong: list[str] = []
    start = threading.Barrier(6)

    def work(index: int) -> None:
        with aclnn.use_backend("npu"), aclnn.Device(index % 2):
            stream = aclnn.Stream()
            start.wait(60)
            with stream:
                for number in range(40):
                    a, b = tensors(index * 100 + number)
                    result = ops.mm(a, b)
                    total = ops.add(result, result, 1)
                    if number % 10 == 0:
                        aclnn.empty_cache()
                    if not np.array_equal(total.numpy(), 2 * np.float32(index * 100 + number) * X @ X.T):
                        wrong.append(f"thread {index}, call {number}")
            stream.close()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert remembered("aclnnMm") == remembered("aclnnAdd") == 1


# ------------------------------------------------------------------------------------------ what is kept


def test_the_call_that_was_used_longest_ago_is_forgotten(
    npu: NpuBackend, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "REMEMBERED", 2)

    def call(columns: int) -> None:
        x = aclnn.zeros((1, columns), np.float32)
        for _ in range(WARM):
            ops.add(x, x, 1)

    for columns in (1, 2, 1, 3, 1, 4):
        call(columns)
        gc.collect()
    assert remembered("aclnnAdd") == 2
    shapes = {key[0].size for key in _descriptions("aclnnAdd")}
    assert shapes == {1, 4}
    assert emulator.alive("tensor") == 2 * 3


def _descriptions(name: str) -> list[list[Any]]:
    keys = plan(aclnn.signature(name)).replays
    return [[item for item in key if type(item).__name__ == "Description"] for key in keys]


@both_ways
def test_an_emptied_cache_keeps_no_handles(npu: NpuBackend, emulator: Emulator) -> None:
    warm()
    assert emulator.alive("tensor") == 3
    aclnn.empty_cache()
    assert emulator.alive("tensor") == 0 and remembered("aclnnMm") == 1
    warm(1)
    assert emulator.alive("tensor") == 3


def test_everything_is_released_once_at_exit(emulator_home: Path) -> None:
    program = """
import atexit
import numpy as np
import ascend_aclnn as aclnn
from ascend_aclnn import ops
x, gamma = aclnn.zeros((2, 2), np.float32), aclnn.zeros((2,), np.float32)
for _ in range(4):
    ops.mm(x, x)
    ops.add(x, x, 1)
    ops.rms_norm(x, gamma)
runtime = aclnn.backend().runtime
import ctypes
emulated = ctypes.CDLL(str(aclnn.backend().library_path))
emulated.aclemuLiveCount.restype = ctypes.c_uint64
assert emulated.aclemuLiveCount(b"tensor") >= 10
atexit.unregister(runtime.close)
def end():
    runtime.close()
    print(emulated.aclemuLiveCount(None))
atexit.register(end)
"""
    variables = environment(emulator_home, ASCEND_ACLNN_BACKEND="npu", ASCEND_EMULATOR_STRICT="1")
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["0"], "")


# ------------------------------------------------------------------------------------------ settings and errors


@both_ways
def test_settings_count_in_the_next_call(npu: NpuBackend, emulator: Emulator) -> None:
    """Phase one runs each time: it is where CANN asks for determinism."""
    warm()
    for enabled in (True, False):
        aclnn.set_deterministic(enabled)
        emulator.reset()
        emulator.fail(1, "aclnnMmGetWorkspaceSize")
        with pytest.raises(AclError) as caught:
            warm(1)
        assert caught.value.routine == "aclnnMmGetWorkspaceSize"
        warm(1)


@both_ways
def test_a_fault_is_named_in_blocking_mode(npu: NpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, good = aclnn.asarray(X), aclnn.asarray(np.array([0, 1], np.int32))
    for _ in range(WARM):
        ops.embedding(weight, good)
    monkeypatch.setattr(npu.runtime, "blocking", True)
    with pytest.raises(AclError) as caught:
        ops.embedding(weight, aclnn.asarray(np.array([0, 99], np.int32)))
    assert caught.value.operator == "aclnnEmbedding"
    np.testing.assert_array_equal(ops.embedding(weight, good).numpy(), X)


def test_a_refused_call_is_not_remembered(npu: NpuBackend) -> None:
    a, _ = tensors()
    for _ in range(WARM):
        with pytest.raises(AclError) as caught:
            ops.mm(a, a)
        assert caught.value.argument == "mat2"
    assert remembered("aclnnMm") == 0


@both_ways
@pytest.mark.parametrize("routine", ["aclnnMmGetWorkspaceSize", "aclnnMm", "aclSetRawTensorAddr"])
def test_a_failure_leaves_nothing_and_the_next_call_works(npu: NpuBackend, emulator: Emulator, routine: str) -> None:
    warm()
    a, b = tensors(3)
    keep = ops.mm(a, b)
    emulator.reset()
    emulator.fail(1, routine)
    with pytest.raises(AclError) as caught:
        ops.mm(a, b)
    assert caught.value.routine == routine and caught.value.operator == "aclnnMm"
    assert emulator.alive("executor") == 0 and emulator.alive("tensor") == 0
    np.testing.assert_array_equal(ops.mm(a, b).numpy(), 3 * (X @ X.T))
    del keep


@both_ways
def test_every_native_call_of_a_remembered_call_may_fail_without_a_leak(npu: NpuBackend, emulator: Emulator) -> None:
    def scenario() -> None:
        (a, b), gamma = tensors(), aclnn.asarray(np.ones(3, np.float32))
        for _ in range(WARM + 1):
            ops.rms_norm(ops.mm(ops.mm(a, b), a), gamma)
            ops.mm(X, X.T)

    scenario()
    emulator.reset()
    scenario()
    calls = emulator.calls()
    for nth in range(1, calls + 1):
        aclnn.synchronize()
        emulator.reset()
        emulator.fail(nth)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            with contextlib.suppress(AclError):
                scenario()
        emulator.reset()
    assert_nothing_left()


def test_another_backend_between_calls(npu: NpuBackend) -> None:
    warm()
    a, b = tensors()
    with aclnn.use_backend("numpy"):
        x, y = tensors()
        np.testing.assert_array_equal(ops.mm(x, y).numpy(), X @ X.T)
        with pytest.raises(TypeError, match="Tensor of the npu backend"):
            ops.mm(a, b)
    with pytest.raises(TypeError, match="Tensor of the numpy backend"):
        ops.mm(x, y)
    np.testing.assert_array_equal(ops.mm(a, b).numpy(), X @ X.T)
