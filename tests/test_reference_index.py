"""References of ops-nn/index through the public functions, against torch and NumPy: reading, writing and choosing."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from reference_tools import same

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, I8, I32, I64, BOOL = (np.dtype(t) for t in (np.float16, np.float32, np.int8, np.int32, np.int64, np.bool_))
MOVED = [F32, F16, BF16, I8, I64, BOOL]


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is the oracle of gathering, scattering and choosing")


def sample(shape: Any, dtype: Any = F32, seed: int = 0) -> Any:
    return (np.random.default_rng(seed).standard_normal(shape) * 5).astype(dtype)


def drawn(shape: Any, high: int, seed: int = 0, dtype: Any = I64) -> Any:
    return np.random.default_rng(seed).integers(0, high, shape).astype(dtype)


def strided(x: Any) -> Any:
    """The same elements with gaps between them."""
    wide = np.empty([2 * n for n in x.shape], x.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in x.shape)]
    view[...] = x
    return view


def tensor(torch: Any, x: Any) -> Any:
    """A torch tensor of the elements; low-precision floats as float64."""
    x = np.ascontiguousarray(x)
    return torch.from_numpy(x.astype(np.float64) if x.dtype in (F16, BF16) else x)


def equal(actual: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual.astype(np.float64), expected.astype(np.float64))


# ------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gather(torch: Any, dtype: Any, dim: int) -> None:
    x, index = sample((3, 4, 5), dtype), drawn((2, 3, 4), 3, dtype=I32)
    equal(ops.gather(strided(x), dim, strided(index)), torch.gather(tensor(torch, x), dim, tensor(torch, index).long()))


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_index_select(dtype: Any, dim: int) -> None:
    x, index = sample((3, 4, 5), dtype), drawn((6,), 3)
    same(ops.index_select(strided(x), dim, index), np.take(x, index, dim))
    same(ops.gather_v2(x, dim, index.reshape(2, 3)), np.take(x, index.reshape(2, 3), dim))
    same(ops.take(strided(x), index.reshape(3, 2)), x.reshape(-1)[index.reshape(3, 2)])


def test_reading_from_and_with_0d_tensors() -> None:
    x = np.float32(7)
    assert ops.gather(np.array(x), 0, np.array(0)).tolist() == 7
    assert ops.index_select(np.array(x), 0, np.array([0])).tolist() == 7
    assert ops.index_select(np.float32([1, 2]), 0, np.array(1)).tolist() == [2]
    assert ops.gather_v3(sample((3, 4)), 0, np.array(2), 0, 1).shape == (4,)
    assert ops.flip(np.array(x), []).tolist() == 7


def test_gather_v3_in_batches() -> None:
    x, index = sample((2, 3, 4, 5), BF16), drawn((2, 3, 6, 2), 4)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        for batch in (1, 2):
            y = ops.gather_v3(x, 2, index, batch, 1)
            for at in np.ndindex(*x.shape[:batch]):
                same(np.array(y[at]), np.take(x[at], index[at], 2 - batch))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_gather_nd(depth: int) -> None:
    x, indices = sample((3, 4, 5), F16), drawn((2, 6, depth), 3, dtype=I32)
    expected = x[tuple(np.moveaxis(indices, -1, 0))]
    same(ops.gather_nd(strided(x), indices, False), expected)
    same(ops.gather_nd(x, indices - np.int32(3) * 0, True), expected)
    same(ops.gather_nd(x, indices - np.array([3, 4, 5][:depth], np.int32), True), expected)


ALL = np.zeros(0, np.int64)
KEYS = [
    ([drawn((4,), 3)], lambda i: (i[0],)),
    ([ALL, drawn((2, 3), 4)], lambda i: (slice(None), i[1])),
    ([drawn((2, 1), 3), drawn((3,), 4, 1, I32)], lambda i: (i[0], i[1])),
    ([drawn((4,), 3) - 3, ALL, drawn((4,), 5)], lambda i: (i[0], slice(None), i[2])),
    ([drawn((3, 4), 2).astype(bool)], lambda i: (i[0],)),
    ([ALL, ALL, np.array([True, False, True, True, False])], lambda i: (slice(None), slice(None), i[2])),
    ([np.array([True, False, True]), drawn((2,), 4)], lambda i: (i[0], i[1])),
]


@pytest.mark.parametrize("dtype", [F32, BF16, BOOL], ids=str)
@pytest.mark.parametrize("key", range(len(KEYS)))
def test_index(dtype: Any, key: int) -> None:
    indices, numpy_key = KEYS[key]
    x = sample((3, 4, 5), dtype)
    expected = x[numpy_key(indices)]
    same(ops.index(strided(x), indices, out=np.empty_like(expected)), expected)
    if not any(i.dtype == bool for i in indices):
        same(ops.index(x, indices), expected)


def test_flip() -> None:
    for dtype in MOVED:
        x = sample((3, 4, 5), dtype)
        same(ops.flip(strided(x), [0, -1]), x[::-1, :, ::-1])
        same(ops.flip(x, []), x)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: ops.gather(x, 1, np.array([[0, 4]])), r"index element \[0, 1\] is 4; allowed: 0 to 3"),
        (lambda x: ops.gather(x, 0, np.array([[-1]])), r"index element \[0, 0\] is -1; allowed: 0 to 2"),
        (lambda x: ops.index_select(x, 0, np.array([2, 3])), r"index element \[1\] is 3; allowed: 0 to 2"),
        (lambda x: ops.take(x, np.array([12])), r"index element \[0\] is 12; allowed: 0 to 11"),
        (lambda x: ops.index(x, [np.array([-4])]), r"indices \[0\] element \[0\] is -4; allowed: -3 to 2"),
        (lambda x: ops.gather_nd(x, np.array([[0, 4]]), False), r"indices .*column 1\) element \[0\] is 4"),
        (lambda x: ops.gather_nd(x, np.array([[0, -1]]), False), r"indices .*column 1\) element \[0\] is -1"),
    ],
)
def test_reading_out_of_range(call: Any, text: str) -> None:
    with pytest.raises(AclError, match=text) as caught:
        call(sample((3, 4)))
    assert caught.value.argument in ("index", "indices")
