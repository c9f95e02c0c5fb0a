"""Products of quantised operands against float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from comparisons import assert_near
from rule_tools import NEW_950

import ascend_aclnn as aclnn
from ascend_aclnn import ops

RNG = np.random.default_rng(17)
BF16 = ml_dtypes.bfloat16


def int8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def floats(*shape: int, dtype: Any = np.float32, scale: float = 0.01) -> np.ndarray:
    return (np.abs(RNG.standard_normal(shape)) * scale + scale / 10).astype(dtype)


def cut(scale: np.ndarray) -> np.ndarray:
    """What is left of a scale in the fixpipe's 19 bits."""
    return (scale.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


def wide(*arrays: np.ndarray) -> list[np.ndarray]:
    return [a.astype(np.float64) for a in arrays]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bias", [None, np.int32, np.float32])
def test_v4_to_bf16(bias: Any, transposed: bool) -> None:
    x1, x2, scale, rows = int8(3, 5, 40), int8(40, 16), floats(16), floats(5)
    given = x2.T.copy() if transposed else x2
    added = None if bias is None else RNG.integers(-999, 999, 16).astype(bias)
    actual = ops.quant_matmul_v4(x1, given, scale, None, rows, added, False, transposed)
    a, b = wide(x1, x2)
    total = a @ b + (added if bias is np.int32 else 0)
    expected = total * scale.astype(float) * rows.astype(float)[:, None] + (added if bias is np.float32 else 0)
    assert actual.dtype == BF16
    assert_near(actual, expected, 1e-2, floor=1e-6)


def test_v3_by_parameters_of_the_fixpipe() -> None:
    x1, x2, scale = int8(4, 32), int8(32, 16), floats(16, scale=0.001)
    parameters = ops.trans_quant_param_v2(scale, None)
    assert_near(
        ops.quant_matmul_v3(x1, x2, parameters, None, None, False, False),
        wide(x1)[0] @ wide(x2)[0] * cut(scale),
        2e-3,
        floor=1e-6,
    )
    offset = np.full(16, 3.0, np.float32)
    out = np.empty((4, 16), np.int8)
    ops.quant_matmul_v3(x1, x2, parameters, offset, None, False, False, out=out)
    expected = np.clip(np.rint(wide(x1)[0] @ wide(x2)[0] * cut(scale) + 3), -128, 127)
    assert np.abs(out - expected).max() <= 1
    with_offset = ops.trans_quant_param_v2(scale, offset)
    again = np.empty((4, 16), np.int8)
    ops.quant_matmul_v3(x1, x2, with_offset, None, None, False, False, out=again)
    assert np.array_equal(out, again)


def test_int32_results_are_exact() -> None:
    x1, x2 = np.full((1, 8192), -128, np.int8), np.full((8192, 16), -128, np.int8)
    x1[0, 0] = -127
    out = np.empty((1, 16), np.int32)
    ops.quant_matmul_v3(x1, x2, np.ones(1, np.float32), None, np.ones(16, np.int32), False, False, out=out)
    assert (out == 8192 * 16384 - 128 + 1).all()


def packed(x: np.ndarray) -> np.ndarray:
    parts = (x.astype(np.int64) & 15).reshape(*x.shape[:-1], -1, 8) << (4 * np.arange(8))
    return parts.sum(-1).astype(np.uint32).view(np.int32)


def test_int4() -> None:
    x1, x2 = (RNG.integers(-8, 8, s) for s in [(4, 16), (16, 24)])
    scale, rows = floats(24), floats(4)
    expected = x1 @ x2 * scale.astype(float) * rows.astype(float)[:, None]
    assert_near(
        ops.quant_matmul_v4(packed(x1), packed(x2), scale, None, rows, None, False, False), expected, 1e-2, floor=1e-6
    )
    with aclnn.use_backend("numpy"):
        small = [aclnn.asarray(x.astype(ml_dtypes.int4)) for x in (x1, x2)]
        assert_near(
            ops.quant_matmul_v4(*small, scale, None, rows, None, False, False).numpy(), expected, 1e-2, floor=1e-6
        )


def test_v5_groups() -> None:
    x1, x2 = (RNG.integers(-8, 8, s).astype(ml_dtypes.int4) for s in [(4, 1024), (256, 1024)])
    rows, scale, offset = floats(4, 1), floats(4, 256), floats(4, 256, dtype=np.float16, scale=2)
    out = np.empty((4, 256), BF16)
    none = [None] * 2
    ops.quant_matmul_v5(
        x1, x2, rows, scale, *none, offset, None, None, False, True, group_size=256, out=out
    )  # fmt: skip
    a, b = x1.astype(float).reshape(4, 4, 256), x2.astype(float).T.reshape(4, 256, 256)
    moved = (b - offset.astype(float)[:, None]) * scale.astype(float)[:, None]
    assert_near(out, np.einsum("mgk,gkn->mn", a, moved) * rows.astype(float), 1e-2, floor=1e-6)


@pytest.mark.parametrize("view", [False, True])
def test_v5_packed_and_transposed(view: bool) -> None:
    """INT32 holds eight INT4 of the axis that is stored last, be it by transposeX2 or by the strides."""
    x1, x2 = (RNG.integers(-8, 8, s) for s in [(4, 64), (16, 64)])
    rows, scale = floats(4), floats(16)
    right = aclnn.asarray(packed(x2))
    tensors = [aclnn.asarray(a) for a in (packed(x1), rows, scale)]
    out = aclnn.empty((4, 16), BF16)
    ops.quant_matmul_v5(
        tensors[0], right.transpose(1, 0) if view else right, *tensors[1:], *[None] * 5, False, not view, 0, out=out
    )
    assert_near(out.numpy(), x1 @ x2.T * scale.astype(float) * rows[:, None].astype(float), 1e-2, floor=1e-6)


@pytest.mark.parametrize("grouped", [False, True])
def test_v5_of_8_by_4_bits(grouped: bool) -> None:
    """yOffset makes up for the halving of the rows: with 8 * x2 * x2Scale in it the plain product is left."""
    x1, x2 = int8(5, 512), RNG.integers(-8, 8, (512, 24))
    scale = np.abs(floats(2 if grouped else 1, 24))
    columns = scale.repeat(512 // len(scale), 0).astype(float)
    wanted, moved = floats(24, scale=1), (8 * x2 * columns).sum(0)
    rows = floats(5, 1) if grouped else floats(5)
    bits = scale.view(np.uint32).astype(np.int64).reshape(scale.shape if grouped else -1)
    out = np.empty((5, 24), np.float16)
    ops.quant_matmul_v5(
        x1, packed(x2), rows, bits, None, None, None, (wanted + moved).astype(np.float32), None, False, False,
        256 if grouped else 0, out=out,
    )  # fmt: skip
    assert_near(out, (x1.astype(float) @ (x2 * columns) + wanted) * rows.reshape(-1, 1).astype(float), 2e-3, floor=1e-6)


@pytest.mark.parametrize("turned", [False, True])
def test_v5_shared_exponents(turned: bool) -> None:
    e4m3, e8m0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
    x1, x2 = floats(2, 3, 96, dtype=e4m3, scale=1), floats(2, 96, 5, dtype=e4m3, scale=1)
    codes1, codes2 = RNG.integers(120, 130, (2, 3, 4)), RNG.integers(120, 130, (2, 4, 5))
    scale1 = codes1.astype(np.uint8).view(e8m0).reshape(2, 3, 2, 2)
    scale2 = codes2.astype(np.uint8).view(e8m0).reshape(2, 2, 2, 5).swapaxes(2, 3)
    bias = floats(5, scale=1)
    wide1 = x1.astype(float) * (2.0 ** (codes1 - 127)).repeat(32, 2)[..., :96]
    wide2 = x2.astype(float) * (2.0 ** (codes2 - 127)).repeat(32, 1)[:, :96]
    if turned:
        x1, x2, scale1, scale2 = (a.swapaxes(1, 2).copy() for a in (x1, x2, scale1, scale2))
    out = np.empty((2, 3, 5), np.float32)
    with aclnn.use_backend("numpy", soc=NEW_950):
        ops.quant_matmul_v5(x1, x2, scale1, scale2, *[None] * 4, bias, turned, turned, 4295032864, out=out)
    assert_near(out, wide1 @ wide2 + bias.astype(float), 1e-5, floor=1e-6)


def test_first_versions() -> None:
    x1, x2, bias = int8(2, 4, 32), int8(2, 32, 8), RNG.integers(-99, 99, 8).astype(np.int32)
    expected = np.matmul(*wide(x1, x2)) + bias
    assert_near(ops.quant_matmul(x1, x2, bias, 0.001), expected * 0.001, 1e-3, floor=1e-6)
    scale = floats(16, scale=0.001)
    parameters = ops.trans_quant_param_v2(scale, None)
    assert_near(
        ops.quant_matmul_v2(x1, x2, bias, parameters, False, False), expected * cut(scale)[:8], 2e-3, floor=1e-6
    )


@pytest.mark.parametrize("group", [0, 32])
@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_weights_alone(group: int, dtype: Any) -> None:
    x, weight = floats(3, 64, dtype=dtype, scale=1), int8(64, 16)
    scale = floats(2, 16, dtype=dtype) if group else floats(1, 16, dtype=dtype)
    offset = floats(*scale.shape, dtype=dtype, scale=5)
    bias = floats(16, dtype=np.float32 if dtype is BF16 else dtype, scale=1)
    if group:
        weight = RNG.integers(-8, 8, (64, 16)).astype(ml_dtypes.int4)
    actual = ops.weight_quant_batch_matmul_v2(x, weight, scale, offset, None, None, bias, group)
    s, o = (v.astype(float).repeat(64 // len(v), 0) for v in (scale, offset))
    assert_near(actual, x.astype(float) @ ((weight.astype(float) + o) * s) + bias.astype(float), 1e-2, floor=1e-6)
    assert actual.dtype == dtype


def test_quantised_by_rows_inside() -> None:
    x, weight, scale = floats(3, 64, dtype=np.float16, scale=1), int8(16, 64), floats(16)
    with aclnn.use_backend("numpy", soc="Ascend310P3"):
        actual = ops.quant_matmul_dequant(x, weight, scale, None, None, None, None, "pertoken", True)
    assert_near(actual, x.astype(float) @ weight.astype(float).T * scale.astype(float), 2e-2, floor=1e-6)


@pytest.mark.parametrize("operation", ["gelu_erf", "gelu_tanh"])
def test_fused(operation: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is the oracle of gelu: left out without it")
    x1, x2, scale, rows = int8(5, 40), int8(40, 16), floats(16), floats(5)
    none: list[Any] = [None] * 4
    actual = ops.fused_quant_matmul(x1, x2, rows, scale, *none, None, None, operation, 0)
    total = wide(x1)[0] @ wide(x2)[0] * scale.astype(float) * rows.astype(float)[:, None]
    kind = "tanh" if operation == "gelu_tanh" else "none"
    assert_near(actual, torch.nn.functional.gelu(torch.tensor(total), approximate=kind).numpy(), 1e-2, floor=1e-6)


def test_batch_matmul_quant() -> None:
    x1, x2 = (RNG.standard_normal(s).astype(np.float16) for s in [(4, 8), (8, 10)])
    scale = floats(16, scale=20)
    parameters = ops.trans_quant_param_v2(scale, np.full(16, 2.0, np.float32))
    actual = ops.batch_matmul_quant(x1, x2, parameters, None, False, False)
    expected = np.clip(np.rint(wide(x1)[0] @ wide(x2)[0] * cut(scale)[:10] + 2), -128, 127)
    assert np.abs(actual - expected).max() <= 1


def test_transpose_batch_matmul() -> None:
    x1, x2 = (RNG.standard_normal(s).astype(np.float16) for s in [(8, 4, 128), (4, 128, 128)])
    expected = np.einsum("mbk,bkn->mbn", *wide(x1, x2))
    perms = [1, 0, 2], [0, 1, 2], [1, 0, 2]
    assert_near(ops.transpose_batch_mat_mul(x1, x2, None, None, *perms, 0, 1), expected, 2e-3, floor=1e-6)
    split = ops.transpose_batch_mat_mul(x1, x2, None, None, *perms, 0, 2)
    assert_near(split, np.stack([expected[:, :2].reshape(8, -1), expected[:, 2:].reshape(8, -1)]), 2e-3, floor=1e-6)


def test_reduced_sums_of_flat_blocks() -> None:
    """A weight in FRACTAL_NZ whose storage is given as one axis."""
    x1, x2 = int8(3, 4, 32), int8(3, 32, 64)
    scale1, scale2 = floats(3, 4), floats(64, dtype=BF16)
    blocked = aclnn.asarray(x2).to_format("FRACTAL_NZ")
    flat = blocked.with_format("FRACTAL_NZ", (int(np.prod(blocked.storage_shape)),))
    expected = (np.matmul(*wide(x1, x2)) * scale1[..., None].astype(float) * scale2.astype(float)).sum(0)
    for weight in (blocked, flat):
        out = aclnn.empty((4, 64), BF16)
        tensors = [aclnn.asarray(a) for a in (x1, scale1, scale2)]
        ops.quant_matmul_reduce_sum_weight_nz(
            tensors[0], weight, *tensors[1:], *[None] * 5, False, False, -1, [0], False, out=out
        )
        assert_near(out.numpy(), expected, 1e-2, floor=1e-6)


@pytest.mark.parametrize("half", [ml_dtypes.bfloat16, np.float16])
def test_v5_by_scales_of_the_output(half: Any) -> None:
    """T-CG of Ascend 950: the weight, dequantised, is rounded to its scales' data type and to x1's (the kernel's vf.h)."""
    e4m3 = np.dtype(ml_dtypes.float8_e4m3fn)
    x1 = RNG.standard_normal((5, 64)).astype(e4m3)
    x2 = RNG.integers(0, 16, (8, 64)).astype(np.uint8).view(ml_dtypes.float4_e2m1fn)
    scale, last = RNG.uniform(0.5, 2, (8, 2)).astype(half), RNG.uniform(0.5, 2, (1, 8)).astype(np.float32)
    weight = (x2.astype(np.float32) * scale.astype(np.float32).repeat(32, 1)).astype(half)
    weight = weight.astype(np.float32).astype(e4m3).astype(np.float64)
    cut = (last.view(np.uint32) & 0xFFFFE000).view(np.float32)
    with aclnn.use_backend("numpy", soc=NEW_950):
        given = ops.trans_quant_param_v2(last)
        out = np.empty((5, 8), half)
        for size in (32, 4295032864):
            ops.quant_matmul_v5(x1, x2, None, scale, given, None, None, None, None, False, True, size, out=out)
            tolerance = 4 * float(ml_dtypes.finfo(half).eps)
            np.testing.assert_allclose(
                out.astype(float), x1.astype(float) @ weight.T * cut, rtol=tolerance, atol=tolerance * 16
            )
