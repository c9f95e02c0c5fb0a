"""Tensors, streams and events: views, data movement, borrowed memory, DLPack, memory limits, on every backend."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, DataType, Format, Tensor, ops
from ascend_aclnn.backends.interface import Backend

ARRAY = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_what_it_is(each_backend: Backend) -> None:
    t = aclnn.asarray(ARRAY)
    assert (t.shape, t.dtype, t.strides, t.offset) == ((2, 3, 4), DataType.FLOAT, (12, 4, 1), 0)
    assert (t.format, t.storage_shape, t.nbytes, t.device) == (Format.ND, (2, 3, 4), 96, 0)
    assert (t.ndim, t.size, len(t), t.is_contiguous) == (3, 24, 2, True)
    assert t.data_ptr != 0 and "FLOAT" in repr(t)


@pytest.mark.parametrize("name", ["shape", "strides", "offset", "dtype"])
def test_what_describes_a_tensor_is_read_only(name: str) -> None:
    t = aclnn.asarray(ARRAY)
    with pytest.raises(AttributeError):
        setattr(t, name, getattr(t[0], name))
    assert t.size == 24  # follows from the description, which all tensors that are alike share


@pytest.mark.parametrize(
    "index",
    [0, -1, slice(1, None), (slice(None), 1), (..., 2), (0, ..., slice(1, 3)), (None, 1), (slice(None), slice(0, 3, 2)),
     slice(5, 5)],
)  # fmt: skip
def test_indexing_gives_views(each_backend: Backend, index: Any) -> None:
    t = aclnn.asarray(ARRAY)
    view = t[index]
    assert view.shape == ARRAY[index].shape
    assert view.numpy().tolist() == ARRAY[index].tolist()
    if view.size:
        view.assign(-1)
        expected = ARRAY.copy()
        expected[index] = -1
        assert t.numpy().tolist() == expected.tolist()


def test_alike_tensors_share_what_follows_from_their_description(each_backend: Backend) -> None:
    x, y = aclnn.zeros((4, 6), np.float32), aclnn.zeros((4, 6), np.float32)
    assert x.description is y.description and x[1:].description is y[1:].description
    others = [x[1:3], x.T, x[:, ::2], aclnn.zeros((4, 6), np.int32), x.with_format("FRACTAL_NZ"), x.reshape(6, 4)]
    assert len({id(tensor.description) for tensor in [x, *others]}) == 7
    view = x[1:, ::2]
    assert (view.size, view.nbytes, view.span, view.is_contiguous) == (9, 36, (6, 23), False)
    view.set_shape((2, 2))
    assert (view.size, view.span, view.strides, view.is_contiguous) == (4, (6, 10), (2, 1), True)


def test_transposing_and_reshaping(each_backend: Backend) -> None:
    t = aclnn.asarray(ARRAY)
    assert t.T.numpy().tolist() == ARRAY.T.tolist()
    assert t.transpose(1, 0, 2).numpy().tolist() == ARRAY.transpose(1, 0, 2).tolist()
    assert t.reshape(6, -1).numpy().tolist() == ARRAY.reshape(6, 4).tolist()
    with pytest.raises(ValueError, match="is not contiguous; reshape its copy"):
        t.T.reshape(24)
    with pytest.raises(ValueError, match="cannot reshape"):
        t.reshape(5, -1)
    with pytest.raises(ValueError, match="not a permutation"):
        t.transpose(0, 0, 1)


def test_wrong_indices(each_backend: Backend) -> None:
    t = aclnn.asarray(ARRAY)
    with pytest.raises(IndexError, match="index 2 is out of bounds for axis 0 with size 2"):
        t[2]
    with pytest.raises(IndexError, match="4 indices for a tensor of rank 3"):
        t[0, 0, 0, 0]
    with pytest.raises(ValueError, match="positive step"):
        t[::-1]


@pytest.mark.parametrize("dtype", [d for d in DataType if d.numpy is not None and not d.packed], ids=lambda d: d.name)
def test_every_dtype_travels(each_backend: Backend, dtype: DataType) -> None:
    values = np.array([0, 1, 1, 0, 1]).astype(dtype.numpy)
    t = aclnn.asarray(values)
    assert t.dtype is dtype and t.nbytes == values.nbytes
    assert t.numpy().tobytes() == values.tobytes()


def test_packed_dtypes_are_packed_on_the_device(each_backend: Backend) -> None:
    values = np.array([-8, -1, 0, 3, 7], ml_dtypes.int4)
    t = aclnn.asarray(values)
    assert t.dtype is DataType.INT4 and t.nbytes == 3
    assert t.storage.read(0, 3).tolist() == [0xF8, 0x30, 0x07]  # the first element in the low bits
    assert t.numpy().astype(int).tolist() == [-8, -1, 0, 3, 7]


def test_numpy_is_a_copy(each_backend: Backend) -> None:
    t = aclnn.asarray(ARRAY)
    t.numpy()[...] = 7
    assert t.numpy().tolist() == ARRAY.tolist()
    assert np.asarray(t).tolist() == ARRAY.tolist()
    assert np.asarray(t, np.float64).dtype == np.float64


def test_zero_dimensional_and_empty(each_backend: Backend) -> None:
    assert aclnn.asarray(np.float32(3)).numpy().tolist() == 3
    assert aclnn.asarray(np.empty((0, 4), np.float32)).numpy().shape == (0, 4)
    with pytest.raises(TypeError, match="0-d"):
        len(aclnn.asarray(np.float32(3)))


def test_formats(each_backend: Backend) -> None:
    assert aclnn.empty((1, 2, 3, 4), np.float32, format="NCHW").format is Format.NCHW
    assert aclnn.empty((2, 2), np.float32, format=Format.FRACTAL_NZ, storage_shape=(1, 1, 16, 16)).storage_shape == (
        1,
        1,
        16,
        16,
    )
    with pytest.raises(ValueError, match="unknown format 'NCWH'"):
        aclnn.empty((1,), np.float32, format="NCWH")
    with pytest.raises(ValueError, match="strides \\(1, 1\\) have 2 items; shape \\(1,\\) needs 1"):
        aclnn.empty((1,), np.float32, strides=(1, 1))


def test_strides_and_offset_count_elements(each_backend: Backend) -> None:
    t = aclnn.empty((2, 2), np.float32, strides=(1, 2), offset=3)
    t.assign([[1, 2], [3, 4]])
    assert t.numpy().tolist() == [[1, 2], [3, 4]]
    assert t.data_ptr == t.storage.address + 12


def test_borrowed_memory(each_backend: Backend) -> None:
    base = aclnn.asarray(ARRAY)
    t = Tensor.from_pointer(base.storage.address, (3, 4), np.float32, offset=12, owner=base)
    assert t.numpy().tolist() == ARRAY[1].tolist()
    assert ops.mm(t, t.T).numpy().tolist() == (ARRAY[1] @ ARRAY[1].T).tolist()
    del base
    gc.collect()
    assert t.numpy().tolist() == ARRAY[1].tolist()  # the owner lives as long as the tensor


def test_dlpack_round_trip(each_backend: Backend) -> None:
    t = aclnn.asarray(ARRAY)[:, 1]
    back = aclnn.from_dlpack(t)
    assert back.numpy().tolist() == ARRAY[:, 1].tolist()
    back.assign(0)
    assert t.numpy().tolist() == np.zeros((2, 4)).tolist()  # the same memory


def test_dlpack_with_numpy() -> None:
    with aclnn.use_backend("numpy"):
        host = ARRAY.copy()
        t = aclnn.from_dlpack(host)
        host[0, 0, 0] = 42
        assert t.numpy()[0, 0, 0] == 42
        assert np.from_dlpack(t).tolist() == host.tolist()


def test_torch_without_torch_npu_is_told_that_it_cannot_use_an_npu_s_memory(emulator_home: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    text = """
import torch
import ascend_aclnn as aclnn
x = aclnn.ones(3)
assert aclnn.backend().name == "npu"
try:
    torch.from_dlpack(x)
except BufferError as error:
    print(error)
print(torch.from_numpy(x.numpy()).tolist())
"""
    environment = {
        **os.environ,
        "ASCEND_HOME_PATH": str(emulator_home),
        "ASCEND_ACLNN_BACKEND": "npu",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    result = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert "torch.from_numpy(x.numpy())" in first and second == "[1.0, 1.0, 1.0]" and not result.stderr


@pytest.mark.parametrize("name", ["bfloat16", "int4"])  # of float8 NumPy writes files that it cannot read
def test_bytes_of_npy_files_are_elements_once_their_type_is_named(name: str, tmp_path: Path) -> None:
    array = np.array([1, -2, 3]).astype(getattr(ml_dtypes, name))
    np.save(tmp_path / "x.npy", array)
    loaded = np.load(tmp_path / "x.npy")
    assert loaded.dtype.kind == "V"
    with aclnn.use_backend("numpy"):
        assert aclnn.asarray(loaded, name).numpy().tolist() == array.tolist()
        with pytest.raises(TypeError, match=r'name the data type: asarray\(x, "bfloat16"\)'):
            aclnn.asarray(loaded)


def test_a_tensor_keeps_its_dtype() -> None:
    with aclnn.use_backend("numpy"):
        t = aclnn.asarray(ARRAY)
        assert aclnn.asarray(t) is t
        with pytest.raises(TypeError, match="the tensor is FLOAT, not FLOAT16"):
            aclnn.asarray(t, np.float16)


def test_streams_order_work(each_backend: Backend) -> None:
    a = aclnn.asarray(np.full((64, 64), 0.5, np.float32))
    first, second = aclnn.Stream(), aclnn.Stream()
    with first:
        assert aclnn.current_stream() is first
        b = ops.mm(a, a)
        mark = first.record_event()
    second.wait_event(mark)
    c = ops.mm(b, a, stream=second)
    b.record_stream(second)
    assert c.numpy()[0, 0] == 64 * 64 * 0.125
    second.synchronize()
    assert first.done() and mark.done()
    assert aclnn.current_stream() is not first


def test_events_keep_time(each_backend: Backend) -> None:
    start, end = aclnn.Event(), aclnn.Event()
    start.record()
    ops.mm(aclnn.asarray(np.ones((128, 128), np.float32)), np.ones((128, 128), np.float32))
    end.record()
    end.synchronize(timeout=30)
    assert 0 <= start.elapsed_ms(end) < 60_000


def test_memory_limit(each_backend: Backend) -> None:
    gc.collect()
    aclnn.empty_cache()
    used = aclnn.memory_info().used
    aclnn.set_memory_limit(used + (64 << 20))
    try:
        with pytest.raises(AclError, match=r"asked for|memory") as caught:
            aclnn.zeros((128 << 20,), np.uint8)
        assert caught.value.status == 207001
        assert aclnn.zeros((1 << 20,), np.uint8).numpy().sum() == 0
    finally:
        aclnn.set_memory_limit(None)
    gc.collect()
    assert aclnn.memory_info().used == used
    assert 0 < aclnn.memory_info().free <= aclnn.memory_info().total


def test_devices(each_backend: Backend) -> None:
    with aclnn.Device(0) as device:
        device.synchronize(timeout=30)
        assert device.memory_info().total > 0
    with pytest.raises(ValueError, match="device 99"):
        aclnn.Device(99)


def test_threads(each_backend: Backend) -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            with aclnn.use_backend(each_backend.name):
                x = np.random.default_rng(seed).standard_normal((32, 64)).astype(np.float32)
                for _ in range(20):
                    y = ops.mm(aclnn.asarray(x), x.T).numpy()
                    np.testing.assert_allclose(y, x @ x.T, rtol=1e-4, atol=1e-4)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures, failures


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_view_reads_and_writes_like_numpy(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    with aclnn.use_backend("numpy"):
        tensor, expected = aclnn.asarray(array), array.copy()
        view, host = tensor, expected
        for _ in range(data.draw(st.integers(1, 3))):
            if host.ndim and data.draw(st.booleans()):
                order = data.draw(st.permutations(range(host.ndim)))
                view, host = view.transpose(*order), host.transpose(order)
            elif host.ndim:
                step = data.draw(st.integers(1, 3))
                start = data.draw(st.integers(0, 4))
                view, host = view[start::step], host[start::step]
        assert view.shape == host.shape and view.numpy().tolist() == host.tolist()
        view.assign(-5)
        host[...] = -5
        assert tensor.numpy().tolist() == expected.tolist()


def test_views_of_blocks_are_refused_and_name_the_remedy() -> None:
    """Strides do not tell where an element of a private format is."""
    with aclnn.use_backend("numpy"):
        tensor = aclnn.asarray(np.arange(1024, dtype=np.float16).reshape(32, 32), format="FRACTAL_NZ")
        remedy = r"keeps its elements in blocks; \w+ its copy in ND, asarray\(tensor.numpy\(\)\)"
        for take in (lambda: tensor[:16], lambda: tensor[0], lambda: tensor.reshape(-1), lambda: list(tensor)):
            with pytest.raises(ValueError, match=remedy):
                take()
        with pytest.raises(ValueError, match=remedy):
            tensor.view((16,), (1,), 0)
        np.testing.assert_array_equal(aclnn.asarray(tensor.numpy())[1].numpy(), np.arange(32, 64))
