"""Products of operands with shared exponents (Ascend 950) against float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from reference_tools import BF16, F16, F32, close, floats
from rule_tools import NEW_950

import ascend_aclnn as aclnn
from ascend_aclnn import ops

E4M3, E5M2, E2M1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn
E8M0 = ml_dtypes.float8_e8m0fnu


@pytest.fixture(autouse=True)
def ascend950() -> Iterator[None]:
    with aclnn.use_backend("numpy", soc=NEW_950):
        yield


def scales(rng: Any, *shape: int) -> Any:
    return rng.integers(120, 134, shape).astype(np.uint8).view(E8M0)


def spread(codes: Any, axis: int, length: int) -> Any:
    """2^(code - 127) for each element; codes (..., pairs, ..., 2) have the pairs on ``axis``."""
    moved = np.moveaxis(codes.view(np.uint8).astype(float), axis, -2)
    flat = 2.0 ** (moved.reshape(*moved.shape[:-2], -1) - 127)
    return np.moveaxis(flat.repeat(32, -1)[..., :length], -1, axis)


@pytest.mark.parametrize("turned", [False, True])
def test_transposed_batches(turned: bool) -> None:
    rng = np.random.default_rng(0)
    x1, s1 = floats(rng, (6, 3, 128), E4M3), scales(rng, 6, 3, 2, 2)
    shape, sizes = ((3, 5, 128), (3, 5, 2, 2)) if turned else ((3, 128, 5), (3, 2, 5, 2))
    x2, s2 = floats(rng, shape, E4M3), scales(rng, *sizes)
    perm = [0, 2, 1] if turned else [0, 1, 2]
    y = ops.transpose_quant_batch_mat_mul(x1, x2, None, s1, s2, 27, 32, [1, 0, 2], perm, [1, 0, 2], 1)
    left = x1.astype(float) * spread(s1, 2, 128)
    right = x2.astype(float) * spread(s2, 2 if turned else 1, 128)
    right = right.swapaxes(1, 2) if turned else right
    expected = np.einsum("mbk,bkn->mbn", left, right)
    assert y.dtype == BF16 and y.shape == (6, 3, 5)
    close(y, expected, 128, np.einsum("mbk,bkn->mbn", abs(left), abs(right)))


def test_transposed_batches_by_rows_and_columns() -> None:
    rng = np.random.default_rng(1)
    x1, x2 = floats(rng, (6, 2, 512), E5M2), floats(rng, (2, 512, 128), E4M3)
    rows, columns = np.abs(floats(rng, (6,), F32)), np.abs(floats(rng, (128,), F32))
    y = ops.transpose_quant_batch_mat_mul(x1, x2, None, rows, columns, 1, 0, [1, 0, 2], [0, 1, 2], [1, 0, 2], 1)
    left, right = x1.astype(float) * rows[:, None, None], x2.astype(float) * columns
    expected = np.einsum("mbk,bkn->mbn", left, right)
    assert y.dtype == F16
    close(y, expected, 512, np.einsum("mbk,bkn->mbn", abs(left), abs(right)))


def test_a_product_added_in_place() -> None:
    rng = np.random.default_rng(2)
    x1, x2 = floats(rng, (100, 6), E5M2), floats(rng, (100, 5), E4M3)
    s1, s2, y = scales(rng, 2, 6, 2), scales(rng, 2, 5, 2), floats(rng, (6, 5), F32)
    actual = ops.quant_batch_matmul_inplace_add(x1, x2, s1, s2, y.copy(), True, False, 32)
    left, right = x1.astype(float) * spread(s1, 0, 100), x2.astype(float) * spread(s2, 0, 100)
    close(actual, y + left.T @ right, 100, abs(left).T @ abs(right) + abs(y))


def test_a_product_of_hifloat8_added_in_place() -> None:
    rng = np.random.default_rng(7)
    x1, x2 = (aclnn.asarray(floats(rng, shape, F32), "HIFLOAT8") for shape in ((100, 6), (100, 5)))
    s1, s2, y = np.array([0.5], F32), np.array([3.0], F32), floats(rng, (6, 5), F32)
    actual = ops.quant_batch_matmul_inplace_add(x1, x2, s1, s2, aclnn.asarray(y), True, False, 0).numpy()
    left, right = (x.numpy().astype(float) for x in (x1, x2))
    close(actual, y + left.T @ right * 1.5, 100, abs(left).T @ abs(right) * 1.5 + abs(y))
    with pytest.raises(aclnn.AclError, match="x1_scale"):
        ops.quant_batch_matmul_inplace_add(x1, x2, np.ones(6, F32), s2, aclnn.asarray(y), True, False, 0)


@pytest.mark.parametrize(("activation", "turned"), [("gelu_tanh", False), ("gelu_erf", True)])
def test_a_product_activated_and_quantised(activation: str, turned: bool) -> None:
    torch = pytest.importorskip("torch", reason="gelu is torch's")
    rng = np.random.default_rng(3)
    x1, s1, bias = floats(rng, (7, 96), E4M3), scales(rng, 7, 2, 2), floats(rng, (40,), F32)
    x2, s2 = floats(rng, (40, 96) if turned else (96, 40), E4M3), scales(rng, *((40, 2, 2) if turned else (2, 40, 2)))
    weight = aclnn.asarray(x2).to_format("FRACTAL_NZ")
    y, codes = ops.quant_matmul_activation_quant_weight_nz(
        *map(aclnn.asarray, (x1,)), weight, *map(aclnn.asarray, (s1, s2, bias)), False, turned, 0, activation, "mx",
        "rint", 0, 0.0,
    )  # fmt: skip
    right = x2.astype(float) * spread(s2, 1 if turned else 0, 96)
    product = (x1.astype(float) * spread(s1, 1, 96)) @ (right.T if turned else right) + bias
    approximate = "tanh" if activation == "gelu_tanh" else "none"
    wanted = torch.nn.functional.gelu(torch.tensor(product), approximate=approximate).numpy()
    restored = y.numpy().astype(float) * spread(codes.numpy(), 1, 40)
    tops = np.abs(np.pad(wanted, ((0, 0), (0, 24))).reshape(7, 2, 32)).max(-1).repeat(32, -1)[:, :40]
    # E4M3 rounds by 1 in 16, and saturates 511 at 448.
    assert (np.abs(restored - wanted) <= np.maximum(np.abs(wanted) / 8, tops * 2.0**-15)).all()
    exponents = np.floor(np.log2(np.abs(np.pad(wanted, ((0, 0), (0, 24))).reshape(7, 2, 32)).max(-1))) - 8
    np.testing.assert_array_equal(codes.numpy().view(np.uint8)[:, 0], exponents + 127)


def test_two_levels_of_scales() -> None:
    rng = np.random.default_rng(4)
    x1, x2 = floats(rng, (6, 640), E2M1), floats(rng, (32, 640), E2M1)
    a1, a2, bias = np.abs(floats(rng, (6, 2), F32)), np.abs(floats(rng, (2, 32), F32)), floats(rng, (32,), F32)
    b1, b2 = scales(rng, 6, 10, 2), scales(rng, 32, 10, 2)
    weight = aclnn.asarray(x2).to_format("FRACTAL_NZ")
    tensors = [aclnn.asarray(a) for a in (a1, a2, b1, b2, bias)]
    y = ops.dual_level_quant_matmul_weight_nz(aclnn.asarray(x1), weight, *tensors, False, True, 512, 32)
    left = x1.astype(float) * spread(b1, 1, 640) * a1.astype(float).repeat(512, 1)[:, :640]
    right = x2.astype(float) * spread(b2, 1, 640) * a2.T.astype(float).repeat(512, 1)[:, :640]
    close(y.numpy(), left @ right.T + bias, 640, abs(left) @ abs(right).T + abs(bias))


@pytest.mark.parametrize(("dst", "algorithm", "most"), [(36, 0, 0.0), (35, 1, 0.0), (40, 2, 7.0)])
@pytest.mark.parametrize("alpha", [None, 0.5, 1.5])
def test_rotation_and_blocks(dst: int, algorithm: int, most: float, alpha: Any) -> None:
    """A rotation by a permutation matrix is exact, so that the blocks can be compared bit for bit."""
    rng = np.random.default_rng(5)
    x, order = floats(rng, (5, 128), BF16), rng.permutation(64)
    rotation = np.eye(64, dtype=np.float32)[:, order].astype(BF16)
    dtype = {35: E5M2, 36: E4M3, 40: E2M1}[dst]
    out = (np.empty((5, 128), dtype), np.empty((5, 2, 2), E8M0))
    limit = None if alpha is None else np.array([alpha], BF16)
    y, codes = ops.rotate_quant(x, rotation, limit, -1, "rint", algorithm, most, False, out=out)
    expected = x.reshape(5, 2, 64)[..., order].reshape(5, 128).astype(np.float32)
    if alpha == 0.5:
        tops = np.abs(expected.reshape(5, 4, 32)).max(-1, keepdims=True) * np.float32(0.5)
        expected = np.clip(expected.reshape(5, 4, 32), -tops, tops).reshape(5, 128)
    y2, codes2 = ops.dynamic_mx_quant_v2(expected.astype(BF16), -1, "rint", dst, 32, algorithm, most)
    np.testing.assert_array_equal(y.view(np.uint8), y2.view(np.uint8))
    np.testing.assert_array_equal(codes.view(np.uint8), codes2.view(np.uint8))
