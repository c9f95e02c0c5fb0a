"""Microscaling (ops-nn/quant on Ascend 950) against definitions written out block by block in float64."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from reference_tools import BF16, F16, F32, floats
from rule_tools import NEW_950, by_name, status, t

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
E2M1 = np.dtype(ml_dtypes.float4_e2m1fn)
DST = {E5M2: 35, E4M3: 36, E2M1: 40}
TOP_EXPONENT = {E5M2: 15, E4M3: 8, E2M1: 2}
LARGEST = {E5M2: 57344.0, E4M3: 448.0, E2M1: 6.0}
E2M1_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


@pytest.fixture(autouse=True)
def ascend950() -> Iterator[None]:
    with aclnn.use_backend("numpy", soc=NEW_950):
        yield


def power(magnitude: float, dtype: Any, algorithm: int, most: float) -> int:
    """The exponent of a block's scale by the document's formulas, not yet limited to what FLOAT8_E8M0 holds."""
    if algorithm == 0:
        return math.frexp(magnitude)[1] - 1 - TOP_EXPONENT[dtype]
    mantissa, exponent = math.frexp(magnitude / most)  # in [0.5, 1)
    return exponent - 1 if mantissa == 0.5 else exponent


def element(value: float, dtype: Any, mode: str) -> float:
    """A quotient as an element, saturated."""
    if dtype == E2M1 and mode != "rint":
        grid = np.concatenate((-E2M1_VALUES[::-1], E2M1_VALUES))
        if mode == "floor":
            return float(grid[grid <= max(value, -6)].max())
        distance = np.abs(grid - value)
        nearest = grid[distance == distance.min()]
        return float(nearest[np.argmax(np.abs(nearest))])  # a tie goes away from zero
    clipped = max(-LARGEST[dtype], min(LARGEST[dtype], value))
    return float(np.float64(clipped).astype(np.float32).astype(dtype))


def block(
    values: Any, dtype: Any, algorithm: int = 0, mode: str = "rint", most: float = 0.0
) -> tuple[int, list[float]]:
    """Scale (as the code of FLOAT8_E8M0) and elements of one block."""
    if not np.isfinite(values).all():
        return 255, [0.0] * len(values)
    magnitude = float(np.abs(values).max())
    if magnitude == 0:
        return 0, [0.0] * len(values)
    exponent = power(magnitude, dtype, algorithm, most or LARGEST[dtype])
    if exponent <= -127:
        return 0, [0.0] * len(values)
    return exponent + 127, [element(float(v) / 2.0**exponent, dtype, mode) for v in values]


def rows_of_blocks(x: Any, dtype: Any, *how: Any, size: int = 32) -> tuple[Any, Any]:
    """Elements and scales along the last axis of a matrix, scales filled up to an even number."""
    elements, scales = np.zeros(x.shape), np.zeros((len(x), -(-x.shape[1] // (2 * size)) * 2), np.uint8)
    for i, row in enumerate(x.astype(np.float64)):
        for j in range(0, len(row), size):
            scales[i, j // size], elements[i, j : j + size] = block(row[j : j + size], dtype, *how)
    return elements, scales.reshape(len(x), -1, 2)


def check(y: Any, scales: Any, expected: tuple[Any, Any]) -> None:
    assert scales.dtype == ml_dtypes.float8_e8m0fnu
    np.testing.assert_array_equal(scales.view(np.uint8), expected[1])
    np.testing.assert_array_equal(y.astype(np.float64), expected[0])


def values(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Numbers over many binades, a block of zeros, one with an infinity, one with a NaN."""
    x = (rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 6, shape)).astype(np.float32)
    x[0, :32], x[1, 5], x[2, 40] = 0, np.inf, np.nan
    return x.astype(dtype)


@pytest.mark.parametrize("source", [F16, BF16, F32], ids=str)
@pytest.mark.parametrize(
    ("dtype", "algorithm", "mode"),
    [(E4M3, 0, "rint"), (E5M2, 0, "rint"), (E4M3, 1, "rint"), (E5M2, 1, "rint")]
    + [(E2M1, 0, mode) for mode in ("rint", "round", "floor")],
    ids=str,
)
def test_blocks_of_the_last_axis(source: Any, dtype: Any, algorithm: int, mode: str) -> None:
    x = values(np.random.default_rng(1), (5, 90), source)
    y, scales = ops.dynamic_mx_quant(x, -1, mode, DST[dtype], 32, algorithm)
    assert y.dtype == dtype and scales.shape == (5, 2, 2)
    check(y, scales, rows_of_blocks(x, dtype, algorithm, mode))


@pytest.mark.parametrize("most", [0.0, 6.0, 7.0, 8.5, 12.0])
@pytest.mark.parametrize("source", [F16, BF16], ids=str)
def test_the_range_of_four_bit_elements(source: Any, most: float) -> None:
    x = values(np.random.default_rng(2), (6, 128), source)
    x[4, :32] = np.linspace(0, 12, 32).astype(source)
    y, scales = ops.dynamic_mx_quant_v2(x, 1, "rint", 40, 32, 2, most)
    rounded = x.astype(BF16) if most in (0, 6, 7) else x  # the largest magnitude is compared as BFLOAT16
    expected = [block(row, E2M1, 2, "rint", most)[0] for row in rounded.astype(np.float64).reshape(24, 32)]
    np.testing.assert_array_equal(scales.view(np.uint8).ravel(), expected)
    exponents = np.where(np.isin(expected, (0, 255)), 0, np.array(expected) - 127.0)
    quotients = np.nan_to_num(x.astype(np.float64).reshape(24, 32), nan=0, posinf=0) / 2.0 ** exponents[:, None]
    quotients[np.array(expected) == 255] = 0
    wanted = np.clip(quotients, -6, 6).astype(np.float32).astype(E2M1).astype(np.float64)
    np.testing.assert_array_equal(y.astype(np.float64).reshape(24, 32), wanted)


def test_a_bound_below_the_largest_magnitude() -> None:
    x = np.full((1, 32), 1.0, np.float32)
    y, scales = ops.dynamic_mx_quant_v3(x, 1, None, 36, 32, 1, 0.0, 448.0 * 4)
    assert scales.view(np.uint8).ravel().tolist() == [129, 0] and (y.astype(np.float32) == 0.25).all()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scales_lie_in_pairs_along_any_axis(axis: int) -> None:
    rng = np.random.default_rng(3)
    x = floats(rng, (96, 3, 40), BF16)
    y, scales = ops.dynamic_mx_quant(x, axis, None, 36, 64, 0)
    moved = np.moveaxis(x, axis, -1)
    elements, pairs = rows_of_blocks(moved.reshape(-1, moved.shape[-1]), E4M3, size=64)
    np.testing.assert_array_equal(np.moveaxis(y, axis, -1).reshape(elements.shape).astype(np.float64), elements)
    got = np.moveaxis(scales.view(np.uint8), axis % 3, -2)
    np.testing.assert_array_equal(got.reshape(pairs.shape), pairs)


@pytest.mark.parametrize("name", ["dynamic_mx_quant_with_dual_axis", "dynamic_mx_quant_with_dual_axis_v2"])
def test_both_axes(name: str) -> None:
    x = floats(np.random.default_rng(4), (70, 36), F16)
    more = (0.0,) if name.endswith("v2") else ()
    y1, scales1, y2, scales2 = getattr(ops, name)(x, "rint", 35, 1, *more)
    check(y1, scales1, rows_of_blocks(x, E5M2, 1))
    elements, pairs = rows_of_blocks(x.T, E5M2, 1)
    check(y2, scales2, (elements.T, pairs.transpose(1, 0, 2)))


@pytest.mark.parametrize(("dst", "algorithm"), [(E4M3, 0), (E2M1, 0), (E2M1, 2)], ids=str)
def test_square_blocks(dst: Any, algorithm: int) -> None:
    x = floats(np.random.default_rng(5), (2, 40, 70), BF16)
    y, scales1, scales2 = ops.dynamic_block_mx_quant(x, None, DST[dst], algorithm, 0.0)
    assert scales1.shape == (2, 40, 2, 2) and scales2.shape == (2, 1, 70, 2)
    for batch, rows, columns in np.ndindex(2, 2, 3):
        part = np.s_[batch, rows * 32 : rows * 32 + 32, columns * 32 : columns * 32 + 32]
        code, elements = block(x[part].astype(np.float64).ravel(), dst, algorithm)
        np.testing.assert_array_equal(y[part].astype(np.float64).ravel(), elements)
        assert (scales1.view(np.uint8)[batch, part[1], columns // 2, columns % 2] == code).all()
        assert (scales2.view(np.uint8)[batch, rows // 2, part[2], rows % 2] == code).all()
    assert not scales1.view(np.uint8)[:, :, 1, 1].any()


@pytest.mark.parametrize("dst", [E4M3, E5M2], ids=str)
def test_rows_of_scales_become_square_blocks(dst: Any) -> None:
    """A value is kept where its new element holds it; the common scale is the largest one less the document's offset."""
    offset = {E4M3: 6, E5M2: 13}[dst]
    rng = np.random.default_rng(6)
    x = floats(rng, (64, 96), BF16) * np.asarray(2.0 ** rng.integers(-9, 9, (64, 1)), BF16)
    elements, scales = ops.dynamic_mx_quant_v2(x, -1, None, 40, 32, 0, 0.0)
    y, scales1, scales2 = ops.mx_to_block_mx_quant(elements, scales, DST[dst])
    codes = scales.view(np.uint8).reshape(64, 4)[:, :3].astype(int)
    common = np.maximum(codes.reshape(2, 32, 3).max(1) - offset, 0)
    np.testing.assert_array_equal(scales1.view(np.uint8).reshape(64, 4)[:, :3], common.repeat(32, 0))
    np.testing.assert_array_equal(scales2.view(np.uint8)[0].reshape(3, 32, 2), common.T[:, None].repeat(32, 1))
    exact = elements.astype(np.float64) * 2.0 ** (codes - common.repeat(32, 0)).repeat(32, 1)
    np.testing.assert_array_equal(y.astype(np.float64), exact.astype(np.float32).astype(dst).astype(np.float64))


def test_two_levels() -> None:
    x = floats(np.random.default_rng(7), (3, 600), BF16)
    x[0, :512] = 0
    smooth = floats(np.random.default_rng(8), (600,), BF16)
    y, level0, level1 = ops.dynamic_dual_level_mx_quant(x, smooth, "rint", 512, 32)
    smoothed = (x.astype(np.float32) * smooth.astype(np.float32)).astype(BF16).astype(np.float64)
    for row, cut in ((r, c) for r in range(3) for c in (np.s_[:512], np.s_[512:])):
        part = smoothed[row, cut]
        scale = np.float32(np.abs(part).max()) * np.float32(1 / 6)
        assert level0[row, cut.start // 512 if cut.start else 0] == scale
        inner = (part / np.float64(scale)).astype(BF16) if scale else part
        elements, codes = rows_of_blocks(inner[None], E2M1)
        np.testing.assert_array_equal(y[row, cut].astype(np.float64), elements[0])
        start = (cut.start or 0) // 32
        got = level1.view(np.uint8)[row].ravel()[start : start + -(-len(part) // 32)]
        np.testing.assert_array_equal(got, codes.ravel()[: len(got)])


@pytest.mark.parametrize("source", [F16, BF16, F32], ids=str)
@pytest.mark.parametrize("dtype", [E4M3, E5M2, E2M1], ids=str)
@pytest.mark.parametrize("axis", [0, -1])
def test_elements_times_their_scales(source: Any, dtype: Any, axis: int) -> None:
    x = floats(np.random.default_rng(9), (40, 66), BF16)
    y, scales = ops.dynamic_mx_quant(x, axis, None, DST[dtype], 32, 0)
    got = ops.anti_mx_quant(y, scales, axis, {F32: 0, F16: 1, BF16: 27}[source])
    codes = np.moveaxis(scales.view(np.uint8), axis % 2, -2)
    factors = 2.0 ** (codes.reshape(codes.shape[0], -1).astype(float) - 127).repeat(32, 1)
    moved = np.moveaxis(y.astype(np.float64), axis, -1)
    wanted = np.moveaxis(moved * factors[:, : moved.shape[1]], -1, axis)
    np.testing.assert_array_equal(got, wanted.astype(np.float32).astype(source))


# ------------------------------------------------------------------------------------------------- groups of rows

ENDS = [40, 40, 110, 130]


def grouped(x: Any, ends: list[int], dtype: Any, *how: Any) -> tuple[Any, Any]:
    elements, scales = np.zeros(x.shape), np.zeros((len(x) // 64 + len(ends), x.shape[1], 2), np.uint8)
    for number, (start, end) in enumerate(zip([0, *ends], ends)):
        if end > start:
            made, pairs = rows_of_blocks(x[start:end].T, dtype, *how)
            elements[start:end] = made.T
            place = start // 64 + number
            scales[place : place + pairs.shape[1]] = pairs.transpose(1, 0, 2)
    return elements, scales


def test_groups_of_rows() -> None:
    x = floats(np.random.default_rng(10), (130, 10), F16)
    check(*ops.grouped_dynamic_mx_quant(x, np.array(ENDS, np.int32), "rint", 36, 32), grouped(x, ENDS, E4M3))
    got = ops.grouped_dynamic_mx_quant_v2(x, np.array(ENDS, np.int32), "floor", 40, 32, 0, 0.0)
    check(*got, grouped(x, ENDS, E2M1, 0, "floor"))
    with pytest.raises(AclError, match="must end with 130"):
        ops.grouped_dynamic_mx_quant(x, np.array([40, 120], np.int32), "rint", 36, 32)


def test_groups_along_both_axes() -> None:
    x = floats(np.random.default_rng(11), (130, 64), BF16)
    y1, scales1, y2, scales2 = ops.grouped_dynamic_mx_quant_with_dual_axis(x, np.array(ENDS), None, 1, 36, 0.0)
    check(y1, scales1, rows_of_blocks(x, E4M3, 1))
    check(y2, scales2, grouped(x, ENDS, E4M3, 1))


# ------------------------------------------------------------------------------------------------- after a gate


def rounded(y: Any, dtype: Any) -> Any:
    return y.astype(np.float32).astype(dtype)


def swiglu(x: Any, left: bool, axis: int = -1) -> Any:
    a, b = np.split(x.astype(np.float64), 2, axis) if left else np.split(x.astype(np.float64), 2, axis)[::-1]
    return a / (1 + np.exp(-a)) * b


@pytest.mark.parametrize(("gate", "axis"), [(-1, -1), (-1, -2), (-2, -1), (0, 0)])
def test_a_gate_and_blocks(gate: int, axis: int) -> None:
    x = floats(np.random.default_rng(12), (80, 60), BF16)
    y, scales = ops.swiglu_mx_quant(x, None, gate, True, axis=axis, dst_type=36, scale_alg=1)
    expected = rounded(swiglu(x, True, gate), BF16)
    elements, pairs = rows_of_blocks(expected if axis == -1 else expected.T, E4M3, 1)
    check(y, scales, (elements, pairs) if axis == -1 else (elements.T, pairs.transpose(1, 0, 2)))


def test_a_clamped_gate() -> None:
    x = (floats(np.random.default_rng(13), (5, 64), F16) * np.float16(5)).astype(F16)
    y, scales = ops.swiglu_mx_quant(x, None, -1, False, 1, 3.0, 1.5, 0.5, axis=-1, dst_type=40)
    wide = x.astype(np.float64)
    a, b = np.minimum(wide[:, ::2], 3), np.clip(wide[:, 1::2], -3, 3)
    check(y, scales, rows_of_blocks(rounded(a / (1 + np.exp(-1.5 * a)) * (b + 0.5), F16), E2M1))


def test_groups_after_a_gate() -> None:
    """groupIndex has sizes here; along the rows the scales of groups follow each other; rows after them are zero."""
    x = floats(np.random.default_rng(14), (150, 32), BF16)
    sizes, inner = [40, 70, 20], rounded(swiglu(x, True), BF16)
    y, scales = ops.swiglu_mx_quant(x, np.array(sizes), -1, True, axis=-2, dst_type=36)
    assert scales.shape == (150 // 64 + 3, 16, 2)
    start = place = 0
    for size in sizes:
        elements, pairs = rows_of_blocks(inner[start : start + size].T, E4M3)
        np.testing.assert_array_equal(y[start : start + size].astype(np.float64), elements.T)
        np.testing.assert_array_equal(scales.view(np.uint8)[place : place + pairs.shape[1]], pairs.transpose(1, 0, 2))
        start, place = start + size, place + pairs.shape[1]
    assert not y[start:].astype(np.float32).any() and not scales.view(np.uint8)[place:].any()
    y, scales = ops.swiglu_mx_quant(x, np.array(sizes), -1, True, axis=-1, dst_type=36)
    elements, pairs = rows_of_blocks(inner[:130], E4M3)
    check(y[:130], scales[:130], (elements, pairs))
    assert not y[130:].astype(np.float32).any() and not scales.view(np.uint8)[130:].any()
    for axis in (-1, -2):
        by_sizes = ops.swiglu_mx_quant(x, np.array(sizes), -1, True, axis=axis, dst_type=36)
        by_ends = ops.swiglu_mx_quant(x, np.cumsum(sizes), -1, True, group_mode=1, axis=axis, dst_type=36)
        for one, other in zip(by_ends, by_sizes):
            np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))


@pytest.mark.parametrize("type_max", [0.0, 7.0, 9.0])
def test_products_in_blocks_of_float4(type_max: float) -> None:
    """FlatQuant: P1 @ x @ P2, quantised as DynamicMxQuantV2 quantises the same product."""
    rng = np.random.default_rng(18)
    x, left, right = floats(rng, (5, 6, 16), F16), floats(rng, (6, 6), F16), floats(rng, (16, 16), F16)
    out = np.empty((5, 96), E2M1), np.empty((5, 2, 2), ml_dtypes.float8_e8m0fnu)
    y, scales = ops.flat_quant_v3(x, left, right, None, 1.0, type_max, 0, out=out)
    product = np.einsum("ij,bjk,kl->bil", *(a.astype(np.float64) for a in (left, x, right))).reshape(5, 96)
    if type_max == 0:
        check(y, scales, rows_of_blocks(product, E2M1))
    else:
        wide = y.astype(np.float64).reshape(5, 3, 32) * scales.astype(np.float64).reshape(5, 4)[:, :3, None]
        largest = np.abs(product).reshape(5, 3, 32).max(-1)
        inside = (
            np.abs(product.reshape(5, 3, 32)) <= 6 * scales.astype(np.float64).reshape(5, 4)[:, :3, None]
        )  # others saturate
        assert (
            np.abs(wide - product.reshape(5, 3, 32))[inside]
            <= np.broadcast_to(largest[..., None] / 4, inside.shape)[inside]
        ).all()
        # No element exceeds the type's largest number once the block is divided by its scale.
        assert (largest / scales.astype(np.float64).reshape(5, 4)[:, :3] <= type_max * 1.001).all()


@pytest.mark.parametrize("ends", [None, ENDS])
def test_a_gate_and_both_axes(ends: Any) -> None:
    x = floats(np.random.default_rng(15), (130, 128), BF16)
    index = None if ends is None else np.array(ends)
    y1, scales1, y2, scales2 = ops.swiglu_mx_quant_with_dual_axis(x, index, False, None, 0, 36)
    inner = rounded(swiglu(x, False), BF16)
    check(y1, scales1, rows_of_blocks(inner, E4M3))
    elements, pairs = rows_of_blocks(inner.T, E4M3)
    check(y2, scales2, (elements.T, pairs.transpose(1, 0, 2)) if ends is None else grouped(inner, ends, E4M3))


def test_the_gradient_of_a_gate_and_both_axes() -> None:
    torch = pytest.importorskip("torch", reason="needs torch's autograd")
    rng = np.random.default_rng(16)
    x, dy = floats(rng, (70, 128), BF16), floats(rng, (70, 64), BF16)
    actual = ops.swiglu_backward_mx_quant_with_dual_axis(x, dy, None, True, None, 1, 36)
    leaf = torch.tensor(x.astype(np.float64), requires_grad=True)
    a, b = leaf.chunk(2, -1)
    (torch.nn.functional.silu(a) * b).backward(torch.tensor(dy.astype(np.float64)))
    dx = rounded(leaf.grad.numpy(), BF16)
    check(actual[0], actual[1], rows_of_blocks(dx, E4M3, 1))
    elements, pairs = rows_of_blocks(dx.T, E4M3, 1)
    check(actual[2], actual[3], (elements.T, pairs.transpose(1, 0, 2)))


def situ(x: Any, beta: float, linear: float, left: bool) -> Any:
    gate, up = np.split(x.astype(np.float64), 2, -1) if left else np.split(x.astype(np.float64), 2, -1)[::-1]
    up = linear * np.tanh(up / linear) if linear > 0 else up
    return beta * np.tanh(gate / beta) / (1 + np.exp(-gate)) * up


@pytest.mark.parametrize(("linear", "left"), [(0.0, True), (2.5, False)])
def test_situ_and_blocks(linear: float, left: bool) -> None:
    x = floats(np.random.default_rng(17), (6, 70), F16)
    y, scales = ops.situ_mx_quant(x, 1.5, linear, left, -1, 36, None)
    check(y, scales, rows_of_blocks(rounded(situ(x, 1.5, linear, left), F16), E4M3))


# ------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "attributes",
    [
        {"blocksize": 31},
        {"blocksize": 0},
        {"roundModeOptional": "round"},  # 8 bits round to nearest
        {"axis": 2},
        {"scaleAlg": 2},  # is for FLOAT4_E2M1
    ],
    ids=str,
)
def test_refused_attributes(attributes: Any) -> None:
    arguments = {"axis": -1, "roundModeOptional": "rint", "dstType": 36, "blocksize": 32, "scaleAlg": 0, **attributes}
    tensors = {
        "x": t((2, 64), "FLOAT16"),
        "yOut": t((2, 64), "FLOAT8_E4M3FN"),
        "mxscaleOut": t((2, 1, 2), "FLOAT8_E8M0"),
    }
    name = "aclnnDynamicMxQuant"
    assert status(name, *by_name(name, **tensors, **arguments), soc=NEW_950) == 561002


@pytest.mark.parametrize("element", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize(("mode", "power"), [(0, False), (0, True), (1, True)])
def test_swiglu_in_blocks(element: Any, mode: int, power: bool) -> None:
    """SwigluGroupQuant by its document, in float64."""
    rng = np.random.default_rng(41)
    x = (rng.standard_normal((6, 512)) * np.exp(rng.uniform(-12, 5, (6, 1)))).astype(np.float16)
    weight, groups = rng.uniform(0.1, 2, 6).astype(np.float32), np.array([2, 3])
    kind = {"float8_e5m2": 35, "float8_e4m3fn": 36}[np.dtype(element).name]
    with aclnn.use_backend("numpy", soc=NEW_950):
        made, scales = ops.swiglu_group_quant(x, weight, groups, None, kind, mode, 0, power, 3.0, 15.0, False)[:2]
    gate, other = np.minimum(x[:, :256].astype(float), 3), np.clip(x[:, 256:].astype(float), -3, 3)
    y = gate / (1 + np.exp(-gate)) * other * weight[:, None]
    size = 32 if mode else 128
    blocks = y.reshape(6, -1, size)
    raw = np.maximum(np.abs(blocks).max(-1), 1e-4) / float(ml_dtypes.finfo(element).max)
    expected = 2.0 ** np.ceil(np.log2(raw)) if power else raw
    np.testing.assert_allclose(scales.astype(float).reshape(6, -1)[:5], expected[:5], rtol=1e-6)
    restored = made.astype(float).reshape(blocks.shape) * expected[..., None]
    step = 2.0 ** -ml_dtypes.finfo(element).nmant
    small = float(ml_dtypes.finfo(element).smallest_subnormal)
    limit = np.abs(blocks) * step * 0.51 + expected[..., None] * small * 0.51
    assert (np.abs(restored - blocks) <= limit)[:5].all()
    assert not made[5].astype(float).any()  # after the groups


def swapped(scales: aclnn.Tensor) -> aclnn.Tensor:
    """A view with the pairs of the summed axis first."""
    return scales.transpose(*range(scales.ndim - 3), -2, -3, -1)


@pytest.mark.parametrize(("groups", "k", "n"), [((), 64, 40), ((), 96, 128), ((2,), 64, 48), ((), 64, 64)])
@pytest.mark.parametrize("strided", [False, True])
def test_weights_are_blocked_by_the_axis_that_is_summed(groups: Any, k: int, n: int, strided: bool) -> None:
    """FRACTAL_NZ_C0_32 as its document has it: (ceil(K / 32), ceil(N / 16), 16, 32) of the matrix that is stored (N, K)."""
    rng = np.random.default_rng(3)
    stored = rng.integers(0, 16, (*groups, n, k)).astype(np.uint8).view(np.dtype(ml_dtypes.float4_e2m1fn))
    pairs = (
        rng.integers(100, 140, (*groups, n, -(-k // 64), 2)).astype(np.uint8).view(np.dtype(ml_dtypes.float8_e8m0fnu))
    )
    with aclnn.use_backend("numpy", soc="Ascend950PR_9599"):
        weight = aclnn.asarray(stored).mT
        scale = swapped(aclnn.asarray(pairs))
        blocks = (*groups, -(-k // 32), -(-n // 16), 16, 32)
        out = aclnn.empty(weight.shape, "FLOAT4_E2M1", format="FRACTAL_NZ_C0_32", storage_shape=blocks)
        if strided:
            out = aclnn.Tensor(
                out.storage, out.shape, out.dtype, weight.strides, 0, aclnn.Format.FRACTAL_NZ_C0_32, blocks
            )
        out_scale = aclnn.empty((*groups, n, -(-k // 64), 2), "FLOAT8_E8M0")
        out_scale = swapped(out_scale)
        call = functools.partial(
            ops.weight_quant_preprocess,
            weight,
            scale,
            None,
            None,
            "FLOAT8_E4M3FN",
            "FLOAT8_E8M0",
            32,
            out=(out, out_scale, None, None),
        )
        if k == n and not strided:
            with pytest.raises(aclnn.UnsupportedOperator, match="strides"):
                call()
            return
        call()
        flat = aclnn.Tensor(out.storage, blocks, out.dtype).numpy()
        np.testing.assert_array_equal(out_scale.numpy().view(np.uint8), scale.numpy().view(np.uint8))
        np.testing.assert_array_equal(out.numpy().view(np.uint8), weight.numpy().view(np.uint8))
    padded = np.zeros((*groups, blocks[-3] * 16, blocks[-4] * 32), np.uint8)
    padded[..., :n, :k] = stored.view(np.uint8)
    wanted = np.moveaxis(padded.reshape(*groups, blocks[-3], 16, blocks[-4], 32), -2, -4)
    np.testing.assert_array_equal(flat.view(np.uint8), wanted)
