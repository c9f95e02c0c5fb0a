"""References of ops-math/conversion through the public functions, against torch and NumPy: shapes, casts, bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from comparisons import assert_equal, assert_near
from reference_tools import same

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

BF16 = np.dtype(ml_dtypes.bfloat16)
F16, F32, I32, I64 = (np.dtype(t) for t in (np.float16, np.float32, np.int32, np.int64))
MOVED = [F32, F16, BF16, np.dtype(np.int8), I64, np.dtype(np.bool_)]


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is the oracle of paddings, windows and fills")


def sample(shape: Any, dtype: Any = F32, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return (rng.standard_normal(shape) * 5).astype(dtype)


def strided(x: Any) -> Any:
    """The same elements with gaps between them."""
    wide = np.empty([2 * n for n in x.shape], x.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in x.shape)]
    view[...] = x
    return view


# ------------------------------------------------------------------------------------------------- joining


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_cat_and_stack(dtype: Any, dim: int) -> None:
    a, b = sample((3, 4, 5), dtype), sample((3, 4, 5), dtype, 1)
    same(ops.cat([strided(a), b, np.zeros(0, dtype)], dim), np.concatenate([a, b], dim))
    same(ops.stack([a, strided(b)], dim), np.stack([a, b], dim))


def test_cat_promotes() -> None:
    joined = ops.cat([np.array([1, 2], np.int32), np.array([0.5], np.float16)], 0)
    assert joined.dtype == F16 and joined.tolist() == [1, 2, 0.5]
    out = np.empty((1, 1), np.float32)
    ops.cat([np.array([3], np.float32)], 0, out=out)
    assert out.tolist() == [[3]]


@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_chunk_cat(torch: Any, chunks: int) -> None:
    tensors = [sample((4, 3)), sample((5, 2), seed=1), sample((1,), seed=2)]
    assert_equal(ops.chunk_cat(tensors, 0, chunks), torch._chunk_cat([torch.from_numpy(x) for x in tensors], 0, chunks))


@pytest.mark.parametrize("dim", [0, -1])
def test_split(dim: int) -> None:
    x = sample((7, 7), F16)
    for piece, expected in zip(ops.split_tensor(x, 3, dim), np.split(x, [3, 6], dim)):
        same(piece, expected)
    out = [np.empty((n, 7) if dim == 0 else (7, n), F16) for n in (2, 0, 5)]
    for piece, expected in zip(ops.split_with_size(x, [2, 0, 5], dim, out=out), np.split(x, [2, 2], dim)):
        same(piece, expected)


# ------------------------------------------------------------------------------------------------- padding

_MODES = {"reflection": "reflect", "replication": "replicate", "circular": "circular"}
_PADDINGS = {"1d": (2, 1), "2d": (2, 1, 0, 3), "3d": (1, 2, 0, 1, 3, 1)}


@pytest.mark.parametrize(
    ("kind", "axes"), [(kind, axes) for kind in _MODES for axes in _PADDINGS if (kind, axes) != ("circular", "1d")]
)
def test_pads(torch: Any, kind: str, axes: str) -> None:
    padding = _PADDINGS[axes]
    x = sample((2, 3, 4, 5, 6)[: 2 + len(padding) // 2], F32)
    leaf = torch.from_numpy(x.astype(np.float64)).requires_grad_()
    expected = torch.nn.functional.pad(leaf, padding, _MODES[kind])
    pad, backward = (getattr(ops, f"{kind}_pad{axes}{suffix}") for suffix in ("", "_backward"))
    assert_equal(pad(x, padding), expected.detach())
    grad = sample(expected.shape, F32, 1)
    expected.backward(torch.from_numpy(grad.astype(np.float64)))
    assert_near(backward(grad, x, padding), leaf.grad.numpy(), 1e-6)
    for dtype in (F16, BF16) if axes != "3d" else ():
        same(pad(strided(x.astype(dtype)), padding), pad(x.astype(dtype).astype(np.float32), padding).astype(dtype))


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("padding", [(1, 2), (-1, 2, 3, -2), (0, 0, -4, 0), (-1, -1)])
def test_constant_pad(torch: Any, dtype: Any, padding: Any) -> None:
    x = sample((4, 5), dtype)
    expected = torch.nn.functional.pad(torch.from_numpy(x.astype(np.float64)), padding, value=1)
    if 0 not in expected.shape:
        assert_equal(ops.constant_pad_nd(x, padding, 1), expected)


# ------------------------------------------------------------------------------------------------- slicing


@pytest.mark.parametrize("dtype", [F32, F16, BF16, np.dtype(np.int8), I64], ids=str)
@pytest.mark.parametrize("bounds", [(1, 5, 2), (-3, 100, 1), (0, -1, 3), (-100, 3, 1)])
def test_slice(dtype: Any, bounds: Any) -> None:
    x = sample((4, 6, 5), dtype)
    start, end, step = bounds
    same(ops.slice(x, 1, start, end, step), x[:, start:end:step])
    same(ops.slice_v2(x, [start, 1], [end, 3], [-2, 0], [step, 1]), x[1:3, start:end:step])


def test_strided_slice() -> None:
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        x = sample((4, 5, 6))
        same(ops.strided_slice(x, [3, 1], [0, 4], [-1, 2], 0, 0, 0, 0, 0), x[3:0:-1, 1:4:2])
        same(ops.strided_slice(x, [1, 0, 2], [2, 0, 3], [1, 1, 1], 0, 0, 2, 0, 5), x[1, ..., 2])
        same(ops.strided_slice(x, [0, 0, 1], [0, 0, 3], [1, 1, 1], 0, 0, 0, 1, 0), x[None, 0:0, 1:3])
        with pytest.raises(AclError, match=r"begin element \[0\] is 4; allowed: -4 to 3"):
            ops.strided_slice(x, [4], [5], [1], 0, 0, 0, 0, 1)


def test_strided_slice_assign() -> None:
    x, value = sample((5, 6)), sample((2, 3), seed=1)
    expected = x.copy()
    expected[1:5:2, 2:5] = value
    ops.strided_slice_assign_v2(x, value, [1, 2], [5, 5], [2, 1])
    same(x, expected)
    ops.strided_slice_assign_v2(x, np.zeros((5, 1), np.float32), [-1], [9], [1], [1])
    assert x[:, -1].tolist() == [0] * 5 and x[0, 0] == expected[0, 0]


@pytest.mark.parametrize("batch", [(2,), ()])
def test_im2col(torch: Any, batch: Any) -> None:
    x = sample((*batch, 3, 8, 9))
    options = {"dilation": (2, 1), "padding": (1, 2), "stride": (1, 3)}
    expected = torch.nn.functional.unfold(torch.from_numpy(x), (3, 2), **options)
    assert_equal(ops.im2col(x, (3, 2), *options.values()), expected)


@pytest.mark.parametrize(("size", "step"), [(3, 2), (2, 3), (4, 1)])
@pytest.mark.parametrize("dim", [0, 1])
def test_unfold_grad(torch: Any, size: int, step: int, dim: int) -> None:
    leaf = torch.zeros(9, 8, dtype=torch.float64, requires_grad=True)
    windows = leaf.unfold(dim, size, step)
    grad = sample(tuple(windows.shape))
    windows.backward(torch.from_numpy(grad.astype(np.float64)))
    assert_near(ops.unfold_grad(grad, [9, 8], dim, size, step), leaf.grad.numpy(), 1e-6)


@pytest.mark.parametrize("dtype", [F32, F16, BF16, I64, np.dtype(np.bool_)], ids=str)
def test_masked_select(dtype: Any) -> None:
    x, mask = sample((4, 5), dtype), np.array([True, False, True, True, False])
    same(ops.masked_select(x, mask), x[:, mask].reshape(-1))
    assert ops.masked_select(x, np.zeros((4, 1), np.bool_)).shape == (0,)


def test_coalesce_sparse() -> None:
    indices, values = np.int64([[0, 1], [2, 2], [0, 1]]), sample((3, 4))
    kept, total = ops.coalesce_sparse(np.int64([0, 1]), np.int64([0, 1, 0]), indices, values)
    assert kept.tolist() == [[0, 1], [2, 2]]
    assert_near(total, np.stack([values[0] + values[2], values[1]]), 1e-6)


# ------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("dtype", [F32, F16, BF16, np.dtype(np.int8), I32, I64], ids=str)
def test_clamp(dtype: Any) -> None:
    x = sample((6, 7), dtype)
    if dtype in (F32, F16, BF16):
        x[0, :3] = [np.nan, np.inf, -np.inf]
    for low, high in ((-2, 3), (None, 1), (0, None), (4, -4)):
        expected = x if low is None else np.maximum(x, np.array(low, dtype))
        expected = expected if high is None else np.minimum(expected, np.array(high, dtype))
        same(ops.clamp(x, low, high), expected)
    same(ops.clamp_min(x, 1), np.maximum(x, np.array(1, dtype)))
    same(ops.hardtanh(x, -1, 1), ops.clamp(x, -1, 1))
    low, high = np.full(7, -1, dtype), np.full((6, 1), 2, dtype)
    same(ops.clamp_tensor(x, low, high), ops.clamp(x, -1, 2))
    same(ops.clamp_max_tensor(x, high), ops.clamp_max(x, 2))
    changed = [x.copy() for _ in range(4)]
    ops.inplace_clamp_max(changed[0], 2)
    ops.inplace_clamp_max_tensor(changed[1], high)
    ops.inplace_clamp_min_tensor(changed[2], low)
    ops.inplace_hardtanh(changed[3], -1, 1)
    for array, expected in zip(changed, (ops.clamp_max(x, 2),) * 2 + (ops.clamp_min(x, -1), ops.hardtanh(x, -1, 1))):
        same(array, expected)


def test_clamp_of_integers_cuts_limits_off() -> None:
    x = np.array([-5, 0, 1, 3, 5], np.int8)
    assert ops.clamp(x, 0.5, 2.7).tolist() == [0, 0, 1, 2, 2]
    assert ops.clamp(x, -1000, float("inf")).tolist() == x.tolist()


# ------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_fill(dtype: Any) -> None:
    x = sample((3, 4), dtype)
    ops.inplace_fill_scalar(x, 1.75)
    same(x, np.full((3, 4), np.array(1.75).astype(dtype)))
    ops.inplace_fill_tensor(x, np.array([2], np.int32))
    same(x, np.full((3, 4), 2).astype(dtype))


@pytest.mark.parametrize("dtype", [F32, F16, BF16, I64, np.dtype(np.bool_)], ids=str)
def test_masked_fill(dtype: Any) -> None:
    x, mask = sample((3, 4), dtype), np.array([True, False, False, True])
    expected = np.where(mask, np.array(1, dtype), x)
    other = x.copy()
    ops.inplace_masked_fill_scalar(x, mask, 1)
    ops.inplace_masked_fill_tensor(other, mask, np.array(1, np.float32))
    same(x, expected)
    same(other, expected)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("source", MOVED, ids=str)
def test_copy(dtype: Any, source: Any) -> None:
    x = sample((1, 5), source)
    target = strided(np.zeros((4, 5), dtype))
    ops.inplace_copy(target, x)
    wide = x.astype(np.float64)
    if dtype.kind in "iu" and source.kind not in "iu":
        wide = np.trunc(wide)
    same(target.copy(), np.broadcast_to(wide.astype(np.float32).astype(dtype), (4, 5)))


def test_copies_at_the_limits() -> None:
    def copied(values: Any, dtype: Any) -> list[Any]:
        target = np.zeros(np.shape(values), dtype)
        ops.inplace_copy(target, values)
        return target.tolist()

    assert copied(np.float32([300, -300, np.nan, 2.9, -2.9]), np.int8) == [44, -44, 0, 2, -2]
    assert copied(np.int32([300, -300]), np.int8) == [44, -44]
    assert copied(np.float16([0, 0.5, np.nan]), np.bool_) == [False, True, True]
    assert copied(np.complex64([1 + 2j, 3j]), np.float32) == [1, 0]
    assert copied(np.complex64([1 + 2j, 3j, 0]), np.bool_) == [True, True, False]
    assert copied(np.float32([1.5]), np.complex64) == [1.5]
    odd = np.array([0x7E01, 0xFE55], np.uint16).view(np.float16)
    assert np.array(ops.permute(odd, [0])).view(np.uint16).tolist() == [0x7E01, 0xFE55]


@pytest.mark.parametrize("shape", [(3, 3), (7, 3), (3, 7), (3, 3, 3)])
@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("dtype", [F32, BF16, np.dtype(np.int8)], ids=str)
def test_fill_diagonal(torch: Any, shape: Any, wrap: bool, dtype: Any) -> None:
    x = sample(shape, dtype)
    expected = torch.from_numpy(x.astype(np.float64)).fill_diagonal_(3, wrap)
    x = strided(x)
    ops.inplace_fill_diagonal(x, 3, wrap)
    assert_equal(x, expected)


@pytest.mark.parametrize("dtype", MOVED, ids=str)
@pytest.mark.parametrize("diagonal", [-9, -2, 0, 1, 2**40])
def test_triangles(dtype: Any, diagonal: int) -> None:
    x = sample((2, 4, 6), dtype)
    x[..., 0, 5] = True
    lower = np.arange(6) <= np.arange(4)[:, None] + diagonal
    zero = np.zeros((), dtype)
    for name, kept in (("tril", lower), ("triu", np.arange(6) >= np.arange(4)[:, None] + diagonal)):
        expected = np.where(kept, x, zero)
        same(getattr(ops, name)(strided(x), diagonal), expected)
        changed = x.copy()
        getattr(ops, f"inplace_{name}")(changed, diagonal)
        same(changed, expected)


@pytest.mark.parametrize("dtype", [np.dtype(bool), BF16, I64], ids=str)
@pytest.mark.parametrize("diagonal", [-140, 0, 1, 200])
def test_triangles_of_many_rows(dtype: Any, diagonal: int) -> None:
    x = sample((300, 270), dtype)
    same(ops.tril(x, diagonal), np.tril(x, diagonal))
    same(ops.triu(x, diagonal), np.triu(x, diagonal))


@pytest.mark.parametrize("diagonal", [-2, 0, 1])
@pytest.mark.parametrize("dtype", [F32, BF16, I64], ids=str)
def test_diagonals(dtype: Any, diagonal: int) -> None:
    vector, matrix = sample(4, dtype), sample((3, 5), dtype)
    same(ops.diag(vector, diagonal), np.diag(vector, diagonal))
    same(ops.diag(matrix, diagonal), np.diag(matrix, diagonal))
    same(ops.diag_flat(matrix, diagonal), np.diagflat(matrix, diagonal))


# ------------------------------------------------------------------------------------------------- layouts


def test_complex_numbers() -> None:
    x = sample((3, 4), np.complex64)
    np.testing.assert_array_equal(ops.permute(x, [1, 0]), x.T)
    np.testing.assert_array_equal(ops.constant_pad_nd(x, [1, 0], 2), np.pad(x, ((0, 0), (1, 0)), constant_values=2))
    ops.inplace_fill_scalar(x, 1 + 2j)
    np.testing.assert_array_equal(x, np.full((3, 4), 1 + 2j, np.complex64))


@pytest.mark.parametrize("dtype", MOVED, ids=str)
def test_permute(dtype: Any) -> None:
    x = sample((2, 3, 4), dtype)
    same(ops.permute(strided(x), [2, 0, -2]), x.transpose(2, 0, 1))


@pytest.mark.parametrize("dtype", [F32, F16, BF16, np.dtype(np.bool_), I64], ids=str)
def test_roll(dtype: Any) -> None:
    x = sample((3, 4), dtype)
    same(ops.roll(x, [1, -2], [0, 1]), np.roll(x, (1, -2), (0, 1)))
    same(ops.roll(x, [5], []), np.roll(x, 5))


def test_shapes(torch: Any) -> None:
    x = sample((2, 6, 4), BF16)
    for axis, shape in ((0, (1, 48)), (1, (2, 24)), (-1, (12, 4))):
        same(ops.flatten(x, axis), x.reshape(shape))
    image = sample((2, 6, 4, 5))
    assert_equal(ops.channel_shuffle(image, 3), torch.nn.functional.channel_shuffle(torch.from_numpy(image), 3))
    same(ops.confusion_transpose(x, [2, 0, 1], [8, 6], True), x.transpose(2, 0, 1).reshape(8, 6))
    same(ops.confusion_transpose(x, [1, 0], [8, 6], False), x.reshape(8, 6).T)


def test_format_cast() -> None:
    x = sample((33, 20), F16)
    source = aclnn.asarray(x)
    blocked = aclnn.asarray(np.zeros_like(x)).to_format(aclnn.Format.FRACTAL_NZ)
    ops.npu_format_cast(source, out=blocked)
    same(blocked.numpy(), x)
    plain = aclnn.asarray(np.zeros_like(x))
    ops.npu_format_cast(blocked, out=plain)
    same(plain.numpy(), x)
