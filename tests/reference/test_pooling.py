"""References of ops-nn/pooling through the public functions, against torch in float64 and torch's own gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

torch = pytest.importorskip("torch", reason="torch is the oracle of pooling; without it it is not tested")
from torch_tools import FLOATS, check, oracle, tensor  # noqa: E402 (it imports torch)

F = torch.nn.functional
F32 = np.dtype(np.float32)


def normal(*shape: int, dtype: Any = np.float32, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def gradient(function: Any, grad: np.ndarray, x: np.ndarray) -> np.ndarray:
    """torch's gradient of a function for an array."""
    leaf = tensor(x).requires_grad_()
    function(leaf).backward(tensor(grad))
    return np.asarray(leaf.grad.numpy())


def formatted(x: np.ndarray) -> Any:
    """A tensor in the format that 3-d pooling asks for."""
    return aclnn.asarray(x, format="NCDHW" if x.ndim == 5 else "NCHW")


def plain(value: Any) -> np.ndarray:
    return np.asarray(value.numpy() if isinstance(value, aclnn.Tensor) else value)


# ------------------------------------------------------------------------------------------------- averages

# shape, kernel, stride, padding, ceil_mode, count_include_pad, divisor
AVERAGES: list[tuple[Any, ...]] = [
    ((2, 3, 11, 8), [3, 2], [2, 3], [1, 1], False, True, 0),
    ((2, 3, 11, 8), [3, 2], [2, 3], [1, 1], True, False, 0),
    ((2, 3, 10, 9), [4], [3], [2], True, True, 0),
    ((3, 10, 9), [4, 4], [], [0, 0], True, True, 0),
    ((2, 2, 7, 7), [7, 7], [7, 7], [0, 0], False, True, 0),
    ((1, 2, 9, 9), [2, 2], [3, 1], [0, 1], False, True, 5),
    ((0, 2, 9, 9), [2, 2], [3, 1], [0, 1], False, True, 0),
]
BOXES: list[tuple[Any, ...]] = [
    ((2, 3, 6, 7, 8), [3, 2, 4], [2, 3, 1], [1, 0, 2], False, True, 0),
    ((2, 3, 6, 7, 8), [3], [2], [1], True, False, 0),
    ((3, 6, 7, 8), [2, 2, 2], [], [0, 0, 0], True, True, 3),
]


def average(x: Any, kernel: Any, stride: Any, padding: Any, ceil: bool, padded: bool, divisor: int) -> Any:
    spatial = x.dim() - 1 if x.dim() == 3 or (x.dim() == 4 and len(kernel) == 3) else x.dim() - 2
    function = F.avg_pool2d if spatial == 2 else F.avg_pool3d
    if x.dim() == 4 and len(kernel) == 3:
        function = F.avg_pool3d
    return function(x, kernel, stride or None, padding, ceil, padded, divisor or None)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", AVERAGES, ids=str)
def test_avg_pool2d(case: Any, dtype: Any) -> None:
    shape, *options = case
    x = normal(*shape, dtype=dtype)
    result = ops.avg_pool2d(x, *options, 0)
    wanted = oracle(lambda a: average(a, *options), x)
    assert result.dtype == dtype
    check(result, wanted)
    grad = normal(*wanted.shape, dtype=dtype)
    check(ops.avg_pool2d_backward(grad, x, *options, 0), gradient(lambda a: average(a, *options), grad, x), 2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", BOXES, ids=str)
def test_avg_pool3d(case: Any, dtype: Any) -> None:
    shape, *options = case
    x = normal(*shape, dtype=dtype)
    wanted = oracle(lambda a: average(a, *options), x)
    check(ops.avg_pool3d(x, *options), wanted)
    grad = normal(*wanted.shape, dtype=dtype)
    check(ops.avg_pool3d_backward(grad, x, *options), gradient(lambda a: average(a, *options), grad, x), 2)


def test_average_keeps_infinities_apart() -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    x[0, 0, 0, 0], x[0, 0, 3, 3] = np.inf, np.nan
    np.testing.assert_array_equal(ops.avg_pool2d(x, [2], [2], [0], False, True, 0, 0)[0, 0], [[np.inf, 0], [0, np.nan]])
    np.testing.assert_array_equal(ops.adaptive_avg_pool2d(x, [2, 2])[0, 0], [[np.inf, 0], [0, np.nan]])


# output sizes that divide the plane, that do not, and that are larger
SIZES: list[tuple[Any, Any]] = [
    ((2, 3, 8, 6), (4, 3)),
    ((2, 3, 11, 7), (3, 5)),
    ((3, 5, 4), (9, 4)),
    ((2, 3, 7, 7), (1, 1)),
    ((2, 2, 6, 7, 5), (3, 3, 2)),
    ((2, 4, 5, 6), (3, 7, 1)),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("shape", "size"), SIZES, ids=str)
def test_adaptive_avg_pool(shape: Any, size: Any, dtype: Any) -> None:
    axes = len(size)
    x = normal(*shape, dtype=dtype)
    function = getattr(F, f"adaptive_avg_pool{axes}d")
    result = getattr(ops, f"adaptive_avg_pool{axes}d")(x, size)
    check(result, oracle(lambda a: function(a, size), x))
    grad = normal(*result.shape, dtype=dtype)
    backward = getattr(ops, f"adaptive_avg_pool{axes}d_backward")(grad, x)
    check(backward, gradient(lambda a: function(a, size), grad, x), 2)


# ------------------------------------------------------------------------------------------------- maxima

# shape, kernel, stride, padding, ceil_mode
MAXIMA: list[tuple[Any, ...]] = [
    ((2, 3, 11, 8), [3, 2], [2, 3], [1, 1], False),
    ((2, 3, 11, 8), [3], [2], [1], True),
    ((3, 10, 9), [4, 4], [], [2, 2], True),
    ((2, 2, 7, 7), [1, 1], [2, 3], [0, 0], False),
    ((0, 2, 7, 7), [2, 2], [2, 2], [0, 0], False),
]


def ties(*shape: int, dtype: Any) -> np.ndarray:
    """Few different numbers, so that maxima are not alone, and windows that hold -inf only."""
    x = np.random.default_rng(3).integers(-2, 3, shape).astype(dtype)
    x[..., :4, :4] = -np.inf
    return x


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("case", MAXIMA, ids=str)
def test_max_pool2d(case: Any, dtype: Any) -> None:
    shape, kernel, stride, padding, ceil = case
    x = ties(*shape, dtype=dtype)
    values, positions = torch.ops.aten.max_pool2d_with_indices(tensor(x), kernel, stride, padding, [1], ceil)
    result, indices = ops.max_pool2d_with_indices(x, kernel, stride, padding, [1, 1], ceil)
    np.testing.assert_array_equal(result, values.numpy().astype(dtype))
    np.testing.assert_array_equal(indices, positions.numpy())
    grad = normal(*result.shape, dtype=dtype)
    wanted = torch.ops.aten.max_pool2d_with_indices_backward(
        tensor(grad), tensor(x), kernel, stride, padding, [1], ceil, positions
    ).numpy()
    if dtype == F32:
        actual = ops.max_pool2d_with_indices_backward(grad, x, indices, kernel, stride, padding, [1, 1], ceil)
        check(actual, wanted)
    masked, mask = ops.max_pool2d_with_mask(x, kernel, stride, padding, [1, 1], ceil)
    np.testing.assert_array_equal(masked, result)
    assert mask.dtype == np.int8 and mask.shape[-2] == kernel[0] * kernel[-1]
    check(ops.max_pool2d_with_mask_backward(grad, x, mask, kernel, stride, padding, [1, 1], ceil), wanted)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 6, 7, 8), (3, 6, 7, 8)], ids=str)
def test_max_pool3d(shape: Any, dtype: Any) -> None:
    x = ties(*shape, dtype=dtype)
    options = ([3, 2, 4], [2, 3, 1], [1, 0, 2], [1, 1, 1], True)
    values, positions = torch.ops.aten.max_pool3d_with_indices(tensor(x), *options)
    result, indices = ops.max_pool3d_with_argmax(x, *options)
    np.testing.assert_array_equal(result, values.numpy().astype(dtype))
    np.testing.assert_array_equal(indices, positions.numpy())
    grad = normal(*result.shape, dtype=dtype)
    wanted = torch.ops.aten.max_pool3d_with_indices_backward(tensor(grad), tensor(x), *options, positions)
    check(ops.max_pool3d_with_argmax_backward(grad, x, indices, *options), wanted.numpy())


def test_max_pool_dilated_and_channels_last() -> None:
    x = normal(2, 3, 12, 9)
    with aclnn.use_backend("numpy", soc="Ascend950"):
        options = ([3, 2], [2, 1], [1, 1], [2, 3], False)
        values, positions = torch.ops.aten.max_pool2d_with_indices(tensor(x), *options)
        result, indices = ops.max_pool2d_with_indices(x, *options)
        np.testing.assert_array_equal(result, values.numpy().astype(np.float32))
        np.testing.assert_array_equal(indices, positions.numpy())
        last = aclnn.asarray(np.moveaxis(x, 1, -1).copy(), format="NHWC")
        made = aclnn.empty(np.moveaxis(result, 1, -1).shape, np.float32, format="NHWC")
        kept = aclnn.empty(made.shape, np.int32, format="NHWC")
        result, _ = ops.max_pool2d_with_indices(last, *options, out=(made, kept))
        np.testing.assert_array_equal(np.moveaxis(kept.numpy(), -1, 1), positions.numpy())
        np.testing.assert_array_equal(np.moveaxis(plain(result), -1, 1), values.numpy().astype(np.float32))
        whole = np.arange(-8, 8, dtype=np.int8).reshape(1, 4, 4)
        np.testing.assert_array_equal(ops.max_pool(whole, [2], [2], 0, [0], [1], 0), [[[-3, -1], [5, 7]]])


def test_max_pool_with_four_pads() -> None:
    x = normal(2, 3, 8, 9)
    result = ops.max_pool(x, [4, 3], [2, 2], 0, [3, 1, 0, 2], [1, 1], 0)
    padded = np.pad(x, ((0, 0), (0, 0), (3, 0), (1, 2)), constant_values=-np.inf)
    np.testing.assert_array_equal(result, oracle(lambda a: F.max_pool2d(a, (4, 3), 2), padded).astype(np.float32))


def test_max_pool_of_nan() -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    x[0, 0, 1, 1] = np.nan
    x[0, 0, 1, 0] = np.inf
    result, indices = ops.max_pool2d_with_indices(x, [2], [2], [0], [1], False)
    np.testing.assert_array_equal(result[0, 0], [[np.nan, 0], [0, 0]])
    assert indices[0, 0, 0, 0] == 5


def test_positions_out_of_range() -> None:
    x, grad = np.zeros((1, 1, 4, 4), np.float32), np.zeros((1, 1, 2, 2), np.float32)
    indices = np.array([[[[0, 2], [8, 16]]]], np.int32)
    with pytest.raises(AclError, match=r"indices element \[0, 0, 1, 1\] is 16; allowed: 0 to 15"):
        ops.max_pool2d_with_indices_backward(grad, x, indices, [2], [2], [0], [1], False)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("shape", "size"), SIZES, ids=str)
def test_adaptive_max_pool(shape: Any, size: Any, dtype: Any) -> None:
    axes = len(size)
    x = ties(*shape, dtype=dtype)
    given = formatted(x) if axes == 3 else x
    values, positions = getattr(F, f"adaptive_max_pool{axes}d")(tensor(x), size, return_indices=True)
    result, indices = map(plain, getattr(ops, f"adaptive_max_pool{axes}d")(given, size))
    np.testing.assert_array_equal(result, values.numpy().astype(dtype))
    np.testing.assert_array_equal(indices, positions.numpy())
    grad = normal(*result.shape, dtype=dtype)
    wanted = getattr(torch.ops.aten, f"adaptive_max_pool{axes}d_backward")(tensor(grad), tensor(x), positions)
    check(getattr(ops, f"adaptive_max_pool{axes}d_backward")(grad, x, indices), wanted.numpy(), 2)


def test_adaptive_max_pool_in_double_precision() -> None:
    x = normal(2, 3, 7, 7, dtype=np.float64)
    result, _ = ops.adaptive_max_pool2d(x, [2, 3])
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, oracle(lambda a: F.adaptive_max_pool2d(a, (2, 3)), x))
