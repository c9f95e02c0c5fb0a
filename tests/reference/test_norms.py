"""References of layer, batch, group, RMS and vector norms through the public functions, against torch in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_aclnn as acl
from ascend_aclnn import catalog, ops, reference

torch = pytest.importorskip(
    "torch", reason="torch is the oracle of norms; without it layer to vector norms are not tested"
)
from torch_tools import BF16, FLOATS, check, tensor  # noqa: E402 (it imports torch)

F = torch.nn.functional
F32 = np.dtype(np.float32)
EPS = 1e-5


def some(shape: Any, dtype: Any = F32, seed: int = 0, low: float = -2.0, high: float = 2.0) -> Any:
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(dtype)


def direct(name: str, *values: Any) -> Any:
    """The function of an operator that the default SoC does not have."""
    found = reference.find(catalog.get(f"aclnn{name}"))
    assert found is not None
    return found.function(*values)


def gradients(function: Any, grad: Any, *inputs: Any) -> list[Any]:
    """torch's gradients of a function of tensors, None for an absent input."""
    leaves = [None if x is None else tensor(x).requires_grad_() for x in inputs]
    function(*leaves).backward(tensor(grad))
    return [None if leaf is None else leaf.grad.numpy() for leaf in leaves]


def numbers(value: Any) -> Any:
    return np.asarray(value.detach().numpy() if hasattr(value, "detach") else value)


# ------------------------------------------------------------------------------------------------- layer norm


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("shape", "normalized"), [((4, 33), (33,)), ((2, 3, 5, 7), (5, 7)), ((6,), (6,)), ((0, 4), (4,))]
)
def test_layer_norm(shape: Any, normalized: Any, dtype: Any) -> None:
    x, w, b = some(shape, dtype), some(normalized, dtype, 1), some(normalized, dtype, 2)
    out, mean, rstd = ops.layer_norm(x, normalized, w, b, EPS)
    check(out, numbers(F.layer_norm(tensor(x), normalized, tensor(w), tensor(b), EPS)), 2)
    axes = tuple(range(-len(normalized), 0))
    wide = x.astype(np.float64)
    check(mean, wide.mean(axes, keepdims=True), 2)
    check(rstd, 1 / np.sqrt(wide.var(axes, keepdims=True) + EPS), 2)
    plain = ops.layer_norm(x, normalized, None, None, EPS)[0]
    check(plain, numbers(F.layer_norm(tensor(x), normalized, None, None, EPS)), 2)


def test_layer_norm_far_from_zero() -> None:
    x = some((3, 500)) + np.float32(1000)
    check(ops.layer_norm(x, (500,), None, None, EPS)[0], numbers(F.layer_norm(tensor(x), (500,), eps=EPS)), 200)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("weighted", [True, False])
def test_layer_norm_backward(dtype: Any, weighted: bool) -> None:
    x, dy = some((3, 4, 33), dtype), some((3, 4, 33), dtype, 1)
    w = some((33,), dtype, 2) if weighted else None
    b = some((33,), dtype, 3) if weighted else None
    wide = x.astype(np.float64)
    mean = wide.mean(-1, keepdims=True).astype(np.float32)
    rstd = (1 / np.sqrt(wide.var(-1, keepdims=True) + EPS)).astype(np.float32)
    dx, dw, db = ops.layer_norm_backward(dy, x, (33,), mean, rstd, w, b, (True, weighted, weighted))
    wanted = gradients(lambda a, c, d: F.layer_norm(a, (33,), c, d, EPS), dy, x, w, b)
    check(dx, wanted[0], 3)
    if weighted:
        check(dw, wanted[1], 6)
        check(db, wanted[2], 6)
    else:
        assert (dw, db) == (None, None)


def test_add_layer_norm() -> None:
    x1, x2, bias = some((3, 32)), some((3, 32), seed=1), some((32,), seed=2)
    gamma, beta = some((32,), seed=3), some((32,), seed=4)
    y, mean, rstd, x = ops.add_layer_norm(x1, x2, gamma, beta, bias, EPS, True)
    total = tensor(x1) + tensor(x2) + tensor(bias)
    check(x, numbers(total))
    check(y, numbers(F.layer_norm(total, (32,), tensor(gamma), tensor(beta), EPS)), 2)
    check(mean[:, 0], numbers(total.mean(-1)), 2)
    dy, dsum = some((3, 32), seed=5), some((3, 32), seed=6)
    dx, d_gamma, d_beta = ops.add_layer_norm_grad(dy, x1 + bias, x2, rstd, mean, gamma, dsum)
    wanted = gradients(lambda a, c, d: F.layer_norm(a, (32,), c, d, EPS), dy, numbers(total), gamma, beta)
    check(dx, wanted[0] + dsum, 4)
    check(d_gamma, wanted[1], 4)
    check(d_beta, wanted[2], 4)


def test_what_was_not_asked_for_is_none() -> None:
    """CANN takes memory for x, and without additional_output leaves it as it was."""
    x1, x2, gamma, beta = (some(s, np.float16) for s in ((3, 8), (3, 8), (8,), (8,)))
    assert ops.add_layer_norm(x1, x2, gamma, beta, None, EPS).x is None
    assert ops.add_layer_norm(x1, x2, gamma, beta, None, EPS, True).x is not None
    with acl.use_backend("numpy", soc="Ascend950PR_9599"):
        options: Any = {"quant_mode": "dynamic", "epsilon": EPS}
        assert ops.add_layer_norm_quant(x1, x2, gamma, beta, **options).x is None
        assert ops.add_layer_norm_quant_v2(x1, x2, gamma, beta, **options, additional_output=True).x is not None


def test_deep_norm() -> None:
    x, gx, gamma, beta = some((4, 16)), some((4, 16), seed=1), some((16,), seed=2), some((16,), seed=3)
    mean, rstd, y = ops.deep_norm(x, gx, beta, gamma, 0.3, EPS)

    def forward(a: Any, g: Any, w: Any, b: Any) -> Any:
        return F.layer_norm(np.float32(0.3) * a + g, (16,), w, b, EPS)

    check(y, numbers(forward(*map(tensor, (x, gx, gamma, beta)))), 2)
    dy = some((4, 16), seed=4)
    dx, dgx, d_beta, d_gamma = ops.deep_norm_grad(dy, x, gx, gamma, mean, rstd, 0.3)
    for made, wanted in zip((dx, dgx, d_gamma, d_beta), gradients(forward, dy, x, gx, gamma, beta)):
        check(made, wanted, 6)


def test_ada_layer_norm() -> None:
    x, scale, shift = some((2, 5, 16)), some((2, 16), seed=1), some((2, 1, 16), seed=2)
    w, b, dy = some((16,), seed=3), some((16,), seed=4), some((2, 5, 16), seed=5)

    def forward(a: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
        return F.layer_norm(a, (16,), e, f, EPS) * (1 + c[:, None]) + d

    wanted = numbers(forward(*map(tensor, (x, scale, shift, w, b))))
    check(ops.ada_layer_norm(x, scale, shift[:, 0], w, b, EPS), wanted, 4)
    out, mean, rstd = ops.ada_layer_norm_v2(x, scale, shift[:, 0], w, b, EPS)
    check(out, wanted, 4)
    actual = ops.ada_layer_norm_backward(dy, x, (16,), rstd, mean, scale, shift[:, 0], w, b)
    for value, expected in zip(actual, gradients(forward, dy, x, scale, shift, w, b)):
        check(value.reshape(expected.shape), expected, 10)


# ------------------------------------------------------------------------------------------------- batch norm

BATCHES = [(4, 3), (2, 3, 5), (2, 3, 4, 5)]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", BATCHES)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(shape: Any, dtype: Any, training: bool) -> None:
    x, w, b = some(shape, dtype), some((3,), F32, 1), some((3,), F32, 2)
    running = [some((3,), F32, 3), some((3,), F32, 4, 0.5, 2)]
    wanted_running = [tensor(r) for r in running]
    result = ops.batch_norm(x, w, b, running[0], running[1], training, 0.1, EPS)
    wanted = F.batch_norm(tensor(x), *wanted_running, tensor(w), tensor(b), training, 0.1, EPS)
    check(result.output, numbers(wanted), 3)
    for value, expected in zip(running, wanted_running):
        check(value, numbers(expected), 3)
    if training:
        wide = np.moveaxis(x.astype(np.float64), 1, 0).reshape(3, -1)
        check(result.save_mean, wide.mean(1), 3)
        check(result.save_invstd, 1 / np.sqrt(wide.var(1) + EPS), 3)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", BATCHES)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_backward(shape: Any, dtype: Any, training: bool) -> None:
    x, dy, w = some(shape, dtype), some(shape, dtype, 1), some((3,), F32, 2)
    mean, var = some((3,), F32, 3), some((3,), F32, 4, 0.5, 2)
    wide = np.moveaxis(x.astype(np.float64), 1, 0).reshape(3, -1)
    saved = [wide.mean(1).astype(np.float32), (1 / np.sqrt(wide.var(1) + EPS)).astype(np.float32)]
    actual = ops.batch_norm_backward(dy, x, w, mean, var, saved[0], saved[1], training, EPS, (True, True, True))

    def forward(a: Any, c: Any, d: Any) -> Any:
        return F.batch_norm(a, tensor(mean), tensor(var), c, d, training, 0.1, EPS)

    for value, expected in zip(actual, gradients(forward, dy, x, w, np.zeros(3, np.float32))):
        check(value, expected, 8)
    actual = ops.batch_norm_backward(dy, x, w, mean, var, saved[0], saved[1], training, EPS, (False, False, True))
    assert actual[:2] == (None, None)


def test_batch_norm_of_labelled_tensors() -> None:
    """5-d tensors are called NCDHW; only Ascend 950 knows tensors with the channels last."""
    x, w = some((2, 3, 2, 4, 5)), some((3,), seed=1)

    def run(values: Any, format: str) -> Any:
        out = (
            acl.empty(values.shape, "float32", format=format),
            acl.empty((3,), "float32"),
            acl.empty((3,), "float32"),
        )
        ops.batch_norm(acl.asarray(values, format=format), acl.asarray(w), None, None, None, True, 0.1, EPS, out=out)
        return out[0].numpy()

    wanted = numbers(F.batch_norm(tensor(x), None, None, tensor(w), None, True, 0.1, EPS))
    check(run(x, "NCDHW"), wanted, 3)
    with acl.use_backend("numpy", soc="Ascend950PR_9599"):
        last = run(np.ascontiguousarray(np.moveaxis(x, 1, -1)), "NDHWC")
    check(np.moveaxis(last, -1, 1), wanted, 3)


def test_batch_norm_of_several_processes() -> None:
    parts = [some((n, 3, 4), seed=n) for n in (1, 2, 5)]
    whole = np.concatenate(parts)
    mean = np.stack([p.mean((0, 2)) for p in parts])
    invstd = np.stack([1 / np.sqrt(p.var((0, 2)) + EPS) for p in parts])
    counts = np.array([p.size // 3 for p in parts], np.float32)
    running = [np.zeros(3, np.float32), np.ones(3, np.float32)]
    actual = ops.batch_norm_gather_stats_with_counts(whole, mean, invstd, running[0], running[1], 0.1, EPS, counts)
    check(actual.mean_all, whole.astype(np.float64).mean((0, 2)), 3)
    check(actual.invstd_all, 1 / np.sqrt(whole.astype(np.float64).var((0, 2)) + EPS), 3)
    check(running[1], 0.9 + 0.1 * whole.astype(np.float64).var((0, 2), ddof=1), 3)

    dy, w = some(whole.shape, seed=9), some((3,), seed=10)
    sums = ops.batch_norm_reduce_backward(dy, whole, actual.mean_all, actual.invstd_all, w, True, True, True)
    dx = ops.batch_norm_elemt_backward(
        dy, whole, actual.mean_all, actual.invstd_all, w, sums.sum_dy, sums.sum_dy_xmu, counts.astype(np.int32)
    )
    wanted = gradients(
        lambda a, c, d: F.batch_norm(a, None, None, c, d, True, 0.1, EPS), dy, whole, w, np.zeros(3, F32)
    )
    check(dx, wanted[0], 8)
    check(sums.grad_weight, wanted[1], 8)
    check(sums.grad_bias, wanted[2], 8)
    y = ops.batch_norm_elemt(whole, w, None, actual.mean_all, actual.invstd_all, EPS)
    check(y, numbers(F.batch_norm(tensor(whole), None, None, tensor(w), None, True, 0.1, EPS)), 4)


def test_quantized_batch_norm() -> None:
    x = np.random.default_rng(1).integers(-128, 128, (1, 4, 8, 8), dtype=np.int8)
    mean, var, w, b = some((4,)), some((4,), seed=1, low=0.5), some((4,), seed=2), some((4,), seed=3)
    made = direct("QuantizedBatchNorm", x, mean, var, 0.05, 3, 0.1, -5, w, b, EPS)
    values = (x.astype(np.float64) - 3) * np.float32(0.05)
    y = F.batch_norm(torch.from_numpy(values), tensor(mean), tensor(var), tensor(w), tensor(b), False, 0, EPS)
    check(np.asarray(made, np.float32), numbers(y) / np.float32(0.1) - 5, 40)


# ------------------------------------------------------------------------------------------------- group norm


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm(dtype: Any, groups: int) -> None:
    x, w, b = some((2, 6, 3, 4), dtype), some((6,), dtype, 1), some((6,), dtype, 2)
    out, mean, rstd = ops.group_norm(x, w, b, 2, 6, 12, groups, EPS)
    check(out, numbers(F.group_norm(tensor(x), groups, tensor(w), tensor(b), EPS)), 3)
    wide = x.astype(np.float64).reshape(2, groups, -1)
    check(mean, wide.mean(-1), 2)
    check(rstd, 1 / np.sqrt(wide.var(-1) + EPS), 2)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_group_norm_in_blocks(dtype: Any, affine: bool) -> None:
    x = some((3, 12, 30, 41), dtype)
    w, b = (some((12,), dtype, seed) if affine else None for seed in (1, 2))
    out, mean, rstd = ops.group_norm(x, w, b, 3, 12, 30 * 41, 4, EPS)
    check(out, numbers(F.group_norm(tensor(x), 4, *(None if a is None else tensor(a) for a in (w, b)), EPS)), 3)
    wide = x.astype(np.float64).reshape(3, 4, -1)
    check(mean, wide.mean(-1), 2)
    check(rstd, 1 / np.sqrt(wide.var(-1) + EPS), 2)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm_backward(groups: int) -> None:
    x, dy, w = some((2, 6, 3, 4)), some((2, 6, 3, 4), seed=1), some((6,), seed=2)
    _, mean, rstd = ops.group_norm(x, w, w, 2, 6, 12, groups, EPS)
    actual = ops.group_norm_backward(dy, x, mean, rstd, w, 2, 6, 12, groups, (True, True, True))
    wanted = gradients(lambda a, c, d: F.group_norm(a, groups, c, d, EPS), dy, x, w, np.zeros(6, F32))
    for value, expected in zip(actual, wanted):
        check(value, expected, 10)


def test_group_norm_with_swish() -> None:
    x, w, b = some((2, 8, 3, 4)), some((8,), seed=1), some((8,), seed=2)

    def forward(a: Any, c: Any, d: Any, scale: float = 1.0) -> Any:
        y = F.group_norm(a, 4, c, d, EPS)
        return y * torch.sigmoid(scale * y)

    wanted = numbers(forward(*map(tensor, (x, w, b))))
    check(ops.group_norm_silu(x, w, b, 4, EPS)[0], wanted, 4)
    check(ops.group_norm_silu_v2(x, w, b, 4, EPS, True)[0], wanted, 4)
    check(
        ops.group_norm_silu_v2(x, w, b, 4, EPS, False)[0],
        numbers(F.group_norm(tensor(x), 4, tensor(w), tensor(b), EPS)),
        4,
    )
    y, mean, rstd = ops.group_norm_swish(x, w, b, 4, "NCHW", EPS, True, 1.5)
    check(y, numbers(forward(tensor(x), tensor(w), tensor(b), 1.5)), 4)
    dy = some(x.shape, seed=3)
    actual = ops.group_norm_swish_grad(dy, mean, rstd, x, w, b, 4, "NCHW", 1.5, True, True)
    for value, expected in zip(actual, gradients(lambda a, c, d: forward(a, c, d, 1.5), dy, x, w, b)):
        check(value, expected, 10)


# ------------------------------------------------------------------------------------------------- RMS norm


def rms(x: Any, gamma: Any) -> Any:
    return x / np.sqrt(np.mean(np.square(x), -1, keepdims=True) + EPS) * gamma


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rms_norm_after_an_addition(dtype: Any) -> None:
    x1, x2, gamma = some((3, 16), dtype), some((3, 16), dtype, 1), some((16,), dtype, 2)
    wide = x1.astype(np.float64) + x2.astype(np.float64)
    y, rstd, x = ops.add_rms_norm(x1, x2, gamma, EPS)
    check(x, wide)
    if dtype != np.float32:  # kernels of few columns norm the sum that they have rounded
        wide = wide.astype(dtype).astype(np.float64)
    check(y, rms(wide, gamma.astype(np.float64)), 2)
    check(rstd[:, 0], 1 / np.sqrt(np.square(wide).mean(-1) + EPS), 2)
    a, b = x1.copy(), x2.copy()
    ops.inplace_add_rms_norm(a, b, gamma, EPS)
    np.testing.assert_array_equal(a, y)
    np.testing.assert_array_equal(b, x)
    check(ops.gemma_rms_norm(x1, gamma, EPS)[0], rms(x1.astype(np.float64), 1 + gamma.astype(np.float64)), 2)


def test_rms_norm_quantised() -> None:
    dtype = BF16
    x1, x2, gamma = some((3, 32), dtype), some((3, 32), dtype, 1), some((32,), dtype, 2)
    y = rms(x1.astype(np.float64) + x2.astype(np.float64), gamma.astype(np.float64))
    scales = some((32,), dtype, 3, 0.01, 0.05)
    zero = some((32,), dtype, 4)
    y1 = ops.add_rms_norm_quant(x1, x2, gamma, scales, None, zero, None, -1, EPS, True)[0]
    wanted = np.clip(np.rint(y / scales.astype(np.float64) + zero.astype(np.float64)), -128, 127)
    assert np.abs(y1 - wanted).max() <= 1 and (y1 == wanted).mean() > 0.95
    q, _, _, scale, _ = ops.add_rms_norm_dynamic_quant(x1, x2, gamma, None, None, EPS)
    check(scale, np.abs(y).max(-1) / 127, 4)
    assert np.abs(q * scale[:, None] - y).max() <= scale.max()
    assert q.dtype == np.int8 and np.abs(q.astype(int)).max() == 127


def test_rows_of_zeros_stay_zero() -> None:
    zeros = np.zeros((2, 16), ml_dtypes.bfloat16)
    q, _, _, scale, _ = ops.add_rms_norm_dynamic_quant(zeros, zeros, np.ones(16, zeros.dtype), None, None, EPS)
    assert not q.any() and not scale.any()


# ------------------------------------------------------------------------------------------------- vector norms


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, np.inf, -np.inf])
@pytest.mark.parametrize(("dims", "keep"), [((1,), False), ((0, 2), True), ((), False)])
def test_vector_norm(p: float, dims: Any, keep: bool) -> None:
    x = some((3, 4, 5))
    x[0, 0] = 0
    wanted = numbers(torch.linalg.vector_norm(tensor(x), p, dims or None, keep))
    check(ops.linalg_vector_norm(x, p, dims, keep, F32), wanted, 2)
    check(ops.norm(x, p, dims, keep), wanted, 2)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, np.inf])
def test_vector_norm_of_a_tensor_without_axes(p: float) -> None:
    given = np.array(-3, np.float32)
    assert ops.linalg_vector_norm(given, p, (), False, F32) == (1 if p == 0 else 3)


def test_vector_norm_does_not_overflow() -> None:
    assert ops.linalg_vector_norm(np.array([3e30, 4e30], np.float32), 2.0, (), False, F32) == np.float32(5e30)
    assert np.isnan(ops.norm(np.array([1, np.nan], np.float32), 2.0, (), False))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("dim", [0, -1])
def test_renorm(p: float, dim: int) -> None:
    x = some((3, 4, 5))
    wanted = numbers(torch.renorm(tensor(x), p, dim % 3, 6.0))
    check(ops.renorm(x, p, dim, 6.0), wanted, 2)
    ops.inplace_renorm(x, p, dim, 6.0)
    check(x, wanted, 2)


def test_embedding_renorm() -> None:
    weight = some((6, 4))
    wanted = tensor(weight)
    torch.embedding_renorm_(wanted, torch.tensor([1, 3, 1]), 1.0, 2.0)
    ops.embedding_renorm(weight, np.array([1, 3, 1]), 1.0, 2.0)
    check(weight, numbers(wanted), 2)


def test_softmax_of_windows() -> None:
    x, mask, bias = some((4, 3, 8, 16)), some((2, 8, 16), seed=1), some((3, 8, 16), seed=2)
    scores = tensor(x).reshape(2, 2, 3, 8, 16) * 0.5 + tensor(mask)[:, None] + tensor(bias)
    actual = ops.masked_softmax_with_rel_pos_bias(x, mask, bias, 0.5, 0)
    check(actual, numbers(torch.softmax(scores, -1)).reshape(x.shape), 2)


# ------------------------------------------------------------------------------------------------- shared exponents


@pytest.mark.parametrize(
    ("dst", "algorithm"),
    [
        (ml_dtypes.float8_e4m3fn, 0),
        (ml_dtypes.float8_e4m3fn, 1),
        (ml_dtypes.float8_e5m2, 0),
        (ml_dtypes.float8_e5m2, 1),
        (ml_dtypes.float4_e2m1fn, 0),
    ],
)
def test_rms_norm_in_blocks_with_shared_exponents(dst: Any, algorithm: int) -> None:
    dtype = np.dtype(dst)
    x1, x2, gamma = some((3, 80), BF16), some((3, 80), BF16, 1), some((80,), BF16, 2)
    codes = {ml_dtypes.float8_e4m3fn: 36, ml_dtypes.float8_e5m2: 35, ml_dtypes.float4_e2m1fn: 40}
    out = (np.empty((3, 80), dtype), np.empty((3, 80), BF16), np.empty((3, 2, 2), ml_dtypes.float8_e8m0fnu), None)
    found = reference.find(catalog.get("aclnnAddRmsNormDynamicMxQuant"))
    assert found is not None
    found.function(x1, x2, gamma, None, EPS, algorithm, None, codes[dst], False, out=out)
    y = rms(x1.astype(np.float64) + x2.astype(np.float64), gamma.astype(np.float64)).astype(np.float32).astype(BF16)
    wide = np.pad(y.astype(np.float64), ((0, 0), (0, 16))).reshape(3, 3, 32)
    most = np.abs(wide).max(-1)
    largest = float(ml_dtypes.finfo(dtype).max)
    if algorithm == 0:
        exponent = np.floor(np.log2(most)) - np.floor(np.log2(largest))
    else:
        exponent = np.ceil(np.log2(most / largest))
    scales = out[2].view(np.uint8).reshape(3, 4)
    np.testing.assert_array_equal(scales[:, :3], exponent + 127)
    assert not scales[:, 3].any()
    elements = np.pad(out[0].astype(np.float64), ((0, 0), (0, 16))).reshape(3, 3, 32)
    wanted = np.clip(wide / 2.0 ** exponent[..., None], -largest, largest).astype(np.float32).astype(dtype)
    np.testing.assert_array_equal(elements, wanted.astype(np.float64))


@pytest.mark.parametrize(("mode", "expected"), [("rint", [2, 3, -2]), ("round", [2, 3, -3]), ("floor", [1.5, 2, -3])])
def test_rounding_of_four_bit_elements(mode: str, expected: list[float]) -> None:
    from ascend_aclnn.reference import _mx

    values = np.zeros((1, 32), np.float32)
    values[0, :4] = [1.75, 2.5 + 2**-9, -2.5, 4]  # 4 makes the scale 1
    made = _mx.quantised(values, np.dtype(ml_dtypes.float4_e2m1fn), 0, mode)[0].astype(ml_dtypes.float4_e2m1fn)
    np.testing.assert_array_equal(made[0, :3].astype(np.float32), expected)


def test_blocks_with_infinities_have_the_scale_255() -> None:
    from ascend_aclnn.reference import _mx

    values = np.zeros((1, 96), np.float32)
    values[0, 3], values[0, 40] = np.inf, np.nan
    made, scales = _mx.quantised(values, np.dtype(ml_dtypes.float8_e4m3fn))
    assert scales.tolist() == [[255, 255, 0, 0]]
    assert not made.any()


def test_add_rms_norm_norms_the_sum_that_is_rounded_to_half() -> None:
    x1, x2 = np.full((1, 2), 2048, np.float16), np.array([[1, 3]], np.float16)  # 2049 and 2051 have no half
    _, rstd, x = ops.add_rms_norm(x1, x2, np.ones(2, np.float16), 1e-6)
    total = np.array([[2048.0, 2052.0]])
    assert x.tolist() == total.tolist()
    np.testing.assert_allclose(rstd, [[1 / np.sqrt(np.mean(total**2))]], rtol=1e-6)


@pytest.mark.parametrize(
    "rows, columns, rounds",
    [(1, 2, True), (200, 2000, True), (49, 2001, False), (48, 2001, True), (1, 12288, True), (1, 12289, False)],
    ids=["single_n", "merge_n", "base", "single_n of all cores", "single_n, whole tile", "split_d"],
)
@pytest.mark.parametrize("name", ["add_rms_norm", "inplace_add_rms_norm", "add_rms_norm_cast"])
def test_add_rms_norm_in_bf16(name: str, rows: int, columns: int, rounds: bool) -> None:
    """Which kernel takes rstd from the rounded sum, as CANN's tiling chooses it; AddRmsNormCast's never does."""
    x1, x2 = np.full((rows, columns), 256, BF16), np.full((rows, columns), 1, BF16)  # BF16 has 256 and 258
    gamma = np.ones(columns, BF16)
    rstd = getattr(ops, name)(x1, x2, gamma, 1e-6)[-1 if name == "inplace_add_rms_norm" else -2]
    wanted = 1 / (256 if rounds and name != "add_rms_norm_cast" else 257)
    np.testing.assert_allclose(rstd, np.full((rows, 1), wanted), rtol=1e-6)


@pytest.mark.parametrize("name", ["add_rms_norm", "inplace_add_rms_norm", "add_rms_norm_cast"])
def test_the_sum_is_not_rounded_on_ascend_950(name: str) -> None:
    """Its kernels keep the sum in float32, in FLOAT16 and in BF16."""
    for dtype, large in ((BF16, 256), (np.float16, 2048)):
        x1, x2 = np.full((1, 2), large, dtype), np.ones((1, 2), dtype)
        with acl.use_backend("numpy", soc="Ascend950PR_9599"):
            rstd = getattr(ops, name)(x1, x2, np.ones(2, dtype), 1e-6)[-1 if name == "inplace_add_rms_norm" else -2]
        np.testing.assert_allclose(rstd, [[1 / (large + 1)]], rtol=1e-6)


def test_rms_norm_writes_an_rstd_of_lower_rank() -> None:
    x = some((3, 4, 8), np.float32)
    y, rstd = ops.rms_norm(x, np.ones(8, np.float32), EPS)
    lower = np.empty((3, 4), np.float32)
    ops.rms_norm(x, np.ones(8, np.float32), EPS, out=(np.empty_like(y), lower))
    np.testing.assert_array_equal(lower, rstd[..., 0])


def test_add_rms_norm_writes_the_norm_where_the_sum_has_the_same_memory() -> None:
    """As the kernel, which writes the sum of a row before its norm; in place of the first input too."""
    x1, x2 = some((3, 64), np.float32), some((3, 64), np.float32)
    wanted, rstd, _ = ops.add_rms_norm(x1, x2, np.ones(64, np.float32), EPS)
    both = acl.asarray(x1)
    ops.add_rms_norm(both, x2, np.ones(64, np.float32), EPS, out=(both, acl.zeros(rstd.shape, np.float32), both))
    np.testing.assert_array_equal(both.numpy(), wanted)


def test_add_rms_norm_with_an_empty_gamma_launches_no_kernel() -> None:
    x, out = np.ones((3, 16), np.float32), tuple(np.full(shape, 7, np.float32) for shape in ((3, 16), (3, 1), (3, 16)))
    ops.add_rms_norm(x, x, np.ones(0, np.float32), EPS, out=out)
    assert all(np.all(target == 7) for target in out)


@pytest.mark.parametrize("dtype", ["INT8", "HIFLOAT8"])
@pytest.mark.parametrize("divide", [False, True])
@pytest.mark.parametrize("offset", [None, 3])
@pytest.mark.parametrize("gamma_rank", [1, 2])
def test_rms_norm_grad_quant(dtype: str, divide: bool, offset: Any, gamma_rank: int) -> None:
    """Through the norm by float64's formulas of the document; the largest gradients saturate."""
    dy, x = some((5, 4, 8), np.float16, seed=1), some((5, 4, 8), np.float16, seed=2)
    gamma = some((5, 4, 8)[-gamma_rank:], seed=3)
    dy[0, 0] *= 16
    axes = tuple(range(3 - gamma_rank, 3))
    wide = x.astype(np.float64)
    rstd = (1 / np.sqrt(np.mean(wide**2, axes) + EPS)).astype(F32)
    scale = np.float32(2.0**-6 if divide else 64) if dtype == "INT8" else np.float32(2.0**-11 if divide else 2048)
    with acl.use_backend("numpy", soc="Ascend950PR_9599"):
        out = acl.empty(x.shape, dtype), acl.empty(gamma.shape, F32)
        given = [acl.asarray(v) for v in (dy, x, rstd, gamma, np.array([scale]))]
        offsets = None if offset is None else acl.asarray(np.array([offset], np.int32))
        ops.rms_norm_grad_quant(*given, offsets, "static", divide, out=out)
    inverse = rstd.astype(np.float64).reshape(*rstd.shape, *[1] * gamma_rank)
    scaled = dy.astype(np.float64) * gamma
    dx = (scaled - wide * inverse * np.mean(scaled * wide * inverse, axes, keepdims=True)) * inverse
    quotients = (dx / scale if divide else dx * scale) + (offset or 0)
    made = np.asarray(out[0], np.float64)
    if dtype == "INT8":
        assert np.abs(quotients).max() > 128  # saturates somewhere
        assert np.abs(made - np.clip(np.rint(quotients), -128, 127)).max() <= 1
        assert np.mean(made == np.clip(np.rint(quotients), -128, 127)) > 0.99
    else:
        assert np.abs(quotients).max() > 40960 and np.abs(made).max() == 32768
        wanted = np.asarray(acl.asarray(np.clip(quotients, -32768, 32768), "HIFLOAT8"), np.float64)
        assert np.mean(made == wanted) > 0.99  # others lie at a limit between two codes
        np.testing.assert_allclose(made, wanted, rtol=0.5)
    sums = (dy.astype(np.float64) * wide * inverse).sum(tuple(range(3 - gamma_rank)))
    np.testing.assert_allclose(out[1].numpy(), sums, rtol=1e-4, atol=1e-5)
