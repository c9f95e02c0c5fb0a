"""Operators that no other test computes, against the formulas of their documents in float64."""

from __future__ import annotations

from typing import Any, Optional

import ml_dtypes
import numpy as np
import pytest
from comparisons import assert_near

import ascend_aclnn as aclnn
from ascend_aclnn import ops

NEW_950 = "Ascend950PR_9599"
HALF, FLOAT, BF16 = np.float16, np.float32, ml_dtypes.bfloat16


def random(*shape: int, dtype: Any = HALF, low: float = -2.0, high: float = 2.0, seed: int = 3) -> Any:
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(dtype)


def wide(array: Any) -> Any:
    return np.asarray(array).astype(np.float64)


def off_by_one(got: Any, wanted: Any) -> None:
    """Whole numbers: a sum of low precision may fall on the other side of a half."""
    assert got.shape == wanted.shape
    assert np.abs(wide(got) - np.clip(np.rint(wanted), -128, 127)).max() <= 1
    assert (wide(got) == np.clip(np.rint(wanted), -128, 127)).mean() > 0.9


def layer_norm(x: Any, gamma: Any = 1.0, beta: Any = 0.0, eps: float = 1e-5, axes: Any = -1) -> Any:
    x = wide(x)
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * wide(gamma) + wide(beta)


def rms_norm(x: Any, gamma: Any, beta: Any = 0.0, eps: float = 1e-6) -> Any:
    x = wide(x)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * wide(gamma) + wide(beta)


def by_row(values: Any) -> tuple[Any, Any]:
    """Rows scaled to 127 at most, and what one is worth."""
    scale = np.abs(values).max(-1, keepdims=True) / 127
    return values / scale, scale[..., 0]


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def test_ada_layer_norm_quant() -> None:
    x, scale, shift = random(4, 16, 128), random(4, 128), random(4, 128)
    weight, bias, smooth = random(128), random(128), random(128, low=0.5)
    normed = layer_norm(x, weight, bias) * (1 + wide(scale)[:, None]) + wide(shift)[:, None]
    wanted, scales = by_row(normed * wide(smooth))
    got = ops.ada_layer_norm_quant(x, scale, shift, weight, bias, smooth, quant_mode="dynamic")
    off_by_one(got[0], wanted)
    assert_near(got[1], scales, 2e-3)


@pytest.mark.parametrize("version", ["", "_v2"])
@pytest.mark.parametrize("divide", [True, False])
def test_static_add_layer_norm_quant(version: str, divide: bool) -> None:
    x1, x2, gamma, beta = random(4, 64), random(4, 64, seed=4), random(64), random(64, seed=5)
    scales, zeros = random(64, low=0.05, high=0.2), random(64, seed=6)
    normed = layer_norm(wide(x1) + wide(x2), gamma, beta)
    with aclnn.use_backend("numpy", soc=NEW_950):
        got = getattr(ops, f"add_layer_norm_quant{version}")(
            x1, x2, gamma, beta, scales1=scales, zero_points1=zeros, quant_mode="static",
            epsilon=1e-5, additional_output=True, div_mode=divide,
        )  # fmt: skip
    off_by_one(got[0], (normed / wide(scales) if divide else normed * wide(scales)) + wide(zeros))
    assert_near(got[2], wide(x1) + wide(x2), 2e-3)


@pytest.mark.parametrize("version", ["", "_v2"])
def test_dynamic_add_layer_norm_quant(version: str) -> None:
    x1, x2, gamma, beta = random(4, 64), random(4, 64, seed=4), random(64), random(64, seed=5)
    smooth = random(64, low=0.5)
    with aclnn.use_backend("numpy", soc=NEW_950):
        got = getattr(ops, f"add_layer_norm_quant{version}")(
            x1, x2, gamma, beta, scales1=smooth, quant_mode="dynamic", epsilon=1e-5
        )
    wanted, scales = by_row(layer_norm(wide(x1) + wide(x2), gamma, beta) * wide(smooth))
    off_by_one(got[0], wanted)
    assert_near(got[-2], scales, 2e-3)


def test_add_rms_norm_cast() -> None:
    x1, x2, gamma = random(8, 64), random(8, 64, seed=4), random(64)
    total = (wide(x1) + wide(x2)).astype(HALF)
    y1, y2, rstd, x = ops.add_rms_norm_cast(x1, x2, gamma, 1e-6)
    assert (y1.dtype, y2.dtype) == (FLOAT, HALF)
    assert_near(y1, rms_norm(total, gamma), 1e-2, 1e-2)
    assert_near(y2, rms_norm(total, gamma), 1e-2, 1e-2)
    assert_near(rstd, 1 / np.sqrt((wide(total) ** 2).mean(-1, keepdims=True) + 1e-6), 2e-3)
    assert_near(x, total, 2e-3)


def test_add_rms_norm_dynamic_quant_with_beta() -> None:
    x1, x2, gamma, beta = random(8, 64), random(8, 64, seed=4), random(64), random(64, seed=5)
    smooth = random(2, 64, low=0.5)
    normed = rms_norm(wide(x1) + wide(x2), gamma, beta)
    got = ops.add_rms_norm_dynamic_quant_v2(x1, x2, gamma, smooth[0], smooth[1], beta, 1e-6)
    for item in range(2):
        wanted, scales = by_row(normed * wide(smooth[item]))
        off_by_one(got[item], wanted)
        assert_near(got[3 + item], scales, 2e-3)
    assert_near(got[2], wide(x1) + wide(x2), 2e-3)


def test_add_rms_norm_quant_with_beta() -> None:
    x1, x2, gamma = random(8, 64), random(8, 64, seed=4), random(64)
    scales, beta = random(64, low=0.05, high=0.2), random(64, seed=5)
    normed = rms_norm(wide(x1) + wide(x2), gamma, beta)
    with aclnn.use_backend("numpy", soc=NEW_950):
        got = ops.add_rms_norm_quant_v2(x1, x2, gamma, scales, beta=beta, axis=-1, epsilon=1e-6)
    off_by_one(got[0], normed / wide(scales))
    assert_near(got[2], wide(x1) + wide(x2), 2e-3)


@pytest.mark.parametrize("dtype", ["HIFLOAT8", "FLOAT8_E4M3FN", "FLOAT8_E5M2"])
@pytest.mark.parametrize("added", [False, True])
def test_rms_norm_quantised_to_eight_bit_floats_saturates(dtype: str, added: bool) -> None:
    largest = {"HIFLOAT8": 32768.0, "FLOAT8_E4M3FN": 448.0, "FLOAT8_E5M2": 57344.0}[dtype]
    x1, x2, gamma, scales = random(8, 64), random(8, 64, seed=4), random(64), np.array([1 / largest], np.float16)
    out = np.empty((8, 64), aclnn.DataType[dtype].numpy)
    with aclnn.use_backend("numpy", soc=NEW_950):
        if added:
            scales = np.repeat(scales, 64)
            ops.add_rms_norm_quant_v2(x1, x2, gamma, scales, axis=-1, epsilon=1e-6, out=(out, None, None, None))
        else:
            ops.rms_norm_quant_v3(x1, gamma, scales, epsilon=1e-6, div_mode=True, output_rstd=False, out=(out, None))
    quotients = rms_norm(wide(x1) + (wide(x2) if added else 0), gamma) / wide(scales)
    assert np.abs(quotients).max() > 1.3 * largest
    wanted = aclnn.asarray(np.clip(quotients, -largest, largest), dtype).numpy().astype(np.float64)
    assert np.mean(out.astype(np.float64) == wanted) > 0.98  # others lie at a limit between two codes
    assert np.abs(out.astype(np.float64)).max() == largest


def test_batch_norm_reduce() -> None:
    x = random(3, 5, 4, 6, dtype=FLOAT)
    total, squares = ops.batch_norm_reduce(x)
    assert_near(total, wide(x).sum((0, 2, 3)), 2e-3)
    assert_near(squares, (wide(x) ** 2).sum((0, 2, 3)), 2e-3)


def test_fast_batch_norm_backward() -> None:
    gradient, x, weight = (
        random(3, 5, 4, 8, dtype=FLOAT),
        random(3, 5, 4, 8, dtype=FLOAT, seed=4),
        random(5, dtype=FLOAT),
    )
    axes = (0, 2, 3)
    mean, inverse = wide(x).mean(axes), 1 / np.sqrt(wide(x).var(axes) + 1e-5)
    got = ops.fast_batch_norm_backward(
        gradient, x, weight, np.zeros(5, FLOAT), np.ones(5, FLOAT), mean.astype(FLOAT), inverse.astype(FLOAT),
        True, 1e-5, [True, True, True],
    )  # fmt: skip
    normed = (wide(x) - mean[:, None, None]) * inverse[:, None, None]
    by_weight, by_bias = (wide(gradient) * normed).sum(axes), wide(gradient).sum(axes)
    count = x.size / 5
    inner = wide(gradient) - (by_bias[:, None, None] + normed * by_weight[:, None, None]) / count
    assert_near(got[0], inner * (wide(weight) * inverse)[:, None, None], 2e-3)
    assert_near(got[1], by_weight, 2e-3)
    assert_near(got[2], by_bias, 2e-3)


@pytest.mark.parametrize("name", ["fast_layer_norm", "layer_norm_with_impl_mode"])
def test_layer_norm_by_another_name(name: str) -> None:
    x, weight, bias = random(3, 4, 8, dtype=FLOAT), random(4, 8, dtype=FLOAT), random(4, 8, dtype=FLOAT, seed=5)
    got = getattr(ops, name)(x, [4, 8], weight, bias, eps=1e-3)
    assert_near(got[0], layer_norm(x, weight, bias, 1e-3, (1, 2)), 2e-3)
    assert_near(np.ravel(got[1]), wide(x).mean((1, 2)), 2e-3)
    assert_near(np.ravel(got[2]), 1 / np.sqrt(wide(x).var((1, 2)) + 1e-3), 2e-3)


def test_group_norm_silu_quant() -> None:
    x, gamma, beta, scale = random(2, 6, 5), random(6), random(6, seed=5), random(1, dtype=FLOAT, low=0.02, high=0.04)
    grouped = layer_norm(wide(x).reshape(2, 3, 10), eps=1e-5).reshape(2, 6, 5)
    normed = grouped * wide(gamma)[:, None] + wide(beta)[:, None]
    got = ops.group_norm_silu_quant(x, gamma, beta, scale, group=3, eps=1e-5)
    off_by_one(got[0], silu(normed) / wide(scale))
    assert_near(got[1], wide(x).reshape(2, 3, 10).mean(-1), 2e-3)
    assert_near(got[2], 1 / np.sqrt(wide(x).reshape(2, 3, 10).var(-1) + 1e-5), 2e-3)


def test_instance_norm() -> None:
    x, gamma, beta = random(2, 3, 4, 4), random(3), random(3, seed=5)
    with aclnn.use_backend("numpy", soc="Ascend310P3"):
        y, mean, variance = ops.instance_norm(x, gamma, beta, "NCHW", 1e-5)
    assert_near(y, layer_norm(x, wide(gamma)[:, None, None], wide(beta)[:, None, None], 1e-5, (2, 3)), 5e-3, 5e-3)
    assert_near(np.ravel(mean), np.ravel(wide(x).mean((2, 3))), 2e-3)
    assert_near(np.ravel(variance), np.ravel(wide(x).var((2, 3))), 2e-3)


def test_static_layer_norm_quant() -> None:
    x, gamma, beta, scale = random(4, 64), random(64), random(64, seed=5), np.array([0.05], HALF)
    got = ops.layer_norm_quant(x, gamma, beta, scale, np.array([3], np.int8), quant_mode=0, epsilon=1e-5)
    off_by_one(got[0], layer_norm(x, gamma, beta) / wide(scale) + 3)


def test_rms_norm_quant() -> None:
    x, gamma, beta, scale = random(8, 64), random(1, 64), random(1, 64, seed=5), np.array([0.05], HALF)
    got = ops.rms_norm_quant(x, gamma, beta, scale, np.array([3], np.int8), 1e-6)
    off_by_one(got, rms_norm(x, gamma, beta) / wide(scale) + 3)


@pytest.mark.parametrize("divide", [True, False])
def test_rms_norm_quant_v3(divide: bool) -> None:
    x, gamma, scale = random(8, 64), random(64), np.array([0.05 if divide else 20], FLOAT)
    with aclnn.use_backend("numpy", soc=NEW_950):
        y, rstd = ops.rms_norm_quant_v3(x, gamma, scale, epsilon=1e-6, div_mode=divide, output_rstd=True)
    off_by_one(y, rms_norm(x, gamma) * 20)
    assert_near(np.ravel(rstd), 1 / np.sqrt((wide(x) ** 2).mean(-1) + 1e-6), 2e-3)


def test_rms_norm_dynamic_quant() -> None:
    x, gamma, smooth, beta = random(8, 64), random(64), random(64, low=0.5), random(64, seed=5)
    y, scale = ops.rms_norm_dynamic_quant(x, gamma, smooth, beta, 1e-6)
    wanted, scales = by_row(rms_norm(x, gamma, beta) * wide(smooth))
    off_by_one(y, wanted)
    assert_near(scale, scales, 2e-3)


def test_rms_norm_dynamic_mx_quant() -> None:
    x, gamma = random(4, 64), random(64, low=0.5)
    with aclnn.use_backend("numpy", soc=NEW_950):
        y, scales, rstd = ops.rms_norm_dynamic_mx_quant(x, gamma, epsilon=1e-6, dst_type=36, output_rstd=True)
    normed = rms_norm(x, gamma).reshape(4, 2, 32)
    exponents = np.floor(np.log2(np.abs(normed).max(-1))) - 8
    np.testing.assert_array_equal(wide(scales).reshape(4, 2), 2**exponents)
    assert_near(wide(y).reshape(4, 2, 32) * 2 ** exponents[..., None], normed, 0.07, 1e-2)  # three bits of mantissa
    assert_near(np.ravel(rstd), 1 / np.sqrt((wide(x) ** 2).mean(-1) + 1e-6), 2e-3)


def test_sync_batch_norm_gather_stats() -> None:
    counts = np.array([6, 10], np.int32)
    samples = [random(int(n), 3, dtype=FLOAT, seed=8) for n in counts]
    sums, squares = (np.stack([(s**p).sum(0) for s in samples]).astype(FLOAT) for p in (1, 2))
    everything = wide(np.concatenate(samples))
    mean, variance = random(3, dtype=FLOAT), random(3, dtype=FLOAT, low=0.5)
    moved = [
        wide(old) * 0.9 + 0.1 * new
        for old, new in zip((mean, variance), (everything.mean(0), everything.var(0, ddof=1)))
    ]
    got = ops.sync_batch_norm_gather_stats(sums, squares, counts, mean, variance, 0.1, 1e-5)
    assert_near(got[-2], everything.mean(0), 2e-3)
    assert_near(got[-1], 1 / np.sqrt(everything.var(0) + 1e-5), 2e-3)
    assert_near(mean, moved[0], 2e-3)
    assert_near(variance, moved[1], 2e-3)


@pytest.mark.parametrize("left", [False, True])
def test_dequant_swiglu_quant(left: bool) -> None:
    x = np.random.default_rng(5).integers(-90, 90, (4, 64)).astype(np.int32)
    weight, rows = random(64, dtype=FLOAT, low=0.01, high=0.03), random(4, 1, dtype=FLOAT, low=0.5)
    smooth = random(1, 32, dtype=FLOAT, low=0.5)
    y, scale = ops.dequant_swiglu_quant(
        x, weight, rows, None, smooth, None, None, activate_left=left, quant_mode="dynamic"
    )
    halves = np.split(wide(x) * wide(weight) * wide(rows), 2, -1)
    gate, linear = halves if left else halves[::-1]
    wanted, scales = by_row(silu(gate) * linear * wide(smooth))
    off_by_one(y, wanted)
    assert_near(np.ravel(scale), scales, 2e-3)


def test_grouped_quant_max() -> None:
    x, scale = random(6, 8), np.array([2, 0.5], FLOAT)
    with aclnn.use_backend("numpy", soc=NEW_950):
        y, most = ops.grouped_quant_max(x, scale, np.array([2, 6], np.int64), "rint", 36)
    groups = [wide(x)[:2], wide(x)[2:]]
    assert_near(y, np.concatenate([g * s for g, s in zip(groups, scale)]), 0.07, 1e-2)
    assert_near(np.ravel(most), [np.abs(g).max() for g in groups], 2e-3)


def test_einsum() -> None:
    one, other = random(2, 3, 4, 5, dtype=FLOAT), random(2, 3, 4, 6, 5, dtype=FLOAT)
    assert_near(
        ops.einsum([one, other], "abcd,abced->abce"), np.einsum("abcd,abced->abce", wide(one), wide(other)), 2e-3
    )


@pytest.mark.parametrize("kind", ["add", "mul"])
def test_fused_matmul(kind: str) -> None:
    x1, x2, x3 = random(4, 32), random(32, 64), random(4, 64)
    product = wide(x1) @ wide(x2)
    got = ops.fused_matmul(x1, x2, x3=x3, fused_op_type=kind)
    assert_near(got, product + wide(x3) if kind == "add" else product * wide(x3), 5e-3, 2e-2)


def test_grouped_matmul_add() -> None:
    x, weight, y = random(5, 3), random(5, 4), random(6, 4, dtype=FLOAT)
    parts = [wide(x)[:2].T @ wide(weight)[:2], wide(x)[2:].T @ wide(weight)[2:]]
    wanted = wide(y) + np.concatenate(parts)
    ops.grouped_matmul_add(x, weight, np.array([2, 5], np.int64), y, True, False, 2)
    assert_near(y, wanted, 2e-3)


def attention(query: Any, key: Any, value: Any, scale: float) -> Any:
    scores = wide(query) @ wide(key).swapaxes(-1, -2) * scale
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ wide(value)


@pytest.mark.parametrize("lengths", [None, [5, 9]])
def test_incre_flash_attention(lengths: Optional[list[int]]) -> None:
    query, key, value = random(2, 2, 1, 16), random(2, 2, 12, 16, seed=4), random(2, 2, 12, 16, seed=5)
    flat = [a.swapaxes(1, 2).reshape(2, -1, 32) for a in (query, key, value)]
    got = ops.incre_flash_attention(
        flat[0], [flat[1]], [flat[2]], pse_shift=None, atten_mask=None, actual_seq_lengths=lengths, num_heads=2,
        scale_value=0.25, input_layout="BSH", num_key_value_heads=2,
    )  # fmt: skip
    for batch in range(2):
        upto = slice(12 if lengths is None else lengths[batch])
        wanted = attention(query[batch], key[batch, :, upto], value[batch, :, upto], 0.25)
        assert_near(got[batch, 0], wanted.reshape(-1), 5e-3, 5e-3)


@pytest.mark.parametrize("neox", [True, False])
def test_rope_with_sin_cos_cache(neox: bool) -> None:
    positions, query, key, cache = np.array([2, 0, 3]), random(3, 128), random(3, 64), random(4, 64, low=-1, high=1)
    got = ops.rope_with_sin_cos_cache(positions, query, key, cache, head_size=64, is_neox_style=neox)
    cosine, sine = np.split(wide(cache)[positions][:, None], 2, -1)
    for result, source in zip(got, (query, key)):
        heads = wide(source).reshape(3, -1, 64)
        one, other = np.split(heads, 2, -1) if neox else (heads[..., ::2], heads[..., 1::2])
        turned = (one * cosine - other * sine, other * cosine + one * sine)
        joined = np.concatenate(turned, -1) if neox else np.stack(turned, -1)
        assert_near(result, joined.reshape(3, -1), 5e-3, 5e-3)


def test_scatter_pa_cache() -> None:
    key, cache = random(3, 2, 64), random(2, 4, 2, 64, seed=4)
    wanted, slots = cache.copy(), np.array([5, 0, 2], np.int32)
    for row, slot in zip(key, slots):
        wanted[slot // 4, slot % 4] = row
    with aclnn.use_backend("numpy", soc=NEW_950):
        ops.scatter_pa_cache(key, cache, slots)
    np.testing.assert_array_equal(cache, wanted)


def test_masked_scale() -> None:
    x, mask = random(4, 5, dtype=FLOAT), random(4, 5, dtype=FLOAT, seed=4)
    with aclnn.use_backend("numpy", soc=NEW_950):
        assert_near(ops.masked_scale(x, mask, 0.5), wide(x) * wide(mask) * 0.5, 2e-3)


def test_square() -> None:
    x = random(4, 5, dtype=FLOAT)
    with aclnn.use_backend("numpy", soc=NEW_950):
        assert_near(ops.square(x), wide(x) ** 2, 2e-3)


def test_tanh_backward() -> None:
    gradient, output = random(4, 5, dtype=FLOAT), random(4, 5, dtype=FLOAT, low=-1, high=1)
    assert_near(ops.tanh_backward(gradient, output), wide(gradient) * (1 - wide(output) ** 2), 2e-3)


def test_xlog1py() -> None:
    x, y = random(4, 5, dtype=FLOAT), random(4, 5, dtype=FLOAT, low=-0.9)
    assert_near(ops.xlog1py(x, y), wide(x) * np.log1p(wide(y)), 2e-3)


def test_upsample_nearest2d() -> None:
    x = random(2, 3, 4, 6)
    rows, columns = np.arange(7) * 4 // 7, np.arange(9) * 6 // 9
    np.testing.assert_array_equal(ops.upsample_nearest2d(x, [7, 9]), x[:, :, rows][..., columns])


def test_inverted_bits() -> None:
    x = np.array([0, 1, -7, 32767], np.int16)
    np.testing.assert_array_equal(ops.invert_v2(x), -1 - x)


def test_bits_by_bits() -> None:
    one, other = np.array([12, 7, -1], np.int32), np.array([10, 9, 5], np.int32)
    np.testing.assert_array_equal(ops.bitwise_and_tensor_out(one, other), [8, 1, 5])
    np.testing.assert_array_equal(ops.bitwise_or_scalar(one, 2), [14, 7, -1])


def test_comparisons() -> None:
    x = np.array([-1, 0, 2, 3], FLOAT)
    np.testing.assert_array_equal(ops.gt_scalar(x, 2), [False, False, False, True])
    np.testing.assert_array_equal(ops.is_in_tensor_scalar(x, 2, False, False), [False, False, True, False])
    np.testing.assert_array_equal(ops.is_in_tensor_scalar(x, 2, False, True), [True, True, False, True])
    np.testing.assert_array_equal(ops.clamp_min_tensor(x, np.array([0, -2, 5, 1], FLOAT)), [0, 0, 5, 3])


def test_add_of_a_scalar_and_a_tensor() -> None:
    np.testing.assert_array_equal(ops.add_v3(2, np.array([-1, 0, 2], FLOAT), 3), [-1, 2, 8])


def test_arc_cosines_in_place() -> None:
    x = [random(5, dtype=FLOAT, low=-1, high=1), random(3, dtype=FLOAT, low=-1, high=1)]
    wanted = [np.arccos(wide(a)) for a in x]
    with aclnn.use_backend("numpy", soc=NEW_950):
        ops.foreach_a_cos_inplace(x)
    for got, one in zip(x, wanted):
        assert_near(got, one, 2e-3)


def test_weights_of_four_bits_in_blocks() -> None:
    x, scale = random(3, 64), random(64, low=0.01, high=0.05)
    weight = np.random.default_rng(2).integers(-8, 8, (64, 64))
    tensor = aclnn.asarray(weight.astype(ml_dtypes.int4), format="FRACTAL_NZ")
    got = ops.weight_quant_batch_matmul_nz(x, tensor, scale, antiquant_group_size=0)
    assert_near(got, wide(x) @ (weight * wide(scale)), 5e-3, 2e-2)


@pytest.mark.parametrize(("layout", "rank"), [("BSH", 3), ("BNSD", 3), ("BNSD", 4)])
def test_incre_flash_attention_with_pages(layout: str, rank: int) -> None:
    """The caches that the document allows: heads first only beside queries with heads first."""
    query, key, value = random(1, 2, 1, 16), random(2, 32, 16, seed=4), random(2, 32, 16, seed=5)
    order = np.array([[1, 0]], np.int32)  # the second page holds the first tokens
    pages = [a.reshape(2, 2, 16, 16).swapaxes(0, 1)[::-1] for a in (key, value)]  # page, head, token, width
    flat = [a.swapaxes(1, 2).reshape(2, 16, 32) if rank == 3 else a for a in pages]
    cache = [[np.ascontiguousarray(a)] for a in flat]
    got = ops.incre_flash_attention_v4(
        query if layout == "BNSD" else query.reshape(1, 1, 32), *cache, atten_mask=None, actual_seq_lengths=[20],
        blocktable=order, num_heads=2, scale_value=0.25, input_layout=layout, num_key_value_heads=2, block_size=16,
        inner_precise=1,
    )  # fmt: skip
    wanted = attention(query[0], key[:, :20], value[:, :20], 0.25)
    assert_near(got.reshape(2, 1, 16), wanted, 5e-3, 5e-3)


@pytest.mark.parametrize("name, shape", [("pse_shift", (2, 1, 8)), ("quant_scale2", (3,))])
def test_incre_flash_attention_refuses_a_bias_and_scales_that_do_not_fit(name: str, shape: tuple[int, ...]) -> None:
    query, key = np.ones((1, 2, 1, 16), np.float16), np.ones((1, 2, 8, 16), np.float16)
    none = ("pse_shift", "atten_mask", "actual_seq_lengths", "dequant_scale1", "quant_scale1", "dequant_scale2")
    arguments: dict[str, Any] = dict.fromkeys((*none, "quant_scale2", "quant_offset2"))
    arguments |= {"num_heads": 2, "scale_value": 1.0, "input_layout": "BNSD", "num_key_value_heads": 2}
    arguments[name] = np.ones(shape, np.float16 if name == "pse_shift" else np.float32)
    out = np.empty(query.shape, np.int8 if name == "quant_scale2" else np.float16)
    with pytest.raises(aclnn.AclError) as caught:
        ops.incre_flash_attention_v2(query, [key], [key], **arguments, out=out)
    assert caught.value.argument == name


def test_incre_flash_attention_refuses_heads_first_under_other_queries() -> None:
    """ProcessPageAttentionFlag of CANN's tiling: 561002 unless innerPrecise is 2."""
    pages = [random(2, 2, 16, 16)]
    with pytest.raises(aclnn.AclError, match=r"key\[0\] has shape \(2, 2, 16, 16\); .* must be 3") as refused:
        ops.incre_flash_attention_v4(
            random(1, 1, 32), pages, pages, atten_mask=None, actual_seq_lengths=[20],
            blocktable=np.array([[1, 0]], np.int32), num_heads=2, scale_value=0.25, input_layout="BSH",
            num_key_value_heads=2, block_size=16, inner_precise=1,
        )  # fmt: skip
    assert refused.value.status == 561002
