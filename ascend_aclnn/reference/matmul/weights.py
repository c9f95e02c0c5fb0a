"""Products by quantised weights (part of ops-nn/matmul)."""

from __future__ import annotations

from typing import Optional

import ml_dtypes
import numpy as np

from ascend_aclnn.numerics import Array, matmul, round_into, widen
from ascend_aclnn.reference._quantise import INT4, offset_of, store, unpacked
from ascend_aclnn.reference._unchanged import of_unchanged
from ascend_aclnn.reference.declare import DataError, reference
from ascend_aclnn.reference.matmul.quant import exact_product, fixed_scale, integers, turned

_FLOAT4 = np.dtype(ml_dtypes.float4_e2m1fn)


def _wide(weight: Array) -> Array:
    """A weight's elements as float32; ml_dtypes takes its time with 4-bit integers."""
    if weight.dtype == INT4:
        return (((weight.view(np.uint8) & 15) ^ 8).view(np.int8) - np.int8(8)).astype(np.float32)
    return widen(weight).astype(np.float32)


def dequantised_weight(weight: Array, scale: Array, offset: Optional[Array]) -> Array:
    """(weight + offset) * scale: for the matrix, its columns, or groups of its rows."""

    def by_group(operation: np.ufunc, wide: Array, parameter: Array) -> Array:
        values = fixed_scale(parameter) if parameter.dtype.kind in "iu" else widen(parameter).astype(np.float32)
        if values.ndim < 2 or values.shape[-2] == 1:
            return np.asarray(operation(wide, values))
        *lead, rows, columns = wide.shape
        groups = values.shape[-2]
        if rows % groups == 0 and values.ndim <= wide.ndim:
            split = wide.reshape(*lead, groups, rows // groups, columns)  # an axis is split without a copy
            operation(split, values[..., None, :], out=split)
            return wide
        return np.asarray(operation(wide, np.take(values, np.arange(rows) // -(-rows // groups), -2)))

    wide = _wide(weight)
    if offset is not None:
        plain = offset.dtype == np.int32 and offset.ndim < 2
        wide = wide + offset if plain else by_group(np.add, wide, offset)
    return np.asarray(by_group(np.multiply, wide, scale), np.float32)


def _elements(weight: Array) -> Array:
    """A weight's elements: INT32 holds eight INT4 of the last axis, FLOAT eight FLOAT4_E2M1."""
    if weight.dtype != np.float32:
        return integers(weight)
    return (unpacked(np.ascontiguousarray(weight).view(np.int32)).view(np.uint8) & 15).view(_FLOAT4)


def _grouped_weight(weight: Array, scale: Array, offset: Optional[Array], group_size: int) -> Array:
    """The weight (k, n) by one scale, scales of columns, or scales of groups of rows, (groups, n) or turned."""
    rows, columns = weight.shape[-2:]

    def each(values: Array) -> Array:
        if group_size <= 0:
            return values.reshape(-1)
        groups = -(-rows // group_size)
        by_group = values if values.shape == (groups, columns) else values.T
        if rows % group_size == 0:
            return by_group
        return np.asarray(np.take(by_group, np.arange(rows) // group_size, -2))

    return dequantised_weight(weight, each(scale), None if offset is None else each(offset))


@reference("aclnnWeightQuantBatchMatmulV2", "aclnnWeightQuantBatchMatmulV3", "aclnnWeightQuantBatchMatmulNz", raw=True)
def weight_quant_batch_matmul(
    x: Array,
    weight: Array,
    scale: Array,
    offset: Optional[Array],
    quant_scale: Optional[Array],
    quant_offset: Optional[Array],
    bias: Optional[Array],
    group_size: int,
    inner_precise: int = 0,
    *,
    out: tuple[Array],
) -> None:
    """x @ ((weight + antiquantOffset) * antiquantScale) + bias, to INT8 by quantScale and quantOffset."""
    y = matmul(widen(x), of_unchanged(_grouped_weight, [_elements(weight), scale, offset], group_size))
    y = y if bias is None else y + widen(bias)
    if quant_scale is not None:
        y = y * fixed_scale(quant_scale)
        y = y + (offset_of(quant_scale) if quant_offset is None else quant_offset)
    store(out[0], y)


@reference("aclnnWeightQuantBatchMatmul", raw=True)
def weight_quant_batch_matmul_v1(
    x1: Array,
    x2: Array,
    diagonal: Optional[Array],
    deq_offset: Optional[Array],
    deq_scale: Optional[Array],
    add_offset: Optional[Array],
    mul_scale: Optional[Array],
    bias: Optional[Array],
    transpose_x1: bool,
    transpose_x2: bool,
    antiquant_scale: float,
    antiquant_offset: float,
    *,
    out: tuple[Array],
) -> None:
    """x1 by the weight restored to FLOAT16: up to 64 rows by deqOffset and deqScale, else step by step by the others."""
    left, half = turned(widen(x1), transpose_x1), np.float16
    if left.shape[-2] <= 64:
        right = turned(x2, transpose_x2).astype(np.float32)
        for values in (deq_offset, deq_scale):
            if values is not None and values.size not in (1, right.shape[-1]):
                raise DataError("deqScale", f"and deqOffset must have 1 or {right.shape[-1]} elements")
        if deq_offset is not None and deq_scale is not None:
            right = (right + deq_offset.reshape(-1)) * fixed_scale(deq_scale).reshape(-1)
        right = right.astype(half)
    else:
        right = ((x2.astype(np.float32) + np.float32(antiquant_offset)) * np.float32(antiquant_scale)).astype(half)
        right = right if add_offset is None else (right + add_offset).astype(half)
        right = right if mul_scale is None else (right * mul_scale).astype(half)
        right = turned(right, transpose_x2)
        bias = None if bias is None else bias.astype(half)
    y = matmul(left, widen(right))
    round_into(out[0], y if bias is None else y + widen(bias))


# ------------------------------------------------------------------------------------------------------- packing

_TEN_BITS = np.uint32(0xFFC00000)  # of a float: sign, exponent and the first bit of the fraction, all that FLOAT4 has


def _nibbles(weight: Array) -> Array:
    """The 4-bit codes of integers, or of floats: cut to FLOAT4_E2M1, 0 for those outside of its exponents."""
    if weight.dtype == np.int32:
        return (weight & 15).astype(np.uint8)
    cut = (np.ascontiguousarray(weight).view(np.uint32) & _TEN_BITS).view(np.float32)
    representable = np.isin(np.abs(cut), np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32))
    return np.asarray(np.where(representable, cut, np.float32(0)).astype(_FLOAT4).view(np.uint8))


@reference("aclnnConvertWeightToINT4Pack", raw=True)
def convert_weight_to_int4_pack(weight: Array, *, out: tuple[Array]) -> None:
    """Weights of 32 bits as 4-bit ones; a 32-bit output holds eight of them, the first in the lowest bits."""
    codes = _nibbles(weight)
    if out[0].dtype == INT4:
        np.copyto(out[0], ((codes ^ 8).astype(np.int8) - 8).astype(INT4))
    elif out[0].dtype == _FLOAT4:
        np.copyto(out[0].view(np.uint8), codes)
    else:
        eight = codes.reshape(*codes.shape[:-1], -1, 8).astype(np.uint32) << (4 * np.arange(8, dtype=np.uint32))
        np.copyto(out[0].view(np.uint32), np.bitwise_or.reduce(eight, -1))


# ------------------------------------------------------------------------------------------------------- two of four


def dense_weight(compressed: Array, index: Array) -> Array:
    """The matrix (n, k) of which two weights of each four were kept, (n, k / 2), each eight with a byte of the index.

    Two bits of the index place a kept weight: the first of a pair at that position, the second one after it.
    """
    rows, half = compressed.shape
    blocks = -(-half // 32), -(-rows // 16)
    if index.size != blocks[0] * blocks[1] * 16 * 8:
        raise DataError(
            "index", f"has {index.size} bytes; for {compressed.shape} it must have {blocks[0] * blocks[1] * 128}"
        )
    of_rows = index.reshape(blocks[0], blocks[1] * 16, 8)[:, :rows].transpose(1, 0, 2).reshape(rows, -1)
    bits = (of_rows[..., None] >> np.arange(0, 8, 2, dtype=np.uint8)) & 3  # of four weights, in two fours
    places = bits.reshape(rows, -1)[:, :half].astype(np.int64)
    columns = places + np.arange(half) % 2 + np.arange(half) // 2 * 4
    dense = np.zeros((rows, 2 * half), np.int32)
    np.add.at(dense, (np.arange(rows)[:, None], np.minimum(columns, 2 * half - 1)), compressed)
    return dense


@reference("aclnnSparse4to2QuantMatmulWeightNz", raw=True)
def sparse_4to2_quant_matmul(
    x: Array,
    compressed: Array,
    index: Array,
    x_scale: Optional[Array],
    weight_scale: Optional[Array],
    bias: Optional[Array],
    *,
    out: tuple[Array],
) -> None:
    """x @ weight.T of integers, by the scales of columns and rows, plus bias."""
    weight = dense_weight(compressed, index)[:, : x.shape[1]]
    y = exact_product(x, weight.T).astype(np.float32)
    y = y if weight_scale is None else y * weight_scale
    y = y if x_scale is None else y * x_scale[:, None]
    round_into(out[0], y if bias is None else y + widen(bias))
