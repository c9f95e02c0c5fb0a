"""Grouped products after the routing of experts, and those of elements with shared exponents, against float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from comparisons import assert_near
from rule_tools import NEW_950

import ascend_aclnn as aclnn
from ascend_aclnn import AclError, ops

RNG = np.random.default_rng(29)
BF16, E4M3, E8M0 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
SIZES = [5, 0, 9]
EXPERT = np.repeat(np.arange(3), SIZES)
ROWS, BATCH = 16, 7  # two rows of x belong to no expert


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32).astype(dtype)


def int8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def packed(values: np.ndarray) -> np.ndarray:
    """Eight 4-bit integers to an int32, the first in the lowest bits."""
    nibbles = (values.reshape(*values.shape[:-1], -1, 8).astype(np.int64) & 15) << np.arange(0, 32, 4)
    return nibbles.sum(-1).astype(np.uint32).view(np.int32)


def spread(codes: np.ndarray, axis: int, length: int) -> np.ndarray:
    moved = np.moveaxis(codes.view(np.uint8).astype(float), axis, -2)
    flat = 2.0 ** (moved.reshape(*moved.shape[:-2], -1) - 127)
    return np.moveaxis(flat.repeat(32, -1)[..., :length], -1, axis)


def added_up(rows: np.ndarray, logits: np.ndarray, index: np.ndarray, shared: Any, weight: float) -> np.ndarray:
    out = np.zeros((BATCH, rows.shape[1]))
    if shared is not None:
        out[2 : 2 + len(shared)] += shared.astype(float) * weight
    for row, logit, place in zip(rows, logits, index):
        out[place] += row * logit
    return out


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("with_offset", [False, True])
def test_weights_of_four_bits(counted: bool, with_offset: bool) -> None:
    x, weight = int8(ROWS, 192), RNG.integers(-8, 8, (3, 192, 72))
    scale, offset = np.abs(floats(3, 1, 72)) * np.float32(0.01), floats(3, 1, 72)
    bias = (8 * weight * scale.astype(float)).sum(1).astype(np.float32)  # what halving the rows takes away
    tokens, logits = np.abs(floats(ROWS)), floats(ROWS)
    index, shared = RNG.integers(0, BATCH, ROWS), floats(3, 72, dtype=BF16)
    groups = np.array(SIZES if counted else np.cumsum(SIZES))
    out = np.empty((BATCH, 72), np.float32)
    bits = scale.view(np.uint32).astype(np.int64)
    actual = ops.grouped_matmul_finalize_routing_v2(
        x, packed(weight), bits, bias, offset if with_offset else None, None, None, tokens, groups, shared, logits, index,
        0, 0.5, 2, False, False, int(counted), out=out,
    )  # fmt: skip
    wide = x[:14].astype(float)
    rows = np.stack([row @ (weight[e] * scale[e].astype(float)) for row, e in zip(wide, EXPERT)])
    if with_offset:
        rows += wide.sum(1, keepdims=True) * offset[EXPERT, 0].astype(float)
    assert_near(actual, added_up(rows * tokens[:14, None], logits, index, shared, 0.5), 1e-4, floor=0.0)
    if not with_offset and not counted:
        again = ops.grouped_matmul_finalize_routing(
            x, packed(weight), bits, bias, tokens, groups, shared, logits, index, 0, 0.5, 2, False, False, 0,
            out=np.empty_like(out),
        )  # fmt: skip
        np.testing.assert_array_equal(again, actual)


@pytest.mark.parametrize("name", ["weight_nz", "weight_nz_v2"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_weights_of_eight_bits_in_blocks(name: str, with_bias: bool) -> None:
    x, weight = int8(ROWS, 48), int8(3, 48, 256)
    scale, bias = np.abs(floats(3, 256)) * np.float32(0.01), floats(3, 256, dtype=BF16) if with_bias else None
    tokens, logits, index = np.abs(floats(ROWS)), floats(ROWS), RNG.integers(0, BATCH, ROWS)
    tensors = [None if a is None else aclnn.asarray(a) for a in (scale, bias)]
    after = [aclnn.asarray(a) for a in (tokens, np.array(SIZES))]
    rest = [None, *(aclnn.asarray(a) for a in (logits, index)), 0, 1.0, 0, False, False, 1]
    between = [None] * 3 if name.endswith("v2") else []
    out = aclnn.empty((BATCH, 256), np.float32)
    function = getattr(ops, "grouped_matmul_finalize_routing_" + name)
    blocked = aclnn.asarray(weight).to_format("FRACTAL_NZ")
    actual = function(aclnn.asarray(x), blocked, *tensors, *between, *after, *rest, out=out)
    rows = np.stack([row @ weight[e].astype(float) for row, e in zip(x[:14].astype(float), EXPERT)])
    rows = rows * scale[EXPERT].astype(float) * tokens[:14, None]
    rows = rows if bias is None else rows + bias[EXPERT].astype(float)
    assert_near(actual.numpy(), added_up(rows, logits, index, None, 0), 1e-4, floor=0.0)


@pytest.mark.parametrize("name", ["", "_v2", "_v3", "_weight_nz", "_weight_nz_v2"])
def test_weights_of_four_bits_without_bias(name: str) -> None:
    """As op_api has it: weights in ND need a bias (161001), those in FRACTAL_NZ do not."""
    x, weight, scale = int8(ROWS, 192), RNG.integers(-8, 8, (3, 192, 128)), np.abs(floats(3, 1, 128)) * np.float32(0.01)
    tokens, logits, index = np.abs(floats(ROWS)), floats(ROWS), RNG.integers(0, BATCH, ROWS)
    blocked = name.startswith("_weight")
    codes = aclnn.asarray(weight.astype(ml_dtypes.int4)).to_format("FRACTAL_NZ") if blocked else packed(weight)
    between = [None] * 3 if name in ("_v2", "_v3", "_weight_nz_v2") else []
    bits, counts = scale.view(np.uint32).astype(np.int64), np.array(SIZES)
    arguments = [x, codes, bits, None, *between, tokens, counts, None, logits]
    arguments += [index, 0, 1.0, 0, False, False, 1, np.empty((BATCH, 128), np.float32)]
    *inputs, out = [aclnn.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
    function = getattr(ops, "grouped_matmul_finalize_routing" + name)
    if not blocked:
        with pytest.raises(aclnn.AclError, match=r"(?s)bias.*161001"):
            function(*inputs, out=out)
        return
    actual = function(*inputs, out=out)
    rows = np.stack([(row - 8) @ (weight[e] * scale[e].astype(float)) for row, e in zip(x[:14].astype(float), EXPERT)])
    assert_near(actual.numpy(), added_up(rows * tokens[:14, None], logits, index, None, 0), 1e-4)


def test_a_row_of_no_output_is_refused() -> None:
    x, weight, scale = int8(4, 48), int8(1, 48, 256), np.ones((1, 256), np.float32)
    tensors = [aclnn.asarray(a) for a in (np.ones(4, np.float32), np.array([4]))]
    index = aclnn.asarray(np.array([0, 1, 2, 4]))
    with pytest.raises(AclError, match="row_index") as caught:
        ops.grouped_matmul_finalize_routing_weight_nz(
            aclnn.asarray(x), aclnn.asarray(weight).to_format("FRACTAL_NZ"), aclnn.asarray(scale), None, *tensors, None,
            aclnn.asarray(np.ones(4, np.float32)), index, 0, 1.0, 0, False, False, 1,
            out=aclnn.empty((4, 256), np.float32),
        )  # fmt: skip
        aclnn.synchronize()
    assert caught.value.status == 161002


@pytest.mark.parametrize("turned", [False, True])
def test_shared_exponents(turned: bool) -> None:
    x, tokens = floats(ROWS, 96, dtype=E4M3), RNG.integers(120, 130, (ROWS, 2, 2)).astype(np.uint8).view(E8M0)
    shape, sizes = ((3, 40, 96), (3, 40, 2, 2)) if turned else ((3, 96, 40), (3, 2, 40, 2))
    weight, scale = floats(*shape, dtype=E4M3), RNG.integers(120, 130, sizes).astype(np.uint8).view(E8M0)
    bias, logits, index = floats(3, 40, dtype=BF16), floats(ROWS), RNG.integers(0, BATCH, ROWS)
    with aclnn.use_backend("numpy", soc=NEW_950):
        actual = ops.grouped_matmul_finalize_routing_v3(
            x, weight, scale, bias, None, None, None, tokens, np.array(SIZES), None, logits, index, 0, 1.0, 0, False,
            turned, 1, out=np.empty((BATCH, 40), np.float32),
        )  # fmt: skip
    right = weight.astype(float) * spread(scale, 2 if turned else 1, 96)
    right = right.swapaxes(1, 2) if turned else right
    left = x.astype(float) * spread(tokens, 1, 96)
    rows = np.stack([row @ right[e] for row, e in zip(left, EXPERT)]) + bias[EXPERT].astype(float)
    assert_near(actual, added_up(rows, logits, index, None, 0), 1e-5, floor=0.0)


@pytest.mark.parametrize("counted", [False, True])
def test_groups_of_the_inner_axis(counted: bool) -> None:
    """The pairs of scales of a group begin at its start // 64 + its number."""
    sizes = [70, 0, 130]
    ends = np.cumsum(sizes)
    x1, x2 = floats(200, 5, dtype=E4M3), floats(200, 6, dtype=E4M3)
    scale1, scale2 = (RNG.integers(120, 130, (200 // 64 + 3, n, 2)).astype(np.uint8).view(E8M0) for n in (5, 6))
    y = floats(3, 5, 6)
    with aclnn.use_backend("numpy", soc=NEW_950):
        groups = np.array(sizes if counted else ends)
        left, others = aclnn.asarray(x1).transpose(1, 0), [aclnn.asarray(a) for a in (x2, scale2, groups, y)]
        scales = aclnn.asarray(scale1).transpose(1, 0, 2)
        ops.quant_grouped_matmul_inplace_add(left, others[0], scales, *others[1:], int(counted), 0)
        made = others[3].numpy()
    expected = y.astype(float)
    for number, (size, end) in enumerate(zip(sizes, ends)):
        start = end - size
        pairs = slice(start // 64 + number, start // 64 + number + -(-size // 64))
        left = x1[start:end].astype(float) * spread(scale1[pairs], 0, size)
        expected[number] += left.T @ (x2[start:end].astype(float) * spread(scale2[pairs], 0, size))
    assert_near(made, expected, 1e-5, floor=0.0)


def test_an_empty_sum_is_left_alone() -> None:
    """CANN looks at nothing else where yRef has no elements."""
    shapes = (((8, 0), E4M3), ((8, 4), E4M3), ((2, 0, 4), np.float32))
    with aclnn.use_backend("numpy", soc=NEW_950):
        x1, x2, y = (aclnn.asarray(np.zeros(shape, kind)) for shape, kind in shapes)
        flat, groups = aclnn.asarray(np.zeros(3, np.uint8).view(E8M0)), aclnn.asarray(np.array([4, 8]))
        ops.quant_grouped_matmul_inplace_add(x1, x2, flat, flat, groups, y, 0, 0)
        assert y.numpy().shape == (2, 0, 4)


@pytest.mark.parametrize("turned", [False, True])
def test_groups_activated_and_quantised(turned: bool) -> None:
    x, x_scale = floats(ROWS, 96, dtype=E4M3), RNG.integers(122, 130, (ROWS, 2, 2)).astype(np.uint8).view(E8M0)
    weight = floats(3, 64, 96, dtype=E4M3) if turned else floats(3, 96, 64, dtype=E4M3)
    scale = RNG.integers(120, 128, (3, 64, 2, 2) if turned else (3, 2, 64, 2)).astype(np.uint8).view(E8M0)
    with aclnn.use_backend("numpy", soc=NEW_950):
        blocked, scales = aclnn.asarray(weight).to_format("FRACTAL_NZ"), aclnn.asarray(scale)
        actual = ops.grouped_matmul_activation_quant_weight_nz(
            aclnn.asarray(x), aclnn.asarray(np.array(SIZES)), [blocked.transpose(0, 2, 1) if turned else blocked],
            [scales.transpose(0, 2, 1, 3) if turned else scales], None, aclnn.asarray(x_scale),
            "gelu_tanh", 1, None, "mx", "rint", 0, 0.0,
            out=(aclnn.empty((ROWS, 64), E4M3), aclnn.empty((ROWS, 1, 2), E8M0)),
        )  # fmt: skip
        y, codes = actual[0].numpy(), actual[1].numpy()
    right = weight.astype(float) * spread(scale, 2 if turned else 1, 96)
    right = right.swapaxes(1, 2) if turned else right
    product = np.stack([row @ right[e] for row, e in zip(x.astype(float) * spread(x_scale, 1, 96), EXPERT)])
    wanted = product * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (product + 0.044715 * product**3)))
    tops = np.abs(wanted.reshape(14, 2, 32)).max(-1)
    np.testing.assert_array_equal(codes[:14, 0].view(np.uint8), np.floor(np.log2(tops)) - 8 + 127)
    restored = y[:14].astype(float) * spread(codes[:14], 1, 64)
    assert (np.abs(restored - wanted) <= np.maximum(np.abs(wanted) / 8, tops.repeat(32, 1) * 2.0**-15)).all()
    assert not y[14:].astype(np.float32).any() and not codes[14:].view(np.uint8).any()
