"""Products of quantised operands (part of ops-nn/matmul).

Integers are multiplied and summed exactly and scaled in float32 afterwards. Scales of groups of the inner axis are
multiplied into the operands before, which differs from the device's order of roundings only.
"""

from __future__ import annotations

from typing import Any, Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, is_integer, matmul, round_into, widen
from ascend_aclnn.reference import _mx as mx
from ascend_aclnn.reference._gates import activated
from ascend_aclnn.reference._quantise import INT8_MAX, by_row, offset_of, scale_of, store, unpacked
from ascend_aclnn.reference.declare import reference

_EXACT = 1 << 24  # float32 holds whole numbers up to this
_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)


def turned(x: Array, transpose: bool) -> Array:
    return np.swapaxes(x, -1, -2) if transpose else x


def integers(x: Array) -> Array:
    """An operand's elements: INT32 holds eight 4-bit integers of the axis that is stored last."""
    if x.dtype != np.int32:
        return x
    if x.ndim > 1 and x.strides[-2] < x.strides[-1]:
        return turned(unpacked(np.ascontiguousarray(turned(x, True))), True)
    return unpacked(np.ascontiguousarray(x))


def exact_product(a: Array, b: Array) -> Array:
    """a @ b of integers as float64, in which no sum is rounded; of floats as float32."""
    if not is_integer(a.dtype) or not is_integer(b.dtype):
        return matmul(widen(a).astype(np.float32), widen(b).astype(np.float32))
    dtype = np.float32 if a.shape[-1] << 14 <= _EXACT else np.float64
    return matmul(a.astype(dtype), b.astype(dtype)).astype(np.float64)


def product_with_int4(x: Array, weight: Array, scale: Array, assist: Array) -> Array:
    """INT8 rows by a matrix of 4-bit integers as cubes compute it: in halves of 4 bits, the lower ones less 8.

    Scales, (n,) or (groups of k, n), are in the fixpipe's format. Products of groups are rounded to float16, and so is each of
    their sums; ``assist``, (n,), has what the 8 takes away.
    """
    scales = scale_of(scale).reshape(-1, weight.shape[1])
    halves = np.concatenate([x >> 4, (x & 15) - 8])
    total = np.zeros((len(halves), weight.shape[1]), np.float16)
    for axis, factors in zip(np.split(np.arange(len(weight)), len(scales)), scales):
        total += (exact_product(halves[:, axis], weight[axis]).astype(np.float32) * factors).astype(np.float16)
    high, low = np.split(total.astype(np.float32), 2)
    return np.asarray(high * 16 + low + assist)


def fixed_scale(scale: Array) -> Array:
    """Scales as float32, those in the fixpipe's format decoded."""
    return scale_of(scale).astype(np.float32)


def _blocks(scales: Array, matrix: Array, sizes: tuple[int, int]) -> Array:
    """Scales of blocks for each element of a matrix; blocks of size 0 are of 128, or as many as there are scales."""
    spread = scales
    for axis, size, length in zip((-2, -1), matrix.shape[-2:], sizes):
        count = spread.shape[axis]
        length = length or (128 if -(-size // 128) == count else -(-size // count))
        spread = np.take(spread, np.minimum(np.arange(size) // length, count - 1), axis)
    return spread


def scaled_product(
    x1: Array,
    x2: Array,
    scale: Array,
    row_scale: Optional[Array],
    offset: Optional[Array],
    bias: Optional[Array],
    out: Array,
) -> None:
    """(x1 @ x2 + bias) * scale * rowScale + offset; a bias of floats is added last. INT32 results are not scaled."""
    total = exact_product(x1, x2)
    whole_bias = bias is not None and is_integer(bias.dtype)
    if bias is not None and whole_bias:
        total = total + bias
    if out.dtype == np.int32:
        round_into(out, total.reshape(out.shape))
        return
    y = total.astype(np.float32) * fixed_scale(scale)
    if row_scale is not None:
        y = y * (row_scale if row_scale.size == 1 else row_scale.reshape(-1, 1))
    if bias is not None and not whole_bias:
        y = y + widen(bias)
    if out.dtype == np.int8:
        packed = scale.dtype in (np.uint64, np.int64)
        moved = offset if offset is not None else offset_of(scale) if packed else None
        y = y if moved is None else y + moved
    store(out, y.reshape(out.shape))


def grouped_product(
    x1: Array,
    x2: Array,
    scale1: Array,
    scale2: Array,
    offset2: Optional[Array],
    bias: Optional[Array],
    group_size: int,
    out: Array,
) -> None:
    """(x1 * scale1) @ ((x2 - offset2) * scale2) + bias, with scales for blocks of both operands.

    groupSize has the sizes of the blocks along M, N and K, 16 bits each.
    """
    left, right = widen(x1).astype(np.float32), widen(x2).astype(np.float32)
    m, n, k = (group_size >> shift & 0xFFFF for shift in (32, 16, 0))
    if offset2 is not None:
        right = right - _blocks(widen(offset2), right, (k, n))
    left = left * _blocks(widen(scale1), left, (m, 0 if scale1.shape[-1] == 1 else k))
    right = right * _blocks(widen(scale2), right, (k, n))
    y = matmul(left, right)
    store(out, (y if bias is None else y + widen(bias)).reshape(out.shape))


# ------------------------------------------------------------------------------------------------------- versions


@reference("aclnnQuantMatmul", raw=True)
def quant_matmul(x1: Array, x2: Array, bias: Optional[Array], scale: float, *, out: tuple[Array]) -> None:
    scaled_product(x1, x2, np.array([scale], np.float32), None, None, bias, out[0])


@reference("aclnnQuantMatmulV2", raw=True)
def quant_matmul_v2(
    x1: Array, x2: Array, bias: Optional[Array], scale: Array, adj_x1: bool, adj_x2: bool, *, out: tuple[Array]
) -> None:
    """deqScale is filled up to a multiple of 16."""
    right = turned(x2, adj_x2)
    columns = scale if scale.size == 1 else scale[: right.shape[-1]]
    scaled_product(turned(x1, adj_x1), right, columns, None, None, bias, out[0])


@reference("aclnnQuantMatmulV3", raw=True)
def quant_matmul_v3(
    x1: Array,
    x2: Array,
    scale: Array,
    offset: Optional[Array],
    bias: Optional[Array],
    transpose_x1: bool,
    transpose_x2: bool,
    *,
    out: tuple[Array],
) -> None:
    quant_matmul_v4(x1, x2, scale, offset, None, bias, transpose_x1, transpose_x2, out=out)


@reference("aclnnQuantMatmulV4", raw=True)
def quant_matmul_v4(
    x1: Array,
    x2: Array,
    scale: Array,
    offset: Optional[Array],
    row_scale: Optional[Array],
    bias: Optional[Array],
    transpose_x1: bool,
    transpose_x2: bool,
    *,
    out: tuple[Array],
) -> None:
    left, right = turned(integers(x1), transpose_x1), turned(integers(x2), transpose_x2)
    scaled_product(left, right, scale, row_scale, offset, bias, out[0])


def _wide_by_narrow(x1: Array, x2: Array, x1_scale: Array, x2_scale: Array, y_offset: Array) -> Array:
    """((x1 - 8) @ (x2 * x2Scale) + yOffset) * x1Scale of 8-bit rows and 4-bit weights.

    The device takes rows apart into halves, the lower ones less 8; yOffset has what that takes away (8 * x2 * x2Scale).
    """
    scales = (x2_scale.astype(np.uint64) & 0xFFFFFFFF).astype(np.uint32).view(np.float32)
    right = x2.astype(np.float32) * _blocks(scales.reshape(-1, x2.shape[-1]), x2, (0, 0))
    return np.asarray((matmul(x1.astype(np.float32) - 8, right) + y_offset) * x1_scale.reshape(-1, 1))


def _by_dequantised(x1: Array, x2: Array, x2_scale: Array, y_scale: Array) -> Array:
    """(x1 @ (x2 * x2Scale)) * yScale of FLOAT8 rows and FLOAT4 weights, a scale for 32 of the summed axis.

    The kernel rounds x2 * x2Scale to the scales' data type, and then to x1's (quant_batch_matmul_v4_vf.h).
    """
    scales = np.repeat(x2_scale.astype(np.float32), mx.BLOCK, 0)[: len(x2)]
    weight = (x2.astype(np.float32) * scales).astype(x2_scale.dtype).astype(np.float32).astype(x1.dtype)
    return np.asarray(matmul(widen(x1), widen(weight)) * fixed_scale(y_scale))


@reference("aclnnQuantMatmulV5", "aclnnQuantMatmulWeightNz", raw=True)
def quant_matmul_v5(
    x1: Array,
    x2: Array,
    x1_scale: Optional[Array],
    x2_scale: Array,
    y_scale: Optional[Array],
    x1_offset: Optional[Array],
    x2_offset: Optional[Array],
    y_offset: Optional[Array],
    bias: Optional[Array],
    transpose_x1: bool,
    transpose_x2: bool,
    group_size: int,
    *,
    out: tuple[Array],
) -> None:
    """As aclnnQuantMatmulV4; scales of more than one axis are those of blocks, and x2Offset is taken off then."""
    left, right = turned(integers(x1), transpose_x1), turned(integers(x2), transpose_x2)
    if y_scale is not None and y_scale.size:
        round_into(out[0], _by_dequantised(left, right, turned(x2_scale, transpose_x2), y_scale))
        return
    if x1_scale is not None and x2_scale.dtype == _E8M0:
        # Scales lie as their operand does, with pairs in place of the summed axis.
        rows = mx.restored(x1, x1_scale, -2 if transpose_x1 else -1)
        columns = mx.restored(x2, x2_scale, -1 if transpose_x2 else -2)
        y = matmul(turned(rows, transpose_x1), turned(columns, transpose_x2))
        round_into(out[0], (y if bias is None else y + widen(bias)).reshape(out[0].shape))
        return
    if x1_scale is not None and x1.dtype == np.int8 and x2.dtype == np.int32:
        assert y_offset is not None
        round_into(out[0], _wide_by_narrow(left, right, x1_scale, x2_scale, y_offset))
        return
    if x1_scale is not None and x1_scale.ndim > 1:
        # With a scale for each row, scales of x2 lie as the product takes them; else as x2 itself lies.
        follows = transpose_x2 and x1_scale.shape[-1] != 1
        scale2 = turned(x2_scale, follows) if x2_scale.ndim > 1 else x2_scale.reshape(1, -1)
        offset = None if x2_offset is None else turned(x2_offset, follows)
        grouped_product(left, right, turned(x1_scale, transpose_x1), scale2, offset, bias, group_size, out[0])
        return
    scaled_product(left, right, x2_scale, x1_scale, x2_offset, bias, out[0])


@reference("aclnnFusedQuantMatmul", "aclnnFusedQuantMatmulWeightNz", raw=True)
def fused_quant_matmul(
    x1: Array,
    x2: Array,
    x1_scale: Array,
    x2_scale: Array,
    y_scale: Optional[Array],
    x1_offset: Optional[Array],
    x2_offset: Optional[Array],
    y_offset: Optional[Array],
    bias: Optional[Array],
    x3: Optional[Array],
    operation: str,
    group_size: int,
    *,
    out: tuple[Array],
) -> None:
    """A product by scales of rows and columns, then gelu."""
    y = np.empty(out[0].shape, np.float32)
    scaled_product(integers(x1), integers(x2), x2_scale, x1_scale, None, bias, y)
    round_into(out[0], activated(y, operation))


@reference("aclnnQuantMatmulReduceSumWeightNz", raw=True)
def quant_matmul_reduce_sum(
    x1: Array, x2: Array, x1_scale: Array, x2_scale: Array, *parameters: Any, out: tuple[Array]
) -> None:
    """The sum over the batch of x1 @ x2 * x1Scale * x2Scale."""
    y = exact_product(x1, x2).astype(np.float32) * widen(x1_scale)[..., None] * fixed_scale(x2_scale)
    round_into(out[0], y.sum(axis=0, dtype=np.float64).reshape(out[0].shape))


@reference("aclnnQuantMatmulDequant", raw=True)
def quant_matmul_dequant(
    x: Array,
    weight: Array,
    weight_scale: Array,
    bias: Optional[Array],
    x_scale: Optional[Array],
    x_offset: Optional[Array],
    smooth: Optional[Array],
    mode: str,
    transpose: bool,
    *,
    out: tuple[Array],
) -> None:
    """x quantised to 8 bits by its rows (or by a given scale), multiplied, and scaled back."""
    round_into(out[0], quantised_product(x, turned(weight, transpose), weight_scale, bias, x_scale, smooth, mode))


def quantised_product(
    x: Array,
    weight: Array,
    weight_scale: Array,
    bias: Optional[Array],
    x_scale: Optional[Array],
    smooth: Optional[Array],
    mode: str,
) -> Array:
    wide = widen(x) if smooth is None else widen(x) * widen(smooth)
    if x_scale is not None:
        scales = widen(x_scale).astype(np.float32).reshape(-1, 1)
        quotients = wide / scales
    elif mode == "pertensor":
        flat, most = by_row(wide.reshape(1, -1))
        quotients, scales = flat.reshape(wide.shape), most.reshape(1, 1)
    else:
        quotients, rows = by_row(wide)
        scales = rows[:, None]
    codes = np.clip(np.rint(quotients), -INT8_MAX - 1, INT8_MAX).astype(np.int8)
    total = exact_product(codes, weight)
    total = total if bias is None else total + bias
    if weight_scale.dtype == np.int64:  # the bits of floats that have the scale of x in them
        return np.asarray(total.astype(np.float32) * weight_scale.astype(np.int32).view(np.float32))
    return np.asarray(total.astype(np.float32) * weight_scale * scales)
