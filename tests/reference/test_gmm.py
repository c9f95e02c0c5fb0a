"""Grouped products against float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from comparisons import assert_near

import ascend_aclnn as aclnn
from ascend_aclnn import UnsupportedOperator, ops
from ascend_aclnn.reference.matmul.quant import product_with_int4

RNG = np.random.default_rng(23)
BF16 = ml_dtypes.bfloat16
NONE: list[Any] = [None] * 5
LIMIT = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}


def floats(*shape: int, dtype: Any = np.float32, scale: float = 1.0) -> np.ndarray:
    return (RNG.standard_normal(shape) * scale).astype(dtype)


def int8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def group_of(ends: list[int]) -> np.ndarray:
    return np.repeat(np.arange(len(ends)), np.diff([0, *ends]))


def by_rows(x: np.ndarray, weights: np.ndarray, ends: list[int]) -> np.ndarray:
    return np.stack([row @ weights[g] for row, g in zip(x.astype(float), group_of(ends))])


def v5(x: Any, weight: Any, *parameters: Any, groups: Any, kind: int = 0, list_type: int = 0, **more: Any) -> Any:
    given = [*parameters, *[None] * (6 - len(parameters))]
    split = 0 if kind == -1 else 3
    actual = ops.grouped_matmul_v5(x, weight, *given, groups, None, None, None, split, kind, list_type, 0, None, **more)
    return actual.out


@pytest.mark.parametrize("list_type", [0, 1, 2])
@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32])
@pytest.mark.parametrize("single", [True, False])
def test_groups_of_rows(dtype: Any, list_type: int, single: bool) -> None:
    x, weight, ends = floats(7, 16, dtype=dtype), floats(3, 16, 8, dtype=dtype), [2, 2, 7]
    bias = floats(3, 8, dtype=np.float32 if dtype is BF16 else dtype)
    sizes = np.diff([0, *ends])
    groups: Any = [ends, sizes, np.stack((np.arange(3), sizes), 1)][list_type]
    weights, biases = ([weight], [bias]) if single else (list(weight), list(bias))
    made = v5([x], weights, biases, groups=np.array(groups, np.int64), list_type=list_type)
    assert_near(made[0], by_rows(x, weight.astype(float), ends) + bias.astype(float)[group_of(ends)], LIMIT, floor=1e-6)


def test_rows_after_the_groups() -> None:
    x, weight = floats(5, 4), floats(2, 4, 3)
    made = v5([x], [weight], groups=np.array([1, 3], np.int64))[0]
    assert_near(made[:3], by_rows(x[:3], weight.astype(float), [1, 3]), LIMIT, floor=1e-6)
    assert not made[3:].any()


def test_lists() -> None:
    xs, weights = [floats(2, 4), floats(3, 5)], [floats(4, 6), floats(5, 2)]
    made = v5(xs, weights, groups=None, kind=-1)
    for y, x, w in zip(made, xs, weights):
        assert_near(y, x.astype(float) @ w.astype(float), LIMIT, floor=1e-6)
    first = ops.grouped_matmul(
        [x.astype(np.float16) for x in xs], [w.astype(np.float16) for w in weights], *NONE, None, 0
    )
    for y, x, w in zip(first, xs, weights):
        assert_near(y, x.astype(np.float16).astype(float) @ w.astype(np.float16).astype(float), LIMIT, floor=1e-6)
    same = [floats(4, 6), floats(4, 6)]
    joined = ops.grouped_matmul_v2([floats(2, 4), floats(3, 4)], same, *NONE, [2, 5], 3, 0)
    assert joined[0].shape == (5, 6)


def test_groups_of_the_inner_axis() -> None:
    with aclnn.use_backend("numpy"):
        x = aclnn.asarray(floats(9, 4, dtype=np.float16)).T
        weight = floats(9, 6, dtype=np.float16)
        made = v5([x], [weight], groups=np.array([2, 5, 9], np.int64), kind=2)[0].numpy()
        wide = x.numpy().astype(float), weight.astype(float)
    for g, part in enumerate((slice(0, 2), slice(2, 5), slice(5, 9))):
        assert_near(made[g], wide[0][:, part] @ wide[1][part], LIMIT, floor=1e-6)


@pytest.mark.parametrize("tokens", [False, True])
def test_int8(tokens: bool) -> None:
    x, weight, ends = int8(6, 64), int8(2, 64, 32), [4, 6]
    scale = np.abs(floats(2, 32, dtype=BF16, scale=0.01))
    rows = np.abs(floats(6)) if tokens else None
    bias = RNG.integers(-999, 999, (2, 32)).astype(np.int32)
    made = v5([x], [weight], [bias], [scale], None, None, None, [rows] if tokens else None, groups=np.array(ends))[0]
    group = group_of(ends)
    expected = (by_rows(x, weight.astype(float), ends) + bias[group]) * scale.astype(float)[group]
    assert made.dtype == BF16
    assert_near(made, expected * rows.astype(float)[:, None] if rows is not None else expected, LIMIT, floor=1e-6)


@pytest.mark.parametrize("parts", [0, 2])
def test_weights_alone(parts: int) -> None:
    x, weight, ends = floats(6, 64, dtype=np.float16), int8(2, 64, 32), [4, 6]
    shape = (2, parts, 32) if parts else (2, 32)
    scale, offset = floats(*shape, dtype=np.float16, scale=0.02), floats(*shape, dtype=np.float16, scale=9)
    if parts:
        weight = (weight // 16).astype(ml_dtypes.int4)
    made = v5([x], [weight], None, None, None, [scale], [offset], groups=np.array(ends))[0]
    s, o = (v.astype(float).reshape(2, -1, 32).repeat(64 // (parts or 1), 1) for v in (scale, offset))
    assert_near(made, by_rows(x, (weight.astype(float) + o) * s, ends), 4e-3, floor=1e-6)


def test_int4_by_groups() -> None:
    x, weight = ((RNG.integers(-8, 8, s)).astype(ml_dtypes.int4) for s in [(6, 64), (2, 64, 32)])
    scale, rows = np.abs(floats(2, 2, 32, scale=0.1)), np.abs(floats(6))
    bits = scale.view(np.uint32).astype(np.uint64)
    made = v5([x], [weight], None, [bits], None, None, None, [rows], groups=np.array([1, 6]))[0]
    right = weight.astype(float) * scale.astype(float).repeat(32, 1)
    assert_near(made, by_rows(x, right, [1, 6]) * rows.astype(float)[:, None], 1e-2, floor=1e-6)


@pytest.mark.parametrize("list_type", [0, 1])
def test_add(list_type: int) -> None:
    x, weight, y = floats(9, 4, dtype=BF16), floats(9, 6, dtype=BF16), floats(2, 4, 6)
    groups = np.array([3, 9] if list_type == 0 else [3, 6])
    expected = y.astype(float)
    for g, part in enumerate((slice(0, 3), slice(3, 9))):
        expected[g] += x[part].astype(float).T @ weight[part].astype(float)
    ops.grouped_matmul_add_v2(x, weight, groups, y, True, False, 2, list_type)
    assert_near(y, expected, LIMIT, floor=1e-6)


def test_swiglu_quant() -> None:
    x, weight, ends = int8(6, 64), int8(2, 64, 64), [4, 6]
    scale, rows = np.abs(floats(2, 64, scale=0.01)), np.abs(floats(6)) + 0.1
    with aclnn.use_backend("numpy"):
        stored = aclnn.asarray(weight).to_format("FRACTAL_NZ")
        actual = ops.grouped_matmul_swiglu_quant(
            aclnn.asarray(x),
            stored,
            None,
            None,
            aclnn.asarray(scale),
            aclnn.asarray(rows),
            aclnn.asarray(np.array(ends)),
        )
        y, y_scale = actual.output.numpy(), actual.output_scale.numpy()
    total = by_rows(x, weight.astype(float), ends) * scale.astype(float)[group_of(ends)] * rows.astype(float)[:, None]
    a, b = np.split(total, 2, -1)
    with np.errstate(over="ignore"):
        gated = a / (1 + np.exp(-a)) * b
    expected = np.abs(gated).max(-1) / 127
    assert_near(y_scale, expected, 1e-4, floor=1e-6)
    assert np.abs(y - np.rint(gated / expected[:, None])).max() <= 1


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("list_type", [0, 1])
def test_swiglu_quant_v2(list_type: int, single: bool, blocked: bool) -> None:
    """Three groups, the second empty, of seven of the eight rows; weights in one tensor or a list, plain or in FRACTAL_NZ."""
    ends = [3, 3, 7]
    groups = np.array(ends if list_type == 0 else [3, 0, 4])
    x, weight = int8(8, 64), int8(3, 64, 128)
    scale, rows = np.abs(floats(3, 128, scale=0.01)), np.abs(floats(8)) + 0.1
    with aclnn.use_backend("numpy"):
        weights = [aclnn.asarray(w) for w in ([weight] if single else weight)]
        if blocked:
            weights = [w.to_format("FRACTAL_NZ") for w in weights]
        scales = [aclnn.asarray(s) for s in ([scale] if single else scale)]
        function = ops.grouped_matmul_swiglu_quant_weight_nz_v2 if blocked else ops.grouped_matmul_swiglu_quant_v2
        actual = function(
            aclnn.asarray(x),
            weights,
            scales,
            None,
            None,
            aclnn.asarray(rows),
            None,
            aclnn.asarray(groups),
            0,
            0,
            0,
            list_type,
        )
        y, y_scale = actual.output.numpy()[:7], actual.output_scale.numpy()[:7]
    products = np.einsum("rk,rkn->rn", x[:7].astype(float), weight.astype(float)[[0, 0, 0, 2, 2, 2, 2]])
    total = products * scale.astype(float)[[0, 0, 0, 2, 2, 2, 2]] * rows[:7].astype(float)[:, None]
    a, b = np.split(total, 2, -1)
    with np.errstate(over="ignore"):
        gated = a / (1 + np.exp(-a)) * b
    expected = np.abs(gated).max(-1) / 127
    assert_near(y_scale, expected, 1e-4, floor=1e-6)
    difference = np.abs(y - np.rint(gated / expected[:, None]))
    assert difference.max() <= 1 and (difference > 0).mean() < 0.02


def test_dequantised_again() -> None:
    x, weight, scale = floats(6, 64, dtype=np.float16), int8(2, 16, 64), np.abs(floats(2, 16, scale=0.01))
    with aclnn.use_backend("numpy", soc="Ascend310P3"):
        actual = ops.quant_grouped_matmul_dequant(x, weight, scale, np.array([2, 6]))
    right = weight.astype(float).transpose(0, 2, 1) * scale.astype(float)[:, None]
    assert_near(actual, by_rows(x, right, [2, 6]), 3e-2, floor=1e-6)


@pytest.mark.parametrize("packed", [False, True])
def test_rows_of_8_bits_by_weights_of_4_with_a_scale_for_each_output(packed: bool) -> None:
    """Bias, eight times the sums of columns, is scaled by rows, too; eight codes lie in an INT32."""
    rng, ends = np.random.default_rng(45), [2, 6]
    x, codes = rng.integers(-128, 128, (6, 64), np.int8), rng.integers(-8, 8, (2, 64, 64))
    scale, rows = (rng.uniform(0.001, 0.01, s).astype(np.float32) for s in ((2, 64), 6))
    whole = codes * scale[:, None]
    bits, bias = scale.view(np.uint32).astype(np.int64), (8 * whole.sum(1)).astype(np.float32)
    nibbles = (codes & 15).astype(np.uint32).reshape(2, 64, 8, 8) << (4 * np.arange(8, dtype=np.uint32))
    weight = nibbles.sum(-1, dtype=np.uint32).view(np.int32) if packed else codes.astype(ml_dtypes.int4)
    operands = [x], [weight], [bias], [bits], None, None, None, [rows], np.array(ends)
    out = np.zeros((6, 64), BF16)
    ops.grouped_matmul_v4(*operands, None, None, None, 3, 0, 0, 0, out=([out], None, None))
    expected = by_rows(x, whole, ends) * rows.astype(float)[:, None]
    assert_near(out, expected, LIMIT["bfloat16"], floor=1e-2 * float(np.abs(expected).max()))


@pytest.mark.parametrize("groups", [1, 2])
def test_swiglu_quant_with_weights_of_four_bits(groups: int) -> None:
    """Both versions, with scales of outputs, or of groups of their inputs; ``bias`` has eight times the sums of columns."""
    rng, ends = np.random.default_rng(44), [2, 6]
    x, weight = rng.integers(-128, 128, (6, 32), np.int8), rng.integers(-8, 8, (2, 32, 128))
    scale = (2.0 ** rng.integers(-9, -6, (2, groups, 128))).astype(np.float32)  # the same in the fixpipe's format
    rows = rng.uniform(0.1, 1, 6).astype(np.float32)
    whole = weight * np.repeat(scale, 32 // groups, 1)
    bits, bias = scale.view(np.uint32).astype(np.uint64), (8 * whole.sum(1)).astype(np.float32)
    total = by_rows(x, whole, ends) * rows.astype(float)[:, None]
    a, b = np.split(total, 2, -1)
    gated = a / (1 + np.exp(-a)) * b
    expected = np.abs(gated).max(-1) / 127
    with aclnn.use_backend("numpy"):
        codes = aclnn.asarray(weight.astype(ml_dtypes.int4))
        first = ops.grouped_matmul_swiglu_quant(
            *(aclnn.asarray(x), codes, aclnn.asarray(bias), None, aclnn.asarray(bits), rows, np.array(ends))
        )
        mode, scales = (0, bits[:, 0]) if groups == 1 else (1, bits)
        second = ops.grouped_matmul_swiglu_quant_v2(
            *(x, [codes], [scales], [bias], None, rows, None, np.array(ends), mode, 0, 0, 0)
        )
        for y, y_scale in ((first.output, first.output_scale), (second.output, second.output_scale)):
            assert_near(y_scale.numpy(), expected, 2e-3, floor=1e-6)
            assert np.abs(y.numpy() - gated / expected[:, None]).max() <= 0.6


def test_products_with_four_bits_are_rounded_on_the_way() -> None:
    """High and low halves are rounded to float16 each: 16 * 2049 and -8 * 2049 lose their last bits."""
    x = np.full((1, 2049), 16, np.int8)
    bits = np.ones(1, np.float32).view(np.uint32).astype(np.uint64)
    got = product_with_int4(x, np.ones((2049, 1), np.int8), bits, np.full(1, 8 * 2049, np.float32))
    assert got.tolist() == [[16 * 2048 - 16384 + 8 * 2049]]


def test_unsupported_cases_are_reported_in_phase_one() -> None:
    """As UnsupportedOperator (561003), with or without data."""
    x, weight = (aclnn.asarray(np.zeros(s, ml_dtypes.int4)) for s in ((4, 32), (2, 32, 128)))
    scale, rows, groups = np.ones((2, 128), np.uint64), np.ones(4, np.float32), np.array([2, 4])
    smooth = np.ones(2, np.float32)
    with pytest.raises(UnsupportedOperator, match="INT8 by INT8 or INT4, not INT4 by INT4"):
        ops.grouped_matmul_swiglu_quant_v2(x, [weight], [scale], None, None, rows, smooth, groups, 0, 0, 0, 0)


def test_swiglu_of_a_view_of_blocks() -> None:
    """A weight in FRACTAL_NZ may also be given by the shape of its blocks."""
    rng = np.random.default_rng(43)
    x, weight = (rng.integers(-20, 20, s).astype(np.int8) for s in [(5, 32), (2, 32, 64)])
    scale, rows, groups = np.full((2, 64), 1e-3, np.float32), np.ones(5, np.float32), np.array([2, 5])
    tensors = [aclnn.asarray(a) for a in (x, scale, rows, groups)]
    blocks = weight.reshape(2, 2, 16, 2, 32).transpose(0, 3, 1, 2, 4).copy()
    plain, viewed = (
        ops.grouped_matmul_swiglu_quant_weight_nz(tensors[0], w, None, None, *tensors[1:])
        for w in (
            aclnn.asarray(weight).to_format("FRACTAL_NZ"),
            aclnn.asarray(blocks).with_format("FRACTAL_NZ", blocks.shape),
        )
    )
    for a, b in zip(plain[:2], viewed[:2]):
        np.testing.assert_array_equal(np.asarray(a.numpy()), np.asarray(b.numpy()))
    assert plain[0].numpy().any()
