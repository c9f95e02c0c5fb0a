"""Quantising against plain formulas in float64, and torch's fake quantising."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as aclnn
from ascend_aclnn import DataType, ops

RNG = np.random.default_rng(3)
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


def numbers(*shape: int, dtype: Any = np.float32, scale: float = 10) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(dtype)


def wide(*arrays: np.ndarray) -> list[np.ndarray]:
    return [a.astype(np.float64) for a in arrays]


def int8(values: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(values), -128, 127)


def one_step(actual: Any, expected: np.ndarray) -> None:
    """Equal, but for a step where float32 decides a tie."""
    difference = np.abs(np.asarray(actual).astype(np.float64) - expected)
    assert difference.max(initial=0) <= 1
    assert (difference > 0).mean() < 0.01


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sqrt_mode", [False, True])
def test_ascend_quant(dtype: Any, sqrt_mode: bool) -> None:
    x, scale, offset = numbers(6, 64, dtype=dtype), numbers(64, dtype=dtype, scale=2), numbers(64, dtype=dtype)
    dx, ds, do = wide(x, scale, offset)
    made = ops.ascend_quant(x, scale, offset, sqrt_mode, "round", DataType.INT8)
    one_step(made, int8(dx * ds * (ds if sqrt_mode else 1) + do))
    assert made.dtype == np.int8
    made = ops.ascend_quant_v3(x, scale[:6], None, sqrt_mode, "round", DataType.INT8, -2)
    one_step(made, int8(dx * ds[:6, None] * (ds[:6, None] if sqrt_mode else 1)))


@pytest.mark.parametrize("mode,function", [("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc)])
def test_round_modes(mode: str, function: Any) -> None:
    x = np.array([[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 300, -300]], np.float32)
    made = ops.ascend_quant(x, np.ones(1, np.float32), None, False, mode, DataType.INT8)
    assert made.tolist() == [np.clip(function(x[0]), -128, 127).tolist()]
    rounded = ops.ascend_quant(x, np.ones(1, np.float32), None, False, "round", DataType.INT8)
    assert rounded.tolist() == [[-2, -2, 0, 0, 2, 2, 127, -128]]


def test_eight_small_numbers_in_an_int32() -> None:
    x = np.array([[1, -1, 7, -8, 9, -20, 0, 2]], np.float32)
    made = ops.ascend_quant(x, np.ones(1, np.float32), None, False, "round", DataType.INT32)
    assert made.shape == (1, 1)
    word = int(made[0, 0]) & 0xFFFFFFFF
    assert [word >> 4 * i & 15 for i in range(8)] == [1, 15, 7, 8, 7, 8, 0, 2]
    back = ops.ascend_anti_quant(made, np.full(1, 0.5, np.float32), None, DataType.FLOAT16)
    assert back.tolist() == [[0.5, -0.5, 3.5, -4, 3.5, -4, 0, 1]]


def test_anti_quant() -> None:
    x = RNG.integers(-128, 128, (3, 8)).astype(np.int8)
    scale, offset = numbers(8, scale=1), numbers(8)
    made = ops.ascend_anti_quant(x, scale, offset, DataType.FLOAT16, True)
    expected = (x + offset.astype(float)) * scale.astype(float) ** 2
    np.testing.assert_allclose(made.astype(float), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("zero", [np.int32, np.int8, np.uint8])
def test_quantize(zero: Any) -> None:
    if zero is np.int8:
        target, low, high = DataType.INT8, -128, 127
    else:
        target, low, high = (DataType.UINT8, 0, 255) if zero is np.uint8 else (DataType.INT32, -(2**31), 2**31 - 1)
    x, scales = numbers(4, 5, 3), np.abs(numbers(5)) + 0.1
    points = RNG.integers(0, 9, 5).astype(zero)
    made = ops.quantize(x, scales, points, target, 1)
    one_step(made, np.clip(np.rint(x / scales.astype(float)[:, None] + points[:, None]), low, high))


def test_group_quant() -> None:
    x, scale = numbers(7, 16, dtype=np.float16), numbers(3, 16, scale=3, dtype=np.float16)
    ends = np.array([2, 2, 7], np.int32)
    made = ops.group_quant(x, scale, ends, np.ones(1, np.float16), DataType.INT8)
    rows = np.array([0, 0, 2, 2, 2, 2, 2])
    one_step(made, int8(x.astype(float) * scale.astype(float)[rows] + 1))


def test_fake_quant() -> None:
    torch = pytest.importorskip("torch", reason="torch is the oracle of fake quantising: left out without it")
    x, scale = numbers(4, 5, 6), np.abs(numbers(5, scale=1)) + 0.05
    points = RNG.integers(0, 200, 5).astype(np.int32)
    expected, mask = torch.ops.aten.fake_quantize_per_channel_affine_cachemask(
        torch.tensor(x), torch.tensor(scale), torch.tensor(points), 1, 0, 255
    )
    made = ops.fake_quant_per_channel_affine_cachemask(x, scale, points, 1, 0, 255)
    np.testing.assert_allclose(made[0], expected, rtol=1e-6)
    np.testing.assert_array_equal(made[1], mask)

    points %= 90
    made = ops.fake_quant_per_tensor_affine_cachemask(x, scale[:1], points[:1], 1.0, -20, 90)
    expected = torch.fake_quantize_per_tensor_affine(torch.tensor(x), float(scale[0]), int(points[0]), -20, 90)
    np.testing.assert_allclose(made[0], expected, rtol=1e-6)
    made = ops.fake_quant_per_tensor_affine_cachemask(x, scale[:1], points[:1], 0.0, 0, 1)
    assert np.array_equal(made[0], x) and made[1].all()


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("smooth", [False, True])
def test_dynamic_quant(dtype: Any, smooth: bool) -> None:
    x = numbers(3, 4, 64, dtype=dtype)
    x[0, 0] = 0
    factors = numbers(64, dtype=dtype, scale=1) if smooth else None
    y, scale = ops.dynamic_quant(x, factors)
    moved = x.astype(float) * (factors.astype(float) if factors is not None else 1)
    expected = np.abs(moved).max(-1) / 127
    np.testing.assert_allclose(scale, expected, rtol=1e-6)
    assert not y[0, 0].any() and scale[0, 0] == 0
    one_step(y, np.rint(moved / np.where(expected == 0, 1, expected)[..., None]))


def test_dynamic_quant_v2() -> None:
    x, factors = numbers(5, 32, dtype=np.float16), numbers(2, 32, dtype=np.float16, scale=1)
    y, scale, offset = ops.dynamic_quant_v2(x, factors, np.array([2, 5], np.int32), DataType.INT8)
    moved = x.astype(float) * factors.astype(float)[[0, 0, 1, 1, 1]]
    top, bottom = moved.max(-1), moved.min(-1)
    np.testing.assert_allclose(scale, (top - bottom) / 255, rtol=1e-5)
    np.testing.assert_allclose(offset, 127 - top / (top - bottom) * 255, rtol=1e-4, atol=1e-3)
    back = (y.astype(float) - offset[:, None]) * scale[:, None]
    assert np.abs(back - moved).max() <= scale.max() * 0.51

    with aclnn.use_backend("numpy", soc="Ascend950"):
        made = ops.dynamic_quant_v3(x, None, None, DataType.INT8, True, "perchannel")
    np.testing.assert_allclose(made[1], np.abs(x.astype(float)).max(0) / 127, rtol=1e-6)


def test_dynamic_block_quant() -> None:
    x = numbers(3, 300, dtype=np.float16)
    y, scale = ops.dynamic_block_quant(x, 0.0, "rint", DataType.INT8, 1, 128)
    assert scale.shape == (3, 3)
    for block in range(3):
        part = x[:, block * 128 : (block + 1) * 128].astype(float)
        expected = np.abs(part).max(1) / 127
        np.testing.assert_allclose(scale[:, block], expected, rtol=1e-6)
        one_step(y[:, block * 128 : (block + 1) * 128], np.rint(part / expected[:, None]))


@pytest.mark.parametrize(
    "kind, most",
    [("INT8", 0.0), ("FLOAT8_E5M2", 0.0), ("FLOAT8_E4M3FN", 0.0), *(("HIFLOAT8", m) for m in (0.0, 15.0, 56.0, 224.0))],
)
@pytest.mark.parametrize("min_scale", [0.0, 500.0])
def test_dynamic_block_quant_v2(kind: str, most: float, min_scale: float) -> None:
    """Blocks of 128 rows by 64 columns of each matrix; dstTypeMax says what the largest of a block becomes."""
    largest = {"INT8": 127.0, "HIFLOAT8": 32768.0, "FLOAT8_E5M2": 57344.0, "FLOAT8_E4M3FN": 448.0}[kind]
    x = numbers(2, 200, 100, dtype=np.float16)
    x[1, 128:, :64] = 0
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        y, scales = ops.dynamic_block_quant_v2(
            x, min_scale, "round" if kind == "HIFLOAT8" else "rint", DataType[kind], 128, 64, most
        )
    assert scales.shape == (2, 2, 2) and y.dtype == DataType[kind]
    for batch, row, column in np.ndindex(2, 2, 2):
        part = np.s_[batch, row * 128 : row * 128 + 128, column * 64 : column * 64 + 64]
        block = x[part].astype(np.float64)
        scale = np.abs(block).max() / (most or largest)
        scale = np.float32(min(scale, 1 / min_scale) if min_scale else scale)
        assert scales[batch, row, column] == pytest.approx(scale, rel=1e-6)
        quotients = np.clip(block / np.where(scale == 0, 1, scale), -128 if kind == "INT8" else -largest, largest)
        if kind == "INT8":
            one_step(y[part], np.rint(quotients))
        else:
            wanted = aclnn.asarray(quotients.astype(np.float32), kind).numpy()
            same = y[part].astype(np.float32) == wanted.astype(np.float32)
            assert np.mean(same) > 0.999
            np.testing.assert_allclose(y[part].astype(float), wanted.astype(float), rtol=0.5, atol=1e-6)
        if not min_scale:
            assert np.abs(y[part].astype(np.float64)).max() == ((most or largest) if scale else 0)


def test_flat_quant() -> None:
    x, left, right = (numbers(*s, dtype=np.float16, scale=1) for s in [(3, 4, 8), (4, 4), (8, 8)])
    y, scale = ops.flat_quant(x, left, right, 0.5)
    product = np.einsum("ij,bjk,kl->bil", *wide(left, x, right))
    expected = np.abs(product).max((1, 2)) / (7 / 0.5)
    np.testing.assert_allclose(scale, expected, rtol=1e-5)
    one_step(y, np.clip(np.rint(product / expected[:, None, None]), -8, 7))


@pytest.mark.parametrize(("groups", "kind", "count"), [
    ([1, 2], 0, 2), ([1, 1], 1, 2), ([[4, 1], [0, 1]], 2, 2), ([0], 1, 3), ([2, 9], 0, 3),
])  # fmt: skip
def test_flat_quant_of_the_first_matrices(groups: Any, kind: int, count: int) -> None:
    """Ends, sizes, or numbers and sizes; the kernel takes all where their sum is 0 or too large."""
    x, left, right = (numbers(*s, dtype=np.float16, scale=1) for s in [(3, 4, 8), (4, 4), (8, 8)])
    whole = ops.flat_quant(x, left, right, 0.5)
    made = ops.flat_quant_v3(x, left, right, np.array(groups), 0.5, 0.0, kind)
    for one, other in zip(made, whole):
        np.testing.assert_array_equal(one[:count], other[:count])
        assert not one[count:].astype(float).any()


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


@pytest.mark.parametrize("left", [False, True])
def test_swi_glu_quant(left: bool) -> None:
    x, smooth = numbers(6, 32, dtype=np.float16, scale=2), numbers(2, 16, scale=1)
    y, scale = ops.swi_glu_quant_v2(x, smooth, None, np.array([4, 2], np.int32), left, "dynamic", 1, DataType.INT8)
    a, b = np.split(x.astype(float), 2, -1)
    moved = (silu(a) * b if left else silu(b) * a) * smooth.astype(float)[[0, 0, 0, 0, 1, 1]]
    expected = 127 / np.abs(moved).max(-1)
    np.testing.assert_allclose(scale, expected, rtol=1e-5)
    one_step(y, np.rint(moved * expected[:, None]))
    offsets = numbers(2, 16)
    static = ops.swi_glu_quant(x, smooth, offsets, np.array([4, 6], np.int32), left, "static")[0]
    one_step(static, int8(moved + offsets.astype(float)[[0, 0, 0, 0, 1, 1]]))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_dequant_swiglu_quant(mode: str) -> None:
    x = RNG.integers(-1000, 1000, (6, 64)).astype(np.int32)
    weight, row = np.abs(numbers(2, 64, scale=0.01)), np.abs(numbers(6, scale=1)) + 0.1
    groups = np.array([2, 4], np.int64)
    quant = np.abs(numbers(2, 32, scale=1)) + 0.1
    offset = numbers(2, 32) if mode == "static" else None
    made = ops.dequant_swiglu_quant_v2(
        x, weight, row, None, quant, offset, groups, True, mode, DataType.INT8, "rint", -1, 0, 7.0, 1.702, 1.0
    )
    of = [0, 0, 1, 1, 1, 1]
    a, b = np.split(x * weight.astype(float)[of] * row.astype(float)[:, None], 2, -1)
    gated = silu(a) * b
    if mode == "static":
        one_step(made[0], int8(gated / quant.astype(float)[of] + offset.astype(float)[of]))
    else:
        moved = gated * quant.astype(float)[of]
        expected = np.abs(moved).max(-1) / 127
        np.testing.assert_allclose(made[1], expected, rtol=1e-4)
        one_step(made[0], np.rint(moved / expected[:, None]))


def test_dequant_bias() -> None:
    x = RNG.integers(-500, 500, (3, 8)).astype(np.int32)
    weight, row, bias = numbers(8, scale=0.1), numbers(3, scale=0.1), numbers(8, dtype=np.float16)
    made = ops.dequant_bias(x, weight, row, bias, DataType.FLOAT16)
    expected = x * weight.astype(float) * row.astype(float)[:, None]
    np.testing.assert_allclose(made.astype(float), expected + bias.astype(float), rtol=2e-3, atol=2e-2)
    whole = np.arange(8, dtype=np.int32)
    made = ops.dequant_bias(x, weight, None, whole, DataType.FLOAT16)
    np.testing.assert_allclose(made.astype(float), (x + whole) * weight.astype(float), rtol=2e-3, atol=1e-3)


def test_swiglu_group_grad() -> None:
    torch = pytest.importorskip("torch", reason="torch is the oracle of gradients: left out without it")
    x, dy, weight = numbers(5, 12, scale=2), numbers(5, 6), np.abs(numbers(5, 1))
    leaf = torch.tensor(x.astype(float), requires_grad=True)
    scale = torch.tensor(weight.astype(float), requires_grad=True)
    a, b = leaf.chunk(2, -1)
    y = torch.nn.functional.silu(a.clamp(max=1.5)) * b.clamp(-1.5, 1.5) * scale
    y.backward(torch.tensor(dy.astype(float)))
    # torch's gradient of the factor takes y without it; the operator is given y times the factor
    with aclnn.use_backend("numpy", soc="Ascend950"):
        made = ops.swiglu_group_grad(dy, x, weight, y.detach().numpy().astype(np.float32), np.array([2, 1]), 1.5)
    np.testing.assert_allclose(made[0][:3], leaf.grad[:3], rtol=1e-4, atol=1e-4)
    assert not made[0][3:].any()
    np.testing.assert_allclose(made[1], scale.grad * scale.detach(), rtol=1e-4, atol=1e-4)


def test_trans_quant_param() -> None:
    scale = np.array([1.0, 0.1, -3.7], np.float32)
    made = ops.trans_quant_param_v2(scale, np.array([3.5, -300, 300], np.float32))
    for word, value, offset in zip(made.tolist(), scale, (4, -256, 255)):
        assert word >> 46 == 1
        assert word & 0xFFFFFFFF == int(value.view(np.uint32)) & 0xFFFFE000
        assert (word >> 37 & 0x1FF) == offset & 0x1FF
    near = ops.trans_quant_param_v3(np.array([0.1], np.float32), None, 1).view(np.uint64)
    kept = np.array(int(near[0]) & 0xFFFFFFFF, np.uint32).view(np.float32)
    assert abs(float(kept) - 0.1) <= 0.1 * 2.0**-11


def test_quant_max() -> None:
    x = numbers(4, 8, dtype=ml_dtypes.bfloat16, scale=100)
    with aclnn.use_backend("numpy", soc="Ascend950"):
        y, amax = ops.quant_max(x, np.full(1, 2.0, np.float32), "rint", DataType.FLOAT8_E4M3FN)
    expected = np.clip(x.astype(np.float32) * 2, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(y.astype(float), expected.astype(float))
    assert float(amax[0]) == np.abs(x.astype(float)).max()


def situ(x: np.ndarray, beta: float, linear: float, left: bool) -> np.ndarray:
    gate, up = np.split(x, 2, -1) if left else np.split(x, 2, -1)[::-1]
    up = linear * np.tanh(up / linear) if linear > 0 else up
    return beta * np.tanh(gate / beta) / (1 + np.exp(-gate)) * up


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_dequant_situ_quant_of_int8(mode: str) -> None:
    x = RNG.integers(-128, 128, (3, 4, 32)).astype(np.int8)
    weight, bias = np.abs(numbers(32, scale=0.05)), numbers(32, scale=1)
    scale, offset = np.abs(numbers(16, scale=0.1)) + np.float32(0.05), numbers(16, scale=3)
    made, scales = ops.dequant_situ_quant(
        x, weight, None, bias, scale, offset if mode == "static" else None, None, 4.0, 25.0, True, mode
    )
    dx, dw, db, ds, do = wide(x, weight, bias, scale, offset)
    y = situ(dx * dw + db, 4.0, 25.0, True)
    if mode == "static":
        one_step(made, int8(y / ds + do))
        return
    y = y * ds
    expected = np.abs(y).max(-1) / 127
    np.testing.assert_allclose(scales, expected, rtol=1e-5)
    one_step(made, int8(y / expected[..., None]))


def test_dequant_situ_quant_of_groups() -> None:
    x = RNG.integers(-1000, 1000, (9, 32)).astype(np.int32)
    weight, bias = np.abs(numbers(2, 32, scale=0.01)), numbers(2, 32, scale=1)
    rows = np.abs(numbers(9, scale=0.5))
    made, scales = ops.dequant_situ_quant(
        x, weight, rows, bias, None, None, np.array([4, 3]), 1.5, 0.0, False, "dynamic"
    )
    group = np.array([0] * 4 + [1] * 3)
    dx, dw, db, dr = wide(x, weight, bias, rows)
    y = situ(dx[:7] * dw[group] * dr[:7, None] + db[group], 1.5, 0.0, False)
    expected = np.abs(y).max(-1) / 127
    np.testing.assert_allclose(scales[:7], expected, rtol=1e-5)
    one_step(made[:7], int8(y / expected[:, None]))
    assert not made[7:].any() and not scales[7:].any()


def test_grouped_dynamic_block_quant() -> None:
    """Each group has blocks of its own; its scales begin at row start // rowBlockSize + its number."""
    ends, dtype = [130, 130, 300], ml_dtypes.float8_e4m3fn
    x = numbers(2, 300, 100, dtype=np.float16)
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        made, scales = ops.grouped_dynamic_block_quant(x, np.array(ends, np.int32), 0.0, None, 36, 128, 64, 0)
    assert scales.shape == (2, 300 // 128 + 3, 2)
    wanted = np.zeros(scales.shape)
    for batch, number, column in np.ndindex(2, 3, 2):
        start, end = ([0, *ends])[number], ends[number]
        for place, row in enumerate(range(start, end, 128)):
            part = np.s_[batch, row : min(row + 128, end), column * 64 : column * 64 + 64]
            block = x[part].astype(np.float64)
            scale = np.float32(np.abs(block).max() / 448)
            wanted[batch, start // 128 + number + place, column] = scale
            quotients = np.clip(block / scale, -448, 448).astype(np.float32).astype(dtype)
            np.testing.assert_array_equal(made[part].astype(np.float32), quotients.astype(np.float32))
    np.testing.assert_allclose(scales, wanted, rtol=1e-6)
