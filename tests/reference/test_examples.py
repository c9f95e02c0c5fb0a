"""The worked examples of the first operators' documents and kernels, each computed by hand or in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from reference_tools import BF16, F16, F32, FLOATS, run, same

from ascend_aclnn.numerics import DataError
from ascend_aclnn.reference.index.embedding import embedding_dense_backward
from ascend_aclnn.reference.moe.tokens import (
    moe_init_routing,
    moe_init_routing_quant,
    moe_token_permute,
    moe_token_permute_grad,
    moe_token_unpermute,
)
from ascend_aclnn.reference.norm.rms import rms_norm, rms_norm_grad

I32 = np.int32
NO_PADDING = 2**64 - 1


def array(values: Any, dtype: Any = F32) -> Any:
    return np.array(values, np.float64).astype(dtype)


def ints(values: Any) -> Any:
    return np.array(values, I32)


# --------------------------------------------------------------------------------------------- permute, unpermute

TOKENS = [[1, 10], [2, 20], [3, 30]]
EXPERTS = [[1, 0], [2, 1], [0, 2]]
SORTED = [2, 0, 4, 3, 1, 5]
PERMUTED = [[1, 10], [3, 30], [1, 10], [2, 20], [2, 20], [3, 30]]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_permute(dtype: Any, index: Any) -> None:
    permuted, order = run(
        moe_token_permute, array(TOKENS, dtype), np.array(EXPERTS, index), 0, False, out=[((6, 2), dtype), ((6,), I32)]
    )
    same(permuted, array(PERMUTED, dtype))
    same(order, ints(SORTED))


def test_permute_that_drops_two() -> None:
    permuted, order = run(moe_token_permute, array(TOKENS), ints(EXPERTS), -2, False, out=[((4, 2), F32), ((6,), I32)])
    same(permuted, array(PERMUTED[:4]))
    same(order, ints(SORTED))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("rows", "expected"), [(6, [[6, 8], [16, 18], [14, 16]]), (4, [[6, 8], [7, 8], [3, 4]])], ids=["all", "dropped"]
)
def test_permute_grad(dtype: Any, rows: Any, expected: Any) -> None:
    grad = np.arange(1, 13).reshape(6, 2)[:rows]
    (result,) = run(moe_token_permute_grad, array(grad, dtype), ints(SORTED), 2, False, out=[((3, 2), dtype)])
    same(result, array(expected, dtype))


def test_permute_grad_sums_in_float32() -> None:
    grad = array([[256], [1], [1], [1]], BF16)
    (result,) = run(moe_token_permute_grad, grad, ints([0, 1, 2, 3]), 4, False, out=[((1, 1), BF16)])
    same(result, array([[260]], BF16))


def test_permute_grad_of_the_document_samples_as_meant() -> None:
    (result,) = run(moe_token_permute_grad, array([[1, 2], [3, 4]], BF16), ints([0, 1]), 2, False, out=[((1, 2), BF16)])
    same(result, array([[4, 6]], BF16))


def test_permute_grad_of_the_document_samples_as_they_are() -> None:
    """The C++ samples read floats as bf16 and int32: the second index is out of range and adds nothing."""
    grad = np.array([1, 2, 3, 4], F32).view(BF16)[:4].reshape(2, 2)
    indices = np.array([0, 1], F32).view(I32)
    same(grad, array([[0, 1], [0, 2]], BF16))
    (result,) = run(moe_token_permute_grad, grad, indices, 2, False, out=[((1, 2), BF16)])
    assert result.tobytes() == bytes([0, 0, 0x80, 0x3F])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("probs_dtype", FLOATS, ids=str)
def test_unpermute(dtype: Any, probs_dtype: Any) -> None:
    probs = array([[0.5, 0.25], [1, 0], [0.75, 0.5]], probs_dtype)
    (result,) = run(
        moe_token_unpermute, array(PERMUTED, dtype), ints(SORTED), probs, False, None, out=[((3, 2), dtype)]
    )
    same(result, array([[0.75, 7.5], [2, 20], [3.75, 37.5]], dtype))


# ------------------------------------------------------------------------------------------------------ RMS norm

DX = [
    [int(number) for number in line.split()]
    for line in (
        "-1155 -2308 -3459 -4608 -5755 -6900 -8043 -9184 -10323 -11460 -12595 -13728 -14859 -15988 -17115 -18240",
        "-860030 -910584 -961134 -1011680 -1062222 -1112760 -1163294 -1213824 "
        "-1264350 -1314872 -1365390 -1415904 -1466414 -1516920 -1567422 -1617920",
    )
]
DX_BF16 = [-1152, -2304, -3456, -4608, -5760, -6912, -8032, -9216, -10304, -11456, -12608, -13696]
DX_BF16 += [-14848, -16000, -17152, -18176]
DX_F16 = [-1155, -2308, -3460, -4608, -5756, -6900, -8044, -9184, -10320, -11456, -12592, -13728]
DX_F16 += [-14856, -15984, -17120, -18240]
DGAMMA = [579, 652, 731, 816, 907, 1004, 1107, 1216, 1331, 1452, 1579, 1712, 1851, 1996, 2147, 2304]


@pytest.mark.parametrize("rstd_shape", [(2, 1), (2,), (2, 1, 1)], ids=str)
@pytest.mark.parametrize(("dtype", "row"), [(F32, DX[0]), (BF16, DX_BF16), (F16, DX_F16)], ids=["f32", "bf16", "f16"])
def test_rms_norm_grad_of_the_document_sample(dtype: Any, row: Any, rstd_shape: Any) -> None:
    x = array(np.arange(1, 33).reshape(2, 1, 16), dtype)
    gamma = array(np.arange(1, 17), dtype)
    rstd = array([1, 2]).reshape(rstd_shape)
    dx, dgamma = run(rms_norm_grad, x, x, rstd, gamma, out=[((2, 1, 16), dtype), ((16,), F32)])
    same(dx[0], array([row], dtype))
    if dtype == F32:
        same(dx[1], array([DX[1]]))
    same(dgamma, array(DGAMMA))


X, GAMMA = [[1, 2, 2], [0, 3, 4]], [1, 0.5, 2]


def test_rms_norm_grad_equals_the_derivative() -> None:
    rstd = array([[1 / math.sqrt(3)], [math.sqrt(3) / 5]])
    dx, dgamma = run(
        rms_norm_grad, array([[1, 0, -1], [2, 1, 0]]), array(X), rstd, array(GAMMA), out=[((2, 3), F32), ((3,), F32)]
    )
    np.testing.assert_allclose(
        dx,
        [[0.7698003589195, 0.3849001794598, -0.7698003589195], [0.6928203230276, 0.1108512516844, -0.0831384387633]],
        rtol=1e-6,
    )
    np.testing.assert_allclose(dgamma, [0.5773502691896, 1.0392304845413, -1.1547005383793], rtol=1e-6)


def test_rms_norm() -> None:
    y, rstd = run(rms_norm, array(X), array(GAMMA), 1e-6, out=[((2, 3), F32), ((2, 1), F32)])
    np.testing.assert_allclose(rstd, [[0.577350172965], [0.346410140729]], rtol=1e-7)
    expected = [[0.577350172965, 0.577350172965, 2.309400691858], [0, 0.519615211094, 2.771281125833]]
    np.testing.assert_allclose(y, expected, rtol=2e-7)


# ----------------------------------------------------------------------------------------------------- embedding

ROWS = [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]
NAMES = [2, 0, 2, 2, 1]


def embed(grad: Any, indices: Any, num_weights: Any, padding: Any = NO_PADDING, scale: Any = False) -> Any:
    spec = ((num_weights, grad.shape[-1]), grad.dtype)
    return run(embedding_dense_backward, grad, np.asarray(indices), num_weights, padding, scale, out=[spec])[0]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_embedding_dense_backward_of_the_document_sample(dtype: Any) -> None:
    result = embed(array([[1, 2, 3], [4, 5, 6]], dtype), ints([1, 2]), 4, padding=0)
    same(result, array([[0, 0, 0], [1, 2, 3], [4, 5, 6], [0, 0, 0]], dtype))


@pytest.mark.parametrize("padding", [NO_PADDING, 4, 1 << 40])
def test_embedding_dense_backward_without_padding(padding: Any) -> None:
    same(embed(array(ROWS), ints(NAMES), 4, padding), array([[3, 4], [9, 10], [13, 16], [0, 0]]))


def test_embedding_dense_backward_scaled() -> None:
    result = embed(array(ROWS), ints(NAMES), 4, scale=True)
    row = [float.fromhex("0x1.155556p+2"), float.fromhex("0x1.555556p+2")]
    same(result, array([[3, 4], [9, 10], row, [0, 0]]))


def test_embedding_dense_backward_with_padding() -> None:
    same(embed(array(ROWS), ints(NAMES), 4, padding=2), array([[3, 4], [9, 10], [0, 0], [0, 0]]))


@pytest.mark.parametrize(("dtype", "first", "total"), [(F16, 2048, 2052), (BF16, 256, 260)], ids=["f16", "bf16"])
@pytest.mark.parametrize("width", [1, 300])
def test_embedding_dense_backward_sums_in_float32(dtype: Any, first: Any, total: Any, width: Any) -> None:
    grad = array([[first], [1], [1], [1]], dtype).repeat(width, axis=1)
    same(embed(grad, ints([0, 0, 0, 0]), 1), array([[total]], dtype).repeat(width, axis=1))


# ------------------------------------------------------------------------------------------------------- routing


def route(x: Any, row_idx: Any, expert_idx: Any, active_num: Any, scale: Any = None, offset: Any = 0.0) -> Any:
    (n, k), h = np.shape(expert_idx), np.shape(x)[1]
    specs = [((min(n, active_num) * k, h), np.int8 if scale is not None else x.dtype), ((n * k,), I32), ((n * k,), I32)]
    if scale is None:
        return run(moe_init_routing, x, ints(row_idx), ints(expert_idx), active_num, out=specs)
    return run(moe_init_routing_quant, x, ints(row_idx), ints(expert_idx), active_num, scale, offset, out=specs)


A = {"row_idx": [[0, 3], [1, 4], [2, 5]], "expert_idx": [[1, 2], [0, 1], [0, 2]]}
B = {"row_idx": [[0, 3], [1, 4], [2, 5]], "expert_idx": [[1, 0], [2, 1], [0, 2]]}
B_X = [[0.5, 1.5], [2.5, -2.5], [3.4999, 25.07]]


def test_routing_quant_of_the_vendor_sample() -> None:
    x = array([[0.1] * 4, [0.2] * 4, [0.3] * 4])
    expanded, rows, experts = route(x, **A, active_num=3, scale=1.0, offset=1.0)
    same(expanded, np.ones((6, 4), np.int8))
    same(rows, ints([2, 0, 1, 4, 3, 5]))
    same(experts, ints([0, 0, 1, 1, 2, 2]))
    same(route(x, **A, active_num=3)[0], x[[1, 2, 0, 1, 0, 2]])


@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
def test_routing_quant_rounds_in_half_precision(dtype: Any) -> None:
    expanded, rows, experts = route(array(B_X, dtype), **B, active_num=3, scale=4.0, offset=0.25)
    tokens = np.array([[2, 6], [10, -10], [14, 100]], np.int8)
    same(expanded, tokens[[0, 2, 0, 1, 1, 2]])
    same(rows, ints([2, 4, 1, 0, 3, 5]))
    same(experts, ints([0, 0, 1, 1, 2, 2]))
    expanded, rows, experts = route(array(B_X, dtype), **B, active_num=1, scale=4.0, offset=0.25)
    same(expanded, tokens[[0, 2]])
    same(rows, ints([2, 4, 1, 0, 3, 5]))
    expanded, _, _ = route(array(B_X, dtype), **B, active_num=3, scale=1.0, offset=0.0)
    same(expanded, np.array([[0, 2], [2, -2], [4, 25]], np.int8)[[0, 2, 0, 1, 1, 2]])


def test_routing_without_active_tokens() -> None:
    expanded, rows, experts = route(array(B_X), **B, active_num=0, scale=1.0)
    assert expanded.shape == (0, 2)
    same(rows, ints([2, 4, 1, 0, 3, 5]))
    same(experts, ints([0, 0, 1, 1, 2, 2]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_quantising_single_values(dtype: Any) -> None:
    values = [0.5, 1.5, 2.5, -0.5, -2.5, 127.6, 200, -128.4, -300]
    expected = [0, 2, 2, 0, -2, 127, 127, -128, -128]
    expanded, _, _ = route(array([values], dtype), [[0]], [[0]], 1, scale=1.0)
    same(expanded, np.array([expected], np.int8))


# ---------------------------------------------------------------------------------------------- what is refused


def permute_grad(indices: Any) -> Any:
    return run(moe_token_permute_grad, array(TOKENS), ints(indices), 1, False, out=[((3, 2), F32)])


def permute(experts: Any) -> Any:
    return run(moe_token_permute, array(TOKENS), ints(experts), 0, False, out=[((3, 2), F32), ((3,), I32)])


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("sortedIndices", lambda: permute_grad([0, 1, -1])),
        ("indices", lambda: embed(array(ROWS), ints([0, 1, 2, 3, 4]), 4)),
        ("indices", lambda: embed(array(ROWS), ints([0, 1, 2, -1, 0]), 4)),
        ("indices", lambda: embed(array(ROWS), np.array([0, 1, 2, math.nan, 0]), 4)),
        ("indices", lambda: embed(array(ROWS), ints(NAMES), 0)),
        ("rowIdx", lambda: route(array(B_X), [[0, 3], [1, 6], [2, 5]], B["expert_idx"], 3)),
        ("rowIdx", lambda: route(array(B_X), [[0, 3], [1, 3], [2, 5]], B["expert_idx"], 3)),
        ("indices", lambda: permute([0, -1, 2])),
    ],
)
def test_data_out_of_range_are_refused(argument: Any, call: Any) -> None:
    with pytest.raises(DataError, match="allowed") as caught:
        call()
    assert caught.value.argument == argument
