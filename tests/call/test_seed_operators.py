"""The first operators through the public functions, on every backend: worked examples, dtypes, statuses, views, empties."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from comparisons import assert_equal, assert_near

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops
from ascend_aclnn.backends.interface import Backend

BF16 = ml_dtypes.bfloat16
FLOATS = [np.float32, np.float16, BF16]


def f32(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def i32(values: Any) -> np.ndarray:
    return np.array(values, np.int32)


# ------------------------------------------------------------------------------------------ MoeTokenPermute and back

INDICES = [[1, 0], [2, 1], [0, 2]]
TOKENS = [[1, 10], [2, 20], [3, 30]]
ORDER = [2, 0, 4, 3, 1, 5]
PERMUTED = [[1, 10], [3, 30], [1, 10], [2, 20], [2, 20], [3, 30]]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("ids", [np.int32, np.int64])
def test_permute(each_backend: Backend, dtype: Any, ids: Any) -> None:
    result = ops.moe_token_permute(np.array(TOKENS, dtype), np.array(INDICES, ids))
    assert_equal(result.permute_tokens, PERMUTED)
    assert_equal(result.sorted_indices, ORDER)
    assert result.permute_tokens.dtype == dtype and result.sorted_indices.dtype == np.int32


@pytest.mark.parametrize("wanted,rows", [(4, 4), (-2, 4), (0, 6), (99, 6), (-99, 0)])
def test_permute_keeps_the_rows_that_are_asked_for(each_backend: Backend, wanted: int, rows: int) -> None:
    permuted, order = ops.moe_token_permute(f32(TOKENS), i32(INDICES), wanted)
    assert_equal(permuted, np.reshape(PERMUTED[:rows], (rows, 2)))
    assert_equal(order, ORDER)


@pytest.mark.parametrize("dtype", FLOATS)
def test_permute_grad(each_backend: Backend, dtype: Any) -> None:
    grad = np.arange(1, 13).reshape(6, 2).astype(dtype)
    assert_equal(ops.moe_token_permute_grad(grad, i32(ORDER), 2), [[6, 8], [16, 18], [14, 16]])
    # With the tail dropped in the forward pass, its indices point past the rows and count as zero.
    assert_equal(ops.moe_token_permute_grad(grad[:4], i32(ORDER), 2), [[6, 8], [7, 8], [3, 4]])


def test_permute_grad_adds_in_fp32_and_rounds_once(each_backend: Backend) -> None:
    column = np.array([[256], [1], [1], [1]], BF16)
    assert_equal(ops.moe_token_permute_grad(column, i32([0, 1, 2, 3]), 4), [[260]])


def test_permute_grad_of_the_document(each_backend: Backend) -> None:
    assert_equal(ops.moe_token_permute_grad(np.array([[1, 2], [3, 4]], BF16), i32([0, 1]), num_topk=2), [[4, 6]])


@pytest.mark.parametrize("dtype", FLOATS)
def test_unpermute(each_backend: Backend, dtype: Any) -> None:
    probs = np.array([[0.5, 0.25], [1, 0], [0.75, 0.5]], dtype)
    out = ops.moe_token_unpermute(np.array(PERMUTED, dtype), i32(ORDER), probs)
    assert_equal(out, [[0.75, 7.5], [2, 20], [3.75, 37.5]])


def test_unpermute_without_probs_gathers(each_backend: Backend) -> None:
    out = ops.moe_token_unpermute(f32(PERMUTED), i32(ORDER))
    assert_equal(out, np.array(PERMUTED)[ORDER])


def test_unpermute_skips_rows_of_probability_zero(each_backend: Backend) -> None:
    out = ops.moe_token_unpermute(f32([[np.nan], [3]]), i32([0, 1]), f32([[0, 2]]))
    assert_equal(out, [[6]])


@pytest.mark.parametrize("dtype", FLOATS)
def test_unpermute_grad_is_the_gradient(each_backend: Backend, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    permuted = rng.integers(-4, 5, (6, 8)).astype(dtype)
    probs = (rng.integers(0, 5, (3, 2)) / 4).astype(dtype)
    dout = rng.integers(-4, 5, (3, 8)).astype(dtype)
    order = np.array(ORDER)
    dpermuted, dprobs = ops.moe_token_unpermute_grad(permuted, dout, i32(ORDER), probs)
    wide, weight, up = permuted.astype(float), probs.astype(float), dout.astype(float)
    expected = np.zeros_like(wide)
    expected[order] = (up[:, None, :] * weight[:, :, None]).reshape(6, 8)
    assert_equal(dpermuted, expected)
    assert_equal(dprobs, (up[:, None, :] * wide[order].reshape(3, 2, 8)).sum(axis=2))


# ------------------------------------------------------------------------------------------ RmsNorm and back

X = np.arange(1, 33).reshape(2, 1, 16)
GAMMA = np.arange(1, 17)
DX_0 = [
    -1155,
    -2308,
    -3459,
    -4608,
    -5755,
    -6900,
    -8043,
    -9184,
    -10323,
    -11460,
    -12595,
    -13728,
    -14859,
    -15988,
    -17115,
    -18240,
]
DX_1 = [-860030, -910584, -961134, -1011680, -1062222, -1112760, -1163294, -1213824, -1264350, -1314872, -1365390, -1415904,
        -1466414, -1516920, -1567422, -1617920]  # fmt: skip
DGAMMA = [579, 652, 731, 816, 907, 1004, 1107, 1216, 1331, 1452, 1579, 1712, 1851, 1996, 2147, 2304]
DX_0_BF16 = [
    -1152,
    -2304,
    -3456,
    -4608,
    -5760,
    -6912,
    -8032,
    -9216,
    -10304,
    -11456,
    -12608,
    -13696,
    -14848,
    -16000,
    -17152,
    -18176,
]
DX_0_FP16 = [
    -1155,
    -2308,
    -3460,
    -4608,
    -5756,
    -6900,
    -8044,
    -9184,
    -10320,
    -11456,
    -12592,
    -13728,
    -14856,
    -15984,
    -17120,
    -18240,
]


@pytest.mark.parametrize("rstd_shape", [(2,), (2, 1), (2, 1, 1)])
def test_rms_norm_grad_of_the_document(each_backend: Backend, rstd_shape: tuple[int, ...]) -> None:
    dx, dgamma = ops.rms_norm_grad(f32(X), f32(X), f32([1, 2]).reshape(rstd_shape), f32(GAMMA))
    assert_equal(dx.reshape(2, 16), [DX_0, DX_1])
    assert_equal(dgamma, DGAMMA)


@pytest.mark.parametrize("gamma", ["same", np.float32])
@pytest.mark.parametrize("dtype,row", [(BF16, DX_0_BF16), (np.float16, DX_0_FP16)])
def test_rms_norm_grad_rounds_once(each_backend: Backend, dtype: Any, row: list[int], gamma: Any) -> None:
    scale = GAMMA.astype(dtype if gamma == "same" else gamma)
    dx, dgamma = ops.rms_norm_grad(X.astype(dtype), X.astype(dtype), f32([1, 2]), scale)
    assert_equal(dx[0, 0], row)
    assert_equal(dgamma, DGAMMA)
    assert dx.dtype == dtype and dgamma.dtype == np.float32


def test_rms_norm_grad_equals_autograd(each_backend: Backend) -> None:
    x, gamma, dy = f32([[1, 2, 2], [0, 3, 4]]), f32([1, 0.5, 2]), f32([[1, 0, -1], [2, 1, 0]])
    rstd = f32([3**-0.5, 3**0.5 / 5])
    dx, dgamma = ops.rms_norm_grad(dy, x, rstd, gamma)
    assert_near(
        dx,
        [[0.7698003589195, 0.3849001794598, -0.7698003589195], [0.6928203230276, 0.1108512516844, -0.0831384387633]],
        1e-6,
        1e-7,
    )
    assert_near(dgamma, [0.5773502691896, 1.0392304845413, -1.1547005383793], 1e-6, 1e-7)


def test_rms_norm(each_backend: Backend) -> None:
    y, rstd = ops.rms_norm(f32([[1, 2, 2], [0, 3, 4]]), f32([1, 0.5, 2]))
    assert_near(rstd, [[0.577350172965], [0.346410140729]], 1e-6, 1e-7)
    assert_near(y, [[0.577350172965, 0.577350172965, 2.309400691858], [0, 0.519615211094, 2.771281125833]], 1e-6, 1e-7)
    assert rstd.shape == (2, 1)


# ------------------------------------------------------------------------------------------ Embedding and back

GRAD = [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]
WORDS = [2, 0, 2, 2, 1]


def test_embedding_backward_of_the_document(each_backend: Backend) -> None:
    out = ops.embedding_dense_backward(f32([[1, 2, 3], [4, 5, 6]]), np.array([1, 2]), 4, 0)
    assert_equal(out, [[0, 0, 0], [1, 2, 3], [4, 5, 6], [0, 0, 0]])


@pytest.mark.parametrize("ids", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.float32, np.float16, np.float64])
@pytest.mark.parametrize("dtype", FLOATS)
def test_embedding_backward(each_backend: Backend, dtype: Any, ids: Any) -> None:
    out = ops.embedding_dense_backward(np.array(GRAD, dtype), np.array(WORDS, ids), 4, -1)
    assert_equal(out, [[3, 4], [9, 10], [13, 16], [0, 0]])
    assert out.dtype == dtype


def test_embedding_backward_scales_by_the_reciprocal_count(each_backend: Backend) -> None:
    out = ops.embedding_dense_backward(f32(GRAD), i32(WORDS), 4, -1, scale_grad_by_freq=True)
    assert out[2].tolist() == [float.fromhex("0x1.155556p+2"), float.fromhex("0x1.555556p+2")]
    assert_equal(out[:2], [[3, 4], [9, 10]])


def test_embedding_backward_padding_and_unknown_padding(each_backend: Backend) -> None:
    assert_equal(ops.embedding_dense_backward(f32(GRAD), i32(WORDS), 4, 2), [[3, 4], [9, 10], [0, 0], [0, 0]])
    assert_equal(ops.embedding_dense_backward(f32(GRAD), i32(WORDS), 4, 77), [[3, 4], [9, 10], [13, 16], [0, 0]])


@pytest.mark.parametrize("dtype,column,total", [(np.float16, [2048, 1, 1, 1], 2052), (BF16, [256, 1, 1, 1], 260)])
def test_embedding_backward_sums_in_fp32(each_backend: Backend, dtype: Any, column: list[int], total: int) -> None:
    out = ops.embedding_dense_backward(np.array(column, dtype)[:, None], i32([0, 0, 0, 0]), 1, -1)
    assert_equal(out, [[total]])


def test_embedding_backward_flattens_leading_axes(each_backend: Backend) -> None:
    out = ops.embedding_dense_backward(f32(GRAD[:4]).reshape(2, 2, 2), i32(WORDS[:4]).reshape(4, 1), 3, -1)
    assert_equal(out, [[3, 4], [0, 0], [13, 16]])


def test_embedding(each_backend: Backend) -> None:
    table = f32([[1, 2], [3, 4], [5, 6]])
    assert_equal(ops.embedding(table, i32([[2, 0], [1, 1]])), [[[5, 6], [1, 2]], [[3, 4], [3, 4]]])


# ------------------------------------------------------------------------------------------ MoeInitRouting, Mm

EXPERTS = [[1, 0], [2, 1], [0, 2]]
ROWS = [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize("dtype", FLOATS)
def test_init_routing(each_backend: Backend, dtype: Any) -> None:
    x = np.array(TOKENS, dtype)
    expanded, rows, experts = ops.moe_init_routing(x, i32(ROWS), i32(EXPERTS), 3)
    assert_equal(expanded, np.array(TOKENS)[[0, 2, 0, 1, 1, 2]])
    assert_equal(rows, [2, 4, 1, 0, 3, 5])
    assert_equal(experts, [0, 0, 1, 1, 2, 2])


def test_init_routing_quant_of_the_document(each_backend: Backend) -> None:
    x = np.repeat(f32([[0.1], [0.2], [0.3]]), 4, axis=1)
    experts = i32([[1, 2], [0, 1], [0, 2]])
    expanded, rows, sorted_experts = ops.moe_init_routing_quant(x, i32(ROWS), experts, 3, 1.0, 1.0)
    assert_equal(expanded, np.ones((6, 4)))
    assert_equal(rows, [2, 0, 1, 4, 3, 5])
    assert_equal(sorted_experts, [0, 0, 1, 1, 2, 2])
    assert expanded.dtype == np.int8


def test_init_routing_quant_is_half_precision(each_backend: Backend) -> None:
    x = f32([[0.5, 1.5], [2.5, -2.5], [3.4999, 25.07]])
    quantised = np.array([[2, 6], [10, -10], [14, 100]])
    expanded, rows, _ = ops.moe_init_routing_quant(x, i32(ROWS), i32(EXPERTS), 3, 4.0, 0.25)
    assert_equal(expanded, quantised[[0, 2, 0, 1, 1, 2]])
    assert_equal(rows, [2, 4, 1, 0, 3, 5])
    assert_equal(ops.moe_init_routing_quant(x, i32(ROWS), i32(EXPERTS), 1, 4.0, 0.25).expanded_x, [[2, 6], [14, 100]])
    assert_equal(
        ops.moe_init_routing_quant(x, i32(ROWS), i32(EXPERTS), 3, 1.0, 0.0).expanded_x[[0, 3, 1]],
        [[0, 2], [2, -2], [4, 25]],
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_init_routing_quant_rounds_half_even_and_saturates(each_backend: Backend, dtype: Any) -> None:
    values = [0.5, 1.5, 2.5, -0.5, -2.5, 200, -300]
    out = ops.moe_init_routing_quant(np.array([values], dtype), i32([[0]]), i32([[0]]), 1, 1.0, 0.0)
    assert_equal(out.expanded_x, [[0, 2, 2, 0, -2, 127, -128]])


@pytest.mark.parametrize("dtype", FLOATS)
def test_mm(each_backend: Backend, dtype: Any) -> None:
    a, b = np.arange(6).reshape(2, 3).astype(dtype), np.arange(12).reshape(3, 4).astype(dtype)
    assert_equal(ops.mm(a, b), np.arange(6).reshape(2, 3) @ np.arange(12).reshape(3, 4))


def test_mm_sums_in_fp32(each_backend: Backend) -> None:
    assert_equal(ops.mm(np.ones((1, 4096), BF16), np.ones((4096, 1), BF16)), [[4096]])


# ------------------------------------------------------------------------------------------ views and empties


def test_strided_and_offset_views(each_backend: Backend) -> None:
    wide = aclnn.asarray(np.arange(48, dtype=np.float32).reshape(6, 8))
    grad = wide[:, 1:5:2]  # offset 1, strides (8, 2)
    host = np.arange(48).reshape(6, 8)[:, 1:5:2]
    out = ops.moe_token_permute_grad(grad, i32(ORDER), 2)
    assert_equal(out, host[ORDER].reshape(3, 2, 2).sum(axis=1))
    assert_equal(ops.mm(wide.T, wide), np.arange(48).reshape(6, 8).T @ np.arange(48).reshape(6, 8))


def test_results_go_into_a_strided_output(each_backend: Backend) -> None:
    target = aclnn.zeros((4, 4), np.float32)
    ops.embedding_dense_backward(f32(GRAD), i32(WORDS), 4, -1, out=target[:, ::2])
    expected = np.zeros((4, 4))
    expected[:, ::2] = [[3, 4], [9, 10], [13, 16], [0, 0]]
    assert_equal(target, expected)


def test_strided_ndarrays(each_backend: Backend) -> None:
    grad = np.asfortranarray(f32(GRAD))[::-1]
    assert_equal(ops.embedding_dense_backward(grad, i32(WORDS[::-1]), 4, -1), [[3, 4], [9, 10], [13, 16], [0, 0]])


def test_empty_tensors(each_backend: Backend) -> None:
    assert_equal(ops.embedding_dense_backward(f32([]).reshape(0, 3), i32([]), 4, -1), np.zeros((4, 3)))
    assert_equal(ops.moe_token_permute_grad(f32([]).reshape(0, 3), i32([]), 2), np.zeros((0, 3)))
    assert_equal(ops.moe_token_permute_grad(f32([]).reshape(0, 3), i32([0, 1]), 2), np.zeros((1, 3)))
    empty = ops.moe_init_routing(f32([]).reshape(0, 4), i32([]).reshape(0, 2), i32([]).reshape(0, 2), 0)
    assert [r.shape for r in empty] == [(0, 4), (0,), (0,)]
    none_active = ops.moe_init_routing(f32(TOKENS), i32(ROWS), i32(EXPERTS), 0)
    assert none_active.expanded_x.shape == (0, 2)
    assert_equal(none_active.expanded_expert_idx, [0, 0, 1, 1, 2, 2])


# ------------------------------------------------------------------------------------------ statuses

NULL, INVALID, TILING = 161001, 161002, 561002
ONE = np.ones((2, 4), np.float32)
BAD = [
    ("moe_token_permute_grad", (None, i32([0, 1]), 2), NULL, "permuted_output_grad"),
    ("moe_token_permute_grad", (ONE, None, 2), NULL, "sorted_indices"),
    ("moe_token_permute_grad", (ONE.astype(np.float64), i32([0, 1]), 2), INVALID, "permuted_output_grad"),
    ("moe_token_permute_grad", (ONE, np.array([0, 1]), 2), INVALID, "sorted_indices"),
    ("moe_token_permute_grad", (ONE, i32([0, 1]), 513), INVALID, "num_topk"),
    ("moe_token_permute_grad", (ONE, i32([0, 1]), 0), INVALID, "num_topk"),
    ("moe_token_permute_grad", (ONE, i32([0, 1]), 2, True), INVALID, "padded_mode"),
    ("moe_token_permute_grad", (ONE[0], i32([0, 1]), 2), INVALID, "permuted_output_grad"),
    ("moe_token_permute", (ONE, i32([[[0]]])), TILING, "indices"),
    ("moe_token_permute", (ONE, i32([0])), TILING, "indices"),
    ("moe_token_permute", (ONE, i32([0, 1]), 0, True), TILING, "padded_mode"),
    ("moe_token_unpermute", (ONE, i32([0, 1]), None, True), INVALID, "padded_mode"),
    ("rms_norm_grad", (ONE, None, f32([1, 1]), ONE[0]), NULL, "x"),
    ("rms_norm_grad", (ONE, ONE, f32([1, 1]), ONE[0].astype(np.float64)), INVALID, "gamma"),
    ("rms_norm_grad", (ONE, ONE.astype(np.float16), f32([1, 1]), ONE[0]), INVALID, "x"),
    ("rms_norm_grad", (ONE, ONE[:1], f32([1]), ONE[0]), TILING, "dy"),
    ("rms_norm_grad", (ONE, ONE, f32([1, 1]), f32([1, 1])), TILING, "gamma"),
    ("rms_norm_grad", (ONE, ONE, f32([1, 1, 1]), ONE[0]), TILING, "rstd"),
    ("rms_norm_grad", (ONE[:0], ONE[:0], f32([]), ONE[0]), TILING, "x"),
    ("rms_norm", (ONE, ONE[0].astype(np.float16)), INVALID, "gamma"),
    ("embedding_dense_backward", (None, i32([0, 1]), 4, -1), NULL, "grad"),
    ("embedding_dense_backward", (ONE.astype(np.float64), i32([0, 1]), 4, -1), INVALID, "grad"),
    ("embedding_dense_backward", (ONE, np.array([0, 1], np.uint16), 4, -1), INVALID, "indices"),
    ("embedding_dense_backward", (ONE, i32([0, 1, 2]), 4, -1), INVALID, "grad"),
    ("embedding_dense_backward", (np.ones((1,) * 9, np.float32), i32([0]), 4, -1), INVALID, "grad"),
    ("embedding", (ONE, f32([0])), INVALID, "indices"),
    ("moe_init_routing", (ONE, i32([[0], [1], [2]]), i32([[0], [1], [2]]), 2), TILING, "expert_idx"),
    ("moe_init_routing", (ONE, i32([[0, 1]]), i32([[0], [1]]), 2), TILING, "row_idx"),
    ("moe_init_routing", (ONE, i32([[0], [1]]), i32([[0], [1]]), -1), TILING, "active_num"),
    ("moe_init_routing_quant", (ONE, i32([[0], [1]]), np.array([[0], [1]]), 2, 1.0, 0.0), INVALID, "expert_idx"),
    ("mm", (ONE, ONE), INVALID, "mat2"),
    ("mm", (ONE, ONE[0]), INVALID, "mat2"),
    ("mm", (ONE, ONE.T.astype(np.int32)), INVALID, "mat2"),
]


@pytest.mark.parametrize("name,args,status,argument", BAD, ids=[f"{b[0]}-{b[3]}-{i}" for i, b in enumerate(BAD)])
def test_bad_input(each_backend: Backend, name: str, args: tuple[Any, ...], status: int, argument: str) -> None:
    with pytest.raises(AclError) as caught:
        getattr(ops, name)(*args)
    error = caught.value
    assert error.status == status, str(error)
    assert error.argument == argument, str(error)
    assert error.operator == aclnn.signature(error.operator or "").name
    assert argument in str(error) and error.name in str(error) and error.operator in str(error)


@pytest.mark.parametrize(
    "name,args,argument",
    [
        ("moe_token_permute_grad", (ONE, i32([0, -1]), 2), "sorted_indices"),
        ("embedding_dense_backward", (ONE, i32([0, 4]), 4, -1), "indices"),
        ("embedding", (ONE, i32([-1])), "indices"),
        ("moe_init_routing", (ONE, i32([[0], [7]]), i32([[0], [1]]), 2), "row_idx"),
    ],
)
def test_indices_out_of_range_are_refused(
    each_backend: Backend, name: str, args: tuple[Any, ...], argument: str
) -> None:
    if each_backend.name == "npu" and not each_backend.emulated:
        pytest.skip("undefined on hardware: an index out of range may write anywhere")
    with pytest.raises(AclError) as caught:
        getattr(ops, name)(*args)
    assert caught.value.status == INVALID
    assert argument in str(caught.value)
    assert_equal(ops.mm(ONE, ONE.T), np.full((2, 2), 4))  # the backend still works


def test_output_of_a_wrong_shape_or_dtype(each_backend: Backend) -> None:
    with pytest.raises(AclError, match=r"out has shape \(3, 3\); it must be \(4, 2\)"):
        ops.embedding_dense_backward(f32(GRAD), i32(WORDS), 4, -1, out=np.zeros((3, 3), np.float32))
    with pytest.raises(AclError) as caught:
        ops.moe_token_permute_grad(ONE, i32([0, 1]), 2, out=np.zeros((1, 4), np.float16))
    assert (caught.value.status, caught.value.argument) == (INVALID, "out")


def test_chips_differ() -> None:
    x, gamma, rstd = np.ones((2, 64), BF16), np.ones(64, BF16), f32([1, 1])
    with aclnn.use_backend("numpy", soc="Ascend310P3"):
        with pytest.raises(AclError, match="on Ascend310P3 it must be FLOAT or FLOAT16"):
            ops.rms_norm_grad(x, x, rstd, gamma)
        half = np.ones((2, 64), np.float16)
        ops.rms_norm_grad(half, half, rstd, half[0])
        with pytest.raises(AclError):
            ops.rms_norm_grad(half, half, rstd, f32(half[0]))
        with pytest.raises(AclError):
            ops.moe_token_permute_grad(half, i32([0, 1]), 2)
    with aclnn.use_backend("numpy", soc="Ascend910A"):
        odd = np.ones((2, 65), np.float32)
        with pytest.raises(AclError, match="multiple of 64"):
            ops.rms_norm_grad(odd, odd, rstd, odd[0])
        with pytest.raises(AclError, match="grad has dtype BF16"):
            ops.embedding_dense_backward(x, i32([0, 1]), 4, -1)
    with pytest.raises(ValueError, match="unknown SoC"):
        aclnn.use_backend("numpy", soc="Ascend911")
