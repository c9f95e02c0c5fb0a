"""The device path on the emulated device: streams, events, memory, executors, threads, devices, errors, failures."""

from __future__ import annotations

import ctypes
import gc
import threading
import warnings
from typing import Any, Callable

import numpy as np
import pytest
from emulated_device import Emulator
from live_objects import assert_nothing_left

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops
from ascend_aclnn.backends.npu import waiting
from ascend_aclnn.backends.npu.backend import NpuBackend

X = np.arange(6, dtype=np.float32).reshape(2, 3)
SQUARE = X @ X.T


def tensors() -> tuple[aclnn.Tensor, aclnn.Tensor]:
    return aclnn.asarray(X), aclnn.asarray(np.ascontiguousarray(X.T))


def slow(n: int = 1500) -> aclnn.Tensor:
    """Work that keeps the current stream busy for a while."""
    big = aclnn.asarray(np.ones((n, n), np.float32))
    return ops.mm(big, big)


# ------------------------------------------------------------------------------------------ tensors


def test_values_go_there_and_come_back(npu: NpuBackend) -> None:
    for array in (X, X.astype(np.int64), X > 2, np.zeros((0, 3), np.float16), np.float32(3)):
        np.testing.assert_array_equal(aclnn.asarray(array).numpy(), array)


def test_views_share_memory_and_are_written_alone(npu: NpuBackend) -> None:
    tensor = aclnn.zeros((4, 6), np.int32)
    tensor[1:3, ::2].assign(7)
    expected = np.zeros((4, 6), np.int32)
    expected[1:3, ::2] = 7
    np.testing.assert_array_equal(tensor.numpy(), expected)
    np.testing.assert_array_equal(tensor.T[2:, 1].numpy(), expected.T[2:, 1])


def test_memory_is_reserved_at_the_first_touch(npu: NpuBackend) -> None:
    before = aclnn.memory_info().used
    tensor = aclnn.empty((1 << 20,), np.float32)
    assert aclnn.memory_info().used == before
    tensor.assign(1)
    assert aclnn.memory_info().used >= before + (4 << 20)


def test_the_handle_of_a_tensor_lives_as_long_as_the_tensor(npu: NpuBackend, emulator: Emulator) -> None:
    a, b = aclnn.zeros((2, 7), np.float32), aclnn.zeros((7, 2), np.float32)  # a call that is not remembered yet
    first = ops.mm(a, b)
    alive = emulator.alive("tensor")
    ops.mm(a, b, out=first)
    assert emulator.alive("tensor") == alive == 3
    del a, b, first
    gc.collect()
    assert emulator.alive("tensor") == 0


def test_a_tensor_without_dimensions_has_a_storage_of_one_element(npu: NpuBackend) -> None:
    """As torch_npu describes it."""
    tensor = aclnn.asarray(np.float32(3))
    tensor.storage.use(npu.session.target(None))  # type: ignore[attr-defined]
    undo: list[Any] = []
    pointer = npu.session.handles.tensor(tensor, undo)
    dims, rank = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
    npu.runtime.call("aclGetStorageShape", pointer, ctypes.byref(dims), ctypes.byref(rank))
    assert dims[: rank.value] == [1] and npu.session.handles.view_shape(pointer) == ()
    npu.session.handles._delete_array(ctypes.cast(dims, ctypes.c_void_p))
    for destroy, handle in undo:
        destroy(handle)
    assert ops.add(tensor, tensor, 1).numpy() == 6


def test_a_handle_follows_the_format_that_an_operator_settles(npu: NpuBackend) -> None:
    a = aclnn.asarray(X)
    a.storage.use(npu.session.target(None))  # type: ignore[attr-defined]
    undo: list[Any] = []
    npu.session.handles.shared(a, undo)
    kept = a.handle
    other = a.with_format("NCHW")
    pointer = npu.session.handles.shared(other, undo)
    assert undo and undo[0][1] == pointer and other.handle is None  # only plain ND descriptions are shared
    assert a.handle is kept
    undo[0][0](pointer)


def test_borrowed_memory_is_used_in_place_and_keeps_its_owner(npu: NpuBackend) -> None:
    class Owner:
        pass

    lender = aclnn.asarray(X)
    owner: Any = Owner()
    gone: list[bool] = []
    Owner.__del__ = lambda self: gone.append(True)  # type: ignore[attr-defined]
    tensor = aclnn.Tensor.from_pointer(lender.storage.address, X.shape, np.float32, owner=owner)
    del owner
    view = tensor[1:]
    del tensor
    result = ops.mm(view, aclnn.asarray(np.ascontiguousarray(X.T)))
    np.testing.assert_array_equal(result.numpy(), SQUARE[1:])
    assert not gone
    del view
    aclnn.synchronize()
    aclnn.empty_cache()
    assert gone == [True]


# ------------------------------------------------------------------------------------------ streams and events


def test_a_result_of_one_stream_is_used_on_another_after_an_event(npu: NpuBackend) -> None:
    one, two = aclnn.Stream(), aclnn.Stream()
    a, b = tensors()
    with one:
        slow()
        result = ops.mm(a, b)
        event = one.record_event()
    two.wait_event(event)
    with two:
        again = ops.mm(result, result)
    np.testing.assert_array_equal(again.numpy(), SQUARE @ SQUARE)
    assert event.done() and one.done()
    for owned in (event, one, two):
        owned.close()


def test_the_innermost_stream_is_the_current_one(npu: NpuBackend) -> None:
    outer, inner = aclnn.Stream(), aclnn.Stream()
    a, b = tensors()
    with outer, inner:
        result = ops.mm(a, b)
        assert result.storage.writer.handle == inner.handle  # type: ignore[attr-defined]
    assert ops.mm(a, b).storage.writer.handle == 0  # type: ignore[attr-defined]
    result = ops.mm(a, b, stream=outer)
    assert result.storage.writer.handle == outer.handle  # type: ignore[attr-defined]
    outer.close()
    inner.close()


def test_a_closed_stream_is_refused(npu: NpuBackend) -> None:
    stream = aclnn.Stream()
    stream.close()
    stream.close()
    a, b = tensors()
    with pytest.raises(ValueError, match="closed"):
        ops.mm(a, b, stream=stream)


def test_a_tensor_outlives_the_stream_it_was_made_on(npu: NpuBackend) -> None:
    stream = aclnn.Stream()
    a, b = tensors()
    result = ops.mm(a, b, stream=stream)
    stream.close()
    np.testing.assert_array_equal(result.numpy(), SQUARE)
    np.testing.assert_array_equal(ops.mm(result, result).numpy(), SQUARE @ SQUARE)


def test_a_borrowed_stream_is_used_and_left_alone(npu: NpuBackend, emulator: Emulator) -> None:
    streams = emulator.alive("stream")  # one may stand for the default stream in collectives
    owner = aclnn.Stream()
    borrowed = aclnn.Stream.from_handle(owner.handle)
    a, b = tensors()
    result = ops.mm(a, b, stream=borrowed)
    borrowed.synchronize()
    borrowed.close()
    assert emulator.alive("stream") == streams + 1
    np.testing.assert_array_equal(result.numpy(), SQUARE)
    owner.close()


def test_memory_recorded_on_a_stream_is_not_reused_before_it_has_passed(npu: NpuBackend) -> None:
    stream = aclnn.Stream()
    with stream:
        busy = slow()
    tensor = aclnn.asarray(X)
    address = tensor.storage.address
    tensor.record_stream(stream)
    del tensor
    others = [aclnn.asarray(X) for _ in range(4)]
    assert stream.done() or address not in {other.storage.address for other in others}
    stream.synchronize()
    assert address in {aclnn.asarray(X).storage.address for _ in range(2)} or aclnn.memory_info().used
    del busy
    stream.close()


def test_waiting_gives_up_after_the_timeout(npu: NpuBackend, emulator: Emulator) -> None:
    a, b = tensors()
    ops.mm(a, b).numpy()  # the device has a process
    waits: list[Callable[[], None]] = [
        lambda: aclnn.synchronize(0.001),
        lambda: aclnn.synchronize(0),
        lambda: aclnn.current_stream().synchronize(0.001),
        lambda: aclnn.current_stream().synchronize(0),
        lambda: event.synchronize(0.001),
        lambda: event.synchronize(0),
    ]
    with emulator.stopped():
        result = ops.mm(a, b)
        event = aclnn.current_stream().record_event()
        for wait in waits:
            with pytest.raises(TimeoutError):
                wait()
        assert not event.done()
    aclnn.synchronize(60)
    assert event.done()
    for wait in waits:
        wait()
    event.close()
    np.testing.assert_array_equal(result.numpy(), SQUARE)


def test_events_keep_time(npu: NpuBackend) -> None:
    start, end = aclnn.Event(), aclnn.Event()
    start.record()
    busy = slow()
    end.record()
    end.synchronize()
    assert start.elapsed_ms(end) > 0
    del busy
    start.close()
    end.close()


# ------------------------------------------------------------------------------------------ devices and threads


def test_two_devices_keep_their_own_tensors(npu: NpuBackend) -> None:
    here = aclnn.asarray(X)
    with aclnn.Device(1):
        there, turned = tensors()
        assert there.device == 1 and aclnn.current_stream().device == 1
        result = ops.mm(there, turned)
    np.testing.assert_array_equal(result.numpy(), SQUARE)  # read from a thread whose device is another
    assert here.device == npu.current_device() == 0
    with pytest.raises(ValueError, match="tensor on device 1 is used on a stream of device 0"):
        ops.mm(there, turned)
    with pytest.raises(ValueError, match=r"device 2: this host has 2 device\(s\)"):
        aclnn.Device(2)


def test_a_stream_of_another_device_is_refused(npu: NpuBackend) -> None:
    with aclnn.Device(1):
        stream = aclnn.Stream()
    a, b = tensors()
    with pytest.raises(ValueError, match="stream is of device 1"):
        ops.mm(a, b, stream=stream)
    stream.close()


def test_threads_start_without_a_device_and_work(npu: NpuBackend) -> None:
    results: list[Any] = [None] * 4
    shared_input, turned = tensors()

    def work(index: int) -> None:
        with aclnn.use_backend("npu"), aclnn.Device(index % 2):
            own, own_turned = (shared_input, turned) if index % 2 == 0 else tensors()
            stream = aclnn.Stream()
            with stream:
                for _ in range(25):
                    results[index] = ops.mm(own, own_turned)
            results[index] = results[index].numpy()
            stream.close()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        np.testing.assert_array_equal(result, SQUARE)


def test_threads_that_race_for_a_tensor_get_one_acltensor(npu: NpuBackend) -> None:
    """A second thread that also saw none must not replace, and so destroy, the one that the first is using."""
    tensor = aclnn.asarray(X)
    first = npu.session.handles.shared(tensor, [])
    assert npu.session.handles.shared(tensor, []) == first


def test_a_device_chosen_by_another_component_is_respected(npu: NpuBackend) -> None:
    aclnn.asarray(X)
    with aclnn.Device(1):
        aclnn.asarray(X)  # both devices are in use now
    npu.runtime.call("aclrtSetCurrentContext", npu.runtime.devices[1].context)  # as torch_npu would
    assert npu.current_device() == 1 and aclnn.asarray(X).device == 1
    npu.set_device(0)


def test_the_determinism_switch_reaches_process_and_contexts(npu: NpuBackend) -> None:
    def asked(routine: str) -> int:
        value = ctypes.c_int64(-1)
        npu.runtime.call(routine, 0, ctypes.byref(value))
        return value.value

    for enabled in (True, False):
        aclnn.set_deterministic(enabled)
        assert asked("aclrtGetSysParamOpt") == asked("aclrtCtxGetSysParamOpt") == int(enabled)


# ------------------------------------------------------------------------------------------ memory


def test_the_limit_is_kept_and_lifted(npu: NpuBackend) -> None:
    aclnn.empty_cache()
    aclnn.set_memory_limit(8 << 20)
    try:
        kept = aclnn.zeros((1 << 20,), np.float32)
        with pytest.raises(AclError, match="set_memory_limit") as caught:
            aclnn.zeros((2 << 20,), np.float32)
        assert caught.value.status == 207001
        del kept
        assert aclnn.zeros((1 << 20,), np.float32).numpy()[0] == 0
    finally:
        aclnn.set_memory_limit(None)


def test_an_emptied_cache_is_given_back(npu: NpuBackend, emulator: Emulator) -> None:
    tensor = aclnn.zeros((1 << 20,), np.float32)
    del tensor
    assert aclnn.memory_info().cached > 0
    aclnn.empty_cache()
    assert aclnn.memory_info().cached == 0 and emulator.alive("allocation") == 0


def test_a_full_device_is_asked_again_without_the_cache(npu: NpuBackend, emulator: Emulator) -> None:
    gc.collect()  # what an earlier test has left is not counted here
    aclnn.empty_cache()
    before = emulator.alive("allocation")
    stream = aclnn.Stream()
    with stream:
        tensor = aclnn.zeros((1 << 20,), np.float32)
        del tensor
    emulator.fail(1, "aclrtMallocAlign32", 207001)
    assert aclnn.zeros((1 << 20,), np.float32).numpy()[0] == 0
    assert emulator.failed() == "aclrtMallocAlign32"
    assert emulator.alive("allocation") == before + 1
    stream.close()


# ------------------------------------------------------------------------------------------ executors


def test_a_one_shot_executor_runs_once(npu: NpuBackend, emulator: Emulator) -> None:
    a, b = tensors()
    out = aclnn.empty((2, 2), np.float32)
    executor = aclnn.Executor("aclnnMm", a, b, out, 0)
    assert not executor.repeatable and executor.workspace_size >= 0
    executor.run()
    np.testing.assert_array_equal(out.numpy(), SQUARE)
    with pytest.raises(RuntimeError, match="has run"):
        executor.run()
    executor.close()
    executor.close()
    assert emulator.alive("executor") == 0


def test_an_executor_that_never_runs_is_freed(npu: NpuBackend, emulator: Emulator) -> None:
    a, b = tensors()
    for repeatable in (False, True):
        executor = aclnn.Executor("aclnnMm", a, b, aclnn.empty((2, 2), np.float32), 0, repeatable=repeatable)
        assert emulator.alive("executor") == 1
        del executor
        gc.collect()
        assert emulator.alive("executor") == 0


def test_a_repeatable_executor_runs_often_and_on_several_streams(npu: NpuBackend) -> None:
    a, b = tensors()
    out = aclnn.empty((2, 2), np.float32)
    stream = aclnn.Stream()
    with aclnn.Executor("aclnnMm", a, b, out, 0, repeatable=True) as executor:
        assert executor.repeatable
        for factor in (1, 2, 3):
            a.assign(X * factor)
            executor.run(stream if factor == 2 else None)
            np.testing.assert_array_equal(out.numpy(), SQUARE * factor)
    with pytest.raises(RuntimeError, match="closed"):
        executor.run()
    stream.close()


def test_a_repeatable_executor_takes_other_memory(npu: NpuBackend) -> None:
    a, b = tensors()
    first, second = aclnn.empty((2, 2), np.float32), aclnn.empty((2, 2), np.float32)
    operator = aclnn.signature("aclnnMm")
    prepared = npu.prepare(operator, [a, b, first, 0], True)
    prepared.run()
    prepared.replace(2, second)
    prepared.replace(0, aclnn.asarray(X * 2))
    prepared.run()
    np.testing.assert_array_equal(first.numpy(), SQUARE)
    np.testing.assert_array_equal(second.numpy(), SQUARE * 2)
    with pytest.raises(ValueError, match="only the memory may differ"):
        prepared.replace(0, aclnn.asarray(X.T.copy()))
    prepared.close()


def test_the_slots_of_arrays_count_when_memory_is_exchanged(npu: NpuBackend) -> None:
    keys, values = (np.random.default_rng(n).random((2, 16, 32)).astype(np.float16) for n in (1, 2))
    query = aclnn.asarray(np.ones((1, 1, 32), np.float16))
    pages = [aclnn.asarray(np.array([order], np.int32)) for order in ([0, 1], [1, 0])]
    wanted = ops.incre_flash_attention_v4(
        query, [keys], [values], atten_mask=None, actual_seq_lengths=[20], blocktable=pages[1], inner_precise=1,
        num_heads=2, scale_value=0.25, input_layout="BSH", num_key_value_heads=2, block_size=16,
    )  # fmt: skip
    operator, out = aclnn.signature("aclnnIncreFlashAttentionV4"), aclnn.empty((1, 1, 32), np.float16)
    cache = [[aclnn.asarray(a)] for a in (keys, values)]
    nothing = [None] * 7
    arguments = [query, *cache, None, None, [20], *nothing, pages[0], None, 2, 0.25, "BSH", 2, 16, 1, out]
    prepared = npu.prepare(operator, arguments, True)
    prepared.run()
    prepared.replace(operator.positions["blocktable"], pages[1])
    prepared.run()
    np.testing.assert_array_equal(out.numpy(), wanted.numpy())
    prepared.close()


def test_the_slots_of_scalars_and_members_count_when_memory_is_exchanged(npu: NpuBackend) -> None:
    x, outs = ([aclnn.asarray(np.full(2, n, np.float32)) for n in (1, 2)] for _ in range(2))
    operator = aclnn.signature("aclnnForeachPowScalarAndTensor")
    prepared = npu.prepare(operator, [aclnn.Scalar(2.0, np.float32), x, outs], True)
    prepared.run()
    prepared.replace(1, aclnn.asarray(np.full(2, 3, np.float32)), 1)
    prepared.replace(1, aclnn.asarray(np.full(2, 4, np.float32)), 0)
    prepared.run()
    assert [out.numpy().tolist() for out in outs] == [[16, 16], [8, 8]]
    prepared.close()


def test_null_lists_hold_no_slot_when_memory_is_exchanged(npu: NpuBackend) -> None:
    x, weight = aclnn.asarray(np.eye(4, dtype=np.float16)), aclnn.asarray(np.ones((2, 4, 4), np.float16))
    groups = [aclnn.asarray(np.array(ends, np.int64)) for ends in ([1, 4], [0, 3])]
    operator, out = aclnn.signature("aclnnGroupedMatmulV4"), aclnn.zeros((4, 4), np.float16)
    nothing = [None] * 6
    prepared = npu.prepare(
        operator, [[x], [weight], *nothing, groups[0], None, None, None, 3, 0, 0, 0, [out], None, None], True
    )
    prepared.run()
    prepared.replace(operator.positions["groupListOptional"], groups[1])
    prepared.run()
    prepared.close()


def test_phase_one_is_repeated_where_it_is_not_known_how_tensors_count(npu: NpuBackend, emulator: Emulator) -> None:
    rows, order = aclnn.asarray(X), aclnn.asarray(np.array([1, 0], np.int32))
    operator, out = aclnn.signature("aclnnMoeTokenUnpermute"), aclnn.empty((2, 3), np.float32)
    assert not operator.knows_tensor_indices
    prepared = npu.prepare(operator, [rows, order, None, False, None, out], True)
    prepared.run()
    emulator.fail(1, "aclSetInputTensorAddr")
    prepared.replace(0, aclnn.asarray(X * 2))
    assert not emulator.failed() and emulator.alive("executor") == 1
    prepared.run()
    assert prepared.repeatable
    np.testing.assert_array_equal(out.numpy(), X[::-1] * 2)
    prepared.close()


def test_a_repeatable_executor_keeps_canns_fast_path(npu: NpuBackend, emulator: Emulator) -> None:
    emulator.reset()
    a, b, out = aclnn.zeros((3, 17), np.float32), aclnn.zeros((17, 5), np.float32), aclnn.empty((3, 5), np.float32)
    with aclnn.Executor("aclnnMm", a, b, out, 0, repeatable=True) as executor:
        for _ in range(4):
            executor.run()
    assert emulator.fast_runs() == 3
    ops.mm(a, b)  # CANN keeps the executor of this call in its cache, and does not let it be repeated
    with aclnn.Executor("aclnnMm", a, b, out, 0, repeatable=True) as executor:
        for _ in range(4):
            executor.run()
    assert emulator.fast_runs() == 3


def test_others_allocate_while_phase_one_of_a_repeatable_executor_runs(
    npu: NpuBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Phase one may load kernels, which takes long."""
    a, b = tensors()
    out = aclnn.empty((2, 2), np.float32)
    plan = npu.launcher.plan(aclnn.signature("aclnnMm"))
    native, running, go = plan.phase_one, threading.Event(), threading.Event()

    def slow_phase_one(*arguments: Any) -> int:
        running.set()
        assert go.wait(120)
        return int(native(*arguments))

    def make() -> None:
        with aclnn.use_backend("npu"):
            aclnn.Executor("aclnnMm", a, b, out, 0, repeatable=True).close()

    def allocate() -> None:
        with aclnn.use_backend("npu"):
            aclnn.zeros((1 << 20,), np.float32)

    monkeypatch.setattr(plan, "phase_one", slow_phase_one)
    threads = [threading.Thread(target=target) for target in (make, allocate)]
    threads[0].start()
    assert running.wait(60)
    threads[1].start()
    threads[1].join(60)
    waited = threads[1].is_alive()
    go.set()
    for thread in threads:
        thread.join()
    assert not waited


def test_where_cann_repeats_nothing_phase_one_is_repeated(
    npu: NpuBackend, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = tensors()
    out = aclnn.empty((2, 2), np.float32)
    monkeypatch.setattr(npu.session, "set_repeatable", lambda executor: 561000)
    with aclnn.Executor("aclnnMm", a, b, out, 0, repeatable=True) as executor:
        assert not executor.repeatable and emulator.alive("executor") == 0
        for factor in (1, 2, 3):
            a.assign(X * factor)
            executor.run()
            np.testing.assert_array_equal(out.numpy(), SQUARE * factor)


def test_an_executor_keeps_its_tensors(npu: NpuBackend) -> None:
    out = aclnn.empty((2, 2), np.float32)
    executor = aclnn.Executor("aclnnMm", *tensors(), out, 0, repeatable=True)
    gc.collect()
    others = [aclnn.asarray(np.zeros_like(X)) for _ in range(4)]
    executor.run()
    np.testing.assert_array_equal(out.numpy(), SQUARE)
    del others
    executor.close()


# ------------------------------------------------------------------------------------------ errors


def test_a_refusal_names_the_argument_and_cleans_up(npu: NpuBackend, emulator: Emulator) -> None:
    a, _ = tensors()
    with pytest.raises(AclError) as caught:
        ops.mm(a, a)
    error = caught.value
    assert (error.status, error.operator, error.argument) == (161002, "aclnnMm", "mat2")
    assert error.routine == "aclnnMmGetWorkspaceSize" and "mat2" in error.detail
    assert emulator.alive("executor") == 0


def test_missing_kernels_are_explained(npu: NpuBackend, emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_OPP_PATH", raising=False)
    emulator.fail(1, "aclnnMmGetWorkspaceSize", 561107)
    with pytest.raises(AclError, match=r"ASCEND_OPP_PATH, which is not set\n.*\n  to do: source <CANN>/set_env\.sh"):
        ops.mm(*tensors())


def test_a_null_pointer_is_passed_on(npu: NpuBackend) -> None:
    with pytest.raises(AclError) as caught:
        aclnn.Executor("aclnnMm", None, None, None, 0)
    assert caught.value.status == 161001


def test_a_late_fault_lists_what_was_launched(npu: NpuBackend) -> None:
    weight, bad = aclnn.asarray(X), aclnn.asarray(np.array([0, 99], np.int32))
    result = ops.embedding(weight, bad)
    with pytest.raises(AclError) as caught:
        result.numpy()
    assert caught.value.operator is None
    assert "aclnnEmbedding" in caught.value.detail and "ASCEND_ACLNN_BLOCKING" in caught.value.detail
    good = ops.embedding(weight, aclnn.asarray(np.array([1, 0], np.int32)))
    np.testing.assert_array_equal(good.numpy(), X[[1, 0]])


def test_a_fault_after_the_launch_is_named_in_blocking_mode(npu: NpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npu.runtime, "blocking", True)
    with pytest.raises(AclError) as caught:
        ops.embedding(aclnn.asarray(X), aclnn.asarray(np.array([0, 99], np.int32)))
    assert caught.value.operator == "aclnnEmbedding"


def scenario() -> np.ndarray:
    """One of everything: copies, operators on two streams, an event, a list, an executor."""
    a, b = tensors()
    stream, event = aclnn.Stream(), aclnn.Event()
    try:
        result = ops.mm(a, b)
        event.record()
        stream.wait_event(event)
        with stream:
            again = ops.mm(result, result)
        with aclnn.Executor("aclnnMm", a, b, result, 0, repeatable=True) as executor:
            executor.run()
            executor.run(stream)
        with aclnn.Executor("aclnnMm", a, b, result, 0) as executor:
            executor.run()
        result.record_stream(stream)
        return again.numpy()
    finally:
        stream.close()
        event.close()


@pytest.mark.aclnn_findings("sync/*")  # nothing orders its two streams, whose results are equal
def test_every_native_call_may_fail_without_a_leak(
    npu: NpuBackend, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    # each wait asks once, so that the number of calls does not depend on time
    monkeypatch.setattr(waiting, "_ask", lambda passed, start, seconds: passed() or True)
    expected = scenario()
    assert_nothing_left()
    emulator.reset()
    scenario()
    calls = emulator.calls()
    assert calls > 50
    seen = set()
    for nth in range(1, calls + 1):
        assert_nothing_left()
        emulator.reset()
        emulator.fail(nth)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # what is said when giving something back fails
            try:
                np.testing.assert_array_equal(scenario(), expected)
                failure = None
            except AclError as error:
                failure = str(error)
        failed = emulator.failed()
        emulator.reset()
        seen.add(failed)
        assert failed, f"call {nth} of {calls} was not reached"
        assert failure is None or failed in failure
    np.testing.assert_array_equal(scenario(), expected)
    assert seen > {"aclCreateTensor", "aclnnMmGetWorkspaceSize", "aclnnMm", "aclrtMemcpy", "aclrtStreamWaitEvent"}


def test_a_list_that_cannot_be_made_leaks_no_member(npu: NpuBackend, emulator: Emulator) -> None:
    operator = aclnn.signature("aclnnForeachAbs")
    inputs, outputs = [aclnn.asarray(X), aclnn.asarray(X)], [aclnn.asarray(X), aclnn.asarray(X)]
    for nth in range(1, 5):
        emulator.fail(nth, "aclCreateTensor")
        with pytest.raises(AclError, match="aclCreateTensor"):
            npu.prepare(operator, [inputs, outputs], False)
        emulator.reset()
        assert emulator.alive("tensor") == 0
    for nth in (1, 2):
        emulator.fail(nth, "aclCreateTensorList")
        with pytest.raises(AclError, match="aclCreateTensorList"):
            npu.prepare(operator, [inputs, outputs], False)
        emulator.reset()
        assert emulator.alive("tensor") == emulator.alive("tensor_list") == 0


# ------------------------------------------------------------------------------------------ the rest


def test_dlpack_shares_device_memory(npu: NpuBackend) -> None:
    tensor = aclnn.asarray(X)

    class Producer:
        def __dlpack_device__(self) -> tuple[int, int]:
            return tensor.T.__dlpack_device__()

        def __dlpack__(self, **options: Any) -> Any:
            return tensor.T.__dlpack__(**options)

    assert Producer().__dlpack_device__() == (12, 0)
    other = aclnn.from_dlpack(Producer())
    assert other.strides == (1, 3)
    np.testing.assert_array_equal(other.numpy(), X.T)
    tensor.assign(5)
    np.testing.assert_array_equal(other.numpy(), np.full((3, 2), 5))
    np.testing.assert_array_equal(ops.mm(tensor, other).numpy(), np.full((2, 2), 75))
    with pytest.raises(BufferError, match="asarray"):
        aclnn.from_dlpack(np.ones(3))


def test_dlpack_copies_to_the_host_when_asked(npu: NpuBackend) -> None:
    tensor = aclnn.asarray(X)

    class Consumer:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **options: Any) -> Any:
            return tensor.__dlpack__(dl_device=(1, 0))

    np.testing.assert_array_equal(np.from_dlpack(Consumer()), X)


def test_the_view_shape_is_read_back_and_the_description_let_go(npu: NpuBackend) -> None:
    a, b = tensors()
    result = ops.mm(a, b)
    assert npu.view_shape(result) == (2, 2)
    assert result.handle is None
    assert npu.view_shape(result) == (2, 2)


def test_a_finalizer_in_a_guarded_section_waits_until_it_is_over(npu: NpuBackend, emulator: Emulator) -> None:
    streams = emulator.alive("stream")  # one may stand for the default stream in collectives
    stream, event, tensor = aclnn.Stream(), aclnn.Event(), aclnn.asarray(X)
    tensor.record_stream(stream)
    with npu.runtime.lock:  # as in the allocator, where the garbage collector may run anything
        del tensor
        stream.close()
        event.close()
        assert emulator.alive("stream") == streams + 1
    aclnn.synchronize()
    assert emulator.alive("stream") == streams


def test_the_library_of_an_operator_can_be_asked_for(npu: NpuBackend) -> None:
    assert npu.operator_library(aclnn.signature("aclnnMm")).name == "libopapi.so"
    assert npu.library_path.name == "libascendcl.so" and npu.soc == "Ascend910B1"


# ------------------------------------------------------------------------------------------ CANN's cache of executors


def test_an_earlier_call_does_not_cost_the_repetition(npu: NpuBackend) -> None:
    a, b = tensors()
    out = ops.mm(a, b)  # CANN keeps the executor of this call in its cache
    with aclnn.Executor("aclnnMm", a, b, out, 0, repeatable=True) as executor:
        assert executor.repeatable
        executor.run()
    np.testing.assert_array_equal(out.numpy(), SQUARE)


def test_a_cached_executor_is_not_repeatable_and_runs_often_all_the_same(
    npu: NpuBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npu.session, "_executor_cache", None)  # a CANN that does not export the key of its cache
    a, b = tensors()
    out = ops.mm(a, b)
    with aclnn.Executor("aclnnMm", a, b, out, 0, repeatable=True) as executor:
        assert not executor.repeatable
        for _ in range(3):
            out.assign(0)
            executor.run()
            np.testing.assert_array_equal(out.numpy(), SQUARE)


def test_an_executor_that_runs_once_outlives_the_thread_that_made_it(npu: NpuBackend, emulator: Emulator) -> None:
    a, b = tensors()
    out = aclnn.empty((2, 2), np.float32)
    made: list[Any] = []

    def make() -> None:
        with aclnn.use_backend("npu"):
            made.append(aclnn.Executor("aclnnMm", a, b, out, 0))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert emulator.alive("executor") == 0  # given back with the thread
    made[0].run()
    np.testing.assert_array_equal(out.numpy(), SQUARE)
    with pytest.raises(RuntimeError, match="has run"):
        made[0].run()
    made.clear()


def test_an_executor_of_another_living_thread_runs_once(npu: NpuBackend, emulator: Emulator) -> None:
    a, b = tensors()
    out = aclnn.empty((2, 2), np.float32)
    executor = aclnn.Executor("aclnnMm", a, b, out, 0)
    thread = threading.Thread(target=executor.run)
    thread.start()
    thread.join()
    np.testing.assert_array_equal(out.numpy(), SQUARE)
    executor.close()
    assert emulator.alive("executor") == 0
