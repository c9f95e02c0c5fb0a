"""Python's operators, indexing and conversions of Tensors, against NumPy on both backends."""

from __future__ import annotations

import copy
import operator
import pickle
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import DataType, Tensor, ops
from ascend_aclnn.backends.interface import Backend

A = np.array([[1.5, -2.0, 3.25], [4.0, 0.5, -6.0]], np.float32)
B = np.array([[2.0, 0.5, -1.0], [4.0, 3.0, 2.0]], np.float32)
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("function", [*ARITHMETIC, *COMPARISONS], ids=lambda f: f.__name__)
def test_operators_are_numpys(each_backend: Backend, function: Any) -> None:
    a, b = aclnn.asarray(A), aclnn.asarray(B)
    for left, right, expected in (
        (a, b, function(A, B)),
        (a, B, function(A, B)),
        (A, b, function(A, B)),
        (a, 2.0, function(A, np.float32(2))),
        (2.0, a, function(np.float32(2), A)),
    ):
        result = function(left, right)
        assert isinstance(result, Tensor)
        np.testing.assert_array_equal(result.numpy(), expected)


def test_integers_and_powers(each_backend: Backend) -> None:
    n = np.array([7, -7, 5], np.int32)
    t = aclnn.asarray(n)
    assert (t // 2).tolist() == [3, -4, 2] and (t % 3).tolist() == [1, 2, 2]
    assert (t & 3).tolist() == (n & 3).tolist() and (3 | t).tolist() == (n | 3).tolist()
    assert (~t).tolist() == (~n).tolist() and (-t).tolist() == [-7, 7, -5] and abs(t).tolist() == [7, 7, 5]
    assert (aclnn.asarray(B) ** 2).tolist() == (B**2).tolist()
    assert (2 ** aclnn.asarray([1.0, 3.0])).tolist() == [2.0, 8.0]
    np.testing.assert_allclose((aclnn.asarray(A) @ aclnn.asarray(B.T.copy())).numpy(), A @ B.T, rtol=1e-6)


def test_equality_is_elementwise_or_an_error(each_backend: Backend) -> None:
    t = aclnn.asarray(A)
    assert (t == t.copy()).numpy().all() and hash(t) == hash(t) and t in {t: 1}
    for other in (None, "text", object()):
        with pytest.raises(TypeError, match="cannot be compared"):
            t == other  # noqa: B015
        with pytest.raises(TypeError, match="cannot be compared"):
            t != other  # noqa: B015
    with pytest.raises(TypeError):
        t < "text"  # noqa: B015
    with pytest.raises(ValueError, match="truth of a tensor of 6 elements"):
        bool(t == t)


def test_numpy_functions_refuse_tensors(each_backend: Backend) -> None:
    with pytest.raises(TypeError):
        np.add(aclnn.asarray(A), 1)
    assert np.asarray(aclnn.asarray(A)).tolist() == A.tolist()


def test_indexing_by_masks_and_arrays(each_backend: Backend) -> None:
    t = aclnn.asarray(A)
    assert t[t > 0].tolist() == A[A > 0].tolist() and t[A > 0].tolist() == A[A > 0].tolist()
    assert t[[1, 0, 1]].tolist() == A[[1, 0, 1]].tolist()
    assert t[aclnn.asarray(np.array([1], np.int64))].tolist() == A[[1]].tolist()
    assert t[[0, 1], [2, 0]].tolist() == A[[0, 1], [2, 0]].tolist()
    assert t[[1, 0], 2].tolist() == A[[1, 0], 2].tolist() and t[-1, [0, 1]].tolist() == A[-1, [0, 1]].tolist()
    assert t[np.int64(1)].tolist() == A[1].tolist()
    for index, text in (
        ((slice(None), [0, 1]), "index in two steps"),
        (np.ones(2, bool), "one mask of the tensor's shape"),
        ([0.5], "must be BOOL, INT64 or INT32"),
        ("x", "must be an integer, a slice"),
    ):
        with pytest.raises(IndexError, match=text):
            t[index]


def test_values_on_the_host(each_backend: Backend) -> None:
    one = aclnn.asarray(np.array([2.5], np.float32))
    assert one.item() == 2.5 and float(one) == 2.5 and int(one) == 2 and complex(one) == 2.5
    assert aclnn.asarray(A).tolist() == A.tolist() and aclnn.asarray(A).cpu().tolist() == A.tolist()
    with pytest.raises(ValueError, match=r"one element; the shape is \(2, 3\)"):
        aclnn.asarray(A).item()


def test_shapes_take_sequences(each_backend: Backend) -> None:
    t = aclnn.asarray(A)
    assert (
        t.reshape((3, 2)).tolist()
        == t.reshape(3, 2).tolist()
        == t.reshape([3, -1]).tolist()
        == A.reshape(3, 2).tolist()
    )
    assert t.transpose((1, 0)).tolist() == t.transpose(1, 0).tolist() == t.T.tolist() == A.T.tolist()
    assert t.transpose(-1, 0).shape == (3, 2)
    with pytest.raises(ValueError, match="not a permutation"):
        t.transpose(0, 2)
    with pytest.raises(ValueError, match="reshape its copy"):
        t.T.reshape(6)
    assert t.T.copy().reshape(6).tolist() == A.T.reshape(6).tolist()


def test_casts_and_copies(each_backend: Backend) -> None:
    t = aclnn.asarray(A)
    assert t.astype(np.int32).tolist() == A.astype(np.int32).tolist()
    assert t.astype("bfloat16").dtype is DataType.BF16
    for made in (t.copy(), copy.copy(t), copy.deepcopy(t), t[:, ::2].copy()):
        assert made.is_contiguous and made.storage is not t.storage
    assert t[:, ::2].copy().tolist() == A[:, ::2].tolist()
    assert aclnn.empty((0, 3), np.float32).copy().shape == (0, 3)


def test_made_tensors(each_backend: Backend) -> None:
    assert aclnn.ones((2,), np.int32).tolist() == [1, 1] and aclnn.full(2, 7, "float16").tolist() == [7, 7]
    assert aclnn.arange(3).tolist() == [0, 1, 2] and aclnn.arange(1, 2, 0.5).dtype == np.float32
    assert aclnn.arange(1, 7, 3).dtype == np.int64
    like = aclnn.zeros_like(aclnn.empty((2, 2), "bfloat16"))
    assert like.dtype == ml_dtypes.bfloat16 and like.tolist() == [[0, 0], [0, 0]]
    assert aclnn.empty_like(like, np.int8).dtype is DataType.INT8
    with pytest.raises(ValueError, match="ragged"):
        aclnn.asarray([[1, 2], [3]])
    with pytest.raises(TypeError, match="did you mean 'float16'"):
        aclnn.empty((1,), "fp16")


def _sum_of(tensor: Tensor) -> float:
    return float(tensor.numpy().sum())


def test_tensors_and_results_pickle(each_backend: Backend) -> None:
    for tensor in (aclnn.asarray(A), aclnn.asarray(A)[:, ::2], aclnn.asarray(A.astype(ml_dtypes.bfloat16))):
        loaded = pickle.loads(pickle.dumps(tensor))
        assert loaded.dtype is tensor.dtype and loaded.shape == tensor.shape and loaded.backend is each_backend
        assert loaded.tolist() == tensor.tolist()
    blocked = aclnn.asarray(A).to_format("FRACTAL_NZ")
    loaded = pickle.loads(pickle.dumps(blocked))
    assert loaded.format is blocked.format and loaded.storage_shape == blocked.storage_shape
    assert loaded.tolist() == A.tolist()
    result = ops.rms_norm(A, np.ones(3, np.float32))
    again = pickle.loads(pickle.dumps(result))
    assert type(again) is type(result) and again.y.tolist() == result.y.tolist()


def test_tensors_go_to_worker_processes() -> None:
    with aclnn.use_backend("numpy"), ProcessPoolExecutor(1) as pool:
        assert pool.submit(_sum_of, aclnn.asarray(A)).result() == float(A.sum())


def test_data_types_are_numpys() -> None:
    assert np.float32 == DataType.FLOAT and np.dtype("float32") == DataType.FLOAT and np.float32 == DataType.FLOAT
    assert ml_dtypes.bfloat16 == DataType.BF16 and np.float64 != DataType.FLOAT and DataType.FLOAT == 0
    assert np.dtype(DataType.BF16) == ml_dtypes.bfloat16 and np.zeros(1, DataType.INT8).dtype == np.int8
    assert str(DataType.FLOAT) == f"{DataType.FLOAT}" == "DataType.FLOAT" and len({DataType.FLOAT, 0}) == 1
    with pytest.raises(TypeError, match="COMPLEX32"):
        np.dtype(DataType.COMPLEX32)  # NumPy before 2.1 puts it in words of its own


def test_views_stay_inside_their_storage(each_backend: Backend) -> None:
    t = aclnn.zeros((4, 4), np.float32)
    empty = aclnn.empty((0,), np.float32)
    packed = aclnn.empty((4,), "INT4")
    for tensor, shape, strides, offset in (
        (empty, (1024,), (1,), 0),
        (t, (17,), (1,), 0),
        (t, (4,), (1,), -1),
        (t, (4,), (1,), -(1 << 62)),
        (t, (4,), (1,), 1 << 61),
        (t, (2, 2), (1 << 62, 1), 0),
        (t, (4,), (-1,), 0),
        (packed, (5,), (1,), 0),
    ):
        with pytest.raises(ValueError, match="reaches elements"):
            tensor.view(shape, strides, offset)
    assert t.view((4,), (4,), 3).shape == (4,) and packed.view((2,), (2,), 1).shape == (2,)
    with pytest.raises(ValueError, match="ptr is 0"):
        Tensor.from_pointer(0, (4,), np.float32)
