"""Products of groups of tokens, in integers and float64, a group at a time."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import vllm_ascend_operators  # noqa: F401 - declares the operators

import ascend_aclnn as aclnn
from ascend_aclnn import ops

ENDS = np.array([3, 3, 7])  # of eight rows; the second expert has none, the last row has none


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_moe_grouped_matmul(aclnn_backend, dtype, blocked, transposed):
    random = np.random.default_rng(1)
    x, weight = (random.normal(size=size).astype(dtype) for size in ((8, 32), (3, 32, 16)))
    groups = np.array([[2, 3], [0, 4]])  # three rows for expert 2, four for expert 0
    stored = aclnn.asarray(weight.swapaxes(1, 2).copy() if transposed else weight)
    function = ops.moe_grouped_matmul_weight_nz if blocked else ops.moe_grouped_matmul
    (out,) = function([x], [stored.to_format("FRACTAL_NZ") if blocked else stored], groups, transposed)
    golden = np.zeros((8, 16))
    golden[:3] = x[:3].astype(np.float64) @ weight[2].astype(np.float64)
    golden[3:7] = x[3:7].astype(np.float64) @ weight[0].astype(np.float64)
    out = out.numpy()
    assert out.dtype == dtype and np.allclose(out.astype(np.float64), golden, rtol=1e-2, atol=5e-2)


def test_an_expert_that_is_not_there_is_refused(aclnn_backend):
    x, weight = np.ones((2, 16), np.float16), np.ones((3, 16, 16), np.float16)
    with pytest.raises(aclnn.AclError, match="names expert 3; there are 3"):
        ops.moe_grouped_matmul([x], [weight], np.array([[3, 2]]), False)
        aclnn.synchronize()


def quantised(x, weight, scale, x_scale, limit):
    """Rows of codes and their scales: swiglu of the products with one matrix, its left half activated."""
    total = (x.astype(float) @ weight.astype(float)) * x_scale[:, None].astype(np.float64) * scale
    left, right = np.split(total, 2, 1)
    if limit:
        left, right = np.minimum(left, limit), np.clip(right, -limit, limit)
    gated = left / (1 + np.exp(-left)) * right
    scales = np.abs(gated).max(1) / 127
    return gated / scales[:, None], scales


@pytest.mark.parametrize("limit", [0.0, 0.7])
@pytest.mark.parametrize("form", ["weight_nz", "v2", "weight_nz_v2", "tensor_list"])
def test_grouped_matmul_swiglu_quant(aclnn_backend, form, limit):
    """Each form of vllm-ascend 0.23.0; they differ from CANN's by a limit of what is activated."""
    random = np.random.default_rng(4)
    x, weight = (random.integers(-9, 9, size, dtype=np.int8) for size in ((8, 64), (3, 64, 64)))
    scale, x_scale = (
        random.uniform(0.01, 0.05, (3, 64)).astype(np.float32),
        random.uniform(0.1, 1, 8).astype(np.float32),
    )
    blocked = [aclnn.asarray(one).to_format("FRACTAL_NZ") for one in (weight, *weight)]
    if form == "weight_nz":
        arguments = blocked[0], None, None, scale, x_scale, ENDS, limit
        y, y_scale, _ = ops.grouped_matmul_swiglu_quant_weight_nz(x, *arguments)
    elif form == "tensor_list":
        arguments = blocked[1:], None, None, list(scale), x_scale, ENDS, limit
        y, y_scale, _ = ops.grouped_matmul_swiglu_quant_weight_nz_tensor_list(x, *arguments)
    else:
        function = aclnn.function(f"aclnnGroupedMatmulSwigluQuant{'V2' if form == 'v2' else 'WeightNzV2'}")
        sizes = np.diff(ENDS, prepend=0)
        y, y_scale = function(x, [blocked[0]], [scale], None, None, x_scale, None, sizes, 0, 0, 0, 1, None, limit)
    y, y_scale = y.numpy(), y_scale.numpy()
    for expert, rows in ((0, slice(0, 3)), (2, slice(3, 7))):
        golden, scales = quantised(x[rows], weight[expert], scale[expert], x_scale[rows], limit)
        assert np.abs(y[rows] - golden).max() <= 0.51 and np.allclose(y_scale[rows], scales, rtol=1e-5)
    assert not y[7].any()


@pytest.mark.parametrize("groups", [None, 2])
def test_grouped_matmul_swiglu_quant_with_weights_of_four_bits(aclnn_backend, groups):
    """Eight codes in an INT32, a scale for each output or for each of its groups of inputs, in the fixpipe's format."""
    random = np.random.default_rng(5)
    x = random.integers(-128, 128, (8, 64), dtype=np.int8)
    codes = random.integers(-8, 8, (3, 64, 64))
    nibbles = (codes & 15).astype(np.uint32).reshape(3, 64, 8, 8) << (4 * np.arange(8, dtype=np.uint32))
    weight = aclnn.asarray(nibbles.sum(-1, dtype=np.uint32).view(np.int32)).to_format("FRACTAL_NZ")
    size = (3, 64) if groups is None else (3, groups, 64)
    scale = (2.0 ** random.integers(-9, -6, size)).astype(np.float32)  # exact in any format
    whole = codes * np.repeat(scale.reshape(3, -1, 64), 64 // (groups or 1), 1)
    x_scale = random.uniform(0.1, 1, 8).astype(np.float32)
    packed, assist = scale.view(np.uint32).astype(np.int64), (8 * whole.sum(1)).astype(np.float32)
    sizes = np.diff(ENDS, prepend=0)
    mode = 0 if groups is None else 1
    arguments = [packed], [assist], None, x_scale, None, sizes, mode, 0, 0, 1, None, 0.0
    y, y_scale = (out.numpy() for out in ops.grouped_matmul_swiglu_quant_weight_nz_v2(x, [weight], *arguments))
    for expert, rows in ((0, slice(0, 3)), (2, slice(3, 7))):
        golden, scales = quantised(x[rows], whole[expert], 1, x_scale[rows], 0.0)
        assert np.abs(y[rows] - golden).max() <= 0.6 and np.allclose(y_scale[rows], scales, rtol=2e-3)


def test_a_negative_limit_is_refused(aclnn_backend):
    ones = np.ones((1, 64, 64), np.int8)
    weight, scale = aclnn.asarray(ones).to_format("FRACTAL_NZ"), np.ones((1, 64), np.float32)
    with pytest.raises(aclnn.AclError, match="must not be negative") as refused:
        ops.grouped_matmul_swiglu_quant_weight_nz(
            ones[0], weight, None, None, scale, np.ones(64, np.float32), np.array([64]), -1.0
        )
    assert (refused.value.status, refused.value.argument) == (561002, "limited")
